"""A city laid out in memory for the fast engines: who is near there is near in memory, people and places alike."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from math import isnan
from typing import NamedTuple, TypeVar

import numpy as np

from prirec.config import Settings
from prirec.engines.ordering import sample_order
from prirec.engines.state import IterationReport, State, centres, mixes, move_public
from prirec.features.samples import Samples
from prirec.graph.neighbourhoods import cohort_numbers, neighbourhoods_of, shares_of_mean
from prirec.graph.neighbours import NeighbourSets
from prirec.model.block_steps import Everyone, Mixing, contribute_models, step_people
from prirec.model.lanes import in_lines, out_of_lanes
from prirec.model.latent import Latent, no_latent
from prirec.model.local_step import contribution_of, rates_of, work
from prirec.model.public_half import PlaceRows, place_rows, public
from prirec.model.sample_pass import Descent, Reached, Scratch, Table, narrow, sample_pass, table
from prirec.protocols.terms import Code, Codes, codes
from prirec.rounds.participation import NoiseKey, Participation, mean, opens, participation, simulated_noise, summed
from prirec.sharing.fixed_point import outside
from prirec.types import BoolArray, IndexArray, OffsetArray, RealArray, RingArray
from prirec.util.keyed_random import iteration_key


class MemoryLayout(NamedTuple):
    """Places are renumbered as people first come to them, and those that nobody comes to are left out. The numbers of
    places decide nothing, so no result changes."""

    everyone: Everyone
    rows: PlaceRows
    order: OffsetArray  # which place of the catalogue stands in each row
    places: int  # J, of the catalogue

    def factors(self, of_catalogue: RealArray) -> RealArray:
        """P (J, K') as it is laid out here, without the places that nobody comes to."""
        laid: RealArray = of_catalogue[self.order]
        return laid

    def in_catalogue(self, total: RingArray, *, latent: int) -> RingArray:
        """A sum of rows of P as they are laid out here, as the catalogue has them: (J * K',)."""
        rows = np.zeros((self.places, latent), dtype=total.dtype)
        rows[self.order] = total.reshape(len(self.order), latent)
        return rows.ravel()


def memory_layout(samples: Samples) -> MemoryLayout:
    train, many = samples.train, len(samples.places)
    first = np.full(many, len(train), dtype=np.int64)
    first[train.place[::-1]] = np.arange(len(train))[::-1]
    order = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(train))]
    rank = np.empty(many, dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    data = Everyone(samples.people, train.offsets, rank[train.place], train.context, train.label, samples.keys)
    return MemoryLayout(data, place_rows(samples.places[order]), order, many)


# The paper's schedule on one machine, fast: the same bits as engines/plain.py.


class Samplewise:
    """Algorithm 2 in one kernel. A sample needs the models that the one before it moved, so there is one thread."""

    def __init__(self, samples: Samples, settings: Settings):
        self.samples, self.settings = samples, settings
        self.codes = codes(samples, settings)
        self.narrow = narrow(self.codes.linear.ring)  # None once a model did not fit
        self.city = memory_layout(samples)
        self.circle: NeighbourSets | None = None

    def advance(self, state: State) -> IterationReport:
        samples, settings = self.samples, self.settings
        online = participation(samples.keys, state.iteration, settings).present
        around = self.around(state.iteration, online)
        order = sample_order(samples, settings, iteration=state.iteration, online=online)
        losses = self.run_pass(state, around, order)
        state.iteration += 1
        people = np.flatnonzero(online & (samples.train.counts() > 0))
        alone = 0 if around.fresh else int((np.diff(around.offsets)[people] == 0).sum())
        return IterationReport(
            iteration=state.iteration,
            loss=losses / max(len(order), 1),
            took_part=len(people),
            in_sum=len(people),
            alone=alone,
        )

    def around(self, iteration: int, online: np.ndarray) -> NeighbourSets:
        """The circle of this pass; kept when nothing about it can change."""
        settled = self.settings.participation.online == 1.0 and self.settings.neighbours.among is None
        if self.circle is None or not settled:
            self.circle = neighbourhoods_of(self.samples, self.settings, iteration=iteration, online=online)
        return self.circle

    def run_pass(self, state: State, around: NeighbourSets, order: np.ndarray) -> float:
        """The narrow ring as far as it goes, then the wide one: the same sums. Returns the summed loss."""
        T, room, uniform = (
            np.ascontiguousarray(state.interaction.T),
            self.scratch(around.fresh),
            len(around.weights) == 0,
        )
        reached = Reached(samples=0, losses=0.0, fine=True)
        for code in (self.narrow if uniform else None, self.codes.linear.ring):
            if code is None:
                continue
            models = table(state.linear if uniform else state.linear[:0], code)
            reached = reached._replace(fine=models is not None)
            if models is not None:
                reached = self.walk(state, T, models, around=around, order=order, reached=reached, room=room)
            if reached.fine or isnan(reached.losses):
                break
            self.narrow = None
        if not reached.fine or isnan(reached.losses):
            raise outside(self.codes.linear.ring.bound)
        state.interaction = np.ascontiguousarray(T.T)
        return reached.losses

    def walk(
        self, state: State, T: RealArray, models: Table, *,
        around: NeighbourSets, order: np.ndarray, reached: Reached, room: Scratch,
    ) -> Reached:  # fmt: skip
        s = self.settings
        rates = Descent(
            s.linear.alpha, s.interaction.alpha, s.model.lambda_w, s.model.lambda_v, s.linear.gamma, s.interaction.batch
        )
        return sample_pass(
            state.linear, models, T, self.city.everyone, self.samples.train.person, self.city.rows, around, order,
            reached, iteration_key(s.seed, "neighbours", state.iteration), rates, self.codes.interaction.encoder, room,
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


# The fast engine, on one machine: the same bits as engines/plain.py for any number of threads.
#
# Measured against per-sample NumPy in one run by benchmarks/speed.py.


Answer = TypeVar("Answer")
Block = tuple[int, int]


class ShardView(NamedTuple):
    """What some of the people take over from the whole of them: see engines/shards.py."""

    cohort: IndexArray  # (I,): 0 .. C - 1, of those that these people are in
    numbers: OffsetArray  # (C,): what the whole calls these cohorts
    codes: Codes


class Rounds:
    """Rounds in blocks of people, one block a thread."""

    def __init__(self, samples: Samples, settings: Settings, *, threads: int, part: ShardView | None = None):
        self.samples, self.settings = samples, settings
        self.cohort, self.numbers, self.codes = part if part is not None else all_people(samples, settings)
        self.gamma = shares_of_mean(samples.train.counts(), settings)
        self.city = memory_layout(samples)
        self.blocks = list(_blocks(samples, threads))

    def advance(self, state: State) -> IterationReport:
        there = participation(self.samples.keys, state.iteration, self.settings)
        mixing = self.mixed_models(state, there)
        total, losses = self.step_everyone(state, there, mixing)
        rostered, in_sum = int(there.present.sum()), int(there.counted.sum())
        opened = opens(in_sum, rostered=rostered, settings=self.settings)
        if opened:
            code = self.codes.interaction
            self.add_noise(total, code, rostered, in_sum, ("interaction", state.iteration))
            move_public(state, code.ring.decode(total) / in_sum, self.settings)
        records = int(self.samples.train.counts()[there.present].sum())
        state.iteration += 1
        return IterationReport(
            iteration=state.iteration,
            loss=mean(summed(losses), records),
            took_part=rostered,
            in_sum=in_sum,
            cohorts_opened=int(mixing.opened.sum()),
            opened=opened,
        )

    def mixed_models(self, state: State, there: Participation) -> Mixing:
        """Step (b), and who takes what of it in step (c)."""
        code, cohorts = self.codes.linear, len(self.numbers)
        centre = centres(state, cohorts, public=code.noise > 0)
        if not mixes(state, noisy=code.noise > 0):
            return Mixing(self.cohort, state.means, np.zeros(cohorts, dtype=np.bool_), self.gamma)
        total, members = self.contributions(state, there, centre)
        rostered = np.bincount(self.cohort[there.online], minlength=cohorts)
        opened = self.open_cohorts(total, members, rostered, state.iteration)
        return self.with_means(state, centre, total, members, opened)

    def contributions(self, state: State, there: Participation, centre: RealArray) -> tuple[RingArray, OffsetArray]:
        """The sum of each cohort (C, D + 1), and how many are in it."""
        W, code, cohorts = state.linear, self.codes.linear, len(self.numbers)

        def contribute(block: Block) -> tuple[np.ndarray, np.ndarray]:
            sums, members = code.ring.zeros((cohorts, W.shape[1])), np.zeros(cohorts, dtype=np.int64)
            fine = contribute_models(
                W, block, there.present, self.cohort, centre, code.clip, code.encoder,
                np.empty(W.shape[1]), sums, members,
            )  # fmt: skip
            if not fine:
                raise outside(code.ring.bound)
            return sums, members

        totals, members = zip(*self.each(contribute, self.blocks), strict=True)
        return _added_up(totals), _added_up(members)

    def open_cohorts(
        self, total: RingArray, members: OffsetArray, rostered: OffsetArray, iteration: int
    ) -> BoolArray:  # fmt: skip
        """Which cohorts are opened; what is opened is noisy from here on."""
        pairs = zip(members.tolist(), rostered.tolist(), strict=True)
        opened = np.array([opens(some, rostered=all_, settings=self.settings) for some, all_ in pairs], dtype=np.bool_)
        if self.codes.linear.noise > 0:
            for c in np.flatnonzero(opened).tolist():
                where = ("linear", iteration, int(self.numbers[c]))
                self.add_noise(total[c], self.codes.linear, int(rostered[c]), int(members[c]), where)
        return opened

    def with_means(
        self, state: State, centre: RealArray, total: RingArray, members: OffsetArray, opened: BoolArray
    ) -> Mixing:
        """The means of what was opened, kept in the state."""
        ring = self.codes.linear.ring
        state.means[opened] = centre[opened] + ring.decode(total[opened]) / members[opened, None]
        return Mixing(self.cohort, state.means, opened, self.gamma)

    def step_everyone(self, state: State, there: Participation, mixing: Mixing) -> tuple[RingArray, RealArray]:
        """Steps (c) to (e): the sum over everyone, and what each person lost."""
        code, latent = self.codes.interaction, self.latent(state)
        rates = rates_of(self.settings, clip=code.clip)
        key = iteration_key(self.settings.seed, "order", state.iteration)
        shared = public(
            state.interaction, self.city.rows, first=self.samples.people.shape[1],
            factors=self.city.factors(latent.factors), in_parts=self.in_parts,
        )  # fmt: skip
        (J, depth), (D, K) = shared.factors.shape, state.interaction.shape
        losses = np.zeros(len(self.samples.ids))
        longest = int(self.samples.train.counts().max(initial=0))

        def step(block: Block) -> tuple[np.ndarray, np.ndarray]:
            made = contribution_of(K, D, latent=depth, places=J, records=longest)
            room, encoded = work(K, D), in_lines(shared.lanes.size, dtype=np.uint64)
            of_interaction, of_factors = in_lines(*shared.lanes.shape, dtype=np.uint64), code.ring.zeros(J * depth)
            fine = step_people(
                state.linear, latent.vectors, block, there.present, there.counted, mixing, shared, self.city.everyone,
                key, rates, code.encoder, room, np.empty(longest, dtype=np.int32), made, encoded, of_interaction,
                of_factors, losses,
            )  # fmt: skip
            if not fine:
                raise outside(code.ring.bound)
            return of_interaction, of_factors

        of_interaction, of_factors = map(_added_up, zip(*self.each(step, self.blocks), strict=True))
        by_component = out_of_lanes(of_interaction, K).astype(code.ring.dtype)
        return np.concatenate([by_component, self.city.in_catalogue(of_factors, latent=depth)]), losses

    def latent(self, state: State) -> Latent:
        return state.latent or no_latent(len(self.samples.ids), len(self.samples.places))

    def add_noise(self, total: RingArray, code: Code, rostered: int, survivors: int, where: NoiseKey) -> None:
        """What the survivors' shares come to, in simulation."""
        total += simulated_noise(
            code.noise, len(total), rostered=rostered, survivors=survivors, settings=self.settings, where=where
        ).astype(total.dtype)

    def in_parts(self, task: Callable[[int, int], None], many: int) -> None:
        """Rows 0 to many, as many for each thread."""
        edges = [many * part // len(self.blocks) for part in range(len(self.blocks) + 1)]
        self.each(lambda block: task(*block), list(pairwise(edges)))

    def each(self, task: Callable[[Block], Answer], blocks: list[Block]) -> list[Answer]:
        """A thread for each block; the first block is done here. All of them end before this does."""
        if len(blocks) == 1:
            return [task(blocks[0])]
        with ThreadPoolExecutor(len(blocks) - 1) as pool:
            others = [pool.submit(task, block) for block in blocks[1:]]
            return [task(blocks[0]), *(other.result() for other in others)]


def _added_up(parts: Sequence[np.ndarray]) -> np.ndarray:
    """The sum of what the threads have, into the first one's memory."""
    for part in parts[1:]:
        np.add(parts[0], part, out=parts[0])
    return parts[0]


def all_people(samples: Samples, settings: Settings) -> ShardView:
    """All of the people."""
    cohort = cohort_numbers(samples, settings)
    return ShardView(cohort, np.arange(int(cohort.max()) + 1), codes(samples, settings))


def _blocks(samples: Samples, threads: int) -> Iterator[Block]:
    """People in consecutive blocks with about as much work each; one, where there is nobody."""
    if not len(samples.ids):
        yield 0, 0
        return
    effort = samples.train.offsets[1:] + np.arange(1, len(samples.ids) + 1)
    cuts = np.searchsorted(effort, effort[-1] * np.arange(1, threads) / threads)
    edges = [0, *cuts.tolist(), len(samples.ids)]
    yield from ((a, b) for a, b in pairwise(edges) if a < b)


def engine(samples: Samples, settings: Settings, *, threads: int = 2) -> Rounds | Samplewise:
    """The fast engine for a schedule."""
    if settings.schedule == "rounds":
        return Rounds(samples, settings, threads=threads)
    return Samplewise(samples, settings)
