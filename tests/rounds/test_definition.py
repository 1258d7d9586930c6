"""What a training by rounds opens, who is in its sums, and how the shared model moves: by the oracle and the fast
engine alike."""

import time
from dataclasses import replace

import numpy as np
import pytest

from prirec.config import Settings
from prirec.engines import local, plain
from prirec.engines.state import IterationReport, RoundsState
from prirec.engines.train import make_engine, models_of
from prirec.features.samples import Samples
from prirec.model.scoring import own_model
from prirec.rounds import definition
from prirec.rounds.definition import (
    RoundRules,
    left_in_collection,
    mean_loss,
    participation,
    simulated_noise,
    sum_losses,
)
from support import messages
from support.cities import (
    SMALL_PRIVATE,
    SMALL_ROUNDS,
    after,
    change,
    same_bits,
    same_state,
    samples_of,
    small_city,
    with_idle_people,
)

CITY = with_idle_people(small_city(people=60, places=12, records=300), every=5)
BOTH = pytest.mark.parametrize("engine", ["plain", "local"])
LOSSES = {"online": 0.8, "dropout": 0.5}
SAMPLES = samples_of(CITY, SMALL_ROUNDS)
BEGUN = make_engine("local", SAMPLES, SMALL_ROUNDS).start()
ANY_LOSS = change(SMALL_ROUNDS, participation=LOSSES, sums={"lost": 0.9})


def advanced(
    engine: str, settings: Settings, *, samples: Samples = SAMPLES, state: RoundsState = BEGUN
) -> tuple[RoundsState, IterationReport]:
    moved = state.copy()
    return moved, make_engine(engine, samples, settings).advance(moved)


def flipped(samples: Samples, people: np.ndarray) -> Samples:
    """These people with all their labels turned."""
    label = np.where(np.isin(samples.train.person, people), -samples.train.label, samples.train.label)
    return replace(samples, train=replace(samples.train, label=label))


# Which sums are opened


@BOTH
def test_below_the_floor_nothing_opens_and_the_shared_model_stays(engine):
    moved, passed = advanced(engine, change(SMALL_ROUNDS, floor=59, participation={"online": 0.6}))
    assert 0 < passed.in_sum < 59
    assert not passed.opened
    assert moved.estimate == BEGUN.estimate
    assert moved.iteration == 1


@BOTH
def test_a_sum_opens_at_the_floor_exactly(engine):
    counted = int(participation(SAMPLES.keys, 0, ANY_LOSS).counted.sum())
    for floor, opens in ((counted, True), (counted + 1, False)):
        moved, passed = advanced(engine, change(ANY_LOSS, floor=floor))
        assert passed.opened is opens
        assert (moved.estimate.rounds, moved.estimate.B.any()) == (int(opens), opens)


@BOTH
def test_a_sum_that_lost_more_of_its_roster_than_is_tolerated_stays_closed(engine):
    online, counted = (int(who.sum()) for who in participation(SAMPLES.keys, 0, ANY_LOSS))
    assert ANY_LOSS.floor < counted < online
    outcomes = set()
    for percent in range(0, 90, 3):
        _, passed = advanced(engine, change(ANY_LOSS, sums={"lost": percent / 100}))
        assert passed.opened is (100 * (online - counted) <= percent * online)
        outcomes.add(passed.opened)
    assert outcomes == {True, False}


@BOTH
def test_the_history_says_who_took_part_and_who_was_summed(engine):
    there = participation(SAMPLES.keys, 0, ANY_LOSS)
    _, passed = advanced(engine, ANY_LOSS)
    assert (passed.took_part, passed.in_sum) == (there.online.sum(), there.counted.sum())


# Who is in a sum


@BOTH
def test_a_device_that_is_offline_or_lost_is_in_no_sum(engine):
    there = participation(SAMPLES.keys, 0, ANY_LOSS)
    with_records = SAMPLES.train.counts() > 0
    moved, _ = advanced(engine, ANY_LOSS)
    away, here = np.flatnonzero(~there.counted & with_records), np.flatnonzero(there.counted & with_records)
    assert len(away)
    assert len(here)
    others, _ = advanced(engine, ANY_LOSS, samples=flipped(SAMPLES, away))
    assert same_state(moved, others)
    others, _ = advanced(engine, ANY_LOSS, samples=flipped(SAMPLES, here[:1]))
    assert not same_state(moved, others)


