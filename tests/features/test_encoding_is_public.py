"""The encoding is public, so it must not depend on anything private."""

from dataclasses import replace

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prirec.config import Features
from prirec.data.dataset import Category, Column, Dataset, Numbers, Tags
from prirec.features.encoding import plan_encoding
from prirec.features.popularity import plain_counts
from support.cities import small_city, with_moods
from support.hypothesis_settings import FEW

CITY = with_moods(small_city(people=60, places=15, records=240), np.random.default_rng(0))
COUNTS = plain_counts(CITY.visits, places=15, recent_days=30)
PLANNED = plan_encoding(CITY, COUNTS, Features())


def other_values(column: Column, rng: np.random.Generator) -> Column:
    """A column of the same kind with other values, other words, and gaps."""
    if isinstance(column, Numbers):
        values = rng.normal(size=len(column.values)) * 10.0 ** rng.integers(-3, 6)
        return Numbers(np.where(rng.random(len(values)) < 0.2, np.nan, values))
    words = tuple(f"word {n}" for n in range(int(rng.integers(1, 9))))
    codes = rng.integers(0 if isinstance(column, Tags) else -1, len(words), size=len(column.codes)).astype(np.int32)
    return Tags(column.offsets, codes, words) if isinstance(column, Tags) else Category(codes, words)


def with_other_people(city: Dataset, rng: np.random.Generator) -> Dataset:
    columns = {name: other_values(column, rng) for name, column in city.people.columns.items()}
    moved = rng.uniform(-60, 60, size=city.people.location.shape)
    return replace(city, people=replace(city.people, columns=columns, location=moved))


def with_other_visits(city: Dataset, rng: np.random.Generator) -> Dataset:
    rows = rng.integers(len(city.visits), size=int(rng.integers(1, 500)))
    visits = city.visits.take(rows)
    visits = replace(
        visits,
        place=rng.integers(len(city.places), size=len(rows)).astype(np.int32),
        label=rng.choice(np.array([-1, 1], dtype=np.int8), size=len(rows)),
        time=rng.integers(2**31, size=len(rows)),
        context={name: other_values(column, rng) for name, column in visits.context.items()},
    )
    return city.with_visits(visits)


@FEW
@given(st.integers(0, 2**32))
def test_private_columns_and_homes_leave_the_encoding_as_it_is(seed):
    assert plan_encoding(with_other_people(CITY, np.random.default_rng(seed)), COUNTS, Features()) == PLANNED


@FEW
@given(st.integers(0, 2**32))
def test_visits_and_their_context_leave_the_encoding_as_it_is(seed):
    assert plan_encoding(with_other_visits(CITY, np.random.default_rng(seed)), COUNTS, Features()) == PLANNED


@FEW
@given(st.integers(0, 2**32))
def test_popularity_changes_the_blocks_of_popularity_alone(seed):
    other = with_other_visits(CITY, np.random.default_rng(seed))
    planned = plan_encoding(other, plain_counts(other.visits, places=15, recent_days=30), Features())
    assert msgspec.structs.replace(planned, popularity=()) == msgspec.structs.replace(PLANNED, popularity=())


def test_the_property_would_notice_a_planner_that_looks():
    """Public columns do decide: the same change in the catalogue shows."""
    rng = np.random.default_rng(0)
    columns = {name: other_values(column, rng) for name, column in CITY.places.columns.items()}
    assert plan_encoding(replace(CITY, places=replace(CITY.places, columns=columns)), COUNTS, Features()) != PLANNED
