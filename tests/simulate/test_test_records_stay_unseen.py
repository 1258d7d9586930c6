"""Nothing that is learnt from depends on the test records."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.data.prepare import by_record
from prirec.features.samples import Samples, assemble
from prirec.simulate.setup import set_up
from prirec.util.keyed_random import generator
from support.cities import SMALL_PRIVATE, SMALL_ROUNDS, change, same_bits, small_city, with_moods
from support.hypothesis_settings import FEW

CITY = with_moods(small_city(people=60, places=15, records=240), np.random.default_rng(0))
SETUP = set_up(CITY, SMALL_ROUNDS)
BUDGET = {"epsilon_per_user": 8.0}  # so large that visits rise out of the noise
NOISY = set_up(CITY, change(SMALL_PRIVATE, privacy=BUDGET))


def same_to_learn_from(a: Samples, b: Samples) -> bool:
    arrays = [
        (
            s.keys,
            s.home,
            s.people,
            s.popularity,
            s.places,
            s.train.offsets,
            s.train.person,
            s.train.place,
            s.train.label,
            s.train.context,
        )
        for s in (a, b)
    ]
    return a.ids == b.ids and all(same_bits(x, y) for x, y in zip(*arrays, strict=True))


@FEW
@given(st.integers(0, 2**32))
def test_other_test_records_leave_the_training_side_as_it_is(seed):
    rng, test = np.random.default_rng(seed), SETUP.prepared.test
    other = replace(
        test,
        person=rng.integers(60, size=len(test)).astype(np.int32),
        place=rng.permutation(test.place),
        label=rng.permutation(test.label),
        time=rng.permutation(test.time),
    )
    parts = {"encoding": SETUP.encoding, "popularity": SETUP.popularity}
    samples = assemble(SETUP.prepared.dataset, train=SETUP.prepared.train, test=other, **parts)
    assert same_to_learn_from(samples, SETUP.samples)
    assert not same_bits(samples.test.place, SETUP.samples.test.place)


@pytest.mark.parametrize("setup", [SETUP, NOISY], ids=["plain counts", "noisy sums"])
@FEW
@given(st.integers(0, 2**32))
def test_the_whole_set_up_is_blind_to_labels_places_and_context_of_the_test(setup, seed):
    rng, visits = np.random.default_rng(seed), CITY.visits
    train = by_record(len(visits), train_share=0.8, rng=generator(SMALL_ROUNDS.seed, "data"))
    place, label, mood = visits.place.copy(), visits.label.copy(), visits.context["mood"].values.copy()
    place[~train] = rng.integers(15, size=(~train).sum())
    label[~train] = rng.permutation(label[~train])
    mood[~train] = rng.normal(size=(~train).sum())
    changed = replace(visits, place=place, label=label, context={"mood": replace(visits.context["mood"], values=mood)})
    other = set_up(CITY.with_visits(changed), setup.settings)
    assert other.encoding == setup.encoding
    assert same_to_learn_from(other.samples, setup.samples)


@FEW
@given(st.integers(0, 2**32))
def test_without_labels_the_set_up_is_blind_to_time_and_context_of_the_test(seed):
    rng, positive = np.random.default_rng(seed), CITY.visits.take(CITY.visits.label > 0)
    moments = np.arange(len(positive), dtype=np.int64) * 5_000  # each its own, over some weeks
    bare = replace(CITY, labelled=False, visits=replace(positive, time=moments))
    one = set_up(bare, SMALL_ROUNDS)
    hidden = np.isin(moments, one.prepared.test.time[one.prepared.test.label > 0])
    mood = np.where(hidden, rng.normal(size=len(positive)), positive.context["mood"].values)
    moved = replace(
        bare.visits,
        time=np.where(hidden, rng.integers(10**9, size=len(positive)), moments),
        context={"mood": replace(positive.context["mood"], values=mood)},
    )
    other = set_up(bare.with_visits(moved), SMALL_ROUNDS)
    assert hidden.any()
    assert not np.isin(one.prepared.train.time, moments[hidden]).any()
    assert other.encoding == one.encoding
    assert same_to_learn_from(other.samples, one.samples)


@pytest.mark.parametrize("setup", [SETUP, NOISY], ids=["plain counts", "noisy sums"])
def test_training_records_do_show(setup):
    visits = CITY.visits
    flipped = set_up(CITY.with_visits(replace(visits, label=-visits.label)), setup.settings)
    assert not same_to_learn_from(flipped.samples, setup.samples)
    assert not same_bits(flipped.samples.popularity, setup.samples.popularity)
