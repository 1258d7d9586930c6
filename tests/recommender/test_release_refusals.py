"""A catalogue that does not fit together is refused, whoever made it: a device believes nothing that it downloads."""

from collections.abc import Callable

import msgspec
import numpy as np
import pytest

from prirec.errors import Fault, PeerError
from prirec.features.encoding import Log, Words, from_json
from prirec.protocols.messages import WireStruct
from prirec.wire.campaign import Campaign
from prirec.wire.documents import Counts, Edition, Manifest, Places, RegionLine, octets, read, written
from prirec.wire.regions import KnownPlaces, read_regions
from support import messages
from support.campaigns import staged
from support.cities import small_city

BOTH = staged(small_city(people=60, places=50, records=300))
BODIES = BOTH.bodies
MANIFEST = BOTH.edited.catalogue.manifest
AT = 2  # the region that is tampered with
N = int((BOTH.edited.catalogue.known.region == AT).sum())
KINDS = {"places": Places, "counts": Counts}


def replaced(part: WireStruct, **changes: object) -> WireStruct:
    return msgspec.structs.replace(part, **changes)


def with_lines(change: Callable[[list[RegionLine]], object]) -> Manifest:
    lines = list(MANIFEST.regions)
    change(lines)
    return Manifest(MANIFEST.resolution, tuple(lines))


def tampered(document: str, **changes: object) -> KnownPlaces:
    """Read with one document changed, and named by its own hash, as a recommender could."""
    name = getattr(MANIFEST.regions[AT], document)
    other = replaced(read(KINDS[document], BODIES[name], name=name), **changes)
    new, body = written(other)
    manifest = with_lines(lambda lines: lines.__setitem__(AT, replaced(lines[AT], **{document: new})))
    return read_regions(manifest, {**BODIES, new: body}.__getitem__, basis=BOTH.campaign)


def under(**changes: object) -> KnownPlaces:
    """Read under another edition."""
    edition = replaced(BOTH.edited.document, **changes)
    campaign = Campaign(BOTH.chartered.document, BOTH.campaign.settings, edition)
    return read_regions(MANIFEST, BODIES.__getitem__, basis=campaign)


def floats(many: int, value: float = 1.0) -> bytes:
    return octets(np.full(many, value), np.float64)


def reals(document: str, name: str, at: int, value: float) -> bytes:
    """An array of a document with one number changed."""
    place = getattr(MANIFEST.regions[AT], document)
    found = np.frombuffer(getattr(read(KINDS[document], BODIES[place], name=place), name), "<f8").copy()
    found[at] = value
    return octets(found, np.float64)


def test_the_catalogue_as_published_is_read():
    known = tampered("places")
    assert len(known) == len(BOTH.known())
    assert N > 1


FIRST = read(Places, BODIES[MANIFEST.regions[0].places], name=MANIFEST.regions[0].places)


