"""The member's side of a meeting.

A device believes nothing of a roster that it has not checked: that its own line is as it sent it; that its own and its
neighbours' lines are lines of the one roster with this root; that the mask graph, which follows from the root alone,
gives it exactly these neighbours and is dense enough for the terms. That the lines are the neighbours' own, their
identities' signatures say: on their keys, or under double masks on the whole statement by those who go on. There it is
checked before a vector leaves, of those who do not go on as well: they too were given shares.
"""

from itertools import pairwise

from prirec.errors import Fault, PeerError, UsageError
from prirec.protocols import mask_graph
from prirec.protocols.actions import Action, Persist, Send, Stage
from prirec.protocols.boxes import seal, unseal
from prirec.protocols.codec import encode
from prirec.protocols.mask_graph import Graph
from prirec.protocols.meeting import Meeting, Task, acceptable
from prirec.protocols.messages import VERSION, AnyMessage, Invitation, Keys, Listed, Message, Part, Roster
from prirec.protocols.party import Party
from prirec.protocols.statements import Invited, RoundKeys, Statement, digest, keys_of
from prirec.sharing import merkle
from prirec.sharing.keys import AgreementKey, SigningKey, verify

ENTROPY = 96  # bytes: three secret keys


class Guest(Party):
    """Enters a round and checks its roster; what is done there is for the sum or Algorithm 1 to say."""

    def __init__(self, task: Task, *, identity: SigningKey, entropy: bytes) -> None:
        super().__init__(identity.public, task.round)
        if len(entropy) < ENTROPY:
            raise UsageError(f"a member needs {ENTROPY} bytes of entropy for its keys")
        self.task = task
        self._identity = identity
        self._mask_secret = entropy[:32]
        self._mask_key, self._box_key = AgreementKey(entropy[:32]), AgreementKey(entropy[32:64])
        self._signing_key = SigningKey(entropy[64:96])
        self._invited: Invited
        self._channel: bytes  # agreed with the collector, for boxes

    def enter(self, invitation: Invitation) -> list[Action]:
        """Keys for this round, if the invitation is to what this device means to take part in."""
        invited = Invited(
            VERSION, self.round, self.task.collector, self.task.terms, self.task.model, invitation.box_key
        )
        if (invitation.terms, invitation.model) != (invited.terms, invited.model):
            raise PeerError(Fault.PARAMS_MISMATCH, "the invitation has other terms, or another V, than this device")
        verify(self.task.collector, signature=invitation.signature, message=encode(invited))
        channel = self._box_key.agree(invitation.box_key)
        mine = RoundKeys(
            VERSION, self.round, self.name, self._mask_key.public, self._box_key.public, self._signing_key.public
        )
        keys = Keys(
            VERSION,
            self.round,
            self.name,
            self.task.collector,
            mine.mask_key,
            mine.box_key,
            mine.signing_key,
            self._identity.sign(encode(mine)),
        )
        self._invited, self._channel = invited, channel
        return [Persist(self.round, Stage.ENTERED, digest(keys)), Send(keys)]

    def meet(self, roster: Roster) -> Meeting:
        """Who the others are, once everything about them holds."""
        graph, listed = (
            Graph(roster.size, roster.degree, roster.threshold),
            {one.position: one for one in roster.listed},
        )
        if len(listed) != graph.degree + 1 or max(listed) >= graph.size or not acceptable(graph, self.task.terms):
            raise PeerError(Fault.PARAMS_MISMATCH, "the roster's mask graph is not what the terms call for")
        own = next((one for one in roster.listed if one.name == self.name), None)
        if own is None or keys_of(own, self.round) != keys_of(self._line(own.position), self.round):
            raise PeerError(Fault.AUTH, "the roster does not list this device as it is")
        expected = mask_graph.neighbours(graph, beacon=roster.root, position=own.position).tolist()
        if sorted(listed) != sorted([own.position, *expected]) or len(roster.listed) != len(listed):
            raise PeerError(Fault.PARAMS_MISMATCH, "the roster lists others than the mask graph gives this device")
        names = [listed[at].name for at in sorted(listed)]
        if any(a >= b for a, b in pairwise(names)):
            raise PeerError(Fault.AUTH, "the roster is not in the order of its names")
        self._refuse_strangers(roster.size, names)
        known = {at: encode(one) for at, one in listed.items()}
        merkle.check(roster.root, size=roster.size, known=known, proof=roster.proof)
        if self.task.terms.method != "double":
            for at in expected:
                verify(listed[at].name, signature=listed[at].signature, message=encode(keys_of(listed[at], self.round)))
        channels = {at: self._box_key.agree(listed[at].box_key) for at in expected}
        statement = Statement(self._invited, roster.root, roster.size, roster.degree, roster.threshold)
        return Meeting(statement, digest(statement), own.position, {at: listed[at] for at in expected}, channels)

    def _refuse_strangers(self, size: int, names: list[bytes]) -> None:
        """Of those whom the task does not allow, each is seen by the neighbours that the graph draws for it."""
        allowed = self.task.allowed
        if allowed is not None and (size > len(allowed) or not allowed.issuperset(names)):
            raise PeerError(Fault.PARAMS_MISMATCH, "the roster lists somebody who has no place in this round")

    def seal_for(self, meeting: Meeting, at: int, kind: type[Message], content: Part) -> bytes:
        """A box for another member."""
        header = meeting.header(sender=self.name, receiver=meeting.others[at].name, kind=kind)
        return seal(meeting.channels[at], header, content)

    def unseal_from(self, meeting: Meeting, at: int, kind: type[Message], sealed: bytes) -> bytes:
        """What another member sealed for this one."""
        header = meeting.header(sender=meeting.others[at].name, receiver=self.name, kind=kind)
        return unseal(meeting.channels[at], header, sealed)

    def seal_for_collector(self, meeting: Meeting, kind: type[Message], content: Part) -> bytes:
        header = meeting.header(sender=self.name, receiver=self.task.collector, kind=kind)
        return seal(self._channel, header, content)

    def unseal_from_collector(self, meeting: Meeting, kind: type[Message], sealed: bytes) -> bytes:
        header = meeting.header(sender=self.task.collector, receiver=self.name, kind=kind)
        return unseal(self._channel, header, sealed)

    def _line(self, position: int) -> Listed:
        return Listed(
            position, self.name, self._mask_key.public, self._box_key.public, self._signing_key.public, bytes(64)
        )

    def from_collector(self, message: AnyMessage) -> None:
        if message.sender != self.task.collector:
            raise PeerError(Fault.AUTH, "this comes from somebody else than the collector of the round")
