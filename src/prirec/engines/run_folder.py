"""A finished run: one folder, written whole or not at all, and checked when it is read.

None of it is safe to hand out: it is a simulation's, and the noise in it follows from the seed in settings.toml. Within
a budget, a deployment would publish encoding.json, interaction.npy (V), popularity.json, catalogue.npy, by which places
are known again, and cells.npy with starts.npy, from which people who are new start. linear.npy holds every simulated
device's model, latent.npy its latent vector where there are any (factors.npy, P, goes with them), and people.npy whose
they are, by keys made from ids; history.jsonl has everyone's loss, and run.json hashes of all of this and of all
records, on which guesses can be tried. In a deployment there are no such files.
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from prirec import settings_file
from prirec.beside import room_beside
from prirec.damage import NOT_ARRAYS
from prirec.engines.durable import move_in, put_back
from prirec.engines.run_card import VERSION, Card, checked, hash_of, made_with, read_card, settle
from prirec.engines.starts import Starts
from prirec.engines.state import Passed
from prirec.errors import DataError, PolicyError, StateError, UsageError
from prirec.features.encoding import Encoding, from_json
from prirec.features.samples import Samples
from prirec.model.latent import Latent
from prirec.model.models import Models
from prirec.settings import Settings
from prirec.types import KeyArray, RealArray

LATER = ("catalogue.npy",)  # runs of this version that are older than these files do without
LATENT = ("latent.npy", "factors.npy")  # runs without a latent part do without
FILES = (
    "settings.toml",
    "encoding.json",
    "interaction.npy",
    "popularity.json",
    "cells.npy",
    "starts.npy",
    "linear.npy",
    "people.npy",
    "history.jsonl",
    *LATER,
)
Entry = TypeVar("Entry", bound=np.generic)


class Released(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was released about places: a noisy release is used again and again, and never made twice."""

    places: tuple[str, ...]
    columns: dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Run:
    """What training leaves behind."""

    settings: Settings
    encoding: Encoding
    interaction: RealArray = field(repr=False)  # V (D, K)
    linear: RealArray = field(repr=False)  # W (I, D + 1)
    people: KeyArray = field(repr=False)  # (I,): whose models these are
    released: Released = field(repr=False)
    starts: Starts = field(repr=False)
    history: tuple[Passed, ...] = field(repr=False)
    source: str  # where the data came from, as it was named
    rows: str  # who stands in which row: see `rows_of`
    catalogue: KeyArray | None = field(repr=False)  # (J,): a key for each released place; None in older runs
    latent: Latent | None = field(default=None, repr=False)  # u (I, K') and P (J, K'), in the order of released places

    @property
    def models(self) -> Models:
        return Models(self.linear, self.interaction, self.latent)


def rows_of(samples: Samples) -> str:
    """A fingerprint of who stands in which row of W, and of the records that were learnt from and tested on."""
    digest = blake2b(samples.keys.tobytes(), digest_size=16)
    digest.update(f"{samples.places.shape} {samples.people.shape}".encode())
    for records in (samples.train, samples.test):
        for array in (records.offsets, records.place, records.label):
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def save_run(path: Path, run: Run, *, overwrite: bool = False) -> None:
    """Written beside, then moved into place: a crash leaves no half of a run."""
    settle(path)
    if path.exists() and not (overwrite and (path / "run.json").is_file()):
        raise UsageError(f"{path} exists; name another folder" + ("" if overwrite else ", or overwrite an earlier run"))
    beside = room_beside(path)
    try:
        beside.mkdir(parents=True)
        write_files(beside, _contents(run), source=run.source, rows=run.rows)
        move_in(beside, path)
    except OSError as error:
        raise StateError(f"the run could not be saved to {path}: {error.strerror}") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)  # there only if it was not moved into place


def write_files(
    folder: Path, contents: Mapping[str, bytes], *, source: str, rows: str, there: Mapping[str, str] | None = None
) -> None:
    """These files, and the card that names them; `there` are the hashes of files that are in the folder already."""
    hashes = {**(there or {}), **{name: hash_of(data) for name, data in contents.items()}}
    card = Card(version=VERSION, source=source, rows=rows, made_with=made_with(), files=hashes)
    sealed = msgspec.structs.replace(card, seal=card.sealed())
    named = {**contents, "run.json": msgspec.json.format(msgspec.json.encode(sealed), indent=2)}
    for name, data in named.items():
        write_file(folder / name, data)


def load_run(path: Path) -> Run:
    """A saved run; StateError if a file is missing, damaged, or written by a newer program."""
    put_back(path)
    card = read_card(path)
    expected = [name for name in (*FILES, *LATENT) if name in card.files or name not in (*LATER, *LATENT)]
    contents = {name: checked(path / name, card) for name in expected}
    try:
        settings = settings_file.loads(contents["settings.toml"].decode())
        history = tuple(msgspec.json.decode(line, type=Passed) for line in contents["history.jsonl"].splitlines())
        return Run(
            settings=settings,
            encoding=from_json(contents["encoding.json"]),
            interaction=_array(contents["interaction.npy"], np.float64),
            linear=_array(contents["linear.npy"], np.float64),
            people=_array(contents["people.npy"], np.uint64),
            released=msgspec.json.decode(contents["popularity.json"], type=Released),
            starts=Starts(_array(contents["cells.npy"], np.uint64), _array(contents["starts.npy"], np.float64)),
            history=history,
            source=card.source,
            rows=card.rows,
            catalogue=_array(contents["catalogue.npy"], np.uint64) if "catalogue.npy" in contents else None,
            latent=_latent(contents),
        )
    except (UsageError, DataError, PolicyError, *NOT_ARRAYS) as error:
        raise StateError(f"the run in {path} cannot be read by this version: {error}") from None


def _contents(run: Run) -> dict[str, bytes]:
    later = {} if run.catalogue is None else {"catalogue.npy": bytes_of(run.catalogue)}
    if run.latent is not None:
        later |= {name: bytes_of(array) for name, array in zip(LATENT, run.latent, strict=True)}
    return {
        "settings.toml": settings_file.dump(run.settings).encode(),
        "encoding.json": run.encoding.to_json(),
        "interaction.npy": bytes_of(run.interaction),
        "popularity.json": msgspec.json.encode(run.released),
        "cells.npy": bytes_of(run.starts.cells),
        "starts.npy": bytes_of(run.starts.models),
        "linear.npy": bytes_of(run.linear),
        "people.npy": bytes_of(run.people),
        "history.jsonl": b"".join(msgspec.json.encode(passed) + b"\n" for passed in run.history),
        **later,
    }


def _latent(contents: dict[str, bytes]) -> Latent | None:
    """Both of its files or neither: one alone is a run that does not fit its settings."""
    found = [_array(contents[name], np.float64) for name in LATENT if name in contents]
    return Latent(*found) if len(found) == len(LATENT) else None


def bytes_of(array: NDArray[Any]) -> bytes:
    buffer = BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _array(data: bytes, entry: type[Entry]) -> NDArray[Entry]:
    array: NDArray[Entry] = np.load(BytesIO(data), allow_pickle=False)
    if array.dtype != entry:
        raise ValueError(f"an array has entries of {array.dtype} instead of {np.dtype(entry)}")
    return array


def write_file(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
