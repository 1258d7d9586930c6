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
from typing import NamedTuple

import numpy as np

from prirec.config import Settings
from prirec.engines.state import IterationReport, State
from prirec.errors import StateError
from prirec.features.samples import Samples
from prirec.graph.cohorts import cohort_numbers, neighbourhoods_of
from prirec.graph.neighbours import NeighbourSets, draw
from prirec.model import public_half
from prirec.model.equations import interaction_gradient, linear_gradient, load, loss, residual, score, shrink
from prirec.model.local_step import DeviceRecords, Latent, contribution_of, local_step, rates_of, work
from prirec.model.public_half import Public, no_moments, place_rows, public
from prirec.model.sample_pass import decentralised_step
from prirec.model.scoring import Models
from prirec.privacy.noise import NoiseShare, Stream
from prirec.privacy.plan import participants
from prirec.protocols.mask_graph import least_survivors
from prirec.protocols.terms import ring_codes
from prirec.types import BoolArray, IndexArray, OffsetArray, RealArray, RingArray
from prirec.util.keyed_random import Word, generator, iteration_key, mix, shuffle, uniform


def engine(samples: Samples, settings: Settings, sums: "Sums | None" = None) -> "Rounds | Samplewise":
    """The oracle for the schedule of these settings. With other sums than those in the clear, an engine that must come
    to the same: engines/protocol.py."""
    return (Rounds if settings.schedule == "rounds" else Samplewise)(samples, settings, sums)


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


class Rounds:
    """The schedule of the presets `rounds` and `private`: all devices step together."""

    def __init__(self, samples: Samples, settings: Settings, sums: "Sums | None" = None):
        self.samples, self.settings = samples, settings
        self.sums = Sums(samples, settings) if sums is None else sums
        self.cohort = cohort_numbers(samples, settings)
        self.gamma = [mixing_weight(records, settings) for records in samples.train.counts().tolist()]
        self.rows = place_rows(samples.places)
        self.codes = ring_codes(samples, settings)

    def advance(self, state: State) -> IterationReport:
        """One round t; the letters are those of docs/how-it-works.md."""
        t, models = state.iteration, state.models
        there = present_in(self.samples, self.settings, t)
        shared = self.shared(models)  # (a)
        opened = self.mix(state, there)  # (b)
        losses, values = [], {}
        for i in there.present:
            w, u = models.of(i)
            if (c := self.cohort[i]) in opened:
                # (c) W_i <- (1 - gamma_i) W_i + gamma_i mean_c
                w[:] = (1.0 - self.gamma[i]) * w + self.gamma[i] * state.means[c]
            contribution, lost = self.learn(w, u, shared, i, t)  # (d)
            values[i] = self.codes.interaction.write(contribution)
            losses.append(lost)
        total = self.sums.over_roster(("interaction", t), values, survivors=there.counted, held=models.public)  # (e)
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

    def mix(self, state: State, there: "Present") -> set[int]:
        """Step (b): the mean model of each cohort with enough survivors, and which cohorts these are.

        mean_c = centre_c + 1/n Σ clip(W_i - centre_c) [+ noise], over the n survivors of cohort c."""
        opened, code, t, centres = set[int](), self.codes.linear, state.iteration, self.centres(state)
        if code.noise > 0 and t == 0:
            return opened  # every model is 0: noise would be paid for, and would be all that is opened
        for c, centre in enumerate(centres):
            roster = [i for i in there.online if self.cohort[i] == c]
            members = [i for i in there.present if self.cohort[i] == c]
            values = {i: code.write(self.clipped(state.linear[i], centre)) for i in roster}
            held = (*state.models.public, centre)
            total = self.sums.over_roster(("linear", t, c), values, survivors=members, held=held)
            if total is not None:
                state.means[c] = centre + code.ring.decode(total) / len(members)
                opened.add(c)
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
        away = w - centre
        shrink(away, self.codes.linear.clip, away)
        return away

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
        """Step (f): Adam along the mean gradient, which holds that of V and behind it that of P (K * D + J * K')."""
        V, s = state.interaction, self.settings
        D, K = V.shape
        # the penalty of V is added here, once; that of P came with each record
        gradient = mean[: K * D].reshape(K, D).T + 2 * s.model.lambda_v * V
        state.interaction, state.moments = public_half.adam_step(V, gradient, state.moments, alpha=s.interaction.alpha)
        if state.latent is not None:
            P = state.latent.factors
            gradient = mean[K * D :].reshape(P.shape) / s.latent.weight
            moved, state.factor_moments = public_half.adam_step(P, gradient, state.factor_moments, alpha=s.latent.pace)
            state.latent = state.latent._replace(factors=moved)


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


