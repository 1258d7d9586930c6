"""Weighted popularity: everyone's vector has norm 1, exactly; the sum is weighted, the noise as stated."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from prirec.errors import UsageError
from prirec.features.popularity import OwnCounts
from prirec.privacy.norm import Norm, clipped, fine_enough
from prirec.privacy.weighted_popularity import NoisySums, capped, opened, simulated, weighted, written
from support import messages

# person 0 is at places 0, 1, 2, 3; person 1 at place 3; nobody is at place 4
VISITS = OwnCounts(5, np.array([0, 1, 2, 3, 5 + 3]), np.ones(5))
SPEND = OwnCounts(5, np.array([0, 5 + 3]), np.array([3.0, 0.0]))


def own(people: list[list[float]], places: int = 40) -> OwnCounts:
    """Person i has these numbers at places 0, 1, ..."""
    pairs = [i * places + j for i, row in enumerate(people) for j in range(len(row))]
    return OwnCounts(places, np.array(pairs, dtype=np.int64), np.array([c for row in people for c in row]))


def squared_norms(*parts: OwnCounts) -> dict[int, Fraction]:
    found: dict[int, Fraction] = {}
    for part in parts:
        for pair, count in zip(part.pairs.tolist(), part.counts.tolist(), strict=True):
            found[pair // part.places] = found.get(pair // part.places, Fraction(0)) + Fraction(count) ** 2
    return found


def test_four_places_get_a_half_each_and_a_single_one_all() -> None:
    assert weighted({"visitors": VISITS})["visitors"].total() == pytest.approx([0.5, 0.5, 0.5, 1.5, 0.0], rel=1e-12)


def test_repeated_visits_weigh_in_where_they_are_counted() -> None:
    found = weighted({"visits": own([[3.0, 4.0]])})["visits"]
    assert found.counts == pytest.approx([0.6, 0.8], rel=1e-12)


NUMBERS = st.one_of(st.just(0.0), st.floats(1e-6, 1e6), st.floats(-1e6, -1e-6), st.integers(1, 9).map(float))


@given(
    first=st.lists(st.lists(NUMBERS, max_size=30), max_size=5),
    second=st.lists(st.lists(NUMBERS, max_size=30), max_size=5),
)
def test_no_contribution_exceeds_norm_1_in_exact_arithmetic(
    first: list[list[float]], second: list[list[float]]
) -> None:
    found = weighted({"a": own(first), "b": own(second)})
    for squared in squared_norms(*found.values()).values():
        assert squared == 0 or 1 - Fraction(1, 10**12) < squared <= 1


def test_norm_1_is_not_exceeded_by_rounding_for_any_number_of_places_up_to_2000() -> None:
    found = weighted({"a": own([[1.0] * v for v in range(1, 2001)], places=2000)})["a"]
    weights = found.counts[np.flatnonzero(found.pairs % 2000 == 0)]
    assert all(v * Fraction(weight) ** 2 <= 1 for v, weight in enumerate(weights.tolist(), start=1))
    unguarded = [1 / v**0.5 for v in range(1, 2001)]
    assert any(v * Fraction(weight) ** 2 > 1 for v, weight in enumerate(unguarded, start=1))


def test_several_statistics_share_one_norm() -> None:
    found = weighted({"visitors": VISITS, "spend": SPEND})
    assert found["visitors"].counts == pytest.approx(np.array([1, 1, 1, 1, 13**0.5]) / 13**0.5)  # 4 + 3² = 13
    assert found["spend"].counts == pytest.approx([3 / 13**0.5, 0.0])


def test_without_people_or_visits_the_sum_is_zero() -> None:
    assert weighted({}) == {}
    empty = weighted({"visitors": own([])})["visitors"]
    assert empty.total().tolist() == [0.0] * 40
    assert not weighted({"visitors": own([[0.0, 0.0]])})["visitors"].total().any()


def test_without_noise_the_sum_is_the_sum() -> None:
    parts = weighted({"visitors": VISITS})["visitors"]
    release = simulated(parts, sigma=0.0, rng=np.random.default_rng(1))
    assert (release.sums == parts.total()).all()
    assert release.sigma == 0.0
    assert (release.own.counts == parts.counts).all()


@pytest.mark.statistical  # seeded, so no false alarm; within 5 sd; must notice a sigma off by 2 %
def test_the_noise_has_the_stated_spread() -> None:
    many = OwnCounts(200_000, np.array([0], dtype=np.int64), np.array([1.0]))
    noise = simulated(many, sigma=4.225, rng=np.random.default_rng(2)).sums - many.total()
    assert abs(noise.mean()) < 5 * 4.225 / 200_000**0.5
    assert noise.std() == pytest.approx(4.225, rel=5 / 400_000**0.5)
    assert noise.std() != pytest.approx(4.225 * 1.02, rel=5 / 400_000**0.5)


def draws(visits: OwnCounts, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random(len(visits.pairs))


def test_a_cap_keeps_whoever_is_below_it_and_weighs_everyone_alike() -> None:
    found = capped(VISITS, most=4, draws=draws(VISITS, 3))
    assert (found.pairs == VISITS.pairs).all()
    assert found.total() * 2 == pytest.approx([1, 1, 1, 2, 0])  # times √4 it is the count of visitors
    assert max(squared_norms(found).values()) <= 1


def test_a_cap_keeps_random_places_of_whoever_is_above_it() -> None:
    seen = np.zeros(5)
    for seed in range(400):
        found = capped(VISITS, most=2, draws=draws(VISITS, seed))
        assert np.bincount(found.pairs // 5).tolist() == [2, 1]
        assert (np.diff(found.pairs) > 0).all()
        seen += np.bincount(found.pairs % 5, minlength=5)
    assert seen[[0, 1, 2]] == pytest.approx([200, 200, 200], abs=60)  # 6 sd
    assert seen[3] == pytest.approx(600, abs=60)


@pytest.mark.parametrize("most", [1, 2, 3, 7, 1000])
def test_a_cap_holds_norm_1_exactly(most: int) -> None:
    both = own([[1.0] * 40, [1.0]])
    found = capped(both, most=most, draws=draws(both, 4))
    assert all(squared <= 1 for squared in squared_norms(found).values())


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e60, 1e-60])
def test_a_number_without_a_finite_square_is_refused_and_not_printed(bad: float) -> None:
    with pytest.raises(UsageError) as told:
        weighted({"spend": own([[bad]])})
    assert str(bad) not in str(told.value).split()


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_sigma_is_finite_and_not_negative(bad: float) -> None:
    with pytest.raises(UsageError, match=messages.SIGMA_OUT_OF_RANGE):
        simulated(VISITS, sigma=bad, rng=np.random.default_rng(0))


def test_a_cap_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match=messages.CAP_OF_NOTHING):
        capped(VISITS, most=0, draws=draws(VISITS, 0))


def test_a_release_does_not_print_what_people_gave() -> None:
    assert "array" not in repr(NoisySums(np.zeros(5), 1.0, VISITS))


# In whole numbers, as a device writes them

NORMS = st.builds(Norm, st.floats(0.1, 10), st.integers(4, 24))


def rows_of(found: OwnCounts) -> dict[int, list[float]]:
    rows: dict[int, list[float]] = {}
    for pair, count in zip(found.pairs.tolist(), found.counts.tolist(), strict=True):
        rows.setdefault(pair // found.places, []).append(count)
    return rows


@given(people=st.lists(st.lists(NUMBERS, max_size=30), max_size=6), norm=NORMS)
def test_no_contribution_exceeds_the_norm_after_rounding_in_exact_integers(
    people: list[list[float]], norm: Norm
) -> None:
    found = written(own(people), norm)
    assert (found.counts == np.rint(found.counts)).all()
    for squared in squared_norms(found).values():
        assert squared <= norm.units**2


@given(people=st.lists(st.lists(NUMBERS, min_size=1, max_size=30), max_size=6), norm=NORMS)
def test_everyone_is_written_as_the_device_would_write_it(people: list[list[float]], norm: Norm) -> None:
    """privacy.norm.clipped, person by person; where a half is to be rounded, the last bit of a float may decide."""
    for person, row in rows_of(written(own(people), norm)).items():
        ours, theirs = np.array(row), clipped(np.array(people[person]), norm)
        assert np.abs(ours - theirs).max() <= 1


@pytest.mark.parametrize("bits", range(8, 17))
def test_visit_vectors_are_written_exactly_as_devices_write_them(bits: int) -> None:
    """What is collected: v places with 1/√v each. With v = 1, 4, 16, 64, 256 there is a half to be rounded."""
    norm = Norm(1.0, bits)
    contributions = weighted({"visitors": own([[1.0] * v for v in range(1, 401)], places=400)})["visitors"]
    different = [
        len(row)
        for person, row in rows_of(written(contributions, norm)).items()
        if row != clipped(np.array(rows_of_person(contributions, person)), norm).tolist()
    ]
    assert not different


def rows_of_person(found: OwnCounts, person: int) -> list[float]:
    return found.counts[found.pairs // found.places == person].tolist()


@pytest.mark.parametrize("most", [1, 2, 4, 16, 64, 100])
def test_capped_vectors_are_written_exactly_as_devices_write_them(most: int) -> None:
    visits = own([[1.0] * v for v in (1, 2, 3, 50, 100)], places=100)
    contributions = capped(visits, most=most, draws=draws(visits, 5))
    norm = fine_enough(1.0, 100)
    for person, row in rows_of(written(contributions, norm)).items():
        assert row == clipped(np.array(rows_of_person(contributions, person)), norm).tolist()


def test_rounding_alone_would_make_somebody_longer() -> None:
    """The planted mistake: three places get 147.8 units of 256 each, and 148 each are longer than 256."""
    three, norm = weighted({"visitors": own([[1.0] * 3])})["visitors"], Norm(1.0, 8)
    assert 3 * np.rint(three.counts * 256)[0] ** 2 > 256**2
    assert squared_norms(written(three, norm))[0] <= 256**2


@given(values=arrays(np.float64, st.integers(1, 40), elements=st.floats(-1e30, 1e30)))
def test_whatever_somebody_gives_the_others_stay_as_they_are(values: np.ndarray) -> None:
    norm = Norm(1.0, 12)
    alone = written(own([[0.25, 0.5], [], [0.1]]), norm)
    beside = written(own([[0.25, 0.5], values.tolist(), [0.1]]), norm)
    assert [rows_of(beside)[person] for person in (0, 2)] == [rows_of(alone)[person] for person in (0, 2)]
    assert rows_of(alone)[0] == [1024.0, 2048.0]  # short enough: nothing but themselves


def test_what_is_written_stands_beside_the_same_people_and_places() -> None:
    found = written(weighted({"visitors": VISITS})["visitors"], Norm(1.0, 12))
    assert (found.pairs == VISITS.pairs).all()
    assert found.places == 5
    assert found.total() == pytest.approx(np.array([0.5, 0.5, 0.5, 1.5, 0]) * 4096, abs=3)


def test_without_people_or_visits_the_written_sum_is_zero() -> None:
    empty = written(own([]), Norm(1.0, 12))
    assert empty.total().tolist() == [0.0] * 40
    assert written(own([[0.0, 0.0]]), Norm(1.0, 12)).total().tolist() == [0.0] * 40


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_has_no_length_is_refused_before_the_cast(bad: float) -> None:
    """As privacy.norm.clipped refuses it: an integer made of it would be anything."""
    with pytest.raises(UsageError):
        written(own([[0.5], [bad, 0.5]]), Norm(1.0, 12))


def test_what_is_opened_is_the_written_sum_and_the_noise_in_units_of_the_norm() -> None:
    """Added in whole numbers, so that the noise hides every bit; a device knows what it really added, rounded."""
    norm, noise = Norm(1.0, 8), np.array([3, -1000, 0, 7, 1], dtype=np.int64)
    vectors = weighted({"visitors": VISITS})["visitors"]
    found, whole = opened(vectors, norm=norm, noise=noise, noise_variance=Fraction(900)), written(vectors, norm)
    assert (found.sums * 256).tolist() == (whole.total() + noise).tolist()
    assert found.sigma == 30 / 256
    assert (found.own.counts * 256).tolist() == whole.counts.tolist()
    assert found.own.pairs.tolist() == VISITS.pairs.tolist()
    assert all(squared <= 1 for squared in squared_norms(found.own).values())
