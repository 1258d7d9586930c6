"""The collector's side of a secure sum (member.py): the recommender's, or under pads that of user i in Algorithm 1."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from prirec.errors import Fault, PeerError, UsageError
from prirec.protocols import masking
from prirec.protocols.actions import Action, Finished, Persist, Send, Stage
from prirec.protocols.codec import Delivered, Settled, Vouched, bitmap, decode_content, digest, encode
from prirec.protocols.meeting import CollectorBase, FatalError, Meeting, Task
from prirec.protocols.messages import (
    VERSION,
    Agreement,
    Agreements,
    AnyMessage,
    Box,
    Boxes,
    Delivery,
    Keys,
    Listed,
    Masked,
    Opened,
    Reveal,
    Revealed,
    Share,
    Signed,
    Survivors,
    Vector,
)
from prirec.protocols.moves import COLLECTOR, COLLECTOR_STEPS, PAD_STEPS, State
from prirec.sharing import secret_sharing
from prirec.sharing.keys import AgreementKey, SigningKey, verify
from prirec.types import RingArray


class Collector(CollectorBase):
    """Adds up vectors that it cannot read, and opens their sum."""

    moves = COLLECTOR

    def __init__(self, task: Task, *, identity: SigningKey, entropy: bytes) -> None:
        super().__init__(task, identity=identity, entropy=entropy)
        if task.terms.method == "shares":
            raise UsageError("shares are collected by Algorithm 1's receiver")
        self._double = task.terms.method == "double"
        self.steps = COLLECTOR_STEPS if self._double else PAD_STEPS
        self._total = masking.nothing(task.terms)
        self._boxes: dict[int, Boxes] = {}
        self._commitments: dict[int, bytes] = {}
        self._delivered: dict[int, Signed] = {}
        self._members: set[bytes] = set()
        self._agreements: dict[int, bytes] = {}
        self._reveals: dict[int, Revealed] = {}
        self._sharing: frozenset[int] = frozenset()
        self._survivors: frozenset[int] = frozenset()
        self._shared = self._settled = b""

    def handle(self, message: AnyMessage) -> list[Action]:
        match message:
            case Keys():
                return self.take_keys(message)
            case Boxes():
                return self._take_boxes(message)
            case Masked():
                return self._take_vector(message)
            case Agreement():
                return self._take_agreement(message)
            case Reveal():
                return self._take_reveal(message)
        raise PeerError(Fault.ORDER, "a collector has nothing to do with this")

    def go_on(self) -> list[Action]:
        going_on: dict[State, Callable[[], list[Action]]] = {
            State.KEYS: self._convene,
            State.BOXES: self._deliver,
            State.VECTORS: self._settle if self._double else self._add_up,
            State.AGREEMENTS: self._pass_agreements,
            State.REVEALS: self._open,
        }
        return going_on[self.state]()

    def expected(self) -> tuple[Collection[int], Collection[int]]:
        expected: dict[State, tuple[Collection[int], Collection[int]]] = {
            State.BOXES: (range(self.size), self._boxes),
            State.VECTORS: (self._sharing, self._commitments),
            State.AGREEMENTS: (self._survivors, self._agreements),
            State.REVEALS: (self._agreements, self._reveals),
        }
        return expected.get(self.state, ((), ()))

    def _convene(self) -> list[Action]:
        actions = self.convene()
        self._go_on(range(self.size))  # under pads everyone does
        return actions

    def _go_on(self, positions: Collection[int]) -> None:
        self._sharing, self._shared = frozenset(positions), bitmap(positions, size=self.size)

    def _take_boxes(self, message: Boxes) -> list[Action]:
        at = self.place(message.sender, range(self.size))
        # A member that sealed no box for some neighbour would leave too few shares of its secrets, should it drop out.
        if self._near[at] != {box.position for box in message.boxes} or len(message.boxes) != len(self._near[at]):
            raise PeerError(Fault.PARAMS_MISMATCH, "boxes for others than the sender's neighbours")
        vouched = encode(Vouched(self._meeting.statement, at))
        verify(message.sender, signature=message.signature, message=vouched)
        self._boxes[at] = message
        return []

    def _deliver(self) -> list[Action]:
        """Send everyone who sealed boxes the boxes that are for them."""
        self._go_on(self._boxes)
        self.enough(len(self._sharing), "sealed their boxes")
        sealed: dict[int, list[Box]] = {at: [] for at in sorted(self._sharing)}
        for sender in sorted(self._sharing):
            for box in self._boxes[sender].boxes:
                if box.position in sealed:
                    sealed[box.position].append(Box(sender, box.sealed))
        signed = {at: Signed(at, message.signature) for at, message in self._boxes.items()}
        self._boxes = {}
        return [Send(self._delivery(at, boxes, signed)) for at, boxes in sealed.items()]

    def _delivery(self, at: int, boxes: list[Box], signed: dict[int, Signed]) -> Delivery:
        to, signatures = self._roster[at].name, tuple(signed[box.position] for box in boxes)
        return Delivery(VERSION, self.round, self.name, to, self._shared, tuple(boxes), signatures)

    def _take_vector(self, message: Masked) -> list[Action]:
        at = self.place(message.sender, self._sharing)
        content = decode_content(Vector, self.unsealed(at, Masked, message.sealed))
        lengths = (32 if self._double else 0, 32 if self.task.terms.opening == "members" else 0)
        if (len(content.commitment), len(content.members)) != lengths:
            raise PeerError(Fault.PARAMS_MISMATCH, "a vector without the commitments that belong to it")
        # Neighbours on a sparse graph will insist on this signature: a bad one costs its sender, not everybody's round.
        delivered = encode(Delivered(self._meeting.mark, self._shared))
        verify(self._roster[at].signing_key, signature=message.signature, message=delivered)
        self._total += masking.vector(content.values, self.task.terms)
        self._commitments[at], self._delivered[at] = content.commitment, Signed(at, message.signature)
        self._members.add(content.members)
        return []

    def _settle(self) -> list[Action]:
        """Settle the list of survivors for good, and ask them to sign it."""
        self._survivors = frozenset(self._commitments)
        self.enough(len(self._survivors), "sent their vectors")
        if len(self._members) > 1:
            raise FatalError(Fault.ABORTED, "the members do not hold the same key; none of them could open the sum")
        settled = Settled(self._meeting.mark, self._shared, bitmap(self._survivors, size=self.size))
        self._settled = encode(settled)
        sends: list[Action] = []
        for at in sorted(self._survivors):
            near = [] if self._meeting.graph.is_complete else sorted(self._near[at] & self._survivors)
            to, signed = self._roster[at].name, tuple(self._delivered[one] for one in near)
            sends.append(Send(Survivors(VERSION, self.round, self.name, to, settled.survivors, signed)))
        return [Persist(self.round, Stage.AGREED, digest(settled)), *sends]

    def _take_agreement(self, message: Agreement) -> list[Action]:
        at = self.place(message.sender, self._survivors)
        verify(self._roster[at].signing_key, signature=message.signature, message=self._settled)
        self._agreements[at] = message.signature
        return []

    def _pass_agreements(self) -> list[Action]:
        """Send everyone who signed the list the signatures of their neighbours."""
        sends: list[Action] = []
        for at in sorted(self._agreements):
            near = sorted(self._near[at] & self._agreements.keys())
            signatures = tuple(Signed(one, self._agreements[one]) for one in near)
            sends.append(Send(Agreements(VERSION, self.round, self.name, self._roster[at].name, signatures)))
        return sends

    def _take_reveal(self, message: Reveal) -> list[Action]:
        at = self.place(message.sender, self._agreements)
        content = decode_content(Revealed, self.unsealed(at, Reveal, message.sealed))
        near = self._near[at] & self._sharing
        seeds, mask_keys = sorted((near & self._survivors) | {at}), sorted(near - self._survivors)
        # Exactly those, once each: a missing share could keep the sum closed, and one too many is asked of nobody.
        given = [sorted(share.position for share in shares) for shares in (content.seeds, content.mask_keys)]
        if given != [seeds, mask_keys]:
            raise PeerError(Fault.PARAMS_MISMATCH, "shares of other secrets than the survivors call for")
        self._reveals[at] = content
        return []

    def _open(self) -> list[Action]:
        """Take off the pads of survivors and of the lost; where the members open, theirs are still on the sum."""
        recovery = Recovery(self._meeting, self._roster, self._near, sharing=self._sharing, survivors=self._survivors)
        total = recovery.without_pads(self._total, self._reveals, self._commitments)
        self._reveals = {}  # shares are not kept after use
        return self._opened(total)

    def _add_up(self) -> list[Action]:
        """Under pads alone nobody may be missing: then the pads have cancelled."""
        self._survivors = frozenset(self._commitments)
        self.enough(len(self._survivors), "sent their vectors")
        return self._opened(self._total)

    def _opened(self, total: RingArray) -> list[Action]:
        # The digest is the meeting's, no hash of the sum: with that, a guess of the sum could be tested.
        opened = Persist(self.round, Stage.OPENED, self._meeting.mark)
        if self.task.terms.opening == "collector":
            return [opened, Finished(total, len(self._survivors))]
        content, sends = Vector(total.tobytes()), []
        for at in sorted(self._survivors):
            sealed = self.seal_for(at, Opened, content)
            sends.append(Send(Opened(VERSION, self.round, self.name, self._roster[at].name, sealed)))
        return [opened, *sends]


@dataclass(frozen=True, slots=True)
class Recovery:
    """Takes off the pads that have not cancelled: own masks of survivors, and edges to members who were lost.

    Their secrets are put together from shares. One that is not as it was committed to ends the round: better no sum
    than a wrong one."""

    meeting: Meeting
    roster: Sequence[Listed]
    near: Sequence[frozenset[int]]
    sharing: frozenset[int]
    survivors: frozenset[int]

    def without_pads(
        self, total: RingArray, reveals: Mapping[int, Revealed], commitments: Mapping[int, bytes]
    ) -> RingArray:
        """The sum of the survivors' vectors, less every pad that has not cancelled."""
        seeds, keys = self.seeds(reveals, commitments), self.mask_keys(reveals)
        added = chain(self.own_pads(seeds), self.edge_pads(keys, of_lower=True))
        return masking.lay_on(total, added=self.edge_pads(keys, of_lower=False), taken=added)

    def seeds(self, reveals: Mapping[int, Revealed], commitments: Mapping[int, bytes]) -> dict[int, bytes]:
        """The seed b_u of each survivor."""
        given = _gathered({at: one.seeds for at, one in reveals.items()})
        seeds = {at: self._combined(given.get(at, [])) for at in sorted(self.survivors)}
        for at, seed in seeds.items():
            if masking.commitment(seed, self.meeting, name=self.roster[at].name) != commitments[at]:
                raise _unfit()
        return seeds

    def mask_keys(self, reveals: Mapping[int, Revealed]) -> dict[int, AgreementKey]:
        """The mask key of each member that was lost after its boxes were delivered."""
        given = _gathered({at: one.mask_keys for at, one in reveals.items()})
        lost = sorted(at for at in self.sharing - self.survivors if self.near[at] & self.survivors)
        keys = {at: AgreementKey(self._combined(given.get(at, []))) for at in lost}
        # The public half of a mask key is its commitment: a key from wrong shares does not match the roster.
        if any(key.public != self.roster[at].mask_key for at, key in keys.items()):
            raise _unfit()
        return keys

    def own_pads(self, seeds: Mapping[int, bytes]) -> Iterator[RingArray]:
        for at, seed in seeds.items():
            yield masking.own_pad(seed, self.meeting, name=self.roster[at].name)

    def edge_pads(self, keys: Mapping[int, AgreementKey], *, of_lower: bool) -> Iterator[RingArray]:
        """The pads between the lost and survivors: those that survivors added, as the lower of the two, or took off."""
        sharing = bitmap(self.sharing, size=len(self.roster))
        for lost, key in keys.items():
            for at in sorted(self.near[lost] & self.survivors):
                if (at < lost) is of_lower:
                    low, high = self.roster[min(at, lost)].name, self.roster[max(at, lost)].name
                    agreed = key.agree(self.roster[at].mask_key)
                    yield masking.pairwise_pad(agreed, self.meeting, sharing=sharing, low=low, high=high)

    def _combined(self, shares: list[tuple[int, bytes]]) -> bytes:
        t = self.meeting.graph.threshold
        if len(shares) < t:
            raise FatalError(Fault.ABORTED, "too few shares of a secret were given out; the sum stays closed")
        points = np.array([at for at, _ in shares[:t]], dtype=np.int64) + 1
        rows = np.frombuffer(b"".join(share for _, share in shares[:t]), dtype="<u4").reshape(t, -1)
        try:
            return secret_sharing.shamir_combine(points, rows)
        except PeerError:
            raise _unfit() from None


def _gathered(given: Mapping[int, Iterable[Share]]) -> dict[int, list[tuple[int, bytes]]]:
    """Shares by the person whose secret they are of, each with its holder."""
    gathered: dict[int, list[tuple[int, bytes]]] = {}
    for holder in sorted(given):
        for share in given[holder]:
            gathered.setdefault(share.position, []).append((holder, share.share))
    return gathered


def _unfit() -> FatalError:
    return FatalError(Fault.ABORTED, "shares that were given out do not fit together; the sum stays closed")
