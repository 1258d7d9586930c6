"""From noisy sums to popularity features by empirical Bayes. Public post-processing: it costs no privacy.

Ridge regression on [1, mean noisy sum of the 10, 50, 200 nearest places, public features] predicts m_j for each place.
The residual variance minus the known noise variance σ² is τ², how far places truly lie from their prediction, and the
posterior mean weighs prediction and noisy sum. Two columns are released: that posterior mean, and the mean of the 200
nearest places, since a crowded street says something else to a model than a popular place. Signed log and
standardisation follow where released columns are encoded (features/encoding.py).

A device leaves its own part out by the same map: it sees E(s | y_j - x_ij), with its own weight taken from the
prediction, and τ² unchanged. To subtract x_ij from the posterior mean would be far too much, since that is shrunk too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf, sqrt
from typing import Any, Self

import numpy as np

from prirec.errors import UsageError
from prirec.features.popularity import Opened, OwnCounts, Popularity, Scale
from prirec.privacy.weighted_popularity import NoisySums
from prirec.types import OffsetArray, RealArray
from prirec.util.geography import located, unit_vectors

# --- Posterior of a true sum s, given its noisy sum y ~ N(s, σ²) and the prediction m for its place ------------------
# σ² is known from the mechanism; the excess τ² is how far places truly lie from their predictions.

_BLOCK = 1 << 11  # sums whose posterior is integrated at a time: their grids fit the processor's cache
_SHAPE = 0.02  # the smallest: a standard deviation of seven times the mean
_STEPS = np.linspace(-6.0, 3.0, 101)
_FROM_MODE, _WEIGHT = np.sinh(_STEPS), np.cosh(_STEPS)  # in widths of the mode: fine around it, 200 to the left


@dataclass(frozen=True, slots=True)
class Prior:
    """s ~ Gamma with mean m > 0 and shape k, before a place's own noisy sum is looked at: positive, and the wider the
    more is predicted.

    The density of u = ln s is e^(ku - ks/m - (y - s)²/2σ²) up to a factor. It has one mode, at
    s = (b + √(b² + 4kσ²)) / 2 with b = y - kσ²/m, and curvature s √(b² + 4kσ²) / σ² there; the mean is a sum over steps
    around it, which lengthen, since small shapes reach far down. Without excess the prediction is all that is known;
    without noise the sum itself.
    """

    predicted: RealArray = field(repr=False)  # (n,), above 0
    sigma: float
    shape: float  # k; ∞ where nothing but the prediction is known, 0 where nothing rose out of the noise

    @classmethod
    def fitted(cls, predicted: RealArray, sigma: float, excess: float) -> Self:
        """k = E(m²) / τ², a mean over all places. It is published: a device knows only some of them."""
        shape = max(float((predicted**2).mean()) / excess, _SHAPE) if excess > 0 else inf
        return cls(predicted, sigma, shape)

    def mean(self, sums: RealArray, places: OffsetArray, less: RealArray | float = 0.0) -> RealArray:
        """E(s | y) ≥ 0 for noisy sums (n,) of these places (n,); `less` is subtracted from each prediction."""
        if self.shape == 0:
            return np.zeros(len(sums))
        if self.sigma == 0:
            return np.maximum(sums, 0.0)
        m = np.maximum(self.predicted[places] - less, self.predicted[places] / 10)  # above 0
        if self.shape == inf:
            return m
        means = np.empty(len(sums))
        for start in range(0, len(sums), _BLOCK):
            some = slice(start, start + _BLOCK)
            means[some] = _gamma_mean(sums[some, None], m[some, None], sigma=self.sigma, shape=self.shape)
        return means


def _gamma_mean(y: RealArray, m: RealArray, *, sigma: float, shape: float) -> RealArray:
    """∫ s p(s | y) ds under the Gamma prior, for (r, 1) sums."""
    k = shape
    b = y - k * sigma**2 / m
    root = np.sqrt(b**2 + 4 * k * sigma**2)
    # equal numbers; each form without cancellation on its side
    mode = np.where(b > 0, (b + root) / 2, 2 * k * sigma**2 / (root - b))
    width = sigma / np.sqrt(mode * root)
    s = mode * np.exp(_FROM_MODE * width)  # (r, steps)
    logs = k * _FROM_MODE * width - (s - mode) * (k / m + (s + mode - 2 * y) / (2 * sigma**2))
    density = _WEIGHT * np.exp(logs - logs.max(axis=1, keepdims=True))
    mean: RealArray = np.einsum("rs,rs->r", density, s) / density.sum(axis=1)
    return mean


# --- Popularity from noisy sums ---------------------------------------------------------------------------------------

POPULARITY, NEARBY = "weighted popularity", "weighted popularity nearby"
_LEAST = 0.1  # times the mean: no place is predicted to have less


@dataclass(frozen=True, slots=True)
class PublicEstimate:
    """The public part of an estimate: popularity columns, and what a device needs to leave its own part out."""

    columns: Mapping[str, RealArray] = field(repr=False)  # name -> (J,)
    prior: Prior = field(repr=False)
    weight: RealArray = field(repr=False)  # (J,): of each place's own sum in what is predicted for it


def opened_of(sums: RealArray, sigma: float, public: PublicEstimate) -> Opened:
    """What a saved run keeps of a release, and `estimate_of` finds again."""
    return Opened(sums, sigma, public.prior.predicted, public.weight, public.prior.shape)


def estimate_of(before: Popularity, opened: Opened) -> PublicEstimate:
    """The public estimate of an earlier release."""
    columns = {name: before.released[name] for name in (POPULARITY, NEARBY) if name in before.released}
    return PublicEstimate(columns, Prior(opened.predicted, opened.sigma, opened.shape), opened.weight)


def popularity(release: NoisySums, *, location: RealArray | None, features: RealArray | None) -> Popularity:
    """Popularity features from a release and public locations (J, 2) and features (J, p), with everyone's own part.

    For simulation; in a deployment the recommender computes `public_estimate`, and each device its own part."""
    return seen_with(release, public_estimate(release, location=location, features=features))


def seen_with(release: NoisySums, public: PublicEstimate) -> Popularity:
    """The public columns, with the own parts of those whose contributions are in `release`."""
    part = own_part(release, public.prior, public.columns[POPULARITY], public.weight)
    return Popularity(public.columns, {POPULARITY: part})


def public_estimate(release: NoisySums, *, location: RealArray | None, features: RealArray | None) -> PublicEstimate:
    """The public part of the estimate, from public inputs alone. The recommender runs it."""
    _check(release, features)
    nearby = nearby_means(location, release.sums)
    prior, weight = _prior(release, nearby if features is None else np.hstack([nearby, features]))
    columns = {POPULARITY: prior.mean(release.sums, np.arange(len(release.sums)))}
    if nearby.shape[1]:
        columns[NEARBY] = nearby[:, -1]
    return PublicEstimate(columns, prior, weight)


def _prior(release: NoisySums, columns: RealArray) -> tuple[Prior, RealArray]:
    """The prior, and the weight of each place's own sum in its prediction (J,)."""
    y, sigma = release.sums, release.sigma
    if not len(y) or y.mean() <= 0:  # nothing rises out of the noise: a Gamma prior needs a positive mean
        return Prior(np.zeros(len(y)), sigma, 0.0), np.zeros(len(y))
    prediction = predict(y, columns)
    m = np.maximum(prediction.mean, _LEAST * y.mean())
    return Prior.fitted(m, sigma, prediction.spread(y) - sigma**2), prediction.own


