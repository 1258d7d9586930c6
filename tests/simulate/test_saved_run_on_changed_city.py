"""A saved run serves the city that it was trained on, as it grows and changes, and no other."""

from dataclasses import replace

import numpy as np
import pytest

from prirec.data.dataset import Dataset, Places, Tags, take
from prirec.errors import StateError
from prirec.simulate.saved_runs import Run, place_keys, refuse_another_city, to_run
from prirec.simulate.setup import run, set_up
from support import messages
from support.cities import SMALL_ROUNDS, change, small_city, without_coordinates

SETTINGS = change(SMALL_ROUNDS, floor=50)
CITY, OTHER = (small_city(people=60, places=10, records=240, seed=seed) for seed in (0, 1))


def trained(city: Dataset) -> Run:
    return to_run(run(set_up(city, SETTINGS)), "the city of old")


SAVED: Run = trained(CITY)


def some(places: Places, rows: np.ndarray) -> Places:
    return Places(
        tuple(places.ids[row] for row in rows),
        None if places.location is None else places.location[rows],
        {name: take(column, rows) for name, column in places.columns.items()},
    )


def moved(places: Places, count: int) -> Places:
    """The first so many, by a kilometre or two."""
    assert places.location is not None
    return replace(places, location=places.location + 0.02 * (np.arange(len(places)) < count)[:, None])


def test_another_city_with_the_same_names_is_refused_with_what_to_do() -> None:
    assert OTHER.places.ids == CITY.places.ids
    assert OTHER.people.ids == CITY.people.ids
    with pytest.raises(
        StateError,
        match=messages.joined(
            messages.places_differ(0, places=10), messages.give_the_data_of_the_run("the city of old")
        ),
    ):
        refuse_another_city(SAVED, OTHER.places)


def test_without_coordinates_cities_are_distinguished_by_their_words() -> None:
    here, there = without_coordinates(CITY), without_coordinates(OTHER)
    saved = trained(here)
    refuse_another_city(saved, here.places)
    with pytest.raises(StateError, match=messages.places_differ(0, places=10)):
        refuse_another_city(saved, there.places)


def test_a_city_none_of_whose_places_is_known_is_refused() -> None:
    names = tuple(f"other {place}" for place in CITY.places.ids)
    renamed = replace(CITY, places=replace(CITY.places, ids=names))
    with pytest.raises(StateError, match=messages.NO_PLACE_OF_THE_RUN):
        refuse_another_city(SAVED, renamed.places)


def test_places_may_come_go_move_and_stand_in_another_order() -> None:
    rng, places = np.random.default_rng(0), CITY.places
    for rows in (rng.permutation(10), np.arange(3), np.array([7])):
        refuse_another_city(SAVED, some(places, rows))
    new = replace(some(places, np.arange(5)), ids=tuple(f"new {n}" for n in range(5)))
    grown = Places(
        (*places.ids, *new.ids),
        np.vstack([places.location, new.location]),
        {name: take(column, np.r_[0:10, 0:5]) for name, column in places.columns.items()},
    )
    refuse_another_city(SAVED, grown)
    refuse_another_city(SAVED, moved(places, 5))
    with pytest.raises(StateError, match=messages.places_differ(4, places=10)):
        refuse_another_city(SAVED, moved(places, 6))


def test_other_words_and_coordinates_in_less_detail_are_no_other_place() -> None:
    places = CITY.places
    assert places.location is not None
    keys = place_keys(places)
    assert (place_keys(replace(places, columns={})) == keys).all()
    cut = replace(places, location=np.round(places.location, 3))
    assert (place_keys(cut) == keys).all()


def test_a_place_without_coordinates_of_its_own_is_known_by_its_words_in_any_order() -> None:
    tags = [Tags(np.array([0, 2]), np.array(codes, dtype=np.int32), ("bar", "café")) for codes in ([0, 1], [1, 0])]
    other = Tags(np.array([0, 1]), np.array([0], dtype=np.int32), ("bar", "café"))
    nowhere = np.full((1, 2), np.nan)
    one, turned, fewer = (place_keys(Places(("p",), nowhere, {"tags": column})) for column in (*tags, other))
    assert one == turned != fewer
    assert place_keys(Places(("p",), None, {"tags": tags[0]})) == one
    assert place_keys(Places(("q",), None, {"tags": tags[0]})) != one


def test_a_catalogue_that_is_not_of_the_run_s_places_is_refused() -> None:
    with pytest.raises(StateError, match=messages.RUN_WITHOUT_KEYS_OF_PLACES):
        refuse_another_city(replace(SAVED, catalogue=SAVED.catalogue[1:]), CITY.places)
