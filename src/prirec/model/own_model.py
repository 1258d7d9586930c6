"""A person's own model w_i, learnt on the device alone, from its own records around the shared model.

How far people differ from the shared model is not known beforehand: it is found on the device too, by the evidence of
its own records for each of a few prior precisions π, equally likely beforehand. For one π the posterior of w_i is
approximated by a normal one at its mode (Laplace), found by Newton's method in whichever is smaller: the space of
records (Rasmussen and Williams 2006, Algorithm 3.1) or that of columns. Nothing of it leaves the device.
"""

from math import exp, inf, log, sqrt
from typing import NamedTuple

import numpy as np

from prirec.features.columns import PlaceColumns
from prirec.model.equations import loss
from prirec.model.shared_model import OwnRecords, SharedModel, coefficients, dot, fill_rows, score_places
from prirec.types import RealArray
from prirec.util.jit import kernel, numpy_of

PRECISIONS = np.array([10.0, 100.0, 1000.0])


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


@numpy_of(cholesky)
def _cholesky(matrix: RealArray) -> float:
    try:
        matrix[:] = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:  # by rounding it is no longer positive definite, which the kernel's loops put up with
        return float(cholesky.__wrapped__(matrix))  # type: ignore[attr-defined]
    return float(np.log(np.diag(matrix)).sum())


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


@numpy_of(solve)
def _solve(root: RealArray, x: RealArray) -> None:
    for r in range(x.size):
        x[r] = (x[r] - root[r, :r] @ x[:r]) / root[r, r]
    for r in range(x.size - 1, -1, -1):
        x[r] = (x[r] - root[r + 1 :, r] @ x[r + 1 :]) / root[r, r]


# Turns of Newton's method, and the change of the objective at which it ends. The error is squared at every turn: what
# is left after a turn that changed it by so little is far below it.
TURNS, CLOSE = 30, 1e-4


class Room(NamedTuple):
    """Room to compute in, for n records: most people have few, and asking for memory would take most of the time."""

    root: RealArray  # (n, n)
    f: RealArray  # (n,): what w_i adds to the scores
    moved: RealArray
    weight: RealArray
    b: RealArray
    x: RealArray
    trial: RealArray


@kernel
def room_for(n: int) -> Room:
    f, moved, weight, b, x, trial = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    return Room(np.empty((n, n)), f, moved, weight, b, x, trial)


@kernel
def products_of(Z: RealArray) -> RealArray:
    """Z Zᵀ, column by column, without what is 0: most products of a word with the clock are. A library would not know,
    and its threads wait for each other where processors are busy."""
    n, width = Z.shape
    gram, column = np.zeros((n, n)), np.empty(n)
    for j in range(width):
        for r in range(n):
            column[r] = Z[r, j]
        for r in range(n):
            much = column[r]
            if much != 0.0:
                for c in range(r + 1):
                    gram[r, c] += much * column[c]
    for r in range(n):
        for c in range(r):
            gram[c, r] = gram[r, c]
    return gram


@numpy_of(products_of)
def _products_of(Z: RealArray) -> RealArray:
    gram: RealArray = Z @ Z.T
    return gram


@kernel
def add_square(z: RealArray, weight: float, root: RealArray) -> None:
    """The lower half of root += weight z zᵀ, without what is 0."""
    for r in range(z.size):
        much = weight * z[r]
        if much != 0.0:
            for c in range(r + 1):
                root[r, c] += much * z[c]


@kernel
def times(matrix: RealArray, x: RealArray, factor: float, out: RealArray) -> None:
    """out <- factor matrix x, for a symmetric matrix."""
    for r in range(x.size):
        total = 0.0
        for c in range(x.size):
            total += matrix[r, c] * x[c]
        out[r] = factor * total


@numpy_of(times)
def _times(matrix: RealArray, x: RealArray, factor: float, out: RealArray) -> None:
    out[:] = factor * (matrix @ x)


@kernel
def objective(shared: RealArray, f: RealArray, target: RealArray, a: RealArray) -> float:
    """The log posterior, but for a constant: Σ ln σ(± (shared + f)) - a · f / 2."""
    total = 0.0
    for r in range(f.size):
        total -= loss(2.0 * target[r] - 1.0, shared[r] + f[r]) + 0.5 * a[r] * f[r]
    return total


@numpy_of(objective)
def _objective(shared: RealArray, f: RealArray, target: RealArray, a: RealArray) -> float:
    return _log_likelihood(shared + f, target) - 0.5 * float(a @ f)


