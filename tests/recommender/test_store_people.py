"""Founding and enrolment: a deployment is founded once, and a device is who it says."""

import traceback
from dataclasses import replace

import pytest

from prirec.errors import StateError
from prirec.recommender.store import BlamedDevice, Exclusion, Store
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


def test_people_are_listed_by_name(store: Store) -> None:
    for at in (255, 3, 256, 4):
        store.enrol(name(at), day=1)
    assert store.people() == [name(3), name(4), name(255), name(256)]


def test_enrolling_again_keeps_one_entry(store: Store) -> None:
    store.enrol(name(1), day=1)
    store.enrol(name(1), day=2)
    assert store.people() == [name(1)]


def test_a_device_that_leaves_is_deleted_with_its_messages(store: Store) -> None:
    enter(store, of())
    for at in (1, 2):
        store.enrol(name(at), day=1)
        store.deliver([(name(at), of(), b"message")])
    store.leave(name(1))
    store.leave(name(1))
    assert not store.enrolled([name(1)])
    assert store.people() == [name(2)]
    assert store.queued(name(1), 0, 9) == []
    assert len(store.queued(name(2), 0, 9)) == 1


def test_a_device_that_leaves_is_no_longer_invited(store: Store) -> None:
    enter(store, of())
    for at in (1, 2):
        store.enrol(name(at), day=1)
    store.leave(name(1))
    assert store.post_messages([said(1, b"late"), said(2, b"sealed")]) == [False, True]


def test_an_excluded_device_is_on_no_roster_gets_no_mail_and_cannot_enrol(store: Store) -> None:
    enter(store, of())
    for at in (1, 2):
        store.enrol(name(at), day=1)
        store.deliver([(name(at), of(), b"sealed")])
    assert store.exclude(name(1), reason="it lied", day=3)
    assert not store.exclude(name(1), reason="twice", day=3)
    assert store.people() == [name(2)]
    assert store.enrolled([name(1), name(2)]) == {name(2)}
    assert store.receivers_since(0)[1] == {name(2)}
    assert store.post_messages([said(1, b"late"), said(2, b"sealed")]) == [False, True]
    assert not store.enrol(name(1), day=3)
    store.leave(name(1))
    assert not store.enrol(name(1), day=3)  # the same key does not come in again
    assert (store.counts().people, store.counts().excluded) == (1, 1)


def test_a_readmitted_device_is_enrolled_as_before_and_its_exclusion_stays_on_record(store: Store) -> None:
    store.enrol(name(1), day=1)
    assert not store.readmit(name(1), day=2)
    store.exclude(name(1), reason="it lied", day=3)
    assert store.readmit(name(1), day=4)
    assert store.people() == [name(1)]
    store.exclude(name(1), reason="again", day=4)
    assert store.exclusions() == [Exclusion(name(1), "it lied", 3, 4), Exclusion(name(1), "again", 4)]
    assert store.counts().excluded == 1


def test_nobody_is_excluded_who_was_never_there(store: Store) -> None:
    assert not store.exclude(name(1), reason="a typing error", day=3)
    store.blame([(name(1), of(), "it lied, and left")])
    assert store.exclude(name(1), reason="it may come again", day=3)


def test_blames_of_a_device_are_counted_and_the_last_is_kept(store: Store) -> None:
    store.blame([(name(1), of(1), "once"), (name(2), of(1), "other")])
    store.blame([(name(1), of(2), "twice")])
    assert store.blamed() == [
        BlamedDevice(name(1), 2, "interaction", 2, "twice"),
        BlamedDevice(name(2), 1, "interaction", 1, "other"),
    ]
    assert store.counts().blamed == 2
    store.exclude(name(1), reason="it lied", day=3)
    assert store.counts().blamed == 1  # of whom nothing was decided yet


def test_counts_are_of_what_is_there(store: Store) -> None:
    enter(store, of(1), of(1, group=1))
    for at in range(3):
        store.enrol(name(at), day=1)
        store.deliver([(name(at), of(), b"message")])
    begin(store, [name(1)])
    found = store.counts()
    assert (found.people, found.documents, found.entries, found.rounds) == (3, 2, 1, 2)
    assert (found.open_rounds, found.messages, found.queued) == (2, 0, 3)
