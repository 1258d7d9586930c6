"""People cut into shards come to what the oracle comes to, bit for bit: however many shards, wherever the cuts fall."""

import pickle

import numpy as np
import pytest

from prirec.engines import shards
from prirec.engines.local import Rounds
from prirec.errors import PolicyError, UsageError
from prirec.model.own_model import score_own
from prirec.model.scoring import scores
from prirec.model.shared_model import add_contributions
from prirec.rounds.definition import RoundRules
from support import messages
from support.cities import SMALL_PRIVATE, SMALL_ROUNDS, change, same_bits, samples_of, small_city
from support.engine_twins import UNUSUAL_CITIES, city, different_models
from support.setting_variants import PRIVATE_ROUNDS, ROUNDS
from support.shards import assert_shards_equal_the_oracle, cut, in_one_process, pieces_of, rules_of

VARIANTS = {
    **{f"rounds, {name}": change(SMALL_ROUNDS, **changes) for name, changes in ROUNDS.items()},
    **{f"private, {name}": change(SMALL_PRIVATE, **changes) for name, changes in PRIVATE_ROUNDS.items()},
}
DIFFERENT = messages.any_of(messages.Foreign.REPORTS_DIFFER, messages.Foreign.STATES_DIFFER)
EACH = pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS)


@EACH
@pytest.mark.parametrize(
    "shards", [*(pytest.param(few, marks=pytest.mark.soak) for few in (1, 3)), pytest.param(7, marks=pytest.mark.long)]
)
def test_any_number_of_shards_has_the_bits_of_the_oracle(settings, shards):
    samples = samples_of(city(), settings)
    assert_shards_equal_the_oracle(samples, settings, cut(samples, shards))


@EACH
def test_people_dealt_out_at_random_have_the_bits_of_the_oracle(settings):
    samples = samples_of(city(), settings)
    where = np.random.default_rng(3).integers(4, size=len(samples.ids))
    assert_shards_equal_the_oracle(samples, settings, [np.flatnonzero(where == shard) for shard in range(4)])


@pytest.mark.parametrize("made", UNUSUAL_CITIES.values(), ids=UNUSUAL_CITIES)
@pytest.mark.parametrize("settings", [SMALL_ROUNDS, SMALL_PRIVATE], ids=["rounds", "private"])
def test_unusual_cities_in_shards_have_the_bits_of_the_oracle(made, settings):
    settings = change(settings, participation={"online": 0.9, "dropout": 0.1})
    samples = samples_of(made(), settings)
    assert_shards_equal_the_oracle(samples, settings, cut(samples, 3))


def test_a_shard_for_each_person_has_the_bits_of_the_oracle():
    settings = change(SMALL_ROUNDS, floor=2)
    samples = samples_of(small_city(people=7, records=30), settings)
    rows = cut(samples, 12)
    assert len(rows) == 7
    assert_shards_equal_the_oracle(samples, settings, rows)


def test_the_settings_of_this_suite_make_a_difference():
    assert different_models(VARIANTS.values()) == len(VARIANTS)


# Where the cuts fall


def test_everyone_is_in_one_shard_and_shards_have_about_as_much_work():
    samples = samples_of(small_city(people=900, records=6000), SMALL_ROUNDS)
    rows = cut(samples, 5)
    effort = [int((samples.train.counts()[part] + 1).sum()) for part in rows]
    assert np.array_equal(np.sort(np.concatenate(rows)), np.arange(len(samples.ids)))
    assert max(effort) < 1.25 * min(effort)


def test_one_person_with_most_of_the_records_leaves_somebody_to_every_shard():
    for records in ([1000, 1, 1, 1], [1, 1, 1, 1000], [0, 0, 0, 0]):
        rows = shards.rows_of_shards(np.array(records), shards=4)
        assert [part.tolist() for part in rows] == [[0], [1], [2], [3]]


