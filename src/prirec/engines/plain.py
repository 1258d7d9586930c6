"""The oracle: both schedules, said as plainly as they can be. Every other engine must give the same bits.

The local step and Eqs. (1), (3), (4), (8) come from model/, where their slow twins hold them; here stands everything
around them: who takes part, what is summed, what is opened, what moves.
"""

import numpy as np

from prirec.engines.circles import circle, cohort_numbers, shares_of_mean
from prirec.engines.codes import codes
from prirec.engines.losses import mean, summed
from prirec.engines.ordering import sample_order
from prirec.engines.participation import Standing, standing
from prirec.engines.randomness import iteration_key
from prirec.engines.state import Passed, State, centres, mixes, move_public
from prirec.engines.sums import InTheClear, Sums
from prirec.features.samples import Samples
from prirec.graph.random_draw import draw
from prirec.keyed import Word, mix, shuffle
from prirec.model.contribution import contribution_of, work
from prirec.model.kernels import interaction_gradient, linear_gradient, load, loss, residual, score, shrink
from prirec.model.local_step import Own, local_step, rates_of
from prirec.model.models import Models
from prirec.model.public_half import Public, place_rows, public
from prirec.model.round_steps import away_from, mix_model
from prirec.model.sample_pass import Circle, decentralised_step
from prirec.settings import Settings
from prirec.types import IndexArray, RealArray


class Rounds:
    """The schedule of the presets `rounds` and `private`: all devices step together."""

    def __init__(self, samples: Samples, settings: Settings, sums: Sums):
        self.samples, self.settings, self.sums = samples, settings, sums
        self.cohort = cohort_numbers(samples, settings)
        self.gamma = shares_of_mean(samples.train.counts(), settings)
        self.rows = place_rows(samples.places)
        self.codes = codes(samples, settings)

    def advance(self, state: State) -> Passed:
        """One round t; the letters are those of the round's definition in docs/rounds.md."""
        there, models = standing(self.samples.keys, state.iteration, self.settings), state.models
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
        return Passed(
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

    def mixed_models(self, state: State, there: Standing) -> set[int]:
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
        own = Own(self.samples.people[i], train.place[mine], train.context[mine], train.label[mine])
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

    def advance(self, state: State) -> Passed:
        """Lines 5 to 16, for one t."""
        samples, settings = self.samples, self.settings
        online = standing(samples.keys, state.iteration, settings).present
        around = circle(samples, settings, iteration=state.iteration, online=online)
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
        return Passed(
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

    def neighbours(self, around: Circle, i: int, key: Word) -> IndexArray:
        """N(i), fixed or drawn anew for this interaction."""
        if around.fresh:
            return around.online[draw(key, around.position[i], len(around.online), around.fresh)]
        return around.people[around.offsets[i] : around.offsets[i + 1]]

    def learn_linear(
        self, W: RealArray, T: RealArray, x: RealArray, row: int, neighbours: IndexArray, around: Circle
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