@pytest.mark.parametrize(
    ("document", "changes"),
    [
        ("places", {"cell": 0}),
        ("places", {"ids": ("one",) * N}),
        ("places", {"ids": (FIRST.ids[0], *(f"new {n}" for n in range(N - 1)))}),
        ("places", {"ids": ("\x1b[2J", *(f"new {n}" for n in range(N - 1)))}),
        ("places", {"words": ("a bell\a",) * N}),
        ("places", {"words": ()}),
        ("places", {"rows": FIRST.rows[:4] * N}),
        ("places", {"rows": octets(np.arange(50, 50 + N), np.int32)}),
        ("places", {"rows": octets(np.arange(-1, N - 1), np.int32)}),
        ("places", {"rows": b""}),
        ("places", {"location": floats(2 * N, 91.0)}),
        ("places", {"location": floats(2 * N, np.inf)}),
        ("places", {"location": reals("places", "location", 0, np.nan)}),
        ("places", {"location": floats(N)}),
        ("places", {"features": floats(N)}),
        ("places", {"features": octets(np.full((N, BOTH.setup.samples.places.shape[1]), np.nan), np.float32)}),
        ("counts", {"cell": 0}),
        ("counts", {"released": floats(N)}),
        ("counts", {"released": reals("counts", "released", 1, np.inf)}),
        ("counts", {"sums": reals("counts", "sums", 0, np.nan)}),
        ("counts", {"sums": floats(N + 1)}),
        ("counts", {"predicted": reals("counts", "predicted", 0, 0.0)}),
        ("counts", {"predicted": floats(0)}),
        ("counts", {"weight": reals("counts", "weight", 0, -np.inf)}),
    ],
)
def test_a_document_that_does_not_fit_is_refused(document, changes):
    with pytest.raises(PeerError) as refused:
        tampered(document, **changes)
    assert refused.value.fault is Fault.DECODE


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: lines.reverse(),
        lambda lines: lines.insert(AT, lines[AT]),
        lambda lines: lines.__setitem__(AT, replaced(lines[AT], cell=lines[AT].cell + 1)),
        lambda lines: lines.__setitem__(AT, replaced(lines[AT], counts=b"")),
        lambda lines: lines.__setitem__(AT, replaced(lines[AT], counts=lines[AT].places)),
        lambda lines: lines.__setitem__(AT, replaced(lines[AT], places=lines[AT + 1].places)),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(change):
    with pytest.raises(PeerError) as refused:
        read_regions(with_lines(change), BODIES.__getitem__, basis=BOTH.campaign)
    assert refused.value.fault is Fault.DECODE


def test_cells_of_another_resolution_are_refused():
    with pytest.raises(PeerError, match=messages.CELLS_OF_SEVERAL_RESOLUTIONS):
        read_regions(Manifest(4, MANIFEST.regions), BODIES.__getitem__, basis=BOTH.campaign)


def test_bytes_that_are_not_the_document_are_refused():
    name = MANIFEST.regions[AT].places
    with pytest.raises(PeerError, match=messages.ANOTHER_DOCUMENT):
        read_regions(MANIFEST, {**BODIES, name: BODIES[name] + b"\0"}.__getitem__, basis=BOTH.campaign)


@pytest.mark.parametrize(
    "changes",
    [{"sigma": 0.0}, {"sigma": np.nan}, {"sigma": np.inf}, {"shape": -1.0}, {"shape": np.nan}],
)
def test_a_prior_that_no_device_could_use_is_refused(changes):
    with pytest.raises(PeerError, match=messages.OWN_PART_NOT_SEPARABLE):
        under(**changes)


ENCODING = from_json(BOTH.edited.document.encoding)


@pytest.mark.parametrize(
    "changes",
    [
        {"person": (*ENCODING.person, Words(column="diary", words=("a", "b")))},
        {"context": ENCODING.context[:-1]},
        {"place": (*ENCODING.place, Log(column="rent"))},
        {"popularity": ENCODING.popularity[::-1]},
        {"popularity": (*ENCODING.popularity, Log(column="spend"))},
    ],
)
def test_an_edition_adds_popularity_to_the_encoding_and_nothing_else(changes):
    with pytest.raises(PeerError) as refused:
        under(encoding=replaced(ENCODING, **changes).to_json())
    assert refused.value.fault is Fault.PARAMS_MISMATCH


def test_popularity_that_no_feature_can_hold_is_refused():
    # as it is read, and for what comes of it
    for scale, words in ((0.0, messages.ENCODING_DAMAGED), (1e-9, messages.NUMBER_TOO_LARGE)):
        popularity = tuple(replaced(block, scale=scale) for block in ENCODING.popularity)
        with pytest.raises(PeerError, match=words):
            under(encoding=replaced(ENCODING, popularity=popularity).to_json())


def test_an_edition_as_issued_is_read():
    assert isinstance(BOTH.edited.document, Edition)
    assert len(under()) == 50
