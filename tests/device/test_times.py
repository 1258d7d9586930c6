"""When a device sends something does not depend on the person's records: not on what they are, nor on how long it takes
to compute with them. Most tests have an event loop with a clock of its own, so they neither wait nor measure; the last
ones measure, with the process that a device really has for its contributions."""

import asyncio
import os
import selectors
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Coroutine, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from math import inf
from pathlib import Path
from signal import SIGKILL
from time import monotonic
from typing import Any

import msgspec
import numpy as np
import pytest

from prirec.device import rounds, worker
from prirec.device.agent import RetryPolicy
from prirec.device.person import Visit
from prirec.device.records import encode_records
from prirec.device.store import load_zeros
from prirec.device.sync import catch_up
from prirec.device.windows import Windows
from prirec.device.worker import Worker
from prirec.errors import PolicyError
from prirec.features.encoding import Encoding, Hashed, Log
from prirec.privacy.ledger import Budget
from prirec.protocols.codec import decode, encode
from prirec.protocols.messages import AnyMessage, Keys, Masked, Participants, Round
from prirec.protocols.party import Send
from prirec.protocols.roster import Task
from prirec.protocols.secure_sum import Collector
from prirec.sharing.keys import SigningKey
from prirec.wire import http
from prirec.wire.campaign import Campaign
from support import messages
from support.cities import SMALL_PRIVATE, change
from support.dishonest_operators import Dishonest2, target_of
from support.dishonest_recommender import TARGET, Dishonest, Target, Wire, quiet_member, whole_sum
from support.fault_injection import FEW
from support.low_floors import low_floor
from support.waiting import PATIENCE

SILENCE = 2.0  # RetryPolicy.work
STEPS = ["Keys", "Boxes", "Receipt", "Masked", "Agreement", "Reveal"]
MOMENTS = (0.0, 0.3, 0.89, 1.534, 1.7999, 1.81, 2.5, inf)  # seconds that a device computes; inf: for ever
VISITORS = ((), ("a",), ("a", "b", "c"))


@pytest.fixture(autouse=True)
def floor(monkeypatch: pytest.MonkeyPatch) -> None:
    low_floor(monkeypatch, FEW)


class Skipping(selectors.DefaultSelector):
    """Never waits: it says how long it would have."""

    skipped = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        found = super().select(0)
        if not found and timeout is not None and timeout > 0:
            self.skipped += timeout
        return found


class TimedLoop(asyncio.SelectorEventLoop):
    """Its clock goes on when everybody waits."""

    def __init__(self) -> None:
        self.selector = Skipping()
        super().__init__(self.selector)

    def time(self) -> float:
        return self.selector.skipped


@dataclass
class TimedWire(Wire):
    """Notes when each request comes, and with which messages."""

    requests: list[tuple[float, list[str]]] = field(default_factory=list)

    async def report(self, body: bytes) -> None:
        await super().report(body)
        self.requests.append((round(asyncio.get_running_loop().time(), 6), ["Report"]))

    async def mail(self, messages: Sequence[bytes], *, after: int, wait: int) -> http.Inbox:
        before = len(self.said)
        found = await super().mail(messages, after=after, wait=wait)
        now = round(asyncio.get_running_loop().time(), 6)
        self.requests.append((now, [type(one).__name__ for one in self.said[before:]]))
        return found


def timed(target: Target) -> TimedWire:
    """A device as it comes, on a line with a clock."""
    line = TimedWire(target.line.recommender)
    target.line = target.agent.client = line  # type: ignore[assignment]
    target.agent.retry = RetryPolicy(grace=0.0, work=SILENCE)
    return line


class Processor(Worker):
    """Computes in this process, which takes so long."""

    def __init__(self, target: Target, rounds: Sequence[Round], seconds: float) -> None:
        super().__init__(None)
        self.target, self.rounds, self.seconds = target, tuple(rounds), seconds

    async def contributions(self) -> dict[Round, rounds.Contribution]:
        await asyncio.sleep(self.seconds) if self.seconds < inf else await asyncio.Event().wait()
        return rounds.contributions_at(self.target.agent.view, self.target.person, self.rounds)


