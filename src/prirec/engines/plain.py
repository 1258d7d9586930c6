"""The oracle: both schedules, as plainly as they can be written. Every other engine must give the same bits.

It imports nothing from prirec.rounds, where the other engines, devices and the recommender have their definition of a
round: who takes part, what is mixed, what is opened and how V moves are spelled out here a second time, person after
person, so that a mistake in either is noticed. Shared are types, ring codes (protocols/terms.py), keyed draws
(util/keyed_random.py), and the equations and the local step of model/, which slow twins of their own hold in place.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from hashlib import blake2b
from math import nan
from typing import NamedTuple, Protocol

import numpy as np

from prirec.config import Settings
from prirec.engines.ordering import sample_order
from prirec.engines.state import IterationReport, State
from prirec.errors import StateError
from prirec.features.samples import Samples
from prirec.graph.neighbourhoods import cohort_numbers, neighbourhoods_of
from prirec.graph.neighbours import NeighbourSets, draw
from prirec.model import adam
from prirec.model.adam import no_moments
from prirec.model.block_steps import away_from, mix_model
from prirec.model.equations import interaction_gradient, linear_gradient, load, loss, residual, score, shrink
from prirec.model.latent import Latent
from prirec.model.local_step import DeviceRecords, contribution_of, local_step, rates_of, work
from prirec.model.public_half import Public, place_rows, public
from prirec.model.sample_pass import decentralised_step
from prirec.model.scoring import Models
from prirec.privacy.exact_random import Stream
from prirec.privacy.noise import NoiseShare
from prirec.privacy.plan import crowd
from prirec.protocols.mask_graph import least_survivors
from prirec.protocols.terms import Code, codes
from prirec.types import IndexArray, RealArray, RingArray
from prirec.util.keyed_random import Word, generator, iteration_key, mix, shuffle, uniform


def engine(samples: Samples, settings: Settings, sums: "Sums | None" = None) -> "Rounds | Samplewise":
    """The oracle for the schedule of these settings. With other sums than those in the clear, an engine that must come
    to the same: engines/protocol.py."""
    taken = sums if sums is not None else InTheClear(samples, settings)
    schedule = Rounds if settings.schedule == "rounds" else Samplewise
    return schedule(samples, settings, taken)


def start(samples: Samples, settings: Settings) -> State:
    """Algorithm 2, lines 1 to 4: V small and random, so that its gradient is not 0; every linear model 0. With a latent
    part the factors of places start as V does, and people's vectors as linear models do."""
    I, D, K, L = len(samples.ids), samples.features, settings.model.dimension, settings.latent.dimension  # noqa: E741
    V = generator(settings.seed, "start of V").normal(0.0, settings.model.spread, size=(D, K))
    state = State(0, np.zeros((I, D + 1)), V, no_moments((D, K)), means=np.zeros((0, D + 1)))
    if L:
        draws, J = generator(settings.seed, "start of place factors"), len(samples.places)
        state.latent = Latent(np.zeros((I, L)), draws.normal(0.0, settings.latent.spread, size=(J, L)))
        state.factor_moments = no_moments((J, L))
    return state


# Rounds


class Present(NamedTuple):
    """Rows of people, ascending."""

    online: list[int]  # enter the round: the roster of the mixing
    present: list[int]  # are still there for the mixing and the local step: the roster of the sum over everyone
    counted: list[int]  # and their gradients are in that sum


def present_in(samples: Samples, settings: Settings, iteration: int) -> Present:
    """Two keyed draws for each person: one says whether the device is online, one whether and when it is lost. A loss
    before the mixing is as likely as one after the local step."""
    key = iteration_key(settings.seed, "participation", iteration)
    fates = iteration_key(settings.seed, "drop-out", iteration)
    found = Present([], [], [])
    for i, person in enumerate(samples.keys):
        fate, lost = uniform(mix(fates, person)), settings.participation.dropout
        if uniform(mix(key, person)) < settings.participation.online:
            found.online.append(i)
            if fate >= lost / 2:
                found.present.append(i)
            if fate >= lost:
                found.counted.append(i)
    return found


