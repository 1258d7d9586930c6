"""An operator may die before and after every write and every message: the sum is exact, opened once, with one draw of
noise from each."""

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest

from prirec.engines.protocol import MemoryJournal
from prirec.errors import PeerError, StateError
from prirec.privacy.noise import Stream
from prirec.protocols.codec import decode, encode
from prirec.protocols.journal import ConflictError
from prirec.protocols.messages import Batch, Closing, NoisedShare, OpenedSum, Report, Round, Verdicts
from prirec.protocols.party import Persist, Send, Settle, Stage, State
from prirec.protocols.two_operators import Device, Helper, Leader, operator_noise
from support import messages
from support.joint_sums import (
    Meeting,
    draws,
    entropy_of,
    honest,
    joint_task,
    joint_terms,
    make_operator,
    person,
    sends,
    signed,
    total,
    vectors,
    written,
)
from support.low_floors import low_floor
from support.rounds import DEPLOYMENT, altered

MANY, LIAR = 7, 3
ONCE = (Batch, Verdicts, Closing, NoisedShare, OpenedSum)


@pytest.fixture(autouse=True)
def _few_people(monkeypatch: pytest.MonkeyPatch) -> None:
    low_floor(monkeypatch, 2)


def held(dies: int | None, *, noise: int = 10**4) -> tuple[Meeting, Any]:
    """Seven reports in batches of two, one of which is not what it proves to be; somebody dies at this moment."""
    task = joint_task(joint_terms(noise=noise, floor=5))
    values = vectors(MANY, task.terms)
    meeting = Meeting(task, many=MANY, batch=2, dies=dies)
    reports = [honest(task, at, values[at]) for at in range(MANY)]
    other = honest(task, LIAR, values[LIAR + 1])
    reports[LIAR] = lie_of(task, reports[LIAR], other)
    for report in reports:
        meeting.post([report])
        if report.sender == person(4).public:
            meeting.deliver()
    meeting.close()
    return meeting, values


def lie_of(task: Any, one: Report, other: Report) -> Report:
    """With the helper's box of another report of the same person, which is bound to that one."""
    return signed(task, LIAR, altered(one, helper_box=other.helper_box))


MOMENTS = 134  # writes, sends and ends of such a round, before and after each


def test_there_are_so_many_moments() -> None:
    meeting = held(None)[0]
    assert meeting.moment == MOMENTS
    assert not meeting.refused


@pytest.mark.parametrize("dies", range(MOMENTS))
def test_a_crash_at_any_moment_leaves_an_exact_sum_with_one_draw_of_noise_each(dies: int) -> None:
    meeting, values = held(dies)
    assert len(meeting.deaths) == 1
    assert meeting.leader.state is meeting.helper.state is State.DONE
    assert written(meeting, 0) is written(meeting, 1) is Stage.OPENED
    assert_one_content_for_each_place(meeting)
    inside = [at for at in range(MANY) if at != LIAR]
    drawn = np.array(meeting.finished[0].total) - np.array(total(values, inside), np.uint64)  # type: ignore[union-attr]
    (role, what), lives = meeting.deaths[0], (0, 1)
    possible = [noises(meeting, (life, 0) if role == 0 else (0, life)) for life in lives]
    assert drawn.tolist() in possible
    assert all(found.total.tolist() == meeting.finished[0].total.tolist() for found in meeting.finished)  # type: ignore[union-attr]
    assert all(found.summands == MANY - 1 for found in meeting.finished)  # type: ignore[union-attr]
    if what in ("OPENED", "Finished"):  # it was drawn before, and never again
        assert drawn.tolist() == possible[0]


def noises(meeting: Meeting, lives: tuple[int, int]) -> list[int]:
    terms = meeting.task.terms
    law = operator_noise(terms)
    found = [law.draw(Stream(entropy_of(role, life)[:32]), terms.length) for role, life in enumerate(lives)]
    return (found[0] + found[1]).view(np.uint64).tolist()  # type: ignore[no-any-return]


def assert_one_content_for_each_place(meeting: Meeting) -> None:
    """Over all lives: one batch and one list of verdicts for a number, one closing, one share and one signature."""
    said = defaultdict(set)
    for role, data in meeting.sent:
        message = decode(data)
        said[role, type(message), getattr(message, "number", None)].add(data)
    assert all(len(contents) == 1 for contents in said.values())
    assert {kind for _, kind, _ in said} == set(ONCE)


