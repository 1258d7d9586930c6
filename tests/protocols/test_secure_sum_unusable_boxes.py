"""Boxes that cannot be used, and lies about them: known before anybody masks, and the sum of all others is exact."""

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.engines.protocol import Wire
from prirec.protocols.codec import bitmap, decode_content
from prirec.protocols.messages import (
    VERSION,
    AnyMessage,
    Box,
    Boxes,
    Delivery,
    Masked,
    Participants,
    Receipt,
    Reveal,
    Revealed,
    Secrets,
    Terms,
)
from prirec.protocols.party import State
from prirec.protocols.roster import graph_for
from prirec.protocols.secure_sum import with_usable_boxes
from support.cheating import SPARSE
from support.rounds import Gathering, altered, gather, held_at, sends, terms_of

DOUBLE = terms_of("double")
LOSSY = terms_of("double", corrupt=0, lost=100, length=1)


class Hostile(Wire):
    """Changes what some members send."""

    def __init__(self, changes: dict[bytes, Any]) -> None:
        super().__init__()
        self.changes, self.seen = changes, list[AnyMessage]()

    def _send(self, message: AnyMessage) -> None:
        change = self.changes.get(message.sender)
        changed = change(message) if change else message
        self.seen.append(changed)
        super()._send(changed)


def garbage(to: Collection[int] | None = None) -> Any:
    """Seals garbage for some neighbours, or for all."""

    def change(message: AnyMessage) -> AnyMessage:
        if not isinstance(message, Boxes):
            return message
        spoilt = (Box(b.position, b"garbage") if to is None or b.position in to else b for b in message.boxes)
        return altered(message, boxes=tuple(spoilt))  # type: ignore[no-any-return]

    return change


def other_shares(member: Any, to: Collection[int]) -> Any:
    """Seals shares for some neighbours that it has not committed to."""

    def change(message: AnyMessage) -> AnyMessage:
        if not isinstance(message, Boxes):
            return message
        names = {at: other.name for at, other in member._view.neighbours.items()}
        spoilt = (
            Box(b.position, member.seal(names[b.position], Boxes, Secrets(bytes(36), bytes(36))))
            if b.position in to
            else b
            for b in message.boxes
        )
        return altered(message, boxes=tuple(spoilt))  # type: ignore[no-any-return]

    return change


def complaint(about: Iterable[int]) -> Any:
    """Says that it cannot use these boxes, which are as they should be."""
    return lambda message: altered(message, unusable=tuple(about)) if isinstance(message, Receipt) else message


def run(gathering: Gathering, changes: dict[int, Any]) -> Hostile:
    wire = Hostile({gathering.names[at]: change for at, change in changes.items()})
    gathering.on(wire)
    wire.do(gathering.collector, gathering.collector.invite(gathering.names))
    wire.run(gathering.collector)
    return wire


def assert_summed(gathering: Gathering, wire: Hostile, *, without: set[int]) -> None:
    """The exact sum of all but these, who have neither masked nor been blamed."""
    inside = sorted(set(range(len(gathering.members))) - without)
    assert wire.finished.keys() == {gathering.collector.name}
    for found in wire.finished.values():
        assert found.total.tolist() == gathering.total(inside).tolist()
    masked = {gathering.names.index(one.sender) for one in wire.seen if isinstance(one, Masked)}
    assert masked == set(inside)
    assert wire.blamed == []
    assert all(gathering.members[at].state is State.RECEIVED for at in without)


def near(gathering: Gathering, at: int) -> list[int]:
    """The neighbours of a member, which follow from keys that are the same in every round of these tests."""
    again = gather(len(gathering.members), gathering.task.terms)
    again.run()
    return sorted(again.collector._neighbours[at])


CASES = [(7, DOUBLE), (70, LOSSY)]
# of 70 each has some neighbours only; garbage for a few, below, is of both kinds by default
MANY = pytest.mark.parametrize("many", [20, pytest.param(70, marks=pytest.mark.soak)])


@pytest.mark.parametrize(("many", "terms"), CASES)
def test_garbage_for_everybody_leaves_its_sender_out(many: int, terms: Terms) -> None:
    gathering = gather(many, terms)
    assert_summed(gathering, run(gathering, {3: garbage()}), without={3})


