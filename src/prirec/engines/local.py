"""The fast engines, for one machine: the same bits as engines/plain.py, for any number of threads.

How much faster than NumPy sample by sample they are is measured in one run by benchmarks/speed.py.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from math import isnan
from typing import NamedTuple, TypeVar

import numpy as np

from prirec.config import Settings
from prirec.engines.plain import sample_order, too_few
from prirec.engines.state import FactorizationState, IterationReport, RoundsState
from prirec.errors import PolicyError
from prirec.features.columns import Moments, WordScales, columns_of_places
from prirec.features.samples import Samples
from prirec.graph.neighbours import NeighbourSets, neighbourhoods_of
from prirec.model.equations import interaction_gradient_of, linear_step, loss, residual
from prirec.model.sample_pass import Descent, Reached, Scratch, Table, narrow, sample_pass, table
from prirec.model.scoring import SharedModels, own_records
from prirec.model.shared_model import OwnRecords, SharedModel, add_contributions
from prirec.model.sparse_samples import Everyone, PlaceRows, linear_score_of, load_present, pairs_of, place_rows
from prirec.protocols.terms import paper_codes
from prirec.rounds.definition import (
    Participation,
    RoundRules,
    add_rows,
    left_in_collection,
    mean_loss,
    participation,
    sum_losses,
)
from prirec.sharing.fixed_point import outside
from prirec.types import IndexArray, OffsetArray, RealArray, RingArray
from prirec.util.jit import kernel
from prirec.util.keyed_random import generator, iteration_key, mix, shuffle

Answer = TypeVar("Answer")
Block = tuple[int, int]  # people from the first to before the second
_BLOCK = 1 << 14  # people at a time whose moments are made


def engine(samples: Samples, settings: Settings, *, threads: int = 2) -> "Rounds | Samplewise | Centralised":
    """The fast engine for the schedule of these settings."""
    if settings.schedule == "rounds":
        return Rounds(samples, settings, threads=threads)
    return (Centralised if settings.schedule == "centralised" else Samplewise)(samples, settings)


# Rounds


class Rounds:
    """All devices step together: in blocks of consecutive people, one block a thread.

    Everything that is summed is summed in the ring, where the order does not matter: so blocks, threads and shards
    change no bit. `rules` are those of a whole run, where these people are one shard of it (engines/shards.py).
    """

    def __init__(self, samples: Samples, settings: Settings, *, threads: int, rules: RoundRules | None = None):
        self.samples, self.columns = samples, samples.columns
        self.rules = rules or RoundRules.sized(
            settings, people=len(samples.ids), places=len(samples.places), columns=samples.columns
        )
        self.rows = columns_of_places(samples.places, samples.columns)
        self.words = WordScales.of(samples.places, samples.columns)
        self.blocks = list(_blocks(samples, threads))
        self._scaled: tuple[Moments, OwnRecords] | None = None

    def start(self) -> RoundsState:
        """The sum of moments over everyone who does not drop out of it; B is 0."""
        total, survivors = self.moment_sum()
        return opened_start(self.rules, total, survivors=survivors, rostered=len(self.samples.ids))

    def moment_sum(self) -> tuple[RingArray, int]:
        """The sum before it is opened, and over how many."""
        train, left = self.samples.train, left_in_collection(self.samples.keys, self.rules.settings, of="moments")
        code = self.rules.codes.moments
        total = code.ring.zeros(self.columns.moments.length)
        for first in range(0, len(left), _BLOCK):
            some, offsets = slice(first, first + _BLOCK), train.offsets[first : first + _BLOCK + 1]
            rows = slice(offsets[0], offsets[-1])
            vectors = self.rules.moment_contributions(
                self.samples.people[some], train.context[rows], train.label[rows], offsets - offsets[0]
            )
            if not add_rows(vectors, left[some], code.encoder, total):
                raise outside(code.ring.bound)
        return total, int(left.sum())

    def advance(self, state: RoundsState) -> IterationReport:
        """One round t; the letters are those of docs/how-it-works.md."""
        there = self.participation(state.iteration)
        total, losses = self.gradient_sum(state, there)  # (b)
        online, counted = int(there.online.sum()), int(there.counted.sum())
        opened = move(state, self.rules, total, survivors=counted, rostered=online)  # (c), (d)
        records = int(self.samples.train.counts()[there.online].sum())
        return IterationReport(
            iteration=state.iteration,
            loss=mean_loss(sum_losses(losses), records),
            took_part=online,
            in_sum=counted,
            opened=opened,
        )

    def participation(self, iteration: int) -> Participation:
        return participation(self.samples.keys, iteration, self.rules.settings)

    def gradient_sum(self, state: RoundsState, there: Participation) -> tuple[RingArray, RealArray]:
        """Step (b) on all devices: the sum before it is opened, and each person's loss."""
        records, model = self.scaled(state.moments), self.model(state)
        losses, code = np.zeros(len(self.samples.ids)), self.rules.codes.interaction

        def contribute(block: Block) -> OffsetArray:
            total = np.zeros(self.columns.entries, dtype=np.int64)
            add_contributions(
                block, records, self.rows, model, there.counted, there.online, self.rules.scale, total, losses
            )
            return total

        total: OffsetArray = np.sum(self.each(contribute), axis=0)
        return total.view(np.uint64).astype(code.ring.dtype), losses

    def model(self, state: RoundsState) -> SharedModel:
        return self.rules.model(state.estimate, state.moments, self.words)

    def models(self, state: RoundsState) -> SharedModels:
        return SharedModels(self.model(state), state.moments)

    def scaled(self, moments: Moments) -> OwnRecords:
        """Everyone's records, scaled by these moments: once in a training."""
        if self._scaled is None or not _equal(self._scaled[0], moments):
            self._scaled = moments, own_records(self.samples, self.samples.train, moments)
        return self._scaled[1]

    def each(self, task: Callable[[Block], Answer]) -> list[Answer]:
        """A thread for each block but the first, which is done here; returns when all of them have ended."""
        if len(self.blocks) == 1:
            return [task(self.blocks[0])]
        with ThreadPoolExecutor(len(self.blocks) - 1) as pool:
            others = [pool.submit(task, block) for block in self.blocks[1:]]
            return [task(self.blocks[0]), *(other.result() for other in others)]


