"""Vectors of campaigns over two operators: the noise that a charter's settings lead to, windows, co-signed heads, and
what is in force after some entries of a log."""

from collections.abc import Iterator
from typing import Any

from vectors import reference as ref
from vectors import reference_documents as wire
from vectors.cases_documents import DEPLOYMENT, HASH, OTHER
from vectors.entry import SECRET, SEED, Vector, vector
from vectors.reference_messages import packed

HELPER = ref.signing_public(SECRET)
WINDOW: list[Any] = [HASH, "interaction", 65_537, 200, 12, OTHER, HASH, 1_700_000_000, 1_700_021_600]
RELEASE: dict[str, Any] = {
    "epsilon": 1.0, "delta": 1e-6, "parts": [0.4, 0.03, 0.57, 0.0], "which": 2, "times": 20, "sensitivity": 1.0,
    "entries": 445,
}  # fmt: skip


def campaigns() -> Iterator[Vector]:
    yield from releases()
    yield from windows()
    yield from heads()
    yield from logs()
    yield from rotations()


def releases() -> Iterator[Vector]:
    yield vector("a round of B", "release", **RELEASE)
    for claim, change in {
        "visits": {"which": 0, "times": 1, "entries": 100},
        "moments, of another norm": {"which": 1, "times": 1, "sensitivity": 3.3166247903554, "entries": 40},
        "another budget": {"epsilon": 4.0, "delta": 1e-5},
        "a small budget": {"epsilon": 0.1, "delta": 1e-7},
        "parts that add up to more than one": {"parts": [3.0, 1.0, 7.0, 0.5]},
        "parts that no float holds exactly": {"parts": [0.1, 0.2, 0.7, 0.3]},
        "quality figures": {"parts": [0.4, 0.03, 0.57, 0.1], "which": 3, "times": 1, "entries": 29},
        "sixty-five thousand rounds": {"times": 65_000},
        "a model of sixteen thousand numbers": {"entries": 16_621},
        "one number": {"entries": 1},
    }.items():
        yield vector(claim, "release", **(RELEASE | change))
    nothing = {"parts": [1.0, 1e-6, 1.0, 0.0], "which": 1, "times": 60_000, "epsilon": 1e-4}
    yield vector("so little that nothing would be learnt", "release", flags=("at the limit",), **(RELEASE | nothing))


def changed(at: int, value: Any) -> list[Any]:
    return [*WINDOW[:at], value, *WINDOW[at + 1 :]]


def windows() -> Iterator[Vector]:
    yield vector("a window", "window_bound", fields=WINDOW)
    yield vector("one that is extended is bound to the same", "window_bound", fields=changed(8, 1_700_100_000))
    for claim, at, value in (("another sum", 2, 65_538), ("other people", 3, 201), ("another model", 6, OTHER)):
        yield vector(f"{claim} is bound to another", "window_bound", fields=changed(at, value))
    yield vector("a window may close later", "extended", before=WINDOW, now=changed(8, 1_700_021_601))
    yield vector("the same window", "extended", before=WINDOW, now=WINDOW)
    yield vector("a window of the next sum", "extended", before=WINDOW, now=changed(2, 65_538))
    for claim, at, value in (
        ("closes earlier", 8, 1_700_021_599), ("opens later", 7, 1_700_000_001), ("lists more people", 3, 201),
        ("lists another head", 5, HASH), ("is over another model", 6, OTHER), ("is of another campaign", 0, OTHER),
    ):  # fmt: skip
        yield vector(f"a window {claim}", "extended", before=WINDOW, now=changed(at, value))


def heads() -> Iterator[Vector]:
    statement = wire.cosignature(DEPLOYMENT, 7, HASH, time=1_700_000_000, signature=b"")[0]
    signature = ref.sign(SECRET, message=packed(statement))
    good: dict[str, Any] = {"data": packed([statement, signature]), "helper": HELPER, "deployment": DEPLOYMENT}
    yield vector("a head that the helper has signed", "co_signed", **good)
    later = packed([[*statement[:4], 1_700_000_001], signature])
    for claim, change in {
        "another helper": {"helper": ref.signing_public(SEED)},
        "another deployment": {"deployment": bytes(16)},
        "another time than was signed": {"data": later},
        "a bit of the signature flipped": {"data": packed([statement, bytes([signature[0] ^ 1]) + signature[1:]])},
        "signed by the recommender": {"data": packed([statement, ref.sign(SEED, message=packed(statement))])},
        "no statement": {"data": packed([signature, signature])},
    }.items():
        yield vector(claim, "co_signed", **(good | change))
    yield vector("a helper's key of low order", "co_signed", flags=("low order",), **(good | {"helper": bytes(32)}))


