"""Leak checks: whether the test set got into training, through records, negatives, features, homes or popularity.

Checks that recompute are exact, at any size: copied records, moments, the order of time, homes, features, the own parts
that devices leave out, and counts that follow from the settings. Two rest on chance, with odds of a false alarm below
one in a million: whether negatives hit test visits as often as blind ones would, and whether counts that cannot be
recomputed know the test visits (leak_evidence.py). That a split makes labels anti-correlated is measured, and flagged
where it is no chance.
"""

import math
from collections.abc import Collection
from dataclasses import replace

import numpy as np

from prirec.config import Settings
from prirec.data.dataset import Category, Dataset, Numbers, Places, Tags, Visits
from prirec.data.prepare import Prepared, distinct_pairs, nearest_places
from prirec.errors import PrirecError, UsageError
from prirec.evaluate.intervals import share_below
from prirec.evaluate.leak_evidence import ODDS, Evidence, Finding, Findings, both, weigh
from prirec.features.history import only_earlier
from prirec.features.location import homes
from prirec.features.popularity import Counts, OwnCounts, Popularity
from prirec.features.samples import Records, Samples, assemble
from prirec.privacy.popularity_estimate import NEARBY
from prirec.simulate.popularity import release_popularity
from prirec.simulate.setup import Setup, recipe
from prirec.types import BoolArray, IndexArray, OffsetArray, RealArray
from prirec.util.geography import located
from prirec.util.jit import kernel

__all__ = ["Finding", "Findings", "check", "refuse"]


def check(setup: Setup, *, elsewhere: Collection[str] = ()) -> Findings:
    """Everything that is unfair about testing on this set-up, in the order in which a reader would want to know.

    elsewhere: released columns that come from another source than these visits. Whether test visits are in them cannot
    be recomputed, so a suspicion is flagged where it would be refused.
    """
    prepared, recounted = setup.prepared, recount(setup.prepared, setup.settings)
    return (
        *copied_records(prepared),
        *later_than_the_test(prepared, setup.settings),
        *negatives_that_knew_the_test(prepared, setup.settings),
        *moments_of_the_test(prepared),
        *counts_that_saw_the_test(setup, recounted, elsewhere=elsewhere),
        *own_parts_that_saw_the_test(setup, recounted),
        *homes_that_saw_the_test(setup),
        *features_of_the_test(setup),
        *tables_that_saw_the_test(prepared),
        *repeated_records(prepared),
        *rates_that_say_the_opposite(prepared),
        *moments_cut_in_two(prepared),
    )


def refuse(findings: Findings) -> None:
    """UsageError with all reasons to refuse this evaluation; what is only flagged passes."""
    refused = [one for one in findings if one.severity == "refused"]
    if refused:
        reasons = "; ".join(f"{one.name}: {one.words}" for one in refused)
        raise UsageError(f"this evaluation would learn from what it is tested on. {reasons}")


def _refused(name: str, words: str, figure: float) -> Findings:
    """One refusal; none where the figure is 0."""
    return (Finding(name, "refused", words, figure),) if figure else ()


# Records that are on both sides of a split, and moments or orders of time that give test records away. All exact.


def copied_records(prepared: Prepared) -> Findings:
    """Test records that are in training as well: the two sides together have more of them than the data.

    A repeated visit is no copy. Drawn negatives are left out: chance may draw a pair twice."""
    data, train, test = (
        _of_the_data(prepared, side) for side in (prepared.dataset.visits, prepared.train, prepared.test)
    )
    have, learnt, tested = counted(rows_of(data), rows_of(train), rows_of(test))
    copies = int(np.minimum(np.clip(learnt + tested - have, 0, None), np.minimum(learnt, tested)).sum())
    words = (
        f"{copies:,} of {len(test):,} test records are in the training set as well; split so that each record is on "
        "one side only"
    )
    return _refused("test records in training", words, copies)


