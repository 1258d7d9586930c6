"""One curious operator finds nobody's vector in all that it receives, stores and computes; and through both operators
no lie is accepted and no honest report refused. That its shares are uniform: tests/proofs."""

import logging
from typing import Any

import numpy as np
import pytest

from prirec.proofs import pine
from prirec.proofs.field import FieldArray, elements_of
from prirec.proofs.parameters import Parameters
from prirec.protocols import two_operators
from prirec.protocols.codec import encode
from prirec.protocols.messages import NoisedShare, Terms
from prirec.protocols.two_operators import Device, Reason
from support.canaries import forms
from support.joint_sums import Meeting, draws, entropy_of, joint_task, joint_terms, person, sealed, sends, total
from support.low_floors import low_floor
from support.lying_reports import LIES, LYING, within
from support.rounds import fingerprint

MANY = 6


@pytest.fixture(autouse=True)
def _few_people(monkeypatch: pytest.MonkeyPatch) -> None:
    low_floor(monkeypatch, 2)


def telling_vectors(terms: Terms) -> np.ndarray:
    """Large numbers, all different, of both signs."""
    rng = np.random.default_rng(3)
    return rng.integers(-(2**28), 2**28, (MANY, terms.length)).view(np.uint64)


def words(vector: np.ndarray) -> set[bytes]:
    """Each entry as eight bytes, as an integer and as an element of the field, either way round, and its digits."""
    found: set[bytes] = set()
    for whole in vector.view(np.int64).tolist():
        for eight in (int(elements_of(np.array([whole]))[0]), whole % 2**64):
            found |= forms(eight.to_bytes(8, "little")) | forms(eight.to_bytes(8, "big"))
        found |= {str(whole).encode()}
    return found


class Watched(Meeting):
    """Remembers all that each operator holds, after everything that it does: messages, journal, memory, shares."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self.seen: list[list[bytes]] = [[], []]
        super().__init__(*given, **named)

    def do(self, role: int, act: Any) -> None:
        super().do(role, act)
        kept = self.journals[role].kept(self.task.round)
        self.seen[role] += [] if kept is None else [kept.payload, kept.state, *kept.lines]
        self.seen[role].append(repr(fingerprint(self.parties[role])).encode())
        self.seen[role] += [self.parties[role]._share.tobytes(), self.parties[role]._own.share]


def watched(monkeypatch: pytest.MonkeyPatch, *, noise: int = 10**6, plainly: bool = False) -> tuple[Watched, Any]:
    """A round, and in `seen` also what each operator opened and computed by itself. `plainly`: devices give the leader
    all of their vector."""
    task = joint_task(joint_terms(length=5, bound=2**30, noise=noise, floor=3))
    values = telling_vectors(task.terms)
    meeting = Watched(task, many=MANY, batch=4)
    prepare, expand = pine.prepare, pine.expand

    def preparing(p: Parameters, key: bytes, role: int, **given: bytes) -> Any:
        state, verifier = prepare(p, key, role, **given)
        meeting.seen[role] += [given["share"], state.entries.tobytes(), verifier]
        return state, verifier

    def nothing(seed: bytes, usage: Any, binder: bytes, count: int) -> FieldArray:
        found = expand(seed, usage, binder, count)
        return np.zeros_like(found) if usage is pine.Usage.ENCODED_SHARE else found

    monkeypatch.setattr(two_operators.pine, "prepare", preparing)
    if plainly:
        monkeypatch.setattr(pine, "expand", nothing)
    reports = [
        Device(task, identity=person(at), value=values[at], draw=draws(b"%08d" % at)).report()[-1].message  # type: ignore[union-attr]
        for at in range(MANY)
    ]
    for report in reports:
        meeting.seen[0].append(encode(report))
    meeting.post(reports)  # type: ignore[arg-type]
    meeting.close()
    for role, data in meeting.sent:
        meeting.seen[1 - role].append(data)
        meeting.seen[role].append(data)
    return meeting, values


def found_in(texts: list[bytes], patterns: set[bytes]) -> int:
    everything = b"\0\0".join(texts)
    return sum(pattern in everything for pattern in patterns)


def test_no_entry_of_anyones_vector_is_in_what_an_operator_sees(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        meeting, values = watched(monkeypatch)
    assert meeting.finished[0] is not None
    assert not caplog.records
    for role in (0, 1):
        for at in range(MANY):
            assert found_in(meeting.seen[role], words(values[at])) == 0


def test_the_search_would_find_a_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted mistake: the helper's share is 0, so that the leader has the vector itself."""
    meeting, values = watched(monkeypatch, plainly=True)
    assert all(found_in(meeting.seen[0], words(value)) >= 5 for value in values)


