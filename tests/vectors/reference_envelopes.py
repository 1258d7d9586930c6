"""What the two operators say to each other, and the envelopes that it comes in: MessagePack by hand."""

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from vectors.reference import demand, sign, signing_public, verify
from vectors.reference_documents import DIGEST, FIELDS, fits, fits_cosignature, fits_line, fits_one
from vectors.reference_messages import packed, unpacked

SKEW = 300  # seconds
ANY, DEPLOYMENT, SIGNATURE = (0, 64 * 2**20), (16, 16), (64, 64)


def fits_list(values: Any, most: int, fits_item: Callable[[Any], None]) -> None:
    demand(isinstance(values, list) and len(values) <= most, "DECODE")
    for one in values:
        fits_item(one)


def fits_bytes(least: int, most: int) -> Callable[[Any], None]:
    return lambda one: demand(fits_one(one, (least, most)), "DECODE")


def fits_version(text: Any) -> None:
    demand(isinstance(text, str) and len(text) <= 64, "DECODE")


def fits_rotation(said: Any) -> None:
    demand(isinstance(said, list) and bool(said) and said[0] == "prirec rotation", "DECODE")
    fits(said[1:], FIELDS["prirec rotation"])


NATURAL: Callable[[Any], None] = lambda one: demand(fits_one(one, range(2**31)), "DECODE")  # noqa: E731
ASKED: dict[str, list[Callable[[Any], None]]] = {
    "prirec put": [lambda documents: fits_list(documents, 4096, fits_bytes(*ANY))],
    "prirec follow": [lambda entries: fits_list(entries, 1000, fits_line)],
    "prirec new box key": [NATURAL],
    "prirec say": [fits_bytes(*ANY)],
    "prirec countersign": [lambda said: fits_rotation(said)],
    "prirec ask for a rotation": [],
}
ANSWERED: dict[str, list[Callable[[Any], None]]] = {
    "prirec taken": [],
    "prirec missing": [NATURAL, lambda documents: fits_list(documents, 4096, fits_bytes(*DIGEST))],
    "prirec followed": [fits_cosignature],
    "prirec box key of a version": [fits_bytes(32, 32), fits_version],
    "prirec countersigned": [fits_bytes(0, 64)],
    "prirec offered": [lambda said: None if said is None else fits_rotation(said)],
    "prirec said": [lambda said: fits_list(said, 8, fits_bytes(*ANY))],
}


def envelope(*, deployment: bytes, secret: bytes, receiver: bytes, time: int, answers: bytes, body: bytes) -> str:
    """The header for a body."""
    parts = deployment, signing_public(secret), receiver, time, answers, sha256(body).digest()
    said = packed(["prirec envelope", *parts])
    return b64encode(packed([unpacked(said), sign(secret, message=said)])).decode("ascii")


def opened(
    header: str, *, body: bytes, deployment: bytes, sender: bytes, receiver: bytes, now: int, answers: bytes
) -> list[Any]:
    """The parts of a body, if this sender has signed it for this receiver, now."""
    try:
        data = b64decode(header, validate=True)
    except Base64Error:
        demand(False, "AUTH")
        raise
    said, signature = in_an_envelope(data)
    verify(sender, signature=signature, message=packed(said))
    demand(said[1:4] == [deployment, sender, receiver] and said[5] == answers, "AUTH")
    demand(abs(said[4] - now) <= SKEW, "AUTH")
    demand(sha256(body).digest() == said[6], "AUTH")
    found = unpacked(body)
    demand(isinstance(found, list) and bool(found), "DECODE")
    return list(found)


def in_an_envelope(data: bytes) -> tuple[list[Any], bytes]:
    """What is signed, and the signature; whatever is no envelope is nobody's."""
    try:
        found = unpacked(data)
        demand(isinstance(found, list) and len(found) == 2 and isinstance(found[0], list) and bool(found[0]), "DECODE")
        (tag, *fields), signature = found
        demand(tag == "prirec envelope", "DECODE")
        fits([*fields, signature], [DEPLOYMENT, DIGEST, DIGEST, range(2**37), (0, 32), DIGEST, SIGNATURE])
    except Exception as refusal:
        if getattr(refusal, "fault", None) == "DECODE":
            demand(False, "AUTH")
        raise
    return found[0], found[1]


def fits_kind(found: list[Any], kinds: dict[str, list[Callable[[Any], None]]]) -> None:
    demand(found[0] in kinds and len(found) - 1 == len(kinds[found[0]]), "DECODE")
    for value, fits_field in zip(found[1:], kinds[found[0]], strict=True):
        fits_field(value)


def read_asked(*, header: str, **given: Any) -> list[Any]:
    """What the recommender asks of the helper."""
    found = opened(header, answers=b"", **given)
    fits_kind(found, ASKED)
    return found


def read_answer(*, kind: str, header: str, **given: Any) -> list[Any]:
    """What the helper answers, if it is of the kind that was asked for."""
    found = opened(header, **given)
    fits_kind(found, ANSWERED)
    demand(found[0] == kind, "ORDER")
    return found
