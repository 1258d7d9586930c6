"""How the shared model is learnt together, and each person's own model alone."""

from dataclasses import dataclass, field
from math import exp, inf, log, log1p, sqrt
from typing import NamedTuple

import numpy as np

from prirec.types import FeatureArray, IndexArray, LabelArray, OffsetArray, RealArray
from prirec.util.jit import kernel
from prirec_experiments.shared_columns import Layout, Scales, fill_place

# Learning together: what a device adds to the sum of a round, and what the recommender makes of the sum.


class Devices(NamedTuple):
    """All devices' records, as only a simulation has them together: person i has rows offsets[i] to offsets[i + 1]."""

    offsets: OffsetArray
    place: IndexArray
    context: FeatureArray
    label: LabelArray
    who: RealArray  # a (I, rows)


class Public(NamedTuple):
    """What every device gets: the catalogue, how columns are scaled, and the shared model."""

    places: FeatureArray
    where: Layout
    scales: Scales
    B: RealArray  # (rows, columns): row 0 has all columns, the others those that are crossed
    base: float  # log-odds of a record of which nothing is known


class Writing(NamedTuple):
    """How contributions become whole numbers."""

    length: float  # that they are clipped to, before rounding
    unit: float
    most: int  # of the square of their length, in whole numbers
    typical: float  # length of the gradient of records with random labels, in units of their own lengths


@kernel
def coefficients(who: RealArray, public: Public, own: RealArray) -> None:
    """own <- Bᵀ a: what the shared model comes to for one person."""
    own[:] = public.B[0]
    for k in range(1, who.size):
        for j in public.where.crossed:
            own[j] += who[k] * public.B[k, j]


@kernel
def loss_of(score: float, positive: bool) -> float:  # noqa: FBT001  (a kernel has no keywords)
    signed = score if positive else -score
    return log1p(exp(-signed)) if signed > -30.0 else -signed


@kernel
def rest_of(who: RealArray) -> float:
    """|a|² without its first entry, the 1."""
    total = 0.0
    for k in range(1, who.size):
        total += who[k] * who[k]
    return total


@kernel
def length_in(where: Layout, b: RealArray, rest: float) -> float:
    """|a ⊗ b|² over the entries that B has."""
    total = 0.0
    for j in range(b.size):
        total += b[j] * b[j]
    for j in where.crossed:
        total += rest * b[j] * b[j]
    return total


@kernel
def gradient(
    devices: Devices, i: int, public: Public, own: RealArray, b: RealArray, g: RealArray
) -> tuple[float, float]:
    """g <- Σ (p - t) b over the records of person i; returns Σ |b|² |a|² over the entries that B has, and the loss."""
    rest, squares, lost = rest_of(devices.who[i]), 0.0, 0.0
    g[:] = 0.0
    for r in range(devices.offsets[i], devices.offsets[i + 1]):
        fill_place(public.places[devices.place[r]], devices.context[r], public.where, public.scales, b)
        score, positive = public.base, devices.label[r] > 0
        for j in range(b.size):
            score += own[j] * b[j]
        lost += loss_of(score, positive)
        residual = 1.0 / (1.0 + exp(-min(max(score, -500.0), 500.0))) - (1.0 if positive else 0.0)
        for j in range(b.size):
            g[j] += residual * b[j]
        squares += length_in(public.where, b, rest)
    return squares, lost


@kernel
def write(who: RealArray, g: RealArray, where: Layout, scale: float, most: int, whole: OffsetArray) -> None:
    """whole <- a ⊗ g in whole numbers. Rounding may leave it a unit too long: the bound is held in exact arithmetic."""
    for j in range(g.size):
        whole[0, j] = int(np.rint(g[j] * scale))
    for k in range(1, who.size):
        for j in where.crossed:
            whole[k, j] = int(np.rint(who[k] * g[j] * scale))
    while (whole * whole).sum() > most:
        whole -= np.sign(whole)


@kernel
def add_contributions(
    block: tuple[int, int], devices: Devices, public: Public, writing: Writing, total: OffsetArray, losses: RealArray
) -> None:
    """Adds the gradients of people block[0] to block[1] to the total, in whole numbers.

    A gradient is divided by what its length would be about if labels were drawn at random, so that people with many
    records do not drown the others; then it is clipped. The divisor knows features alone: one that knew labels too, as
    the gradient's own length does, would pull probabilities to one half."""
    width = public.where.width
    b, own, g = np.empty(width), np.empty(width), np.empty(width)
    whole = np.zeros(public.B.shape, dtype=np.int64)
    for i in range(block[0], block[1]):
        who = devices.who[i]
        coefficients(who, public, own)
        squares, losses[i] = gradient(devices, i, public, own, b, g)
        norm = sqrt(length_in(public.where, g, rest_of(who)))
        longest = max(norm, writing.typical * sqrt(squares))
        if longest > 0.0:
            write(who, g, public.where, writing.length / longest / writing.unit, writing.most, whole)
            total += whole


