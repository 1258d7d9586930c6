"""Findings of leak checks, and the statistical one: whether counts that cannot be recomputed know the test visits.

A finding has names, counts and odds, never who or where.
"""

import math
from dataclasses import asdict, dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from prirec.config import Settings
from prirec.data.dataset import Numbers, Visits
from prirec.data.prepare import Prepared
from prirec.features.encoding import signed_log
from prirec.features.popularity import Counts, OwnCounts, plain_average, plain_counts
from prirec.privacy.popularity_estimate import nearby_means
from prirec.privacy.weighted_popularity import weighted
from prirec.simulate.popularity import averages_of, public_features
from prirec.types import RealArray

Severity: TypeAlias = Literal["refused", "flagged"]

ODDS = 1e-6  # of a false alarm, for each check that rests on chance
FAR = 4.76  # the normal law has less than ODDS beyond it


@dataclass(frozen=True, slots=True)
class Finding:
    """One way in which the test set got into training, or may have."""

    name: str
    severity: Severity  # refused: figures would be wrong; flagged: they are right, but say less than they seem to
    words: str  # what was found, and what to do about it
    figure: float  # how much of it: the words say of what

    def to_dict(self) -> dict[str, str | float]:
        return asdict(self)


Findings: TypeAlias = tuple[Finding, ...]


# The statistical check, for counts that are noisy or come from elsewhere
#
# A column r that was made of training visits moves with a place's training count c, and the visits of the test, which
# nobody could see, move it no further. One made of all visits moves with the whole count n = c + t. So r is regressed
# on c (freely: with its root and logarithm), on what is public about places and their surroundings, and on n - c, in
# counts and again in logarithms: the coefficient of n - c is 0 in the one case, and that of c in the other. The
# standard error is White's (HC3 of MacKinnon and White 1985), which asks nothing of the noise.
#
# A leak is reported where the coefficient is FAR standard errors above 0, which noise gives to fewer than two honest
# columns in a million over both scales, and above half of c's, which stands against what curvature may do where there
# is hardly any noise. It is ruled out where even half of c's coefficient is three standard errors above what is found.
# Between them nobody can tell. With noise of σ in counts of visitors a leak is found with probability 0.99 from J t̄ =
# 100 σ² on, J places with t̄ test visitors each; a column that was shrunk toward what is public needs more. Popularity
# from another source that follows all visits is reported as a leak too: the two look alike.


_FEWEST = 30  # places
_CLEAR = 3.0  # standard errors
_BENDS = 10
_A_COLUMN = 10  # places for each public column that is controlled for


@dataclass(frozen=True, slots=True)
class Evidence:
    """How far training visits and test visits move a released column, in one unit."""

    by_training: float
    by_test: float
    error: float  # standard error of by_test

    @property
    def z(self) -> float:
        return self.by_test / self.error if self.error > 0 else math.inf * np.sign(self.by_test)

    @property
    def share(self) -> float:
        """Of what a training visit does, how much a test visit does; 100 for more than that."""
        return self.by_test / self.by_training if 100 * self.by_training > self.by_test else 100.0

    @property
    def leaks(self) -> bool:
        return self.z > FAR and 2 * self.by_test > self.by_training

    @property
    def ruled_out(self) -> bool:
        return self.by_training > 0 and self.by_test + _CLEAR * self.error < self.by_training / 2

    @property
    def power(self) -> float:
        """The chance that a column of all visits, as noisy as this one, is found out."""
        from scipy.special import ndtr

        expected = self.by_training / self.error if self.error > 0 else math.inf
        return float(ndtr(expected - FAR)) if self.by_training > 0 else 0.0


def weigh(released: RealArray, prepared: Prepared, settings: Settings) -> Evidence | None:
    """The evidence in counts or in logarithms, whichever tells more; None where there are too few places."""
    if len(released) < _FEWEST or len(released) != len(prepared.dataset.places):
        return None
    learnt, seen = (_statistics(replace(prepared, train=v), settings) for v in (prepared.train, both(prepared)))
    name = max((name for name in seen if name in learnt), key=lambda one: _alike(released, seen[one]))
    c, n = learnt[name], seen[name]
    around = _around(prepared, settings, c, n)
    found = [
        _moved(released, c, n - c, around),
        _moved(signed_log(released), signed_log(c), signed_log(n) - signed_log(c), around),
    ]
    return max(found, key=lambda one: (one.leaks, one.ruled_out, one.power))