def repeated_records(prepared: Prepared) -> Findings:
    """Records that the data themselves hold twice, to the second, of which one is learnt from and one tested."""
    if prepared.dataset.visits.time is None:
        return ()  # without times, a second visit looks like a copy
    learnt, tested = counted(*(rows_of(_of_the_data(prepared, side)) for side in (prepared.train, prepared.test)))
    twice = int(np.minimum(learnt, tested).sum())
    if not twice or copied_records(prepared):
        return ()
    words = (
        f"the data hold {twice:,} records of one person, place and second twice, once in training and once in the "
        "test; if they were written twice by mistake, remove the repetitions"
    )
    return (Finding("records that stand twice in the data", "flagged", words, twice),)


def later_than_the_test(prepared: Prepared, settings: Settings) -> Findings:
    """Training records of people that are later than their first test record, where the split is by time."""
    if settings.data.split != "time" or prepared.train.time is None or prepared.test.time is None:
        return ()
    train, test = (_of_the_data(prepared, side) for side in (prepared.train, prepared.test))
    first = np.full(len(prepared.dataset.people), np.iinfo(np.int64).max)
    np.minimum.at(first, test.person, np.asarray(test.time))
    late = int((np.asarray(train.time) > first[train.person]).sum())
    words = (
        f"{late:,} of {len(train):,} training records are later than a test record of the same person; test on "
        "everyone's last records"
    )
    return _refused("training after the test", words, late)


def moments_of_the_test(prepared: Prepared) -> Findings:
    """Drawn training negatives with the time and context of a test visit, which no training visit of the person has.

    A negative of somebody without training visits may have anyone's training moment (decisions/0009)."""
    visits = prepared.dataset.visits
    if prepared.dataset.labelled or (visits.time is None and not visits.context):
        return ()
    positive = prepared.train.label > 0
    negative, known = prepared.train.take(~positive), prepared.train.take(positive)
    hidden = prepared.test.take(prepared.test.label > 0)
    own = among(_own_moments(negative), _own_moments(known))
    anyones = among(moments_of(negative), moments_of(known))
    tested = among(_own_moments(negative), _own_moments(hidden))
    honest = np.where(np.isin(negative.person, known.person), own, anyones)
    leaked = int((tested & ~honest).sum())
    words = (
        f"{leaked:,} of {len(negative):,} training negatives have the moment of a test visit, which tells when the "
        "test visits were; give them moments of training visits"
    )
    return _refused("moments of test visits in training", words, leaked)


def _of_the_data(prepared: Prepared, visits: Visits) -> Visits:
    """The records that the data hold, without negatives that were drawn."""
    return visits if prepared.dataset.labelled else visits.take(visits.label > 0)


def _own_moments(visits: Visits) -> OffsetArray:
    return np.column_stack([visits.person.astype(np.int64), moments_of(visits)])


# Labels that the split itself makes predictable, the wrong way round (decisions/0009).
#
# With drawn negatives and a random split by record, somebody whose training records hold many visits has few of them
# left for the test. Whatever learns a person's rate of visits then does worse than chance by it: the reason why PriRec-
# is below 0.5 in the paper's Table 4. Within a moment it is worse: where a list is cut in two and training has the
# click, the test has what was ignored; and of a visit and the negative drawn for it, training has the one and the test
# the other. No model here is told which records belong to one moment, so it is flagged with its size: that is what a
# model would gain that knew of the split, and what one that learns rates loses.


_FAR = 3.09  # once in a thousand fair splits
_LEAST = 0.01  # a smaller distance from 0.5 changes no figure that anyone would print
_WHOLE = 'set data.split = "moment", which keeps what was shown together on one side'


def rates_that_say_the_opposite(prepared: Prepared) -> Findings:
    """The AUC on the test of minus each person's share of positives in training, where that is clearly above 0.5."""
    within = 'read GAUC, which compares within people alone, or set data.split = "time"'
    return _says_the_opposite(
        prepared,
        [side.person.astype(np.int64)[:, None] for side in (prepared.train, prepared.test)],
        "labels anti-correlated by the split",
        "a person's share of positives in training says the opposite of the test labels",
        f"so models of single people look worse than they are; {_WHOLE if prepared.dataset.labelled else within}",
    )


