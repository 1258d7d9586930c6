"""What fault injection has found, one by one: a conductor that dies at the worst of moments, messages that come too
late or too often. The campaign goes on, or ends; it does not stand still."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from prirec.device.sync import catch_up
from prirec.errors import Fault, PeerError, StateError
from prirec.protocols.codec import decode, encode
from prirec.protocols.messages import VERSION, AnyMessage, Masked, Participants, Round, Survivors
from prirec.protocols.party import Persist, Stage, State
from prirec.recommender import campaign as rules
from prirec.recommender.conductor import Conductor, OpenSum
from prirec.sharing.keys import SigningKey
from prirec.wire.documents import Model, read, written
from prirec.wire.http import MOST_QUEUED, QueuedMessage
from support import messages
from support.fault_injection import FaultyDeployment, Plan, few_people, until
from support.faults import NO_FAULTS, KilledError

ALL_ASLEEP = replace(NO_FAULTS, asleep=1.0)


class Mortal(Conductor):
    """Dies once, when it has written and before it ends a phase, if `dies` says so."""

    dies: Callable[[Conductor], bool] = staticmethod(lambda self: False)
    dead = False

    def _carry_out(self, under_way: OpenSum) -> None:
        super()._carry_out(under_way)
        if not type(self).dead and type(self).dies(self):
            type(self).dead = True
            raise KilledError


def dying(when: Callable[[Conductor], bool]) -> type[Mortal]:
    return type("Dying", (Mortal,), {"dies": staticmethod(when)})


def states(conductor: Conductor) -> set[State]:
    return set() if conductor.sum is None else {conductor.sum.collector.state}


@pytest.fixture
def town(folder: Path, monkeypatch) -> Callable[..., FaultyDeployment]:
    def made(plan: Plan | None = None, *, rounds: int = 3) -> FaultyDeployment:
        return FaultyDeployment(folder, few_people(iterations=rounds), people=9, seed=1, patch=monkeypatch, plan=plan)

    return made


def run(chaos: FaultyDeployment, *, rounds: int) -> None:
    asyncio.run(chaos.run(rounds=rounds, rates=NO_FAULTS, turns=30))


def progress_of(chaos: FaultyDeployment) -> rules.CampaignState:
    return rules.decode_state(chaos.store.progress())


# the recommender


def test_a_sum_of_visits_whose_survivors_were_settled_is_not_tried_again(town):
    """It may have been open to the conductor that died. So the campaign fails, and another one is begun."""
    chaos = town(Plan(conductor=dying(lambda one: State.AGREEMENTS in states(one))))
    run(chaos, rounds=3)
    assert chaos.plan.conductor.dead
    assert sorted(chaos.public.courses) == [0, 1]
    assert chaos.public.courses[0].campaign.edition is None
    assert chaos.ends() == {Stage.BURNT: 1, Stage.OPENED: 5}


def test_a_conductor_that_dies_when_a_round_is_burnt_does_not_stop_the_campaign(town):
    def dies(one: Conductor) -> bool:
        if progress_of(chaos).iteration == 1 and one.sum is not None:
            chaos.luck.rates = ALL_ASLEEP
        return states(one) == {State.BURNT}

    chaos = town(Plan(conductor=dying(dies)))
    plan = chaos.plan.conductor

    async def wakes_up() -> None:
        await turn()
        if plan.dead:
            chaos.luck.rates = NO_FAULTS
            plan.dies = staticmethod(lambda one: False)

    turn, chaos.turn = chaos.turn, wakes_up
    run(chaos, rounds=3)
    assert plan.dead
    assert chaos.ends() == {Stage.OPENED: 5}
    assert {one.round.attempt for one in chaos.store.rounds(100) if one.round.kind == "interaction"} == {0, 1}
    assert list(chaos.public.courses) == [0]


def test_a_sum_to_which_nobody_came_is_tried_again_and_one_that_was_masked_for_is_not(town):
    chaos = town(rounds=3)
    calls = iter(range(10**6))

    async def turn_in_turns() -> None:
        """Nobody is there for the first six turns of round 0; in round 1 they go away once they have masked."""
        progress = progress_of(chaos) if chaos.under_way else None
        away = progress is not None and (progress.phase, progress.iteration) == ("learning", 0) and next(calls) < 6
        masked = (
            progress is not None
            and progress.iteration == 1
            and any(one.round.kind == "interaction" and one.round.number == 1 for one in masked_now(chaos))
        )
        chaos.luck.rates = ALL_ASLEEP if away or masked else NO_FAULTS
        await turn()

    turn, chaos.turn = chaos.turn, turn_in_turns
    run(chaos, rounds=3)
    found = {(one.round.kind, one.round.number): (one.round.attempt, one.stage) for one in chaos.store.rounds(100)}
    assert found == {
        ("popularity", 0): (0, Stage.OPENED),
        ("moments", 0): (0, Stage.OPENED),
        ("interaction", 0): (1, Stage.OPENED),
        ("interaction", 1): (0, Stage.BURNT),
        ("interaction", 2): (0, Stage.OPENED),
    }


def masked_now(chaos: FaultyDeployment) -> Iterator[AnyMessage]:
    for body in chaos.bodies:
        if body.store is not None:
            yield from (decode(payload) for payload in body.store.pending())


def test_a_conductor_that_has_the_lease_back_does_not_end_what_others_have_begun(town):
    chaos = town()

    async def lost_and_found() -> None:
        await until(chaos, lambda: len(chaos.store.people()) == len(chaos.bodies))
        chaos.begin()
        await until(
            chaos, lambda: chaos.under_way and progress_of(chaos).phase == "learning" and bool(chaos.conductor.sum)
        )
        suspended, chaos.luck.rates = chaos.conductor, ALL_ASLEEP
        chaos.conductor = None
        await until(chaos, lambda: progress_of(chaos).iteration == 1 and bool(chaos.conductor.sum))
        before = progress_of(chaos)
        assert chaos.store.lease(suspended.holder, 0.0)
        chaos.now += 100  # the time for all that it waits for is over
        with pytest.raises(StateError, match=messages.CAMPAIGN_MOVED_ON):
            suspended.tick()
        assert progress_of(chaos) == before

    asyncio.run(lost_and_found())


# devices


def test_messages_that_come_a_dozen_times_are_answered_once(town):
    chaos, handed_in = town(), list[bytes]()
    for body in chaos.bodies:
        body.line._carried = lambda queued, after: [one for one in queued for _ in range(12)][:MOST_QUEUED]
        body.line._tap = lambda name, message: handed_in.append(message) or chaos.witness.heard(name, message)
    run(chaos, rounds=3)
    assert chaos.ends() == {Stage.OPENED: 5}
    assert len(set(handed_in)) == len(handed_in) > 0


def test_much_is_handed_in_in_portions(town):
    chaos, portions = town(), list[int]()
    body = chaos.bodies[0]
    asyncio.run(until(chaos, lambda: body.agent is not None))
    mail = body.line.mail

    async def counting(messages, **rest):
        portions.append(len(messages))
        return await mail([], **rest)

    body.line.mail, agent = counting, chaos.born(body)
    asyncio.run(agent.follow())
    agent._outgoing = [b"a message %d" % number for number in range(20)]
    for _ in range(4):
        asyncio.run(agent.step(wait=0))
    assert portions == [8, 8, 4, 0]


@pytest.mark.parametrize("version", [VERSION, VERSION - 1], ids=["this version", "the last version"])
def test_vectors_of_other_deployments_or_versions_are_not_handed_in(version, town):
    """After an update a device starts with what the last version masked, and drops it when the log goes on."""
    chaos = town()
    body = chaos.bodies[0]
    asyncio.run(until(chaos, lambda: body.agent is not None))
    of = Round(bytes(16), "interaction", 3)
    vector = encode(Masked(version, of, bytes(32), bytes(32), b"sealed", bytes(64)))
    body.store.write(Persist(of, Stage.ENTERED, bytes(32)))
    body.store.write(Persist(of, Stage.MASKED, bytes(32), vector))
    assert body.store.pending() == [vector]
    again = chaos.born(body)
    assert again._outgoing == []
    again.rounds.forget_past(again.view)
    assert body.store.pending() == []


@pytest.mark.parametrize(
    ("kind", "ends_with"), [("popularity", "edition"), ("moments", "scales"), ("interaction", "publication")]
)
def test_what_comes_when_the_log_has_gone_on_is_neither_masked_nor_paid_for(kind, ends_with, town):
    chaos = town(rounds=1)
    body, late = chaos.bodies[3], list[QueuedMessage]()

    def carried(queued, after):
        held = [
            one for one in queued if isinstance(decode(one.body), Participants) and decode(one.body).round.kind == kind
        ]
        late.extend(held)
        return [one for one in queued if one not in held] + late * (ends_with in body.agent.view.latest)

    body.line._carried = carried
    run(chaos, rounds=1)
    assert late
    assert kind not in {one for one, *_ in chaos.witness.vectors_of(body.double.name)}
    with body.store.reading() as rows:
        assert (kind,) not in rows.execute("SELECT kind FROM spending").fetchall()


def test_what_is_over_is_kept_no_longer(town):
    """Vectors of which a device never heard again, and what it added to sums of visits of campaigns that no
    recommendation is made with."""
    chaos = town(rounds=3)
    for body in chaos.bodies[:2]:
        body.line._carried = lambda queued, after: [
            one for one in queued if not isinstance(decode(one.body), Survivors)
        ]
    run(chaos, rounds=6)
    assert len(chaos.public.courses) == 2
    campaigns = list[bytes]()
    for body in chaos.bodies:
        assert not body.store.pending()
        with body.store.reading() as rows:
            burnt = rows.execute("SELECT count(*) FROM rounds WHERE stage = ?", (Stage.BURNT,)).fetchone()[0]
            campaigns += [campaign for (campaign,) in rows.execute("SELECT DISTINCT campaign FROM given")]
        assert (burnt > 0) == (body in chaos.bodies[:2])
    assert set(campaigns) == {chaos.public.course.campaign.name}


def test_a_model_of_another_size_is_refused(town):
    chaos = town()

    async def refused() -> None:
        await until(chaos, lambda: len(chaos.store.people()) == len(chaos.bodies))
        chaos.begin()
        await until(chaos, lambda: "model" in chaos.bodies[0].agent.view.latest)
        founding, name = chaos.store.founding(), chaos.bodies[0].agent.view.latest["model"]
        short = msgspec.structs.replace(read(Model, chaos.store.document(name), name=name), shared=b"", iteration=1)
        document = written(short)
        entry = chaos.store.head().signed(
            "model", document[0], deployment=founding.deployment, identity=SigningKey(founding.identity)
        )
        chaos.store.advance(progress=None, entries=[entry], documents=[document])
        agent = chaos.bodies[0].agent
        with pytest.raises(PeerError) as refusal:
            await catch_up(agent.person, agent.client)
        assert refusal.value.fault is Fault.DECODE

    asyncio.run(refused())
