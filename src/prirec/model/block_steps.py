"""A round, for a block of people at a time: the loops around the local step, in simulation on one machine.

Everything that is summed is summed in the ring, so blocks can be taken in any order and by any number of threads.
"""

from typing import NamedTuple

from prirec.model.equations import shrink
from prirec.model.lanes import LANES, number, plus, prefetch_entry, prefetch_row, read, read_flat, write
from prirec.model.local_step import Contribution, DeviceRecords, FactorRows, Rates, Touched, Work, local_step
from prirec.model.public_half import Public
from prirec.sharing.fixed_point import add_encoded, encode_into, shorten
from prirec.types import BoolArray, FeatureArray, IndexArray, KeyArray, LabelArray, OffsetArray, RealArray, RingArray
from prirec.util.jit import inlined, lean_kernel
from prirec.util.keyed_random import Word, mix, shuffle


class Everyone(NamedTuple):
    """All devices' own data, as only a simulation has them."""

    people: FeatureArray  # (I, m)
    offsets: OffsetArray  # (I + 1,)
    place: IndexArray  # (R,)
    context: FeatureArray  # (R, c)
    label: LabelArray  # (R,)
    keys: KeyArray  # (I,)


class Mixing(NamedTuple):
    """What the cohorts opened: the mean model of each, and how much of it each person takes."""

    cohort: IndexArray  # (I,)
    means: RealArray  # (C, D + 1)
    opened: BoolArray  # (C,)
    gamma: RealArray  # (I,)


class Encoder(NamedTuple):
    """How a contribution is written in the ring."""

    scale: float
    bound: float
    most: int = 0  # the square of its length in whole numbers, at most; 0: any


@lean_kernel
def contribute_models(
    W: RealArray, block: tuple[int, int], present: BoolArray, cohort: IndexArray, centre: RealArray, clip: float,
    code: Encoder, clipped: RealArray, sums: RingArray, members: OffsetArray,
) -> bool:  # fmt: skip
    """Step (b): each present person of the block adds clip(W_i - centre) to its cohort's sum (C, D + 1)."""
    fine = True
    for i in range(block[0], block[1]):
        if present[i]:
            away_from(centre[cohort[i]], W[i], clipped)
            shrink(clipped, clip, clipped)
            fine &= add_contribution(clipped, code, sums[cohort[i]])
            members[cohort[i]] += 1
    return fine


@lean_kernel
def step_people(
    W: RealArray, U: RealArray, block: tuple[int, int], present: BoolArray, counted: BoolArray, mixing: Mixing,
    shared: Public, everyone: Everyone, round_key: Word, rates: Rates, code: Encoder, room: Work, order: IndexArray,
    contribution: Contribution, encoded: RingArray, of_interaction: RingArray, of_factors: RingArray, losses: RealArray,
) -> bool:  # fmt: skip
    """Steps (c) to (e): mix, local step, and the gradients of V (D, L) and P (J * K') into the sums over everyone."""
    people, offsets, place, context, label, keys = everyone
    cohort, means, opened, gamma = mixing
    fine = True
    for i in range(block[0], block[1]):
        if not present[i]:
            continue
        w, start, stop = W[i], offsets[i], offsets[i + 1]
        _prefetch_people(W, shared, everyone, i, block[1])
        if opened[cohort[i]]:
            mix_model(w, means[cohort[i]], gamma[i])
        own = DeviceRecords(people[i], place[start:stop], context[start:stop], label[start:stop])
        mine = order[: stop - start]
        # The order follows from the person's key, not from the row: an engine that holds other people, or a device
        # that holds one, walks through the records in the same order and gets the same bits.
        shuffle(mix(round_key, keys[i]), mine)
        losses[i] = local_step(w, U[i], shared, own, mine, rates, room, contribution)
        # whoever is lost after the local step has learnt, but is in no sum
        if counted[i]:
            fine &= add_touched(contribution.interaction, code, encoded, of_interaction)
            fine &= add_factors(contribution.factors, code, of_factors)
    return fine


@inlined
def mix_model(w: RealArray, mean: RealArray, gamma: float) -> None:
    """W_i <- (1 - gamma_i) W_i + gamma_i mean: Eq. (8) with the own model kept in the sum (decisions/0002)."""
    for d in range(w.size):
        w[d] = (1.0 - gamma) * w[d] + gamma * mean[d]


@inlined
def away_from(centre: RealArray, w: RealArray, out: RealArray) -> None:
    """W_i - centre: how far a model is from what its cohort opened last (decisions/0013)."""
    for d in range(w.size):
        out[d] = w[d] - centre[d]


@inlined
def ready(values: RealArray, code: Encoder) -> bool:
    """Shortens the values if rounding makes them too long; False if a value is outside."""
    if code.most > 0:
        # `shorten` squares the values as whole numbers, which a value outside the bound would overflow.
        for d in range(values.size):
            if not abs(values[d]) <= code.bound:
                return False
        shorten(values, code.scale, code.most)
    return True


@inlined
def add_contribution(values: RealArray, code: Encoder, total: RingArray) -> bool:
    """total += values in the ring, shortened if rounding made them too long; False if a value is outside."""
    return ready(values, code) and add_encoded(values, code.scale, code.bound, total)


@inlined
def add_touched(found: Touched, code: Encoder, encoded: RingArray, total: RingArray) -> bool:
    """total (D, L) += found in the ring, as add_contribution; `encoded` (D * L,) is room to compute in."""
    feature, gradient, many = found
    # vector instructions look at no size: too little room would be memory of somebody else's
    if encoded.size < gradient.size:
        raise ValueError("there must be room to encode all rows in")
    values = gradient[: many[0] * total.shape[1]]
    if not ready(values, code):
        return False
    fine = encode_into(values, code.scale, code.bound, encoded[: values.size])
    L = total.shape[1]
    for at in range(0, L, LANES):
        for row in range(many[0]):
            d = number(feature, row)
            write(total, d, at, plus(read(total, d, at), read_flat(encoded, row * L + at)))
    return fine


@inlined
def add_factors(G: FactorRows, code: Encoder, total: RingArray) -> bool:
    """total (J * K') += G in the ring: rows that it has not are 0, and 0 is 0 in the ring. False if one is outside."""
    K, fine = G.gradient.shape[1], True
    for at in range(G.many[0]):
        first = G.place[at] * K
        fine &= add_encoded(G.gradient[at], code.scale, code.bound, total[first : first + K])
    return fine


@inlined
def _prefetch_people(W: RealArray, shared: Public, everyone: Everyone, i: int, stop: int) -> None:
    """Fetches what persons i + 1 and i + 2 will need: first where a place's features stand, then the features."""
    place, offsets = everyone.place, everyone.offsets
    if i + 2 < stop:
        prefetch_row(W, i + 2)
        for e in range(offsets[i + 2], offsets[i + 3]):
            prefetch_entry(shared.offsets, place[e])
            prefetch_row(shared.pulls, place[e])
            prefetch_entry(shared.squares, place[e])
            prefetch_row(shared.factors, place[e])
        for e in range(offsets[i + 1], offsets[i + 2]):
            prefetch_entry(shared.feature, shared.offsets[place[e]])
            prefetch_entry(shared.value, shared.offsets[place[e]])
