"""When a device sends something does not depend on the person's records: not on what they are, nor on how long it takes
to compute with them. Time is that of an event loop with a clock of its own, so nothing here waits or measures."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from prirec.device import agent as agents
from prirec.device import rounds
from prirec.device.agent import RetryPolicy
from prirec.errors import PolicyError
from prirec.privacy.ledger import Budget
from prirec.protocols.messages import Keys, Masked
from prirec.protocols.roster import Task
from prirec.wire import http
from prirec.wire.campaign import Campaign
from support import messages
from support.dishonest_recommender import Dishonest, Target, Wire, whole_sum
from support.fault_injection import FEW
from support.low_floors import low_floor
from support.waiting import PATIENCE

SILENCE = 2.0  # RetryPolicy.work
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


def taking(seconds: float) -> Callable[[Callable[[], Any]], "Future[Any]"]:
    """A processor on which work takes so long."""

    def start(work: Callable[[], Any]) -> "Future[Any]":
        future = Future[Any]()
        if seconds < inf:
            asyncio.get_running_loop().call_later(seconds, lambda: future.set_result(work()))
        return future

    return start


def on_its_own_clock(work: Coroutine[Any, Any, Any]) -> Any:
    with asyncio.Runner(loop_factory=TimedLoop) as runner:
        return runner.run(work)


def interaction(recommender: Dishonest) -> Task:
    campaign, V = recommender.rounds(features=np.ones((3, 1)), V=0.1)
    return campaign.interaction(0, V=V)


def popularity(recommender: Dishonest) -> Task:
    return Campaign.of(recommender.charter()).popularity()


def requests_of(
    path: Path, visits: tuple[str, ...], kind: Callable[[Dishonest], Task], *, budget: float = 200.0
) -> list[tuple[float, list[str]]]:
    recommender = Dishonest()
    target = Target.of(recommender, path, profile={"age": 30.0}, visits=visits, budget=Budget(epsilon=budget))
    line = timed(target)

    async def declines(task: Task) -> None:
        await target.invited(task)
        await target.agent.step(wait=0)
        assert isinstance(target.agent.rounds.declined, PolicyError)

    on_its_own_clock(declines(kind(recommender)) if budget < 1.0 else whole_sum(target, kind(recommender)))
    target.person.store.close()
    return line.requests


@pytest.mark.parametrize("kind", [interaction, popularity])
@pytest.mark.parametrize("budget", [200.0, 1e-3])
def test_each_message_leaves_at_the_same_time_whatever_was_visited_and_however_long_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Callable[[Dishonest], Task], budget: float
) -> None:
    seen = []
    for seconds in MOMENTS:
        monkeypatch.setattr(agents, "_in_thread", taking(seconds))
        for at, visits in enumerate(VISITORS):
            seen.append(requests_of(tmp_path / f"{seconds} {at}", visits, kind, budget=budget))
    assert seen == [seen[0]] * len(seen)
    sent = {name: when for when, names in seen[0] for name in names}
    if budget > 1.0:
        assert list(sent) == ["Keys", "Boxes", "Masked", "Agreement", "Reveal"]
        assert (sent["Keys"], sent["Boxes"], sent["Masked"]) == (0.0, SILENCE, 1.1 * SILENCE)
    else:
        assert seen[0][-1][0] == SILENCE


@pytest.mark.parametrize("seconds", [0.001, 0.15, 0.25])
def test_nor_does_it_tell_how_long_it_takes_to_store_what_was_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """A row is stored for each place that was visited, in the transaction before the vector leaves."""
    store = rounds.save_visit_contribution

    def slow(rows: Any, campaign: bytes, visited: Any) -> None:
        asyncio.get_running_loop().selector.skipped += seconds * (1 + 0.1 * len(visited.places))  # type: ignore[attr-defined]
        store(rows, campaign, visited)

    monkeypatch.setattr(agents, "_in_thread", taking(0.5))
    monkeypatch.setattr(rounds, "save_visit_contribution", slow)
    seen = [requests_of(tmp_path / f"{at}", visits, popularity) for at, visits in enumerate(VISITORS)]
    assert seen == [seen[0]] * len(seen)


def test_keys_are_sent_before_a_record_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the thread that it really has: here that one waits until the keys are there."""
    recommender = Dishonest()
    target = Target.of(recommender, tmp_path / "device", visits=("a",))
    line, sent, made = timed(target), Event(), list[bool]()
    contribution = rounds.contribution

    def waiting(*of: Any) -> Any:
        made.append(sent.wait(PATIENCE))
        return contribution(*of)

    class Noting(TimedWire):
        async def mail(self, messages: Sequence[bytes], *, after: int, wait: int) -> http.Inbox:
            found = await super().mail(messages, after=after, wait=wait)
            if any(isinstance(one, Keys) for one in self.said):
                sent.set()
            return found

    line.__class__ = Noting
    monkeypatch.setattr(rounds, "contribution", waiting)
    target.agent.retry = RetryPolicy(grace=0.0, work=PATIENCE)

    async def no_pause(seconds: float) -> None:
        """The contribution is there: the rest of the time need not be waited for."""

    target.agent._sleep = no_pause
    said = asyncio.run(whole_sum(target, interaction(recommender)))
    assert [name for name, _ in said] == ["Keys", "Boxes", "Masked", "Agreement", "Reveal"]
    assert made == [True]
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
    monkeypatch.setattr(agents, "_in_thread", taking(seconds))
    task = interaction(recommender)
    assert masked_value(target, monkeypatch, task).any() == in_time
    assert len(target.paid.ledger().entries) == 1
    view = target.agent.view
    assert view.campaign is not None
    kept = target.person.model(view.campaign.name)
    assert (kept is not None and kept.linear.any()) == in_time
    late = target.agent.rounds.empty
    assert (late is None) == in_time
    assert in_time or messages.NOT_COMPUTED_IN_TIME in str(late)


def test_who_may_not_spend_learns_for_itself_in_the_same_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recommender = Dishonest()
    target = Target.of(recommender, tmp_path / "device", profile={"age": 30.0}, visits=("a",), budget=Budget(1e-3))
    timed(target)
    monkeypatch.setattr(agents, "_in_thread", taking(1.0))
    task = interaction(recommender)
    assert on_its_own_clock(target.invited(task)) == []
    view = target.agent.view
    assert view.campaign is not None
    kept = target.person.model(view.campaign.name)
    assert kept is not None
    assert kept.linear.any()
    assert not target.paid.ledger().entries
