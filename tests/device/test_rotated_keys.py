"""A device follows rotations of the operators' keys: by an entry of the log that the old key, the new key and the other
operator have signed, and by nothing less."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from prirec.device.agent import AgentNews
from prirec.device.device import status
from prirec.device.store import Store, load_membership
from prirec.device.sync import View, catch_up
from prirec.errors import PeerError
from prirec.sharing.keys import SigningKey
from prirec.wire.documents import Head, Names, Rotation
from prirec.wire.rotations import Operators
from support import messages
from support.dishonest_operators import HELPER, Dishonest2, charged, steps, target_of
from support.dishonest_recommender import DEPLOYMENT, OTHERS, TARGET, Dishonest, Target, Wire
from support.fault_injection import FEW
from support.low_floors import low_floor

NEW, NEWER, STRANGER = (SigningKey(bytes([at]) * 32) for at in (21, 22, 23))
ROLES = ("recommender", "helper")


@pytest.fixture(autouse=True)
def _few_people(monkeypatch: pytest.MonkeyPatch) -> None:
    low_floor(monkeypatch, FEW)


def in_a_deployment(tmp_path: Path) -> tuple[Dishonest2, Target]:
    """That it is listed in; there is no campaign yet."""
    recommender = Dishonest2()
    recommender.offer()
    recommender.join()
    target = target_of(recommender, tmp_path / "device", visits=("a", "c"))
    assert steps(target) == []
    return recommender, target


@pytest.mark.parametrize("role", ROLES)
def test_a_device_pins_the_new_key_from_its_entry_on_and_reports_in_the_campaigns_after_it(
    tmp_path: Path, role: Any
) -> None:
    recommender, target = in_a_deployment(tmp_path)
    news = AgentNews(target.agent)
    before = View.of(target.person).member.operators
    recommender.rotate(role, NEW)
    assert steps(target) == []
    assert [words for words in news.news() if NEW.public.hex() in words]
    member = View.of(target.person).member
    assert (member.operators.of(role), member.operators.first) == (NEW.public, before)
    found = status(target.person).membership
    assert found is not None
    (rotated,) = found.rotated
    assert (rotated.operator, rotated.old, rotated.new) == (role, before.of(role).hex(), NEW.public.hex())
    assert NEW.public.hex() in (found.recommender_key, found.helper_key)
    campaign = recommender.begun()
    recommender.window(campaign)
    assert len(steps(target)) == 1
    with Store.open(target.person.store.path) as again, again.reading() as rows:  # as it is on the disk
        assert load_membership(rows) == View.of(target.person).member


def test_keys_are_rotated_again_and_again_also_while_the_device_is_away(tmp_path: Path) -> None:
    recommender, target = in_a_deployment(tmp_path)
    for role, key in zip((*ROLES, *ROLES), range(30, 34), strict=True):
        recommender.rotate(role, SigningKey(bytes([key]) * 32))
        recommender.say("joined", Names((bytes([key]) * 32,)))
    assert steps(target) == []
    assert View.of(target.person).member.operators == recommender.operators
    assert View.of(target.person).member.head == recommender.head


FORGED: dict[str, dict[str, Any]] = {
    "not signed by the old key": {"by_old": STRANGER},
    "not signed by the new key": {"by_new": STRANGER},
    "not signed by the other operator": {"by_peer": STRANGER},
    "of another role": {"role": "helper"},
    "of another deployment": {"deployment": bytes(16)},
    "of another place among rotations": {"number": 1},
    "from another key": {"old": NEWER.public, "by_old": NEWER},
}


@pytest.mark.parametrize("forgery", FORGED)
def test_a_rotation_that_lacks_anything_is_not_followed(tmp_path: Path, forgery: str) -> None:
    recommender, target = in_a_deployment(tmp_path)
    known = View.of(target.person).member
    signing = {"by_old": recommender.identity, "by_peer": HELPER}
    recommender.say("rotation", recommender.rotation("recommender", NEW, **signing | FORGED[forgery]))
    recommender.identity = NEW
    recommender.say("joined", Names((bytes(32),)))
    with pytest.raises(PeerError, match=messages.any_of(messages.AUTH, messages.EQUIVOCATION)):
        steps(target)
    assert View.of(target.person).member == known


def test_a_rotation_without_the_other_operators_signature_is_not_followed(tmp_path: Path) -> None:
    recommender, target = in_a_deployment(tmp_path)
    said = msgspec.structs.replace(recommender.rotation("recommender", NEW), by_peer=b"")
    recommender.say("rotation", said)
    with pytest.raises(PeerError, match=messages.AUTH):
        steps(target)


def test_a_rotation_at_a_time_that_is_no_date_is_not_followed_since_nobody_could_show_it(tmp_path: Path) -> None:
    recommender, target = in_a_deployment(tmp_path)
    known = View.of(target.person).member
    recommender.say("rotation", recommender.rotation("recommender", NEW, time=2**37))
    with pytest.raises(PeerError, match=messages.DECODE):
        steps(target)
    assert View.of(target.person).member == known


def test_a_rotation_is_not_said_a_second_time_nor_leads_to_a_key_that_was_in_force(tmp_path: Path) -> None:
    recommender, target = in_a_deployment(tmp_path)
    old = recommender.identity
    first = recommender.rotation("recommender", NEW)
    recommender.rotate("recommender", NEW)
    assert steps(target) == []
    entries, head = list(recommender.entries), recommender.head
    for said in (first, recommender.rotation("recommender", old), recommender.rotation("recommender", HELPER)):
        recommender.entries, recommender.head = list(entries), head
        recommender.say("rotation", said)
        with pytest.raises(PeerError, match=messages.EQUIVOCATION):
            steps(target)
    assert View.of(target.person).member.head == head


def test_an_old_key_signs_nothing_any_more(tmp_path: Path) -> None:
    """Whoever has stolen it can neither go on with the log nor sign a head."""
    recommender, target = in_a_deployment(tmp_path)
    old = recommender.identity
    recommender.rotate("recommender", NEW)
    recommender.rotate("helper", NEWER)
    assert steps(target) == []
    known = View.of(target.person).member
    recommender.held_back = recommender.head.cosigned(deployment=DEPLOYMENT, time=recommender.now + 1, identity=HELPER)
    with pytest.raises(PeerError, match=messages.KEY_OR_SIGNATURE_INVALID):
        asyncio.run(catch_up(target.person, target.line))
    recommender.held_back, recommender.identity = None, old
    recommender.say("joined", Names((bytes(32),)))
    with pytest.raises(PeerError, match=messages.KEY_OR_SIGNATURE_INVALID):
        steps(target)
    assert View.of(target.person).member == known


def test_a_new_key_signs_nothing_before_its_entry(tmp_path: Path) -> None:
    recommender, target = in_a_deployment(tmp_path)
    recommender.held_back = recommender.head.cosigned(deployment=DEPLOYMENT, time=recommender.now + 1, identity=NEW)
    recommender.rotate("helper", NEW)
    with pytest.raises(PeerError, match=messages.KEY_OR_SIGNATURE_INVALID):
        steps(target)


def test_a_campaign_of_a_key_that_is_out_of_force_is_over(tmp_path: Path) -> None:
    """Its charter names the old key, whoever publishes windows of it."""
    recommender, target = in_a_deployment(tmp_path)
    campaign = recommender.begun()
    recommender.rotate("helper", NEW)
    recommender.window(campaign)
    assert steps(target) == []
    assert charged(target) == 0
    assert View.of(target.person).campaign is not None  # what it has published goes on to be used
    recommender.window(recommender.begun(campaign=2))
    assert len(steps(target)) == 1


def test_a_report_that_has_not_arrived_when_a_key_is_rotated_is_erased(tmp_path: Path) -> None:
    recommender, target = in_a_deployment(tmp_path)
    recommender.window(recommender.begun())
    target.line.refusing = ConnectionError()
    with pytest.raises(ConnectionError):
        steps(target)
    assert target.person.store.pending()
    recommender.rotate("recommender", NEW)
    target.line.refusing = None
    before = len(target.line.reports)
    steps(target)
    assert (target.person.store.pending(), len(target.line.reports)) == ([], before)
    assert charged(target) == 1


# A device that joins later


def newcomer(recommender: Dishonest2, path: Path, **changes: Any) -> Target:
    """It has pinned the keys of now, and learnt of all rotations."""
    now = recommender.operators
    return target_of(recommender, path, **({"helper": now.helper, "rotations": now.rotations} | changes))


def test_a_device_that_joins_with_the_new_keys_verifies_the_log_from_its_first_entry_on(tmp_path: Path) -> None:
    recommender, old = in_a_deployment(tmp_path)
    recommender.rotate("recommender", NEW)
    recommender.rotate("helper", NEWER)
    recommender.window(recommender.begun())
    target = newcomer(recommender, tmp_path / "new")
    assert len(steps(target)) == len(steps(old)) == 1
    assert View.of(target.person).member.operators == View.of(old.person).member.operators
    assert View.of(target.person).member.head == recommender.head


def test_a_rotation_between_joining_and_the_first_look_at_the_log_is_followed(tmp_path: Path) -> None:
    recommender, _ = in_a_deployment(tmp_path)
    recommender.rotate("recommender", NEW)
    target = newcomer(recommender, tmp_path / "new")
    recommender.rotate("helper", NEWER)
    steps(target)
    assert View.of(target.person).member.operators == recommender.operators


def test_a_log_that_lacks_a_rotation_that_led_to_the_pinned_keys_is_another_one(tmp_path: Path) -> None:
    recommender, _ = in_a_deployment(tmp_path)
    recommender.rotate("recommender", NEW)
    target = newcomer(recommender, tmp_path / "new")
    recommender.identity = Dishonest2().identity
    recommender.set_back(to=len(recommender.entries) - 1)
    with pytest.raises(PeerError, match=messages.EQUIVOCATION):
        steps(target)


@pytest.mark.parametrize("drop", [0, 1])
def test_the_keys_of_who_joins_are_those_that_all_rotations_lead_to(tmp_path: Path, drop: int) -> None:
    recommender, _ = in_a_deployment(tmp_path)
    for role, key in (("recommender", NEW), ("recommender", NEWER)):
        recommender.rotate(role, key)  # type: ignore[arg-type]
    now = recommender.operators
    now.check(deployment=DEPLOYMENT)
    some = tuple(one for at, one in enumerate(now.rotations) if at != drop)
    for rotations in (some, now.rotations[::-1], (*now.rotations, now.rotations[-1])):
        with pytest.raises(PeerError, match=messages.EQUIVOCATION):
            Operators(now.recommender, now.helper, rotations).check(deployment=DEPLOYMENT)
    with pytest.raises(PeerError, match=messages.EQUIVOCATION):
        Operators(STRANGER.public, now.helper, now.rotations).check(deployment=DEPLOYMENT)


def test_with_one_operator_the_old_and_the_new_key_sign(tmp_path: Path) -> None:
    recommender = Dishonest()
    target = Target.of(recommender, tmp_path / "device")
    recommender.offer()
    now = Operators(recommender.identity.public, b"")
    change = now.change("recommender", NEW.public, deployment=DEPLOYMENT, time=7)
    said = msgspec.msgpack.encode(change)
    recommender.say("rotation", Rotation(change, recommender.identity.sign(said), NEW.sign(said), b""))
    recommender.identity = NEW
    recommender.rounds()
    view = asyncio.run(catch_up(target.person, Wire(recommender)))
    assert (view.member.recommender, view.takes_part, view.in_force) == (NEW.public, True, True)
    assert view.member.head == recommender.head != Head()
    assert TARGET.public in view.names
    assert OTHERS[0].public in view.names
