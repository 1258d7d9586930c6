"""Vectors of Shamir's sharing."""

from collections.abc import Iterator
from typing import Any

from vectors import reference as ref
from vectors.entry import SECRET, SEED, Vector, vector

PASSES_OVER_P = (3_996_810).to_bytes(32, "big")  # number 517 of its stream of 32-bit words is p in the low 31 bits


def shamir() -> Iterator[Vector]:
    yield from shamir_splits()
    yield from shamir_refusals_to_split()
    yield from shamir_combinations()


def shamir_splits() -> Iterator[Vector]:
    edge = [1, 2, ref.P - 1, 2**30]
    for claim, secret in {"zeros": bytes(32), "ones": b"\xff" * 32, "a count": SECRET}.items():
        yield vector(f"3 of 4, {claim}", "shamir_split", secret=secret, threshold=3, points=edge, seed=SEED)
    yield vector("1 of 2 repeats the secret", "shamir_split", secret=SECRET, threshold=1, points=[9, 8], seed=SEED)
    yield vector("a stream in which p is passed over", "shamir_split", **passing_over())


def passing_over() -> dict[str, Any]:
    return {"secret": SECRET, "threshold": 60, "points": list(range(1, 61)), "seed": PASSES_OVER_P}


def shamir_refusals_to_split() -> Iterator[Vector]:
    good: dict[str, Any] = {"secret": SECRET, "threshold": 2, "points": [1, 2, 3], "seed": SEED}
    for claim, wrong in {
        "a threshold of 0": {"threshold": 0},
        "a threshold beyond the shares": {"threshold": 4},
        "a point twice": {"points": [1, 2, 1]},
        "a point at 0": {"points": [0, 1, 2]},
        "a point before 0": {"points": [-1, 1, 2]},
        "a point at p": {"points": [1, 2, ref.P]},
        "a secret of 31 bytes": {"secret": SECRET[1:]},
        "a seed of 16 bytes": {"seed": SEED[:16]},
    }.items():
        yield vector(claim, "shamir_split", **(good | wrong))


def shamir_combinations() -> Iterator[Vector]:
    points = [5, 6, 7]
    shares = ref.shamir_split(SECRET, threshold=3, points=points, seed=SEED)
    yield vector("3 of 3", "shamir_combine", points=points, shares=shares)
    yield vector("3 of 3 the other way round", "shamir_combine", points=points[::-1], shares=shares[::-1])
    full = passing_over()
    yield vector("60 of 60", "shamir_combine", points=full["points"], shares=ref.shamir_split(**full))
    yield vector("one too few", "shamir_combine", points=points[:2], shares=shares[:2])
    yield vector("one share altered", "shamir_combine", points=points, shares=[[*shares[0][:8], 1], *shares[1:]])
    higher = [value + ref.P for value in shares[0]]
    yield vector("the right values, spelt p higher", "shamir_combine", points=points, shares=[higher, *shares[1:]])
    yield vector("a value that is not below p", "shamir_combine", points=points, shares=[[ref.P] * 9, *shares[1:]])
    for claim, limbs in {"a limb of 31 bits": [2**30, *[0] * 8], "a value of 257 bits": [*[0] * 8, 2**16]}.items():
        broken = ref.shamir_shares(limbs, threshold=3, points=points, seed=SEED)
        yield vector(claim, "shamir_combine", points=points, shares=broken)
    yield vector("a point twice", "shamir_combine", points=[5, 6, 5], shares=shares)
    yield vector("a point at 0", "shamir_combine", points=[5, 6, 0], shares=shares)
    yield vector("a share too many", "shamir_combine", points=points[:2], shares=shares)
    yield vector("no shares", "shamir_combine", points=[], shares=[])