def own_part(release: NoisySums, prior: Prior, posterior: RealArray, weight: RealArray) -> OwnCounts:
    """E(s | y_j) - E(s | y_j - x_ij) for each person and place. A device runs it for its own contribution."""
    own = release.own
    places = own.pairs % own.places
    others = prior.mean(release.sums[places] - own.counts, places, weight[places] * own.counts)
    return OwnCounts(own.places, own.pairs, posterior[places] - others)


def _check(release: NoisySums, features: RealArray | None) -> None:
    rows = [release.sums] if features is None else [release.sums, features]
    if any(len(values) != len(release.sums) or not np.isfinite(values).all() for values in rows):
        raise UsageError("there is one finite sum and one row of finite public features for each place")


# --- An average over visits from two noisy sums -----------------------------------------------------------------------
# A_j = Σ_i x_ij and B_j = Σ_i x_ij u_ij with u between -1 and 1, each with noise of σ. B/A is wild where A is small, so
# the average of place j is assumed to lie around that of the city, r = ΣB / ΣA, with a standard deviation τ that the
# sums themselves show: d_j = B_j − r Â_j has variance Â_j² τ² + σ², Â being the best estimate of A. The posterior mean
# is r + Â_j τ² d_j / (Â_j² τ² + σ²): r itself where nobody was.


_MOST_SPREAD = 4.0  # an average is at most 2 away from another, on the scale from -1 to 1
_MOST_ERROR = 2.0  # so more than this is no error that says anything


