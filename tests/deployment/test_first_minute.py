"""A device that has just joined recommends, before any campaign: with the operator's starting model, or from what is
public and its own records. Over HTTPS, by the front door."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

import prirec
from prirec import Fit
from prirec.device.device import Device
from prirec.device.recommend import in_use, own_model
from prirec.device.sync import View
from prirec.errors import PolicyError, UsageError
from prirec.recommender import operator
from prirec.recommender.release import StartingModel
from prirec.util.geography import haversine_km
from prirec.wire.documents import Start, read
from support import messages
from support.founded_deployment import folder  # noqa: F401  # a fixture


@pytest.fixture(scope="module")
def city() -> prirec.City:
    return prirec.make_city(people=200, places=60, records=4000, seed=1)


@pytest.fixture(scope="module")
def fit(city: prirec.City) -> Fit:
    return prirec.fit(city, prirec.settings("rounds", {"data": {"keep": "all"}}, iterations=3))


@pytest.fixture
def recommender(city: prirec.City, folder: Path) -> Iterator[prirec.Recommender]:  # noqa: F811
    city.save(folder / "town")
    with prirec.Recommender.create(folder / "town.db", title="Our town", hosts=["localhost"]) as made:
        yield made


def home_in(city: prirec.City) -> tuple[float, float]:
    lat, lon = city.dataset.places.location.mean(axis=0).tolist()
    return lat, lon


@contextmanager
def phone(recommender: prirec.Recommender, city: prirec.City, file: Path) -> Iterator[Device]:
    """It has joined, and the service is gone again."""
    with Device.open(file) as device:
        with recommender.serving() as url:
            device.join(url, home=home_in(city), authority=recommender.authority)
        yield device


def test_without_a_starting_model_the_nearest_places_come_first(
    recommender: prirec.Recommender, city: prirec.City, folder: Path  # noqa: F811
) -> None:  # fmt: skip
    recommender.publish(folder / "town")
    with phone(recommender, city, folder / "phone.db") as device:
        member = device.status().membership
        assert (member.model, member.can_recommend, member.campaign, member.places) == (
            "own records alone",
            True,
            None,
            60,
        )
        found = device.recommend(k=10, radius_km=50.0)
        nearest = np.argsort(haversine_km(np.array(home_in(city)), city.dataset.places.location))[:10]
        assert [one.place for one in found] == [city.places[at] for at in nearest]
        assert device.account().lifetime.epsilon == 0


def test_without_a_starting_model_own_visits_are_learnt_from_and_a_list_is_repeated_exactly(
    recommender: prirec.Recommender, city: prirec.City, folder: Path  # noqa: F811
) -> None:  # fmt: skip
    """Of a district to which somebody goes, the other places rise, though it is the farthest of the larger ones."""
    recommender.publish(folder / "town")
    district = city.dataset.places.columns["district"]
    km = haversine_km(np.array(home_in(city)), city.dataset.places.location)
    large = [code for code in range(len(district.words)) if (district.codes == code).sum() >= 6]
    farthest = max(large, key=lambda code: km[district.codes == code].mean())
    there = [city.places[at] for at in np.flatnonzero(district.codes == farthest)]
    went, new = there[::2], there[1::2]
    with phone(recommender, city, folder / "phone.db") as device:
        before = places_of(device)
        for place in went:
            device.record_visit(place)
        after = places_of(device)
        assert np.mean([after.index(place) for place in new]) < np.mean([before.index(place) for place in new]) / 2
        assert set(after) == set(city.places) - set(went)
        assert places_of(device) == after


def places_of(device: Device) -> list[str]:
    return [one.place for one in device.recommend(k=60, radius_km=100.0)]


def test_with_a_starting_model_a_device_comes_to_the_coefficients_of_the_simulation(
    recommender: prirec.Recommender, city: prirec.City, fit: Fit, folder: Path  # noqa: F811
) -> None:  # fmt: skip
    """One person of the training, on a device: the same records, the same shared model, the same own model. Popularity
    differs by that person's own visits, which only a simulation can leave out."""
    recommender.publish(folder / "town", start=fit.starting_model)
    assert recommender.status().start == "preset rounds, without a privacy budget"
    with phone(recommender, city, folder / "phone.db") as device:
        assert device.status().membership.model == "start"
        published = in_use(View.of(device.person))
        trained = fit.run.models.shared
        assert (published.model.everyone == trained.everyone).all()
        assert (published.model.crossing == trained.crossing).all()
        assert (published.model.words.factor, published.model.base) == (
            pytest.approx(trained.words.factor),
            trained.base,
        )
        for mine, theirs in zip(published.moments, fit.run.models.moments, strict=True):
            assert mine == pytest.approx(theirs, abs=0)
        known, released = published.known, fit.run.released
        for at, name in enumerate(known.counted.names):
            of = dict(zip(released.places, released.columns[name], strict=True))
            assert known.counted.released[:, at].tolist() == [of[place] for place in known.ids]
        assert own_model(device.person, published) == pytest.approx(
            trained.everyone + crossed(trained, published, device), abs=2**-16
        )  # nobody has visited anything: Bᵀ a alone
        assert len(device.recommend(k=5)) == 5


def crossed(trained: object, published: object, device: Device) -> np.ndarray:
    from prirec.device.recommend import person_state
    from prirec.features.columns import person_rows

    a = person_rows(person_state(device.person, published).features[None], published.moments)[0]
    whole = np.zeros(len(trained.everyone))
    whole[trained.layout.crossed] = a[1:] @ trained.crossing
    return whole


