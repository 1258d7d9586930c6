"""Intervals for differences of models: against a plain oracle, as wide as they claim, and by people, not by records."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm, t

from prirec.errors import UsageError
from prirec.evaluate.bootstrap import (
    LANES,
    Estimate,
    Interval,
    Resampled,
    Resampling,
    differences,
    estimates,
    mean_of,
    resample_lists,
    resample_scores,
    together,
)
from prirec.metrics import RankFigures, auc, gauc, log_loss

few_levels = st.integers(-2, 2).map(float)  # heavy ties
records = st.lists(
    st.tuples(st.sampled_from([1, -1]), st.one_of(few_levels, st.floats(-9, 9)), st.integers(0, 5)), max_size=40
)


def unzip(drawn: list) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    columns = zip(*drawn, strict=True) if drawn else ((), (), ())
    return tuple(np.array(c, dtype=d) for c, d in zip(columns, (np.int8, np.float64, np.int32), strict=True))


def clustered(rng: np.random.Generator, *, people: int = 60, gap: float = 0.0) -> tuple[np.ndarray, ...]:
    """Labels, two models' scores, and people. What is said of a person, and how wrong each model is about it, holds for
    all of the person's records; the first model is better by the gap."""
    each = rng.integers(4, 16, people)
    person = np.repeat(np.arange(people, dtype=np.int32), each)
    likes = rng.normal(size=people)
    y = np.where(rng.random(len(person)) < 1 / (1 + np.exp(-2 * likes[person])), 1, -1).astype(np.int8)
    wrong = rng.normal(size=(2, people)) * np.array([[1.0], [1.0 + gap]])
    noise = 0.3 * rng.normal(size=(2, len(person)))
    return y, *(likes[person] + wrong[m][person] + noise[m] for m in range(2)), person


def compared(
    y: np.ndarray, one: np.ndarray, two: np.ndarray, person: np.ndarray, by: Resampling
) -> dict[str, Interval]:
    return differences(resample_scores(y, one, person=person, by=by), resample_scores(y, two, person=person, by=by))


def oracle(y: np.ndarray, s: np.ndarray, person: np.ndarray, by: Resampling) -> list[tuple[float, float, float]]:
    """Every record as often as its person is drawn, and the figures of the project on what that gives."""
    found = []
    for times in np.concatenate(list(by.blocks()), axis=1)[:, : by.resamples].T:
        rows = np.repeat(np.arange(len(y)), times[person])
        found.append((auc(y[rows], s[rows]), gauc(y[rows], s[rows], person=person[rows]), log_loss(y[rows], s[rows])))
    return found


@settings(max_examples=60)
@given(records, st.integers(0, 99))
def test_every_resample_has_the_figures_of_its_repeated_records(drawn, seed):
    y, s, person = unzip(drawn)
    by = Resampling(people=6, resamples=40, seed=seed)
    found = resample_scores(y, s, person=person, by=by)
    together = np.column_stack([found.drawn[name] for name in ("auc", "gauc", "log_loss")])
    assert together == pytest.approx(np.array(oracle(y, s, person, by)), abs=1e-12, nan_ok=True)


@settings(max_examples=30)
@given(records)
def test_the_auc_of_a_resample_is_exact(drawn):
    y, s, person = unzip(drawn)
    by = Resampling(people=6, resamples=8)
    expected = [row[0] for row in oracle(y, s, person, by)]
    assert resample_scores(y, s, person=person, by=by).drawn["auc"] == pytest.approx(expected, abs=1e-15, nan_ok=True)


def test_ties_count_half_in_every_resample():
    y, _, _, person = clustered(np.random.default_rng(0))
    found = resample_scores(y, np.zeros(len(y)), person=person, by=Resampling(60, resamples=50))
    assert (found.drawn["auc"] == 0.5).all()
    assert (found.drawn["gauc"] == 0.5).all()


