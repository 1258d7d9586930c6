"""A sum over two operators: one message from each device, at any time, and privacy while one of the two is honest.

    device             splits its vector between leader and helper, proves its norm, seals each share to its operator,
                       and sends one report to the leader
    leader, helper     decide on the reports, batch after batch: one that is not what it proves to be is dropped alone
    then               both close the set of accepted reports and commit to their noised shares; both reveal them; the
                       sum is open, and both sign it

Exact: shares of a vector add up in the field (proofs/pine.py), whose elements are the integers of the ring as long as
no sum passes p/2, which a task makes sure of. Both operators take batches in one order and add up the same reports: the
leader's next batch waits for the verdicts on the last one, a batch that comes again gets the verdicts that it got, and
the two close over one hash of all accepted reports, or not at all.

Private: one operator's shares are uniform, and its noise is known to itself alone. Each adds all the noise that the
terms call for, so the sum is private against the other operator and any number of devices. It draws that noise once a
round, and writes the noised share down before a byte of it leaves. A set is closed once: after that neither operator
takes another report, another closing, or draws again. With less than the floor nothing is closed: the leader waits on,
or gives the round up.

A lie in a report costs its sender its report. Whoever knows the verification key could prove anything: it comes from
the operators' own keys and the whole task, so it is fixed before reports come, and no device can compute it.

A round ends on both sides. Before it has revealed its share a helper may give up, a leader until the sum is opened;
whoever is asked to go on with a round that it has given up says so again.

Memory: an operator holds the sum of accepted shares, one batch, and a name and a hash for each report. What it must not
forget it asks to be written (`Settle`, `Persist`), the batch that is with the helper and the other's commitment
included; after a crash a new party is made of that (`restore`), and the driver feeds the leader again those reports
that it has neither settled nor sent to the helper.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from enum import IntEnum
from fractions import Fraction
from hashlib import sha256
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from prirec.config import HARD_FLOOR
from prirec.errors import Fault, PeerError, UsageError
from prirec.privacy.noise import OperatorNoise, Stream
from prirec.proofs import pine
from prirec.proofs.field import FieldArray, elements_of, sums
from prirec.proofs.parameters import ELEMENT, MODULUS, Parameters
from prirec.proofs.pine import HELPER, LEADER
from prirec.protocols import party
from prirec.protocols.codec import LIMIT, check_vector, decode, decode_with, digest, encode
from prirec.protocols.messages import (
    MOST_FORWARDED,
    VERSION,
    AnyMessage,
    Batch,
    Closing,
    Digest,
    Forwarded,
    GivenUp,
    Key,
    Name,
    Natural,
    NoisedShare,
    Nonce,
    OpenedSum,
    Report,
    Round,
    SecretStruct,
    Terms,
    Verdict,
    Verdicts,
    WireStruct,
)
from prirec.protocols.party import Action, FatalError, Finished, Handlers, Party, Persist, Send, Settle, Stage, State
from prirec.sharing.keys import BOX, SEED, AgreementKey, SigningKey, derive, seal_box, verify
from prirec.types import RingArray

SUITE = "HPKE: X25519, HKDF-SHA256, AES-128-GCM; PINE-01: Field64, HMAC-SHA256, AES-128-CTR"
ROLES = ("leader", "helper")
_PARTS = (
    32  # bytes of each of the four parts of a report's public part: checks of both operators, then joint randomness
)
_ROOM = 2**20  # elements that the vectors of one batch may have together: 8 MB


# What is agreed on


class OperatorKeys(NamedTuple):
    """An operator as the other parties know it."""

    name: bytes  # its identity
    box_key: bytes  # X25519, for what is sealed to it; made for one round or one campaign, and erased afterwards


class JointStatement(WireStruct, frozen=True, tag="prirec joint task"):
    """All that the parties of a round must hold alike. Its hash is in every report and in the info of every box."""

    version: Literal[4]
    round: Round
    terms: Terms
    model: Digest
    leader: Name
    leader_box: Key
    helper: Name
    helper_box: Key
    listed: Digest
    people: Natural


@dataclass(frozen=True, slots=True)
class JointTask:
    """The sum that a party takes part in, as it has worked it out itself."""

    round: Round
    terms: Terms
    model: bytes  # hash of what everyone must hold alike
    leader: OperatorKeys
    helper: OperatorKeys
    listed: bytes  # hash of the head of the list of those who may report: both operators have to have the same one
    people: int  # at most so many reports

    def __post_init__(self) -> None:
        terms = self.terms
        if terms.method != "two_operators" or terms.ring_bits != 64:
            raise UsageError("a sum over two operators has terms of that kind, for numbers of 64 bits")
        if self.leader.name == self.helper.name or self.leader.box_key == self.helper.box_key:
            raise UsageError("the two operators are two parties, with keys of their own")
        if terms.noise and terms.floor < HARD_FLOOR:
            raise UsageError(f"noise is for sums with a floor of at least {HARD_FLOOR}")
        most = self.people * terms.bound
        if terms.noise:
            most += operator_noise(terms).tail(survivors=terms.floor, count=terms.length)
        if most > MODULUS // 2:
            raise UsageError("the sum with its noise could pass p/2: use fewer fraction bits, or fewer people")
        proof_of(terms)  # refuses a bound that no proof of this field can hold

    @property
    def statement(self) -> JointStatement:
        operators = (*self.leader, *self.helper)
        return JointStatement(VERSION, self.round, self.terms, self.model, *operators, self.listed, self.people)


def proof_of(terms: Terms) -> Parameters:
    """The proof that every report carries: its vector is no longer than the bound."""
    return Parameters.shortest(dimension=terms.length, norm_bound=terms.bound)


def leader_box_length(terms: Terms) -> int:
    """Bytes of the leader's box in every report on these terms; that of the helper's is fixed."""
    proof = proof_of(terms)
    return (proof.encoded_length + proof.proofs_length) * ELEMENT + 2 * SEED + BOX


def operator_noise(terms: Terms) -> OperatorNoise:
    return OperatorNoise(Fraction(terms.noise), terms.floor, 0)


class ReportStatement(WireStruct, frozen=True, tag="prirec report"):
    """Signed by the device's identity."""

    held: Digest
    name: Name
    nonce: Nonce
    public: bytes
    leader_box: Digest
    helper_box: Digest


