"""The recommender's log: what a device believes, and what it does not."""

import msgspec
import pytest

from prirec.errors import Fault, PeerError
from prirec.protocols.codec import digest
from prirec.sharing.keys import SigningKey
from prirec.wire.documents import Head, SignedEntry

DEPLOYMENT, IDENTITY = bytes(range(16)), SigningKey(b"r" * 32)


def grown(head: Head, many: int, *, identity: SigningKey = IDENTITY) -> list[SignedEntry]:
    entries = []
    for at in range(many):
        entries.append(head.signed("model", bytes([at]) * 32, deployment=DEPLOYMENT, identity=identity))
        head = Head(head.length + 1, digest(entries[-1].entry))
    return entries


def follow(head: Head, entries: list[SignedEntry]) -> Head:
    return head.after(entries, deployment=DEPLOYMENT, recommender=IDENTITY.public)


def test_a_log_is_followed_in_one_go_or_in_pieces():
    entries = grown(Head(), 5)
    whole = follow(Head(), entries)
    assert whole == follow(follow(Head(), entries[:2]), entries[2:])
    assert whole.length == 5
    assert follow(whole, []) == whole


def changed(entry: SignedEntry, **changes: object) -> SignedEntry:
    return SignedEntry(msgspec.structs.replace(entry.entry, **changes), entry.signature)


BAD = {
    "an entry is missing": lambda e: [e[0], e[2]],
    "an entry comes twice": lambda e: [e[0], e[0]],
    "two have changed places": lambda e: [e[1], e[0]],
    "it is another deployment's": lambda e: [changed(e[0], deployment=bytes(16))],
    "it begins somewhere else": lambda e: grown(Head(1, bytes(32)), 1),
    "it goes back to another past": lambda e: [e[0], *grown(Head(1, bytes(32)), 1)],
}


@pytest.mark.parametrize("how", BAD)
def test_a_log_that_does_not_go_on_from_the_last_entry_is_another_one(how):
    with pytest.raises(PeerError) as refused:
        follow(Head(), BAD[how](grown(Head(), 3)))
    assert refused.value.fault is Fault.EQUIVOCATION


@pytest.mark.parametrize("changes", [{"document": bytes([9]) * 32}, {"subject": "edition"}])
def test_an_entry_that_was_changed_after_signing_is_refused(changes):
    entries = grown(Head(), 1)
    with pytest.raises(PeerError) as refused:
        follow(Head(), [changed(entries[0], **changes)])
    assert refused.value.fault is Fault.AUTH


def test_an_entry_signed_by_another_key_is_refused():
    with pytest.raises(PeerError) as refused:
        follow(Head(), grown(Head(), 1, identity=SigningKey(b"x" * 32)))
    assert refused.value.fault is Fault.AUTH
