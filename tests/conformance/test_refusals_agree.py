"""What the oracle accepts every engine accepts, and what it refuses they refuse."""

import numpy as np
import pytest

from prirec.engines.train import make_engine
from prirec.errors import PolicyError, UsageError
from support import messages
from support.cities import SMALL_PAPER, SMALL_ROUNDS, change, same_state, samples_of, small_city, without_coordinates

CITY = small_city(people=40, places=10, records=200)
BOTH = pytest.mark.parametrize("engine", ["plain", "local"])


def advance(engine: str, settings, city=CITY, *, linear: np.ndarray | None = None):
    samples = samples_of(city, settings)
    motor = make_engine(engine, samples, settings)
    state = motor.start()
    if linear is not None:
        state.linear[:] = linear
    motor.advance(state)
    return state


@BOTH
def test_fewer_people_than_the_floor(engine):
    with pytest.raises(PolicyError, match=messages.too_few_in_moments(40, floor=50)):
        advance(engine, change(SMALL_ROUNDS, floor=50))


@BOTH
def test_a_city_that_too_many_leave_before_the_first_round(engine):
    with pytest.raises(PolicyError, match=messages.TOO_FEW_IN_MOMENTS):
        advance(engine, change(SMALL_ROUNDS, participation={"dropout": 0.9}))


@BOTH
def test_moments_of_somebody_who_has_a_feature_that_is_no_number(engine):
    samples = samples_of(CITY, SMALL_ROUNDS)
    samples.people[7, 0] = np.nan
    with pytest.raises(UsageError, match=messages.BEYOND_THE_BOUND):
        make_engine(engine, samples, SMALL_ROUNDS).start()


@BOTH
def test_nearest_neighbours_without_coordinates(engine):
    with pytest.raises(UsageError, match=messages.NEAREST_WITHOUT_COORDINATES):
        advance(engine, SMALL_PAPER, without_coordinates(CITY))


@BOTH
def test_weights_by_distance_without_coordinates(engine):
    settings = change(SMALL_PAPER, neighbours={"kind": "fixed", "weights": "gaussian"})
    with pytest.raises(UsageError, match=messages.WEIGHTS_WITHOUT_COORDINATES):
        advance(engine, settings, without_coordinates(CITY))


@BOTH
def test_weights_for_neighbours_that_are_drawn_anew(engine):
    with pytest.raises(UsageError, match=messages.WEIGHTS_FOR_NEIGHBOURS_DRAWN_ANEW):
        advance(engine, change(SMALL_PAPER, neighbours={"kind": "random", "weights": "metropolis"}))


@BOTH
@pytest.mark.parametrize("kind", ["random", "fixed", "nearest"])
def test_as_many_neighbours_as_people(engine, kind):
    with pytest.raises(UsageError, match=messages.number_of_neighbours(39, people=40)):
        advance(engine, change(SMALL_PAPER, neighbours={"kind": kind, "count": 40}))


@BOTH
def test_a_ring_in_which_everyones_sum_could_wrap(engine):
    with pytest.raises(UsageError, match=messages.SUM_COULD_WRAP):
        advance(engine, change(SMALL_ROUNDS, ring={"bits": 32, "fraction_bits": 26}))


@BOTH
def test_a_model_that_is_not_a_number(engine):
    with pytest.raises(UsageError, match=messages.BEYOND_THE_BOUND):
        advance(engine, SMALL_PAPER, linear=np.array(np.nan))


@BOTH
def test_a_model_outside_the_bound_that_somebody_would_sum(engine):
    with pytest.raises(UsageError, match=messages.beyond_the_bound(1000)):
        advance(engine, SMALL_PAPER, linear=np.array(2000.0))


def test_engines_agree_when_only_a_weighted_model_is_inside_the_bound():
    """S_if w_f is what is encoded, so a model above the bound may be summed if its weight brings it below."""
    settings = change(SMALL_PAPER, neighbours={"weights": "metropolis"}, linear={"alpha": 1e-9})
    outcomes = []
    for engine in ("plain", "local"):
        try:
            outcomes.append(advance(engine, settings, linear=np.array(1100.0)))
        except UsageError as refusal:
            outcomes.append(str(refusal))
    plain, local = outcomes
    assert plain == local if isinstance(plain, str) or isinstance(local, str) else same_state(plain, local)


def test_engines_have_names_and_need_threads():
    samples = samples_of(CITY, SMALL_ROUNDS)
    with pytest.raises(UsageError, match=messages.no_such_engine("fast")):
        make_engine("fast", samples, SMALL_ROUNDS)
    with pytest.raises(UsageError, match=messages.NO_THREADS):
        make_engine("local", samples, SMALL_ROUNDS, threads=0)
