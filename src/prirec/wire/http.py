"""HTTP bodies of requests and responses between a device and the recommender, and the limits that devices enforce.

Bodies are MessagePack, strict and canonical. Requests for public documents carry no name, so that downloads cannot be
linked to a device. Everything else is sent under a session, which a device opens by signing a challenge. A report to
two operators is a message of protocols/messages.py by itself: POST /v1/reports, answered with `Done`.
"""

from typing import Annotated, Final, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta

from prirec.config import Settings
from prirec.errors import Fault, PeerError, PolicyError
from prirec.features.columns import most_entries
from prirec.features.encoding import LARGEST, Encoding
from prirec.protocols.codec import decode_with
from prirec.protocols.messages import Name, Natural, SecretStruct, Signature, WireStruct
from prirec.wire.documents import MOST_AVERAGES, Deployment

MEDIA: Final = "application/msgpack"
BEARER: Final = "Bearer"
MOST_QUEUED: Final = 64  # messages for a device in one response
MOST_MESSAGES: Final = 8  # of a device in one request
MOST_SECONDS: Final = 30  # of one long poll
FINEST_CELL: Final = 6  # H3 resolution of the smallest region that is downloaded whole: about 36 km²
MOST_OCTETS: Final = 16 * 2**20  # of a request with messages: fits a vector over two million places
SMALL: Final = 4096  # bytes of a request that carries no protocol message

Opaque: TypeAlias = Annotated[bytes, Meta(min_length=1, max_length=256)]


class Hello(WireStruct, frozen=True, tag="prirec deployment"):
    """GET /v1/deployment: who the recommender is. A device that joins pins its key."""

    version: Natural  # wire.documents.VERSION; a device says which side is to be updated
    deployment: Deployment
    recommender: Name
    title: Annotated[str, Meta(max_length=200)]


class JointHello(Hello, frozen=True, tag="prirec deployment of two operators"):
    """The same of a deployment with a helper, whose key is pinned, too. A kind of its own: of the first one devices and
    recommenders of all versions read each other's version."""

    helper: Name


class Enrolment(WireStruct, frozen=True, tag="prirec enrolment"):
    """A device's name, which is its public key; signed with that key."""

    deployment: Deployment
    name: Name
    code: Annotated[str, Meta(max_length=100)]  # enrolment code, if the operator requires one
    challenge: Opaque  # of the recommender's, used once: so nobody enrols a device that has left with what it sent


class SignedEnrolment(WireStruct, frozen=True, tag="prirec signed enrolment"):
    """POST /v1/devices."""

    enrolment: Enrolment
    signature: Signature


class Challenge(WireStruct, frozen=True, tag="prirec challenge"):
    """POST /v1/challenges: fresh bytes to sign. What is replayed fails without either side trusting a clock."""

    challenge: Opaque


class Claim(WireStruct, frozen=True, tag="prirec claim"):
    """What an enrolled device signs to open a session."""

    deployment: Deployment
    name: Name
    challenge: Opaque


class SignedClaim(WireStruct, frozen=True, tag="prirec signed claim"):
    """POST /v1/sessions."""

    claim: Claim
    signature: Signature


class Session(SecretStruct, frozen=True, tag="prirec session"):
    """The response to a claim: a bearer token. Quiet: it does not print."""

    token: Annotated[str, Meta(min_length=1, max_length=512)]
    seconds: Natural  # that it is valid for


class Mail(SecretStruct, frozen=True, tag="prirec mail"):
    """POST /v1/mail: protocol messages to post, and a long poll for those that are queued for the device. `after`
    acknowledges queued messages up to that number, which are then deleted."""

    messages: Annotated[tuple[bytes, ...], Meta(max_length=MOST_MESSAGES)] = ()
    after: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    wait: Annotated[int, Meta(ge=0, le=MOST_SECONDS)] = 0


class QueuedMessage(SecretStruct, frozen=True):
    """One protocol message for a device, and its number in the queue."""

    number: Annotated[int, Meta(ge=1, le=2**63 - 1)]
    body: bytes