def test_garbage_of_several_for_everybody_leaves_them_out() -> None:
    gathering = gather(70, LOSSY)
    cheats = {3, 8, 40, 41, 69}
    assert_summed(gathering, run(gathering, dict.fromkeys(cheats, garbage())), without=cheats)


@pytest.mark.parametrize("many", [20, 70])
def test_garbage_for_a_few_costs_these_shares_and_nobody_a_place(many: int) -> None:
    """Owner and holder go on, and mask with each other: their pad does not come from the boxes."""
    gathering = gather(many, LOSSY)
    graph = graph_for(LOSSY, many)
    assert graph.is_complete == (many == 20)
    few = near(gathering, 3)[: (graph.degree - graph.threshold) // 4]
    assert few
    wire = run(gathering, {3: garbage(few)})
    assert_summed(gathering, wire, without=set())
    receipts = {gathering.names.index(one.sender): one.unusable for one in wire.seen if isinstance(one, Receipt)}
    assert receipts == {at: (3,) if at in few else () for at in range(many)}


@MANY
def test_one_more_leaves_the_sender_out(many: int) -> None:
    gathering = gather(many, LOSSY)
    graph = graph_for(LOSSY, many)
    more = near(gathering, 3)[: (graph.degree - graph.threshold) // 4 + 1]
    assert_summed(gathering, run(gathering, {3: garbage(more)}), without={3})


def test_shares_that_were_not_committed_to_count_as_garbage() -> None:
    gathering = gather(20, LOSSY)
    cheat = gathering.members[3]
    assert_summed(gathering, run(gathering, {3: other_shares(cheat, {0})}), without=set())
    gathering = gather(20, LOSSY)
    assert_summed(gathering, run(gathering, {3: other_shares(gathering.members[3], range(20))}), without={3})


def test_commitments_to_other_shares_count_as_garbage() -> None:
    def change(message: AnyMessage) -> AnyMessage:
        if not isinstance(message, Boxes):
            return message
        return altered(message, commitments=bytes(len(message.commitments)))  # type: ignore[no-any-return]

    gathering = gather(20, LOSSY)
    assert_summed(gathering, run(gathering, {3: change}), without={3})


@MANY
def test_a_liar_that_complains_of_everybody_costs_each_one_share(many: int) -> None:
    gathering = gather(many, LOSSY)
    wire = run(gathering, {5: complaint(near(gathering, 5))})
    assert_summed(gathering, wire, without=set())


def test_liars_that_complain_of_one_another_member_leave_it_its_place_while_they_are_few() -> None:
    gathering = gather(70, LOSSY)
    graph = graph_for(LOSSY, 70)
    liars = near(gathering, 9)[: (graph.degree - graph.threshold) // 4]
    wire = run(gathering, dict.fromkeys(liars, complaint((9,))))
    assert_summed(gathering, wire, without=set())


@pytest.mark.parametrize("lost", [pytest.param([12], marks=pytest.mark.long), [12, 13, 14]])
def test_with_devices_that_are_lost_later_the_sum_is_still_exact(lost: list[int]) -> None:
    """Among the lost is one whose box a neighbour could not use: the pad between the two must come off all the same."""
    gathering = gather(70, LOSSY)
    cheat = lost[0]
    few = near(gathering, cheat)[:2]
    silent = {gathering.names[at] for at in lost}
    wire = Hostile({gathering.names[cheat]: garbage(few)})
    wire.fate = lambda one: () if isinstance(one, Masked) and one.sender in silent else (0,)
    gathering.on(wire)
    wire.do(gathering.collector, gathering.collector.invite(gathering.names))
    wire.run(gathering.collector)
    inside = sorted(set(range(70)) - set(lost))
    found = wire.finished[gathering.collector.name]
    assert (found.summands, found.total.tolist()) == (len(inside), gathering.total(inside).tolist())
    assert set(few) & set(inside)


@MANY
def test_who_can_use_no_box_at_all_still_masks_agrees_and_gives_out_its_own_share(many: int) -> None:
    gathering = gather(many, LOSSY)
    deaf = gathering.names[5]

    def spoilt(message: AnyMessage) -> AnyMessage:
        if not isinstance(message, Delivery) or message.receiver != deaf:
            return message
        return altered(message, boxes=tuple(Box(box.position, b"") for box in message.boxes))  # type: ignore[no-any-return]

    wire = Hostile({gathering.collector.name: spoilt})
    gathering.on(wire)
    wire.do(gathering.collector, gathering.collector.invite(gathering.names))
    wire.run(gathering.collector)
    assert_summed(gathering, wire, without=set())
    assert wire.refused == []
    (reveal,) = [one for one in wire.seen if isinstance(one, Reveal) and one.sender == deaf]
    given = decode_content(Revealed, gathering.collector.unseal(deaf, Reveal, reveal.sealed))
    assert ([one.position for one in given.seeds], given.mask_keys) == ([5], ())


def test_too_much_garbage_ends_the_round_before_anybody_masks() -> None:
    gathering = gather(70, LOSSY)
    cheats = range(8)  # one more than may be lost
    wire = run(gathering, dict.fromkeys(cheats, garbage()))
    assert not wire.finished
    assert gathering.collector.state is State.BURNT
    assert not any(isinstance(one, Participants | Masked) for one in wire.seen)


def test_a_server_that_spoils_boxes_takes_away_holders_and_never_a_mask() -> None:
    """So it cannot thin out anybody's edges, and with them cut a part out of the sum."""
    gathering = gather(66, SPARSE)
    true = held_at(gathering, Delivery)[0]
    victim: Any = gathering.members[0]
    victim.receive(altered(true, boxes=tuple(Box(box.position, b"") for box in true.boxes)))
    everyone = bitmap(range(66), size=66)
    (sent,) = sends(victim.receive(Participants(VERSION, true.round, true.sender, true.receiver, everyone)))
    assert isinstance(sent, Masked)
    assert victim._near == frozenset(victim._view.neighbours)
    assert victim._held == {}


# Who is left out


@pytest.mark.parametrize(
    ("unusable", "most", "left_out"),
    [
        ({0: (), 1: (), 2: ()}, 0, set()),
        ({0: (1,), 1: (), 2: (1,)}, 0, {1}),
        ({0: (1, 2, 3), 1: (), 2: (), 3: ()}, 0, {0}),
        ({0: (1, 2, 3), 1: (), 2: (), 3: ()}, 1, set()),
        ({0: (2,), 1: (2,), 2: (), 3: ()}, 1, {2}),
        ({0: (9,), 1: (9,), 2: ()}, 0, set()),  # who sent no receipt is gone anyway
        ({0: (1,), 1: (0,), 2: (3,), 3: ()}, 0, {0, 2}),
    ],
)
def test_whoever_is_in_most_complaints_is_left_out_first(
    unusable: dict[int, tuple[int, ...]], most: int, left_out: set[int]
) -> None:
    receipts = {at: frozenset(those) for at, those in unusable.items()}
    assert with_usable_boxes(receipts, most=most) == set(unusable) - left_out


@given(
    st.integers(1, 12).flatmap(
        lambda size: st.dictionaries(st.integers(0, size), st.frozensets(st.integers(0, size)), max_size=size)
    ),
    st.integers(0, 4),
)
def test_complaints_are_counted_as_if_all_pairs_were_counted_anew_for_each_that_leaves(
    unusable: dict[int, frozenset[int]], most: int
) -> None:
    assert with_usable_boxes(unusable, most=most) == counted_anew(unusable, most=most)


def counted_anew(unusable: Mapping[int, frozenset[int]], *, most: int) -> set[int]:
    """The slow twin of `with_usable_boxes`."""
    going = set(unusable)
    while True:
        pairs = [(holder, owner) for holder in going for owner in unusable[holder] & going]
        if max(Counter(owner for _, owner in pairs).values(), default=0) <= most:
            return going
        involved = Counter(at for pair in pairs for at in pair)
        going.remove(max(sorted(involved), key=involved.__getitem__))


def test_the_work_grows_with_the_complaints_and_not_with_their_square() -> None:
    """A tenth of the devices sealed garbage for all of their forty neighbours."""

    def receipts(size: int) -> dict[int, frozenset[int]]:
        ring = {at: range(at - 20, at + 21) for at in range(size)}
        return {at: frozenset(o % size for o in near if o != at and o % 10 == 3) for at, near in ring.items()}

    few, many = (instructions(partial(with_usable_boxes, receipts(size), most=2)) for size in (200, 800))
    assert many < 5 * few  # four times as many complaints


def instructions(work: Callable[[], object]) -> int:
    """How many instructions of Python a call takes: the same ones on every machine, however busy."""
    count, before = 0, sys.gettrace()

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