def _log_likelihood(scores: RealArray, target: RealArray) -> float:
    return -float(np.logaddexp(0.0, (1.0 - 2.0 * target) * scores).sum())


@kernel
def system_of_records(
    shared: RealArray, f: RealArray, target: RealArray, gram: RealArray, share: float, weight: RealArray, b: RealArray,
    root: RealArray,
) -> None:  # fmt: skip
    """What Newton's method solves for its next step: the lower half of I + W^½ K W^½ in `root`, W^½ in `weight`, and
    the right-hand side W f + t - p in `b`."""
    for r in range(f.size):
        p = 1.0 / (1.0 + exp(-(shared[r] + f[r])))
        weight[r] = sqrt(p * (1.0 - p))
        b[r] = weight[r] * weight[r] * f[r] + target[r] - p
    for r in range(f.size):
        for c in range(r + 1):
            root[r, c] = weight[r] * gram[r, c] * weight[c] * share
        root[r, r] += 1.0


@numpy_of(system_of_records)
def _system_of_records(
    shared: RealArray, f: RealArray, target: RealArray, gram: RealArray, share: float, weight: RealArray, b: RealArray,
    root: RealArray,
) -> None:  # fmt: skip
    p = 1.0 / (1.0 + np.exp(-(shared + f)))
    weight[:] = np.sqrt(p * (1.0 - p))
    b[:] = weight * weight * f + target - p
    root[:] = weight[:, None] * gram * weight * share
    root[np.diag_indices(len(root))] += 1.0


@kernel
def mode_by_records(
    gram: RealArray, shared: RealArray, target: RealArray, precision: float, a: RealArray, room: Room
) -> float:
    """Moves a (n,) to the mode, where w = Zᵀ a / π; returns the log evidence. gram is Z Zᵀ, shared the scores of the
    shared model."""
    n, half, share = a.size, 0.0, 1.0 / precision
    root, f, moved, weight, b, x, trial = room
    times(gram, a, share, f)
    before = objective(shared, f, target, a)
    for _ in range(TURNS):
        system_of_records(shared, f, target, gram, share, weight, b, root)
        half = cholesky(root)
        times(gram, b, share, x)
        for r in range(n):
            x[r] *= weight[r]
        solve(root, x)
        step, found = 1.0, -inf
        while True:  # the objective is concave: a shorter step always helps at last
            for r in range(n):
                trial[r] = a[r] + step * (b[r] - weight[r] * x[r] - a[r])
            times(gram, trial, share, moved)
            found = objective(shared, moved, target, trial)
            if found >= before or step < 1e-6:
                break
            step *= 0.5
        a[:] = trial
        f[:] = moved
        if found - before < CLOSE:
            before = found
            break
        before = found
    return before - half


@kernel
def system_of_columns(
    Z: RealArray, shared: RealArray, f: RealArray, target: RealArray, precision: float, w: RealArray, root: RealArray,
    x: RealArray,
) -> None:  # fmt: skip
    """The lower half of Zᵀ W Z + π I in `root`, and the right-hand side Zᵀ (t - p) - π w in `x`."""
    root[:] = 0.0
    for c in range(w.size):
        x[c] = -precision * w[c]
        root[c, c] = precision
    for r in range(f.size):
        p = 1.0 / (1.0 + exp(-(shared[r] + f[r])))
        add_square(Z[r], p * (1.0 - p), root)
        for c in range(w.size):
            x[c] += (target[r] - p) * Z[r, c]


@numpy_of(system_of_columns)
def _system_of_columns(
    Z: RealArray, shared: RealArray, f: RealArray, target: RealArray, precision: float, w: RealArray, root: RealArray,
    x: RealArray,
) -> None:  # fmt: skip
    p = 1.0 / (1.0 + np.exp(-(shared + f)))
    root[:] = (Z.T * (p * (1.0 - p))) @ Z
    root[np.diag_indices(len(root))] += precision
    x[:] = (target - p) @ Z - precision * w


