"""Every limit is a UsageError that names the setting; floors and promises are a matter of policy."""

from typing import Any

import pytest

from prirec import config
from prirec.config import ROUNDS, check
from prirec.errors import PolicyError, UsageError
from prirec.protocols.terms import ring_codes
from support import messages
from support.cities import SMALL_PAPER, change, samples_of, small_city

INF, NAN = float("inf"), float("nan")
POSITIVE, NOT_NEGATIVE = [0.0, -1.0, INF, NAN], [-1e-9, INF, NAN]

BEYOND: dict[str, list[Any]] = {
    "iterations": [0, -1],
    "seed": [-1, 2**63],
    "data.at_least": [0, -1],
    "data.train_share": [0.0, 1.0, -0.1, 1.1, NAN],
    "data.ratio": [0, 1001],
    "data.thin": [0],
    "features.words": [-1, 65_537],
    "features.buckets": [0, 4097],
    "features.recent_days": [0, 36_501],
    "popularity.cap": [0, -1],
    "popularity.epsilon_per_bit": POSITIVE,
    "privacy.epsilon_per_user": [*POSITIVE, 50.1],
    "privacy.delta": [0.0, 1.0, -0.1, NAN],
    "privacy.period_days": [0, -1],
    "features.areas": [-1, 257],
    "model.dimension": [0, 257],
    "model.lambda_w": NOT_NEGATIVE,
    "model.lambda_v": NOT_NEGATIVE,
    "model.spread": POSITIVE,
    "linear.alpha": POSITIVE,
    "linear.kappa": POSITIVE,
    "linear.gamma": [-0.1, 1.1, NAN],
    "linear.clip": POSITIVE,
    "interaction.alpha": POSITIVE,
    "interaction.batch": [0],
    "interaction.clip": POSITIVE,
    "latent.dimension": [-1, 257],
    "latent.alpha": POSITIVE,
    "latent.lambda_u": NOT_NEGATIVE,
    "latent.lambda_p": NOT_NEGATIVE,
    "latent.pace": POSITIVE,
    "latent.spread": POSITIVE,
    "latent.weight": POSITIVE,
    "neighbours.count": [0, 2**31],
    "neighbours.size": [1, -1, 2**31],
    "floor": [0],
    "neighbours.scale_km": POSITIVE,
    "neighbours.resolution": [-1, 10],
    "participation.online": [0.0, -0.1, 1.1, NAN],
    "participation.dropout": [-0.1, 1.0, NAN],
    "sums.lost": [-0.1, 0.5, 0.1995, NAN],
    "sums.corrupt": [-0.1, 0.334, 0.0003, NAN],
    "sums.roster": [0, -0.1, 1.1, NAN],
    "ring.bits": [16, 48, 128],
    "ring.fraction_bits": [0, 41],
    "ring.bound": POSITIVE,
    "stopping.patience": [-1],
    "stopping.share": [0.0, 1.0, NAN],
}
WITHIN: dict[str, list[Any]] = {
    "iterations": [1, 10**6],
    "seed": [0, 2**63 - 1],
    "data.at_least": [1],
    "data.train_share": [0.01, 0.99],
    "features.areas": [0, 256],
    "features.words": [0],
    "popularity.cap": [1],
    "privacy.epsilon_per_user": [1e-3, 50.0],
    "privacy.delta": [1e-300, 0.999],
    "privacy.period_days": [1],
    "privacy.quality": [0.0, 1e6],
    "model.dimension": [1, 256],
    "model.lambda_w": [0.0],
    "model.lambda_v": [0.0],
    "linear.gamma": [0.0, 1.0],
    "latent.dimension": [0],
    "latent.lambda_u": [0.0],
    "latent.lambda_p": [0.0],
    "neighbours.size": [0, 100, 2**31 - 1],
    "neighbours.resolution": [0, 9],
    "participation.online": [1e-9, 1.0],
    "participation.dropout": [0.0, 0.999],
    "sums.lost": [0.0, 0.47],
    "sums.corrupt": [0.0, 0.333],
    "sums.roster": [1e-9, 1.0],
    "stopping.patience": [0],
    "floor": [50],
}
PARTS = ("privacy.popularity", "privacy.mixing", "privacy.interaction", "privacy.quality")


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BEYOND.items() for value in values])
def test_a_value_beyond_its_limit_is_refused_by_name(name, value):
    with pytest.raises(UsageError, match=messages.setting_out_of_range(name)):
        config.load(changes={name: value})


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WITHIN.items() for value in values])
def test_a_value_at_its_limit_is_accepted(name, value):
    config.load(changes={name: value})


