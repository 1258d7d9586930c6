"""A whole visit vector under one ε for each user: one place speaks for it, or some POIs are asked about."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, ks_2samp

from prirec.errors import UsageError
from prirec.privacy.hadamard import HadamardResponse, _transform
from prirec.privacy.local_hashing import LocalHashing
from prirec.privacy.one_place import NOTHING, Visits
from prirec.privacy.sampling_pois import SampledPois, look_up
from prirec.privacy.unary import OptimisedUnary
from prirec.privacy.units import Adjacency, Unit
from support.exact import exp_at_most, fresh
from support.patience import FEW

ONE_PLACE = [OptimisedUnary, LocalHashing, HadamardResponse]


def person(*places, slots, times=1):
    starts = np.arange(times + 1) * len(places)
    return Visits(starts, np.tile(np.array(places, dtype=np.int32), times), slots)


@pytest.mark.statistical  # false alarm 1e-9; must notice that empty slots were left out
@pytest.mark.parametrize(("places", "slots"), [((4, 7), 5), ((4, 7, 9), 2), ((), 3)])
def test_each_slot_is_drawn_alike(places, slots):
    runs, size = 30_000, max(len(places), slots)
    visits = person(*places, slots=slots, times=runs)
    for items in (visits.drawn(fresh()), visits.simulated(np.random.default_rng())):
        counts = [int((items == place).sum()) for place in places] + [int((items == NOTHING).sum())]
        assert sum(counts) == runs
        wanted = [runs / size] * len(places) + [runs * (size - len(places)) / size]
        seen = [(c, w) for c, w in zip(counts, wanted, strict=True) if w]
        assert len(seen) == 1 or chisquare(*zip(*seen, strict=True)).pvalue > 1e-9
        if places and size > len(places):
            full = [runs / len(places)] * len(places) + [1]
            assert np.sum((np.array(counts) - full) ** 2 / full) > 100


def test_weighted_popularity_counts_a_person_for_no_more_than_the_slots():
    visits = Visits(np.array([0, 1, 1, 5]), np.array([0, 0, 1, 2, 3], dtype=np.int32), slots=2)
    assert visits.weighted_popularity(5).tolist() == [1.5, 0.5, 0.5, 0.5, 0.0]
    assert visits.chances(5, power=2).tolist() == [0.25 + 1 / 16, 1 / 16, 1 / 16, 1 / 16, 0.0]


@pytest.mark.statistical  # false alarm 1e-9; must notice the own and the other probability exchanged
@pytest.mark.parametrize("build", [OptimisedUnary, LocalHashing])
def test_simulated_supports_have_the_law_of_answers_added_up(build):
    mechanism, runs = build(1.0, 3), 2000
    items = np.array([0] * 30 + [1] * 10 + [NOTHING] * 10)
    answers = mechanism.answers(np.tile(items, runs), fresh())
    if build is LocalHashing:
        poi_0 = (answers.values == answers.b >> np.uint64(64 - mechanism.bits)).reshape(runs, -1).sum(axis=1)
    else:
        poi_0 = answers[:, 0].reshape(runs, -1).sum(axis=1)
    rng = np.random.default_rng()
    simulated = np.array([mechanism.support.simulate(items, pois=3, rng=rng) for _ in range(runs)])
    assert ks_2samp(poi_0, simulated[:, 0]).pvalue > 1e-9
    assert ks_2samp(poi_0, simulated[:, 1]).pvalue < 1e-9


@FEW
@given(epsilon=st.floats(0.01, 6))
def test_unary_answers_enumerated_keep_the_ratio(epsilon):
    mechanism = OptimisedUnary(epsilon, 3)
    p, q = mechanism.support.own, mechanism.support.other

    def law(item, bits):
        chances = [p if j == item else q for j in range(3)]
        return np.prod([c if bit else 1 - c for c, bit in zip(chances, bits, strict=True)])

    ratios = worst_ratio(law, [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)])
    assert ratios == mechanism.likelihood_ratio()


@FEW
@given(epsilon=st.floats(0.01, 6))
def test_hadamard_answers_enumerated_keep_the_ratio(epsilon):
    mechanism = HadamardResponse(epsilon, 3)
    q = mechanism.coin.flip

    def law(item, y):
        if item == NOTHING:
            return Fraction(1, 4)
        return Fraction(2, 4) * (q if ((item + 1) & y).bit_count() % 2 else 1 - q)

    assert all(sum(law(item, y) for y in range(4)) == 1 for item in (NOTHING, 0, 1, 2))
    assert worst_ratio(law, range(4)) == mechanism.likelihood_ratio() <= exp_at_most(epsilon)


def worst_ratio(law, outputs):
    return max(law(a, out) / law(b, out) for out in outputs for a in (NOTHING, 0, 1, 2) for b in (NOTHING, 0, 1, 2))


@pytest.mark.statistical  # false alarm 1e-9; must notice an answer for nothing that favours a half
def test_hadamard_answers_have_their_law():
    mechanism = HadamardResponse(1.0, 6)
    q = float(mechanism.coin.flip)
    for item in (NOTHING, 0, 4, 5):
        counts = np.bincount(mechanism.answers(np.full(80_000, item), fresh()), minlength=8)
        odd = np.bitwise_count((item + 1) & np.arange(8)) % 2 == 1
        wanted = np.full(8, 10_000.0) if item == NOTHING else np.where(odd, q, 1 - q) * 20_000
        assert chisquare(counts, wanted).pvalue > 1e-9
        assert chisquare(counts, np.roll(wanted, 1) if item != NOTHING else np.array([9000, 11000] * 4)).pvalue < 1e-9


@FEW
@given(counts=st.lists(st.integers(0, 100), min_size=8, max_size=8))
def test_the_fast_transform_equals_the_matrix(counts):
    signs = 1 - 2 * (np.bitwise_count(np.arange(8)[:, None] & np.arange(8)) % 2).astype(np.int64)
    assert (_transform(np.array(counts)) == signs @ counts).all()


@pytest.mark.parametrize(("pois", "order"), [(1, 2), (3, 4), (4, 8), (118_598, 131_072)])
def test_every_poi_has_a_row_that_is_not_constant(pois, order):
    assert HadamardResponse(1.0, pois).order == order


def test_hashes_are_exactly_pairwise_independent():
    """All words a, b of a ring of 2^6 instead of 2^64, 3-bit POIs and 4 buckets: each pair of values as often."""
    for x, y in combinations(range(8), 2):
        pairs = [((a * x + b) % 64 >> 4, (a * y + b) % 64 >> 4) for a in range(64) for b in range(64)]
        assert {pairs.count(pair) for pair in set(pairs)} == {64 * 64 // 16}


def test_hashed_supports_equal_the_hash_written_out():
    mechanism = LocalHashing(2.0, 40)
    answers = mechanism.answers(np.array([3, NOTHING, 39, 0]), fresh())
    triples = zip(answers.a.tolist(), answers.b.tolist(), answers.values.tolist(), strict=True)
    shift = 64 - mechanism.bits
    wanted = sum(np.array([(a * x + b) % 2**64 >> shift == v for x in range(40)]) for a, b, v in triples)
    assert mechanism.supports(answers).tolist() == wanted.tolist()
    assert mechanism.buckets == 8


def test_with_two_buckets_there_is_one_other_value():
    answers = LocalHashing(0.01, 5).answers(np.zeros(1000, dtype=np.int64), fresh())
    assert set(answers.values.tolist()) == {0, 1}


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_a_power_of_two_costs_local_hashing_little_against_unary(epsilon):
    visits = person(0, slots=1, times=1000)
    unary, hashing = (b(epsilon, 2).support.variance(visits, 2)[1] for b in (OptimisedUnary, LocalHashing))
    assert hashing < 1.1 * unary


@FEW
@given(epsilon=st.floats(0.01, 10), sampled=st.integers(1, 60))
def test_the_answers_of_one_person_never_exceed_epsilon_together(epsilon, sampled):
    mechanism = SampledPois(epsilon, 60, sampled)
    assert Fraction(mechanism.coin.epsilon_per_bit) * sampled <= Fraction(epsilon)
    assert mechanism.likelihood_ratio() <= exp_at_most(epsilon)


def test_a_share_that_a_float_rounds_up_is_taken_down():
    assert Fraction(1.0 / 49 * 49) != 1  # as floats go
    rounded_up = [k for k in range(1, 100) if Fraction(1.0 / k) * k > 1]
    assert rounded_up
    assert all(SampledPois(1.0, 100, k).coin.epsilon_per_bit < 1.0 / k for k in rounded_up)


@pytest.mark.statistical  # false alarm 1e-9; must notice sets that are likelier by a half
def test_every_set_of_pois_is_asked_about_alike():
    asked = np.sort(SampledPois(1.0, 5, 3).questions(50_000, fresh()), axis=1)
    sets, counts = np.unique(asked, axis=0, return_counts=True)
    assert sets.tolist() == [list(three) for three in combinations(range(5), 3)]
    assert chisquare(counts).pvalue > 1e-9
    assert chisquare(counts, 50_000 * np.array([1.5] + [1] * 9) / 10.5).pvalue < 1e-9


def test_looking_up_says_who_was_where():
    starts, places = np.array([0, 2, 2, 3]), np.array([4, 1, 0], dtype=np.int32)
    asked = np.array([[1, 0], [1, 4], [0, 4]])
    assert look_up(asked, starts=starts, places=places, pois=5).tolist() == [
        [True, False],
        [False, False],
        [True, False],
    ]


def test_the_loss_is_for_each_user_between_any_two_visit_vectors():
    for mechanism in (*(build(0.7, 9) for build in ONE_PLACE), SampledPois(0.7, 9)):
        loss = mechanism.loss_per_user()
        assert (loss.epsilon, loss.delta, loss.unit, loss.adjacency) == (0.7, 0, Unit.USER, Adjacency.REPLACE_ONE)


def test_the_city_of_the_issue_fits():
    items = np.random.default_rng(1).integers(-1, 118_598, 85_466)
    hadamard = HadamardResponse(1.0, 118_598)
    counts = hadamard.support.estimate(hadamard.supports(hadamard.answers(items, fresh())), people=85_466, slots=1)
    assert counts.shape == (118_598,)
    supports = OptimisedUnary(1.0, 118_598).support.simulate(items, pois=118_598, rng=np.random.default_rng(2))
    assert supports.shape == (118_598,)


@pytest.mark.parametrize("build", ONE_PLACE)
@pytest.mark.parametrize("item", [-2, 5])
def test_a_place_outside_the_catalogue_is_refused(build, item):
    with pytest.raises(UsageError, match="catalogue"):
        build(1.0, 5).answers(np.array([item]), fresh())


@pytest.mark.parametrize(
    "refused",
    [
        lambda: person(1, slots=0),
        lambda: LocalHashing(1.0, 0),
        lambda: LocalHashing(1.0, 2**32),
        lambda: HadamardResponse(1.0, 0),
        lambda: HadamardResponse(1.0, 3).supports(np.array([4])),
        lambda: HadamardResponse(1.0, 3).supports(np.array([-1])),
        lambda: SampledPois(1.0, 5, 0),
        lambda: SampledPois(1.0, 5, 6),
        lambda: SampledPois(1.0, 5, 2).answers(np.ones((3, 1), bool), fresh()),
        lambda: SampledPois(1.0, 5, 2).answers(np.ones(2, bool), fresh()),
        lambda: SampledPois(1.0, 5, 2).estimate(np.zeros((3, 2), int), np.ones((2, 2), bool)),
    ],
)
def test_what_makes_no_sense_is_refused(refused):
    with pytest.raises(UsageError):
        refused()