def computing_takes(seconds: float, target: Target) -> None:
    target.agent._worker = lambda rounds: nullcontext(Processor(target, rounds, seconds))  # type: ignore[method-assign]


def on_its_own_clock(work: Coroutine[Any, Any, Any]) -> Any:
    with asyncio.Runner(loop_factory=TimedLoop) as runner:
        return runner.run(work)


def interaction(recommender: Dishonest) -> Task:
    campaign, B = recommender.rounds(features=np.ones((3, 1)), B=0.125)
    return campaign.interaction(0, B=B)


def moments(recommender: Dishonest) -> Task:
    charter = recommender.charter()
    return Campaign.of(charter, recommender.edition(charter)).moments()


def popularity(recommender: Dishonest) -> Task:
    return Campaign.of(recommender.charter()).popularity()


def requests_of(
    path: Path, visits: tuple[str, ...], kind: Callable[[Dishonest], Task], *, seconds: float, budget: float = 200.0
) -> list[tuple[float, list[str]]]:
    recommender = Dishonest()
    target = Target.of(recommender, path, profile={"age": 30.0}, visits=visits, budget=Budget(epsilon=budget))
    line = timed(target)
    computing_takes(seconds, target)

    async def declines(task: Task) -> None:
        await target.invited(task)
        await target.agent.step(wait=0)
        assert isinstance(target.agent.rounds.declined, PolicyError)

    on_its_own_clock(declines(kind(recommender)) if budget < 1.0 else whole_sum(target, kind(recommender)))
    target.person.store.close()
    return line.requests


@pytest.mark.parametrize(
    "kind", [interaction, *(pytest.param(kind, marks=pytest.mark.long) for kind in (moments, popularity))]
)
@pytest.mark.parametrize("budget", [200.0, 1e-3])
def test_each_message_leaves_at_the_same_time_whatever_was_visited_and_however_long_it_takes(
    tmp_path: Path, kind: Callable[[Dishonest], Task], budget: float
) -> None:
    seen = [
        requests_of(tmp_path / f"{seconds} {at}", visits, kind, seconds=seconds, budget=budget)
        for seconds in MOMENTS
        for at, visits in enumerate(VISITORS)
    ]
    assert seen == [seen[0]] * len(seen)
    sent = {name: when for when, names in seen[0] for name in names}
    if budget > 1.0:
        assert list(sent) == STEPS
        slots = [0.1, 1.2, 1.3, 1.4, 1.5, 1.6]  # one for each answer, and the silence after the keys
        assert list(sent.values()) == pytest.approx([SILENCE * slot for slot in slots])
    else:
        assert not sent
        assert seen[0][-1][0] == pytest.approx(0.1 * SILENCE)


@pytest.mark.parametrize("seconds", [0.001, 0.15, 0.25])
def test_nor_does_it_tell_how_long_it_takes_to_store_what_was_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """A row is stored for each place that was visited, in the transaction before the vector leaves."""
    store = rounds.save_visit_contribution

    def slow(rows: Any, campaign: bytes, visited: Any) -> None:
        asyncio.get_running_loop().selector.skipped += seconds * (1 + 0.1 * len(visited.entries))  # type: ignore[attr-defined]
        store(rows, campaign, visited)

    monkeypatch.setattr(rounds, "save_visit_contribution", slow)
    seen = [requests_of(tmp_path / f"{at}", visits, popularity, seconds=0.5) for at, visits in enumerate(VISITORS)]
    assert seen == [seen[0]] * len(seen)


async def until_sent(target: Target, line: TimedWire) -> None:
    """Online, and looking every second, until the report leaves."""
    while not line.reports:
        await target.agent.step(wait=0)
        await asyncio.sleep(1.0)


