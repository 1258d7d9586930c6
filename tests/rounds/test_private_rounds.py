"""Rounds under a budget: models are measured from what their cohort opened last, and every opened sum is noisy.

The reference here is written from the definition of a round, with reals and no kernel; engines may differ from it by
the rounding of contributions only, which is far below the noise.
"""

from dataclasses import replace

import numpy as np
import pytest

from prirec.engines import plain
from prirec.engines.state import State
from prirec.engines.train import make_engine, start
from prirec.errors import StateError
from prirec.graph.cohorts import cohort_numbers
from prirec.protocols.terms import ring_codes
from prirec.rounds import definition
from prirec.rounds.definition import RoundRules, last_means, opens, participation, simulated_noise
from support import messages
from support.cities import SMALL_PRIVATE, SMALL_ROUNDS, change, same_bits, samples_of, small_city

BOTH = pytest.mark.parametrize("engine", ["plain", "local"])
CITY = small_city(people=130, places=8, records=500)
STILL = {"linear": {"alpha": 1e-300, "mixing": "fixed", "gamma": 0.25}}  # nobody learns: what is left is the mixing
SETTINGS = change(SMALL_PRIVATE, **STILL)
SAMPLES = samples_of(CITY, SETTINGS)
COHORT = cohort_numbers(SAMPLES, SETTINGS)
CODE = ring_codes(SAMPLES, SETTINGS).linear
SIZE = {"size": 50}  # cohorts as SETTINGS has them, without a budget
LONG = 50 / np.sqrt(SAMPLES.features + 1)  # of each entry: a mean that is 50 times as long as the clip


def begun(*, means: float = 0.0, apart: float = 0.1, iteration: int = 4) -> State:
    """Everybody stands around the cohort's last mean."""
    rng, state = np.random.default_rng(0), start(SAMPLES, SETTINGS)
    state.means = means * rng.choice([-1.0, 1.0], size=(COHORT.max() + 1, SAMPLES.features + 1))
    away = rng.normal(size=state.linear.shape)
    state.linear[:] = state.means[COHORT] + apart * away / np.linalg.norm(away, axis=1, keepdims=True)
    state.iteration = iteration
    return state


def advanced(engine: str, state: State, settings=SETTINGS) -> State:
    moved = replace(state, linear=state.linear.copy(), interaction=state.interaction.copy(), means=state.means.copy())
    make_engine(engine, SAMPLES, settings).advance(moved)
    return moved


def opened_in(state: State, settings) -> dict[int, tuple[np.ndarray, int]]:
    """The survivors of each cohort that opens, and how many were on its roster."""
    there, found = participation(SAMPLES.keys, state.iteration, settings), {}
    for cohort in range(COHORT.max() + 1):
        members = np.flatnonzero(there.present & (cohort == COHORT))
        rostered = int((there.online & (cohort == COHORT)).sum())
        if opens(len(members), rostered=rostered, settings=settings):
            found[cohort] = members, rostered
    return found


def reference(state: State, settings=SETTINGS) -> np.ndarray:
    """mean <- centre + (sum of clip(W_i - centre) + noise) / survivors, for each cohort that opens."""
    means = state.means.copy()
    for cohort, (members, rostered) in opened_in(state, settings).items():
        away = state.linear[members] - state.means[cohort]
        away *= np.minimum(1, CODE.clip / np.linalg.norm(away, axis=1, keepdims=True))
        where = ("linear", state.iteration, cohort)
        added = simulated_noise(
            CODE.noise, away.shape[1], rostered=rostered, survivors=len(members), settings=settings, where=where
        ).view(np.int64)  # fmt: skip
        means[cohort] += (away.sum(axis=0) + added / CODE.ring.scale) / len(members)
    return means


def assert_as_defined(engine: str, state: State, settings=SETTINGS) -> None:
    moved, means = advanced(engine, state, settings), reference(state, settings)
    close = 1.5 / CODE.ring.scale  # rounding, and at most a unit for the norm
    np.testing.assert_allclose(moved.means, means, rtol=0, atol=close)
    there, opened = participation(SAMPLES.keys, state.iteration, settings).present, opened_in(state, settings)
    mixing = there & np.isin(COHORT, list(opened))
    expected = np.where(mixing[:, None], 0.75 * state.linear + 0.25 * means[COHORT], state.linear)
    np.testing.assert_allclose(moved.linear, expected, rtol=0, atol=close)


