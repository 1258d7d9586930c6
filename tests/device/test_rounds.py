"""What a device learns from and what it adds to sums, beyond the bits that a simulation has."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from prirec.device.person import Person
from prirec.device.records import encode_records, home_of
from prirec.device.rounds import initial_model, learn, mixing_vector, visited_places, visits_vector
from prirec.device.store import Store, VisitContribution, drop_models, save_visit_contribution
from prirec.errors import DataError, StateError, UsageError
from prirec.features.encoding import Log
from prirec.privacy.norm import within
from prirec.wire import http
from prirec.wire.campaign import Campaign
from support import messages
from support.cities import same_bits
from support.device_city import SEED, Town, membership, town


@pytest.fixture(scope="module")
def here() -> Town:
    return town()


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


def some_models(here: Town) -> tuple[np.ndarray, np.ndarray]:
    rng, D = np.random.default_rng(5), here.setup.samples.features
    return rng.normal(scale=0.1, size=D + 1), rng.normal(scale=0.1, size=(D, here.setup.settings.model.dimension))


# the sum of visits


def test_visits_outside_the_downloaded_regions_are_in_no_sum(here: Town, person: Person) -> None:
    person.record_visit("somewhere else")
    assert encode_records(person, here.campaign, here.known).unknown == 1
    visited = visited_places(person, here.campaign, here.known)
    assert set(visited.places) == {
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
    whole = encode_records(person, here.campaign, here.known).own
    known = [visit for visit in person.visits() if visit.place in here.known.ids]
    assert len(known) == len(whole.label) > 3
    monkeypatch.setattr(http, "MOST_RECORDS", 3)
    few = encode_records(person, here.campaign, here.known).own
    assert few.label.tolist() == [visit.label for visit in person.visits()[-3:]]


# what is left out


def test_only_what_was_given_is_left_out(here: Town, person: Person) -> None:
    whole = encode_records(person, here.campaign, here.known).own.context
    give(person, here)
    less = encode_records(person, here.campaign, here.known).own.context
    assert not same_bits(whole, less)
    with person.store.transaction() as rows:
        drop_models(rows, keeping=())
    assert same_bits(encode_records(person, here.campaign, here.known).own.context, whole)


def test_a_visit_after_the_sum_changes_nothing_in_what_is_left_out(here: Town, person: Person) -> None:
    give(person, here)
    before = encode_records(person, here.campaign, here.known).own
    new = next(place for place in here.known.ids if place not in {visit.place for visit in person.visits()})
    person.record_visit(new, time=max(visit.time or 0 for visit in person.visits()) + 1)
    after = encode_records(person, here.campaign, here.known).own
    assert same_bits(after.context[:-1], before.context)
    columns = here.setup.samples.popularity.shape[1]
    assert same_bits(after.context[-1, :columns], here.setup.samples.popularity[here.known.ids.index(new)])


# regions


def test_records_are_the_same_from_the_regions_that_they_are_in(here: Town, person: Person) -> None:
    give(person, here)
    visited = {visit.place for visit in person.visits()}
    cells = [cell for cell in here.known.cells if visited & set(here.known_in([cell]).ids)]
    assert 0 < len(cells) < len(here.known.cells)
    some, whole = (encode_records(person, here.campaign, known) for known in (here.known_in(cells), here.known))
    linear, V = some_models(here)
    learnt = [
        learn(one, here.campaign, linear=linear, interaction=V, iteration=2, mean=linear / 2) for one in (some, whole)
    ]
    assert same_bits(some.own.context, whole.own.context)
    assert same_bits(learnt[0].linear, learnt[1].linear)
    assert same_bits(learnt[0].contribution, learnt[1].contribution)


# rounds


def test_learning_leaves_its_arguments_as_they_were(here: Town, person: Person) -> None:
    records, (linear, V) = encode_records(person, here.campaign, here.known), some_models(here)
    copies = linear.copy(), V.copy(), linear / 2
    learnt = learn(records, here.campaign, linear=linear, interaction=V, iteration=1, mean=copies[2])
    assert same_bits(linear, copies[0])
    assert same_bits(V, copies[1])
    assert not same_bits(learnt.linear, linear)


def test_contributions_keep_their_norms_whatever_the_models_are(here: Town, person: Person) -> None:
    records, (linear, V) = encode_records(person, here.campaign, here.known), some_models(here)
    for size in (0.0, 1.0, 50.0):
        learnt = learn(records, here.campaign, linear=size * linear, interaction=V * (1 + size), iteration=1)
        assert within(learnt.contribution.view(np.int64), here.campaign.norm("interaction"))
        mixed = mixing_vector(here.campaign, size * linear, centre=-linear)
        assert within(mixed.view(np.int64), here.campaign.norm("linear"))
    assert within(mixing_vector(here.campaign, linear, centre=linear).view(np.int64), here.campaign.norm("linear"))


def test_the_loss_is_a_mean_over_the_own_records(here: Town, person: Person) -> None:
    records, (_, V) = encode_records(person, here.campaign, here.known), some_models(here)
    loss = learn(records, here.campaign, linear=initial_model(here.campaign), interaction=0 * V, iteration=0).loss
    assert 0.3 < loss < 1.2  # ln 2 before the first step, and steps are small


def test_a_person_without_records_learns_nothing_and_adds_zeros(here: Town, store: Store) -> None:
    nobody, (linear, V) = Person(store), some_models(here)
    nobody.join(membership())
    records = encode_records(nobody, here.campaign, here.known)
    learnt = learn(records, here.campaign, linear=linear, interaction=V, iteration=0)
    assert same_bits(learnt.linear, linear)
    assert not learnt.contribution.any()
    assert records.gamma == 1.0
    assert learn(records, here.campaign, linear=linear, interaction=V, iteration=0, mean=2 * linear).loss == 0.0


@pytest.mark.parametrize("wrong", ["linear", "interaction", "mean", "dtype", "records"])
def test_a_model_of_another_size_is_refused_before_a_kernel_sees_it(here: Town, person: Person, wrong: str) -> None:
    records, (linear, V) = encode_records(person, here.campaign, here.known), some_models(here)
    given: dict[str, Any] = {"linear": linear, "interaction": V, "mean": linear}
    if wrong == "records":
        records = replace(records, features=records.features + 1)
    elif wrong == "dtype":
        given["linear"] = linear.astype(np.float32)
    else:
        given[wrong] = given[wrong][:-1]
    with pytest.raises(
        UsageError, match=messages.any_of(messages.MODEL_SIZE_NOT_THE_CAMPAIGNS, messages.RECORDS_NOT_THE_CAMPAIGNS)
    ):
        learn(records, here.campaign, iteration=0, **given)


def test_a_centre_of_another_size_is_refused(here: Town) -> None:
    linear, _ = some_models(here)
    with pytest.raises(UsageError, match=messages.MODEL_SIZE_NOT_THE_CAMPAIGNS):
        mixing_vector(here.campaign, linear, centre=linear[1:])


def test_a_device_of_no_deployment_has_no_records(here: Town, store: Store) -> None:
    with pytest.raises(StateError, match=messages.IN_NO_DEPLOYMENT):
        encode_records(Person(store), here.campaign, here.known)


# what a person told


def test_words_where_a_number_belongs_are_refused_by_the_columns_name_alone(here: Town, person: Person) -> None:
    person.set_profile({"age": "canary"})
    with pytest.raises(DataError, match=messages.in_column("age", messages.NUMBER_EXPECTED)) as caught:
        encode_records(person, here.campaign, here.known)
    assert "canary" not in str(caught.value)
    person.set_profile({"age": 31, "gender": 4711.0})
    with pytest.raises(DataError, match=messages.in_column("gender", messages.WORD_EXPECTED)) as caught:
        encode_records(person, here.campaign, here.known)
    assert "4711" not in str(caught.value)


def steepened(here: Town, scale: float) -> Campaign:
    encoding = here.campaign.encoding
    blocks = tuple(Log(column="age", scale=scale) if one.column == "age" else one for one in encoding.person)
    steep = msgspec.structs.replace(encoding, person=blocks)
    return Campaign.of(here.campaign.charter, msgspec.structs.replace(here.edition, encoding=steep.to_json()))


def test_the_steepest_encoding_makes_usable_features_of_any_value(here: Town, person: Person) -> None:
    """To stop for some values and not for others would tell which they are."""
    (linear, V), at = some_models(here), here.campaign.encoding.names().index("age")
    for age, feature in ((31.0, 1e6), (-1.7e308, -1e6), (0.0, 0.0)):
        person.set_profile({"age": age})
        campaign = steepened(here, 1e-9)
        records = encode_records(person, campaign, here.known)
        assert records.own.person[at] == feature
        learn(records, campaign, linear=linear, interaction=V, iteration=0)


def test_an_encoding_that_makes_features_infinite_is_refused_before_anybody_is_looked_at(here: Town) -> None:
    with pytest.raises(StateError, match=messages.ENCODING_DAMAGED):
        steepened(here, 5e-324)


def test_values_missing_from_a_profile_are_unknown(here: Town, store: Store) -> None:
    nobody = Person(store)
    nobody.join(membership())
    assert not encode_records(nobody, here.campaign, here.known).own.person.any()


def test_a_visit_without_a_time_has_no_hour_and_no_day(here: Town, person: Person) -> None:
    names = here.campaign.encoding.names()
    first = len(names) - encode_records(person, here.campaign, here.known).own.context.shape[1]
    clock = [at - first for at, name in enumerate(names) if name.startswith("time:")]
    person.record_visit(here.known.ids[0], id="at some time")
    context = encode_records(person, here.campaign, here.known).own.context
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


def test_the_campaign_of_this_suite_has_the_editions_seed(here: Town) -> None:
    assert here.campaign.settings.seed == SEED == here.setup.settings.seed
