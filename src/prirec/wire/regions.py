"""The catalogue as a device knows it: the regions that it has downloaded, joined, in the order of the whole catalogue.

Everything in it is public and the same for everyone. `regions.py` reads it from documents and checks it.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Self, TypeAlias, TypeVar

import msgspec
import numpy as np
from h3.api import basic_int as h3

from prirec.errors import Fault, PeerError, UsageError
from prirec.features.blocks import LARGEST
from prirec.features.encoding import Encoding, encode_popularity
from prirec.features.popularity import OwnCounts, Popularity
from prirec.graph.cohorts import NO_CELL
from prirec.privacy.popularity_estimate import NEARBY, POPULARITY, own_part, prior_of
from prirec.privacy.weighted_popularity import NoisySums
from prirec.protocols.prediction import PlacePart
from prirec.rounds.newcomers import Starts
from prirec.types import FeatureArray, IndexArray, RealArray
from prirec.wire.campaign import Campaign
from prirec.wire.documents import (
    Counts,
    Edition,
    Manifest,
    Parts,
    Places,
    Publication,
    RegionLine,
    array,
    read,
    written,
)
from prirec.wire.http import COUNTED, is_within


@dataclass(frozen=True, slots=True)
class Popular:
    """How popular n places are, and what a device needs to leave its own part out."""

    names: tuple[str, ...]  # of the columns, in the order of the encoding's blocks
    released: RealArray = field(repr=False)  # (n, columns)
    sums: RealArray = field(repr=False)  # (n,): noisy, as opened
    predicted: RealArray = field(repr=False)  # (n,)
    weight: RealArray = field(repr=False)  # (n,): of the own sum in the prediction
    sigma: float  # of the noise in each sum
    shape: float  # of the prior; 0: nothing rose out of the noise

    def seen_with(self, own: OwnCounts | None = None) -> Popularity:
        """What is released, and how much of it is this device's own: `own` holds what it added to the sum, in units of
        a person's norm, by the position of each place among these. Without it nothing is left out."""
        released = {name: self.released[:, at] for at, name in enumerate(self.names)}
        if own is None or POPULARITY not in released:
            return Popularity(released)
        prior = prior_of(self.predicted, sigma=self.sigma, shape=self.shape)
        part = own_part(NoisySums(self.sums, self.sigma, own), prior, released[POPULARITY], self.weight)
        return Popularity(released, {POPULARITY: part})

    def take(self, rows: IndexArray) -> Self:
        """Of these places, in that order."""
        arrays = ("released", "sums", "predicted", "weight")
        return replace(self, **{name: getattr(self, name)[rows] for name in arrays})


@dataclass(frozen=True, slots=True)
class Known:
    """Regions joined: n places, ascending by their row in the whole catalogue."""

    cells: tuple[int, ...]
    ids: tuple[str, ...] = field(repr=False)
    words: tuple[str, ...] = field(repr=False)
    rows: IndexArray = field(repr=False)  # (n,): in the whole catalogue, and in the sum of visits
    location: RealArray = field(repr=False)  # (n, 2), NaN where unknown
    features: FeatureArray = field(repr=False)  # (n, p): X^j, static
    region: IndexArray = field(repr=False)  # (n,): which of the cells each place is in
    popular: Popular | None = None  # once there is an edition
    part: PlacePart | None = None  # once there is a publication: `pull` (n, K) and `square` (n,)

    def __len__(self) -> int:
        return len(self.ids)

    def positions(self, ids: Iterable[str]) -> IndexArray:
        """Where these places stand among the known ones; -1 for a place that is not known."""
        at = {one: position for position, one in enumerate(self.ids)}
        return np.array([at.get(one, -1) for one in ids], dtype=np.int32)

    @property
    def counted(self) -> Popular:
        """Popularity; UsageError before there is any."""
        if self.popular is None:
            raise UsageError("popularity is known once the sum of visits is open")
        return self.popular

    def catalogue(self, encoding: Encoding) -> FeatureArray:
        """X^j whole, (n, p + columns), under an edition's encoding: what a device recommends from."""
        dynamic = encode_popularity(encoding, self.counted.seen_with().released, len(self))
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
            part=None if self.part is None else self.part.take(rows),
        )


def joined(regions: Sequence[Known]) -> Known:
    """At least one region; all of them have popularity and parts, or none has. Places come into order."""
    first = regions[0]
    whole = replace(
        first,
        cells=tuple(cell for one in regions for cell in one.cells),
        ids=tuple(text for one in regions for text in one.ids),
        words=tuple(text for one in regions for text in one.words),
        rows=np.concatenate([one.rows for one in regions]),
        location=np.concatenate([one.location for one in regions]),
        features=np.concatenate([one.features for one in regions]),
        region=np.concatenate(
            [one.region + before for one, before in zip(regions, _cells_before(regions), strict=True)]
        ),
        popular=None if first.popular is None else _popular([one.counted for one in regions]),
        part=None if first.part is None else _part([one.part for one in regions if one.part is not None]),
    )
    return whole.take(np.argsort(whole.rows, kind="stable").astype(np.int32))