ROUNDS = {
    "near the centre": ({}, {}),
    "a centre far from zero": ({"means": LONG}, {}),
    "further from it than the clip": ({"means": LONG, "apart": 30.0}, {}),
    "some are lost": ({"means": LONG}, {"participation": {"online": 0.95, "dropout": 0.2}}),
}


@BOTH
@pytest.mark.parametrize(("began", "changes"), ROUNDS.values(), ids=ROUNDS)
def test_a_cohorts_mean_is_its_centre_and_the_noisy_mean_of_how_far_models_are_from_it(engine, began, changes):
    settings = change(SETTINGS, **changes)
    assert opened_in(begun(**began), settings)
    assert_as_defined(engine, begun(**began), settings)


def test_the_reference_is_finer_than_a_hundredth_of_the_noise():
    """What assert_as_defined tells apart is far below the noise in a mean."""
    noise_of_mean = np.sqrt(CODE.noise) / CODE.ring.scale / 65
    assert 1.5 / CODE.ring.scale < noise_of_mean / 100


# Mistakes, planted


def silent(wanted: int, count: int, **where: object) -> np.ndarray:
    return np.zeros(count, dtype=np.uint64)


def stale(wanted: int, count: int, *, where: tuple, **rest: object) -> np.ndarray:
    return simulated_noise(wanted, count, where=(where[0], 0, *where[2:]), **rest)


def shared(wanted: int, count: int, *, where: tuple, **rest: object) -> np.ndarray:
    return simulated_noise(wanted, count, where=where[:2], **rest)


HOMES = {"plain": (plain, plain.Rounds), "local": (definition, RoundRules)}  # of each engine's noise and centres
MISTAKES = {"no noise": silent, "the noise of an earlier round": stale, "the noise of another cohort": shared}


@BOTH
@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_noise_that_is_missing_or_not_fresh_would_be_noticed(engine, mistake, monkeypatch):
    monkeypatch.setattr(HOMES[engine][0], "simulated_noise", mistake)
    with pytest.raises(AssertionError):
        assert_as_defined(engine, begun())


@BOTH
def test_a_centre_that_is_forgotten_would_be_noticed(engine, monkeypatch):
    right = HOMES[engine][1].centres
    monkeypatch.setattr(HOMES[engine][1], "centres", lambda rules, state: np.zeros_like(right(rules, state)))
    with pytest.raises(AssertionError):
        assert_as_defined(engine, begun(means=LONG))


@BOTH
def test_a_centre_that_is_not_added_back_would_be_noticed(engine):
    """The difference alone is never longer than the clip and the noise; the mean is."""
    moved = advanced(engine, begun(means=LONG))
    assert (np.linalg.norm(moved.means, axis=1) > 45).all()


# What is kept, and for whom

SOME_STAY_CLOSED = change(SETTINGS, participation={"online": 0.78, "dropout": 0.05})


def half_opened() -> State:
    """A round in which one cohort opens and another does not."""
    for iteration in range(200):
        state = begun(means=LONG, iteration=iteration)
        if 0 < len(opened_in(state, SOME_STAY_CLOSED)) <= COHORT.max():
            return state
    raise AssertionError("no such round")


@BOTH
def test_a_cohort_that_opens_nothing_keeps_its_mean_and_nobody_in_it_mixes(engine):
    state = half_opened()
    opened = np.isin(np.arange(COHORT.max() + 1), list(opened_in(state, SOME_STAY_CLOSED)))
    moved = advanced(engine, state, SOME_STAY_CLOSED)
    assert same_bits(moved.means[~opened], state.means[~opened])
    assert (moved.means[opened] != state.means[opened]).all()
    np.testing.assert_allclose(moved.linear[~opened[COHORT]], state.linear[~opened[COHORT]], atol=1e-12)
    assert_as_defined(engine, state, SOME_STAY_CLOSED)


