import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import chi2

from prirec.errors import UsageError
from prirec.graph.neighbours import Neighbours, nearest
from prirec.util.geography import haversine_km
from support import messages

LINE = np.column_stack([np.zeros(6), [0.0, 1.0, 3.0, 7.0, 15.0, 31.0]])  # each gap twice the last
MILLIMETRE_KM = 1e-6


def by_looking_at_everyone(location, online, count):
    """Distances to the nearest, sorted: the slow twin."""
    there = online & ~np.isnan(location).any(axis=1)
    for person in range(len(location)):
        others = there.copy()
        others[person] = False
        km = np.sort(haversine_km(location[others], location[person]))
        yield km[:count] if there[person] else km[:0]


@settings(max_examples=60)
@given(st.data())
def test_nearest_neighbours_equal_a_search_over_everyone(data):
    people = data.draw(st.integers(2, 40))
    # few distinct coordinates: many people share a place
    location = data.draw(arrays(np.float64, (people, 2), elements=st.sampled_from([0.0, 0.001, 45.5, -33.0, np.nan])))
    online = data.draw(arrays(np.bool_, people))
    count = data.draw(st.integers(1, people - 1))
    found = nearest(location, count=count, online=online)
    for person, expected in enumerate(by_looking_at_everyone(location, online, count)):
        chosen = found.of(person)
        assert person not in chosen
        assert len(set(chosen.tolist())) == len(chosen)
        assert online[chosen].all()
        km = haversine_km(location[chosen], location[person])
        assert km == pytest.approx(expected, abs=2 * MILLIMETRE_KM)


def test_neighbours_on_a_line_come_closest_first():
    found = nearest(LINE, count=2)
    assert [found.of(i).tolist() for i in range(6)] == [[1, 2], [0, 2], [1, 0], [2, 1], [3, 2], [4, 3]]
    assert found.offsets.dtype == np.int64
    assert found.people.dtype == np.int32
    assert len(found) == 6


def test_a_centimetre_is_enough_to_tell_who_is_nearer():
    found = nearest(LINE * 1e-7, count=2)  # a degree is 111 km
    assert [found.of(i).tolist() for i in range(6)] == [[1, 2], [0, 2], [1, 0], [2, 1], [3, 2], [4, 3]]


def test_neighbours_reach_over_the_date_line():
    location = np.array([[0.0, 179.9], [0.0, -179.9], [0.0, 178.0], [0.0, 0.0]])
    assert nearest(location, count=1).of(0).tolist() == [1]


def test_a_crowd_in_one_place_has_neighbours_but_never_oneself():
    found = nearest(np.zeros((500, 2)), count=5)
    assert (found.counts() == 5).all()
    assert (found.people != found.owners()).all()
    assert len(np.unique(found.people)) > 400  # not the same few for everyone


def test_people_at_exactly_one_point_may_crowd_someone_out_of_the_own_search(monkeypatch):
    monkeypatch.setattr("prirec.graph.neighbours._JITTER", 0.0)
    found = nearest(np.zeros((500, 2)), count=5)
    assert (found.counts() == 5).all()
    assert (found.people != found.owners()).all()


def test_more_people_than_one_block_are_all_answered(monkeypatch):
    monkeypatch.setattr("prirec.graph.neighbours._BLOCK", 4)
    assert nearest(LINE, count=2).of(5).tolist() == [4, 3]


def test_offline_and_unlocated_people_have_no_neighbours_and_are_nobodys():
    location = LINE.copy()
    location[2] = np.nan
    online = np.array([True, True, True, False, True, True])
    found = nearest(location, count=4, online=online)
    assert found.counts().tolist() == [3, 3, 0, 0, 3, 3]
    assert set(found.people.tolist()) == {0, 1, 4, 5}


@pytest.mark.parametrize("who", [[], [3]])
def test_with_nobody_else_online_everyone_is_alone(who):
    online = np.zeros(6, dtype=bool)
    online[who] = True
    assert nearest(LINE, count=2, online=online).counts().tolist() == [0] * 6


@pytest.mark.statistical  # false alarm 1e-9; must notice one of six drawn a tenth more often
def test_drawing_among_the_closest_takes_each_of_them_alike():
    rng = np.random.default_rng(5)
    crowd = np.column_stack([np.zeros(4000), np.arange(4000) * 0.01])
    found = nearest(crowd, count=2, among=6, rng=rng)
    assert (found.counts() == 2).all()
    inner = np.arange(10, 3990)
    steps = np.abs(found.people.reshape(-1, 2)[inner] - inner[:, None])
    assert steps.max() == 3  # three to the left and three to the right
    assert (steps[:, 0] <= steps[:, 1]).all()
    signed = (found.people.reshape(-1, 2)[inner] - inner[:, None]).ravel()
    seen = np.array([(signed == step).sum() for step in (-3, -2, -1, 1, 2, 3)], dtype=float)
    assert evenness_p(seen) > 1e-9
    seen[0] += 0.2 * seen[0]
    assert evenness_p(seen) < 1e-6


def evenness_p(seen):
    """Two of six without replacement: counts spread less than independent draws would by (6 - 2) / (6 - 1)."""
    expected = seen.sum() / 6
    return chi2.sf(((seen - expected) ** 2 / expected).sum() * 5 / 4, 5)


def test_the_same_generator_draws_the_same_neighbours():
    one, two = (nearest(LINE, count=2, among=4, rng=np.random.default_rng(1)) for _ in range(2))
    assert (one.people == two.people).all()


def test_drawing_among_more_than_there_are_draws_from_all():
    found = nearest(LINE, count=5, among=500, rng=np.random.default_rng(1))
    assert [sorted(found.of(i).tolist()) for i in (0, 5)] == [[1, 2, 3, 4, 5], [0, 1, 2, 3, 4]]


@pytest.mark.parametrize("count", [0, -1, 6, 100])
def test_a_number_of_neighbours_outside_the_limit_states_the_limit(count):
    with pytest.raises(UsageError, match=messages.number_of_neighbours(5, people=6)):
        nearest(LINE, count=count)


def test_drawing_needs_room_and_a_generator():
    with pytest.raises(UsageError, match=messages.drawn_among_too_few(3)):
        nearest(LINE, count=3, among=2, rng=np.random.default_rng(0))
    with pytest.raises(UsageError, match=messages.DRAWING_WITHOUT_A_GENERATOR):
        nearest(LINE, count=3, among=4)


@pytest.mark.parametrize("online", [np.ones(5, dtype=bool), np.ones(6)])
def test_online_must_be_one_boolean_a_person(online):
    with pytest.raises(UsageError, match=messages.ONLINE_NOT_BOOLEANS):
        nearest(LINE, count=3, online=online)


def test_neighbours_do_not_print_who_is_near_whom():
    assert repr(Neighbours(np.array([0, 1]), np.array([7], dtype=np.int32))) == "Neighbours()"
