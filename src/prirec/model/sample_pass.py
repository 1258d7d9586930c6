"""Algorithm 2, lines 6 to 16: one pass over the shuffled samples, in simulation on one machine.

The sums of Algorithm 1 and of secure aggregation are taken in the ring, so they equal what the protocols open.
"""

from typing import NamedTuple

from prirec.compiled import inlined, kernel
from prirec.graph.random_draw import draw_neighbours
from prirec.keyed import Word, mix
from prirec.model.kernels import interaction_gradient_of, linear_gradient, loss, residual
from prirec.model.public_half import PlaceRows
from prirec.model.round_steps import Encoder, Everyone
from prirec.model.sparse import linear_score_of, load_present, pairs_of
from prirec.sharing.fixed_point import add_encoded, encode_into, encoded, rounded
from prirec.types import IndexArray, OffsetArray, RealArray, RingArray, SignedArray


class Circle(NamedTuple):
    """N(i) and S_if for everyone. With `fresh` > 0 that many are drawn anew for each interaction instead."""

    offsets: OffsetArray  # (I + 1,)
    people: IndexArray
    weights: RealArray  # aligned with people; empty for S_if = 1 / |N(i)|, which is divided out once, in the clear
    own: RealArray  # (I,): S_ii, 0 where the weights leave nothing for oneself
    fresh: int
    online: IndexArray  # rows of those online
    position: IndexArray  # (I,): where a person stands in `online`


class Descent(NamedTuple):
    alpha_w: float
    alpha_v: float
    lambda_w: float
    lambda_v: float
    gamma: float
    batch: int


class Scratch(NamedTuple):
    """Room to compute in, so that a pass allocates nothing."""

    x: RealArray  # (D,)
    present: IndexArray  # (D + 1,)
    pull: RealArray  # (K,)
    gradient: RealArray  # (D + 1,)
    weighted: RealArray  # (D + 1,)
    drawn: IndexArray  # (N,)
    total: RingArray  # (at least D + 1,): the neighbours' sum
    signed: SignedArray  # the same memory, as signed integers
    pending: RingArray  # (K * D,): the batch's sum of gradients of V
    pending_signed: SignedArray


@inlined
def add_rows(ring: RingArray, rows: IndexArray, total: RingArray) -> None:
    """The sum of these rows in the ring, four at a time."""
    whole = rows.size // 4 * 4
    for e in range(0, whole, 4):
        a, b, c, d = ring[rows[e]], ring[rows[e + 1]], ring[rows[e + 2]], ring[rows[e + 3]]
        for at in range(total.size):
            total[at] += (a[at] + b[at]) + (c[at] + d[at])
    for e in range(whole, rows.size):
        a = ring[rows[e]]
        for at in range(total.size):
            total[at] += a[at]


@inlined
def add_weighted(
    W: RealArray, rows: IndexArray, weights: RealArray, code: Encoder, weighted: RealArray, total: RingArray
) -> bool:
    """The sum of S_if w^f: multiplied in the clear by its owner, then encoded; False if a value is outside."""
    fine = True
    for e in range(rows.size):
        w = W[rows[e]]
        for d in range(w.size):
            weighted[d] = weights[e] * w[d]
        fine &= add_encoded(weighted, code.scale, code.bound, total)
    return fine


@inlined
def decentralised_step(
    w: RealArray, total: SignedArray, gradient: RealArray, share: float, own: float, gamma: float, alpha: float
) -> None:
    """Eq. (8), with (1 - gamma) of the own model kept; gamma = 1 is as printed. `total` holds signed ring integers, of
    which `share` makes the weighted sum of the neighbours' models."""
    for d in range(w.size):
        mean = total[d] * share + own * w[d]
        w[d] = (1.0 - gamma) * w[d] + gamma * mean - alpha * gradient[d]


@inlined
def add_interaction_gradient(
    T: RealArray, x: RealArray, pull: RealArray, r: float, lambda_v: float, code: Encoder, pending: RingArray
) -> bool:
    """Eq. (4), encoded and added to the batch's sum; kernels.interaction_gradient and add_encoded in one walk."""
    K, D = T.shape
    fine = True
    for k in range(K):
        v, sums = T[k], pending[k * D : (k + 1) * D]
        for d in range(D):
            value = interaction_gradient_of(v[d], x[d], pull[k], r, lambda_v)
            fine &= bool(abs(value) <= code.bound)
            sums[d] += encoded(value, code.scale, sums)
    return fine


