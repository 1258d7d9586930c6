"""Shrinkage: nearer to the truth than the noisy sums, with whatever is public, and exact where it must be."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.data.dataset import Visits
from prirec.errors import UsageError
from prirec.features.popularity import OwnCounts
from prirec.privacy.popularity_estimate import (
    NEARBY,
    POPULARITY,
    Prior,
    nearby_means,
    popularity,
    predict,
)
from prirec.privacy.weighted_popularity import NoisySums
from prirec.types import RealArray
from support import messages

NOBODY = np.empty(0, dtype=np.int64)


def release(sums: RealArray, sigma: float) -> NoisySums:
    return NoisySums(sums, sigma, OwnCounts(len(sums), NOBODY, np.empty(0)))


def town(places: int = 2000, seed: int = 0) -> tuple[RealArray, RealArray, RealArray]:
    """Truth, location, features: popular in the north, and where the first feature is 1; otherwise by chance."""
    rng = np.random.default_rng(seed)
    location = np.stack([rng.uniform(35, 36, places), rng.uniform(139, 140, places)], axis=1)
    features = (rng.random((places, 3)) < 0.3).astype(np.float64)
    predicted = 2 + 6 * (location[:, 0] - 35) + 5 * features[:, 0]
    return rng.gamma(3.0, predicted / 3.0), location, features


def shrunk(noisy: NoisySums, *, location: RealArray | None, features: RealArray | None) -> RealArray:
    return popularity(noisy, location=location, features=features).released[POPULARITY]


def means(prior: Prior, sums: RealArray) -> RealArray:
    """The posterior means of places 0, 1, ..."""
    return prior.mean(sums, np.arange(len(sums)))


def error(found: RealArray, truth: RealArray) -> float:
    return float(((found - truth) ** 2).mean())


def integrated(y: float, *, m: float, shape: float, sigma: float) -> float:
    """The slow twin: the posterior mean under the Gamma prior on a very fine grid."""
    u = np.linspace(-40, 12, 400_001)
    s = m * np.exp(u)
    logs = shape * u - shape * s / m - (y - s) ** 2 / (2 * sigma**2)
    density = np.exp(logs - logs.max())
    density /= density.sum()
    return float((density * s).sum())


# -- what is nearby -----------------------------------------------------------------------------------------------


def test_the_mean_nearby_is_of_the_others() -> None:
    line = np.stack([np.zeros(8), np.arange(8) ** 1.1], axis=1)
    values = np.arange(8.0) ** 2
    found = nearby_means(line, values, neighbourhoods=(1, 2))
    assert found[0].tolist() == [1.0, (1 + 4) / 2]
    assert found[7].tolist() == [36.0, (36 + 25) / 2]


def test_places_on_one_spot_are_not_their_own_neighbours() -> None:
    values = np.arange(40.0)
    found = nearby_means(np.zeros((40, 2)), values, neighbourhoods=(1, 10))
    assert found.shape == (40, 2)
    assert (found[:, 0] != values).all()


def test_a_neighbourhood_of_nearly_everyone_is_not_used() -> None:
    """Its mean is the total less the place's own sum: a prediction from it would be the noise itself."""
    rng = np.random.default_rng(1)
    location, noise = rng.uniform(0, 1, (12, 2)), rng.standard_normal(12)
    assert nearby_means(location, noise, neighbourhoods=(3, 4, 11)).shape == (12, 1)
    assert nearby_means(location, noise).shape == (12, 0)


def test_a_place_without_location_has_the_mean_of_all() -> None:
    location = np.stack([np.zeros(9), np.arange(9.0)], axis=1)
    location[4] = np.nan
    found = nearby_means(location, np.arange(9.0), neighbourhoods=(1,))
    assert found[4, 0] == 4.0
    assert found[0, 0] == 1.0
    assert found[8, 0] == 7.0


def test_without_locations_nothing_is_nearby() -> None:
    assert nearby_means(None, np.arange(5000.0)).shape == (5000, 0)
    assert nearby_means(np.full((5000, 2), np.nan), np.arange(5000.0)).shape == (5000, 0)
    assert nearby_means(np.empty((0, 2)), np.empty(0)).shape == (0, 0)


