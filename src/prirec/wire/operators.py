"""What the two operators of a deployment say to each other: the recommender asks, the helper answers.

A request is the body of POST /v1/operator. Each body, request or answer, comes with an envelope in a header, which its
sender signs: who says it to whom, when, and in answer to which request. So whoever is between the two can drop, delay
and repeat, and nothing else; and all that is asked may be asked again. TLS 1.3 carries it as it carries what devices
send. An envelope is checked before its body is read.
"""

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Collection
from hashlib import sha256
from typing import Annotated, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from prirec.errors import Fault, PeerError
from prirec.protocols.codec import LIMIT, decode_with, encode
from prirec.protocols.messages import Digest, Key, Name, Natural, SecretStruct, Signature, WireStruct
from prirec.sharing.keys import SigningKey, verify
from prirec.wire.documents import (
    MOST_ENTRIES,
    Deployment,
    MaybeDigest,
    MaybeSignature,
    Rotation,
    Seconds,
    SignedCoSignature,
    SignedEntry,
)

HEADER: Final = "prirec-envelope"
SKEW: Final = 300  # seconds by which the clocks of the two operators may differ
MOST_SAID: Final = LIMIT + 2**16  # bytes of a body: a message, or a document, and what is around it
PUT_TOGETHER: Final = 8 * 2**20  # bytes of documents in one request; a longer one goes alone
MOST_PUT: Final = 4096  # documents in one request, or asked for in one answer


class Envelope(WireStruct, frozen=True, tag="prirec envelope"):
    """Signed by the sender's identity."""

    deployment: Deployment
    sender: Name
    receiver: Name
    time: Seconds
    answers: MaybeDigest  # hash of the request that this answers; empty in a request
    body: Digest


class SignedEnvelope(WireStruct, frozen=True):
    envelope: Envelope
    signature: Signature


# The recommender asks


class Put(WireStruct, frozen=True, tag="prirec put"):
    """Documents that the helper lacks; answered with `Taken`."""

    documents: Annotated[tuple[bytes, ...], Meta(max_length=MOST_PUT)]


class Follow(WireStruct, frozen=True, tag="prirec follow"):
    """Further entries of the log, perhaps none; answered with `Followed`, or with what is `Missing`."""

    entries: Annotated[tuple[SignedEntry, ...], Meta(max_length=MOST_ENTRIES)]


class NewBoxKey(WireStruct, frozen=True, tag="prirec new box key"):
    """The key to which reports of a campaign are sealed; answered with the same `BoxKey` until the campaign is over."""

    campaign: Natural


class Say(SecretStruct, frozen=True, tag="prirec say"):
    """A message of a sum (protocols/messages.py) to the helper; answered with what the helper `Said`."""

    message: bytes


class Countersign(WireStruct, frozen=True, tag="prirec countersign"):
    """A rotation of the recommender's key, signed by the old and the new one; answered with `Countersigned`."""

    rotation: Rotation


class AskRotation(WireStruct, frozen=True, tag="prirec ask for a rotation"):
    """Whether the helper has a next key; answered with `Offered`."""


# The helper answers


class Taken(WireStruct, frozen=True, tag="prirec taken"):
    """The documents are stored."""


class Missing(WireStruct, frozen=True, tag="prirec missing"):
    """The helper's log has so many entries; to follow further it needs these documents, or earlier entries."""

    length: Natural
    documents: Annotated[tuple[Digest, ...], Meta(max_length=MOST_PUT)]


class Followed(WireStruct, frozen=True, tag="prirec followed"):
    """The helper has signed the log up to here."""

    cosigned: SignedCoSignature


class BoxKey(WireStruct, frozen=True, tag="prirec box key of a version"):
    key: Key
    version: Annotated[str, Meta(max_length=64)]  # of PriRec: both operators must compute alike


class Said(SecretStruct, frozen=True, tag="prirec said"):
    messages: Annotated[tuple[bytes, ...], Meta(max_length=8)]


class Countersigned(WireStruct, frozen=True, tag="prirec countersigned"):
    signature: MaybeSignature  # empty: the helper's operator has not approved that key


class Offered(WireStruct, frozen=True, tag="prirec offered"):
    """A rotation of the helper's key, signed by the old and the new one; None: it has no next key."""

    rotation: Rotation | None


OperatorRequest: TypeAlias = Put | Follow | NewBoxKey | Say | Countersign | AskRotation
OperatorAnswer: TypeAlias = Taken | Missing | Followed | BoxKey | Said | Countersigned | Offered
_Answer = TypeVar("_Answer", bound=WireStruct)
_requests: msgspec.msgpack.Decoder[OperatorRequest] = msgspec.msgpack.Decoder(OperatorRequest)
_answers: msgspec.msgpack.Decoder[OperatorAnswer] = msgspec.msgpack.Decoder(OperatorAnswer)
_envelopes: msgspec.msgpack.Decoder[SignedEnvelope] = msgspec.msgpack.Decoder(SignedEnvelope)


def sealed(
    body: bytes, *, deployment: bytes, identity: SigningKey, receiver: bytes, time: int, answers: bytes = b""
) -> str:  # fmt: skip
    """The header for a body."""
    envelope = Envelope(deployment, identity.public, receiver, time, answers, sha256(body).digest())
    return b64encode(encode(SignedEnvelope(envelope, identity.sign(encode(envelope))))).decode("ascii")


def check_envelope(
    header: bytes, *, deployment: bytes, senders: Collection[bytes], receivers: Collection[bytes], now: int,
    answers: bytes = b"",
) -> Envelope:  # fmt: skip
    """The envelope in a header. PeerError AUTH unless one of these senders has signed it for one of these receivers,
    now. Each operator has one key or, while it is rotated, two."""
    try:
        signed = decode_with(_envelopes, b64decode(header, validate=True), limit=4096)
    except (Base64Error, PeerError):
        raise PeerError(Fault.AUTH, "what operators say to each other comes in an envelope") from None
    one = signed.envelope
    verify(one.sender, signature=signed.signature, message=encode(one))
    known = one.sender in senders and one.receiver in receivers
    if not known or (one.deployment, one.answers) != (deployment, answers):
        raise PeerError(Fault.AUTH, "an envelope is for somebody else, or answers something else")
    if abs(one.time - now) > SKEW:
        raise PeerError(
            Fault.AUTH, f"an envelope is more than {SKEW} seconds old, or from the future: set the operators' clocks"
        )
    return one


def _checked(body: bytes, envelope: Envelope) -> bytes:
    if sha256(body).digest() != envelope.body:
        raise PeerError(Fault.AUTH, "a body is not the one of its envelope")
    return body


def read_operator_request(body: bytes, envelope: Envelope) -> OperatorRequest:
    """The helper runs it."""
    return decode_with(_requests, _checked(body, envelope), limit=MOST_SAID)


def read_operator_answer(kind: type[_Answer], body: bytes, envelope: Envelope) -> _Answer:
    """The recommender runs it. PeerError for an answer of another kind."""
    answer = decode_with(_answers, _checked(body, envelope), limit=MOST_SAID)
    if not isinstance(answer, kind):
        raise PeerError(Fault.ORDER, "the helper answers something else than it was asked")
    return answer
