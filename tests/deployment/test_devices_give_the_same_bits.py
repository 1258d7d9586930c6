"""A deployment of real devices and a real conductor comes to what engines/local simulates, bit for bit."""

import asyncio
from pathlib import Path

import pytest

from prirec.recommender import campaign as rules
from prirec.recommender.conductor import Conductor, Pace
from support.cities import SMALL_PRIVATE, change, same_bits, small_city
from support.deployment import Direct, agents_of, deployed, run_campaign
from support.low_floors import low_floor
from support.simulated_deployment import campaign_of, models_of, samples_of, simulated


@pytest.mark.parametrize(("people", "floor"), [(44, 20), pytest.param(110, 50, marks=pytest.mark.soak)])
def test_v_and_every_linear_model_of_two_cohorts_are_those_of_the_simulation(people, floor, folder: Path, monkeypatch):
    low_floor(monkeypatch, floor)
    settings = change(SMALL_PRIVATE, iterations=2, floor=floor, neighbours={"size": floor})
    deployment = deployed(small_city(people=people, places=people // 2, records=5 * people), settings, folder)
    agents = agents_of(deployment, lambda person: Direct(deployment.store, person.membership().name))
    conductor = Conductor(deployment.store, pace=Pace(1e9, 1e9), clock=lambda: 0.0)
    asyncio.run(run_campaign(deployment, [agent for agent, _ in agents.values()], conductor))

    campaign = campaign_of(deployment)
    assert campaign.edition.cohorts == 2
    samples = samples_of(deployment, campaign)
    state = simulated(samples, campaign, {name: entropy for name, (_, entropy) in agents.items()}, monkeypatch)
    progress = rules.decode_state(deployment.store.progress())
    assert same_bits(progress.V, state.interaction)
    assert same_bits(progress.centres, state.means)
    assert same_bits(models_of(deployment, samples, campaign), state.linear)
    assert state.linear.any()
