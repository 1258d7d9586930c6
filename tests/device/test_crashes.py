"""A device is killed at every moment of a round, and started again among people who mean it no good.

The device is a process with a real journal and real entropy; the others and the collector live here, keep no journal
of what was before, and answer whatever they are asked. Whatever the device says in all its lives is kept and looked at
as a whole: no pad twice, no box key twice. No clock is asked by anyone.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from prirec.device.store import Store
from prirec.protocols.actions import Action, Persist, Send, Stage
from prirec.protocols.messages import (
    Boxes,
    Delivery,
    Keys,
    Masked,
    Partial,
    Reveal,
    Round,
    ShareOf,
    step,
)
from prirec.protocols.moves import State
from support.lives import MANY, Device, Meeting, Nursery, hold
from support.one_device import value_of
from support.rounds import DEPLOYMENT, gather, held_at, terms_of

TERMS = {
    "double, to the collector": terms_of("double", "collector", length=5),
    "double, to the members": terms_of("double", "members", length=5),
    "pads": terms_of("pads", length=5, floor=MANY),
    "shares": terms_of("shares", length=5, floor=MANY),
}

# What a device does upon each message that it hears, in order.
UNTIL_REVEALED = (
    ("ENTERED", "Keys"),
    ("Boxes",),
    ("MASKED", "Masked"),
    ("AGREED", "Agreement"),
    ("REVEALED", "Reveal"),
)
LIVES = {
    "double, to the collector": UNTIL_REVEALED,
    "double, to the members": (*UNTIL_REVEALED, ("OPENED", "Finished")),
    "pads": (("ENTERED", "Keys"), ("MASKED", "Masked")),
    "shares": (("ENTERED", "Keys"), ("MASKED", "ShareOf", "ShareOf", "ShareOf"), (), (), ("Partial",)),
}


def moments(kind: str) -> list[str]:
    """The names of the moments at which a device can die: before each deed, and after the last one of each answer."""
    names = []
    for answer in LIVES[kind]:
        names += [f"{done} done, {deed} not" for done, deed in zip(("nothing", *answer), answer, strict=False)]
        names.append(f"{answer[-1]} done" if answer else "heard, nothing to do")
    return names


DEATHS = [pytest.param(kind, at, id=f"{kind}: {at} {name}") for kind in LIVES for at, name in enumerate(moments(kind))]
EVERYONE = set(range(MANY))
FIRST = Round(DEPLOYMENT, "linear", 1)


def of(number: int, *, attempt: int = 0) -> Round:
    return Round(DEPLOYMENT, "linear", number, 0, attempt)


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as opened:
        yield opened


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where there is such a place: a kill takes the process and leaves the system, which keeps what it was
    given, so a disk would only make it slower."""
    memory = Path("/dev/shm")  # noqa: S108
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        yield Path(made)


# What must hold, whatever happened


def assert_nothing_is_used_twice(device: Device) -> None:
    """Over all lives: one set of keys a round, one vector a number, one content a box key."""
    of_round, of_number, boxes = defaultdict(set), defaultdict(set), defaultdict(set)
    keys = {one.message.round: one.message for one in device.said if isinstance(one.message, Keys)}
    for one in device.said:
        said, kind = one.message, step(type(one.message))
        of_round[kind, said.round, said.receiver].add(one.data)
        if not isinstance(said, Keys | Boxes):
            of_number[kind, said.round.deployment, said.round.kind, said.round.number, said.receiver].add(one.data)
        for receiver, sealed in boxes_in(said):
            boxes[said.round, said.sender, receiver, kind, keys[said.round].box_key].add(sealed)
    for seen in (of_round, of_number, boxes):
        assert [where for where, contents in seen.items() if len(contents) > 1] == []
    made = [key for one in keys.values() for key in (one.mask_key, one.box_key, one.signing_key)]
    assert len(set(made)) == len(made)


def boxes_in(message: object) -> list[tuple[object, bytes]]:
    """Each box of a message, and for whom it is."""
    if isinstance(message, Boxes):
        return [(box.position, box.sealed) for box in message.boxes]
    return [(message.receiver, message.sealed)] if isinstance(message, Masked | Reveal | ShareOf | Partial) else []


