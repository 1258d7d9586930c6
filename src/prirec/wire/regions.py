"""The catalogue as a device knows it: downloaded regions, read from documents, checked and joined.

Everything in it is public and the same for everyone.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar

import msgspec
import numpy as np
from h3.api import basic_int as h3

from prirec.errors import Fault, PeerError, UsageError
from prirec.features.encoding import LARGEST, Encoding, encode_popularity
from prirec.features.popularity import OwnCounts, Popularity, Scale, average_column
from prirec.graph.matching import NO_CELL
from prirec.privacy.popularity_estimate import NEARBY, POPULARITY, CityAverage, Prior, own_average, own_part
from prirec.privacy.weighted_popularity import NoisySums, split
from prirec.types import FeatureArray, IndexArray, RealArray
from prirec.wire.campaign import Basis, Campaign, read_encoding
from prirec.wire.documents import Counts, Edition, Manifest, Places, RegionLine, array, read
from prirec.wire.http import COUNTED, is_within

_PER_PLACE = ("released", "sums", "values", "predicted", "weight")  # of PlacePopularity, with a row for each place


class AverageKnown(NamedTuple):
    """An average over visits: its column, its range, and the public figures of the whole city."""

    column: str  # of places
    scale: Scale
    city: CityAverage


@dataclass(frozen=True, slots=True)
class PlacePopularity:
    """The popularity of n places, and what a device needs to leave its own part out of it."""

    names: tuple[str, ...]  # of the columns, in the order of the encoding's blocks
    released: RealArray = field(repr=False)  # (n, columns)
    sums: RealArray = field(repr=False)  # (n,): noisy, as opened
    predicted: RealArray = field(repr=False)  # (n,)
    weight: RealArray = field(repr=False)  # (n,): of the own sum in the prediction
    sigma: float  # of the noise in each sum
    shape: float  # of the prior; 0: nothing rose out of the noise
    values: RealArray = field(repr=False)  # (n, averages): noisy sums of what is averaged
    averages: tuple[AverageKnown, ...] = ()

    def seen_with(self, own: OwnCounts | None = None) -> Popularity:
        """The released columns, and this device's own part in them.

        `own` holds what the device added to the sum, in units of a person's norm, by position among these places, and
        again for each average. Without it nothing is left out."""
        released = {name: self.released[:, at] for at, name in enumerate(self.names)}
        if own is None or not released:
            return Popularity(released)
        prior = Prior(self.predicted, self.sigma, self.shape)
        visitors = released.get(POPULARITY)
        if visitors is None:  # it is the same everywhere, so that no feature is made of it
            visitors = prior.mean(self.sums, np.arange(len(self.sums)))
        sums = np.concatenate([self.sums, *self.values.T])
        counted, *values = split(NoisySums(sums, self.sigma, own), 1 + len(self.averages))
        part = own_part(counted, prior, visitors, self.weight)
        parts = {POPULARITY: part} | {
            one.column: own_average(one.city, visitors, part, mine, one.scale, released[one.column])
            for one, mine in zip(self.averages, values, strict=True)
            if one.column in released
        }
        return Popularity(released, {name: own for name, own in parts.items() if name in released})

    def take(self, rows: IndexArray) -> Self:
        """The popularity of these places, in that order."""
        return replace(self, **{name: getattr(self, name)[rows] for name in _PER_PLACE})


@dataclass(frozen=True, slots=True)
class KnownPlaces:
    """The n places of some regions, ascending by their row in the whole catalogue."""

    cells: tuple[int, ...]
    ids: tuple[str, ...] = field(repr=False)
    words: tuple[str, ...] = field(repr=False)
    rows: IndexArray = field(repr=False)  # (n,): in the whole catalogue, and in the sum of visits
    location: RealArray = field(repr=False)  # (n, 2), NaN where unknown
    features: FeatureArray = field(repr=False)  # (n, p): X^j, static
    region: IndexArray = field(repr=False)  # (n,): which of the cells each place is in
    popular: PlacePopularity | None = None  # once there is an edition

    def __len__(self) -> int:
        return len(self.ids)

    def positions(self, ids: Iterable[str]) -> IndexArray:
        """The positions of these places among the known ones; -1 for an unknown place."""
        at = {one: position for position, one in enumerate(self.ids)}
        return np.array([at.get(one, -1) for one in ids], dtype=np.int32)

    @property
    def counted(self) -> PlacePopularity:
        """The popularity; UsageError before there is any."""
        if self.popular is None:
            raise UsageError("popularity is known once the sum of visits is open")
        return self.popular

    def popularity(self, encoding: Encoding, own: OwnCounts | None = None) -> Popularity:
        """As the device sees it that has added `own` to it; empty under an encoding without popularity."""
        return self.counted.seen_with(own) if encoding.popularity else Popularity()

    def catalogue(self, encoding: Encoding) -> FeatureArray:
        """(n, p + columns): X^j with popularity, if the encoding has any: what a device recommends from."""
        dynamic = encode_popularity(encoding, self.popularity(encoding).released, len(self))
        return np.ascontiguousarray(np.hstack([self.features, dynamic]))

    def take(self, rows: IndexArray) -> Self:
        """These places, in that order."""
        return replace(
            self,
            ids=tuple(self.ids[at] for at in rows),
            words=tuple(self.words[at] for at in rows),
            rows=self.rows[rows],
            location=self.location[rows],
            features=self.features[rows],
            region=self.region[rows],
            popular=None if self.popular is None else self.popular.take(rows),
        )


def joined(regions: Sequence[KnownPlaces]) -> KnownPlaces:
    """At least one region; either all or none have popularity. Places are sorted by their row."""
    first = regions[0]

    def together(name: str, of: Sequence[object] = regions) -> Any:
        return np.concatenate([getattr(one, name) for one in of])

    popular = first.popular
    if popular is not None:
        tables = [one.counted for one in regions]
        popular = replace(popular, **{name: together(name, tables) for name in _PER_PLACE})
    counts = np.array([len(one.cells) for one in regions], dtype=np.int32)
    before = np.cumsum(counts, dtype=np.int32) - counts
    whole = KnownPlaces(
        cells=tuple(cell for one in regions for cell in one.cells),
        ids=tuple(text for one in regions for text in one.ids),
        words=tuple(text for one in regions for text in one.words),
        rows=together("rows"),
        location=together("location"),
        features=together("features"),
        region=np.concatenate([one.region + shift for one, shift in zip(regions, before, strict=True)]),
        popular=popular,
    )
    return whole.take(np.argsort(whole.rows, kind="stable").astype(np.int32))


# --- Reading regions from documents -----------------------------------------------------------------------------------
# Nothing that arrives is trusted: PeerError for a document that does not fit the others. A download reveals which
# regions were asked for, never which places of them.

Fetch: TypeAlias = Callable[[bytes], bytes]  # a document's bytes by its name, as a cache or a store has them
_Kind = TypeVar("_Kind", Places, Counts)


def region_documents(manifest: Manifest, cells: Collection[int] | None = None) -> tuple[bytes, ...]:
    """Addresses of the documents of these regions; None: of all regions."""
    return tuple(name for line in _lines(manifest, cells) for name in parts_of(line))


def parts_of(line: RegionLine) -> tuple[bytes, ...]:
    """Addresses of one region's documents, as many as there are by now."""
    return tuple(name for name in (line.places, line.counts) if name)


