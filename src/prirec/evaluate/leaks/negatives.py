"""Whether drawn training negatives knew the test visits.

A training negative of person i is any place that i has not visited in training, so it hits one of i's test visits as
often as chance says: with T places visited in the test alone and K in training, T / (J - K) for a uniform draw, and the
same within the pool around a training visit for a nearby one. Draws that avoid the test visits hit none, and whoever
finds a place missing from the negatives knows where the person went.

Hits are a sum of independent indicators with mean μ. For such sums P(h or fewer) and, above μ, P(h or more) are at most
exp(-μ φ(h / μ)), φ(x) = 1 - x + x ln x (Chernoff), whatever the single chances are. Negatives that avoid every test
visit are noticed from μ = ln 10^6 = 13.8 on, those of which every other one does from μ = 90 on: μ is about the
training negatives, times the test visits a person has, over the places. Tokyo and Yelp have μ of some hundreds.
"""

import math

import numpy as np
from scipy.spatial import cKDTree

from prirec.compiled import kernel
from prirec.data.dataset import Places, Visits
from prirec.data.filters import distinct_pairs
from prirec.data.recipe import Prepared
from prirec.evaluate.experiment import recipe
from prirec.evaluate.leaks.findings import ODDS, Finding, Findings
from prirec.geography import located, unit_vectors
from prirec.settings import Settings
from prirec.types import IndexArray, OffsetArray, RealArray

_CHUNK = 10_000  # places whose pools are looked up at a time


def negatives_that_knew_the_test(prepared: Prepared, settings: Settings) -> Findings:
    """Training negatives that hit test visits far less, or far more, often than blind ones; labelled data draw none."""
    if prepared.dataset.labelled:
        return ()
    hits, expected = hits_and_chance(prepared, settings)
    if at_most(hits, expected) >= ODDS:
        return ()
    how = "avoid the test visits" if hits < expected else "are drawn where the test visits are"
    words = (
        f"training negatives {how}: {hits:,} of them are test visits of the same person, and {expected:,.1f} would be "
        f"by chance (odds below 1 in {1 / ODDS:,.0f}); draw them from what is known in training alone"
    )
    return (Finding("negatives that knew the test", "refused", words, hits / max(expected, 1.0)),)


def at_most(hits: int, expected: float) -> float:
    """A bound on the odds that blind draws are as far from what is expected, on the side on which they are."""
    if expected <= 0:
        return 1.0 if hits == 0 else 0.0
    x = hits / expected
    return math.exp(-expected * (1 - x + (x * math.log(x) if x else 0.0)))


def hits_and_chance(prepared: Prepared, settings: Settings) -> tuple[int, float]:
    """How many training negatives are test visits of the same person, and how many are expected."""
    places = len(prepared.dataset.places)
    negative = prepared.train.take(prepared.train.label < 0)
    known, hidden = _pairs(prepared, places=places)
    hits = int(np.isin(negative.person * np.int64(places) + negative.place, hidden).sum())
    drawn = np.bincount(negative.person, minlength=len(prepared.dataset.people))
    chance = _uniform(known, hidden, people=len(drawn), places=places)
    if settings.data.negatives == "nearby":
        pool = recipe(settings.data, labelled=False).pool
        chance = _nearby(prepared, known=known, hidden=hidden, elsewhere=chance, pool=pool)
    return hits, float((drawn * chance).sum())


def _pairs(prepared: Prepared, *, places: int) -> tuple[OffsetArray, OffsetArray]:
    """person · J + place, sorted, of the training visits, and of what was visited in the test alone."""
    known, tested = (
        distinct_pairs(side.take(side.label > 0), places=places) for side in (prepared.train, prepared.test)
    )
    return known, np.setdiff1d(tested, known, assume_unique=True)


def _uniform(known: OffsetArray, hidden: OffsetArray, *, people: int, places: int) -> RealArray:
    """(I,): T / (J - K); 0 for whoever has been everywhere, who is given no negative."""
    T, K = (np.bincount(pairs // places, minlength=people) for pairs in (hidden, known))
    return T / np.maximum(places - K, 1)


def _nearby(
    prepared: Prepared, *, known: OffsetArray, hidden: OffsetArray, elsewhere: RealArray, pool: int
) -> RealArray:  # fmt: skip
    """(I,): the mean over the training visits around which negatives are drawn; whoever has none is sent anywhere."""
    positive = prepared.train.take(prepared.train.label > 0)
    near, row = _pools(prepared.dataset.places, pool)
    rows = _by_person(positive)
    free, hit = _in_pools(_starts(known, prepared), _starts(hidden, prepared), rows, near, row)
    person = np.sort(positive.person)
    chance = np.where(free < 0, elsewhere[person], hit / np.maximum(free, 1))
    weight = (free != 0).astype(np.float64)  # a pool without a free place gives no negative
    many = np.bincount(person, weight, len(elsewhere))
    return np.where(many > 0, np.bincount(person, chance * weight, len(elsewhere)) / np.maximum(many, 1), elsewhere)


def _starts(pairs: OffsetArray, prepared: Prepared) -> tuple[OffsetArray, OffsetArray]:
    """The places of these pairs, and where each person's begin."""
    places, people = len(prepared.dataset.places), len(prepared.dataset.people)
    return pairs % places, np.searchsorted(pairs, np.arange(people + 1, dtype=np.int64) * places)


def _by_person(positive: Visits) -> IndexArray:
    """(R, 2): person and place of each training visit, person by person."""
    order = np.argsort(positive.person, kind="stable")
    return np.column_stack([positive.person[order], positive.place[order]])


def _pools(places: Places, pool: int) -> tuple[IndexArray, IndexArray]:
    """The places among which a nearby negative is drawn, as data/negatives.py has them, and the row of each place."""
    known = np.flatnonzero(located(np.asarray(places.location)))
    points, row = unit_vectors(np.asarray(places.location)[known]), np.full(len(places), -1, dtype=np.int32)
    row[known] = np.arange(len(known), dtype=np.int32)
    tree, nearest = cKDTree(points), list(range(1, min(pool + 1, len(known)) + 1))
    some = [points[start : start + _CHUNK] for start in range(0, len(points), _CHUNK)]
    return np.concatenate([known[tree.query(part, k=nearest)[1]].astype(np.int32) for part in some]), row


@kernel
def _in_pools(
    known: tuple[OffsetArray, OffsetArray],
    hidden: tuple[OffsetArray, OffsetArray],
    visits: IndexArray,
    near: IndexArray,
    row: IndexArray,
) -> tuple[OffsetArray, OffsetArray]:
    """For each training visit how many places of its pool were not visited in training, and in the test alone.

    -1 for a visit whose place has no coordinates."""
    free, hit = np.full(len(visits), -1, np.int64), np.zeros(len(visits), np.int64)
    mark = np.zeros(len(row), np.int64)  # 2 i + 1: visited by person i in training, 2 i + 2: in the test alone
    for r in range(len(visits)):
        i, place = visits[r, 0], visits[r, 1]
        if r == 0 or i != visits[r - 1, 0]:
            mark[known[0][known[1][i] : known[1][i + 1]]] = 2 * i + 1
            mark[hidden[0][hidden[1][i] : hidden[1][i + 1]]] = 2 * i + 2
        if row[place] >= 0:
            free[r] = 0
            for j in near[row[place]]:
                free[r] += mark[j] != 2 * i + 1
                hit[r] += mark[j] == 2 * i + 2
    return free, hit
