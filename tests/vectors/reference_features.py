"""Features of a person and of their records, and places not visited, in plain Python: what features/encoding.py,
features/history.py and device/records.py must give, to the bit."""

import json
from hashlib import blake2b
from math import asin, cos, inf, isfinite, isnan, log, log1p, nan, pi, radians, sin, sqrt
from struct import pack, unpack
from typing import Any

from vectors.reference import RefusedError, demand, derive
from vectors.reference_popularity import own_average, own_part

EARTH_KM = 6371.0088
Given = list[Any]  # ["number", x], ["word", w] or ["words", [w, ...]]


def f32(value: float) -> float:
    return float(unpack("<f", pack("<f", value))[0])


def known_or_zero(value: float) -> float:
    return 0.0 if isnan(value) else f32(value)


# Blocks


def width(block: dict[str, Any]) -> int:
    """Of a block that places have."""
    return len(block["words"]) if block["type"] == "words" else int(block.get("buckets", 1))


def column(block: dict[str, Any], given: Given | None) -> list[float]:
    """What does not fit the block counts as unknown: it was recorded before the device had this encoding."""
    told = given if given is not None and fits(block, given) else None
    if block["type"] in ("log", "range"):
        x = nan if told is None else told[1]
        if block["type"] == "log":
            size = log1p(abs(x))
            return [known_or_zero(((size if x > 0 else -size) - block.get("shift", 0.0)) / block.get("scale", 1.0))]
        inside = 2 * (x - block["low"]) / (block["high"] - block["low"]) - 1
        return [known_or_zero(nan if isnan(inside) else min(max(inside, -1.0), 1.0))]
    words = [] if told is None else words_of(told)
    if block["type"] == "words":
        return [float(word in words) for word in block["words"]]
    hit = {bucket(block, word) for word in words}
    return [float(at in hit) for at in range(block["buckets"])]


def words_of(given: Given) -> list[str]:
    return [given[1]] if given[0] == "word" else given[1]


def fits(block: dict[str, Any], given: Given) -> bool:
    """A number within its declared range, or words that are all declared."""
    if block["type"] in ("log", "range"):
        return given[0] == "number" and (block["type"] == "log" or block["low"] <= given[1] <= block["high"])
    return given[0] != "number" and (block["type"] == "hashed" or set(words_of(given)) <= set(block["words"]))


def bucket(block: dict[str, Any], word: str) -> int:
    hashed = blake2b(f"{block['column']}\0{word}".encode(), digest_size=8, person=b"prirec word").digest()
    return int.from_bytes(hashed, "little") % int(block["buckets"])


def area(block: dict[str, Any], home: list[float] | None) -> list[float]:
    if home is None:
        return [0.0] * len(block["centres"])
    apart = [chord2(unit(home), unit(centre)) for centre in block["centres"]]
    return [float(at == apart.index(min(apart))) for at in range(len(apart))]


def kilometres(block: dict[str, Any], km: float) -> float:
    return known_or_zero((log1p(km) - block["shift"]) / block["scale"])


