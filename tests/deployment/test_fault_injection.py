"""Fault injection in a small deployment: every opened sum is exact, no pad is used twice, no model is wrong.

Each kind of fault (support/faults.py) is injected in the short suite: devices and the recommender are killed, disks are
full, another worker takes over, messages are lost, duplicated, cut, late or replayed, requests and answers do not
arrive, devices are asleep. Longer campaigns, more people: `make long` and `make soak`. Clocks that jump and disks that
stay full: test_clocks_and_full_disks.py. Damaged files: test_store_damaged_and_older_files.py and test_checkpoints.py.
What is checked on the way is in support/: observer, recomputed_campaign and reference_devices."""

import asyncio
from dataclasses import asdict
from pathlib import Path

import pytest

from prirec.protocols.party import Stage
from support.fault_injection import FaultyDeployment, few_people
from support.faults import ALL_FAULTS

LENGTH = 16  # rounds of a campaign


def with_faults(folder: Path, patch: pytest.MonkeyPatch, *, people: int, rounds: int, seed: int) -> FaultyDeployment:
    """All that must hold is checked on the way, after each step of anybody."""
    chaos = FaultyDeployment(folder, few_people(iterations=LENGTH), people=people, seed=seed, patch=patch)
    asyncio.run(chaos.run(rounds=rounds))
    return chaos


def assert_both_ends_were_met(chaos: FaultyDeployment, *, rounds: int) -> None:
    """Or nothing was tested."""
    ends = chaos.ends()
    assert chaos.public.rounds >= rounds
    assert ends.keys() == {Stage.OPENED, Stage.BURNT}
    assert ends[Stage.OPENED] > 0.3 * ends.total()
    assert ends[Stage.BURNT] > 0.1 * ends.total()
    assert sum(body.lives > 1 for body in chaos.bodies) > 0.5 * len(chaos.bodies)
    assert chaos.luck.happened["server_dies"] > 1
    if rounds >= 24:
        assert asdict(ALL_FAULTS).keys() == chaos.luck.happened.keys()  # each kind of fault has happened


@pytest.mark.parametrize(
    ("people", "rounds", "seed"),
    [
        pytest.param(9, 24, 4, id="nine people"),
        pytest.param(9, 40, 1, id="for longer", marks=pytest.mark.long),
        pytest.param(16, 10, 2, id="sixteen people", marks=pytest.mark.long),
    ],
)
def test_with_every_kind_of_fault_sums_are_exact_and_models_right(people, rounds, seed, folder: Path, monkeypatch):
    chaos = with_faults(folder, monkeypatch, people=people, rounds=rounds, seed=seed)
    assert_both_ends_were_met(chaos, rounds=rounds)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("people", "rounds", "seed"),
    [(9, 140, 3), (9, 140, 4), (9, 140, 5), (9, 140, 6), (9, 140, 7), (12, 100, 8), (12, 100, 9), (16, 100, 10)],
)
def test_over_a_thousand_rounds_as_well(people, rounds, seed, folder: Path, monkeypatch):
    chaos = with_faults(folder, monkeypatch, people=people, rounds=rounds, seed=seed)
    assert_both_ends_were_met(chaos, rounds=rounds)
