"""partition.json: what is known of the parts of a partitioned folder without opening them."""

from pathlib import Path

import msgspec

from prirec.damage import NOT_DECODED
from prirec.errors import DataError

VERSION = 1
MANIFEST = "partition.json"
PLACES, PART = "pois.parquet", "part"
ROW = "__row"  # where a person or a visit stood before: reading all parts gives the same data set back


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    people: int
    records: int


class Partition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int = VERSION
    parts: tuple[Part, ...]
    labelled: bool

    @property
    def people(self) -> int:
        return sum(part.people for part in self.parts)

    @property
    def records(self) -> int:
        return sum(part.records for part in self.parts)


def is_partitioned(folder: Path) -> bool:
    return (folder / MANIFEST).is_file()


def read_partition(folder: Path) -> Partition:
    try:
        found = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Partition)
    except (OSError, *NOT_DECODED):
        raise DataError("is damaged; partition the data again", file=folder / MANIFEST) from None
    if found.version != VERSION or not found.parts:
        raise DataError(f"has version {found.version}, this program reads {VERSION}", file=folder / MANIFEST)
    return found