def assert_one_attempt_is_gone_through_with(device: Device) -> None:
    """Beyond keys and boxes, everything that was said at a number is of one attempt: of the one that was masked."""
    masked = device.masked()
    for one in device.said:
        if not isinstance(one.message, Keys | Boxes):
            assert one.message.round == masked[one.message.round.number][1]


def assert_exact_or_closed(device: Device, meeting: Meeting) -> None:
    """The sum of exactly those whose vectors arrived, or an end without one; who was there says which."""
    inside, collector = summed(device, meeting), meeting.gathering.collector
    if inside is None:
        assert collector.state is State.BURNT
        assert collector.name in meeting.wire.aborted
        assert meeting.wire.finished == {}
        return
    assert collector.state is State.DONE
    assert meeting.wire.aborted == {}
    others = set(meeting.gathering.names) - {device.name}
    readers = others if device.terms.opening == "members" else {collector.name}
    assert meeting.wire.finished.keys() - {device.name} == readers
    total = np.sum([vector(device, meeting, at) for at in inside], axis=0, dtype=np.uint64)
    for found in meeting.wire.finished.values():
        assert (found.total.tolist(), found.summands) == (total.tolist(), len(inside))


def summed(device: Device, meeting: Meeting) -> set[int] | None:
    """Who must be in the sum. Double masks bear the loss of one, whenever; the others bear none."""
    arrived = meeting.senders(Partial if device.terms.method == "shares" else Masked)
    return arrived if device.terms.method == "double" or arrived == EVERYONE else None


def vector(device: Device, meeting: Meeting, at: int) -> np.ndarray:
    if at != device.at:
        return np.asarray(meeting.gathering.values[at])
    life, of = device.masked()[meeting.gathering.task.round.number]
    return value_of(life, of, device.terms)


def held_round(device: Device, of: Round) -> Meeting:
    """A round with all that must hold of it and of what the device ever said."""
    meeting = hold(device, of)
    assert_exact_or_closed(device, meeting)
    assert_nothing_is_used_twice(device)
    assert_one_attempt_is_gone_through_with(device)
    return meeting


# What a clumsy or hostile server tries


def invite(device: Device, of: Round) -> None:
    """The device takes part where it may, the sum then being exact and with it; where it may not it says nothing."""
    may, before = device.may_enter(of), len(device.said)
    meeting = held_round(device, of)
    assert (device.at in meeting.senders(Keys)) == may
    assert (device.at in (summed(device, meeting) or ())) == may
    if not may:
        assert device.said[before:] == []


def resume(device: Device) -> None:
    """A masked vector, bit for bit, as long as nothing came after it; and of everything else nothing."""
    for number, attempt in [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (3, 0)]:
        wanted = of(number, attempt=attempt)
        last = [(one, stage) for _, one, stage in device.wrote if one.number == number][-1:]
        kept = last == [(wanted, Stage.MASKED)] and device.terms.method != "shares"
        before, told = len(device.said), device.resume(wanted) + device.resume(wanted)
        assert (len(told), len({one.data for one in device.said[before:]})) == ((2, 1) if kept else (0, 0))
    assert_nothing_is_used_twice(device)


def replay(device: Device) -> None:
    """All that it ever heard. At most an invitation that never was written down is answered, with keys."""
    before = len(device.said)
    device.replay()
    known = {one.data for one in device.said[:before]}
    assert {type(one.message) for one in device.said[before:] if one.data not in known} <= {Keys}
    assert_nothing_is_used_twice(device)
    assert_one_attempt_is_gone_through_with(device)


def again(device: Device) -> None:
    invite(device, of(1))


def higher_attempts(device: Device) -> None:
    for attempt in (1, 2):
        invite(device, of(1, attempt=attempt))


def next_number(device: Device) -> None:
    invite(device, of(max((one.number for one in device.entered()), default=0) + 1))


def skipped_number(device: Device) -> None:
    """One that the device was not asked to, until after the one that follows."""
    last = max((one.number for one in device.entered()), default=0)
    for number in (last + 2, last + 1):
        invite(device, of(number))


def restart(device: Device) -> None:
    device.start()


