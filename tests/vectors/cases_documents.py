"""Vectors of public documents, what is refused in their place, and the log that names them."""

from collections.abc import Iterator
from hashlib import sha256
from math import inf, nan
from struct import pack
from typing import Any

from vectors import reference as ref
from vectors import reference_documents as wire
from vectors.entry import SECRET, SEED, Vector, vector
from vectors.reference_messages import packed

DEPLOYMENT, HASH, OTHER = bytes(range(16)), bytes(range(32)), bytes(range(32, 64))
CELL = 0x841F059FFFFFFFF
SETTINGS: list[Any] = [
    20, 100, 1.0, 1e-6, 0, 0.4, 0.03, 0.57, 0.0, 2, 200, 50, 0.5, 64, 4, "nearby", True, True, 0,
]  # fmt: skip
DOCUMENTS: dict[str, tuple[str, list[Any]]] = {
    "an offer": ("prirec offer", [1, DEPLOYMENT, b"{}", HASH, 2000]),
    "popularity": ("prirec popularity", [HASH, b"{}" * 200, OTHER, 1.5, 4.225]),
    "popularity that did not rise out of the noise": ("prirec popularity", [HASH, b"", OTHER, 0.0, 1e-300]),
    "popularity and two averages": (
        "prirec popularity and averages",
        [HASH, b"{}" * 200, OTHER, 1.5, 4.225, [[-0.25, 0.125, 0.0625, 0.5], [1.0, 0.0, 2.0, 0.0]]],
    ),
    "scales": (
        "prirec scales",
        [HASH, pack("<2d", 0.5, -0.5), pack("<2d", 1.0, 2.0), b"", b"", 0.25, 4.0, pack("<d", 7.0), pack("<d", 0.5)],
    ),
    "a model": ("prirec learnt model", [HASH, 20, pack("<3f", 0.5, -(2.0**-20), 15.0)]),
    "a starting model": ("prirec start", [2, HASH, 'preset = "private"\n']),
    "a catalogue of two regions": ("prirec regions", [4, [[0, HASH, b""], [CELL, OTHER, HASH]]]),
    "a catalogue of seventeen regions": ("prirec regions", [6, [[2**32 + at, HASH, b""] for at in range(17)]]),
    "places": (
        "prirec places",
        [CELL, ["a", "Zürich-Höngg 市 🗼"], ["", "café"], pack("<2i", 7, 9), pack("<4d", 47.4, 8.5, nan, nan), b""],
    ),
    "no places": ("prirec places", [0, [], [], b"", b"", b""]),
    "a charter": (
        "prirec campaign charter",
        [4, DEPLOYMENT, 7, HASH, SETTINGS, b"{}" * 200, b"", 0, OTHER, 2000, OTHER, HASH, OTHER, 5000],
    ),
    "a charter for one operator": (
        "prirec campaign charter",
        [
            4,
            DEPLOYMENT,
            0,
            HASH,
            [*SETTINGS[:9], 1, *SETTINGS[10:16], False, False, 0],
            b"",
            HASH,
            100,
            OTHER,
            1,
            b"",
            b"",
            b"",
            0,
        ],
    ),
    "quality figures": (
        "prirec quality figures",
        [HASH, 5000, pack("<2q", 7, -9), [["auc", 0.75, 0.015625, 0.03125], ["hit_rate", 0.125, 0.03125, 0.0]]],
    ),
    "quality figures that noise drowns": ("prirec quality figures", [HASH, 100, b"", []]),
    "a rotation of a key": (
        "prirec rotation",
        [
            ["prirec key change", DEPLOYMENT, 0, "helper", HASH, OTHER, 1_700_000_000],
            HASH + OTHER,
            OTHER + HASH,
            HASH * 2,
        ],
    ),
    "a rotation where there is one operator": (
        "prirec rotation",
        [["prirec key change", DEPLOYMENT, 2**31 - 1, "recommender", HASH, OTHER, 0], HASH * 2, HASH * 2, b""],
    ),
    "who has joined": ("prirec names", [[HASH, OTHER]]),
    "a window": ("prirec window", [HASH, "moments", 65_536, 200, 12, OTHER, HASH, 0, 2**37 - 1]),
    "counts": ("prirec counts", [2**63 - 1, pack("<d", inf), b"", b"", b""]),
}


