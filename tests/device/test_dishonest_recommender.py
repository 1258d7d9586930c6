"""A recommender that writes its documents to find out about a person, to wear a device out or to be believed too long:
what a device answers does not depend on private values, and never goes beyond the charter."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest
from h3.api import basic_int as h3

from prirec.device.agent import Agent, RetryPolicy
from prirec.device.client import UnavailableError
from prirec.device.rounds import Contribution, contribution
from prirec.device.sync import catch_up, save_extra_region
from prirec.errors import PeerError, PolicyError, PrirecError
from prirec.features.encoding import ColumnBlock, Hashed, Log, Range, Words
from prirec.privacy.ledger import Budget
from prirec.protocols.messages import Keys
from prirec.protocols.roster import Task
from prirec.sharing.keys import SigningKey
from prirec.wire.campaign import Campaign
from prirec.wire.documents import Places, RegionLine, octets
from prirec.wire.http import MOST_ATTEMPTS
from support import messages
from support.dishonest_recommender import ENCODING, OTHERS, SETTINGS, Dishonest, Target, whole_sum
from support.fault_injection import FEW
from support.low_floors import low_floor


@pytest.fixture(autouse=True)
def floor() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        low_floor(patch, FEW)
        yield


class Someone(NamedTuple):
    profile: dict[str, Any]
    visits: tuple[str, ...]


PEOPLE = (
    Someone({"age": 23.0, "job": "nurse"}, ("a",)),
    Someone({"age": 61.0, "job": 4.0}, ("b", "c")),
    Someone({"age": "old"}, ("a", "b", "c", "a")),
    Someone({"age": -1.7e308, "job": ("nurse", "pilot")}, ()),
)


class Published(NamedTuple):
    """What the recommender chose, so that some records might fail and others not."""

    person: tuple[ColumnBlock, ...] = ENCODING.person
    features: tuple[float, float, float] = (0.0, 0.0, 0.0)  # of places a, b, c
    B: float = 0.0

    def campaign(self, recommender: Dishonest) -> tuple[Campaign, np.ndarray]:
        return recommender.rounds(
            encoding=msgspec.structs.replace(ENCODING, person=self.person),
            features=np.array(self.features)[:, None],
            B=self.B,
        )


HOSTILE = {
    "steep": Published((Log(column="age", shift=3.0, scale=1e-9),), B=15.0),
    "words or numbers": Published((Log(column="job"),)),
    "numbers or words": Published((Hashed(column="age", buckets=2),)),
    "a range of one point": Published((Range(column="age", low=61.0, high=61.0),)),
    "a column of two kinds": Published((Log(column="age"), Words(column="age", words=("old",)))),
    "who was at a": Published(features=(1e6, 0.0, 0.0), B=15.0),
    "a catalogue beyond all bounds": Published(features=(3e38, 0.0, 0.0)),
}


def contributed(recommender: Dishonest, path: Path, someone: Someone, chosen: Published) -> Contribution:
    campaign, B = chosen.campaign(recommender)
    target = Target.of(recommender, path, profile=someone.profile, visits=someone.visits)
    view = asyncio.run(catch_up(target.person, target.line))
    return contribution(campaign.interaction(0, B=B).round, view, target.person)


# whether and what a device answers


@pytest.mark.parametrize("how", HOSTILE)
def test_the_steps_that_are_sent_are_the_same_whatever_the_records_are(tmp_path: Path, how: str) -> None:
    seen, paid = [], []
    for at, someone in enumerate(PEOPLE):
        recommender = Dishonest()
        target = Target.of(recommender, tmp_path / f"{at}", profile=someone.profile, visits=someone.visits)
        campaign, B = HOSTILE[how].campaign(recommender)
        seen.append(asyncio.run(whole_sum(target, campaign.interaction(0, B=B))))
        paid.append([entry.charge.cost for entry in target.paid.ledger().entries])
        target.person.store.close()
    assert [kind for kind, _ in seen[0]] == ["Keys", "Boxes", "Receipt", "Masked", "Agreement", "Reveal"]
    assert seen == [seen[0]] * len(PEOPLE)
    assert len(paid[0]) == 1
    assert paid == [paid[0]] * len(PEOPLE)


def test_under_hostile_documents_no_records_fail_that_others_do_not(tmp_path: Path) -> None:
    """What somebody told and the documents have no place for counts as unknown. Documents that fail, fail for all."""
    failed = {
        how: {
            contributed(Dishonest(), tmp_path / f"{how} {at}", someone, chosen).empty is not None
            for at, someone in enumerate(PEOPLE)
        }
        for how, chosen in HOSTILE.items()
    }
    assert failed == {how: {how in ("a column of two kinds", "a catalogue beyond all bounds")} for how in HOSTILE}


def test_records_that_fail_add_zeros_at_the_full_price(tmp_path: Path) -> None:
    fine = contributed(Dishonest(), tmp_path / "other", PEOPLE[1], Published(B=0.5, features=(1.0, 1.0, 1.0)))
    assert fine.empty is None
    assert fine.value.any()
    clash = contributed(Dishonest(), tmp_path / "third", PEOPLE[2], HOSTILE["a catalogue beyond all bounds"])
    assert clash.empty is not None
    assert "old" not in clash.empty
    assert not clash.value.any()
    assert (clash.value.shape, clash.value.dtype) == (fine.value.shape, fine.value.dtype)


async def after_its_errand(target: Target, task: Task) -> list[tuple[str, int]]:
    """A whole sum, once the regions that the person asked for have come."""
    await target.agent.follow()
    if target.agent._download is not None:
        await target.agent._download
    return await whole_sum(target, task)


def test_a_broken_region_does_not_tell_who_asked_for_it(tmp_path: Path) -> None:
    here, far = h3.latlng_to_cell(35.0, 139.0, 5), h3.latlng_to_cell(48.0, 2.0, 5)
    seen = []
    for asked in (False, True):
        recommender = Dishonest()
        broken = recommender.put(Places(far, ("d",), ("far",), octets(np.array([3]), np.int32), b"", b""))
        target = Target.of(recommender, tmp_path / f"{asked}", visits=("a",), cell=here)
        if asked:
            with target.person.store.transaction() as rows:
                save_extra_region(rows, far)
        charter = recommender.charter(regions=[RegionLine(far, broken)])
        seen.append(asyncio.run(after_its_errand(target, Campaign.of(charter).popularity())))
        assert (target.agent.rounds.empty is not None) == asked
    assert seen[0] == seen[1]
    assert "Reveal" in dict(seen[0])


# what is refused for what is public in it


def test_models_beyond_all_use_are_refused_for_everyone(tmp_path: Path) -> None:
    for at, someone in enumerate(PEOPLE):
        recommender = Dishonest()
        target = Target.of(recommender, tmp_path / f"{at}", profile=someone.profile, visits=someone.visits)
        recommender.rounds(B=16.0)
        with pytest.raises(PeerError, match=messages.MODEL_BEYOND_USE):
            asyncio.run(target.agent.follow())
        assert target.line.said == []


@pytest.mark.parametrize("wrong", [1.1e6, np.inf, np.nan])
def test_a_place_with_an_unusable_feature_is_not_read(tmp_path: Path, wrong: float) -> None:
    recommender = Dishonest()
    target = Target.of(recommender, tmp_path / "device")
    recommender.charter(features=np.array([[wrong], [0.0], [0.0]]))
    view = asyncio.run(catch_up(target.person, target.line))
    with pytest.raises(PeerError, match=messages.NUMBER_TOO_LARGE):
        len(view.known)


def _rounds_at(iteration: int, *, attempt: int = 0) -> Callable[[Target], list[Any]]:
    def ask(target: Target) -> list[Any]:
        campaign, B = target.line.recommender.rounds(iteration=iteration)
        return asyncio.run(target.invited(campaign.interaction(iteration, B=B, attempt=attempt)))

    return ask


def _moments(*, scaled: bool, attempt: int = 0) -> Callable[[Target], list[Any]]:
    def ask(target: Target) -> list[Any]:
        recommender = target.line.recommender
        charter = recommender.charter()
        edition = recommender.edition(charter)
        if scaled:
            recommender.scales(charter, edition)
        return asyncio.run(target.invited(Campaign.of(charter, edition).moments(attempt=attempt)))

    return ask


@pytest.mark.parametrize(
    ("ask", "enters"),
    [
        (_rounds_at(0), True),
        (_rounds_at(SETTINGS.iterations - 1), True),
        (_rounds_at(SETTINGS.iterations), False),
        (_rounds_at(40_000), False),
        (_rounds_at(0, attempt=MOST_ATTEMPTS - 1), True),
        (_rounds_at(0, attempt=MOST_ATTEMPTS), False),
        (_moments(scaled=False), True),
        (_moments(scaled=True), False),
        (_moments(scaled=False, attempt=MOST_ATTEMPTS), False),
    ],
)
def test_a_device_enters_the_rounds_that_the_charter_has_and_no_other(
    tmp_path: Path, ask: Callable[[Target], list[Any]], enters: bool
) -> None:
    target = Target.of(Dishonest(), tmp_path / "device", profile={"age": 3.0}, visits=("a",))
    said = ask(target)
    assert [type(message) for message in said] == ([Keys] if enters else [])
    assert isinstance(target.agent.rounds.declined, PeerError) != enters


@pytest.mark.parametrize("strangers", [1, 9])
def test_no_vector_is_masked_if_the_roster_has_a_device_outside_the_charter(tmp_path: Path, strangers: int) -> None:
    target = Target.of(Dishonest(), tmp_path / "device", visits=("a",))
    task = Campaign.of(target.line.recommender.charter()).popularity()
    beside = [*OTHERS[strangers:], *(SigningKey(bytes([at]) * 32) for at in range(100, 100 + strangers))]
    assert [kind for kind, _ in asyncio.run(whole_sum(target, task, beside=beside))] == ["Keys"]
    assert not target.paid.ledger().entries
    assert "no place in this round" in str(target.agent.rounds.declined)


def test_no_attempt_beyond_the_budget_is_answered_and_nothing_is_computed_for_it(tmp_path: Path) -> None:
    target = Target.of(
        Dishonest(), tmp_path / "device", profile={"age": 3.0}, visits=("a",), budget=Budget(epsilon=1e-3)
    )
    campaign, B = target.line.recommender.rounds(features=np.ones((3, 1)))
    for attempt in range(3):
        assert asyncio.run(target.invited(campaign.interaction(0, B=B, attempt=attempt))) == []
        assert isinstance(target.agent.rounds.declined, PolicyError)
        assert target.agent.rounds.waiting == []
        target.agent.rounds.declined = None


# queued messages


def test_a_message_that_leads_to_an_unforeseen_error_is_forgotten_and_the_agent_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Target.of(Dishonest(), tmp_path / "device", profile={"age": 3.0}, visits=("a",))
    campaign, B = target.line.recommender.rounds()
    receive, opened = target.agent.rounds.receive, list[bytes]()

    def stumbling(body: bytes, view: Any) -> list[bytes]:
        opened.append(body)
        if body == b"poison":
            raise ZeroDivisionError
        return receive(body, view)

    monkeypatch.setattr(target.agent.rounds, "receive", stumbling)
    target.line.send(b"poison")
    said = asyncio.run(target.invited(campaign.interaction(0, B=B)))
    assert [type(message) for message in said] == [Keys]
    assert opened.count(b"poison") == 1
    assert target.agent.dropped_messages == 1
    assert isinstance(target.agent.last_fault, ZeroDivisionError)


def test_what_ends_the_process_is_let_through_and_the_letter_does_not_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Target.of(Dishonest(), tmp_path / "device")

    def interrupted(body: bytes, view: Any) -> list[bytes]:
        raise KeyboardInterrupt

    monkeypatch.setattr(target.agent.rounds, "receive", interrupted)
    target.line.send(b"poison")
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(target.agent.step(wait=0))
    asyncio.run(target.agent.step(wait=0))
    assert target.line.box == []


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x93" * 5000, b"[" * 100_000, bytes(1000)])
def test_malformed_messages_are_ignored(tmp_path: Path, body: bytes) -> None:
    target = Target.of(Dishonest(), tmp_path / "device")
    assert asyncio.run(target.hear(body)) == []
    assert isinstance(target.agent.rounds.declined, PrirecError)
    assert target.agent.dropped_messages == 0


# a recommender that wishes to be left alone


def test_a_device_stays_away_as_long_as_it_is_asked_to_but_not_longer_than_it_ever_would() -> None:
    patience = RetryPolicy(first=1.0, longest=300.0)
    assert patience.pause(1, jitter=1.0) == patience.pause(1, jitter=1.0, retry_after=0.5) == 1.0
    assert patience.pause(1, jitter=1.0, retry_after=70.0) == 70.0
    assert (
        patience.pause(1, jitter=1.0, retry_after=1e9)
        == patience.pause(1, jitter=0.0, retry_after=float("inf"))
        == 300.0
    )
    assert patience.pause(9, jitter=1.0, retry_after=70.0) == 256.0


def test_an_agent_waits_as_long_as_retry_after_says(tmp_path: Path) -> None:
    target, slept, stop = Target.of(Dishonest(), tmp_path / "device"), list[float](), asyncio.Event()

    async def busy(messages: Any, *, after: int, wait: int) -> Any:
        raise UnavailableError("the recommender has too much to do", after=42.0)

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        stop.set()

    target.line.mail = busy  # type: ignore[method-assign]
    agent = Agent(target.person, target.paid, target.line, sleep=sleep)  # type: ignore[arg-type]
    asyncio.run(agent.run(stop))
    assert slept == [42.0]