def read_regions(
    manifest: Manifest, fetch: Fetch, *, basis: Basis, cells: Collection[int] | None = None
) -> KnownPlaces:
    """The places of these regions (None: of all), with popularity if there is an edition. A cell without places is no
    region, and adds nothing."""
    _refuse_odd_cells(manifest)
    reader, regions, many = _Reader.of(fetch, basis), list[KnownPlaces](), 0
    for line in _lines(manifest, cells):
        regions.append(reader.region(line))
        many += len(regions[-1])
        if many > basis.offered.places:  # before all the others are in memory too
            raise _misfit("there are more places than were announced")
    whole = joined([reader.nothing(), *regions])
    _refuse_repeated(whole, many=basis.offered.places)
    if whole.popular is not None:  # popularity is encoded by steep maps: look at what comes out as well
        _refuse_large(whole.catalogue(reader.encoding))
    return whole


def refuse_other_places(manifest: Manifest, *, than: Manifest) -> None:
    """PeerError if the places changed: an edition adds popularity to its charter's places."""
    before, now = ([(line.cell, line.places) for line in one.regions] for one in (than, manifest))
    if before != now or manifest.resolution != than.resolution:
        raise PeerError(Fault.PARAMS_MISMATCH, "the catalogue has other places than the campaign began with")


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads regions of one manifest."""

    fetch: Fetch = field(repr=False)
    encoding: Encoding = field(repr=False)
    edition: Edition | None

    @classmethod
    def of(cls, fetch: Fetch, basis: Basis) -> Self:
        if basis.edition is not None:
            _refuse_other_encoding(basis)
            _refuse_odd_prior(basis.edition)
        return cls(fetch, basis.encoding, basis.edition)

    def nothing(self) -> KnownPlaces:
        """A region without places: arrays of length 0, of the right widths."""
        places, counts = Places(0, (), (), b"", b"", b""), Counts(0, b"", b"", b"", b"")
        return self._known(places, (), None if self.edition is None else self._popular(counts, self.edition, 0))

    def region(self, line: RegionLine) -> KnownPlaces:
        places = self._read(Places, line.places, line)
        popular = None
        if self.edition is not None:
            popular = self._popular(self._read(Counts, line.counts, line), self.edition, len(places.ids))
        return self._known(places, (line.cell,), popular)

    def _read(self, kind: type[_Kind], name: bytes, line: RegionLine) -> _Kind:
        if not name:
            raise _misfit("a region lacks a document that it should have")
        document = read(kind, self.fetch(name), name=name)
        if document.cell != line.cell:
            raise _misfit("a document is of another region")
        return document

    def _known(self, places: Places, cells: tuple[int, ...], popular: PlacePopularity | None) -> KnownPlaces:
        n, width = len(places.ids), self.encoding.width(self.encoding.place)
        location = array(places.location, np.float64, (n, 2))
        features = array(places.features, np.float32, (n, width))
        # printable: ids and words end up in terminals, where control characters could forge output
        if len(places.words) != n or not all(text.isprintable() for text in (*places.ids, *places.words)):
            raise _misfit("not each place has an id and words that can be shown")
        # both coordinates or neither; comparisons with NaN are false
        if not (np.isnan(location).all(axis=1) | (np.abs(location) <= (90.0, 180.0)).all(axis=1)).all():
            raise _misfit("a place is not on the globe")
        _refuse_large(features)
        rows = array(places.rows, np.int32, (n,))
        region = np.zeros(n, dtype=np.int32)
        return KnownPlaces(cells, places.ids, places.words, rows, location, features, region, popular)

    def _popular(self, counts: Counts, edition: Edition, n: int) -> PlacePopularity:
        names = tuple(block.column for block in self.encoding.popularity)
        averages = _averages(self.encoding, edition)
        released = array(counts.released, np.float64, (n, len(names)))
        sums = array(counts.sums, np.float64, (n, 1 + len(averages)))
        predicted, weight = (array(values, np.float64, (n,)) for values in (counts.predicted, counts.weight))
        _refuse_large(released, sums, predicted, most=COUNTED)
        _refuse_large(weight)
        # a Gamma prior divides by the prediction
        if edition.shape > 0 and not (predicted > 0).all():
            raise _misfit("a place is predicted to have nobody, or fewer")
        return PlacePopularity(
            names, released, np.ascontiguousarray(sums[:, 0]), predicted, weight, edition.sigma, edition.shape,
            np.ascontiguousarray(sums[:, 1:]), averages,
        )  # fmt: skip


def _averages(encoding: Encoding, edition: Edition) -> tuple[AverageKnown, ...]:
    """The averages that an edition has; empty for that of a starting model, which collected none."""
    if not edition.averages:
        return ()
    return tuple(
        AverageKnown(average_column(one.column), Scale(one.low, one.high), CityAverage(city.middle, city.spread))
        for one, city in zip(encoding.averages, edition.averages, strict=True)
    )


def _lines(manifest: Manifest, cells: Collection[int] | None) -> tuple[RegionLine, ...]:
    chosen = None if cells is None else frozenset(cells)
    return tuple(line for line in manifest.regions if chosen is None or line.cell in chosen)


def _refuse_odd_cells(manifest: Manifest) -> None:
    named = [line.cell for line in manifest.regions]
    ascending = all(a < b for a, b in pairwise(named))
    if not ascending or not all(cell == NO_CELL or _is_cell(cell, manifest.resolution) for cell in named):
        raise _misfit("regions are not the cells of one resolution, in order")


def _is_cell(cell: int, resolution: int) -> bool:
    return bool(h3.is_valid_cell(cell)) and h3.get_resolution(cell) == resolution


def _refuse_repeated(whole: KnownPlaces, *, many: int) -> None:
    """Expects ascending rows."""
    rows = whole.rows
    within = not len(rows) or (rows[0] >= 0 and rows[-1] < many)
    if not within or (np.diff(rows) == 0).any() or len(set(whole.ids)) < len(rows):
        raise _misfit("a place is there twice, or has no row in the catalogue")


def _refuse_other_encoding(basis: Basis) -> None:
    """An edition adds popularity, under the names that devices can leave their own part out of, and nothing else. That
    of a starting model has whatever popularity its training had, of which no device has an own part, and describes
    people and moments by what it learnt from; places are encoded already."""
    encoding, before = basis.encoding, read_encoding(basis.offered.encoding)
    names = [block.column for block in encoding.popularity]
    if isinstance(basis, Campaign):
        usual = [POPULARITY, NEARBY, *(average_column(one.column) for one in before.averages)]
        same = msgspec.structs.replace(encoding, popularity=()) == before
        same = same and names == [name for name in usual if name in names]
        same = same and len(basis.edition.averages) == len(before.averages)  # type: ignore[union-attr]  # it has one
    else:
        same = encoding.place == before.place and len(set(names)) == len(names)
    if not same:
        raise PeerError(Fault.PARAMS_MISMATCH, "an edition's encoding is another than the catalogue was offered with")


def _refuse_odd_prior(edition: Edition) -> None:
    if not (0 < edition.sigma <= COUNTED and edition.shape >= 0):  # false for NaN as well
        raise _misfit("nobody could leave an own part out of this popularity")


def _refuse_large(*arrays: np.ndarray, most: float = LARGEST) -> None:
    if not all(is_within(values, most) for values in arrays):
        raise _misfit("a number is not finite, or larger than any that could be meant")


def _misfit(problem: str) -> PeerError:
    return PeerError(Fault.DECODE, f"the catalogue does not fit together: {problem}")
