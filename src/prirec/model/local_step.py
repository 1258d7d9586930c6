"""The local step: one pass over one person's own records with V fixed. Every engine and every device calls it.

A person touches a few rows of V: those of the features that are not 0. All others are 0, and stay out of every walk.
"""

from math import log, sqrt
from typing import NamedTuple

import numpy as np

from prirec.config import Settings
from prirec.model.equations import add_loss, odds, residual_at, shrinkage
from prirec.model.lanes import (
    LANES,
    Eight,
    add_times,
    dot,
    in_lines,
    minus,
    number,
    out_of_lanes,
    plus,
    put,
    read,
    spread,
    sum_of,
    times,
    whole_lanes,
    write,
    write_flat,
)
from prirec.model.public_half import Public, pull_of_entries
from prirec.types import FeatureArray, IndexArray, LabelArray, RealArray, ValueArray
from prirec.util.jit import inlined

# The latent part, beside Eq. (1): s_ij = Eq. (1) + u_i . p_j (decisions/0016).
#
# u_i (K',) is one person's: it stays on the device, is mixed with nobody's and is in no sum. P (J, K') has a row p_j
# for each place and is public. It is learnt through the sum over everyone that V is learnt through.


class Latent(NamedTuple):
    """Everyone's vectors, as only a simulation has them, and the factors of places."""

    vectors: RealArray  # u (I, K')
    factors: RealArray  # P (J, K')


def no_latent(people: int, places: int) -> Latent:
    """For kernels, which take arrays: vectors and factors without an entry."""
    return Latent(np.empty((people, 0)), np.empty((places, 0)))


class LatentRates(NamedTuple):
    """Step size and penalties of the latent part; zeros where there is none."""

    alpha: float = 0.0
    lambda_u: float = 0.0
    lambda_p: float = 0.0
    weight: float = 1.0  # of the gradient of P beside that of V, with which it is clipped


class FactorRows(NamedTuple):
    """One person's gradient of P: rows for the places that the person has records of, and 0 for all others."""

    row: IndexArray  # (J,): where the gradient of a place stands; -1: nowhere
    place: IndexArray  # (r,): of which place each row is
    gradient: RealArray  # (r, K')
    many: IndexArray  # (1,): how many rows there are


def factor_rows(places: int, records: int, dimension: int) -> FactorRows:
    """Room for somebody with so many records; none at all where there is no latent part."""
    J, r = (places, records) if dimension else (0, 0)
    return FactorRows(
        np.full(J, -1, dtype=np.int32),
        np.empty(r, dtype=np.int32),
        np.empty((r, dimension)),
        np.zeros(1, dtype=np.int32),
    )


@inlined
def affinity(u: RealArray, P: RealArray, j: int) -> float:
    """u_i . p_j."""
    total = 0.0
    for k in range(u.size):
        total += u[k] * P[j, k]
    return total


@inlined
def latent_step(u: RealArray, P: RealArray, j: int, r: float, rates: LatentRates) -> None:
    """u_i <- u_i - alpha (r p_j + 2 lambda_u u_i), for one record."""
    for k in range(u.size):
        u[k] -= rates.alpha * (r * P[j, k] + 2.0 * rates.lambda_u * u[k])


@inlined
def clear_factor_rows(G: FactorRows) -> None:
    """Empties the gradient of the previous person, so that its room can be used again."""
    for at in range(G.many[0]):
        G.row[G.place[at]] = -1
    G.many[0] = 0


@inlined
def collect_factor(G: FactorRows, u: RealArray, P: RealArray, j: int, r: float, lambda_p: float) -> None:
    """G_j <- G_j + r u_i + 2 lambda_p p_j: summed over records, so that a penalty weighs with a place's records."""
    if u.size == 0:
        return
    # A table of all J places would be cleared for every person; rows are given out as places come.
    at = G.row[j]
    if at < 0:
        at = G.many[0]
        G.row[j], G.place[at], G.many[0] = at, j, at + 1
        G.gradient[at] = 0.0
    for k in range(u.size):
        G.gradient[at, k] += r * u[k] + 2.0 * lambda_p * P[j, k]


@inlined
def scale_factor_rows(G: FactorRows, factor: float) -> float:
    """G <- factor G, in place; returns the square of its length."""
    square = 0.0
    for at in range(G.many[0]):
        for k in range(G.gradient.shape[1]):
            G.gradient[at, k] *= factor
            square += G.gradient[at, k] * G.gradient[at, k]
    return square


_LEAST = 1e-100  # `keep` is multiplied out before it gets so small that its quotients overflow


class DeviceRecords(NamedTuple):
    """What one device holds: its person's features and records. None of it leaves the device."""

    person: FeatureArray  # (m,)
    place: IndexArray  # (r,)
    context: FeatureArray  # (r, c)
    label: LabelArray  # (r,)


