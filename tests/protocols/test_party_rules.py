"""What every party does with a message before it looks into it, and what its own caller gets wrong."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prirec.device.store import Store
from prirec.engines.protocol import MemoryJournal
from prirec.errors import Fault, PeerError, StateError, UsageError
from prirec.protocols import party, roster, secure_sum
from prirec.protocols.codec import OVERHEAD, BoxHeader, encode, seal, unseal
from prirec.protocols.journal import ConflictError
from prirec.protocols.messages import (
    Agreement,
    Agreements,
    Boxes,
    Delivery,
    Invitation,
    Keys,
    Masked,
    Participants,
    Receipt,
    Reveal,
    Roster,
    Survivors,
    Vector,
)
from prirec.protocols.party import COLLECTOR_STEPS, PAD_STEPS, RECEIVER_STEPS, Aborted, Party, Persist, Stage, State
from prirec.protocols.roster import CollectorBase, MemberBase
from prirec.protocols.sdgd import Receiver
from prirec.protocols.secure_sum import Collector, Member
from support import messages
from support.rounds import (
    OUTSIDER,
    RECOMMENDER,
    altered,
    fingerprint,
    gather,
    held_at,
    make_collector,
    people,
    refusal,
    sends,
    task_of,
    terms_of,
)

TABLES = [party.MEMBER, party.PAD_MEMBER, party.NEIGHBOUR, party.COLLECTOR, party.RECEIVER]
TO_MEMBER = [Invitation, Roster, Delivery, Participants, Survivors, Agreements]
TO_COLLECTOR = [Keys, Boxes, Receipt, Masked, Agreement, Reveal]
TERMS = terms_of("double")


# Moves


@pytest.mark.parametrize("table", TABLES)
def test_every_state_that_a_move_leads_to_is_in_the_table(table: party.Moves) -> None:
    assert {state for following in table.values() for state in following.values()} <= table.keys()
    assert table[State.REVEALED if table is party.MEMBER else State.DONE] == table[State.BURNT] == {}


@pytest.mark.parametrize("steps", [COLLECTOR_STEPS, PAD_STEPS, RECEIVER_STEPS])
def test_the_steps_of_a_collector_lead_to_its_end(steps: dict[State, State]) -> None:
    state, seen = next(iter(steps)), set()
    while state is not State.DONE:
        assert state not in seen
        seen.add(state)
        state = steps[state]
    assert seen == steps.keys()


def other_messages(kind: Any) -> list[Any]:
    """What the first member hears or says in a round, but for one kind."""
    return [held_at(gather(4, TERMS), other)[0] for other in (*TO_MEMBER, *TO_COLLECTOR) if other is not kind]


@pytest.mark.parametrize("kind", TO_MEMBER)
def test_a_member_takes_in_each_state_one_kind_of_message(kind: Any) -> None:
    gathering = gather(4, TERMS)
    due = held_at(gathering, kind)[0]
    member = gathering.members[0]
    assert list(member.moves[member.state]) == [kind]
    for early in other_messages(kind):
        if (type(early), early.sender) not in member._answered:
            assert refusal(member, altered(early, receiver=member.name)) is Fault.ORDER
    assert member.receive(due)


@pytest.mark.parametrize("kind", TO_COLLECTOR)
def test_a_collector_takes_in_each_state_one_kind_of_message(kind: Any) -> None:
    gathering = gather(4, TERMS)
    due = held_at(gathering, kind)[0]
    collector = gathering.collector
    assert list(collector.moves[collector.state]) == [kind]
    for early in other_messages(kind):
        if (type(early), early.sender) not in collector._answered:
            assert refusal(collector, altered(early, receiver=collector.name)) is Fault.ORDER
    assert collector.receive(due) == []


@pytest.mark.parametrize("kind", [*TO_MEMBER, *TO_COLLECTOR])
@pytest.mark.parametrize(
    "change", [{"number": 2}, {"attempt": 1}, {"group": 1}, {"kind": "x"}, {"deployment": bytes(16)}]
)
def test_messages_of_another_round_are_refused(kind: Any, change: dict[str, Any]) -> None:
    gathering = gather(3, TERMS)
    due = held_at(gathering, kind)[0]
    party = next(one for one in (gathering.collector, *gathering.members) if one.name == due.receiver)
    assert refusal(party, altered(due, round=altered(due.round, **change))) is Fault.ORDER


@pytest.mark.parametrize("kind", [*TO_MEMBER, *TO_COLLECTOR])
def test_messages_for_somebody_else_are_refused(kind: Any) -> None:
    gathering = gather(3, TERMS)
    due = held_at(gathering, kind)[0]
    party = next(one for one in (gathering.collector, *gathering.members) if one.name == due.receiver)
    assert refusal(party, altered(due, receiver=OUTSIDER.public)) is Fault.ORDER


# The same again


@pytest.mark.parametrize("kind", TO_MEMBER)
def test_the_same_message_again_gets_the_same_answer_after_what_was_to_be_written(kind: Any) -> None:
    gathering = gather(3, TERMS)
    due = held_at(gathering, kind)[0]
    member = gathering.members[0]
    first = member.receive(due)
    before, asked = fingerprint(member), [one for one in first if isinstance(one, Persist)]
    last = [*gathering.journals[member.name].written, *asked][-1:]
    for _ in range(2):
        again = member.receive(due)
        assert [encode(one) for one in sends(again)] == [encode(one) for one in sends(first)]
        assert [one for one in again if isinstance(one, Persist)] == (last if sends(first) else [])
        assert fingerprint(member) == before


def test_an_answer_is_given_again_later_in_the_round() -> None:
    gathering = gather(3, TERMS)
    invitation = held_at(gather(3, TERMS), Invitation)[0]
    gathering.run()
    (keys,) = sends(gathering.members[0].receive(invitation))
    assert isinstance(keys, Keys)
    assert gathering.members[0].state is State.REVEALED


def test_a_burnt_round_is_written_down_and_never_goes_on() -> None:
    gathering = gather(3, TERMS)
    due = held_at(gathering, Survivors)[0]
    member = gathering.members[0]
    actions = member.receive(altered(due, survivors=b"\1"))
    assert [type(action) for action in actions] == [Persist, Aborted]
    assert actions[0] == Persist(member.round, Stage.BURNT, bytes(32))
    assert refusal(member, due) is Fault.ORDER
    for late in other_messages(Survivors):
        if late.receiver == member.name and (type(late), late.sender) not in member._answered:
            assert refusal(member, late) is Fault.ORDER


# What the caller gets wrong


def test_a_round_is_opened_once_and_its_collector_is_no_member() -> None:
    collector = make_collector(task_of(TERMS), np.random.default_rng(0))
    with pytest.raises(UsageError, match=messages.OPENED_TWICE_OR_BY_A_MEMBER):
        collector.invite([RECOMMENDER.public, people(1)[0].public])
    collector.invite([people(1)[0].public])
    with pytest.raises(UsageError, match=messages.OPENED_TWICE_OR_BY_A_MEMBER):
        collector.invite([people(1)[0].public])


@pytest.mark.parametrize("method", ["double", "pads", "shares"])
def test_a_collector_that_is_not_open_or_is_over_has_no_next_step(method: str) -> None:
    idle = gather(3, terms_of(method)).collector
    before = fingerprint(idle)
    with pytest.raises(UsageError):
        idle.advance()
    assert fingerprint(idle) == before
    gathering = gather(3, terms_of(method))
    gathering.run()
    burnt = gather(3, terms_of(method))
    burnt.run(lambda message: ())
    for over in (gathering.collector, burnt.collector):
        with pytest.raises(UsageError, match=messages.ROUND_IS_OVER):
            over.advance()


def test_too_few_who_come_end_the_round() -> None:
    for floor, many in [(2, 1), (5, 4)]:
        gathering = gather(many, terms_of(floor=floor))
        wire = gathering.run()
        assert wire.aborted[gathering.collector.name].fault is Fault.ABORTED
        assert not wire.finished


def test_a_collector_knows_whom_it_waits_for() -> None:
    gathering = gather(4)
    collector = gathering.collector
    assert collector.waiting == frozenset()
    for kind in TO_COLLECTOR:
        gathering = gather(4)
        collector = gathering.collector
        first, *_ = held_at(gathering, kind)
        assert collector.waiting == frozenset(gathering.names)
        collector.receive(first)
        assert collector.waiting == frozenset(gathering.names[1:])
    over = gather(4)
    over.run()
    assert over.collector.waiting == frozenset()


def test_a_collector_waits_only_for_those_who_are_still_in() -> None:
    gathering = gather(5)
    gone = gathering.names[0]
    seen: dict[State, frozenset[bytes]] = {}

    def lossy(message: Any) -> tuple[int, ...]:
        seen.setdefault(gathering.collector.state, gathering.collector.waiting)
        return () if message.sender == gone and isinstance(message, Masked) else (0,)

    gathering.run(lossy)
    everyone = frozenset(gathering.names)
    assert seen[State.VECTORS] == everyone
    assert seen[State.AGREEMENTS] == seen[State.REVEALS] == everyone - {gone}


def test_parties_are_made_for_the_task_that_they_are_given() -> None:
    value, who = np.zeros(3, dtype=np.uint64), people(1)[0]
    with pytest.raises(UsageError, match=messages.ANOTHER_COLLECTOR_THAN_THE_TASKS):
        Collector(task_of(TERMS), identity=OUTSIDER, entropy=bytes(32))
    with pytest.raises(UsageError, match=messages.SHARES_NEED_THE_RECEIVER):
        Collector(task_of(terms_of("shares")), identity=RECOMMENDER, entropy=bytes(32))
    with pytest.raises(UsageError, match=messages.MEMBER_WITHOUT_MASKS):
        Member(task_of(terms_of("shares")), identity=who, value=value, entropy=bytes(secure_sum.ENTROPY))
    for short in (roster.MEMBER_ENTROPY, secure_sum.ENTROPY - 1, secure_sum.ENTROPY + 1):
        with pytest.raises(UsageError, match=messages.entropy_of_a_member(secure_sum.ENTROPY)):
            Member(task_of(TERMS), identity=who, value=value, entropy=bytes(short))
    with pytest.raises(UsageError, match=messages.ENTROPY_FOR_KEYS_TOO_SHORT):
        Member(task_of(TERMS), identity=who, value=value, entropy=bytes(roster.MEMBER_ENTROPY - 1))
    with pytest.raises(UsageError, match=messages.secret_key_length(32)):
        Receiver(task_of(terms_of("shares")), identity=RECOMMENDER, entropy=bytes(31))
    assert roster.COLLECTOR_ENTROPY == 32


def test_shares_that_no_mask_graph_bears_are_refused() -> None:
    task_of(terms_of(corrupt=1, lost=499))
    for corrupt, lost in [(2, 499), (334, 0)]:
        with pytest.raises(UsageError, match=messages.TERMS_NOT_SAFE):
            task_of(terms_of(corrupt=corrupt, lost=lost))


def test_where_no_mask_graph_will_do_for_those_who_came_the_round_is_given_up() -> None:
    gathering = gather(70, terms_of("double", corrupt=50, lost=470))
    wire = gathering.run()
    assert "no mask graph" in str(wire.aborted[gathering.collector.name])
    assert gathering.collector.state is State.BURNT


def test_a_journal_in_memory_burns_on_a_conflict_as_one_on_disk_does(tmp_path: Path) -> None:
    of, marks = task_of(TERMS).round, (bytes([1] * 32), bytes([2] * 32))
    with Store.open(tmp_path / "journal") as store:
        for journal in (store, MemoryJournal()):
            journal.write(Persist(of, Stage.ENTERED, marks[0]))
            with pytest.raises(ConflictError):
                journal.write(Persist(of, Stage.ENTERED, marks[1]))
            with pytest.raises(StateError, match=messages.stage_does_not_follow("BURNT", "MASKED")):
                journal.write(Persist(of, Stage.MASKED, marks[0]))


def test_an_unknown_kind_of_party_is_refused() -> None:
    value, entropy = np.zeros(TERMS.length, dtype=np.uint64), bytes(secure_sum.ENTROPY)
    for kind in (Party, MemberBase, CollectorBase):
        with pytest.raises(TypeError, match=messages.Foreign.ABSTRACT_CLASS):
            kind(task_of(TERMS), identity=RECOMMENDER, entropy=entropy)
    assert isinstance(Member(task_of(TERMS), identity=RECOMMENDER, value=value, entropy=entropy), MemberBase)


@pytest.mark.parametrize("method", ["double", "pads", "shares"])
def test_what_has_no_place_is_refused_even_past_the_table_of_moves(method: str) -> None:
    gathering = gather(3, terms_of(method))
    invitation = held_at(gathering, Invitation)[0]
    agreement = Agreement(1, invitation.round, invitation.sender, invitation.receiver, bytes(64))
    with pytest.raises(PeerError, match=messages.MESSAGE_FOR_ANOTHER_PARTY):
        gathering.members[0].handle(agreement)
    with pytest.raises(PeerError, match=messages.MESSAGE_FOR_ANOTHER_PARTY):
        gathering.collector.handle(invitation)


def test_a_roster_before_the_invitation_is_refused() -> None:
    roster = held_at(gather(3, TERMS), Roster)[0]
    with pytest.raises(PeerError, match=messages.ORDER):
        gather(3, TERMS).members[0].receive(roster)


# Boxes


HEADER = BoxHeader(1, task_of(TERMS).round, bytes(32), bytes([1] * 32), "boxes", bytes(32))


def test_a_box_opens_under_exactly_its_header() -> None:
    sealed = seal(bytes(32), HEADER, Vector(b"content"))
    assert unseal(bytes(32), HEADER, sealed) == encode(Vector(b"content"))
    assert len(sealed) == len(encode(Vector(b"content"))) + OVERHEAD
    others = [
        altered(HEADER, round=altered(HEADER.round, number=2)),
        altered(HEADER, sender=HEADER.receiver, receiver=HEADER.sender),
        altered(HEADER, sender=HEADER.receiver),
        altered(HEADER, receiver=HEADER.sender),
        altered(HEADER, step="masked"),
        altered(HEADER, statement=bytes([1] * 32)),
    ]
    tries = [(bytes(32), header, sealed) for header in others]
    tries += [(bytes([1] * 32), HEADER, sealed), (bytes(32), HEADER, sealed[:-1]), (bytes(32), HEADER, b"")]
    tries += [
        (bytes(32), HEADER, sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :]) for at in range(len(sealed))
    ]
    for given in tries:
        with pytest.raises(PeerError) as found:
            unseal(*given)
        assert found.value.fault is Fault.AUTH


def test_sealed_contents_do_not_print() -> None:
    content = Vector(b"something long enough to be looked for in the box")
    assert content.values not in seal(bytes(32), HEADER, content)
    assert seal(bytes(32), HEADER, content) != seal(bytes(32), altered(HEADER, step="masked"), content)
