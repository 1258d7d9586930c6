"""What a device learns from and what it adds to sums, beyond the bits that a simulation has."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from prirec.device.person import Person, fitting
from prirec.device.records import encode_records, home_of
from prirec.device.rounds import gradient_vector, moments_vector, visited_places, visits_vector
from prirec.device.store import Store, VisitContribution, drop_contributions, save_visit_contribution
from prirec.errors import PeerError, StateError
from prirec.features.encoding import Log, Range, Words
from prirec.privacy.norm import within
from prirec.wire import http
from prirec.wire.campaign import Campaign
from support import messages
from support.cities import same_bits
from support.device_city import MOST_FOR_POPULARITY, Town, membership, town


@pytest.fixture(scope="module")
def here() -> Town:
    return town(settings=MOST_FOR_POPULARITY)


@pytest.fixture
def person(here: Town, tmp_path: Path) -> Iterator[Person]:
    """Somebody with records of both kinds."""
    made = here.person(0, tmp_path)
    assert {visit.label for visit in made.visits()} == {1, -1}
    yield made
    made.store.close()


def give(person: Person, here: Town) -> VisitContribution:
    visited = visited_places(person, here.campaign, here.known)
    with person.store.transaction() as rows:
        save_visit_contribution(rows, here.campaign.name, visited)
    return visited


def some_model(here: Town, size: float = 0.1) -> np.ndarray:
    groups = here.campaign.columns.groups
    drawn = np.random.default_rng(5).normal(scale=size, size=groups.shape)
    return np.where(groups >= 0, np.rint(np.clip(drawn, -15, 15) * 2**20) / 2**20, 0.0)


# the sum of visits


def test_visits_outside_the_downloaded_regions_are_in_no_sum(here: Town, person: Person) -> None:
    person.record_visit("somewhere else")
    assert encode_records(person, here.campaign, here.known).unknown == 1
    visited = visited_places(person, here.campaign, here.known)
    assert set(visited.entries) == {
        here.known.ids.index(visit.place) for visit in person.visits()[1:] if visit.label > 0
    }


def test_a_person_without_visits_adds_nothing(here: Town, store: Store) -> None:
    vector = visits_vector(visited_places(Person(store), here.campaign, here.known), here.campaign)
    assert vector.shape == (here.campaign.charter.places,)
    assert not vector.any()


def test_a_vector_of_visits_is_as_long_as_its_price_says_however_many_places(here: Town, person: Person) -> None:
    norm = here.campaign.visits.norm
    for place in here.known.ids:
        person.record_visit(place)
        vector = visits_vector(visited_places(person, here.campaign, here.known), here.campaign).view(np.int64)
        assert within(vector, norm)
        assert np.sqrt((vector.astype(float) ** 2).sum()) > 0.97 * float(norm.units)


def test_repeated_visits_count_once(here: Town, person: Person) -> None:
    before = visits_vector(visited_places(person, here.campaign, here.known), here.campaign)
    known = next(visit.place for visit in person.visits() if visit.label > 0)
    person.record_visit(known, time=1)
    assert same_bits(visits_vector(visited_places(person, here.campaign, here.known), here.campaign), before)


def test_a_device_learns_from_its_latest_records(
    here: Town, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    whole = encode_records(person, here.campaign, here.known)
    known = [visit for visit in person.visits() if visit.place in here.known.ids]
    assert len(known) == len(whole.label) > 3
    monkeypatch.setattr(http, "MOST_RECORDS", 3)
    few = encode_records(person, here.campaign, here.known)
    assert few.label.tolist() == [visit.label for visit in person.visits()[-3:]]


# what is left out


def test_only_what_was_given_is_left_out(here: Town, person: Person) -> None:
    whole = encode_records(person, here.campaign, here.known).context
    give(person, here)
    less = encode_records(person, here.campaign, here.known).context
    assert not same_bits(whole, less)
    with person.store.transaction() as rows:
        drop_contributions(rows, keeping=())
    assert same_bits(encode_records(person, here.campaign, here.known).context, whole)


def test_a_visit_after_the_sum_changes_nothing_in_what_is_left_out(here: Town, person: Person) -> None:
    give(person, here)
    before = encode_records(person, here.campaign, here.known)
    new = next(place for place in here.known.ids if place not in {visit.place for visit in person.visits()})
    person.record_visit(new, time=max(visit.time or 0 for visit in person.visits()) + 1)
    after = encode_records(person, here.campaign, here.known)
    columns = here.setup.samples.popularity.shape[1]
    assert same_bits(after.context[:-1, :columns], before.context[:, :columns])
    assert same_bits(after.context[-1, :columns], here.setup.samples.popularity[here.known.ids.index(new)])


# regions


def test_records_are_the_same_from_the_regions_that_they_are_in(here: Town, person: Person) -> None:
    give(person, here)
    visited = {visit.place for visit in person.visits()}
    cells = [cell for cell in here.known.cells if visited & set(here.known_in([cell]).ids)]
    assert 0 < len(cells) < len(here.known.cells)
    some, whole = (encode_records(person, here.campaign, known) for known in (here.known_in(cells), here.known))
    assert same_bits(some.context, whole.context)
    B = some_model(here)
    assert same_bits(gradient_vector(some, here.campaign, B), gradient_vector(whole, here.campaign, B))
    assert same_bits(moments_vector(some, here.campaign), moments_vector(whole, here.campaign))


# rounds


def test_contributions_keep_their_norms_whatever_the_model_is(here: Town, person: Person) -> None:
    records = encode_records(person, here.campaign, here.known)
    for size in (0.0, 0.1, 10.0):
        vector = gradient_vector(records, here.campaign, some_model(here, size))
        assert vector.any()
        assert within(vector.view(np.int64), here.campaign.norm("interaction"))
    assert within(moments_vector(records, here.campaign).view(np.int64), here.campaign.norm("moments"))


def test_contributions_keep_their_norms_however_long_the_features_are(here: Town, person: Person) -> None:
    records = encode_records(person, here.campaign, here.known)
    long = replace(records, person=np.full_like(records.person, 1e6), context=np.full_like(records.context, -1e6))
    vector = gradient_vector(long, here.campaign, some_model(here))
    assert vector.any()
    assert within(vector.view(np.int64), here.campaign.norm("interaction"))
    assert within(moments_vector(long, here.campaign).view(np.int64), here.campaign.norm("moments"))


def test_a_person_without_records_adds_zeros_to_the_gradient(here: Town, store: Store) -> None:
    nobody = Person(store)
    nobody.join(membership())
    records = encode_records(nobody, here.campaign, here.known)
    assert not gradient_vector(records, here.campaign, some_model(here)).any()


def test_a_device_of_no_deployment_has_no_records(here: Town, store: Store) -> None:
    with pytest.raises(StateError, match=messages.IN_NO_DEPLOYMENT):
        encode_records(Person(store), here.campaign, here.known)


# what a person told


def test_what_was_told_before_the_catalogue_came_and_is_of_no_use_counts_as_unknown(here: Town, person: Person) -> None:
    """And nothing else does: not the rest of the profile, and not the records."""
    person.set_profile({"age": 31, "gender": None})
    alone = encode_records(person, here.campaign, here.known)
    for unfit in ({"gender": 4711.0}, {"gender": "of another catalogue"}, {"shoe size": 43}):
        person.set_profile({"age": 31, **unfit})
        records = encode_records(person, here.campaign, here.known)
        assert same_bits(records.person, alone.person)
        assert same_bits(records.context, alone.context)
        assert gradient_vector(records, here.campaign, some_model(here)).any()
        person.set_profile(dict.fromkeys(unfit))
    person.set_profile({"age": "canary"})
    assert encode_records(person, here.campaign, here.known).person[here.campaign.encoding.names().index("age")] == 0


def test_values_of_a_visit_that_are_of_no_use_count_as_unknown(here: Town) -> None:
    blocks = (Range(column="rain", low=0.0, high=9.0), Words(column="with", words=("friends",)))
    rows = [{"rain": "much", "with": "friends"}, {"rain": 5.0, "with": ("canary",), "mood": 1.0}, {"rain": 10.0}]
    assert fitting(blocks, rows) == [{"with": "friends"}, {"rain": 5.0}, {}]
    assert fitting(blocks, rows[:1]) == [{"with": "friends"}]
    assert fitting(blocks, [{"rain": 9.0}]) == [{"rain": 9.0}]


def steepened(here: Town, scale: float) -> Campaign:
    encoding = here.campaign.encoding
    blocks = tuple(Log(column="age", scale=scale) if one.column == "age" else one for one in encoding.person)
    steep = msgspec.structs.replace(encoding, person=blocks)
    edition = msgspec.structs.replace(here.edition, encoding=steep.to_json())
    return Campaign.of(here.campaign.charter, edition, here.campaign.scales)


def test_the_steepest_encoding_makes_usable_features_of_any_value(here: Town, person: Person) -> None:
    """To stop for some values and not for others would tell which they are."""
    at = here.campaign.encoding.names().index("age")
    for age, feature in ((31.0, 1e6), (-1.7e308, -1e6), (0.0, 0.0)):
        person.set_profile({"age": age})
        campaign = steepened(here, 1e-9)
        records = encode_records(person, campaign, here.known)
        assert records.person[at] == feature
        assert gradient_vector(records, campaign, some_model(here)).any()


def test_an_encoding_that_makes_features_infinite_is_refused_before_anybody_is_looked_at(here: Town) -> None:
    with pytest.raises(PeerError, match=messages.ENCODING_DAMAGED):
        steepened(here, 5e-324)


def test_values_missing_from_a_profile_are_unknown(here: Town, store: Store) -> None:
    nobody = Person(store)
    nobody.join(membership())
    assert not encode_records(nobody, here.campaign, here.known).person.any()


def test_a_visit_without_a_time_has_no_hour_and_no_day(here: Town, person: Person) -> None:
    names = here.campaign.encoding.names()
    first = len(names) - encode_records(person, here.campaign, here.known).context.shape[1]
    clock = [at - first for at, name in enumerate(names) if name.startswith("time:")]
    person.record_visit(here.known.ids[0], id="at some time")
    context = encode_records(person, here.campaign, here.known).context
    assert len(clock) == 5
    assert not context[0, clock].any()
    assert context[1:, clock].any(axis=1).all()


def test_home_is_the_stated_one_or_the_median_of_visited_places(here: Town, person: Person) -> None:
    told = person.home()
    assert home_of(person, here.known) == told
    person.set_home(None)
    positive = [here.known.ids.index(visit.place) for visit in person.visits() if visit.label > 0]
    assert home_of(person, here.known) == pytest.approx(np.median(here.known.location[positive], axis=0))
    for visit in person.visits():
        person.remove_visit(visit.id or "")
    assert home_of(person, here.known) is None
