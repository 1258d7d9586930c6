"""Public documents of a deployment (rosters and lists of names, catalogue, charter, windows, edition, scales, models,
rotations of keys), and the log of them.

A document is addressed by its SHA-256, so that any cache may serve it and nobody can change it; the signed log says
which documents are in force. They are the same for everyone, and none holds anything about one person, except the names
in rosters and lists. Arrays are little-endian bytes: `octets` writes them, `array` reads them.

A document begins with its kind. A kind whose format changes gets another name, and the old one goes into EARLIER.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any, Final, Literal, Self, TypeAlias, TypeVar

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import DTypeLike, NDArray

from prirec.errors import Fault, PeerError
from prirec.protocols.codec import decode_with, digest, encode
from prirec.protocols.messages import Digest, Name, Natural, Signature, WireStruct
from prirec.sharing.keys import SigningKey, verify
from prirec.wire.settings import CampaignSettings

VERSION: Final = 4  # of campaigns, and of what devices and recommender say to each other
LOG_VERSION: Final = 1  # of log entries and offers, which an older version has written too
START_VERSION: Final = 2  # of starting models
LIMIT: Final = 64 * 2**20  # bytes of one document: a roster of 1.9 million people
# Short elements take up to thirty times their bytes when they are decoded: so their number is limited too.
MOST_PLACES: Final = 2**21  # of a region; wire.http limits those of a catalogue further
MOST_REGIONS: Final = 2**17
# Kinds that earlier versions wrote and this one does not read; the last are versions 2's and 3's.
EARLIER: Final = frozenset({
    "prirec people", "prirec charter", "prirec edition", "prirec mean", "prirec model", "prirec manifest",
    "prirec parts", "prirec publication", "prirec campaign", "prirec charter of a campaign", "prirec shared model",
})  # fmt: skip
MOST_AVERAGES: Final = 64  # over visits, of a place
MOST_NAMES: Final = 4096  # in one list of who has joined or left
MOST_ROTATIONS: Final = 1000  # of operators' keys, in a deployment

Deployment: TypeAlias = Annotated[bytes, Meta(min_length=16, max_length=16)]
Cell: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]  # of H3, whose highest bit is 0; 0: none
EncodingJson: TypeAlias = Annotated[bytes, Meta(max_length=2**22)]
MaybeDigest: TypeAlias = Annotated[bytes, Meta(max_length=32)]  # empty: none
MaybeKey: TypeAlias = Annotated[bytes, Meta(max_length=32)]  # empty: none
MaybeSignature: TypeAlias = Annotated[bytes, Meta(max_length=64)]  # empty: none
SumKind: TypeAlias = Literal["popularity", "moments", "interaction", "quality"]
FigureName: TypeAlias = Literal["auc", "log_loss", "base_rate", "hit_rate"]
Seconds: TypeAlias = Annotated[int, Meta(ge=0, lt=2**37)]  # since 1970, of the operators' clocks: a date up to 6325


class Roster(WireStruct, frozen=True, tag="prirec roster"):
    """The public keys of everyone who may take part in a campaign, ascending. Fixed before the first sum, so that
    nobody is added to a sum for the sake of what is in it."""

    names: tuple[Name, ...]


class Offer(WireStruct, frozen=True, tag="prirec offer"):
    """A catalogue and an encoding for future campaigns."""

    version: Literal[1]
    deployment: Deployment
    encoding: EncodingJson
    manifest: Digest
    places: Annotated[int, Meta(ge=1, lt=2**31)]


class Charter(WireStruct, frozen=True, tag="prirec campaign charter"):
    """What a campaign is: a sum of visits, a sum of moments, then rounds, and a sum of quality figures where these have
    a part of the budget; settings and catalogue are fixed. With one operator everyone in it is on its roster; with two,
    whoever is enrolled when a window opens may report in it."""

    version: Literal[4]
    deployment: Deployment
    campaign: Natural
    recommender: Name
    settings: CampaignSettings
    encoding: EncodingJson  # without popularity
    people: MaybeDigest  # the roster; with two operators there is none
    many: Natural  # people in the roster
    manifest: Digest  # of the catalogue without popularity
    places: Annotated[int, Meta(ge=1, lt=2**31)]
    # with two operators
    helper: MaybeKey = b""  # its identity
    leader_box: MaybeKey = b""  # X25519, of this campaign alone
    helper_box: MaybeKey = b""
    most: Natural = 0  # people that a sum is sized for: no window lists more


class Names(WireStruct, frozen=True, tag="prirec names"):
    """Who has joined a deployment over two operators, or left it: the log says which. Both operators keep the same list
    of these, and nobody else may report."""

    names: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=MOST_NAMES)]


class Window(WireStruct, frozen=True, tag="prirec window"):
    """The time in which each device may send its report for one sum. A window is extended by a second document of the
    same sum that closes later; nothing else may differ."""

    charter: Digest
    kind: SumKind
    number: Natural  # of the round
    people: Natural  # on the list of those who may report: joined, and not left, in the first `entries` of the log
    entries: Natural
    listed: Digest  # hash of the last of these entries
    model: Digest  # of what is held alike (wire/campaign.py): charter, edition, scales and B
    opens: Seconds
    closes: Seconds

    @property
    def bound(self) -> bytes:
        """The hash that reports are bound to: of everything but the times, so that an extension changes no report."""
        return digest(msgspec.structs.replace(self, opens=0, closes=0))


class Edition(WireStruct, frozen=True, tag="prirec popularity"):
    """Result of the sum of visits: the catalogue with popularity."""

    charter: Digest  # of a starting model: the offer
    encoding: EncodingJson  # with popularity
    manifest: Digest
    shape: float  # of the Gamma prior of popularity; 0: nothing rose out of the noise
    sigma: float  # of the noise in each sum

    @property
    def averages(self) -> "tuple[AverageOfCity, ...]":
        """Over visits, in the order of the encoding."""
        return ()


class AverageOfCity(WireStruct, frozen=True):
    """An average over visits, on its declared range from -1 to 1 (privacy/popularity_estimate.py): what a device needs
    to leave its own part out of those of places, and how far the noise lets anybody see."""

    middle: Annotated[float, Meta(ge=-1, le=1)]  # of the whole city
    spread: Annotated[float, Meta(ge=0, le=4)]  # variance of the averages of places around it; 0: noise drowns it
    noise: Annotated[float, Meta(ge=0, le=2)]  # standard error of the middle
    error: Annotated[float, Meta(ge=0, le=2)]  # of a place's average, the root of the mean square


class EditionWithAverages(Edition, frozen=True, tag="prirec popularity and averages"):
    """An edition of a campaign whose encoding has averages over visits."""

    averages: Annotated[tuple[AverageOfCity, ...], Meta(min_length=1, max_length=MOST_AVERAGES)]


class Scales(WireStruct, frozen=True, tag="prirec scales"):
    """What columns are scaled by. Means and spreads of private columns follow from the sum of moments; how words of
    places are scaled follows from the whole catalogue, of which a device has some regions only."""

    edition: Digest
    person_mean: bytes  # float64 (m,)
    person_sd: bytes
    moment_mean: bytes  # float64 (c,)
    moment_sd: bytes
    positive: float  # share of positive records
    root_records: float  # mean square root of the number of records of a person
    word_factor: bytes  # float64 (words of places,)
    word_centre: bytes


class Model(WireStruct, frozen=True, tag="prirec learnt model"):
    """The shared model B after so many rounds. The log publishes one before each round, under "model", and the last one
    under "publication": that is the one to recommend with."""

    scales: Digest
    iteration: Natural  # t: rounds that B has behind it
    shared: bytes  # float32 (entries,): B, whose entries are multiples of 2^-20 below 16, so that none is rounded


class Figure(WireStruct, frozen=True):
    """A quality figure that was read from a noisy sum, with its standard errors."""

    name: FigureName
    value: float
    noise: float  # from the noise, for those who took part
    sampling: float  # at most, from who took part


class Figures(WireStruct, frozen=True, tag="prirec quality figures"):
    """How well a published model does on what devices held out, from one noisy sum over everyone."""

    model: Digest
    reports: Natural  # in the sum
    total: bytes  # int64 (L,): the sum as opened, in units of 2^-f (privacy/quality_figures.py)
    figures: Annotated[tuple[Figure, ...], Meta(max_length=4)]  # without those that noise drowns


class Start(WireStruct, frozen=True, tag="prirec start"):
    """A starting model, for devices to recommend with until a campaign has published one: the operator has trained it
    elsewhere, from public data or from people who agreed. Its model names scales, and these an edition, whose charter
    is here the offer of the catalogue: there is no campaign."""

    version: Literal[2]
    model: Digest
    settings: str  # TOML: those of the training, with its preset and, if it has one, its ε; without its seed


class RegionLine(WireStruct, frozen=True):
    """The documents of one region. A part that an edition does not change keeps its address, and is not fetched
    again."""

    cell: Cell
    places: Digest
    counts: MaybeDigest = b""


class Manifest(WireStruct, frozen=True, tag="prirec regions"):
    """The catalogue by region. Regions are downloaded whole, so that a request reveals nothing finer."""

    resolution: Annotated[int, Meta(ge=0, le=6)]  # at most wire.http.FINEST_CELL
    regions: Annotated[tuple[RegionLine, ...], Meta(max_length=MOST_REGIONS)]  # ascending by cell


class Places(WireStruct, frozen=True, tag="prirec places"):
    """The places of a region with their static features: public facts that depend on nobody's visits."""

    cell: Cell
    ids: Annotated[tuple[str, ...], Meta(max_length=MOST_PLACES)]
    words: Annotated[tuple[str, ...], Meta(max_length=MOST_PLACES)]  # a few public words on each
    rows: bytes  # int32 (n,): position in the whole catalogue, and in the sum of visits
    location: bytes  # float64 (n, 2), NaN where unknown
    features: bytes  # float32 (n, p): X^j, static


