"""An operator's key is rotated between campaigns, by an entry that three keys sign; and what becomes of it when
somebody dies, is away, or lies."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from prirec.errors import Fault, PeerError, PolicyError, StateError, UsageError
from prirec.protocols.codec import encode
from prirec.protocols.messages import VERSION, GivenUp, Round
from prirec.protocols.party import Stage
from prirec.recommender import operator, rotation
from prirec.recommender.database import back_up
from prirec.recommender.operator import end_campaign, sign_entries
from prirec.recommender.peer import HelperAwayError
from prirec.recommender.recommender import Helper
from prirec.recommender.service import MessageFilter
from prirec.recommender.store import OvertakenError, Store
from prirec.sharing.keys import SigningKey
from prirec.wire.documents import Rotation, read, written
from prirec.wire.operators import AskRotation, Countersign, Countersigned, Offered
from support import messages
from support.low_floors import low_floor
from support.operator_pair import HOUR, NOW, Killed, OperatorPair, few
from support.operators_windows import WHO, assert_exact, assert_over, window

ROLES = ("recommender", "helper")


@pytest.fixture(autouse=True)
def _few_people(monkeypatch: pytest.MonkeyPatch) -> None:
    low_floor(monkeypatch, 2)


@pytest.fixture
def pair(tmp_path: Path) -> OperatorPair:
    made = OperatorPair(tmp_path)
    made.run()
    return made


def next_of(role: str) -> Callable[[int], bytes]:
    return lambda size: sha256(f"the next key of the {role}".encode()).digest()[:size]


def key_of(role: str) -> bytes:
    return SigningKey(next_of(role)(32)).public


def rotate(pair: OperatorPair, role: str) -> None:
    """All steps, as the operators' people take them; any of them may be taken again."""
    store = pair.leading if role == "recommender" else pair.helping
    if store.founding().key.public != key_of(role):
        assert rotation.rotate_key(store, now=int(pair.now), entropy=next_of(role)) == key_of(role)
    if role == "helper":
        rotation.approve_helper(pair.leading, key_of(role), peer=pair.peer)
        return
    if pair.helping.founding().peer != key_of(role):
        rotation.approve_key(pair.helping, key_of(role), now=int(pair.now))
    assert rotation.finish(pair.leading, key_of(role), peer=pair.peer)


def assert_rotated(pair: OperatorPair, *roles: str) -> None:
    """Both operators know the same keys, both have signed the log, and no old key is anywhere."""
    now = rotation.operators_of(pair.leading)
    assert rotation.operators_of(pair.helping) == now
    assert tuple(one.change.role for one in now.rotations) == roles
    assert [now.of(role) for role in roles] == [key_of(role) for role in roles]  # type: ignore[arg-type]
    now.check(deployment=pair.leading.founding().deployment)
    signed = pair.leading.cosigned()
    assert signed is not None
    signed.verify(now.helper, deployment=pair.leading.founding().deployment)
    assert signed.statement.length == pair.leading.head().length == pair.helping.head().length
    assert pair.leading.next_key() is pair.helping.next_key() is None
    assert pair.helping.approved_key() is None


@pytest.mark.parametrize("role", ROLES)
def test_campaigns_go_on_after_a_rotation_between_them_without_a_restart(pair: OperatorPair, role: str) -> None:
    pair.begin(few(iterations=1))
    for who in WHO[:3]:
        window(pair, *who)
    pair.run()
    assert_over(pair)
    old = pair.leading.founding().identity, pair.helping.founding().identity
    rotate(pair, role)
    assert_rotated(pair, role)
    mine = old[role == "helper"]
    store = pair.leading if role == "recommender" else pair.helping
    pair.leading._database.erase_deleted()
    pair.helping._database.erase_deleted()
    assert store.founding().identity != mine
    for file in pair.folder.iterdir():  # the old secret is erased, the operator's whose it was and nobody else has it
        assert mine not in file.read_bytes(), file.name
    charter = pair.begin(few(iterations=1))
    assert (charter.recommender, charter.helper) == (
        pair.leading.founding().key.public, pair.helping.founding().key.public
    )  # fmt: skip
    for who in WHO[:3]:
        assert_exact(pair, window(pair, *who), who)
    pair.run()
    assert_over(pair)


