"""What a promised epsilon needs, and what needs one: refused as a matter of policy, before any data are read."""

import pytest

from prirec import config
from prirec.config import FM, PAPER, PRIVATE, ROUNDS, check, rules
from prirec.errors import PolicyError
from support import messages
from support.cities import change

BUDGET = {"epsilon_per_user": 1.0}
PARTS = {"popularity": 0.7, "moments": 0.05, "interaction": 0.25}
SECURE_SUM, RESPONSE = {"mechanism": "secure-sum"}, {"mechanism": "randomized-response"}
BROKEN = {
    "private without an epsilon": (
        change(PRIVATE, privacy={"epsilon_per_user": None}),
        messages.PRIVATE_WITHOUT_EPSILON,
    ),
    "nor any noise": (
        change(PRIVATE, privacy={"epsilon_per_user": None}, popularity={"mechanism": "plain"}),
        messages.PRIVATE_WITHOUT_EPSILON,
    ),
    "secure sums without an epsilon": (
        change(ROUNDS, popularity=SECURE_SUM),
        messages.mechanism_needs_a_budget("secure-sum"),
    ),
    "the paper's schedule with an epsilon": (
        change(PAPER, privacy=BUDGET, popularity=SECURE_SUM),
        messages.EPSILON_OUTSIDE_ROUNDS,
    ),
    "one place with an epsilon": (change(FM, privacy=BUDGET, popularity=SECURE_SUM), messages.EPSILON_OUTSIDE_ROUNDS),
    "plain counts with an epsilon": (
        change(PRIVATE, popularity={"mechanism": "plain"}),
        messages.mechanism_outside_the_budget("plain"),
    ),
    "rounds with an epsilon and plain counts": (
        change(ROUNDS, privacy=BUDGET),
        messages.mechanism_outside_the_budget("plain"),
    ),
    "answers with an epsilon": (
        change(PRIVATE, popularity=RESPONSE),
        messages.mechanism_outside_the_budget("randomized-response"),
    ),
    "early stopping with an epsilon": (
        change(PRIVATE, stopping={"patience": 3}),
        messages.EARLY_STOPPING_OUTSIDE_THE_BUDGET,
    ),
    "nothing for popularity": (
        change(PRIVATE, privacy=PARTS | {"popularity": 0.0}),
        messages.PART_OF_THE_BUDGET_MISSING,
    ),
    "nothing for moments": (change(PRIVATE, privacy=PARTS | {"moments": 0.0}), messages.PART_OF_THE_BUDGET_MISSING),
    "nothing for B": (change(PRIVATE, privacy=PARTS | {"interaction": 0.0}), messages.PART_OF_THE_BUDGET_MISSING),
    "no popularity, and nothing for moments": (
        change(PRIVATE, features={"dynamic": False}, privacy=PARTS | {"moments": 0.0}),
        messages.PART_OF_THE_BUDGET_MISSING,
    ),
    "sums over a few people": (change(ROUNDS, floor=49), messages.floor_too_low(50)),
}
KEPT = {
    "rounds with a budget": change(ROUNDS, privacy=BUDGET, popularity=SECURE_SUM),
    "parts by hand": change(PRIVATE, privacy=PARTS),
    "figures within the budget": change(PRIVATE, privacy={"quality": 0.1}),
    "no popularity, and no part for it": change(
        PRIVATE, features={"dynamic": False}, privacy=PARTS | {"popularity": 0.0}
    ),
    "no popularity, however it would be counted": change(
        ROUNDS, features={"dynamic": False}, privacy=BUDGET, popularity={"mechanism": "plain"}
    ),
    "answers that promise nothing to a person": change(ROUNDS, popularity=RESPONSE),
    "the same in the paper's schedule": change(PAPER, popularity=RESPONSE),
    "early stopping without a promise": change(ROUNDS, stopping={"patience": 3}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_promise_that_would_be_broken_is_refused(name):
    settings, words = BROKEN[name]
    with pytest.raises(PolicyError, match=words):
        check(settings)


@pytest.mark.parametrize("name", KEPT)
def test_what_breaks_no_promise_is_accepted(name):
    assert check(KEPT[name]) is KEPT[name]


def test_no_promise_is_left_untested():
    broken = [
        next(at for at, (holds, error, _) in enumerate(rules(settings)) if not holds and error is PolicyError)
        for settings, _ in BROKEN.values()
    ]
    assert set(broken) == {at for at, (_, error, _) in enumerate(rules(PRIVATE)) if error is PolicyError}


def test_a_promise_is_held_to_in_a_file_and_in_changes_too(tmp_path):
    (tmp_path / "s.toml").write_text('preset = "private"\n[popularity]\nmechanism = "plain"\n')
    for ask in (
        lambda: config.load(tmp_path / "s.toml"),
        lambda: config.load(changes={"popularity.mechanism": "plain"}),
        lambda: config.loads((tmp_path / "s.toml").read_text()),
    ):
        with pytest.raises(PolicyError, match=messages.mechanism_outside_the_budget("plain")):
            ask()


def test_a_preset_of_a_file_that_is_made_private_keeps_privates_promise(tmp_path):
    (tmp_path / "s.toml").write_text('preset = "rounds"\n[stopping]\npatience = 2\n')
    assert config.load(tmp_path / "s.toml").stopping.patience == 2
    with pytest.raises(PolicyError, match=messages.EARLY_STOPPING_OUTSIDE_THE_BUDGET):
        config.load(tmp_path / "s.toml", changes={"preset": "private"})
