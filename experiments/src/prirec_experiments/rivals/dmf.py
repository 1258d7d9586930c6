"""Decentralised matrix factorisation after Chen, Liu, Zhao, Zhou and Li (Privacy Preserving Point-of-Interest
Recommendation Using Decentralized Matrix Factorization, AAAI 2018).

s_ij = u_i . (p_j^i + q_j^i): person i keeps a factor u_i, and of each place a copy p_j^i of what is common and a part
q_j^i of its own. A record moves all three, and the gradient of p_j^i goes to the neighbours N(i) on the user graph,
who take a step with it on their own copies, weighed by the edge. A neighbour learns, in the clear, at which place a
person has a record, and from the sign of the gradient its label, as far as the neighbour knows where u_i points.

Decided where the paper leaves room or other data call for it: the loss is that of Eq. (2), as for our MF, in place of
squared errors; gradients go one step along the graph, to everyone there, where the paper walks at random for a few
steps; all edges weigh the same; the gradient that is sent is the whole one, penalty included; parts of places start
at 0, so that a copy that nothing reached says nothing, and factors of people around one common direction, without
which nobody would understand another's gradient; there are no biases, as in the paper, so what is unknown scores 0.
With N = 30 that is two of three held-out records on Yelp and on Tokyo, and most of the distance to MF.
"""

from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

import numpy as np

from prirec.errors import UsageError
from prirec.features.samples import Records, Samples
from prirec.graph.neighbours import Neighbours, nearest, random_neighbours
from prirec.model.equations import loss, residual
from prirec.simulate.setup import Setup
from prirec.types import FeatureArray, IndexArray, LabelArray, OffsetArray, RealArray
from prirec.util.jit import inlined, kernel
from prirec.util.keyed_random import generator
from prirec_experiments.rivals.descent import Descent, Tell, descend, initial_factors, quiet, refuse_infinite
from prirec_experiments.scorer import PairScorer, Scorer

WORD = 8  # bytes of one value of a gradient on its way; the name of the place is not counted


class DmfSettings(Descent, frozen=True):
    """Found on a held-out tenth of the training records of Yelp and Tokyo (seed 7). There is no lambda_w to use."""

    lambda_v: float = 0.03
    passes: int = 14
    neighbours: int = 30  # N; 0 for local learning only
    weight: float = 1.0  # of an edge; 1: a neighbour takes as long a step as the person
    centre: float = 1.0  # length of what the factors of people start around

    def check(self) -> None:
        super().check()
        if self.neighbours < 0 or not (0 <= self.weight < inf and 0 <= self.centre < inf):
            raise UsageError("neighbours, weight and centre must be 0 or more, and finite")
        if self.lambda_w:
            raise UsageError("DMF has no biases: leave lambda_w at 0")


class Parts(NamedTuple):
    person: RealArray  # (I, K): u_i
    common: FeatureArray  # (C, K): p_j^i, beside copies.place
    personal: FeatureArray  # (A, K): q_j^i, beside pairs.place


class Pairs(NamedTuple):
    """Each (person, place) of the training records once, by person and then by place."""

    offsets: OffsetArray  # (I + 1,)
    place: IndexArray  # (A,)
    of_record: OffsetArray  # (R,): which pair a record is of


class Copies(NamedTuple):
    """Person i has copies offsets[i] to offsets[i + 1], in ascending order of place."""

    offsets: OffsetArray  # (I + 1,)
    place: IndexArray  # (C,)
    own: OffsetArray  # (A,): the copy of a pair's own person
    first: OffsetArray  # (A,): where the copies of the neighbours begin in `received`
    received: IndexArray  # for each pair the copies of all neighbours, in the order of N(i)


@dataclass(frozen=True, slots=True)
class Dmf:
    """A trained model, and what training sent. A place that no gradient reached scores 0 for that person."""

    parts: Parts = field(repr=False)
    pairs: Pairs = field(repr=False)
    held: Copies = field(repr=False)
    octets: int  # of gradients, all passes together

    def at(self, person: IndexArray, place: IndexArray) -> RealArray:
        """Scores of these pairs, each with its person's own copies."""
        out = np.empty(len(person))
        _scores(self.parts, self.pairs, self.held, person, place, out)
        return out


