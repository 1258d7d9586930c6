"""What a device keeps of its deployment, its models and what it gave: never gone back, true together with a round."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from h3.api import basic_int as h3

from prirec.device.ledger import LedgerStore, Price
from prirec.device.person import Person
from prirec.device.store import (
    LinearModel,
    Membership,
    Store,
    VisitContribution,
    document_names,
    drop_models,
    prune_documents,
    save_documents,
    save_enrolled,
    save_head,
    save_model,
    save_visit_contribution,
)
from prirec.errors import PolicyError, StateError, UsageError
from prirec.privacy.accountant import Spent, affordable
from prirec.privacy.ledger import Budget
from prirec.protocols.party import Persist, Stage
from prirec.wire.documents import Head, address
from support import messages
from support.cities import same_bits
from support.device_city import DEPLOYMENT, RECOMMENDER, membership, secret_of
from support.journals import ONE, OTHER, of

CAMPAIGN, LATER = b"\1" * 32, b"\2" * 32
CELL = h3.latlng_to_cell(35.68, 139.76, 15)  # the finest: its first bits are set


@pytest.fixture
def person(store: Store) -> Person:
    return Person(store)


def member(person: Person) -> Membership:
    found = person.membership()
    assert found is not None
    return found


def model(person: Person, campaign: bytes = CAMPAIGN) -> LinearModel:
    found = person.model(campaign)
    assert found is not None
    return found


def head(length: int, mark: int) -> Head:
    return Head(length, bytes([mark]) * 32)


# belonging


def test_a_membership_is_kept_whole(path: Path, person: Person) -> None:
    whole = Membership(
        DEPLOYMENT, "https://one.example:8443", RECOMMENDER, "a town", CELL, secret_of(1), b"PEM", True, head(4, 9)
    )
    person.join(whole)
    with Store.open(path) as again:
        assert Person(again).membership() == whole


def test_a_device_belongs_to_one_deployment_at_a_time(person: Person) -> None:
    assert person.membership() is None
    person.join(membership(1))
    with pytest.raises(StateError, match=messages.IN_A_DEPLOYMENT_ALREADY):
        person.join(membership(2))
    assert person.membership() == membership(1)
    person.leave()
    person.join(membership(2))


def test_neither_the_secret_nor_the_cell_prints(person: Person) -> None:
    text = repr(membership(1, cell=CELL))
    assert repr(secret_of(1)) not in text
    assert str(CELL) not in text


@pytest.mark.parametrize(
    "wrong",
    [
        {"deployment": b"short"},
        {"recommender": b"short"},
        {"secret": b"short"},
        {"cell": -1},
        {"cell": 2**64},
        {"url": ""},
        {"url": "https://\ud800"},
        {"title": "x" * 201},
        {"title": "\ud800"},
    ],
)
def test_an_invalid_membership_is_refused(person: Person, wrong: dict[str, Any]) -> None:
    usual: dict[str, Any] = {
        "deployment": DEPLOYMENT,
        "url": "https://a",
        "recommender": RECOMMENDER,
        "title": "",
        "cell": 0,
    }
    with pytest.raises(UsageError):
        person.join(Membership(**{**usual, "secret": secret_of(1), **wrong}))
    assert person.membership() is None


def test_the_log_goes_on_and_never_back(person: Person) -> None:
    person.join(membership())
    for one in (head(3, 1), head(3, 1), head(5, 2)):
        with person.store.transaction() as rows:
            save_head(rows, one)
    for other in (head(4, 3), head(5, 3), head(0, 0)):
        with (
            pytest.raises(StateError, match=messages.IN_NO_DEPLOYMENT_OR_LOG_AHEAD),
            person.store.transaction() as rows,
        ):
            save_head(rows, other)
    assert member(person).head == head(5, 2)


def test_a_device_in_no_deployment_follows_no_log(person: Person) -> None:
    for save in (save_enrolled, lambda rows: save_head(rows, head(1, 1))):
        with (
            pytest.raises(StateError, match=messages.IN_NO_DEPLOYMENT_OR_LOG_AHEAD),
            person.store.transaction() as rows,
        ):
            save(rows)


def test_enrolment_is_remembered(person: Person) -> None:
    person.join(membership())
    with person.store.transaction() as rows:
        save_enrolled(rows)
    assert member(person).enrolled


# models


def test_a_model_comes_back_to_the_bit(path: Path, person: Person) -> None:
    linear = np.random.default_rng(1).normal(size=30) * 10.0 ** np.arange(-15, 15)
    with person.store.transaction() as rows:
        save_model(rows, LinearModel(CAMPAIGN, 3, linear, LATER))
    with Store.open(path) as again:
        kept = model(Person(again))
        assert (kept.campaign, kept.iteration, kept.mean) == (CAMPAIGN, 3, LATER)
        assert same_bits(kept.linear, linear)
        assert Person(again).model(LATER) is None
    assert repr(kept) == f"LinearModel(campaign={CAMPAIGN!r}, iteration=3, mean={LATER!r})"


@pytest.mark.parametrize("iteration", [2, 3])
def test_a_device_learns_once_from_a_round(person: Person, iteration: int) -> None:
    with person.store.transaction() as rows:
        save_model(rows, LinearModel(CAMPAIGN, 3, np.ones(2)))
        save_model(rows, LinearModel(LATER, 1, np.ones(2)))
    with pytest.raises(StateError, match=messages.LEARNT_IN_THAT_ROUND), person.store.transaction() as rows:
        save_model(rows, LinearModel(CAMPAIGN, iteration, np.zeros(2)))
    assert model(person).linear.tolist() == [1.0, 1.0]
    with person.store.transaction() as rows:
        save_model(rows, LinearModel(CAMPAIGN, 4, np.zeros(2)))
    assert model(person).iteration == 4


@pytest.mark.parametrize("linear", [np.array([1.0, np.nan]), np.ones((2, 2))])
def test_an_invalid_model_is_not_stored(person: Person, linear: np.ndarray) -> None:
    with pytest.raises(UsageError, match=messages.LINEAR_MODEL_NOT_FINITE), person.store.transaction() as rows:
        save_model(rows, LinearModel(CAMPAIGN, 1, linear))


def test_a_model_that_lost_bytes_is_damage(person: Person) -> None:
    with person.store.transaction() as rows:
        rows.execute("INSERT INTO models VALUES (?, 1, ?, x'')", (CAMPAIGN, bytes(15)))
    with pytest.raises(StateError, match=messages.FILE_DAMAGED):
        person.model(CAMPAIGN)


def test_what_was_given_is_kept_for_its_campaign(person: Person) -> None:
    with person.store.transaction() as rows:
        save_visit_contribution(rows, CAMPAIGN, VisitContribution(np.array([9]), np.array([1])))
        save_visit_contribution(rows, CAMPAIGN, VisitContribution(np.array([4, 2]), np.array([7, -1])))
    assert person.visit_contribution(CAMPAIGN).places.tolist() == [2, 4]
    assert person.visit_contribution(CAMPAIGN).whole.tolist() == [-1, 7]
    assert len(person.visit_contribution(LATER).places) == 0


def test_models_of_other_campaigns_can_be_dropped(person: Person) -> None:
    with person.store.transaction() as rows:
        for campaign in (CAMPAIGN, LATER):
            save_model(rows, LinearModel(campaign, 1, np.ones(2)))
            save_visit_contribution(rows, campaign, VisitContribution(np.array([1]), np.array([1])))
        drop_models(rows, keeping=[LATER])
    assert (person.model(CAMPAIGN), len(person.visit_contribution(CAMPAIGN).places)) == (None, 0)
    assert (model(person, LATER).iteration, len(person.visit_contribution(LATER).places)) == (1, 1)


# together with a round


def take_part(person: Person, number: int, *, price: Price, model: LinearModel) -> None:
    paid = LedgerStore(person.store, Budget(1.0, 1e-6))
    paid.write(Persist(of(number), Stage.ENTERED, ONE), day=100)
    masked = Persist(of(number), Stage.MASKED, OTHER, b"vector")
    paid.write(masked, day=100, price=price, together=lambda rows: save_model(rows, model))


def test_the_model_moves_with_the_masked_vector_and_its_price(person: Person) -> None:
    take_part(person, 1, price=Price("V", Spent(1)), model=LinearModel(CAMPAIGN, 1, np.ones(2)))
    assert model(person).iteration == 1
    assert person.store.resend(of(1)) == b"vector"


def test_a_round_beyond_the_budget_changes_no_model(person: Person) -> None:
    dear = Price("V", Spent(2 * affordable(1.0, 1e-6).grains))
    with pytest.raises(PolicyError):
        take_part(person, 1, price=dear, model=LinearModel(CAMPAIGN, 1, np.ones(2)))
    assert person.model(CAMPAIGN) is None
    assert person.store.resend(of(1)) is None


def test_a_model_that_is_refused_masks_and_charges_nothing(person: Person) -> None:
    take_part(person, 1, price=Price("V", Spent(1)), model=LinearModel(CAMPAIGN, 1, np.ones(2)))
    with pytest.raises(StateError, match=messages.LEARNT_IN_THAT_ROUND):
        take_part(person, 2, price=Price("V", Spent(1)), model=LinearModel(CAMPAIGN, 1, np.zeros(2)))
    assert len(LedgerStore(person.store, Budget()).ledger().entries) == 1
    assert person.store.resend(of(2)) is None


# documents


def test_documents_are_found_by_what_they_are(person: Person) -> None:
    with person.store.transaction() as rows:
        save_documents(rows, [b"one", b"two", b"one"])
        assert document_names(rows) == {address(b"one"), address(b"two")}
    assert person.document(address(b"one")) == b"one"
    assert person.document(address(b"three")) is None


def test_documents_that_nothing_names_are_dropped(path: Path, person: Person) -> None:
    with person.store.transaction() as rows:
        save_documents(rows, [b"one body", b"another body", b"a third body"])
        assert prune_documents(rows, keeping=[address(b"one body"), address(b"never held")]) == 2
    assert person.document(address(b"one body")) == b"one body"
    assert person.document(address(b"another body")) is None
    assert b"another body" not in path.read_bytes()
