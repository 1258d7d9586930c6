"""Every limit is a UsageError that names the setting; floors and promises are a matter of policy."""

from typing import Any

import pytest

from prirec import config
from prirec.config import ROUNDS, check
from prirec.errors import PolicyError, UsageError
from prirec.protocols.terms import paper_codes
from support import messages
from support.cities import SMALL_PAPER, change

INF, NAN = float("inf"), float("nan")
POSITIVE, NOT_NEGATIVE = [0.0, -1.0, INF, NAN], [-1e-9, INF, NAN]
PART = [*NOT_NEGATIVE, 1e7]

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
    "privacy.popularity": PART,
    "privacy.moments": PART,
    "privacy.interaction": PART,
    "privacy.quality": PART,
    "features.areas": [-1, 257],
    "model.dimension": [0, 257],
    "model.lambda_w": NOT_NEGATIVE,
    "model.lambda_v": NOT_NEGATIVE,
    "model.spread": POSITIVE,
    "linear.alpha": POSITIVE,
    "linear.gamma": [-0.1, 1.1, NAN],
    "interaction.alpha": POSITIVE,
    "interaction.batch": [0],
    "neighbours.count": [0, 2**31],
    "floor": [0],
    "neighbours.scale_km": POSITIVE,
    "participation.online": [0.0, -0.1, 1.1, NAN],
    "participation.dropout": [-0.1, 1.0, NAN],
    "sums.lost": [-0.1, 0.5, 0.1995, NAN],
    "sums.corrupt": [-0.1, 0.334, 0.0003, NAN],
    "sums.operators": [0, 3],
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
    "participation.online": [1e-9, 1.0],
    "participation.dropout": [0.0, 0.999],
    "sums.lost": [0.0, 0.47],
    "sums.corrupt": [0.0, 0.333],
    "sums.roster": [1e-9, 1.0],
    "stopping.patience": [0],
    "floor": [50],
}
PARTS = ("privacy.popularity", "privacy.moments", "privacy.interaction")  # all of them, or none


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BEYOND.items() for value in values])
def test_a_value_beyond_its_limit_is_refused_by_name(name, value):
    with pytest.raises(UsageError, match=messages.setting_out_of_range(name)):
        config.load(changes={**(dict.fromkeys(PARTS, 1.0) if name in PARTS else {}), name: value})


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WITHIN.items() for value in values])
def test_a_value_at_its_limit_is_accepted(name, value):
    config.load(changes={name: value})


@pytest.mark.parametrize("preset", ["private", "rounds", "paper"])
def test_the_parts_of_the_budget_are_given_all_together_or_not_at_all(preset):
    given = dict.fromkeys(PARTS, 0.5)
    config.load(changes={"preset": preset, **given})
    for left_out in PARTS:
        for some in ({left_out: 0.5}, {name: 0.5 for name in PARTS if name != left_out}):
            with pytest.raises(UsageError, match=messages.PARTS_OF_ONE_WHOLE):
                config.load(changes={"preset": preset, **some})


def test_without_dynamic_features_the_part_of_popularity_is_no_part():
    parts = dict.fromkeys(PARTS, 1.0)
    config.load(changes={**parts, "features.dynamic": False, "privacy.popularity": 0.0})
    with pytest.raises(PolicyError, match=messages.PART_OF_THE_BUDGET_MISSING):
        config.load(changes={**parts, "features.dynamic": False, "privacy.interaction": 0.0})


def test_no_limit_is_left_untested():
    assert set(config.limits()) == set(BEYOND)
    numbers = {name for name, hint in config.type_hints().items() if "int" in str(hint) or "float" in str(hint)}
    assert numbers == {*BEYOND, "neighbours.among"}  # a number that has no limit of its own is within a rule


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


@pytest.mark.parametrize("name", ["paper", "fm"])
def test_only_rounds_survive_a_drop_out(name):
    with pytest.raises(UsageError, match=messages.DROPOUT_IN_THE_PAPERS_SCHEDULE):
        config.load(changes={"preset": name, "participation.dropout": 0.1})


def test_the_floor_is_hard():
    with pytest.raises(PolicyError, match=messages.floor_too_low(50)):
        config.load(changes={"floor": 49})


def test_the_papers_schedule_opens_no_sum_to_the_recommender_that_a_floor_would_guard():
    config.load(changes={"preset": "paper", "floor": 1})


