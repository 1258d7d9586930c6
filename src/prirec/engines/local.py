"""The fast engine, on one machine: the same bits as engines/plain.py for any number of threads.

Measured against per-sample NumPy in one run by benchmarks/speed.py.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from math import isnan
from typing import TypeVar

import numpy as np

from prirec.engines.circles import circle, cohort_numbers, shares_of_mean
from prirec.engines.codes import Code, codes
from prirec.engines.laid_out import laid_out
from prirec.engines.noise import Where, simulated_noise
from prirec.engines.ordering import sample_order
from prirec.engines.participation import Standing, opens, standing
from prirec.engines.randomness import iteration_key
from prirec.engines.state import Passed, State, centres, mixes, move_public
from prirec.features.samples import Samples
from prirec.model.latent import no_latent
from prirec.model.local_step import contribution_of, rates_of, work
from prirec.model.public_half import Public, public
from prirec.model.round_steps import Mixing, contribute_models, step_people
from prirec.model.sample_pass import Circle, Descent, Reached, Scratch, sample_pass
from prirec.model.table import Table, narrow, table
from prirec.settings import Settings
from prirec.sharing.fixed_point import outside
from prirec.types import RealArray, RingArray

Answer = TypeVar("Answer")
Block = tuple[int, int]


class Rounds:
    """Rounds in blocks of people, one block a thread."""

    def __init__(self, samples: Samples, settings: Settings, *, threads: int):
        self.samples, self.settings = samples, settings
        self.cohort = cohort_numbers(samples, settings)
        self.gamma = shares_of_mean(samples.train.counts(), settings)
        self.codes = codes(samples, settings)
        self.city = laid_out(samples)
        self.blocks = list(_blocks(samples, threads))

    def advance(self, state: State) -> Passed:
        there = standing(self.samples.keys, state.iteration, self.settings)
        latent = state.latent or no_latent(len(self.samples.ids), len(self.samples.places))
        shared = public(
            state.interaction, self.city.rows, first=self.samples.people.shape[1],
            factors=self.city.factors(latent.factors),
        )  # fmt: skip
        mixing = self.mixed_models(state, there)
        total, losses = self.step_everyone(state, latent.vectors, there, mixing, shared)
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
            loss=float(losses.sum()) / max(records, 1),
            took_part=rostered,
            in_sum=in_sum,
            cohorts_opened=int(mixing.opened.sum()),
            opened=opened,
        )

    def mixed_models(self, state: State, there: Standing) -> Mixing:
        W, code, cohorts = state.linear, self.codes.linear, int(self.cohort.max()) + 1
        ring, centre = code.ring, centres(state, cohorts, public=code.noise > 0)
        if not mixes(state, noisy=code.noise > 0):
            return Mixing(self.cohort, state.means, np.zeros(cohorts, dtype=np.bool_), self.gamma)

        def contribute(block: Block) -> tuple[np.ndarray, np.ndarray]:
            sums, members = ring.zeros((cohorts, W.shape[1])), np.zeros(cohorts, dtype=np.int64)
            fine = contribute_models(
                W, block, there.present, self.cohort, centre, code.clip, code.encoder,
                np.empty(W.shape[1]), sums, members,
            )  # fmt: skip
            if not fine:
                raise outside(ring.bound)
            return sums, members

        parts = self.each_block(contribute)
        members = np.sum([part[1] for part in parts], axis=0)
        total = parts[0][0]
        for part in parts[1:]:
            total += part[0]
        rostered = np.bincount(self.cohort[there.online], minlength=cohorts)
        pairs = zip(members.tolist(), rostered.tolist(), strict=True)
        opened = np.array([opens(some, rostered=all_, settings=self.settings) for some, all_ in pairs])
        for c in np.flatnonzero(opened).tolist():
            self.add_noise(total[c], code, int(rostered[c]), int(members[c]), ("linear", state.iteration, c))
        state.means[opened] = centre[opened] + ring.decode(total[opened]) / members[opened, None]
        return Mixing(self.cohort, state.means, opened, self.gamma)

    def step_everyone(
        self, state: State, vectors: RealArray, there: Standing, mixing: Mixing, shared: Public
    ) -> tuple[RingArray, RealArray]:
        settings, code = self.settings, self.codes.interaction
        rates = rates_of(settings, clip=code.clip)
        key = iteration_key(settings.seed, "order", state.iteration)
        (J, L), (D, K) = shared.factors.shape, state.interaction.shape
        losses = np.zeros(len(self.samples.ids))
        longest = int(self.samples.train.counts().max(initial=0))

        def step(block: Block) -> np.ndarray:
            total, made = code.ring.zeros(K * D + J * L), contribution_of(K, D, latent=L, places=J, records=longest)
            fine = step_people(
                state.linear, vectors, block, there.present, there.counted, mixing, shared, self.city.everyone, key,
                rates, code.encoder, work(K, D), np.empty(longest, dtype=np.int32), made, total, losses,
            )  # fmt: skip
            if not fine:
                raise outside(code.ring.bound)
            return total

        parts = self.each_block(step)
        total = parts[0]
        for part in parts[1:]:
            total += part
        return self.city.in_catalogue(total, latent=L), losses

    def add_noise(self, total: RingArray, code: Code, rostered: int, survivors: int, where: Where) -> None:
        """What the survivors' shares come to, in simulation."""
        total += simulated_noise(
            code.noise, len(total), rostered=rostered, survivors=survivors, settings=self.settings, where=where
        ).astype(total.dtype)

    def each_block(self, task: Callable[[Block], Answer]) -> list[Answer]:
        if len(self.blocks) == 1:
            return [task(self.blocks[0])]
        with ThreadPoolExecutor(len(self.blocks)) as pool:
            return list(pool.map(task, self.blocks))