class Rounds:
    """The schedule of the presets `rounds` and `private`: all devices step together."""

    def __init__(self, samples: Samples, settings: Settings, sums: "Sums"):
        self.samples, self.settings, self.sums = samples, settings, sums
        self.cohort = cohort_numbers(samples, settings)
        self.gamma = [mixing_weight(records, settings) for records in samples.train.counts().tolist()]
        self.rows = place_rows(samples.places)
        self.codes = codes(samples, settings)

    def advance(self, state: State) -> IterationReport:
        """One round t; the letters are those of docs/how-it-works.md."""
        there, models = present_in(self.samples, self.settings, state.iteration), state.models
        shared = self.shared(models)  # (a)
        opened = self.mix(state, there)  # (b)
        losses, values = [], {}
        for i in there.present:
            w, u = models.of(i)
            if self.cohort[i] in opened:
                mix_model(w, state.means[self.cohort[i]], self.gamma[i])  # (c)
            contribution, lost = self.learn(w, u, shared, i, state.iteration)  # (d)
            values[i] = self.codes.interaction.write(contribution)
            losses.append(lost)
        total = self.sums.over_everyone(
            values, survivors=there.counted, public=models.public, iteration=state.iteration
        )  # (e)
        if total is not None:
            self.move(state, self.codes.interaction.ring.decode(total) / len(there.counted))  # (f)
        state.iteration += 1
        return IterationReport(
            iteration=state.iteration,
            loss=mean_loss(losses, records=int(self.samples.train.counts()[there.present].sum())),
            took_part=len(there.present),
            in_sum=len(there.counted),
            cohorts_opened=len(opened),
            opened=total is not None,
        )

    def shared(self, models: Models) -> Public:
        """Step (a): what every device derives from what is public."""
        return public(models.interaction, self.rows, first=self.samples.people.shape[1], factors=models.factors)

    def mix(self, state: State, there: Present) -> set[int]:
        """Step (b): the mean model of each cohort with enough survivors, and which cohorts these are."""
        opened, code, centres = set[int](), self.codes.linear, self.centres(state)
        if code.noise > 0 and state.iteration == 0:
            return opened  # every model is 0: noise would be paid for, and would be all that is opened
        for cohort, centre in enumerate(centres):
            roster = [i for i in there.online if self.cohort[i] == cohort]
            members = [i for i in there.present if self.cohort[i] == cohort]
            values = {i: code.write(self.clipped(state.linear[i], centre)) for i in roster}
            total = self.sums.over_cohort(
                cohort, values, survivors=members, public=state.models.public, centre=centre, iteration=state.iteration
            )
            if total is not None:
                state.means[cohort] = centre + code.ring.decode(total) / len(members)
                opened.add(cohort)
        return opened

    def centres(self, state: State) -> RealArray:
        """What models are measured from, for each cohort: the mean that it opened last where that is noisy, and so
        public; else 0. Before the first round all means are 0."""
        shape = (int(self.cohort.max()) + 1, state.linear.shape[1])
        if not len(state.means):
            state.means = np.zeros(shape)
        if state.means.shape != shape:
            raise StateError("the cohorts' means are not as many or as long as these settings and data call for")
        return state.means.copy() if self.codes.linear.noise > 0 else np.zeros(shape)

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

    def move(self, state: State, mean: RealArray) -> None:
        """Step (f): Adam for V, along the mean gradient and 2 lambda_v V; and for P, whose gradients stand behind those
        of V (K * D + J * K') and have their penalty in them."""
        V, s = state.interaction, self.settings
        D, K = V.shape
        gradient = mean[: K * D].reshape(K, D).T + 2 * s.model.lambda_v * V
        state.interaction, state.moments = adam.step(V, gradient, state.moments, alpha=s.interaction.alpha)
        if state.latent is not None:
            P = state.latent.factors
            gradient = mean[K * D :].reshape(P.shape) / s.latent.weight
            moved, state.factor_moments = adam.step(P, gradient, state.factor_moments, alpha=s.latent.pace)
            state.latent = state.latent._replace(factors=moved)


def mixing_weight(records: int, settings: Settings) -> float:
    """gamma_i: how much of its cohort's mean a person takes; with few records, much (decisions/0002)."""
    kappa = settings.linear.kappa
    return settings.linear.gamma if settings.linear.mixing == "fixed" else kappa / (kappa + records)


def mean_loss(losses: Sequence[float], *, records: int) -> float:
    """The mean of a record, summed in whole numbers of 2^-32: engines that add in another order come to the same. nan
    where a person's loss is not a number or beyond 2^30: the models have diverged."""
    if not all(abs(one) < 2.0**30 for one in losses):
        return nan
    return sum(round(one * 2.0**32) for one in losses) * 2.0**-32 / max(records, 1)


# The four sums of a training


