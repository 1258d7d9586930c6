"""A roster of made-up names: an operator who fills a sum with names of its own can take their noise off again, and what
is left to the one real person is the share of noise of their own device. Such a roster must hold its part of the people
whom the log lists, or as many as the person asks for; where it does, the ledger says what the sum is then worth."""

import asyncio
from hashlib import sha256
from pathlib import Path

import pytest

from prirec.device.device import Device, status
from prirec.device.ledger import save_floor
from prirec.device.store import seal_ledger
from prirec.errors import PeerError, PolicyError, UsageError
from prirec.privacy.accountant import Spent
from prirec.privacy.plan import Kind, plan_for
from prirec.protocols.roster import Task, fewest_survivors
from prirec.protocols.terms import noise_share
from prirec.sharing.keys import SigningKey
from prirec.wire.campaign import Campaign
from support import messages
from support.accounting import epsilon_by_pld
from support.cities import SMALL_PRIVATE, change
from support.dishonest_recommender import Dishonest, Target, whole_sum
from support.hockey_stick import epsilon_of_one_share

DELTA = 1e-6
SETTINGS = change(SMALL_PRIVATE, floor=100, privacy={"popularity": 0.7, "moments": 0.1, "interaction": 0.2})
MADE_UP = tuple(SigningKey(sha256(b"made up %d" % at).digest()) for at in range(99))
REAL = tuple(SigningKey(sha256(b"a neighbour %d" % at).digest()) for at in range(900))
KEYS_ONLY, WHOLE = ["Keys"], ["Keys", "Boxes", "Receipt", "Masked", "Agreement", "Reveal"]


def attacked(target: Target, *, listed: tuple[SigningKey, ...], roster: float = 0.5) -> tuple[list[str], Task]:
    """What the target sends in a sum of visits over itself and 99 names that the operator made up, in a campaign that
    lists these people beside it."""
    settings = change(SETTINGS, sums={"roster": roster})
    task = Campaign.of(target.line.recommender.charter(settings=settings, beside=listed)).popularity()
    return [kind for kind, _ in asyncio.run(whole_sum(target, task, beside=MADE_UP))], task


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target.of(Dishonest(), tmp_path / "phone.db", visits=("a", "c"))


def test_99_made_up_names_are_refused_where_the_log_lists_a_thousand_people(target: Target) -> None:
    said, _ = attacked(target, listed=MADE_UP + REAL)
    assert said == KEYS_ONLY  # nothing that is computed from records
    assert not target.paid.ledger().entries
    assert isinstance(target.agent.rounds.declined, PeerError)
    assert messages.ROSTER_TOO_SMALL_FOR_THIS_DEVICE in str(target.agent.rounds.declined)


def test_the_charter_says_which_share_of_the_people_is_enough(target: Target) -> None:
    """A tenth of a thousand is the hundred that the operator has."""
    said, _ = attacked(target, listed=MADE_UP + REAL, roster=0.1)
    assert said == WHOLE


def test_a_person_may_ask_for_more_devices_than_the_campaign_does(target: Target) -> None:
    with target.person.store.transaction() as rows:
        save_floor(rows, 101)
    said, _ = attacked(target, listed=MADE_UP)
    assert said == []  # it does not even enter: the log lists 100
    assert isinstance(target.agent.rounds.declined, PolicyError)
    assert messages.own_floor(101, 100, 100) in str(target.agent.rounds.declined)


@pytest.mark.parametrize(("floor", "enters"), [(90, True), (91, False), (100, False)])
def test_an_own_floor_holds_for_whoever_may_be_left_of_the_roster(target: Target, floor: int, enters: bool) -> None:
    """Of 100 devices ten may be lost, and the sum over the other ninety is opened."""
    with target.person.store.transaction() as rows:
        save_floor(rows, floor)
    settings = change(SETTINGS, floor=50, sums={"lost": 0.1})
    task = Campaign.of(target.line.recommender.charter(settings=settings, beside=MADE_UP)).popularity()
    assert fewest_survivors(task.terms, 100) == 90
    said = [kind for kind, _ in asyncio.run(whole_sum(target, task, beside=MADE_UP))]
    assert said == (WHOLE if enters else [])
    assert enters or messages.own_floor(floor, 100, 90) in str(target.agent.rounds.declined)


def test_an_own_floor_holds_for_the_roster_and_not_for_the_list_of_people(target: Target) -> None:
    with target.person.store.transaction() as rows:
        save_floor(rows, 101)
    said, _ = attacked(target, listed=MADE_UP + REAL, roster=0.1)
    assert said == KEYS_ONLY
    assert not target.paid.ledger().entries


def test_where_all_logged_names_are_made_up_the_ledger_says_what_the_sum_is_worth(target: Target) -> None:
    """The limit of sums with one operator: nobody can see that the other 99 do not exist. The figure is that of the
    one share of noise that the operator cannot take off, by three ways of counting. A charge of an earlier version has
    none."""
    said, task = attacked(target, listed=MADE_UP)
    account = target.paid.account(day=0)
    assert said == WHOLE
    assert account.lifetime.epsilon == pytest.approx(0.825, abs=1e-3)
    worst = account.lifetime.epsilon_at_worst
    assert worst == account.items[0].epsilon_at_worst == pytest.approx(10.54, abs=0.01)
    release = plan_for(SETTINGS, people=100, pois=3).release(Kind.POPULARITY)
    assert worst == pytest.approx(release.cost_if_honest(1).epsilon(DELTA), rel=1e-6)
    share = noise_share(task.terms, 100).variance
    exact = epsilon_of_one_share(share, int(release.norm.units), delta=DELTA)
    assert exact <= worst <= 1.001 * exact
    (entry,) = target.paid.ledger().entries
    assert entry.charge.at_worst is not None
    assert epsilon_by_pld([Spent(entry.charge.at_worst.grains)], DELTA) == pytest.approx(worst, rel=1e-3)
    shown = str(account)
    assert "at worst" in shown
    assert f"{worst:,.1f}" in shown
    with target.person.store.transaction() as rows:
        rows.execute("DROP TRIGGER paid_is_paid")
        rows.execute("UPDATE spending SET at_worst = 0.0")
        seal_ledger(rows, day=0)
    account = target.paid.account(day=0)
    assert account.lifetime.epsilon_at_worst is None
    assert account.items[0].epsilon_at_worst is None


def test_the_status_of_a_device_says_how_many_a_sum_must_be_over(target: Target) -> None:
    attacked(target, listed=MADE_UP + REAL)
    told = status(target.person).membership
    assert told is not None
    assert (told.people, told.fewest, told.corrupt) == (1000, 500, 0.05)
    with target.person.store.transaction() as rows:
        save_floor(rows, 900)
    told = status(target.person).membership
    assert told is not None
    assert told.fewest == 900


def test_an_own_floor_is_kept_in_the_file_and_exported(tmp_path: Path) -> None:
    with Device.open(tmp_path / "phone.db") as device:
        assert (device.floor, device.export()["floor"]) == (0, None)
        device.set_floor(1000)
        device.forget()
    with Device.open(tmp_path / "phone.db") as device:
        assert (device.floor, device.export()["floor"]) == (1000, 1000)
        for wrong in (-1, 2**31):
            with pytest.raises(UsageError, match=messages.OWN_FLOOR_OUT_OF_RANGE):
                device.set_floor(wrong)