def moments_cut_in_two(prepared: Prepared) -> Findings:
    """The AUC on the test of minus the share of positives in training records of the same person and second."""
    if prepared.train.time is None or prepared.test.time is None:
        return ()
    return _says_the_opposite(
        prepared,
        [np.column_stack([side.person, np.asarray(side.time)]) for side in (prepared.train, prepared.test)],
        "moments cut in two by the split",
        "training has records of the very moments that are tested, and their labels say the opposite of the test's",
        "so the test asks less, and something else, than what comes next; "
        + (_WHOLE if prepared.dataset.labelled else 'set data.split = "time"'),
    )


def _says_the_opposite(prepared: Prepared, groups: list[OffsetArray], name: str, what: str, instead: str) -> Findings:
    """Flagged where a group's share of positives in training ranks its test records clearly the wrong way round."""
    learnt, tested = numbered(*groups)
    scores = -training_rates(prepared.train, learnt, groups=1 + int(max(learnt.max(), tested.max())))[tested]
    auc, error = auc_by_people(prepared.test, scores)
    if not auc > 0.5 + max(_FAR * error, _LEAST):  # also where there is none
        return ()
    measured = f"an AUC of {auc:.3f} (chance: 0.5, standard error {error:.3f})"
    words = f"{what}: ranking by minus their share of positives has {measured}, {instead}"
    return (Finding(name, "flagged", words, auc),)


def training_rates(train: Visits, group: OffsetArray, *, groups: int) -> RealArray:
    """The share of positives among each group's training records; everyone's for a group without any."""
    records, positive = np.bincount(group, minlength=groups), np.bincount(group, train.label > 0, groups)
    overall = float((train.label > 0).mean()) if len(train) else 0.0
    return np.where(records > 0, positive / np.maximum(records, 1), overall)


def auc_by_people(test: Visits, scores: RealArray) -> tuple[float, float]:
    """The AUC, and its standard error with people drawn, not records (Obuchowski, Biometrics 53, 1997).

    A record's component is its share of wins over the other class; a person's are summed. nan with one class or person.
    """
    positive = test.label > 0
    wins, losses = scores[positive], scores[~positive]
    tested = len(np.unique(test.person))
    if not len(wins) or not len(losses) or tested < 2:
        return math.nan, math.nan
    shares = np.zeros(len(scores))
    shares[positive], shares[~positive] = share_below(wins, losses), 1 - share_below(losses, wins)
    auc = float(shares[positive].mean())
    weight = np.where(positive, 1 / len(wins), 1 / len(losses))
    moved = np.bincount(test.person, (shares - auc) * weight)
    return auc, math.sqrt(tested / (tested - 1) * float((moved**2).sum()))


# Whether drawn training negatives knew the test visits.
#
# A training negative of person i is any place that i has not visited in training, so it hits one of i's test visits as
# often as chance says: with T places visited in the test alone and K in training, T / (J - K) for a uniform draw, and
# the same within the pool around a training visit for a nearby one. Draws that avoid the test visits hit none, and
# whoever finds a place missing from the negatives knows where the person went.
#
# Hits are a sum of independent indicators with mean μ. For such sums P(h or fewer) and, above μ, P(h or more) are at
# most exp(-μ φ(h / μ)), φ(x) = 1 - x + x ln x (Chernoff), whatever the single chances are. Negatives that avoid every
# test visit are noticed from μ = ln 10^6 = 13.8 on, those of which every other one does from μ = 90 on: μ is about the
# training negatives, times the test visits a person has, over the places. Tokyo and Yelp have μ of some hundreds.


def negatives_that_knew_the_test(prepared: Prepared, settings: Settings) -> Findings:
    """Training negatives that hit test visits far less, or far more, often than blind ones; labelled data draw none."""
    if prepared.dataset.labelled:
        return ()
    hits, expected = hits_and_chance(prepared, settings)
    # a bound on both sides: negatives placed on test visits give them away as surely as negatives that avoid them
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
    known, hidden = _pairs(prepared)
    hits = int(np.isin(negative.person * np.int64(places) + negative.place, hidden).sum())
    drawn = np.bincount(negative.person, minlength=len(prepared.dataset.people))
    chance = _uniform(known, hidden, people=len(drawn), places=places)
    if settings.data.negatives == "nearby":
        pool = recipe(settings.data, labelled=False).pool
        chance = _nearby(prepared, known=known, hidden=hidden, elsewhere=chance, pool=pool)
    return hits, float((drawn * chance).sum())


