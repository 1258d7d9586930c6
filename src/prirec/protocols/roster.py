"""How a round comes together: an invitation, keys, a roster. Both sums and Algorithm 1 begin like this.

`MemberBase` is the device's side, `CollectorBase` the collector's; `Party` is what both do with any message. A party is
fed messages and answers with actions: it has no socket and no clock.

A device believes nothing of a roster that it has not checked: that its own line is as it sent it; that its own and its
neighbours' lines are lines of the one roster with this root; that the mask graph, which follows from the root alone,
gives it exactly these neighbours and is dense enough for the terms. That the lines are the neighbours' own, their
identities' signatures say: on their keys, or under double masks on the whole statement by those who go on. There it is
checked before a vector leaves, of those who do not go on as well: they too were given shares.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import pairwise

from prirec.config import HARD_FLOOR
from prirec.errors import Fault, PeerError, UsageError
from prirec.protocols import mask_graph
from prirec.protocols import terms as noise
from prirec.protocols.codec import BoxHeader, Invited, RoundKeys, Statement, digest, encode, keys_of, seal, unseal
from prirec.protocols.mask_graph import Graph
from prirec.protocols.messages import (
    VERSION,
    AnyMessage,
    Invitation,
    Keys,
    Message,
    Roster,
    RosterEntry,
    Round,
    Terms,
    WireStruct,
    step,
)
from prirec.protocols.party import Aborted, Action, Moves, Persist, Send, Stage, State
from prirec.sharing import merkle
from prirec.sharing.keys import AgreementKey, SigningKey, refuse_low_order, verify


class FatalError(PeerError):
    """Raised inside a party: the message is refused, and the round is over for this party as well."""


class Party(ABC):
    """A state machine: it knows its legal moves, and answers a repeated message as it did the first time.

    A PeerError that leaves `receive` means that the message was refused and nothing has changed. A fault after which
    it would be unsafe to go on burns the round: the answer then is to persist that, and to say why.
    """

    moves: Moves
    burns_on_equivocation = True  # a device gives up; a collector keeps the first message

    def __init__(self, name: bytes, of: Round) -> None:
        self.name, self.round, self.state = name, of, State.IDLE
        self._heard: dict[tuple[type[AnyMessage], bytes], tuple[bytes, list[Action]]] = {}
        self._written: Persist | None = None  # the last thing to persist

    def receive(self, message: AnyMessage) -> list[Action]:
        """Take a message; returns what is to be done, in order."""
        # Before anything else: a message of another round must not be able to burn this one.
        if message.round != self.round or message.receiver != self.name:
            raise PeerError(Fault.ORDER, "a message of another round, or for somebody else")
        if self.state is State.BURNT:
            raise PeerError(Fault.ORDER, "this round is over for this party")
        said, mark = (type(message), message.sender), digest(message)
        if said in self._heard:
            return self._again(said, mark)
        following = self.moves[self.state].get(said[0])
        if following is None:
            raise PeerError(Fault.ORDER, f"'{step(said[0])}' has no place in the state '{self.state}'")
        try:
            actions = self.handle(message)
        except FatalError as fault:
            return self.burn(fault)
        if self.state is not State.DONE:
            self.state = following
        self._heard[said] = (mark, actions)
        self._written = next((one for one in reversed(actions) if isinstance(one, Persist)), self._written)
        return actions

    @abstractmethod
    def handle(self, message: AnyMessage) -> list[Action]:
        """What this message leads to. Raises before it changes anything."""

    def burn(self, fault: PeerError) -> list[Action]:
        """The round is over for this party; nothing of it will ever be used again."""
        self.state = State.BURNT
        return [Persist(self.round, Stage.BURNT, bytes(32)), Aborted(fault)]

    def _again(self, said: tuple[type[AnyMessage], bytes], mark: bytes) -> list[Action]:
        heard, actions = self._heard[said]
        if heard == mark:
            sends: list[Action] = [action for action in actions if isinstance(action, Send)]
            # The message may come again because the answer was lost before it was written: persist again, then send.
            return [self._written, *sends] if sends and self._written is not None else sends
        # A collector that sends a device two different versions of a step is trying to learn more than one sum: the
        # device gives up. A member that does so to a collector only harms itself, and may not end everybody's round.
        if self.state is State.DONE or not self.burns_on_equivocation:
            raise PeerError(Fault.EQUIVOCATION, f"a second, different '{step(said[0])}'")
        return self.burn(PeerError(Fault.EQUIVOCATION, f"a second, different '{step(said[0])}'; the round is given up"))


@dataclass(frozen=True, slots=True)
class Task:
    """What a party has decided to take part in, before any message: nothing of it is taken from the collector."""

    round: Round
    collector: bytes
    terms: Terms
    model: bytes  # H(V), of the V that this party holds
    allowed: frozenset[bytes] | None = field(default=None, repr=False)  # who may be on the roster; None: anybody

    def __post_init__(self) -> None:
        # Refused when a task is made, long before a device sends anything.
        if self.terms.opening == "members" and self.terms.method != "double":
            raise UsageError("a sum that its members open needs double masks")
        if self.terms.corrupt + 2 * self.terms.lost >= 1000 or 3 * self.terms.corrupt >= 1000:
            raise UsageError("no sum is safe unless corrupt + 2 lost is below 1000 per mille, and corrupt below 334")
        if self.terms.noise and (self.terms.method != "double" or self.terms.floor < HARD_FLOOR):
            raise UsageError(f"noise is for sums under double masks, with a floor of at least {HARD_FLOOR}")


@dataclass(frozen=True, slots=True)
class Meeting:
    """The checked roster: what a member knows of the others in a round."""

    statement: Statement
    mark: bytes  # digest of the statement, bound into every box and pad
    position: int = -1  # a collector has none
    others: dict[int, RosterEntry] = field(default_factory=dict, repr=False)
    channels: dict[int, bytes] = field(default_factory=dict, repr=False)  # keys agreed with each of them, for boxes

    @property
    def graph(self) -> Graph:
        return Graph(self.statement.size, self.statement.degree, self.statement.threshold)

    def header(self, *, sender: bytes, receiver: bytes, kind: type[Message]) -> BoxHeader:
        of = self.statement.invited.round
        return BoxHeader(VERSION, of, sender, receiver, step(kind), self.mark)


def graph_for(terms: Terms, size: int) -> Graph:
    """The mask graph of a roster: complete where nobody may drop out or the members open, else as sparse as is safe."""
    if terms.method != "double":
        return Graph(size, size - 1, size)
    if terms.opening == "members":
        return mask_graph.complete(size)
    return mask_graph.plan(size, corrupt=terms.corrupt / 1000, lost=terms.lost / 1000)


def acceptable(graph: Graph, terms: Terms) -> bool:
    """Whether a device accepts a roster of this size and graph: its sum cannot wrap, and no part of it be opened."""
    if not graph.possible or graph.size < terms.floor:
        return False
    if graph.size * terms.bound + noise.noise_bound(terms, graph.size) > 2 ** (terms.ring_bits - 1) - 1:
        return False
    if terms.method != "double":
        return graph == graph_for(terms, terms.floor)
    if terms.opening == "members" and not graph.is_complete:
        return False
    return mask_graph.adequate(graph, corrupt=terms.corrupt / 1000, lost=terms.lost / 1000)


def fewest_survivors(terms: Terms, size: int) -> int:
    """The fewest survivors with which a sum over this roster is opened."""
    if terms.method != "double":
        return terms.floor
    return mask_graph.least_survivors(size, floor=terms.floor, lost=terms.lost / 1000)


MEMBER_ENTROPY = 96  # bytes: three secret keys


class MemberBase(Party):
    """A device's side of a meeting: enters a round and checks its roster. Subclasses do the sum, or Algorithm 1."""

    def __init__(self, task: Task, *, identity: SigningKey, entropy: bytes) -> None:
        super().__init__(identity.public, task.round)
        if len(entropy) < MEMBER_ENTROPY:
            raise UsageError(f"a member needs {MEMBER_ENTROPY} bytes of entropy for its keys")
        self.task = task
        self._identity = identity
        self._mask_secret = entropy[:32]
        self._mask_key, self._box_key = AgreementKey(entropy[:32]), AgreementKey(entropy[32:64])
        self._signing_key = SigningKey(entropy[64:96])
        self._invited: Invited
        self._channel: bytes  # key agreed with the collector, for boxes

    def enter(self, invitation: Invitation) -> list[Action]:
        """Keys for this round, if the invitation is to what this device means to take part in."""
        invited = Invited(
            VERSION, self.round, self.task.collector, self.task.terms, self.task.model, invitation.box_key
        )
        if (invitation.terms, invitation.model) != (invited.terms, invited.model):
            raise PeerError(Fault.PARAMS_MISMATCH, "the invitation has other terms, or another V, than this device")
        verify(self.task.collector, signature=invitation.signature, message=encode(invited))
        channel = self._box_key.agree(invitation.box_key)
        mine = self._round_keys()
        signature = self._identity.sign(encode(mine))
        keys = Keys(
            VERSION,
            self.round,
            self.name,
            self.task.collector,
            mine.mask_key,
            mine.box_key,
            mine.signing_key,
            signature,
        )
        self._invited, self._channel = invited, channel
        return [Persist(self.round, Stage.ENTERED, digest(keys)), Send(keys)]

    def meet(self, roster: Roster) -> Meeting:
        """Check a roster against everything that this device knows by itself."""
        graph = Graph(roster.size, roster.degree, roster.threshold)
        listed = {one.position: one for one in roster.listed}
        # A sparser graph, or a lower threshold, would let a few colluding members open one person's vector.
        if len(listed) != graph.degree + 1 or max(listed) >= graph.size or not acceptable(graph, self.task.terms):
            raise PeerError(Fault.PARAMS_MISMATCH, "the roster's mask graph is not what the terms call for")
        own = next((one for one in roster.listed if one.name == self.name), None)
        if own is None or keys_of(own, self.round) != self._round_keys():
            raise PeerError(Fault.AUTH, "the roster does not list this device as it is")
        # The neighbours follow from the root. A collector that chose them would surround a device with accomplices; all
        # that it can do is try rosters, for which the bounds of mask_graph leave 40 bits.
        expected = mask_graph.neighbours(graph, beacon=roster.root, position=own.position).tolist()
        if sorted(listed) != sorted([own.position, *expected]) or len(roster.listed) != len(listed):
            raise PeerError(Fault.PARAMS_MISMATCH, "the roster lists others than the mask graph gives this device")
        # Names rise strictly, so nobody is on the roster twice.
        names = [listed[at].name for at in sorted(listed)]
        if any(a >= b for a, b in pairwise(names)):
            raise PeerError(Fault.AUTH, "the roster is not in the order of its names")
        self._refuse_strangers(roster.size, names)
        # One root for everybody: two members cannot be shown different rosters without one of them noticing.
        known = {at: encode(one) for at, one in listed.items()}
        merkle.check(roster.root, size=roster.size, known=known, proof=roster.proof)
        if self.task.terms.method != "double":  # under double masks signatures are checked when boxes arrive
            for at in expected:
                verify(listed[at].name, signature=listed[at].signature, message=encode(keys_of(listed[at], self.round)))
        channels = {at: self._box_key.agree(listed[at].box_key) for at in expected}
        statement = Statement(self._invited, roster.root, roster.size, roster.degree, roster.threshold)
        return Meeting(statement, digest(statement), own.position, {at: listed[at] for at in expected}, channels)

    def _refuse_strangers(self, size: int, names: list[bytes]) -> None:
        """A device sees only its neighbours' lines; a stranger elsewhere has neighbours too, who see it and refuse."""
        allowed = self.task.allowed
        if allowed is not None and (size > len(allowed) or not allowed.issuperset(names)):
            raise PeerError(Fault.PARAMS_MISMATCH, "the roster lists somebody who has no place in this round")

    def seal_for(self, meeting: Meeting, at: int, kind: type[Message], content: WireStruct) -> bytes:
        """A sealed box for another member."""
        header = meeting.header(sender=self.name, receiver=meeting.others[at].name, kind=kind)
        return seal(meeting.channels[at], header, content)

    def unseal_from(self, meeting: Meeting, at: int, kind: type[Message], sealed: bytes) -> bytes:
        """What another member sealed for this one."""
        header = meeting.header(sender=meeting.others[at].name, receiver=self.name, kind=kind)
        return unseal(meeting.channels[at], header, sealed)

    def seal_for_collector(self, meeting: Meeting, kind: type[Message], content: WireStruct) -> bytes:
        header = meeting.header(sender=self.name, receiver=self.task.collector, kind=kind)
        return seal(self._channel, header, content)

    def unseal_from_collector(self, meeting: Meeting, kind: type[Message], sealed: bytes) -> bytes:
        header = meeting.header(sender=self.task.collector, receiver=self.name, kind=kind)
        return unseal(self._channel, header, sealed)

    def _round_keys(self) -> RoundKeys:
        public = self._mask_key.public, self._box_key.public, self._signing_key.public
        return RoundKeys(VERSION, self.round, self.name, *public)

    def from_collector(self, message: AnyMessage) -> None:
        if message.sender != self.task.collector:
            raise PeerError(Fault.AUTH, "this comes from somebody else than the collector of the round")


