"""Where a person lives, as the device works it out."""

import numpy as np

from prirec.data.dataset import Dataset, People, Places
from prirec.features.location import homes
from support.cities import some_visits

NAN = float("nan")


def city(places, people=None, *, count=3) -> Dataset:
    located = None if people is None else np.array(people, dtype=float)
    spots = None if places is None else np.array(places, dtype=float).reshape(-1, 2)
    return Dataset(
        "toy",
        People(tuple(f"u{n}" for n in range(count)), located),
        Places(tuple(f"p{n}" for n in range(9 if spots is None else len(spots))), spots),
        some_visits([], [], []),
        labelled=True,
    )


def assert_homes(found, expected) -> None:
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_home_is_the_median_of_the_visited_places():
    toy = city([[1, 10], [2, 20], [9, 60], [4, 40]])
    train = some_visits([0, 0, 0, 1, 1], [2, 0, 1, 1, 3], [1, 1, 1, 1, 1])
    assert_homes(homes(toy, train), [[2, 20], [3, 30], [NAN, NAN]])


def test_ignored_places_do_not_say_where_someone_lives():
    toy = city([[1, 10], [2, 20]])
    assert_homes(homes(toy, some_visits([0, 0, 1], [0, 1, 1], [1, -1, -1])), [[1, 10], [NAN, NAN], [NAN, NAN]])


def test_a_location_in_the_own_table_goes_first():
    toy = city([[1, 10]], [[5, 50], [NAN, NAN], [NAN, NAN]])
    assert_homes(homes(toy, some_visits([0, 1], [0, 0], [1, 1])), [[5, 50], [1, 10], [NAN, NAN]])


def test_half_a_location_is_no_location():
    """A latitude of one's own beside the longitude of a median would be a place where nobody lives."""
    toy = city([[1, 10]], [[5, NAN], [NAN, 50], [5, NAN]])
    assert_homes(homes(toy, some_visits([0, 1], [0, 0], [1, 1])), [[1, 10], [1, 10], [NAN, NAN]])


def test_places_without_coordinates_are_passed_over():
    toy = city([[1, 10], [NAN, NAN], [NAN, 30]])
    assert_homes(homes(toy, some_visits([0, 0, 0, 1], [0, 1, 2, 1], [1, 1, 1, 1])), [[1, 10], [NAN, NAN], [NAN, NAN]])


def test_without_any_coordinates_there_are_no_homes():
    assert homes(city(None), some_visits([0], [0], [1])) is None


def test_people_may_have_locations_where_places_have_none():
    toy = city(None, [[5, 50], [NAN, NAN], [6, 60]])
    assert_homes(homes(toy, some_visits([1], [0], [1])), [[5, 50], [NAN, NAN], [6, 60]])


def test_a_home_beside_the_antimeridian_is_not_on_the_other_side_of_the_world():
    toy = city([[0, 179], [0, -179], [0, -178], [0, 178]])
    train = some_visits([0, 0, 0, 1, 1, 2, 2], [0, 1, 2, 1, 0, 3, 0], [1] * 7)
    found = homes(toy, train)
    assert_homes(np.cos(np.radians(found[:, 1] - [-179, 180, 178.5])), [1, 1, 1])
    assert (found[:, 1] >= -180).all()
    assert (found[:, 1] <= 180).all()


def test_homes_do_not_depend_on_the_order_of_visits():
    rng = np.random.default_rng(0)
    toy = city(np.column_stack([rng.uniform(-60, 60, 20), rng.uniform(139, 141, 20)]), count=5)
    train = some_visits(rng.integers(5, size=60).tolist(), rng.integers(20, size=60).tolist(), [1] * 60)
    assert_homes(homes(toy, train.take(rng.permutation(60))), homes(toy, train))