def _cells_before(regions: Sequence[Known]) -> IndexArray:
    counts = np.array([len(one.cells) for one in regions], dtype=np.int32)
    return np.cumsum(counts, dtype=np.int32) - counts


def _popular(regions: Sequence[Popular]) -> Popular:
    return replace(
        regions[0],
        released=np.concatenate([one.released for one in regions]),
        sums=np.concatenate([one.sums for one in regions]),
        predicted=np.concatenate([one.predicted for one in regions]),
        weight=np.concatenate([one.weight for one in regions]),
    )


def _part(regions: Sequence[PlacePart]) -> PlacePart:
    pull, square = ([getattr(one, name) for one in regions] for name in ("pull", "square"))
    return PlacePart(np.concatenate(pull), np.concatenate(square))


# From documents to the catalogue that a device knows. A download tells which regions, never which places of them.
#
# Nothing that arrives is believed: PeerError for a document that does not fit the others.


Fetch: TypeAlias = Callable[[bytes], bytes]  # a document's bytes by its name, as a cache or a store has them
_Kind = TypeVar("_Kind", Places, Counts, Parts)


def wanted(manifest: Manifest, cells: Collection[int] | None = None) -> tuple[bytes, ...]:
    """The documents that these regions are made of, to be downloaded; of all regions, if none are named."""
    return tuple(name for line in _lines(manifest, cells) for name in parts_of(line))


def parts_of(line: RegionLine) -> tuple[bytes, ...]:
    """The documents of one region, as many as there are by now."""
    return tuple(name for name in (line.places, line.counts, line.parts) if name)


def read_regions(
    manifest: Manifest, fetch: Fetch, *, campaign: Campaign, cells: Collection[int] | None = None
) -> Known:  # fmt: skip
    """The places of these regions under a campaign: with popularity if it has an edition, and with the places' half of
    Eq. (1) if the manifest is a publication's. A cell without places is no region, and adds nothing."""
    _refuse_odd_cells(manifest)
    reader = _Reader.of(manifest, fetch, campaign)
    whole = joined([reader.nothing(), *(reader.region(line) for line in _lines(manifest, cells))])
    _refuse_repeated(whole, many=campaign.charter.places)
    if whole.popular is not None:
        _refuse_large(whole.catalogue(reader.encoding))
    return whole


def refuse_other_places(manifest: Manifest, *, than: Manifest) -> None:
    """An edition adds popularity to the places that its charter fixed, and a publication adds parts to an edition's."""
    before, now = ([(line.cell, line.places) for line in one.regions] for one in (than, manifest))
    if before != now or manifest.resolution != than.resolution:
        raise PeerError(Fault.PARAMS_MISMATCH, "the catalogue has other places than the campaign began with")


