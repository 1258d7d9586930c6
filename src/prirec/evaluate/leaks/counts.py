"""Dynamic features that saw test records: recomputed where the settings say how, weighed as evidence where not."""

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from prirec.data.filters import distinct_pairs
from prirec.data.recipe import Prepared
from prirec.errors import PrirecError
from prirec.evaluate.counting import count
from prirec.evaluate.experiment import Setup
from prirec.evaluate.leaks.evidence import Evidence, both, weigh
from prirec.evaluate.leaks.findings import Finding, Findings
from prirec.features.popularity import Counts, OwnCounts, Popularity
from prirec.privacy.post_processing import NEARBY
from prirec.settings import Settings
from prirec.types import RealArray

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
    places, train, test = len(setup.prepared.dataset.places), setup.prepared.train, setup.prepared.test
    known, tested = (distinct_pairs(side.take(side.label > 0), places=places) for side in (train, test))
    hidden = np.setdiff1d(tested, known, assume_unique=True)
    own, released = setup.popularity.own, setup.popularity.released
    sure = [name for name in own if name in recounted.own and _same(recounted.released, name, released[name])]
    others = max((_differing(own[name], recounted.own[name]) for name in sure), default=0)
    strays = max((int(np.isin(one.pairs, hidden).sum()) for one in own.values()), default=0)
    if not strays and not others:
        return ()
    words = (
        f"of the parts that devices leave out of released counts {strays:,} are of test visits and {others:,} are not "
        "what the training visits added, so that counts tell of the test; leave out what was added in training"
    )
    return (Finding("own parts that saw the test", "refused", words, max(strays, others)),)


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
    """What the settings make of the training records: the same as in any other set-up of them, noise and all."""
    try:
        return count(prepared, settings)
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