@pytest.mark.parametrize(
    "ring", [{"bits": 48}, {"fraction_bits": 0}, {"fraction_bits": 41}, {"bound": -1.0}, {"bound": NAN}, {"bits": 32}]
)
def test_a_ring_that_cannot_hold_its_sums_is_refused_before_anything_is_learnt(ring):
    with pytest.raises(UsageError):
        paper_codes(change(SMALL_PAPER, ring=ring))


@pytest.mark.parametrize(
    "changes",
    [
        {"preset": "paper", "neighbours.kind": "random", "neighbours.weights": "metropolis"},
        {"preset": "paper", "neighbours.among": 5},
        {"preset": "private", "sums.operators": 2, "ring.bits": 32},
        {"preset": "rounds", "sums.operators": 2},
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


def test_a_setting_that_came_later_leaves_what_was_hashed_before_as_it_was():
    assert "operators" not in config.dump(config.PRIVATE)
    two = change(config.PRIVATE, sums={"operators": 2})
    assert config.loads(config.dump(two)) == two
    assert config.loads(config.dump(config.PRIVATE)) == config.PRIVATE


@pytest.mark.parametrize("name", ["sums.lost", "sums.corrupt"])
def test_over_two_operators_nobody_reads_how_many_devices_may_be_lost_or_collude(name):
    settings = config.load(changes={"preset": "private", "sums.operators": 2})
    config.refuse_unused(settings)
    with pytest.raises(UsageError, match=messages.read_by_others_only(name, reader=config.READ_BY[name].name)):
        config.refuse_unused(config.load(changes={"preset": "private", "sums.operators": 2, name: 0.1}))


# Settings that a training would not read


UNREAD = {
    "rounds": {
        "order": "windows", "interaction.batch": 7, "linear.gamma": 0.5, "linear.alpha": 0.3, "interaction.alpha": 0.3,
        "model.dimension": 9, "model.lambda_w": 0.1, "model.lambda_v": 0.1, "model.spread": 0.3,
        "neighbours.kind": "fixed", "neighbours.count": 9, "neighbours.weights": "metropolis", "neighbours.among": 40,
        "neighbours.scale_km": 9.0, "ring.bound": 9.0, "sums.roster": 0.7, "stopping.share": 0.3,
        "privacy.delta": 1e-7, "privacy.period_days": 30, "privacy.quality": 0.1, "popularity.cap": 3,
        "popularity.epsilon_per_bit": 2.0, "popularity.reporters": "those-with-a-record",
    },
    "private": {"model.dimension": 9, "linear.alpha": 0.3, "ring.bound": 9.0, "popularity.epsilon_per_bit": 2.0},
    "paper": {"sums.lost": 0.1, "sums.corrupt": 0.1, "privacy.delta": 1e-7, "stopping.share": 0.3},
    "fm": {
        "order": "windows", "interaction.batch": 7, "linear.gamma": 0.5, "neighbours.kind": "fixed",
        "participation.online": 0.5, "ring.bits": 32, "ring.fraction_bits": 20, "sums.lost": 0.1,
    },
}  # fmt: skip
READ = {
    "rounds": {"participation.online": 0.5, "sums.lost": 0.1, "ring.bits": 32, "iterations": 5, "features.areas": 3},
    "private": {**dict.fromkeys(PARTS, 0.5), "privacy.delta": 1e-7, "popularity.cap": 3, "privacy.quality": 0.1},
    "paper": {"order": "windows", "linear.gamma": 0.5, "model.dimension": 9, "neighbours.among": 40, "ring.bound": 9.0},
    "fm": {"linear.alpha": 0.3, "model.dimension": 9, "model.lambda_w": 0.1},
}


@pytest.mark.parametrize(
    ("preset", "name", "value"),
    [(preset, name, value) for preset, some in UNREAD.items() for name, value in some.items()],
)
def test_a_setting_that_a_training_does_not_read_is_refused(preset, name, value):
    """Whoever changes one had something else in mind."""
    settings = config.load(changes={"preset": preset, name: value})
    with pytest.raises(UsageError, match=messages.read_by_others_only(name, reader=config.READ_BY[name].name)):
        config.refuse_unused(settings)


@pytest.mark.parametrize("preset", READ)
def test_settings_that_a_training_reads_are_accepted(preset):
    config.refuse_unused(config.preset(preset))
    for name, value in READ[preset].items():
        others = READ[preset] if name in PARTS else {name: value}
        config.refuse_unused(config.load(changes={"preset": preset, **others}))


def test_every_setting_with_a_reader_is_a_setting():
    assert set(config.READ_BY) <= set(config.type_hints())
