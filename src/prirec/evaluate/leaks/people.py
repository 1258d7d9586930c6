"""Homes, features and tables of people that were computed from test visits."""

from dataclasses import replace

import numpy as np

from prirec.data.dataset import Dataset, Numbers, Visits
from prirec.data.filters import distinct_pairs
from prirec.data.recipe import Prepared
from prirec.evaluate.experiment import Setup
from prirec.evaluate.leaks.evidence import both
from prirec.evaluate.leaks.findings import Finding, Findings
from prirec.features.home import homes
from prirec.features.samples import Records, Samples, assemble
from prirec.types import BoolArray, RealArray

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
    if not other:
        return ()
    words = (
        f"the homes of {other:,} of {len(found):,} people are not those of their training visits, so distances may "
        "know the test visits; compute homes from the training visits alone"
    )
    return (Finding("homes that saw the test", "refused", words, other),)


def features_of_the_test(setup: Setup) -> Findings:
    """All features against those that tables, training visits and released counts give: exact."""
    prepared, samples = setup.prepared, setup.samples
    if homes_that_saw_the_test(setup):
        return ()  # told already; distances and the order of people follow from homes
    again = assemble(
        prepared.dataset,
        train=prepared.train,
        test=prepared.test,
        encoding=setup.encoding,
        popularity=setup.popularity,
        alike=setup.settings.neighbours.alike,
    )
    other = [name for name, same in _compared(samples, again).items() if not same]
    if not other:
        return ()
    words = (
        f"{len(other)} kinds of features ({', '.join(other)}) are not what the tables, the training visits and the "
        "released counts give; assemble them from these alone"
    )
    return (Finding("features from elsewhere", "refused", words, len(other)),)


def tables_that_saw_the_test(prepared: Prepared) -> Findings:
    """Columns of the table of people that count or average their visits with the test among them, and locations that
    are the middle of them. Ranks are compared, so that a logarithm hides nothing."""
    seen = [
        name
        for name, column in prepared.dataset.people.columns.items()
        if isinstance(column, Numbers) and _follows_the_test(column.values, prepared)
    ]
    seen += ["lat, lon"] if _located_by_the_test(prepared) else []
    if not seen:
        return ()
    words = (
        f"{len(seen)} columns of the table of people ({', '.join(seen)}) follow from their visits, with those of the "
        "test among them; leave them out, or compute them from training visits"
    )
    return (Finding("tables that saw the test", "refused", words, len(seen)),)


def _follows_the_test(values: RealArray, prepared: Prepared) -> bool:
    learnt, seen = _habits(prepared.train, prepared), _habits(both(prepared), prepared)
    return any(
        _ranks_alike(values, whole) >= max(_ALIKE, _ranks_alike(values, part) + 1e-9)
        for part, whole in zip(learnt, seen, strict=True)
    )


def _habits(visits: Visits, prepared: Prepared) -> list[RealArray]:
    """What a table may say of a person's visits: how many, the share of them among all records, to how many places, and
    what they are like on average."""
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
    told = _differ(learnt, seen) & ~np.isnan(location).any(axis=1)
    there = told & ~_differ(location, seen)
    return bool(there.sum() >= _FEWEST and 2 * there.sum() > told.sum())


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
