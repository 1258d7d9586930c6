"""Devices that are online for one random minute of a window of ten, over HTTPS: all are in the sum. The clock is the
test's, and every line, proof and write is real."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np
import pytest

from prirec.device.windows import margin
from support.cities import SMALL_PRIVATE, change, small_city
from support.joint_deployment import JointTown, Online, joint_town, steps
from support.low_floors import low_floor

FLOOR, MINUTE, WINDOW = 10, 60.0, 600
SETTINGS = change(SMALL_PRIVATE, floor=FLOOR, sums={"operators": 2}, privacy={"epsilon_per_user": 30.0})


async def one_window(at: JointTown) -> None:
    names = list(at.town.people)
    async with AsyncExitStack() as lines:
        everyone = await Online(at, lines).agents(names)
        await steps(list(everyone.values()))  # they join, and go
    await at.conduct()
    at.begin(SETTINGS, seconds=WINDOW)
    await at.conduct()
    window = at.window
    latest = WINDOW - margin(window)  # from here on nobody begins
    comes = np.random.default_rng(1).uniform(0, latest, len(names))
    for row in np.argsort(comes).tolist():
        at.clock.now = window.opens + float(comes[row])
        async with AsyncExitStack() as lines:
            agents = await Online(at, lines).agents([names[row]])
            await steps(list(agents.values()), 2)
            assert at.clock.now <= window.opens + comes[row] + MINUTE
        if row % 50 == 0:
            await at.conduct()  # reports are decided on as they come
    await at.close_window()


@pytest.mark.parametrize("people", [30, pytest.param(500, marks=pytest.mark.soak)])
def test_whoever_is_online_for_one_minute_of_a_window_is_in_its_sum(
    people: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    low_floor(monkeypatch, FLOOR)
    city = small_city(people=people, places=20, records=6 * people)
    with joint_town(city, SETTINGS, folder, monkeypatch) as at:
        asyncio.run(one_window(at))
        (past,) = at.state().past
        assert (past.opened, past.survivors) == (True, people)
        of = next(one for one in at.drawn if one.kind == "popularity")
        added = np.sum([at.added[person.require_membership().name, of] for person in at.town.people.values()], axis=0)
        assert np.array_equal(at.opened(of), added.astype(np.uint64) + at.noise_in(of))
