"""Scores of the shared model, and what features of a person add to them, beside b worked out column by column."""

import numpy as np
import pytest

from prirec.features.columns import LARGEST, moment_rows, person_rows, product_columns
from prirec.model.scoring import own_model
from prirec.model.shared_model import rounded_base
from prirec.protocols.prediction import PersonState, SharedScorer
from support.cities import SMALL_PRIVATE, change
from support.device_city import Town, town


@pytest.fixture(scope="module", params=["as usual", "own history"])
def here(request: pytest.FixtureRequest) -> Town:
    return town(settings=change(SMALL_PRIVATE, features={"own_history": request.param == "own history", "areas": 4}))


@pytest.fixture
def scorer(here: Town) -> SharedScorer:
    models, samples = here.trained[1], here.setup.samples
    return SharedScorer.of(models.shared, models.moments, samples.columns, samples.catalogue)


def person(here: Town, i: int) -> PersonState:
    none = np.empty(0, dtype=np.int32)
    samples = here.setup.samples
    return PersonState(samples.people[i], own_model(here.trained[1], samples, i), None, none)


def some(here: Town) -> tuple[np.ndarray, np.ndarray]:
    """Places, and a moment at each of them."""
    train, columns = here.setup.samples.train, here.setup.samples.columns
    return train.place[:30], np.ascontiguousarray(train.context[:30, columns.popularity :])


def columns_of(here: Town, places: np.ndarray, context: np.ndarray) -> np.ndarray:
    """b (M, width), column by column."""
    samples, (moments, words) = here.setup.samples, here.campaign.scaling
    columns, layout = samples.columns, samples.columns.layout
    b = np.zeros((len(places), layout.width))
    b[:, 0] = 1.0
    static = samples.places[places].astype(np.float64)
    for word in columns.place_words.tolist():
        b[:, word + 1] = static[:, word] * words.factor[word + 1] - words.centre[word + 1]
    for column in layout.dense[: layout.place_numbers].tolist():
        b[:, column] = np.rint(static[:, column - 1] * 256) / 256
    whole = np.hstack([samples.popularity[places], context])
    b[:, layout.dense[layout.place_numbers :]] = moment_rows(whole, columns, moments)
    clock = set(layout.dense[layout.clock].tolist())
    for at, (first, second) in enumerate(product_columns(layout), start=layout.core):
        if first in clock:
            b[:, at] = b[:, first] * static[:, second - 1] * words.factor[second]
        else:
            product = np.clip(b[:, first], -LARGEST, LARGEST) * np.clip(b[:, second], -LARGEST, LARGEST)
            b[:, at] = (product - 1) / 2 if first == second else product
    return b


def test_a_score_is_the_base_and_the_persons_coefficients_times_the_columns(here: Town, scorer: SharedScorer) -> None:
    places, context = some(here)
    b, base = columns_of(here, places, context), rounded_base(here.trained[1].moments.positive)
    for i in (0, 7, 31):
        expected = base + b @ person(here, i).model
        assert scorer.scores(person(here, i), places, context) == pytest.approx(expected, abs=1e-9)


def test_half_of_what_a_column_of_the_person_adds_to_one_of_the_place_counts_for_the_person(
    here: Town, scorer: SharedScorer
) -> None:
    places, context = some(here)
    b, me = columns_of(here, places, context), person(here, 7)
    who = person_rows(me.features[None], here.trained[1].moments)[0]
    layout, B = scorer.columns.layout, here.trained[0].estimate.B
    found = scorer.contributions(me, places, context)
    for k in range(scorer.columns.person):
        expected = 0.5 * who[1 + k] * b[:, layout.crossed] @ B[1 + k, layout.crossed]
        assert found[:, k] == pytest.approx(expected, abs=1e-9)
