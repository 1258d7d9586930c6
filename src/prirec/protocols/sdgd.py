"""Algorithm 1: secure decentralised gradient descent, lines 1 to 9, for the linear model of user i.

Correct: the shares of one weighted model add up to it, so all partial sums add up to the sum of the weighted models.
Private, if all follow the protocol: a neighbour sees one share of each other model, which is uniform whatever the model
is; user i sees partial sums that are uniform but for their total; a relay sees sealed boxes. User i together with N - 1
neighbours can take the last one's model out of the sum: that is the sum's doing, not the shares'.

It takes N (N - 1) boxes, and everyone must stay until the end. A sum under pads (secure_sum.py) takes N vectors.
"""

from collections.abc import Collection

from prirec.errors import Fault, PeerError, UsageError
from prirec.protocols.codec import check_vector, decode_content, read_vector, ring_zeros
from prirec.protocols.messages import Invitation, Keys, Partial, Roster, ShareOf, Vector
from prirec.protocols.party import (
    NEIGHBOUR,
    RECEIVER,
    RECEIVER_STEPS,
    Action,
    FatalError,
    Finished,
    Handlers,
    Persist,
    Stage,
    State,
)
from prirec.protocols.roster import MEMBER_ENTROPY, CollectorBase, MemberBase, Task
from prirec.sharing import secret_sharing
from prirec.sharing.keys import SigningKey
from prirec.types import RingArray

ENTROPY = MEMBER_ENTROPY


class Neighbour(MemberBase):
    """Algorithm 1, run by each f in N(i): value is the encoded S_if w^f, pads (N - 1, D) are uniform and used once."""

    moves = NEIGHBOUR

    def __init__(self, task: Task, *, identity: SigningKey, value: RingArray, pads: RingArray, entropy: bytes) -> None:
        super().__init__(task, identity=identity, entropy=entropy)
        self._value = check_vector(value, task.terms)
        if task.terms.method != "shares" or pads.shape != (task.terms.floor - 1, task.terms.length):
            raise UsageError("a neighbour needs terms of sharing, and a pad for each of the N - 1 others")
        self._pads = pads
        self._early: list[ShareOf] = []  # shares that overtook the roster
        self._missing: set[bytes] | None = None  # names whose share has not come; None before the roster
        self._total = ring_zeros(task.terms)

    @property
    def handlers(self) -> Handlers:
        return {Invitation: self.enter, Roster: self._distribute, ShareOf: self._take_share}

    def _distribute(self, roster: Roster) -> list[Action]:
        """Lines 2 to 4: splits the weighted model, keeps one share, sends one to each of the others."""
        view = self._view = self.check_roster(roster)
        shares = secret_sharing.additive_split(self._value, pads=self._pads, own=view.position)  # row j: position j
        self._total = shares[view.position].copy()
        names = {other.name: at for at, other in view.neighbours.items()}
        self._missing = set(names)
        sends = [
            self.send(ShareOf, name, self.seal(name, ShareOf, Vector(shares[at].tobytes())))
            for name, at in names.items()
        ]
        early = [action for share in self._early if share.sender in names for action in self._take_share(share)]
        return [Persist(self.round, Stage.MASKED, view.digest), *sends, *early]

    def _take_share(self, message: ShareOf) -> list[Action]:
        """Line 7, share after share; one that overtakes the roster is kept until it can be opened."""
        if self._missing is None:
            if len(self._early) == len(self._pads):  # or a stranger could fill this device's memory
                raise PeerError(Fault.ORDER, "more shares than there are neighbours")
            self._early.append(message)
            return []
        if message.sender not in self._missing:
            raise PeerError(Fault.AUTH, "a share from somebody who is not in the round")
        try:
            opened = self.unseal(message.sender, ShareOf, message.sealed)
            self._total += read_vector(decode_content(Vector, opened).values, self.task.terms)
        except PeerError as fault:
            raise FatalError(fault.fault, "a share does not open, or is none; the sum cannot be right") from None
        self._missing.remove(message.sender)
        if self._missing:
            return []
        self.state = State.DONE
        # line 8: the sum of all f-th shares, to user i
        user = self.task.collector
        return [self.send(Partial, user, self.seal(user, Partial, Vector(self._total.tobytes())))]


class Receiver(CollectorBase):
    """Algorithm 1, run by user i, who learns the sum of the weighted models and nothing else."""

    moves, steps = RECEIVER, RECEIVER_STEPS

    def __init__(self, task: Task, *, identity: SigningKey, entropy: bytes) -> None:
        super().__init__(task, identity=identity, entropy=entropy)
        if task.terms.method != "shares" or task.terms.floor < 2:
            raise UsageError("with a single neighbour the sum is that neighbour's own model; give at least two")
        self._total, self._came = ring_zeros(task.terms), set[int]()

    @property
    def handlers(self) -> Handlers:
        return {Keys: self.take_keys, Partial: self._take_partial}

    def end_step(self) -> list[Action]:
        return self.send_rosters() if self.state is State.KEYS else self._add_up()

    def expected(self) -> tuple[Collection[int], Collection[int]]:
        return (range(self.size), self._came) if self.state is State.PARTIALS else ((), ())

    def _take_partial(self, message: Partial) -> list[Action]:
        at = self.position_of(message.sender, range(self.size))
        content = decode_content(Vector, self.unseal(message.sender, Partial, message.sealed))
        self._total += read_vector(content.values, self.task.terms)
        self._came.add(at)
        return []

    def _add_up(self) -> list[Action]:
        """Line 9: the partial sums add up to the sum of the neighbours' weighted models."""
        self.refuse_too_few(len(self._came), "sent their partial sums")
        return [Persist(self.round, Stage.OPENED, self._view.digest), Finished(self._total, self.size)]