@BOTH
def test_a_device_that_drops_out_of_the_sum_of_moments_is_not_in_it(engine):
    settings = change(ANY_LOSS, participation={"online": 0.1, "dropout": 0.3})
    left = left_in_collection(SAMPLES.keys, settings, of="moments")
    begun = make_engine(engine, SAMPLES, settings).start()
    lost, kept = SAMPLES.people.copy(), SAMPLES.people.copy()
    lost[~left] = 1 - lost[~left]
    kept[np.flatnonzero(left)[0]] += 0.5
    assert 0 < left.sum() < len(left)
    assert same_state(make_engine(engine, replace(SAMPLES, people=lost), settings).start(), begun)
    assert not same_state(make_engine(engine, replace(SAMPLES, people=kept), settings).start(), begun)


@BOTH
def test_the_sum_of_moments_is_a_mean_over_people(engine):
    """Without noise: what is read is what NumPy finds, as far as fixed point goes."""
    begun = make_engine(engine, SAMPLES, SMALL_ROUNDS).start()
    vectors = SAMPLES.columns.moments.vectors(
        SAMPLES.people, SAMPLES.train.context, SAMPLES.train.label, SAMPLES.train.offsets
    )
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors *= np.minimum(1.0, SAMPLES.columns.moments.norm / lengths)
    wanted = SAMPLES.columns.moments.read(vectors.sum(axis=0), len(vectors), 0.0)
    for found, value in zip(begun.moments, wanted, strict=True):
        np.testing.assert_allclose(found, value, atol=1e-5)
    assert (begun.iteration, begun.estimate.rounds) == (0, 0)
    assert not begun.estimate.B.any()


# What is learnt


@BOTH
def test_before_anything_is_learnt_the_loss_is_that_of_the_share_of_positive_records(engine):
    _, passed = advanced(engine, SMALL_ROUNDS)
    odds = np.log(BEGUN.moments.positive / (1 - BEGUN.moments.positive))
    label = np.where(SAMPLES.train.label > 0, 1, -1)
    assert passed.loss == pytest.approx(np.log1p(np.exp(-label * odds)).mean(), abs=1e-5)


@BOTH
def test_a_round_moves_b_against_the_mean_of_contributions(engine):
    rules = RoundRules.sized(SMALL_ROUNDS, people=60, places=12, columns=SAMPLES.columns)
    moved, _ = advanced(engine, SMALL_ROUNDS)
    total = np.zeros(SAMPLES.columns.entries)
    oracle = plain.Rounds(SAMPLES, SMALL_ROUNDS)
    for i in range(60):
        total += oracle.contribution(i, BEGUN.estimate.B, BEGUN.moments)[0]
    wanted = np.zeros_like(BEGUN.estimate.B)
    wanted[SAMPLES.columns.groups >= 0] = -total / 60 / BEGUN.estimate.curvature
    np.testing.assert_allclose(moved.estimate.B, wanted, atol=1e-5)
    assert rules.noise_variance(rules.codes.interaction, survivors=60, rostered=60) == 0


def test_training_lowers_the_loss():
    settings = change(SMALL_ROUNDS, iterations=8)
    motor = make_engine("local", SAMPLES, settings)
    state = motor.start()
    losses = [motor.advance(state).loss for _ in range(8)]
    assert losses[-1] < 0.9 * losses[0]
    assert after("plain", SAMPLES, settings, iterations=8).iteration == 8


def test_without_noise_rounds_come_near_the_optimum():
    """In the end the mean contribution, which is a gradient, is a small part of what it was."""
    motor, state = make_engine("local", SAMPLES, SMALL_ROUNDS), BEGUN.copy()
    everyone = motor.participation(0)

    def length(of: RoundsState) -> float:
        return float(np.linalg.norm(motor.gradient_sum(of, everyone)[0].view(np.int64).astype(float)))

    for _ in range(150):
        motor.advance(state)
    assert length(state) < 0.1 * length(BEGUN)


def test_nobody_learns_alone_within_a_round():
    """w_i follows from the state and the person's own records, whenever it is asked for."""
    moved, _ = advanced("local", SMALL_ROUNDS)
    models, someone = models_of(moved, SAMPLES, SMALL_ROUNDS), int(np.flatnonzero(SAMPLES.train.counts() > 0)[0])
    other = flipped(SAMPLES, np.array([someone]))
    changed = [not same_bits(own_model(models, SAMPLES, i), own_model(models, other, i)) for i in range(60)]
    assert np.flatnonzero(changed).tolist() == [someone]


# Noise

PRIVATE = samples_of(small_city(), SMALL_PRIVATE)
HOMES = {"plain": plain, "local": definition}  # of each engine's noise


def added(kind: str, iteration: int, code, *, people: int, survivors: int, count: int) -> np.ndarray:
    return simulated_noise(
        code.noise, count, rostered=people, survivors=survivors, settings=SMALL_PRIVATE, where=(kind, iteration)
    ).view(np.int64)  # fmt: skip


