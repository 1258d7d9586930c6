"""Public documents and the log of them: MessagePack by hand."""

from hashlib import sha256
from typing import Any

from vectors.reference import demand, verify
from vectors.reference_messages import packed, unpacked

# What a field may be: (least, most) bytes, "text", "real", a bound of a whole number, "words", or a list of records
DIGEST, ANY, NATURAL = (32, 32), (0, 64 * 2**20), range(2**31)
SUM = {"popularity", "moments", "interaction", "quality"}
SETTINGS = {
    "record": [
        NATURAL, NATURAL, "part", "part", NATURAL, "part", "part", "part", "part", range(1, 3), range(1000),
        range(1000), "part", {32, 64}, NATURAL, {"uniform", "nearby"}, "flag", "flag", range(1000),
    ]
}  # fmt: skip
ERRORS = (0.0, 4.0), (0.0, 2.0), (0.0, 2.0)  # reals between these
CHANGE = {
    "record": [
        {"prirec key change"}, (16, 16), NATURAL, {"recommender", "helper"}, DIGEST, DIGEST, range(2**37),
    ]
}  # fmt: skip
FIELDS: dict[str, list[Any]] = {
    "prirec offer": [range(1, 2), (16, 16), (0, 2**22), DIGEST, range(1, 2**31)],
    "prirec popularity": [DIGEST, (0, 2**22), DIGEST, "real", "real"],
    "prirec popularity and averages": [DIGEST, (0, 2**22), DIGEST, "real", "real", [(-1.0, 1.0), *ERRORS]],
    "prirec scales": [DIGEST, ANY, ANY, ANY, ANY, "real", "real", ANY, ANY],
    "prirec learnt model": [DIGEST, range(2**31), ANY],
    "prirec start": [range(2, 3), DIGEST, "text"],
    "prirec regions": [range(7), [range(2**63), DIGEST, (0, 32)]],
    "prirec places": [range(2**63), "words", "words", ANY, ANY, ANY],
    "prirec counts": [range(2**63), ANY, ANY, ANY, ANY],
    "prirec campaign charter": [
        range(4, 5), (16, 16), NATURAL, DIGEST, SETTINGS, (0, 2**22), (0, 32), NATURAL, DIGEST, range(1, 2**31),
        (0, 32), (0, 32), (0, 32), NATURAL,
    ],
    "prirec quality figures": [
        DIGEST, NATURAL, ANY, [{"auc", "log_loss", "base_rate", "hit_rate"}, "real", "real", "real"]
    ],
    "prirec names": ["names"],
    "prirec rotation": [CHANGE, (64, 64), (64, 64), (0, 64)],
    "prirec window": [DIGEST, SUM, NATURAL, NATURAL, NATURAL, DIGEST, DIGEST, range(2**37), range(2**37)],
}  # fmt: skip
SUBJECTS = (
    "catalogue", "start", "charter", "edition", "scales", "model", "publication", "figures", "joined", "left", "window",
    "rotation",
)  # fmt: skip


def document(*, kind: str, fields: list[Any]) -> bytes:
    return packed([kind, *fields])


def read_document(*, kind: str, data: bytes, name: bytes) -> list[Any]:
    """The fields, if the bytes have this address and are a document of this kind."""
    demand(sha256(data).digest() == name, "DECODE")
    found = unpacked(data)
    demand(isinstance(found, list) and bool(found) and found[0] == kind, "DECODE")
    fits(found[1:], FIELDS[kind])
    return list(found[1:])


def fits(values: Any, kinds: list[Any]) -> None:
    demand(isinstance(values, list) and len(values) == len(kinds), "DECODE")
    for value, kind in zip(values, kinds, strict=True):
        if isinstance(kind, dict):
            fits(value, kind["record"])
        elif isinstance(kind, list):
            demand(isinstance(value, list) and (bool(value) or kind[1:] != list(ERRORS)), "DECODE")
            for one in value:
                fits(one, kind)
        else:
            demand(fits_one(value, kind), "DECODE")


def fits_one(value: Any, kind: Any) -> bool:
    if isinstance(kind, tuple) and isinstance(kind[0], float):
        return isinstance(value, float) and kind[0] <= value <= kind[1]
    if kind == "flag" or isinstance(value, bool):
        return kind == "flag" and isinstance(value, bool)
    if kind == "part":
        return isinstance(value, float) and 0 <= value <= 1e6
    if kind == "names":
        known = isinstance(value, list) and 1 <= len(value) <= 4096
        return known and all(isinstance(one, bytes) and len(one) == 32 for one in value)
    if isinstance(kind, set):
        return isinstance(value, str | int) and value in kind
    if kind == "words":
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    if kind in ("text", "real"):
        return isinstance(value, str if kind == "text" else float)
    if isinstance(kind, range):
        return isinstance(value, int) and value in kind
    return isinstance(value, bytes) and kind[0] <= len(value) <= kind[1]


def entry(deployment: bytes, index: int, previous: bytes, subject: str, about: bytes) -> bytes:
    return packed(["prirec log entry", 1, deployment, index, previous, subject, about])


def page(entries: list[tuple[bytes, bytes]], *, cosigned: list[Any] | None = None) -> bytes:
    """Of encoded entries and their signatures."""
    return packed(["prirec log", [[unpacked(one), signature] for one, signature in entries], cosigned])


def cosignature(deployment: bytes, length: int, last: bytes, *, time: int, signature: bytes) -> list[Any]:
    return [["prirec co-signature", deployment, length, last, time], signature]


def log(*, data: bytes, length: int, last: bytes, deployment: bytes, operator: bytes) -> list[Any]:
    """Length and last hash of a log after the entries of a page."""
    found = unpacked(data)
    demand(isinstance(found, list) and len(found) == 3 and found[0] == "prirec log", "DECODE")
    demand(isinstance(found[1], list) and len(found[1]) <= 1000, "DECODE")
    for line in found[1]:
        fits_line(line)
    if found[2] is not None:
        fits_cosignature(found[2])
    for line, signature in found[1]:
        demand(tuple(line[2:5]) == (deployment, length, last), "EQUIVOCATION")
        verify(operator, signature=signature, message=packed(line))
        length, last = length + 1, sha256(packed(line)).digest()
    return [length, last]


def fits_cosignature(given: Any) -> None:
    demand(isinstance(given, list) and len(given) == 2 and isinstance(given[0], list) and bool(given[0]), "DECODE")
    (tag, *fields), signature = given
    demand(tag == "prirec co-signature", "DECODE")
    fits([*fields, signature], [(16, 16), range(2**31), DIGEST, range(2**37), (64, 64)])


def fits_line(line: Any) -> None:
    demand(isinstance(line, list) and len(line) == 2 and isinstance(line[0], list) and len(line[0]) == 7, "DECODE")
    (tag, *fields), signature = line
    demand(tag == "prirec log entry" and fields[4] in SUBJECTS, "DECODE")
    fits([*fields[:4], fields[5], signature], [range(1, 2), (16, 16), range(2**31), DIGEST, DIGEST, (64, 64)])
