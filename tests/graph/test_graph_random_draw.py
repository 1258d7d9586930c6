from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from prirec.errors import UsageError
from prirec.graph.neighbours import draw, draw_neighbours, random_neighbours
from support import messages


def evenness_p(seen) -> float:
    """Chi-square of counts against all alike."""
    seen = np.asarray(seen, dtype=float)
    expected = seen.sum() / len(seen)
    return float(chi2.sf(((seen - expected) ** 2 / expected).sum(), len(seen) - 1))


def tampered(seen) -> list[float]:
    """The same counts had the first been a tenth likelier."""
    return [seen[0] + 0.1 * sum(seen) / len(seen), *seen[1:]]


@given(st.integers(2, 60), st.data())
def test_fixed_neighbours_are_distinct_and_never_oneself(people, data):
    count = data.draw(st.integers(1, people - 1))
    found = random_neighbours(people, count=count, rng=np.random.default_rng(data.draw(st.integers(0, 99))))
    assert (found.counts() == count).all()
    for person in range(people):
        chosen = set(found.of(person).tolist())
        assert len(chosen) == count
        assert person not in chosen
        assert chosen <= set(range(people))


@pytest.mark.parametrize("count", [2, 3])  # by rejection, by order
@pytest.mark.statistical  # false alarm 1e-9 each; must notice one sequence a tenth likelier
def test_every_sequence_of_fixed_neighbours_is_equally_likely(count):
    rng = np.random.default_rng(11)
    seen: Counter[tuple[int, ...]] = Counter()
    people = 5
    for _ in range(8_000):
        found = random_neighbours(people, count=count, rng=rng).people.reshape(people, count)
        seen.update(map(tuple, ((found - np.arange(people)[:, None]) % people).tolist()))
    sequences = [seen[s] for s in permutations(range(1, people), count)]
    assert sum(sequences) == 8_000 * people
    assert evenness_p(sequences) > 1e-9
    assert evenness_p(tampered(sequences) if count == 2 else [1.3 * sequences[0], *sequences[1:]]) < 1e-6


def test_fixed_neighbours_over_several_blocks_are_still_distinct(monkeypatch):
    monkeypatch.setattr("prirec.graph.neighbours._BLOCK_CELLS", 64)
    found = random_neighbours(100, count=20, rng=np.random.default_rng(0))
    assert all(len(set(found.of(i).tolist()) - {i}) == 20 for i in range(100))


@given(st.integers(0, 2**64 - 1), st.integers(2, 50), st.data())
def test_a_keyed_draw_is_distinct_never_oneself_and_the_same_again(key, people, data):
    person, count = data.draw(st.integers(0, people - 1)), data.draw(st.integers(1, people - 1))
    drawn = draw(key, person, people, count)
    assert drawn.dtype == np.int32
    assert len(set(drawn.tolist()) - {person}) == count
    assert drawn.min() >= 0
    assert drawn.max() < people
    assert (drawn == draw(key, person, people, count)).all()


def test_a_shorter_draw_is_the_beginning_of_a_longer_one():
    assert (draw(3, 7, 100, 10)[:4] == draw(3, 7, 100, 4)).all()


def test_a_keyed_draw_depends_on_key_and_person():
    assert (draw(3, 7, 10_000, 10) != draw(4, 7, 10_000, 10)).any()
    assert (draw(3, 7, 10_000, 10) != draw(3, 8, 10_000, 10)).any()


@pytest.mark.parametrize("person", [0, 2, 4])
@pytest.mark.statistical  # false alarm 1e-9 each; must notice one pair in twelve being a tenth likelier
def test_consecutive_keys_draw_every_pair_alike(person):
    out = np.empty(2, dtype=np.int32)
    seen: Counter[tuple[int, ...]] = Counter()
    for key in range(120_000):
        draw_neighbours(np.uint64(key), person, 5, out)
        seen[tuple(out.tolist())] += 1
    pairs = [seen[p] for p in permutations([i for i in range(5) if i != person], 2)]
    assert sum(pairs) == 120_000
    assert evenness_p(pairs) > 1e-9
    assert evenness_p(tampered(pairs)) < 1e-6


@pytest.mark.statistical  # false alarm 1e-9; must notice that one person in a thousand is drawn twice as often
def test_one_key_over_many_people_draws_everyone_alike():
    people, out = 1_000, np.empty(30, dtype=np.int32)
    seen = np.zeros(people)
    for key in range(20):
        for person in range(people):
            draw_neighbours(np.uint64(key), person, people, out)
            seen[out] += 1
    assert evenness_p(seen) > 1e-9
    assert evenness_p([2 * seen[0], *seen[1:]]) < 1e-9


def test_the_kernel_refuses_more_neighbours_than_there_are_others():
    with pytest.raises(UsageError, match=messages.AS_MANY_NEIGHBOURS_AS_PEOPLE):
        draw_neighbours(np.uint64(0), 0, 3, np.empty(3, dtype=np.int32))


@pytest.mark.parametrize("count", [0, 5])
def test_both_draws_state_the_limit(count):
    with pytest.raises(UsageError, match=messages.number_of_neighbours(4, people=5)):
        draw(0, 0, 5, count)
    with pytest.raises(UsageError, match=messages.number_of_neighbours(4, people=5)):
        random_neighbours(5, count=count, rng=np.random.default_rng(0))


@pytest.mark.parametrize("person", [-1, 5])
def test_a_draw_for_nobody_is_refused(person):
    with pytest.raises(UsageError, match=messages.person_is_a_row_up_to(4)):
        draw(0, person, 5, 2)
