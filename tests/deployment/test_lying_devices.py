"""Enrolled devices that give out wrong shares, seal garbage or complain of good boxes: the campaign goes on, and B is
what the oracle comes to for those who were in the sums."""

import asyncio
from pathlib import Path

import pytest

from prirec.privacy.ledger import Budget
from prirec.protocols.secure_sum import Member
from prirec.recommender import campaign as rules
from prirec.recommender.conductor import Conductor, ConductorEvent, Pace
from prirec.recommender.operator import campaign_status, device_records, exclude_device
from support import messages, shell
from support.cities import SMALL_PRIVATE, change, same_state, small_city
from support.deployment import Deployment, Direct, agents_of, deployed, run_campaign
from support.https_deployment import served, take_part
from support.low_floors import low_floor
from support.lying_devices import (
    ComplainsOfAll,
    GivesWrongShares,
    SealsGarbage,
    SealsGarbageForOne,
    SharesNoSecret,
    let_lie,
    names_of,
)
from support.simulated_deployment import by_the_oracle, campaign_of, samples_of, state_of

PEOPLE, FLOOR = 20, 15


@pytest.fixture
def town(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Deployment:
    low_floor(monkeypatch, FLOOR)
    settings = change(SMALL_PRIVATE, iterations=2, floor=FLOOR)
    return deployed(small_city(people=PEOPLE, places=PEOPLE // 2, records=5 * PEOPLE), settings, folder)


def progress_of(town: Deployment) -> rules.CampaignState:
    return rules.decode_state(town.store.progress() or b"")


LIES = {
    "wrong shares of one": ({3: GivesWrongShares}, {3}, set()),
    "wrong shares of as many as may be silent": (dict.fromkeys(range(6), GivesWrongShares), set(range(6)), set()),
    "garbage for all": ({3: SealsGarbage}, set(), {3}),
    "garbage for all of several": (dict.fromkeys((3, 7, 11), SealsGarbage), set(), {3, 7, 11}),
    "garbage for one": ({3: SealsGarbageForOne}, set(), set()),
    "complaints of all": ({3: ComplainsOfAll}, set(), set()),
    # of twenty, one complaint about each may stand: who complains of all is left out for the second one about the sixth
    "all of it": ({0: GivesWrongShares, 3: SealsGarbage, 5: SealsGarbageForOne, 8: ComplainsOfAll}, {0}, {3, 8}),
}


# of each kind of lie one, and all together; the others are more of the same
BY_DEFAULT = {"wrong shares of as many as may be silent", "garbage for one", "all of it"}


@pytest.mark.parametrize(
    "lie", [pytest.param(lie, marks=[] if lie in BY_DEFAULT else pytest.mark.long) for lie in LIES]
)
def test_a_campaign_goes_on_and_comes_to_what_the_oracle_gives_for_the_survivors(
    lie: str, town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    liars, blamed, left_out = LIES[lie]
    names, events = list(town.people), list[ConductorEvent]()
    let_lie(monkeypatch, {bytes.fromhex(names[at]): kind for at, kind in liars.items()})
    agents = agents_of(town, lambda person: Direct(town.store, person.membership().name))
    conductor = Conductor(town.store, pace=Pace(1e9, 1e9), clock=lambda: 0.0, tell=events.append)
    asyncio.run(run_campaign(town, [agent for agent, _ in agents.values()], conductor))

    progress, campaign = progress_of(town), campaign_of(town)
    assert progress.phase == "over"
    assert [(past.opened, past.survivors) for past in progress.past] == [(True, PEOPLE - len(left_out))] * 4
    named = [(event.device, event.kind) for event in events if event.event == "blamed"]
    assert sorted(named) == sorted(
        (name.hex(), past.kind) for name in names_of(town.people, blamed) for past in progress.past
    )
    drawn = {name: entropy for name, (_, entropy) in agents.items()}
    samples, without = samples_of(town, campaign), {names[at] for at in left_out}
    expected = by_the_oracle(samples, campaign, drawn, monkeypatch, without=without)
    assert same_state(state_of(town), expected)


def test_shares_of_no_secret_close_every_sum_name_their_owner_and_wreck_nothing(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, (name,) = list[ConductorEvent](), names_of(town.people, {3})
    let_lie(monkeypatch, {name: SharesNoSecret})
    agents = agents_of(town, lambda person: Direct(town.store, person.membership().name))
    now = iter(range(10**9))
    conductor = Conductor(town.store, pace=Pace(50.0, 50.0), clock=lambda: float(next(now)), tell=events.append)
    asyncio.run(run_campaign(town, [agent for agent, _ in agents.values()], conductor))
    assert progress_of(town).phase == "failed"
    assert {event.device for event in events if event.event == "blamed"} == {name.hex()}
    assert not town.store.open_rounds()


def test_without_the_device_that_was_blamed_the_next_campaign_is_over_and_nobody_else_is_missing(
    town: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    (name,) = names_of(town.people, {3})
    let_lie(monkeypatch, {name: SharesNoSecret})
    agents = agents_of(town, lambda person: Direct(town.store, person.membership().name), budget=Budget(epsilon=50.0))
    now = iter(range(10**9))
    conductor = Conductor(town.store, pace=Pace(50.0, 50.0), clock=lambda: float(next(now)))
    asyncio.run(run_campaign(town, [agent for agent, _ in agents.values()], conductor))
    assert progress_of(town).phase == "failed"
    status = campaign_status(town.store)
    assert status is not None
    assert shell.says(status.state, messages.SHARES_OF_ANOTHER_KEY)

    (record,) = device_records(town.store)
    assert (record.name, record.campaign, record.excluded) == (name.hex(), 0, None)
    exclude_device(town.store, record.name, reason="shared another secret than it masked with", day=0)
    (record,) = device_records(town.store)
    assert record.excluded is not None
    honest = [agent for agent, _ in agents.values() if agent.person.membership().name != name]
    conductor = Conductor(town.store, pace=Pace(1e9, 1e9), clock=lambda: 0.0)
    asyncio.run(run_campaign(town, honest, conductor))
    assert progress_of(town).phase == "over", progress_of(town).past
    assert [(past.opened, past.survivors) for past in progress_of(town).past] == [(True, PEOPLE - 1)] * 4


def test_over_https_wrong_shares_and_garbage_cost_nobody_else_anything(
    town: Deployment, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = list(town.people)
    liars: dict[int, type[Member]] = {2: GivesWrongShares, 9: SealsGarbage}
    let_lie(monkeypatch, {bytes.fromhex(names[at]): kind for at, kind in liars.items()})
    with served(town, folder, pace=Pace(60.0, 60.0)) as at:
        drawn = asyncio.run(take_part(town, at))
    progress, campaign = progress_of(town), campaign_of(town)
    assert [(past.opened, past.survivors) for past in progress.past] == [(True, PEOPLE - 1)] * 4
    expected = by_the_oracle(samples_of(town, campaign), campaign, drawn, monkeypatch, without={names[9]})
    assert same_state(state_of(town), expected)
