"""Vectors of what the two operators say to each other: every request and every answer, in its envelope, and what is
refused."""

from base64 import b64decode, b64encode
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from vectors import reference as ref
from vectors import reference_envelopes as wire
from vectors.cases_documents import DOCUMENTS, entries
from vectors.entry import SECRET, SEED, Vector, vector
from vectors.reference_documents import cosignature
from vectors.reference_messages import packed, unpacked

DEPLOYMENT, HASH, NOW = bytes(range(16)), bytes(range(32)), 1_700_000_000
LINES = [[unpacked(one), signature] for one, signature in entries(["catalogue", "joined", "window"])]
SIGNED_HEAD = cosignature(DEPLOYMENT, 3, HASH, time=NOW, signature=bytes(range(64)))
ROTATION = ["prirec rotation", *DOCUMENTS["a rotation of a key"][1]]
ASKED: dict[str, list[Any]] = {
    "no documents": ["prirec put", []],
    "two documents": ["prirec put", [b"one", bytes(300)]],
    "no entries, to hear how far the helper has signed": ["prirec follow", []],
    "three entries of the log": ["prirec follow", LINES],
    "a box key of the first campaign": ["prirec new box key", 1],
    "a message of a sum": ["prirec say", b"message"],
    "a rotation of the recommender's key": ["prirec countersign", ROTATION],
    "whether the helper has a next key": ["prirec ask for a rotation"],
}
ANSWERED: dict[str, list[Any]] = {
    "documents are stored": ["prirec taken"],
    "nothing is missing but entries": ["prirec missing", 2**31 - 1, []],
    "two documents are missing": ["prirec missing", 3, [HASH, bytes(32)]],
    "the log is signed up to here": ["prirec followed", SIGNED_HEAD],
    "a box key": ["prirec box key of a version", HASH, "0.1.0"],
    "a box key of a version with a long name": ["prirec box key of a version", HASH, "é" * 64],
    "a signature on a rotation": ["prirec countersigned", HASH * 2],
    "a key that nobody has approved": ["prirec countersigned", b""],
    "a rotation of the helper's key": ["prirec offered", ROTATION],
    "no next key": ["prirec offered", None],
    "nothing to say": ["prirec said", []],
    "eight messages": ["prirec said", [b"", *[b"message"] * 7]],
}
# which operator is which does not matter to an envelope
SENDER: dict[str, Any] = {"deployment": DEPLOYMENT, "secret": SECRET, "receiver": ref.signing_public(SEED), "time": NOW}
RECEIVER: dict[str, Any] = {
    "deployment": DEPLOYMENT, "sender": ref.signing_public(SECRET), "receiver": ref.signing_public(SEED), "now": NOW
}  # fmt: skip
QUESTION = sha256(b"question").digest()


def asked(
    claim: str, body: bytes, *, header: str | None = None, flags: tuple[str, ...] = (), **changes: Any
) -> Vector:  # fmt: skip
    """A request, in this header, or in one in which the sender says something else than it should."""
    if header is None:
        header = wire.envelope(**(SENDER | changes), answers=b"", body=body)
    return vector(claim, "read_asked", flags=flags, body=body, header=header, **RECEIVER)


def answered(claim: str, kind: str, body: bytes, *, answers: bytes = QUESTION) -> Vector:
    header = wire.envelope(**SENDER, answers=answers, body=body)
    return vector(claim, "read_answer", kind=kind, body=body, header=header, answers=QUESTION, **RECEIVER)


def envelopes() -> Iterator[Vector]:
    for claim, parts in ASKED.items():
        yield vector(f"for a request: {claim}", "envelope", **SENDER, answers=b"", body=packed(parts))
        yield asked(claim, packed(parts))
    for claim, parts in ANSWERED.items():
        yield vector(f"for an answer: {claim}", "envelope", **SENDER, answers=QUESTION, body=packed(parts))
        yield answered(claim, parts[0], packed(parts))
    box_key = packed(ASKED["a box key of the first campaign"])
    yield asked("five minutes old", box_key, flags=("at the limit",), time=NOW - wire.SKEW)
    yield asked("five minutes ahead", box_key, flags=("at the limit",), time=NOW + wire.SKEW)
    yield from _wrong_envelopes(box_key)
    yield from _wrong_bodies()