COLLECTOR_ENTROPY = 32  # bytes: one secret key


class CollectorBase(Party):
    """The collector's side of a meeting: the recommender's, or that of user i in Algorithm 1. It invites,
    collects keys, and sends everyone their part of the roster. Subclasses do the rest.

    `advance` ends a step: the collector goes on with the members it has heard. Its driver knows the time, and by
    `waiting` whether anybody is still missing.
    """

    burns_on_equivocation = False
    steps: dict[State, State]

    def __init__(self, task: Task, *, identity: SigningKey, entropy: bytes) -> None:
        super().__init__(identity.public, task.round)
        if task.collector != identity.public:
            raise UsageError("a round is collected by the identity that its task names")
        self.task = task
        self._box_key = AgreementKey(entropy)
        self._invited = Invited(VERSION, task.round, self.name, task.terms, task.model, self._box_key.public)
        self._signature = identity.sign(encode(self._invited))
        self._asked: frozenset[bytes] = frozenset()
        self._keys: dict[bytes, Keys] = {}
        self._agreed: dict[bytes, bytes] = {}
        self._roster: tuple[RosterEntry, ...] = ()
        self._places: dict[bytes, int] = {}
        self._near: list[frozenset[int]] = []
        self._meeting: Meeting

    def invite(self, names: Collection[bytes]) -> list[Action]:
        """Open the round to these members."""
        if self.state is not State.IDLE or self.name in names:
            raise UsageError("a round is opened once, and its collector is not one of its members")
        self.state, self._asked, i = State.KEYS, frozenset(names), self._invited
        sends = [
            Send(Invitation(VERSION, self.round, self.name, name, i.terms, i.model, i.box_key, self._signature))
            for name in sorted(self._asked)
        ]
        return [Persist(self.round, Stage.ENTERED, digest(i)), *sends]

    def advance(self) -> list[Action]:
        """End this step, and go on with those who were heard in it."""
        if self.state not in self.steps:
            raise UsageError(f"a round that is {self.state} has no next step")
        try:
            actions = self.go_on()
        except FatalError as fault:
            return self.burn(fault)
        self.state = self.steps[self.state]
        return actions

    @abstractmethod
    def go_on(self) -> list[Action]:
        """What the end of this step leads to; FatalError burns the round."""

    @property
    def waiting(self) -> frozenset[bytes]:
        """Members that are still to be heard in this step."""
        if self.state is State.KEYS:
            return self._asked - self._keys.keys()
        who, heard = self.expected()
        return frozenset(self._roster[at].name for at in set(who) - set(heard))

    @abstractmethod
    def expected(self) -> tuple[Collection[int], Collection[int]]:
        """Positions that are to be heard in this step, after the roster, and those that were."""

    @property
    def size(self) -> int:
        return len(self._roster)

    def take_keys(self, keys: Keys) -> list[Action]:
        """A member's keys, if they are its own and fit to agree with."""
        if keys.sender not in self._asked:
            raise PeerError(Fault.AUTH, "keys from somebody who was not invited")
        said = RoundKeys(VERSION, self.round, keys.sender, keys.mask_key, keys.box_key, keys.signing_key)
        verify(keys.sender, signature=keys.signature, message=encode(said))
        refuse_low_order(keys.mask_key)  # or each neighbour would refuse the whole roster for it
        self._agreed[keys.sender] = self._box_key.agree(keys.box_key)
        self._keys[keys.sender] = keys
        return []

    def convene(self) -> list[Action]:
        """Send everyone their part of the roster, with a proof that it is part of one roster for all."""
        came = [self._keys[name] for name in sorted(self._keys)]
        if len(came) < max(2, self.task.terms.floor):
            raise FatalError(Fault.ABORTED, f"only {len(came)} came, fewer than the terms allow a sum of")
        self._roster = tuple(
            RosterEntry(at, k.sender, k.mask_key, k.box_key, k.signing_key, k.signature) for at, k in enumerate(came)
        )
        self._places = {one.name: one.position for one in self._roster}
        try:
            graph = graph_for(self.task.terms, self.size)
        except UsageError as error:
            raise FatalError(Fault.ABORTED, f"for the {self.size} who came there is no mask graph: {error}") from None
        tree = merkle.Tree([encode(one) for one in self._roster])
        statement = Statement(self._invited, tree.root, graph.size, graph.degree, graph.threshold)
        self._meeting = Meeting(statement, digest(statement))
        rows = mask_graph.all_neighbours(graph, beacon=tree.root).tolist()
        self._near = [frozenset(row) for row in rows]
        return [Send(self._part(tree, at, [at, *rows[at]])) for at in range(self.size)]

    def _part(self, tree: merkle.Tree, at: int, near: list[int]) -> Roster:
        s = self._meeting.statement
        listed = tuple(self._roster[one] for one in sorted(near))
        to = self._roster[at].name
        return Roster(
            VERSION, self.round, self.name, to, s.size, s.degree, s.threshold, s.root, listed, tree.prove(near)
        )

    def place(self, name: bytes, among: Collection[int]) -> int:
        """A sender's position in the roster, if it is still in the round."""
        at = self._places.get(name, -1)
        if at not in among:
            raise PeerError(Fault.AUTH, "this comes from somebody who is not, or no longer, in the round")
        return at

    def unsealed(self, at: int, kind: type[Message], sealed: bytes) -> bytes:
        """What a member sealed for the collector."""
        name = self._roster[at].name
        return unseal(self._agreed[name], self._meeting.header(sender=name, receiver=self.name, kind=kind), sealed)

    def seal_for(self, at: int, kind: type[Message], content: WireStruct) -> bytes:
        """A sealed box for a member."""
        name = self._roster[at].name
        return seal(self._agreed[name], self._meeting.header(sender=self.name, receiver=name, kind=kind), content)

    def enough(self, many: int, did: str) -> None:
        """Below the fewest that the terms allow, the round is given up and nothing is opened."""
        needed = fewest_survivors(self.task.terms, self.size)
        if many < needed:
            raise FatalError(Fault.ABORTED, f"only {many} of {self.size} {did}; the terms ask for {needed}")
