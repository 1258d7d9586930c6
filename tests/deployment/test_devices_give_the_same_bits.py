"""A deployment of real devices and a real conductor comes to what engines/local simulates, bit for bit."""

import asyncio
from pathlib import Path

import pytest

from prirec.recommender.conductor import Conductor, Pace
from support.cities import SMALL_PRIVATE, change, same_bits, same_state, small_city
from support.deployment import Direct, agents_of, deployed, run_campaign
from support.low_floors import low_floor
from support.simulated_deployment import campaign_of, models_of, samples_of, simulated, state_of


@pytest.mark.parametrize(("people", "floor"), [(44, 20), pytest.param(110, 50, marks=pytest.mark.soak)])
def test_the_shared_model_and_every_own_model_are_those_of_the_simulation(people, floor, folder: Path, monkeypatch):
    low_floor(monkeypatch, floor)
    settings = change(SMALL_PRIVATE, iterations=3, floor=floor)
    deployment = deployed(small_city(people=people, places=people // 2, records=5 * people), settings, folder)
    agents = agents_of(deployment, lambda person: Direct(deployment.store, person.membership().name))
    conductor = Conductor(deployment.store, pace=Pace(1e9, 1e9), clock=lambda: 0.0)
    asyncio.run(run_campaign(deployment, [agent for agent, _ in agents.values()], conductor))

    campaign = campaign_of(deployment)
    samples = samples_of(deployment, campaign)
    drawn = {name: entropy for name, (_, entropy) in agents.items()}
    state, coefficients = simulated(samples, campaign, drawn, monkeypatch)
    assert same_state(state_of(deployment), state)
    assert same_bits(models_of(deployment, samples), coefficients)
    assert state.estimate.B.any()
    assert coefficients.std(axis=0).any()
