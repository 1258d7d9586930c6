"""The fast engine, on one machine: the same bits as engines/plain.py for any number of threads.

Measured against per-sample NumPy in one run by benchmarks/speed.py.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np

from prirec.engines.circles import cohort_numbers, shares_of_mean
from prirec.engines.codes import Code, Codes, codes
from prirec.engines.laid_out import laid_out
from prirec.engines.local_samples import Samplewise
from prirec.engines.losses import mean, summed
from prirec.engines.noise import Where, simulated_noise
from prirec.engines.participation import Standing, opens, standing
from prirec.engines.randomness import iteration_key
from prirec.engines.state import Passed, State, centres, mixes, move_public
from prirec.features.samples import Samples
from prirec.model.contribution import contribution_of, work
from prirec.model.lanes import in_lines, out_of_lanes
from prirec.model.latent import Latent, no_latent
from prirec.model.local_step import rates_of
from prirec.model.public_half import public
from prirec.model.round_steps import Mixing, contribute_models, step_people
from prirec.settings import Settings
from prirec.sharing.fixed_point import outside
from prirec.types import BoolArray, IndexArray, OffsetArray, RealArray, RingArray

Answer = TypeVar("Answer")
Block = tuple[int, int]


class Part(NamedTuple):
    """What some of the people take over from the whole of them: see engines/shard.py."""

    cohort: IndexArray  # (I,): 0 .. C - 1, of those that these people are in
    numbers: OffsetArray  # (C,): what the whole calls these cohorts
    codes: Codes


class Rounds:
    """Rounds in blocks of people, one block a thread."""

    def __init__(self, samples: Samples, settings: Settings, *, threads: int, part: Part | None = None):
        self.samples, self.settings = samples, settings
        self.cohort, self.numbers, self.codes = part if part is not None else whole(samples, settings)
        self.gamma = shares_of_mean(samples.train.counts(), settings)
        self.city = laid_out(samples)
        self.blocks = list(_blocks(samples, threads))

    def advance(self, state: State) -> Passed:
        there = standing(self.samples.keys, state.iteration, self.settings)
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
        return Passed(
            iteration=state.iteration,
            loss=mean(summed(losses), records),
            took_part=rostered,
            in_sum=in_sum,
            cohorts_opened=int(mixing.opened.sum()),
            opened=opened,
        )

    def mixed_models(self, state: State, there: Standing) -> Mixing:
        """Step (b), and who takes what of it in step (c)."""
        code, cohorts = self.codes.linear, len(self.numbers)
        centre = centres(state, cohorts, public=code.noise > 0)
        if not mixes(state, noisy=code.noise > 0):
            return Mixing(self.cohort, state.means, np.zeros(cohorts, dtype=np.bool_), self.gamma)
        total, members = self.contributions(state, there, centre)
        rostered = np.bincount(self.cohort[there.online], minlength=cohorts)
        opened = self.open_cohorts(total, members, rostered, state.iteration)
        return self.with_means(state, centre, total, members, opened)

    def contributions(self, state: State, there: Standing, centre: RealArray) -> tuple[RingArray, OffsetArray]:
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

    def step_everyone(self, state: State, there: Standing, mixing: Mixing) -> tuple[RingArray, RealArray]:
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

    def add_noise(self, total: RingArray, code: Code, rostered: int, survivors: int, where: Where) -> None:
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


def whole(samples: Samples, settings: Settings) -> Part:
    """All of the people."""
    cohort = cohort_numbers(samples, settings)
    return Part(cohort, np.arange(int(cohort.max()) + 1), codes(samples, settings))


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