def _pairs(prepared: Prepared) -> tuple[OffsetArray, OffsetArray]:
    """person · J + place, sorted, of the training visits, and of what was visited in the test alone."""
    places, sides = len(prepared.dataset.places), (prepared.train, prepared.test)
    known, tested = (distinct_pairs(side.take(side.label > 0), places=places) for side in sides)
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
    order = np.argsort(positive.person, kind="stable")  # person by person, as the kernel needs them
    person, place = positive.person[order], positive.place[order]
    free, hit = _in_pools(_starts(known, prepared), _starts(hidden, prepared), person, place, near, row)
    chance = np.where(free < 0, elsewhere[person], hit / np.maximum(free, 1))
    weight = (free != 0).astype(np.float64)  # a pool without a free place gives no negative
    many = np.bincount(person, weight, len(elsewhere))
    return np.where(many > 0, np.bincount(person, chance * weight, len(elsewhere)) / np.maximum(many, 1), elsewhere)


def _starts(pairs: OffsetArray, prepared: Prepared) -> tuple[OffsetArray, OffsetArray]:
    """The places of these pairs, and where each person's begin."""
    places, people = len(prepared.dataset.places), len(prepared.dataset.people)
    return pairs % places, np.searchsorted(pairs, np.arange(people + 1, dtype=np.int64) * places)


def _pools(places: Places, pool: int) -> tuple[IndexArray, IndexArray]:
    """The places among which a nearby negative is drawn, as data/prepare.py has them, and the row of each place."""
    location = np.asarray(places.location)
    known, row = np.flatnonzero(located(location)), np.full(len(places), -1, dtype=np.int32)
    row[known] = np.arange(len(known), dtype=np.int32)
    return nearest_places(location, known, pool=pool), row


@kernel
def _in_pools(
    known: tuple[OffsetArray, OffsetArray], hidden: tuple[OffsetArray, OffsetArray],
    person: IndexArray, place: IndexArray, near: IndexArray, row: IndexArray,
) -> tuple[OffsetArray, OffsetArray]:  # fmt: skip
    """For each training visit how many places of its pool were not visited in training, and in the test alone.

    -1 for a visit whose place has no coordinates."""
    free, hit = np.full(len(person), -1, np.int64), np.zeros(len(person), np.int64)
    mark = np.zeros(len(row), np.int64)  # 2 i + 1: visited by person i in training, 2 i + 2: in the test alone
    for r in range(len(person)):
        i, near_row = person[r], row[place[r]]
        if r == 0 or i != person[r - 1]:
            mark[known[0][known[1][i] : known[1][i + 1]]] = 2 * i + 1
            mark[hidden[0][hidden[1][i] : hidden[1][i + 1]]] = 2 * i + 2
        if near_row >= 0:
            free[r] = 0
            for j in near[near_row]:
                free[r] += mark[j] != 2 * i + 1
                hit[r] += mark[j] == 2 * i + 2
    return free, hit


# Dynamic features that saw test records: recomputed where the settings say how, weighed as evidence where not.


_NAME = "dynamic features that saw the test"


def counts_that_saw_the_test(setup: Setup, recounted: Popularity, *, elsewhere: Collection[str] = ()) -> Findings:
    """What is released of places, column by column, beside what the training records give.

    A simulation's noise follows from its seed, so the training records and the settings give every released number
    again; where they do, all is well, and where training and test together do, nothing is. Counts under other noise or
    from another source are weighed as evidence."""
    released = setup.popularity.released
    strange = [name for name, values in released.items() if not _same(recounted.released, name, values)]
    if not strange:
        return ()
    leaky = recount(replace(setup.prepared, train=both(setup.prepared)), setup.settings).released
    seen = [name for name in strange if _same(leaky, name, released[name])]
    if seen:
        words = (
            f"{len(seen)} of {len(released)} released columns are what training and test visits give together; count "
            "the training visits alone"
        )
        return (Finding(_NAME, "refused", words, len(seen)),)
    direct = [name for name in strange if name != NEARBY] or strange
    weighed = {name: weigh(released[name], setup.prepared, setup.settings) for name in direct}
    return tuple(one for name, found in weighed.items() for one in _judged(name, found, elsewhere=elsewhere))


