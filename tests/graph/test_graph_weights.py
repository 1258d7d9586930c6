import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.errors import UsageError
from prirec.graph.neighbours import (
    Neighbours,
    distance_weights,
    metropolis_weights,
    nearest,
    ones_weights,
    random_neighbours,
)
from support import messages


def graph(*lists: list[int]) -> Neighbours:
    offsets = np.cumsum([0, *map(len, lists)])
    return Neighbours(offsets, np.array([f for row in lists for f in row], dtype=np.int32))


def matrix(neighbours: Neighbours, weights, own) -> np.ndarray:
    """S written out, (I, I)."""
    S = np.diag(own)
    np.add.at(S, (neighbours.owners(), neighbours.people), weights)
    return S


@st.composite
def graphs(draw) -> Neighbours:
    """Any directed graph without loops, people without neighbours included."""
    people = draw(st.integers(1, 12))
    others = [[f for f in range(people) if f != i] for i in range(people)]
    return graph(*(draw(st.lists(st.sampled_from(row), unique=True)) if row else [] for row in others))


def everywhere(people: int) -> np.ndarray:
    return np.random.default_rng(people).uniform((-90, -180), (90, 180), size=(people, 2))


EVERY = {
    "metropolis_hastings": metropolis_weights,
    "exponential": lambda n: distance_weights(n, everywhere(len(n)), kind="exponential", scale_km=1.0),
    "gaussian": lambda n: distance_weights(n, everywhere(len(n)), kind="gaussian", scale_km=1.0),
    "inverse": lambda n: distance_weights(n, everywhere(len(n)), kind="inverse", scale_km=1.0),
}


@pytest.mark.parametrize("name", EVERY)
@given(graphs())
def test_every_row_sums_to_one_and_nothing_is_negative(name, neighbours):
    weights, own = EVERY[name](neighbours)
    assert weights.shape == neighbours.people.shape
    S = matrix(neighbours, weights, own)
    assert (S >= 0).all()
    assert S.sum(axis=1) == pytest.approx(1)
    assert (own[neighbours.counts() == 0] == 1).all()


@given(graphs())
def test_metropolis_hastings_keeps_everyones_average_on_any_directed_graph(neighbours):
    S = matrix(neighbours, *metropolis_weights(neighbours))
    assert (S == S.T).all()
    assert S.sum(axis=0) == pytest.approx(1)


def test_metropolis_hastings_counts_only_edges_that_are_returned():
    weights, own = metropolis_weights(graph([1, 2], [0], [1]))  # 0 and 1 name each other
    assert weights.tolist() == [0.5, 0.0, 0.5, 0.0]
    assert own.tolist() == [0.5, 0.5, 1.0]


@pytest.mark.parametrize(
    ("kind", "ratio"),
    [("exponential", np.exp(-1)), ("gaussian", np.exp(-1.5)), ("inverse", 2 / 3)],
)
def test_twice_the_scale_weighs_less_than_once_by_the_stated_function(kind, ratio):
    degree_km = 111.19508
    location = np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 2.0]])
    (near, far, *_), _ = distance_weights(graph([1, 2], [], []), location, kind=kind, scale_km=degree_km)
    assert far / near == pytest.approx(ratio, rel=1e-5)


def test_weights_survive_when_everyone_is_ten_thousand_scales_away():
    location = np.array([[0.0, 0.0], [0.0, 90.0], [0.0, 90.0]])
    weights, _ = distance_weights(graph([1, 2], [], []), location, kind="gaussian", scale_km=1.0)
    assert weights.tolist() == [0.5, 0.5]


def test_weights_by_distance_need_locations_a_scale_and_a_known_function():
    neighbours = graph([1], [0])
    location = np.zeros((2, 2))
    with pytest.raises(UsageError, match=messages.WEIGHTS_WITHOUT_A_LOCATION):
        distance_weights(neighbours, np.array([[0.0, 0.0], [np.nan, 0.0]]), kind="inverse", scale_km=1.0)
    with pytest.raises(UsageError, match=messages.WEIGHTS_WITHOUT_A_LOCATION):
        distance_weights(neighbours, location[:1], kind="inverse", scale_km=1.0)
    for scale in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(UsageError, match=messages.SCALE_OUT_OF_RANGE):
            distance_weights(neighbours, location, kind="inverse", scale_km=scale)
    with pytest.raises(UsageError, match=messages.NO_SUCH_WEIGHTS):
        distance_weights(neighbours, location, kind="linear", scale_km=1.0)  # type: ignore[arg-type]


def test_people_nobody_is_near_may_lack_a_location():
    location = np.array([[0.0, 0.0], [0.0, 1.0], [np.nan, np.nan]])
    neighbours = nearest(location, count=1)
    weights, own = distance_weights(neighbours, location, kind="exponential", scale_km=5.0)
    assert weights.tolist() == [1, 1]
    assert own.tolist() == [0, 0, 1]


def test_unit_weights_are_refused_until_asked_for_by_name():
    with pytest.raises(UsageError, match=messages.WEIGHTS_OF_ONE_REFUSED):
        ones_weights(graph([1], [0]))
    with pytest.raises(UsageError, match=messages.WEIGHTS_OF_ONE_DIVERGE):
        ones_weights(graph([1], [0]), knowing="yes")


def test_unit_weights_diverge_as_the_refusal_says_and_the_mean_does_not():
    neighbours = random_neighbours(200, count=30, rng=np.random.default_rng(2))
    grows = matrix(neighbours, *ones_weights(neighbours, knowing="it diverges"))
    stays = grows / 30
    start = np.full(200, 0.01)
    assert (np.linalg.matrix_power(grows, 10) @ start > 1e11).all()
    assert np.linalg.matrix_power(stays, 10) @ start == pytest.approx(0.01)