def test_identical_models_do_not_differ_at_all():
    y, one, _, person = clustered(np.random.default_rng(1))
    for found in compared(y, one, one.copy(), person, Resampling(60, resamples=100)).values():
        assert (found.difference, found.low, found.high) == (0.0, 0.0, 0.0)


def test_models_that_rank_alike_have_the_same_auc_and_another_loss():
    y, one, _, person = clustered(np.random.default_rng(1))
    found = compared(y, one, 4 * one, person, Resampling(60, resamples=100))
    assert (found["auc"].low, found["auc"].high, found["gauc"].low, found["gauc"].high) == (0.0, 0.0, 0.0, 0.0)
    assert found["log_loss"].high < 0


def test_a_better_model_is_found_better_whichever_stands_first():
    y, one, two, person = clustered(np.random.default_rng(2), people=400, gap=2.0)
    by = Resampling(400, resamples=200)
    found, back = compared(y, one, two, person, by)["auc"], compared(y, two, one, person, by)["auc"]
    assert 0 < found.low < found.difference < found.high
    assert (back.difference, back.low, back.high) == pytest.approx((-found.difference, -found.high, -found.low))
    assert found.difference == auc(y, one) - auc(y, two)


def test_a_seed_says_all_and_more_resamples_begin_with_the_fewer():
    y, one, _, person = clustered(np.random.default_rng(3))
    by = Resampling(60, resamples=LANES + 7, seed=5)
    found, same, more, other = (
        resample_scores(y, one, person=person, by=way).drawn["auc"]
        for way in (by, by, replace(by, resamples=3 * LANES), replace(by, seed=6))
    )
    assert len(found) == LANES + 7
    assert found.tobytes() == same.tobytes() == more[: LANES + 7].tobytes()
    assert not np.array_equal(found, other)


def test_the_order_of_records_changes_nothing_but_rounding():
    y, one, _, person = clustered(np.random.default_rng(4))
    order, by = np.random.default_rng(0).permutation(len(y)), Resampling(60, resamples=40)
    found = resample_scores(y, one, person=person, by=by)
    mixed = resample_scores(y[order], one[order], person=person[order], by=by)
    assert found.drawn["auc"].tobytes() == mixed.drawn["auc"].tobytes()
    assert found.drawn["log_loss"] == pytest.approx(mixed.drawn["log_loss"], rel=1e-12)


@pytest.mark.statistical  # false alarm below 1e-9; must notice a person that is drawn 2 % too often
def test_everyone_is_drawn_once_on_average_with_the_spread_of_a_multinomial():
    people, resamples = 50, 320_000
    times = np.concatenate(list(Resampling(people, resamples=resamples).blocks()), axis=1)
    assert (times.sum(axis=0) == people).all()
    off = np.abs(times.mean(axis=1) - 1) * math.sqrt(resamples / (1 - 1 / people))
    assert off.max() < 7
    assert 0.02 * math.sqrt(resamples) > 7 + 4  # what must be noticed is, but for once in 30,000
    assert times.var() == pytest.approx(1 - 1 / people, rel=0.02)


@pytest.mark.statistical
@pytest.mark.parametrize(("gap", "truth"), [(0.0, 0.0), (1.0, 0.0879)])  # the second from a city of 160,000 people
def test_intervals_hold_the_truth_as_often_as_they_say(gap, truth):
    """200 cities of 120 people. False alarm 1e-4 for a coverage between 94 and 96 %; notices one below 86 % or
    intervals without end."""
    rng, cities, held = np.random.default_rng(7), 200, 0
    for city in range(cities):
        found = compared(*clustered(rng, people=120, gap=gap), Resampling(120, resamples=320, seed=city))["auc"]
        held += found.low <= truth <= found.high
    assert binom.cdf(held, cities, 0.94) > 1e-4
    assert binom.sf(held - 1, cities, 0.96) > 1e-4


