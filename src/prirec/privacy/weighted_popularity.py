"""Weighted popularity: a noisy sum of visit vectors that all have L2 norm 1. The mechanism of deployments.

A device counts c_ij for each place j (1 for a place that it visited, or its visits, or its spend) and contributes
x_ij = c_ij / ‖c_i‖, so that somebody with v places gives each of them 1/√v. Every vector uses the whole norm that the
noise is sized for; the price is that somebody with many places weighs less in each of them. Hence the name: the sum is
no count of visitors. Several statistics are more coordinates of the same vector, and share its norm.

Privacy. ‖x_i‖ ≤ 1 bounds how far replacing x_i by zero moves the sum; noise of σ in every coordinate then costs what
the accountant says for sensitivity 1. The noise in this file is for simulation, where only the law of the totals
matters, and protects nobody; a device rounds its vector and adds its share of integer noise (noise.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import sqrt

import numpy as np

from prirec.errors import UsageError
from prirec.features.popularity import OwnCounts
from prirec.privacy.norm import Norm
from prirec.types import OffsetArray, RealArray

_SMALLEST, _LARGEST = 1e-50, 1e50  # between them squares neither vanish nor overflow


@dataclass(frozen=True, slots=True)
class NoisySums:
    """Noisy sums of one statistic, the standard deviation of their noise, and each device's own contribution."""

    sums: RealArray = field(repr=False)  # (J,), public
    sigma: float  # standard deviation of the noise in each sum, public
    own: OwnCounts = field(repr=False)  # private


def weighted(parts: Mapping[str, OwnCounts]) -> dict[str, OwnCounts]:
    """x_i = c_i / ‖c_i‖ over all statistics together: each person's vector, of norm 1 or all zeros.

    The norm holds exactly, not only up to rounding: n entries lose at most (n + 8)·2^-52 on the way to x_i, and the
    factor takes as much off.
    """
    people = [_people(own) for own in parts.values()]
    count = 1 + max((int(rows[-1]) for rows in people if len(rows)), default=-1)
    # the norm is over all statistics together: one contribution, one sensitivity, one charge
    squares, entries = np.zeros(count), np.zeros(count)
    for own, rows in zip(parts.values(), people, strict=True):
        _refuse_unmeasurable(own)
        squares += np.bincount(rows, own.counts**2, count)
        entries += np.bincount(rows, minlength=count)
    some = squares > 0
    factor = np.divide(1 - (entries + 8) * 2.0**-52, np.sqrt(squares), out=np.zeros(count), where=some)
    return {
        name: OwnCounts(own.places, own.pairs, own.counts * factor[rows])
        for (name, own), rows in zip(parts.items(), people, strict=True)
    }


def capped(own: OwnCounts, *, most: int, draws: RealArray) -> OwnCounts:
    """At most so many places per person, those with the smallest draws, each with weight 1/√most: norm at most 1.

    All visits weigh the same, so the sum times √most counts visitors, except those that the cap left out. For
    comparison: measured, it is worth less than `weighted` at every cap.
    """
    if most < 1:
        raise UsageError("a person must be able to report at least one place: give a cap from 1 up")
    people = _people(own)
    # by person, each one's places shuffled: the first places of a catalogue must not be the ones that are reported
    order = np.lexsort((draws, people))
    rank = np.arange(len(people)) - np.searchsorted(people, people)
    kept = np.sort(order[rank < most])
    each = (1 - (most + 8) * 2.0**-52) / np.sqrt(most)
    return OwnCounts(own.places, own.pairs[kept], np.full(len(kept), each))


def stacked(parts: Sequence[OwnCounts]) -> OwnCounts:
    """Several statistics of the same J places as one vector of S J entries, the first statistic first."""
    places = parts[0].places
    entries = len(parts) * places
    pairs = np.concatenate([_people(own) * entries + at * places + own.pairs % places for at, own in enumerate(parts)])
    order = np.argsort(pairs, kind="stable")
    return OwnCounts(entries, pairs[order], np.concatenate([own.counts for own in parts])[order])


