"""The fast engines, for one machine: the bits of engines/plain.py, for any number of threads.

How much faster than NumPy sample by sample they are is measured in one run by benchmarks/speed.py.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from math import isnan
from typing import NamedTuple, TypeVar

import numpy as np

from prirec.config import Settings
from prirec.engines.plain import sample_order
from prirec.engines.state import IterationReport, State
from prirec.features.samples import Samples
from prirec.graph.cohorts import cohort_numbers, neighbourhoods_of
from prirec.graph.neighbours import NeighbourSets
from prirec.model.block_steps import Everyone, Mixing, contribute_models, step_people
from prirec.model.equations import interaction_gradient_of, linear_step, loss, residual
from prirec.model.lanes import in_lines, out_of_lanes
from prirec.model.local_step import contribution_of, no_latent, work
from prirec.model.public_half import PlaceRows, linear_score_of, load_present, pairs_of, place_rows, public
from prirec.model.sample_pass import Descent, Reached, Scratch, Table, narrow, sample_pass, table
from prirec.protocols.terms import ring_codes
from prirec.rounds.definition import (
    CohortSums,
    Participation,
    RoundRules,
    last_means,
    mean_loss,
    mixing_weights,
    participation,
    sum_losses,
)
from prirec.sharing.fixed_point import outside
from prirec.types import BoolArray, IndexArray, OffsetArray, RealArray, RingArray
from prirec.util.jit import kernel
from prirec.util.keyed_random import iteration_key, mix, shuffle

Answer = TypeVar("Answer")
Block = tuple[int, int]  # people from the first to before the second


def engine(samples: Samples, settings: Settings, *, threads: int = 2) -> "Rounds | Samplewise | Centralised":
    """The fast engine for the schedule of these settings."""
    if settings.schedule == "rounds":
        return Rounds(samples, settings, threads=threads)
    return (Centralised if settings.schedule == "centralised" else Samplewise)(samples, settings)


# Rounds


class ShardView(NamedTuple):
    """What some of the people need to know of the whole run, where they are one shard of it: engines/shards.py."""

    cohort: IndexArray  # (I,): 0 .. C - 1, of the cohorts that these people are in
    numbers: OffsetArray  # (C,): the run's own numbers of these cohorts
    rules: RoundRules  # sized for the whole run


def all_people(samples: Samples, settings: Settings) -> ShardView:
    """The one shard of a run on one machine."""
    cohort = cohort_numbers(samples, settings)
    return ShardView(cohort, np.arange(int(cohort.max()) + 1), RoundRules.of(samples, settings))


class Rounds:
    """All devices step together: in blocks of consecutive people, one block a thread.

    Everything that is summed is summed in the ring, where the order does not matter: so blocks, threads and shards
    change no bit.
    """

    def __init__(self, samples: Samples, settings: Settings, *, threads: int, part: ShardView | None = None):
        self.samples = samples
        self.cohort, self.numbers, self.rules = part if part is not None else all_people(samples, settings)
        self.gamma = mixing_weights(samples.train.counts(), settings)
        self.layout = memory_layout(samples)
        self.blocks = list(_blocks(samples, threads))

    def advance(self, state: State) -> IterationReport:
        """One round t; the letters are those of docs/how-it-works.md."""
        there = self.participation(state.iteration)
        mixing = self.mix(state, there)  # (b)
        total, losses = self.step_everyone(state, there, mixing)  # (a), (c) to (e)
        present, counted = int(there.present.sum()), int(there.counted.sum())
        opened = move_public(state, self.rules, total, survivors=counted, rostered=present)  # (f)
        records = int(self.samples.train.counts()[there.present].sum())
        state.iteration += 1
        return IterationReport(
            iteration=state.iteration,
            loss=mean_loss(sum_losses(losses), records),
            took_part=present,
            in_sum=counted,
            cohorts_opened=int(mixing.opened.sum()),
            opened=opened,
        )

    def participation(self, iteration: int) -> Participation:
        return participation(self.samples.keys, iteration, self.rules.settings)

    def mix(self, state: State, there: Participation) -> Mixing:
        """Step (b), all of it: the mean of each cohort with enough survivors."""
        sums = self.sum_cohorts(state, there)
        return self.mixing(state, sums, self.rules.open_cohorts(sums, state.iteration))

    def sum_cohorts(self, state: State, there: Participation) -> CohortSums:
        """Step (b) before opening: zeros in a round that does not mix."""
        cohorts, width = len(self.numbers), state.linear.shape[1]
        state.means = last_means(state.means, cohorts=cohorts, features=width - 1)
        rostered = np.bincount(self.cohort[there.online], minlength=cohorts)
        if not self.rules.mixes(state.iteration):
            nothing = self.rules.linear.ring.zeros((cohorts, width))
            return CohortSums(self.numbers, nothing, np.zeros(cohorts, dtype=np.int64), rostered)
        centre, code = self.rules.centres(state.means), self.rules.linear

        def contribute(block: Block) -> tuple[np.ndarray, np.ndarray]:
            sums, members = code.ring.zeros((cohorts, width)), np.zeros(cohorts, dtype=np.int64)
            fine = contribute_models(
                state.linear, block, there.present, self.cohort, centre, code.clip, code.encoder,
                np.empty(width), sums, members,
            )  # fmt: skip
            if not fine:
                raise outside(code.ring.bound)
            return sums, members

        total, members = map(_added_up, zip(*self.each(contribute, self.blocks), strict=True))
        return CohortSums(self.numbers, total, members, rostered)

    def mixing(self, state: State, sums: CohortSums, opened: BoolArray) -> Mixing:
        """Step (b) after opening: the new means go into the state; who takes what of them in step (c)."""
        centre = self.rules.centres(state.means)
        state.means[opened] = self.rules.cohort_mean(
            centre[opened], sums.total[opened], sums.members[opened, None]
        )  # fmt: skip
        return Mixing(self.cohort, state.means, opened, self.gamma)

    def step_everyone(self, state: State, there: Participation, mixing: Mixing) -> tuple[RingArray, RealArray]:
        """Steps (c) to (e): the sum over everyone, and each person's loss."""
        code, rates, key = self.rules.interaction, self.rules.rates, self.rules.order_key(state.iteration)
        latent = state.latent or no_latent(len(self.samples.ids), len(self.samples.places))
        shared = public(
            state.interaction, self.layout.rows, first=self.samples.people.shape[1],
            factors=self.layout.factors(latent.factors), in_parts=self.in_parts,
        )  # fmt: skip
        (J, depth), (D, K) = shared.factors.shape, state.interaction.shape
        losses = np.zeros(len(self.samples.ids))
        longest = int(self.samples.train.counts().max(initial=0))

        def step(block: Block) -> tuple[np.ndarray, np.ndarray]:
            made = contribution_of(K, D, latent=depth, places=J, records=longest)
            room, encoded = work(K, D), in_lines(shared.lanes.size, dtype=np.uint64)
            of_interaction, of_factors = in_lines(*shared.lanes.shape, dtype=np.uint64), code.ring.zeros(J * depth)
            fine = step_people(
                state.linear, latent.vectors, block, there.present, there.counted, mixing, shared, self.layout.everyone,
                key, rates, code.encoder, room, np.empty(longest, dtype=np.int32), made, encoded, of_interaction,
                of_factors, losses,
            )  # fmt: skip
            if not fine:
                raise outside(code.ring.bound)
            return of_interaction, of_factors

        of_interaction, of_factors = map(_added_up, zip(*self.each(step, self.blocks), strict=True))
        by_component = out_of_lanes(of_interaction, K).astype(code.ring.dtype)
        return np.concatenate([by_component, self.layout.in_catalogue(of_factors, latent=depth)]), losses

    def in_parts(self, task: Callable[[int, int], None], many: int) -> None:
        """Runs task(first, last) over rows 0 to many, as many rows for each thread."""
        edges = [many * part // len(self.blocks) for part in range(len(self.blocks) + 1)]
        self.each(lambda block: task(*block), list(pairwise(edges)))

    def each(self, task: Callable[[Block], Answer], blocks: list[Block]) -> list[Answer]:
        """A thread for each block but the first, which is done here; returns when all of them have ended."""
        if len(blocks) == 1:
            return [task(blocks[0])]
        with ThreadPoolExecutor(len(blocks) - 1) as pool:
            others = [pool.submit(task, block) for block in blocks[1:]]
            return [task(blocks[0]), *(other.result() for other in others)]


def move_public(state: State, rules: RoundRules, total: RingArray, *, survivors: int, rostered: int) -> bool:
    """Step (f) in simulation: V moves, and P where there is a latent part, if the sum over everyone may be opened.
    `total` holds both gradients, one after the other (K * D + J * K'); it gets noise, in place."""
    if not rules.open_everyone(total, survivors=survivors, rostered=rostered, iteration=state.iteration):
        return False
    of_v, of_p = np.split(total, [state.interaction.size])
    state.interaction, state.moments = rules.move_interaction(state.interaction, state.moments, of_v, survivors)
    if state.latent is not None:
        moved, state.factor_moments = rules.move_factors(state.latent.factors, state.factor_moments, of_p, survivors)
        state.latent = state.latent._replace(factors=moved)
    return True


def _added_up(parts: Sequence[np.ndarray]) -> np.ndarray:
    """The sum of what the threads have, in the first one's memory."""
    for part in parts[1:]:
        np.add(parts[0], part, out=parts[0])
    return parts[0]


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
        self.codes = ring_codes(samples, settings)
        self.narrow = narrow(self.codes.linear.ring)  # a ring of fewer bits; None once a model did not fit
        self.layout = memory_layout(samples)
        self.last_neighbours: NeighbourSets | None = None

    def advance(self, state: State) -> IterationReport:
        samples, settings = self.samples, self.settings
        online = participation(samples.keys, state.iteration, settings).present
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

    def run_pass(self, state: State, neighbours: NeighbourSets, order: np.ndarray) -> float:
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
        self, state: State, T: RealArray, models: Table, *,
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


# The centralised baseline


class Centralised:
    """A factorization machine of everyone's raw records in one place, by Eqs. (7) and (9): what privacy is compared to.
    One thread, as in the paper's schedule."""

    def __init__(self, samples: Samples, settings: Settings):
        self.samples, self.settings = samples, settings
        self.layout = memory_layout(samples)

    def advance(self, state: State) -> IterationReport:
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
    order: OffsetArray  # the catalogue's number of the place in each row
    places: int  # J, of the catalogue

    def factors(self, of_catalogue: RealArray) -> RealArray:
        """P (J, K') in this order, without the places that nobody visits."""
        found: RealArray = of_catalogue[self.order]
        return found

    def in_catalogue(self, total: RingArray, *, latent: int) -> RingArray:
        """A sum of gradients of P in this order, back in the catalogue's: (J * K',)."""
        rows = np.zeros((self.places, latent), dtype=total.dtype)
        rows[self.order] = total.reshape(len(self.order), latent)
        return rows.ravel()


def memory_layout(samples: Samples) -> MemoryLayout:
    train, many = samples.train, len(samples.places)
    first = np.full(many, len(train), dtype=np.int64)
    first[train.place[::-1]] = np.arange(len(train))[::-1]  # backwards, so that the first record of a place stays
    order = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(train))]
    rank = np.empty(many, dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    data = Everyone(samples.people, train.offsets, rank[train.place], train.context, train.label, samples.keys)
    return MemoryLayout(data, place_rows(samples.places[order]), order, many)
