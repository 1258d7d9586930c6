"""Vectors of features, of whole records, and of places not visited, in a city of fourteen places."""

import json
from collections.abc import Iterator
from math import inf, nan
from typing import Any

from vectors.entry import SECRET, SEED, Vector, vector

SHARES = [0.4, 0.3, 0.05, 0.001]
KINDS = ["bar", "café", "museum", "市"]
ENCODING: dict[str, Any] = {
    "version": 1,
    "person": [
        {"type": "log", "column": "friends", "scale": 3.9318256327243257},
        {"type": "range", "column": "age", "low": 18.0, "high": 99.0},
        {"type": "words", "column": "speaks", "words": ["de", "en", "fr"]},
        {"type": "hashed", "column": "likes", "buckets": 5},
        {"type": "area", "column": "home area", "centres": [[47.37, 8.54], [47.5, 8.72], [46.95, 7.45]]},
    ],
    "place": [
        {"type": "words", "column": "kind", "words": KINDS},
        {"type": "log", "column": "price", "shift": 2.5, "scale": 0.75},
    ],
    "popularity": [{"type": "log", "column": "weighted popularity", "shift": 1.25, "scale": 0.5}],
    "context": [
        {"type": "distance", "column": "distance from home", "shift": 1.791759469228055, "scale": 2.0},
        {"type": "nearest", "column": "distance from own visits", "shift": 0.6931471805599453, "scale": 1.0},
        {
            "type": "density", "column": "density of own visits", "scales_km": [0.5, 2.0, 8.0],
            "shift": -3.4538776394910684, "spread": 2.302585092994046,
        },
        {"type": "affinity", "column": "own visits by kind", "of": "kind", "shares": SHARES},
        {"type": "closeness", "column": "own visits by price", "of": "price", "shift": 0.7978845608028654, "scale": 1},
        {"type": "clock", "column": "time"},
        {"type": "words", "column": "weather", "words": ["dry", "rain"]},
    ],
}  # fmt: skip
BARE = {"version": 1, "place": ENCODING["place"]}
MANY = 14
LOCATION = [[47.36 + 0.013 * at, 8.5 + 0.017 * (at * 5 % MANY)] for at in range(MANY)]
LOCATION[6] = [nan, nan]
KNOWN: dict[str, Any] = {
    "ids": [f"p{at}" for at in range(MANY)],
    "rows": [3 * at + at % 2 for at in range(MANY)],
    "location": LOCATION,
    # the first words of each place, and a price: multiples of 1/8, one unknown, are floats of 32 bits
    "features": [
        [*(float(at % 4 == kind or (at == 5 and kind == 2)) for kind in range(4)), (at * 7 % 11 - 5) / 8]
        for at in range(MANY)
    ],
    "released": [[0.25 * at * at] for at in range(MANY)],
}
SUMS: dict[str, Any] = {
    "opened": [0.25 * at * at + at % 3 - 1 for at in range(MANY)], "predicted": [1.0 + at for at in range(MANY)],
    "weight": [0.05] * MANY, "sigma": 2.5, "shape": 1.5,
}  # fmt: skip
SPENDING = ENCODING | {
    "version": 2, "averages": [{"type": "range", "column": "spend", "low": 10.0, "high": 90.0}],
    "popularity": [*ENCODING["popularity"], {"type": "log", "column": "average spend", "shift": 3.5, "scale": 0.25}],
}  # fmt: skip
SPENT = {
    "column": "average spend", "low": 10.0, "high": 90.0, "middle": 0.25, "spread": 0.125,
    "opened": [0.5 * at - at % 4 for at in range(MANY)],
}  # fmt: skip
AVERAGED = SUMS | {"averages": [SPENT], "many": 60}
PROFILE: dict[str, Any] = {
    "friends": ["number", 120.0], "age": ["number", 35.0], "speaks": ["words", ["fr", "de", "it"]],
    "likes": ["words", ["music", "市", "tea"]], "shoe size": ["number", 42.0],
}  # fmt: skip
MONDAY = 1_714_953_600  # midnight
VISITS: list[list[Any]] = [
    ["a", "p1", None, 1, {}],
    ["b", "p4", MONDAY + 34_567, 1, {"weather": ["word", "rain"]}],
    ["c", "p2", MONDAY + 86_400 * 5 + 3_600, -1, {"weather": ["word", "snow"]}],
    ["d", "p9", MONDAY + 86_400 * 5 + 3_600, 1, {}],
    ["e", "elsewhere", MONDAY + 86_400 * 6, 1, {}],
    ["f", "p4", MONDAY + 86_400 * 9 - 1, 1, {}],
    ["g", "p6", MONDAY + 86_400 * 9, 1, {}],
    ["h", "p5", -86_401, 1, {"weather": ["words", ["dry", "rain"]]}],
]
RULES = {"ratio": 2, "negatives": "uniform", "only_earlier": 0}
HOME = [47.4, 8.55]


