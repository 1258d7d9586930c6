"""Where records are, in a city of words without coordinates, and who is a neighbour there."""

from dataclasses import replace

import numpy as np
import pytest

from prirec.config import Settings, load
from prirec.data.dataset import Category, Dataset, Numbers, People, Places, Visits
from prirec.errors import DataError, UsageError
from prirec.evaluate.leaks import check
from prirec.features.location import areas
from prirec.graph.neighbours import neighbourhoods_of
from prirec.simulate.setup import run, set_up
from support import messages

TOWNS = ("Paris, France", "Rome, Italy", "Nice, France", "Oslo, Norway")
PEOPLE, PLACES = 120, 40


def _city(towns: tuple[int, ...] = tuple(n % 4 for n in range(PLACES))) -> Dataset:
    """Everybody looks at places of one town, and at one place of the next town."""
    rng = np.random.default_rng(0)
    codes = np.array(towns, dtype=np.int32)
    chosen = [(person, place) for person in range(PEOPLE) for place in rng.permutation(PLACES) if _of(person, place)]
    chosen += [(person, (person + 1) % 4) for person in range(PEOPLE)]
    person, place = np.array(chosen, dtype=np.int32).T
    label = np.where(rng.random(len(person)) < 0.5, 1, -1).astype(np.int8)
    people = People(tuple(f"p{n}" for n in range(PEOPLE)), None, {"age": Numbers(rng.normal(size=PEOPLE))})
    places = Places(tuple(f"h{n}" for n in range(PLACES)), None, {"city": Category(codes, TOWNS)})
    return Dataset("towns", people, places, Visits(person, place, label), labelled=True)


def _of(person: int, place: int) -> bool:
    return place % 4 == person % 4


def _settings(**more: object) -> Settings:
    chosen = {
        "preset": "paper", "neighbours.kind": "alike", "neighbours.alike": "city", "neighbours.count": 10,
        "iterations": 2, "data.keep": "all", **more,
    }  # fmt: skip
    return load(changes=chosen)


def test_a_persons_area_is_the_town_of_most_training_records_in_line_by_country() -> None:
    city = _city()
    found = areas(city, city.visits, "city")
    line = ["Nice, France", "Paris, France", "Rome, Italy", "Oslo, Norway"]  # France, France, Italy, Norway
    assert [line[int(rank)] for rank in found[:4]] == [TOWNS[person % 4] for person in range(4)]


def test_people_without_a_record_in_a_known_town_have_no_area() -> None:
    city = _city(towns=(-1,) * PLACES)
    assert np.isnan(areas(city, city.visits, "city")).all()


def test_areas_come_from_training_records_alone() -> None:
    city = _city()
    few = city.visits.take(city.visits.place == (city.visits.person + 1) % 4)
    assert not np.array_equal(areas(city, few, "city"), areas(city, city.visits, "city"))
    setup = set_up(city, _settings())
    peeked = replace(setup.samples, area=areas(city, city.visits, "city")[::-1].copy())
    assert not [one for one in check(setup) if one.name == "features from elsewhere"]
    (told,) = [one for one in check(replace(setup, samples=peeked)) if one.name == "features from elsewhere"]
    assert "areas" in told.words


def test_neighbours_are_of_the_same_town_while_there_are_enough_online() -> None:
    setup = set_up(_city(), _settings())
    samples, everyone = setup.samples, np.ones(PEOPLE, dtype=np.bool_)
    found = neighbourhoods_of(samples, setup.settings, iteration=1, online=everyone)
    assert samples.area is not None
    owners = np.repeat(np.arange(PEOPLE), np.diff(found.offsets))
    assert len(owners) == 10 * PEOPLE
    assert np.array_equal(samples.area[owners], samples.area[found.people])
    assert not np.any(owners == found.people)


def test_where_a_town_has_too_few_the_same_country_comes_next() -> None:
    setup = set_up(_city(), _settings(**{"neighbours.count": 40}))  # thirty people a town
    samples = setup.samples
    found = neighbourhoods_of(samples, setup.settings, iteration=1, online=np.ones(PEOPLE, dtype=np.bool_))
    assert samples.area is not None
    nice = int(np.flatnonzero(samples.area == 0)[0])
    near = samples.area[found.people[found.offsets[nice] : found.offsets[nice + 1]]]
    assert sorted(set(near)) == [0.0, 1.0]


def test_those_offline_are_nobodys_neighbours() -> None:
    setup = set_up(_city(), _settings())
    online = np.arange(PEOPLE) % 3 > 0
    found = neighbourhoods_of(setup.samples, setup.settings, iteration=1, online=online)
    assert online[found.people].all()
    assert not np.diff(found.offsets)[~online].any()


def test_engines_agree_on_a_city_of_towns() -> None:
    setup = set_up(_city(), _settings())
    plain, local = (run(setup, engine=engine).trained.state for engine in ("plain", "local"))
    assert np.array_equal(plain.linear, local.linear)
    assert np.array_equal(plain.interaction, local.interaction)


def test_a_column_that_is_not_there_is_named() -> None:
    with pytest.raises(DataError, match=messages.no_words_to_be_alike_in("'town'")):
        set_up(_city(), _settings(**{"neighbours.alike": "town"}))


@pytest.mark.parametrize("changes", [{"neighbours.alike": None}, {"neighbours.kind": "random"}])
def test_kind_and_column_need_each_other(changes: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=messages.ALIKE_WITHOUT_A_COLUMN):
        _settings(**changes)
