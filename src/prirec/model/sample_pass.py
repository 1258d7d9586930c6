"""Algorithm 2's pass over shuffled samples, in simulation on one machine, and the table of models that it sums.

The models of N neighbours are most of what a sample fetches from memory, so they are kept as small as they can be.
While N of them cannot leave the ring Z_2^32, a sum in it is the same whole number as in Z_2^64, for half the memory.
"""

from math import isnan, nan
from typing import NamedTuple

from prirec.graph.neighbours import NeighbourSets, draw_neighbours
from prirec.model.equations import interaction_gradient_of, linear_gradient, loss, residual
from prirec.model.prefetch import LINE, prefetch_entry, prefetch_row
from prirec.model.sparse_samples import Everyone, PlaceRows, linear_score_of, load_present, pairs_of
from prirec.sharing.fixed_point import Encoder, FixedPoint, add_encoded, encode_into, encoded, rounded
from prirec.types import IndexArray, OffsetArray, RealArray, RingArray, SignedArray
from prirec.util.jit import inlined, lean_kernel
from prirec.util.keyed_random import Word, mix

_NEARLY = 0.99  # of the ring: the rest is for the rounding of N entries
_AHEAD = 8  # samples: long enough for memory to answer, short enough for the cache to hold


class Table(NamedTuple):
    """Everyone's linear model in the ring, and room for one sum of them. Rows are padded with zeros, so that each has
    cache lines of its own."""

    rows: RingArray  # (I, at least D + 1)
    total: RingArray  # (at least D + 1,)
    signed: SignedArray  # the same memory as total, as signed integers
    code: Encoder


class Descent(NamedTuple):
    """Step sizes and regularisation of Eqs. (3), (4), (8) and (9)."""

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


# Algorithm 2, lines 6 to 16: one pass over the shuffled samples.
#
# The sums of Algorithm 1 and of secure aggregation are taken in the ring, so they equal what the protocols open.


@lean_kernel
def sample_pass(
    W: RealArray, models: Table, T: RealArray, everyone: Everyone, person: IndexArray, place_rows: PlaceRows,
    circle: NeighbourSets, order: OffsetArray, reached: Reached, pass_key: Word, rates: Descent, code_v: Encoder,
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
            prefetch_ahead(W, ring, everyone, person, place_rows, circle, order[done:])
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


@inlined
def add_rows(table: RingArray, rows: IndexArray, total: RingArray) -> None:
    """The sum of these rows in the ring, six at a time."""
    whole = rows.size // 6 * 6
    for e in range(0, whole, 6):
        a, b, c = table[rows[e]], table[rows[e + 1]], table[rows[e + 2]]
        d, f, g = table[rows[e + 3]], table[rows[e + 4]], table[rows[e + 5]]
        for at in range(total.size):
            total[at] += (a[at] + b[at] + c[at]) + (d[at] + f[at] + g[at])
    for e in range(whole, rows.size):
        a = table[rows[e]]
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
    """Eq. (4), encoded and added to the batch's sum; equations.interaction_gradient and add_encoded in one walk."""
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
def prefetch_ahead(
    W: RealArray, ring: RingArray, everyone: Everyone, person: IndexArray, place_rows: PlaceRows, circle: NeighbourSets,
    coming: OffsetArray,
) -> None:  # fmt: skip
    """Fetches what samples to come will need, in three steps, as each array says where to look in the next: a shuffled
    pass takes two thirds of the time. The neighbours' own rows are left out, as bandwidth is their limit."""
    last, later, soon = coming[_AHEAD], coming[_AHEAD // 2], coming[_AHEAD // 4]
    prefetch_entry(person, last)
    prefetch_entry(everyone.place, last)
    prefetch_entry(everyone.label, last)
    prefetch_row(everyone.context, last)
    i, j = person[later], everyone.place[later]
    prefetch_row(W, i)
    prefetch_row(ring, i)
    prefetch_row(everyone.people, i)
    prefetch_entry(circle.offsets, i)
    prefetch_entry(place_rows.offsets, j)
    start, first = circle.offsets[person[soon]], place_rows.offsets[everyone.place[soon]]
    prefetch_entry(circle.people, start)
    prefetch_entry(circle.people, start + 16)  # N = 30 of them take two lines
    prefetch_entry(place_rows.feature, first)
    prefetch_entry(place_rows.value, first)


# The table of models


def narrow(wide: FixedPoint) -> FixedPoint | None:
    """The same fixed point in 32 bits, bounded so that no sum wraps; None where the ring has 32 bits anyway."""
    if wide.ring_bits == 32:
        return None
    # The sum over N neighbours must not leave 32 bits; models that grow past this bound go back to the wide table.
    bound = min(wide.bound, _NEARLY * 2.0**31 / (wide.summands * wide.scale))
    return FixedPoint(summands=wide.summands, bound=bound, fraction_bits=wide.fraction_bits, ring_bits=32)


def table(W: RealArray, code: FixedPoint) -> Table | None:
    """The models (I, D + 1) in the ring of `code`; None if one of them is outside its bound."""
    # Each row begins where a line of memory begins: a neighbour's model then takes no line more than it must.
    line = LINE // code.dtype.itemsize
    width = -(-W.shape[1] // line) * line
    room = code.zeros((len(W) + 1) * width + line)
    first = -room.ctypes.data % LINE // code.dtype.itemsize
    rows = room[first : first + (len(W) + 1) * width].reshape(-1, width)
    encoder = Encoder(code.scale, code.bound)
    fine = _encode_rows(W, encoder, rows)
    return Table(rows[:-1], rows[-1], code.signed(rows[-1]), encoder) if fine else None


@lean_kernel
def _encode_rows(W: RealArray, code: Encoder, rows: RingArray) -> bool:
    fine = True
    for i in range(W.shape[0]):
        fine &= encode_into(W[i], code.scale, code.bound, rows[i])
    return fine