def test_no_operator_sees_the_sum_without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    meeting, values = watched(monkeypatch)
    exact = np.array(total(values, range(MANY)), np.uint64)
    assert found_in(meeting.seen[0], words(exact)) == found_in(meeting.seen[1], words(exact)) == 0
    noiseless, _ = watched(monkeypatch, noise=0)
    assert found_in([noiseless.finished[0].total.tobytes()], words(exact)) >= 5  # type: ignore[union-attr]


def test_against_one_operator_the_others_noise_is_all_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever subtracts its own draw is left with the sum and the whole of the other's."""
    meeting, values = watched(monkeypatch)
    exact = np.array(total(values, range(MANY)), np.uint64)
    law, sum_of_both = two_operators.operator_noise(meeting.task.terms), meeting.finished[0].total  # type: ignore[union-attr]
    draws_of = [
        law.draw(two_operators.Stream(entropy_of(role)[:32]), meeting.task.terms.length).view(np.uint64)
        for role in (0, 1)
    ]
    for role in (0, 1):
        assert (sum_of_both - draws_of[role] - exact).tolist() == draws_of[1 - role].tolist()
        assert law.hides() >= meeting.task.terms.noise
    assert len(sends(meeting, NoisedShare)) >= 2


# Many reports, through both operators


@pytest.mark.parametrize("many", [40, pytest.param(10_000, marks=pytest.mark.soak)])
def test_no_random_lie_is_in_the_sum(many: int) -> None:
    terms = joint_terms(length=LYING.dimension, bound=LYING.norm_bound)
    task, rng = joint_task(terms, people=2 * many), np.random.default_rng(many)
    proof = two_operators.proof_of(terms)
    assert proof == LYING
    meeting, expected, inside = Meeting(task, many=many, batch=50), np.zeros(terms.length, np.int64), 0
    for at in range(many):
        vectors = [within(proof, rng) for _ in range(2)]
        report, other = (pine.report(proof, vector, bytes(16), rng.bytes) for vector in vectors)
        lie = at % 8 > 0
        meeting.post([sealed(task, at, LIES[at % len(LIES)](report, other, rng) if lie else report)])
        expected, inside = (expected, inside) if lie else (expected + vectors[0], inside + 1)
        meeting.deliver()
    meeting.close()
    assert meeting.finished[0] is not None
    assert meeting.finished[0].total.view(np.int64).tolist() == expected.tolist()
    assert meeting.finished[0].summands == inside
    assert sum(meeting.leader.refused.values()) == many - inside
    assert Reason.PROOF in meeting.leader.refused


@pytest.mark.parametrize("many", [100, pytest.param(100_000, marks=pytest.mark.soak)])
def test_no_honest_report_is_left_out(many: int) -> None:
    terms = joint_terms(length=445, bound=4096)
    task, rng, proof = joint_task(terms, people=many), np.random.default_rng(many), two_operators.proof_of(terms)
    meeting, expected = Meeting(task, many=many), np.zeros(terms.length, np.int64)
    for at in range(many):
        vector = within(proof, rng)
        meeting.post([sealed(task, at, pine.report(proof, vector, bytes(16), rng.bytes))])
        meeting.mailbox.clear()
        meeting.sent.clear()
        expected += vector
        meeting.deliver()
    meeting.close()
    assert meeting.finished[0] is not None
    assert meeting.finished[0].summands == many
    assert meeting.finished[0].total.view(np.int64).tolist() == expected.tolist()
    assert not meeting.leader.refused
