"""Attacks on every model, for Table 3: what a curious party can tell about visits from what the model lets it see.

An attacker is asked which of two places somebody has visited. As many people went to the one as to the other, so that
knowing nothing, or popularity alone, is right half of the time.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self, TypeAlias

import numpy as np
from scipy.optimize import least_squares

from prirec.engines.local import Rounds
from prirec.engines.plain import Samplewise
from prirec.engines.state import FactorizationState, RoundsState, State
from prirec.errors import PolicyError, UsageError
from prirec.features.columns import moment_rows
from prirec.features.encoding import Area, Encoding, Hashed, Words
from prirec.features.samples import Samples
from prirec.metrics import PlaceLists, positives
from prirec.model.equations import residual
from prirec.model.shared_model import OwnRecords
from prirec.rounds.definition import Participation
from prirec.simulate.setup import Setup
from prirec.types import BoolArray, IndexArray, RealArray
from prirec.util.keyed_random import generator
from prirec_experiments.rivals import dmf

TRIES = 512  # places that a decoy is chosen from


@dataclass(frozen=True, slots=True)
class Questions:
    """One question a row: which of two places has the person visited? The attacker does not know which is which."""

    person: IndexArray = field(repr=False)  # (Q,)
    visited: IndexArray = field(repr=False)  # (Q,)
    decoy: IndexArray = field(repr=False)  # (Q,)

    @classmethod
    def about(cls, samples: Samples, *, many: int, seed: int) -> Self:
        """People with a training visit, at random; a decoy is in none of their records."""
        rng, train = generator(seed, "questions of an attacker"), samples.train
        able = np.unique(train.person[train.label > 0])
        person = np.sort(rng.choice(able, size=min(many, len(able)), replace=False)).astype(np.int32)
        been, visitors = positives(train), np.bincount(train.place[train.label > 0], minlength=len(samples.places))
        visited = np.array([rng.choice(been[int(i)]) for i in person], dtype=np.int32)
        seen = PlaceLists.of(person=train.person, place=train.place, people=len(samples.ids))
        pairs = zip(person.tolist(), visited.tolist(), strict=True)
        decoy = [_decoy(seen[i], place, visitors, rng) for i, place in pairs]
        return cls(person, visited, np.array(decoy, dtype=np.int32))

    def __len__(self) -> int:
        return len(self.person)

    def right(self, of_visited: RealArray, of_decoy: RealArray) -> float:
        """How often the visited place has the higher score; a tie is a guess."""
        return float(np.mean((of_visited > of_decoy) + 0.5 * (of_visited == of_decoy)))

    def success(self, score: Callable[[IndexArray], RealArray]) -> float:
        """`right`, for an attacker who gives a place of each question (Q,) a score (Q,)."""
        return self.right(score(self.visited), score(self.decoy))

    def success_one_by_one(self, score: Callable[[int, int], float]) -> float:
        """`right`, for an attacker who scores one person and place at a time."""

        def of(places: IndexArray) -> RealArray:
            return np.array([score(i, j) for i, j in zip(self.person.tolist(), places.tolist(), strict=True)])

        return self.success(of)


def _decoy(seen: IndexArray, place: int, visitors: np.ndarray, rng: np.random.Generator) -> int:
    """Of some places that the person has no record of the nearest in popularity, above or below as luck has it, or the
    more popular would be the likelier."""
    tried = np.setdiff1d(rng.integers(len(visitors), size=TRIES), seen)
    if not len(tried):
        tried = np.setdiff1d(np.arange(len(visitors)), seen)
    if not len(tried):
        return place
    more = visitors[tried] - visitors[place]
    side = tried[more >= 0] if rng.random() < 0.5 else tried[more <= 0]
    chosen = side if len(side) else tried
    return int(chosen[np.argmin(np.abs(visitors[chosen] - visitors[place]))])


# What one sample's gradient of V tells whoever opens it: the paper's secure aggregation of a batch of one.
#
# Eq. (4) without its penalty is g_d = r x_d (s - v_d x_d) with s = Σ x_e v_e. It is 0 where a feature is 0. The
# encoding is public, so it is known which features are 0 or 1; for two of them that are there, g_d - g_e = r (v_e -
# v_d), which gives r, whose sign is the label. With it s = g_d / r + v_d, and every other feature follows from K
# equations.


_NOTHING = 1e-6  # of the largest entry: what is smaller is the ring's rounding, and no feature of the sample


@dataclass(frozen=True, slots=True)
class RecoveredSample:
    """A sample read off its gradient; where no two features of 0 and 1 are in it, up to a factor."""

    x: RealArray = field(repr=False)  # (D,)
    label: int


def switches(encoding: Encoding) -> BoolArray:
    """(D,): which features are 0 or 1."""
    blocks = encoding.blocks()
    return np.repeat([isinstance(block, Words | Hashed | Area) for block in blocks], [block.width for block in blocks])


def recover_sample(
    gradient: RealArray, V: RealArray, *, lambda_v: float, switched: BoolArray
) -> RecoveredSample | None:
    """From ∇V of one sample and V, both (D, K) and known to the recommender; None where the sample is empty."""
    g = gradient - 2 * lambda_v * V
    sizes = np.abs(g).max(axis=1)
    active = np.flatnonzero(sizes > _NOTHING * sizes.max(initial=0.0))
    if not len(active):
        return None
    ones, x = active[switched[active]], np.zeros(len(V))
    if len(ones) < 2:
        x[active], r = _searched(g[active], V[active])
        return RecoveredSample(x, -1 if r > 0 else 1)
    r, pull = _solved(g[ones], V[ones])
    x[ones] = 1.0
    for d in np.setdiff1d(active, ones):
        x[d] = _value(g[d], V[d], r, pull)
    return RecoveredSample(x, -1 if r > 0 else 1)


def _solved(g: RealArray, v: RealArray) -> tuple[float, RealArray]:
    """r and s from features that are 1: least squares over their differences from the first, and a mean."""
    of_v, of_g = v[0] - v[1:], g[1:] - g[0]  # differences from the first feature
    r = float((of_g * of_v).sum() / (of_v**2).sum())
    return r, np.asarray((g / r + v).mean(axis=0)) if r else v.sum(axis=0)


def _value(g: RealArray, v: RealArray, r: float, pull: RealArray) -> float:
    """x of one feature: g = r x s - r x² v, by least squares in x and x²."""
    columns = r * np.stack([pull, -v], axis=1)
    return float(np.linalg.lstsq(columns, g, rcond=None)[0][0])


def _searched(g: RealArray, v: RealArray) -> tuple[RealArray, float]:
    """All of it at once, where nothing settles the factor: it does not change the sign of r."""
    scale = float(np.abs(g).max())

    def missed(unknown: RealArray) -> RealArray:
        r, x = unknown[0], unknown[1:, None]
        return np.asarray((r * x * ((x * v).sum(axis=0) - v * x) - g / scale).ravel())

    starts: list[RealArray] = [np.concatenate([[sign], np.ones(len(v))]) for sign in (1.0, -1.0)]
    found = min((least_squares(missed, one, max_nfev=100) for one in starts), key=lambda one: float(one.cost))
    return found.x[1:], float(found.x[0])


def likeness(part: RealArray, known: RealArray) -> RealArray:
    """(n,): how like each of these rows (n, d) the part is, whatever its factor; 0 where either is empty."""
    lengths = np.linalg.norm(known, axis=1) * np.linalg.norm(part)
    cosine = np.divide(known @ part, lengths, out=np.zeros(len(known)), where=lengths > 0)
    return np.asarray(cosine**2)


# What a curious party can tell about somebody's visits from what each model lets it see. All of it is measured.
#
# - the recommender, by itself: what is sent to it, and what it opens;
# - a neighbour, by itself;
# - everybody else together, against one: they know all contributions but one and take them off. What is left of a plain
#   sum is that person's, exactly; of a noisy one it is what ε allows.


OPENED = 12  # samples of one person whose gradients are looked at

SuccessRates: TypeAlias = dict[str, float]  # who attacks -> how often it is right


@dataclass(frozen=True, slots=True)
class Scene:
    """A trained model, and the questions."""

    setup: Setup
    state: State | None = field(repr=False)
    asked: Questions

    @property
    def samples(self) -> Samples:
        return self.setup.samples


def by_records(samples: Samples, asked: Questions) -> SuccessRates:
    """Whoever holds the records looks them up; so does whoever sees who reports about a place."""
    been = positives(samples.train)
    return {"recommender": asked.success_one_by_one(lambda i, place: float(place in been[i]))}


def by_popularity(visitors: RealArray, asked: Questions) -> SuccessRates:
    """What the questions themselves give away: whoever sees nothing but how popular places are."""
    return {"recommender": asked.success(lambda places: visitors[places])}


def by_bits(asked: Questions, *, epsilon: float, seed: int) -> SuccessRates:
    """One answer about each place, true with probability e^ε / (1 + e^ε): Eq. (5)."""
    rng, truth = generator(seed, "bits of an attacked"), np.exp(epsilon) / (1 + np.exp(epsilon))
    yes = rng.random(len(asked)) < truth
    no = rng.random(len(asked)) >= truth
    return {"recommender": asked.right(yes.astype(np.float64), no.astype(np.float64))}


def by_gradients_of_neighbours(samples: Samples, asked: Questions, settings: dmf.DmfSettings) -> SuccessRates:
    """DMF: a neighbour is sent r u_i for each record, with the name of the place. Everybody's u begins around one
    direction, so the product with its own tells the sign of r, which is the label."""
    model, around = dmf.fit(samples, settings), dmf.user_graph(samples, settings)
    u, train = model.parts.person, samples.train

    def received(i: int, place: int) -> float:
        rows = np.flatnonzero(train.place[train.offsets[i] : train.offsets[i + 1]] == place) + train.offsets[i]
        if not len(rows) or around.offsets[i] == around.offsets[i + 1]:
            return 0.0
        guess = model.at(np.array([i], dtype=np.int32), np.array([place], dtype=np.int32))[0]
        gradient = residual(float(train.label[rows[0]]), float(guess)) * u[i]
        return float(-gradient @ u[around.people[around.offsets[i]]])

    return {"neighbour": asked.success_one_by_one(received)}


def by_single_gradients(scene: Scene) -> SuccessRates:
    """Algorithm 2 with a batch of one: the recommender opens ∇V of each sample, and reads the sample off it."""
    samples, settings, state = scene.samples, scene.setup.settings, scene.state
    if not isinstance(state, FactorizationState):
        raise UsageError("this attack is on the gradients of Algorithm 2")
    paper = Samplewise(samples, settings)
    catalogue, at = samples.catalogue.astype(np.float64), place_columns(samples)
    switched, asked = switches(scene.setup.encoding), scene.asked
    right_labels, of_visited, of_decoy = list[bool](), list[float](), list[float]()
    rows = (asked.person.tolist(), asked.visited.tolist(), asked.decoy.tolist())
    for i, visited, decoy in zip(*rows, strict=True):
        best = np.zeros(2)
        for row in _rows(samples, i, visited):
            opened = opened_gradient(paper, state, row)
            found = recover_sample(opened, state.interaction, lambda_v=settings.model.lambda_v, switched=switched)
            if found is not None:
                right_labels.append(found.label == samples.train.label[row])
                if found.label > 0:
                    best = np.maximum(best, likeness(found.x[at], catalogue[[visited, decoy]]))
        of_visited.append(best[0])
        of_decoy.append(best[1])
    labels = float(np.mean(right_labels)) if right_labels else 0.5
    return {"recommender": asked.right(np.array(of_visited), np.array(of_decoy)), "labels": labels}


def _rows(samples: Samples, i: int, visited: int) -> IndexArray:
    """Some of the person's samples, with one of the visited place among them."""
    rows = np.arange(samples.train.offsets[i], samples.train.offsets[i + 1])
    first = rows[samples.train.place[rows] == visited][:1]
    return np.concatenate([first, np.setdiff1d(rows, first)])[:OPENED].astype(np.int64)


