"""What a conductor bears: a slow look at its inbox, an operator who publishes meanwhile, a store that is away, nobody
who comes. A small deployment of real devices, without injected faults unless a test says otherwise."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any

import numpy as np
import pytest

from prirec.config import Features
from prirec.device.agent import Agent
from prirec.features.encoding import plan_encoding
from prirec.features.popularity import Popularity
from prirec.privacy.ledger import Budget
from prirec.protocols.party import Stage, State
from prirec.recommender import campaign as rules
from prirec.recommender import conductor
from prirec.recommender import conductor as conducting
from prirec.recommender.conductor import ConductorEvent, Lease, Pace, conduct
from prirec.recommender.operator import begin_campaign, publish_catalogue
from prirec.recommender.release import CatalogueSource
from prirec.recommender.store import Store
from support import waiting as waited
from support.cities import change, small_city
from support.deployment import Direct, agents_of, deployed
from support.fault_injection import FEW, Body, FaultyDeployment, Plan, few_people, until
from support.faults import NO_FAULTS, FaultRates, FaultSource
from support.low_floors import low_floor
from support.processes import start
from support.waiting import PATIENCE

NOBODY = replace(NO_FAULTS, asleep=1.0)


@pytest.fixture
def town(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., FaultyDeployment]:
    rich = Plan(budget=lambda at: Budget(epsilon=200.0))
    return lambda rounds: FaultyDeployment(
        folder, few_people(iterations=rounds), people=9, seed=1, patch=monkeypatch, plan=rich
    )


def progress_of(chaos: FaultyDeployment) -> rules.CampaignState:
    return rules.decode_state(chaos.store.progress() or b"")


def states(chaos: FaultyDeployment) -> set[State]:
    held = chaos.conductor
    return set() if held is None or held.sum is None else {held.sum.collector.state}


async def begun(chaos: FaultyDeployment) -> None:
    await until(chaos, lambda: len(chaos.store.people()) == len(chaos.bodies))
    chaos.begin()


def attempts(chaos: FaultyDeployment) -> dict[tuple[str, int], tuple[int, Stage]]:
    return {(one.round.kind, one.round.number): (one.round.attempt, one.stage) for one in chaos.store.rounds(100)}


def test_messages_posted_in_time_are_processed_before_a_deadline_counts(town, monkeypatch):
    monkeypatch.setattr(conductor, "_BATCH", 2)
    chaos = town(1)

    async def late() -> None:
        await begun(chaos)
        await until(chaos, lambda: states(chaos) == {State.KEYS} and chaos.store.counts().messages == 9)
        chaos.now += 1000
        chaos.conductor.tick()
        assert chaos.conductor.sum.rostered == 9

    asyncio.run(late())


def test_a_step_has_its_time_from_when_the_messages_are_out(town):
    """However long it took to work them out."""
    chaos = town(1)

    async def slow() -> None:
        await begun(chaos)
        await until(chaos, lambda: states(chaos) == {State.KEYS} and chaos.store.counts().messages == 9)
        gathering = chaos.conductor.sum
        send_rosters = gathering.collector.send_rosters

        def slowly():
            chaos.now += 1000
            return send_rosters()

        gathering.collector.send_rosters = slowly
        chaos.conductor.tick()
        assert not chaos.conductor.tick()
        assert states(chaos) == {State.BOXES}

    asyncio.run(slow())


def test_an_operator_may_publish_at_any_moment_of_a_campaign(town, monkeypatch):
    chaos, advance, other = town(2), Store.advance, small_city(people=20, places=15, records=60)
    source = CatalogueSource(other.places, plan_encoding(other, Popularity(), Features()))

    def overtaken(self, **parts):
        if parts.get("persists"):
            with monkeypatch.context() as quiet:
                quiet.setattr(Store, "advance", advance)
                publish_catalogue(chaos.store, source)
        advance(self, **parts)

    monkeypatch.setattr(Store, "advance", overtaken)
    asyncio.run(chaos.run(rounds=2, rates=NO_FAULTS, turns=30))
    assert chaos.ends() == {Stage.OPENED: 4}
    assert [one.entry.subject for one in chaos.store.entries(0)].count("catalogue") == 5
    assert not any(chaos.ended)


def test_a_campaign_in_which_v_never_moved_publishes_nothing(town):
    chaos = town(2)

    async def deserted() -> None:
        await begun(chaos)
        await until(chaos, lambda: progress_of(chaos).phase == "learning")
        chaos.luck.rates = NOBODY
        await until(chaos, lambda: not chaos.under_way)

    asyncio.run(deserted())
    assert (progress_of(chaos).phase, progress_of(chaos).rounds) == ("failed", 0)
    assert chaos.store.last("publication") is None
    asyncio.run(chaos.run(rounds=2, rates=NO_FAULTS, turns=30))  # devices come to the next campaign
    assert progress_of(chaos).phase == "over"


BURNT = {(State.VECTORS, "interaction")}  # a round, not a sum before the rounds


@pytest.mark.parametrize(
    ("died", "kind"),
    [
        pytest.param(died, kind, marks=[] if kind == "popularity" or (died, kind) in BURNT else pytest.mark.long)
        for died in (State.KEYS, State.BOXES, State.RECEIPTS, State.VECTORS)
        for kind in ("popularity", "moments", "interaction")
    ],
)
def test_what_a_conductor_left_is_tried_again_unless_everybody_may_have_masked(kind, died, town):
    """The sums before the rounds are tried again even then, for those who have not: here there are none."""
    chaos = town(2)

    async def dies() -> None:
        await begun(chaos)
        phase = {"popularity": "visits", "moments": "moments", "interaction": "learning"}[kind]
        await until(chaos, lambda: progress_of(chaos).phase == phase and states(chaos) == {died})
        chaos.conductor = None
        await until(chaos, lambda: not chaos.under_way)

    asyncio.run(dies())
    expected = (1, Stage.OPENED)
    if died is State.VECTORS:
        expected = (0, Stage.BURNT)
    assert attempts(chaos)[kind, 0] == expected
    fails = kind != "interaction" and died is State.VECTORS
    assert progress_of(chaos).phase == ("failed" if fails else "over")


@pytest.mark.parametrize(("phase", "kind"), [("visits", "popularity"), ("moments", "moments")])
def test_a_failed_sum_before_the_rounds_is_tried_again_among_those_who_have_not_masked(
    phase, kind, folder, monkeypatch
):
    rich = Plan(budget=lambda at: Budget(epsilon=200.0))
    settings = change(few_people(iterations=1), sums={"roster": 0.25})  # six of fourteen are enough
    chaos = FaultyDeployment(folder, settings, people=16, seed=1, patch=monkeypatch, plan=rich)
    early, late = chaos.bodies[:8], chaos.bodies[8:]

    def asleep(bodies: list[Body], *, so: bool) -> None:
        for body in bodies:
            body.sleeps_until = 10**9 if so else 0

    async def fails_once() -> None:
        await begun(chaos)
        await until(chaos, lambda: progress_of(chaos).phase == phase)
        asleep(late, so=True)
        await until(chaos, lambda: states(chaos) == {State.VECTORS})
        asleep(early, so=True)  # they have masked, and nobody helps to open the sum
        await until(chaos, lambda: progress_of(chaos).attempt == 1)
        asleep(late, so=False)
        await until(chaos, lambda: progress_of(chaos).phase != phase)
        asleep(early, so=False)
        await until(chaos, lambda: not chaos.under_way)

    asyncio.run(fails_once())
    progress = progress_of(chaos)
    outcomes = [(past.opened, past.survivors) for past in progress.past if past.kind == phase]
    assert outcomes == [(False, 0), (True, 8)]
    assert progress.past[-1].survivors == 16
    assert (progress.phase, progress.masked) == ("over", ())
    for body in chaos.bodies:
        vectors = [one for one, *_ in chaos.witness.vectors_of(body.double.name)]
        assert sorted(set(vectors)) == ["interaction", "moments", "popularity"]
        with body.store.reading() as rows:
            assert rows.execute("SELECT count(*) FROM spending WHERE kind = ?", (kind,)).fetchone() == (1,)


CONDUCT = """
import pytest
from prirec.recommender.conductor import Conductor, Pace
from prirec.recommender.store import Store
from support.low_floors import low_floor