def test_no_shards_at_all_are_refused():
    with pytest.raises(UsageError, match=messages.NO_SHARDS):
        cut(samples_of(city(), SMALL_ROUNDS), 0)


def test_too_few_people_over_all_shards_are_refused_before_the_first_round():
    settings = change(SMALL_ROUNDS, floor=200)
    samples = samples_of(city(), settings)
    crew = in_one_process(pieces_of(samples, cut(samples, 3)), settings)
    driver = shards.ShardDriver(crew, rules_of(samples, settings))
    with pytest.raises(PolicyError, match=messages.too_few_in_moments(150, floor=200)):
        driver.start()


# Nothing is kept from one call to the next


def test_a_shard_made_anew_in_the_middle_of_a_run_answers_as_the_old_one_did():
    samples = samples_of(city(), SMALL_PRIVATE)
    (piece, *_) = pieces_of(samples, cut(samples, 3))
    old, engine = shards.Shard(piece, SMALL_PRIVATE), Rounds(samples, SMALL_PRIVATE, threads=1)
    state = engine.start()
    for _ in range(3):
        found, wanted = shards.Shard(piece, SMALL_PRIVATE).gradient_sum(state), old.gradient_sum(state)
        assert same_bits(found.total, wanted.total)
        assert found[1:] == wanted[1:]
        engine.advance(state)
    anew, before = (
        scores(one.models(state), one.samples, one.samples.train) for one in (shards.Shard(piece, SMALL_PRIVATE), old)
    )
    assert same_bits(anew, before)


def test_records_are_scaled_once_in_a_training_though_each_round_brings_moments_anew():
    samples = samples_of(city(), SMALL_ROUNDS)
    engine = Rounds(samples, SMALL_ROUNDS, threads=1)
    moments = engine.start().moments
    first = engine.scaled(read_only(moments))
    assert engine.scaled(read_only(moments)) is first
    assert engine.scaled(moments._replace(positive=0.5)) is not first


def read_only(value):
    """What a reader of an object store gets: arrays over memory that may not be written to."""
    buffers: list[pickle.PickleBuffer] = []
    packed = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(packed, buffers=[bytes(one.raw()) for one in buffers])  # noqa: S301  our own


def test_read_only_arrays_of_an_object_store_are_copied_before_a_kernel_sees_them():
    """A kernel would be compiled anew for them, in every actor."""
    samples = samples_of(city(), SMALL_ROUNDS)
    (piece,) = pieces_of(samples, cut(samples, 1))
    engine = Rounds(samples, SMALL_ROUNDS, threads=1)
    state = engine.start()
    engine.advance(state)
    scores(engine.models(state), samples, samples.train)
    shard, state = shards.Shard(read_only(piece), SMALL_ROUNDS), read_only(state)
    kernels = (add_contributions, score_own)
    before = [kernel.signatures for kernel in kernels]
    shard.gradient_sum(state)
    scores(shard.models(state), shard.samples, shard.samples.train)
    assert [kernel.signatures for kernel in kernels] == before


# Mistakes, planted


@pytest.mark.parametrize("kind", ["moments", "interaction"])
def test_noise_that_only_the_driver_forgets_is_noticed(kind):
    class Forgetful(RoundRules):
        def open(self, total, code, *, where, **counts):
            return super().open(total.copy() if where[0] == kind else total, code, where=where, **counts)

    samples = samples_of(city(), SMALL_PRIVATE)
    rows = [np.flatnonzero(np.arange(len(samples.ids)) % 2 == side) for side in (0, 1)]
    rules = rules_of(samples, SMALL_PRIVATE)
    assert_shards_equal_the_oracle(samples, SMALL_PRIVATE, rows, rules=rules)
    forgetful = Forgetful(rules.settings, rules.columns, rules.codes)
    with pytest.raises(AssertionError, match=DIFFERENT):
        assert_shards_equal_the_oracle(samples, SMALL_PRIVATE, rows, rules=forgetful)
