"""Recommendations on a device, offline, are those that a simulation gives the same person with the same models."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from h3.api import basic_int as h3

from prirec.device.person import Person
from prirec.device.recommend import Published, own_model, person_state, published, recommend
from prirec.device.rounds import visited_places
from prirec.device.store import Store, save_visit_contribution
from prirec.errors import PeerError, UsageError
from prirec.protocols.prediction import Moment, Recommendation, Suggestion
from prirec.simulate.recommend import Advisor
from prirec.wire.campaign import write_model
from prirec.wire.documents import Model, octets, written
from prirec.wire.regions import KnownPlaces
from support import messages
from support.cities import SMALL_PRIVATE, change, same_bits, small_city, without_coordinates
from support.device_city import MOST_FOR_POPULARITY, Town, membership, town

MOMENTS = [Moment(), Moment(time=1_714_850_000), Moment(here=(35.66, 139.7)), Moment((35.7, 139.8), 1_714_800_000)]


@pytest.fixture(scope="module", params=["coordinates", "no coordinates", "own history", "areas"])
def here(request: pytest.FixtureRequest) -> Town:
    city = small_city(people=60, places=40, records=500)
    own, areas = request.param == "own history", 6 if request.param == "areas" else 0
    settings = change(SMALL_PRIVATE, features={"own_history": own, "areas": areas})
    return town(without_coordinates(city) if request.param == "no coordinates" else city, settings)


@pytest.fixture(scope="module")
def with_coordinates() -> Town:
    return town(settings=MOST_FOR_POPULARITY)


@pytest.fixture
def person(here: Town, tmp_path: Path) -> Iterator[Person]:
    made = here.person(3, tmp_path)
    yield made
    made.store.close()


def model(here: Town) -> Model:
    scales = here.campaign.scales
    assert scales is not None
    return write_model(written(scales)[0], here.campaign.columns, here.trained[0].estimate.B, iteration=3)


def ready(here: Town, known: KnownPlaces | None = None) -> Published:
    return published(model(here), here.campaign, here.known if known is None else known)


def give(person: Person, here: Town) -> None:
    """As a device that took part in the sum of visits."""
    with person.store.transaction() as rows:
        save_visit_contribution(rows, here.campaign.name, visited_places(person, here.campaign, here.known))


def test_a_device_recommends_what_the_simulation_does(tmp_path: Path, here: Town) -> None:
    advisor, public = Advisor.of(here.setup, here.trained[1]), ready(here)
    nowhere = np.isnan(here.known.location).all()  # then a point means nothing
    for i in range(0, len(here.setup.samples.ids), 7):
        with here.person(i, tmp_path).store as store:
            person = Person(store)
            give(person, here)
            for moment in MOMENTS[:2] if nowhere else MOMENTS:
                mine = recommend(person, public, moment=moment, k=5)
                agree(mine, advisor.recommend(i, moment=moment, k=5), public)


def agree(mine: Sequence[Suggestion], theirs: Sequence[Recommendation], public: Published) -> None:
    assert [public.known.ids.index(one.place) for one in mine] == [one.place_row for one in theirs]
    assert [one.probability for one in mine] == pytest.approx([one.probability for one in theirs])
    reasons = [[[reason.name for reason in one.reasons] for one in side] for side in (mine, theirs)]
    assert reasons[0] == reasons[1]


def test_what_is_recommended_is_new_and_near_and_described(with_coordinates: Town, tmp_path: Path) -> None:
    here = with_coordinates
    with here.person(3, tmp_path).store as store:
        person = Person(store)
        from_home, from_there = (
            recommend(person, ready(here), moment=moment, k=5, radius_km=20) for moment in (None, MOMENTS[2])
        )
        visited = {visit.place for visit in person.visits() if visit.label > 0}
    for one in (*from_home, *from_there):
        assert one.place not in visited
        assert one.about == here.known.words[here.known.ids.index(one.place)]
        assert one.distance_km is not None
        assert 0 <= one.distance_km <= 20
        assert one.reasons
        assert one.place not in repr(one)
    there = np.array(MOMENTS[2].here)
    for one in from_there:
        place = here.known.location[here.known.ids.index(one.place)]
        assert one.distance_km == pytest.approx(111.2 * np.hypot(*((place - there) * (1, np.cos(0.622)))), rel=0.01)


def test_fewer_regions_give_fewer_places_and_the_same_scores(with_coordinates: Town, tmp_path: Path) -> None:
    """To somebody without records; others learn less where they know fewer places."""
    here = with_coordinates
    cell = max(here.known.cells, key=lambda one: len(here.known_in([one])))
    with here.person(3, tmp_path).store as store:
        person = Person(store)
        for visit in person.visits():
            person.remove_visit(visit.id or "")
        few, many = (
            recommend(person, of, k=40, radius_km=500) for of in (ready(here, here.known_in([cell])), ready(here))
        )
    chances = {one.place: one.probability for one in many}
    assert 0 < len(few) < len(many)
    assert [one.probability for one in few] == pytest.approx([chances[one.place] for one in few])


# people who took no part


def test_whoever_took_no_part_has_a_model_of_the_own_records_too(with_coordinates: Town, tmp_path: Path) -> None:
    """It differs from that of somebody who did in one thing: there is no own part to leave out of the counts."""
    here, public = with_coordinates, ready(with_coordinates)
    with here.person(3, tmp_path).store as store:
        person = Person(store)
        mine = own_model(person, public)
        assert len(recommend(person, public, radius_km=20)) == 10
        give(person, here)
        assert not same_bits(own_model(person, public), mine)
        assert np.abs(own_model(person, public) - mine).max() < 0.1 * np.abs(mine).max()


def test_a_visit_counts_in_the_next_recommendation(with_coordinates: Town, tmp_path: Path) -> None:
    here, public = with_coordinates, ready(with_coordinates)
    with here.person(3, tmp_path).store as store:
        person = Person(store)
        before = own_model(person, public)
        person.record_visit(here.known.ids[0], id="new")
        assert not same_bits(own_model(person, public), before)
        person.remove_visit("new")
        assert same_bits(own_model(person, public), before)


@pytest.mark.parametrize("cell", [0, h3.latlng_to_cell(-33.9, 151.2, 6)])
def test_somebody_of_whom_nothing_is_known_is_recommended_what_most_people_like(
    with_coordinates: Town, store: Store, cell: int
) -> None:
    person = Person(store)
    person.join(membership(cell=cell))
    public = ready(with_coordinates)
    unknown = replace(person_state(person, public), features=np.zeros(with_coordinates.campaign.columns.person))
    assert unknown.home is None
    assert len(recommend(person, public)) == 10


# refusals


def test_a_point_far_from_every_known_place_is_refused_and_not_repeated(here: Town, person: Person) -> None:
    with pytest.raises(UsageError, match=messages.no_place_on_this_device_within(100)) as caught:
        recommend(person, ready(here), moment=Moment(here=(13.5, 4.711)))
    assert "13.5" not in str(caught.value)
    assert "4.711" not in repr(Moment(here=(13.5, 4.711)))


@pytest.mark.parametrize("asked", [{"k": 0}, {"radius_km": -1.0}, {"radius_km": np.nan}])
def test_invalid_requests_for_recommendations_are_refused(
    with_coordinates: Town, tmp_path: Path, asked: dict[str, Any]
) -> None:
    with with_coordinates.person(3, tmp_path).store as store, pytest.raises(UsageError):
        recommend(Person(store), ready(with_coordinates), **asked)


@pytest.mark.parametrize(
    "wrong",
    [
        {"scales": bytes(32)},
        {"shared": b"\0" * 7},
        {"shared": octets(np.ones(3), np.float32)},
        {"shared": None},
    ],
)
def test_a_model_that_does_not_fit_is_refused(with_coordinates: Town, wrong: dict[str, Any]) -> None:
    fine = model(with_coordinates)
    published(fine, with_coordinates.campaign, with_coordinates.known)
    if wrong == {"shared": None}:
        wrong = {"shared": octets(np.full(with_coordinates.campaign.columns.entries, np.nan), np.float32)}
    with pytest.raises(PeerError):
        published(
            msgspec.structs.replace(fine, **wrong), with_coordinates.campaign, with_coordinates.known
        )  # fmt: skip
