"""Unary encoding: one place speaks for all visits of a person, under one ε for each user."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, ks_2samp

from prirec.errors import UsageError
from prirec.features.popularity import OwnCounts
from prirec.privacy.accountant import Adjacency, Unit
from prirec_experiments.unary import NOTHING, UnaryEncoding, chances, draw_places
from support import messages
from support.exact_figures import fresh
from support.hypothesis_settings import FEW

PLACES = 10


def visits_of(*people: tuple[int, ...]) -> OwnCounts:
    pairs = np.array([at * PLACES + place for at, places in enumerate(people) for place in places], dtype=np.int64)
    return OwnCounts(PLACES, pairs, np.ones(len(pairs)))


@pytest.mark.statistical  # false alarm 1e-9; must notice a place that is drawn twice as often as another
@pytest.mark.parametrize("places", [(4, 7), (4, 7, 9)])
def test_each_visited_place_is_drawn_as_often_as_another(places: tuple[int, ...]) -> None:
    runs = 30_000
    visited = visits_of(*[places] * runs)
    for below in (fresh().below, np.random.default_rng().integers):
        drawn = draw_places(visited, people=runs, below=below)
        counts = [int((drawn == place).sum()) for place in places]
        assert sum(counts) == runs
        assert chisquare(counts).pvalue > 1e-9
        twice = np.array([2.0] + [1.0] * (len(places) - 1))
        assert chisquare(counts, runs * twice / twice.sum()).pvalue < 1e-9


def test_a_person_without_visits_draws_no_place_and_is_not_counted() -> None:
    visited = visits_of((), (0,), (), (0, 1, 2, 3), ())
    drawn = draw_places(visited, people=5, below=fresh().below)
    assert (drawn == NOTHING).tolist() == [True, False, True, False, True]
    assert chances(visited, people=5).total()[:5].tolist() == [1.25, 0.25, 0.25, 0.25, 0.0]


@pytest.mark.statistical  # false alarm 1e-9; must notice the own and the other probability exchanged
def test_simulated_ones_have_the_law_of_answers_added_up() -> None:
    mechanism, runs, rng = UnaryEncoding(1.0, 3), 2000, np.random.default_rng()
    drawn = np.array([0] * 30 + [1] * 10 + [NOTHING] * 10)
    at_0 = mechanism.answers(np.tile(drawn, runs), fresh())[:, 0].reshape(runs, -1).sum(axis=1)
    simulated = np.array([mechanism.simulate_ones(drawn, rng) for _ in range(runs)])
    assert ks_2samp(at_0, simulated[:, 0]).pvalue > 1e-9
    assert ks_2samp(at_0, simulated[:, 1]).pvalue < 1e-9


@FEW
@given(epsilon=st.floats(0.01, 6))
def test_answers_enumerated_keep_the_ratio(epsilon: float) -> None:
    mechanism = UnaryEncoding(epsilon, 3)
    p, q = mechanism.own, mechanism.other

    def law(item, bits):
        of_each = [p if j == item else q for j in range(3)]
        return np.prod([c if bit else 1 - c for c, bit in zip(of_each, bits, strict=True)])

    outputs = [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]
    drawn = (NOTHING, 0, 1, 2)
    worst = max(law(one, out) / law(other, out) for out in outputs for one in drawn for other in drawn)
    assert worst == mechanism.likelihood_ratio()


def test_the_loss_is_for_each_user_between_any_two_sets_of_visits() -> None:
    loss = UnaryEncoding(0.7, 9).loss_per_user()
    assert (loss.epsilon, loss.delta, loss.unit, loss.adjacency) == (0.7, 0, Unit.USER, Adjacency.REPLACE_ONE)


def test_a_city_of_koubeis_size_fits() -> None:
    drawn = np.random.default_rng(1).integers(-1, 118_598, 85_466)
    ones = UnaryEncoding(1.0, 118_598).simulate_ones(drawn, np.random.default_rng(2))
    assert ones.shape == (118_598,)


@pytest.mark.parametrize("item", [-2, 5])
def test_a_place_outside_the_catalogue_is_refused(item: int) -> None:
    with pytest.raises(UsageError, match=messages.PLACE_OUTSIDE_THE_CATALOGUE):
        UnaryEncoding(1.0, 5).answers(np.array([item]), fresh())
    with pytest.raises(UsageError, match=messages.PLACE_OUTSIDE_THE_CATALOGUE):
        UnaryEncoding(1.0, 5).simulate_ones(np.array([item]), np.random.default_rng(0))