def test_both_keys_are_rotated_again_and_again(pair: OperatorPair) -> None:
    for role in (*ROLES, *ROLES):
        store = pair.leading if role == "recommender" else pair.helping
        other = sha256(role.encode() + store.founding().identity).digest()
        new = rotation.rotate_key(store, now=int(pair.now), entropy=lambda size, key=other: key[:size])
        if role == "helper":
            rotation.approve_helper(pair.leading, new, peer=pair.peer)
        else:
            rotation.approve_key(pair.helping, new, now=int(pair.now))
            assert rotation.finish(pair.leading, new, peer=pair.peer)
        pair.run()
    now = rotation.operators_of(pair.leading)
    assert now == rotation.operators_of(pair.helping)
    assert [one.change.number for one in now.rotations] == [0, 1, 2, 3]
    assert len(now.had()) == 6
    assert len(set(now.ever())) == 5
    assert rotation.operators_at(pair.leading, 0) == now.first


def test_nothing_is_rotated_during_a_campaign_since_its_charter_names_keys(pair: OperatorPair) -> None:
    rotation.rotate_key(pair.helping, now=0, entropy=next_of("helper"))
    rotation.rotate_key(pair.leading, now=0, entropy=next_of("recommender"))
    pair.begin()
    with pytest.raises(PolicyError, match=messages.ROTATED_IN_A_CAMPAIGN):
        rotation.rotate_key(pair.leading, now=0)
    with pytest.raises(PolicyError, match=messages.ROTATED_IN_A_CAMPAIGN):
        rotation.finish(pair.leading, key_of("recommender"), peer=pair.peer)
    with pytest.raises(PolicyError, match=messages.ROTATED_IN_A_CAMPAIGN):
        rotation.approve_helper(pair.leading, key_of("helper"), peer=pair.peer)


def test_a_campaign_that_was_ended_is_over_for_the_helper_too_when_a_key_is_rotated(pair: OperatorPair) -> None:
    pair.begin()
    pair.run()
    task = pair.task
    pair.post(0, 1, 2)
    pair.now += HOUR
    pair.run()  # extended, with these reports at both
    assert pair.helping.joint.stage(task.round) is Stage.ENTERED
    end_campaign(pair.leading)
    assert not pair.state(pair.helping).ended
    rotate(pair, "helper")
    assert pair.state(pair.helping).ended
    pair.run()
    assert_rotated(pair, "helper")
    assert pair.helping.joint.stage(task.round) is Stage.BURNT