@dataclass(frozen=True, slots=True)
class CityAverage:
    """The average of a whole city, on the scale from -1 to 1, and how its places lie around it. Public."""

    middle: float  # r
    spread: float  # τ²

    @classmethod
    def of(cls, visitors: RealArray, sums: RealArray, noise: Callable[[float], RealArray]) -> Self:
        A, B = np.maximum(visitors, 0.0), sums
        total = float(visitors.sum())  # negative sums included, or noise alone would look like visitors
        r = float(np.clip(B.sum() / total, -1.0, 1.0)) if total > 0 else 0.0
        off = B - r * A
        excess = max(float((off**2).mean() - noise(r).mean()), 0.0) if len(A) else 0.0
        return cls(r, min(excess / max(float((A**2).mean()), 1e-300), _MOST_SPREAD) if excess else 0.0)

    def at(self, visitors: RealArray, sums: RealArray, noise: RealArray) -> RealArray:
        """The posterior means of places."""
        A = np.maximum(visitors, 0.0)
        weight = A**2 * self.spread + noise
        share = np.divide(A * self.spread, weight, out=np.zeros_like(weight), where=weight > 0)
        moved: RealArray = self.middle + share * (sums - self.middle * A)
        return moved

    def errors(self, visitors: RealArray, sigma: float) -> tuple[float, float]:
        """Standard errors, from noise of sigma in each sum: of the middle, and of a place's average, the root of their
        mean square, with its visitors taken as known."""
        A, total = np.maximum(visitors, 0.0), float(visitors.sum())
        middle = sqrt(len(A) * (1 + self.middle**2)) * sigma / total if total > 0 else inf
        weight = A**2 * self.spread + sigma**2
        left = np.divide(self.spread * sigma**2, weight, out=np.zeros_like(weight), where=weight > 0)
        return min(middle, _MOST_ERROR), sqrt(float(left.mean())) if len(left) else 0.0


def average(
    visitors: RealArray, own_visitors: OwnCounts, values: NoisySums, scale: Scale, *, name: str
) -> Popularity:  # fmt: skip
    """From a secure sum: `visitors` is the posterior mean of A (J,), `own_visitors` what each device's own visit adds
    to that mean, `values` the noisy B. For simulation; in a deployment the recommender computes `public_average`, and
    each device its own part."""
    city, released = public_average(visitors, values, scale)
    return Popularity({name: released}, {name: own_average(city, visitors, own_visitors, values, scale, released)})


def public_average(visitors: RealArray, values: NoisySums, scale: Scale) -> tuple[CityAverage, RealArray]:
    """The public part of an average. The recommender runs it."""
    variance = np.asarray(values.sigma**2)
    city = CityAverage.of(visitors, values.sums, lambda r: variance)
    return city, scale.outward(city.at(visitors, values.sums, np.broadcast_to(variance, values.sums.shape)))


def own_average(
    city: CityAverage, visitors: RealArray, own_visitors: OwnCounts, values: NoisySums, scale: Scale,
    released: RealArray,
) -> OwnCounts:  # fmt: skip
    """What each device leaves out of a released average: its own part of both sums. Without it in B alone, its own
    visit would pull the average that it sees to the middle of the scale. A device runs it."""
    own, at = values.own, values.own.pairs % values.own.places
    fewer = np.maximum(visitors[at], 0.0) - own_visitors.at_pairs(own.pairs)
    noise = np.broadcast_to(np.asarray(values.sigma**2), at.shape)
    others = scale.outward(city.at(fewer, values.sums[at] - own.counts, noise))
    return OwnCounts(own.places, own.pairs, released[at] - others)


def average_of_answers(
    visitors: RealArray, sums: RealArray, *, noise: Callable[[float], RealArray], own: OwnCounts, scale: Scale,
    name: str,
) -> Popularity:  # fmt: skip
    """From local answers: unbiased estimates of A and B (J,), to which everyone in `own` adds 1 and a value per place.

    `noise` is the variance of B − rA (J,) for an r. A device leaves its own part of both sums out."""
    city = CityAverage.of(visitors, sums, noise)
    each = np.broadcast_to(noise(city.middle), sums.shape)
    released = scale.outward(city.at(visitors, sums, each))
    at = own.pairs % own.places
    fewer = np.maximum(visitors[at], 0.0) - 1.0
    others = scale.outward(city.at(fewer, sums[at] - own.counts, each[at]))
    return Popularity({name: released}, {name: OwnCounts(own.places, own.pairs, released[at] - others)})


# --- Prediction: ridge regression of noisy sums on public columns -----------------------------------------------------

_PENALTIES = np.logspace(-5, 3, 25)  # per place
_MOST = 1 / 3  # degrees of freedom per place: with more, the prediction would be the noisy sum itself
_COLUMNS = 256  # at most: the matrix of their products has the square of it