def test_noise_that_was_drawn_again_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted mistake: an operator that forgets its noised share, and closes anew after a crash."""
    forgetful = MemoryJournal.write

    def write(self: MemoryJournal, wanted: Persist) -> Any:
        return forgetful(self, wanted) if wanted.stage is not Stage.AGREED else None

    monkeypatch.setattr(MemoryJournal, "write", write)
    noticed = 0
    for dies in range(MOMENTS):
        meeting = quietly(dies)
        try:
            assert meeting is not None
            assert_one_content_for_each_place(meeting)
        except AssertionError:
            noticed += 1
    assert noticed


def quietly(dies: int) -> Meeting | None:
    try:
        return held(dies)[0]
    except StateError:
        return None


# The leader's reports


def test_two_processes_with_one_journal_do_not_send_two_draws_of_noise() -> None:
    """The second draw is a conflict, which burns the round: two of them would average out."""
    task = joint_task(joint_terms(noise=10**4, floor=5))
    meeting = Meeting(task, many=6, batch=2)
    meeting.post([honest(task, at, value) for at, value in enumerate(vectors(6, task.terms))])
    meeting.deliver()
    journal = meeting.journals[1]
    second = make_operator(Helper, task, meeting.enrolled, life=7)
    second.restore(journal.kept(task.round))
    closing = next(one.message for one in meeting.leader.advance() if isinstance(one, Send))
    both = [party.receive(closing) for party in (meeting.helper, second)]
    drawn = [next(one for one in actions if isinstance(one, Persist)) for actions in both]
    journal.write(drawn[0])
    with pytest.raises(ConflictError):
        journal.write(drawn[1])
    assert journal.kept(task.round).stage is Stage.BURNT


def test_after_a_crash_the_batch_that_was_with_the_helper_is_sent_again_whatever_its_devices_do() -> None:
    task = joint_task(joint_terms(floor=2))
    values = vectors(5, task.terms)
    meeting = Meeting(task, many=5, batch=2)
    reports = [honest(task, at, values[at]) for at in range(5)]
    meeting.post(reports[:2])
    first = sends(meeting, Batch)[0]
    leader = make_operator(Leader, task, meeting.enrolled, life=1, batch=2)
    kept = meeting.journals[0].kept(task.round)
    assert kept is not None
    assert [one.message for one in leader.restore(kept)] == [first]
    assert leader.again()[-1].message == first
    assert leader.receive(reports[1]) == []
    with pytest.raises(PeerError, match=messages.EQUIVOCATION):
        leader.receive(honest(task, 0, values[4]))
    meeting.parties[0] = leader
    meeting.post(reports[4:])
    meeting.close()
    found = meeting.finished[0]
    assert found is not None
    assert found.total.tolist() == total(values, [0, 1, 4])


def test_the_helpers_commitment_outlives_a_leader_that_has_revealed_its_share() -> None:
    """Else a dishonest helper could choose its share when it has seen the leader's."""
    task = joint_task(joint_terms(noise=10**4, floor=5))
    meeting = Meeting(task, many=6, batch=2)
    meeting.post([honest(task, at, value) for at, value in enumerate(vectors(6, task.terms))])
    meeting.deliver()
    meeting.do(0, meeting.leader.advance)
    while not sends(meeting, NoisedShare):
        to, data = meeting._queue.pop(0)
        meeting.do(to, lambda to=to, data=data: meeting.parties[to].receive(decode(data)))
    leader = make_operator(Leader, task, meeting.enrolled, life=1, batch=2)
    (revealed,) = leader.restore(meeting.journals[0].kept(task.round))
    assert revealed.message == sends(meeting, NoisedShare)[0]
    closing = sends(meeting, Closing)[1]
    assert leader.receive(closing)[-1] == revealed
    with pytest.raises(PeerError, match=messages.EQUIVOCATION):
        leader.receive(altered(closing, commitment=bytes(32)))
    with pytest.raises(PeerError, match=messages.ABORTED):
        leader.receive(altered(revealed.message, sender=closing.sender, receiver=leader.name))


def test_a_settled_report_that_comes_again_after_a_crash_is_known() -> None:
    meeting, values = held(None)
    kept = meeting.journals[0].kept(meeting.task.round)
    assert kept is not None
    leader = make_operator(Leader, meeting.task, meeting.enrolled, life=1)
    leader.restore(kept)
    assert leader.receive(honest(meeting.task, 0, values[0])) == []
    with pytest.raises(PeerError, match=messages.EQUIVOCATION):
        leader.receive(honest(meeting.task, 0, values[1]))
    assert leader.refused == meeting.leader.refused
    assert leader.count == MANY - 1