Trick = Callable[[Device], None]
SHORT: tuple[Trick, ...] = (resume, replay, again, higher_attempts, next_number)
LONG: dict[str, tuple[Trick, ...]] = {
    "the invitation again": (again, again, higher_attempts, next_number, again, resume, replay, next_number),
    "a higher attempt": (higher_attempts, resume, replay, restart, higher_attempts, again, next_number),
    "the next number": (next_number, again, higher_attempts, skipped_number, restart, again, replay, next_number),
    "a replay": (replay, replay, restart, replay, higher_attempts, replay, next_number, replay, next_number),
    "what was sent": (resume, restart, resume, higher_attempts, restart, resume, next_number, restart, resume, replay),
}


# The kills


def deeds_before(kind: str, moment: int) -> list[str]:
    """What was done when a device died at this moment."""
    done: list[str] = []
    for answer in LIVES[kind]:
        if moment <= len(answer):
            return done + list(answer[:moment])
        done, moment = done + list(answer), moment - len(answer) - 1
    raise IndexError(moment)


def dead(nursery: Nursery, folder: Path, kind: str, moment: int, *, at: int = 1) -> tuple[Device, Meeting]:
    """A device that died at this moment of its first round, and that round."""
    device = Device(nursery, folder / "journal", TERMS[kind], at=at)
    device.start(dies_at=moment)
    meeting = held_round(device, FIRST)
    assert not device.alive
    assert [deed for answer in device.deeds for deed in answer] == deeds_before(kind, moment)
    return device, meeting


@pytest.mark.parametrize("kind", LIVES)
def test_the_table_of_moments_leaves_none_out(nursery: Nursery, folder: Path, kind: str) -> None:
    device = Device(nursery, folder / "journal", TERMS[kind], at=1)
    device.start()
    assert summed(device, held_round(device, FIRST)) == EVERYONE
    assert tuple(map(tuple, device.deeds)) == LIVES[kind]


@pytest.mark.parametrize(("kind", "moment"), DEATHS)
def test_the_others_get_the_sum_of_what_arrived_or_none(nursery: Nursery, folder: Path, kind: str, moment: int) -> None:
    device, meeting = dead(nursery, folder, kind, moment)
    done = deeds_before(kind, moment)
    arrived = ("Partial" if kind == "shares" else "Masked") in done
    without = EVERYONE - {1} if device.terms.method == "double" else None
    assert summed(device, meeting) == (EVERYONE if arrived else without)
    stages = [Stage[deed] for deed in done if deed in Stage.__members__]
    with Store.open(device.journal) as store:
        entry = store.entry(FIRST)
    assert (entry is None) == (not stages)
    if entry is not None:
        assert (entry.round, entry.stage, entry.masked) == (FIRST, stages[-1], Stage.MASKED in stages)


@pytest.mark.parametrize(("kind", "moment"), DEATHS)
def test_after_a_restart_a_number_is_open_until_it_was_masked_and_the_next_always(
    nursery: Nursery, folder: Path, kind: str, moment: int
) -> None:
    device, _ = dead(nursery, folder, kind, moment)
    done = deeds_before(kind, moment)
    for attempt, takes_part in ((0, "ENTERED" not in done), (1, "ENTERED" in done and "MASKED" not in done)):
        device.start()
        meeting = held_round(device, of(1, attempt=attempt))
        assert (1 in meeting.senders(Keys)) == takes_part
        assert (1 in (summed(device, meeting) or ())) == takes_part
    device.start()
    assert summed(device, held_round(device, of(2))) == EVERYONE


@pytest.mark.parametrize(("kind", "moment"), DEATHS)
def test_a_device_that_comes_back_at_once_sends_its_vector_again_and_nothing_else(
    nursery: Nursery, folder: Path, kind: str, moment: int
) -> None:
    device = Device(nursery, folder / "journal", TERMS[kind], at=1, returns=True)
    device.start(dies_at=moment)
    meeting = held_round(device, FIRST)
    done = deeds_before(kind, moment)
    kept = kind != "shares" and [deed for deed in done if deed in Stage.__members__][-1:] == ["MASKED"]
    assert device.life == 2
    if "ENTERED" in done:
        repeated = [(type(one.message), one.again) for one in device.said if one.life == 2]
        assert repeated == [(Masked, True)] * kept
        assert (1 in meeting.senders(Masked)) == ("Masked" in done or kept)
    else:  # nothing was known of the round, so its invitation is like any other
        assert summed(device, meeting) == EVERYONE


