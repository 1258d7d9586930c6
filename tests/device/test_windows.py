"""A device in the windows of two operators: it reports once in each sum, what both operators accept, pays for it, and
sends the same bytes until they have arrived; and what it does not follow, whoever signs it."""

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from signal import SIGKILL
from typing import Any

import msgspec
import numpy as np
import pytest

from prirec.device import windows
from prirec.device.agent import AgentNews
from prirec.device.client import UnavailableError
from prirec.device.ledger import LedgerStore
from prirec.device.person import Person
from prirec.device.rounds import contribution
from prirec.device.store import Store
from prirec.device.sync import View, catch_up
from prirec.errors import Fault, PeerError, PolicyError, PrirecError, StateError
from prirec.privacy.ledger import Budget
from prirec.protocols.codec import decode
from prirec.protocols.messages import Report, Round
from prirec.protocols.party import Stage
from prirec.sharing.keys import SigningKey
from prirec.wire.campaign import Campaign
from prirec.wire.documents import Head, Names
from support import messages
from support.dishonest_operators import (
    HELPER,
    HOURS,
    JOINT,
    NOW,
    Dishonest2,
    Sums,
    another_head,
    charged,
    steps,
    target_of,
)
from support.dishonest_recommender import OTHERS, SETTINGS, TARGET, Dishonest, Target, Wire, agent_of
from support.fault_injection import FEW
from support.low_floors import low_floor

EVERYBODY = (TARGET.public, *(one.public for one in OTHERS))


@pytest.fixture(autouse=True)
def floor() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        low_floor(patch, FEW)
        yield


def visiting(tmp_path: Path, **window: Any) -> tuple[Dishonest2, Campaign, Target]:
    """In the sum of visits, whose window is open."""
    recommender = Dishonest2()
    campaign = recommender.begun()
    recommender.window(campaign, **window)
    return recommender, campaign, target_of(recommender, tmp_path / "device", visits=("a", "c"))


# What a device reports


@pytest.mark.parametrize("kind", ["popularity", "moments", "interaction"])
def test_a_report_holds_what_the_device_adds_and_both_operators_accept_it(tmp_path: Path, kind: str) -> None:
    recommender, B = Dishonest2(), None
    if kind == "interaction":
        campaign, B = recommender.learning()
    else:
        campaign = recommender.begun()
        if kind == "moments":
            campaign = Campaign.of(campaign.charter, recommender.edition(campaign.charter))
    window = recommender.window(campaign, kind, B=B)
    target = target_of(recommender, tmp_path / "device", visits=("a", "c"), profile={"age": 33.0})
    (report,) = steps(target)

    operators = Sums(recommender, campaign.joint(window, B=B), EVERYBODY)
    operators.take(report)
    assert operators.leader.count == operators.helper.count == 1
    view = View.of(target.person)
    added = contribution(Round(view.member.deployment, kind, window.number), view, target.person)
    assert operators.total.tolist() == added.value.view(np.int64).tolist()
    assert operators.total.any()
    assert charged(target) == 1