def _statement(held: bytes, report: Report) -> ReportStatement:
    boxes = (sha256(box).digest() for box in (report.leader_box, report.helper_box))
    return ReportStatement(held, report.sender, report.nonce, report.public, *boxes)


def mark_of_report(report: Report) -> bytes:
    """By which the same report is known when it comes again: the hash of what its device signed."""
    return digest(_statement(report.held, report))


def _box_fields(role: int, *, held: bytes, name: bytes, nonce: bytes, public: bytes) -> tuple[bytes | str | int, ...]:
    """What a box is bound to: by the hash of the task deployment, round, terms and both operators' keys."""
    return "prirec report", VERSION, SUITE, ROLES[role], held, name, nonce, public


def verification_key(own: AgreementKey, peer: bytes, held: bytes) -> bytes:
    """The key at which proofs are verified, which the two operators share."""
    return derive(own.agree(peer), "prirec", VERSION, "verification key", held)


def chained(accepted: bytes, mark: bytes) -> bytes:
    """The hash of the accepted reports, with one more."""
    return sha256(accepted + mark).digest()


# The device


class Device(Party):
    """Adds one vector by one report. It hears nothing; the same report is sent again until it has arrived."""

    moves = party.DEVICE

    def __init__(
        self, task: JointTask, *, identity: SigningKey, value: RingArray, draw: Callable[[int], bytes]
    ) -> None:  # fmt: skip
        super().__init__(identity.public, task.round)
        self.task, self._identity, self._draw = task, identity, draw
        self._value = check_vector(value, task.terms).view(np.int64)
        self._sent: Report | None = None

    @property
    def handlers(self) -> Handlers:
        return {}

    def report(self) -> list[Action]:
        """The report, once: whoever asks again gets the same bytes. A vector beyond the bound is refused here."""
        if self._sent is None:
            self._sent = self._made()
            self.state = State.DONE
        held, sent = digest(self.task.statement), encode(self._sent)
        entered = Persist(self.round, Stage.ENTERED, held)  # the same after a crash, so that nothing is lost by one
        return [entered, Persist(self.round, Stage.MASKED, sha256(sent).digest(), sent), Send(self._sent)]

    def restore(self, payload: bytes) -> list[Action]:
        """After a crash, from the journal: the report that was written is the only one ever sent."""
        sent = decode(payload)
        if not isinstance(sent, Report) or sent.round != self.round:
            raise UsageError("this is not the report of this round")
        self._sent, self.state = sent, State.DONE
        return [Send(sent)]

    def _made(self) -> Report:
        held, nonce = digest(self.task.statement), self._draw(pine.NONCE)
        made = pine.report(proof_of(self.task.terms), self._value, nonce, self._draw)
        bound = {"held": held, "name": self.name, "nonce": nonce, "public": made.public}
        leader_box = seal_box(self.task.leader.box_key, made.leader, *_box_fields(LEADER, **bound))
        helper_box = seal_box(self.task.helper.box_key, made.helper, *_box_fields(HELPER, **bound))
        content = nonce, held, made.public, leader_box, helper_box
        unsigned = Report(VERSION, self.round, self.name, self.task.leader.name, *content, signature=bytes(64))
        signature = self._identity.sign(encode(_statement(held, unsigned)))
        return msgspec.structs.replace(unsigned, signature=signature)