def logs() -> Iterator[Vector]:
    begun = [["catalogue", HASH], ["start", HASH], ["charter", HASH]]
    learnt = [["edition", HASH], ["scales", HASH], ["model", HASH], ["window", HASH]]
    for claim, entries in {
        "nothing": [],
        "a catalogue and a starting model": begun[:2],
        "a campaign under way": [*begun, *learnt],
        "one window after the other": [*begun, ["window", HASH], ["window", OTHER]],
        "lists of people are of no kind that is in force": [["joined", HASH], *begun, ["left", OTHER]],
        "a rotation is of no kind that is in force": [*begun, ["rotation", OTHER]],
        "a publication takes the starting model's place": [*begun, *learnt, ["publication", OTHER]],
        "a second campaign puts what the first has learnt out of force": [
            *begun, *learnt, ["publication", OTHER], ["charter", OTHER]
        ],
        "figures of what is published": [*begun, *learnt, ["publication", OTHER], ["figures", OTHER]],
        "another publication has no figures yet": [
            *begun, *learnt, ["publication", OTHER], ["figures", OTHER], ["charter", OTHER], *learnt,
            ["publication", HASH],
        ],
        "second figures": [*begun, *learnt, ["publication", OTHER], ["figures", OTHER], ["figures", HASH]],
        "figures of nothing": [*begun, *learnt, ["figures", OTHER]],
        "a campaign that is begun a second time": [*begun, ["charter", OTHER], ["charter", HASH]],
        "a second edition": [*begun, ["edition", HASH], ["edition", OTHER]],
        "an edition without a campaign": [*begun[:2], ["edition", HASH]],
        "scales before an edition": [*begun, ["scales", HASH]],
        "second scales": [*begun, *learnt, ["scales", OTHER]],
    }.items():  # fmt: skip
        yield vector(claim, "in_force", entries=entries)


LEADER, NEXT, LATER = SEED, bytes([21]) * 32, bytes([22]) * 32  # secrets; the helper's is SECRET


def rotation(
    number: int, role: str, old: bytes, new: bytes, peer: bytes | None, *, deployment: bytes = DEPLOYMENT,
    by_old: bytes | None = None, by_new: bytes | None = None,
) -> bytes:  # fmt: skip
    """Of secret keys, which all sign; `by_old`, `by_new`: whose signature stands in the place of that key's."""
    keys = ref.signing_public(old), ref.signing_public(new)
    change = ["prirec key change", deployment, number, role, *keys, 1_700_000_000]
    said = packed(change)
    by_peer = b"" if peer is None else ref.sign(peer, message=said)
    signatures = ref.sign(by_old or old, message=said), ref.sign(by_new or new, message=said), by_peer
    return packed(["prirec rotation", change, *signatures])


def rotations() -> Iterator[Vector]:
    """Keys in force after rotations. SECRET is the helper's first key."""
    leader = ref.signing_public(LEADER)
    first = {"recommender": leader, "helper": HELPER, "deployment": DEPLOYMENT}
    one = rotation(0, "recommender", LEADER, NEXT, SECRET)
    two = rotation(1, "helper", SECRET, LATER, NEXT)
    for claim, said in {
        "nothing is rotated": [],
        "the recommender's key": [one],
        "the helper's key": [rotation(0, "helper", SECRET, NEXT, LEADER)],
        "one after the other": [one, two],
        "one again": [one, two, rotation(2, "recommender", NEXT, bytes([23]) * 32, LATER)],
        "not signed by the old key": [rotation(0, "recommender", LEADER, NEXT, SECRET, by_old=LATER)],
        "not signed by the new key": [rotation(0, "recommender", LEADER, NEXT, SECRET, by_new=LATER)],
        "signed by another operator": [rotation(0, "recommender", LEADER, NEXT, LATER)],
        "signed by one operator of two": [rotation(0, "recommender", LEADER, NEXT, None)],
        "signed by the other operator's old key": [one, rotation(1, "helper", SECRET, LATER, LEADER)],
        "said twice": [one, one],
        "another number": [rotation(1, "recommender", LEADER, NEXT, SECRET)],
        "another role": [rotation(0, "helper", LEADER, NEXT, SECRET)],
        "another deployment": [rotation(0, "recommender", LEADER, NEXT, SECRET, deployment=bytes(16))],
        "from a key that is not in force": [one, rotation(1, "recommender", LEADER, LATER, SECRET)],
        "to the other operator's key": [rotation(0, "recommender", LEADER, SECRET, SECRET)],
        "back to a key that was in force": [one, rotation(1, "recommender", NEXT, LEADER, SECRET)],
    }.items():
        yield vector(claim, "rotated", rotations=said, **first)
    alone = {**first, "helper": b""}
    yield vector("with one operator", "rotated", rotations=[rotation(0, "recommender", LEADER, NEXT, None)], **alone)
    yield vector("a second signature where there is one operator", "rotated", rotations=[one], **alone)
    yield vector(
        "to a key of low order", "rotated", flags=("low order",), **first,
        rotations=[packed(["prirec rotation", _low(leader), bytes(64), bytes(64), bytes(64)])],
    )  # fmt: skip


def _low(old: bytes) -> list[Any]:
    return ["prirec key change", DEPLOYMENT, 0, "recommender", old, bytes(32), 0]
