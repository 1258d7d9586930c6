"""Rounds over HTTPS come to what engines/local simulates, bit for bit."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from prirec.device.agent import RetryPolicy
from prirec.device.store import load_zeros
from prirec.device.sync import View
from prirec.recommender import campaign as rules
from prirec.recommender.conductor import Pace
from support.cities import SMALL_PRIVATE, change, same_bits, same_state, small_city
from support.deployment import Deployment, Entropy, deployed
from support.https_deployment import served, take_part
from support.low_floors import low_floor, low_floor_in_children
from support.simulated_deployment import campaign_of, models_of, samples_of, simulated, state_of


@pytest.mark.parametrize(("people", "floor"), [(20, 15), pytest.param(60, 50, marks=pytest.mark.soak)])
def test_rounds_over_https_give_the_bits_of_the_simulation(people: int, floor: int, folder: Path, monkeypatch):
    low_floor(monkeypatch, floor)
    settings = change(SMALL_PRIVATE, iterations=3, floor=floor)
    deployment = deployed(small_city(people=people, places=people // 2, records=5 * people), settings, folder)
    with served(deployment, folder, pace=Pace(900.0, 900.0)) as at:
        drawn = asyncio.run(take_part(deployment, at))
    check_bits(deployment, drawn, monkeypatch)


@pytest.mark.long  # four sums, with a process for each device in each
def test_processes_for_contributions_compute_the_bits_of_the_simulation(folder: Path, monkeypatch):
    """As on people's devices; the other tests compute in their own process (`RetryPolicy(work=None)`). All is as it
    comes but for the time: eight devices share this machine, and two seconds are for one."""
    low_floor(monkeypatch, 6)
    low_floor_in_children(monkeypatch, 6, folder)
    settings = change(SMALL_PRIVATE, iterations=2, floor=6)
    deployment = deployed(small_city(people=8, places=4, records=40), settings, folder)
    with served(deployment, folder, pace=Pace(900.0, 900.0)) as at:
        drawn = asyncio.run(take_part(deployment, at, retry=RetryPolicy(work=15.0)))
    for person in deployment.people.values():
        with person.store.reading() as rows:
            assert load_zeros(rows) == (0, "")
    check_bits(deployment, drawn, monkeypatch)


def check_bits(deployment: Deployment, drawn: Mapping[str, Entropy], monkeypatch: pytest.MonkeyPatch) -> None:
    """B and every device's own model are those of the simulation, with everyone in every sum."""
    progress = rules.decode_state(deployment.store.progress())
    assert [past.survivors for past in progress.past] == [len(deployment.people)] * (2 + deployment.settings.iterations)
    campaign = campaign_of(deployment)
    samples = samples_of(deployment, campaign)
    state, coefficients = simulated(samples, campaign, drawn, monkeypatch)
    assert same_state(state_of(deployment), state)
    assert same_bits(models_of(deployment, samples), coefficients)
    for person in deployment.people.values():
        model, of, known = View.of(person).publication
        assert same_bits(of.shared(model), state.estimate.B)
        assert len(known) > 0
