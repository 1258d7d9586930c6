"""The shared model, a person's own model around it, and recommendations with reasons, in plain Python: what
features/columns.py, model/shared_model.py, model/own_model.py, protocols/prediction.py, protocols/reasons.py must give.
A square matrix is solved by NumPy; Newton's method runs in the space of columns throughout."""

import json
from itertools import combinations_with_replacement, pairwise
from math import exp, isnan, log, log1p, nan
from statistics import median
from struct import unpack
from typing import Any

import numpy as np

from vectors import reference_features as ref
from vectors.reference import demand

WORDS = ("words", "hashed", "area")
HISTORY = ("nearest", "density", "affinity", "closeness")


def width(block: dict[str, Any]) -> int:
    if block["type"] == "clock":
        return 5
    return len(block.get("scales_km") or block.get("centres") or []) or ref.width(block)


def columns_of(blocks: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    """For each feature its place among the features of its block, and the block."""
    return [(at, block) for block in blocks for at in range(width(block))]


class Model:
    """An encoding with what its columns are scaled by, and B."""

    def __init__(self, encoding: str, scales: dict[str, Any], shared: bytes) -> None:
        self.blocks = {"person": [], "place": [], "popularity": [], "context": []} | json.loads(encoding)
        self.person = columns_of(self.blocks["person"])
        self.places = columns_of(self.blocks["place"])
        self.popularity = columns_of(self.blocks["popularity"])
        self.moment = columns_of(self.blocks["context"])
        self.core = [*self.places, *self.popularity, *self.moment]  # without the 1
        self.words = [at for at, (_, block) in enumerate(self.places) if block["type"] in WORDS]
        numbers = [
            at for at, (e, block) in enumerate(self.core)
            if e == 0 and block["type"] != "clock" and not (block["type"] in WORDS and at < len(self.places))
            and block["type"] not in WORDS
        ][:12]  # fmt: skip
        clock = [at for at, (_, block) in enumerate(self.core) if block["type"] == "clock"]
        self.pairs = list(combinations_with_replacement(numbers, 2))
        self.timed = [(at, word) for at in clock for word in self.words[:64]]
        self.width = 1 + len(self.core) + len(self.pairs) + len(self.timed)
        self.crossed = [0] + [at + 1 for at, (_, block) in enumerate(self.core) if block["type"] not in HISTORY]
        check_scales(scales, person=len(self.person), moment=len(self.moment), words=len(self.words))
        self.scales = scales
        many = self.width + len(self.person) * len(self.crossed)
        demand(len(shared) == 4 * many, "DECODE")
        entries = list(unpack(f"<{many}f", shared))
        demand(all(abs(x) <= 16 - 2.0**-20 and x * 2**20 % 1 == 0 for x in entries), "PARAMS_MISMATCH")
        self.everyone = entries[: self.width]
        rest, size = entries[self.width :], len(self.crossed)
        self.crossing = [rest[at * size : (at + 1) * size] for at in range(len(self.person))]
        positive = scales["positive"]
        self.base = fine(log(positive / (1 - positive)), 2.0**16)

    def a(self, features: list[float]) -> list[float]:
        means = zip(features, self.scales["person_mean"], self.scales["person_sd"], strict=True)
        return [1.0, *(fine((cut(x) - mean) / sd) for x, mean, sd in means)]

    def b(self, place: list[float], context: list[float]) -> list[float]:
        popular, then = context[: len(self.popularity)], context[len(self.popularity) :]
        means = zip(then, self.scales["moment_mean"], self.scales["moment_sd"], strict=True)
        factor = dict(zip(self.words, self.scales["word_factor"], strict=True))
        centre = dict(zip(self.words, self.scales["word_centre"], strict=True))
        core = [
            (factor[at] if x > 0 else 0.0) - centre[at] if at in factor else fine(x) for at, x in enumerate(place)
        ]  # fmt: skip
        core += [fine(cut(x, 8.0)) for x in popular] + [fine((cut(x) - mean) / sd) for x, mean, sd in means]
        products = [
            (cut(core[i]) ** 2 - 1) / 2 if i == j else cut(core[i]) * cut(core[j]) for i, j in self.pairs
        ]  # fmt: skip
        timed = [core[at] * factor[word] if place[word] > 0 else 0.0 for at, word in self.timed]
        return [1.0, *core, *products, *timed]

    def coefficients(self, a: list[float]) -> list[float]:
        own = list(self.everyone)
        for much, row in zip(a[1:], self.crossing, strict=True):
            for column, entry in zip(self.crossed, row, strict=True):
                own[column] += much * entry
        return [fine(x, 2.0**16) for x in own]


def check_scales(scales: dict[str, Any], *, person: int, moment: int, words: int) -> None:
    lengths = {"person_mean": person, "person_sd": person, "moment_mean": moment, "moment_sd": moment}
    lengths |= {"word_factor": words, "word_centre": words}
    demand(all(len(scales[name]) == many for name, many in lengths.items()), "DECODE")
    demand(all(abs(x) <= 3 for name in ("person_mean", "moment_mean") for x in scales[name]), "DECODE")
    demand(all(0.02 <= x <= 1e6 for name in ("person_sd", "moment_sd") for x in scales[name]), "DECODE")
    demand(0.02 <= scales["positive"] <= 0.98 and 1 <= scales["root_records"] <= 2**14, "DECODE")
    words_scaled = [*scales["word_factor"], *scales["word_centre"]]
    demand(all(abs(x) <= 50 and x * 256 % 1 == 0 for x in words_scaled), "DECODE")


def fine(x: float, much: float = 2.0**8) -> float:
    return round(x * much) / much


def cut(x: float, most: float = 3.0) -> float:
    return min(max(x, -most), most)


def rows(
    *, encoding: str, scales: dict[str, Any], shared: bytes, person: list[float], place: list[float],
    context: list[float],
) -> dict[str, Any]:  # fmt: skip
    """a, b and the coefficients, from features that are given."""
    model = Model(encoding, scales, shared)
    a = model.a(person)
    return {"a": a, "b": model.b(place, context), "coefficients": model.coefficients(a)}


# The own model


def learnt(model: Model, found: dict[str, Any]) -> list[float]:
    """The coefficients of a person with these records."""
    own = np.array(model.coefficients(model.a(found["person"])))
    if not found["place"]:
        return own.tolist()
    Z = np.array([
        model.b(found["places"][place], context)
        for place, context in zip(found["place"], found["context"], strict=True)
    ])  # fmt: skip
    shared, target = model.base + Z @ own, np.array([float(label > 0) for label in found["label"]])
    w, modes, evidence = np.zeros(model.width), [], []
    for precision in (1000.0, 100.0, 10.0):
        w, much = mode(Z, shared, target, precision, w)
        modes.append(w)
        evidence.append(much)
    chance = np.exp(np.array(evidence) - max(evidence))
    return (own + chance @ np.array(modes) / chance.sum()).tolist()


def mode(Z: Any, shared: Any, target: Any, precision: float, w: Any) -> tuple[Any, float]:
    """Newton's method, until a turn changes the log posterior by less than 1e-4; and the log evidence."""
    before, half = posterior(Z, shared, target, precision, w), 0.0
    for _ in range(30):
        p = 1 / (1 + np.exp(-(shared + Z @ w)))
        curvature = (Z.T * (p * (1 - p))) @ Z + precision * np.eye(len(w))
        half = np.linalg.slogdet(curvature)[1] / 2
        onward = np.linalg.solve(curvature, (target - p) @ Z - precision * w)
        step = 1.0
        while (found := posterior(Z, shared, target, precision, w + step * onward)) < before and step >= 1e-6:
            step /= 2
        w, gained, before = w + step * onward, found - before, found
        if gained < 1e-4:
            break
    return w, before + len(w) / 2 * log(precision) - half


def posterior(Z: Any, shared: Any, target: Any, precision: float, w: Any) -> float:
    margins = (2 * target - 1) * (shared + Z @ w)
    return -sum(max(0.0, -m) + log1p(exp(-abs(m))) for m in margins.tolist()) - precision * float(w @ w) / 2


# Recommendations


def recommend(
    *, encoding: str, scales: dict[str, Any], shared: bytes, known: dict[str, Any], profile: dict[str, Any],
    home: list[float] | None, visits: list[list[Any]], labelled: int, secret: bytes, rules: dict[str, Any],
    here: list[float] | None, time: int | None, many: int, radius: float, own: list[float] | None = None,
) -> list[Any]:  # fmt: skip
    """The best places: id, distance, probability and reasons; `own`: by these coefficients, not by those of the
    records."""
    model = Model(encoding, scales, shared)
    demand(many >= 1)
    anywhere = [point for point in known["location"] if not isnan(point[0])]
    demand(here is None or any(ref.arc_km(here, point) <= max(100.0, radius) for point in anywhere))
    own = own or learnt(
        model,
        ref.records(
            encoding=encoding, known=known, profile=profile, home=home, visits=visits, labelled=labelled,
            secret=secret, rules=rules,
        ),
    )  # fmt: skip
    position = {one: at for at, one in enumerate(known["ids"])}
    been = sorted({position[visit[1]] for visit in visits if visit[1] in position and visit[3] > 0})
    places = [known["location"][position[v[1]]] for v in visits if v[1] in position and v[3] > 0]
    where = home or ref.middle([point for point in places if not isnan(point[0])])
    me = ref.person(encoding=encoding, profile=profile, home=where)
    matched = near(known, here or where, been, many, radius)
    samples = []
    for place in matched:
        popular = [
            x for at, block in enumerate(model.blocks["popularity"])
            for x in ref.column(block, ["number", known["released"][place][at]])
        ]  # fmt: skip
        others, visit = [one for one in been if one != place], ["", "", time, 1, {}]
        moment = [
            x for block in model.blocks["context"]
            for x in ref.of_moment(block, model.blocks, known, place, others, visit, where)
        ]  # fmt: skip
        samples.append((known["features"][place], popular + moment))
    B = [model.b(place, context) for place, context in samples]
    scores = [model.base + sum(w * x for w, x in zip(own, b, strict=True)) for b in B]
    told = Told(model, me, [[*me, *place, *context] for place, context in samples], B, own)
    told.familiar = [any(known["features"][place][at] > 0 for place in been) for at in range(len(model.places))]
    told.home = "home" if home else "the middle of your visits"
    new = [at for at, place in enumerate(matched) if place not in been]
    best = sorted(new, key=lambda at: (-scores[at], matched[at]))[:many]
    answers: list[Any] = []
    for at in best:
        km = nan if (here or where) is None else ref.arc_km(here or where, known["location"][matched[at]])  # type: ignore[arg-type]
        chance = 1 / (1 + exp(-scores[at]))
        answers.append([known["ids"][matched[at]], None if isnan(km) else km, chance, told.reasons(at)])
    return answers


def measured(*, share: int, **given: Any) -> list[Any]:
    """Of what a device holds out: labels, scores, and whether its list of ten has such a place."""
    model = Model(given["encoding"], given["scales"], given["shared"])
    private = {name: value for name, value in given.items() if name not in ("scales", "shared")}
    some, held = (ref.records(**private, share=share, part=part) for part in ("learnt", "held"))
    own, scores = learnt(model, some), []
    for place, context in zip(held["place"], held["context"], strict=True):
        b = model.b(held["places"][place], context)
        scores.append(model.base + sum(w * x for w, x in zip(own, b, strict=True)))
    out = {one[1] for one in given["visits"] if ref.held_out(place=one[1], secret=given["secret"], share=share)}
    new = {one[1] for one in given["visits"] if one[3] > 0} & out & set(given["known"]["ids"])
    visits = [one for one in given["visits"] if one[1] not in out]
    found = recommend(**given | {"visits": visits}, own=own, here=None, time=None, many=10, radius=5.0)
    return [held["label"], scores, int(any(one[0] in new for one in found)) if new else None]


def near(known: dict[str, Any], here: list[float] | None, been: list[int], many: int, radius: float) -> list[int]:
    ranked = [] if here is None else sorted(
        (ref.arc_km(here, point), at) for at, point in enumerate(known["location"]) if not isnan(point[0])
    )  # fmt: skip
    if not ranked:
        return list(range(len(known["ids"])))
    within = [at for km, at in ranked if km <= radius]
    if len(set(within) - set(been)) >= many:
        return within
    return [at for _, at in ranked][: max(len(within), many + len(been))]


class Told:
    """How far each group of features pulls each matched place from the mean of all, and the words for it."""

    familiar: list[bool]
    home: str

    def __init__(
        self, model: Model, me: list[float], samples: list[list[float]], B: list[list[float]], own: list[float]
    ):
        self.groups = [
            (side, block) for side in ("person", "place", "popularity", "context") for block in model.blocks[side]
        ]
        self.samples, self.skipped = samples, len(me)
        a = model.a(me)
        self.by_feature = [feature_by_feature(model, a, b, own) for b in B]
        starts = [0]
        for _, block in self.groups:
            starts.append(starts[-1] + width(block))
        self.spans = [slice(*pair) for pair in pairwise(starts)]
        sums = np.array([[sum(row[span]) for span in self.spans] for row in self.by_feature])
        self.pulls = (sums - sums.mean(axis=0)).tolist()

    def reasons(self, at: int) -> list[list[Any]]:
        names = [block["column"] for _, block in self.groups]
        alike: dict[Any, list[tuple[float, str, str]]] = {}
        for group, pull in enumerate(self.pulls[at]):
            if pull:
                side, name = self.groups[group][0], names[group]
                subject, words = self.words(group, at, liked=pull > 0)
                shown = name if names.count(name) == 1 else f"{name} ({side})"
                alike.setdefault(subject, []).append((pull, shown, words))
        found = []
        for some in alike.values():
            pull = sum(one[0] for one in some)
            _, name, words = max(some, key=lambda one, up=pull >= 0: one[0] if up else -one[0])  # type: ignore[misc]
            found.append([name, pull, words])
        found = sorted([one for one in found if abs(one[1]) >= 0.005], key=lambda one: -abs(one[1]))[:3]
        return [one for one in found if one[1] >= 0] + [one for one in found if one[1] < 0]

    def words(self, group: int, at: int, *, liked: bool) -> tuple[Any, str]:
        (side, block), span = self.groups[group], self.spans[group]
        kind, name = block["type"], block["column"].replace("_", " ")
        if side == "person" or kind == "clock" or (side == "context" and kind in WORDS):
            what = "your area" if kind == "area" else f"your {name}" if side == "person" else f"the {name}"
            return group, f"fits {what}" + ("" if liked else " less")
        if kind == "words":
            pulls = {
                word: pull * (1 if liked else -1)
                for word, pull, x in zip(block["words"], self.by_feature[at][span], self.samples[at][span], strict=True)
                if x
            }
            if pulls:
                word = max(pulls, key=lambda one: pulls[one])
                known = self.familiar[span.start + block["words"].index(word) - self.skipped]
                return word, f"like other {word} places you visited" if liked and known else word if liked else (
                    f"less your kind: {word}"
                )
        if kind in WORDS:
            return group, f"its {name}"
        more, less, subject = self.more_or_less(block, group)
        levels = [sum(row[span]) / width(block) for row in self.samples]
        away = levels[at] - (sum(levels) / len(levels) if more else median(levels))
        if abs(away) < 1e-9:
            return subject, f"its {name}"
        return subject, (more or f"higher {name} than most") if away > 0 else (less or f"lower {name} than most")

    def more_or_less(self, block: dict[str, Any], group: int) -> tuple[str, str, Any]:
        kind, of = block["type"], block.get("of", "").replace("_", " ")
        if kind == "distance":
            return f"far from {self.home}", f"close to {self.home}", ("home",)
        near_own, far_own = "close to your other places", "far from your other places"
        if kind in ("nearest", "density"):
            return (far_own, near_own, ("own",)) if kind == "nearest" else (near_own, far_own, ("own",))
        if of:
            like = f"places you have visited, by {of}"
            return f"like {like}", f"unlike {like}", (of,)
        if block["column"] == "weighted popularity":
            return "popular", "little visited", ("popular",)
        return "", "", group


def feature_by_feature(model: Model, a: list[float], b: list[float], own: list[float]) -> list[float]:
    """Half of what the person's and the place's columns come to together belongs to each, and half of a product."""
    shared = [0.0] * model.width
    mine = []
    for much, row in zip(a[1:], model.crossing, strict=True):
        total = 0.0
        for column, entry in zip(model.crossed, row, strict=True):
            total += 0.5 * much * entry * b[column]
            shared[column] += 0.5 * much * entry
        mine.append(total)
    terms = [(w - half) * x for w, half, x in zip(own, shared, b, strict=True)]
    core = terms[1 : 1 + len(model.core)]
    for (i, j), term in zip([*model.pairs, *model.timed], terms[1 + len(model.core) :], strict=True):
        core[i] += term / 2
        core[j] += term / 2
    return mine + core


def own_model(**given: Any) -> list[float]:
    model = Model(given["encoding"], given.pop("scales"), given.pop("shared"))
    return learnt(model, ref.records(**given))
