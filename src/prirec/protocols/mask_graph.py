"""Who masks with whom: a k-regular random graph (Bell et al. 2020), so that a device's work grows with log n, not n.

The devices of a roster stand on a ring in an order that follows from a public beacon, and each is joined to the k/2
before and the k/2 after it. Any t shares of its two secrets, own seed and mask key, bring them back: each neighbour
holds one of both, and the device itself keeps one of the seed. Nobody learns anything here: the graph is public. What
it has to give, with C devices corrupt, chosen before the beacon, and c of them among a person's k neighbours
(decisions/0011 derives the bounds, and says what devices have to do for them):

1. Never both secrets of one person. An honest neighbour answers once, for one of the two; a corrupt one for both. Both
   are known only if k + 1 + c >= 2t, so 2t > k + 1 + c for everyone, except with probability 2^-80.
2. The round can be opened: of each person's neighbours t are left, except with probability 2^-20, when L are lost at
   random. A server that loses more, or others, only spoils its round.
3. No part of the sum. The honest who are left stay connected when L are lost at random: to cut a ring takes two runs
   of k/2 devices in a row that are corrupt or lost (2^-80).
4. The same, whoever the server says is lost. The seed of the person beside such a run comes from the other side, from
   the person and from the corrupt inside the run: k/2 + 1 + c' >= t. Two runs are that corrupt with 2^-80 at most.

On a complete graph all of this is certain while C < n/3, and t survivors are enough.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from prirec.errors import UsageError
from prirec.sharing.keys import derive, stretch
from prirec.types import BoolArray, IndexArray, RealArray

BOTH_SECRETS = PART_OF_SUM = 2.0**-80  # over everyone; 40 bits are left if a server tries 2^40 rosters
NOT_OPENED = 2.0**-20  # over everyone; costs a round, tells nobody anything
SMALL = 64  # up to here every roster is a complete graph: a share of so few is no bound on the corrupt
MOST_DEVICES = 2**24  # a device sorts that many words in a few seconds
MOST_NEIGHBOURS = 4096  # a device agrees on that many keys in a second

_SLACK = 1 + 2.0**-10  # what is taken as equal, so that devices whose logarithms round differently agree
_STEP = 256  # degrees looked at together
_Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Graph:
    """n devices with k neighbours each, t of whom can bring a secret back. Any numbers: `adequate` judges them."""

    size: int
    degree: int
    threshold: int

    @property
    def is_complete(self) -> bool:
        return self.degree == self.size - 1

    @property
    def possible(self) -> bool:
        """Whether so many devices can have so many neighbours each on a ring."""
        even = self.degree % 2 == 0
        return 2 <= self.size <= MOST_DEVICES and (self.is_complete or (even and 2 <= self.degree < self.size))


@dataclass(frozen=True, slots=True)
class _Bounds:
    """How many of a roster are corrupt and how many lost, at most; failures count as `slack` times less likely."""

    size: int
    corrupt: int
    lost: int
    slack: float = 1.0


def plan(size: int, *, corrupt: float, lost: float) -> Graph:
    """The least degree, and for it the least threshold, that keep all four promises; everyone's work grows with it.

    Up to SMALL devices, and where no sparser graph will do, the complete graph. UsageError if that will not do either:
    corrupt + 2 lost < 1 is needed by any graph, C < n/3 by a complete one. Up to SMALL devices it may survive fewer
    than `lost` (see `complete`). A round that loses more is not opened, and tells nobody anything.
    """
    return _planned(_bounds(size, corrupt=corrupt, lost=lost))


def complete(size: int) -> Graph:
    """Everyone masks with everyone; t = ⌊2n/3⌋ + 1, a device's own share counted.

    With c < n/3 of the others corrupt, 2t > n + c: nobody's two secrets are both known. It survives n - t lost: just
    under a third of many, 2 of 7, 1 of 4 to 6, none of 2 or 3. Of two devices the sum gives each away to the other.
    """
    _check_size(size)
    return Graph(size, size - 1, 2 * size // 3 + 1)


def adequate(graph: Graph, *, corrupt: float, lost: float) -> bool:
    """Whether a graph that somebody proposes keeps what `plan` would; a device asks before it shares anything."""
    if not graph.possible:
        return False
    return _holds(graph, _bounds(graph.size, corrupt=corrupt, lost=lost, slack=_SLACK))


def least_survivors(size: int, *, floor: int, lost: float) -> int:
    """The fewest survivors with which a sum over `size` devices on a roster may be opened: max(floor, n - ⌊lost n⌋).

    One number for all: engines skip a sum with fewer, devices release no share for it, and noise is sized for it.
    """
    if size < 0 or floor < 0 or not 0 <= lost < 1:
        raise UsageError("the fewest survivors need a size and a floor of at least 0, and 0 <= lost < 1")
    return max(floor, size - _count(lost, size))


def neighbours(graph: Graph, *, beacon: bytes, position: int) -> IndexArray:
    """With whom one position masks, ascending, shape (k,); symmetric, and public like the beacon."""
    if not 0 <= position < graph.size:
        raise UsageError("a position in a mask graph is at least 0 and below its size")
    return _around(graph, beacon, np.array([position])).ravel()


def all_neighbours(graph: Graph, *, beacon: bytes) -> IndexArray:
    """`neighbours` of every position, shape (n, k): what whoever lists a roster needs."""
    return _around(graph, beacon, np.arange(graph.size))


def _around(graph: Graph, beacon: bytes, positions: _Integers) -> IndexArray:
    if not graph.possible:
        raise UsageError(f"a mask graph joins 2 to {MOST_DEVICES} devices, each to all or an even number of the others")
    if graph.is_complete:
        others = np.arange(graph.size - 1, dtype=np.int32)
        return others + (others >= positions[:, None])
    order, places = _ring(graph.size, beacon)
    steps = np.arange(1, graph.degree // 2 + 1)
    around = places[positions][:, None] + np.concatenate([-steps, steps])
    return np.sort(order[around % graph.size], axis=1)


@lru_cache(maxsize=2)  # in a simulation every position asks for the same ring
def _ring(size: int, beacon: bytes) -> tuple[IndexArray, IndexArray]:
    """Who stands at each place of the ring, and where each position stands: an order as uniform as 64-bit words are."""
    order = np.argsort(stretch(derive(beacon, "mask graph", size), size), kind="stable").astype(np.int32)
    places = np.empty_like(order)
    places[order] = np.arange(size, dtype=np.int32)
    return order, places


@lru_cache(maxsize=1024)
def _planned(bounds: _Bounds) -> Graph:
    size = bounds.size
    last = min(size - 2, MOST_NEIGHBOURS) if size > SMALL else 0
    for start in range(2, last + 1, _STEP):
        degrees = np.arange(start, min(start + _STEP, last + 1), 2)
        thresholds = _least_thresholds(bounds, degrees)
        fit = np.flatnonzero(_opens(bounds, degrees, thresholds) & _connected(bounds, degrees))
        if fit.size:  # the first, not a bisection: rounding to whole shares makes some degrees worse than smaller ones
            return Graph(size, int(degrees[fit[0]]), int(thresholds[fit[0]]))
    if size - 1 > MOST_NEIGHBOURS or not _holds(complete(size), bounds):
        raise UsageError(
            f"no mask graph on {size} devices with up to {MOST_NEIGHBOURS} neighbours each bears {bounds.corrupt} "
            f"corrupt and {bounds.lost} lost; lower corrupt (below 1/3) or lost (corrupt + 2 lost well below 1)"
        )
    return complete(size)


@lru_cache(maxsize=1024)
def _holds(graph: Graph, bounds: _Bounds) -> bool:
    if graph.degree > MOST_NEIGHBOURS:
        return False
    if graph.is_complete:
        least, most = complete(graph.size).threshold, min(graph.degree, graph.size - bounds.lost)
        most = max(least, most) if graph.size <= SMALL else most
        return 2 * graph.threshold > graph.size + bounds.corrupt and least <= graph.threshold <= most
    if graph.size <= SMALL or not 0 < graph.threshold <= graph.degree:
        return False
    degrees, thresholds = np.array([graph.degree]), np.array([graph.threshold])
    private = thresholds >= _least_thresholds(bounds, degrees)
    return bool((private & _opens(bounds, degrees, thresholds) & _connected(bounds, degrees)).all())


def _least_thresholds(bounds: _Bounds, degrees: _Integers) -> _Integers:
    """The least t for each k that keeps promises 1 and 4, shape (k,); may exceed k."""
    n, k, half = bounds.size, degrees, degrees // 2
    around = _tails(n - 1, bounds.corrupt, k)  # P[c >= x] among all neighbours
    beside = _tails(n - 1, bounds.corrupt, half)  # and on one side
    one_person = (k + _first(n * around <= BOTH_SECRETS * bounds.slack)) // 2 + 1  # 2t - k - 1 or more are rare
    # Two runs hold k devices: together 2 (t - k/2 - 1) corrupt, or half of that each. Counts apart are negatively
    # associated (Joag-Dev and Proschan 1983), so both at once is no likelier than the product.
    pairs, rare = n * n / 2, PART_OF_SUM * bounds.slack
    together = (k + _first(pairs * around <= rare) + 1) // 2 + 1
    each = half + _first(pairs * beside**2 <= rare) + 1
    return np.asarray(np.maximum(one_person, np.minimum(together, each)))


def _opens(bounds: _Bounds, degrees: _Integers, thresholds: _Integers) -> BoolArray:
    """Promise 2: no more than k - t of anyone's neighbours are lost."""
    spare = np.maximum(degrees - thresholds, -1)
    tails = _tails(bounds.size - 1, bounds.lost, degrees)
    failing = bounds.size * np.take_along_axis(tails, spare[:, None] + 1, axis=1)[:, 0]
    return np.asarray((spare >= 0) & (failing <= NOT_OPENED * bounds.slack))