# What both operators have in common


class Reason(IntEnum):
    """Why a report is not in the sum; the first is that it is."""

    ACCEPTED = 0
    BOX = 1  # it does not open
    FORM = 2  # what is in it has another length, or numbers beyond the field
    RANDOMNESS = 3  # the public part is not that of the shares
    PROOF = 4  # the proof does not hold
    SIGNATURE = 5  # not the device's
    STRANGER = 6  # the device is not enrolled
    TWICE = 7  # the device has reported already
    FULL = 8  # the round has as many reports as it was sized for


NOT_ITS_OWN = (Reason.SIGNATURE, Reason.STRANGER)  # such a report is not held against the name that it bears


class Line(WireStruct, frozen=True):
    """A settled report."""

    name: Name
    mark: Digest  # of what the device signed
    reason: Annotated[int, Meta(ge=0, le=8)]


class Lines(WireStruct, frozen=True):
    """The reports that were settled together, in their order."""

    lines: tuple[Line, ...]


class Pending(SecretStruct, frozen=True):
    """A report that is with the helper, and what the leader keeps of it until the verdict."""

    line: Line
    entries: bytes
    seeds: Annotated[bytes, Meta(min_length=2 * SEED, max_length=2 * SEED)]


class Tally(SecretStruct, frozen=True):
    """What an operator has added up: to be written with each batch, and erased when the set is closed."""

    batches: Natural  # settled
    settled: Natural  # writes so far
    share: bytes
    pending: tuple[Pending, ...] = ()  # the leader's: reports that are with the helper,
    sent: bytes = b""  # and the batch that they are in, to be sent again
    batch: bytes = b""  # the helper's: hash of the last batch, and the verdicts on it, to be sent again
    verdicts: bytes = b""


class Closed(WireStruct, frozen=True, tag="prirec closing"):
    """Signed by both operators: the one set of reports that this round is opened over."""

    held: Digest
    batches: Natural
    accepted: Digest
    count: Natural


class Committed(SecretStruct, frozen=True, tag="prirec noised share"):
    """Hashed for the commitment to a noised share."""

    closed: Digest
    name: Name
    salt: Digest
    share: bytes


class Summed(SecretStruct, frozen=True, tag="prirec opened sum"):
    """Signed by both operators: the sum of a closed set."""

    closed: Digest
    total: bytes


class Noised(SecretStruct, frozen=True):
    """An operator's noised share, as it is written before anything of it leaves."""

    closed: Closed
    share: bytes
    salt: Digest
    other: bytes = b""  # the other's closing, with its commitment
    total: bytes = b""  # the sum, once it is open


_lines = msgspec.msgpack.Decoder(Lines)
_tallies = msgspec.msgpack.Decoder(Tally)
_closings = msgspec.msgpack.Decoder(Closing)
_noised = msgspec.msgpack.Decoder(Noised)


@dataclass(frozen=True, slots=True)
class Kept:
    """What the journal holds of an operator's round."""

    stage: Stage
    payload: bytes = field(default=b"", repr=False)
    lines: tuple[bytes, ...] = ()
    state: bytes = field(default=b"", repr=False)


ENTROPY = 2 * SEED  # bytes: for the noise, and the salt of the commitment; drawn anew while nothing of them was written


