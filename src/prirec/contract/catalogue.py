"""The catalogue as a device knows it: the regions that it has downloaded, joined, in the order of the whole catalogue.

Everything in it is public and the same for everyone. `regions.py` reads it from documents and checks it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from prirec.errors import UsageError
from prirec.features.encoding import Encoding, encode_popularity
from prirec.features.popularity import OwnCounts, Popularity
from prirec.privacy.post_processing import POPULARITY, own_part
from prirec.privacy.posterior import prior_of
from prirec.privacy.weighted_popularity import NoisySums
from prirec.protocols.prediction import PlacePart
from prirec.types import FeatureArray, IndexArray, RealArray


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
