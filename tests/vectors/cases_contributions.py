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
        yield vector(
            f"{places} places", "visits_contribution", places=places, means=[], sensitivity=1.0, fraction_bits=14
        )
    yield vector("no places", "visits_contribution", places=0, means=[], sensitivity=1.0, fraction_bits=14)
    yield from averages()
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


def averages() -> Iterator[Vector]:
    for claim, places, means in (
        ("what was spent at two places of three", 3, [[0.5, -1.0]]),
        ("nothing is known of what was spent", 3, [[]]),
        ("an amount in the middle of its range", 2, [[0.0, 0.25]]),
        ("two averages at many places", 150, [reals("spent", 140), reals("stayed", 60)]),
        ("two averages, and no places", 0, [[], []]),
    ):
        yield vector(claim, "visits_contribution", places=places, means=means, sensitivity=1.0, fraction_bits=14)
    spent: dict[str, Any] = {"known": KNOWN, "column": "spend", "low": 10.0, "high": 90.0}
    for claim, visits in {
        "one visit": [("p1", 1, 42.5)],
        "several visits to a place": [("p3", 1, 10.0), ("p1", 1, 33.3), ("p3", 1, 90.0), ("p3", 1, 12.34)],
        "what does not fit counts as unknown": [("p1", 1, 9.99), ("p2", 1, 90.01), ("p3", 1, "50"), ("p4", 1, 50.0)],
        "nothing of what was ignored, or is elsewhere": [("p1", -1, 42.5), ("nowhere", 1, 42.5)],
    }.items():
        told = [
            [f"{at}", place, at, label, {"spend": ["word" if isinstance(much, str) else "number", much]}]
            for at, (place, label, much) in enumerate(visits)
        ]
        yield vector(claim, "own_means", visits=told, **spent)


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
    average = {
        "low": 10.0, "high": 90.0, "middle": 0.25, "spread": 0.125, "opened": 3.5, "sigma": 4.225, "released": 61.5,
        "visitors": 7.5, "own_visitors": 0.375, "added": -0.25, "column": "average spend",
    }  # fmt: skip
    for claim, change in {
        "an average like others": {},
        "an amount in the middle of its range": {"added": 0.0},
        "the only visitor, and more": {"visitors": 0.25},
        "nobody is said to have been there": {"visitors": -0.5, "own_visitors": 0.0},
        "noise drowns how places differ": {"spread": 0.0},
        "beyond the range": {"opened": 400.0},
    }.items():
        yield vector(claim, "own_average", within="1e-9", **(average | change))
