"""What a device adds to the sums of a campaign, in plain Python: what device/rounds.py must give, to the bit."""

from math import exp, log, log1p, sqrt
from typing import Any

from vectors import reference_features as ref
from vectors import reference_norm
from vectors.reference_model import WORDS, Model, cut, fine

Row = list[float]


def visits_contribution(
    *, places: int, means: list[list[float]], sensitivity: float, fraction_bits: int
) -> list[int]:  # fmt: skip
    """The places, then the own means of what is averaged, to one norm."""
    parts = [[1.0] * places, *means]
    values, square = [x for part in parts for x in part], added(added(x * x for x in part) for part in parts)
    factor = (1 - (len(values) + 8) * 2.0**-52) / sqrt(square) if square else 0.0
    return reference_norm.clipped(
        values=[x * factor for x in values], sensitivity=sensitivity, fraction_bits=fraction_bits
    )


def own_means(
    *, visits: list[list[Any]], known: dict[str, Any], column: str, low: float, high: float
) -> list[list[Any]]:  # fmt: skip
    """The mean of a number of the visits to each place, by position, on its range from -1 to 1."""
    found: dict[int, list[float]] = {}
    for _, place, _, label, said in visits:
        kind, value = said.get(column, ["nothing", None])
        if label > 0 and place in known["ids"] and kind == "number" and low <= value <= high:
            scaled = min(max((2 * value - low - high) / (high - low), -1.0), 1.0)
            found.setdefault(known["ids"].index(place), []).append(scaled)
    return [[place, added(values) / len(values)] for place, values in sorted(found.items())]


def moments_contribution(*, clip: float, fraction_bits: int, most: int, **given: Any) -> list[int]:
    model = Model(given["encoding"], given.pop("scales"), given.pop("shared"))
    found = ref.records(**given)
    rows = [[fine(cut(x)) for x in row[len(model.popularity) :]] for row in found["context"]]
    who, many = [fine(cut(x)) for x in found["person"]], max(len(rows), 1)
    means = [added(row[at] for row in rows) / many for at in range(len(model.moment))]
    squares = [added(row[at] ** 2 for row in rows) / many for at in range(len(model.moment))]
    numbers = [block["type"] not in WORDS for _, block in model.person]
    timed = [block["type"] not in WORDS for _, block in model.moment]
    values = [x / 3 if number else x for x, number in zip(who, numbers, strict=True)]
    values += [(x / 3) ** 2 for x, number in zip(who, numbers, strict=True) if number]
    values += [x / 3 if number else x for x, number in zip(means, timed, strict=True)]
    values += [x / 9 for x, number in zip(squares, timed, strict=True) if number]
    values += [float(bool(rows)), sum(label > 0 for label in found["label"]) / many, min(sqrt(len(rows)) / 10, 1.0)]
    length = sqrt(added(x * x for x in values))
    factor = clip / length if length > clip else 1.0
    return shortened([round(x * factor * 2**fraction_bits) for x in values], most)


def gradient_contribution(*, clip: float, fraction_bits: int, most: int, **given: Any) -> list[int]:
    model = Model(given["encoding"], given.pop("scales"), given.pop("shared"))
    found = ref.records(**given)
    who = model.a(found["person"])
    own, g = model.coefficients(who), [0.0] * model.width
    for place, context, label in zip(found["place"], found["context"], found["label"], strict=True):
        b, y = model.b(found["places"][place], context), 1.0 if label > 0 else -1.0
        score = model.base + added(w * x for w, x in zip(own, b, strict=True))
        pull = fine(-y / (1 + exp(y * score)), 2.0**16)
        g = [total + pull * x for total, x in zip(g, b, strict=True)]
    crossed = [g[column] for column in model.crossed]
    length = sqrt(dot(g) + dot(who[1:]) * dot(crossed))
    entries = len(g) + len(who[1:]) * len(crossed)
    longest = max(length, 0.3 * sqrt(len(found["label"]) * entries))
    factor = clip * 2.0**fraction_bits * (1 / longest) if longest else 0.0
    whole = [round(x * factor) for x in g]
    for value in who[1:]:
        whole += [round(x * (value * factor)) for x in crossed]
    return shortened(whole, most)


def quality_contribution(*, labels: list[int], scores: list[float], hit: int | None, fraction_bits: int) -> list[int]:
    edges = [1.25 * log(k / (12 - k)) for k in range(1, 12)]
    positives, negatives = ([s for s, y in zip(scores, labels, strict=True) if y == one] for one in (1, -1))
    parts, values = [0.27] * 24 + [0.1, 0.1, 0.06, 0.06 / 0.25, 0.24 / 4.0], list[float]()
    for some in (positives, negatives):
        bins = [sum(edge <= s for edge in edges) for s in some]
        values += [bins.count(at) / max(len(some), 1) for at in range(12)]
    values += [float(hit == 0), float(hit == 1), 0.0, 0.0, 0.0]
    if labels:
        loss = added(lost(y * s) for s, y in zip(scores, labels, strict=True)) / len(labels)
        values[-3:] = [1.0, len(positives) / len(labels) - 0.5, min(loss, 2.5) - 0.5]
    longest = 1.0 - sqrt(29) / 2.0 ** (fraction_bits + 1)
    return [round(x * (sqrt(part) * longest) * 2.0**fraction_bits) for x, part in zip(values, parts, strict=True)]


def lost(margin: float) -> float:
    return max(0.0, -margin) + log1p(exp(-abs(margin)))


def added(values: Any) -> float:
    total = 0.0
    for value in values:
        total += value
    return total


def dot(values: Row) -> float:
    """The sum of squares, as four sums side by side."""
    last = len(values) // 4 * 4
    a, b, c, d = (added(x * x for x in values[at:last:4]) for at in range(4))
    for x in values[last:]:
        a += x * x
    return (a + b) + (c + d)


def shortened(whole: list[int], most: int) -> list[int]:
    while sum(x * x for x in whole) > most:
        whole = [x - (x > 0) + (x < 0) for x in whole]
    return whole