def test_one_report_in_a_sum_is_one_charge_that_rests_on_one_honest_operator(tmp_path: Path) -> None:
    _, campaign, target = visiting(tmp_path)
    assert len(steps(target, 5)) == 1
    account = target.paid.account(day=NOW // windows.DAY)
    assert account.lifetime.releases == account.by_two_operators == 1
    # the whole part of the plan, and no more
    assert target.paid.ledger().entries[0].charge.cost.grains <= campaign.visits.each.grains
    assert target.person.visit_contribution(campaign.name).whole.any()
    assert target.person.store.entry(Round(campaign.charter.deployment, "popularity", 65536)).stage is Stage.AGREED


def test_a_device_without_a_record_reports_zeros_at_the_full_price(tmp_path: Path) -> None:
    recommender = Dishonest2()
    campaign = recommender.begun()
    window = recommender.window(campaign)
    target = target_of(recommender, tmp_path / "device")
    (report,) = steps(target)
    operators = Sums(recommender, campaign.joint(window), EVERYBODY)
    operators.take(report)
    assert operators.leader.count == 1
    assert not operators.total.any()
    assert charged(target) == 1


def test_what_no_report_can_hold_is_replaced_by_zeros_and_nobody_learns_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recommender, campaign, target = visiting(tmp_path)
    asyncio.run(catch_up(target.person, target.line))  # type: ignore[arg-type]
    target.agent.view = View.of(target.person)
    window = target.agent.view.window
    assert window is not None
    of = Round(campaign.charter.deployment, "popularity", window.number)
    made = contribution(of, target.agent.view, target.person)
    too_long = replace(made, value=made.value + np.uint64(2**40))
    monkeypatch.setattr("prirec.device.agent.contributions_at", lambda view, person, rounds: {of: too_long})
    (report,) = steps(target)
    operators = Sums(recommender, campaign.joint(window), EVERYBODY)
    operators.take(report)
    assert not operators.total.any()
    assert target.agent.windows.empty is not None


# Until it has arrived


def test_a_report_is_sent_again_bit_for_bit_until_it_has_arrived(tmp_path: Path) -> None:
    _, _, target = visiting(tmp_path)
    target.line.refusing = UnavailableError("away")
    sent = steps(target, 3)
    assert len(sent) == 3
    target.line.refusing = None
    sent += steps(target, 3)
    assert len(sent) == 4
    assert len(set(sent)) == 1
    assert charged(target) == 1


def test_a_report_that_is_refused_comes_again_later_and_is_told(tmp_path: Path) -> None:
    _, _, target = visiting(tmp_path)
    target.line.refusing = PeerError(Fault.ORDER, "no such window yet")
    assert len(steps(target, 3)) == 1
    assert target.agent.windows.declined is target.line.refusing
    target.agent._again = 0.0
    target.line.refusing = None
    assert len(steps(target, 3)) == 1


def test_after_the_window_nothing_is_sent_and_after_its_extension_the_same_report(tmp_path: Path) -> None:
    recommender, campaign, target = visiting(tmp_path)
    target.line.refusing = UnavailableError("away")
    first = steps(target, 1)[0]
    target.line.refusing = None
    recommender.now = NOW + 5 * HOURS
    assert steps(target) == []
    recommender.window(campaign, people=10, entries=1, listed=_hash_of(recommender, 0), closes=NOW + 9 * HOURS)
    # the list of people is that of the first document: nothing but the time has changed
    with pytest.raises(PeerError, match=messages.WINDOW_CHANGED):
        asyncio.run(catch_up(target.person, target.line))  # type: ignore[arg-type]
    recommender.set_back(to=len(recommender.entries) - 1)
    window = View.of(target.person).window
    recommender.say("window", msgspec.structs.replace(window, closes=NOW + 9 * HOURS))
    assert steps(target) == [first]
    assert charged(target) == 1


def _hash_of(recommender: Dishonest, index: int) -> bytes:
    head = Head().after(
        recommender.entries[: index + 1], deployment=TARGET_DEPLOYMENT, recommender=recommender.identity.public
    )
    return head.last


TARGET_DEPLOYMENT = b"\7" * 16


def test_a_report_whose_sum_is_over_is_erased_and_stays_paid(tmp_path: Path) -> None:
    recommender, campaign, target = visiting(tmp_path)
    target.line.refusing = UnavailableError("away")
    steps(target, 1)
    recommender.edition(campaign.charter)
    target.line.refusing = None
    assert steps(target) == []
    assert target.person.store.pending() == []
    assert charged(target) == 1


def test_the_news_say_what_the_recommender_knows_as_well(tmp_path: Path) -> None:
    _, _, target = visiting(tmp_path)
    news = AgentNews(target.agent)
    steps(target)
    told = " / ".join(news.news())
    assert "is now on the operators' list" in told
    assert "the recommender has the report: how popular places are" in told


# Whom it follows


def older(recommender: Dishonest2) -> None:
    """A signature that it has seen a newer one than."""
    recommender.held_back = recommender.head.cosigned(deployment=TARGET_DEPLOYMENT, time=NOW - 1, identity=HELPER)


def shorter(recommender: Dishonest2) -> None:
    head = Head().after(recommender.entries[:-2], deployment=TARGET_DEPLOYMENT, recommender=recommender.identity.public)
    recommender.held_back = head.cosigned(deployment=TARGET_DEPLOYMENT, time=NOW + 9, identity=HELPER)


def forked(recommender: Dishonest2) -> None:
    """It shows this device another log than the helper has signed."""
    head = Head(recommender.head.length, another_head().last)
    recommender.held_back = head.cosigned(deployment=TARGET_DEPLOYMENT, time=NOW + 9, identity=HELPER)


def cut_short(recommender: Dishonest2) -> None:
    head = Head(recommender.head.length + 1, another_head().last)
    recommender.held_back = head.cosigned(deployment=TARGET_DEPLOYMENT, time=NOW + 9, identity=HELPER)


def unsigned(recommender: Dishonest2) -> None:
    recommender.helper = None


def signed_by_itself(recommender: Dishonest2) -> None:
    recommender.helper = recommender.identity


FORGED: dict[str, tuple[Callable[[Dishonest2], None], str]] = {
    "older": (older, messages.SIGNED_HEAD_GOES_BACK),
    "shorter": (shorter, messages.SIGNED_HEAD_GOES_BACK),
    "forked": (forked, messages.SIGNED_HEAD_IS_ANOTHER),
    "cut short": (cut_short, messages.SIGNED_HEAD_IS_ANOTHER),
    "unsigned": (unsigned, messages.LOG_WITHOUT_HELPER),
    "signed by itself": (signed_by_itself, messages.KEY_OR_SIGNATURE_INVALID),
}


@pytest.mark.parametrize("forge", FORGED)
def test_a_log_that_the_helper_has_not_signed_as_it_is_shown_is_not_followed(tmp_path: Path, forge: str) -> None:
    recommender = Dishonest2()
    campaign = recommender.begun()
    target = target_of(recommender, tmp_path / "device", visits=("a",))
    assert steps(target) == []
    known = View.of(target.person).member
    recommender.window(campaign)
    change, problem = FORGED[forge]
    change(recommender)
    with pytest.raises(PeerError, match=problem):
        steps(target)
    assert View.of(target.person).member == known
    assert (target.line.reports, charged(target)) == ([], 0)


def test_before_the_helper_has_signed_anything_a_device_follows_nothing_and_goes_on(tmp_path: Path) -> None:
    recommender, _, target = visiting(tmp_path)
    recommender.helper = None
    assert steps(target) == []
    assert target.agent.view.member.head == Head()
    recommender.helper = HELPER
    assert len(steps(target)) == 1


def test_what_the_helper_has_not_signed_yet_is_not_read(tmp_path: Path) -> None:
    recommender = Dishonest2()
    campaign = recommender.begun()
    recommender.held_back = recommender.cosigned
    recommender.window(campaign)
    target = target_of(recommender, tmp_path / "device", visits=("a",))
    assert steps(target) == []
    assert target.agent.view.member.head.length == len(recommender.entries) - 1
    recommender.held_back = None
    assert len(steps(target)) == 1


def test_with_a_signature_older_than_a_day_nothing_is_sent_and_what_is_there_is_used(tmp_path: Path) -> None:
    recommender, _, target = visiting(tmp_path, closes=NOW + 90 * HOURS)
    recommender.held_back = recommender.cosigned
    recommender.now = NOW + windows.LATEST_HEAD + 1
    assert steps(target) == []
    assert isinstance(target.agent.windows.declined, StateError)
    with pytest.raises(StateError, match=messages.STALE_HEAD):
        raise target.agent.windows.declined
    assert View.of(target.person).takes_part
    told = target.agent.windows.declined
    recommender.held_back = None
    assert steps(target) == []  # not tried all the time
    target.agent._moment = None
    assert len(steps(target)) == 1
    assert target.agent.windows.declined is told


def test_a_day_is_counted_from_the_time_that_the_helper_signed(tmp_path: Path) -> None:
    recommender, _, target = visiting(tmp_path, closes=NOW + 90 * HOURS)
    recommender.held_back = recommender.cosigned
    recommender.now = NOW + windows.LATEST_HEAD
    assert len(steps(target)) == 1


def test_a_clock_that_is_behind_the_helpers_does_not_make_an_old_window_open(tmp_path: Path) -> None:
    recommender, _, target = visiting(tmp_path)
    recommender.held_back = recommender.head.cosigned(
        deployment=TARGET_DEPLOYMENT, time=NOW + 6 * HOURS, identity=HELPER
    )
    assert steps(target) == []


class OtherHelper(Dishonest2):
    def taking_part(self, names: Any) -> dict[str, Any]:
        return super().taking_part(names) | {"helper": SigningKey(b"\x0c" * 32).public}


class NoHelper(Dishonest2):
    """A downgrade: it begins a campaign of one operator."""

    def taking_part(self, names: Any) -> dict[str, Any]:
        return Dishonest.taking_part(self, names)


@pytest.mark.parametrize("kind", [OtherHelper, NoHelper])
def test_a_campaign_of_other_operators_than_those_pinned_is_not_followed(
    tmp_path: Path, kind: type[Dishonest2]
) -> None:
    recommender = kind()
    recommender.begun(settings=JOINT if kind is OtherHelper else SETTINGS)
    target = target_of(recommender, tmp_path / "device", visits=("a",))
    with pytest.raises(PeerError, match=messages.OTHER_OPERATORS):
        steps(target)
    assert View.of(target.person).campaign is None


def test_a_device_that_has_pinned_no_helper_follows_no_campaign_of_one(tmp_path: Path) -> None:
    recommender = Dishonest2()
    recommender.begun()
    target = Target.of(recommender, tmp_path / "device", visits=("a",))
    with pytest.raises(PeerError, match=messages.OTHER_OPERATORS):
        steps(target)


def test_an_invitation_to_a_sum_of_one_operator_is_not_answered(tmp_path: Path) -> None:
    _, campaign, target = visiting(tmp_path)
    assert asyncio.run(target.invited(campaign.popularity())) == []
    assert len(target.line.reports) == 1  # that of its window
    assert isinstance(target.agent.rounds.declined, PeerError)


# Which windows it enters


WRONG: dict[str, dict[str, Any]] = {
    "not open yet": {"opens": NOW + 1},
    "over": {"closes": NOW},
    "without the margin": {"opens": NOW - 10 * HOURS, "closes": NOW + 600},
    "a short one without a tenth": {"opens": NOW - 90, "closes": NOW + 10},
    "over another model": {"model": bytes(32)},
    "of another campaign": {"charter": bytes(32)},
    "of another round": {"number": 65537},
    "of another sum": {"kind": "moments"},
    "of more people than it was sized for": {"people": 501},
    "of fewer people than the floor": {"people": FEW - 1},
    "listed before this device": {"entries": 0},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_window_that_this_device_would_not_open_itself_is_not_entered(tmp_path: Path, wrong: str) -> None:
    _, _, target = visiting(tmp_path, **WRONG[wrong])
    assert steps(target) == []
    assert charged(target) == 0
    assert target.agent.view.window is not None


@pytest.mark.parametrize(
    "fine", [{"opens": NOW - 10 * HOURS, "closes": NOW + 601}, {"opens": NOW - 89, "closes": NOW + 10}]
)
def test_a_window_with_the_margin_left_is_entered(tmp_path: Path, fine: dict[str, int]) -> None:
    assert len(steps(visiting(tmp_path, **fine)[2])) == 1


@pytest.mark.parametrize(
    "changes",
    [{"closes": NOW + 5 * HOURS - 1}, {"opens": NOW - HOURS + 1}, {"people": 11}, {"entries": 3}, {"listed": bytes(32)},
     {"model": bytes(32)}],
    ids=lambda changes: next(iter(changes)),
)  # fmt: skip
def test_a_window_that_changes_otherwise_than_by_closing_later_is_refused(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    recommender, _, target = visiting(tmp_path)
    assert len(steps(target)) == 1
    recommender.say("window", msgspec.structs.replace(target.agent.view.window, **changes))
    with pytest.raises(PeerError, match=messages.WINDOW_CHANGED):
        asyncio.run(target.agent.follow())


def test_no_second_report_in_a_sum_whatever_windows_follow(tmp_path: Path) -> None:
    """Also where the helper signs that the window of one sum is another's, and then the first one's again."""
    recommender, campaign, target = visiting(tmp_path)
    assert len(steps(target)) == 1
    recommender.window(campaign, number=65540)
    assert steps(target) == []
    recommender.window(campaign, people=9)
    assert steps(target) == []
    assert target.agent.view.window.people == 9
    assert charged(target) == 1


def test_a_device_is_in_no_window_before_it_is_listed_nor_after_it_is_taken_off(tmp_path: Path) -> None:
    recommender = Dishonest2()
    recommender.join(*(one.public for one in OTHERS))
    campaign = Campaign.of(recommender.charter(settings=JOINT))
    recommender.window(campaign)
    target = target_of(recommender, tmp_path / "device", visits=("a",))
    assert steps(target) == []
    assert not target.agent.view.takes_part

    recommender.join(TARGET.public)
    assert steps(target) == []  # the window was opened before
    assert target.agent.view.takes_part
    campaign = Campaign.of(campaign.charter, recommender.edition(campaign.charter))
    recommender.window(campaign, "moments")
    recommender.say("left", Names((TARGET.public,)))
    assert steps(target) == []
    assert not target.agent.view.takes_part
    recommender.join(TARGET.public)
    recommender.window(campaign, "moments", number=65541)
    assert steps(target) == []


def test_lists_of_who_has_joined_are_read_until_the_device_has_found_itself(tmp_path: Path) -> None:
    recommender = Dishonest2()
    recommender.begun()
    target = target_of(recommender, tmp_path / "device")
    steps(target)
    unread = SigningKey(b"\x0e" * 32).public
    recommender.join(unread)
    del recommender.documents[recommender.entries[-1].entry.document]
    steps(target)
    assert target.agent.view.member.head == recommender.head
    assert target.agent.view.member.joined == 1


def test_a_window_that_is_none_is_refused_before_it_is_stored(tmp_path: Path) -> None:
    recommender = Dishonest2()
    recommender.begun()
    target = target_of(recommender, tmp_path / "device", visits=("a",))
    steps(target)
    recommender.say("window", Names((TARGET.public,)))
    with pytest.raises(PeerError, match=messages.DOCUMENT_OF_ANOTHER_KIND):
        asyncio.run(target.agent.follow())
    assert View.of(target.person).window is None


def test_a_window_that_is_damaged_on_the_disk_is_fetched_anew_and_entered(tmp_path: Path) -> None:
    _, _, target = visiting(tmp_path)
    asyncio.run(target.agent.follow())
    with target.person.store.transaction() as rows:
        rows.execute("UPDATE documents SET body = x'00' WHERE name = ?", (target.agent.view.latest["window"],))
    target.agent = agent_of(target.person, target.paid, target.line)
    assert steps(target, 1) == []
    asyncio.run(target.agent.follow())
    assert len(steps(target)) == 1


# What the person allows


def test_a_budget_that_does_not_cover_a_sum_keeps_the_device_out_of_it(tmp_path: Path) -> None:
    recommender = Dishonest2()
    recommender.window(recommender.begun())
    target = target_of(recommender, tmp_path / "device", visits=("a",), budget=Budget(epsilon=0.01))
    assert steps(target) == []
    assert isinstance(target.agent.windows.declined, PolicyError)


def test_a_floor_of_the_person_s_own_is_held_against_that_of_the_sum(tmp_path: Path) -> None:
    from prirec.device.ledger import save_floor

    _, _, target = visiting(tmp_path)
    for devices, sent in ((FEW + 1, 0), (FEW, 1)):
        with target.person.store.transaction() as rows:
            save_floor(rows, devices)
        target.agent._moment = None
        assert len(steps(target)) == sent


# Crashes


class Filed(Wire):
    """Reports go to a file, which outlives the device's process."""

    folder: Path

    async def report(self, body: bytes) -> None:
        with (self.folder / "arrived").open("ab") as file:
            file.write(len(body).to_bytes(4, "big") + body)

    @property
    def arrived(self) -> list[bytes]:
        found, data = [], (self.folder / "arrived").read_bytes() if (self.folder / "arrived").exists() else b""
        while data:
            size = int.from_bytes(data[:4], "big")
            found.append(data[4 : 4 + size])
            data = data[4 + size :]
        return found


MOMENTS = {  # what is called, and whether the device dies before it, or when it is done
    "nothing is written": (LedgerStore, "write", "before"),
    "the charge is written and not committed": (windows, "write_journal", "before"),
    "charge and journal are written and not committed": (sqlite3.Connection, "", "commit"),
    "all is written": (LedgerStore, "write", "after"),
    "the report is not sent": (Filed, "report", "before"),
    "the report has arrived": (Filed, "report", "after"),
    "that it has arrived is not noted": (windows.Windows, "arrived", "before"),
    "that it has arrived is noted": (windows.Windows, "arrived", "after"),
}
TWICE = {"the report has arrived", "that it has arrived is not noted"}  # then it is sent again


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_device_that_is_killed_at_any_moment_reports_once_and_pays_once(tmp_path: Path, moment: str) -> None:
    recommender, campaign, target = visiting(tmp_path)
    target.person.store.close()
    line = Filed(recommender)
    line.folder = tmp_path

    def live(*, dying: bool) -> None:
        """In a process of its own."""
        with Store.open(tmp_path / "device") as store:
            person = Person(store)
            if dying:
                die_at(*MOMENTS[moment])
            agent = agent_of(person, LedgerStore(store, Budget(epsilon=200.0)), line)

            async def some() -> None:
                for _ in range(3):
                    await agent.step(wait=0)

            asyncio.run(some())

    assert ended(lambda: live(dying=True)) == -SIGKILL
    before = list(line.arrived)
    assert ended(lambda: live(dying=False)) == 0

    assert len(line.arrived) == (2 if moment in TWICE else 1)
    assert len(set(line.arrived)) == 1
    assert line.arrived[: len(before)] == before
    with Store.open(tmp_path / "device") as store:
        assert len(LedgerStore(store).ledger().entries) == 1
        assert store.pending() == []
        window = View.of(Person(store)).window
    assert window is not None
    operators = Sums(recommender, campaign.joint(window), EVERYBODY)
    operators.take(line.arrived[0])
    assert operators.leader.count == 1


def die_at(where: Any, name: str, when: str) -> None:
    """This process, by SIGKILL."""

    def killed(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), SIGKILL)

    if when == "commit":
        Store._exclusively = _never_committed  # type: ignore[method-assign]
        return
    whole = getattr(where, name)

    def dying(*of: Any, **more: Any) -> None:
        if when == "after":
            whole(*of, **more)
        killed()

    async def dying_later(*of: Any, **more: Any) -> None:
        if when == "after":
            await whole(*of, **more)
        killed()

    setattr(where, name, dying_later if name == "report" else dying)


@contextmanager
def _never_committed(self: Store) -> Iterator[sqlite3.Connection]:
    """The process dies when a report is in the transaction, before it is committed."""
    self._connection.execute("BEGIN IMMEDIATE")
    yield self._connection
    if self._connection.execute("SELECT count(*) FROM rounds").fetchone()[0]:
        os.kill(os.getpid(), SIGKILL)
    self._connection.execute("COMMIT")


def ended(work: Callable[[], None]) -> int:
    """How a process of its own ends."""
    if not (child := os.fork()):
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Killed(BaseException):
    """The process ends."""


def _killed(*_: Any, **__: Any) -> Any:
    raise Killed


def test_half_of_a_transaction_is_none_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Charge, journal and what was added are written together or not at all."""
    _, campaign, target = visiting(tmp_path)
    for part in (
        "prirec.device.windows.write_journal",
        "prirec.device.ledger.write_journal",
        "prirec.device.ledger.pay",
    ):
        with monkeypatch.context() as patch:
            patch.setattr(part, _killed)
            with pytest.raises(Killed):
                steps(target)
        target.agent = agent_of(target.person, target.paid, target.line)
        assert (charged(target), target.person.store.pending(), target.line.reports) == (0, [], [])
        assert not len(target.person.visit_contribution(campaign.name).entries)
    assert len(steps(target)) == 1


def test_a_charge_that_cannot_be_written_sends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, target = visiting(tmp_path)

    def refused(*_: Any, **__: Any) -> None:
        raise PolicyError("another process has spent it")

    monkeypatch.setattr("prirec.device.ledger.pay", refused)
    assert steps(target) == []
    assert isinstance(target.agent.windows.declined, PrirecError)


def test_leaving_erases_a_report_that_has_not_arrived(tmp_path: Path) -> None:
    _, _, target = visiting(tmp_path)
    target.line.refusing = UnavailableError("away")
    steps(target, 1)
    assert target.person.store.pending()
    target.person.leave()
    assert target.person.store.pending() == []
    assert isinstance(decode(target.line.reports[0]), Report)