def _equal(a: Moments, b: Moments) -> bool:
    """By value: moments that have crossed a network are another object in each round."""
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in Moments._fields)


def opened_start(rules: RoundRules, total: RingArray, *, survivors: int, rostered: int) -> RoundsState:
    """The state before the first round, from the sum of moments over everyone, which gets noise in place."""
    code = rules.codes.moments
    if not rules.open(total, code, survivors=survivors, rostered=rostered, where=("moments", 0)):
        raise PolicyError(too_few(survivors, rules.settings))
    noise = rules.noise_variance(code, survivors=survivors, rostered=rostered)
    moments = rules.moments(total, survivors=survivors, noise=noise)
    return RoundsState(0, moments, rules.first_estimate(moments))


def move(state: RoundsState, rules: RoundRules, total: RingArray, *, survivors: int, rostered: int) -> bool:
    """Steps (c) and (d) in simulation: B moves, if the sum over everyone may be opened; it gets noise, in place."""
    code, where = rules.codes.interaction, ("interaction", state.iteration)
    opened = rules.open(total, code, survivors=survivors, rostered=rostered, where=where)
    if opened:
        noise = rules.noise_variance(code, survivors=survivors, rostered=rostered)
        state.estimate = rules.moved(state.estimate, total, survivors=survivors, noise=noise)
    state.iteration += 1
    return opened


def _blocks(samples: Samples, threads: int) -> Iterator[Block]:
    """People in consecutive blocks with about as much work each; one empty block where there is nobody."""
    if not len(samples.ids):
        yield 0, 0
        return
    effort = samples.train.offsets[1:] + np.arange(1, len(samples.ids) + 1)  # a person costs as much as a record
    cuts = np.searchsorted(effort, effort[-1] * np.arange(1, threads) / threads)
    edges = [0, *cuts.tolist(), len(samples.ids)]
    yield from ((a, b) for a, b in pairwise(edges) if a < b)


