"""Where settings leave it to the plan, cohorts are as large as its noise asks, and everything after sees a number."""

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec import config
from prirec.config import FM, PAPER, PRIVATE, ROUNDS, Settings
from prirec.engines.state import identity
from prirec.engines.train import make_engine, train
from prirec.errors import PolicyError
from prirec.privacy.plan import (
    LONGEST_NOISE,
    Kind,
    needed_cohort_size,
    noise_in_mean,
    participants,
    plan_for,
    with_cohort_size,
)
from prirec.simulate.compare import Contender, compare
from prirec.simulate.saved_runs import set_up_again, to_run
from prirec.simulate.setup import run, set_up
from support import messages
from support.cities import SMALL_PRIVATE, change, same_bits, small_city
from support.hypothesis_settings import FEW

YELP = 34  # features
MANY = 10**6


def mixing(settings: Settings, *, size: int, features: int):
    chosen = change(settings, neighbours={"size": size})
    return plan_for(chosen, people=MANY, pois=100, features=features).release(Kind.MIXING)


def noise_of(settings: Settings, *, size: int, features: int) -> float:
    """As a plan for cohorts of this very size tells it: the sd of an entry of the mean, in D + 1 entries."""
    return mixing(settings, size=size, features=features).sd_of_mean() * sqrt(features + 1) / settings.linear.clip


@FEW
@given(
    epsilon=st.floats(0.05, 10.0),
    features=st.integers(1, 300),
    lost=st.sampled_from([0.0, 0.1, 0.2, 0.4]),
    corrupt=st.sampled_from([0.0, 0.05, 0.1]),
    floor=st.sampled_from([50, 100, 400]),
    clip=st.sampled_from([0.3, 1.0, 3.0]),
)
def test_the_size_is_the_smallest_in_whose_mean_noise_is_a_third_of_the_longest_model(
    epsilon, features, lost, corrupt, floor, clip
):
    settings = change(
        PRIVATE,
        floor=floor,
        privacy={"epsilon_per_user": epsilon},
        sums={"lost": lost, "corrupt": corrupt},
        linear={"clip": clip},
    )
    size = needed_cohort_size(settings, features=features)
    assert size >= 2 * floor
    assert noise_of(settings, size=size, features=features) <= LONGEST_NOISE
    if size > 2 * floor:
        assert noise_of(settings, size=size - 1, features=features) > LONGEST_NOISE


def test_the_noise_is_that_of_a_cohort_from_which_nobody_is_lost():
    """By the accountant, who counts on the honest among the fewest survivors, there would be less of it."""
    size = needed_cohort_size(PRIVATE, features=YELP)
    release = mixing(PRIVATE, size=size, features=YELP)
    among = participants(PRIVATE, size)
    counted = release.noise_multiplier * sqrt(YELP + 1) / size
    real = counted * sqrt(size / (among.survivors - among.colluders))
    assert counted < 0.9 * LONGEST_NOISE
    assert noise_in_mean(release, among) == pytest.approx(real, rel=1e-3)


def test_at_epsilon_1_it_is_about_a_thousand_for_yelp_and_half_as_many_at_epsilon_2():
    one, two = (
        needed_cohort_size(change(PRIVATE, privacy={"epsilon_per_user": epsilon}), features=YELP)
        for epsilon in (1.0, 2.0)
    )
    assert 800 < one < 1100
    assert 0.45 < two / one < 0.55


def test_the_needed_size_depends_on_budget_and_features_and_not_on_neighbours_size():
    usual = needed_cohort_size(PRIVATE, features=YELP)
    assert needed_cohort_size(change(PRIVATE, neighbours={"size": 300}), features=YELP) == usual
    assert needed_cohort_size(PRIVATE, features=4 * YELP + 3) == pytest.approx(2 * usual, rel=0.01)
    assert needed_cohort_size(change(PRIVATE, privacy={"mixing": 0.3}), features=YELP) < usual
    assert needed_cohort_size(change(PRIVATE, iterations=40), features=YELP) > usual
    assert needed_cohort_size(change(PRIVATE, linear={"clip": 3.0}), features=YELP) == pytest.approx(usual, abs=1)


def test_a_budget_that_adds_hardly_any_noise_leaves_twice_the_floor():
    assert needed_cohort_size(change(PRIVATE, privacy={"epsilon_per_user": 50.0}), features=YELP) == 200


@pytest.mark.parametrize(("people", "size"), [(7135, 974), (974, 974), (973, 973), (150, 150)])
def test_no_cohort_is_asked_to_be_larger_than_the_city(people, size):
    assert with_cohort_size(PRIVATE, people=people, features=YELP) == change(PRIVATE, neighbours={"size": size})


@pytest.mark.parametrize(
    "settings",
    [change(PRIVATE, neighbours={"size": 300}), ROUNDS, PAPER, FM],
    ids=["explicit", "rounds", "paper", "fm"],
)
def test_a_size_that_settings_name_stays(settings):
    assert with_cohort_size(settings, people=MANY, features=YELP) is settings


@pytest.mark.parametrize("people", [200, 5000])
def test_the_plan_of_settings_that_leave_the_size_open_is_that_of_the_size(people):
    settled = with_cohort_size(PRIVATE, people=people, features=YELP)
    one, other = (plan_for(settings, people=people, pois=70, features=YELP) for settings in (PRIVATE, settled))
    assert one == other
    assert one.release(Kind.MIXING).of.crowd.size == settled.neighbours.size


def test_a_city_with_fewer_people_than_the_floor_has_no_plan():
    with pytest.raises(PolicyError, match=messages.too_few_devices(60, floor=100)):
        plan_for(PRIVATE, people=60, pois=70, features=YELP)


# What comes after sees a number

OPEN = change(SMALL_PRIVATE, neighbours={"size": 0}, privacy={"epsilon_per_user": 20.0})
CITY = small_city(people=700, records=2000)


@pytest.fixture(scope="module")
def outcome():
    return run(set_up(CITY, OPEN))


def test_a_set_up_knows_the_size(outcome):
    setup = outcome.setup
    asked = needed_cohort_size(OPEN, features=setup.samples.features)
    assert 100 <= asked < 350  # so that there are several
    assert setup.settings == change(OPEN, neighbours={"size": asked})
    assert len(outcome.trained.state.means) > 1


def test_a_run_is_saved_and_set_up_again_with_the_size_that_it_had(outcome):
    saved = to_run(outcome, "a small city")
    assert config.loads(config.dump(saved.settings)) == outcome.setup.settings
    assert set_up_again(CITY, saved).settings == outcome.setup.settings


def test_training_straight_from_open_settings_is_the_same_run(outcome):
    samples, settled = outcome.setup.samples, outcome.setup.settings
    again = train(samples, OPEN)
    assert same_bits(again.state.linear, outcome.trained.state.linear)
    assert identity(samples, settled) != identity(samples, OPEN)
    state, other = (make_engine("plain", samples, settings) for settings in (OPEN, settled))
    assert state.settings == other.settings == settled


def test_a_comparison_shows_the_size_that_each_model_had(outcome):
    (entry,) = compare(CITY, [Contender("open", "noisy sums", change(OPEN, iterations=1))])
    assert entry.contender.settings.neighbours.size == outcome.setup.settings.neighbours.size
