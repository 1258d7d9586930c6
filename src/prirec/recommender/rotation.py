"""Rotation of an operator's key (wire/rotations.py), at either operator.

The recommender's:  `rotate_key` makes the next key; the helper's operator compares it, and approves it there;
                    `finish` has the helper sign, and writes the entry.
The helper's:       `rotate_key` makes the next key; the recommender's operator compares it, and approves it there,
                    which writes the entry; the helper has its new key when it has followed the log so far.
With one operator:  `rotate_key`, then `finish`, which nobody else signs.

A key is written down before it is shown, and the entry is one transaction with what follows from it. So each step may
be taken again: it does what is left of it. Nothing is rotated while a campaign is under way: its charter names keys.
"""

from collections.abc import Callable
from os import urandom
from typing import TYPE_CHECKING

from msgspec.structs import replace

from prirec.errors import Fault, PeerError, PolicyError, UsageError
from prirec.protocols.codec import encode
from prirec.recommender import campaign as rules
from prirec.recommender import operator
from prirec.recommender.store import Founding, Store
from prirec.wire.documents import KeyChange, LogEntry, Role, Rotation, read, written
from prirec.wire.operators import AskRotation, Countersign, Countersigned, Offered
from prirec.wire.rotations import Operators

if TYPE_CHECKING:
    from prirec.recommender.peer import Peer


def operators_of(store: Store) -> Operators:
    """The identities in force, and all rotations that have led to them."""
    founding = store.founding()
    ours, peer = founding.key.public, founding.peer or b""
    keys = (peer, ours) if founding.role == "helper" else (ours, peer)
    return Operators(*keys, operator.rotations_in(store, store.head().length))


def operators_at(store: Store, entries: int) -> Operators:
    """Keys of both operators after so many entries of the log."""
    before = operator.rotations_in(store, entries)
    return operators_of(store).first.after_all(before, deployment=store.founding().deployment)


def operators_shown(store: Store) -> Operators:
    """Keys that devices follow: with a helper, as far as it has signed the log."""
    return operators_at(store, store.shown(cosigned=store.founding().peer is not None))


def change_in(store: Store, entry: LogEntry) -> KeyChange | None:
    """Whose key an entry of the log rotates; None: it is about something else."""
    if entry.subject != "rotation":
        return None
    return read(Rotation, operator.own_document(store, entry.document), name=entry.document).change


# The own key


def rotate_key(store: Store, *, now: int, entropy: Callable[[int], bytes] = urandom) -> bytes:
    """Make the next key of this operator, or go on with the one that was made; its public half."""
    _refuse_during_a_campaign(store)
    return store.make_next_key(entropy(32), now=now).key.public


def offered(store: Store) -> Rotation | None:
    """The rotation to the next key, with the signatures of both own keys; None: there is no next key."""
    founding, coming = store.founding(), store.next_key()
    if coming is None:
        return None
    role: Role = "helper" if founding.role == "helper" else "recommender"
    change = operators_of(store).change(role, coming.key.public, deployment=founding.deployment, time=coming.made)
    said = encode(change)
    return Rotation(change, founding.key.sign(said), coming.key.sign(said), b"")


def finish(store: Store, key: bytes, *, peer: "Peer | None" = None) -> bool:
    """Rotate the recommender's key to this one. False: the helper's operator has not approved it yet."""
    if store.founding().key.public != key:
        before, founding = _refuse_during_a_campaign(store), store.founding()
        if peer is not None:
            peer.follow()  # it counts the rotations that are in its log
        said = offered(store)
        if said is None or said.change.new != key:
            raise UsageError("that is not this operator's next key: prirec recommender rotate-key makes one")
        if peer is not None:
            answer = peer.ask(Countersign(said), Countersigned)
            if not answer.signature:
                return False
            said = replace(said, by_peer=answer.signature)
        _write(store, said, founding, before)
    if peer is not None:
        peer.follow()
    return True


# The other operator's key


def approve_key(store: Store, key: bytes, *, now: int) -> None:
    """The helper's operator has compared the recommender's next key."""
    _refuse_known(store, key)
    store.approve_key(key, now=now)


def countersigned(store: Store, said: Rotation) -> bytes:
    """The helper's signature on a rotation of the recommender's key; empty if its operator has not approved it."""
    if said.change.role != "recommender":
        raise PeerError(Fault.ORDER, "a helper signs a rotation of the recommender's key, and its own")
    if said.change.new != store.approved_key():
        return b""
    founding = store.founding()
    signature = founding.key.sign(encode(said.change))
    operators_of(store).after(replace(said, by_peer=signature), deployment=founding.deployment)
    return signature


def approve_helper(store: Store, key: bytes, *, peer: "Peer") -> None:
    """The recommender's operator has compared the helper's next key: it is in force from now on."""
    if store.founding().peer != key:
        before, founding = _refuse_during_a_campaign(store), store.founding()
        _refuse_known(store, key)
        peer.follow()
        said = peer.ask(AskRotation(), Offered).rotation
        if said is None or (said.change.role, said.change.new) != ("helper", key):
            raise PolicyError("the helper has no such next key: prirec helper rotate-key, there, prints it")
        _write(store, replace(said, by_peer=founding.key.sign(encode(said.change))), founding, before)
    peer.follow()


def _write(store: Store, said: Rotation, founding: Founding, before: bytes | None) -> None:
    operators_of(store).after(said, deployment=founding.deployment)
    page = written(said)
    store.advance(
        progress=None, before=before, documents=[page], rotated=said.change,
        entries=operator.sign_entries(founding, [("rotation", page[0])]),
    )  # fmt: skip


def _refuse_during_a_campaign(store: Store) -> bytes | None:
    """The state of the campaign before."""
    held = store.progress()
    if store.founding().role == "recommender" and held is not None and not rules.decode_state(held).ended:
        raise PolicyError(
            "a campaign is under way, and its charter names the operators' keys: rotate one when it is over"
        )
    return held


def _refuse_known(store: Store, key: bytes) -> None:
    if key in operators_of(store).had():
        raise UsageError("an operator has, or has had, that key: a rotation leads to a new one")
