"""A device that was killed is started again among people who mean it no good, and no pad or box key is used twice.

The device is a process with a real journal and real entropy; the others and the collector live here, keep no journal
of what was before, and answer whatever they are asked. Whatever the device says in all its lives is kept and looked at
as a whole: no pad twice, no box key twice. No clock is asked by anyone.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from prirec.protocols.messages import Keys, Round
from prirec.protocols.party import Stage
from support.kill_moments import (
    DEATHS,
    LIVES,
    TERMS,
    assert_nothing_is_used_twice,
    assert_one_attempt_is_gone_through_with,
    dead,
    held_round,
    of,
    summed,
)
from support.restarted_device import MANY, Device, Nursery

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


# After one death


@pytest.mark.parametrize(("kind", "moment"), DEATHS)
def test_no_pad_is_used_twice_whatever_is_tried_after_a_crash(
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
def test_no_pad_is_used_twice_in_whatever_order_steps_are_tried(
    nursery: Nursery, folder: Path, kind: str, moment: int, order: str, at: int
) -> None:
    device, _ = dead(nursery, folder, kind, moment, at=at)
    device.start()
    for trick in LONG[order]:
        trick(device)


# In a life of many deaths


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
def test_no_pad_is_used_twice_over_many_crashes(nursery: Nursery, folder: Path, kind: str, returns: bool) -> None:
    device = Device(nursery, folder / "journal", TERMS[kind], at=1, returns=returns)
    wander(device, np.random.default_rng([list(LIVES).index(kind), returns]))
    assert device.life > 2


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100))
@pytest.mark.parametrize("kind", LIVES)
def test_no_pad_is_used_twice_over_many_runs_of_many_crashes(
    nursery: Nursery, folder: Path, kind: str, seed: int
) -> None:
    device = Device(nursery, folder / "journal", TERMS[kind], at=seed % MANY, returns=seed % 3 == 0)
    wander(device, np.random.default_rng([list(LIVES).index(kind), seed, 1]))
