"""The four sums of a training, behind one interface: taken in the clear here, by protocols in engines/protocol.py."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from prirec.config import Settings
from prirec.engines.ordering import sample_order
from prirec.engines.state import IterationReport, State, centres, mixes, move_public
from prirec.features.samples import Samples
from prirec.graph.neighbourhoods import cohort_numbers, neighbourhoods_of, shares_of_mean
from prirec.graph.neighbours import NeighbourSets, draw
from prirec.model.block_steps import away_from, mix_model
from prirec.model.equations import interaction_gradient, linear_gradient, load, loss, residual, score, shrink
from prirec.model.local_step import DeviceRecords, contribution_of, local_step, rates_of, work
from prirec.model.public_half import Public, place_rows, public
from prirec.model.sample_pass import decentralised_step
from prirec.model.scoring import Models
from prirec.protocols.terms import Code, codes
from prirec.rounds.participation import NoiseKey, Participation, mean, opens, participation, simulated_noise, summed
from prirec.types import IndexArray, RealArray, RingArray
from prirec.util.keyed_random import Word, iteration_key, mix, shuffle


class Sums(Protocol):
    """Rows of people stand for their devices. A sum that may not be opened is None. In a round everyone must have the
    same public models (Models.public)."""

    def over_cohort(
        self, cohort: int, values: Mapping[int, RingArray], *,
        survivors: Sequence[int], public: Sequence[RealArray], centre: RealArray, iteration: int,
    ) -> RingArray | None:  # fmt: skip
        """Step (b) of a round: `values` are those of the roster; opened to the members."""

    def over_everyone(
        self, values: Mapping[int, RingArray], *, survivors: Sequence[int], public: Sequence[RealArray], iteration: int
    ) -> RingArray | None:
        """Step (e) of a round: opened to the recommender."""

    def over_neighbours(self, i: int, values: Mapping[int, RingArray], *, V: RealArray) -> RingArray:
        """Algorithm 1: the weighted models of N(i), opened to user i."""

    def over_batch(self, values: Sequence[tuple[int, RingArray]], *, V: RealArray) -> RingArray:
        """Algorithm 2, line 14: the gradients of V of one batch, opened to the recommender."""


class InTheClear:
    """What the protocols must come to."""

    def __init__(self, samples: Samples, settings: Settings) -> None:
        self.settings, self.codes = settings, codes(samples, settings)

    def over_cohort(
        self, cohort: int, values: Mapping[int, RingArray], *,
        survivors: Sequence[int], public: Sequence[RealArray], centre: RealArray, iteration: int,
    ) -> RingArray | None:  # fmt: skip
        return self._of_survivors(self.codes.linear, values, survivors, where=("linear", iteration, cohort))

    def over_everyone(
        self, values: Mapping[int, RingArray], *, survivors: Sequence[int], public: Sequence[RealArray], iteration: int
    ) -> RingArray | None:
        return self._of_survivors(self.codes.interaction, values, survivors, where=("interaction", iteration))

    def over_neighbours(self, i: int, values: Mapping[int, RingArray], *, V: RealArray) -> RingArray:
        return added(list(values.values()))

    def over_batch(self, values: Sequence[tuple[int, RingArray]], *, V: RealArray) -> RingArray:
        return added([value for _, value in values])

    def _of_survivors(
        self, code: Code, values: Mapping[int, RingArray], survivors: Sequence[int], *, where: NoiseKey
    ) -> RingArray | None:
        if not opens(len(survivors), rostered=len(values), settings=self.settings):
            return None  # abandoned: nothing is opened
        total = added([values[i] for i in survivors])
        noise = simulated_noise(
            code.noise, len(total), rostered=len(values), survivors=len(survivors), settings=self.settings, where=where
        )
        return total + noise.astype(total.dtype)


def added(values: Sequence[RingArray]) -> RingArray:
    """At least one vector, summed in the ring."""
    total = values[0].copy()
    for value in values[1:]:
        total += value
    return total


# The oracle: both schedules, said as plainly as they can be. Every other engine must give the same bits.
#
# The local step and Eqs. (1), (3), (4), (8) come from model/, where their slow twins hold them; here stands everything
# around them: who takes part, what is summed, what is opened, what moves.


class Rounds:
    """The schedule of the presets `rounds` and `private`: all devices step together."""

    def __init__(self, samples: Samples, settings: Settings, sums: Sums):
        self.samples, self.settings, self.sums = samples, settings, sums
        self.cohort = cohort_numbers(samples, settings)
        self.gamma = shares_of_mean(samples.train.counts(), settings)
        self.rows = place_rows(samples.places)
        self.codes = codes(samples, settings)

    def advance(self, state: State) -> IterationReport:
        """One round t; the letters are those of the round's definition in docs/rounds.md."""
        there, models = participation(self.samples.keys, state.iteration, self.settings), state.models
        present = np.flatnonzero(there.present)
        shared = self.shared(models)  # (a)
        opened = self.mixed_models(state, there)
        losses, values = np.zeros(len(self.samples.ids)), {}
        for i in present:
            w, u = models.of(int(i))
            if self.cohort[i] in opened:
                mix_model(w, state.means[self.cohort[i]], self.gamma[i])  # (c)
            contribution, losses[i] = self.learn(w, u, shared, int(i), state.iteration)  # (d)
            values[int(i)] = self.codes.interaction.write(contribution)
        counted = np.flatnonzero(there.counted).tolist()
        total = self.sums.over_everyone(
            values, survivors=counted, public=models.public, iteration=state.iteration
        )  # (e)
        if total is not None:
            move_public(state, self.codes.interaction.ring.decode(total) / len(counted), self.settings)  # (f)
        records = int(self.samples.train.counts()[present].sum())
        state.iteration += 1
        return IterationReport(
            iteration=state.iteration,
            loss=mean(summed(losses), records),
            took_part=len(present),
            in_sum=len(counted),
            cohorts_opened=len(opened),
            opened=total is not None,
        )

    def shared(self, models: Models) -> Public:
        """Step (a): what every device derives from what is public."""
        return public(models.interaction, self.rows, first=self.samples.people.shape[1], factors=models.factors)

    def mixed_models(self, state: State, there: Participation) -> set[int]:
        """Step (b): the mean model of each cohort with enough survivors, and which cohorts these are."""
        opened, code = set(), self.codes.linear
        centre = centres(state, int(self.cohort.max()) + 1, public=code.noise > 0)
        for cohort, around in enumerate(centre if mixes(state, noisy=code.noise > 0) else ()):
            roster = np.flatnonzero(there.online & (self.cohort == cohort)).tolist()
            values = {i: code.write(self.clipped(state.linear[i], around)) for i in roster}
            members = [i for i in roster if there.present[i]]
            total = self.sums.over_cohort(
                cohort, values, survivors=members, public=state.models.public, centre=around, iteration=state.iteration
            )
            if total is not None:
                state.means[cohort] = around + code.ring.decode(total) / len(members)
                opened.add(cohort)
        return opened

    def clipped(self, w: RealArray, centre: RealArray) -> RealArray:
        """clip(W_i - centre); W_i itself stays as it is."""
        out = np.empty_like(w)
        away_from(centre, w, out)
        shrink(out, self.codes.linear.clip, out)
        return out

    def learn(self, w: RealArray, u: RealArray, shared: Public, i: int, iteration: int) -> tuple[RealArray, float]:
        """Step (d), on device i: moves w and u; its part of the sum over everyone (K * D + J * K'), and the loss."""
        train, settings = self.samples.train, self.settings
        mine = slice(train.offsets[i], train.offsets[i + 1])
        own = DeviceRecords(self.samples.people[i], train.place[mine], train.context[mine], train.label[mine])
        order = np.empty(len(own.place), dtype=np.int32)
        shuffle(mix(iteration_key(settings.seed, "order", iteration), self.samples.keys[i]), order)
        rates = rates_of(settings, clip=self.codes.interaction.clip)
        (J, depth), D, K = shared.factors.shape, len(shared.lanes), settings.model.dimension
        made = contribution_of(K, D, latent=depth, places=J, records=len(order))
        lost = local_step(w, u, shared, own, order, rates, work(K, D), made)
        return made.whole(), lost


