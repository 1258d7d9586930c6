"""The mask graph: that it is a graph, and that nobody can foresee it; the complete one; whom it refuses."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from prirec.errors import UsageError
from prirec.protocols.mask_graph import (
    MOST_DEVICES,
    SMALL,
    Graph,
    adequate,
    all_neighbours,
    complete,
    least_survivors,
    neighbours,
    plan,
)
from support import messages
from support.hypothesis_settings import PATIENT


def beacon_of(number: int) -> bytes:
    return number.to_bytes(32, "big")


# Complete graphs


@pytest.mark.parametrize(
    ("size", "threshold"), [(2, 2), (3, 3), (4, 3), (5, 4), (6, 5), (7, 5), (9, 7), (10, 7), (100, 67)]
)
def test_a_complete_graph_has_just_over_two_thirds_as_threshold(size, threshold):
    assert complete(size) == Graph(size, size - 1, threshold)


def test_a_complete_graph_survives_a_fifth_lost():
    assert all(complete(size).threshold <= size - size // 5 for size in range(2, 5000))


@PATIENT
@given(st.integers(2, 10_000))
def test_a_complete_graph_keeps_the_two_secrets_apart_below_a_third_corrupt(size):
    graph, corrupt = complete(size), -(-size // 3) - 1
    assert 2 * graph.threshold > size + corrupt
    assert graph.threshold > 2 * size // 3


@pytest.mark.parametrize("size", [2, 3, 6, 7, 30, SMALL])
def test_small_rosters_are_complete_and_nothing_sparser_is_accepted(size):
    assert plan(size, corrupt=0.05, lost=0.2) == complete(size)
    assert adequate(complete(size), corrupt=0.05, lost=0.2)
    assert not any(adequate(Graph(size, k, t), corrupt=0, lost=0) for k in range(size - 1) for t in range(size))


def test_just_above_the_small_ones_a_plan_is_sparse():
    assert plan(SMALL + 1, corrupt=0.05, lost=0.2).degree < SMALL


def test_where_no_sparser_graph_will_do_a_plan_is_complete():
    assert plan(70, corrupt=0.3, lost=0.3) == complete(70)


# The graph itself

VECTOR = [171, 221, 527, 607, 827, 843, 869, 877]  # of the first release
RINGS = [
    Graph(9, 2, 2),
    Graph(10, 8, 6),
    Graph(11, 10, 8),
    Graph(50, 12, 8),
    Graph(5, 4, 4),
    Graph(4, 3, 3),
    Graph(2, 1, 2),
]


@pytest.mark.parametrize("graph", RINGS)
def test_neighbours_are_mutual_exactly_k_others_and_in_order(graph):
    near = [neighbours(graph, beacon=beacon_of(7), position=at) for at in range(graph.size)]
    assert (all_neighbours(graph, beacon=beacon_of(7)) == np.stack(near)).all()
    joined = np.zeros((graph.size, graph.size), dtype=bool)
    for at, others in enumerate(near):
        assert others.dtype == np.int32
        assert others.shape == (graph.degree,)
        assert (np.diff(others) > 0).all()
        joined[at, others] = True
    assert (joined == joined.T).all()
    assert not joined.diagonal().any()
    assert (joined.sum(axis=1) == graph.degree).all()


def test_the_same_beacon_gives_the_same_graph_and_another_one_another():
    graph = Graph(200, 20, 12)
    seen = {tuple(neighbours(graph, beacon=beacon_of(b), position=3).tolist()) for b in (1, 2, 3, 1, 2, 3)}
    assert len(seen) == 3


def test_the_graph_is_the_same_on_every_machine():
    """A vector: devices of different makes must agree on who their neighbours are."""
    assert neighbours(Graph(1000, 8, 6), beacon=bytes(range(32)), position=0).tolist() == VECTOR


def test_what_a_caller_does_with_the_answer_changes_nobody_elses():
    graph = Graph(50, 12, 8)
    first = neighbours(graph, beacon=beacon_of(1), position=0)
    kept = first.copy()
    first[:] = 0
    assert (neighbours(graph, beacon=beacon_of(1), position=0) == kept).all()


@pytest.mark.statistical  # false alarm 1e-9; must notice one neighbourhood in 15 being a third likelier
def test_every_neighbourhood_is_equally_likely():
    places = {pair: at for at, pair in enumerate(combinations([0, 1, 2, 4, 5, 6], 2))}
    counts = np.zeros(len(places))
    for number in range(12_000):
        counts[places[tuple(neighbours(Graph(7, 2, 2), beacon=beacon_of(number), position=3).tolist())]] += 1
    assert chisquare(counts).pvalue > 1e-9
    counts[0] *= 4 / 3
    assert chisquare(counts).pvalue < 1e-9


NO_GRAPHS = [Graph(10, 5, 3), Graph(10, 10, 7), Graph(10, 0, 0), Graph(1, 0, 1), Graph(2 * MOST_DEVICES, 4, 3)]


@pytest.mark.parametrize("graph", NO_GRAPHS)
def test_neighbours_in_what_is_no_graph_are_refused(graph):
    with pytest.raises(UsageError, match=messages.ODD_DEGREE):
        neighbours(graph, beacon=beacon_of(0), position=0)


@pytest.mark.parametrize("position", [-1, 10])
@pytest.mark.parametrize("graph", [Graph(10, 4, 3), Graph(10, 9, 7)])
def test_neighbours_of_nobody_are_refused(graph, position):
    with pytest.raises(UsageError, match=messages.POSITION_OUTSIDE_THE_GRAPH):
        neighbours(graph, beacon=beacon_of(0), position=position)


# Survivors and refusals


@pytest.mark.parametrize(
    ("size", "floor", "lost", "least"),
    [
        (1000, 100, 0.2, 800),
        (110, 100, 0.2, 100),
        (100, 2, 0.29, 71),
        (7, 2, 0.2, 6),
        (50, 100, 0.2, 100),
        (0, 0, 0.5, 0),
    ],
)
def test_the_fewest_survivors_are_the_floor_or_what_may_be_left(size, floor, lost, least):
    assert least_survivors(size, floor=floor, lost=lost) == least


@pytest.mark.parametrize(
    ("size", "floor", "lost"), [(-1, 0, 0.1), (9, -1, 0.1), (9, 2, 1.0), (9, 2, -0.1), (9, 2, math.nan)]
)
def test_survivors_of_nonsense_are_refused(size, floor, lost):
    with pytest.raises(UsageError, match=messages.LOST_OUT_OF_RANGE):
        least_survivors(size, floor=floor, lost=lost)


@pytest.mark.parametrize(
    ("corrupt", "lost"),
    [(-0.1, 0.1), (0.1, -0.1), (math.nan, 0.1), (0.1, math.nan), (0.5, 0.5), (0.2, 0.4), (math.inf, 0), (1.0, 0.0)],
)
def test_shares_that_no_graph_bears_are_refused_with_the_limit(corrupt, lost):
    with pytest.raises(UsageError, match=messages.CORRUPT_AND_LOST_OUT_OF_RANGE):
        plan(1000, corrupt=corrupt, lost=lost)
    with pytest.raises(UsageError, match=messages.CORRUPT_AND_LOST_OUT_OF_RANGE):
        adequate(Graph(1000, 300, 185), corrupt=corrupt, lost=lost)


@pytest.mark.parametrize("size", [-1, 0, 1, MOST_DEVICES + 1])
def test_too_few_or_too_many_devices_are_refused_with_the_limit(size):
    for ask in (complete, lambda n: plan(n, corrupt=0.05, lost=0.2)):
        with pytest.raises(UsageError, match=messages.size_of_a_mask_graph(MOST_DEVICES)):
            ask(size)


@pytest.mark.parametrize(("size", "corrupt", "lost"), [(20, 0.5, 0.1), (70, 0.05, 0.45), (1_000_000, 0.05, 0.4)])
def test_a_roster_that_no_graph_makes_safe_is_refused(size, corrupt, lost):
    with pytest.raises(UsageError, match=messages.NO_GRAPH_BEARS_SO_MANY_CORRUPT):
        plan(size, corrupt=corrupt, lost=lost)
