"""Rounds over HTTPS come to what engines/local simulates, bit for bit."""

import asyncio
from pathlib import Path

import pytest

from prirec.device.sync import View
from prirec.recommender import campaign as rules
from prirec.recommender.conductor import Pace
from support.cities import SMALL_PRIVATE, change, same_bits, small_city
from support.deployment import deployed
from support.https_deployment import served, take_part
from support.low_floors import low_floor
from support.simulated_deployment import campaign_of, models_of, samples_of, simulated


@pytest.mark.parametrize(("people", "floor"), [(20, 15), pytest.param(60, 50, marks=pytest.mark.soak)])
def test_rounds_over_https_give_the_bits_of_the_simulation(people: int, floor: int, folder: Path, monkeypatch):
    low_floor(monkeypatch, floor)
    settings = change(SMALL_PRIVATE, iterations=3, floor=floor, neighbours={"size": floor}, features={"areas": 4})
    deployment = deployed(small_city(people=people, places=people // 2, records=5 * people), settings, folder)
    with served(deployment, folder, pace=Pace(900.0, 900.0)) as at:
        drawn = asyncio.run(take_part(deployment, at))

    progress = rules.decode_state(deployment.store.progress())
    assert [past.survivors for past in progress.past] == [people] * 6
    campaign = campaign_of(deployment)
    samples = samples_of(deployment, campaign)
    state = simulated(samples, campaign, drawn, monkeypatch)
    assert same_bits(progress.V, state.interaction)
    assert same_bits(models_of(deployment, samples, campaign), state.linear)
    for person in deployment.people.values():
        publication, _, known = View.of(person).publication
        assert publication.interaction == progress.interaction
        assert len(known) > 0
