"""Vectors of the shared model's columns, of own models, and of recommendations with reasons."""

import json
from collections.abc import Iterator
from struct import pack
from typing import Any

from vectors.cases_features import BARE, ENCODING, HOME, KNOWN, MANY, MONDAY, PROFILE, RULES, SECRET, VISITS
from vectors.cases_norm import reals
from vectors.entry import Vector, vector

CLOSE = "1e-9"
PERSON, MOMENT, PLACE_WORDS, WIDTH, CROSSED = 13, 14, 4, 69, 15


def multiples(seed: str, many: int, *, of: float, size: float) -> list[float]:
    return [round(x * size / of) * of for x in reals(seed, many)]


SCALES: dict[str, Any] = {
    "person_mean": reals("person", PERSON), "person_sd": [0.3 + abs(x) for x in reals("person sd", PERSON)],
    "moment_mean": reals("moment", MOMENT), "moment_sd": [0.3 + abs(x) for x in reals("moment sd", MOMENT)],
    "positive": 0.375, "root_records": 4.0,
    "word_factor": multiples("factor", PLACE_WORDS, of=2.0**-8, size=6.0),
    "word_centre": multiples("centre", PLACE_WORDS, of=2.0**-8, size=2.0),
}  # fmt: skip
# under which columns are so short that a gradient is divided by its typical length, not by its own, and that a strong
# prior is believed
NARROW = SCALES | {
    "person_mean": [0.0] * PERSON, "person_sd": [1e6] * PERSON, "moment_mean": [0.0] * MOMENT,
    "moment_sd": [1e6] * MOMENT, "word_factor": [0.0] * PLACE_WORDS, "word_centre": [0.0] * PLACE_WORDS,
}  # fmt: skip
ENTRIES = multiples("B", WIDTH + PERSON * CROSSED, of=2.0**-20, size=0.8)
SHARED = pack(f"<{len(ENTRIES)}f", *ENTRIES)
MODEL: dict[str, Any] = {"encoding": json.dumps(ENCODING), "scales": SCALES, "shared": SHARED}
GIVEN: dict[str, Any] = {
    **MODEL, "known": KNOWN, "profile": PROFILE, "home": HOME, "visits": VISITS, "labelled": 1, "secret": SECRET,
    "rules": RULES,
}  # fmt: skip
ASKED: dict[str, Any] = {**GIVEN, "here": None, "time": None, "many": 5, "radius": 5.0}


def often(*, mixed: bool = False) -> list[list[Any]]:
    """More records than the model has columns; mixed: with labels that follow no rule."""
    labels = [1 if x > 0 else -1 for x in reals("labels", WIDTH + 8)]
    return [
        [
            f"v{at}",
            f"p{at * 5 % MANY}",
            MONDAY + 40_000 * at,
            labels[at] if mixed else 1 if at % 3 else -1,
            {"weather": ["word", "dry"]},
        ]
        for at in range(WIDTH + 8)
    ]


def models() -> Iterator[Vector]:
    for seed in range(3):
        features = {
            "person": [round(x * 2**10) / 2**8 for x in reals(f"person {seed}", PERSON)],
            "place": KNOWN["features"][seed],
            "context": [round(x * 2**11) / 2**8 for x in reals(f"context {seed}", MOMENT + 1)],
        }
        yield vector(f"a record, {seed}", "rows", **MODEL, **features)
    zeros = {"person": [0.0] * PERSON, "place": [0.0] * 5, "context": [0.0] * (MOMENT + 1)}
    yield vector("nothing known", "rows", **MODEL, **zeros)
    far = {"person": [1e6] * PERSON, "place": [3.5] * 5, "context": [-1e6] * (MOMENT + 1)}
    yield vector("beyond what is cut off", "rows", flags=("at the limit",), **MODEL, **far)
    for claim, change in {
        "a spread of 0.01": {"person_sd": [0.01] * PERSON},
        "a spread that is not a number": {"moment_sd": [float("nan")] * MOMENT},
        "a mean of 4": {"moment_mean": [4.0] * MOMENT},
        "a mean too few": {"moment_mean": [0.0] * (MOMENT - 1)},
        "everything is positive": {"positive": 1.0},
        "more records than a device has": {"root_records": 2.0**15},
        "a factor between two multiples": {"word_factor": [0.001] * PLACE_WORDS},
        "a factor beyond all use": {"word_factor": [51.0] * PLACE_WORDS},
    }.items():
        yield vector(claim, "rows", **(MODEL | {"scales": SCALES | change}), **zeros)
    for claim, shared in {
        "an entry too few": SHARED[4:],
        "an entry of 16": pack("<f", 16.0) + SHARED[4:],
        "an entry that is not a number": pack("<f", float("nan")) + SHARED[4:],
        "an entry between two multiples": pack("<f", 2.0**-21) + SHARED[4:],
    }.items():
        yield vector(claim, "rows", **(MODEL | {"shared": shared}), **zeros)
    for claim, change in {
        "few records": {},
        "no records": {"visits": []},
        "with negatives": {"labelled": 0},
        "more records than columns": {"visits": often()},
        "more records than columns, with mixed labels": {"visits": often(mixed=True)},
        "short columns, few records": {"scales": NARROW},
        "short columns, more records than columns": {"scales": NARROW, "visits": often(mixed=True)},
    }.items():
        yield vector(claim, "own_model", within=CLOSE, **(GIVEN | change))


def recommendations() -> Iterator[Vector]:
    bare = {
        "encoding": json.dumps(BARE), "known": KNOWN | {"released": [[]] * MANY}, "profile": {},
        "scales": SCALES | {"person_mean": [], "person_sd": [], "moment_mean": [], "moment_sd": []},
        "shared": SHARED[: 4 * 7],
    }  # fmt: skip
    for claim, change in {
        "at home": {},
        "somewhere else, on a Saturday night": {"here": [47.5, 8.7], "time": MONDAY + 86_400 * 5 + 82_800},
        "within a kilometre": {"radius": 1.0},
        "within no distance": {"radius": 0.0, "many": 1},
        "everywhere": {"radius": 20_000.0, "many": 100},
        "without a home": {"home": None},
        "with nothing visited": {"visits": []},
        "with neither": {"visits": [], "home": None, "profile": {}},
        "with negatives": {"labelled": 0, "rules": RULES | {"ratio": 4}},
        "after many visits": {"visits": often()[:9], "many": 3},
        "features of places alone": bare,
        "no place has coordinates": {"known": KNOWN | {"location": [[float("nan")] * 2] * MANY}},
        "no place is near": {"here": [0.0, 0.0]},
        "no places wanted": {"many": 0},
    }.items():
        yield vector(claim, "recommend", within=CLOSE, **(ASKED | change))
