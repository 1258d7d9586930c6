"""A private run that is saved and used later: its release is used again and nobody is counted twice."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from prirec.data.dataset import Dataset, take
from prirec.errors import StateError
from prirec.simulate.popularity import SecureSum
from prirec.simulate.saved_runs import CityOfRun, Released, Run, load_run, refuse_another_city, save_run, to_run
from prirec.simulate.setup import Outcome, Setup, quality, run, set_up
from support import messages
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


def loaded(city: Dataset, saved: Run) -> Setup:
    """With the check that whoever loads a run makes first."""
    refuse_another_city(saved, city.places)
    return alone(city, saved)


class CountedAgainError(Exception):
    """Somebody's visits were counted a second time."""


@pytest.fixture
def no_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise CountedAgainError

    monkeypatch.setattr("prirec.simulate.setup.release_popularity", refuse)
    monkeypatch.setattr("prirec.simulate.saved_runs.release_popularity", refuse)


def alone(city: Dataset, saved: Run, person: int = 0) -> Setup:
    """The set-up of one person, to recommend to."""
    return CityOfRun.of(city, saved).set_up_alone(person)[0]


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
def test_on_data_that_have_grown_nobody_is_counted_again(outcome, no_counting):
    setup = alone(grown(), to_run(outcome, "a small city"))
    assert setup.popularity.released.keys() == outcome.setup.popularity.released.keys()
    assert not setup.popularity.own


def test_what_a_secure_sum_opened_is_used_again_and_no_noise_is_drawn(no_counting, monkeypatch):
    monkeypatch.setattr(SecureSum, "noise", None)
    everyone = CityOfRun.of(CITY, SAVED).set_up()
    assert same_bits(everyone.samples.train.context, PRIVATE.setup.samples.train.context)
    assert alone(CITY, SAVED).popularity.opened is not None


def test_the_guard_of_this_suite_notices_a_count(no_counting):
    with pytest.raises(CountedAgainError):
        set_up(CITY, SMALL_PRIVATE)


@NOISY
def test_places_keep_what_was_released_and_a_new_one_has_the_average(outcome):
    setup = alone(grown(), to_run(outcome, "a small city"))
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
    setup = alone(turned, SAVED)
    for name, values in PRIVATE.setup.popularity.released.items():
        assert same_bits(setup.popularity.released[name], values[::-1])


def test_with_plain_counts_later_visits_do_count():
    """In simulation only; nobody's budget is spent on it."""
    plain = run(set_up(CITY, PLAIN))
    setup = alone(grown(), to_run(plain, "a small city"))
    before, later = plain.setup.popularity.released, setup.popularity.released
    assert any(later[name].sum() > values.sum() for name, values in before.items())


def test_without_dynamic_features_there_is_nothing_to_use_again():
    still = run(set_up(CITY, change(SMALL_PRIVATE, features={"dynamic": False})))
    saved = to_run(still, "a small city")
    assert saved.released.columns == {}
    setup = alone(grown(), saved)
    assert setup.popularity.released == {}


# Models


def test_the_shared_model_stays_as_it_was():
    _, models = CityOfRun.of(grown(), SAVED).set_up_alone(0)
    assert models == SAVED.models


def test_on_the_same_data_it_is_tested_with_the_same_bits():
    setup = CityOfRun.of(CITY, SAVED).set_up()
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
    own = {"places": SAVED.released.places, "columns": SAVED.released.columns, "opened": SAVED.released.opened}
    saved = replace(SAVED, released=Released(**(own | spoil(SAVED.released))))
    with pytest.raises(StateError):
        loaded(grown(), saved)


@pytest.mark.parametrize("spoilt", ["sums", "predicted", "weight"])
def test_sums_that_are_not_one_for_each_place_are_refused(spoilt):
    opened = msgspec.structs.replace(SAVED.released.opened, **{spoilt: getattr(SAVED.released.opened, spoilt)[1:]})
    saved = replace(SAVED, released=msgspec.structs.replace(SAVED.released, opened=opened))
    for asked in (lambda: alone(CITY, saved), lambda: CityOfRun.of(CITY, saved).set_up()):
        with pytest.raises(StateError, match=messages.RELEASE_OF_OTHER_PLACES):
            asked()


def test_columns_that_a_run_lost_are_refused():
    saved = replace(SAVED, released=msgspec.structs.replace(SAVED.released, columns={}))
    with pytest.raises(StateError):
        alone(CITY, saved)