def split(release: NoisySums, statistics: int) -> list[NoisySums]:
    """The inverse of `stacked`: the noisy sums of each statistic."""
    own, places = release.own, len(release.sums) // statistics
    entry, people = own.pairs % own.places, _people(own)
    found = []
    for at in range(statistics):
        mine = entry // places == at
        part = OwnCounts(places, people[mine] * places + entry[mine] % places, own.counts[mine])
        found.append(NoisySums(release.sums[at * places : (at + 1) * places], release.sigma, part))
    return found


def written(contributions: OwnCounts, norm: Norm) -> OwnCounts:
    """Everyone's contribution in units of 2^-f, clipped to the norm: norm.clipped for all people at once, to the same
    bits, for simulation."""
    people, values = _people(contributions), contributions.counts
    starts = np.flatnonzero(np.diff(people, prepend=-1))
    if not np.isfinite(values).all():
        raise UsageError("a contribution has an entry that is not a number or not finite; nothing was made of it")
    if not len(starts):
        return contributions
    who = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(people)))
    largest = np.maximum.reduceat(np.abs(values), starts)
    largest[largest == 0] = 1.0
    shrunk = values / largest[who]
    length = np.sqrt(np.add.reduceat(shrunk**2, starts))
    length[length == 0] = 1.0
    entries = np.add.reduceat((values != 0).astype(np.int64), starts)
    wanted = np.minimum(length * largest, norm.before_rounding(entries))
    whole = np.rint(shrunk / length[who] * wanted[who] * 2.0**norm.fraction_bits).astype(np.int64)
    # floating point may have left a vector a unit too long: move it toward zero until the exact check holds
    most = int(norm.units**2)
    while (long := np.add.reduceat(whole * whole, starts) > most).any():
        whole -= np.sign(whole) * long[who]
    return OwnCounts(contributions.places, contributions.pairs, whole.astype(np.float64))


def opened(contributions: OwnCounts, *, norm: Norm, noise: OffsetArray, noise_variance: Fraction) -> NoisySums:
    """Σ_i q_i + noise, q_i being the contributions as `written` makes them; the result is in units of a person's norm.

    The noise (J,) and its variance (NoiseShare.total_variance) are in units of 2^-f."""
    mine, unit = written(contributions, norm), 2.0**-norm.fraction_bits
    return NoisySums((mine.total() + noise) * unit, sqrt(noise_variance) * unit, _scaled(mine, unit))


def in_units(contributions: OwnCounts, norm: Norm) -> OwnCounts:
    """What each of these people adds to an opened sum, q_i, in units of a person's norm."""
    return _scaled(written(contributions, norm), 2.0**-norm.fraction_bits)


def _scaled(own: OwnCounts, unit: float) -> OwnCounts:
    return OwnCounts(own.places, own.pairs, own.counts * unit)


def simulated(contributions: OwnCounts, *, sigma: float, rng: np.random.Generator) -> NoisySums:
    """Σ_i x_ij + N(0, σ²). For simulation: it protects nobody."""
    if not 0 <= sigma < np.inf:
        raise UsageError("sigma, the noise in units of a person's norm, must be finite and not negative")
    sums = contributions.total() + sigma * rng.standard_normal(contributions.places)
    return NoisySums(sums, sigma, contributions)


def _people(own: OwnCounts) -> OffsetArray:
    rows: OffsetArray = own.pairs // own.places
    return rows


def _refuse_unmeasurable(own: OwnCounts) -> None:
    size = np.abs(own.counts)
    if not ((size == 0) | ((size > _SMALLEST) & (size < _LARGEST))).all():  # false for NaN as well
        raise UsageError("what a device adds is 0 or a number between 1e-50 and 1e50, positive or negative")