# The paper's schedule


class Samplewise:
    """Algorithm 2 in one kernel. A sample needs the models that the one before it moved, so there is one thread."""

    def __init__(self, samples: Samples, settings: Settings):
        self.samples, self.settings = samples, settings
        self.codes = paper_codes(settings)
        self.narrow = narrow(self.codes.linear.ring)  # a ring of fewer bits; None once a model did not fit
        self.layout = memory_layout(samples)
        self.last_neighbours: NeighbourSets | None = None

    def start(self) -> FactorizationState:
        return first_factorization(self.samples, self.settings, models=len(self.samples.ids))

    def advance(self, state: FactorizationState) -> IterationReport:
        samples, settings = self.samples, self.settings
        online = participation(samples.keys, state.iteration, settings).counted
        neighbours = self.neighbours(state.iteration, online)
        order = sample_order(samples, settings, iteration=state.iteration, online=online)
        losses = self.run_pass(state, neighbours, order)
        state.iteration += 1
        people = np.flatnonzero(online & (samples.train.counts() > 0))
        alone = 0 if neighbours.fresh else int((np.diff(neighbours.offsets)[people] == 0).sum())
        return IterationReport(
            iteration=state.iteration,
            loss=losses / max(len(order), 1),
            took_part=len(people),
            in_sum=len(people),
            alone=alone,
        )

    def neighbours(self, iteration: int, online: np.ndarray) -> NeighbourSets:
        """N(i) in this pass; found once where everyone is online and nothing about them is drawn anew."""
        settled = self.settings.participation.online == 1.0 and self.settings.neighbours.among is None
        if self.last_neighbours is None or not settled:
            self.last_neighbours = neighbourhoods_of(self.samples, self.settings, iteration=iteration, online=online)
        return self.last_neighbours

    def run_pass(self, state: FactorizationState, neighbours: NeighbourSets, order: np.ndarray) -> float:
        """The summed loss. In the narrow ring as far as it goes, since half the bits are half the memory to fetch; then
        in the wide one, which comes to the same sums."""
        T, room = np.ascontiguousarray(state.interaction.T), self.scratch(neighbours.fresh)
        uniform = len(neighbours.weights) == 0
        reached = Reached(samples=0, losses=0.0, fine=True)
        for code in (self.narrow if uniform else None, self.codes.linear.ring):
            if code is None:
                continue
            models = table(state.linear if uniform else state.linear[:0], code)
            reached = reached._replace(fine=models is not None)
            if models is not None:
                reached = self.walk(state, T, models, neighbours=neighbours, order=order, reached=reached, room=room)
            if reached.fine or isnan(reached.losses):
                break
            self.narrow = None
        if not reached.fine or isnan(reached.losses):
            raise outside(self.codes.linear.ring.bound)
        state.interaction = np.ascontiguousarray(T.T)
        return reached.losses

    def walk(
        self, state: FactorizationState, T: RealArray, models: Table, *,
        neighbours: NeighbourSets, order: np.ndarray, reached: Reached, room: Scratch,
    ) -> Reached:  # fmt: skip
        s = self.settings
        rates = Descent(
            s.linear.alpha, s.interaction.alpha, s.model.lambda_w, s.model.lambda_v, s.linear.gamma, s.interaction.batch
        )
        return sample_pass(
            state.linear, models, T, self.layout.everyone, self.samples.train.person, self.layout.rows, neighbours,
            order, reached, iteration_key(s.seed, "neighbours", state.iteration), rates, self.codes.interaction.encoder,
            room,
        )  # fmt: skip

    def scratch(self, drawn: int) -> Scratch:
        D, K = self.samples.features, self.settings.model.dimension
        pending = self.codes.interaction.ring.zeros(K * D)
        return Scratch(
            x=np.empty(D),
            present=np.empty(D + 1, dtype=np.int32),
            pull=np.empty(K),
            gradient=np.empty(D + 1),
            weighted=np.empty(D + 1),
            drawn=np.empty(drawn, dtype=np.int32),
            pending=pending,
            pending_signed=self.codes.interaction.ring.signed(pending),
        )


