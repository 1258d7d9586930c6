"""Requests and answers between a device and the recommender, beside the public documents and the protocols' messages.

A body is MessagePack, strict and canonical. Who asks for a public document is nobody's business: those requests carry
no name. Everything else is asked under a session, which a device opens by signing a challenge.
"""

from typing import Annotated, Final, Literal, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta

from prirec.config import Settings
from prirec.errors import Fault, PeerError, PolicyError
from prirec.features.blocks import LARGEST
from prirec.features.encoding import Encoding
from prirec.protocols.codec import decode_with
from prirec.protocols.messages import Name, Natural, Part, Quiet, Signature
from prirec.wire.documents import Cell, Charter, Deployment, Edition

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


# What a device lets itself be asked, whoever signed it: sizes that it can hold, and as many rounds as were announced.
#
# The bounds are wide of everything that an honest recommender publishes. They are no part of the promise to people,
# which holds without them (device/rounds.py): they keep a device from being worn out, and from adding nothing by
# chance.


COUNTED: Final = 1e9  # the most of a count: as many people as there may be in one place
MOST_ATTEMPTS: Final = 5  # at one sum
MOST_CAMPAIGNS: Final = 2**15  # of a deployment: the numbers of their rounds stay below 2^31
MOST_FEATURES: Final = 65_536
MOST_RATIO: Final = 20  # negatives that a device draws for each visit, and works through in every round
_WORD: Final = 8  # bytes of an entry of a vector
_ROOM: Final = MOST_OCTETS - 2**16  # of a request: the rest is for what stands around a vector


def refuse_oversized(charter: Charter, edition: Edition | None, settings: Settings, encoding: Encoding) -> None:
    """PolicyError for a campaign that no device should be asked to take part in. `encoding` is the edition's, or the
    charter's where there is no edition yet; it is looked at before anything is made of it."""
    wide = encoding.width(encoding.blocks())
    wrong = {
        f"campaign: a deployment has at most {MOST_CAMPAIGNS} of them": charter.campaign >= MOST_CAMPAIGNS,
        f"encoding: there are at most {MOST_FEATURES} features": wide > MOST_FEATURES,
        "places: a vector of visits would not fit into a message": charter.places * _WORD > _ROOM,
        "model.dimension: V would not fit into a message": wide * settings.model.dimension * _WORD > _ROOM,
        f"data.ratio: a device draws at most {MOST_RATIO} negatives for a visit": settings.data.ratio > MOST_RATIO,
        "cohorts: there are more of them than people": edition is not None and edition.cohorts > max(charter.many, 1),
    }
    for problem, is_so in wrong.items():
        if is_so:
            raise PolicyError(f"no device can be asked to follow this campaign ({problem})")


def is_within(values: np.ndarray, most: float = LARGEST) -> bool:
    """Whether every entry is a number from -most to most."""
    return bool((np.abs(values) <= most).all())  # false for NaN as well