class Samplewise:
    """Algorithm 2: sample after sample."""

    def __init__(self, samples: Samples, settings: Settings, sums: Sums):
        self.samples, self.settings, self.sums = samples, settings, sums
        self.codes = codes(samples, settings)

    def advance(self, state: State) -> IterationReport:
        """Lines 5 to 16, for one t."""
        samples, settings = self.samples, self.settings
        online = participation(samples.keys, state.iteration, settings).present
        around = neighbourhoods_of(samples, settings, iteration=state.iteration, online=online)
        order = sample_order(samples, settings, iteration=state.iteration, online=online)  # line 6
        draws = iteration_key(settings.seed, "neighbours", state.iteration)
        T, losses, waiting = np.ascontiguousarray(state.interaction.T), 0.0, []
        for row in order:  # line 7
            i, x = samples.train.person[row], self.sample(row)
            neighbours = self.neighbours(around, i, mix(draws, row))
            losses += self.learn_linear(state.linear, T, x, row, neighbours, around)
            waiting.append((int(i), self.gradient_of_interaction(state.linear[i], T, x, row)))
            if len(waiting) == settings.interaction.batch:
                self.move_interaction(T, waiting)
                waiting = []
        if waiting:
            self.move_interaction(T, waiting)
        state.interaction = np.ascontiguousarray(T.T)
        state.iteration += 1
        people = np.unique(samples.train.person[order])
        alone = 0 if around.fresh else int((np.diff(around.offsets)[people] == 0).sum())
        return IterationReport(
            iteration=state.iteration,
            loss=losses / max(len(order), 1),
            took_part=len(people),
            in_sum=len(people),
            alone=alone,
        )

    def sample(self, row: int) -> RealArray:
        """X^ij."""
        train, x = self.samples.train, np.empty(self.samples.features)
        load(self.samples.people[train.person[row]], self.samples.places[train.place[row]], train.context[row], x)
        return x

    def neighbours(self, around: NeighbourSets, i: int, key: Word) -> IndexArray:
        """N(i), fixed or drawn anew for this interaction."""
        if around.fresh:
            return around.online[draw(key, around.position[i], len(around.online), around.fresh)]
        return around.people[around.offsets[i] : around.offsets[i + 1]]

    def learn_linear(
        self, W: RealArray, T: RealArray, x: RealArray, row: int, neighbours: IndexArray, around: NeighbourSets
    ) -> float:
        """Lines 9 and 10: Eq. (3), Algorithm 1, Eq. (8)."""
        i, y, code = self.samples.train.person[row], float(self.samples.train.label[row]), self.codes.linear.ring
        gradient, guess = np.empty(W.shape[1]), score(W[i], T, x, np.empty(len(T)))
        linear_gradient(W[i], x, residual(y, guess), self.settings.model.lambda_w, gradient)
        total, values = code.zeros(W.shape[1]), {}
        for e, f in enumerate(neighbours):
            weight = around.weights[around.offsets[i] + e] if len(around.weights) else 1.0
            values[int(f)] = code.encode(weight * W[f])
        if values:
            total = self.sums.over_neighbours(int(i), values, V=T)
        share = 1.0 / (code.scale * (1 if len(around.weights) else max(len(neighbours), 1)))
        gamma = self.settings.linear.gamma if len(neighbours) else 0.0
        decentralised_step(W[i], code.signed(total), gradient, share, around.own[i], gamma, self.settings.linear.alpha)
        if not len(around.weights):
            code.encode(W[i])  # refused now if it could not be summed when a neighbour asks for it
        return loss(y, guess)

    def gradient_of_interaction(self, w: RealArray, T: RealArray, x: RealArray, row: int) -> RealArray:
        """Lines 12 and 13: Eq. (4), (K * D,)."""
        y, pull, gradient = float(self.samples.train.label[row]), np.empty(len(T)), np.empty_like(T)
        r = residual(y, score(w, T, x, pull))
        interaction_gradient(T, x, pull, r, self.settings.model.lambda_v, gradient)
        return gradient.ravel()

    def move_interaction(self, T: RealArray, gradients: list[tuple[int, RealArray]]) -> None:
        """Lines 14 and 15: secure aggregation, then Eq. (9)."""
        code = self.codes.interaction.ring
        total = self.sums.over_batch([(i, code.encode(gradient)) for i, gradient in gradients], V=T)
        T -= self.settings.interaction.alpha * code.decode(total).reshape(T.shape)


def engine(samples: Samples, settings: Settings, sums: Sums | None = None) -> Rounds | Samplewise:
    """The oracle for a schedule; with other sums than those in the clear, a carrier that must come to the same."""
    taken = sums if sums is not None else InTheClear(samples, settings)
    schedule = Rounds if settings.schedule == "rounds" else Samplewise
    return schedule(samples, settings, taken)
