"""Bytes to messages and back, and sealed boxes. Nothing else parses bytes: one message comes out, or a PeerError.

Canonical: bytes that decode to a message are the bytes that this message encodes to, so that a hash of one is a hash of
the other, and nothing can be smuggled beside it.

Boxes: authenticated encryption end to end. Whoever relays one cannot read it, change it, or move it elsewhere.

The key of a box is derived from the two parties' agreement and from the whole header: version, round, sender, receiver,
step and the hash of the statement, which holds roster, parameters and H(V). For a pair of round keys a header is sealed
under once, or again with the same content, since a party draws all its entropy when it is made. So each key seals one
text, and its nonce may be zero.
"""

from collections.abc import Collection
from contextlib import suppress
from hashlib import sha256
from typing import Literal, TypeVar

import msgspec
import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from prirec.errors import Fault, PeerError, UsageError
from prirec.protocols.messages import (
    VERSION,
    AnyContent,
    AnyMessage,
    Digest,
    Key,
    Name,
    Natural,
    RosterEntry,
    Round,
    Terms,
    WireStruct,
)
from prirec.sharing.keys import derive
from prirec.types import RingArray

LIMIT = 64 * 2**20  # bytes; a roster of many thousands, or a vector of eight million words

Content = TypeVar("Content", bound=AnyContent)
Decoded = TypeVar("Decoded", bound=WireStruct)

_encoder = msgspec.msgpack.Encoder()
_messages: msgspec.msgpack.Decoder[AnyMessage] = msgspec.msgpack.Decoder(AnyMessage)
_contents: msgspec.msgpack.Decoder[AnyContent] = msgspec.msgpack.Decoder(AnyContent)


def encode(message: WireStruct) -> bytes:
    """Canonical bytes of a message, or of a part of one where it is hashed or signed."""
    return _encoder.encode(message)


def decode(data: bytes, *, limit: int = LIMIT) -> AnyMessage:
    """Decode bytes that are exactly one message; PeerError otherwise."""
    try:
        return decode_with(_messages, data, limit=limit)
    except PeerError as refusal:
        raise (_other_version() if _version(data[:limit]) != VERSION else refusal) from None


class _Head(msgspec.Struct, array_like=True):
    """How a message of any version begins."""

    step: str
    version: Natural


def _version(data: bytes) -> int:
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return msgspec.msgpack.decode(data, type=_Head).version
    return VERSION  # not a message of any version


def _other_version() -> PeerError:
    return PeerError(
        Fault.DECODE,
        f"a message of another version of the protocols than {VERSION}, which this program speaks; update the older of "
        "the two, the device or the recommender",
    )


def decode_content(kind: type[Content], data: bytes, *, limit: int = LIMIT) -> Content:
    """Decode the content of an opened box, of a given type; PeerError otherwise."""
    content = decode_with(_contents, data, limit=limit)
    if not isinstance(content, kind):
        raise PeerError(Fault.DECODE, "a box holds something else than its step calls for")
    return content


def decode_with(decoder: msgspec.msgpack.Decoder[Decoded], data: bytes, *, limit: int) -> Decoded:
    """Decode strictly with any decoder: also for what travels beside the protocols' messages."""
    if len(data) > limit:
        raise PeerError(Fault.DECODE, f"a message of {len(data)} bytes is over the limit of {limit}")
    try:
        message = decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # texts of the first two may quote what was sent
        raise PeerError(Fault.DECODE, "these bytes are not exactly one message of this version") from None
    if encode(message) != data:
        raise PeerError(Fault.DECODE, "these bytes are not the canonical form of a message")
    return message


def bitmap(positions: Collection[int], *, size: int) -> bytes:
    """Positions of a roster as bits, the lowest first."""
    bits = np.zeros(size, dtype=np.uint8)
    bits[list(positions)] = 1
    return np.packbits(bits, bitorder="little").tobytes()


