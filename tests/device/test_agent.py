"""A device that takes part by itself: what it puts up with, what it says to the person, and what it says to nobody."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pytest
from h3.api import basic_int as h3

from prirec.device import records
from prirec.device.agent import MOST_REFUSALS, Agent, AgentNews, RetryPolicy
from prirec.device.device import Device, status
from prirec.device.person import Person, Visit
from prirec.device.store import Membership
from prirec.device.sync import save_extra_region
from prirec.errors import DataError, Fault, PeerError, StateError
from prirec.features.encoding import Area
from prirec.protocols import roster
from prirec.protocols.codec import encode
from prirec.protocols.party import Send, Stage
from prirec.protocols.roster import Task
from prirec.protocols.secure_sum import ENTROPY, Collector, Member
from prirec.sharing.keys import SigningKey
from prirec.wire import http
from prirec.wire.campaign import Campaign
from prirec.wire.documents import Places, RegionLine, octets
from support import messages, shell
from support.dishonest_recommender import ENCODING, OTHERS, Dishonest, Target, Wire
from support.fault_injection import FEW
from support.low_floors import low_floor
from support.processes import finish, start
from support.waiting import PATIENCE


@pytest.fixture(autouse=True)
def floor(monkeypatch: pytest.MonkeyPatch) -> None:
    low_floor(monkeypatch, FEW)


async def until_masked(target: Target, task: Task) -> None:
    """The target has masked its vector, which has not been handed in yet."""
    others = {
        one.public: Member(
            task, identity=one, value=np.zeros(task.terms.length, np.uint64), entropy=one.public[:1] * ENTROPY
        )
        for one in OTHERS
    }
    collector = Collector(task, identity=target.line.recommender.identity, entropy=b"\3" * roster.COLLECTOR_ENTROPY)
    me = target.agent.view.member.name
    actions = collector.invite([me, *others])
    while not target.person.store.pending():
        said = []
        for message in (action.message for action in actions if isinstance(action, Send)):
            if message.receiver == me:
                target.line.send(encode(message))
                await target.agent.step(wait=0)
                if not target.person.store.pending():
                    before = len(target.line.said)
                    await target.agent.step(wait=0)
                    said += target.line.said[before:]
            else:
                answers = others[message.receiver].receive(message)
                said += [answer.message for answer in answers if isinstance(answer, Send)]
        actions = [action for one in said for action in collector.receive(one)] or collector.advance()


@pytest.mark.parametrize("leaving", [Person.leave, Person.forget])
def test_a_vector_that_was_masked_for_one_deployment_is_not_handed_to_the_next(tmp_path: Path, leaving) -> None:
    recommender = Dishonest()
    target = Target.of(recommender, tmp_path / "device", visits=("a",))
    asyncio.run(until_masked(target, Campaign.of(recommender.charter()).popularity()))
    paid, (vector,) = target.paid.ledger(), target.person.store.pending()
    assert vector[-40:] in (tmp_path / "device").read_bytes()
    leaving(target.person)
    assert target.person.store.pending() == []
    assert vector[-40:] not in (tmp_path / "device").read_bytes()
    elsewhere = Dishonest()
    elsewhere.identity = SigningKey(b"\x44" * 32)
    target.person.join(
        Membership(b"\x55" * 16, "https://elsewhere", elsewhere.identity.public, "a city", 0, b"\x66" * 32)
    )
    line = Wire(elsewhere)
    asyncio.run(Agent(target.person, target.paid, line, clock=lambda: 0.0).step(wait=0))
    assert line.said == []
    assert target.paid.ledger() == paid  # what was spent stays spent
    with target.person.store.reading() as rows:
        assert rows.execute("SELECT DISTINCT stage FROM rounds").fetchall() == [(Stage.BURNT,)]


def test_what_waits_to_be_handed_in_is_dropped_with_its_round(tmp_path: Path) -> None:
    recommender = Dishonest()
    target = Target.of(recommender, tmp_path / "device", visits=("a",))
    charter = recommender.charter()
    asyncio.run(until_masked(target, Campaign.of(charter).popularity()))
    assert target.agent._outgoing
    recommender.edition(charter)
    asyncio.run(target.agent.follow())
    assert target.agent._outgoing == []
    assert target.person.store.pending() == []


class Refusing(Wire):
    """Lets the device in from some request on."""

    first, asked = 0, 0

    async def mail(self, messages: Sequence[bytes], *, after: int, wait: int) -> http.Inbox:
        self.asked += 1
        if self.asked < self.first:
            raise PeerError(Fault.AUTH, "not you")
        return await super().mail(messages, after=after, wait=wait)


def run_until(agent: Agent, enough: Callable[[list[float]], bool] = lambda pauses: False) -> list[float]:
    """The pauses that it made until there were enough; without that it must end by itself."""
    pauses, stop = list[float](), asyncio.Event()

    async def noted(pause: float) -> None:
        pauses.append(pause)
        if enough(pauses):
            stop.set()
        await asyncio.sleep(0.001)

    async def go() -> None:
        async with asyncio.timeout(PATIENCE):
            await agent.run(stop)

    agent._sleep = noted
    asyncio.run(go())
    return pauses


def test_a_temporary_refusal_is_retried(tmp_path: Path) -> None:
    """Keys of sessions are changed worker by worker: in between, one does not know what the other gave."""
    target = Target.of(Dishonest(), tmp_path / "device")
    line = target.agent.client = Refusing(target.line.recommender)
    line.first = MOST_REFUSALS
    pauses = run_until(target.agent, lambda pauses: line.asked > MOST_REFUSALS)
    assert pauses[MOST_REFUSALS - 2] > 30 * pauses[0] / 2  # less and less often
    assert target.agent.problem is None


def test_a_permanent_refusal_ends_the_agent(tmp_path: Path) -> None:
    target = Target.of(Dishonest(), tmp_path / "device")
    line = target.agent.client = Refusing(target.line.recommender)
    line.first = 10**9
    with pytest.raises(PeerError, match=messages.Foreign.NOT_YOU):
        run_until(target.agent)
    assert line.asked == MOST_REFUSALS


def test_a_refused_enrolment_mentions_the_code(tmp_path: Path) -> None:
    class Closed(Wire):
        async def enrol(self, *, code: str = "") -> None:
            raise PeerError(Fault.AUTH, "no")

    target = Target.of(Dishonest(), tmp_path / "device")
    target.agent.client = Closed(target.line.recommender)
    with pytest.raises(PeerError, match=messages.CODE_NEEDED_TO_ENROL):
        run_until(target.agent)


def test_an_answer_without_news_that_comes_at_once_is_not_asked_for_again_at_once(tmp_path: Path) -> None:
    target = Target.of(Dishonest(), tmp_path / "device")
    target.agent.retry = RetryPolicy(first=1.0)
    pauses = run_until(target.agent, lambda pauses: len(pauses) == 5)
    assert all(0.5 <= pause <= 1.0 for pause in pauses)


def test_news_is_answered_without_a_pause(tmp_path: Path) -> None:
    recommender = Dishonest()
    target = Target.of(recommender, tmp_path / "device", visits=("a",))
    task = Campaign.of(recommender.charter()).popularity()
    slept = []

    async def go() -> None:
        stop = asyncio.Event()

        async def noted(pause: float) -> None:
            slept.append(len(target.line.said))
            stop.set()

        await target.agent.follow()
        target.agent._sleep = noted
        collector = Collector(task, identity=recommender.identity, entropy=b"\3" * roster.COLLECTOR_ENTROPY)
        for one in collector.invite([target.agent.view.member.name]):
            if isinstance(one, Send):
                target.line.send(encode(one.message))
        await target.agent.run(stop)

    asyncio.run(go())
    assert slept == [1]  # the keys were handed in by then


@pytest.mark.parametrize("asked", [False, True])
def test_everyone_waits_as_long_when_the_log_names_other_regions(tmp_path: Path, asked: bool) -> None:
    """Or who waits would be who has been elsewhere."""
    here, far = h3.latlng_to_cell(35.0, 139.0, 5), h3.latlng_to_cell(48.0, 2.0, 5)
    recommender, waits = Dishonest(), list[float]()
    target = Target.of(recommender, tmp_path / "device", visits=("a",), cell=here)
    if asked:
        with target.person.store.transaction() as rows:
            save_extra_region(rows, far)
    target.agent.retry = RetryPolicy(grace=7.0, work=None)

    async def noted(seconds: float) -> None:
        waits.append(seconds)

    target.agent._sleep = noted
    region = recommender.put(Places(far, ("d",), ("far",), octets(np.array([3]), np.int32), b"", b""))
    charter = recommender.charter(regions=[RegionLine(far, region)])
    asyncio.run(target.invited(Campaign.of(charter).popularity()))
    edition = recommender.edition(charter)
    asyncio.run(target.agent.step(wait=0))
    recommender.scales(charter, edition)
    asyncio.run(target.agent.step(wait=0))
    assert len(waits) == 2  # for the charter and for the edition
    assert all(0 < wait <= 7.0 for wait in waits)  # the rest of seven seconds


def test_status_says_why_a_persons_data_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recommender = Dishonest()
    target = Target.of(recommender, tmp_path / "device", profile={"age": "canary"}, visits=("a",))
    assert status(target.person).membership.unusable_because == ""  # there is nothing to learn yet
    recommender.rounds(features=np.ones((3, 1)))
    asyncio.run(target.agent.follow())
    assert status(target.person).membership.unusable_because == ""  # what is of no use is left out, and no more

    def broken(*_: object, **__: object) -> None:
        raise ArithmeticError("canary")

    with monkeypatch.context() as patch:
        patch.setattr(records, "encode_records", broken)
        told = status(target.person).membership.unusable_because
    assert "ArithmeticError" in told
    assert "canary" not in told
    assert "ArithmeticError" not in " ".join(AgentNews(target.agent).news())  # a log that others may read
    assert status(target.person).membership.unusable_because == ""


def test_what_was_stored_before_the_catalogue_came_is_checked_when_it_is_shown(tmp_path: Path) -> None:
    recommender = Dishonest()
    target = Target.of(recommender, tmp_path / "device", profile={"age": "canary", "nickname": "canary"})
    target.person.record_visits([Visit("a"), Visit("canary"), Visit("b", 1, 1, {"rain": 1.0}), Visit("c")])
    device = Device(target.person.store)
    assert not device.profile().unused
    recommender.rounds(features=np.ones((3, 1)))
    asyncio.run(target.agent.follow())
    unused = device.profile().unused
    assert unused.keys() == {"age", "nickname"}
    assert messages.NUMBER_EXPECTED in unused["age"]
    assert messages.NOT_A_FEATURE in unused["nickname"]
    told = device.status().membership
    assert told is not None
    assert (told.visits_elsewhere, told.visits_unfit) == (1, 1)
    assert messages.in_column("rain", messages.NOT_A_FEATURE) in told.unfit_because
    for words, parts in (
        (("profile",), ("age canary no: a number belongs here", "nickname canary no: is none of the features")),
        (("status",), ("1 at places that this device does not have", "1 described by what is not used", "rain")),
    ):
        shown = shell.flat(shell.call("device", *words, tmp_path / "device").stdout)
        assert not [part for part in parts if part not in shown]
    assert shell.told("device", "profile", tmp_path / "device")["unused"] == unused
    assert device.recommend() == ()  # all places were visited, and nothing is refused


def test_the_home_area_is_nothing_that_a_person_is_asked_for(tmp_path: Path) -> None:
    recommender = Dishonest()
    area = Area(column="home area", centres=((35.0, 139.0), (36.0, 140.0)))
    encoding = msgspec.structs.replace(ENCODING, person=(*ENCODING.person, area))
    target = Target.of(recommender, tmp_path / "device")
    recommender.rounds(encoding=encoding, features=np.ones((3, 1)))
    asyncio.run(target.agent.follow())
    device = Device(target.person.store)
    device.describe({"age": 30.0}, home=(35.5, 139.9))
    assert device.profile().features == ("age",)
    with pytest.raises(DataError, match=messages.in_column("home area", messages.NOT_A_FEATURE)):
        device.describe({"home area": 1.0})


SECOND = """
with Store.open(folder / "device") as store:
    try:
        with store.agent_lock():
            print("alone", flush=True)
            sys.stdin.read()
    except StateError as problem:
        print(problem)
"""


def test_one_agent_at_a_time_works_on_a_file(tmp_path: Path) -> None:
    with Device.open(tmp_path / "device") as device:
        with device.store.agent_lock():
            assert "another agent is at work" in finish(start(SECOND, tmp_path))[0]
            device.record_visit("a")  # whoever writes does not wait
        other = start(SECOND, tmp_path)
        assert other.stdout.readline() == "alone\n"
        with pytest.raises(StateError, match=messages.ANOTHER_AGENT_AT_WORK):
            device.take_part(seconds=0)
        other.kill()
        other.communicate()
        with device.store.agent_lock():
            pass