def test_a_report_leaves_at_the_same_time_after_its_moment_whatever_was_visited_and_however_long_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, seen = rounds.save_visit_contribution, []

    def slow(rows: Any, campaign: bytes, visited: Any) -> None:
        asyncio.get_running_loop().selector.skipped += 0.01 * len(visited.entries)  # type: ignore[attr-defined]
        store(rows, campaign, visited)

    monkeypatch.setattr(rounds, "save_visit_contribution", slow)
    monkeypatch.setattr("prirec.device.agent._jitter", lambda: 0.5)
    for seconds in MOMENTS:
        for at, visits in enumerate(VISITORS):
            recommender = Dishonest2()
            recommender.window(recommender.begun())
            target = target_of(recommender, tmp_path / f"{seconds} {at}", visits=visits)
            line = timed(target)
            computing_takes(seconds, target)

            on_its_own_clock(until_sent(target, line))
            target.person.store.close()
            seen.append(line.requests)
    assert seen == [seen[0]] * len(seen)
    assert seen[0][-1] == (15.0 + SILENCE, ["Report"])  # half of `spread`, then the silence


def test_nor_does_a_report_tell_how_long_its_contribution_took_where_its_proof_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proof takes as long whatever is proved; what was before it does not."""
    prove, seen = Windows._report, []

    def slow(self: Windows, *given: Any) -> Any:
        asyncio.get_running_loop().selector.skipped += 0.3 * SILENCE  # type: ignore[attr-defined]
        return prove(self, *given)

    monkeypatch.setattr(Windows, "_report", slow)
    monkeypatch.setattr("prirec.device.agent._jitter", lambda: 0.5)
    for seconds in (0.0, 0.3 * SILENCE, 0.85 * SILENCE, inf):
        recommender = Dishonest2()
        recommender.window(recommender.begun())
        target = target_of(recommender, tmp_path / f"{seconds}", visits=("a",))
        line = timed(target)
        computing_takes(seconds, target)

        on_its_own_clock(until_sent(target, line))
        target.person.store.close()
        seen.append(line.requests)
    assert seen == [seen[0]] * len(seen)


def test_a_device_reports_at_a_moment_within_the_spread_and_the_window(tmp_path: Path) -> None:
    """Not when it learns of the window: then all would come at once."""
    recommender = Dishonest2()
    recommender.window(recommender.begun(), closes=recommender.now + 400 + 20)
    moments = set()
    for at in range(8):
        target = target_of(recommender, tmp_path / f"{at}")
        timed(target)
        on_its_own_clock(target.agent.step(wait=0))
        asked = target.agent._moment
        moments.add(0.0 if asked is None else asked[1])
        target.person.store.close()
    assert len(moments) == 8
    assert min(moments) > 0.0
    assert max(moments) < 10.0  # half of what is left beside the margin


def test_whoever_is_online_for_a_minute_of_a_window_reports_in_it(tmp_path: Path) -> None:
    """As devices come: with the time for a contribution, and a moment of their own. In the last tenth nobody begins."""
    length, minute = 600, 60
    recommender = Dishonest2()
    recommender.window(recommender.begun(), opens=recommender.now, closes=recommender.now + length)
    for at, start in enumerate(np.random.default_rng(3).uniform(0, 0.9 * length - minute, 30)):
        target = target_of(recommender, tmp_path / f"{at}", visits=("a",))
        line = timed(target)
        computing_takes(0.5, target)

        async def online(target: Target = target, start: float = float(start)) -> None:
            loop, stop = asyncio.get_running_loop(), asyncio.Event()
            target.agent.windows._clock = lambda: recommender.now + start + loop.time()
            loop.call_later(minute, stop.set)
            await target.agent.run(stop)

        on_its_own_clock(online())
        assert len(line.reports) == 1, f"online from {start:.1f} s on"
        target.person.store.close()


PRIVATE = ("FROM visits", "FROM profile", "FROM home", "FROM labelled", "whole FROM given")


def test_keys_are_sent_before_a_record_is_read(tmp_path: Path) -> None:
    """The agent itself reads none, and neither does a process that gets ready."""
    recommender = Dishonest()
    target = Target.of(recommender, tmp_path / "device", visits=("a",))
    line, asked, seen = timed(target), list[str](), list[bool]()

    class Noting(Processor):
        async def contributions(self) -> dict[Round, rounds.Contribution]:
            seen.append(any(isinstance(one, Keys) for one in line.said))
            rounds.prepare(target.agent.view)
            seen.append(any(private in one for one in asked for private in PRIVATE))
            return await super().contributions()

    target.agent._worker = lambda rounds: nullcontext(Noting(target, rounds, 0.5))  # type: ignore[method-assign]
    with target.person.store.reading() as rows:
        rows.set_trace_callback(asked.append)
    assert [name for name, _ in on_its_own_clock(whole_sum(target, interaction(recommender)))] == STEPS
    assert seen == [True, False]
    assert any(PRIVATE[0] in one for one in asked)
    assert target.agent.rounds.empty is None


def masked_value(target: Target, monkeypatch: pytest.MonkeyPatch, task: Task) -> np.ndarray:
    """What the device adds, before masks."""
    values = list[np.ndarray]()
    mask = rounds.Member._mask

    def noted(self: Any, *rest: Any) -> Any:
        values.append(self._value.copy())
        return mask(self, *rest)

    monkeypatch.setattr(rounds.Member, "_mask", noted)
    on_its_own_clock(whole_sum(target, task))
    assert sum(isinstance(message, Masked) for message in target.line.said) == 1
    return next(value for value in values if value.any()) if any(v.any() for v in values) else values[0]


@pytest.mark.parametrize(("seconds", "in_time"), [(1.0, True), (2.5, False)])
def test_what_is_computed_too_late_is_left_out_at_the_full_price(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, in_time: bool
) -> None:
    recommender = Dishonest()
    target = Target.of(recommender, tmp_path / "device", profile={"age": 30.0}, visits=("a",))
    timed(target)
    computing_takes(seconds, target)
    task = interaction(recommender)
    assert masked_value(target, monkeypatch, task).any() == in_time
    assert len(target.paid.ledger().entries) == 1
    late = target.agent.rounds.empty
    assert (late is None) == in_time
    assert in_time or messages.NOT_COMPUTED_IN_TIME in str(late)
    with target.person.store.reading() as rows:  # the person can see it
        assert load_zeros(rows) == ((0, "") if in_time else (1, late))


# on the real clock: a hostile charter, and a process for each contribution

BESIDE = tuple(SigningKey(sha256(b"beside on the clock %d" % at).digest()) for at in range(59))
HASHED = tuple(Hashed(column=f"c{at}", buckets=4096) for at in range(15))
WIDE = Encoding(person=(Log(column="age"),), place=(Log(column="price"),), context=HASHED)  # 61,442 features


@dataclass
class ClockWire(Wire):
    """Notes when each message comes."""

    came: dict[str, float] = field(default_factory=dict)

    async def mail(self, messages: Sequence[bytes], *, after: int, wait: int) -> http.Inbox:
        now = monotonic()
        self.came |= {type(decode(one)).__name__: now for one in messages}
        return await super().mail(messages, after=after, wait=wait)


def wide_target(path: Path, visits: Sequence[Visit], *, encoding: Encoding = WIDE) -> tuple[Target, Task]:
    """A device in a campaign as wide as one may be, with 59 others: processes of their own know no lower floor."""
    recommender = Dishonest()
    target = Target.of(recommender, path, profile={"age": 30.0})
    target.person.record_visits(visits)
    target.line = target.agent.client = ClockWire(recommender)  # type: ignore[assignment]
    target.agent.retry = RetryPolicy(grace=0.0)
    parts = {"popularity": 0.2, "moments": 0.1, "interaction": 0.7}
    settings = change(SMALL_PRIVATE, floor=50, iterations=3, sums={"lost": 0.1}, privacy=parts)
    charter = recommender.charter(settings=settings, encoding=encoding, beside=BESIDE)
    campaign = recommender.scales(charter, recommender.edition(charter, encoding=encoding))
    return target, campaign.interaction(0, B=recommender.model(campaign, 2.0**-7))


async def seconds_until_masked(target: Target, task: Task) -> dict[str, float]:
    """How long each message took, from what it answers. The sum ends there."""
    others = {one.public: quiet_member(task, one) for one in BESIDE}
    collector = Collector(task, identity=target.line.recommender.identity, entropy=b"\3" * 32)
    actions, took = collector.invite([TARGET.public, *others]), dict[str, float]()
    assert isinstance(target.line, ClockWire)
    while "Masked" not in took:
        replies = list[AnyMessage]()
        for message in (action.message for action in actions if isinstance(action, Send)):
            if message.receiver != TARGET.public:
                answers = [] if isinstance(message, Participants) else others[message.receiver].receive(message)
                replies += [answer.message for answer in answers if isinstance(answer, Send)]
                continue
            target.line.send(encode(message))
            before, began = len(target.line.said), monotonic()
            while len(target.line.said) == before:
                await target.agent.step(wait=0)
            replies += target.line.said[before:]
            name = type(replies[-1]).__name__
            took[name] = target.line.came[name] - began
        actions = [action for reply in replies for action in collector.receive(reply)] or collector.advance()
    return took


# in place of the table of visits: who reads it never comes to an end
ENDLESS = (
    "ALTER TABLE visits RENAME TO some_visits",
    "CREATE VIEW visits AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT s.* "
    "FROM some_visits AS s, n WHERE i < 0",
)


def take_for_ever(target: Target) -> None:
    with target.person.store.transaction() as rows:
        for statement in ENDLESS:
            rows.execute(statement)


def whenever_it_is_ready(target: Target) -> None:
    """A process that a busy machine slows down is waited for, and nobody waits once it has answered."""

    async def at_once(seconds: float) -> None:
        return None

    target.agent.retry = RetryPolicy(grace=0.0, work=PATIENCE)
    target.agent._sleep = at_once


def many_visits(many: int) -> list[Visit]:
    return [Visit("abc"[at % 3], at, 1, {"c0": f"word {at}"}) for at in range(many)]


@pytest.mark.soak
@pytest.mark.parametrize("crossed", [1, 15])
def test_measured_no_message_leaves_later_for_many_records_or_for_one_visit(tmp_path: Path, crossed: int) -> None:
    """Under a charter in which each record has 61,442 features. The least of up to eight measurements counts: what else
    the machine does can only add to one, and what depends on records is in all of them. A machine that is busy
    throughout fails it all the same, so that it runs in `make soak` alone; the tests above, with a clock of their own,
    hold the claim everywhere."""
    people = {"none": [], "one": many_visits(1), "many": many_visits(4000), "endless": many_visits(1)}
    least = {who: dict.fromkeys(STEPS[:4], inf) for who in people}
    wide = msgspec.structs.replace(WIDE, person=tuple(Log(column=f"number {at}") for at in range(crossed)))
    slot, empty = SILENCE / 10 * (1 + 61_442 * (1 + crossed) // 2**17), dict[str, str | None]()

    def slots(who: str) -> list[int]:
        return [round(seconds / slot) for name, seconds in least[who].items() if name != "Keys"]

    for attempt in range(8):
        for who, visits in people.items():
            target, task = wide_target(tmp_path / f"{who} {attempt}", visits, encoding=wide)
            if who == "endless":
                take_for_ever(target)
            took = asyncio.run(seconds_until_masked(target, task))
            least[who] = {name: min(seconds, took[name]) for name, seconds in least[who].items()}
            empty[who] = target.agent.rounds.empty
            target.person.store.close()
        keys = [least[who]["Keys"] for who in people]
        if all(slots(who) == [1, 1, 1] for who in people) and max(keys) - min(keys) < slot:
            break
    assert {who: slots(who) for who in people} == {who: [1, 1, 1] for who in people}
    assert max(keys) - min(keys) < slot  # they wait for a process to start, which takes about a second
    assert [who for who, why in empty.items() if why is not None] == ["endless"]


def test_what_takes_too_much_memory_is_left_out_and_ends_only_its_own_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "MOST_MEMORY", 600 * 2**20)
    target, task = wide_target(tmp_path / "device", many_visits(300))
    whenever_it_is_ready(target)
    assert "Masked" in asyncio.run(seconds_until_masked(target, task))
    assert "MemoryError" in str(target.agent.rounds.empty)


def test_memory_for_records_is_bounded_by_the_width_of_the_campaign(tmp_path: Path) -> None:
    """A device with 1,000 records took 0.93 GB. 2^23 values of 8 bytes are 64 MB."""
    target, _ = wide_target(tmp_path / "device", many_visits(1000))
    view = asyncio.run(catch_up(target.person, target.line))
    assert view.campaign is not None
    tracemalloc.start()
    try:
        found = encode_records(target.person, view.campaign, view.known)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.context.shape == (2**23 // 61_443, 61_440)
    assert peak < 6 * 2**25


@pytest.mark.parametrize("told_to_compute", [False, True])
def test_an_agent_that_is_stopped_leaves_no_process_behind(tmp_path: Path, told_to_compute: bool) -> None:
    target, task = wide_target(tmp_path / "device", many_visits(1))
    asyncio.run(target.agent.follow())
    take_for_ever(target)
    found = list[int]()

    async def stopped() -> None:
        async with worker.started(target.person.store.path, [task.round]) as one:
            assert one._process is not None
            found.append(one._process.pid)
            if told_to_compute:
                await asyncio.wait_for(one.contributions(), 0.1)

    with pytest.raises(TimeoutError) if told_to_compute else nullcontext():
        asyncio.run(stopped())
    with pytest.raises(ProcessLookupError):
        os.kill(found[0], 0)


# Starts a process for a contribution, has it compute, and does the rest with `pid`, the process, and `one`.
AGENT = """
import asyncio, os, signal, sys
from pathlib import Path
import msgspec
from prirec.device import worker
from prirec.protocols.messages import Round

