"""What is signed, hashed and bound into keys. Each kind of statement has a name of its own, so that a signature on one
is never one on another."""

from hashlib import sha256
from typing import Literal

from prirec.protocols.codec import encode
from prirec.protocols.messages import (
    Digest,
    Key,
    Listed,
    Name,
    Natural,
    Part,
    Round,
    Terms,
)


class Invited(Part, frozen=True, tag="prirec invitation"):
    """Signed by the collector's identity."""

    version: Literal[1]
    round: Round
    collector: Name
    terms: Terms
    model: Digest
    box_key: Key


class RoundKeys(Part, frozen=True, tag="prirec round keys"):
    """Signed by a member's identity: these keys are mine, in this round."""

    version: Literal[1]
    round: Round
    name: Name
    mask_key: Key
    box_key: Key
    signing_key: Key


class Statement(Part, frozen=True, tag="prirec statement"):
    """What a member believes that everyone in this round believes. The hash of V is that of the V which the member
    holds, not of one that it was told of."""

    invited: Invited
    root: Digest  # of the roster
    size: Natural
    degree: Natural
    threshold: Natural


class Vouched(Part, frozen=True, tag="prirec member"):
    """Signed by a member's identity: this is what I believe, and where I stand in the roster. So it vouches for the
    keys in that line, and for no other line under the same name."""

    statement: Statement
    position: Natural


class Delivered(Part, frozen=True, tag="prirec delivered"):
    """Signed by a member's round key with its vector: whose boxes arrived, and so with whom it masks. A collector that
    told an arc of the mask graph of fewer than the rest could otherwise open the sum of the arc."""

    statement: Digest
    sharing: bytes


class Settled(Part, frozen=True, tag="prirec survivors"):
    """Signed by a member's round key: whose boxes and whose vectors arrived."""

    statement: Digest
    sharing: bytes
    survivors: bytes


class BoxHeader(Part, frozen=True, tag="prirec box"):
    """The associated data of a box, from which its key is derived as well."""

    version: Literal[1]
    round: Round
    sender: Name
    receiver: Name
    step: str
    statement: Digest


def digest(part: Part) -> bytes:
    """SHA-256 of the canonical form."""
    return sha256(encode(part)).digest()


def keys_of(listed: Listed, of: Round) -> RoundKeys:
    return RoundKeys(1, of, listed.name, listed.mask_key, listed.box_key, listed.signing_key)
