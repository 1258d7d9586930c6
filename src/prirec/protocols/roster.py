"""The start of a round: invitation, keys and roster, the same for secure sums and for Algorithm 1.

`MemberBase` is the device's side, `CollectorBase` the collector's.

A device believes nothing of a roster that it has not checked: that its own line is as it sent it; that its own and its
neighbours' lines are lines of the one roster with this root; that the mask graph, which follows from the root alone,
gives it exactly these neighbours and is dense enough for the terms. That the lines are the neighbours' own, their
identities' signatures say: on their keys, or under double masks on the whole statement by those who go on. There it is
checked before a vector leaves, of those who do not go on as well: they too were given shares.
"""

from abc import abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import pairwise

from prirec.config import HARD_FLOOR
from prirec.errors import Fault, PeerError, UsageError
from prirec.protocols import mask_graph
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
    ShareOf,
    Terms,
    WireStruct,
    step,
)
from prirec.protocols.party import Action, FatalError, Party, Persist, Stage, State
from prirec.protocols.terms import noise_bound
from prirec.sharing import merkle
from prirec.sharing.keys import AgreementKey, SigningKey, refuse_low_order, verify


@dataclass(frozen=True, slots=True)
class Task:
    """The sum that a party takes part in, as it has worked it out itself: nothing of it is taken from the collector."""

    round: Round
    collector: bytes
    terms: Terms
    model: bytes  # H(V), of the V that this party holds
    allowed: frozenset[bytes] | None = field(default=None, repr=False)  # who may be on the roster; None: anybody
    fewest: int = 0  # names that the roster must hold, beside the terms' floor: made-up ones would have to be as many

    def __post_init__(self) -> None:
        # Refused when a task is made, long before a device sends anything.
        if self.terms.method == "two_operators":
            raise UsageError("a sum over two operators has no roster: its task is a JointTask")
        if self.terms.corrupt + 2 * self.terms.lost >= 1000 or 3 * self.terms.corrupt >= 1000:
            raise UsageError("no sum is safe unless corrupt + 2 lost is below 1000 per mille, and corrupt below 334")
        if self.terms.noise and (self.terms.method != "double" or self.terms.floor < HARD_FLOOR):
            raise UsageError(f"noise is for sums under double masks, with a floor of at least {HARD_FLOOR}")


@dataclass(frozen=True, slots=True)
class RosterView:
    """What a party knows of the others in a round: the roster, as far as it has seen and checked it."""

    statement: Statement
    digest: bytes  # of the statement, bound into every box and pad
    channels: dict[bytes, bytes] = field(repr=False)  # key agreed with each party, by its name, for boxes
    position: int = -1  # a collector has none
    neighbours: dict[int, RosterEntry] = field(default_factory=dict, repr=False)  # a collector has none

    @property
    def graph(self) -> Graph:
        return Graph(self.statement.size, self.statement.degree, self.statement.threshold)

    def header(self, *, sender: bytes, receiver: bytes, kind: type[Message]) -> BoxHeader:
        of = self.statement.invited.round
        return BoxHeader(VERSION, of, sender, receiver, step(kind), self.digest)


class RosterParty(Party):
    """A party that has a roster: it seals boxes for the others on it, and opens theirs."""

    _view: RosterView

    def __init__(self, task: Task, identity: SigningKey) -> None:
        super().__init__(identity.public, task.round)
        self.task = task

    def seal(self, receiver: bytes, kind: type[Message], content: WireStruct) -> bytes:
        header = self._view.header(sender=self.name, receiver=receiver, kind=kind)
        return seal(self._view.channels[receiver], header, content)

    def unseal(self, sender: bytes, kind: type[Message], sealed: bytes) -> bytes:
        header = self._view.header(sender=sender, receiver=self.name, kind=kind)
        return unseal(self._view.channels[sender], header, sealed)


# The mask graph that terms call for


def graph_for(terms: Terms, size: int) -> Graph:
    """The mask graph of a roster: complete where nobody may drop out, else as sparse as is safe."""
    if terms.method != "double":
        return Graph(size, size - 1, size)
    return mask_graph.plan(size, corrupt=terms.corrupt / 1000, lost=terms.lost / 1000)


def acceptable(graph: Graph, terms: Terms) -> bool:
    """Whether a device accepts a roster of this size and graph: its sum cannot wrap, and no part of it be opened."""
    if not graph.possible or graph.size < terms.floor:
        return False
    if graph.size * terms.bound + noise_bound(terms, graph.size) > 2 ** (terms.ring_bits - 1) - 1:
        return False
    if terms.method != "double":
        return graph == graph_for(terms, terms.floor)
    return mask_graph.adequate(graph, corrupt=terms.corrupt / 1000, lost=terms.lost / 1000)


def fewest_survivors(terms: Terms, size: int) -> int:
    """The fewest survivors with which a sum over this roster is opened."""
    if terms.method != "double":
        return terms.floor
    return mask_graph.least_survivors(size, floor=terms.floor, lost=terms.lost / 1000)


