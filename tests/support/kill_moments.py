"""Every moment of a round at which a device can die, and what must hold whatever happened."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from prirec.protocols.messages import Boxes, Keys, Masked, Partial, Receipt, Reveal, Round, ShareOf, step
from prirec.protocols.party import State
from support.device_process import value_of
from support.restarted_device import MANY, Device, Meeting, Nursery, hold
from support.rounds import DEPLOYMENT, terms_of

TERMS = {
    "double": terms_of("double", length=5),
    "pads": terms_of("pads", length=5, floor=MANY),
    "shares": terms_of("shares", length=5, floor=MANY),
}

# What a device does upon each message that it hears, in order.
LIVES = {
    "double": (
        ("ENTERED", "Keys"),
        ("Boxes",),
        ("Receipt",),
        ("MASKED", "Masked"),
        ("AGREED", "Agreement"),
        ("REVEALED", "Reveal"),
    ),
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
BEFORE_MASKING = (Keys, Boxes, Receipt)  # of which each attempt at a number has its own
FIRST = Round(DEPLOYMENT, "interaction", 1)


def of(number: int, *, attempt: int = 0) -> Round:
    return Round(DEPLOYMENT, "interaction", number, 0, attempt)


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
    done = [deed for answer in device.deeds for deed in answer]
    if device.alive or done != deeds_before(kind, moment):
        raise AssertionError(f"it was to die at moment {moment}, and did {done}")
    return device, meeting


# What must hold, whatever happened


def assert_nothing_is_used_twice(device: Device) -> None:
    """Over all lives: one set of keys a round, one vector a number, one content a box key."""
    of_round, of_number, boxes = defaultdict(set), defaultdict(set), defaultdict(set)
    keys = {one.message.round: one.message for one in device.said if isinstance(one.message, Keys)}
    for one in device.said:
        said, kind = one.message, step(type(one.message))
        of_round[kind, said.round, said.receiver].add(one.data)
        if not isinstance(said, BEFORE_MASKING):
            of_number[kind, said.round.deployment, said.round.kind, said.round.number, said.receiver].add(one.data)
        for receiver, sealed in boxes_in(said):
            boxes[said.round, said.sender, receiver, kind, keys[said.round].box_key].add(sealed)
    for seen in (of_round, of_number, boxes):
        if twice := [where for where, contents in seen.items() if len(contents) > 1]:
            raise AssertionError(f"there are two contents for one place: {twice}")
    made = [key for one in keys.values() for key in (one.mask_key, one.box_key, one.signing_key)]
    if len(set(made)) != len(made):
        raise AssertionError("there is one key for two uses")


def boxes_in(message: object) -> list[tuple[object, bytes]]:
    """Each box of a message, and for whom it is."""
    if isinstance(message, Boxes):
        return [(box.position, box.sealed) for box in message.boxes]
    return [(message.receiver, message.sealed)] if isinstance(message, Masked | Reveal | ShareOf | Partial) else []


def assert_one_attempt_is_gone_through_with(device: Device) -> None:
    """Beyond keys, boxes and receipts, all that was said at a number is of one attempt: of the one that was masked."""
    masked = device.masked()
    for one in device.said:
        if not isinstance(one.message, BEFORE_MASKING) and one.message.round != masked[one.message.round.number][1]:
            raise AssertionError(f"{one.message.round} was not masked, and something was said in it")


def assert_exact_or_closed(device: Device, meeting: Meeting) -> None:
    """The sum of exactly those whose vectors arrived, or an end without one; who was there says which."""
    inside, collector, wire = summed(device, meeting), meeting.gathering.collector, meeting.wire
    if inside is None:
        if collector.state is not State.BURNT or collector.name not in wire.aborted or wire.finished:
            raise AssertionError("a sum was opened, or the round was not given up")
        return
    if collector.state is not State.DONE or wire.aborted or wire.finished.keys() != {collector.name}:
        raise AssertionError("the round was given up, or others read the sum than those who should")
    total = np.sum([vector(device, meeting, at) for at in inside], axis=0, dtype=np.uint64)
    for found in wire.finished.values():
        if (found.total.tolist(), found.summands) != (total.tolist(), len(inside)):
            raise AssertionError("another sum was opened than that of those inside")


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