# The sums of a training


class Sums:
    """Taken in the clear: what protocols must come to. engines/protocol.py runs a protocol for each of them.

    The rows of people stand for their devices."""

    def __init__(self, samples: Samples, settings: Settings) -> None:
        self.settings, self.codes = settings, ring_codes(samples, settings)

    def over_roster(
        self, where: tuple[str | int, ...], values: Mapping[int, RingArray], *,
        survivors: Sequence[int], held: Sequence[RealArray],
    ) -> RingArray | None:  # fmt: skip
        """A sum of a round, or None if it may not be opened: ("linear", t, cohort) is that of step (b), opened to the
        members of the cohort; ("interaction", t) that of step (e), opened to the recommender. `values` are those of the
        roster, `held` are the models that everyone must hold alike: V, the factors of places, the cohort's centre."""
        settings, code = self.settings, self.codes.linear if where[0] == "linear" else self.codes.interaction
        if len(survivors) < least_survivors(len(values), floor=settings.floor, lost=settings.sums.lost):
            return None
        total = added([values[i] for i in survivors])
        noise = simulated_noise(
            code.noise, len(total), rostered=len(values), survivors=len(survivors), settings=settings, where=where
        )
        return total + noise.astype(total.dtype)

    def over_neighbours(self, i: int, values: Mapping[int, RingArray], *, V: RealArray) -> RingArray:
        """Algorithm 1: the weighted models of N(i), opened to user i."""
        return added(list(values.values()))

    def over_batch(self, values: Sequence[tuple[int, RingArray]], *, V: RealArray) -> RingArray:
        """Algorithm 2, line 14: the gradients of V of one batch, opened to the recommender."""
        return added([value for _, value in values])


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
    planned = participants(settings, rostered)
    share = NoiseShare(Fraction(wanted), planned.survivors, planned.colluders)
    return share.total(Stream(seed), survivors=survivors, count=count).astype(np.uint64)


# The paper's schedule


class Samplewise:
    """Algorithm 2: sample after sample."""

    def __init__(self, samples: Samples, settings: Settings, sums: Sums | None = None):
        self.samples, self.settings = samples, settings
        self.sums = Sums(samples, settings) if sums is None else sums
        self.codes = ring_codes(samples, settings)

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


def sample_order(samples: Samples, settings: Settings, *, iteration: int, online: BoolArray) -> OffsetArray:
    """Algorithm 2, line 6: rows of the training records of those online, each once.

    `shuffled` is the paper's order. `windows` shuffles too, then takes each window of I samples in the order of people,
    who are numbered along a curve over the map: the models that a sample needs are still in the processor's cache from
    the sample before. Nobody comes twice in one walk through a window.
    """
    rows = np.flatnonzero(online[samples.train.person])
    order = np.empty(len(rows), dtype=np.int64)
    shuffle(iteration_key(settings.seed, "order", iteration), order)
    if settings.order == "windows":
        order = order[_in_windows(samples.train.person[rows[order]], width=len(samples.ids))]
    return rows[order]


def _in_windows(person: IndexArray, *, width: int) -> OffsetArray:
    """The order within each window: by person; a person's second sample waits for the second walk, and so on."""
    many, people = len(person), int(person.max(initial=0)) + 1
    at, window = np.arange(many), np.arange(many) // width
    by_person = np.sort((window * people + person) * many + at)  # whole numbers sort much faster than their indices
    new = np.diff(by_person // max(many, 1), prepend=-1) != 0
    walk = np.empty(many, dtype=np.int64)
    walk[by_person % max(many, 1)] = at - np.flatnonzero(new)[np.cumsum(new) - 1]
    walked = (window * (int(walk.max(initial=0)) + 1) + walk) * people + person
    order: OffsetArray = np.sort(walked * many + at) % max(many, 1)
    return order
