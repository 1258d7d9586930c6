"""Algorithm 2, lines 6 to 16: one pass over the shuffled samples, in simulation on one machine.

The sums of Algorithm 1 and of secure aggregation are taken in the ring, so they equal what the protocols open.
"""

from math import isnan, nan
from typing import NamedTuple

from prirec.compiled import inlined, lean_kernel
from prirec.graph.random_draw import draw_neighbours
from prirec.keyed import Word, mix
from prirec.model.kernels import interaction_gradient_of, linear_gradient, loss, residual
from prirec.model.prefetch import call_entry, call_row
from prirec.model.public_half import PlaceRows
from prirec.model.round_steps import Encoder, Everyone
from prirec.model.sparse import linear_score_of, load_present, pairs_of
from prirec.model.table import Table, add_rows
from prirec.sharing.fixed_point import add_encoded, encode_into, encoded, rounded
from prirec.types import IndexArray, OffsetArray, RealArray, RingArray, SignedArray

_AHEAD = 8  # samples: long enough for memory to answer, short enough for the cache to hold


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


class Reached(NamedTuple):
    """How far a pass has come."""

    samples: int
    losses: float  # their sum; NaN if a gradient of V was outside the bound of its sum
    fine: bool  # False if a linear model was: it is learnt, but not in the table


class Scratch(NamedTuple):
    """Room to compute in, so that a pass allocates nothing."""

    x: RealArray  # (D,)
    present: IndexArray  # (D + 1,)
    pull: RealArray  # (K,)
    gradient: RealArray  # (D + 1,)
    weighted: RealArray  # (D + 1,)
    drawn: IndexArray  # (N,)
    pending: RingArray  # (K * D,): the batch's sum of gradients of V
    pending_signed: SignedArray  # the same memory, as signed integers


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


@inlined
def call_ahead(
    W: RealArray, ring: RingArray, everyone: Everyone, person: IndexArray, place_rows: PlaceRows, circle: Circle,
    coming: OffsetArray,
) -> None:  # fmt: skip
    """Calls up what samples to come will need, in three steps, as each array says where to look in the next: a shuffled
    pass takes two thirds of the time. The neighbours' own rows are left out, as bandwidth is their limit."""
    last, later, soon = coming[_AHEAD], coming[_AHEAD // 2], coming[_AHEAD // 4]
    call_entry(person, last)
    call_entry(everyone.place, last)
    call_entry(everyone.label, last)
    call_row(everyone.context, last)
    i, j = person[later], everyone.place[later]
    call_row(W, i)
    call_row(ring, i)
    call_row(everyone.people, i)
    call_entry(circle.offsets, i)
    call_entry(place_rows.offsets, j)
    start, first = circle.offsets[person[soon]], place_rows.offsets[everyone.place[soon]]
    call_entry(circle.people, start)
    call_entry(circle.people, start + 16)  # N = 30 of them take two lines
    call_entry(place_rows.feature, first)
    call_entry(place_rows.value, first)


@lean_kernel
def sample_pass(
    W: RealArray, models: Table, T: RealArray, everyone: Everyone, person: IndexArray, place_rows: PlaceRows,
    circle: Circle, order: OffsetArray, reached: Reached, pass_key: Word, rates: Descent, code_v: Encoder,
    room: Scratch,
) -> Reached:  # fmt: skip
    """A pass in the given order, from where it was; W, the table and T are moved in place. It ends early after a sample
    that took a sum outside its bound."""
    people, _, place, context, label, _ = everyone
    offsets, neighbours, weights, own, fresh, online, position = circle
    x, present, pull, gradient, weighted, drawn, pending, pending_signed = room
    ring, total, signed, code = models
    done, losses, fine = reached
    while fine and done < order.size and not isnan(losses):
        if done + _AHEAD < order.size:
            call_ahead(W, ring, everyone, person, place_rows, circle, order[done:])
        row = order[done]
        done += 1
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
            inside = step_interaction(T, x, pull, r, rates.lambda_v, code_v, rates.alpha_v)
        else:
            inside = add_interaction_gradient(T, x, pull, r, rates.lambda_v, code_v, pending)
            if done % rates.batch == 0 or done == order.size:
                move_interaction(T, pending_signed, code_v.scale, rates.alpha_v)
                pending[:] = 0
        if not inside:
            losses = nan
    return Reached(done, losses, fine)