def _connected(bounds: _Bounds, degrees: _Integers) -> BoolArray:
    """Promise 3: nowhere are k/2 in a row corrupt or lost."""
    n, gone = bounds.size, min(bounds.corrupt + bounds.lost, bounds.size)
    run = int(degrees.max()) // 2
    failing = n * np.exp(_falling(gone, run) - _falling(n, run))[degrees // 2]
    return np.asarray(failing <= PART_OF_SUM * bounds.slack)


def _tails(population: int, marked: int, draws: _Integers) -> RealArray:
    """P[X >= x] for x = 0 .. max(draws) + 1 marked ones among draws without replacement, shape (draws, x).

    Logarithms are summed over the draws, never over the population: little to cancel, and no special functions.
    """
    widest = int(draws.max())
    k, x = draws[:, None], np.arange(widest + 2)
    rest = np.maximum(k - x, 0)
    factorial = np.concatenate([[0.0], np.cumsum(np.log(x[1:]))])
    fall, unmarked, all_of_them = (_falling(m, widest + 1) for m in (marked, population - marked, population))
    log_mass = factorial[k] - factorial[x] - factorial[rest] + fall[x] + unmarked[rest] - all_of_them[k]
    mass = np.exp(np.where(x <= k, log_mass, -np.inf))
    return mass[:, ::-1].cumsum(axis=1)[:, ::-1]  # from the small end, where the digits count


def _first(true: BoolArray) -> _Integers:
    """The first column of each row that is true; the last always is, because nobody draws more than there are draws."""
    return np.asarray(np.argmax(true, axis=1))


def _falling(start: int, count: int) -> RealArray:
    """log(start (start - 1) ... (start - j + 1)) for j = 0 .. count; -inf where a factor is 0 or below."""
    with np.errstate(divide="ignore"):
        logs = np.log(np.maximum(start - np.arange(count, dtype=np.float64), 0.0))
    return np.concatenate([[0.0], np.cumsum(logs)])


def _bounds(size: int, *, corrupt: float, lost: float, slack: float = 1.0) -> _Bounds:
    _check_size(size)
    if not (corrupt >= 0 and lost >= 0 and corrupt + 2 * lost < 1):  # false for NaN as well
        raise UsageError("a mask graph needs shares of all devices: corrupt >= 0, lost >= 0, corrupt + 2 lost < 1")
    return _Bounds(size, _count(corrupt, size), _count(lost, size), slack)


def _check_size(size: int) -> None:
    if not 2 <= size <= MOST_DEVICES:
        raise UsageError(f"a sum under masks needs 2 to {MOST_DEVICES} devices")


def _count(share: float, size: int) -> int:
    """⌊share · size⌋ as meant: 0.29 of 100 is 29, though the nearest float to 0.29 is a little below."""
    return int(share * size + 1e-6)