def positions(bits: bytes, *, size: int) -> frozenset[int]:
    """The positions whose bits are set in a bitmap."""
    if len(bits) == -(-size // 8):
        found = np.unpackbits(np.frombuffer(bits, dtype=np.uint8), bitorder="little")
        if not found[size:].any():
            return frozenset(np.flatnonzero(found).tolist())
    raise PeerError(Fault.DECODE, "a bitmap has not the length of the roster")


# Ring vectors, as terms call for them


def ring_dtype(terms: Terms) -> np.dtype[np.unsignedinteger]:
    """The dtype of ring elements on the wire."""
    return np.dtype("<u8" if terms.ring_bits == 64 else "<u4")


def ring_zeros(terms: Terms) -> RingArray:
    return np.zeros(terms.length, dtype=ring_dtype(terms))


def check_vector(value: RingArray, terms: Terms) -> RingArray:
    """A member's own vector; a wrong one is refused here, before anything is sent and the round is used up."""
    if value.dtype != ring_dtype(terms) or value.shape != (terms.length,):
        raise UsageError(f"the terms call for {terms.length} elements of the ring of {terms.ring_bits} bits")
    return value


def read_vector(values: bytes, terms: Terms) -> RingArray:
    """Ring elements that came in a message."""
    if len(values) != terms.length * ring_dtype(terms).itemsize:
        raise PeerError(Fault.PARAMS_MISMATCH, "a vector has not the length that the terms call for")
    return np.frombuffer(values, dtype=ring_dtype(terms))


# What is signed, hashed and bound into keys. Each kind of statement has a name of its own, so that a signature on one
# is never one on another.


class Invited(WireStruct, frozen=True, tag="prirec invitation"):
    """Signed by the collector's identity."""

    version: Literal[4]
    round: Round
    collector: Name
    terms: Terms
    model: Digest
    box_key: Key


class RoundKeys(WireStruct, frozen=True, tag="prirec round keys"):
    """Signed by a member's identity: these keys are mine, in this round."""

    version: Literal[4]
    round: Round
    name: Name
    mask_key: Key
    box_key: Key
    signing_key: Key


class Statement(WireStruct, frozen=True, tag="prirec statement"):
    """What a member believes that everyone in this round believes. The hash of V is that of the V which the member
    holds, not of one that it was told of."""

    invited: Invited
    root: Digest  # of the roster
    size: Natural
    degree: Natural
    threshold: Natural


class MemberStatement(WireStruct, frozen=True, tag="prirec member"):
    """Signed by a member's identity: this is what I believe, and where I stand in the roster. So it vouches for the
    keys in that line, and for no other line under the same name."""

    statement: Statement
    position: Natural


class ParticipantList(WireStruct, frozen=True, tag="prirec participants"):
    """Signed by a member's round key with its vector: who masks, and so with whom it does. A collector that told an arc
    of the mask graph of fewer than the rest could otherwise open the sum of the arc."""

    statement: Digest
    participants: bytes


class SurvivorList(WireStruct, frozen=True, tag="prirec survivors"):
    """Signed by a member's round key: who masked, and whose vectors arrived."""

    statement: Digest
    participants: bytes
    survivors: bytes


class BoxHeader(WireStruct, frozen=True, tag="prirec box"):
    """The associated data of a box, from which its key is derived as well."""

    version: Literal[4]
    round: Round
    sender: Name
    receiver: Name
    step: str
    statement: Digest


def digest(part: WireStruct) -> bytes:
    """SHA-256 of the canonical form."""
    return sha256(encode(part)).digest()


def keys_of(listed: RosterEntry, of: Round) -> RoundKeys:
    """The keys in a line of a roster, as their owner has signed them."""
    return RoundKeys(VERSION, of, listed.name, listed.mask_key, listed.box_key, listed.signing_key)


OVERHEAD = 16  # bytes that sealing adds
_NONCE = bytes(12)  # each key seals one text, see above


def seal(agreed: bytes, header: BoxHeader, content: WireStruct) -> bytes:
    """Encrypt for the two parties that agreed on this key."""
    bound = encode(header)
    return AESGCM(derive(agreed, "box", bound)).encrypt(_NONCE, encode(content), bound)


def unseal(agreed: bytes, header: BoxHeader, sealed: bytes) -> bytes:
    """Decrypt what was sealed under exactly this header; PeerError otherwise."""
    bound = encode(header)
    try:
        return AESGCM(derive(agreed, "box", bound)).decrypt(_NONCE, sealed, bound)
    except InvalidTag:
        raise PeerError(
            Fault.AUTH, "a box does not open: it is not from this party, or its sender holds another roster, V or terms"
        ) from None