# The device's side


MEMBER_ENTROPY = 96  # bytes: three secret keys


class MemberBase(RosterParty):
    """A device's side: enters a round and checks its roster. Subclasses do the sum, or Algorithm 1."""

    def __init__(self, task: Task, *, identity: SigningKey, entropy: bytes) -> None:
        super().__init__(task, identity)
        if len(entropy) < MEMBER_ENTROPY:
            raise UsageError(f"a member needs {MEMBER_ENTROPY} bytes of entropy for its keys")
        self._identity = identity
        self._mask_secret = entropy[:32]
        self._mask_key, self._box_key = AgreementKey(entropy[:32]), AgreementKey(entropy[32:64])
        self._signing_key = SigningKey(entropy[64:96])
        self._invited: Invited

    @property
    def size(self) -> int:
        """How many are on the roster that this device has checked."""
        return self._view.graph.size

    @property
    def _round_keys(self) -> RoundKeys:
        public = self._mask_key.public, self._box_key.public, self._signing_key.public
        return RoundKeys(VERSION, self.round, self.name, *public)

    def handle(self, message: AnyMessage) -> list[Action]:
        # only Algorithm 1's shares come from another member
        if message.sender != self.task.collector and not isinstance(message, ShareOf):
            raise PeerError(Fault.AUTH, "this comes from somebody else than the collector of the round")
        return super().handle(message)

    def enter(self, invitation: Invitation) -> list[Action]:
        """Keys for this round, if the invitation is to what this device means to take part in."""
        # Built from what this device holds, never from what it was sent: the signature must be on exactly this.
        task, mine = self.task, self._round_keys
        invited = Invited(VERSION, self.round, task.collector, task.terms, task.model, invitation.box_key)
        if (invitation.terms, invitation.model) != (invited.terms, invited.model):
            raise PeerError(Fault.PARAMS_MISMATCH, "the invitation has other terms, or another V, than this device")
        verify(task.collector, signature=invitation.signature, message=encode(invited))
        self._channel = self._box_key.agree(invitation.box_key)  # key agreed with the collector; raises if it is bad
        self._invited = invited
        signature = self._identity.sign(encode(mine))
        keys = self.send(Keys, task.collector, mine.mask_key, mine.box_key, mine.signing_key, signature)
        return [Persist(self.round, Stage.ENTERED, digest(keys.message)), keys]

    def check_roster(self, roster: Roster) -> RosterView:
        """Check a roster against everything that this device knows by itself."""
        graph = Graph(roster.size, roster.degree, roster.threshold)
        listed = {one.position: one for one in roster.listed}
        # A sparser graph, or a lower threshold, would let a few colluding members open one person's vector.
        if len(listed) != graph.degree + 1 or max(listed) >= graph.size or not acceptable(graph, self.task.terms):
            raise PeerError(Fault.PARAMS_MISMATCH, "the roster's mask graph is not what the terms call for")
        own = next((one for one in roster.listed if one.name == self.name), None)
        if own is None or keys_of(own, self.round) != self._round_keys:
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
        if roster.size < self.task.fewest:
            raise PeerError(
                Fault.PARAMS_MISMATCH, "the roster holds too few of the people for this device to take part"
            )
        self._refuse_strangers(roster.size, names)
        # One root for everybody: two members cannot be shown different rosters without one of them noticing.
        known = {at: encode(one) for at, one in listed.items()}
        merkle.check(roster.root, size=roster.size, known=known, proof=roster.proof)
        others = {at: listed[at] for at in expected}
        if self.task.terms.method != "double":  # under double masks signatures are checked when boxes arrive
            for one in others.values():
                verify(one.name, signature=one.signature, message=encode(keys_of(one, self.round)))
        channels = {one.name: self._box_key.agree(one.box_key) for one in others.values()}
        channels[self.task.collector] = self._channel
        statement = Statement(self._invited, roster.root, roster.size, roster.degree, roster.threshold)
        return RosterView(statement, digest(statement), channels, own.position, others)

    def _refuse_strangers(self, size: int, names: list[bytes]) -> None:
        """A device sees only its neighbours' lines; a stranger elsewhere has neighbours too, who see it and refuse."""
        allowed = self.task.allowed
        if allowed is not None and (size > len(allowed) or not allowed.issuperset(names)):
            raise PeerError(Fault.PARAMS_MISMATCH, "the roster lists somebody who has no place in this round")


# The collector's side


COLLECTOR_ENTROPY = 32  # bytes: one secret key