class Inbox(SecretStruct, frozen=True, tag="prirec post"):
    """The response to Mail: messages queued for this device, and the length of the log."""

    messages: Annotated[tuple[QueuedMessage, ...], Meta(max_length=MOST_QUEUED)]
    entries: Natural
    refused: tuple[str, ...] = ()  # for each posted message that was not accepted, why


class Done(WireStruct, frozen=True, tag="prirec done"):
    """The device is enrolled, or has left, or its report has arrived."""


class Refusal(WireStruct, frozen=True, tag="prirec refusal"):
    """The body of an error response: a Fault's name, and a text that repeats nothing of the request."""

    fault: Annotated[str, Meta(max_length=40)]
    problem: Annotated[str, Meta(max_length=400)]


Request: TypeAlias = SignedEnrolment | SignedClaim | Mail
Answer: TypeAlias = Hello | JointHello | Challenge | Session | Inbox | Done | Refusal
_requests: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
_answers: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)


def read_request(body: bytes, *, limit: int) -> Request:
    """The recommender runs it."""
    return decode_with(_requests, body, limit=limit)


def read_answer(body: bytes, *, limit: int) -> Answer:
    """The device runs it. A refusal raises PeerError with the recommender's own words."""
    answer = decode_with(_answers, body, limit=limit)
    if isinstance(answer, Refusal):
        known = answer.fault in Fault.__members__  # a newer recommender may have more of them
        raise PeerError(Fault(answer.fault) if known else Fault.ABORTED, answer.problem)
    return answer


# --- Limits: what a device accepts, whoever signed it -----------------------------------------------------------------
# They are far wider than anything that an honest recommender publishes. Privacy holds without them (device/rounds.py):
# they keep a device from running out of memory, time or battery, and from overflowing into a contribution of zeros.

COUNTED: Final = 1e9  # the largest count of people in one place
MOST_ATTEMPTS: Final = 5  # at one sum: each attempt is a release of its own, and is charged
MOST_CAMPAIGNS: Final = 2**15  # of a deployment: round numbers stay below 2^31
MOST_FEATURES: Final = 65_536
MOST_RATIO: Final = 20  # negatives per visit: a device computes on them in every round
MOST_RECORDS: Final = 2**14  # that a device learns from in a round, the latest; negatives are records too
MOST_CELLS: Final = 2**23  # records x columns: 64 MB, of which a device holds some copies
MOST_SHARED: Final = 2**20  # numbers of B, with those that are always 0: 8 MB, of which a device holds some copies
_WORD: Final = 8  # bytes of an entry of a vector
_ROOM: Final = MOST_OCTETS - 2**16  # for a vector; the rest is for the message around it


def refuse_oversized(settings: Settings, encoding: Encoding, *, places: int, campaign: int = 0) -> None:
    """PolicyError for a campaign, or a catalogue, that is too large for a device. `encoding` is the edition's, or else
    that of the charter or offer; its width is checked before anything of that size is allocated."""
    wide = encoding.width(encoding.blocks())
    wrong = {
        f"campaign: a deployment has at most {MOST_CAMPAIGNS} of them": campaign >= MOST_CAMPAIGNS,
        f"encoding: there are at most {MOST_FEATURES} features": wide > MOST_FEATURES,
        f"encoding: the shared model would have more than {MOST_SHARED:,} numbers; describe people or places by fewer "
        "columns": most_entries(encoding) > MOST_SHARED,
        f"encoding: there are at most {MOST_AVERAGES} averages over visits": len(encoding.averages) > MOST_AVERAGES,
        "places: a vector of visits would not fit into a message": places * (1 + len(encoding.averages)) * _WORD
        > _ROOM,
        f"data.ratio: a device draws at most {MOST_RATIO} negatives for a visit": settings.data.ratio > MOST_RATIO,
    }
    for problem, is_so in wrong.items():
        if is_so:
            raise PolicyError(f"no device can be asked to follow this campaign ({problem})")


def most_records(width: int) -> int:
    """How many records a device learns from in a round, the latest, under so many columns: by what is public, so that
    neither time nor memory tells how many it has beyond these."""
    return min(MOST_RECORDS, MOST_CELLS // max(width, 1))


def is_within(values: np.ndarray, most: float = LARGEST) -> bool:
    """Whether every entry is a number between -most and most."""
    return bool((np.abs(values) <= most).all())  # false for NaN as well
