"""Devices and recommender die at any moment, messages come twice, late, cut or never: every opened sum is exact, no pad
is used twice, and no model is wrong. What is checked is in support/: witness, recomputed and doubles."""

import asyncio
from dataclasses import asdict
from pathlib import Path

import pytest

from prirec.protocols.party import Stage
from support.fault_injection import Chaos, few_people
from support.faults import STORM

LENGTH = 16  # rounds of a campaign


def stormy(folder: Path, patch: pytest.MonkeyPatch, *, people: int, rounds: int, seed: int) -> Chaos:
    """All that must hold is checked on the way, after each step of anybody."""
    chaos = Chaos(folder, few_people(iterations=LENGTH), people=people, seed=seed, patch=patch)
    asyncio.run(chaos.run(rounds=rounds))
    return chaos


def assert_both_ends_were_met(chaos: Chaos, *, rounds: int) -> None:
    """Or nothing was tested."""
    ends = chaos.ends()
    assert chaos.public.rounds >= rounds
    assert ends.keys() == {Stage.OPENED, Stage.BURNT}
    assert ends[Stage.OPENED] > 0.3 * ends.total()
    assert ends[Stage.BURNT] > 0.1 * ends.total()
    assert sum(body.lives > 1 for body in chaos.bodies) > 0.5 * len(chaos.bodies)
    assert chaos.luck.happened["server_dies"] > 1
    if rounds >= 40:
        assert asdict(STORM).keys() == chaos.luck.happened.keys()  # all that can happen did


@pytest.mark.parametrize(
    ("people", "rounds", "seed"),
    [pytest.param(9, 40, 1, id="a cohort"), pytest.param(16, 10, 2, id="two cohorts", marks=pytest.mark.long)],
)
def test_whatever_dies_sums_are_exact_and_models_right(people, rounds, seed, folder: Path, monkeypatch):
    chaos = stormy(folder, monkeypatch, people=people, rounds=rounds, seed=seed)
    assert_both_ends_were_met(chaos, rounds=rounds)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("people", "rounds", "seed"),
    [(9, 140, 3), (9, 140, 4), (9, 140, 5), (9, 140, 6), (9, 140, 7), (12, 100, 8), (12, 100, 9), (16, 100, 10)],
)
def test_over_a_thousand_rounds_as_well(people, rounds, seed, folder: Path, monkeypatch):
    chaos = stormy(folder, monkeypatch, people=people, rounds=rounds, seed=seed)
    assert_both_ends_were_met(chaos, rounds=rounds)
