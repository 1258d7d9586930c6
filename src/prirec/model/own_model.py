"""A person's own model w_i, learnt on the device alone, from its own records around the shared model.

How far people differ from the shared model is not known beforehand: it is found on the device too, by the evidence of
its own records for each of a few prior precisions π, equally likely beforehand. For one π the posterior of w_i is
approximated by a normal one at its mode (Laplace), found by Newton's method in whichever is smaller: the space of
records (Rasmussen and Williams 2006, Algorithm 3.1) or that of columns. Nothing of it leaves the device.
"""

from math import inf, log, sqrt

import numpy as np

from prirec.features.columns import PlaceColumns
from prirec.model.equations import loss
from prirec.model.shared_model import OwnRecords, SharedModel, coefficients, fill
from prirec.types import RealArray
from prirec.util.jit import kernel

PRECISIONS = np.array([10.0, 30.0, 100.0, 300.0, 1000.0])


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
        total -= loss(2.0 * target[r] - 1.0, scores[r])
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
def learn_own(
    block: tuple[int, int], records: OwnRecords, rows: PlaceColumns, model: SharedModel, precisions: RealArray,
    W: RealArray,
) -> None:  # fmt: skip
    """W_i (I, width) <- Bᵀ a_i + w_i for people block[0] to block[1]: the mean over the precisions of the modes of w_i,
    weighted by their evidence."""
    many, width = precisions.size, model.layout.width
    for i in range(block[0], block[1]):
        coefficients(records.who[i], model, W[i])
        first, n = records.offsets[i], records.offsets[i + 1] - records.offsets[i]
        if n == 0:
            continue
        Z, target = np.empty((n, width)), np.empty(n)
        for r in range(n):
            fill(records.place[first + r], records.context[first + r], rows, model, Z[r])
            target[r] = 1.0 if records.label[first + r] > 0 else 0.0
        shared = model.base + Z @ W[i]
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
