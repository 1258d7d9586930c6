"""A collector that cheats in its words to one device: the device refuses before anything private leaves."""

from collections.abc import Callable
from typing import Any

import pytest

from prirec.errors import Fault, PeerError
from prirec.protocols.codec import bitmap
from prirec.protocols.messages import (
    COMMITMENT,
    VERSION,
    Agreements,
    Box,
    Boxes,
    Delivery,
    Invitation,
    Opened,
    Participants,
    Receipt,
    Roster,
    Secrets,
    Signed,
    Survivors,
    Vector,
)
from prirec.protocols.party import Finished, State
from prirec.protocols.roster import fewest_survivors, graph_for
from support import messages
from support.cheating import MEMBERS, delivered, told, without
from support.rounds import OTHER_MODEL, OUTSIDER, altered, fingerprint, gather, held_at, refusal, sends, terms_of

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
    gathering = gather(4, MEMBERS)
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
    other = held_at(gather(4, MEMBERS, of=altered(of, number=2)), Delivery)[0]
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


@pytest.mark.parametrize(
    ("terms", "content"),
    [
        (MEMBERS, Vector(bytes(8))),
        (MEMBERS, Secrets(bytes(36), bytes(36), b"")),
        (MEMBERS, Secrets(bytes(36), bytes(36), bytes(33))),
        (terms_of("double", "collector"), Secrets(bytes(36), bytes(36), bytes(32))),
    ],
)
def test_a_box_with_something_else_inside_is_unusable(terms: Any, content: Any) -> None:
    gathering, member, true = delivered(terms)
    owner: Any = gathering.members[1]
    sealed = owner.seal(gathering.names[0], Boxes, content)
    boxes = tuple(Box(box.position, sealed if box.position == 1 else box.sealed) for box in true.boxes)
    commitments = true.commitments
    if isinstance(content, Secrets):  # so that nothing but the part of the members' key is wrong
        commitments = owner._commitments(content, owner=1, holder=0) + commitments[2 * COMMITMENT :]
    assert receipt(member, altered(true, boxes=boxes, commitments=commitments)) == (1,)


# Participants


@pytest.mark.parametrize("who", [{1, 2, 3}, set()])
def test_participants_without_this_device_are_refused(who: set[int]) -> None:
    _, member, true = told()
    assert refusal(member, altered(true, participants=bitmap(who, size=4))) is Fault.PARAMS_MISMATCH
    assert member.state is State.RECEIVED
    assert sends(member.receive(true))


@pytest.mark.parametrize("terms", [MEMBERS, terms_of("double", "collector")])
def test_a_participant_that_signed_no_statement_is_refused(terms: Any) -> None:
    gathering, member, delivery = delivered(terms)
    two = {"boxes": delivery.boxes[1:], "signatures": delivery.signatures[1:]}
    assert receipt(member, altered(delivery, **two, commitments=delivery.commitments[2 * COMMITMENT :])) == ()
    everyone = Participants(VERSION, member.round, gathering.collector.name, member.name, b"\x0f")
    assert refusal(member, everyone) is Fault.PARAMS_MISMATCH
    assert sends(member.receive(altered(everyone, participants=b"\x0d")))


def test_where_the_members_open_a_participant_with_an_unusable_box_is_refused() -> None:
    gathering, member, delivery = delivered()
    boxes = (Box(1, b"garbage"), *delivery.boxes[1:])
    assert receipt(member, altered(delivery, boxes=boxes)) == (1,)
    everyone = Participants(VERSION, member.round, gathering.collector.name, member.name, b"\x0f")
    assert refusal(member, everyone) is Fault.PARAMS_MISMATCH
    assert sends(member.receive(altered(everyone, participants=b"\x0d")))


def test_a_bitmap_of_another_length_is_refused() -> None:
    _, member, true = told()
    for bits in (b"", b"\x0f\0", b"\x1f", b"\xff", bytes(100)):
        assert refusal(member, altered(true, participants=bits)) is Fault.DECODE


def test_participants_among_whom_too_few_hold_the_own_secrets_end_the_round() -> None:
    """The fewest survivors would do, but fewer than t hold shares of what this device shared."""
    few = graph_for(MEMBERS, 5).threshold - 1
    assert few >= fewest_survivors(MEMBERS, 5)
    _, member, true = told(many=5)
    assert refusal(member, altered(true, participants=bitmap(range(few), size=5))) is Fault.ABORTED
    assert member.state is State.BURNT


def test_too_few_participants_end_the_round() -> None:
    _, member, true = told(terms_of("double", "members", lost=0))
    assert refusal(member, without(3, true, many=4)) is Fault.ABORTED
    assert member.state is State.BURNT


# The opened sum


def test_a_sum_of_another_length_or_that_was_tampered_with_is_refused() -> None:
    gathering = gather(4, MEMBERS)
    true = held_at(gathering, Opened)[0]
    member = gathering.members[0]
    for size in (0, 23, 16, 32, 25):
        sealed = gathering.collector.seal(gathering.names[0], Opened, Vector(bytes(size)))
        assert refusal(member, altered(true, sealed=sealed)) is Fault.PARAMS_MISMATCH
    for spoilt in (true.sealed[:-1], true.sealed[:-1] + b"\0", held_at(gather(4, MEMBERS), Opened)[1].sealed):
        assert refusal(member, altered(true, sealed=spoilt)) is Fault.AUTH
    found = [action for action in member.receive(true) if isinstance(action, Finished)]
    assert found[0].total.tolist() == gathering.total().tolist()


def test_a_sum_for_the_collector_is_not_opened_to_a_member() -> None:
    gathering = gather(4, terms_of("double", "collector"))
    gathering.run()
    member = gathering.members[0]
    shown = Opened(VERSION, member.round, gathering.collector.name, member.name, bytes(24))
    assert refusal(member, shown) is Fault.ORDER


def test_a_second_different_sum_is_refused_and_the_first_stays() -> None:
    gathering = gather(4, MEMBERS)
    true = held_at(gathering, Opened)[0]
    member = gathering.members[0]
    member.receive(true)
    before = fingerprint(member)
    with pytest.raises(PeerError, match=messages.EQUIVOCATION):
        member.receive(altered(true, sealed=bytes(40)))
    assert fingerprint(member) == before


# Every step, once more


@pytest.mark.parametrize("kind", [Invitation, Roster, Delivery, Participants, Survivors, Agreements, Opened])
def test_what_comes_from_anybody_but_the_collector_is_refused(kind: Any) -> None:
    gathering = gather(4, MEMBERS)
    true = held_at(gathering, kind)[0]
    member = gathering.members[0]
    for sender in (OUTSIDER.public, gathering.names[1], member.name):
        assert refusal(member, altered(true, sender=sender)) is Fault.AUTH
    assert member.receive(true)


@pytest.mark.parametrize("kind", [Invitation, Roster, Delivery, Participants, Survivors, Agreements])
def test_a_second_different_message_burns_the_round(kind: Any) -> None:
    gathering = gather(4, MEMBERS)
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
    gathering = gather(4, MEMBERS)
    boxes = held_at(gathering, Boxes)[0]
    assert refusal(gathering.members[0], altered(boxes, receiver=gathering.names[0])) is Fault.ORDER
