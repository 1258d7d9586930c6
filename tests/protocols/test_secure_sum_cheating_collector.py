"""A collector that cheats in its words to one device: the device refuses before anything private leaves."""

from collections.abc import Callable
from typing import Any

import pytest

from prirec.errors import Fault
from prirec.protocols.codec import bitmap
from prirec.protocols.messages import (
    COMMITMENT,
    VERSION,
    Agreements,
    Box,
    Boxes,
    Delivery,
    Invitation,
    Participants,
    Receipt,
    Revealed,
    Roster,
    Secrets,
    Signed,
    Survivors,
    Vector,
)
from prirec.protocols.party import State
from prirec.protocols.roster import fewest_survivors, graph_for
from support.cheating import DEFAULT, delivered, told, without
from support.rounds import OTHER_MODEL, OUTSIDER, altered, gather, held_at, refusal, sends, terms_of

# Deliveries


def receipt(member: Any, delivery: Delivery) -> tuple[int, ...]:
    """Whose boxes a member says that it cannot use."""
    (sent,) = sends(member.receive(delivery))
    assert isinstance(sent, Receipt)
    return sent.unusable


def test_boxes_that_were_exchanged_are_unusable() -> None:
    _, member, true = delivered()
    first, second, *rest = true.boxes
    swapped = (Box(first.position, second.sealed), Box(second.position, first.sealed), *rest)
    assert receipt(member, altered(true, boxes=swapped)) == (first.position, second.position)


def test_a_box_for_somebody_else_is_unusable() -> None:
    gathering = gather(4, DEFAULT)
    mine, other, *_ = held_at(gathering, Delivery)
    boxes = {box.position: box.sealed for box in other.boxes}
    moved = tuple(Box(box.position, boxes.get(box.position, box.sealed)) for box in mine.boxes)
    assert receipt(gathering.members[0], altered(mine, boxes=moved)) == (2, 3)


def test_shares_under_other_commitments_are_unusable() -> None:
    for at, n in ((0, 0), (COMMITMENT, 0), (2 * COMMITMENT, 1), (5 * COMMITMENT, 2)):
        _, member, true = delivered()
        spoilt = bytearray(true.commitments)
        spoilt[at] ^= 1
        assert receipt(member, altered(true, commitments=bytes(spoilt))) == (true.boxes[n].position,)


def test_boxes_of_another_round_are_unusable_and_its_signatures_end_the_round() -> None:
    of = gather(2).task.round
    other = held_at(gather(4, DEFAULT, of=altered(of, number=2)), Delivery)[0]
    _, member, true = delivered()
    assert receipt(member, altered(true, boxes=other.boxes)) == (1, 2, 3)
    _, member, true = delivered()
    assert refusal(member, altered(true, signatures=other.signatures)) is Fault.PARAMS_MISMATCH
    assert member.state is State.BURNT


def test_signatures_that_were_exchanged_end_the_round() -> None:
    _, member, true = delivered()
    first, second, *rest = true.signatures
    swapped = (Signed(first.position, second.signature), Signed(second.position, first.signature), *rest)
    assert refusal(member, altered(true, signatures=swapped)) is Fault.PARAMS_MISMATCH
    assert member.state is State.BURNT


@pytest.mark.parametrize(
    "change",
    [
        lambda d: {"boxes": d.boxes[1:]},
        lambda d: {"boxes": d.boxes[::-1]},
        lambda d: {"signatures": d.signatures[1:]},
        lambda d: {"commitments": d.commitments[1:]},
        lambda d: {"commitments": d.commitments + bytes(2 * COMMITMENT)},
        lambda d: {"boxes": (*d.boxes, Box(0, b""))},
        lambda d: {"boxes": d.boxes * 2, "signatures": d.signatures * 2, "commitments": d.commitments * 2},
        lambda d: {"signatures": (*d.signatures, Signed(0, bytes(64)))},
        lambda d: {
            "boxes": (*d.boxes, Box(99, b"")),
            "signatures": (*d.signatures, Signed(99, bytes(64))),
            "commitments": d.commitments + bytes(2 * COMMITMENT),
        },
    ],
)
def test_a_delivery_of_which_the_parts_do_not_fit_together_is_refused(
    change: Callable[[Delivery], dict[str, Any]],
) -> None:
    _, member, true = delivered()
    assert refusal(member, altered(true, **change(true))) is Fault.PARAMS_MISMATCH
    assert member.state is State.SHARING
    assert receipt(member, true) == ()


