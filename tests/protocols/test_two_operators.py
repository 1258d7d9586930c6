"""A sum over two operators is that of the honest reports and both draws of noise, exactly, whatever else is sent."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from prirec.errors import Fault, PeerError, UsageError
from prirec.proofs import pine
from prirec.proofs.parameters import MODULUS
from prirec.protocols.codec import decode, digest, encode
from prirec.protocols.messages import (
    VERSION,
    Batch,
    Closing,
    GivenUp,
    NoisedShare,
    OpenedSum,
    Report,
    Round,
    Verdicts,
)
from prirec.protocols.party import Persist, Send, Settle, Stage, State
from prirec.protocols.roster import Task
from prirec.protocols.two_operators import Closed, Device, Helper, JointTask, Leader, Reason, leader_box_length
from support import lying_reports as lies
from support import messages
from support.joint_sums import (
    BOX_KEYS,
    IDENTITIES,
    Meeting,
    draws,
    entropy_of,
    honest,
    joint_task,
    joint_terms,
    make_operator,
    person,
    sealed,
    sends,
    signed,
    total,
    vectors,
    written,
)
from support.low_floors import low_floor
from support.rounds import DEPLOYMENT, OUTSIDER, RECOMMENDER, altered
from vectors import reference_proofs as plain

TASK = joint_task()
NOISY = joint_terms(noise=10**4, floor=3)


@pytest.fixture(autouse=True)
def _few_people(monkeypatch: pytest.MonkeyPatch) -> None:
    low_floor(monkeypatch, 2)


def posted(many: int, task: JointTask = TASK, *, batch: int | None = None, enrolled: int = 12) -> tuple[Meeting, Any]:
    """A meeting to which so many people have reported."""
    values = vectors(many, task.terms)
    meeting = Meeting(task, many=enrolled, batch=batch)
    meeting.post(honest(task, at, values[at]) for at in range(many))
    return meeting, values


def assert_summed(meeting: Meeting, values: Any, inside: Sequence[int]) -> None:
    """Both operators have the sum over exactly these people, with both draws of noise if there is any."""
    expected = np.array(total(values, inside), np.uint64)
    expected += meeting.noise() if meeting.task.terms.noise else np.uint64(0)
    for found in meeting.finished:
        assert found is not None
        assert found.total.tolist() == expected.tolist()
        assert found.summands == len(inside)
    assert meeting.leader.state is meeting.helper.state is State.DONE
    assert written(meeting, 0) is written(meeting, 1) is Stage.OPENED


def assert_closed(meeting: Meeting) -> None:
    assert meeting.finished == [None, None]
    assert not sends(meeting, NoisedShare)


# The sum


@pytest.mark.parametrize("batch", [1, 3, 7, 8, None])
@pytest.mark.parametrize("terms", [TASK.terms, NOISY], ids=["plain", "noise"])
def test_the_sum_is_the_plain_sum_and_both_draws_of_noise(terms: Any, batch: int | None) -> None:
    meeting, values = posted(8, joint_task(terms), batch=batch)
    meeting.close()
    assert_summed(meeting, values, range(8))
    assert not meeting.refused
    assert meeting.helper.refused == meeting.leader.refused == {}
    assert len(sends(meeting, Batch)) == len(sends(meeting, Verdicts)) == -(-8 // (batch or 8))


def test_the_two_draws_are_each_all_of_the_noise() -> None:
    meeting = Meeting(joint_task(joint_terms(noise=10**6, length=2000, bound=5)), many=2)
    values = np.zeros((2, 2000), np.uint64)
    meeting.post(honest(meeting.task, at, values[at]) for at in range(2))
    meeting.close()
    found = meeting.finished[0].total.view(np.int64)  # type: ignore[union-attr]
    assert 1.8e6 < found.var() < 2.2e6  # 6 sd either side
    assert found.tolist() == meeting.noise().view(np.int64).tolist()


def test_reports_may_be_missing_double_late_and_in_any_order() -> None:
    values = vectors(9, TASK.terms)
    meeting = Meeting(TASK, many=12, batch=2)
    reports = [honest(TASK, at, values[at]) for at in (5, 0, 5, 7, 2, 0, 5)]
    meeting.post(reports)
    meeting.close()
    before = len(meeting.sent)
    meeting.post([honest(TASK, 8, values[8]), reports[0]])  # one is late; one is sent again, which is no fault
    assert [fault.fault for fault in meeting.refused] == [Fault.ORDER]
    assert meeting.leader.turned_away == {Fault.ORDER: 1}
    assert len(meeting.sent) == before
    assert_summed(meeting, values, [0, 2, 5, 7])


def test_a_device_sends_the_same_bytes_ever_after() -> None:
    value, who = vectors(1, TASK.terms)[0], person(0)
    device = Device(TASK, identity=who, value=value, draw=draws(b"device 0"))
    entered, masked, sent = device.report()
    assert isinstance(entered, Persist)
    assert isinstance(masked, Persist)
    assert (entered.stage, entered.digest) == (Stage.ENTERED, digest(TASK.statement))
    assert masked.stage is Stage.MASKED
    assert masked.payload == encode(sent.message)  # type: ignore[union-attr]
    assert device.report() == [entered, masked, sent]
    again = Device(TASK, identity=who, value=value, draw=draws(b"another life"))
    assert again.restore(masked.payload) == [sent]
    assert again.report() == [entered, masked, sent]
    with pytest.raises(PeerError, match=messages.ORDER):
        device.receive(sent.message)  # type: ignore[union-attr]
    for take in (device.receive, device.handle):  # even past the table of moves
        with pytest.raises(PeerError, match=messages.ORDER):
            take(altered(sent.message, receiver=who.public))  # type: ignore[union-attr]


def test_a_device_restores_nothing_but_its_report_of_this_round() -> None:
    device = Device(TASK, identity=person(0), value=vectors(1, TASK.terms)[0], draw=draws(b"0"))
    elsewhere = honest(joint_task(round=Round(DEPLOYMENT, "interaction", 2)), 0, vectors(1, TASK.terms)[0])
    for other in (elsewhere, OpenedSum(VERSION, TASK.round, bytes(32), bytes(32), bytes(64))):
        with pytest.raises(UsageError, match=messages.ANOTHER_REPORT):
            device.restore(encode(other))


def test_a_vector_beyond_the_bound_is_refused_on_the_device() -> None:
    value = np.array([1000, 1, 0, 0], np.uint64)
    with pytest.raises(UsageError, match=messages.LONGER_THAN_ITS_BOUND):
        Device(TASK, identity=person(0), value=value, draw=draws(b"0")).report()
    with pytest.raises(UsageError, match=messages.elements_of_the_ring(4, bits=64)):
        Device(TASK, identity=person(0), value=value[:3], draw=draws(b"0"))


# Lies: each report is dropped alone


LYING = joint_task(joint_terms(length=lies.P.dimension, bound=lies.BOUND))


def made_up(name: str) -> pine.Report:
    """A lie by its name."""
    one, other = lies.both_reports()
    cut, public = 8 * lies.P.encoded_length, one.public
    wrapping = lies.wrapping_pair(start=123_456_789) + [0] * 38
    over = {"one unit over": [lies.BOUND, 1] + [0] * 38, "a million times": [lies.BOUND * 10**6] + [0] * 39}
    if name in over:
        norm = sum(x * x for x in over[name]) % MODULUS
        return lies.reported(lies.head(over[name], norm, (lies.BOUND**2 - norm) % MODULUS))
    if name == "wraps to the bound":
        return lies.reported(lies.head(wrapping, lies.BOUND**2, 0))
    if name == "wrong bits":
        encoded = plain.encode_vector(lies.P, lies.LONGEST)
        encoded += lies.all_passed(lies.true_results(encoded))
        encoded[lies.P.dimension] = 1 - encoded[lies.P.dimension]
        return plain.split_and_prove(lies.P, encoded, lies.NONCE, lies.SEEDS)
    return {
        "proof of another vector": one._replace(leader=one.leader[:cut] + other.leader[cut:-64] + one.leader[-64:]),
        "shares of two reports": one._replace(helper=other.helper),
        "the public part of another": one._replace(public=other.public),
        "the leader's check of its own choosing": one._replace(public=bytes(32) + public[32:]),
        "the helper's check of its own choosing": one._replace(public=public[:32] + bytes(32) + public[64:]),
        "the leader's randomness of its own choosing": one._replace(public=public[:64] + bytes(32) + public[96:]),
        "the helper's randomness of its own choosing": one._replace(public=public[:96] + bytes(32)),
        "a number beyond the field": one._replace(leader=b"\xff" * 8 + one.leader[8:]),
    }[name]  # fmt: skip


WRONG = {
    "one unit over": Reason.PROOF,
    "a million times": Reason.PROOF,
    "wraps to the bound": Reason.PROOF,
    "wrong bits": Reason.PROOF,
    "proof of another vector": Reason.PROOF,
    "shares of two reports": Reason.RANDOMNESS,
    "the public part of another": Reason.RANDOMNESS,
    "the leader's check of its own choosing": Reason.RANDOMNESS,
    "the helper's check of its own choosing": Reason.RANDOMNESS,
    "the leader's randomness of its own choosing": Reason.RANDOMNESS,
    "the helper's randomness of its own choosing": Reason.RANDOMNESS,
    "a number beyond the field": Reason.FORM,
}


@pytest.mark.parametrize("lie", WRONG)
def test_a_lie_is_dropped_alone_and_counted(lie: str) -> None:
    values = vectors(4, LYING.terms)
    meeting = Meeting(LYING, many=5, batch=2)
    reports = [honest(LYING, at, values[at]) for at in range(4)]
    meeting.post([*reports[:2], sealed(LYING, 4, made_up(lie), nonce=lies.NONCE), *reports[2:]])
    meeting.close()
    assert_summed(meeting, values, range(4))
    assert not meeting.refused
    assert meeting.leader.refused == {WRONG[lie]: 1}
    assert meeting.helper.refused in ({WRONG[lie]: 1}, {})  # the leader passes on no report that it can refuse itself


def test_the_liars_way_of_sealing_is_the_honest_one() -> None:
    values = vectors(2, LYING.terms)
    meeting = Meeting(LYING, many=3)
    meeting.post(sealed(LYING, at, pine.report(lies.P, value.view(np.int64), bytes(16), draws(b"12345678")))
                 for at, value in enumerate(values))  # fmt: skip
    meeting.close()
    assert_summed(meeting, values, range(2))


def boxes_of(at: int, value: Any, **changes: Any) -> Report:
    return signed(TASK, at, altered(honest(TASK, at, value), **changes))


@pytest.mark.parametrize("which", ["leader_box", "helper_box"])
def test_a_box_that_does_not_open_is_dropped_alone(which: str) -> None:
    meeting, values = posted(3, batch=2)
    true = honest(TASK, 3, vectors(4, TASK.terms)[3])
    other = honest(TASK, 4, vectors(5, TASK.terms)[4])
    garbage = bytes(len(getattr(true, which)))
    meeting.post([signed(TASK, 3, altered(true, **{which: garbage}))])
    meeting.post([signed(TASK, 4, altered(other, **{which: getattr(true, which)}))])  # a box of somebody else's report
    meeting.close()
    assert_summed(meeting, values, range(3))
    assert meeting.leader.refused == {Reason.BOX: 2}


def test_a_helpers_share_has_one_length() -> None:
    true = honest(TASK, 3, vectors(4, TASK.terms)[3])
    assert len(true.helper_box) == 176
    with pytest.raises(PeerError, match=messages.DECODE):
        decode(encode(altered(true, helper_box=bytes(175))))


# At the door


def refusals(meeting: Meeting, *reports: Report) -> list[Fault]:
    before = len(meeting.refused)
    meeting.post(reports)
    return [fault.fault for fault in meeting.refused[before:]]


def test_what_is_no_report_of_this_person_and_round_is_refused_before_any_proof(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    meeting, values = posted(2, batch=100)
    monkeypatch.setattr(pine, "prepare", None)  # nothing here may come so far
    true = honest(TASK, 3, vectors(4, TASK.terms)[3])
    elsewhere = joint_task(round=Round(DEPLOYMENT, "interaction", 2))
    other_terms, other_model = joint_task(joint_terms(floor=3)), joint_task(model=bytes(32))
    value = vectors(4, TASK.terms)[3]
    assert refusals(meeting, honest(TASK, 12, vectors(13, TASK.terms)[12])) == [Fault.AUTH]  # not enrolled
    assert refusals(meeting, altered(true, signature=bytes(64))) == [Fault.AUTH]
    assert refusals(meeting, altered(true, sender=person(4).public)) == [Fault.AUTH]  # somebody else's report
    assert refusals(meeting, altered(true, nonce=bytes(16))) == [Fault.AUTH]
    assert refusals(meeting, honest(elsewhere, 3, value)) == [Fault.ORDER]  # another round's
    assert refusals(meeting, altered(honest(elsewhere, 3, value), round=TASK.round)) == [Fault.PARAMS_MISMATCH]
    assert refusals(meeting, honest(other_terms, 3, value)) == [Fault.PARAMS_MISMATCH]
    assert refusals(meeting, honest(other_model, 3, value)) == [Fault.PARAMS_MISMATCH]
    assert refusals(meeting, altered(honest(other_model, 3, value), held=true.held)) == [Fault.AUTH]
    assert refusals(meeting, honest(TASK, 0, values[1])) == [Fault.EQUIVOCATION]  # a second, different one
    assert refusals(meeting, true, true) == []
    assert meeting.leader.turned_away == {
        Fault.AUTH: 5, Fault.ORDER: 1, Fault.PARAMS_MISMATCH: 3, Fault.EQUIVOCATION: 1
    }  # fmt: skip


def test_what_is_refused_at_the_door_changes_no_sum() -> None:
    """Two reports of one device, somebody else's under this one's name, another round's, and a stranger's."""
    meeting, values = posted(3, batch=2)
    true, elsewhere = honest(TASK, 3, values[0]), joint_task(round=Round(DEPLOYMENT, "interaction", 2))
    lies_of = [
        (honest(TASK, 1, values[0]), Fault.EQUIVOCATION),
        (altered(honest(TASK, 0, values[1]), sender=person(3).public), Fault.AUTH),
        (altered(true, sender=person(1).public), Fault.EQUIVOCATION),
        (honest(elsewhere, 3, values[0]), Fault.ORDER),
        (altered(honest(elsewhere, 3, values[0]), round=TASK.round), Fault.PARAMS_MISMATCH),
        (honest(TASK, 12, values[0]), Fault.AUTH),
    ]
    assert refusals(meeting, *(lie for lie, _ in lies_of)) == [fault for _, fault in lies_of]
    meeting.close()
    assert_summed(meeting, values, range(3))
    assert not meeting.leader.refused


@pytest.mark.parametrize("longer", [-8, -1, 1, 8, 10**6])
def test_a_report_of_another_length_is_refused_before_anything_else(longer: int) -> None:
    meeting = Meeting(TASK, many=3)
    true = honest(TASK, 0, vectors(1, TASK.terms)[0])
    assert len(true.leader_box) == leader_box_length(TASK.terms)
    box = true.leader_box[:longer] if longer < 0 else true.leader_box + bytes(longer)
    stranger = altered(true, leader_box=box, sender=OUTSIDER.public)  # who is not looked up
    assert refusals(meeting, stranger, signed(TASK, 0, altered(true, leader_box=box))) == [Fault.DECODE] * 2
    assert refusals(meeting, true) == []


def test_more_reports_than_the_round_was_sized_for_are_refused() -> None:
    task = joint_task(people=3)
    values = vectors(4, task.terms)
    meeting = Meeting(task, many=12, batch=2)
    assert refusals(meeting, *(honest(task, at, values[at]) for at in range(4))) == [Fault.ORDER]
    meeting.close()
    assert_summed(meeting, values, range(3))


# A helper believes the leader nothing


def forwarded(meeting: Meeting, reports: Sequence[Report]) -> Batch:
    """What an honest leader would send of these reports, whoever they are from."""
    leader: Any = make_operator(Leader, meeting.task, [one.sender for one in reports], batch=100)
    leader.begin()
    for one in reports:
        leader.receive(one)
    return leader.advance()[-1].message  # type: ignore[no-any-return]


def verdicts(meeting: Meeting, batch: Batch) -> list[Reason]:
    (answer,) = [one.message for one in meeting.helper.receive(batch) if isinstance(one, Send)]
    return [Reason(one.reason) for one in answer.verdicts]  # type: ignore[union-attr]


def test_a_helper_takes_no_report_that_its_device_has_not_sent() -> None:
    meeting = Meeting(TASK, many=6)
    values = vectors(13, TASK.terms)
    batch = forwarded(meeting, [honest(TASK, at, values[at]) for at in (0, 1, 2, 12)])
    zero, one, two, stranger = batch.reports
    wrong = [
        (stranger, Reason.STRANGER),
        (altered(one, signature=two.signature), Reason.SIGNATURE),
        (altered(one, name=two.name), Reason.SIGNATURE),
        (altered(one, leader_box=bytes(32)), Reason.SIGNATURE),
        (altered(one, public=two.public), Reason.SIGNATURE),
        (zero, Reason.ACCEPTED),
        (zero, Reason.TWICE),
        (altered(two, verifier=one.verifier), Reason.PROOF),
        (altered(one, verifier=one.verifier[:-1]), Reason.FORM),
    ]
    assert verdicts(meeting, altered(batch, reports=tuple(report for report, _ in wrong))) == [why for _, why in wrong]
    # a name that another used is not held against its owner; a report that was decided on is
    assert verdicts(meeting, altered(batch, number=1, reports=(zero, two, one))) == [Reason.TWICE] * 3
    assert meeting.helper.count == 1


def test_a_helper_has_room_for_as_many_as_the_round_was_sized_for() -> None:
    meeting = Meeting(joint_task(people=2), many=6)
    values = vectors(3, meeting.task.terms)
    other = Meeting(meeting.task, many=6)
    batch = forwarded(meeting, [honest(meeting.task, at, values[at]) for at in (0, 1)])
    third = forwarded(other, [honest(meeting.task, 2, values[2])])
    both = altered(batch, reports=(*batch.reports, *third.reports))
    assert verdicts(meeting, both) == [Reason.ACCEPTED, Reason.ACCEPTED, Reason.FULL]


def test_batches_come_in_their_order_and_once() -> None:
    meeting = Meeting(TASK, many=6)
    values = vectors(4, TASK.terms)
    first = forwarded(meeting, [honest(TASK, at, values[at]) for at in (0, 1)])
    second = altered(forwarded(meeting, [honest(TASK, at, values[at]) for at in (2, 3)]), number=1)
    with pytest.raises(PeerError, match=messages.ORDER):
        meeting.helper.receive(second)
    answer = meeting.helper.receive(first)
    assert meeting.helper.receive(first) == answer
    with pytest.raises(PeerError, match=messages.EQUIVOCATION):
        meeting.helper.receive(altered(first, reports=()))
    meeting.helper.receive(second)
    with pytest.raises(PeerError, match=messages.ORDER):  # the leader has the verdicts on it, or there were no second
        meeting.helper.receive(first)
    assert meeting.helper.count == 4


def test_what_comes_from_anybody_but_the_other_operator_is_refused() -> None:
    meeting, _ = posted(3, batch=2)
    batch = sends(meeting, Batch)[0]
    with pytest.raises(PeerError, match=messages.AUTH):
        meeting.helper.receive(altered(batch, sender=OUTSIDER.public))
    (answer,) = [one.message for one in meeting.helper.receive(batch) if isinstance(one, Send)]
    with pytest.raises(PeerError, match=messages.AUTH):
        meeting.leader.receive(altered(answer, sender=OUTSIDER.public))
    assert meeting.leader.receive(answer)


def test_verdicts_on_other_reports_are_refused() -> None:
    meeting, _ = posted(3, batch=2)
    (answer,) = [one.message for one in meeting.helper.receive(sends(meeting, Batch)[0]) if isinstance(one, Send)]
    for wrong in (altered(answer, number=1), altered(answer, verdicts=answer.verdicts[:1])):  # type: ignore[union-attr]
        with pytest.raises(PeerError, match=messages.ORDER):
            meeting.leader.receive(wrong)
    meeting.leader.receive(answer)
    assert meeting.leader.receive(answer) == []


def test_a_helper_that_accepts_by_other_randomness_ends_the_round() -> None:
    meeting, _ = posted(3, batch=2)
    (answer,) = [one.message for one in meeting.helper.receive(sends(meeting, Batch)[0]) if isinstance(one, Send)]
    lie = altered(answer, verdicts=tuple(altered(one, seeds=bytes(64)) for one in answer.verdicts))  # type: ignore[union-attr]
    meeting.do(0, lambda: meeting.leader.receive(lie))
    assert written(meeting, 0) is Stage.BURNT
    assert meeting.aborted[0] is not None
    meeting.deliver()
    assert written(meeting, 1) is Stage.BURNT
    assert_closed(meeting)


# Closing


def test_below_the_floor_a_window_is_extended_with_the_reports_that_it_has() -> None:
    task = joint_task(joint_terms(floor=4))
    values = vectors(5, task.terms)
    meeting = Meeting(task, many=12, batch=2)
    meeting.post(honest(task, at, values[at]) for at in range(3))
    meeting.close()
    assert meeting.leader.state is State.REPORTS
    assert_closed(meeting)
    assert not sends(meeting, Closing)
    assert meeting.leader.ready
    meeting.post([honest(task, 4, values[4])])
    meeting.close()
    assert_summed(meeting, values, [0, 1, 2, 4])


def test_a_round_that_is_given_up_leaves_nothing_of_a_vector() -> None:
    task = joint_task(joint_terms(floor=6))
    meeting, _ = posted(5, task, batch=2)
    meeting.deliver()
    meeting.do(0, meeting.leader.advance)
    meeting.do(0, meeting.leader.give_up)
    meeting.deliver()
    assert_closed(meeting)
    for role, party in enumerate(meeting.parties):
        kept = meeting.journals[role].kept(task.round)
        assert party.state is State.BURNT
        assert (kept.stage, kept.payload, kept.state) == (Stage.BURNT, b"", b"")
        assert party._share.size == 0
        assert not getattr(party, "_waiting", ())
        again = make_operator(type(party), task, meeting.enrolled)
        assert again.restore(kept) == []
        assert again.state is State.BURNT
        with pytest.raises(UsageError, match=messages.NOT_GIVEN_UP):
            party.give_up()
    assert not meeting.leader.ready


@pytest.mark.parametrize("until", [1, 2, 3, 4])
def test_a_leader_may_give_up_until_the_sum_is_open(until: int) -> None:
    """After its closing, after the helper's, after its own share, after the helper's."""
    meeting, _ = at_closing(until=until)
    meeting.do(0, meeting.leader.give_up)
    meeting.deliver()
    assert meeting.leader.state is meeting.helper.state is State.BURNT
    assert written(meeting, 0) is written(meeting, 1) is Stage.BURNT
    assert meeting.finished == [None, None]


@pytest.mark.parametrize("until", [0, 1, 2, 3])
def test_a_helper_may_give_up_until_it_has_revealed_its_share(until: int) -> None:
    meeting, values = posted(3) if until == 0 else at_closing(until=until)
    meeting.do(1, meeting.helper.give_up)
    if until == 0:
        meeting.do(0, meeting.leader.advance)
    meeting.deliver()
    assert meeting.leader.state is meeting.helper.state is State.BURNT
    assert written(meeting, 0) is written(meeting, 1) is Stage.BURNT
    assert meeting.finished == [None, None]
    meeting, values = at_closing(until=4)
    with pytest.raises(UsageError, match=messages.NOT_GIVEN_UP):
        meeting.helper.give_up()
    meeting.close()
    assert_summed(meeting, values, range(3))


def test_whoever_goes_on_with_a_round_that_was_given_up_is_told_again() -> None:
    meeting, _ = posted(4, batch=2)
    first = meeting._queue[0][1]
    meeting.do(1, meeting.helper.give_up)
    meeting._queue.clear()  # it is lost
    again = make_operator(Helper, TASK, meeting.enrolled, life=1)
    assert again.restore(meeting.journals[1].kept(TASK.round)) == []
    for helper in (meeting.helper, again):
        (told,) = helper.receive(decode(first))
        assert isinstance(told.message, GivenUp)
    meeting.do(0, lambda: meeting.leader.receive(told.message))
    assert meeting.leader.state is State.BURNT
    assert meeting.leader.receive(told.message) == []  # nor do two that have given up tell each other for ever
    assert meeting.helper.receive(altered(told.message, sender=meeting.leader.name, receiver=meeting.helper.name)) == []
    with pytest.raises(PeerError, match=messages.ORDER):
        meeting.helper.receive(altered(told.message, sender=OUTSIDER.public, receiver=meeting.helper.name))


def test_the_last_messages_of_a_leader_are_its_share_and_its_signature_or_that_it_has_given_up() -> None:
    meeting, _ = posted(3)
    meeting.close()
    last = [encode(one.message) for one in meeting.leader.farewell() if isinstance(one, Send)]
    assert [type(decode(one)) for one in last] == [NoisedShare, OpenedSum]
    assert all((0, one) in meeting.sent for one in last)
    other, _ = posted(3)
    other.do(0, other.leader.give_up)
    assert [type(one.message) for one in other.leader.farewell()] == [GivenUp]


def test_a_round_that_is_open_is_not_given_up_by_the_other() -> None:
    meeting, values = posted(3)
    meeting.close()
    told = GivenUp(VERSION, TASK.round, meeting.helper.name, meeting.leader.name)
    with pytest.raises(PeerError, match=messages.ORDER):
        meeting.leader.receive(told)
    assert_summed(meeting, values, range(3))


def closing(meeting: Meeting, role: int) -> Closing:
    (found,) = [one for one in sends(meeting, Closing) if one.sender == meeting.parties[role].name]
    return found  # type: ignore[no-any-return]


def at_closing(many: int = 3, task: JointTask = TASK, *, until: int = 1) -> tuple[Meeting, Any]:
    """All reports are decided on, and so many of closing, closing, share, share have been sent."""
    meeting, values = posted(many, task)
    meeting.do(0, meeting.leader.advance)
    while len(sends(meeting, Closing)) + len(sends(meeting, NoisedShare)) < until:
        to, data = meeting._queue.pop(0)
        meeting.do(to, lambda to=to, data=data: meeting.parties[to].receive(decode(data)))
    return meeting, values


def signed_closing(meeting: Meeting, role: int, true: Closing, **changes: Any) -> Closing:
    """A closing with other figures, signed by the operator itself."""
    new = altered(true, **changes)
    said = Closed(digest(meeting.task.statement), new.batches, new.accepted, new.count)
    return altered(new, signature=IDENTITIES[role].sign(encode(said)))  # type: ignore[no-any-return]


@pytest.mark.parametrize("role", [0, 1])
@pytest.mark.parametrize("change", [{"count": 4}, {"batches": 2}, {"accepted": bytes(32)}])
def test_operators_that_have_not_accepted_the_same_open_nothing(role: int, change: dict[str, Any]) -> None:
    meeting, _ = at_closing(until=1 + role)
    true, receiver = closing(meeting, role), meeting.parties[1 - role]
    with pytest.raises(PeerError, match=messages.AUTH):
        receiver.receive(altered(true, **change))
    with pytest.raises(PeerError, match=messages.AUTH):
        receiver.receive(altered(true, signature=bytes(64)))
    meeting.do(1 - role, lambda: receiver.receive(signed_closing(meeting, role, true, **change)))
    assert written(meeting, 1 - role) is Stage.BURNT
    assert_closed(meeting)


def test_a_helper_closes_nothing_below_the_floor() -> None:
    meeting, _ = posted(2, joint_task(joint_terms(floor=3)), batch=1)
    meeting.deliver()
    mine, names = meeting.helper._closed(), (meeting.leader.name, meeting.helper.name)
    claim = Closing(VERSION, TASK.round, *names, mine.batches, mine.accepted, mine.count, bytes(64), bytes(32))
    meeting.do(1, lambda: meeting.helper.receive(signed_closing(meeting, 0, claim)))
    assert written(meeting, 1) is Stage.BURNT
    assert_closed(meeting)


def test_a_set_is_closed_once() -> None:
    meeting, values = at_closing(until=2)
    other = signed_closing(meeting, 0, closing(meeting, 0), count=2)
    with pytest.raises(PeerError, match=messages.EQUIVOCATION):
        meeting.helper.receive(other)
    with pytest.raises(PeerError, match=messages.ORDER):
        meeting.helper.receive(Batch(VERSION, TASK.round, meeting.leader.name, meeting.helper.name, 1, ()))
    with pytest.raises(UsageError, match=messages.WINDOW_OVER):
        meeting.leader.advance()
    meeting.close()
    assert_summed(meeting, values, range(3))


@pytest.mark.parametrize("role", [0, 1])
def test_only_the_share_that_was_committed_to_is_taken(role: int) -> None:
    meeting, values = at_closing(until=3 + role)
    true = sends(meeting, NoisedShare)[role]
    receiver = meeting.parties[1 - role]
    for change in ({"share": true.share[8:] + true.share[:8]}, {"salt": bytes(32)}, {"share": b""}):
        with pytest.raises(PeerError, match=messages.ABORTED):
            receiver.receive(altered(true, **change))
    meeting.close()
    assert_summed(meeting, values, range(3))


@pytest.mark.parametrize("share", [bytes(8), b"\xff" * 32, (MODULUS // 2).to_bytes(8, "little") * 4])
def test_a_share_that_is_none_ends_the_round_though_it_was_committed_to(share: bytes) -> None:
    """Of another length; beyond the field; or one that makes the sum larger than its reports can."""
    meeting, _ = at_closing(until=1)
    leader: Any = meeting.leader
    leader._own = altered(leader._own, share=share)
    meeting._queue.clear()
    meeting.sent.clear()
    meeting.do(0, leader.again)
    meeting.deliver()
    assert written(meeting, 1) is Stage.BURNT
    assert meeting.finished == [None, None]
    assert len(sends(meeting, NoisedShare)) == 1


@pytest.mark.parametrize("role", [0, 1])
def test_a_sum_that_the_other_has_not_signed_is_not_used(role: int) -> None:
    meeting, values = at_closing(until=4)
    meeting._queue = [(to, data) for to, data in meeting._queue if not isinstance(decode(data), OpenedSum)]
    meeting.deliver()
    true = sends(meeting, OpenedSum)[0]
    if role == 0:
        meeting.do(0, lambda: meeting.leader.receive(true))
        meeting._queue.clear()
        true = sends(meeting, OpenedSum)[1]
    receiver = meeting.parties[1 if role == 0 else 0]
    with pytest.raises(PeerError, match=messages.AUTH):
        receiver.receive(altered(true, signature=bytes(64)))
    assert receiver.state is State.SIGNATURE
    meeting.close()
    assert_summed(meeting, values, range(3))


def test_a_share_without_noise_is_kept_nowhere_once_the_set_is_closed() -> None:
    meeting, _ = posted(5, joint_task(NOISY), batch=2)
    meeting.deliver()
    before = [meeting.parties[role]._share.tobytes() for role in (0, 1)]
    meeting.close()
    for role, party in enumerate(meeting.parties):
        kept = meeting.journals[role].kept(meeting.task.round)
        assert kept.state == b""
        assert before[role] not in kept.payload
        assert party._share.size == 0
        assert party._noise_seed == b""  # the noised share less what is drawn from it would be that share
        assert not any(isinstance(one, Settle) for _, actions in party._answered.values() for one in actions)


# What is agreed on


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"terms": altered(joint_terms(), method="double")}, messages.TERMS_OF_TWO_OPERATORS),
        ({"terms": joint_terms(ring_bits=32)}, messages.TERMS_OF_TWO_OPERATORS),
        ({"terms": joint_terms(noise=100, floor=1)}, messages.NOISE_BELOW_THE_FLOOR),
        ({"terms": joint_terms(bound=2**31 - 1), "people": 2**33}, messages.SUM_COULD_WRAP_THE_FIELD),
        ({"terms": joint_terms(bound=2**32), "people": 1}, messages.BOUND_TOO_LARGE_FOR_THE_FIELD),
    ],
)
def test_a_task_that_cannot_be_kept_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        joint_task(**changes)


def test_noise_is_part_of_what_must_not_wrap() -> None:
    terms, most = joint_terms(bound=2**20), MODULUS // 2 // 2**20
    joint_task(terms, people=most)
    with pytest.raises(UsageError, match=messages.SUM_COULD_WRAP_THE_FIELD):
        joint_task(terms, people=most + 1)
    with pytest.raises(UsageError, match=messages.SUM_COULD_WRAP_THE_FIELD):
        joint_task(altered(terms, noise=2**52), people=most)


def test_the_operators_are_two() -> None:
    with pytest.raises(UsageError, match=messages.TWO_PARTIES):
        JointTask(TASK.round, TASK.terms, TASK.model, TASK.leader, TASK.leader, TASK.listed, 5)
    same = TASK.helper._replace(box_key=TASK.leader.box_key)
    with pytest.raises(UsageError, match=messages.TWO_PARTIES):
        JointTask(TASK.round, TASK.terms, TASK.model, TASK.leader, same, TASK.listed, 5)


def test_an_operator_is_who_its_task_says() -> None:
    good = {"identity": person(0), "box_key": BOX_KEYS[0], "entropy": entropy_of(0)}
    for kind in (Leader, Helper):
        with pytest.raises(UsageError, match=messages.OPERATOR_OF_THE_TASK):
            kind(TASK, enrolled=(), **good)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=messages.OPERATOR_OF_THE_TASK):
        make_operator(Leader, joint_task(), ()).__class__(
            TASK, enrolled=(), identity=RECOMMENDER, box_key=BOX_KEYS[0], entropy=bytes(63)
        )


def test_a_round_is_begun_once_and_restored_before() -> None:
    meeting, _ = posted(1)
    for party in meeting.parties:
        with pytest.raises(UsageError, match=messages.BEGUN_ONCE):
            party.begin()
        with pytest.raises(UsageError, match=messages.RESTORED_FIRST):
            party.restore(None)


def test_terms_of_two_operators_are_for_no_roster() -> None:
    with pytest.raises(UsageError, match=messages.NO_ROSTER):
        Task(TASK.round, RECOMMENDER.public, TASK.terms, bytes(32))


def test_another_task_has_another_verification_key() -> None:
    others = {"model": bytes(32)}, {"listed": bytes(32)}, {"people": 7}
    tasks = [TASK, joint_task(joint_terms(floor=3)), *(joint_task(**other) for other in others)]
    keys = [make_operator(kind, task, ())._verify_key for task in tasks for kind in (Leader, Helper)]
    assert keys[::2] == keys[1::2]
    assert len(set(keys)) == len(tasks)


def test_secrets_do_not_print() -> None:
    meeting, _ = posted(3, joint_task(NOISY))
    meeting.close()
    assert "share" not in repr(meeting.leader._own)
    assert all(len(repr(decode(data))) < 40 for _, data in meeting.sent)