def opened_gradient(paper: Samplewise, state: FactorizationState, row: int) -> RealArray:
    """(D, K): what the recommender opens for one sample, as the ring has it."""
    T, person = np.ascontiguousarray(state.interaction.T), int(paper.samples.train.person[row])
    gradient = paper.gradient_of_interaction(state.linear[person], T, paper.sample(row), row)
    ring = paper.codes.interaction.ring
    opened = ring.decode(paper.sums.over_batch([(person, ring.encode(gradient))], V=T))
    return np.ascontiguousarray(opened.reshape(T.shape).T)


def place_columns(samples: Samples) -> IndexArray:
    """Of the D features those of the place, in the order of the catalogue: static ones, then popularity."""
    first, wide = samples.people.shape[1], samples.places.shape[1] + samples.popularity.shape[1]
    return np.arange(first, first + wide)


def by_sums(scene: Scene) -> SuccessRates:
    """Rounds: the recommender opens one sum over everyone; with everybody else's contributions taken off, what is left
    is compared with what a visit to each of the two places would have added."""
    samples, state, asked = scene.samples, scene.state, scene.asked
    if not isinstance(state, RoundsState):
        raise UsageError("this attack is on the sums of rounds")
    engine, many = Rounds(samples, scene.setup.settings, threads=1), len(samples.ids)
    rules, everyone = engine.rules, np.ones(many, dtype=np.bool_)
    total, _ = engine.gradient_sum(state, Participation(everyone, everyone))
    opened = total.copy()
    code, where = rules.codes.interaction, ("interaction", state.iteration)
    if not rules.open(opened, code, survivors=many, rostered=many, where=where):
        raise PolicyError("the sum is over too few people to be opened, so there is nothing to attack")
    model, records = engine.model(state), engine.scaled(state.moments)
    own = [rules.contribution(_of_person(records, i), engine.rows, model)[0] for i in asked.person.tolist()]
    left = np.array([code.ring.decode(opened - (total - mine)) for mine in own])  # of each attacked person
    visited, decoy = (
        np.array([
            code.ring.decode(rules.contribution(_one_visit(scene, state, records, i, place), engine.rows, model)[0])
            for i, place in zip(asked.person.tolist(), places.tolist(), strict=True)
        ])
        for places in (asked.visited, asked.decoy)
    )  # fmt: skip
    whole = code.ring.decode(opened)
    return {
        "recommender": asked.right(visited @ whole, decoy @ whole),
        "everybody else": asked.right((visited * left).sum(axis=1), (decoy * left).sum(axis=1)),
    }


def _of_person(records: OwnRecords, i: int) -> OwnRecords:
    mine = slice(records.offsets[i], records.offsets[i + 1])
    count = np.array([0, mine.stop - mine.start])
    return OwnRecords(records.who[i : i + 1], count, records.place[mine], records.context[mine], records.label[mine])


def _one_visit(scene: Scene, state: RoundsState, records: OwnRecords, i: int, place: int) -> OwnRecords:
    """A visit that might have been, at no particular moment, by somebody whose features are known."""
    samples = scene.samples
    context = np.zeros((1, samples.train.context.shape[1]), dtype=np.float32)
    context[0, : samples.popularity.shape[1]] = samples.popularity[place]
    return OwnRecords(
        records.who[i : i + 1], np.array([0, 1]), np.array([place], dtype=np.int32),
        moment_rows(context, samples.columns, state.moments), np.ones(1, dtype=np.int8),
    )  # fmt: skip
