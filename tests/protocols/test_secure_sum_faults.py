"""A line that duplicates, reorders, delays, cuts, flips, replays and misdirects: the exact sum or no sum, and each
device speaks once."""

from collections import defaultdict
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from prirec.errors import Fault, PeerError, StateError
from prirec.protocols.codec import decode, encode
from prirec.protocols.messages import (
    Agreement,
    AnyMessage,
    Invitation,
    Keys,
    Masked,
    Partial,
    Reveal,
    Round,
    ShareOf,
    Terms,
)
from prirec.protocols.party import Aborted, Action, Finished, Party, Persist, Send, Stage, State
from support import messages
from support.rounds import DEPLOYMENT, OUTSIDER, Gathering, altered, fingerprint, gather, terms_of

HERE = Round(DEPLOYMENT, "linear", 5)
ELSEWHERE = (
    altered(HERE, number=4),
    altered(HERE, attempt=1),
    altered(HERE, group=1),
    altered(HERE, kind="interaction"),
    altered(HERE, deployment=bytes(16)),
)
KINDS = [terms_of("double"), terms_of("pads"), terms_of("shares")]
ONCE = (Masked, Agreement, Reveal, Partial, ShareOf)


@lru_cache(maxsize=64)
def overheard(terms: Terms, many: int, of: Round) -> tuple[bytes, ...]:
    """All that crossed the wire in another round of the same people."""
    said: list[bytes] = []

    def listen(message: AnyMessage) -> tuple[int, ...]:
        said.append(encode(message))
        return (0,)

    gather(many, terms, of=of, seed=77).run(listen)
    return tuple(said)