class CollectorBase(RosterParty):
    """The collector's side: the recommender's, or that of user i in Algorithm 1. It invites, collects keys,
    and sends everyone their part of the roster. Subclasses do the rest.

    `advance` ends a step: the collector goes on with the members that have answered. Its driver knows the time, and by
    `waiting` whether anybody is still missing.
    """

    burns_on_equivocation = False
    steps: dict[State, State]

    def __init__(self, task: Task, *, identity: SigningKey, entropy: bytes) -> None:
        super().__init__(task, identity)
        if task.collector != identity.public:
            raise UsageError("a round is collected by the identity that its task names")
        self._box_key = AgreementKey(entropy)
        self._invited = Invited(VERSION, task.round, self.name, task.terms, task.model, self._box_key.public)
        self._signature = identity.sign(encode(self._invited))
        self._asked: frozenset[bytes] = frozenset()
        self._keys: dict[bytes, Keys] = {}
        self._agreed: dict[bytes, bytes] = {}  # key agreed with each member, for boxes
        self._roster: tuple[RosterEntry, ...] = ()
        self._places: dict[bytes, int] = {}
        self._rows: list[list[int]] = []  # neighbours of each position, ascending
        self._neighbours: list[frozenset[int]] = []  # the same as sets

    def invite(self, names: Collection[bytes]) -> list[Action]:
        """Open the round to these members."""
        if self.state is not State.IDLE or self.name in names:
            raise UsageError("a round is opened once, and its collector is not one of its members")
        self.state, self._asked, i = State.KEYS, frozenset(names), self._invited
        terms = i.terms, i.model, i.box_key, self._signature
        sends = [self.send(Invitation, name, *terms) for name in sorted(self._asked)]
        return [Persist(self.round, Stage.ENTERED, digest(i)), *sends]

    def advance(self) -> list[Action]:
        """End this step, and go on with those who have answered in it."""
        if self.state not in self.steps:
            raise UsageError(f"a round that is {self.state} has no next step")
        try:
            actions = self.end_step()
        except FatalError as fault:
            return self.burn(fault)
        self.state = self.steps[self.state]
        return actions

    @abstractmethod
    def end_step(self) -> list[Action]:
        """What the end of this step leads to; FatalError burns the round."""

    @property
    def waiting(self) -> frozenset[bytes]:
        """Members whose answer is still missing in this step."""
        if self.state is State.KEYS:
            return self._asked - self._keys.keys()
        who, answered = self.expected()
        return frozenset(self._roster[at].name for at in set(who) - set(answered))

    @abstractmethod
    def expected(self) -> tuple[Collection[int], Collection[int]]:
        """Positions that are to answer in this step, after the roster, and those that have."""

    @property
    def size(self) -> int:
        return len(self._roster)

    def take_keys(self, keys: Keys) -> list[Action]:
        """Accept a member's keys, if they are signed by it and usable for key agreement."""
        if keys.sender not in self._asked:
            raise PeerError(Fault.AUTH, "keys from somebody who was not invited")
        said = RoundKeys(VERSION, self.round, keys.sender, keys.mask_key, keys.box_key, keys.signing_key)
        verify(keys.sender, signature=keys.signature, message=encode(said))
        refuse_low_order(keys.mask_key)  # or each neighbour would refuse the whole roster for it
        self._agreed[keys.sender] = self._box_key.agree(keys.box_key)
        self._keys[keys.sender] = keys
        return []

    def send_rosters(self) -> list[Action]:
        """Send everyone their part of the roster, with a proof that it is part of one roster for all."""
        came = [self._keys[name] for name in sorted(self._keys)]
        if len(came) < (needed := max(2, self.task.terms.floor, self.task.fewest)):
            raise FatalError(Fault.ABORTED, f"only {len(came)} came, and a sum is over at least {needed}")
        self._roster = tuple(
            RosterEntry(at, k.sender, k.mask_key, k.box_key, k.signing_key, k.signature) for at, k in enumerate(came)
        )
        self._places = {one.name: one.position for one in self._roster}
        try:
            graph = graph_for(self.task.terms, self.size)
        except UsageError as error:
            raise FatalError(Fault.ABORTED, f"for the {self.size} who came there is no mask graph: {error}") from None
        tree = merkle.Tree([encode(one) for one in self._roster])
        shape = graph.size, graph.degree, graph.threshold
        statement = Statement(self._invited, tree.root, *shape)
        self._view = RosterView(statement, digest(statement), self._agreed)
        self._rows = mask_graph.all_neighbours(graph, beacon=tree.root).tolist()
        self._neighbours = [frozenset(row) for row in self._rows]
        sends: list[Action] = []
        for at, row in enumerate(self._rows):
            near = sorted([at, *row])
            listed = tuple(self._roster[one] for one in near)
            sends.append(self.send(Roster, self._roster[at].name, *shape, tree.root, listed, tree.prove(near)))
        return sends

    def position_of(self, name: bytes, among: Collection[int]) -> int:
        """A sender's position in the roster, if it is still in the round."""
        at = self._places.get(name, -1)
        if at not in among:
            raise PeerError(Fault.AUTH, "this comes from somebody who is not, or no longer, in the round")
        return at

    def refuse_too_few(self, many: int, did: str) -> None:
        """Below the fewest that the terms allow, the round is given up and nothing is opened."""
        needed = fewest_survivors(self.task.terms, self.size)
        if many < needed:
            raise FatalError(Fault.ABORTED, f"only {many} of {self.size} {did}; the terms ask for {needed}")
