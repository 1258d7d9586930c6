"""From noisy sums to popularity features, by nothing but what is public: it spends no privacy.

Empirical Bayes. Ridge on [1, mean noisy sum of the 10, 50, 200 nearest places, public features] predicts m_j; the
residual variance less the known σ² is τ², how far places truly lie from their prediction; the posterior mean weighs the
two. Two columns come of it: the posterior mean, and what the 200 nearest places have on average, since a crowded street
says something else to a model than a popular place. Signed log and standardisation follow where every released column
is encoded, by the column's own moments.
A device leaves its own part out by the same map: what it sees of place j is E(s | y_j - x_ij), with the prediction less
its own weight in it, and τ² as it is. To subtract x_ij from the posterior mean would be far too much, since shrinkage
has shrunk it too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from prirec.errors import UsageError
from prirec.features.popularity import OwnCounts, Popularity
from prirec.privacy.posterior import Gamma, Gaussian, Prior
from prirec.privacy.prediction import predict
from prirec.privacy.surroundings import nearby_means
from prirec.privacy.weighted_popularity import NoisySums
from prirec.types import RealArray

Family: TypeAlias = Callable[[RealArray, float, float], Prior]  # m, σ and τ² to a prior: Gamma or Gaussian

POPULARITY, NEARBY = "weighted popularity", "weighted popularity nearby"
_LEAST = 0.1  # of the mean: no place is predicted to have less


@dataclass(frozen=True, slots=True)
class Shrunk:
    """What a release comes to: public, and all that a device needs to leave its own part out."""

    columns: Mapping[str, RealArray] = field(repr=False)  # name -> (J,)
    prior: Prior = field(repr=False)
    weight: RealArray = field(repr=False)  # (J,): of each place's own sum in what is predicted for it


def popularity(
    release: NoisySums, *, location: RealArray | None, features: RealArray | None, family: Family = Gamma
) -> Popularity:  # fmt: skip
    """The features made of a release, from public locations (J, 2) and features (J, p), as far as there are any."""
    found = shrunk(release, location=location, features=features, family=family)
    posterior = found.columns[POPULARITY]
    return Popularity(found.columns, {POPULARITY: own_part(release, found.prior, posterior, found.weight)})


def shrunk(
    release: NoisySums, *, location: RealArray | None, features: RealArray | None, family: Family = Gamma
) -> Shrunk:  # fmt: skip
    """The public half of it: the recommender's side, which knows nobody's own part."""
    _check(release, features)
    nearby = nearby_means(location, release.sums)
    prior, weight = _prior(release, nearby if features is None else np.hstack([nearby, features]), family)
    columns = {POPULARITY: prior.mean(release.sums, np.arange(len(release.sums)))}
    if nearby.shape[1]:
        columns[NEARBY] = nearby[:, -1]
    return Shrunk(columns, prior, weight)


def _prior(release: NoisySums, columns: RealArray, family: Family) -> tuple[Prior, RealArray]:
    """And the weight of each place's own sum in what is predicted for it."""
    y, sigma = release.sums, release.sigma
    if not len(y) or y.mean() <= 0:  # nothing rises out of the noise
        return Gaussian(np.zeros(len(y)), sigma, 0.0), np.zeros(len(y))
    prediction = predict(y, columns)
    m = np.maximum(prediction.mean, _LEAST * y.mean())
    return family(m, sigma, prediction.spread(y) - sigma**2), prediction.own


def own_part(release: NoisySums, prior: Prior, posterior: RealArray, weight: RealArray) -> OwnCounts:
    """E(s | y_j) - E(s | y_j - x_ij) for each person and place: each device works out its own."""
    own = release.own
    places = own.pairs % own.places
    others = prior.mean(release.sums[places] - own.counts, places, weight[places] * own.counts)
    return OwnCounts(own.places, own.pairs, posterior[places] - others)


def _check(release: NoisySums, features: RealArray | None) -> None:
    rows = [release.sums] if features is None else [release.sums, features]
    if any(len(values) != len(release.sums) or not np.isfinite(values).all() for values in rows):
        raise UsageError("there is one finite sum and one row of finite public features for each place")
