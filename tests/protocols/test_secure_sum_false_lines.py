"""Rosters with false lines: a collector that lists keys of its own under somebody else's name gets no vector by it."""

from typing import Any

import pytest

from prirec.errors import Fault
from prirec.protocols import mask_graph
from prirec.protocols.codec import encode, seal
from prirec.protocols.messages import COMMITMENT, VERSION, Box, Boxes, Delivery, Roster, RosterEntry, Secrets, Signed
from prirec.protocols.party import State
from prirec.protocols.roster import graph_for
from prirec.sharing import merkle
from prirec.sharing.keys import AgreementKey, SigningKey
from support.cheating import DEFAULT, SPARSE, lines_in, roster_to
from support.rounds import Gathering, altered, gather, held_at, refusal, sends

BOX, MASK, SIGNING = AgreementKey(bytes([1] * 32)), AgreementKey(bytes([2] * 32)), SigningKey(bytes([3] * 32))


def false_keys(line: RosterEntry) -> RosterEntry:
    """The collector's own keys, under another's name."""
    return altered(line, mask_key=MASK.public, box_key=BOX.public, signing_key=SIGNING.public, signature=bytes(64))


def rosters(gathering: Gathering, lines: list[RosterEntry]) -> dict[bytes, Roster]:
    """What a collector with this list would send to each name on it; of two lines with one name, for the first."""
    lines = [altered(one, position=at) for at, one in enumerate(lines)]
    beacon = merkle.Tree([encode(one) for one in lines]).root
    near = mask_graph.all_neighbours(graph_for(gathering.task.terms, len(lines)), beacon=beacon).tolist()
    made: dict[bytes, Roster] = {}
    for at, one in enumerate(lines):
        made.setdefault(one.name, roster_to(one.name, gathering, lines, shown=sorted([at, *near[at]])))
    return made


def true_lines(gathering: Gathering) -> list[RosterEntry]:
    return lines_in(held_at(gathering, Roster))


def box_from(gathering: Gathering, victim: Any, false: RosterEntry) -> bytes:
    """A box that the collector seals in the name of the one whose line it made up."""
    header = victim._view.header(sender=false.name, receiver=victim.name, kind=Boxes)
    return seal(BOX.agree(victim._box_key.public), header, Secrets(bytes(36), bytes(36)))


def delivery_to(gathering: Gathering, victim: Any, sent: dict[bytes, Boxes], false: set[int]) -> Delivery:
    """What the neighbours of a victim sent, or would have sent; for false lines, boxes that the collector made."""
    boxes, commitments, signed, view = [], b"", [], victim._view
    for at, other in sorted(view.neighbours.items()):
        message = sent[other.name]
        real = next((box.sealed for box in message.boxes if box.position == view.position), b"")
        boxes.append(Box(at, box_from(gathering, victim, other) if at in false else real))
        n = next((n for n, box in enumerate(message.boxes) if box.position == view.position), 0)
        commitments += message.commitments[2 * COMMITMENT * n : 2 * COMMITMENT * (n + 1)]
        signed.append(Signed(at, message.signature))
    names = (gathering.collector.name, victim.name)
    return Delivery(VERSION, gathering.task.round, *names, tuple(boxes), commitments, tuple(signed))


@pytest.mark.parametrize("field", ["mask_key", "box_key", "signing_key", "all"])
def test_a_false_line_that_one_device_alone_is_shown_gets_no_vector(field: str) -> None:
    gathering = gather(4, DEFAULT)
    lines = true_lines(gathering)
    false = false_keys(lines[2])
    shown = false if field == "all" else altered(lines[2], **{field: getattr(false, field)})
    true, other = rosters(gathering, lines), rosters(gathering, [*lines[:2], shown, lines[3]])
    victim, *rest = gathering.members
    (taken,) = sends(victim.receive(other[victim.name]))
    assert isinstance(taken, Boxes)  # only whoever signs that very roster is believed, and that comes next
    sent = {one.name: sends(one.receive(true[one.name]))[0] for one in rest}
    for made_up in (set(), {2}):
        if victim.state is not State.BURNT:
            assert refusal(victim, delivery_to(gathering, victim, sent, made_up)) is Fault.PARAMS_MISMATCH
    assert victim.state is State.BURNT


def test_a_member_refuses_a_roster_with_false_keys_under_its_own_name() -> None:
    gathering = gather(4, DEFAULT)
    lines = true_lines(gathering)
    shown = rosters(gathering, [*lines[:2], false_keys(lines[2]), lines[3]])
    assert refusal(gathering.members[2], shown[gathering.names[2]]) is Fault.AUTH


def twice(gathering: Gathering) -> tuple[dict[bytes, Roster], int, int]:
    """A roster with a second, false line beside the true one of some person, such that nobody is shown both; where it
    stands, and who has it for a neighbour."""
    lines = true_lines(gathering)
    for whose in range(len(lines)):
        made = rosters(gathering, [*lines[: whose + 1], false_keys(lines[whose]), *lines[whose + 1 :]])
        seen = {name: {one.position for one in roster.listed} for name, roster in made.items()}
        at = whose + 1
        beside = [name for name, positions in seen.items() if at in positions]
        if beside and not any({whose, at} <= positions for positions in seen.values()):
            return made, at, gathering.names.index(beside[0])
    raise AssertionError("no such roster among these")


def test_a_second_line_under_the_name_of_somebody_who_signed_the_roster_gets_no_vector() -> None:
    """On a sparse graph nobody sees all lines: a person who finds its own line in place signs a roster that has another
    one under its name. Whoever is shown that other one must not take the signature for it."""
    gathering = gather(66, SPARSE)
    made, false, who = twice(gathering)
    sent = {one.name: sends(one.receive(made[one.name]))[0] for one in gathering.members}
    victim = gathering.members[who]
    assert false in victim._view.neighbours
    assert refusal(victim, delivery_to(gathering, victim, sent, {false})) is Fault.PARAMS_MISMATCH
    assert victim.state is State.BURNT


def test_the_same_delivery_without_a_false_line_is_taken() -> None:
    """The control: what makes the collector's delivery fail is the false line alone."""
    gathering = gather(66, SPARSE)
    made = rosters(gathering, true_lines(gathering))
    sent = {one.name: sends(one.receive(made[one.name]))[0] for one in gathering.members}
    victim = gathering.members[0]
    assert sends(victim.receive(delivery_to(gathering, victim, sent, set())))
