"""What was shown together is learnt from, or tested on, together."""

from dataclasses import replace

import numpy as np
import pytest

from prirec.data.prepare import Recipe, SequentialDraws, by_moment, prepare
from prirec.errors import UsageError
from support import messages
from support.cities import small_city

CITY = small_city()


def moments(visits) -> set[tuple[int, int]]:
    return set(zip(visits.person.tolist(), visits.time.tolist(), strict=True))


@pytest.mark.parametrize("thin", [None, 2])
def test_no_list_is_cut_in_two(thin: int | None) -> None:
    done = prepare(CITY, Recipe(split="moment", thin=thin), np.random.default_rng(0))
    assert moments(done.train)
    assert not moments(done.train) & moments(done.test)


def test_a_split_by_record_cuts_lists() -> None:
    done = prepare(CITY, Recipe(split="record"), np.random.default_rng(0))
    assert moments(done.train) & moments(done.test)


def test_the_share_is_of_lists() -> None:
    lists, visits = len(moments(CITY.visits)), CITY.visits
    train = by_moment(visits, train_share=0.7, draws=SequentialDraws(np.random.default_rng(1)))
    assert len(moments(visits.take(train))) == round(0.7 * lists)
    assert train.shape == (len(visits),)


def test_the_same_seed_gives_the_same_lists_and_another_gives_others() -> None:
    one, again, other = (
        by_moment(CITY.visits, train_share=0.8, draws=SequentialDraws(np.random.default_rng(seed)))
        for seed in (0, 0, 1)
    )
    assert (one == again).all()
    assert (one != other).any()


def test_visits_without_labels_go_with_their_negatives() -> None:
    positive = CITY.visits.take(CITY.visits.label > 0)
    city = type(CITY)(CITY.name, CITY.people, CITY.places, positive, labelled=False)
    done = prepare(city, Recipe(split="moment", ratio=2), np.random.default_rng(0))
    for part in (done.train, done.test):
        assert np.count_nonzero(part.label < 0) == pytest.approx(2 * np.count_nonzero(part.label > 0), rel=0.02)


def test_without_times_there_are_no_moments() -> None:
    timeless = CITY.with_visits(replace(CITY.visits, time=None))
    with pytest.raises(UsageError, match=messages.SPLIT_BY_MOMENT_WITHOUT_TIMES):
        prepare(timeless, Recipe(split="moment"), np.random.default_rng(0))
