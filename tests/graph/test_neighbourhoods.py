"""Who learns with whom in the paper's schedule: only people who are online, never oneself, N of them."""

import numpy as np
import pytest

from prirec.errors import UsageError
from prirec.graph.neighbours import NeighbourSets, draw, neighbourhoods_of
from support import messages
from support.cities import SMALL_PAPER, change, samples_of, small_city

SAMPLES = samples_of(small_city(), SMALL_PAPER)
PEOPLE = len(SAMPLES.ids)
EVERYONE, SOME, NOBODY = np.ones(PEOPLE, dtype=bool), np.arange(PEOPLE) % 3 > 0, np.zeros(PEOPLE, dtype=bool)
KINDS = {"nearest": {"kind": "nearest"}, "among": {"kind": "nearest", "among": 15}, "fixed": {"kind": "fixed"}}
WEIGHTS = ["metropolis", "exponential", "gaussian", "inverse", "ones-diverges"]
EACH_KIND = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def circle_of(online: np.ndarray, *, iteration: int = 0, seed: int = 0, **neighbours) -> NeighbourSets:
    settings = change(SMALL_PAPER, seed=seed, neighbours={"count": 6} | neighbours)
    return neighbourhoods_of(SAMPLES, settings, iteration=iteration, online=online)


def owners(around: NeighbourSets) -> np.ndarray:
    return np.repeat(np.arange(PEOPLE), np.diff(around.offsets))


@EACH_KIND
@pytest.mark.parametrize("online", [EVERYONE, SOME, NOBODY], ids=["everyone", "some", "nobody"])
def test_only_people_online_have_neighbours_and_are_neighbours(kind, online):
    around = circle_of(online, **kind)
    assert around.offsets[-1] == len(around.people)
    assert online[around.people].all()
    assert online[owners(around)].all()
    assert (around.people != owners(around)).all()
    assert len({*zip(owners(around), around.people, strict=True)}) == len(around.people)


@pytest.mark.parametrize("kind", ["nearest", "among"])
def test_everyone_online_has_n_neighbours_online(kind):
    assert np.diff(circle_of(SOME, **KINDS[kind]).offsets).tolist() == (6 * SOME).tolist()


def test_fixed_neighbours_stay_and_those_offline_are_missed():
    whole, part = circle_of(EVERYONE, kind="fixed"), circle_of(SOME, kind="fixed", iteration=3)
    assert (np.diff(whole.offsets) == 6).all()
    for i in np.flatnonzero(SOME):
        before = whole.people[whole.offsets[i] : whole.offsets[i + 1]]
        assert part.people[part.offsets[i] : part.offsets[i + 1]].tolist() == before[SOME[before]].tolist()


def test_neighbours_among_the_closest_change_from_pass_to_pass_and_stay_close():
    first, second = (circle_of(EVERYONE, kind="nearest", among=15, iteration=t) for t in (0, 1))
    assert first.people.tolist() != second.people.tolist()
    assert first.people.tolist() == circle_of(EVERYONE, kind="nearest", among=15).people.tolist()
    closest = circle_of(EVERYONE, kind="nearest", count=15)
    for i in range(PEOPLE):
        mine = slice(first.offsets[i], first.offsets[i + 1])
        assert set(first.people[mine]) <= set(closest.people[closest.offsets[i] : closest.offsets[i + 1]])


def test_uniform_weights_are_divided_out_once():
    around = circle_of(EVERYONE, kind="nearest")
    assert around.weights.size == 0
    assert not around.own.any()


@pytest.mark.parametrize("weights", WEIGHTS)
def test_weights_stand_beside_neighbours_and_sum_to_one(weights):
    around = circle_of(SOME, kind="nearest", weights=weights)
    assert len(around.weights) == len(around.people)
    total = np.bincount(owners(around), around.weights, minlength=PEOPLE) + around.own
    expected = np.where(SOME, 6.0, 1.0) if weights == "ones-diverges" else np.ones(PEOPLE)
    np.testing.assert_allclose(total, expected, rtol=1e-12)


def test_neighbours_drawn_anew_come_from_those_online():
    around = circle_of(SOME, kind="random")
    assert around.fresh == 6
    assert around.online.tolist() == np.flatnonzero(SOME).tolist()
    for i in np.flatnonzero(SOME):
        assert around.online[around.position[i]] == i
        drawn = around.online[draw(99, int(around.position[i]), len(around.online), 6)]
        assert i not in drawn
        assert SOME[drawn].all()
    assert (around.position[~SOME] == -1).all()


@pytest.mark.parametrize(("online", "drawn"), [(0, 0), (1, 0), (2, 0), (3, 2), (7, 6), (8, 6)])
def test_as_many_are_drawn_as_are_online_and_never_one_alone_whose_model_the_sum_would_be(online, drawn):
    assert circle_of(np.arange(PEOPLE) < online, kind="random").fresh == drawn


def test_n_neighbours_of_fewer_people_than_that_are_refused():
    with pytest.raises(UsageError, match=messages.NUMBER_OF_NEIGHBOURS_OUT_OF_RANGE):
        circle_of(EVERYONE, kind="random", count=PEOPLE)


def test_the_seed_decides_who_is_drawn():
    one, other = (circle_of(EVERYONE, kind="fixed", seed=seed) for seed in (0, 1))
    assert one.people.tolist() != other.people.tolist()
