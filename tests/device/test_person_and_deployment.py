"""What a device keeps of its deployment and what it gave: never gone back, true together with a round."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from h3.api import basic_int as h3

from prirec.device.ledger import LedgerStore, Price
from prirec.device.person import Person
from prirec.device.store import (
    Membership,
    Store,
    VisitContribution,
    document_names,
    drop_contributions,
    prune_documents,
    save_documents,
    save_enrolled,
    save_head,
    save_visit_contribution,
)
from prirec.errors import PolicyError, StateError, UsageError
from prirec.privacy.accountant import Spent, affordable
from prirec.privacy.ledger import Budget
from prirec.protocols.party import Persist, Stage
from prirec.wire.documents import Head, address
from support import messages
from support.device_city import DEPLOYMENT, RECOMMENDER, membership, secret_of
from support.journals import ONE, OTHER, of, resent

CAMPAIGN, LATER = b"\1" * 32, b"\2" * 32
GIVEN = VisitContribution(np.array([1]), np.array([1]))
CELL = h3.latlng_to_cell(35.68, 139.76, 15)  # the finest: its first bits are set


@pytest.fixture
def person(store: Store) -> Person:
    return Person(store)


def member(person: Person) -> Membership:
    found = person.membership()
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


# what was given


def test_what_was_given_is_kept_for_its_campaign(person: Person) -> None:
    with person.store.transaction() as rows:
        save_visit_contribution(rows, CAMPAIGN, VisitContribution(np.array([9]), np.array([1])))
        save_visit_contribution(rows, CAMPAIGN, VisitContribution(np.array([4, 2]), np.array([7, -1])))
    assert person.visit_contribution(CAMPAIGN).entries.tolist() == [2, 4]
    assert person.visit_contribution(CAMPAIGN).whole.tolist() == [-1, 7]
    assert len(person.visit_contribution(LATER).entries) == 0


def test_what_was_given_to_other_campaigns_can_be_dropped(person: Person) -> None:
    with person.store.transaction() as rows:
        for campaign in (CAMPAIGN, LATER):
            save_visit_contribution(rows, campaign, GIVEN)
        drop_contributions(rows, keeping=[LATER])
    assert len(person.visit_contribution(CAMPAIGN).entries) == 0
    assert len(person.visit_contribution(LATER).entries) == 1


# together with a round


def take_part(person: Person, *, price: Price) -> None:
    paid = LedgerStore(person.store, Budget(1.0, 1e-6))
    paid.write(Persist(of(1), Stage.ENTERED, ONE), day=100)
    masked = Persist(of(1), Stage.MASKED, OTHER, b"vector")
    paid.write(masked, day=100, price=price, together=lambda rows: save_visit_contribution(rows, CAMPAIGN, GIVEN))


def test_what_was_given_is_stored_with_the_masked_vector_and_its_price(person: Person) -> None:
    take_part(person, price=Price("visits", Spent(1)))
    assert len(person.visit_contribution(CAMPAIGN).entries) == 1
    assert resent(person.store, of(1)) == b"vector"


def test_a_round_beyond_the_budget_stores_nothing(person: Person) -> None:
    dear = Price("visits", Spent(2 * affordable(1.0, 1e-6).grains))
    with pytest.raises(PolicyError):
        take_part(person, price=dear)
    assert len(person.visit_contribution(CAMPAIGN).entries) == 0
    assert resent(person.store, of(1)) is None


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