def _wrong_envelopes(body: bytes) -> Iterator[Vector]:
    right = wire.envelope(**SENDER, answers=b"", body=body)
    said, signature = unpacked(b64decode(right))
    yield asked("older than five minutes", body, flags=("at the limit",), time=NOW - wire.SKEW - 1)
    yield asked("from the future", body, flags=("at the limit",), time=NOW + wire.SKEW + 1)
    yield asked("another deployment", body, deployment=bytes(16))
    yield asked("signed by the receiver", body, secret=SEED)
    yield asked("for somebody else", body, receiver=ref.signing_public(SECRET))
    weak = RECEIVER | {"sender": bytes(32)}
    yield vector("a sender's key of low order", "read_asked", flags=("low order",), body=body, header=right, **weak)
    for claim, data in {
        "no envelope": b"",
        "an envelope that is cut": b64decode(right)[:-1],
        "an envelope and one byte more": b64decode(right) + b"\0",
        "a bit of the signature flipped": packed([said, bytes([signature[0] ^ 1]) + signature[1:]]),
        "a signature of 63 bytes": packed([said, signature[1:]]),
        "a time that was not signed": packed([[*said[:4], NOW + 1, *said[5:]], signature]),
        "a body that was not signed": packed([[*said[:6], HASH], signature]),
        "an envelope of another name": packed([["prirec co-signature", *said[1:]], signature]),
        "an envelope without its time": packed([[*said[:4], *said[5:]], signature]),
        "a time spelt longer than it is": packed([said, signature]).replace(
            packed(NOW), b"\xcf" + NOW.to_bytes(8, "big"), 1
        ),
    }.items():
        yield asked(claim, body, header=b64encode(data).decode("ascii"))
    yield asked("an envelope that is no base64", body, header="!" + right)
    other = wire.envelope(**SENDER, answers=b"", body=body + b"\0")
    yield asked("another body", body, header=other)
    an_answer = wire.envelope(**SENDER, answers=QUESTION, body=body)
    yield asked("an answer in the place of a request", body, header=an_answer)
    taken = packed(ANSWERED["documents are stored"])
    yield answered("an answer to another request", "prirec taken", taken, answers=HASH)
    yield answered("a request in the place of an answer", "prirec taken", taken, answers=b"")


def _wrong_bodies() -> Iterator[Vector]:
    for claim, body in {
        "a body that is cut": packed(ASKED["two documents"])[:-1],
        "a body and one byte more": packed(ASKED["two documents"]) + b"\0",
        "no body": b"",
        "a request that there is not": packed(["prirec open"]),
        "an answer that is asked": packed(ANSWERED["documents are stored"]),
        "a rotation that is no document": packed(["prirec countersign", [*ROTATION[:4]]]),
        "documents that are text": packed(["prirec put", ["one"]]),
        "a line without its signature": packed(["prirec follow", [LINES[0][0]]]),
        "a line of a subject that there is not": packed(
            ["prirec follow", [[[*LINES[0][0][:5], "roster", HASH], LINES[0][1]]]]
        ),
        "a campaign of 2^31": packed(["prirec new box key", 2**31]),
        "a message that is none": packed(["prirec say"]),
        "a number spelt longer than it is": packed(["prirec new box key", 1])[:-1] + b"\xcc\1",
    }.items():
        yield asked(claim, body)
    for claim, (kind, body) in {
        "another answer than was asked for": ("prirec followed", packed(ANSWERED["documents are stored"])),
        "a hash of 31 bytes is missing": ("prirec missing", packed(["prirec missing", 3, [HASH[1:]]])),
        "a head that nobody has signed": ("prirec followed", packed(["prirec followed", [SIGNED_HEAD[0]]])),
        "a head of another name": (
            "prirec followed", packed(["prirec followed", [["prirec log", *SIGNED_HEAD[0][1:]], SIGNED_HEAD[1]]])
        ),
        "a box key of 33 bytes": (
            "prirec box key of a version", packed(["prirec box key of a version", HASH + b"\0", "0.1.0"])
        ),
        "a version of 65 letters": (
            "prirec box key of a version", packed(["prirec box key of a version", HASH, "0" * 65])
        ),
        "nine messages": ("prirec said", packed(["prirec said", [b""] * 9])),
        "a request in a helper's envelope": ("prirec said", packed(ASKED["a message of a sum"])),
    }.items():  # fmt: skip
        yield answered(claim, kind, body)
