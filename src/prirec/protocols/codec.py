"""The only place that looks at bytes: exactly one message comes out, or a PeerError.

Canonical: bytes that decode to a message are the bytes that this message encodes to, so that a hash of one is a hash of
the other, and nothing can be smuggled beside it.
"""

from collections.abc import Collection
from typing import TypeVar

import msgspec
import numpy as np

from prirec.errors import Fault, PeerError
from prirec.protocols.messages import AnyContent, AnyMessage, Part

LIMIT = 64 * 2**20  # bytes; a roster of a cohort of many thousands, or a vector of eight million words

Content = TypeVar("Content", bound=AnyContent)
Decoded = TypeVar("Decoded", bound=Part)

_encoder = msgspec.msgpack.Encoder()
_messages: msgspec.msgpack.Decoder[AnyMessage] = msgspec.msgpack.Decoder(AnyMessage)
_contents: msgspec.msgpack.Decoder[AnyContent] = msgspec.msgpack.Decoder(AnyContent)


def encode(message: Part) -> bytes:
    """Canonical bytes of a message, or of a part of one where it is hashed or signed."""
    return _encoder.encode(message)


def decode(data: bytes, *, limit: int = LIMIT) -> AnyMessage:
    """One message."""
    return decode_with(_messages, data, limit=limit)


def decode_content(kind: type[Content], data: bytes, *, limit: int = LIMIT) -> Content:
    """What was inside a box, of the kind that belongs there."""
    content = decode_with(_contents, data, limit=limit)
    if not isinstance(content, kind):
        raise PeerError(Fault.DECODE, "a box holds something else than its step calls for")
    return content


def decode_with(decoder: msgspec.msgpack.Decoder[Decoded], data: bytes, *, limit: int) -> Decoded:
    """Whatever this decoder knows, strictly: for what travels beside the protocols' messages."""
    if len(data) > limit:
        raise PeerError(Fault.DECODE, f"a message of {len(data)} bytes is over the limit of {limit}")
    try:
        message = decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # the first two may quote what was sent
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
    """The positions that a bitmap names."""
    if len(bits) == -(-size // 8):
        found = np.unpackbits(np.frombuffer(bits, dtype=np.uint8), bitorder="little")
        if not found[size:].any():
            return frozenset(np.flatnonzero(found).tolist())
    raise PeerError(Fault.DECODE, "a bitmap has not the length of the roster")
