"""The recommender's catalogue, packed by region: what devices download whole, and any cache may carry.

A region is an h3 cell coarser than the one that a device names; places without coordinates are in a region of their
own, which everyone downloads. What does not change from one edition to the next keeps its bytes and its name.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Self, TypeAlias

import msgspec
import numpy as np

from prirec.contract import documents
from prirec.contract.campaign import Campaign
from prirec.contract.catalogue import Known, Popular
from prirec.contract.documents import LIMIT, Counts, Document, Manifest, Parts, RegionLine, octets, read, written
from prirec.contract.regions import Fetch, read_regions
from prirec.contract.wire import FINEST_CELL
from prirec.data.dataset import Places
from prirec.data.place_words import describe_place
from prirec.errors import DataError, StateError, UsageError
from prirec.features.encoding import Encoding, encode_columns
from prirec.geography import located
from prirec.graph.cohorts import coarse_cells
from prirec.protocols.prediction import PlacePart
from prirec.types import IndexArray, RealArray

Documents: TypeAlias = list[tuple[bytes, bytes]]  # names and bodies; whatever names the others is the last

RESOLUTION = 5  # cells of about 250 km²
LONGEST_WORDS = 200


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All regions, and the documents that are new in them."""

    manifest: Manifest
    known: Known = field(repr=False)  # all J places, in the catalogue's order
    documents: Documents = field(repr=False, default_factory=list)

    @classmethod
    def read(cls, name: bytes, fetch: Fetch, *, campaign: Campaign) -> Self:
        """What was published before, from the documents that the recommender keeps; nothing in it is new."""
        manifest = read(Manifest, fetch(name), name=name)
        found = read_regions(manifest, fetch, campaign=campaign)
        if len(found) != campaign.charter.places:
            raise StateError("the catalogue in the store has not the places that the campaign began with")
        return cls(manifest, found)

    @property
    def name(self) -> bytes:
        """Of the manifest."""
        return written(self.manifest)[0]

    def with_counts(self, popular: Popular) -> Self:
        """The same with popularity in each region."""
        some = (popular.take(rows) for rows in _by_region(self.known))
        pages = [
            Counts(
                cell=line.cell,
                released=octets(one.released, np.float64),
                sums=octets(one.sums, np.float64),
                predicted=octets(one.predicted, np.float64),
                weight=octets(one.weight, np.float64),
            )
            for line, one in zip(self.manifest.regions, some, strict=True)
        ]
        return self._with("counts", pages, known=replace(self.known, popular=popular))

    def with_parts(self, part: PlacePart) -> Self:
        """The same with the places' half of Eq. (1) in each region."""
        some = (part.take(rows) for rows in _by_region(self.known))
        pages = [
            Parts(cell=line.cell, pull=octets(one.pull, np.float64), square=octets(one.square, np.float64))
            for line, one in zip(self.manifest.regions, some, strict=True)
        ]
        return self._with("parts", pages, known=replace(self.known, part=part))

    def _with(self, kind: Literal["counts", "parts"], pages: Sequence[Document], *, known: Known) -> Self:
        found = [page(one) for one in pages]
        lines = [
            msgspec.structs.replace(line, **{kind: name})
            for line, (name, _) in zip(self.manifest.regions, found, strict=True)
        ]
        manifest = msgspec.structs.replace(self.manifest, regions=tuple(lines))
        return type(self)(manifest, known, [*found, page(manifest)])


def regions(places: Places, encoding: Encoding, *, resolution: int = RESOLUTION) -> Catalogue:
    """Places as they are published before anybody visits them: ids, words, locations and X^j, static."""
    if not 0 <= resolution <= FINEST_CELL:
        raise UsageError(f"regions are h3 cells of resolution 0 to {FINEST_CELL}")
    known = _known(places, encoding, resolution=resolution)
    pages = [
        page(_places(known.take(rows), cell)) for rows, cell in zip(_by_region(known), known.cells, strict=True)
    ]  # fmt: skip
    lines = tuple(RegionLine(cell, name) for cell, (name, _) in zip(known.cells, pages, strict=True))
    manifest = Manifest(resolution, lines)
    return Catalogue(manifest, known, [*pages, page(manifest)])


def page(document: Document) -> tuple[bytes, bytes]:
    """A document's name and bytes, if devices would read as many."""
    name, body = written(document)
    if len(body) > LIMIT:
        raise UsageError("a region has more places than fit into one document: publish by a finer resolution")
    return name, body


def _by_region(known: Known) -> list[IndexArray]:
    """The places of each region."""
    ends = np.cumsum(np.bincount(known.region, minlength=len(known.cells)))
    return np.split(np.argsort(known.region, kind="stable").astype(np.int32), ends[:-1])


def _known(places: Places, encoding: Encoding, *, resolution: int) -> Known:
    _refuse_odd_ids(places.ids)
    features = encode_columns(encoding.place, places.columns, len(places))
    if not np.isfinite(features).all():
        raise DataError("a feature of a place is not a finite number; NaN is for what is unknown")
    location = _whole(places)
    cells, region = np.unique(coarse_cells(location, resolution), return_inverse=True)
    return Known(
        cells=tuple(cells.tolist()),
        ids=places.ids,
        words=tuple(_shown(describe_place(places, row)) for row in range(len(places))),
        rows=np.arange(len(places), dtype=np.int32),
        location=location,
        features=features,
        region=region.astype(np.int32),
    )


def _whole(places: Places) -> RealArray:
    """(J, 2): half a location is none."""
    if places.location is None:
        return np.full((len(places), 2), np.nan)
    return np.where(located(places.location)[:, None], places.location, np.nan)


def _refuse_odd_ids(ids: Sequence[str]) -> None:
    """Devices show ids, and would refuse these."""
    if not ids:
        raise DataError("there is no place to publish")
    if len(set(ids)) < len(ids):
        raise DataError("the id of a place is there twice")
    if not all(one.isprintable() for one in ids):
        raise DataError("the id of a place has characters in it that cannot be shown; write it without them")


def _shown(text: str) -> str:
    """In one line, without characters that a terminal would act on."""
    plain = " ".join("".join(one if one.isprintable() else " " for one in text).split())
    return plain if len(plain) <= LONGEST_WORDS else plain[: LONGEST_WORDS - 1] + "…"


def _places(region: Known, cell: int) -> documents.Places:
    return documents.Places(
        cell=cell,
        ids=region.ids,
        words=region.words,
        rows=octets(region.rows, np.int32),
        location=octets(region.location, np.float64),
        features=octets(region.features, np.float32),
    )