def fit(samples: Samples, settings: DmfSettings, *, graph: Neighbours | None = None, tell: Tell = quiet) -> Dmf:
    """From the training records alone, over the user graph of the settings or a given one."""
    settings.check()
    around = user_graph(samples, settings) if graph is None else graph
    if len(around) != len(samples.ids):
        raise UsageError(f"the user graph is of {len(around)} people, the records are of {len(samples.ids)}")
    train, pairs = samples.train, own_pairs(samples.train, places=len(samples.places))
    held = copies(pairs, around, places=len(samples.places))
    parts = start(samples, settings, pairs=len(pairs.place), held=len(held.place))
    edges, sent = Edges(around.offsets, np.full(len(around.people), settings.weight)), 0

    def one_pass(order: OffsetArray) -> float:
        nonlocal sent
        losses, gradients = dmf_pass(
            parts, pairs, held, edges, train.person, train.label, order, settings.alpha, settings.lambda_v
        )
        sent += gradients
        return losses

    descend(one_pass, settings, records=len(train), tell=tell)
    refuse_infinite(*parts)
    return Dmf(parts, pairs, held, sent * settings.dimension * WORD)


def scorer(setup: Setup, settings: DmfSettings, *, tell: Tell = quiet) -> Scorer:
    """The model trained on a prepared city, as tables compare it."""
    return PairScorer(fit(setup.samples, settings, tell=tell), setup.samples.test)


def user_graph(samples: Samples, settings: DmfSettings) -> Neighbours:
    """N(i): the nearest people, or, where the city has no coordinates, people drawn at random once."""
    many = len(samples.ids)
    if settings.neighbours == 0:
        return Neighbours(np.zeros(many + 1, dtype=np.int64), np.empty(0, dtype=np.int32))
    if samples.home is not None:
        return nearest(samples.home, count=settings.neighbours)
    return random_neighbours(many, count=settings.neighbours, rng=generator(settings.seed, "fixed neighbours"))


def start(samples: Samples, settings: DmfSettings, *, pairs: int, held: int) -> Parts:
    """Parts of places at 0; people around one direction, and at 0 without a training record."""
    K, who = settings.dimension, samples.train.counts() > 0
    people = initial_factors(settings, "dmf people", who)
    people[who] += settings.centre / max(K, 1) ** 0.5
    return Parts(people, np.zeros((held, K), dtype=np.float32), np.zeros((pairs, K), dtype=np.float32))


# Kernels
#
# Copies are kept in float32, as features are: at rest, while every sum is taken in float64.


class Edges(NamedTuple):
    offsets: OffsetArray  # (I + 1,)
    weight: RealArray  # beside neighbours.people


@kernel
def dmf_pass(
    parts: Parts, pairs: Pairs, held: Copies, edges: Edges, person: IndexArray, label: LabelArray, order: OffsetArray,
    alpha: float, lambda_v: float,
) -> tuple[float, int]:  # fmt: skip
    """Record after record; all parts are moved in place. The summed loss, and how many gradients were sent."""
    person_part, common, personal = parts
    K = person_part.shape[1]
    gradient, losses, sent = np.empty(K), 0.0, 0
    for row in order:
        i, a, y = person[row], pairs.of_record[row], float(label[row])
        c = held.own[a]
        guess = _score(person_part[i], common[c], personal[a])
        losses += loss(y, guess)
        r = residual(y, guess)
        for k in range(K):
            u, p, q = person_part[i, k], float(common[c, k]), float(personal[a, k])
            gradient[k] = r * u + 2.0 * lambda_v * p
            person_part[i, k] -= alpha * (r * (p + q) + 2.0 * lambda_v * u)
            personal[a, k] -= alpha * (r * u + 2.0 * lambda_v * q)
            common[c, k] -= alpha * gradient[k]
        sent += _send(common, held.received, held.first[a], edges, i, alpha, gradient)
    return losses, sent


@inlined
def _score(u: RealArray, common: FeatureArray, personal: FeatureArray) -> float:
    total = 0.0
    for k in range(u.size):
        total += u[k] * (float(common[k]) + float(personal[k]))
    return total


@inlined
def _send(
    common: FeatureArray, received: IndexArray, first: int, edges: Edges, i: int, alpha: float, gradient: RealArray
) -> int:  # fmt: skip
    """The neighbours' steps with a gradient of person i; how many they are."""
    start, many = edges.offsets[i], int(edges.offsets[i + 1] - edges.offsets[i])
    for e in range(many):
        copy, step = received[first + e], alpha * edges.weight[start + e]
        for k in range(gradient.size):
            common[copy, k] -= step * gradient[k]  # an entry, not a row: a view for each neighbour would cost more
    return many


@kernel
def _scores(
    parts: Parts, pairs: Pairs, held: Copies, person: IndexArray, place: IndexArray, out: RealArray
) -> None:  # fmt: skip
    nothing = np.zeros(parts.person.shape[1], dtype=np.float32)
    for row in range(person.size):
        i, j = person[row], place[row]
        c = _find(held.place, held.offsets[i], held.offsets[i + 1], j)
        a = _find(pairs.place, pairs.offsets[i], pairs.offsets[i + 1], j)
        common = parts.common[c] if c >= 0 else nothing
        out[row] = _score(parts.person[i], common, parts.personal[a] if a >= 0 else nothing)


