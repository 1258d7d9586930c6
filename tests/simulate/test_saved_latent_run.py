"""A run with a latent part: saved, opened again, on data that have grown, and asked for places with reasons."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from prirec.data.dataset import Dataset, take
from prirec.errors import StateError, UsageError
from prirec.model.local_step import Latent
from prirec.model.scoring import Models, scores
from prirec.protocols import prediction
from prirec.simulate.recommend import Advisor
from prirec.simulate.saved_runs import LATENT, Run, load_run, save_run, set_up_again, set_up_later, to_run
from prirec.simulate.setup import quality, run, set_up
from support import messages
from support.cities import SMALL_ROUNDS, change, same_bits, small_city

SETTINGS = change(SMALL_ROUNDS, floor=50, neighbours={"size": 50}, latent={"dimension": 3}, iterations=8)
CITY: Dataset = small_city(people=60, places=10, records=600)
OUTCOME = run(set_up(CITY, SETTINGS))
SAVED: Run = to_run(OUTCOME, "a small city")
TAUGHT = OUTCOME.trained.state.latent
assert TAUGHT is not None


def with_a_new_person_and_place() -> Dataset:
    """Both stand first, so that every row moves on by one."""
    people, places = CITY.people, CITY.places
    twice = {"people": np.r_[0, 0 : len(people.ids)], "places": np.r_[0, 0 : len(places.ids)]}
    return replace(
        CITY,
        people=replace(
            people, ids=("newcomer", *people.ids), location=people.location[twice["people"]],
            columns={name: take(column, twice["people"]) for name, column in people.columns.items()},
        ),
        places=replace(
            places, ids=("new place", *places.ids), location=places.location[twice["places"]],
            columns={name: take(column, twice["places"]) for name, column in places.columns.items()},
        ),
        visits=replace(CITY.visits, person=CITY.visits.person + np.int32(1), place=CITY.visits.place + np.int32(1)),
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_run(tmp_path / "run", SAVED)
    return tmp_path / "run"


def test_a_latent_part_comes_back_as_it_was_saved(folder):
    back = load_run(folder)
    assert all((folder / name).exists() for name in LATENT)
    assert back.latent is not None
    assert all(same_bits(one, other) for one, other in zip(back.latent, TAUGHT, strict=True))
    assert quality(set_up_again(CITY, back).samples, back.models) == OUTCOME.quality


@pytest.mark.parametrize("name", LATENT)
def test_a_run_that_has_lost_half_of_its_latent_part_is_refused(folder, name):
    (folder / name).unlink()
    with pytest.raises(StateError, match=messages.run_has_lost(name)):
        load_run(folder)


@pytest.mark.parametrize("name", LATENT)
def test_a_tampered_latent_part_is_noticed(folder, name):
    data = bytearray((folder / name).read_bytes())
    data[-1] ^= 1
    (folder / name).write_bytes(data)
    with pytest.raises(StateError, match=messages.run_file_damaged(name)):
        load_run(folder)


@pytest.mark.parametrize("open_again", [set_up_again, set_up_later])
@pytest.mark.parametrize(
    "spoilt",
    [None, TAUGHT._replace(vectors=TAUGHT.vectors[1:]), TAUGHT._replace(factors=TAUGHT.factors[1:])],
    ids=["none", "a person too few", "a place too few"],
)
def test_a_latent_part_that_does_not_fit_the_run_is_refused(open_again, spoilt):
    with pytest.raises(StateError, match=messages.any_of(messages.MODELS_OF_ANOTHER_SIZE, messages.MODELS_NOT_AS_MANY)):
        open_again(CITY, replace(SAVED, latent=spoilt))


def test_on_data_that_have_grown_everyone_and_every_place_keep_theirs_and_what_is_new_has_none():
    setup, models = set_up_later(with_a_new_person_and_place(), SAVED)
    assert models.latent is not None
    vectors, factors = models.latent
    before, places = OUTCOME.setup.samples, setup.prepared.dataset.places.ids
    for name in CITY.people.ids:
        assert same_bits(vectors[setup.samples.ids.index(name)], TAUGHT.vectors[before.ids.index(name)])
    for at, name in enumerate(OUTCOME.setup.prepared.dataset.places.ids):
        assert same_bits(factors[places.index(name)], TAUGHT.factors[at])
    assert not vectors[setup.samples.ids.index("newcomer")].any()
    assert not factors[places.index("new place")].any()


# Recommendations


def told(person: int, *, latent: Latent | None) -> tuple[np.ndarray, dict[int, dict[str, float]]]:
    """Scores of all places by the code that a device runs, and the reasons given for each."""
    advisor = Advisor.of(OUTCOME.setup, replace(OUTCOME.trained.state.models, latent=latent))
    everywhere = np.arange(len(CITY.places.ids), dtype=np.int32)
    context, _ = advisor.context(person, everywhere, prediction.Moment())
    found = advisor.recommend(person, k=10, radius_km=1000.0)
    reasons = {one.place_row: {reason.name: reason.pull for reason in one.reasons} for one in found}
    return advisor.scores(person, everywhere, context), reasons


def test_a_recommendation_scores_with_the_latent_part():
    plain, _ = told(3, latent=None)
    found, _ = told(3, latent=TAUGHT)
    np.testing.assert_allclose(found - plain, TAUGHT.factors @ TAUGHT.vectors[3], rtol=1e-9, atol=1e-12)


def test_the_latent_part_is_a_reason_of_its_own_and_says_by_how_much():
    strong = TAUGHT._replace(vectors=100 * TAUGHT.vectors)
    pulls = strong.factors @ strong.vectors[3]
    _, reasons = told(3, latent=strong)
    shown = {row: one[prediction.LATENT] for row, one in reasons.items() if prediction.LATENT in one}
    assert shown
    for row, pull in shown.items():
        assert pull == pytest.approx(pulls[row] - pulls.mean())


def test_without_a_latent_part_it_is_no_reason():
    for person in range(20):
        assert all(prediction.LATENT not in one for one in told(person, latent=None)[1].values())


def test_a_newcomer_is_recommended_what_features_say():
    setup, models = set_up_later(with_a_new_person_and_place(), SAVED)
    new = setup.samples.ids.index("newcomer")
    everywhere = np.arange(len(setup.prepared.dataset.places.ids), dtype=np.int32)
    answers = []
    for one in (models, replace(models, latent=None)):
        advisor = Advisor.of(setup, one)
        context, _ = advisor.context(new, everywhere, prediction.Moment())
        answers.append(advisor.scores(new, everywhere, context))
    assert same_bits(*answers)


def test_a_vector_and_factors_of_other_lengths_are_refused():
    advisor = Advisor.of(OUTCOME.setup, OUTCOME.trained.state.models)
    short = replace(advisor.person_state(3), latent=np.zeros(2))
    with pytest.raises(UsageError, match=messages.VECTORS_OF_DIFFERENT_LENGTHS):
        advisor.predictor.recommend(short)


def test_a_candidate_and_a_test_record_have_the_same_latent_part():
    samples, state = OUTCOME.setup.samples, OUTCOME.trained.state
    flat, found = (
        scores(one, samples, samples.test) for one in (Models(state.linear, state.interaction), state.models)
    )
    for row in range(0, len(samples.test), 9):
        person, place = int(samples.test.person[row]), samples.test.place[row : row + 1]
        advisor = Advisor.of(OUTCOME.setup, state.models)
        assert found[row] - flat[row] == pytest.approx(
            advisor.predictor.affinity(advisor.person_state(person), place)[0]
        )
