"""The city can be learnt: by popularity, better with distance, and better by district than for all alike."""

import numpy as np
import pytest
from scipy.spatial import cKDTree
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from prirec.data.dataset import Dataset
from prirec.data.synthetic import CityPlan, city_and_truth, district_tastes, intercept_for

pytestmark = pytest.mark.xdist_group("a city that can be learnt")  # made once, for one process


def one_hot(codes: np.ndarray) -> np.ndarray:
    return np.eye(codes.max() + 1)[codes]


def features(city: Dataset, train: np.ndarray) -> np.ndarray:
    """Popularity, distance, then everything that is in the columns, a row for each record."""
    visits, who, what = city.visits, city.people.columns, city.places.columns
    clicks = np.bincount(visits.place[train & (visits.label > 0)], minlength=len(city.places))
    step = (city.people.location[visits.person] - city.places.location[visits.place]) * 111.195
    distance = np.log1p(np.hypot(step[:, 0], step[:, 1] * np.cos(np.radians(35.68))))
    tags = what["category"]
    category = np.zeros((len(city.places), len(tags.words)))
    category[np.repeat(np.arange(len(category)), np.diff(tags.offsets)), tags.codes] = 1
    place = np.column_stack([category, what["price_level"].values, one_hot(what["district"].codes)])
    person = np.column_stack(
        [who["age"].values / 40, np.log1p(who["spending"].values), one_hot(who["gender"].codes),
         one_hot(who["hometown"].codes)]
    )  # fmt: skip
    return np.column_stack([np.log1p(clicks)[visits.place], distance, place[visits.place], person[visits.person]])


def home_district(city: Dataset) -> np.ndarray:
    nearest = cKDTree(city.places.location).query(city.people.location)[1]
    return city.places.columns["district"].codes[nearest][city.visits.person]


def fitted(X: np.ndarray, y: np.ndarray, train: np.ndarray) -> np.ndarray:
    return LogisticRegression(C=0.3, max_iter=300).fit(X[train], y[train]).decision_function(X)


@pytest.fixture(scope="module")
def scores() -> dict[str, float]:
    """Area under the curve on a fifth of the records."""
    rng = np.random.default_rng(0)
    city, truth = city_and_truth(CityPlan(), rng)
    y, train = city.visits.label > 0, rng.random(len(city.visits)) < 0.8
    X, district = features(city, train), home_district(city)
    by_district = np.zeros(len(y))
    for d in np.unique(district):
        own = district == d
        by_district[own] = fitted(X[own], y[own], train[own])
    models = {
        "popularity": X[:, 0],
        "with distance": fitted(X[:, :2], y, train),
        "global": fitted(X, y, train),
        "by district": by_district,
        "oracle": truth,
    }
    return {name: roc_auc_score(y[~train], score[~train]) for name, score in models.items()}


def test_popularity_alone_tells_something(scores: dict[str, float]) -> None:
    assert 0.6 < scores["popularity"] < 0.75


def test_distance_adds_to_popularity(scores: dict[str, float]) -> None:
    assert scores["with distance"] > scores["popularity"] + 0.01


def test_a_linear_model_for_each_district_beats_one_for_all(scores: dict[str, float]) -> None:
    assert scores["by district"] > scores["global"] + 0.02


def test_there_is_room_above_linear_models_and_no_certainty(scores: dict[str, float]) -> None:
    assert scores["by district"] + 0.03 < scores["oracle"] < 0.95


def test_spending_meets_price_and_age_meets_category() -> None:
    city, truth = city_and_truth(CityPlan(records=100_000), np.random.default_rng(1))
    who, what, visits = city.people.columns, city.places.columns, city.visits
    logit = np.log(truth / (1 - truth))
    spending = np.log(who["spending"].values)[visits.person]
    price = what["price_level"].values[visits.place]
    cheap, dear = (np.corrcoef(spending[price == level], logit[price == level])[0, 1] for level in (1, 4))
    assert cheap < -0.1
    assert dear > 0.1
    tags, age = what["category"], who["age"].values[visits.person]
    rows = np.repeat(np.arange(len(city.places)), np.diff(tags.offsets))
    for word, sign in (("arcade", -1), ("temple", 1)):
        shown = np.isin(visits.place, rows[tags.codes == tags.words.index(word)])
        assert sign * np.corrcoef(age[shown], logit[shown])[0, 1] > 0.05


def test_every_category_is_liked_in_one_district_and_disliked_in_another() -> None:
    taste = district_tastes(districts=12, categories=24, rng=np.random.default_rng(0))
    assert np.all(taste.max(axis=0) > 0)
    assert np.all(taste.min(axis=0) < 0)


def test_labels_follow_the_true_probability() -> None:
    city, truth = city_and_truth(CityPlan(), np.random.default_rng(5))
    clicked = city.visits.label > 0
    for low in (0.0, 0.1, 0.3, 0.6):
        inside = (truth >= low) & (truth < low + 0.2)
        error = np.sqrt(np.sum(truth[inside] * (1 - truth[inside]))) / inside.sum()
        assert abs(clicked[inside].mean() - truth[inside].mean()) < 5 * error


def test_the_intercept_gives_the_share_it_is_asked_for() -> None:
    logits = np.random.default_rng(0).normal(scale=3.0, size=1000)
    for share in (0.01, 0.25, 0.9):
        assert np.mean(1 / (1 + np.exp(-logits - intercept_for(logits, share)))) == pytest.approx(share)