@kernel
def mode_by_columns(Z: RealArray, shared: RealArray, target: RealArray, precision: float, w: RealArray) -> float:
    """`mode_by_records` for more records than columns: moves w (d,) itself."""
    n, d = Z.shape
    root, x, f, moved, half = np.empty((d, d)), np.empty(d), np.empty(n), np.empty(n), 0.0
    before = log_posterior(Z, shared, target, precision, w, f)
    for _ in range(TURNS):
        system_of_columns(Z, shared, f, target, precision, w, root, x)
        half = cholesky(root)
        solve(root, x)
        step, found = 1.0, -inf
        while True:
            trial = w + step * x
            found = log_posterior(Z, shared, target, precision, trial, moved)
            if found >= before or step < 1e-6:
                break
            step *= 0.5
        w[:] = trial
        f[:] = moved
        gained, before = found - before, found
        if gained < CLOSE:
            break
    evidence: float = before + 0.5 * d * log(precision) - half
    return evidence


@kernel
def log_posterior(
    Z: RealArray, shared: RealArray, target: RealArray, precision: float, w: RealArray, f: RealArray
) -> float:
    """But for a constant; f (n,) <- Z w."""
    total = -0.5 * precision * dot(w, w)
    for r in range(f.size):
        f[r] = dot(Z[r], w)
        total -= loss(2.0 * target[r] - 1.0, shared[r] + f[r])
    return total


@numpy_of(log_posterior)
def _log_posterior(
    Z: RealArray, shared: RealArray, target: RealArray, precision: float, w: RealArray, f: RealArray
) -> float:
    f[:] = Z @ w
    return _log_likelihood(shared + f, target) - 0.5 * precision * float(w @ w)


@kernel
def add_rows(way: RealArray, Z: RealArray, own: RealArray) -> None:
    """own += Zᵀ way."""
    for r in range(way.size):
        for j in range(own.size):
            own[j] += way[r] * Z[r, j]


@numpy_of(add_rows)
def _add_rows(way: RealArray, Z: RealArray, own: RealArray) -> None:
    own += way @ Z


@kernel
def learn_own(
    i: int, records: OwnRecords, rows: PlaceColumns, model: SharedModel, precisions: RealArray, own: RealArray
) -> None:
    """own (width,) <- Bᵀ a_i + w_i for person i: w_i is the mean over the precisions of its modes, weighted by their
    evidence."""
    many, width = precisions.size, model.layout.width
    coefficients(records.who[i], model, np.empty(model.layout.crossed.size), own)
    first, n = records.offsets[i], records.offsets[i + 1] - records.offsets[i]
    if n == 0:
        return
    Z, target, shared, evidence = np.empty((n, width)), np.empty(n), np.empty(n), np.empty(many)
    fill_rows(records.place[first : first + n], records.context[first : first + n], rows, model, Z)
    for r in range(n):
        target[r] = 1.0 if records.label[first + r] > 0 else 0.0
        shared[r] = model.base + dot(Z[r], own)
    if n <= width:
        gram, a, room, ways = products_of(Z), np.zeros(n), room_for(n), np.empty((many, n))
        for k in range(many - 1, -1, -1):  # the strongest prior first: its mode is near 0, and the next is near it
            if k + 1 < many:  # the same w: of the same a, a weaker prior makes one so long that Newton's method is lost
                a *= precisions[k] / precisions[k + 1]
            evidence[k] = mode_by_records(gram, shared, target, precisions[k], a, room)
            ways[k] = a / precisions[k]
        add_rows(averaged(evidence, ways), Z, own)
    else:
        w, modes = np.zeros(width), np.empty((many, width))
        for k in range(many - 1, -1, -1):
            evidence[k] = mode_by_columns(Z, shared, target, precisions[k], w)
            modes[k] = w
        own += averaged(evidence, modes)


@kernel
def averaged(evidence: RealArray, modes: RealArray) -> RealArray:
    """The mean of the modes, weighted by their evidence."""
    chance, mean = np.exp(evidence - evidence.max()), np.zeros(modes.shape[1])
    for k in range(len(modes)):
        for j in range(mean.size):
            mean[j] += chance[k] * modes[k, j]
    mean /= chance.sum()
    return mean


@kernel
def score_own(
    block: tuple[int, int],
    records: OwnRecords,
    asked: OwnRecords,
    rows: PlaceColumns,
    model: SharedModel,
    precisions: RealArray,
    out: RealArray,
) -> None:
    """A score for each record that is asked about, of people from the first of the block to before its second: each
    person learns alone from its own records first. Nobody's model is kept: everyone's together would be far larger than
    the records."""
    own = np.empty(model.layout.width)
    for i in range(block[0], block[1]):
        first, last = asked.offsets[i], asked.offsets[i + 1]
        if first < last:
            learn_own(i, records, rows, model, precisions, own)
            score_places(asked.place[first:last], asked.context[first:last], rows, model, own, out[first:last])