low_floor(pytest.MonkeyPatch(), int(sys.argv[2]))
store, now = Store.open(folder / "recommender"), folder / "now"
conductor = Conductor(store, pace=Pace(1.0, 1.0), clock=lambda: float(now.stat().st_size))
while True:
    conductor.tick()
    time.sleep(0.005)
"""


def test_after_kill_9_the_sum_of_visits_is_tried_again_with_those_who_were_not_asked_to_mask(folder, monkeypatch):
    """The next conductor knows who they are, though keys and collector died with the process."""
    low_floor(monkeypatch, FEW)
    settings = change(few_people(iterations=1), sums={"roster": 0.25})
    town = deployed(small_city(people=16, places=15, records=160), settings, folder)
    clients = agents_of(town, lambda person: Direct(town.store, person.membership().name), budget=Budget(epsilon=200.0))
    everyone = [agent for agent, _ in clients.values()]
    early = everyone[:8]
    (folder / "now").touch()

    async def step(agents: list[Agent]) -> None:
        for agent in agents:
            await agent.step(wait=0)

    def until_then(holds: Callable[[], bool], agents: list[Agent]) -> None:
        waited.until(lambda: asyncio.run(step(agents)) or holds())

    asyncio.run(step(everyone))
    begin_campaign(town.store, settings)
    process = start(CONDUCT, folder, FEW)
    try:
        until_then(lambda: town.store.counts().messages == len(early), early)
        (folder / "now").write_text("the time to come is over")
        until_then(lambda: any(one.masked for one in town.store.rounds(1)), early)
    finally:
        process.kill()  # SIGKILL
        process.communicate()
    heir = conductor.Conductor(town.store, pace=Pace(1e9, 1e9), clock=lambda: 0.0)
    heir.take_over()
    progress = rules.decode_state(town.store.progress() or b"")
    assert (progress.phase, progress.attempt) == ("visits", 1)
    assert set(progress.masked) == {agent.person.membership().name for agent in early}
    until_then(lambda: not heir.tick() and heir.sum is None, everyone)
    progress = rules.decode_state(town.store.progress() or b"")
    assert [(past.opened, past.survivors) for past in progress.past] == [(False, 0), (True, 8), (True, 16), (True, 16)]
    assert progress.past[0].problem


def test_a_repeated_sum_of_visits_takes_the_same_share_of_everyone_as_devices_ask_for(folder, monkeypatch):
    """Half of sixteen, not half of the eight who have not masked: with six of them a roster would be refused by all."""
    rich = Plan(budget=lambda at: Budget(epsilon=200.0))
    settings = change(few_people(iterations=1), sums={"roster": 0.5})
    chaos = FaultyDeployment(folder, settings, people=16, seed=1, patch=monkeypatch, plan=rich)
    early, late = chaos.bodies[:8], chaos.bodies[8:]

    async def six_come() -> None:
        await begun(chaos)
        for body in late:
            body.sleeps_until = 10**9
        await until(chaos, lambda: states(chaos) == {State.VECTORS})
        for body in early:
            body.sleeps_until = 10**9
        await until(chaos, lambda: progress_of(chaos).attempt == 1)
        for body in late[:6]:
            body.sleeps_until = 0
        await until(chaos, lambda: progress_of(chaos).attempt == 2)

    asyncio.run(six_come())
    assert [(past.opened, past.rostered) for past in progress_of(chaos).past] == [(0, 8), (0, 0)]


def test_a_failed_sum_of_visits_ends_the_campaign_at_once_where_too_few_have_not_masked(folder, monkeypatch):
    rich = Plan(budget=lambda at: Budget(epsilon=200.0))
    chaos = FaultyDeployment(folder, few_people(iterations=1), people=9, seed=1, patch=monkeypatch, plan=rich)

    async def fails() -> None:
        await begun(chaos)
        await until(chaos, lambda: states(chaos) == {State.VECTORS})
        chaos.luck.rates = NOBODY
        await until(chaos, lambda: not chaos.under_way)

    asyncio.run(fails())
    assert progress_of(chaos).phase == "failed"
    assert attempts(chaos)["popularity", 0] == (0, Stage.BURNT)


async def in_real_time(chaos: FaultyDeployment, came: Event) -> None:
    """Devices take part in what somebody else conducts, whose event is set whenever they have posted something."""
    limit = monotonic() + PATIENCE
    while chaos.under_way and monotonic() < limit:
        for body in chaos.bodies:
            await body.agent.step(wait=0)
        came.set()
        await asyncio.sleep(0.01)


@contextmanager
def conducted(chaos: FaultyDeployment, store: Store, *, pace: float, **given: Any) -> Iterator[Event]:
    """By a thread of its own, which is told with the event that it gets when something came."""
    asyncio.run(begun(chaos))
    chaos.store.release(chaos.conductor.holder)
    stop, came = Event(), Event()
    thread = Thread(target=conduct, args=(store, stop), kwargs={"came": came, "pace": Pace(pace, pace), **given})
    thread.start()
    try:
        yield came
    finally:
        stop.set()
        came.set()
        thread.join()


def test_a_store_that_is_away_now_and_then_costs_time_and_no_round(town, monkeypatch):
    monkeypatch.setattr(conducting, "IDLE", 0.01)
    monkeypatch.setattr(conducting, "LONGEST_PAUSE", 0.02)
    chaos, told, failed = town(2), list[ConductorEvent](), list[int]()
    chaos.mortal.luck = FaultSource(np.random.default_rng(7), FaultRates(server_full=0.15))
    with conducted(chaos, chaos.mortal, pace=900.0, tell=told.append, failed=partial(failed.append, 1)) as came:
        asyncio.run(in_real_time(chaos, came))
    chaos.public.follow()  # all models are what the sums come to
    assert set(attempts(chaos).values()) == {(0, Stage.OPENED)}
    assert chaos.ends() == {Stage.OPENED: 4}
    events = [one.event for one in told]
    assert events.count("waiting") == len(failed) > 3
    assert "lost" not in events
    assert chaos.store.lease(b"another", 15.0)  # it was given back


def test_messages_posted_to_this_process_are_processed_at_once(town, monkeypatch):
    monkeypatch.setattr(conducting, "IDLE", 1000.0)
    monkeypatch.setattr(conducting, "BUSY", 1000.0)
    chaos = town(2)
    with conducted(chaos, chaos.store, pace=900.0) as came:
        asyncio.run(in_real_time(chaos, came))
    assert chaos.ends() == {Stage.OPENED: 4}


def test_what_comes_while_a_store_is_away_does_not_hurry_the_next_attempt(town, monkeypatch):
    monkeypatch.setattr(conducting, "IDLE", 1000.0)  # the pause after the first failure
    chaos, failed = town(2), list[int]()
    monkeypatch.setattr(chaos.mortal, "luck", FaultSource(np.random.default_rng(7), FaultRates(server_full=1.0)))
    with conducted(chaos, chaos.mortal, pace=900.0, failed=partial(failed.append, 1)) as came:
        waited.until(lambda: failed)
        for _ in range(200):
            came.set()
            sleep(0.001)
    assert len(failed) == 1


class LongLeases(Store):
    """Counts how often a lease is asked for, and gives it for longer than a busy machine can take to renew it."""

    asked = 0

    def lease(self, holder: bytes, seconds: float) -> bool:
        self.asked += 1
        return super().lease(holder, 600.0)


def test_a_lease_is_renewed_while_a_long_sum_is_opened(folder):
    with LongLeases.open(folder / "store") as store, Lease(store, seconds=0.1) as mine:
        assert mine.held()
        waited.until(lambda: store.asked > 5)  # of which the holder has asked once, and its thread all other times
        assert not store.lease(b"another", 0.1)
        assert mine.held()


def test_a_lease_that_another_has_taken_is_not_held_any_more(folder):
    with LongLeases.open(folder / "store") as store, Lease(store, seconds=0.1) as mine:
        assert mine.held()

        def taken() -> bool:
            store.release(mine.holder)
            return store.lease(b"another", 0.1)

        waited.until(taken)  # at once, unless its thread renews it just in between
        waited.until(lambda: not mine.held())
        assert not mine.held()


def test_the_account_of_what_is_past_does_not_grow_for_ever():
    progress = rules.CampaignState(bytes(32), "learning")
    for at in range(rules.MOST_PAST + 5):
        progress = rules.with_outcome(progress, rules.PhaseOutcome("learning", at, 1, 1, 9, 9))
    assert [progress.past[0].iteration, progress.past[-1].iteration] == [5, rules.MOST_PAST + 4]
    assert len(progress.past) == rules.MOST_PAST


def test_an_account_that_has_not_changed_is_not_read_again(town, monkeypatch):
    chaos, read = town(1), list[bytes]()

    async def waiting() -> None:
        await begun(chaos)
        await until(chaos, lambda: states(chaos) == {State.KEYS})
        monkeypatch.setattr(rules, "decode_state", lambda body: read.append(body))
        for _ in range(5):
            chaos.conductor.tick()

    asyncio.run(waiting())
    assert not read