class BadLine(RuleBasedStateMachine):
    """Everything ever sent stays on the line, and may arrive at any time, any number of times, in any shape."""

    @initialize(terms=st.sampled_from(KINDS), many=st.integers(2, 4), seed=st.integers(0, 5))
    def begin(self, terms: Terms, many: int, seed: int) -> None:
        self.round: Gathering = gather(many, terms, of=HERE, seed=seed)
        self.terms, self.many = terms, many
        self.parties: dict[bytes, Party] = {one.name: one for one in (self.round.collector, *self.round.members)}
        self.line: list[bytes] = []
        self.arrived = 0
        self.said: dict[tuple[bytes, type, bytes], set[bytes]] = defaultdict(set)
        self.finished: dict[bytes, Finished] = {}
        self.taken: set[bytes] = set()
        self.faults: set[Fault] = set()
        self.do(self.round.collector, self.round.collector.invite(self.round.names))

    def do(self, party: Party, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Persist():
                    self.round.journals[party.name].write(action)
                case Send(message):
                    to = message.receiver if isinstance(message, ShareOf) else b""
                    self.said[message.sender, type(message), to].add(encode(message))
                    self.line.append(encode(message))
                case Finished():
                    assert party.name not in self.finished
                    self.finished[party.name] = action
                case Aborted():
                    assert party.state is State.BURNT

    def hand(self, data: bytes) -> None:
        try:
            message = decode(data)
        except PeerError as fault:
            self.faults.add(fault.fault)
            return
        party = self.parties.get(message.receiver)
        if party is None:
            return
        before, written = fingerprint(party), len(self.round.journals[party.name].written)
        try:
            actions = party.receive(message)
        except PeerError:
            assert fingerprint(party) == before
            assert len(self.round.journals[party.name].written) == written
            return
        if isinstance(message, Masked):
            self.taken.add(message.sender)
        self.do(party, actions)

    def one(self, choice: int) -> bytes:
        """Something from the line, late things rather than early ones."""
        return self.line[-1 - choice % len(self.line)]

    @rule()
    def what_is_due_arrives(self) -> None:
        while self.arrived < len(self.line):
            self.arrived += 1
            self.hand(self.line[self.arrived - 1])

    @precondition(lambda self: self.round.collector.state not in (State.DONE, State.BURNT))
    @rule()
    def what_is_due_arrives_and_time_passes(self) -> None:
        self.what_is_due_arrives()
        self.do(self.round.collector, self.round.collector.advance())

    @precondition(lambda self: self.round.collector.state not in (State.DONE, State.BURNT))
    @rule(chance=st.integers(0, 3))
    def time_passes(self, chance: int) -> None:
        if chance == 0:
            self.do(self.round.collector, self.round.collector.advance())

    @rule(choice=st.integers(0, 60))
    def something_arrives_again_or_early(self, choice: int) -> None:
        self.hand(self.one(choice))

    @rule()
    def the_last_due_is_overtaken(self) -> None:
        if self.arrived < len(self.line):
            self.line.append(self.line.pop(self.arrived))

    @rule()
    def something_is_lost(self) -> None:
        self.arrived = min(self.arrived + 1, len(self.line))

    @rule(choice=st.integers(0, 60), at=st.integers(0, 2**16), bit=st.integers(0, 7))
    def a_bit_flips(self, choice: int, at: int, bit: int) -> None:
        data = bytearray(self.one(choice))
        data[at % len(data)] ^= 1 << bit
        self.hand(bytes(data))

    @rule(choice=st.integers(0, 60), at=st.integers(0, 2**16), more=st.binary(max_size=4))
    def bytes_are_cut_or_added(self, choice: int, at: int, more: bytes) -> None:
        data = self.one(choice)
        self.hand(data[: at % (len(data) + 1)] + more if more != data[-len(more) :] else data[:-1])

    @rule(choice=st.integers(0, 60), at=st.integers(0, 2**16), more=st.binary(min_size=1, max_size=4))
    def a_sealed_part_is_changed(self, choice: int, at: int, more: bytes) -> None:
        message = decode(self.one(choice))
        if hasattr(message, "sealed"):
            sealed = message.sealed[: at % len(message.sealed)] + more + message.sealed[at % len(message.sealed) :]
            self.hand(encode(altered(message, sealed=sealed)))

    @rule(choice=st.integers(0, 60), to=st.integers(0, 4), by=st.integers(0, 5))
    def something_goes_astray(self, choice: int, to: int, by: int) -> None:
        message, names = decode(self.one(choice)), sorted(self.parties)
        self.hand(encode(altered(message, receiver=names[to % len(names)])))
        senders = [*names, OUTSIDER.public]
        self.hand(encode(altered(message, sender=senders[by % len(senders)])))

    @rule(of=st.sampled_from(ELSEWHERE), choice=st.integers(0, 200), renamed=st.booleans())
    def something_of_another_round_arrives(self, of: Round, choice: int, renamed: bool) -> None:
        heard = overheard(self.terms, self.many, of)
        message = decode(heard[choice % len(heard)])
        self.hand(encode(altered(message, round=HERE) if renamed else message))

    @rule(choice=st.integers(0, 60))
    def an_outsider_speaks(self, choice: int) -> None:
        message = decode(self.one(choice))
        self.hand(encode(altered(message, sender=OUTSIDER.public, receiver=self.round.collector.name)))
        self.hand(encode(altered(message, sender=OUTSIDER.public)))

    @invariant()
    def the_sum_is_exact(self) -> None:
        for found in getattr(self, "finished", {}).values():
            inside = [at for at, name in enumerate(self.round.names) if name in self.taken]
            inside = list(range(self.many)) if self.terms.method == "shares" else inside
            assert found.summands == len(inside)
            assert found.total.tolist() == self.round.total(inside).tolist()

    @invariant()
    def what_is_no_message_is_refused_as_that(self) -> None:
        assert getattr(self, "faults", set()) <= {Fault.DECODE}

    @invariant()
    def everyone_speaks_once(self) -> None:
        for (_, kind, _), said in getattr(self, "said", {}).items():
            assert kind not in ONCE or len(said) == 1

    @invariant()
    def a_pad_is_used_once(self) -> None:
        journals = self.round.journals.values() if hasattr(self, "round") else ()
        for journal in journals:
            assert len({one.digest for one in journal.written if one.stage is Stage.MASKED}) <= 1

    def teardown(self) -> None:
        """What is left arrives, and time passes until the round is over."""
        while hasattr(self, "round") and self.round.collector.state not in (State.DONE, State.BURNT):
            self.what_is_due_arrives_and_time_passes()
        if hasattr(self, "round"):
            self.what_is_due_arrives()
            self.the_sum_is_exact()
            self.everyone_speaks_once()
            self.a_pad_is_used_once()


TestBadLine = BadLine.TestCase
TestBadLine.settings = settings(max_examples=60, stateful_step_count=40, suppress_health_check=list(HealthCheck))


@pytest.mark.soak
def test_sums_survive_two_thousand_runs_over_a_faulty_network() -> None:
    run_state_machine_as_test(BadLine, settings=settings(TestBadLine.settings, max_examples=2000))


@pytest.mark.parametrize("terms", KINDS)
def test_a_new_attempt_after_a_vector_was_masked_is_refused_before_anything_leaves(terms: Terms) -> None:
    """The difference of two sums would be one person's vector: the journal outlives the round."""
    first = gather(3, terms, of=HERE)
    first.run()
    second = gather(3, terms, of=altered(HERE, attempt=1), seed=1)
    second.journals.update({name: first.journals[name] for name in second.names})
    sent = []
    with pytest.raises(StateError, match=messages.ROUND_ENTERED_TWICE):
        second.run(lambda message: sent.append(type(message)) or (0,))
    assert set(sent) == {Invitation}
    third = gather(3, terms, of=altered(HERE, attempt=2))
    third.journals[third.collector.name] = first.journals[first.collector.name]
    with pytest.raises(StateError, match=messages.ROUND_ENTERED_TWICE):
        third.run(lambda message: sent.append(type(message)) or (0,))
    assert len(sent) == 3


@pytest.mark.parametrize("terms", KINDS)
def test_a_new_attempt_before_a_vector_was_masked_is_taken(terms: Terms) -> None:
    first = gather(3, terms, of=HERE)
    first.run(lambda message: () if isinstance(message, Keys) else (0,))
    second = gather(3, terms, of=altered(HERE, attempt=1), seed=1)
    second.journals.update(first.journals)
    wire = second.run()
    assert all((found.total == second.total()).all() for found in wire.finished.values())
    assert wire.finished


def test_the_control_notices_a_wrong_sum() -> None:
    """The machine's own check fails where a total is off by one."""
    machine = BadLine()
    machine.begin(terms=KINDS[2], many=3, seed=0)
    machine.teardown()
    (found,) = machine.finished.values()
    machine.the_sum_is_exact()
    machine.finished = {b"": Finished(found.total + np.uint64(1), found.summands)}
    with pytest.raises(AssertionError):
        machine.the_sum_is_exact()