def first_factorization(samples: Samples, settings: Settings, *, models: int) -> FactorizationState:
    """Algorithm 2, lines 1 to 4: V small and random, so that its gradient is not 0, and W zero."""
    D, K = samples.features, settings.model.dimension
    V = generator(settings.seed, "start of V").normal(0.0, settings.model.spread, size=(D, K))
    return FactorizationState(0, np.zeros((models, D + 1)), V)


# The centralised baseline


class Centralised:
    """A factorization machine of everyone's raw records in one place, by Eqs. (7) and (9): what privacy is compared to.
    One thread, as in the paper's schedule."""

    def __init__(self, samples: Samples, settings: Settings):
        self.samples, self.settings = samples, settings
        self.layout = memory_layout(samples)

    def start(self) -> FactorizationState:
        return first_factorization(self.samples, self.settings, models=1)

    def advance(self, state: FactorizationState) -> IterationReport:
        """One pass over all records, in a keyed order."""
        s, train = self.settings, self.samples.train
        T, order = np.ascontiguousarray(state.interaction.T), np.empty(len(train), dtype=np.int64)
        shuffle(mix(iteration_key(s.seed, "order", state.iteration), 0), order)
        losses = centralised_pass(
            state.linear[0], T, self.layout.everyone, train.person, self.layout.rows, order,
            s.linear.alpha, s.interaction.alpha, s.model.lambda_w, s.model.lambda_v,
        )  # fmt: skip
        state.interaction = np.ascontiguousarray(T.T)
        state.iteration += 1
        people = int((train.counts() > 0).sum())
        mean = losses / max(len(order), 1)
        return IterationReport(iteration=state.iteration, loss=mean, took_part=people, in_sum=people)


@kernel
def centralised_pass(
    w: RealArray, T: RealArray, everyone: Everyone, person: IndexArray, places: PlaceRows, order: OffsetArray,
    alpha_w: float, alpha_v: float, lambda_w: float, lambda_v: float,
) -> float:  # fmt: skip
    """Eqs. (7) and (9): sample after sample, one linear model for everyone; the summed loss."""
    K, D = T.shape
    x, pull, losses = np.empty(D), np.empty(K), 0.0
    present = np.empty(D + 1, dtype=np.int32)
    for row in order:
        y = float(everyone.label[row])
        i, j = person[row], everyone.place[row]
        there = present[: load_present(everyone.people[i], places, j, everyone.context[row], x, present)]
        guess = linear_score_of(w, x, there) + pairs_of(T, x, there, pull)
        r = residual(y, guess)
        losses += loss(y, guess)
        linear_step(w, x, r, lambda_w, alpha_w)  # Eq. (7)
        for k in range(K):
            v = T[k]
            for d in range(D):
                v[d] -= alpha_v * interaction_gradient_of(v[d], x[d], pull[k], r, lambda_v)  # Eq. (9)
    return losses


# Memory layout


class MemoryLayout(NamedTuple):
    """People are numbered along a curve over the map, and places here in the order in which people first come to them:
    who is near on the map is near in memory, and the processor's cache is hit more often. Places that nobody visits are
    left out. No result depends on the numbers of places."""

    everyone: Everyone
    rows: PlaceRows


def memory_layout(samples: Samples) -> MemoryLayout:
    train, many = samples.train, len(samples.places)
    first = np.full(many, len(train), dtype=np.int64)
    first[train.place[::-1]] = np.arange(len(train))[::-1]  # backwards, so that the first record of a place stays
    order = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(train))]
    rank = np.empty(many, dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    data = Everyone(samples.people, train.offsets, rank[train.place], train.context, train.label, samples.keys)
    return MemoryLayout(data, place_rows(samples.places[order]))
