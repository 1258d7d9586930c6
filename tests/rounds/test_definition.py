"""What a round opens, who moves, and who takes how much from whom; for the oracle and the fast engine alike."""

import time

import numpy as np
import pytest

from prirec.config import Settings
from prirec.engines.state import State
from prirec.engines.train import make_engine, start
from prirec.graph.cohorts import cohort_numbers
from prirec.rounds.definition import mixing_weights, participation
from support import messages
from support.cities import SMALL_ROUNDS, after, change, same_bits, samples_of, small_city, with_idle_people

CITY = with_idle_people(small_city(people=60, places=12, records=300), every=5)
BOTH = pytest.mark.parametrize("engine", ["plain", "local"])
ANY_LOSS = {"lost": 0.9}
ONE_COHORT = change(SMALL_ROUNDS, neighbours={"size": 40}, sums=ANY_LOSS)
LOSSES = {"online": 0.8, "dropout": 0.5}


def begun(settings: Settings, *, long: float = 1.0) -> tuple:
    """Samples and a state whose linear models differ from person to person."""
    samples = samples_of(CITY, settings)
    state = start(samples, settings)
    state.linear[:] = long * np.random.default_rng(0).normal(size=state.linear.shape)
    return samples, state


def advanced(engine: str, samples, state: State, settings: Settings) -> tuple[State, object]:
    moved = state.copy()
    return moved, make_engine(engine, samples, settings).advance(moved)