class Rates(NamedTuple):
    """Step size and regularisation of a local step, and the clipping norm of its contribution."""

    alpha: float
    lambda_w: float
    clip: float  # the longest that a contribution to the sum over everyone may be
    latent: LatentRates = LatentRates()


class Touched(NamedTuple):
    """One person's gradient of V: rows for the features that the person or the records have, 0 for all others."""

    feature: IndexArray  # (D + 1,): of which feature each row is
    gradient: RealArray  # (D * L,): row after row
    many: IndexArray  # (1,): how many rows there are


class Contribution(NamedTuple):
    """What one person adds to the sum over everyone, clipped as one vector."""

    dimension: int  # K
    interaction: Touched  # the mean over the records of Eq. (4) without lambda_v
    factors: FactorRows  # the gradient of P, weighted

    def whole(self) -> RealArray:
        """Both as one vector (K * D + J * K'), with 0 for all features and places that the person has not touched."""
        V, P = self.interaction, self.factors
        rows = V.gradient.reshape(-1, whole_lanes(self.dimension))
        of_v = _with_zeros(V.feature, rows, int(V.many[0]), many=len(rows))
        of_p = _with_zeros(P.place, P.gradient, int(P.many[0]), many=len(P.row))
        return np.concatenate([out_of_lanes(of_v, self.dimension), of_p.ravel()])


class Work(NamedTuple):
    """Room to compute in, so that a step allocates nothing."""

    base: RealArray  # (1, L): the person's half of Eq. (1); L is K in whole lanes
    pull: RealArray  # (1, L): of one record
    sums: RealArray  # (1, L): of r pull, over the records
    gradient: RealArray  # (D, L): 0 before a step and after it
    noted: IndexArray  # (D,): 1 for a feature that has been touched; 0 before a step and after it
    feature: IndexArray  # (D + 1,): the person's features that are not 0
    value: RealArray  # (D + 1,)


@inlined
def local_step(
    w: RealArray, u: RealArray, shared: Public, own: DeviceRecords, order: IndexArray, rates: Rates, room: Work,
    contribution: Contribution,
) -> float:  # fmt: skip
    """One pass of stochastic descent (Eq. (3)) in the given order: w, and u where there is a latent part, are moved in
    place, and `contribution` becomes what the person adds to the sum over everyone. Returns the summed loss.

    Until the end W_i is `keep` times what w holds, so that lambda_w is one product a record; and the person's features,
    which are the same in every record, have still to move w by -`moved` times themselves."""
    person, place, context, label = own
    V, P, m, touched = shared.lanes, shared.factors, person.size, contribution.interaction.feature
    _check_shapes(w, shared, own, room, contribution.interaction)
    clear_factor_rows(contribution.factors)
    present, many, own_square = _begin(V, own, room, touched)
    flat, mine = entries_score(w, 1, room.feature, room.value, 0, present), room.value[:present]
    length, losses, product, residuals, moved, keep = dot(mine, 0, mine), 0.0, 1.0, 0.0, 0.0, 1.0
    for row in order:
        j, y, x = place[row], float(label[row]), context[row]
        linear = keep * (_linear(w, shared, x, j, m) + (flat - moved * length))
        score = linear + _pairs(shared, x, j, own_square, room) + affinity(u, P, j)
        chances = odds(y, score)
        r = residual_at(y, chances)
        losses, product = add_loss(losses, product, y * score, chances)
        many = _collect(shared, x, j, m, r, room, touched, many)
        residuals += r

        keep *= 1.0 - 2.0 * rates.alpha * rates.lambda_w
        if keep < _LEAST:
            _settle(w, room, present, moved, keep)
            flat, moved, keep = entries_score(w, 1, room.feature, room.value, 0, present), 0.0, 1.0
        pace = r * (rates.alpha / keep)
        _step(w, shared, x, j, m, pace)
        moved += pace
        collect_factor(contribution.factors, u, P, j, r, rates.latent.lambda_p)  # before u moves
        latent_step(u, P, j, r, rates.latent)
    for at in range(0, V.shape[1], LANES):  # the person's features: all records at once
        sums = read(room.sums, 0, at)
        for e in range(present):
            x_d = number(room.value, e)
            _add_gradient(V, number(room.feature, e), x_d, sums, residuals * x_d, room.gradient, at)
    contribution.interaction.many[0] = many
    _settle(w, room, present, moved, keep)
    clip(contribution, room, order.size, rates.latent.weight, rates.clip)
    return losses + log(product)


# Parts of the step
#
# A sample X^ij is never put together: the person's part is the same in every record, the place's part has few entries,
# and both are used as they are.