class Sums(Protocol):
    """Taken in the clear here, by protocols in engines/protocol.py. The rows of people stand for their devices. A sum
    that may not be opened is None. `public` are the models that everyone must hold alike (Models.public)."""

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
        self, code: Code, values: Mapping[int, RingArray], survivors: Sequence[int], *, where: tuple[str | int, ...]
    ) -> RingArray | None:
        settings = self.settings
        if len(survivors) < least_survivors(len(values), floor=settings.floor, lost=settings.sums.lost):
            return None
        total = added([values[i] for i in survivors])
        noise = simulated_noise(
            code.noise, len(total), rostered=len(values), survivors=len(survivors), settings=settings, where=where
        )
        return total + noise.astype(total.dtype)


def added(values: Sequence[RingArray]) -> RingArray:
    """At least one vector, summed in the ring."""
    total = values[0].copy()
    for value in values[1:]:
        total += value
    return total


def simulated_noise(
    wanted: int, count: int, *, rostered: int, survivors: int, settings: Settings, where: tuple[str | int, ...]
) -> RingArray:  # fmt: skip
    """What the survivors' shares of noise come to, drawn from the seed for the sum that `where` names: its kind, the
    round, the cohort. `wanted` is the variance that the plan asks for. Since the seed is known, it protects nobody."""
    if wanted == 0:
        return np.zeros(count, dtype=np.uint64)
    seed = blake2b(repr((settings.seed, *where)).encode(), digest_size=32, person=b"prirec noise").digest()
    planned = crowd(settings, rostered)
    share = NoiseShare(Fraction(wanted), planned.survivors, planned.colluders)
    return share.total(Stream(seed), survivors=survivors, count=count).astype(np.uint64)


# The paper's schedule


class Samplewise:
    """Algorithm 2: sample after sample."""

    def __init__(self, samples: Samples, settings: Settings, sums: Sums):
        self.samples, self.settings, self.sums = samples, settings, sums
        self.codes = codes(samples, settings)

    def advance(self, state: State) -> IterationReport:
        """Lines 5 to 16, for one t."""
        samples, settings = self.samples, self.settings
        online = np.zeros(len(samples.ids), dtype=np.bool_)
        online[present_in(samples, settings, state.iteration).present] = True
        sets = neighbourhoods_of(samples, settings, iteration=state.iteration, online=online)
        order = sample_order(samples, settings, iteration=state.iteration, online=online)  # line 6
        draws = iteration_key(settings.seed, "neighbours", state.iteration)
        T, losses, waiting = np.ascontiguousarray(state.interaction.T), 0.0, []
        for row in order:  # line 7
            i, x = samples.train.person[row], self.sample(row)
            neighbours = self.neighbours(sets, i, mix(draws, row))
            losses += self.learn_linear(state.linear, T, x, row, neighbours, sets)
            waiting.append((int(i), self.gradient_of_interaction(state.linear[i], T, x, row)))
            if len(waiting) == settings.interaction.batch:
                self.move_interaction(T, waiting)
                waiting = []
        if waiting:
            self.move_interaction(T, waiting)
        state.interaction = np.ascontiguousarray(T.T)
        state.iteration += 1
        people = np.unique(samples.train.person[order])
        alone = 0 if sets.fresh else int((np.diff(sets.offsets)[people] == 0).sum())
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

    def neighbours(self, sets: NeighbourSets, i: int, key: Word) -> IndexArray:
        """N(i), fixed or drawn anew for this interaction."""
        if sets.fresh:
            return sets.online[draw(key, sets.position[i], len(sets.online), sets.fresh)]
        return sets.people[sets.offsets[i] : sets.offsets[i + 1]]

    def learn_linear(
        self, W: RealArray, T: RealArray, x: RealArray, row: int, neighbours: IndexArray, sets: NeighbourSets
    ) -> float:
        """Lines 9 and 10: Eq. (3), Algorithm 1, Eq. (8)."""
        i, y, code = self.samples.train.person[row], float(self.samples.train.label[row]), self.codes.linear.ring
        gradient, guess = np.empty(W.shape[1]), score(W[i], T, x, np.empty(len(T)))
        linear_gradient(W[i], x, residual(y, guess), self.settings.model.lambda_w, gradient)
        total, values = code.zeros(W.shape[1]), {}
        for e, f in enumerate(neighbours):
            weight = sets.weights[sets.offsets[i] + e] if len(sets.weights) else 1.0
            values[int(f)] = code.encode(weight * W[f])
        if values:
            total = self.sums.over_neighbours(int(i), values, V=T)
        share = 1.0 / (code.scale * (1 if len(sets.weights) else max(len(neighbours), 1)))
        gamma = self.settings.linear.gamma if len(neighbours) else 0.0
        decentralised_step(W[i], code.signed(total), gradient, share, sets.own[i], gamma, self.settings.linear.alpha)
        if not len(sets.weights):
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
