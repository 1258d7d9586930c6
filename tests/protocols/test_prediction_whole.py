"""Algorithm 3 from end to end under both models, by the code that a device runs, beside the scores of a simulation."""

from dataclasses import replace

import numpy as np
import pytest

from prirec.errors import UsageError
from prirec.features.encoding import Encoding, Log
from prirec.features.samples import Samples
from prirec.model.scoring import scores
from prirec.protocols.prediction import FactorizationScorer, Moment, PersonState, Predictor
from prirec.simulate.recommend import Advisor
from prirec.simulate.setup import Outcome, run, set_up
from support import messages
from support.cities import SMALL_PAPER, SMALL_ROUNDS, change, small_city

CITY = small_city()
HISTORY = change(SMALL_ROUNDS, features={"own_history": True, "areas": 4})
OUTCOMES: dict[str, Outcome] = {
    name: run(set_up(CITY, settings))
    for name, settings in {"shared": SMALL_ROUNDS, "history and areas": HISTORY, "Eq. (1)": SMALL_PAPER}.items()
}
UNDER_EACH = pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=OUTCOMES)


def moment_of(samples: Samples, row: int) -> np.ndarray:
    """The context of a record without the popularity, which a device has from its catalogue."""
    return samples.test.context[row : row + 1, samples.popularity.shape[1] :]


@UNDER_EACH
def test_a_device_scores_a_place_as_the_simulation_scores_a_record_of_it(outcome):
    samples, advisor = outcome.setup.samples, Advisor.of(outcome.setup, outcome.trained.models)
    test, found = samples.test, scores(outcome.trained.models, samples, samples.test)
    compared = 0
    for row in range(0, len(test), 7):
        place = test.place[row : row + 1]
        if not np.array_equal(test.context[row, : samples.popularity.shape[1]], samples.popularity[place[0]]):
            continue  # that the person was here is left out of what the record sees
        own = advisor.scores(int(test.person[row]), place, moment_of(samples, row))
        assert own[0] == pytest.approx(found[row], abs=1e-9)
        compared += 1
    assert compared > 10


@UNDER_EACH
def test_contributions_and_what_all_places_have_in_common_add_up_to_the_score(outcome):
    advisor, everywhere = Advisor.of(outcome.setup, outcome.trained.models), np.arange(40, dtype=np.int32)
    for person in (0, 71, 149):
        state, moment = advisor.person_state(person), Moment(time=1_700_000_000)
        context, _ = advisor.context(person, everywhere, moment)
        parts = advisor.predictor.scorer.contributions(state, everywhere, context)
        assert parts.shape == (40, outcome.setup.samples.features)
        rest = advisor.scores(person, everywhere, context) - parts.sum(axis=1)
        np.testing.assert_allclose(rest, rest[0], atol=1e-9)


@UNDER_EACH
def test_places_come_by_their_scores_with_reasons_that_pull_the_way_they_say(outcome):
    advisor = Advisor.of(outcome.setup, outcome.trained.models)
    found = advisor.recommend(3, k=5, radius_km=1000.0)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert len(found) == 5
    assert all(one.reasons for one in found)
    assert not {one.place_row for one in found} & set(advisor.visited(3).tolist())


def test_what_a_person_alone_has_learnt_decides_between_places():
    """The own model is all that differs: a taste for one word lifts the places that have it."""
    outcome = OUTCOMES["shared"]
    advisor, samples = Advisor.of(outcome.setup, outcome.trained.models), outcome.setup.samples
    word = int(samples.columns.place_words[0])
    fond = advisor.person_state(3).model.copy()
    fond[1 + word] += 5.0
    state = replace(advisor.person_state(3), model=fond)
    found = advisor.predictor.recommend(state, k=3, radius_km=1000.0)
    assert all(samples.places[one.place_row, word] == 1.0 for one in found)


def test_coefficients_of_another_length_are_refused():
    advisor = Advisor.of(OUTCOMES["shared"].setup, OUTCOMES["shared"].trained.models)
    short = replace(advisor.person_state(3), model=advisor.person_state(3).model[:-1])
    with pytest.raises(UsageError, match=messages.COEFFICIENTS_OF_ANOTHER_LENGTH):
        advisor.predictor.recommend(short)


def test_places_that_features_cannot_tell_apart_have_equal_scores_and_no_reasons():
    places, encoding = np.ones((4, 1), dtype=np.float32), Encoding(popularity=(Log(column="visits"),))
    scorer = FactorizationScorer.of(encoding, np.full((1, 2), 0.1), places)
    predictor = Predictor.of(encoding, scorer, places=places, location=None)
    nothing = np.empty(0, dtype=np.float32)
    person = PersonState(nothing, np.array([0.5, 1.0]), None, np.empty(0, dtype=np.int32))
    found = predictor.recommend(person, k=4)
    assert [one.score for one in found] == pytest.approx([1.5] * 4)
    assert [one.place_row for one in found] == [0, 1, 2, 3]
    assert not any(one.reasons for one in found)