def documents() -> Iterator[Vector]:
    for claim, (kind, fields) in DOCUMENTS.items():
        data = wire.document(kind=kind, fields=fields)
        yield vector(claim, "document", kind=kind, fields=fields)
        yield vector(claim, "read_document", kind=kind, data=data, name=sha256(data).digest())
    places = packed(["prirec places", *DOCUMENTS["places"][1]])
    for claim, (kind, data) in {
        "another kind": ("prirec places", spelt("counts")),
        "a kind of version 1": ("prirec popularity", packed(["prirec edition", *DOCUMENTS["popularity"][1]])),
        "a kind that there is not": ("prirec places", packed(["prirec place", *DOCUMENTS["places"][1]])),
        "no document": ("prirec places", b""),
        "one byte more": ("prirec places", places + b"\0"),
        "a charter of version 3": (
            "prirec campaign charter", packed(["prirec charter of a campaign", 3, *DOCUMENTS["a charter"][1][1:]]),
        ),
        "a charter that says of another version": ("prirec campaign charter", changed("a charter", 0, 3)),
        "a charter with a setting more": ("prirec campaign charter", changed("a charter", 4, [*SETTINGS, 0])),
        "a charter with three operators": ("prirec campaign charter", with_setting(9, 3)),
        "an epsilon below 0": ("prirec campaign charter", with_setting(2, -1.0)),
        "an epsilon that is no number": ("prirec campaign charter", with_setting(2, nan)),
        "a delta that is whole": ("prirec campaign charter", with_setting(3, 0)),
        "all devices lost": ("prirec campaign charter", with_setting(10, 1000)),
        "a ring of 48 bits": ("prirec campaign charter", with_setting(13, 48)),
        "negatives from elsewhere": ("prirec campaign charter", with_setting(15, "far")),
        "a flag that is a number": ("prirec campaign charter", with_setting(16, 1)),
        "a number that is a flag": ("prirec campaign charter", with_setting(14, True)),
        "nobody has joined": ("prirec names", changed("who has joined", 0, [])),
        "a name of 31 bytes": ("prirec names", changed("who has joined", 0, [HASH[1:]])),
        "a window of averages": ("prirec window", changed("a window", 1, "averages")),
        "all places held out": ("prirec campaign charter", with_setting(18, 1000)),
        "a figure of another name": (
            "prirec quality figures", changed("quality figures", 3, [["gauc", 0.75, 0.015625, 0.03125]]),
        ),
        "a figure without its errors": ("prirec quality figures", changed("quality figures", 3, [["auc", 0.75]])),
        "a rotation of nobody's key": ("prirec rotation", rotation(3, "leader")),
        "a rotation at a time that is no date": ("prirec rotation", rotation(6, 2**37)),
        "a rotation to a key of 31 bytes": ("prirec rotation", rotation(5, HASH[1:])),
        "a rotation that is no change of a key": ("prirec rotation", rotation(0, "prirec rotation")),
        "a rotation without a signature": ("prirec rotation", changed("a rotation of a key", 1, b"")),
        "a window that never closes": ("prirec window", changed("a window", 8, 2**37)),
        "an offer of version 2": ("prirec offer", changed("an offer", 0, 2)),
        "an offer of no places": ("prirec offer", changed("an offer", 4, 0)),
        "a deployment of 15 bytes": ("prirec offer", changed("an offer", 1, DEPLOYMENT[1:])),
        "an encoding that is text": ("prirec offer", changed("an offer", 2, "{}")),
        "a real that is whole": ("prirec popularity", changed("popularity", 3, 1)),
        "no averages": ("prirec popularity and averages", changed("popularity and two averages", 5, [])),
        "an average beyond its range": (
            "prirec popularity and averages", changed("popularity and two averages", 5, [[1.5, 0.125, 0.0625, 0.5]]),
        ),
        "an average without its errors": (
            "prirec popularity and averages", changed("popularity and two averages", 5, [[0.5, 0.125]]),
        ),
        "a real of 32 bits": (
            "prirec popularity", spelt("popularity").replace(b"\xcb" + pack(">d", 1.5), b"\xca" + pack(">f", 1.5)),
        ),
        "a round of 2^31": ("prirec learnt model", changed("a model", 1, 2**31)),
        "a resolution of 7": ("prirec regions", changed("a catalogue of two regions", 0, 7)),
        "a cell of 64 bits": ("prirec places", changed("places", 0, 2**63)),
        "a region with a field more": ("prirec regions", changed("a catalogue of two regions", 1, [[0, HASH, b"", 0]])),
        "counts with a hash of 33 bytes": (
            "prirec regions", changed("a catalogue of two regions", 1, [[0, HASH, HASH + b"\0"]]),
        ),
        "a word that is not UTF-8": ("prirec places", places.replace("é".encode(), b"\xe9\xe9")),
        "half a surrogate pair": ("prirec places", places.replace("市".encode(), b"\xed\xa0\x80")),
        "a list that is only promised": ("prirec places", places[:10] + b"\xdd\xff\xff\xff\xff"),
        "a cell spelt longer than it is": (
            "prirec regions",
            spelt("a catalogue of two regions").replace(b"\x93\0\xc4", b"\x93\xcf" + bytes(8) + b"\xc4", 1),
        ),
    }.items():  # fmt: skip
        yield vector(claim, "read_document", kind=kind, data=data, name=sha256(data).digest())
    yield vector("another address", "read_document", kind="prirec places", data=places, name=HASH)