def features() -> Iterator[Vector]:
    text = json.dumps(ENCODING)
    for claim, profile in {
        "everything": PROFILE,
        "nothing": {},
        "one word instead of a list": {"speaks": ["word", "en"]},
        "a number beyond its range, and one that is far out": {"age": ["number", 7.0], "friends": ["number", -1e300]},
        "numbers at the ends of their range": {"age": ["number", 99.0]},
        "declared words": {"speaks": ["words", ["fr", "de"]]},
        "no words": {"speaks": ["words", []], "likes": ["words", []]},
        "the least number": {"friends": ["number", 5e-324]},
        "words that are not declared": {"speaks": ["words", ["x", "", "constructor"]]},
    }.items():
        yield vector(claim, "person", encoding=text, profile=profile, home=HOME)
    for claim, home in {
        "no home": None,
        "in the second area": [47.49, 8.8],
        "as near to one as to another": [90.0, 0.0],
        "at the pole": [-90.0, 0.0],
        "beyond the date line": [46.9, -179.9],
    }.items():
        yield vector(claim, "person", encoding=text, profile={}, home=home)
    for claim, profile in {
        "a word where a number belongs": {"age": ["word", "35"]},
        "words where a number belongs": {"friends": ["words", ["many"]]},
        "a number where words belong": {"speaks": ["number", 3.0]},
        "a number where hashed words belong": {"likes": ["number", 3.0]},
    }.items():
        yield vector(claim, "person", encoding=text, profile=profile, home=HOME)
    for word in ("", "tea", "Tee 市 🍵", "x" * 119, "x" * 120, "x" * 121, "x" * 500):  # where a hash has more blocks
        yield vector(
            f"a word of {len(word)} letters: {word[:8]}", "word_bucket", column="likes", word=word, buckets=4096
        )
    yield from damaged()


def damaged() -> Iterator[Vector]:
    """Encodings that no deployment publishes: the features of nothing, if they were read."""
    changes: dict[str, Any] = {
        "version 2 without averages": {"version": 2},
        "version 1 with averages": {"averages": SPENDING["averages"]},
        "version 3": {"version": 3, "averages": SPENDING["averages"]},
        "an average upside down": {
            "version": 2,
            "averages": [{"type": "range", "column": "x", "low": 1.0, "high": 0.0}],
        },
        "an average beyond all use": {
            "version": 2,
            "averages": [{"type": "range", "column": "x", "low": 0.0, "high": 1e10}],
        },
        "an average of words": {"version": 2, "averages": [{"type": "words", "column": "x", "words": ["a"]}]},
        "no version": {"version": None},
        "a side that there is not": {"moment": []},
        "a block that there is not": {"person": [{"type": "square", "column": "x"}]},
        "a block for another side": {"person": [{"type": "clock", "column": "x"}]},
        "a field that there is not": {"person": [{"type": "clock", "column": "x", "hours": 12}]},
        "no column": {"person": [{"type": "log"}]},
        "a scale of 0": {"person": [{"type": "log", "column": "x", "scale": 0.0}]},
        "a shift beyond all use": {"person": [{"type": "log", "column": "x", "shift": 1e7}]},
        "no buckets": {"person": [{"type": "hashed", "column": "x", "buckets": 0}]},
        "an area beyond the globe": {"person": [{"type": "area", "column": "x", "centres": [[91.0, 0.0]]}]},
        "no areas": {"person": [{"type": "area", "column": "x", "centres": []}]},
        "words that are numbers": {"person": [{"type": "words", "column": "x", "words": [1]}]},
        "an affinity with another number of shares": {
            "place": ENCODING["place"],
            "context": [{"type": "affinity", "column": "x", "of": "kind", "shares": [0.5]}],
        },
        "a closeness of words": {
            "place": ENCODING["place"],
            "context": [{"type": "closeness", "column": "x", "of": "kind", "shift": 0.0, "scale": 1.0}],
        },
        "two densities": {"context": [ENCODING["context"][2]] * 2},
    }
    for claim, change in changes.items():
        yield vector(claim, "read_encoding", data=json.dumps({"version": 1} | change).encode())
    yield vector("no JSON", "read_encoding", data=b'{"version": 1')
    yield vector("a list", "read_encoding", data=b"[]")
    yield vector("what is usual", "read_encoding", data=json.dumps(ENCODING).encode())
    yield vector("with averages", "read_encoding", data=json.dumps(SPENDING).encode())


