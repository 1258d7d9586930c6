"""Vectors of what a device adds to the sums of a campaign."""

from collections.abc import Iterator
from math import inf
from typing import Any

from vectors.cases_features import KNOWN, PROFILE, RULES, SECRET
from vectors.cases_model import GIVEN, NARROW, often
from vectors.cases_norm import reals
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

    yield from quality()


def quality() -> Iterator[Vector]:
    told = {"fraction_bits": 11}
    for claim, change in {
        "nothing held out": {"labels": [], "scores": [], "hit": None},
        "a positive and a negative, and a hit": {"labels": [1, -1], "scores": [0.75, -1.5], "hit": 1},
        "positives alone, and a miss": {"labels": [1, 1, 1], "scores": [0.0, 2.0, -3.25], "hit": 0},
        "negatives alone": {"labels": [-1, -1], "scores": [0.5, 0.5], "hit": None},
        "as wrong as can be": {"labels": [1, -1], "scores": [-9.0, 9.0], "hit": 0},
        "many records": {
            "labels": [1 if x > 0.5 else -1 for x in reals("labels", 40)],
            "scores": [3 * x for x in reals("scores", 40)], "hit": 1,
        },
    }.items():  # fmt: skip
        yield vector(claim, "quality_contribution", **(told | change))
    ids = [f"p{at}" for at in range(40)] + ["", "Café Übersee"]
    for share in (0, 1, 200, 500):
        yield vector(f"{share} of 1,000 places", "held_out", places=ids, secret=SECRET, share=share)
    for claim, change in {
        "a fifth of the places": {"share": 200},
        "half of the places": {"share": 500},
        "none of the places": {"share": 0},
        "half of the places, with negatives": {"share": 500, "labelled": 0},
        "half of many records": {"share": 500, "visits": often()},
        "half of the places, without a home": {"share": 500, "home": None},
        "half of what was earlier": {"share": 500, "rules": RULES | {"only_earlier": 1}},
    }.items():
        yield vector(claim, "measured", within="1e-9", **(GIVEN | change))


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