@pytest.mark.parametrize("preset", ["private", "rounds"])
@pytest.mark.parametrize(
    "changes", [*({part: bad} for part in PARTS for bad in (*NOT_NEGATIVE, 1e7)), dict.fromkeys(PARTS, 0)]
)
def test_parts_that_no_budget_can_have_are_refused(preset, changes):
    with pytest.raises(UsageError, match=messages.PARTS_OF_THE_BUDGET_OUT_OF_RANGE):
        config.load(changes={"preset": preset, **changes})


def test_without_dynamic_features_the_part_of_popularity_is_no_part():
    without = {"features.dynamic": False, "privacy.mixing": 0.0, "privacy.interaction": 0.0}
    with pytest.raises(PolicyError, match=messages.PART_OF_THE_BUDGET_MISSING):
        config.load(changes=without)
    with pytest.raises(UsageError, match=messages.PARTS_OF_THE_BUDGET_OUT_OF_RANGE):
        config.load(changes={"features.dynamic": False, "privacy.popularity": -1.0})


def test_no_limit_is_left_untested():
    assert set(config.limits()) == set(BEYOND)
    numbers = {name for name, hint in config.type_hints().items() if "int" in str(hint) or "float" in str(hint)}
    assert numbers == {*BEYOND, *PARTS, "neighbours.among"}  # a number that has no limit of its own is within a rule


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("iterations", 2.5), ("iterations", "many"), ("iterations", True), ("model.dimension", None),
        ("schedule", "sometimes"), ("neighbours.kind", "closest"), ("neighbours.weights", "ones"),
        ("features.dynamic", 1), ("linear.alpha", "fast"), ("data.split", "random"), ("ring.bits", "64"),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_refused_by_name(name, value):
    with pytest.raises(UsageError, match=messages.any_of(messages.takes(name, ""), messages.of_option(name))):
        config.load(changes={name: value})


@pytest.mark.parametrize(
    "changes",
    [
        {"schedule": "samples"},
        {"neighbours.kind": "nearest"},
        {"neighbours.kind": "random"},
        {"preset": "paper", "neighbours.kind": "cohorts"},
        {"preset": "paper", "schedule": "rounds"},
    ],
)
def test_schedule_and_neighbours_must_match(changes):
    with pytest.raises(UsageError, match=messages.SCHEDULE_AND_NEIGHBOURS_DO_NOT_MATCH):
        config.load(changes=changes)


@pytest.mark.parametrize("name", ["paper", "fm"])
def test_only_rounds_survive_a_drop_out(name):
    with pytest.raises(UsageError, match=messages.DROPOUT_IN_THE_PAPERS_SCHEDULE):
        config.load(changes={"preset": name, "participation.dropout": 0.1})


@pytest.mark.parametrize("name", ["paper", "fm"])
def test_only_rounds_learn_latent_vectors(name):
    with pytest.raises(UsageError, match=messages.LATENT_VECTORS_OUTSIDE_ROUNDS):
        config.load(changes={"preset": name, "latent.dimension": 8})


def test_the_floor_is_hard():
    with pytest.raises(PolicyError, match=messages.floor_too_low(50)):
        config.load(changes={"floor": 49})


@pytest.mark.parametrize("floor", [50, 100, 200])
def test_cohorts_are_at_least_as_large_as_the_floor(floor):
    config.load(changes={"floor": floor, "neighbours.size": floor})
    with pytest.raises(PolicyError, match=messages.cohorts_below_the_floor(floor)):
        config.load(changes={"floor": floor, "neighbours.size": floor - 1})


def test_the_papers_schedule_opens_no_sum_to_the_recommender_that_a_floor_would_guard():
    config.load(changes={"preset": "paper", "floor": 1})


@pytest.mark.parametrize(
    "ring", [{"bits": 48}, {"fraction_bits": 0}, {"fraction_bits": 41}, {"bound": -1.0}, {"bound": NAN}, {"bits": 32}]
)
def test_a_ring_that_cannot_hold_its_sums_is_refused_before_anything_is_learnt(ring):
    samples = samples_of(small_city(people=20, records=60), SMALL_PAPER)
    with pytest.raises(UsageError):
        ring_codes(samples, change(SMALL_PAPER, ring=ring))


@pytest.mark.parametrize(
    "changes",
    [
        {"preset": "paper", "neighbours.kind": "random", "neighbours.weights": "metropolis"},
        {"preset": "paper", "neighbours.among": 5},
        {"preset": "paper", "linear.mixing": "adaptive"},
    ],
    ids=str,
)
def test_what_no_engine_could_honour_is_refused_with_the_settings(changes):
    """Found out only after the data were read, it costs the time that reading took; or it is never found out."""
    with pytest.raises(UsageError):
        config.load(changes=changes)


def test_checks_hold_for_settings_built_in_code():
    with pytest.raises(UsageError, match=messages.setting_out_of_range("iterations")):
        check(change(ROUNDS, iterations=0))