# -- what is predicted --------------------------------------------------------------------------------------------


def test_a_linear_truth_is_predicted_and_costs_its_degrees_of_freedom() -> None:
    columns = np.random.default_rng(2).standard_normal((500, 3))
    found = predict(4 + columns @ [1.0, -2.0, 0.0], columns)
    assert found.mean == pytest.approx(4 + columns @ [1.0, -2.0, 0.0], abs=1e-3)
    assert found.freedom == pytest.approx(4, abs=1e-3)


def test_noise_is_hardly_predicted_from_columns_that_know_nothing() -> None:
    """Least squares on 100 columns would follow a third of the variance, 0.58 of the spread."""
    followed, spreads = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        noise, columns = rng.standard_normal(300), rng.standard_normal((300, 100))
        found = predict(noise, columns)
        followed.append(found.mean.std())
        spreads.append(found.spread(noise))
    assert np.mean(followed) < 0.2
    assert np.mean(spreads) == pytest.approx(1.0, abs=0.1)


def test_constant_columns_and_no_columns_predict_the_mean() -> None:
    values = np.array([1.0, 2.0, 6.0])
    for columns in (np.ones((3, 2)), np.empty((3, 0))):
        found = predict(values, columns)
        assert found.mean.tolist() == [3.0, 3.0, 3.0]
        assert found.freedom == 1.0
        assert found.spread(values) == 7.0


def test_of_very_many_columns_those_that_vary_most_are_used() -> None:
    columns = np.random.default_rng(4).standard_normal((400, 300)) * 0.1
    columns[:, 299] *= 20
    assert np.corrcoef(predict(columns[:, 299], columns).mean, columns[:, 299])[0, 1] > 0.9
    assert predict(columns[:, 299], columns).freedom <= 257


# -- the posterior ------------------------------------------------------------------------------------------------


def test_each_sum_is_judged_by_its_own_place() -> None:
    prior = Prior.fitted(np.array([1.0, 50.0]), 5.0, 100.0)
    low, high, again = prior.mean(np.array([10.0, 10.0, 10.0]), np.array([0, 1, 0]))
    assert low < 10 < high
    assert low == again


def test_without_excess_spread_the_prediction_is_all_that_is_known() -> None:
    for excess in (0.0, -0.5):
        assert means(Prior.fitted(np.array([4.0, 1.0]), 3.0, excess), np.array([10.0, -5.0])).tolist() == [4.0, 1.0]


def test_without_noise_the_sum_itself_is_known() -> None:
    assert means(Prior.fitted(np.array([4.0, 1.0]), 0.0, 2.0), np.array([10.0, 0.0])).tolist() == [10.0, 0.0]


@given(
    y=st.floats(-60, 600),
    m=st.floats(0.2, 50),
    shape=st.floats(0.4, 30),
    sigma=st.floats(0.5, 20),
)
def test_the_gamma_posterior_is_the_integral(y: float, m: float, shape: float, sigma: float) -> None:
    found = means(Prior.fitted(np.array([m]), sigma, m**2 / shape), np.array([y]))
    assert found[0] == pytest.approx(integrated(y, m=m, shape=shape, sigma=sigma), rel=1e-5)


def test_an_exponential_prior_gives_the_mean_of_a_truncated_normal() -> None:
    """Shape 1 has a closed form: N(y - σ²/m, σ²) cut at 0; for y = σ²/m its mean is σ √(2/π)."""
    found = means(Prior.fitted(np.array([4.0]), 5.0, 16.0), np.array([25 / 4]))
    assert found[0] == pytest.approx(5 * (2 / np.pi) ** 0.5, rel=1e-8)


def test_an_extreme_spread_is_held_to_what_can_be_integrated() -> None:
    found = means(Prior.fitted(np.full(3, 0.01), 5.0, 1e6), np.array([-3.0, 0.0, 90.0]))
    assert (np.diff(found) > 0).all()
    assert found[0] > 0
    assert found[2] == pytest.approx(90 - 0.02 * 25 / 0.01, rel=0.05)  # the mode: y - kσ²/m