@pytest.mark.parametrize("content", [Vector(bytes(8)), Secrets(bytes(36), bytes(36)), Revealed((), ())])
def test_a_box_with_something_else_inside_is_unusable(content: Any) -> None:
    gathering, member, true = delivered()
    owner: Any = gathering.members[1]
    sealed = owner.seal(gathering.names[0], Boxes, content)
    boxes = tuple(Box(box.position, sealed if box.position == 1 else box.sealed) for box in true.boxes)
    assert receipt(member, altered(true, boxes=boxes)) == (1,)


# Participants


@pytest.mark.parametrize("who", [{1, 2, 3}, set()])
def test_participants_without_this_device_are_refused(who: set[int]) -> None:
    _, member, true = told()
    assert refusal(member, altered(true, participants=bitmap(who, size=4))) is Fault.PARAMS_MISMATCH
    assert member.state is State.RECEIVED
    assert sends(member.receive(true))


def test_a_participant_that_signed_no_statement_is_refused() -> None:
    gathering, member, delivery = delivered()
    two = {"boxes": delivery.boxes[1:], "signatures": delivery.signatures[1:]}
    assert receipt(member, altered(delivery, **two, commitments=delivery.commitments[2 * COMMITMENT :])) == ()
    everyone = Participants(VERSION, member.round, gathering.collector.name, member.name, b"\x0f")
    assert refusal(member, everyone) is Fault.PARAMS_MISMATCH
    assert sends(member.receive(altered(everyone, participants=b"\x0d")))


def test_a_bitmap_of_another_length_is_refused() -> None:
    _, member, true = told()
    for bits in (b"", b"\x0f\0", b"\x1f", b"\xff", bytes(100)):
        assert refusal(member, altered(true, participants=bits)) is Fault.DECODE


def test_participants_among_whom_too_few_hold_the_own_secrets_end_the_round() -> None:
    """The fewest survivors would do, but fewer than t hold shares of what this device shared."""
    few = graph_for(DEFAULT, 5).threshold - 1
    assert few >= fewest_survivors(DEFAULT, 5)
    _, member, true = told(many=5)
    assert refusal(member, altered(true, participants=bitmap(range(few), size=5))) is Fault.ABORTED
    assert member.state is State.BURNT


def test_too_few_participants_end_the_round() -> None:
    _, member, true = told(terms_of("double", lost=0))
    assert refusal(member, without(3, true, many=4)) is Fault.ABORTED
    assert member.state is State.BURNT


# Every step, once more


@pytest.mark.parametrize("kind", [Invitation, Roster, Delivery, Participants, Survivors, Agreements])
def test_what_comes_from_anybody_but_the_collector_is_refused(kind: Any) -> None:
    gathering = gather(4, DEFAULT)
    true = held_at(gathering, kind)[0]
    member = gathering.members[0]
    for sender in (OUTSIDER.public, gathering.names[1], member.name):
        assert refusal(member, altered(true, sender=sender)) is Fault.AUTH
    assert member.receive(true)


@pytest.mark.parametrize("kind", [Invitation, Roster, Delivery, Participants, Survivors, Agreements])
def test_a_second_different_message_burns_the_round(kind: Any) -> None:
    gathering = gather(4, DEFAULT)
    true = held_at(gathering, kind)[0]
    member = gathering.members[0]
    member.receive(true)
    change = {
        Invitation: {"model": OTHER_MODEL},
        Roster: {"root": bytes(32)},
        Delivery: {"boxes": ()},
        Participants: {"participants": b"\x07"},
        Survivors: {"survivors": b"\x07"},
        Agreements: {"signatures": ()},
    }[kind]
    assert refusal(member, altered(true, **change)) is Fault.EQUIVOCATION
    assert member.state is State.BURNT
    for again in (altered(true, **change), altered(true, sender=OUTSIDER.public)):
        assert refusal(member, again) is Fault.ORDER


def test_a_member_takes_no_message_of_its_own_side() -> None:
    gathering = gather(4, DEFAULT)
    boxes = held_at(gathering, Boxes)[0]
    assert refusal(gathering.members[0], altered(boxes, receiver=gathering.names[0])) is Fault.ORDER
