"""Vectors of reports with a proof of their norm, made by reference_proofs.py, which gives the draft's own vectors; and
of boxes, made by a reference that gives the one of RFC 9180."""

from collections.abc import Iterator
from typing import Any

from prirec.proofs.parameters import MODULUS, Parameters
from vectors import reference as ref
from vectors import reference_proofs as plain
from vectors.entry import SECRET, SEED, Vector, vector

KEY, NONCE = bytes(range(32)), bytes(range(16))
RANDOMNESS = bytes(range(7 * 32))
SMALL = {
    "dimension": 3, "norm_bound": 5, "chunk": 4, "norm_chunk": 2, "proofs": 1, "norm_proofs": 1, "checks": 3,
    "successes": 3, "alpha": 8.7,
}  # fmt: skip
TIGHT = SMALL | {"norm_bound": 1000, "alpha": 0.001, "checks": 1, "successes": 1}  # passed by sums of 2 at most
OTHERS = {
    "one entry": (SMALL | {"dimension": 1, "norm_chunk": 1, "chunk": 1}, [5]),
    "several proofs of both kinds": (SMALL | {"proofs": 3, "norm_proofs": 2}, [-1, 2, -3]),
    "more checks than successes": (SMALL | {"checks": 4, "successes": 2}, [4, 0, 1]),
    "one chunk for all": (SMALL | {"chunk": 100, "norm_chunk": 10}, [0, -4, 0]),
    "the largest bound": (SMALL | {"norm_bound": 2_479_700_524}, [2_479_700_524, 0, 0]),
    "nine entries, of which the last is alone in its octet": (SMALL | {"dimension": 9, "norm_bound": 16}, [5] * 9),
}


def reports() -> Iterator[Vector]:
    for claim, numbers in {"zeros": [0, 0, 0], "at the bound": [3, -4, 0], "below it": [-1, -1, 1]}.items():
        yield vector(claim, "report", parameters=SMALL, vector=numbers, nonce=NONCE, randomness=RANDOMNESS)
    for claim, (parameters, numbers) in OTHERS.items():
        yield vector(claim, "report", parameters=parameters, vector=numbers, nonce=NONCE, randomness=RANDOMNESS)
    for at in range(3):
        randomness = bytes([at]) * 224
        yield vector(
            f"a vector that may fail its checks, {at}", "report",
            parameters=TIGHT, vector=[1000, 0, 0], nonce=NONCE, randomness=randomness,
        )  # fmt: skip
    left_out = (1_677_128).to_bytes(32, "little") + RANDOMNESS[32:]
    wide = SMALL | {"dimension": 45, "norm_chunk": 12}
    yield vector(
        "word 41 of a share's stream is beyond the field", "report",
        parameters=wide, vector=[1] * 25 + [0] * 20, nonce=NONCE, randomness=left_out,
    )  # fmt: skip
    for claim, bad in {
        "one unit over the bound": {"vector": [3, 4, 1]},
        "over the bound in one entry": {"vector": [-6, 0, 0]},
        "too short a vector": {"vector": [1, 1]},
        "too few random bytes": {"randomness": RANDOMNESS[1:]},
        "no entry": {"parameters": SMALL | {"dimension": 0}},
        "more successes than checks": {"parameters": SMALL | {"successes": 4}},
        "a bound that the field is too small for": {"parameters": SMALL | {"norm_bound": 2_479_700_525}},
    }.items():
        given: dict[str, Any] = {"parameters": SMALL, "vector": [1, 1, 1], "nonce": NONCE, "randomness": RANDOMNESS}
        yield vector(claim, "report", **(given | bad))


def operators() -> Iterator[Vector]:
    for claim, (parameters, numbers) in {"at the bound": (SMALL, [3, -4, 0]), **OTHERS}.items():
        made = plain.shard(Parameters(**parameters), numbers, NONCE, RANDOMNESS)
        assert made is not None
        given: dict[str, Any] = {"parameters": parameters, "key": KEY, "nonce": NONCE, **made._asdict()}
        yield vector(claim, "verifier_shares", **given)
        yield vector(claim, "accept", **given)
    made = plain.shard(Parameters(**SMALL), [3, -4, 0], NONCE, RANDOMNESS)
    other = plain.shard(Parameters(**SMALL), [0, 0, 5], NONCE, RANDOMNESS[::-1])
    assert made is not None
    assert other is not None
    whole: dict[str, Any] = {"parameters": SMALL, "key": KEY, "nonce": NONCE, **made._asdict()}
    beyond, encoded = MODULUS.to_bytes(8, "little"), 8 * Parameters(**SMALL).encoded_length
    for claim, bad in {
        "an entry one more": {"leader": changed(made.leader, 0)},
        "a bit of the norm": {"leader": changed(made.leader, 8 * 3)},
        "the last element of the proof": {"leader": changed(made.leader, len(made.leader) - 72)},
        "the leader's blind": {"leader": changed(made.leader, len(made.leader) - 64)},
        "the helper's seed": {"helper": changed(made.helper, 0)},
        "the helper's blind": {"helper": changed(made.helper, 96)},
        "the leader's part of the checks": {"public": changed(made.public, 0)},
        "the helper's part of the joint randomness": {"public": changed(made.public, 96)},
        "another nonce": {"nonce": bytes(16)},
        "another report's proof": {"leader": made.leader[:encoded] + other.leader[encoded:]},
        "another report's helper": {"helper": other.helper},
        "another report's leader": {"leader": other.leader},
        "another report's public part": {"public": other.public},
        "the first element is the modulus": {"leader": beyond + made.leader[8:]},
        "a leader's share too long": {"leader": made.leader + b"\0"},
        "a helper's share too short": {"helper": made.helper[1:]},
        "no public part": {"public": b""},
    }.items():
        yield vector(claim, "accept", **(whole | bad))


def changed(octets: bytes, at: int) -> bytes:
    return octets[:at] + bytes([octets[at] ^ 1]) + octets[at + 1 :]


def boxes() -> Iterator[Vector]:
    public, fields = ref.agreement_public(SECRET), [("text", "leader"), ("number", 7)]
    info = ref.info_of(fields)
    box = ref.seal_box(b"content", ephemeral=SEED, public=public, info=info)
    empty = ref.seal_box(b"", ephemeral=SEED, public=public, info=b"")
    yield vector("seven bytes and two fields", "open_box", secret=SECRET, box=box, fields=fields)
    yield vector("nothing at all", "open_box", secret=SECRET, box=empty, fields=[])
    for claim, bad in {
        "another key": {"secret": SEED},
        "another field": {"fields": [("text", "helper"), ("number", 7)]},
        "a field missing": {"fields": fields[:1]},
        "one bit of the content": {"box": changed(box, 32)},
        "one bit of the key inside": {"box": changed(box, 0)},
        "a key of low order inside": {"box": bytes(32) + box[32:]},
        "too short for a key": {"box": box[:31]},
        "too short for a tag": {"box": box[:40]},
    }.items():
        yield vector(claim, "open_box", **({"secret": SECRET, "box": box, "fields": fields} | bad))