@inlined
def _check_shapes(w: RealArray, shared: Public, own: DeviceRecords, room: Work, touched: Touched) -> None:
    """Vector instructions do not look at the size of an array: a wrong shape would read or write foreign memory."""
    D, L = shared.lanes.shape
    if L % LANES != 0 or shared.pulls.shape[1] != L or room.pull.size != L or room.gradient.shape[1] != L:
        raise ValueError("V, the pulls and the gradient must be in whole lanes, as many of them")
    m, c = own.person.size, own.context.shape[1]
    if m != shared.first or m + shared.features + c != D or w.size != D + 1:
        raise ValueError("V must have a row and W_i an entry for each feature of person, places and context")
    if room.gradient.shape[0] != D or room.noted.size != D or touched.gradient.size != D * L:
        raise ValueError("the room to compute in must be for as many features as V has")


@inlined
def _begin(V: RealArray, own: DeviceRecords, room: Work, touched: IndexArray) -> tuple[int, int, float]:
    """The person's features that are not 0, their half of Eq. (1), and the rows that they and the context touch:
    returns how many features and rows these are, and the squares of what each feature adds."""
    present, c, square = note_present(own.person, room.feature, room.value), own.context.shape[1], 0.0
    many = note_entries(room.feature, 0, present, 0, room.noted, touched, 0)
    for d in range(c):  # no place has these, so they need not be noted
        touched[many + d] = V.shape[0] - c + d
    for at in range(0, V.shape[1], LANES):
        square += pull_of_entries(V, 0, room.feature, room.value, 0, present, room.base, 0, at)
    room.sums[:] = 0.0
    return present, many + c, square


@inlined
def _linear(w: RealArray, shared: Public, x: FeatureArray, j: int, m: int) -> float:
    """Eq. (1), linear model, without the person's features: a record at place j with context x."""
    start, stop = shared.offsets[j], shared.offsets[j + 1]
    of_place = entries_score(w, 1 + m, shared.feature, shared.value, start, stop)
    return float(w[0] + (of_place + dot(w, w.size - x.size, x)))


@inlined
def _pairs(shared: Public, x: FeatureArray, j: int, own_square: float, room: Work) -> float:
    """Eq. (1), feature interaction model; fills room.pull."""
    V, total = shared.lanes, -(own_square + shared.squares[j])
    first = V.shape[0] - x.size
    for at in range(0, V.shape[1], LANES):
        added = squares = spread(0.0)
        for d in range(x.size):
            term = times(read(V, first + d, at), spread(number(x, d)))
            added = plus(added, term)
            squares = plus(squares, times(term, term))
        pull = plus(plus(read(room.base, 0, at), read(shared.pulls, j, at)), added)
        write(room.pull, 0, at, pull)
        total += sum_of(minus(times(pull, pull), squares))
    return float(0.5 * total)


@inlined
def _step(w: RealArray, shared: Public, x: FeatureArray, j: int, m: int, pace: float) -> None:
    """Eq. (3) without lambda_w, and without the person's features; pace is alpha r."""
    start, stop = shared.offsets[j], shared.offsets[j + 1]
    w[0] -= pace
    add_entries(w, 1 + m, shared.feature, shared.value, start, stop, -pace)
    add_times(w, w.size - x.size, x, -pace)


@inlined
def _collect(
    shared: Public, x: FeatureArray, j: int, m: int, r: float, room: Work, touched: IndexArray, many: int
) -> int:
    """Eq. (4) without lambda_v, and without the person's features; returns how many rows are touched now."""
    V, feature, value = shared.lanes, shared.feature, shared.value
    start, stop, first = shared.offsets[j], shared.offsets[j + 1], V.shape[0] - x.size
    for at in range(0, V.shape[1], LANES):
        pull = read(room.pull, 0, at)
        for e in range(start, stop):
            own = number(value, e)
            _add_gradient(V, m + number(feature, e), r * own, pull, own, room.gradient, at)
        for d in range(x.size):
            own = number(x, d)
            _add_gradient(V, first + d, r * own, pull, own, room.gradient, at)
        write(room.sums, 0, at, plus(read(room.sums, 0, at), times(spread(r), pull)))
    return note_entries(feature, start, stop, m, room.noted, touched, many)


@inlined
def _add_gradient(V: RealArray, d: int, much: float, pull: Eight, own: float, G: RealArray, at: int) -> None:
    """Eq. (4) without lambda_v, one feature, eight components: G[d] += much (pull - V[d] own)."""
    more = times(spread(much), minus(pull, times(read(V, d, at), spread(own))))
    write(G, d, at, plus(read(G, d, at), more))


@inlined
def _settle(w: RealArray, room: Work, present: int, moved: float, keep: float) -> None:
    """w becomes W_i itself: keep (w - moved x), with x the person's features."""
    add_entries(w, 1, room.feature, room.value, 0, present, -moved)
    for d in range(w.size):
        w[d] *= keep