class Operator(Party):
    """Leader or helper: it decides on reports, adds up its shares of the accepted ones, and opens the sum with the
    other."""

    burns_on_equivocation = False
    role: int
    may_give_up: frozenset[State]

    def __init__(
        self, task: JointTask, *, identity: SigningKey, box_key: AgreementKey, enrolled: Container[bytes],
        entropy: bytes,
    ) -> None:  # fmt: skip
        super().__init__(identity.public, task.round)
        me, peer = (task.leader, task.helper) if self.role == LEADER else (task.helper, task.leader)
        if (identity.public, box_key.public) != me or len(entropy) != ENTROPY:
            raise UsageError(f"an operator has the keys that its task names, and {ENTROPY} bytes of entropy")
        self.task, self.peer, self._identity, self._box_key, self._enrolled = task, peer, identity, box_key, enrolled
        self._proof, self._held = proof_of(task.terms), digest(task.statement)
        self._verify_key = verification_key(box_key, peer.box_key, self._held)
        self._noise_seed, self._salt = entropy[:SEED], entropy[SEED:]
        self._batches = self._settled = self.count = 0
        self._accepted = self._held  # a chain over the accepted reports
        self._share: FieldArray = np.zeros(task.terms.length, np.uint64)
        self._own = Noised(self._closed(), b"", self._salt)  # nothing yet
        self._commitment = self._total = b""  # the other's; the sum
        self.refused: Counter[Reason] = Counter()  # settled reports that are not in the sum

    def receive(self, message: AnyMessage) -> list[Action]:
        theirs = (message.round, message.receiver, message.sender) == (self.round, self.name, self.peer.name)
        if self.state is State.BURNT and theirs:
            return [] if isinstance(message, GivenUp) else [self._gone()]
        return super().receive(message)

    def begin(self) -> list[Action]:
        """From here on reports are decided on."""
        if self.state is not State.IDLE:
            raise UsageError("a round is begun once")
        self.state = State.REPORTS
        return self.written([Persist(self.round, Stage.ENTERED, self._held)])

    def place_of(self, message: AnyMessage) -> tuple[Any, ...]:
        """Batches and verdicts are numbered."""
        return (*super().place_of(message), *((message.number,) if isinstance(message, Batch | Verdicts) else ()))

    def mark_of(self, message: AnyMessage) -> bytes:
        return mark_of_report(message) if isinstance(message, Report) else super().mark_of(message)

    def answer_to(self, message: AnyMessage, actions: list[Action]) -> list[Action]:
        """Of batches and verdicts the last one is remembered: the next shows that it has arrived."""
        if isinstance(message, Batch | Verdicts):
            self._answered.pop((type(message), message.sender, message.number - 1), None)
        if isinstance(message, Report | Verdicts):
            return []
        return [one for one in actions if isinstance(one, Send)]  # what is written holds a share without noise

    def handle(self, message: AnyMessage) -> list[Action]:
        if message.sender != self.peer.name and not isinstance(message, Report):
            raise PeerError(Fault.AUTH, "this comes from somebody else than the other operator")
        return super().handle(message)

    # Reports

    def _judge(self, name: bytes, nonce: bytes, public: bytes, box: bytes) -> tuple[pine.State, bytes] | Reason:
        """One report by this operator's side alone: what it keeps, and its share of the verifier."""
        try:
            fields = _box_fields(self.role, held=self._held, name=name, nonce=nonce, public=public)
            share = self._box_key.open_box(box, *fields)
        except PeerError:
            return Reason.BOX
        try:
            state, verifier = pine.prepare(
                self._proof, self._verify_key, self.role, nonce=nonce, public=public, share=share
            )
        except PeerError as refusal:
            return Reason.PROOF if refusal.fault is Fault.PROOF else Reason.FORM
        # With this, what one operator accepts the other accepts too: each has used the other's part as it really is.
        parts = public[self.role * _PARTS :][:_PARTS] + public[(2 + self.role) * _PARTS :][:_PARTS]
        return (state, verifier) if verifier.endswith(parts) else Reason.RANDOMNESS

    def _add(self, lines: list[Line], shares: list[FieldArray]) -> None:
        """Settle these reports, of which the accepted ones have shares."""
        for line in lines:
            self._answered[Report, line.name] = line.mark, []
            if line.reason:
                self.refused[Reason(line.reason)] += 1
            else:
                self.count += 1
                self._accepted = chained(self._accepted, line.mark)
        for share in shares:
            self._share = sums(self._share, share)

    def _settle(self, lines: list[Line], **more: Any) -> Settle:
        self._settled += 1
        tally = Tally(self._batches, self._settled, self._share.tobytes(), **more)
        return Settle(self.round, self._settled - 1, encode(Lines(tuple(lines))), encode(tally))

    # Opening

    def _close(self, *, other: bytes = b"") -> list[Action]:
        """Settle the set for good: draw the noise, and commit to the noised share."""
        terms, share = self.task.terms, self._share
        if terms.noise:
            share = sums(share, elements_of(operator_noise(terms).draw(Stream(self._noise_seed), terms.length)))
        self._own = Noised(self._closed(), share.tobytes(), self._salt, other)
        self._share, self._noise_seed = np.zeros(0, np.uint64), b""  # without noise it is kept nowhere
        # The journal takes one digest at a stage: a second draw, by another process say, burns the round.
        drawn = self._commits(self.name, self._own.salt, self._own.share)
        return [Persist(self.round, Stage.AGREED, drawn, encode(self._own)), self._closing()]

    def _persist(self, stage: Stage, payload: bytes) -> Persist:
        return Persist(self.round, stage, digest(self._own.closed), payload)

    def _closing(self) -> Send:
        closed = self._own.closed
        signature, committed = (
            self._identity.sign(encode(closed)),
            self._commits(self.name, self._own.salt, self._own.share),
        )
        return self.send(Closing, self.peer.name, closed.batches, closed.accepted, closed.count, signature, committed)

    def _commits(self, name: bytes, salt: bytes, share: bytes) -> bytes:
        return digest(Committed(digest(self._own.closed), name, salt, share))

    def _closed(self) -> Closed:
        return Closed(self._held, self._batches, self._accepted, self.count)

    def _take_commitment(self, closing: Closing, mine: Closed) -> None:
        """The other's, if its closing is signed, and of the very set that this operator has."""
        theirs = Closed(self._held, closing.batches, closing.accepted, closing.count)
        verify(self.peer.name, signature=closing.signature, message=encode(theirs))
        if theirs != mine:
            raise FatalError(Fault.ABORTED, "the operators have not accepted the same reports; nothing is opened")
        self._commitment = closing.commitment

    def _reveal(self) -> Send:
        return self.send(NoisedShare, self.peer.name, self._own.share, self._own.salt)

    def _opened(self, message: NoisedShare) -> bytes:
        """The sum, if the other's share is the one that it has committed to."""
        if self._commits(message.sender, message.salt, message.share) != self._commitment:
            raise PeerError(Fault.ABORTED, "this is not the noised share that was committed to")
        if len(message.share) != self.task.terms.length * ELEMENT:
            raise FatalError(Fault.ABORTED, "a noised share has not the length that the terms call for")
        shares = [np.frombuffer(share, np.uint64) for share in (self._own.share, message.share)]
        if (shares[1] >= MODULUS).any():
            raise FatalError(Fault.ABORTED, "a noised share has a number that is not in the field")
        total, terms = pine.opened(*shares), self.task.terms
        noise = operator_noise(terms).tail(survivors=terms.floor, count=terms.length) if terms.noise else 0
        if (np.abs(total) > self._own.closed.count * terms.bound + noise).any():
            raise FatalError(Fault.ABORTED, "the sum is larger than its reports and noise can make it; it is not used")
        return total.tobytes()

    def _finished(self, total: bytes) -> Finished:
        return Finished(np.frombuffer(total, np.uint64), self._own.closed.count)

    def _summed(self, total: bytes) -> bytes:
        return encode(Summed(digest(self._own.closed), total))

    def _signed(self, total: bytes) -> Send:
        return self.send(OpenedSum, self.peer.name, self._identity.sign(self._summed(total)))

    def give_up(self) -> list[Action]:
        """End the round without a sum. What devices have paid stays paid. A helper that has revealed its share cannot:
        the leader may have opened the sum."""
        if self.state not in self.may_give_up:
            raise UsageError(f"a round that is {self.state} is not given up")
        return self.burn(PeerError(Fault.ABORTED, f"given up with {self.count} reports; nothing is opened"))

    def _take_given_up(self, message: GivenUp) -> list[Action]:
        raise FatalError(Fault.ABORTED, "the other operator has given the round up; nothing is opened")

    def burn(self, fault: PeerError) -> list[Action]:
        self._forget()
        return self.written([*super().burn(fault), self._gone()])

    def _gone(self) -> Send:
        return self.send(GivenUp, self.peer.name)

    def farewell(self) -> list[Action]:
        """What is to be said until the other operator has heard it, once the round is over."""
        return [self._gone()] if self.state is State.BURNT else self.again()

    def _forget(self) -> None:
        """Nothing of anyone's vector outlives the round."""
        self._share, self._total, self._noise_seed = np.zeros(0, np.uint64), b"", b""
        self._own = msgspec.structs.replace(self._own, share=b"", total=b"")

    # After a crash

    def restore(self, kept: Kept) -> list[Action]:
        """Go on from what was written, as the same operator with the same keys; returns what is to be sent again."""
        if self.state is not State.IDLE:
            raise UsageError("an operator is restored before it does anything else")
        for lines in kept.lines:
            self._add(list(decode_with(_lines, lines, limit=LIMIT).lines), [])
        if kept.stage in (Stage.AGREED, Stage.REVEALED, Stage.OPENED):
            self._own = decode_with(_noised, kept.payload, limit=LIMIT)
            self._resume_closing()
        elif kept.stage is Stage.BURNT:
            self.state = State.BURNT
            self._forget()
            return []
        elif kept.state:
            tally = decode_with(_tallies, kept.state, limit=LIMIT)
            self._batches, self._settled = tally.batches, tally.settled
            self._share = np.frombuffer(tally.share, np.uint64).copy()
            self._resume(tally)
        self.state = self._state_at(kept.stage)
        opened: list[Action] = [self._finished(self._own.total)] if kept.stage is Stage.OPENED else []
        return [*opened, *self.again()]

    def again(self) -> list[Action]:
        """What this operator waits for an answer to, to be sent again."""
        return []

    def _resume_closing(self) -> None:
        """The other's closing, where it was written with the own share: it may come again."""
        if self._own.other:
            closing = decode_with(_closings, self._own.other, limit=LIMIT)
            self._commitment = closing.commitment
            self._answered[self.place_of(closing)] = self.mark_of(closing), [self._answer_to_closing()]

    @abstractmethod
    def _answer_to_closing(self) -> Send: ...

    @abstractmethod
    def _state_at(self, stage: Stage) -> State:
        """The state in which an operator goes on from a stage of its journal."""

    @abstractmethod
    def _resume(self, tally: Tally) -> None:
        """Go on in the middle of the reports."""


