"""The pads of a secure sum: how they are derived, added and taken off."""

from collections.abc import Iterable

import numpy as np

from prirec.errors import Fault, PeerError, UsageError
from prirec.protocols.meeting import Meeting
from prirec.protocols.messages import VERSION, Terms
from prirec.sharing.keys import derive
from prirec.sharing.masks import stretch
from prirec.types import RingArray


def ring(terms: Terms) -> np.dtype[np.unsignedinteger]:
    """The dtype of ring elements on the wire."""
    return np.dtype("<u8" if terms.ring_bits == 64 else "<u4")


def nothing(terms: Terms) -> RingArray:
    return np.zeros(terms.length, dtype=ring(terms))


def checked(value: RingArray, terms: Terms) -> RingArray:
    """A member's own vector; a wrong one is refused here, before anything is sent and the round is used up."""
    if value.dtype != ring(terms) or value.shape != (terms.length,):
        raise UsageError(f"the terms call for {terms.length} elements of the ring of {terms.ring_bits} bits")
    return value


def vector(values: bytes, terms: Terms) -> RingArray:
    """Ring elements that came in a message."""
    found = np.frombuffer(values, dtype=ring(terms)) if len(values) % ring(terms).itemsize == 0 else None
    if found is None or len(found) != terms.length:
        raise PeerError(Fault.PARAMS_MISMATCH, "a vector has not the length that the terms call for")
    return found


def pairwise_pad(agreed: bytes, meeting: Meeting, *, sharing: bytes, low: bytes, high: bytes) -> RingArray:
    """The pad of one edge. The lower name adds it, the higher one subtracts it. Everything that both must believe alike
    is bound into its key: other words, another pad."""
    bound = (meeting.mark, sharing, low, high)  # the mark is the hash of round, terms, H(V) and roster
    return _pad(derive(agreed, "prirec", VERSION, "pairwise mask, the lower name adds", *bound), meeting)


def own_pad(seed: bytes, meeting: Meeting, *, name: bytes) -> RingArray:
    """The second mask: whoever may learn the pairwise pads of a person still lacks this one."""
    return _pad(derive(seed, "prirec", VERSION, "own mask", meeting.mark, name), meeting)


def commitment(seed: bytes, meeting: Meeting, *, name: bytes) -> bytes:
    """Sent with the vector: by it the collector knows that it has put the seed together from the right shares."""
    return derive(seed, "prirec", VERSION, "commitment", meeting.mark, name)


def members_key(parts: Iterable[bytes], meeting: Meeting, *, sharing: bytes) -> bytes:
    """A key that all members hold, each of whom gave a part of it, and nobody else."""
    return derive(b"".join(parts), "prirec", VERSION, "members' key", meeting.mark, sharing)


def members_check(key: bytes, meeting: Meeting) -> bytes:
    """By it the collector knows that all members hold the same key; it reveals nothing of the key."""
    return derive(key, "prirec", VERSION, "members' check", meeting.mark)


def members_pad(key: bytes, meeting: Meeting, *, name: bytes) -> RingArray:
    """What lies on top of a vector where the members open: pairwise pads cancel for anyone who holds all vectors."""
    return _pad(derive(key, "prirec", VERSION, "members' pad", meeting.mark, name), meeting)


def lay_on(value: RingArray, *, added: Iterable[RingArray], taken: Iterable[RingArray] = ()) -> RingArray:
    """value + pads - pads in the ring; the inverse is the same with the two exchanged."""
    total = value.copy()
    for pad in added:
        total += pad
    for pad in taken:
        total -= pad
    return total


def _pad(seed: bytes, meeting: Meeting) -> RingArray:
    terms = meeting.statement.invited.terms
    return stretch(seed, terms.length, ring(terms))