# The contribution: clipped as one vector


@inlined
def clip(contribution: Contribution, room: Work, records: int, weight: float, longest: float) -> None:
    """What was collected becomes the contribution: the mean over the records, with the gradient of P weighted, and both
    as one vector no longer than `longest`."""
    _, (feature, gradient, many), factors = contribution
    share, square, L = 1.0 / max(records, 1), 0.0, room.gradient.shape[1]
    for at in range(0, L, LANES):
        square += _square_of_rows(room.gradient, feature, many[0], at)
    factor = shrinkage(sqrt(share * share * square + scale_factor_rows(factors, weight)), longest)
    scale = spread(share * factor)
    for at in range(0, L, LANES):
        for row in range(many[0]):  # only what was touched: most rows of the gradient are 0
            d = number(feature, row)
            write_flat(gradient, row * L + at, times(scale, read(room.gradient, d, at)))
            write(room.gradient, d, at, spread(0.0))  # both as they were before the step
            put(room.noted, d, 0)
    if factor != 1.0:
        scale_factor_rows(factors, factor)


@inlined
def _square_of_rows(G: RealArray, touched: IndexArray, many: int, at: int) -> float:
    """The sum of the squares of the first `many` rows touched, in sixteen interleaved sums."""
    even = odd = spread(0.0)
    for pair in range(many >> 1):
        a, b = read(G, number(touched, 2 * pair), at), read(G, number(touched, 2 * pair + 1), at)
        even, odd = plus(even, times(a, a)), plus(odd, times(b, b))
    if many & 1:
        last = read(G, touched[many - 1], at)
        even = plus(even, times(last, last))
    return sum_of(plus(even, odd))


def _with_zeros(numbers: IndexArray, rows: RealArray, found: int, *, many: int) -> RealArray:
    """(many, L): the rows that were found, each at its number."""
    whole = np.zeros((many, rows.shape[1]))
    whole[numbers[:found]] = rows[:found]
    return whole


# Features of which most are 0, as entries: which feature, and its value


@inlined
def entries_score(w: RealArray, first: int, feature: IndexArray, value: ValueArray, start: int, stop: int) -> float:
    """The sum of w[first + d] x_d over entries start to stop."""
    total = 0.0
    for e in range(start, stop):
        total += number(w, first + number(feature, e)) * number(value, e)
    return total


@inlined
def add_entries(
    w: RealArray, first: int, feature: IndexArray, value: ValueArray, start: int, stop: int, much: float
) -> None:
    """w[first + d] += much x_d, for entries start to stop."""
    for e in range(start, stop):
        d = first + number(feature, e)
        put(w, d, number(w, d) + much * number(value, e))


@inlined
def note_entries(
    feature: IndexArray, start: int, stop: int, first: int, noted: IndexArray, touched: IndexArray, many: int
) -> int:
    """Adds first + d to the `many` numbers in `touched`, unless it is noted that they are there; returns how many there
    are then. Without a branch, which would have to be guessed; `touched` needs room for one more than it holds."""
    for e in range(start, stop):
        d = first + number(feature, e)
        put(touched, many, d)
        many += 1 - number(noted, d)
        put(noted, d, 1)
    return many


@inlined
def note_present(x: FeatureArray, feature: IndexArray, value: RealArray) -> int:
    """The features that are not 0 as entries; returns how many there are. Room for one more is needed."""
    many = 0
    for d in range(x.size):
        put(feature, many, d)
        put(value, many, number(x, d))
        many += number(x, d) != 0.0
    return many


# Rates from the settings, and room to compute in


def rates_of(settings: Settings, *, clip: float) -> Rates:
    s = settings.latent
    latent = LatentRates(s.alpha, s.lambda_u, s.lambda_p, s.weight)
    return Rates(settings.linear.alpha, settings.model.lambda_w, clip, latent)


def work(dimension: int, features: int) -> Work:
    L, D = whole_lanes(dimension), features
    return Work(
        in_lines(1, L), in_lines(1, L), in_lines(1, L), in_lines(D, L), np.zeros(D, dtype=np.int32),
        np.empty(D + 1, dtype=np.int32), np.empty(D + 1),
    )  # fmt: skip


def contribution_of(
    dimension: int, features: int, *, latent: int = 0, places: int = 0, records: int = 0
) -> Contribution:
    """Room for the contribution of somebody with so many records."""
    L, D = whole_lanes(dimension), features
    touched = Touched(np.empty(D + 1, dtype=np.int32), in_lines(D * L), np.zeros(1, dtype=np.int32))
    return Contribution(dimension, touched, factor_rows(places, records, latent))
