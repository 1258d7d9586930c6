"""Vectors of what a device adds to the sums of a campaign."""

from collections.abc import Iterator
from math import inf
from typing import Any

from vectors.cases_features import KNOWN, PROFILE, RULES
from vectors.cases_model import GIVEN, NARROW, often
from vectors.entry import Vector, vector

CODE: dict[str, Any] = {"clip": 1.0, "fraction_bits": 12, "most": 2**24}


def contributions() -> Iterator[Vector]:
    for places in (1, 2, 3, 9, 130, 1000):
        yield vector(f"{places} places", "visits_contribution", places=places, sensitivity=1.0, fraction_bits=14)
    yield vector("no places", "visits_contribution", places=0, sensitivity=1.0, fraction_bits=14)
    for claim, change in {
        "few records": {},
        "no records": {"visits": []},
        "no records, and nothing known": {"visits": [], "profile": {}, "home": None},
        "with negatives": {"labelled": 0},
        "many records": {"visits": often()},
        "only what was earlier": {"rules": RULES | {"only_earlier": 1}},
        "numbers far out": {"profile": PROFILE | {"friends": ["number", 1e30], "age": ["number", 18.0]}},
        "a gradient that is short": {"scales": NARROW, "visits": often(mixed=True)},
        "a bound that rounding would pass": {"clip": 0.1, "fraction_bits": 6, "most": 30},
        "popularity that is steep": {"known": KNOWN | {"released": [[1e6]] * len(KNOWN["ids"])}},
    }.items():
        flags = ("at the limit",) if "bound" in claim else ()
        yield vector(
            claim, "moments_contribution", flags=flags, **(GIVEN | CODE | {"clip": 2.5, "most": 10**8} | change)
        )
        yield vector(claim, "gradient_contribution", flags=flags, **(GIVEN | CODE | change))


def popularity() -> Iterator[Vector]:
    place = {
        "released": 7.5,
        "opened": 9.0,
        "predicted": 5.0,
        "weight": 0.125,
        "sigma": 4.225,
        "shape": 1.5,
        "added": 0.5,
    }
    for claim, change in {
        "a place like others": {},
        "a sum below 0": {"opened": -12.0, "released": 1.0},
        "a sum far above what is predicted": {"opened": 400.0, "released": 380.0},
        "a wide prior": {"shape": 0.02},
        "a narrow one": {"shape": 300.0},
        "the prediction alone": {"shape": inf},
        "nothing rose out of the noise": {"shape": 0.0, "released": 0.0},
        "hardly any noise": {"sigma": 0.01},
        "a prediction that is the own sum": {"weight": 1.0, "predicted": 0.5},
        "the only visitor": {"opened": 1.0, "added": 1.0, "predicted": 0.1, "sigma": 0.5},
    }.items():
        yield vector(claim, "own_part", within="1e-9", **(place | change))