def spelt(claim: str) -> bytes:
    kind, fields = DOCUMENTS[claim]
    return wire.document(kind=kind, fields=fields)


def with_setting(at: int, value: Any) -> bytes:
    return changed("a charter", 4, [*SETTINGS[:at], value, *SETTINGS[at + 1 :]])


def rotation(at: int, value: Any) -> bytes:
    change = DOCUMENTS["a rotation of a key"][1][0]
    return changed("a rotation of a key", 0, [*change[:at], value, *change[at + 1 :]])


def changed(claim: str, at: int, value: Any) -> bytes:
    kind, fields = DOCUMENTS[claim]
    return packed([kind, *fields[:at], value, *fields[at + 1 :]])


OPERATOR = ref.signing_public(SECRET)
NOTHING: dict[str, Any] = {"length": 0, "last": bytes(32), "deployment": DEPLOYMENT, "operator": OPERATOR}


def entries(subjects: list[str], *, secret: bytes = SECRET, **others: Any) -> list[tuple[bytes, bytes]]:
    """A chain of signed entries from an index on."""
    index, previous, of = others.get("index", 0), others.get("previous", bytes(32)), others.get("of", DEPLOYMENT)
    found = []
    for subject in subjects:
        one = wire.entry(of, index, previous, subject, HASH)
        found.append((one, ref.sign(secret, message=one)))
        index, previous = index + 1, sha256(one).digest()
    return found


def log() -> Iterator[Vector]:
    learnt = ["edition", "scales", "model", "publication"]
    whole = entries(["catalogue", "joined", "charter", "window", "left", *learnt, "rotation"])
    signed = wire.cosignature(NOTHING["deployment"], 2, HASH, time=2**37 - 1, signature=bytes(64))
    # what a helper has signed is checked by whoever follows the log; here only that it is one
    yield vector("co-signed", "log", data=wire.page(whole, cosigned=signed), **NOTHING)
    begun = {**NOTHING, "length": 2, "last": sha256(whole[1][0]).digest()}
    yield vector("ten entries", "log", data=wire.page(whole), **NOTHING)
    yield vector("no entries", "log", data=wire.page([]), **NOTHING)
    yield vector("from the third on", "log", data=wire.page(whole[2:]), **begun)
    (first, signature), (second, _) = whole[:2]
    unsigned = wire.page([(first, bytes([signature[0] ^ 1]) + signature[1:])])
    for claim, data in {
        "another first entry than the known one": wire.page(entries(["start", "charter"])[1:]),
        "an entry left out": wire.page([whole[0], whole[2]]),
        "two entries the other way round": wire.page([whole[1], whole[0]]),
        "an entry twice": wire.page([whole[0], whole[0]]),
        "another deployment's": wire.page(entries(["catalogue"], of=bytes(16))),
        "signed by somebody else": wire.page(entries(["catalogue"], secret=SEED)),
        "a bit of a signature flipped": unsigned,
        "the signature of another entry": wire.page([(first, whole[1][1]), (second, whole[0][1])]),
        "a subject that there is not": wire.page(entries(["roster"])),
        "a signature of 63 bytes": wire.page([(first, signature[1:])]),
        "entries without signatures": packed(["prirec log", [first], None]),
        "no word on a co-signature": packed(["prirec log", []]),
        "a co-signature of another name": wire.page([], cosigned=[["prirec log", *signed[0][1:]], signed[1]]),
        "a co-signature of 63 bytes": wire.page([], cosigned=[signed[0], bytes(63)]),
    }.items():
        yield vector(claim, "log", data=data, **NOTHING)
    yield vector("it goes on from another entry", "log", data=wire.page(whole[2:]), **{**begun, "last": HASH})
    yield vector("it goes on from further on", "log", data=wire.page(whole[2:]), **{**begun, "length": 3})
    weak = {**NOTHING, "operator": bytes(32)}
    yield vector("an operator's key of low order", "log", flags=("low order",), data=wire.page(whole), **weak)