@kernel
def score_records(
    place: IndexArray, context: FeatureArray, person: IndexArray, public: Public, W: RealArray, out: RealArray
) -> None:
    """A score for each record, from everyone's coefficients (I, columns)."""
    b = np.empty(public.where.width)
    for r in range(place.size):
        fill_place(public.places[place[r]], context[r], public.where, public.scales, b)
        out[r] = public.base
        for j in range(b.size):
            out[r] += W[person[r], j] * b[j]


@dataclass(slots=True)
class Estimate:
    """What the recommender knows of B: the average of noisy measurements, and how noisy that average is. Public."""

    groups: IndexArray = field(repr=False)  # (rows, columns): the block of each entry; -1 where B has none
    curvature: float  # of the loss along a step: a guess, until the second round has measured it
    pace: float
    shared: RealArray = field(repr=False)  # B, the shrunken average: what devices get
    average: RealArray = field(repr=False)
    variance: float = 0.0  # of the noise in an entry of the average
    rounds: int = 0
    first: RealArray = field(default_factory=lambda: np.empty((0, 0)), repr=False)  # the gradient at B = 0

    @classmethod
    def nothing(cls, groups: IndexArray, curvature: float, pace: float) -> "Estimate":
        return cls(groups, curvature, pace, np.zeros(groups.shape), np.zeros(groups.shape))

    def take(self, gradient: RealArray, noise: float) -> None:
        """One round: the mean of the contributions at B, and the standard deviation of the noise in each entry."""
        if self.rounds == 0:
            self.first = gradient
        elif self.rounds == 1:
            self.curvature = self._measured_curvature(gradient, noise)
        weight = self.pace / (self.rounds + self.pace)
        measured = self.shared - gradient / self.curvature
        self.average = (1 - weight) * self.average + weight * measured
        self.variance = (1 - weight) ** 2 * self.variance + weight**2 * (noise / self.curvature) ** 2
        self.shared = self.average * self._kept()
        self.rounds += 1

    def _measured_curvature(self, gradient: RealArray, noise: float) -> float:
        """How much the gradient changed along the first step. The step itself came from the noisy first gradient, so
        that its noise is in both: what that adds is known, and subtracted."""
        step = self.shared  # from 0
        square = float((step**2).sum())
        if square == 0.0:
            return self.curvature
        kept = float(self._kept()[self.groups >= 0].sum())
        change = float((step * (gradient - self.first)).sum()) - noise**2 / self.curvature * kept
        return max(change / square, 0.3 * self.curvature)

    def _kept(self) -> RealArray:
        """(rows, columns): the factor of each block. James and Stein: 1 - (n - 2) σ² / Σ x², and never below 0."""
        live = self.groups >= 0
        sizes = np.bincount(self.groups[live])
        energy = np.bincount(self.groups[live], self.average[live] ** 2)
        noise = np.maximum(sizes - 2, 0.5) * self.variance
        kept = np.maximum(0.0, 1 - np.divide(noise, energy, out=np.zeros(len(sizes)), where=energy > 0))
        return np.where(live, kept[self.groups], 0.0)


# Learning alone: w_i, on the device, from its own records around the shared model.
#
# For one prior precision π the posterior of w_i is approximated by a normal one at its mode (Laplace), found by
# Newton's method in whichever is smaller: the space of records (Rasmussen and Williams 2006, Algorithm 3.1) or that of
# columns.


@kernel
def cholesky(matrix: RealArray) -> float:
    """Replaces the lower half of a positive definite matrix by its root L; returns half the log of its determinant."""
    n, half = matrix.shape[0], 0.0
    for r in range(n):
        for c in range(r + 1):
            rest = matrix[r, c]
            for k in range(c):
                rest -= matrix[r, k] * matrix[c, k]
            if r == c:
                matrix[r, r] = sqrt(max(rest, 1e-12))
                half += log(matrix[r, r])
            else:
                matrix[r, c] = rest / matrix[c, c]
    return half


@kernel
def solve(root: RealArray, x: RealArray) -> None:
    """Replaces x by the solution of L Lᵀ z = x."""
    n = x.size
    for r in range(n):
        for k in range(r):
            x[r] -= root[r, k] * x[k]
        x[r] /= root[r, r]
    for r in range(n - 1, -1, -1):
        for k in range(r + 1, n):
            x[r] -= root[k, r] * x[k]
        x[r] /= root[r, r]


