"""People cut into shards come to what the oracle comes to, bit for bit: however many shards, wherever the cuts fall."""

import numpy as np
import pytest

from prirec.engines import shards
from prirec.errors import UsageError
from prirec.graph.cohorts import cohort_numbers
from prirec.rounds.definition import RoundRules
from support import messages
from support.cities import SMALL_PRIVATE, SMALL_ROUNDS, change, samples_of, small_city
from support.engine_twins import UNUSUAL_CITIES, city, different_models
from support.setting_variants import PRIVATE_ROUNDS, ROUNDS
from support.shards import assert_shards_equal_the_oracle, cut

VARIANTS = {
    **{f"rounds, {name}": change(SMALL_ROUNDS, **changes) for name, changes in ROUNDS.items()},
    **{f"private, {name}": change(SMALL_PRIVATE, **changes) for name, changes in PRIVATE_ROUNDS.items()},
}
EACH = pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS)


@EACH
@pytest.mark.parametrize("shards", [1, 3, 7])
def test_any_number_of_shards_has_the_bits_of_the_oracle(settings, shards):
    samples = samples_of(city(), settings)
    assert_shards_equal_the_oracle(samples, settings, cut(samples, settings, shards))


@EACH
def test_people_dealt_out_at_random_so_that_every_cohort_is_split(settings):
    samples = samples_of(city(), settings)
    where = np.random.default_rng(3).integers(4, size=len(samples.ids))
    assert_shards_equal_the_oracle(samples, settings, [np.flatnonzero(where == shard) for shard in range(4)])


@pytest.mark.parametrize("made", UNUSUAL_CITIES.values(), ids=UNUSUAL_CITIES)
@pytest.mark.parametrize("settings", [SMALL_ROUNDS, SMALL_PRIVATE], ids=["rounds", "private"])
def test_unusual_cities_in_shards_have_the_bits_of_the_oracle(made, settings):
    settings = change(settings, participation={"online": 0.9, "dropout": 0.1})
    samples = samples_of(made(), settings)
    assert_shards_equal_the_oracle(samples, settings, cut(samples, settings, 3))


def test_a_shard_for_each_person_has_the_bits_of_the_oracle():
    settings = change(SMALL_ROUNDS, floor=2, neighbours={"size": 3})
    samples = samples_of(small_city(people=7, records=30), settings)
    rows = cut(samples, settings, 12)
    assert len(rows) == 7
    assert_shards_equal_the_oracle(samples, settings, rows)


def test_the_settings_of_this_suite_make_a_difference():
    assert different_models(VARIANTS.values()) == len(VARIANTS)


# Where the cuts fall


def test_everyone_is_in_one_shard_and_shards_have_about_as_much_work():
    samples = samples_of(small_city(people=900, records=6000), SMALL_ROUNDS)
    rows = cut(samples, SMALL_ROUNDS, 5)
    effort = [int((samples.train.counts()[part] + 1).sum()) for part in rows]
    assert np.array_equal(np.sort(np.concatenate(rows)), np.arange(len(samples.ids)))
    assert max(effort) < 1.25 * min(effort)


def test_cohorts_stay_whole_where_that_is_even_enough():
    samples = samples_of(small_city(people=900, records=6000), SMALL_ROUNDS)
    cohort = cohort_numbers(samples, SMALL_ROUNDS)
    parts = [set(cohort[rows].tolist()) for rows in cut(samples, SMALL_ROUNDS, 3)]
    assert sum(map(len, parts)) == int(cohort.max()) + 1


def test_a_single_cohort_is_cut_rather_than_left_to_one_shard():
    settings = change(SMALL_ROUNDS, neighbours={"size": 150})
    samples = samples_of(city(), settings)
    assert [len(rows) > 40 for rows in cut(samples, settings, 3)] == [True] * 3


def test_no_shards_at_all_are_refused():
    with pytest.raises(UsageError, match=messages.NO_SHARDS):
        cut(samples_of(city(), SMALL_ROUNDS), SMALL_ROUNDS, 0)


# Mistakes, planted


def test_a_cohort_that_shards_open_by_themselves_is_noticed(monkeypatch):
    samples = samples_of(city(), SMALL_ROUNDS)
    where = np.arange(len(samples.ids)) % 2
    monkeypatch.setattr(shards.np, "isin", lambda numbers, split: np.zeros(len(numbers), dtype=bool))
    with pytest.raises(
        AssertionError, match=messages.any_of(messages.Foreign.REPORTS_DIFFER, messages.Foreign.STATES_DIFFER)
    ):
        assert_shards_equal_the_oracle(samples, SMALL_ROUNDS, [np.flatnonzero(where == side) for side in (0, 1)])


@pytest.mark.parametrize("kind", ["linear", "interaction"])
def test_noise_that_only_the_driver_forgets_is_noticed(kind):
    """Of a sum that is split over shards; the shards have rules of their own, which forget nothing."""

    class Forgetful(RoundRules):
        def _open(self, total, code, *, where, **counts):
            return super()._open(total.copy() if where[0] == kind else total, code, where=where, **counts)

    samples = samples_of(city(), SMALL_PRIVATE)
    rows = [np.flatnonzero(np.arange(len(samples.ids)) % 2 == side) for side in (0, 1)]
    rules = RoundRules.of(samples, SMALL_PRIVATE)
    assert_shards_equal_the_oracle(samples, SMALL_PRIVATE, rows, rules=rules)
    forgetful = Forgetful(rules.settings, rules.linear, rules.interaction)
    with pytest.raises(
        AssertionError, match=messages.any_of(messages.Foreign.REPORTS_DIFFER, messages.Foreign.STATES_DIFFER)
    ):
        assert_shards_equal_the_oracle(samples, SMALL_PRIVATE, rows, rules=forgetful)
