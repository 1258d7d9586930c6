"""Recommendations on a device, offline, are those that a simulation gives the same person with the same models."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from h3.api import basic_int as h3

from prirec.device.person import Person
from prirec.device.recommend import PASSES, Published, model_for, person_state, published, recommend
from prirec.device.records import encode_records
from prirec.device.rounds import learn
from prirec.device.store import LinearModel, Store, save_model
from prirec.errors import PeerError, StateError, UsageError
from prirec.model.scoring import Models
from prirec.protocols.codec import encode
from prirec.protocols.prediction import Moment, PlacePart, Recommendation, Suggestion
from prirec.simulate.recommend import Advisor
from prirec.types import RealArray
from prirec.wire.documents import Publication, Start, address, octets
from support import messages
from support.cities import SMALL_PRIVATE, change, same_bits, small_city, without_coordinates
from support.device_city import Town, membership, town

MOMENTS = [Moment(), Moment(time=1_714_850_000), Moment(here=(35.66, 139.7)), Moment((35.7, 139.8), 1_714_800_000)]
HOME_CELL = h3.latlng_to_cell(35.68, 139.76, 6)


@pytest.fixture(scope="module", params=["coordinates", "no coordinates", "own history", "areas"])
def here(request: pytest.FixtureRequest) -> Town:
    city = small_city(people=60, places=40, records=500)
    own, areas = request.param == "own history", 6 if request.param == "areas" else 0
    settings = change(SMALL_PRIVATE, features={"own_history": own, "areas": areas})
    return town(without_coordinates(city) if request.param == "no coordinates" else city, settings)


@pytest.fixture(scope="module")
def with_coordinates() -> Town:
    return town()


@pytest.fixture
def person(here: Town, tmp_path: Path) -> Iterator[Person]:
    made = here.person(3, tmp_path)
    yield made
    made.store.close()


def models(here: Town, *, people: int = 1) -> tuple[RealArray, RealArray]:
    """W (people, D + 1) and V (D, K)."""
    rng, D = np.random.default_rng(8), here.setup.samples.features
    return rng.normal(scale=0.5, size=(people, D + 1)), rng.normal(scale=0.3, size=(D, 5))


def publication(here: Town, V: RealArray, starts: dict[int, RealArray] | None = None) -> Publication:
    starts = {0: np.zeros(len(V) + 1)} if starts is None else starts
    return Publication(
        edition=address(encode(here.edition)),
        iteration=3,
        interaction=octets(V, np.float64),
        manifest=bytes(32),
        starts=tuple(Start(cell, octets(model, np.float64)) for cell, model in starts.items()),
    )


def ready(here: Town, V: RealArray, starts: dict[int, RealArray] | None = None) -> Published:
    """With the places' part of Eq. (1) as the recommender publishes it."""
    known = here.known
    part = PlacePart.of(V, known.catalogue(here.campaign.encoding), first=here.setup.samples.people.shape[1])
    return published(
        publication(here, V, starts), here.campaign, here.catalogue.with_parts(part).known
    )  # fmt: skip


def keep(person: Person, here: Town, linear: RealArray) -> None:
    with person.store.transaction() as rows:
        save_model(rows, LinearModel(here.campaign.name, 3, linear))


def test_a_device_recommends_what_the_simulation_does(tmp_path: Path, here: Town) -> None:
    W, V = models(here, people=len(here.setup.samples.ids))
    advisor, public = Advisor.of(here.setup, Models(W, V)), ready(here, V)
    nowhere = np.isnan(here.known.location).all()  # then a point means nothing
    for i in range(0, len(W), 7):
        with here.person(i, tmp_path).store as store:
            person = Person(store)
            keep(person, here, W[i])
            for moment in MOMENTS[:2] if nowhere else MOMENTS:
                mine = recommend(person, public, moment=moment, k=5)
                agree(mine, advisor.recommend(i, moment=moment, k=5), public)


def agree(mine: Sequence[Suggestion], theirs: Sequence[Recommendation], public: Published) -> None:
    assert [public.known.ids.index(one.place) for one in mine] == [one.place_row for one in theirs]
    assert [one.probability for one in mine] == pytest.approx([one.probability for one in theirs])
    reasons = [[[reason.name for reason in one.reasons] for one in side] for side in (mine, theirs)]
    assert reasons[0] == reasons[1]