async def main(path, rounds):
    async with worker.started(path, rounds) as one:
        pid = one._process.pid
        {}

asyncio.run(main(Path(sys.argv[1]), msgspec.json.decode(sys.argv[2], type=list[Round])))
"""
KILLED = """
        print(pid, flush=True)
        computing = asyncio.create_task(one.contributions())
        await asyncio.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
"""
INTERRUPTED = """
        signal.signal(signal.SIGINT, lambda *_: None)  # the program goes on
        os.killpg(0, signal.SIGINT)
        print(len(await one.contributions()))
"""


def agent_that(does: str, path: Path, task: Task) -> str:
    """What it prints. It has a process group of its own, as a program in a terminal has."""
    words = [sys.executable, "-c", AGENT.format(does.strip()), str(path), msgspec.json.encode([task.round]).decode()]
    return subprocess.run(words, stdout=subprocess.PIPE, start_new_session=True, text=True, check=False).stdout


def test_a_process_ends_with_the_agent_that_is_killed(tmp_path: Path) -> None:
    target, task = wide_target(tmp_path / "device", many_visits(1))
    asyncio.run(target.agent.follow())
    take_for_ever(target)
    pid = int(agent_that(KILLED, target.person.store.path, task))
    try:
        with target.person.store.transaction() as rows:  # StateError while somebody reads the file
            rows.execute("DELETE FROM some_visits")
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, SIGKILL)


def test_an_interrupt_of_the_program_does_not_reach_the_process(tmp_path: Path) -> None:
    """Such as Ctrl-C in a terminal, or in a notebook: the device would add zeros, at the full price."""
    target, task = wide_target(tmp_path / "device", many_visits(1))
    asyncio.run(target.agent.follow())
    assert agent_that(INTERRUPTED, target.person.store.path, task) == "1\n"


@pytest.mark.parametrize("name", [b"device", b"\xff"])
def test_a_process_finds_the_device_wherever_and_whatever_its_file_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: bytes
) -> None:
    """The program may go to another folder, and a name may be no text."""
    monkeypatch.chdir(tmp_path)
    target, task = wide_target(Path(os.fsdecode(name)), many_visits(1))
    asyncio.run(target.agent.follow())
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")

    async def computed() -> dict[Round, rounds.Contribution]:
        async with worker.started(target.person.store.path, [task.round]) as one:
            return await one.contributions()

    assert list(asyncio.run(computed())) == [task.round]


def test_an_app_that_is_packed_into_one_program_does_not_start_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There sys.executable is the app, not Python."""
    monkeypatch.setattr("sys.frozen", True, raising=False)
    monkeypatch.setattr("subprocess.Popen", lambda *words, **more: pytest.fail("a process was started"))

    async def computed() -> dict[Round, rounds.Contribution]:
        async with worker.started(tmp_path / "device", []) as process:
            return await process.contributions()

    assert asyncio.run(computed()) == {}