def own_parts_that_saw_the_test(setup: Setup, recounted: Popularity) -> Findings:
    """What devices leave out of the counts: nothing can be theirs that they only added in the test, and of columns that
    are recomputed it must be what is recomputed."""
    _, hidden = _pairs(setup.prepared)
    own, released = setup.popularity.own, setup.popularity.released
    sure = [name for name in own if name in recounted.own and _same(recounted.released, name, released[name])]
    others = max((_differing(own[name], recounted.own[name]) for name in sure), default=0)
    strays = max((int(np.isin(one.pairs, hidden).sum()) for one in own.values()), default=0)
    words = (
        f"of the parts that devices leave out of released counts {strays:,} are of test visits and {others:,} are not "
        "what the training visits added, so that counts tell of the test; leave out what was added in training"
    )
    return _refused("own parts that saw the test", words, max(strays, others))


def _judged(name: str, found: Evidence | None, *, elsewhere: Collection[str]) -> Findings:
    column = f"the released column '{name}' is not what these settings make of the training visits"
    if found is not None and found.leaks:
        words = (
            f"{column}: a test visit moves it {found.share:.2f} times as much as a training visit does, and that is "
            f"{min(found.z, 100.0):.1f} standard errors or more from not at all; collect it from the training visits "
            "alone"
        )
        return (Finding(_NAME, "flagged" if name in elsewhere else "refused", words, found.share),)
    if found is not None and found.ruled_out:
        return ()
    words = (
        f"{column}, and nobody can tell whether test visits are in it: there are too few places or too much noise; "
        "collect it again from the training visits"
    )
    return (Finding(_NAME, "flagged", words, 0.0 if found is None else found.power),)


def recount(prepared: Prepared, settings: Settings) -> Popularity:
    """Popularity made again from the training records: the noise follows from the seed, so it has the same bits."""
    try:
        return release_popularity(prepared, settings)
    except PrirecError:  # a release from elsewhere may stand under settings that could not have made it
        return Popularity()


def _differing(one: OwnCounts, other: OwnCounts) -> int:
    """How many pairs of a person and a place have another part."""
    pairs = np.union1d(one.pairs, other.pairs)
    here, there = (np.zeros(len(pairs)) for _ in range(2))
    here[np.searchsorted(pairs, one.pairs)], there[np.searchsorted(pairs, other.pairs)] = one.counts, other.counts
    return int((~np.isclose(here, there, rtol=1e-9, atol=1e-9)).sum())


def _same(counts: Counts, name: str, values: RealArray) -> bool:
    again = counts.get(name)
    return again is not None and again.shape == values.shape and np.allclose(again, values, rtol=1e-9, atol=1e-9)


# Homes, features and tables of people that were computed from test visits.


_FEWEST = 20  # people whose table is judged
_ALIKE = 0.99  # correlation of ranks; how many friends somebody has goes nowhere near it
_DEGREES = 1e-6  # about 10 cm: what a table that was written and read again may be off


def homes_that_saw_the_test(setup: Setup) -> Findings:
    """Homes, person by person, against those that the training visits give: exact."""
    expected, found = homes(setup.prepared.dataset, setup.prepared.train), setup.samples.home
    if expected is None or found is None:
        return ()
    row = {one: at for at, one in enumerate(setup.prepared.dataset.people.ids)}
    other = int(_differ(found, expected[[row[one] for one in setup.samples.ids]]).sum())
    words = (
        f"the homes of {other:,} of {len(found):,} people are not those of their training visits, so distances may "
        "know the test visits; compute homes from the training visits alone"
    )
    return _refused("homes that saw the test", words, other)