def both(prepared: Prepared) -> Visits:
    """Training and test records as one, with the numbers of their contexts: all that is ever counted."""
    train, test = prepared.train, prepared.test
    columns = {name: (one, test.context[name]) for name, one in train.context.items()}
    return Visits(
        person=np.concatenate([train.person, test.person]),
        place=np.concatenate([train.place, test.place]),
        label=np.concatenate([train.label, test.label]),
        time=None if train.time is None or test.time is None else np.concatenate([train.time, test.time]),
        context={
            name: Numbers(np.concatenate([one.values, other.values]))
            for name, (one, other) in columns.items()
            if isinstance(one, Numbers) and isinstance(other, Numbers)
        },
    )


def _statistics(prepared: Prepared, settings: Settings) -> Counts:
    """Every statistic of the training records that a column may have been made of, without noise."""
    train, places = prepared.train, len(prepared.dataset.places)
    plain = plain_counts(train, places=places, recent_days=settings.features.recent_days).released
    visitors = OwnCounts.of(train.take(train.label > 0), places=places).once()
    averages = [plain_average(one.own, one.scale, name=one.column).released for one in averages_of(prepared, settings)]
    weights = {"weighted": weighted({"visitors": visitors})["visitors"].total()}
    return {name: values for part in (plain, weights, *averages) for name, values in part.items()}


def _around(prepared: Prepared, settings: Settings, *counts: RealArray) -> RealArray:
    """(J, k): a constant, public features of places and counts in their surroundings, as far as there are places."""
    places = prepared.dataset.places
    features, nearby = public_features(places, settings), [nearby_means(places.location, one) for one in counts]
    parts = [np.ones((len(places), 1)), *nearby, *([] if features is None else [features])]
    kept = [part for part in parts if part.shape[1] * _A_COLUMN <= len(places)]
    return np.hstack([*kept, *(signed_log(part) for part in kept[1:])])


def _alike(one: RealArray, other: RealArray) -> float:
    """|correlation|; nothing where one of them is constant."""
    if not (one.std() > 0 and other.std() > 0):
        return 0.0
    return abs(float(np.corrcoef(one, other)[0, 1]))


def _moved(released: RealArray, base: RealArray, extra: RealArray, around: RealArray) -> Evidence:
    """r on c beside n - c, and on n - c beside a free function of c."""
    by_training, _ = _slope(base, released, np.column_stack([around, extra]))
    by_test, error = _slope(extra, released, np.column_stack([around, *_freely(base)]))
    return Evidence(by_training, by_test, error)


def _freely(base: RealArray) -> list[RealArray]:
    """Columns of whose sums most smooth functions of c are made: c, its root and logarithm, and bends in between."""
    bends = np.unique(np.quantile(base, np.linspace(0, 1, _BENDS + 2)[1:-1]))
    kept = bends[: max(len(base) // _A_COLUMN - 4, 0)]
    return [base, np.sqrt(np.abs(base)), signed_log(base), *(np.maximum(base - bend, 0.0) for bend in kept)]


def _slope(x: RealArray, y: RealArray, columns: RealArray) -> tuple[float, float]:
    """The coefficient of y on x beside other columns, and its standard error (HC3)."""
    span = _spanned(columns)
    x, y = (values - span @ (span.T @ values) for values in (x, y))
    square = float(x @ x)
    if square <= 1e-12 * len(x):
        return 0.0, math.inf
    slope, pull = float(x @ y) / square, (span**2).sum(axis=1) + x**2 / square
    left = (y - slope * x) / np.maximum(1 - pull, 1e-3)
    return slope, math.sqrt(float((x * left) @ (x * left))) / square


def _spanned(columns: RealArray) -> RealArray:
    """An orthonormal basis of the columns, some of which may coincide."""
    from scipy.linalg import qr

    scaled = columns / np.maximum(np.abs(columns).max(axis=0), 1e-300)
    basis, triangle, _ = qr(scaled, mode="economic", pivoting=True)
    size = np.abs(np.diag(triangle))
    return np.asarray(basis[:, size > 1e-10 * size[0]])