@kernel
def log_likelihood(scores: RealArray, target: RealArray) -> float:
    total = 0.0
    for r in range(scores.size):
        total -= loss_of(scores[r], target[r] > 0.5)
    return total


TURNS, CLOSE = 30, 1e-9  # of Newton's method, and the change of the objective at which it ends


@kernel
def mode_by_records(gram: RealArray, shared: RealArray, target: RealArray, precision: float, a: RealArray) -> float:
    """Moves a (n,) to the mode, where w = Zᵀ a / π; returns the log evidence. gram is Z Zᵀ, shared the scores of the
    shared model."""
    n, half = a.size, 0.0
    root, f = np.empty((n, n)), gram @ a / precision
    before = log_likelihood(shared + f, target) - 0.5 * np.dot(a, f)
    for _ in range(TURNS):
        p = 1.0 / (1.0 + np.exp(-(shared + f)))
        weight = p * (1.0 - p)
        side = np.sqrt(weight)
        for r in range(n):
            for c in range(r + 1):
                root[r, c] = side[r] * gram[r, c] * side[c] / precision
            root[r, r] += 1.0
        half = cholesky(root)
        b = weight * f + (target - p)
        x = side * (gram @ b) / precision
        solve(root, x)
        to = b - side * x
        step, found = 1.0, -inf
        while True:  # the objective is concave: a shorter step always helps at last
            trial = a + step * (to - a)
            moved = gram @ trial / precision
            found = log_likelihood(shared + moved, target) - 0.5 * np.dot(trial, moved)
            if found >= before or step < 1e-6:
                break
            step *= 0.5
        a[:] = trial
        f = moved
        if found - before < CLOSE:
            break
        before = found
    fit: float = log_likelihood(shared + f, target) - 0.5 * np.dot(a, f)
    return fit - half


@kernel
def mode_by_columns(Z: RealArray, shared: RealArray, target: RealArray, precision: float, w: RealArray) -> float:
    """The same for more records than columns: moves w (d,) itself."""
    n, d = Z.shape
    root, half = np.empty((d, d)), 0.0
    f = Z @ w
    before = log_likelihood(shared + f, target) - 0.5 * precision * np.dot(w, w)
    for _ in range(TURNS):
        p = 1.0 / (1.0 + np.exp(-(shared + f)))
        weight = p * (1.0 - p)
        scaled = Z * np.sqrt(weight).reshape(n, 1)
        root[:] = scaled.T @ scaled
        for c in range(d):
            root[c, c] += precision
        half = cholesky(root)
        x = Z.T @ (target - p) - precision * w
        solve(root, x)
        step, found = 1.0, -inf
        while True:
            trial = w + step * x
            moved = Z @ trial
            found = log_likelihood(shared + moved, target) - 0.5 * precision * np.dot(trial, trial)
            if found >= before or step < 1e-6:
                break
            step *= 0.5
        w[:] = trial
        f = moved
        if found - before < CLOSE:
            break
        before = found
    fit: float = log_likelihood(shared + f, target) - 0.5 * precision * np.dot(w, w)
    fit += 0.5 * d * log(precision)
    return fit - half


@kernel
def learn_alone(block: tuple[int, int], devices: Devices, public: Public, precisions: RealArray, W: RealArray) -> None:
    """W_i <- Bᵀ a_i + w_i: the mean over the precisions of the modes of w_i, weighted by their evidence."""
    many, width = precisions.size, public.where.width
    for i in range(block[0], block[1]):
        coefficients(devices.who[i], public, W[i])
        first, n = devices.offsets[i], devices.offsets[i + 1] - devices.offsets[i]
        if n == 0:
            continue
        Z, target = np.empty((n, width)), np.empty(n)
        for r in range(n):
            row = first + r
            fill_place(public.places[devices.place[row]], devices.context[row], public.where, public.scales, Z[r])
            target[r] = 1.0 if devices.label[row] > 0 else 0.0
        shared = public.base + Z @ W[i]
        evidence, modes = np.empty(many), np.zeros((many, width))
        gram, a, w = Z @ Z.T if n <= width else np.empty((0, 0)), np.zeros(n), np.zeros(width)
        for k in range(many - 1, -1, -1):  # the strongest prior first: its mode is near 0, and the next is near it
            if n <= width:
                evidence[k] = mode_by_records(gram, shared, target, precisions[k], a)
                w = Z.T @ a / precisions[k]
            else:
                evidence[k] = mode_by_columns(Z, shared, target, precisions[k], w)
            modes[k] = w
        chance = np.exp(evidence - evidence.max())
        chance /= chance.sum()
        for k in range(many):
            W[i] += chance[k] * modes[k]
