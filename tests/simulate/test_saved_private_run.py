"""A private run that is saved and used later: its release is used again and nobody is counted twice."""

from dataclasses import replace

import numpy as np
import pytest

from prirec.data.dataset import Dataset, take
from prirec.errors import StateError
from prirec.simulate.saved_runs import Released, Run, load_run, save_run, set_up_again, set_up_later, to_run
from prirec.simulate.setup import Outcome, quality, run, set_up
from support.cities import SMALL_PRIVATE, SMALL_ROUNDS, change, same_bits, small_city

CITY: Dataset = small_city(people=130, places=12, records=500)
RESPONSE = change(SMALL_ROUNDS, floor=50, popularity={"mechanism": "randomized-response"})
PLAIN = change(RESPONSE, popularity={"mechanism": "plain"})
OUTCOMES: dict[str, Outcome] = {
    "secure-sum": run(set_up(CITY, SMALL_PRIVATE)),
    "randomized-response": run(set_up(CITY, RESPONSE)),
}
PRIVATE = OUTCOMES["secure-sum"]
SAVED: Run = to_run(PRIVATE, "a small city")
NOISY = pytest.mark.parametrize("outcome", OUTCOMES.values(), ids=OUTCOMES)


class CountedAgainError(Exception):
    """Somebody's visits were counted a second time."""


@pytest.fixture
def no_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise CountedAgainError

    monkeypatch.setattr("prirec.simulate.setup.release_popularity", refuse)


def grown(city: Dataset = CITY) -> Dataset:
    """A person more, who lives where another does and has no visit; a place more at the end; and everybody's first
    visit once more."""
    people, places, visits = city.people, city.places, city.visits
    rows, spots = np.r_[0, 0 : len(people)], np.r_[0 : len(places), 0]
    more = visits.take(np.r_[0 : len(visits), np.unique(visits.person, return_index=True)[1]])
    return replace(
        city,
        people=replace(
            people,
            ids=("newcomer", *people.ids),
            location=None if people.location is None else people.location[rows],
            columns={name: take(column, rows) for name, column in people.columns.items()},
        ),
        places=replace(
            places,
            ids=(*places.ids, "new place"),
            location=None if places.location is None else places.location[spots],
            columns={name: take(column, spots) for name, column in places.columns.items()},
        ),
        visits=replace(more, person=more.person + np.int32(1)),
    )


def test_the_release_is_saved_place_by_place_and_comes_back_bit_for_bit(tmp_path):
    save_run(tmp_path / "run", SAVED)
    back = load_run(tmp_path / "run").released
    assert back.places == PRIVATE.setup.prepared.dataset.places.ids
    assert back.columns
    for name, values in PRIVATE.setup.popularity.released.items():
        assert same_bits(np.array(back.columns[name]), values)


def test_what_devices_added_is_not_saved():
    """The own part of a release is private; only what was opened is in the folder."""
    own = PRIVATE.setup.popularity.own
    assert own
    for counts in own.values():
        assert not any(set(counts.counts.tolist()) & set(values) for values in SAVED.released.columns.values())


@NOISY
def test_a_saved_run_never_counts_again(outcome, no_counting):
    saved = to_run(outcome, "a small city")
    for city in (CITY, grown()):
        setup, _ = set_up_later(city, saved)
        assert setup.popularity.released.keys() == outcome.setup.popularity.released.keys()
        assert not setup.popularity.own


def test_the_guard_of_this_suite_notices_a_count(no_counting):
    with pytest.raises(CountedAgainError):
        set_up(CITY, SMALL_PRIVATE)


@NOISY
def test_places_keep_what_was_released_and_a_new_one_has_the_average(outcome):
    setup, _ = set_up_later(grown(), to_run(outcome, "a small city"))
    assert setup.prepared.dataset.places.ids[-1] == "new place"
    for name, values in outcome.setup.popularity.released.items():
        later = setup.popularity.released[name]
        assert same_bits(later[:-1], values)
        assert later[-1] == pytest.approx(values.mean())


def test_places_are_found_by_id_where_they_stand_in_another_order():
    order = np.r_[11:-1:-1]
    places = replace(
        CITY.places,
        ids=CITY.places.ids[::-1],
        location=CITY.places.location[order],
        columns={name: take(column, order) for name, column in CITY.places.columns.items()},
    )
    turned = replace(CITY, places=places, visits=replace(CITY.visits, place=11 - CITY.visits.place))
    setup, _ = set_up_later(turned, SAVED)
    for name, values in PRIVATE.setup.popularity.released.items():
        assert same_bits(setup.popularity.released[name], values[::-1])


def test_with_plain_counts_later_visits_do_count():
    """In simulation only; nobody's budget is spent on it."""
    plain = run(set_up(CITY, PLAIN))
    setup, _ = set_up_later(grown(), to_run(plain, "a small city"))
    before, later = plain.setup.popularity.released, setup.popularity.released
    assert any(later[name].sum() > values.sum() for name, values in before.items())


def test_without_dynamic_features_there_is_nothing_to_use_again():
    still = run(set_up(CITY, change(SMALL_PRIVATE, features={"dynamic": False})))
    saved = to_run(still, "a small city")
    assert saved.released.columns == {}
    setup, _ = set_up_later(grown(), saved)
    assert setup.popularity.released == {}


# Models


def test_the_shared_model_stays_as_it_was():
    _, models = set_up_later(grown(), SAVED)
    assert models == SAVED.models


def test_on_the_same_data_it_is_tested_with_the_same_bits():
    setup = set_up_again(CITY, SAVED)
    for name, values in PRIVATE.setup.popularity.released.items():
        assert same_bits(setup.popularity.released[name], values)
    assert same_bits(setup.samples.train.context, PRIVATE.setup.samples.train.context)
    assert quality(setup.samples, SAVED.models) == PRIVATE.quality


# What is damaged


@pytest.mark.parametrize(
    "spoil",
    [
        lambda own: {"columns": {}},
        lambda own: {"columns": {f"not {name}": values for name, values in own.columns.items()}},
        lambda own: {"columns": {name: values[1:] for name, values in own.columns.items()}},
        lambda own: {"places": own.places[1:]},
        lambda own: {"places": (own.places[0],) * len(own.places)},
    ],
    ids=["nothing", "other names", "a value less", "a place less", "one place for all"],
)
def test_a_release_that_does_not_fit_is_refused(spoil):
    own = {"places": SAVED.released.places, "columns": SAVED.released.columns}
    with pytest.raises(StateError):
        set_up_later(CITY, replace(SAVED, released=Released(**(own | spoil(SAVED.released)))))
