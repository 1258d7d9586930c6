"""Algorithm 1: secure decentralised gradient descent, lines 1 to 9, for the linear model of user i.

Correct: the shares of one weighted model add up to it, so all partial sums add up to the sum of the weighted models.
Private, if all follow the protocol: a neighbour sees one share of each other model, which is uniform whatever the model
is; user i sees partial sums that are uniform but for their total; a relay sees sealed boxes. User i together with N - 1
neighbours can take the last one's model out of the sum: that is the sum's doing, not the shares'.

It takes N (N - 1) boxes, and everyone must stay until the end. A sum under pads (member.py) takes N vectors.
"""

from collections.abc import Collection

from prirec.errors import Fault, PeerError, UsageError
from prirec.protocols import roster, secure_sum
from prirec.protocols.codec import decode_content
from prirec.protocols.messages import VERSION, AnyMessage, Invitation, Keys, Partial, Roster, ShareOf, Vector
from prirec.protocols.party import NEIGHBOUR, RECEIVER, RECEIVER_STEPS, Action, Finished, Persist, Send, Stage, State
from prirec.protocols.roster import CollectorBase, FatalError, Meeting, MemberBase, Task
from prirec.sharing import secret_sharing
from prirec.sharing.keys import SigningKey
from prirec.types import RingArray

ENTROPY = roster.MEMBER_ENTROPY


class Neighbour(MemberBase):
    """Algorithm 1, run by each f in N(i): value is the encoded S_if w^f, pads (N - 1, D) are uniform and used once."""

    moves = NEIGHBOUR

    def __init__(self, task: Task, *, identity: SigningKey, value: RingArray, pads: RingArray, entropy: bytes) -> None:
        super().__init__(task, identity=identity, entropy=entropy)
        self._value = secure_sum.check_vector(value, task.terms)
        if task.terms.method != "shares" or pads.shape != (task.terms.floor - 1, task.terms.length):
            raise UsageError("a neighbour needs terms of sharing, and a pad for each of the N - 1 others")
        self._pads = pads
        self._early: list[ShareOf] = []
        self._meeting: Meeting | None = None
        self._total, self._missing = secure_sum.ring_zeros(task.terms), 0

    def handle(self, message: AnyMessage) -> list[Action]:
        match message:
            case ShareOf():
                return self._take_share(message)
            case Invitation():
                self.from_collector(message)
                return self.enter(message)
            case Roster():
                self.from_collector(message)
                return self._distribute(message)
        raise PeerError(Fault.ORDER, "a neighbour has nothing to do with this")

    def _distribute(self, roster: Roster) -> list[Action]:
        """Lines 2 to 4: splits the weighted model, keeps one share, sends one to each of the others."""
        meeting = self.meet(roster)
        shares = secret_sharing.additive_split(self._value, pads=self._pads, own=meeting.position)  # row j: position j
        sends = []
        for at, other in meeting.others.items():
            sealed = self.seal_for(meeting, at, ShareOf, Vector(shares[at].tobytes()))
            sends.append(Send(ShareOf(VERSION, self.round, self.name, other.name, sealed)))
        self._meeting, self._missing = meeting, len(meeting.others)
        self._total = shares[meeting.position].copy()
        used = Persist(self.round, Stage.MASKED, meeting.mark)
        names = {one.name for one in meeting.others.values()}
        early = [message for message in self._early if message.sender in names]
        return [used, *sends, *(action for message in early for action in self._add(meeting, message))]

    def _take_share(self, message: ShareOf) -> list[Action]:
        """Line 7, share after share; one that overtakes the roster is kept until it can be opened."""
        if self._meeting is None:
            if len(self._early) == len(self._pads):  # or a stranger could fill this device's memory
                raise PeerError(Fault.ORDER, "more shares than there are neighbours")
            self._early.append(message)
            return []
        return self._add(self._meeting, message)

    def _add(self, meeting: Meeting, message: ShareOf) -> list[Action]:
        other = next((one for one in meeting.others.values() if one.name == message.sender), None)
        if other is None:
            raise PeerError(Fault.AUTH, "a share from somebody who is not in the round")
        try:
            opened = self.unseal_from(meeting, other.position, ShareOf, message.sealed)
            share = secure_sum.read_vector(decode_content(Vector, opened).values, self.task.terms)
        except PeerError as fault:
            raise FatalError(fault.fault, "a share does not open, or is none; the sum cannot be right") from None
        self._total += share
        self._missing -= 1
        return self._partial(meeting) if self._missing == 0 else []

    def _partial(self, meeting: Meeting) -> list[Action]:
        """Line 8: the sum of all f-th shares, to user i."""
        sealed = self.seal_for_collector(meeting, Partial, Vector(self._total.tobytes()))
        self.state = State.DONE
        return [Send(Partial(VERSION, self.round, self.name, self.task.collector, sealed))]


class Receiver(CollectorBase):
    """Algorithm 1, run by user i, who learns the sum of the weighted models and nothing else."""

    moves, steps = RECEIVER, RECEIVER_STEPS

    def __init__(self, task: Task, *, identity: SigningKey, entropy: bytes) -> None:
        super().__init__(task, identity=identity, entropy=entropy)
        if task.terms.method != "shares" or task.terms.floor < 2:
            raise UsageError("with a single neighbour the sum is that neighbour's own model; give at least two")
        self._total, self._came = secure_sum.ring_zeros(task.terms), set[int]()

    def handle(self, message: AnyMessage) -> list[Action]:
        match message:
            case Keys():
                return self.take_keys(message)
            case Partial():
                return self._take_partial(message)
        raise PeerError(Fault.ORDER, "user i has nothing to do with this")

    def go_on(self) -> list[Action]:
        return self.convene() if self.state is State.KEYS else self._add_up()

    def expected(self) -> tuple[Collection[int], Collection[int]]:
        return (range(self.size), self._came) if self.state is State.PARTIALS else ((), ())

    def _take_partial(self, message: Partial) -> list[Action]:
        at = self.place(message.sender, range(self.size))
        content = decode_content(Vector, self.unsealed(at, Partial, message.sealed))
        self._total += secure_sum.read_vector(content.values, self.task.terms)
        self._came.add(at)
        return []

    def _add_up(self) -> list[Action]:
        """Line 9: the partial sums add up to the sum of the neighbours' weighted models."""
        self.enough(len(self._came), "sent their partial sums")
        opened = Persist(self.round, Stage.OPENED, self._meeting.mark)
        return [opened, Finished(self._total, self.size)]