def test_a_charter_that_was_made_before_a_rotation_is_not_published_after_it(
    pair: OperatorPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The helper would not sign it, and the log could not go on."""
    made = operator.make_charter

    def overtaken(*of: object, **more: object) -> object:
        rotate(pair, "helper")
        return made(*of, **more)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(operator, "make_charter", overtaken)
        with pytest.raises(OvertakenError):
            pair.begin()
    pair.begin()
    pair.run()
    assert pair.state(pair.helping).window


# The other operator's people compare the key


def test_the_helper_signs_no_key_that_its_operator_has_not_approved(pair: OperatorPair) -> None:
    new = rotation.rotate_key(pair.leading, now=0, entropy=next_of("recommender"))
    assert not rotation.finish(pair.leading, new, peer=pair.peer)
    rotation.approve_key(pair.helping, b"\7" * 32, now=0)  # another one
    assert not rotation.finish(pair.leading, new, peer=pair.peer)
    rotation.approve_key(pair.helping, new, now=0)
    assert rotation.finish(pair.leading, new, peer=pair.peer)
    assert_rotated(pair, "recommender")


def test_the_recommender_takes_no_key_of_the_helpers_but_the_one_that_its_operator_has_compared(
    pair: OperatorPair,
) -> None:
    with pytest.raises(PolicyError, match=messages.NO_SUCH_NEXT_KEY):
        rotation.approve_helper(pair.leading, b"\7" * 32, peer=pair.peer)
    rotation.rotate_key(pair.helping, now=0, entropy=next_of("helper"))
    with pytest.raises(PolicyError, match=messages.NO_SUCH_NEXT_KEY):
        rotation.approve_helper(pair.leading, b"\7" * 32, peer=pair.peer)
    assert rotation.operators_of(pair.leading).rotations == ()


def test_a_key_that_an_operator_has_or_has_had_is_not_approved(pair: OperatorPair) -> None:
    first = rotation.operators_of(pair.leading)
    rotate(pair, "recommender")
    for known in (first.recommender, first.helper, key_of("recommender")):
        with pytest.raises(UsageError, match=messages.KEY_WAS_USED):
            rotation.approve_key(pair.helping, known, now=0)
    with pytest.raises(UsageError, match=messages.NO_NEXT_KEY):
        rotation.finish(pair.leading, b"\7" * 32, peer=pair.peer)


# Lies


def signed(pair: OperatorPair, of: str, **changes: object) -> Rotation:
    """A rotation that nobody could fault, but for these changes of what is signed."""
    now, founding = rotation.operators_of(pair.leading), pair.leading.founding()
    change = now.change(of, key_of(of), deployment=founding.deployment, time=int(NOW))  # type: ignore[arg-type]
    change = msgspec.structs.replace(change, **changes)
    secrets = {one.key.public: one.key for one in (founding, pair.helping.founding())}
    secrets |= {key_of(role): SigningKey(next_of(role)(32)) for role in ROLES}
    said = encode(change)
    peer = now.peer_of(change.role)
    return Rotation(change, *(secrets[key].sign(said) for key in (change.old, change.new, peer)))


def publish(pair: OperatorPair, said: Rotation) -> None:
    """Whatever a dishonest recommender puts into its log."""
    page = written(said)
    founding = pair.leading.founding()
    pair.leading.advance(progress=None, entries=sign_entries(founding, [("rotation", page[0])]), documents=[page])


LIES = {
    "another role": {"role": "recommender"},
    "another deployment": {"deployment": bytes(16)},
    "another number": {"number": 1},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_rotation_is_the_next_of_this_deployment_and_role(pair: OperatorPair, lie: str) -> None:
    rotation.rotate_key(pair.helping, now=int(NOW), entropy=next_of("helper"))
    head = pair.helping.head()
    publish(pair, signed(pair, "helper", **LIES[lie]))
    with pytest.raises(PeerError) as refusal:
        pair.peer.follow()
    assert refusal.value.fault in (Fault.EQUIVOCATION, Fault.AUTH)
    assert pair.helping.head() == head


@pytest.mark.parametrize("without", ["by_old", "by_new", "by_peer"])
def test_each_of_the_three_signatures_counts(pair: OperatorPair, without: str) -> None:
    rotation.rotate_key(pair.helping, now=int(NOW), entropy=next_of("helper"))
    good, head = signed(pair, "helper"), pair.helping.head()
    publish(pair, msgspec.structs.replace(good, **{without: bytes(64)}))
    with pytest.raises(PeerError, match=messages.AUTH):
        pair.peer.follow()
    assert pair.helping.head() == head


def test_a_rotation_is_not_said_twice_and_does_not_lead_back(pair: OperatorPair) -> None:
    first = pair.helping.founding().key
    rotate(pair, "helper")
    entry = pair.leading.last("rotation")
    assert entry is not None
    said = read(Rotation, pair.fetch(entry.document), name=entry.document)
    publish(pair, said)
    with pytest.raises(PeerError, match=messages.EQUIVOCATION):
        pair.peer.follow()
    now = rotation.operators_of(pair.helping)
    back = now.change("helper", first.public, deployment=pair.service.deployment, time=int(NOW))
    keys = pair.helping.founding().key, first, pair.leading.founding().key
    with pytest.raises(PeerError, match=messages.EQUIVOCATION):
        now.after(Rotation(back, *(key.sign(encode(back)) for key in keys)), deployment=pair.service.deployment)


def test_the_helper_countersigns_the_recommenders_next_rotation_and_nothing_else(pair: OperatorPair) -> None:
    rotation.approve_key(pair.helping, key_of("recommender"), now=0)
    good = signed(pair, "recommender")
    assert pair.peer.ask(Countersign(good), Countersigned).signature == good.by_peer
    for wrong in (
        signed(pair, "helper"), signed(pair, "recommender", number=1),
        msgspec.structs.replace(good, by_old=bytes(64)), msgspec.structs.replace(good, by_new=bytes(64)),
    ):  # fmt: skip
        with pytest.raises(PeerError):
            pair.peer.ask(Countersign(wrong), Countersigned)
    assert pair.peer.ask(AskRotation(), Offered).rotation is None


def test_a_helper_that_was_restored_from_before_its_rotation_says_that_it_lacks_the_key(
    pair: OperatorPair, tmp_path: Path
) -> None:
    back_up(tmp_path / "helper.db", tmp_path / "copy.db")
    rotate(pair, "helper")
    pair.helping.close()
    for end in ("", "-wal", "-shm"):
        (tmp_path / f"helper.db{end}").unlink(missing_ok=True)
    Helper.restore(tmp_path / "helper.db", file=tmp_path / "copy.db")
    pair.restart_helper()
    with pytest.raises(PeerError, match=messages.AUTH):  # it does not know that key as its own
        pair.peer.follow()
    entries = pair.leading.entries(pair.helping.head().length)
    pair.helping.put([(one.entry.document, pair.fetch(one.entry.document)) for one in entries])
    with pytest.raises(StateError, match=messages.LACKS_NEXT_KEY):
        pair.service._follow(entries)


def test_a_helper_that_was_restored_from_before_two_rotations_of_the_recommenders_key_follows_once_it_is_approved_again(
    pair: OperatorPair, tmp_path: Path
) -> None:
    back_up(tmp_path / "helper.db", tmp_path / "copy.db")
    for key in (b"\7", b"\x08"):
        new = rotation.rotate_key(pair.leading, now=0, entropy=lambda size, key=key: key * size)
        rotation.approve_key(pair.helping, new, now=0)
        assert rotation.finish(pair.leading, new, peer=pair.peer)
    pair.helping.close()
    for end in ("", "-wal", "-shm"):
        (tmp_path / f"helper.db{end}").unlink(missing_ok=True)
    Helper.restore(tmp_path / "helper.db", file=tmp_path / "copy.db")
    pair.restart_helper()
    with pytest.raises(PeerError, match=messages.AUTH):
        pair.peer.follow()
    rotation.approve_key(pair.helping, new, now=0)
    pair.restart_leader()
    pair.peer.follow()
    assert rotation.operators_of(pair.helping) == rotation.operators_of(pair.leading)
    assert pair.helping.approved_key() is None


# Workers go on with the new key


def test_a_worker_looks_for_another_key_once_in_a_request_however_many_messages_are_for_somebody_else() -> None:
    keys, asked = [SigningKey(bytes([at]) * 32).public for at in (21, 22)], list[bytes]()

    def ask() -> bytes:
        asked.append(keys[min(len(asked), 1)])
        return asked[-1]

    found = MessageFilter(bytes(16), ask)
    me, of = bytes(32), Round(bytes(16), "popularity", 0)
    given = [encode(GivenUp(VERSION, of, me, receiver)) for receiver in (*keys, *[bytes([9]) * 32] * 5)]
    assert len(found.apply(given, sender=me).problems) == len(given)
    assert asked == keys


# Either dies, or is away


def test_while_the_helper_is_away_its_next_key_waits(pair: OperatorPair) -> None:
    new = rotation.rotate_key(pair.leading, now=0, entropy=next_of("recommender"))
    rotation.approve_key(pair.helping, new, now=0)
    pair.away = True
    with pytest.raises(HelperAwayError):
        rotation.finish(pair.leading, new, peer=pair.peer)
    pair.away = False
    assert rotation.rotate_key(pair.leading, now=1) == new  # the same, whenever it is asked
    rotate(pair, "recommender")
    assert_rotated(pair, "recommender")


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.long)])
def test_a_death_at_any_write_leaves_a_rotation_that_is_gone_on_with(tmp_path: Path, role: str, every: int) -> None:
    """Before and after each write of either operator; in make test some of them."""
    pair = OperatorPair(tmp_path)
    pair.run()
    pair.moment = 0
    rotate(pair, role)
    moments = pair.moment
    assert moments >= 8
    for dies in range(0, moments, every):
        folder = tmp_path / f"{dies}"
        folder.mkdir()
        pair = OperatorPair(folder)
        pair.run()
        pair.moment, pair.dies = 0, dies
        survived = 0
        while True:
            try:
                rotate(pair, role)
                break
            except (Killed, HelperAwayError):
                survived += 1
                pair.restart()
        assert survived == len(pair.deaths) == 1
        assert_rotated(pair, role)
        pair.dies = None
        pair.begin(few(iterations=1))
        assert_exact(pair, window(pair, *WHO[0]), WHO[0])
        for store in (pair.leading, pair.helping):
            store.close()


def test_with_one_operator_its_old_and_its_new_key_sign(store: Store) -> None:
    founding = operator.found_deployment(store, title="a town")
    new = rotation.rotate_key(store, now=0, entropy=next_of("recommender"))
    assert rotation.finish(store, new)
    assert rotation.finish(store, new)  # again: it is done
    now = rotation.operators_of(store)
    assert (now.first.recommender, now.recommender, now.helper) == (founding.key.public, new, b"")
    assert rotation.operators_shown(store) == now
    assert store.next_key() is None
    (said,) = now.rotations
    assert said.by_peer == b""
    with pytest.raises(PeerError, match=messages.EQUIVOCATION):
        now.first.after(msgspec.structs.replace(said, by_peer=bytes(64)), deployment=founding.deployment)
