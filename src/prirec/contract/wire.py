"""Requests and answers between a device and the recommender, beside the public documents and the protocols' messages.

A body is MessagePack, strict and canonical. Who asks for a public document is nobody's business: those requests carry
no name. Everything else is asked under a session, which a device opens by signing a challenge.
"""

from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from prirec.contract.documents import Cell, Deployment
from prirec.errors import Fault, PeerError
from prirec.protocols.codec import decode_with
from prirec.protocols.messages import Name, Natural, Part, Quiet, Signature

MEDIA: Final = "application/msgpack"
BEARER: Final = "Bearer"
MOST_LETTERS: Final = 64  # in one answer
MOST_MESSAGES: Final = 8  # in one request
MOST_SECONDS: Final = 30  # that an answer may be waited for
FINEST_CELL: Final = 6  # the h3 resolution of the smallest cell that a device tells: about 36 km²
MOST_OCTETS: Final = 16 * 2**20  # of a request with messages: a vector over all places of two million, with head room
SMALL: Final = 4096  # bytes: the most of a request that carries no message of a protocol

Opaque: TypeAlias = Annotated[bytes, Meta(min_length=1, max_length=256)]


class Hello(Part, frozen=True, tag="prirec deployment"):
    """GET /v1/deployment: whom a device is about to trust. It pins the recommender's key."""

    version: Literal[1]
    deployment: Deployment
    recommender: Name
    title: Annotated[str, Meta(max_length=200)]


class Enrolment(Part, frozen=True, tag="prirec enrolment"):
    """Signed by the identity that enrols: this is my name, and the coarse cell that I choose to tell."""

    deployment: Deployment
    name: Name
    cell: Cell
    code: Annotated[str, Meta(max_length=100)]  # what the operator hands out, where enrolment is not open


class SignedEnrolment(Part, frozen=True, tag="prirec signed enrolment"):
    """POST /v1/devices."""

    enrolment: Enrolment
    signature: Signature


class Challenge(Part, frozen=True, tag="prirec challenge"):
    """POST /v1/challenges: something fresh to sign, so that no clock is needed."""

    challenge: Opaque


class Claim(Part, frozen=True, tag="prirec claim"):
    """Signed by an enrolled identity."""

    deployment: Deployment
    name: Name
    challenge: Opaque


class SignedClaim(Part, frozen=True, tag="prirec signed claim"):
    """POST /v1/sessions."""

    claim: Claim
    signature: Signature


class Session(Quiet, frozen=True, tag="prirec session"):
    token: Annotated[str, Meta(min_length=1, max_length=512)]
    seconds: Natural  # for which it is good


class Mail(Quiet, frozen=True, tag="prirec mail"):
    """POST /v1/mail: messages of the protocols to hand in, and whether to wait for some. Letters up to `after` are
    thrown away: they have arrived."""

    messages: Annotated[tuple[bytes, ...], Meta(max_length=MOST_MESSAGES)] = ()
    after: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    wait: Annotated[int, Meta(ge=0, le=MOST_SECONDS)] = 0


class Letter(Quiet, frozen=True):
    number: Annotated[int, Meta(ge=1, le=2**63 - 1)]
    body: bytes  # a message of the protocols


class Post(Quiet, frozen=True, tag="prirec post"):
    """The answer: what waits for this device, and how long the log is now."""

    letters: Annotated[tuple[Letter, ...], Meta(max_length=MOST_LETTERS)]
    entries: Natural
    refused: tuple[str, ...] = ()  # for each message that was handed in and not taken, why


class Done(Part, frozen=True, tag="prirec done"):
    """It is so: enrolled, or left."""


class Refusal(Part, frozen=True, tag="prirec refusal"):
    """What an error's body holds: a Fault's name, and plain words that repeat nothing of what was sent."""

    fault: Annotated[str, Meta(max_length=40)]
    problem: Annotated[str, Meta(max_length=400)]


Request: TypeAlias = SignedEnrolment | SignedClaim | Mail
Answer: TypeAlias = Hello | Challenge | Session | Post | Done | Refusal
_requests: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_answers: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)


def read_request(body: bytes, *, limit: int) -> Request:
    """The recommender's side."""
    return decode_with(_requests, body, limit=limit)


def read_answer(body: bytes, *, limit: int) -> Answer:
    """The device's side. PeerError with the recommender's own words where it is a refusal."""
    answer = decode_with(_answers, body, limit=limit)
    if isinstance(answer, Refusal):
        known = answer.fault in Fault.__members__
        raise PeerError(Fault(answer.fault) if known else Fault.ABORTED, answer.problem)
    return answer