def test_what_is_recommended_is_new_and_near_and_described(with_coordinates: Town, tmp_path: Path) -> None:
    here, (W, V) = with_coordinates, models(with_coordinates)
    with here.person(3, tmp_path).store as store:
        person = Person(store)
        keep(person, here, W[0])
        from_home, from_there = (
            recommend(person, ready(here, V), moment=moment, k=5, radius_km=20) for moment in (None, MOMENTS[2])
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


def test_parts_that_were_not_published_are_worked_out(here: Town, person: Person) -> None:
    W, V = models(here)
    keep(person, here, W[0])
    bare = published(publication(here, V), here.campaign, here.known)
    assert [one.place for one in recommend(person, bare)] == [one.place for one in recommend(person, ready(here, V))]


def test_fewer_regions_give_fewer_places_and_the_same_scores(with_coordinates: Town, tmp_path: Path) -> None:
    here, (W, V) = with_coordinates, models(with_coordinates)
    cell = max(here.known.cells, key=lambda one: len(here.known_in([one])))
    some = published(publication(here, V), here.campaign, here.known_in([cell]))
    with here.person(3, tmp_path).store as store:
        keep(Person(store), here, W[0])
        few, many = (recommend(Person(store), of, k=40, radius_km=500) for of in (some, ready(here, V)))
    chances = {one.place: one.probability for one in many}
    assert 0 < len(few) < len(many)
    assert [one.probability for one in few] == pytest.approx([chances[one.place] for one in few])


# people who are new


def test_a_newcomer_starts_at_the_model_of_their_cell_and_learns_locally(
    with_coordinates: Town, tmp_path: Path
) -> None:
    here, (W, V) = with_coordinates, models(with_coordinates, people=3)
    starts = {0: W[0], h3.cell_to_parent(HOME_CELL, 4): W[1], h3.latlng_to_cell(48.8, 2.3, 6): W[2]}
    public = ready(here, V, dict(sorted(starts.items())))
    with here.person(3, tmp_path, cell=HOME_CELL).store as store:
        records, w = encode_records(Person(store), here.campaign, here.known), W[1]
        for iteration in range(PASSES):
            w = learn(records, here.campaign, linear=w, interaction=V, iteration=iteration, mean=W[1]).linear
        assert same_bits(model_for(Person(store), public), w)
        assert len(recommend(Person(store), public, radius_km=20)) == 10
        assert Person(store).model(here.campaign.name) is None  # it is worked out, not kept


@pytest.mark.parametrize("cell", [0, h3.latlng_to_cell(-33.9, 151.2, 6)])
def test_a_newcomer_outside_all_cells_and_without_records_has_the_common_start(
    with_coordinates: Town, store: Store, cell: int
) -> None:
    W, V = models(with_coordinates, people=2)
    person = Person(store)
    person.join(membership(cell=cell))
    public = ready(with_coordinates, V, {0: W[0], HOME_CELL: W[1]})
    assert model_for(person, public) == pytest.approx(W[0])
    assert person_state(person, public).home is None
    assert len(recommend(person, public)) == 10


# refusals


def test_a_point_far_from_every_known_place_is_refused_and_not_repeated(here: Town, person: Person) -> None:
    _, V = models(here)
    with pytest.raises(UsageError, match=messages.no_place_on_this_device_within(100)) as caught:
        recommend(person, ready(here, V), moment=Moment(here=(13.5, 4.711)))
    assert "13.5" not in str(caught.value)
    assert "4.711" not in repr(Moment(here=(13.5, 4.711)))


@pytest.mark.parametrize("asked", [{"k": 0}, {"radius_km": -1.0}, {"radius_km": np.nan}])
def test_invalid_requests_for_recommendations_are_refused(
    with_coordinates: Town, tmp_path: Path, asked: dict[str, Any]
) -> None:
    _, V = models(with_coordinates)
    with with_coordinates.person(3, tmp_path).store as store, pytest.raises(UsageError):
        recommend(Person(store), ready(with_coordinates, V), **asked)


def test_a_model_of_another_size_is_refused(here: Town, person: Person) -> None:
    W, V = models(here)
    keep(person, here, W[0][:-1])
    with pytest.raises(StateError, match=messages.SAVED_MODEL_SIZE_NOT_THE_CAMPAIGNS):
        recommend(person, ready(here, V))


@pytest.mark.parametrize(
    "wrong",
    [
        {"edition": bytes(32)},
        {"interaction": b"\0" * 7},
        {"interaction": octets(np.ones((3, 5)), np.float64)},
        {"interaction": octets(np.full((29, 5), np.nan), np.float64)},
        {"starts": ()},
        {"starts": (Start(HOME_CELL, octets(np.zeros(30), np.float64)),)},
        {"starts": (Start(0, octets(np.zeros(29), np.float64)),)},
        {"starts": (Start(0, octets(np.full(30, np.inf), np.float64)),)},
    ],
)
def test_a_publication_that_does_not_fit_is_refused(with_coordinates: Town, wrong: dict[str, Any]) -> None:
    _, V = models(with_coordinates)
    assert V.shape == (29, 5)
    published(publication(with_coordinates, V), with_coordinates.campaign, with_coordinates.known)
    spoilt = msgspec.structs.replace(publication(with_coordinates, V), **wrong)
    with pytest.raises(PeerError):
        published(spoilt, with_coordinates.campaign, with_coordinates.known)