class Counts(WireStruct, frozen=True, tag="prirec counts"):
    """Popularity in a region, and what a device needs to leave its own part out of it."""

    cell: Cell
    released: bytes  # float64 (n, columns), in the order of the encoding's popularity blocks
    sums: bytes  # float64 (n, 1 + averages): noisy, as opened, of visits and then of each average
    predicted: bytes  # float64 (n,)
    weight: bytes  # float64 (n,): of the own sum in the prediction


Role: TypeAlias = Literal["recommender", "helper"]


class KeyChange(WireStruct, frozen=True, tag="prirec key change"):
    """From its entry in the log on, an operator's identity is another key. It belongs to one place among all rotations
    of one deployment, so that none can be said again."""

    deployment: Deployment
    number: Natural  # of rotations, of either operator, that the log has before it
    role: Role
    old: Name
    new: Name  # neither operator has had it before
    time: Seconds  # when the new key was made


class Rotation(WireStruct, frozen=True, tag="prirec rotation"):
    """A change of an operator's key (wire/rotations.py), signed by three keys: whoever has stolen the old one cannot
    put another in its place without the other operator."""

    change: KeyChange
    by_old: Signature
    by_new: Signature
    by_peer: MaybeSignature  # by the other operator's key; with one operator there is none


class Rotations(WireStruct, frozen=True, tag="prirec rotations"):
    """GET /v1/rotations: all that devices follow, in the order of the log. A device that joins learns from them which
    keys have signed the beginning of the log."""

    rotations: Annotated[tuple[Rotation, ...], Meta(max_length=MOST_ROTATIONS)]


