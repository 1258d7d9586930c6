"""The oracle: both schedules, as plainly as they can be written. Every other engine must give the same bits.

It imports nothing from prirec.rounds, where the other engines, devices and the recommender have their definition of a
round: who takes part, what is added, what is opened and how B moves are spelled out here a second time, person after
person, so that a mistake in either is noticed. Shared are types, ring codes (protocols/terms.py), keyed draws
(util/keyed_random.py), columns (features/columns.py), and equations of model/, which slow twins of their own hold in
place.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from hashlib import blake2b
from math import nan, sqrt
from typing import NamedTuple

import numpy as np

from prirec.config import Settings
from prirec.engines.state import FactorizationState, IterationReport, RoundsState
from prirec.errors import PolicyError
from prirec.features.columns import LARGEST, Moments, WordScales, moment_rows, person_rows
from prirec.features.samples import Samples
from prirec.graph.neighbours import NeighbourSets, draw, neighbourhoods_of
from prirec.model.equations import interaction_gradient, linear_gradient, load, loss, residual, score, shrink
from prirec.model.estimate import Estimate
from prirec.model.sample_pass import decentralised_step
from prirec.model.shared_model import FINE, TYPICAL, length_of, rounded_base
from prirec.privacy.noise import NoiseShare, OperatorNoise, Stream
from prirec.privacy.plan import participants
from prirec.protocols.mask_graph import least_survivors
from prirec.protocols.terms import RingCode, paper_codes, round_codes
from prirec.types import BoolArray, IndexArray, OffsetArray, RealArray, RingArray
from prirec.util.keyed_random import Word, generator, iteration_key, mix, run_key, shuffle, uniform


def engine(samples: Samples, settings: Settings, sums: "Sums | None" = None) -> "Rounds | Samplewise":
    """The oracle for the schedule of these settings. With other sums than those in the clear, an engine that must come
    to the same: engines/protocol.py."""
    return (Rounds if settings.schedule == "rounds" else Samplewise)(samples, settings, sums)


# Rounds


class Rounds:
    """The schedule of the presets `rounds` and `private`: all devices step together."""

    def __init__(self, samples: Samples, settings: Settings, sums: "Sums | None" = None):
        self.samples, self.settings, self.columns = samples, settings, samples.columns
        self.sums = Sums(settings) if sums is None else sums
        self.codes = round_codes(
            settings, people=len(samples.ids), places=len(samples.places), size=samples.columns.size
        )
        self.words = WordScales.of(samples.places, samples.columns)

    def start(self) -> RoundsState:
        """The sum of moments over everyone who does not drop out of it; B is 0."""
        train, code, values, left = self.samples.train, self.codes.moments, {}, []
        for i, person in enumerate(self.samples.keys):
            mine = slice(train.offsets[i], train.offsets[i + 1])
            records = np.array([0, mine.stop - mine.start])
            vector = self.columns.moments.vectors(
                self.samples.people[i : i + 1], train.context[mine], train.label[mine], records
            )[0]
            shrink(vector, code.clip, vector)
            values[i] = code.write(vector)
            fate = uniform(mix(run_key(self.settings.seed, "drop-out from moments"), person))
            left += [i] if fate >= self.settings.participation.dropout else []
        total = self.sums.over_roster(("moments", 0), code, values, survivors=left, held=())
        if total is None:
            raise PolicyError(too_few(len(left), self.settings))
        spread = self.noise_sd(code, survivors=len(left), rostered=len(values))
        moments = self.columns.moments.read(code.ring.decode(total), len(left), spread)
        return RoundsState(0, moments, Estimate.nothing(self.columns, moments))

    def advance(self, state: RoundsState) -> IterationReport:
        """One round t; the letters are those of docs/how-it-works.md."""
        t, code, B = state.iteration, self.codes.interaction, state.estimate.B
        there = present_in(self.samples, self.settings, t)
        losses, values = [], {}
        for i in there.online:
            contribution, lost = self.contribution(i, B, state.moments)  # (b)
            values[i] = code.write(contribution)
            losses.append(lost)
        total = self.sums.over_roster(("interaction", t), code, values, survivors=there.counted, held=(B,))  # (c)
        if total is not None:  # (d)
            survivors = len(there.counted)
            spread = self.noise_sd(code, survivors=survivors, rostered=len(there.online))
            state.estimate = state.estimate.after(code.ring.decode(total) / survivors, spread / survivors)
        state.iteration += 1
        return IterationReport(
            iteration=state.iteration,
            loss=mean_loss(losses, records=int(self.samples.train.counts()[there.online].sum())),
            took_part=len(there.online),
            in_sum=len(there.counted),
            opened=total is not None,
        )

    def noise_sd(self, code: RingCode, *, survivors: int, rostered: int) -> float:
        """Standard deviation of the noise in an entry of an opened sum."""
        if not code.noise:
            return 0.0
        shares = noise_shares(code.noise, rostered=rostered, settings=self.settings)
        return sqrt(shares.total_variance(survivors)) / code.ring.scale

    def contribution(self, i: int, B: RealArray, moments: Moments) -> tuple[RealArray, float]:
        """Step (b) on device i: a ⊗ Σ (σ - t) b over its records, scaled to be no longer than the clip, in the order of
        the vector that is summed; and its loss."""
        train, crossed = self.samples.train, self.columns.layout.crossed
        a = person_rows(self.samples.people[i : i + 1], moments)[0]
        own = B[0].copy()
        own[crossed] += a[1:] @ B[1:, crossed]
        own = np.rint(own * FINE) / FINE
        g, lost = np.zeros(len(own)), 0.0
        for row in range(train.offsets[i], train.offsets[i + 1]):
            b, y = self.sample(row, moments), 1.0 if train.label[row] > 0 else -1.0
            guess = rounded_base(moments.positive) + own @ b
            lost += loss(y, guess)
            g += np.rint(residual(y, guess) * FINE) / FINE * b
        random = TYPICAL * sqrt(float(train.offsets[i + 1] - train.offsets[i]) * self.columns.entries)
        length = max(length_of(a, g, g[crossed]), random)
        factor = self.codes.interaction.clip * self.codes.interaction.ring.scale * (1.0 / length if length else 0.0)
        whole = np.concatenate([g * factor, (a[1:, None] * factor * g[crossed]).ravel()])
        return whole / self.codes.interaction.ring.scale, lost

    def sample(self, row: int, moments: Moments) -> RealArray:
        """b of one record."""
        train, layout = self.samples.train, self.columns.layout
        place = self.samples.places[train.place[row]]
        context = moment_rows(train.context[row : row + 1], self.columns, moments)[0]
        b = np.zeros(layout.width)
        b[0] = 1.0
        for column in range(1, layout.core):
            b[column] = -self.words.centre[column]
        for word in self.columns.place_words:
            if place[word] > 0:
                b[word + 1] += self.words.factor[word + 1]
        numbers = np.rint(place[layout.dense[: layout.place_numbers] - 1].astype(np.float64) * 256) / 256
        dense = np.concatenate([numbers, context])
        b[layout.dense] = dense
        cut, at = np.clip(dense[layout.numbers], -LARGEST, LARGEST), layout.core
        for u in range(len(cut)):
            for v in range(u, len(cut)):
                b[at] = (cut[u] * cut[v] - 1) / 2 if u == v else cut[u] * cut[v]
                at += 1
        for k in layout.clock:
            for word in self.columns.place_words:
                if layout.slot[word + 1] >= 0 and place[word] > 0:
                    b[at + layout.slot[word + 1]] = dense[k] * self.words.factor[word + 1]
            at += layout.slots
        return b


class Present(NamedTuple):
    """Rows of people, ascending."""

    online: list[int]  # the roster of the sum
    counted: list[int]  # those who are still there when it is opened


def present_in(samples: Samples, settings: Settings, iteration: int) -> Present:
    """Two keyed draws for each person: one says whether the device is online, one whether it is lost."""
    key = iteration_key(settings.seed, "participation", iteration)
    fates = iteration_key(settings.seed, "drop-out", iteration)
    found = Present([], [])
    for i, person in enumerate(samples.keys):
        if uniform(mix(key, person)) < settings.participation.online:
            found.online.append(i)
            if uniform(mix(fates, person)) >= settings.participation.dropout:
                found.counted.append(i)
    return found


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

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def over_roster(
        self, where: tuple[str, int], code: RingCode, values: Mapping[int, RingArray], *,
        survivors: Sequence[int], held: Sequence[RealArray],
    ) -> RingArray | None:  # fmt: skip
        """A sum over everyone, ("moments", 0) or ("interaction", t), opened to the recommender; None if it may not be
        opened. `values` are those of the roster, `held` is what everyone must hold alike: B."""
        settings = self.settings
        fewest = least_survivors(len(values), floor=settings.floor, lost=settings.sums.lost)
        if len(survivors) < (settings.floor if settings.sums.operators == 2 else fewest):
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
    """What the survivors' shares of noise come to, drawn from the seed for the sum that `where` names: its kind and
    the round; or what two operators add. `wanted` is the variance that the plan asks for. Since the seed is known, it
    protects nobody."""
    if wanted == 0:
        return np.zeros(count, dtype=np.uint64)
    share = noise_shares(wanted, rostered=rostered, settings=settings)
    if settings.sums.operators == 2:
        total = np.zeros(count, dtype=np.uint64)
        for role in ("leader", "helper"):
            key = repr((settings.seed, *where, role)).encode()
            seed = blake2b(key, digest_size=32, person=b"prirec noise").digest()
            total += share.draw(Stream(seed), count).astype(np.uint64)
        return total
    seed = blake2b(repr((settings.seed, *where)).encode(), digest_size=32, person=b"prirec noise").digest()
    return share.total(Stream(seed), survivors=survivors, count=count).astype(np.uint64)


def noise_shares(wanted: int, *, rostered: int, settings: Settings) -> NoiseShare:
    """Of a roster of so many: the honest among the fewest survivors bring all of the noise, or each of two operators
    does."""
    planned = participants(settings, rostered)
    if settings.sums.operators == 2:
        return OperatorNoise(Fraction(wanted), settings.floor, 0)
    return NoiseShare(Fraction(wanted), planned.survivors, planned.colluders)


def too_few(left: int, settings: Settings) -> str:
    come = "" if settings.sums.operators == 2 else f", and {1 - settings.sums.lost:.0%} of those who have come"
    return (
        f"{left} people are left in the sum of moments, and a sum is opened over at least {settings.floor} people"
        f"{come}; the filter data.keep may have left some out"
    )


# The paper's schedule


class Samplewise:
    """Algorithm 2: sample after sample."""

    def __init__(self, samples: Samples, settings: Settings, sums: Sums | None = None):
        self.samples, self.settings = samples, settings
        self.sums = Sums(settings) if sums is None else sums
        self.codes = paper_codes(settings)

    def start(self) -> FactorizationState:
        """Lines 1 to 4: V small and random, so that its gradient is not 0; every linear model 0."""
        D, K = self.samples.features, self.settings.model.dimension
        V = generator(self.settings.seed, "start of V").normal(0.0, self.settings.model.spread, size=(D, K))
        return FactorizationState(0, np.zeros((len(self.samples.ids), D + 1)), V)

    def advance(self, state: FactorizationState) -> IterationReport:
        """Lines 5 to 16, for one t."""
        samples, settings = self.samples, self.settings
        online = np.zeros(len(samples.ids), dtype=np.bool_)
        online[present_in(samples, settings, state.iteration).counted] = True
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