def opened_mean(state: State, settings: Settings, members: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(state.linear[members], axis=1, keepdims=True)
    return (state.linear[members] * np.minimum(1, settings.linear.clip / length)).mean(axis=0)


@BOTH
def test_below_the_floor_nothing_opens_and_everyone_learns_alone(engine):
    settings = change(ONE_COHORT, floor=59, participation={"online": 0.6})
    samples, state = begun(settings)
    moved, passed = advanced(engine, samples, state, settings)
    alone, _ = advanced(engine, samples, state, change(settings, linear={"mixing": "fixed", "gamma": 0.0}))
    assert 0 < passed.in_sum < 59
    assert passed.cohorts_opened == 0
    assert same_bits(moved.interaction, state.interaction)
    assert moved.moments.steps == 0
    assert same_bits(moved.linear, alone.linear)
    assert (moved.linear != state.linear).any()


@BOTH
def test_a_sum_opens_at_the_floor_exactly(engine):
    settings = change(ONE_COHORT, participation=LOSSES)
    samples, state = begun(settings)
    there = participation(samples.keys, 0, settings)
    counted, present = int(there.counted.sum()), int(there.present.sum())
    assert counted < present
    for floor, cohorts, steps in ((counted, 1, 1), (counted + 1, 1, 0), (present, 1, 0), (present + 1, 0, 0)):
        moved, passed = advanced(engine, samples, state, change(settings, floor=floor))
        assert (passed.cohorts_opened, moved.moments.steps) == (cohorts, steps)
        assert same_bits(moved.interaction, state.interaction) == (steps == 0)


@BOTH
def test_a_sum_that_lost_more_of_its_roster_than_is_tolerated_stays_closed(engine):
    settings = change(ONE_COHORT, participation=LOSSES)
    samples, state = begun(settings)
    there = participation(samples.keys, 0, settings)
    online, present, counted = (int(who.sum()) for who in there)
    assert settings.floor < counted < present < online
    outcomes = set()
    for percent in range(60):
        moved, passed = advanced(engine, samples, state, change(settings, sums={"lost": percent / 100}))
        mixes, moves = (100 * (was - left) <= percent * was for was, left in ((online, present), (present, counted)))
        assert (passed.cohorts_opened, passed.opened, moved.moments.steps) == (int(mixes), moves, int(moves))
        outcomes.add((mixes, moves))
    assert len(outcomes) == 3


@BOTH
def test_a_device_lost_before_mixing_keeps_its_model(engine):
    settings = change(ONE_COHORT, participation=LOSSES)
    samples, state = begun(settings)
    there = participation(samples.keys, 0, settings)
    moved, passed = advanced(engine, samples, state, settings)
    assert same_bits(moved.linear[~there.present], state.linear[~there.present])
    assert (moved.linear[there.present] != state.linear[there.present]).any(axis=1).all()
    assert (passed.took_part, passed.in_sum) == (there.present.sum(), there.counted.sum())


@BOTH
def test_a_device_lost_after_the_local_step_has_learnt_but_is_in_no_sum(engine):
    settings = change(ONE_COHORT, participation=LOSSES)
    samples, state = begun(settings)
    there = participation(samples.keys, 0, settings)
    late = np.flatnonzero(there.present & ~there.counted & (samples.train.counts() > 0))
    assert len(late)
    moved, _ = advanced(engine, samples, state, settings)
    samples.train.label[np.isin(samples.train.person, late)] *= -1
    other, _ = advanced(engine, samples, state, settings)
    assert (moved.linear[late] != other.linear[late]).any(axis=1).all()
    assert same_bits(moved.interaction, other.interaction)


@BOTH
@pytest.mark.parametrize("long", [0.1, 10.0], ids=["not clipped", "clipped"])
def test_without_records_a_person_takes_the_cohorts_mean_which_includes_the_person(engine, long):
    settings = change(SMALL_ROUNDS, floor=5, neighbours={"size": 15}, participation=LOSSES, sums=ANY_LOSS)
    samples, state = begun(settings, long=long)
    there, cohort = participation(samples.keys, 0, settings), cohort_numbers(samples, settings)
    moved, passed = advanced(engine, samples, state, settings)
    assert passed.cohorts_opened >= 2
    checked = 0
    for i in np.flatnonzero(there.present & (samples.train.counts() == 0)):
        members = np.flatnonzero(there.present & (cohort == cohort[i]))
        if len(members) >= settings.floor:
            np.testing.assert_allclose(moved.linear[i], opened_mean(state, settings, members), atol=1e-6)
            others = members[members != i]
            assert not np.allclose(moved.linear[i], opened_mean(state, settings, others), atol=1e-6)
            checked += 1
    assert checked >= 2


@BOTH
def test_a_clipped_model_enters_the_sum_but_the_own_model_stays_unclipped(engine):
    settings = change(ONE_COHORT, linear={"mixing": "fixed", "gamma": 0.5, "alpha": 1e-300})
    samples, state = begun(settings, long=10.0)
    moved, _ = advanced(engine, samples, state, settings)
    mean = opened_mean(state, settings, np.arange(len(samples.ids)))
    np.testing.assert_allclose(moved.linear, (state.linear + mean) / 2, atol=1e-6)


@BOTH
def test_with_gamma_1_everyone_of_a_cohort_starts_from_the_same_model(engine):
    settings = change(SMALL_ROUNDS, linear={"mixing": "fixed", "gamma": 1.0, "alpha": 1e-300})
    samples, state = begun(settings)
    moved, passed = advanced(engine, samples, state, settings)
    assert len(np.unique(moved.linear, axis=0)) == passed.cohorts_opened == cohort_numbers(samples, settings).max() + 1


def test_the_share_of_the_mean_falls_with_records():
    counts = np.array([0, 1, 20, 60])
    adaptive = change(SMALL_ROUNDS, linear={"mixing": "adaptive", "kappa": 20.0, "gamma": 0.3})
    assert mixing_weights(counts, adaptive).tolist() == [1.0, 20 / 21, 0.5, 0.25]
    fixed = change(SMALL_ROUNDS, linear={"mixing": "fixed", "kappa": 20.0, "gamma": 0.3})
    assert mixing_weights(counts, fixed).tolist() == [0.3] * 4


def test_cohorts_hold_at_least_the_size_and_follow_the_seed():
    samples = samples_of(CITY, change(SMALL_ROUNDS, neighbours={"size": 15}))
    cohort = cohort_numbers(samples, change(SMALL_ROUNDS, neighbours={"size": 15}))
    assert np.bincount(cohort).min() >= 15


@BOTH
def test_the_history_tells_the_mean_loss_over_records(engine):
    settings = change(ONE_COHORT, linear={"mixing": "fixed", "gamma": 0.0, "alpha": 1e-300}, model={"spread": 1e-9})
    samples = samples_of(CITY, settings)
    _, passed = advanced(engine, samples, start(samples, settings), settings)
    assert passed.loss == pytest.approx(np.log(2), rel=1e-9)


def test_v_starts_small_and_random_and_w_at_zero():
    samples = samples_of(CITY, change(SMALL_ROUNDS, model={"spread": 0.2}))
    state = start(samples, change(SMALL_ROUNDS, model={"spread": 0.2}))
    assert not state.linear.any()
    assert state.linear.shape == (60, samples.features + 1)
    assert state.interaction.std() == pytest.approx(0.2, rel=0.3)
    assert not same_bits(state.interaction, start(samples, change(SMALL_ROUNDS, seed=1)).interaction)


def test_training_lowers_the_loss():
    settings = change(SMALL_ROUNDS, iterations=8)
    samples = samples_of(CITY, settings)
    motor, state = make_engine("local", samples, settings), start(samples, settings)
    losses = [motor.advance(state).loss for _ in range(8)]
    assert losses[-1] < 0.9 * losses[0]
    assert after("plain", samples, settings, iterations=8).iteration == 8


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_when_a_block_fails_the_error_is_raised_after_the_others_have_ended(failing):
    engine = make_engine("local", samples_of(CITY, SMALL_ROUNDS), SMALL_ROUNDS, threads=3)
    ended = []

    def task(block: tuple[int, int]) -> None:
        if block == (failing, failing + 1):
            raise RuntimeError("this block")
        time.sleep(0.05)
        ended.append(block)

    with pytest.raises(RuntimeError, match=messages.Foreign.BLOCK_FAILED):
        engine.each(task, [(0, 1), (1, 2), (2, 3)])
    assert len(ended) == 2