@pytest.mark.parametrize(("kind", "moment"), DEATHS)
def test_nothing_is_used_twice_whatever_is_tried_after_a_crash(
    nursery: Nursery, folder: Path, kind: str, moment: int
) -> None:
    device, _ = dead(nursery, folder, kind, moment)
    device.start()
    for trick in SHORT:
        trick(device)


@pytest.mark.soak
@pytest.mark.parametrize("at", range(MANY))
@pytest.mark.parametrize("order", LONG)
@pytest.mark.parametrize(("kind", "moment"), DEATHS)
def test_nothing_is_used_twice_in_whatever_order_it_is_tried(
    nursery: Nursery, folder: Path, kind: str, moment: int, order: str, at: int
) -> None:
    device, _ = dead(nursery, folder, kind, moment, at=at)
    device.start()
    for trick in LONG[order]:
        trick(device)


def wander(device: Device, rng: np.random.Generator) -> None:
    """A life at random: rounds old and new, replays, and deaths at any moment of any of them."""
    for _ in range(12):
        if not device.alive or rng.random() < 0.2:
            device.start(dies_at=int(rng.integers(0, 20)) if rng.random() < 0.8 else None)
        number, attempt = max(1, len(device.masked()) + int(rng.integers(-1, 2))), int(rng.integers(0, 3))
        wanted, before = of(number, attempt=attempt), len(device.said)
        match rng.choice(["round", "round", "round", "resume", "replay"]):
            case "round":
                may = device.may_enter(wanted)
                held_round(device, wanted)
                assert may or all(one.again for one in device.said[before:])
            case "resume":
                device.resume(wanted)
            case _:
                device.replay()
        assert_nothing_is_used_twice(device)
        assert_one_attempt_is_gone_through_with(device)
    device.start()
    skipped_number(device)
    next_number(device)


@pytest.mark.parametrize("returns", [False, True], ids=["stays away", "comes back at once"])
@pytest.mark.parametrize("kind", LIVES)
def test_nothing_is_used_twice_in_a_life_of_many_deaths(
    nursery: Nursery, folder: Path, kind: str, returns: bool
) -> None:
    device = Device(nursery, folder / "journal", TERMS[kind], at=1, returns=returns)
    wander(device, np.random.default_rng([list(LIVES).index(kind), returns]))
    assert device.life > 2


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100))
@pytest.mark.parametrize("kind", LIVES)
def test_nothing_is_used_twice_in_many_lives_of_many_deaths(
    nursery: Nursery, folder: Path, kind: str, seed: int
) -> None:
    device = Device(nursery, folder / "journal", TERMS[kind], at=seed % MANY, returns=seed % 3 == 0)
    wander(device, np.random.default_rng([list(LIVES).index(kind), seed, 1]))


# A write that fails is a crash that the party does not notice


def carry_out(actions: Iterable[Action], store: Store) -> list[object]:
    """What is sent."""
    sent: list[object] = []
    for action in actions:
        if isinstance(action, Persist):
            store.write(action)
        elif isinstance(action, Send):
            sent.append(action.message)
    return sent


def test_a_vector_that_could_not_be_written_is_not_sent_when_its_cause_comes_again(folder: Path) -> None:
    """The disk was full for a moment, the driver kept the party, and the server repeats itself."""
    gathering = gather(MANY, TERMS["double, to the collector"], of=FIRST)
    device, delivery = gathering.members[1], held_at(gathering, Delivery)[1]
    with Store.open(folder / "journal") as store:
        store.write(gathering.journals[device.name].written[0])  # that it entered
        device.receive(delivery)  # the write that this asks for fails, so nothing after it is done
        sent = carry_out(device.receive(delivery), store)
        entry = store.entry(FIRST)
        assert entry is not None
        assert entry.masked or sent == []
