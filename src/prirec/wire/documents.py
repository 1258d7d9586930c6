"""Public documents. Each is named by its own SHA-256, so that any cache may carry it and nobody can change it; the
signed log (log.py) says which of them are the recommender's.

All of them are the same for everyone: none holds anything about one person, apart from the roster's names and coarse
cells. Arrays travel as little-endian bytes; `array` and `octets` are the way in and out.
"""

from hashlib import sha256
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import DTypeLike, NDArray

from prirec.errors import Fault, PeerError
from prirec.protocols.codec import decode_with, encode
from prirec.protocols.messages import Digest, Name, Natural, Part

VERSION: Final = 1
LIMIT: Final = 64 * 2**20  # bytes of one document

Deployment: TypeAlias = Annotated[bytes, Meta(min_length=16, max_length=16)]
Cell: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]  # of h3, whose highest bit is 0; 0 is none
MaybeDigest: TypeAlias = Annotated[bytes, Meta(max_length=32)]  # empty: there is none


class Line(Part, frozen=True):
    """One device in a roster: who, and the coarse cell that it named."""

    name: Name
    cell: Cell


class People(Part, frozen=True, tag="prirec people"):
    """Everyone who may take part in a campaign, by name; fixed before the first sum, so that nobody can be put beside
    a person once cohorts are drawn."""

    lines: tuple[Line, ...]


class Offer(Part, frozen=True, tag="prirec offer"):
    """A catalogue and an encoding for the campaigns that begin from now on."""

    version: Literal[1]
    deployment: Deployment
    encoding: bytes  # JSON
    manifest: Digest
    places: Annotated[int, Meta(ge=1, lt=2**31)]


class Charter(Part, frozen=True, tag="prirec charter"):
    """A campaign: one sum of visits, then rounds, on settings and with people that do not change."""

    version: Literal[1]
    deployment: Deployment
    campaign: Natural
    recommender: Name
    settings: str  # TOML, as settings_file.dump writes it; sizes are filled in
    encoding: bytes  # JSON; popularity has no part in it yet
    people: Digest
    many: Natural  # of people
    manifest: Digest  # of the catalogue without popularity
    places: Annotated[int, Meta(ge=1, lt=2**31)]


class Edition(Part, frozen=True, tag="prirec edition"):
    """What the sum of visits gave: the catalogue with popularity, and the seed of everything that is drawn in public.

    The seed follows from the opened sum, which holds everyone's noise: nobody knew it when people were fixed."""

    charter: Digest
    encoding: bytes  # JSON, whole
    manifest: Digest
    shape: float  # of the prior that a device leaves its own part out by; 0: nothing rose out of the noise
    sigma: float  # of the noise in each sum
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    cohorts: Annotated[int, Meta(ge=1, lt=2**31)]


class Mean(Part, frozen=True, tag="prirec mean"):
    """What a cohort has opened last: the centre that its members measure their models from in the next round."""

    cohort: Natural
    values: bytes  # float64 (D + 1,)


class Model(Part, frozen=True, tag="prirec model"):
    """V_t, and what mixing in this round came to: written first when V has moved, and again when cohorts are open."""

    edition: Digest
    iteration: Natural  # t: how many rounds V has behind it
    mixed: bool  # whether mixing of round t is over; only then do devices learn
    interaction: bytes  # float64 (D, K)
    means: tuple[Digest, ...]  # of each cohort
    opened: bytes  # bitmap of the cohorts that opened a mean in round t


class RegionLine(Part, frozen=True):
    """Where the parts of a region are. What does not change from one edition to the next keeps its name."""

    cell: Cell
    places: Digest
    counts: MaybeDigest = b""
    parts: MaybeDigest = b""


class Manifest(Part, frozen=True, tag="prirec manifest"):
    """The catalogue by region: whole regions are downloaded, so that a request tells the region and nothing finer."""

    resolution: Annotated[int, Meta(ge=0, le=6)]  # wire.FINEST_CELL: no finer than a device tells
    regions: tuple[RegionLine, ...]  # ascending by cell


class Places(Part, frozen=True, tag="prirec places"):
    """The places of a region, as published: public before anybody visits them."""

    cell: Cell
    ids: tuple[str, ...]
    words: tuple[str, ...]  # a few public words on each
    rows: bytes  # int32 (n,): where each stands in the whole catalogue, and in the sum of visits
    location: bytes  # float64 (n, 2), NaN where unknown
    features: bytes  # float32 (n, p): X^j, static


class Counts(Part, frozen=True, tag="prirec counts"):
    """Popularity in a region: as released, and what a device needs to leave its own part out."""

    cell: Cell
    released: bytes  # float64 (n, columns), in the order of the encoding's popularity blocks
    sums: bytes  # float64 (n,): noisy, as opened
    predicted: bytes  # float64 (n,)
    weight: bytes  # float64 (n,): of the own sum in the prediction


class Parts(Part, frozen=True, tag="prirec parts"):
    """The places' half of Eq. (1) under a published V: computed once, for everyone."""

    cell: Cell
    pull: bytes  # float64 (n, K)
    square: bytes  # float64 (n,)


class Start(Part, frozen=True):
    """Where somebody new in a cell starts."""

    cell: Cell
    model: bytes  # float64 (D + 1,)


class Publication(Part, frozen=True, tag="prirec publication"):
    """A model to recommend with: V, the catalogue with its half of Eq. (1), and starts for people who are new."""

    edition: Digest
    iteration: Natural
    interaction: bytes
    manifest: Digest
    starts: tuple[Start, ...]  # NO_CELL first


Document: TypeAlias = (
    People | Offer | Charter | Edition | Mean | Model | Manifest | Places | Counts | Parts | Publication
)  # fmt: skip
_Kind = TypeVar("_Kind", bound=Part)
_decoder: msgspec.msgpack.Decoder[Document] = msgspec.msgpack.Decoder(Document)


def address(body: bytes) -> bytes:
    """The name of a document."""
    return sha256(body).digest()


def written(document: Document) -> tuple[bytes, bytes]:
    """A document's name and its bytes."""
    body = encode(document)
    return address(body), body


def read(kind: type[_Kind], body: bytes, *, name: bytes) -> _Kind:
    """The document of this name and kind. PeerError if these bytes are anything else."""
    if address(body) != name:
        raise PeerError(Fault.DECODE, "a document is not the one that was asked for")
    document = decode_with(_decoder, body, limit=LIMIT)
    if not isinstance(document, kind):
        raise PeerError(Fault.DECODE, "a document is of another kind than its place calls for")
    return document


def octets(values: NDArray[Any], kind: DTypeLike) -> bytes:
    """An array as it travels."""
    return np.ascontiguousarray(values, dtype=np.dtype(kind).newbyteorder("<")).tobytes()


def array(data: bytes, kind: DTypeLike, shape: tuple[int, ...]) -> NDArray[Any]:
    """The way back, a copy; one dimension may be -1. PeerError where the length is another."""
    try:
        found = np.frombuffer(data, dtype=np.dtype(kind).newbyteorder("<")).reshape(shape)
    except ValueError:
        raise PeerError(Fault.DECODE, "an array in a document has not the size that it should have") from None
    return found.astype(kind)