Document: TypeAlias = (
    Roster
    | Offer
    | Charter
    | Names
    | Window
    | Edition
    | EditionWithAverages
    | Scales
    | Model
    | Figures
    | Start
    | Manifest
    | Places
    | Counts
    | Rotation
)
_Kind = TypeVar("_Kind", bound=WireStruct)
_decoder: msgspec.msgpack.Decoder[Document] = msgspec.msgpack.Decoder(Document)


def address(body: bytes) -> bytes:
    """A document's address: the SHA-256 of its bytes."""
    return sha256(body).digest()


def written(document: Document) -> tuple[bytes, bytes]:
    """A document's address and its bytes."""
    body = encode(document)
    return address(body), body


class EarlierVersionError(PeerError):
    """A document that an earlier version has written, and this one does not read."""

    def __init__(self) -> None:
        super().__init__(
            Fault.DECODE,
            "a document is of an earlier version of PriRec; the operator publishes the catalogue anew and begins "
            "another campaign",
        )


def read(kind: type[_Kind], body: bytes, *, name: bytes) -> _Kind:
    """The document with this address and of this kind. PeerError if the bytes are anything else."""
    if address(body) != name:  # also for what is on the own disk: it may have rotted there
        raise PeerError(Fault.DECODE, "a document is not the one that was asked for")
    try:
        document = decode_with(_decoder, body, limit=LIMIT)
    except PeerError as refusal:
        raise (EarlierVersionError() if _kind_of(body[:LIMIT]) in EARLIER else refusal) from None
    if not isinstance(document, kind):
        raise PeerError(Fault.DECODE, "a document is of another kind than its place calls for")
    return document


class _Beginning(msgspec.Struct, array_like=True):
    """How a document of any version begins."""

    kind: str