@BOTH
def test_a_device_that_was_offline_contributes_its_difference_from_the_opened_mean_too(engine):
    """Noisy means are public: contributions of a cohort have one centre, whoever was there when it was made."""
    state = half_opened()
    assert_as_defined(engine, advanced(engine, state, SOME_STAY_CLOSED), SOME_STAY_CLOSED)


@BOTH
def test_a_model_equal_to_the_centre_contributes_zero(engine):
    moved, state = advanced(engine, begun(apart=1e-9)), begun(apart=1e-9)
    for cohort in range(COHORT.max() + 1):
        members = int((cohort == COHORT).sum())
        added = simulated_noise(
            CODE.noise, SAMPLES.features + 1, rostered=members, survivors=members, settings=SETTINGS,
            where=("linear", 4, cohort),
        ).view(np.int64)  # fmt: skip
        assert moved.means[cohort].tolist() == (state.means[cohort] + added / CODE.ring.scale / members).tolist()


@BOTH
def test_without_noise_the_centre_is_zero_whatever_was_opened_before(engine):
    settings = change(SMALL_ROUNDS, neighbours=SIZE)
    state = begun()
    other = replace(state, means=state.means + 3.0)
    moved, again = advanced(engine, state, settings), advanced(engine, other, settings)
    assert same_bits(moved.linear, again.linear)
    assert same_bits(moved.means, again.means)
    for cohort in range(COHORT.max() + 1):
        np.testing.assert_allclose(moved.means[cohort], state.linear[cohort == COHORT].mean(axis=0), atol=1e-6)


def centres_of(engine: str, state: State, settings=SETTINGS) -> np.ndarray:
    if engine == "plain":
        return make_engine("plain", SAMPLES, settings).centres(state)
    state.means = last_means(state.means, cohorts=int(COHORT.max()) + 1, features=SAMPLES.features)
    return RoundRules.of(SAMPLES, settings).centres(state.means)


@BOTH
def test_centres_begin_at_zero_and_are_refused_if_they_are_of_other_cohorts(engine):
    state, cohorts, quiet = start(SAMPLES, SETTINGS), int(COHORT.max()) + 1, change(SMALL_ROUNDS, neighbours=SIZE)
    assert state.means.shape == (0, SAMPLES.features + 1)
    assert not centres_of(engine, state).any()
    assert state.means.shape == (cohorts, SAMPLES.features + 1)
    state.means[:] = 7.0
    assert (centres_of(engine, state) == 7.0).all()
    assert not centres_of(engine, state, quiet).any()
    assert (state.means == 7.0).all()
    for wrong in (np.ones((cohorts + 1, SAMPLES.features + 1)), np.ones((cohorts, SAMPLES.features))):
        with pytest.raises(StateError, match=messages.MEANS_OF_ANOTHER_SIZE):
            centres_of(engine, replace(state, means=wrong))
        with pytest.raises(StateError, match=messages.MEANS_OF_ANOTHER_SIZE):
            advanced(engine, replace(state, means=wrong))


# V


@BOTH
def test_the_step_of_v_is_noisy_and_its_noise_is_that_of_this_round(engine, monkeypatch):
    home, state = HOMES[engine][0], begun()
    noisy, code = advanced(engine, state), ring_codes(SAMPLES, SETTINGS).interaction

    def without(wanted, count, *, where, **rest):
        quiet = np.zeros(count, dtype=np.uint64)
        return quiet if where[0] == "interaction" else simulated_noise(wanted, count, where=where, **rest)

    monkeypatch.setattr(home, "simulated_noise", without)
    bare = advanced(engine, state)
    added = simulated_noise(
        code.noise, state.interaction.size, rostered=130, survivors=130, settings=SETTINGS, where=("interaction", 4)
    ).view(np.int64)  # fmt: skip
    found = (noisy.moments.first - bare.moments.first) * 10 * 130 * code.ring.scale  # Adam keeps a tenth
    np.testing.assert_allclose(found.T.ravel(), added, atol=1e-3)
    assert same_bits(noisy.linear, bare.linear)
    assert not same_bits(noisy.interaction, bare.interaction)