@pytest.mark.statistical
def test_intervals_that_take_records_for_people_would_be_too_narrow():
    """What the test above would notice: held less than 80 % of the time, at odds below 1e-9 for an honest interval."""
    rng, cities, held = np.random.default_rng(7), 200, 0
    for city in range(cities):
        y, one, two, _ = clustered(rng, people=120)
        alone = np.arange(len(y), dtype=np.int32)
        found = compared(y, one, two, alone, Resampling(len(y), resamples=160, seed=city))["auc"]
        held += found.low <= 0 <= found.high
    assert held < 0.8 * cities
    assert binom.cdf(0.8 * cities, cities, 0.94) < 1e-9


def test_few_people_have_wider_intervals_than_their_resamples_alone_say():
    drawn = {"auc": np.linspace(-1, 1, 1001)}
    zero = {"auc": np.zeros(1001)}

    def high(tested: int) -> float:
        by = Resampling(tested, resamples=1001)
        pair = [Resampled(by, tested, {"auc": 0.0}, values) for values in (drawn, zero)]
        return differences(*pair)["auc"].high

    assert high(100_000) == pytest.approx(0.95, abs=1e-4)
    assert high(10) == pytest.approx(1 - 2 * norm.sf(t.isf(0.025, 9) * math.sqrt(10 / 9)))


def test_resamples_without_a_class_are_left_out_and_counted():
    y, s, person = np.array([1, -1], dtype=np.int8), np.array([1.0, 0.0]), np.array([0, 1], dtype=np.int32)
    found = compared(y, s, -s, person, Resampling(2, resamples=64))["auc"]
    assert (found.difference, found.low, found.high) == (1.0, 1.0, 1.0)
    assert 10 < found.resamples < 54  # half of them have one person twice


def test_without_a_class_at_all_there_is_no_interval():
    y, s, person = np.array([1, 1], dtype=np.int8), np.array([1.0, 0.0]), np.array([0, 1], dtype=np.int32)
    found = compared(y, s, -s, person, Resampling(2, resamples=64))
    assert found["auc"].resamples == 0
    assert all(math.isnan(end) for end in (found["auc"].difference, found["auc"].low, found["gauc"].high))
    assert found["log_loss"].resamples == 64


def test_a_single_tested_person_among_many_gives_no_interval():
    y, s, person = np.array([1, -1], dtype=np.int8), np.array([1.0, 0.0]), np.array([3, 3], dtype=np.int32)
    found = compared(y, s, -s, person, Resampling(9, resamples=64))["auc"]
    assert found.difference == 1.0
    assert math.isnan(found.low)
    assert found.resamples == 0


def test_an_infinite_loss_of_somebody_who_is_not_drawn_costs_nothing():
    y, s, person = np.array([1, 1], dtype=np.int8), np.array([-math.inf, 0.0]), np.array([0, 1], dtype=np.int32)
    by = Resampling(2, resamples=64)
    losses = resample_scores(y, s, person=person, by=by).drawn["log_loss"]
    assert set(losses.tolist()) == {math.inf, math.log(2)}
    assert math.isnan(compared(y, s, s, person, by)["log_loss"].difference)


def test_a_mean_of_repeats_is_resampled_with_the_same_people_in_all_of_them():
    y, one, two, person = clustered(np.random.default_rng(8))
    by = Resampling(60, resamples=50)
    parts = [resample_scores(y, s, person=person, by=by) for s in (one, two)]
    mean = mean_of(parts)
    assert mean.whole["auc"] == pytest.approx((auc(y, one) + auc(y, two)) / 2)
    assert mean.drawn["auc"] == pytest.approx((parts[0].drawn["auc"] + parts[1].drawn["auc"]) / 2)


def test_figures_of_resamples_do_not_print():
    y, one, _, person = clustered(np.random.default_rng(0))
    assert "array" not in repr(resample_scores(y, one, person=person, by=Resampling(60, resamples=3)))


ONE = Resampled(Resampling(5), 5, {"auc": 0.5}, {"auc": np.zeros(1000)})