def test_memory_is_flat_but_for_names_and_hashes() -> None:
    task = joint_task(joint_terms(floor=2))
    values = vectors(40, task.terms)
    meeting = Meeting(task, many=40, batch=4)
    sizes = []
    for at in range(40):
        meeting.post([honest(task, at, values[at])])
        meeting.deliver()
        sizes.append([held_by(party) for party in meeting.parties])
    for role in (0, 1):
        assert sizes[39][role] == sizes[19][role] == sizes[7][role]


def held_by(party: Any) -> Counter[str]:
    """How many messages and states a party holds, by kind; names and hashes left out."""
    found: Counter[str] = Counter()
    for place, (_, actions) in party._answered.items():
        if place[0] is Report:
            assert actions == []
        else:
            found[place[0].__name__] += 1
    found["waiting"] = len(getattr(party, "_waiting", ()))
    found["flight"] = len(getattr(party, "_flight", ()))
    found["share"] = party._share.size
    return found


# Journals


OF = Round(DEPLOYMENT, "interaction", 1)


def settled(*contents: tuple[bytes, bytes]) -> MemoryJournal:
    journal = MemoryJournal()
    journal.write(Persist(OF, Stage.ENTERED, bytes(32)))
    for number, (lines, state) in enumerate(contents):
        journal.settle(Settle(OF, number, lines, state))
    return journal


def test_what_an_operator_has_settled_is_added_up_and_known_when_it_comes_again() -> None:
    assert MemoryJournal().kept(OF) is None
    journal = settled((b"one", b"first"), (b"two", b"second"))
    journal.settle(Settle(OF, 0, b"one", b"first"))
    kept = journal.kept(OF)
    assert kept is not None
    assert (kept.lines, kept.state) == ((b"one", b"two"), b"second")


@pytest.mark.parametrize("wanted", [Settle(OF, 1, b"three", b"second"), Settle(OF, 0, b"one", b"another")])
def test_what_was_settled_in_another_way_burns_the_round_and_erases_its_state(wanted: Settle) -> None:
    journal = settled((b"one", b"first"), (b"two", b"second"))
    with pytest.raises(ConflictError, match=messages.settled_otherwise("some reports")):
        journal.settle(wanted)
    kept = journal.kept(OF)
    assert kept is not None
    assert (kept.stage, kept.payload, kept.state) == (Stage.BURNT, b"", b"")


@pytest.mark.parametrize("stage", [None, Stage.AGREED, Stage.OPENED, Stage.BURNT])
def test_a_settlement_that_leaves_a_gap_or_comes_late_is_refused(stage: Stage | None) -> None:
    """Nothing was entered, or the set is closed; and in a round that is open, a number was left out."""
    with pytest.raises(StateError, match=messages.SETTLED_IN_ORDER):
        settled((b"one", b"first")).settle(Settle(OF, 2, b"three", b"third"))
    journal = MemoryJournal() if stage is None else settled((b"one", b"first"))
    if stage is not None:
        journal.write(Persist(OF, stage, bytes(32), b"payload"))
    for late in (Settle(OF, 0, b"one", b"first"), Settle(OF, 1, b"two", b"second")):
        with pytest.raises(StateError, match=messages.SETTLED_LATE):
            journal.settle(late)
    kept = journal.kept(OF)
    assert kept is None or kept.state == b""


# Devices


@pytest.mark.parametrize("done", range(4))
def test_a_device_that_dies_reports_once(done: int) -> None:
    """Dead before it wrote anything, after it entered, after it wrote its report, after it sent it."""
    task = joint_task()
    value, journal = vectors(1, task.terms)[0], MemoryJournal()
    sent: list[bytes] = []

    def live(life: int, stop: int) -> None:
        device = Device(task, identity=person(0), value=value, draw=draws(b"life %d .." % life))
        kept = journal.kept(task.round)
        actions = device.restore(kept.payload) if kept and kept.payload else device.report()
        for action in actions[: stop if life == 0 else None]:
            if isinstance(action, Persist):
                journal.write(action)
            else:
                sent.append(encode(action.message))  # type: ignore[union-attr]

    live(0, done)
    live(1, 0)
    live(2, 0)
    assert len(set(sent)) == 1
    meeting = Meeting(task, many=2)
    meeting.post([decode(sent[0])])  # type: ignore[list-item]
    meeting.post([honest(task, 1, vectors(2, task.terms)[1])])
    meeting.close()
    assert meeting.finished[0] is not None
    assert meeting.finished[0].summands == 2