@dataclass(frozen=True, slots=True)
class _Reader:
    fetch: Fetch = field(repr=False)
    encoding: Encoding = field(repr=False)
    edition: Edition | None
    dimension: int  # K
    with_parts: bool

    @classmethod
    def of(cls, manifest: Manifest, fetch: Fetch, campaign: Campaign) -> Self:
        if campaign.edition is not None:
            _refuse_other_encoding(campaign.encoding, Campaign.of(campaign.charter).encoding)
            _refuse_odd_prior(campaign.edition)
        with_parts = any(line.parts for line in manifest.regions)
        return cls(fetch, campaign.encoding, campaign.edition, campaign.settings.model.dimension, with_parts)

    def nothing(self) -> Known:
        """No region: what it would have in each array, and no places."""
        places, counts, parts = Places(0, (), (), b"", b"", b""), Counts(0, b"", b"", b"", b""), Parts(0, b"", b"")
        popular = None if self.edition is None else self._popular(counts, self.edition, 0)
        return self._known(places, (), popular, self._part(parts, 0) if self.with_parts else None)

    def region(self, line: RegionLine) -> Known:
        places = self._read(Places, line.places, line)
        n = len(places.ids)
        popular = None
        if self.edition is not None:
            popular = self._popular(self._read(Counts, line.counts, line), self.edition, n)
        part = self._part(self._read(Parts, line.parts, line), n) if self.with_parts else None
        return self._known(places, (line.cell,), popular, part)

    def _read(self, kind: type[_Kind], name: bytes, line: RegionLine) -> _Kind:
        if not name:
            raise _misfit("a region lacks a document that it should have")
        document = read(kind, self.fetch(name), name=name)
        if document.cell != line.cell:
            raise _misfit("a document is of another region")
        return document

    def _known(
        self, places: Places, cells: tuple[int, ...], popular: Popular | None, part: PlacePart | None
    ) -> Known:  # fmt: skip
        n, width = len(places.ids), self.encoding.width(self.encoding.place)
        location = array(places.location, np.float64, (n, 2))
        features = array(places.features, np.float32, (n, width))
        if len(places.words) != n or not all(text.isprintable() for text in (*places.ids, *places.words)):
            raise _misfit("not each place has an id and words that can be shown")
        if not (np.isnan(location).all(axis=1) | (np.abs(location) <= (90.0, 180.0)).all(axis=1)).all():
            raise _misfit("a place is not on the globe")
        _refuse_large(features)
        rows = array(places.rows, np.int32, (n,))
        region = np.zeros(n, dtype=np.int32)
        return Known(cells, places.ids, places.words, rows, location, features, region, popular, part)

    def _popular(self, counts: Counts, edition: Edition, n: int) -> Popular:
        names = tuple(block.column for block in self.encoding.popularity)
        released = array(counts.released, np.float64, (n, len(names)))
        sums, predicted, weight = (
            array(values, np.float64, (n,)) for values in (counts.sums, counts.predicted, counts.weight)
        )
        _refuse_large(released, sums, predicted, most=COUNTED)
        _refuse_large(weight)
        if edition.shape > 0 and not (predicted > 0).all():
            raise _misfit("a place is predicted to have nobody, or fewer")
        return Popular(names, released, sums, predicted, weight, edition.sigma, edition.shape)

    def _part(self, parts: Parts, n: int) -> PlacePart:
        pull, square = array(parts.pull, np.float64, (n, self.dimension)), array(parts.square, np.float64, (n,))
        _refuse_large(pull, square, most=np.finfo(np.float64).max)  # products: finite is all that they must be
        return PlacePart(pull, square)


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


def _refuse_repeated(whole: Known, *, many: int) -> None:
    """Rows are ascending here."""
    rows = whole.rows
    within = not len(rows) or (rows[0] >= 0 and rows[-1] < many)
    if not within or (np.diff(rows) == 0).any() or len(set(whole.ids)) < len(rows):
        raise _misfit("a place is there twice, or has no row in the catalogue")


def _refuse_other_encoding(encoding: Encoding, chartered: Encoding) -> None:
    """An edition adds popularity, by names that devices know how to leave their own part out of, and nothing else."""
    names = [block.column for block in encoding.popularity]
    usual = [name for name in (POPULARITY, NEARBY) if name in names]
    if msgspec.structs.replace(encoding, popularity=()) != chartered or names != usual:
        raise PeerError(Fault.PARAMS_MISMATCH, "an edition's encoding is another than the campaign began with")


def _refuse_odd_prior(edition: Edition) -> None:
    if not (0 < edition.sigma <= COUNTED and edition.shape >= 0):  # false for NaN as well
        raise _misfit("nobody could leave an own part out of this popularity")


def _refuse_large(*arrays: np.ndarray, most: float = LARGEST) -> None:
    if not all(is_within(values, most) for values in arrays):
        raise _misfit("a number is not finite, or larger than any that could be meant")


def _misfit(problem: str) -> PeerError:
    return PeerError(Fault.DECODE, f"the catalogue does not fit together: {problem}")


# A publication as a device uses it: V, and where somebody new starts. PeerError for what does not fit its edition.


@dataclass(frozen=True, slots=True)
class Published:
    """A model to recommend with."""

    interaction: RealArray = field(repr=False)  # V (D, K)
    starts: Starts = field(repr=False)


def read_publication(publication: Publication, *, campaign: Campaign) -> Published:
    """Under the campaign whose edition the publication names."""
    if campaign.edition is None:
        raise UsageError("a publication is read under its edition")
    if publication.edition != written(campaign.edition)[0]:
        raise PeerError(Fault.PARAMS_MISMATCH, "a publication is of another edition")
    features = len(campaign.encoding.names())
    V = array(publication.interaction, np.float64, (features, campaign.settings.model.dimension))
    models = [array(one.model, np.float64, (features + 1,)) for one in publication.starts]
    cells = [one.cell for one in publication.starts]
    if not cells or cells[0] != NO_CELL or not all(a < b and h3.is_valid_cell(b) for a, b in pairwise(cells)):
        raise _misfit_published("there is no start for everywhere, or the others are not for cells, in order")
    if not all(np.isfinite(values).all() for values in (V, *models)):
        raise _misfit_published("a number is not finite")
    return Published(V, Starts(np.array(cells, dtype=np.uint64), np.stack(models)))


def _misfit_published(problem: str) -> PeerError:
    return PeerError(Fault.DECODE, f"the publication does not fit together: {problem}")