@pytest.mark.parametrize(
    "bad",
    [
        lambda: Resampling(1),
        lambda: Resampling(5, resamples=0),
        lambda: differences(ONE, replace(ONE, by=Resampling(5, seed=1))),
        lambda: differences(ONE, ONE, level=1.0),
        lambda: mean_of([]),
        lambda: mean_of([ONE, replace(ONE, by=Resampling(6))]),
        lambda: mean_of([ONE, replace(ONE, whole={})]),
        lambda: resample_scores(
            np.ones(1, dtype=np.int8), np.zeros(1), person=np.array([5], dtype=np.int32), by=Resampling(5)
        ),
        lambda: resample_scores(
            np.ones(1, dtype=np.int8), np.zeros(1), person=np.array([-1], dtype=np.int32), by=Resampling(5)
        ),
    ],
)
def test_bad_input_is_a_usage_error(bad):
    with pytest.raises(UsageError):
        bad()


# Lists: figures that are means over people


def lists_of(people: np.ndarray, ndcg: np.ndarray) -> RankFigures:
    """Of every second person the AUC nearby is unknown."""
    nearby = np.where(people % 2 == 0, ndcg, np.nan)
    return RankFigures(people.astype(np.int64), (ndcg > 0).astype(np.float64), ndcg, ndcg / 2, nearby)


def test_lists_are_resampled_with_the_people_whom_they_are_of():
    rng, by = np.random.default_rng(0), Resampling(people=30, resamples=40, seed=3)
    figures = lists_of(np.arange(0, 30, 3), rng.random(10))
    found = resample_lists(figures, by)
    assert found.whole == pytest.approx({k: getattr(figures.mean(), k) for k in found.whole})
    for at, times in enumerate(np.concatenate(list(by.blocks()), axis=1)[:, : by.resamples].T):
        drawn = np.repeat(np.arange(10), times[figures.person])
        for name in ("ndcg", "recall", "hit_rate", "auc_nearby"):
            values = getattr(figures, name)[drawn]
            values = values[~np.isnan(values)]
            expected = values.mean() if len(values) else math.nan
            assert found.drawn[name][at] == pytest.approx(expected, nan_ok=True)


@pytest.mark.statistical  # false alarm below 1e-6; must notice 90 % intervals that are called 95 %
def test_an_interval_of_a_mean_over_people_holds_the_truth_as_often_as_it_claims():
    rng, many = np.random.default_rng(5), 600
    held, narrow = 0, 0
    for seed in range(many):
        figures = lists_of(np.arange(80), rng.beta(2.0, 5.0, size=80))
        drawn = resample_lists(figures, Resampling(people=80, resamples=320, seed=seed))
        for level in (0.95, 0.9):
            one = estimates(drawn, level=level)["ndcg"]
            inside = one.low <= 2 / 7 <= one.high
            held, narrow = (held + inside, narrow) if level == 0.95 else (held, narrow + inside)
    assert binom.cdf(held, many, 0.95) > 1e-6
    assert binom.cdf(narrow, many, 0.95) < 1e-3  # 90 % intervals, called 95 %


def test_scores_and_lists_of_one_model_go_together_on_the_same_resamples_alone():
    rng = np.random.default_rng(1)
    y, s, _, person = clustered(rng)
    by = Resampling(people=60, resamples=32)
    scored, ranked = (
        resample_scores(y, s, person=person, by=by),
        resample_lists(lists_of(np.arange(9), rng.random(9)), by),
    )
    both = together(scored, ranked)
    assert set(both.whole) == {*scored.whole, *ranked.whole}
    assert both.whole["auc"] == scored.whole["auc"]
    with pytest.raises(UsageError):
        together(scored, resample_lists(lists_of(np.arange(9), rng.random(9)), replace(by, seed=9)))


def test_a_figure_is_written_with_half_its_interval_and_a_dash_without_a_meaning():
    assert str(Estimate(0.25, 0.2, 0.31)) == "0.250 ± 0.055"
    assert str(Estimate(0.25, math.nan, math.nan)) == "0.250"
    assert str(Estimate(math.nan, math.nan, math.nan)) == "–"