def _blocks(samples: Samples, threads: int) -> Iterator[Block]:
    """People in consecutive blocks with about as much work each."""
    effort = samples.train.offsets[1:] + np.arange(1, len(samples.ids) + 1)
    cuts = np.searchsorted(effort, effort[-1] * np.arange(1, threads) / threads)
    edges = [0, *cuts.tolist(), len(samples.ids)]
    yield from ((a, b) for a, b in pairwise(edges) if a < b)


class Samplewise:
    """Algorithm 2 in one kernel. A sample needs the models that the one before it moved, so there is one thread."""

    def __init__(self, samples: Samples, settings: Settings):
        self.samples, self.settings = samples, settings
        self.codes = codes(samples, settings)
        self.narrow = narrow(self.codes.linear.ring)  # None once a model did not fit
        self.city = laid_out(samples)
        self.circle: Circle | None = None

    def advance(self, state: State) -> Passed:
        samples, settings = self.samples, self.settings
        online = standing(samples.keys, state.iteration, settings).present
        around = self.around(state.iteration, online)
        order = sample_order(samples, settings, iteration=state.iteration, online=online)
        losses = self.run_pass(state, around, order)
        state.iteration += 1
        people = np.flatnonzero(online & (samples.train.counts() > 0))
        alone = 0 if around.fresh else int((np.diff(around.offsets)[people] == 0).sum())
        return Passed(
            iteration=state.iteration,
            loss=losses / max(len(order), 1),
            took_part=len(people),
            in_sum=len(people),
            alone=alone,
        )

    def around(self, iteration: int, online: np.ndarray) -> Circle:
        """The circle of this pass; kept when nothing about it can change."""
        settled = self.settings.participation.online == 1.0 and self.settings.neighbours.among is None
        if self.circle is None or not settled:
            self.circle = circle(self.samples, self.settings, iteration=iteration, online=online)
        return self.circle

    def run_pass(self, state: State, around: Circle, order: np.ndarray) -> float:
        """The narrow ring as far as it goes, then the wide one: the same sums. Returns the summed loss."""
        T, room, uniform = np.ascontiguousarray(state.interaction.T), self.scratch(), len(around.weights) == 0
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
        around: Circle, order: np.ndarray, reached: Reached, room: Scratch,
    ) -> Reached:  # fmt: skip
        s = self.settings
        rates = Descent(
            s.linear.alpha, s.interaction.alpha, s.model.lambda_w, s.model.lambda_v, s.linear.gamma, s.interaction.batch
        )
        return sample_pass(
            state.linear, models, T, self.city.everyone, self.samples.train.person, self.city.rows, around, order,
            reached, iteration_key(s.seed, "neighbours", state.iteration), rates, self.codes.interaction.encoder, room,
        )  # fmt: skip

    def scratch(self) -> Scratch:
        D, K = self.samples.features, self.settings.model.dimension
        pending = self.codes.interaction.ring.zeros(K * D)
        return Scratch(
            x=np.empty(D),
            present=np.empty(D + 1, dtype=np.int32),
            pull=np.empty(K),
            gradient=np.empty(D + 1),
            weighted=np.empty(D + 1),
            drawn=np.empty(self.settings.neighbours.count, dtype=np.int32),
            pending=pending,
            pending_signed=self.codes.interaction.ring.signed(pending),
        )


def engine(samples: Samples, settings: Settings, *, threads: int = 2) -> Rounds | Samplewise:
    """The fast engine for a schedule."""
    if settings.schedule == "rounds":
        return Rounds(samples, settings, threads=threads)
    return Samplewise(samples, settings)