@BOTH
def test_the_noise_of_a_round_is_in_its_step_and_in_nothing_else(engine, monkeypatch):
    settings, columns = SMALL_PRIVATE, PRIVATE.columns
    begun = make_engine(engine, PRIVATE, settings).start()
    noisy, _ = advanced(engine, settings, samples=PRIVATE, state=begun)
    code = RoundRules.sized(settings, people=150, places=40, columns=columns).codes.interaction
    monkeypatch.setattr(HOMES[engine], "simulated_noise", lambda wanted, count, **_: np.zeros(count, dtype=np.uint64))
    bare, _ = advanced(engine, settings, samples=PRIVATE, state=begun)
    step = (bare.estimate.average - noisy.estimate.average)[columns.groups >= 0]
    found = step * begun.estimate.curvature * 150 * code.ring.scale
    wanted = added("interaction", 0, code, people=150, survivors=150, count=columns.entries)
    np.testing.assert_allclose(found, wanted, atol=1e-3)
    assert noisy.estimate.variance == bare.estimate.variance  # it is known, not measured
    sd = np.sqrt(noisy.estimate.variance) * begun.estimate.curvature * 150 * code.ring.scale
    assert sd == pytest.approx(wanted.std(), rel=0.15)


@BOTH
def test_the_noise_of_moments_is_in_their_sum(engine, monkeypatch):
    quiet = {"wanted": 0}

    def watched(wanted, count, *, where, **rest):
        quiet["wanted"] = wanted if where[0] == "moments" else quiet["wanted"]
        return np.zeros(count, dtype=np.uint64)

    noisy = make_engine(engine, PRIVATE, SMALL_PRIVATE).start()
    monkeypatch.setattr(HOMES[engine], "simulated_noise", watched)
    bare = make_engine(engine, PRIVATE, SMALL_PRIVATE).start()
    assert quiet["wanted"] > 0
    assert not same_state(noisy, bare)


def test_few_people_learn_little_and_lose_little():
    """100 people under ε = 1: what drowns is shrunk away, and predictions are about as good as knowing nothing."""
    settings = change(SMALL_PRIVATE, iterations=10)
    samples = samples_of(small_city(people=100, places=30, records=800), settings)
    motor = make_engine("local", samples, settings)
    state = motor.start()
    losses = [motor.advance(state).loss for _ in range(10)]
    assert max(losses) < 1.1 * losses[0]


# Losses are summed in whole numbers


def test_a_sum_of_losses_is_the_same_in_any_order():
    losses = np.random.default_rng(0).exponential(size=1000)
    assert sum_losses(losses) == sum_losses(losses[::-1].copy())
    parts = [sum_losses(part) for part in np.split(losses, 8)]
    assert sum(parts) == sum_losses(losses)
    assert mean_loss(sum_losses(losses), 1000) == pytest.approx(losses.mean(), abs=1e-9)
    assert mean_loss(0, 0) == 0.0


@pytest.mark.parametrize("bad", [np.nan, np.inf, 2.0**31])
def test_a_loss_that_is_no_number_or_too_large_makes_the_mean_none(bad):
    assert sum_losses(np.array([1.0, bad])) is None
    assert np.isnan(mean_loss(None, 3))
    assert np.isnan(plain.mean_loss([1.0, bad], records=2))


def test_losses_of_62_bits_do_not_wrap():
    many = np.full(100, 2.0**30 - 1)
    assert sum_losses(many) == 100 * (2**30 - 1) * 2**32


# Threads


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_when_a_block_fails_the_error_is_raised_after_the_others_have_ended(failing):
    engine = local.Rounds(SAMPLES, SMALL_ROUNDS, threads=3)
    ended = []
    assert len(engine.blocks) == 3

    def task(block: tuple[int, int]) -> None:
        if block == engine.blocks[failing]:
            raise RuntimeError("this block")
        time.sleep(0.05)
        ended.append(block)

    with pytest.raises(RuntimeError, match=messages.Foreign.BLOCK_FAILED):
        engine.each(task)
    assert len(ended) == 2


def test_blocks_hold_everyone_once_and_as_much_work_each():
    for threads in (1, 2, 3, 7, 100):
        blocks = local.Rounds(SAMPLES, SMALL_ROUNDS, threads=threads).blocks
        assert [blocks[0][0], *(end for _, end in blocks)] == sorted({0, *(end for _, end in blocks)})
        assert blocks[-1][1] == 60
        assert all(a < b for a, b in blocks)
        assert len(blocks) <= threads
    nobody = replace(SAMPLES, ids=(), keys=SAMPLES.keys[:0])
    assert local.Rounds(
        nobody,
        SMALL_ROUNDS,
        threads=2,
        rules=RoundRules.sized(SMALL_ROUNDS, people=60, places=12, columns=SAMPLES.columns),
    ).blocks == [(0, 0)]