def records() -> Iterator[Vector]:
    given: dict[str, Any] = {
        "encoding": json.dumps(ENCODING), "known": KNOWN, "profile": PROFILE, "home": HOME, "visits": VISITS,
        "labelled": 1, "secret": SECRET, "rules": RULES,
    }  # fmt: skip
    for claim, change in {
        "with labels": {},
        "with negatives": {"labelled": 0},
        "with negatives from nearby": {"labelled": 0, "rules": RULES | {"negatives": "nearby", "ratio": 3}},
        "only what was earlier": {"rules": RULES | {"only_earlier": 1}},
        "no home": {"home": None},
        "popularity without the own part": {
            "known": KNOWN | {"sums": SUMS},
            "added": [[4, 0.5], [12, 0.25], [28, 0.5], [99, 0.5]],
            "labelled": 0,
        },
        "averages without the own part": {
            "encoding": json.dumps(SPENDING),
            "labelled": 0,
            "known": KNOWN | {"sums": AVERAGED, "released": [[0.25 * at * at, 40.0 + 3 * at] for at in range(MANY)]},
            "added": [[4, 0.5], [12, 0.25], [28, 0.5], [64, -0.25], [72, 0.0], [99, 0.5]],
        },
        "averages where popularity is the same everywhere": {
            "encoding": json.dumps(SPENDING | {"popularity": SPENDING["popularity"][1:]}),
            "labelled": 0,
            "known": KNOWN | {"sums": AVERAGED | {"shape": inf}, "released": [[40.0 + 3 * at] for at in range(MANY)]},
            "added": [[4, 0.5], [64, -0.25]],
        },
        "no home, across the date line": {
            "home": None,
            "known": KNOWN | {"location": across_the_date_line()},
            "visits": [["a", "p1", None, 1, {}], ["b", "p5", 0, 1, {}], ["c", "p8", 1, 1, {}], ["d", "p0", 2, 1, {}]],
        },
        "nothing visited": {"visits": []},
        "nothing visited, and no home": {"visits": VISITS[2:3], "home": None},
        "one place alone": {"visits": VISITS[:1]},
        "more negatives than places": {"labelled": 0, "rules": RULES | {"ratio": 20}, "visits": VISITS[:2]},
        "features of places alone": {"encoding": json.dumps(BARE), "known": KNOWN | {"released": [[]] * MANY}},
        "nowhere a place has coordinates": {"known": KNOWN | {"location": [[nan, nan]] * MANY}},
    }.items():
        yield vector(claim, "records", **(given | change))
    wrong = [["a", "p1", 0, 1, {"weather": ["number", 1.0]}]]
    yield vector("a number where words belong counts as unknown", "records", **(given | {"visits": wrong}))
    for claim, secret in {"one secret": SECRET, "another": SEED}.items():
        for among in ("uniform", "nearby"):
            visits = [["a", 1], ["b", 6], ["c", 1], ["", 13]]
            yield vector(
                f"{claim}, {among}", "negatives", visits=visits, rows=KNOWN["rows"], location=LOCATION, among=among,
                ratio=3, secret=secret,
            )  # fmt: skip


def across_the_date_line() -> list[list[float]]:
    return [[10.0 + at, 179.5 + at % 3 / 2 - 360.0 * (at % 3 > 1)] for at in range(MANY)]