# -- together -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [1.0, 5.0, 20.0])
def test_shrinkage_is_nearer_to_the_truth_and_the_nearer_the_more_is_public(sigma: float) -> None:
    truth, location, features = town()
    noisy = release(truth + sigma * np.random.default_rng(5).standard_normal(len(truth)), sigma)
    found = {
        "nothing": shrunk(noisy, location=None, features=None),
        "where": shrunk(noisy, location=location, features=None),
        "what": shrunk(noisy, location=None, features=features),
        "both": shrunk(noisy, location=location, features=features),
    }
    errors = {name: error(mean, truth) for name, mean in found.items()}
    assert errors["nothing"] < error(noisy.sums, truth)
    assert max(errors["where"], errors["what"]) < errors["nothing"]
    assert errors["both"] < min(errors["where"], errors["what"])


def test_the_known_variance_is_what_separates_places_from_noise() -> None:
    """With a wrong sigma the weight is wrong and the error larger."""
    truth, location, features = town()
    sums = truth + 5 * np.random.default_rng(6).standard_normal(len(truth))
    right, low, high = (
        error(shrunk(release(sums, sigma), location=location, features=features), truth) for sigma in (5, 3, 5.8)
    )
    assert right < low
    assert right < high


def test_equal_places_under_noise_come_out_equal() -> None:
    sums = 10 + 3 * np.random.default_rng(7).standard_normal(5000)
    found = shrunk(release(sums, 3.1), location=None, features=None)
    assert np.ptp(found) == 0.0
    assert found[0] == pytest.approx(10, abs=0.3)


def test_popular_streets_and_popular_places_are_two_columns() -> None:
    truth, location, features = town()
    found = popularity(release(truth, 0.5), location=location, features=features)
    assert list(found.released) == [POPULARITY, NEARBY]
    assert np.corrcoef(found.released[POPULARITY], truth)[0, 1] > 0.95
    assert np.corrcoef(found.released[NEARBY], location[:, 0])[0, 1] > 0.8


def test_without_locations_and_features_the_order_of_places_stays() -> None:
    sums = np.random.default_rng(8).normal(5, 6, 400)
    found = popularity(release(sums, 4.0), location=None, features=None).released
    assert list(found) == [POPULARITY]
    assert (np.argsort(found[POPULARITY]) == np.argsort(sums)).all()
    assert (found[POPULARITY] > 0).all()


@pytest.mark.parametrize("sums", [np.empty(0), np.array([-3.0, 1.0])])
def test_where_no_place_exceeds_the_noise_every_popularity_is_0(sums: RealArray) -> None:
    found = popularity(release(sums, 4.0), location=None, features=None)
    assert found.released[POPULARITY].tolist() == [0.0] * len(sums)


@pytest.mark.parametrize("sigma", [0.5, 5.0])
def test_a_device_sees_what_the_release_would_be_without_its_own_part(sigma: float) -> None:
    truth, location, features = town()
    noisy = truth + sigma * np.random.default_rng(9).standard_normal(len(truth))
    mine = OwnCounts(len(truth), np.array([0, 7]), np.array([0.7, 0.7]))
    visits = Visits(np.zeros(3, np.int32), np.array([0, 7, 9], np.int32), np.ones(3, np.int8))
    with_me = popularity(NoisySums(noisy + mine.total(), sigma, mine), location=location, features=features)
    without = popularity(NoisySums(noisy, sigma, mine), location=location, features=features)
    whole, seen = with_me.released[POPULARITY][visits.place], with_me.seen_by(visits)[POPULARITY]
    others = without.released[POPULARITY][visits.place]
    assert seen[:2] == pytest.approx(others[:2], abs=0.02 * (whole - others)[:2].min())
    assert seen[2] == whole[2]
    assert (whole - 0.7 < seen)[:2].all()  # shrinkage has shrunk it too


@pytest.mark.parametrize(
    ("sums", "features"),
    [
        (np.ones(4), np.ones((3, 2))),
        (np.ones(4), np.full((4, 1), np.nan)),
        (np.array([1.0, np.inf]), None),
    ],
)
def test_what_is_not_finite_or_does_not_fit_is_refused(sums: RealArray, features: RealArray | None) -> None:
    with pytest.raises(UsageError, match=messages.SUMS_OR_FEATURES_UNFIT):
        shrunk(release(sums, 1.0), location=None, features=features)