@inlined
def _find(places: IndexArray, start: int, stop: int, j: int) -> int:
    """Where place j stands in an ascending stretch; -1 where it does not."""
    low, high = start, stop
    while low < high:
        middle = (low + high) // 2
        if places[middle] < j:
            low = middle + 1
        else:
            high = middle
    return low if low < stop and places[low] == j else -1


# The copies: a person keeps the common part of a place only if a gradient ever reaches it.
#
# A dense table of everyone's copies would hold I x J x K numbers. What is touched is known beforehand: the places of
# the own records, and those of the records of whoever counts the person among its neighbours.


def own_pairs(train: Records, *, places: int) -> Pairs:
    """From the training records, repeated visits counted once."""
    keys, of_record = np.unique(train.person.astype(np.int64) * places + train.place, return_inverse=True)
    people = len(train.offsets) - 1
    offsets = np.searchsorted(keys, np.arange(people + 1, dtype=np.int64) * places)
    return Pairs(offsets, (keys % places).astype(np.int32), of_record)


class Senders(NamedTuple):
    """Who sends gradients to person f: those who have f among their neighbours, and at which position."""

    offsets: OffsetArray  # (I + 1,)
    person: IndexArray
    position: IndexArray


def senders(neighbours: Neighbours) -> Senders:
    """The edges of the user graph by the person who receives."""
    order = np.argsort(neighbours.people, kind="stable")
    counts = np.bincount(neighbours.people, minlength=len(neighbours))
    owners = neighbours.owners()
    position = np.arange(len(owners)) - neighbours.offsets[owners]
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Senders(offsets, owners[order], position[order].astype(np.int32))


def copies(pairs: Pairs, neighbours: Neighbours, *, places: int) -> Copies:
    """Room for every copy that training will touch, and where each record and each neighbour finds its own."""
    around, sizes = senders(neighbours), neighbours.counts()
    mark = np.full(places, -1, dtype=np.int64)
    counts = np.empty(len(neighbours), dtype=np.int64)
    _count(pairs, around, mark, counts)
    receivers = np.repeat(sizes, np.diff(pairs.offsets))
    found = Copies(
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        place=np.empty(int(counts.sum()), dtype=np.int32),
        own=np.empty(len(pairs.place), dtype=np.int64),
        first=np.cumsum(receivers) - receivers,
        received=np.empty(int(receivers.sum()), dtype=np.int32),
    )
    mark[:] = -1
    _fill(pairs, around, mark, found)
    return found


@kernel
def _count(pairs: Pairs, around: Senders, mark: OffsetArray, counts: OffsetArray) -> None:
    nowhere = np.empty(0, dtype=np.int32)
    for f in range(counts.size):
        counts[f] = _gather_all(pairs, around, f, mark, nowhere)


@kernel
def _fill(pairs: Pairs, around: Senders, mark: OffsetArray, found: Copies) -> None:
    """Once for each person f; `mark` then says where f has the copy of a place."""
    where = np.empty(mark.size, dtype=np.int64)
    for f in range(found.offsets.size - 1):
        start, stop = found.offsets[f], found.offsets[f + 1]
        mine = found.place[start:stop]
        _gather_all(pairs, around, f, mark, mine)
        mine.sort()
        for at in range(mine.size):
            where[mine[at]] = start + at
        for a in range(pairs.offsets[f], pairs.offsets[f + 1]):
            found.own[a] = where[pairs.place[a]]
        for e in range(around.offsets[f], around.offsets[f + 1]):
            i, position = around.person[e], around.position[e]
            for a in range(pairs.offsets[i], pairs.offsets[i + 1]):
                found.received[found.first[a] + position] = where[pairs.place[a]]


@inlined
def _gather(pairs: Pairs, start: int, stop: int, f: int, mark: OffsetArray, out: IndexArray, many: int) -> int:
    """Adds the places of these pairs that person f does not have yet; how many there are now."""
    for a in range(start, stop):
        j = pairs.place[a]
        if mark[j] != f:
            mark[j] = f
            if out.size > 0:
                out[many] = j
            many += 1
    return many


@inlined
def _gather_all(pairs: Pairs, around: Senders, f: int, mark: OffsetArray, out: IndexArray) -> int:
    many = _gather(pairs, pairs.offsets[f], pairs.offsets[f + 1], f, mark, out, 0)
    for e in range(around.offsets[f], around.offsets[f + 1]):
        i = around.person[e]
        many = _gather(pairs, pairs.offsets[i], pairs.offsets[i + 1], f, mark, out, many)
    return many
