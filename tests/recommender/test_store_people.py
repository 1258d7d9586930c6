"""Founding and enrolment: a deployment is founded once, a device is who it says, and a cell stays put in a campaign."""

import traceback
from dataclasses import replace

import pytest

from prirec.errors import StateError
from prirec.recommender.store import Store
from prirec.wire.documents import RosterLine
from support import messages
from support.stores import DEPLOYMENT, FOUNDING, begin, enter, name, of, said


def test_what_was_founded_is_found_by_every_worker(store: Store, url: str) -> None:
    store.found(FOUNDING)
    with Store.open(url) as second:
        assert second.founding() == FOUNDING


def test_a_deployment_is_founded_once(store: Store) -> None:
    store.found(FOUNDING)
    with pytest.raises(StateError, match=messages.STORE_HAS_A_DEPLOYMENT):
        store.found(type(FOUNDING)(DEPLOYMENT, bytes(32), bytes(32), "another"))
    assert store.founding() == FOUNDING


def test_without_a_deployment_the_error_says_how_to_found_one(store: Store) -> None:
    with pytest.raises(StateError, match=messages.STORE_WITHOUT_A_DEPLOYMENT):
        store.founding()


def test_secrets_do_not_print(store: Store) -> None:
    store.found(FOUNDING)
    shown = "".join(map(repr, (store.founding(), store, vars(store))))
    try:
        store.found(FOUNDING)
    except StateError as error:
        shown += "".join(traceback.format_exception(error))
    for secret in (FOUNDING.identity, FOUNDING.token_key):
        assert repr(secret)[2:-1] not in shown
        assert secret.hex() not in shown


def test_the_key_of_sessions_changes_and_nothing_else_of_the_deployment(store: Store) -> None:
    with pytest.raises(StateError, match=messages.STORE_WITHOUT_A_DEPLOYMENT):
        store.set_token_key(bytes(32))
    store.found(FOUNDING)
    store.set_token_key(bytes(32))
    assert store.founding() == replace(FOUNDING, token_key=bytes(32))


def test_people_are_listed_by_name_with_the_cell_they_shared(store: Store) -> None:
    for at, cell in ((255, 0), (3, 2**64 - 1), (256, 2**63), (4, 17)):
        store.enrol(name(at), cell, day=1)
    assert store.people() == [
        RosterLine(name(3), 2**64 - 1), RosterLine(name(4), 17), RosterLine(name(255), 0), RosterLine(name(256), 2**63)
    ]  # fmt: skip


def test_enrolling_again_keeps_one_entry_and_may_change_the_cell(store: Store) -> None:
    store.enrol(name(1), 17, day=1)
    store.enrol(name(1), 17, day=2)
    assert store.people() == [RosterLine(name(1), 17)]
    store.enrol(name(1), 18, day=3)
    assert store.people() == [RosterLine(name(1), 18)]


def test_a_device_that_leaves_is_deleted_with_its_letters(store: Store) -> None:
    enter(store, of())
    for at in (1, 2):
        store.enrol(name(at), 17, day=1)
        store.deliver([(name(at), of(), b"letter")])
    store.leave(name(1))
    store.leave(name(1))
    assert not store.enrolled([name(1)])
    assert store.people() == [RosterLine(name(2), 17)]
    assert store.letters(name(1), 0, 9) == []
    assert len(store.letters(name(2), 0, 9)) == 1


def test_a_device_that_leaves_is_no_longer_invited(store: Store) -> None:
    enter(store, of())
    for at in (1, 2):
        store.enrol(name(at), 17, day=1)
    store.leave(name(1))
    assert store.post_messages([said(1, b"late"), said(2, b"sealed")]) == [False, True]


def test_counts_are_of_what_is_there(store: Store) -> None:
    enter(store, of(1), of(1, group=1))
    for at in range(3):
        store.enrol(name(at), 17, day=1)
        store.deliver([(name(at), of(), b"letter")])
    begin(store, [RosterLine(name(1), 17)])
    found = store.counts()
    assert (found.people, found.documents, found.entries, found.rounds) == (3, 2, 1, 2)
    assert (found.open_rounds, found.messages, found.letters) == (2, 0, 3)
