"""Vectors of clipping to a norm in whole numbers."""

from collections.abc import Iterator
from hashlib import sha256
from math import inf, nan

from vectors.entry import Vector, vector

GIVEN = {"sensitivity": 1.5, "fraction_bits": 10}


def reals(seed: str, many: int, *, size: float = 1.0) -> list[float]:
    """Of either sign, some of them 0, that nobody chose."""
    found = (sha256(f"{seed} {at}".encode()).digest() for at in range(many))
    numbers = (int.from_bytes(octets[:7], "big") / 2**56 - 0.5 for octets in found)
    return [0.0 if number > 0.45 else number * size for number in numbers]


def norm() -> Iterator[Vector]:
    for many in (1, 7, 8, 9, 130, 300):  # where the order of the sum changes
        yield vector(f"{many} entries", "unit_vector", values=reals("unit", many, size=3.0))
        yield vector(f"{many} entries", "clipped", values=reals("clipped", many, size=9.0), **GIVEN)
        yield vector(f"{many} entries", "scaled", values=reals("scaled", many, size=1e-3), **GIVEN)
    for many in (200, 257, 400, 600):  # in one part, two, and parts of parts
        for turn in range(4):
            short = [round(value, 3) for value in reals(f"length {turn}", many)]
            yield vector(f"{many} short numbers, {turn}", "length", values=short)
    for sensitivity, squares in ((3.0, 9), (2.75, 7), (2.0**31 - 1, (2**31 - 1) ** 2)):
        root = int(squares**0.5)
        for whole in ([root], [-root], [root, 1], [1, 1, 1, 1, 1, 1, 1], [0] * 3 + [2, 2, 1], [3, -1], [2**31], []):
            yield vector(
                f"whole numbers {whole} within {sensitivity}",
                "within_norm",
                flags=("at the limit",),
                whole=whole,
                sensitivity=sensitivity,
                fraction_bits=0,
            )
    for claim, values in {
        "nothing": [],
        "zeros": [0.0, -0.0],
        "one entry, shorter than the norm": [0.3],
        "a negative one, longer": [-7.0],
        "squares that vanish": [3e-200, -4e-200],
        "squares that overflow": [3e200, -4e200],
        "the smallest number": [5e-324],
        "the largest": [1.7976931348623157e308],
        "shorter than half a unit": [2.0**-12],
        "halves of units": [0.5 * 2.0**-10, 1.5 * 2.0**-10, -2.5 * 2.0**-10],
    }.items():
        flags = ("edge of floats",) if "e" in repr(values) else ()
        yield vector(claim, "clipped", values=values, flags=flags, **GIVEN)
        yield vector(claim, "scaled", values=values, flags=flags, **GIVEN)
    coarse = {"sensitivity": 3.0, "fraction_bits": 0}
    yield vector("rounding would eat it", "scaled", values=[1.0] * 9, flags=("at the limit",), **coarse)
    yield vector("entries that all round up", "scaled", values=[1.0] * 30, flags=("at the limit",), **coarse)
    largest = {"sensitivity": 2.0**31 - 1, "fraction_bits": 0}
    yield vector("the largest norm", "scaled", values=[3.0, -4.0, 0.1], flags=("at the limit",), **largest)
    for value in (nan, inf, -inf):
        yield vector(f"an entry is {value}", "clipped", values=[1.0, value], flags=("not a number",), **GIVEN)
    for claim, bad in {
        "a norm of 0": {"sensitivity": 0.0},
        "a norm that is not finite": {"sensitivity": inf},
        "a norm below a unit": {"sensitivity": 2.0**-11},
        "a norm of 2^31 units": {"sensitivity": 2.0**21},
        "41 fraction bits": {"fraction_bits": 41},
        "fewer than no fraction bits": {"fraction_bits": -1},
    }.items():
        yield vector(claim, "clipped", values=[0.1], **(GIVEN | bad))