# The leader


class Leader(Operator):
    """The recommender: it takes reports from devices, and drives the helper. `advance` ends the window: what came is
    decided on, and if it is enough, closed and opened. Otherwise the leader is back at waiting for reports, until its
    driver calls `advance` again or `give_up`."""

    moves, role = party.LEADER, LEADER
    may_give_up = frozenset({State.REPORTS, State.VERDICTS, State.CLOSING, State.NOISED, State.SIGNATURE})

    def __init__(self, task: JointTask, *, batch: int | None = None, **others: Any) -> None:
        super().__init__(task, **others)
        self._size = batch or min(MOST_FORWARDED, max(1, _ROOM // self._proof.encoded_length))
        self._box_length = leader_box_length(task.terms)
        self._waiting: dict[bytes, Report] = {}
        self._flight: list[tuple[Line, pine.State]] = []
        self._batch: Send | None = None  # with the reports of the flight
        self.turned_away: Counter[Fault] = Counter()  # reports that were refused at the door

    @property
    def handlers(self) -> Handlers:
        return {
            Report: self._take_report,
            Verdicts: self._take_verdicts,
            Closing: self._take_closing,
            NoisedShare: self._take_share,
            OpenedSum: self._take_signature,
            GivenUp: self._take_given_up,
        }

    @property
    def ready(self) -> bool:
        """Whether more reports are of use now: memory is flat if the driver keeps them back otherwise."""
        return self.state is State.REPORTS and len(self._waiting) < self._size

    def receive(self, message: AnyMessage) -> list[Action]:
        try:
            return super().receive(message)
        except PeerError as refusal:
            if isinstance(message, Report):
                self.turned_away[refusal.fault] += 1
            raise

    def _take_report(self, report: Report) -> list[Action]:
        """All that can be checked without a proof, before any proof is."""
        if len(report.leader_box) != self._box_length:
            raise PeerError(Fault.DECODE, "a report has not the length that its terms call for")
        if report.sender not in self._enrolled:
            raise PeerError(Fault.AUTH, "a report from somebody who is not enrolled")
        if report.held != self._held:
            raise PeerError(Fault.PARAMS_MISMATCH, "the device holds other terms, another model or other operators")
        if self.count + len(self._flight) + len(self._waiting) >= self.task.people:
            raise PeerError(Fault.ORDER, "this round has as many reports as it was sized for")
        verify(report.sender, signature=report.signature, message=encode(_statement(self._held, report)))
        self._waiting[report.sender] = report
        return self._go_on()

    def _go_on(self) -> list[Action]:
        """Send the next batch, if it is time for one; or close."""
        if self._flight:
            return []
        if self.state is State.VERDICTS:
            return self._forward(list(self._waiting)[: self._size]) if self._waiting else self._end()
        return self._forward(list(self._waiting)[: self._size]) if len(self._waiting) >= self._size else []

    def _forward(self, names: list[bytes]) -> list[Action]:
        """Prepare these reports, and send the helper those that hold so far."""
        sent, refused = [], []
        for name in names:
            report = self._waiting.pop(name)
            mark = self.mark_of(report)
            found = self._judge(name, report.nonce, report.public, report.leader_box)
            if isinstance(found, Reason):
                refused.append(Line(name, mark, found))
                continue
            state, verifier = found
            kept = state._replace(entries=state.entries.copy())  # not the whole share
            self._flight.append((Line(name, mark, Reason.ACCEPTED), kept))
            box = sha256(report.leader_box).digest()
            sent.append(
                Forwarded(name, report.nonce, report.public, box, report.helper_box, report.signature, verifier)
            )
        self._add(refused, [])
        if not sent:
            return [self._settle(refused), *self._go_on()]
        self._batch = self.send(Batch, self.peer.name, self._batches, tuple(sent))
        pending = tuple(
            Pending(line, state.entries.tobytes(), state.check_seed + state.joint_seed) for line, state in self._flight
        )
        return [self._settle(refused, pending=pending, sent=encode(self._batch.message)), self._batch]

    def _take_verdicts(self, message: Verdicts) -> list[Action]:
        """Add up the shares of the reports that the helper accepted."""
        if message.number != self._batches or len(message.verdicts) != len(self._flight):
            raise PeerError(Fault.ORDER, "verdicts on other reports than those that the helper has")
        lines, shares = [], []
        for (line, state), verdict in zip(self._flight, message.verdicts, strict=True):
            lines.append(msgspec.structs.replace(line, reason=verdict.reason))
            if verdict.reason == Reason.ACCEPTED:
                try:
                    shares.append(pine.finish(state, verdict.seeds))
                except PeerError:
                    raise FatalError(
                        Fault.ABORTED, "the helper has accepted a report by other randomness; nothing is opened"
                    ) from None
        self._add(lines, shares)
        self._flight, self._batch = [], None
        self._batches += 1
        return [self._settle(lines), *self._go_on()]

    def advance(self) -> list[Action]:
        """The window is over: decide on what came, and close if that is enough."""
        if self.state is not State.REPORTS:
            raise UsageError("a window ends once, while reports are waited for")
        self.state = State.VERDICTS
        return self.written(self._go_on())

    def _end(self) -> list[Action]:
        if self.count < self.task.terms.floor:
            self.state = State.REPORTS
            return []
        self.state = State.CLOSING
        return self._close()

    def _take_closing(self, closing: Closing) -> list[Action]:
        self._take_commitment(closing, self._own.closed)
        self._own = msgspec.structs.replace(self._own, other=encode(closing))
        return [Persist(self.round, Stage.REVEALED, digest(closing), encode(self._own)), self._reveal()]

    def _answer_to_closing(self) -> Send:
        return self._reveal()

    def _take_share(self, message: NoisedShare) -> list[Action]:
        self._total = self._opened(message)
        return []

    def _take_signature(self, message: OpenedSum) -> list[Action]:
        verify(self.peer.name, signature=message.signature, message=self._summed(self._total))
        self._own = msgspec.structs.replace(self._own, other=b"", total=self._total)
        opened = self._persist(Stage.OPENED, encode(self._own))
        return [opened, self._finished(self._total), self._signed(self._total)]

    def _forget(self) -> None:
        super()._forget()
        self._waiting, self._flight, self._batch = {}, [], None

    def again(self) -> list[Action]:
        sends: dict[State, Callable[[], list[Send]]] = {
            State.CLOSING: lambda: [self._closing()],
            State.NOISED: lambda: [self._reveal()],
            State.SIGNATURE: lambda: [self._reveal()],
            State.DONE: lambda: [self._reveal(), self._signed(self._own.total)],
        }
        outstanding = sends.get(self.state, lambda: [self._batch] if self._batch else [])()
        return [self._written, *outstanding] if self._written and outstanding else list(outstanding)

    def _state_at(self, stage: Stage) -> State:
        after = {Stage.AGREED: State.CLOSING, Stage.REVEALED: State.NOISED, Stage.OPENED: State.DONE}
        return after.get(stage, State.REPORTS)

    def _resume(self, tally: Tally) -> None:
        for one in tally.pending:
            entries = np.frombuffer(one.entries, np.uint64)
            self._flight.append((one.line, pine.State(entries, one.seeds[:SEED], one.seeds[SEED:])))
            self._answered[Report, one.line.name] = one.line.mark, []
        self._batch = Send(decode(tally.sent)) if tally.sent else None


# The helper


class Helper(Operator):
    """The second operator: it trusts the leader with nothing but the order of reports."""

    moves, role = party.HELPER, HELPER
    may_give_up = frozenset({State.REPORTS, State.NOISED})

    @property
    def handlers(self) -> Handlers:
        return {
            Batch: self._take_batch,
            Closing: self._take_closing,
            NoisedShare: self._take_share,
            OpenedSum: self._take_signature,
            GivenUp: self._take_given_up,
        }

    def _take_batch(self, batch: Batch) -> list[Action]:
        """Decide on each report, add up the shares of those accepted, and say which."""
        if batch.number != self._batches:
            raise PeerError(Fault.ORDER, "a batch that is not the next one")
        lines: list[Line] = []
        shares: list[FieldArray] = []
        verdicts: list[Verdict] = []
        names: set[bytes] = set()
        for one in batch.reports:
            statement = ReportStatement(
                self._held, one.name, one.nonce, one.public, one.leader_box, sha256(one.helper_box).digest()
            )
            found = self._decide(one, statement, known=names, full=self.count + len(shares) >= self.task.people)
            reason, seeds = (found, b"") if isinstance(found, Reason) else (Reason.ACCEPTED, found[1])
            lines.append(Line(one.name, digest(statement), reason))
            verdicts.append(Verdict(reason, seeds))
            names |= set() if reason in NOT_ITS_OWN else {one.name}
            shares += [] if isinstance(found, Reason) else [found[0]]
        settled = [line for line in lines if line.reason not in (*NOT_ITS_OWN, Reason.TWICE)]
        self._add(settled, shares)
        self._batches += 1
        answer = self.send(Verdicts, self.peer.name, batch.number, tuple(verdicts))
        return [self._settle(settled, batch=digest(batch), verdicts=encode(answer.message)), answer]

    def _decide(
        self, one: Forwarded, statement: ReportStatement, *, known: set[bytes], full: bool
    ) -> tuple[FieldArray, bytes] | Reason:  # fmt: skip
        """The share of the vector and the seeds, or why not."""
        if one.name not in self._enrolled:
            return Reason.STRANGER
        try:
            verify(one.name, signature=one.signature, message=encode(statement))
        except PeerError:
            return Reason.SIGNATURE
        if one.name in known or (Report, one.name) in self._answered:
            return Reason.TWICE
        if full:
            return Reason.FULL
        found = self._judge(one.name, one.nonce, one.public, one.helper_box)
        if isinstance(found, Reason):
            return found
        state, verifier = found
        try:
            seeds = pine.combine(self._proof, [one.verifier, verifier])
            return pine.finish(state, seeds), seeds
        except PeerError as refusal:
            return Reason.PROOF if refusal.fault is Fault.PROOF else Reason.FORM

    def _take_closing(self, closing: Closing) -> list[Action]:
        mine = self._closed()
        self._take_commitment(closing, mine)
        if mine.count < self.task.terms.floor:
            raise FatalError(Fault.ABORTED, "fewer reports than the terms allow a sum of; nothing is opened")
        return self._close(other=encode(closing))

    def _take_share(self, message: NoisedShare) -> list[Action]:
        self._total = self._opened(message)
        return [self._reveal(), self._signed(self._total)]

    def _take_signature(self, message: OpenedSum) -> list[Action]:
        verify(self.peer.name, signature=message.signature, message=self._summed(self._total))
        self._own = msgspec.structs.replace(self._own, share=b"", other=b"", total=self._total)  # it has arrived
        return [self._persist(Stage.OPENED, encode(self._own)), self._finished(self._total)]

    def _answer_to_closing(self) -> Send:
        return self._closing()

    def _state_at(self, stage: Stage) -> State:
        return {Stage.AGREED: State.NOISED, Stage.OPENED: State.DONE}.get(stage, State.REPORTS)

    def _resume(self, tally: Tally) -> None:
        place = (Batch, self.peer.name, tally.batches - 1)
        self._answered[place] = tally.batch, [Send(decode(tally.verdicts))]