def features_of_the_test(setup: Setup) -> Findings:
    """All features against those that tables, training visits and released counts give: exact."""
    prepared, samples = setup.prepared, setup.samples
    if homes_that_saw_the_test(setup):
        return ()  # reported already; distances and the order of people follow from homes
    again = assemble(
        prepared.dataset, train=prepared.train, test=prepared.test, encoding=setup.encoding,
        popularity=setup.popularity, alike=setup.settings.neighbours.alike,
        earlier=only_earlier(setup.settings.data),
    )  # fmt: skip
    other = [name for name, same in _compared(samples, again).items() if not same]
    words = (
        f"{len(other)} kinds of features ({', '.join(other)}) are not what the tables, the training visits and the "
        "released counts give; assemble them from these alone"
    )
    return _refused("features from elsewhere", words, len(other))


def tables_that_saw_the_test(prepared: Prepared) -> Findings:
    """Columns of the table of people that count or average visits, test visits among them, and locations in the middle
    of such visits. Ranks are compared, so that a logarithm hides nothing."""
    seen = [
        name
        for name, column in prepared.dataset.people.columns.items()
        if isinstance(column, Numbers) and _follows_the_test(column.values, prepared)
    ]
    seen += ["lat, lon"] if _located_by_the_test(prepared) else []
    words = (
        f"{len(seen)} columns of the table of people ({', '.join(seen)}) follow from their visits, with those of the "
        "test among them; leave them out, or compute them from training visits"
    )
    return _refused("tables that saw the test", words, len(seen))


def _follows_the_test(values: RealArray, prepared: Prepared) -> bool:
    learnt, seen = _habits(prepared.train, prepared), _habits(both(prepared), prepared)
    return any(
        _ranks_alike(values, whole) >= max(_ALIKE, _ranks_alike(values, part) + 1e-9)
        for part, whole in zip(learnt, seen, strict=True)
    )