def _kind_of(body: bytes) -> str:
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return msgspec.msgpack.decode(body, type=_Beginning).kind
    return ""


def octets(values: NDArray[Any], kind: DTypeLike) -> bytes:
    """An array as little-endian bytes."""
    return np.ascontiguousarray(values, dtype=np.dtype(kind).newbyteorder("<")).tobytes()


def array(data: bytes, kind: DTypeLike, shape: tuple[int, ...]) -> NDArray[Any]:
    """The array in these bytes, a copy; one dimension may be -1. PeerError if the length does not fit."""
    try:
        found = np.frombuffer(data, dtype=np.dtype(kind).newbyteorder("<")).reshape(shape)
    except ValueError:
        raise PeerError(Fault.DECODE, "an array in a document has not the size that it should have") from None
    return found.astype(kind)  # in native byte order, aligned and writable, as kernels need it


# The recommender's public log: a hash chain of signed entries that name the documents in force.
#
# Each entry holds the hash of the one before. A device stores the last entry that it verified and refuses a log that
# does not continue from there, so that a recommender cannot rewrite what it has published. A recommender that shows two
# devices different logs is caught when the members of a round sign what they hold (protocols/codec.py). With a helper,
# which signs how far the log has come, it cannot show two devices different logs at all, while the helper is honest.


MOST_ENTRIES = 1000  # entries in one answer

Subject = Literal[
    "catalogue",
    "start",
    "charter",
    "edition",
    "scales",
    "model",
    "publication",
    "figures",
    "joined",
    "left",
    "window",
    "rotation",
]


class LogEntry(WireStruct, frozen=True, tag="prirec log entry"):
    """One published document: its kind and its address."""

    version: Literal[1]
    deployment: Deployment
    index: Natural
    previous: Digest  # of the entry before; zeros in the first
    subject: Subject
    document: Digest


class SignedEntry(WireStruct, frozen=True):
    entry: LogEntry
    signature: Signature


class CoSignature(WireStruct, frozen=True, tag="prirec co-signature"):
    """Signed by the helper: the log has this head, and all in it that follows from sums has been recomputed."""

    deployment: Deployment
    length: Natural
    last: Digest
    time: Seconds  # when it was signed; again and again, so that a device can tell an old head from the newest


class SignedCoSignature(WireStruct, frozen=True):
    statement: CoSignature
    signature: Signature

    def verify(self, helper: Name, *, deployment: bytes) -> None:
        """PeerError if it is not the helper's, of this deployment."""
        if self.statement.deployment != deployment:
            raise PeerError(Fault.EQUIVOCATION, "the helper has signed the log of another deployment")
        verify(helper, signature=self.signature, message=encode(self.statement))


class Page(WireStruct, frozen=True, tag="prirec log"):
    """GET /v1/log: entries from an index on, as many as fit, and with a helper its last co-signature."""

    entries: Annotated[tuple[SignedEntry, ...], Meta(max_length=MOST_ENTRIES)]
    cosigned: SignedCoSignature | None = None


@dataclass(frozen=True, slots=True)
class Head:
    """The length of a verified log, and the hash of its last entry."""

    length: int = 0
    last: bytes = bytes(32)

    def signed(self, subject: Subject, document: bytes, *, deployment: bytes, identity: SigningKey) -> SignedEntry:
        """The next entry. The recommender runs it."""
        entry = LogEntry(LOG_VERSION, deployment, self.length, self.last, subject, document)
        return SignedEntry(entry, identity.sign(encode(entry)))

    def cosigned(self, *, deployment: bytes, time: int, identity: SigningKey) -> SignedCoSignature:
        """The helper runs it."""
        statement = CoSignature(deployment, self.length, self.last, time)
        return SignedCoSignature(statement, identity.sign(encode(statement)))

    def after(self, entries: Sequence[SignedEntry], *, deployment: bytes, recommender: Name) -> Self:
        """The head after these entries. PeerError if they do not continue from here, or are not the recommender's: this
        key's, which no entry but the last may rotate."""
        length, last = self.length, self.last
        for one in entries:
            entry = one.entry
            if (entry.deployment, entry.index, entry.previous) != (deployment, length, last):
                raise PeerError(Fault.EQUIVOCATION, "the recommender's log does not go on from where it was")
            # the chain before the signature: comparing is cheap, and a signature of another log proves nothing
            verify(recommender, signature=one.signature, message=encode(entry))
            length, last = length + 1, digest(entry)
        return type(self)(length, last)