@inlined
def step_interaction(
    T: RealArray, x: RealArray, pull: RealArray, r: float, lambda_v: float, code: Encoder, alpha: float
) -> bool:
    """Eqs. (4) and (9) for a batch of one, whose sum is the encoded gradient itself: add and move in one walk."""
    (K, D), unit = T.shape, 1.0 / code.scale
    fine = True
    for k in range(K):
        v = T[k]
        for d in range(D):
            value = interaction_gradient_of(v[d], x[d], pull[k], r, lambda_v)
            fine &= bool(abs(value) <= code.bound)
            v[d] -= alpha * (rounded(value, code.scale) * unit)
    return fine


@inlined
def move_interaction(T: RealArray, pending: SignedArray, scale: float, alpha: float) -> None:
    """Eq. (9), on the opened sum."""
    (K, D), unit = T.shape, 1.0 / scale  # a power of two, so nothing is lost
    for k in range(K):
        for d in range(D):
            T[k, d] -= alpha * (pending[k * D + d] * unit)


@kernel
def sample_pass(
    W: RealArray, ring: RingArray, T: RealArray, everyone: Everyone, person: IndexArray, place_rows: PlaceRows,
    circle: Circle, order: OffsetArray, pass_key: Word, rates: Descent, code: Encoder, code_v: Encoder, room: Scratch,
) -> float:  # fmt: skip
    """One pass in the given order; W, ring and T are moved in place. The summed loss, or NaN if a sum was outside."""
    people, _, place, context, label, _ = everyone
    offsets, neighbours, weights, own, fresh, online, position = circle
    x, present, pull, gradient, weighted, drawn, total, signed, pending, pending_signed = room
    losses, fine, waiting = 0.0, True, 0
    pending[:] = 0
    for row in order:
        i, y, w = person[row], float(label[row]), W[person[row]]
        there = present[: load_present(people[i], place_rows, place[row], context[row], x, present)]
        paired = pairs_of(T, x, there, pull)

        # lines 9 and 10: Eq. (3), Algorithm 1, Eq. (8)
        guess = linear_score_of(w, x, there) + paired
        losses += loss(y, guess)
        linear_gradient(w, x, residual(y, guess), rates.lambda_w, gradient)
        total[:] = 0
        start, stop = offsets[i], offsets[i + 1]
        many = stop - start
        if fresh > 0:
            draw_neighbours(mix(pass_key, row), position[i], online.size, drawn)
            for e in range(drawn.size):
                drawn[e] = online[drawn[e]]
            add_rows(ring, drawn, total)
            many = drawn.size
        elif weights.size == 0:
            add_rows(ring, neighbours[start:stop], total)
        else:
            fine &= add_weighted(W, neighbours[start:stop], weights[start:stop], code, weighted, total)
        share = 1.0 / (code.scale * (max(many, 1) if weights.size == 0 else 1))
        gamma = rates.gamma if many > 0 else 0.0  # an empty neighbourhood: local only
        decentralised_step(w, signed, gradient, share, own[i], gamma, rates.alpha_w)
        if weights.size == 0:  # else each neighbour is encoded with its weight, when it is asked
            fine &= encode_into(w, code.scale, code.bound, ring[i])

        # lines 12 to 15: Eq. (4) at the model just learnt, Eq. (9); V has not moved since `paired`
        r = residual(y, linear_score_of(w, x, there) + paired)
        if rates.batch == 1:
            fine &= step_interaction(T, x, pull, r, rates.lambda_v, code_v, rates.alpha_v)
        else:
            fine &= add_interaction_gradient(T, x, pull, r, rates.lambda_v, code_v, pending)
            waiting += 1
        if waiting == rates.batch:
            move_interaction(T, pending_signed, code_v.scale, rates.alpha_v)
            pending[:] = 0
            waiting = 0
        if not fine:
            break
    if waiting > 0:
        move_interaction(T, pending_signed, code_v.scale, rates.alpha_v)
    return losses if fine else float("nan")