def clock(seconds: int | None) -> list[float]:
    if seconds is None:
        return [0.0] * 5
    hour, weekday = 2 * pi * (seconds % 86400) / 86400, (seconds // 86400 + 3) % 7
    day = 2 * pi * weekday / 7
    return [f32(x) for x in (sin(hour), cos(hour), sin(day), cos(day), float(weekday >= 5))]


# The sphere


def unit(point: list[float]) -> list[float]:
    up, around = radians(point[0]), radians(point[1])
    return [cos(up) * cos(around), cos(up) * sin(around), sin(up)]


def chord2(a: list[float], b: list[float]) -> float:
    x, y, z = (one - other for one, other in zip(a, b, strict=True))
    return x * x + y * y + z * z


def arc_km(a: list[float], b: list[float]) -> float:
    up, around = sin((radians(b[0]) - radians(a[0])) / 2), sin((radians(b[1]) - radians(a[1])) / 2)
    inside = up * up + cos(radians(a[0])) * cos(radians(b[0])) * (around * around)
    return nan if isnan(inside) else 2 * EARTH_KM * asin(sqrt(min(inside, 1.0)))


def middle(points: list[list[float]]) -> list[float] | None:
    """Latitude and longitude by themselves, longitudes from the first one on."""
    if not points:
        return None
    first = points[0][1]
    around = halfway([(lon - first + 180.0) % 360.0 - 180.0 for _, lon in points])
    return [halfway([lat for lat, _ in points]), (around + first + 180.0) % 360.0 - 180.0]


def halfway(values: list[float]) -> float:
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


# Own history


def history(
    block: dict[str, Any], encoding: dict[str, Any], known: dict[str, Any], place: int, others: list[int]
) -> list[float]:
    if block["type"] in ("nearest", "density"):
        here = unit(known["location"][place])
        chords = [chord2(here, unit(known["location"][other])) for other in others]
        chords = [chord for chord in chords if not isnan(chord)]
        if block["type"] == "nearest":
            km = 2 * EARTH_KM * asin(min(sqrt(min(chords)) / 2, 1.0)) if chords else nan
            return [kilometres(block, km)]
        return [density(block, scale, chords) for scale in block["scales_km"]]
    names = [one["column"] for one in encoding["place"]]
    first = sum(width(one) for one in encoding["place"][: names.index(block["of"])])
    features = known["features"]
    if block["type"] == "affinity":
        terms = []
        for at, share in enumerate(block["shares"], start=first):
            if features[place][at] > 0:
                count = sum(features[other][at] > 0 for other in others)
                terms.append(log((count + 5.0 * share) / ((len(others) + 5.0) * share)))
        total = 0.0
        for term in terms:
            total += term
        return [f32(total / max(len(terms), 1))]
    mine, theirs = features[place][first], [features[other][first] for other in others]
    count = sum(value != 0 for value in theirs)
    total = sum(round(value * 2**16) for value in theirs) * 2.0**-16
    apart = abs(mine - total / count) if mine != 0 and count else nan
    return [known_or_zero((block["shift"] - apart) / block["scale"])]


def density(block: dict[str, Any], scale: float, chords: list[float]) -> float:
    if not chords:
        return 0.0
    total = 0.0
    for chord in chords:
        total += faded(EARTH_KM * sqrt(chord) / scale)
    return known_or_zero((log(total / len(chords) + 1e-3) - block["shift"]) / block["spread"])


def faded(x: float) -> float:
    y = x * (1 / 64)
    power = 1 + y * (1 + y * (1 / 2 + y * (1 / 6 + y * (1 / 24))))
    for _ in range(6):
        power = power * power if power < 1e150 else inf
    return 1 / power


# What may be published

POPULARITY = "weighted popularity"
SIDES = {"person": "lrwha", "place": "lrwh", "popularity": "l", "context": "lrwhdNDACt", "averages": "r"}
LETTERS = {
    "log": "l", "range": "r", "words": "w", "hashed": "h", "area": "a", "distance": "d", "nearest": "N",
    "density": "D", "affinity": "A", "closeness": "C", "clock": "t",
}  # fmt: skip
NEEDED = {
    "range": ["low", "high"], "words": ["words"], "hashed": ["buckets"], "area": ["centres"],
    "distance": ["shift", "scale"], "nearest": ["shift", "scale"], "density": ["scales_km", "shift", "spread"],
    "affinity": ["of", "shares"], "closeness": ["of", "shift", "scale"], "log": [], "clock": [],
}  # fmt: skip


def read_encoding(*, data: bytes) -> list[int]:
    """How many blocks each side of a published encoding has."""
    try:
        found = json.loads(data)
    except ValueError:
        raise RefusedError("DECODE") from None
    demand(isinstance(found, dict) and found.pop("version", None) == (2 if "averages" in found else 1), "DECODE")
    demand(found.keys() <= SIDES.keys(), "DECODE")
    for side, blocks in found.items():
        for block in blocks:
            checked(block, SIDES[side])
    demand(all(-1e9 <= one["low"] < one["high"] <= 1e9 for one in found.get("averages", [])), "DECODE")
    places = {one["column"]: one for one in found.get("place", [])}
    for block in found.get("context", []):
        if block["type"] in ("affinity", "closeness"):
            one, kind = places.get(block["of"], {}), {"affinity": "words", "closeness": "log"}[block["type"]]
            demand(one.get("type") == kind, "DECODE")
            demand(kind == "log" or len(one["words"]) == len(block["shares"]), "DECODE")
    demand(sum(block["type"] == "density" for block in found.get("context", [])) < 2, "DECODE")
    return [len(found.get(side, [])) for side in SIDES]


def checked(block: dict[str, Any], letters: str) -> None:
    kind = block.get("type", "")
    demand(kind in LETTERS and LETTERS[kind] in letters and isinstance(block.get("column"), str), "DECODE")
    demand(set(NEEDED[kind]) <= block.keys(), "DECODE")
    demand(block.keys() <= {"type", "column", *NEEDED[kind], *(["shift", "scale"] if kind == "log" else [])}, "DECODE")
    demand(abs(block.get("shift", 0)) <= 1e6 and 1e-9 <= block.get("scale", 1) <= 1e6, "DECODE")
    demand(1 <= block.get("buckets", 1) <= 4096, "DECODE")
    demand(all(isinstance(word, str) for word in block.get("words", [])), "DECODE")
    centres = block.get("centres", [[0, 0]])
    demand(bool(centres) and all(abs(lat) <= 90 and abs(lon) <= 180 for lat, lon in centres), "DECODE")


# Whole records


def records(
    *, encoding: str, known: dict[str, Any], profile: dict[str, Given], home: list[float] | None,
    visits: list[list[Any]], labelled: int, secret: bytes, rules: dict[str, Any],
    added: tuple[tuple[int, float], ...] = (), share: int = 0, part: str = "all",
) -> dict[str, Any]:  # fmt: skip
    """What stands in `Records`; a visit is its id, place, time, label and the values that describe it. With a share of
    the places held out, the part that is "learnt" or "held"."""
    blocks, position = json.loads(encoding), {one: at for at, one in enumerate(known["ids"])}
    recorded = [(visit, position[visit[1]], visit[3]) for visit in visits if visit[1] in position]
    rows = list(recorded)
    if not labelled:
        wanted = [[visit[0], place] for visit, place, label in recorded if label > 0]
        drawn = iter(
            negatives(
                visits=wanted, rows=known["rows"], location=known["location"], among=rules["negatives"],
                ratio=rules["ratio"], secret=derive(secret, fields=[("text", "prirec places not visited")]),
            )
        )  # fmt: skip
        rows = []
        for visit, place, label in recorded:
            rows += [(visit, place, label)]
            rows += [(visit, place_not_visited, -1) for place_not_visited in (next(drawn) if label > 0 else [])]
    held = {visit[1] for visit in visits if share and held_out(place=visit[1], secret=secret, share=share)}
    learnt = [row for row in rows if part == "all" or row[0][1] not in held]
    been = [place for _, place, label in learnt if label > 0]
    rows = [row for row in rows if row[0][1] in held] if part == "held" else learnt
    earlier = rules["only_earlier"] and part != "held"
    located = [known["location"][place] for place in been if not isnan(known["location"][place][0])]
    where = home if home is not None else middle(located)
    first: dict[int, float] = {}
    for visit, place, label in learnt:
        if label > 0:
            first[place] = min(first.get(place, inf), inf if visit[2] is None else visit[2])
    context, names = [], [block["column"] for block in blocks.get("popularity", [])]
    for visit, place, _ in rows:
        popular = [x for at, block in enumerate(blocks.get("popularity", [])) for x in
                   column(block, ["number", seen(known, place, at, dict(added), names)])]  # fmt: skip
        before = inf
        if earlier:
            before = -inf if visit[2] is None else visit[2]
        others = [
            one for one in sorted(first) if one != place and (first[one] < before or not earlier)
        ]  # fmt: skip
        moment = [x for block in blocks.get("context", []) for x in
                  of_moment(block, blocks, known, place, others, visit, where)]  # fmt: skip
        context.append([min(max(x, -1e6), 1e6) for x in popular + moment])
    me = person(encoding=encoding, profile=profile, home=where)
    assert all(isfinite(x) for x in me + [x for row in context for x in row])
    used = sorted({place for _, place, _ in rows})
    return {
        "person": [min(max(x, -1e6), 1e6) for x in me],
        "place": [used.index(place) for _, place, _ in rows],
        "context": context,
        "label": [label for *_, label in rows],
        "places": [known["features"][place] for place in used],
        "unknown": len(visits) - len(recorded),
    }


def held_out(*, place: str, secret: bytes, share: int) -> bool:
    """Whether a device with this secret holds a place out, by a share in thousandths."""
    key = derive(secret, fields=[("text", "prirec places not visited")])
    digest = blake2b(place.encode(), digest_size=8, key=key, person=b"prirec held out").digest()
    return int.from_bytes(digest, "little") < share * 2**64 / 1000


def seen(known: dict[str, Any], place: int, at: int, added: dict[int, float], names: list[str]) -> float:
    """Popularity or an average, without what this device has added to it itself."""
    released, mine = known["released"][place][at], added.get(known["rows"][place], 0.0)
    if "sums" not in known:
        return float(released)
    sums = {name: known["sums"][name][place] for name in ("opened", "predicted", "weight")}
    noise = {name: known["sums"][name] for name in ("sigma", "shape")}
    # where popularity has no column it is what is predicted, and the same everywhere
    visitors = known["released"][place][names.index(POPULARITY)] if POPULARITY in names else sums["predicted"]
    part = own_part(released=visitors, added=mine, **sums, **noise) if mine else 0.0
    if names[at] == POPULARITY:
        return float(released) - part
    for which, one in enumerate(known["sums"].get("averages", [])):
        value = added.get(known["rows"][place] + (1 + which) * known["sums"]["many"])
        if names[at] == one["column"] and value is not None:
            average = one | {"opened": one["opened"][place]}
            return float(released) - own_average(
                **average, sigma=noise["sigma"], released=released, visitors=visitors, own_visitors=part, added=value
            )
    return float(released)


def of_moment(
    block: dict[str, Any], blocks: dict[str, Any], known: dict[str, Any], place: int, others: list[int],
    visit: list[Any], home: list[float] | None,
) -> list[float]:  # fmt: skip
    if block["type"] == "distance":
        return [kilometres(block, nan if home is None else arc_km(home, known["location"][place]))]
    if block["type"] == "clock":
        return clock(visit[2])
    if block["type"] in ("nearest", "density", "affinity", "closeness"):
        return history(block, blocks, known, place, others)
    return column(block, visit[4].get(block["column"]))


def person(*, encoding: str, profile: dict[str, Given], home: list[float] | None) -> list[float]:
    blocks = json.loads(encoding).get("person", [])
    return [
        x for block in blocks
        for x in (area(block, home) if block["type"] == "area" else column(block, profile.get(block["column"])))
    ]  # fmt: skip


# Places not visited


def negatives(
    *, visits: list[list[Any]], rows: list[int], location: list[list[float]], among: str, ratio: int, secret: bytes
) -> list[list[int]]:
    """For each visit (its id and its place) positions of places, the first by a hash."""
    been, found = {place for _, place in visits}, []
    for visit, place in visits:
        pool = list(range(len(rows)))
        if among == "nearby" and not isnan(location[place][0]):
            there = [one for one in pool if not isnan(location[one][0])]
            pool = sorted(there, key=lambda one: chord2(unit(location[place]), unit(location[one])))[:201]
        hashed = blake2b(visit.encode(), digest_size=8, key=secret, person=b"prirec unvisited").digest()
        key = splitmix64(int.from_bytes(hashed, "little"))
        ranked = sorted((splitmix64(key ^ rows[one]), one) for one in pool if one not in been)
        found.append([one for _, one in ranked[:ratio]])
    return found


def splitmix64(x: int) -> int:
    z = (x + 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


def word_bucket(*, column: str, word: str, buckets: int) -> int:
    return bucket({"column": column, "buckets": buckets}, word)
