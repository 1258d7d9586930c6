"""A latent vector on each device and public factors of places: who moves them, and what they can learn."""

from dataclasses import replace

import numpy as np
import pytest

from prirec.config import Settings
from prirec.engines.state import State, fits
from prirec.engines.train import make_engine, start, train
from prirec.features.samples import Samples
from prirec.metrics import auc
from prirec.model import as_printed, public_half
from prirec.model.local_step import Latent
from prirec.model.scoring import Models, scores
from prirec.rounds.definition import participation
from support.cities import SMALL_ROUNDS, after, change, same_bits, same_state, samples_of, small_city, with_idle_people

CITY = with_idle_people(small_city(people=60, places=12, records=300), every=5)
BOTH = pytest.mark.parametrize("engine", ["plain", "local"])
SETTINGS = change(SMALL_ROUNDS, latent={"dimension": 3}, neighbours={"size": 40}, sums={"lost": 0.9})
LOSSES = {"online": 0.8, "dropout": 0.5}


def begun(settings: Settings) -> tuple[Samples, State]:
    """Samples, and a state with a vector for each person."""
    samples = samples_of(CITY, settings)
    state = start(samples, settings)
    latent_of(state).vectors[:] = np.random.default_rng(0).normal(size=(len(samples.ids), settings.latent.dimension))
    return samples, state


def latent_of(state: State) -> Latent:
    assert state.latent is not None
    return state.latent


def advanced(engine: str, samples: Samples, state: State, settings: Settings) -> State:
    moved = state.copy()
    make_engine(engine, samples, settings).advance(moved)
    return moved


def test_vectors_start_at_0_and_factors_at_random_from_the_seed():
    samples = samples_of(CITY, SETTINGS)
    latent, again = latent_of(start(samples, SETTINGS)), latent_of(start(samples, SETTINGS))
    other = latent_of(start(samples, change(SETTINGS, seed=1)))
    assert not latent.vectors.any()
    assert latent.factors.shape == (len(samples.places), 3)
    assert same_bits(latent.factors, again.factors)
    assert not np.allclose(latent.factors, other.factors)
    many = latent_of(start(samples, change(SETTINGS, latent={"dimension": 256}))).factors
    assert many.std() == pytest.approx(SETTINGS.latent.spread, rel=0.1)


@BOTH
def test_a_latent_part_that_is_off_changes_nothing_whatever_else_it_says(engine):
    plain = change(SETTINGS, latent={"dimension": 0})
    samples = samples_of(CITY, plain)
    found = after(engine, samples, plain, iterations=2)
    assert found.latent is None
    assert same_state(found, after(engine, samples, change(plain, latent={"alpha": 9.0, "weight": 7.0}), iterations=2))


@BOTH
def test_a_vector_is_moved_by_its_own_device_alone(engine):
    """Whatever everybody else has recorded: W is mixed with theirs in the same round, u is not."""
    samples, state = begun(SETTINGS)
    one = int(np.flatnonzero(samples.train.counts() > 2)[0])
    others = samples.train.person != one
    flipped = replace(samples.train, label=np.where(others, -samples.train.label, samples.train.label))
    settings = change(SETTINGS, linear={"mixing": "fixed", "gamma": 0.0})
    mine = advanced(engine, samples, state, settings)
    theirs = advanced(engine, replace(samples, train=flipped), state, settings)
    moved, moved_too = latent_of(mine).vectors, latent_of(theirs).vectors
    assert same_bits(moved[one], moved_too[one])
    assert not same_bits(moved[one], latent_of(state).vectors[one])
    assert not same_bits(moved, moved_too)
    assert not same_bits(latent_of(mine).factors, latent_of(theirs).factors)


@BOTH
def test_vectors_are_in_no_cohorts_sum(engine):
    samples, state = begun(SETTINGS)
    other = state.copy()
    latent_of(other).vectors[:] *= -1
    means = [advanced(engine, samples, one, SETTINGS).means for one in (state, other)]
    assert same_bits(*means)
    assert means[0].shape[1] == samples.features + 1