def test_people_and_visits_may_be_described_in_another_order_or_by_less(
    recommender: prirec.Recommender, city: prirec.City, fit: Fit, folder: Path  # noqa: F811
) -> None:  # fmt: skip
    """schema.toml lists columns by name, a table in its own order: the model keeps that of its training."""
    source = recommender.read_places(folder / "town")
    assert source.encoding.person != fit.starting_model.encoding.person
    timeless = replace(source, encoding=msgspec.structs.replace(source.encoding, person=source.encoding.person[::-1]))
    recommender.publish(timeless, start=fit.starting_model)
    with phone(recommender, city, folder / "phone.db") as device:
        device.describe({"age": 31, "gender": "female"})
        assert len(device.recommend(k=5)) == 5


def unfit(start: StartingModel, **changes: object) -> StartingModel:
    return replace(start, encoding=msgspec.structs.replace(start.encoding, **changes))


def test_a_starting_model_of_other_features_or_another_city_is_refused_and_nothing_is_published(
    recommender: prirec.Recommender, fit: Fit, folder: Path  # noqa: F811
) -> None:  # fmt: skip
    start, publish = fit.starting_model, recommender.publish
    with pytest.raises(UsageError, match=messages.START_OF_ANOTHER_CITY):
        publish(folder / "town", start=replace(start, places=tuple(f"elsewhere {one}" for one in start.places)))
    with pytest.raises(UsageError, match=messages.START_WITH_OTHER_PLACES):
        publish(folder / "town", start=unfit(start, place=start.encoding.place[1:], context=()))
    other = msgspec.structs.replace(start.encoding.person[0], column="shoe size")
    with pytest.raises(UsageError, match=messages.start_with_unknown("people", "shoe size")):
        publish(folder / "town", start=unfit(start, person=(other, *start.encoding.person[1:])))
    with pytest.raises(UsageError, match=messages.START_WITHOUT_ROUNDS):
        _ = prirec.fit(prirec.make_city(people=60, seed=1), prirec.settings("fm", iterations=1)).starting_model
    assert recommender.status().counts.entries == 0


def test_the_log_says_what_a_starting_model_was_trained_with_and_not_its_seed(
    recommender: prirec.Recommender, fit: Fit, folder: Path  # noqa: F811
) -> None:  # fmt: skip
    settings = prirec.settings("private", iterations=3, seed=4711)
    recommender.publish(folder / "town", start=replace(fit.starting_model, settings=settings))
    entry = recommender.store.last("start")
    start = read(Start, operator.own_document(recommender.store, entry.document), name=entry.document)
    assert "4711" not in start.settings
    assert recommender.status().start == "preset private, with a simulated budget of ε = 1"


def test_a_campaign_that_noise_would_drown_is_forecast_and_not_begun_by_accident(
    recommender: prirec.Recommender,
    folder: Path,  # noqa: F811
) -> None:
    recommender.publish(folder / "town")
    few = prirec.settings("private", floor=50)
    with pytest.raises(PolicyError, match=messages.too_few_enrolled(0)):
        recommender.forecast(few)
    enrol(recommender, 60)
    forecast = recommender.forecast(few)
    assert (forecast.counts.people, forecast.counts.places, forecast.usable) == (60, 60, False)
    assert forecast.noise.in_scores > 10
    with pytest.raises(PolicyError, match=messages.would_drown(60)):
        recommender.begin(few)
    assert recommender.campaign() is None
    charter = recommender.begin(few, anyway=True)
    assert charter.many == 60
    planned = prirec.plan(people=60, places=60, settings=charter.settings.whole())
    assert planned.terms[0].epsilon == pytest.approx(forecast.terms[0].epsilon)


def test_a_campaign_between_usable_and_drowned_is_begun_only_on_request(
    recommender: prirec.Recommender,
    folder: Path,  # noqa: F811
) -> None:
    recommender.publish(folder / "town")
    enrol(recommender, 200)
    some = prirec.settings("private", {"privacy": {"epsilon_per_user": 50.0}})
    noise = recommender.forecast(some).noise
    assert (noise.usable, noise.drowns) == (False, False)
    with pytest.raises(PolicyError, match=messages.would_take_much(200)):
        recommender.begin(some)
    assert recommender.campaign() is None
    assert recommender.begin(some, anyway=True).campaign == 0


def test_a_campaign_with_enough_budget_is_begun_without_a_word(recommender: prirec.Recommender, folder: Path) -> None:  # noqa: F811
    """By the same forecast: 300 people are enough where ε is 50."""
    recommender.publish(folder / "town")
    enrol(recommender, 300)
    much = prirec.settings("private", {"privacy": {"epsilon_per_user": 50.0}})
    assert recommender.forecast(much).noise.usable
    assert recommender.begin(much).campaign == 0


def enrol(recommender: prirec.Recommender, many: int) -> None:
    for at in range(many):
        recommender.store.enrol(at.to_bytes(32, "big"), day=0)


def test_a_starting_model_is_refused_once_a_campaign_has_published_its_own(
    recommender: prirec.Recommender,
    fit: Fit,
    folder: Path,  # noqa: F811
) -> None:
    recommender.publish(folder / "town", start=fit.starting_model)
    entry = recommender.store.last("start")
    model = read(Start, operator.own_document(recommender.store, entry.document), name=entry.document).model
    founding = recommender.store.founding()
    recommender.store.advance(progress=None, entries=operator.sign_entries(founding, [("publication", model)]))
    with pytest.raises(PolicyError, match=messages.MODEL_OF_A_CAMPAIGN_IS_IN_USE):
        recommender.publish(folder / "town", start=fit.starting_model)
    assert recommender.status().start is None
    recommender.publish(folder / "town")