@dataclass(frozen=True, slots=True)
class Prediction:
    """The predicted sum of each place, and what is needed for the variance around it."""

    mean: RealArray = field(repr=False)  # (J,)
    freedom: float  # degrees of freedom, the constant among them
    own: RealArray = field(repr=False)  # (J,): the weight of y_j in m_j

    def spread(self, values: RealArray) -> float:
        """Σ (y - m)² / (J - freedom): the residual variance, corrected for the fitted degrees of freedom."""
        return float(((values - self.mean) ** 2).sum() / max(len(values) - self.freedom, 1.0))


def predict(values: RealArray, columns: RealArray) -> Prediction:
    """m = ȳ + Zβ, β = (ZᵀZ + λI)⁻¹ Zᵀ(y - ȳ), Z the standardised columns, λ by generalised cross-validation.

    There is at least one place; without columns m is the mean.
    """
    Z = _standardised(columns)
    centre = float(values.mean())
    eigen, basis = np.linalg.eigh(Z.T @ Z)
    d = np.maximum(eigen, 0.0)
    target = basis.T @ (Z.T @ (values - centre))  # t, along the eigenvectors
    square, places = float(((values - centre) ** 2).sum()), len(values)
    allowed = [λ for λ in _PENALTIES * places if _freedom(d, λ) <= _MOST * places] or [_PENALTIES[-1] * places]
    penalty = min(allowed, key=lambda λ: _cross_validated(d, target, square, places, λ))
    β = basis @ (target / (d + penalty))
    own = 1 / places + ((Z @ basis) ** 2 / (d + penalty)).sum(axis=1)
    return Prediction(centre + Z @ β, _freedom(d, penalty), own)


def _freedom(d: RealArray, penalty: float) -> float:
    return 1.0 + float((d / (d + penalty)).sum())


def _cross_validated(d: RealArray, target: RealArray, square: float, places: int, penalty: float) -> float:
    """RSS / (J - df)² up to a factor: RSS = ‖y - ȳ‖² - Σ t²(d + 2λ)/(d + λ)², df = 1 + Σ d/(d + λ)."""
    rest = square - float((target**2 * (d + 2 * penalty) / (d + penalty) ** 2).sum())
    left = places - _freedom(d, penalty)
    return max(rest, 0.0) / max(left, 1.0) ** 2


def _standardised(columns: RealArray) -> RealArray:
    """The columns that vary, at most the _COLUMNS that vary most, with mean 0 and standard deviation 1."""
    spread = columns.std(axis=0)
    kept = np.argsort(-spread, kind="stable")[:_COLUMNS]
    kept = np.sort(kept[spread[kept] > 1e-9])
    Z: RealArray = (columns[:, kept] - columns[:, kept].mean(axis=0)) / spread[kept]
    return Z


# --- Neighbourhood means ----------------------------------------------------------------------------------------------

NEIGHBOURHOODS = (10, 50, 200)
_LOOKUPS = 1 << 13  # places whose neighbours are looked up at a time
_SHARE = 4


def neighbourhoods_of(located: int, sizes: tuple[int, ...] = NEIGHBOURHOODS) -> list[int]:
    """The sizes that have a column where so many places have coordinates."""
    return [k for k in sorted(sizes) if k * _SHARE <= located]


def nearby_means(
    location: RealArray | None, values: RealArray, *, neighbourhoods: tuple[int, ...] = NEIGHBOURHOODS
) -> RealArray:
    """(J, n): for each k, the mean over the k nearest places without the place itself; unlocated: over all places.

    A k above a quarter of the located places has no column: the mean of nearly all others is the total minus the
    place's own sum, which would bring back the very noise that it should average out.
    """
    known = np.flatnonzero(located(location)) if location is not None else np.empty(0, dtype=np.int64)
    sizes = neighbourhoods_of(len(known), neighbourhoods)
    means = np.full((len(values), len(sizes)), values.mean() if len(values) else 0.0)
    if location is None or not sizes:
        return means
    from scipy.spatial import cKDTree  # only here: it takes longer to load than most of what is asked of this file

    tree, own = cKDTree(unit_vectors(location[known])), values[known]
    for start in range(0, len(known), _LOOKUPS):
        rows = tree.indices[start : start + _LOOKUPS]  # in the tree's order: consecutive lookups share cache lines
        sums = np.cumsum(own[_others(tree, rows, sizes[-1])], axis=1)
        means[known[rows]] = sums[:, [k - 1 for k in sizes]] / sizes
    return means


def _others(tree: Any, rows: np.ndarray, count: int) -> np.ndarray:
    """(r, count): the nearest to each row without itself, which with many places in one spot need not be among them."""
    found = np.asarray(tree.query(tree.data[rows], k=count + 1)[1])
    itself = found == rows[:, None]
    itself[~itself.any(axis=1), -1] = True
    others: np.ndarray = found[~itself].reshape(len(rows), count)
    return others