@BOTH
def test_factors_take_one_step_of_adam_on_the_mean_of_clipped_contributions(engine):
    """Worked out person by person from what is printed, with the gradient of V in the same clip."""
    settings = change(SETTINGS, linear={"mixing": "fixed", "gamma": 0.0}, latent={"weight": 0.7})
    samples, state = begun(settings)
    plain = make_engine("plain", samples, settings)
    shared, wide = plain.shared(state.models), state.interaction.size
    copy = state.copy()
    made = [plain.learn(*copy.models.of(i), shared, i, 0)[0][wide:] for i in range(len(samples.ids))]
    P = latent_of(state).factors
    gradient = np.mean(made, axis=0).reshape(P.shape) / 0.7
    wanted, moments = public_half.adam_step(P, gradient, state.factor_moments, alpha=settings.latent.pace)
    moved = advanced(engine, samples, state, settings)
    known = np.abs(gradient) > 1e-3  # elsewhere a first step of Adam makes much of how a contribution is rounded
    assert known.any()
    np.testing.assert_allclose(latent_of(moved).factors[known], wanted[known], rtol=1e-3)
    np.testing.assert_allclose(moved.factor_moments.first, moments.first, rtol=1e-4, atol=1e-7)
    unseen = np.setdiff1d(np.arange(len(P)), samples.train.place)
    assert same_bits(latent_of(moved).factors[unseen], P[unseen])


@BOTH
def test_below_the_floor_vectors_are_learnt_and_factors_stay(engine):
    settings = change(SETTINGS, floor=59, participation={"online": 0.6})
    samples, state = begun(settings)
    moved = advanced(engine, samples, state, settings)
    assert same_bits(latent_of(moved).factors, latent_of(state).factors)
    assert moved.factor_moments.steps == 0
    assert (latent_of(moved).vectors != latent_of(state).vectors).any()


@BOTH
def test_offline_devices_keep_their_vector_and_devices_lost_late_have_learnt(engine):
    settings = change(SETTINGS, participation=LOSSES)
    samples, state = begun(settings)
    there, records = participation(samples.keys, 0, settings), samples.train.counts() > 0
    late = there.present & ~there.counted & records
    assert late.any()
    moved = advanced(engine, samples, state, settings)
    before, now = latent_of(state).vectors, latent_of(moved).vectors
    assert same_bits(now[~there.present], before[~there.present])
    assert (now[late] != before[late]).any(axis=1).all()
    samples.train.label[np.isin(samples.train.person, np.flatnonzero(late))] *= -1
    other = advanced(engine, samples, state, settings)
    assert same_bits(latent_of(other).factors, latent_of(moved).factors)


def test_scores_have_the_latent_part_of_the_records_person_and_place():
    samples, rng = samples_of(CITY, SETTINGS), np.random.default_rng(0)
    W, V = rng.normal(size=(len(samples.ids), samples.features + 1)), rng.normal(size=(samples.features, 2))
    latent = Latent(rng.normal(size=(len(samples.ids), 3)), rng.normal(size=(len(samples.places), 3)))
    flat, found = (scores(Models(W, V, one), samples, samples.test) for one in (None, latent))
    for row in range(len(samples.test)):
        u, p = latent.vectors[samples.test.person[row]], latent.factors[samples.test.place[row]]
        assert found[row] == pytest.approx(as_printed.latent_score(flat[row], u, p), rel=1e-12)


def test_a_latent_part_finds_what_people_like_where_features_say_nothing():
    """Half of the people like half of the places and the rest the rest, and nothing else tells them apart."""
    settings = change(SMALL_ROUNDS, iterations=40, latent={"dimension": 2, "lambda_u": 0.01, "lambda_p": 0.01})
    samples = samples_of(small_city(people=120, places=16, records=4000), settings)
    alike = [(records.person + records.place) % 2 == 0 for records in (samples.train, samples.test)]
    samples.train.label[:], samples.test.label[:] = (np.where(one, 1, -1) for one in alike)
    plain = change(settings, latent={"dimension": 0})
    with_it, without = (
        auc(samples.test.label, scores(train(samples, one).state.models, samples, samples.test))
        for one in (settings, plain)
    )
    assert with_it > 0.95
    assert without < 0.8


@pytest.mark.parametrize(
    "spoil",
    [
        lambda latent: None,
        lambda latent: latent._replace(vectors=latent.vectors[1:].copy()),
        lambda latent: latent._replace(factors=latent.factors[:, 1:].copy()),
        lambda latent: latent._replace(factors=np.full_like(latent.factors, np.nan)),
        lambda latent: latent._replace(vectors=latent.vectors.astype(np.float32)),
    ],
    ids=["none", "too few people", "too narrow", "nan", "another kind"],
)
def test_a_latent_part_of_another_size_or_kind_does_not_fit(spoil):
    samples, state = begun(SETTINGS)
    assert fits(state.models, samples, SETTINGS)
    state.latent = spoil(latent_of(state))
    assert not fits(state.models, samples, SETTINGS)


def test_a_latent_part_that_settings_do_not_ask_for_does_not_fit():
    samples, state = begun(SETTINGS)
    assert not fits(state.models, samples, change(SETTINGS, latent={"dimension": 0}))
