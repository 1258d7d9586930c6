"""The collector's side of a meeting: the recommender's, or that of user i in Algorithm 1."""

from abc import abstractmethod
from collections.abc import Collection

from prirec.errors import Fault, PeerError, UsageError
from prirec.protocols import mask_graph
from prirec.protocols.actions import Action, Persist, Send, Stage
from prirec.protocols.boxes import seal, unseal
from prirec.protocols.codec import encode
from prirec.protocols.meeting import Meeting, Task, graph_for, least
from prirec.protocols.messages import VERSION, Invitation, Keys, Listed, Message, Part, Roster
from prirec.protocols.moves import State
from prirec.protocols.party import FatalError, Party
from prirec.protocols.statements import Invited, RoundKeys, Statement, digest
from prirec.sharing import merkle
from prirec.sharing.keys import AgreementKey, SigningKey, refuse_low_order, verify

ENTROPY = 32  # bytes: one secret key


class Convener(Party):
    """Invites, gathers keys and tells everyone their part of the roster; what follows is for the sum to say.

    It is fed messages, and told by `advance` that the time for a step is over: it then goes on with those it has heard.
    Whoever drives it knows the time, and from `waiting` whether anybody is still to come.
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
        self._roster: tuple[Listed, ...] = ()
        self._places: dict[bytes, int] = {}
        self._near: list[frozenset[int]] = []
        self._meeting: Meeting

    def invite(self, names: Collection[bytes]) -> list[Action]:
        """Opens the round to these."""
        if self.state is not State.IDLE or self.name in names:
            raise UsageError("a round is opened once, and its collector is not one of its members")
        self.state, self._asked, i = State.KEYS, frozenset(names), self._invited
        sends = [
            Send(Invitation(VERSION, self.round, self.name, name, i.terms, i.model, i.box_key, self._signature))
            for name in sorted(self._asked)
        ]
        return [Persist(self.round, Stage.ENTERED, digest(i)), *sends]

    def advance(self) -> list[Action]:
        """The time for this step is over."""
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
        """What the end of this step leads to."""

    @property
    def waiting(self) -> frozenset[bytes]:
        """Who could still be heard in this step."""
        if self.state is State.KEYS:
            return self._asked - self._keys.keys()
        who, heard = self.expected()
        return frozenset(self._roster[at].name for at in set(who) - set(heard))

    @abstractmethod
    def expected(self) -> tuple[Collection[int], Collection[int]]:
        """Who may speak in this step after the roster, and who has."""

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
        """Everyone's part of the roster, with a proof that it is part of the same one."""
        came = [self._keys[name] for name in sorted(self._keys)]
        if len(came) < max(2, self.task.terms.floor):
            raise FatalError(Fault.ABORTED, f"only {len(came)} came, fewer than the terms allow a sum of")
        self._roster = tuple(
            Listed(at, k.sender, k.mask_key, k.box_key, k.signing_key, k.signature) for at, k in enumerate(came)
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
        """Where a sender stands in the roster, if it is still in the round."""
        at = self._places.get(name, -1)
        if at not in among:
            raise PeerError(Fault.AUTH, "this comes from somebody who is not, or no longer, in the round")
        return at

    def unsealed(self, at: int, kind: type[Message], sealed: bytes) -> bytes:
        """What a member sealed for the collector."""
        name = self._roster[at].name
        return unseal(self._agreed[name], self._meeting.header(sender=name, receiver=self.name, kind=kind), sealed)

    def seal_for(self, at: int, kind: type[Message], content: Part) -> bytes:
        """A box for a member."""
        name = self._roster[at].name
        return seal(self._agreed[name], self._meeting.header(sender=self.name, receiver=name, kind=kind), content)

    def enough(self, many: int, did: str) -> None:
        """Below the fewest that the terms allow, the round is given up and nothing is opened."""
        needed = least(self.task.terms, self.size)
        if many < needed:
            raise FatalError(Fault.ABORTED, f"only {many} of {self.size} {did}; the terms ask for {needed}")