def _habits(visits: Visits, prepared: Prepared) -> list[RealArray]:
    """Statistics that a table may have of a person's visits: number, share among records, distinct places, means."""
    people, places = len(prepared.dataset.people), len(prepared.dataset.places)
    positive = visits.take(visits.label > 0)
    many = np.bincount(positive.person, minlength=people).astype(np.float64)
    distinct = np.bincount(distinct_pairs(positive, places=places) // places, minlength=people).astype(np.float64)
    numbers = [column.values for column in positive.context.values() if isinstance(column, Numbers)]
    known = [~np.isnan(values) for values in numbers]
    with np.errstate(invalid="ignore"):  # nothing known of somebody is nan
        means = [
            np.bincount(positive.person[k], v[k], people) / np.bincount(positive.person[k], minlength=people)
            for v, k in zip(numbers, known, strict=True)
        ]
        share = many / np.bincount(visits.person, minlength=people)
    return [many, share, distinct, *means]


def _ranks_alike(one: RealArray, other: RealArray) -> float:
    """|Spearman's correlation| over people for whom both are known; 0 where they are few or all alike."""
    known = np.isfinite(one) & np.isfinite(other)
    if known.sum() < _FEWEST:
        return 0.0
    first, second = _ranks(one[known]), _ranks(other[known])
    return abs(float(np.corrcoef(first, second)[0, 1])) if first.std() > 0 and second.std() > 0 else 0.0


def _ranks(values: RealArray) -> RealArray:
    """From 1 on; those that are equal share the mean of their ranks. By hand: scipy.stats takes 0.7 s to import."""
    _, inverse, many = np.unique(values, return_inverse=True, return_counts=True)
    shared: RealArray = (np.cumsum(many) - (many - 1) / 2)[inverse]
    return shared


def _located_by_the_test(prepared: Prepared) -> bool:
    """Whether the table puts people in the middle of all their visits, where that is not the middle of those learnt.

    At least 20 people and half of those for whom the two differ: few live to the decimetre where they go on average."""
    dataset = prepared.dataset
    if dataset.people.location is None or dataset.places.location is None:
        return False
    learnt, seen = (_middles(v, dataset) for v in (prepared.train, both(prepared)))
    return any(_mostly_there(dataset.people.location, part, whole) for part, whole in zip(learnt, seen, strict=True))


def _mostly_there(location: RealArray, learnt: RealArray, seen: RealArray) -> bool:
    judged = _differ(learnt, seen) & ~np.isnan(location).any(axis=1)  # where the two middles coincide, nobody can tell
    there = judged & ~_differ(location, seen)
    return bool(there.sum() >= _FEWEST and 2 * there.sum() > judged.sum())


def _middles(visits: Visits, dataset: Dataset) -> list[RealArray]:
    """(I, 2) each: median and mean location of everyone's visits."""
    median = homes(replace(dataset, people=replace(dataset.people, location=None)), visits)
    positive = visits.take(visits.label > 0)
    where = np.asarray(dataset.places.location)[positive.place]
    known = ~np.isnan(where).any(axis=1)
    person, people = positive.person[known], len(dataset.people)
    with np.errstate(invalid="ignore"):  # whoever has no visit is nowhere
        many = np.bincount(person, minlength=people)
        mean = np.column_stack([np.bincount(person, where[known, axis], people) / many for axis in (0, 1)])
    return [np.asarray(median), mean]


def _differ(one: RealArray, other: RealArray) -> BoolArray:
    """(n,): which rows of (n, 2) are elsewhere, or known in one only."""
    return np.asarray(~np.isclose(one, other, rtol=0.0, atol=_DEGREES, equal_nan=True).all(axis=1))


def _compared(samples: Samples, again: Samples) -> dict[str, bool]:
    """Whether each kind of feature is the same, to the bit."""
    sides = [("training", samples.train, again.train), ("test", samples.test, again.test)]
    return {
        "people": samples.ids == again.ids and np.array_equal(samples.people, again.people),
        "places": np.array_equal(samples.places, again.places),
        "areas": _same_areas(samples.area, again.area),
        "popularity": np.array_equal(samples.popularity, again.popularity),
        **{f"{name} records": _same_records(mine, other) for name, mine, other in sides},
        **{f"{name} moments": np.array_equal(mine.context, other.context) for name, mine, other in sides},
    }


def _same_areas(one: RealArray | None, other: RealArray | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other, equal_nan=True)


def _same_records(one: Records, other: Records) -> bool:
    pairs = ((one.person, other.person), (one.place, other.place), (one.label, other.label))
    return all(np.array_equal(mine, theirs) for mine, theirs in pairs)


# Rows of several tables under common numbers: equal rows have one number, whichever table they are in


def numbered(*tables: OffsetArray) -> list[OffsetArray]:
    """A number for each row of each (n, k) table, from 0 up."""
    rows = np.concatenate(tables)
    order = np.lexsort(rows.T)
    new = np.append(False, (rows[order[1:]] != rows[order[:-1]]).any(axis=1))[: len(order)]
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = np.cumsum(new)
    return np.split(numbers, np.cumsum([len(table) for table in tables])[:-1])


def counted(*tables: OffsetArray) -> list[OffsetArray]:
    """How often each different row is in each table."""
    numbers = numbered(*tables)
    groups = 1 + max((int(one.max()) for one in numbers if len(one)), default=-1)
    return [np.bincount(one, minlength=groups) for one in numbers]


def among(table: OffsetArray, other: OffsetArray) -> BoolArray:
    """Which rows of a table are rows of another one."""
    mine, theirs = numbered(table, other)
    there = np.zeros(1 + max(int(mine.max(initial=-1)), int(theirs.max(initial=-1))), dtype=np.bool_)
    there[theirs] = True
    found: BoolArray = there[mine]
    return found


def rows_of(visits: Visits) -> OffsetArray:
    """Who, where, whether and, where it is known, when: (R, 3) or (R, 4)."""
    parts = [column.astype(np.int64) for column in (visits.person, visits.place, visits.label)]
    return np.column_stack([*parts, *([] if visits.time is None else [visits.time])])


def moments_of(visits: Visits) -> OffsetArray:
    """What describes the moment, (R, k): its time and its context as bits."""
    context = [_bits(column) for column in visits.context.values() if not isinstance(column, Tags)]
    time = np.zeros(len(visits), dtype=np.int64) if visits.time is None else visits.time
    return np.column_stack([time, *context])


def _bits(column: Numbers | Category) -> OffsetArray:
    return column.values.view(np.int64) if isinstance(column, Numbers) else column.codes.astype(np.int64)
