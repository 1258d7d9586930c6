"""A secure sum: one protocol for both openings (to the collector, to the members) and for both mask graphs.

Who holds what decides who can open, not a second implementation:

    member u sends    y_u = x_u + own pad(b_u) + sum over neighbours v of ± pad(s_uv)  [+ members' pad_u]    in the ring
    the collector     adds up the y_u of the survivors; from shares that their neighbours give out it learns b_u of each
                      survivor and the mask key of each that was lost, never both of one, and takes those pads off
    the members       where they open, take off the pads whose key the collector never had

Correct: between two survivors the pads cancel; between a survivor and one that was lost the pad follows from the lost
one's mask key; own pads follow from the seeds; ring sums are exact. Anything that does not fit (a share, a seed, a key)
is noticed by a commitment and ends the round without a sum.

Private: y_u is under own pad(b_u), which is uniform to whoever lacks b_u; and once b_u is open, under the pads of the
edges to honest survivors, who stay connected (decisions/0011), so that beyond their sum the y_u are uniform. b_u and
the mask key of one person are never both open, since each honest holder answers once and 2t > k + 1 + c.

Against a collector that cheats, the device itself insists: on its own terms and its own hash of V, signed by every
neighbour's identity together with the roster, and bound into every box and mask; on one list of survivors, signed by t
holders of its shares; on neighbours who were told of the same boxes as itself; on the fewest survivors that the terms
allow; on one answer a round.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

import numpy as np

from prirec.errors import Fault, PeerError, UsageError
from prirec.protocols import roster
from prirec.protocols import terms as noise
from prirec.protocols.codec import (
    Delivered,
    Settled,
    Vouched,
    bitmap,
    decode_content,
    digest,
    encode,
    keys_of,
    positions,
)
from prirec.protocols.messages import (
    VERSION,
    Agreement,
    Agreements,
    AnyMessage,
    Box,
    Boxes,
    Delivery,
    Invitation,
    Keys,
    Masked,
    Opened,
    Reveal,
    Revealed,
    Roster,
    RosterEntry,
    Secrets,
    Share,
    Signed,
    Survivors,
    Terms,
    Vector,
)
from prirec.protocols.party import (
    COLLECTOR,
    COLLECTOR_STEPS,
    MEMBER,
    PAD_MEMBER,
    PAD_STEPS,
    Action,
    Finished,
    Persist,
    Send,
    Stage,
    State,
)
from prirec.protocols.roster import CollectorBase, FatalError, Meeting, MemberBase, Task, fewest_survivors
from prirec.sharing import secret_sharing
from prirec.sharing.keys import AgreementKey, SigningKey, derive, verify
from prirec.sharing.masks import stretch
from prirec.types import RingArray

# Bytes: keys, then 32 each for the seed of the own mask, the coefficients of its shares, a part of the members' key,
# and noise. All entropy is drawn when the member is made, so that a repeated message is answered with the same bits.
ENTROPY = roster.MEMBER_ENTROPY + 128


def noise_seed(entropy: bytes) -> bytes:
    """The part of a member's entropy that its share of the noise comes from."""
    return entropy[-32:]


class Member(MemberBase):
    """A device in a secure sum: adds one vector. docs/protocols.md shows what it persists and sends at each step."""

    def __init__(self, task: Task, *, identity: SigningKey, value: RingArray, entropy: bytes) -> None:
        super().__init__(task, identity=identity, entropy=entropy)
        if len(entropy) != ENTROPY or task.terms.method == "shares":
            raise UsageError(
                f"a member needs {ENTROPY} bytes of entropy, and terms of a sum under pads or double masks"
            )
        self.moves = MEMBER if task.terms.method == "double" else PAD_MEMBER
        self._value = check_vector(value, task.terms)
        self._seed, self._coefficients, self._part = (entropy[at : at + 32] for at in (96, 128, 160))
        self._noise_seed = noise_seed(entropy)
        self._meeting: Meeting
        self._edges: dict[int, bytes] = {}  # key agreed with each neighbour, for pads
        self._own_share: bytes
        self._held: dict[int, Secrets] = {}
        self._sharing, self._survivors, self._settled = b"", frozenset[int](), b""

    def handle(self, message: AnyMessage) -> list[Action]:
        self.from_collector(message)
        match message:
            case Invitation():
                return self.enter(message)
            case Roster():
                return self._share(self.meet(message))
            case Delivery():
                return self._mask_among(message)
            case Survivors():
                return self._agree(message)
            case Agreements():
                return self._reveal(message)
            case Opened():
                return self._open(message)
        raise PeerError(Fault.ORDER, "a member has nothing to do with this")

    def _share(self, meeting: Meeting) -> list[Action]:
        """Send every neighbour a share of both secrets, and keep one of the seed."""
        self._edges = {at: self._mask_key.agree(other.mask_key) for at, other in meeting.others.items()}
        self._meeting = meeting
        if self.task.terms.method == "pads":
            everyone = bitmap(range(meeting.graph.size), size=meeting.graph.size)
            return self._mask(everyone, frozenset(meeting.others), {})
        near = [*meeting.others, meeting.position]
        points, t = np.array(near, dtype=np.int64) + 1, meeting.graph.threshold
        split = [
            secret_sharing.shamir_split(secret, threshold=t, points=points, seed=derive(self._coefficients, use))
            for secret, use in ((self._seed, "seed"), (self._mask_secret, "mask key"))
        ]
        seeds, mask_keys = ([row.astype("<u4").tobytes() for row in shares] for shares in split)
        part = self._part if self.task.terms.opening == "members" else b""
        boxes = tuple(
            Box(at, self.seal_for(meeting, at, Boxes, Secrets(seed, mask_key, part)))
            for at, seed, mask_key in zip(meeting.others, seeds, mask_keys, strict=False)
        )
        self._own_share = seeds[-1]
        signature = self._identity.sign(encode(Vouched(meeting.statement, meeting.position)))
        return [Send(Boxes(VERSION, self.round, self.name, self.task.collector, signature, boxes))]

    def _mask_among(self, delivery: Delivery) -> list[Action]:
        """Send the masked vector, once every neighbour that goes on has signed the same statement as this device."""
        meeting = self._meeting
        sharing = positions(delivery.sharing, size=meeting.graph.size)
        # Exactly the neighbours that go on: with a box withheld, this device would mask with fewer than it believes.
        near, came = sharing & meeting.others.keys(), {box.position: box.sealed for box in delivery.boxes}
        signed = {one.position: one.signature for one in delivery.signatures}
        if meeting.position not in sharing or not near == came.keys() == signed.keys():
            raise PeerError(Fault.PARAMS_MISMATCH, "the boxes delivered are not those of the neighbours that go on")
        if (
            len(sharing) < fewest_survivors(self.task.terms, meeting.graph.size)
            or 1 + len(near) < meeting.graph.threshold
        ):
            raise FatalError(Fault.ABORTED, "too few of the roster, or of this device's neighbours, go on")
        for at in sorted(meeting.others.keys() - near):  # all checks come before the vector leaves
            self._refuse_false_line(at)
        held = {at: self._opened_box(at, came[at], signed[at]) for at in sorted(near)}
        self._held, self._sharing = held, delivery.sharing
        return self._mask(delivery.sharing, near, held)

    def _mask(self, sharing: bytes, near: frozenset[int], held: dict[int, Secrets]) -> list[Action]:
        meeting, terms = self._meeting, self.task.terms
        added = [self._pad(at, sharing) for at in near if at > meeting.position]
        taken = [self._pad(at, sharing) for at in near if at < meeting.position]
        proof = check = b""
        if terms.method == "double":
            added.append(own_pad(self._seed, meeting, name=self.name))
            proof = commitment(self._seed, meeting, name=self.name)
        if terms.opening == "members":
            self._members_key = self._key_of_members(sharing, held)
            added.append(members_pad(self._members_key, meeting, name=self.name))
            check = members_check(self._members_key, meeting)
        if terms.noise:  # added as another pad, which nobody can take off
            added.append(noise.draw_noise(terms, meeting.graph.size, seed=self._noise_seed))
        values = add_pads(self._value, added=added, taken=taken)
        sealed = self.seal_for_collector(meeting, Masked, Vector(values.tobytes(), proof, check))
        signature = self._signing_key.sign(encode(Delivered(meeting.mark, sharing)))
        message = Masked(VERSION, self.round, self.name, self.task.collector, sealed, signature)
        return [Persist(self.round, Stage.MASKED, digest(message), encode(message)), Send(message)]

    def _agree(self, message: Survivors) -> list[Action]:
        """Sign a list of survivors: the only one that this device ever signs in this round. With two lists a collector
        could get shares of both secrets of a person."""
        meeting = self._meeting
        survivors = positions(message.survivors, size=meeting.graph.size)
        if meeting.position not in survivors or not survivors <= positions(self._sharing, size=meeting.graph.size):
            raise PeerError(
                Fault.PARAMS_MISMATCH, "the survivors are not part of those who went on, or not this device"
            )
        if len(survivors) < fewest_survivors(self.task.terms, meeting.graph.size):
            raise FatalError(Fault.ABORTED, "fewer survivors than the terms allow a sum of; nothing is opened")
        # Else a collector could tell two arcs of the ring of different boxes, and open the sum of each.
        if not meeting.graph.is_complete and not self._told_alike(message.signatures, survivors):
            raise FatalError(Fault.PARAMS_MISMATCH, "a neighbour was told of other boxes; nothing is opened")
        settled = Settled(meeting.mark, self._sharing, message.survivors)
        self._survivors, self._settled = survivors, encode(settled)
        agreement = Agreement(
            VERSION, self.round, self.name, self.task.collector, self._signing_key.sign(self._settled)
        )
        return [Persist(self.round, Stage.AGREED, digest(settled)), Send(agreement)]

    def _reveal(self, message: Agreements) -> list[Action]:
        """Give out a share of one of each neighbour's two secrets: which one follows from the list that t signed."""
        meeting = self._meeting
        near, enough = self._survivors & self._held.keys(), meeting.graph.threshold - 1  # this device has signed too
        if len(self._signers(message.signatures, self._settled, near, enough=enough)) < enough:
            raise PeerError(Fault.ABORTED, "too few have signed the same survivors; no share is given out")
        seeds = [Share(at, one.seed) for at, one in self._held.items() if at in self._survivors]
        mask_keys = [Share(at, one.mask_key) for at, one in self._held.items() if at not in self._survivors]
        content = Revealed((*seeds, Share(meeting.position, self._own_share)), tuple(mask_keys))
        sealed = self.seal_for_collector(meeting, Reveal, content)
        reveal = Reveal(VERSION, self.round, self.name, self.task.collector, sealed)
        return [Persist(self.round, Stage.REVEALED, digest(reveal)), Send(reveal)]

    def _open(self, message: Opened) -> list[Action]:
        """Where the members open: take off the pads that only they hold."""
        if self.task.terms.opening != "members":
            raise PeerError(Fault.ORDER, "this sum is not opened to its members")
        names = {at: one.name for at, one in self._meeting.others.items()} | {self._meeting.position: self.name}
        pads = (members_pad(self._members_key, self._meeting, name=names[at]) for at in sorted(self._survivors))
        opened = decode_content(Vector, self.unseal_from_collector(self._meeting, Opened, message.sealed))
        total = add_pads(read_vector(opened.values, self.task.terms), added=(), taken=pads)
        return [Persist(self.round, Stage.OPENED, digest(message)), Finished(total, len(self._survivors))]

    def _opened_box(self, at: int, sealed: bytes, signature: bytes) -> Secrets:
        """A neighbour's box, if its identity has signed the very statement that this device holds, and its place in it:
        which nobody signs with false keys in the line. So this also says that the keys are the neighbour's."""
        meeting = self._meeting
        try:
            verify(meeting.others[at].name, signature=signature, message=encode(Vouched(meeting.statement, at)))
            content = decode_content(Secrets, self.unseal_from(meeting, at, Boxes, sealed))
        except PeerError as fault:
            raise FatalError(
                Fault.PARAMS_MISMATCH, f"a neighbour holds another roster, V or terms; nothing is sent ({fault.fault})"
            ) from None
        if len(content.members) != (32 if self.task.terms.opening == "members" else 0):
            raise FatalError(Fault.PARAMS_MISMATCH, "a neighbour's part of the members' key is not one")
        return content

    def _refuse_false_line(self, at: int) -> None:
        """One that does not go on has signed no statement, but holds a box of this device: so its keys must be its own.
        Otherwise a collector could list keys of its own under the names of people who are away, and gather shares."""
        line = self._meeting.others[at]
        try:
            verify(line.name, signature=line.signature, message=encode(keys_of(line, self.round)))
        except PeerError:
            raise FatalError(Fault.AUTH, "the roster holds keys that are not their owner's; nothing is sent") from None

    def _pad(self, at: int, sharing: bytes) -> RingArray:
        other = self._meeting.others[at]
        low, high = sorted((self.name, other.name))
        return pairwise_pad(self._edges[at], self._meeting, sharing=sharing, low=low, high=high)

    def _key_of_members(self, sharing: bytes, held: dict[int, Secrets]) -> bytes:
        parts = {at: one.members for at, one in held.items()} | {self._meeting.position: self._part}
        return members_key((parts[at] for at in sorted(parts)), self._meeting, sharing=sharing)

    def _told_alike(self, signatures: tuple[Signed, ...], survivors: frozenset[int]) -> bool:
        """Whether every surviving neighbour masked among the same as this device. On a complete graph the list that t
        sign says so already; on a sparse one two parts of the ring could each have their own."""
        delivered, near = encode(Delivered(self._meeting.mark, self._sharing)), survivors & self._held.keys()
        return len(self._signers(signatures, delivered, near, enough=len(near))) == len(near)

    def _signers(self, signatures: tuple[Signed, ...], what: bytes, among: frozenset[int], *, enough: int) -> set[int]:
        """Neighbours among these who signed it, until there are enough; an invalid signature does not count."""
        signers: set[int] = set()
        for one in signatures:
            if len(signers) < enough and one.position in among:
                with suppress(PeerError):
                    key = self._meeting.others[one.position].signing_key
                    verify(key, signature=one.signature, message=what)
                    signers.add(one.position)
        return signers


# The collector's side of a secure sum (member.py): the recommender's, or under pads that of user i in Algorithm 1.


class Collector(CollectorBase):
    """Adds up vectors that it cannot read, and opens their sum."""

    moves = COLLECTOR

    def __init__(self, task: Task, *, identity: SigningKey, entropy: bytes) -> None:
        super().__init__(task, identity=identity, entropy=entropy)
        if task.terms.method == "shares":
            raise UsageError("shares are collected by Algorithm 1's receiver")
        self._double = task.terms.method == "double"
        self.steps = COLLECTOR_STEPS if self._double else PAD_STEPS
        self._total = ring_zeros(task.terms)
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
        self._total += read_vector(content.values, self.task.terms)
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
    roster: Sequence[RosterEntry]
    near: Sequence[frozenset[int]]
    sharing: frozenset[int]
    survivors: frozenset[int]

    def without_pads(
        self, total: RingArray, reveals: Mapping[int, Revealed], commitments: Mapping[int, bytes]
    ) -> RingArray:
        """The sum of the survivors' vectors, less every pad that has not cancelled."""
        seeds, keys = self.seeds(reveals, commitments), self.mask_keys(reveals)
        added = chain(self.own_pads(seeds), self.edge_pads(keys, of_lower=True))
        return add_pads(total, added=self.edge_pads(keys, of_lower=False), taken=added)

    def seeds(self, reveals: Mapping[int, Revealed], commitments: Mapping[int, bytes]) -> dict[int, bytes]:
        """The seed b_u of each survivor."""
        given = _gathered({at: one.seeds for at, one in reveals.items()})
        seeds = {at: self._combined(given.get(at, [])) for at in sorted(self.survivors)}
        for at, seed in seeds.items():
            if commitment(seed, self.meeting, name=self.roster[at].name) != commitments[at]:
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
            yield own_pad(seed, self.meeting, name=self.roster[at].name)

    def edge_pads(self, keys: Mapping[int, AgreementKey], *, of_lower: bool) -> Iterator[RingArray]:
        """The pads between the lost and survivors: those that survivors added, as the lower of the two, or took off."""
        sharing = bitmap(self.sharing, size=len(self.roster))
        for lost, key in keys.items():
            for at in sorted(self.near[lost] & self.survivors):
                if (at < lost) is of_lower:
                    low, high = self.roster[min(at, lost)].name, self.roster[max(at, lost)].name
                    agreed = key.agree(self.roster[at].mask_key)
                    yield pairwise_pad(agreed, self.meeting, sharing=sharing, low=low, high=high)

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


# The pads of a secure sum: how they are derived, added and taken off.


def ring_dtype(terms: Terms) -> np.dtype[np.unsignedinteger]:
    """The dtype of ring elements on the wire."""
    return np.dtype("<u8" if terms.ring_bits == 64 else "<u4")


def ring_zeros(terms: Terms) -> RingArray:
    return np.zeros(terms.length, dtype=ring_dtype(terms))


def check_vector(value: RingArray, terms: Terms) -> RingArray:
    """A member's own vector; a wrong one is refused here, before anything is sent and the round is used up."""
    if value.dtype != ring_dtype(terms) or value.shape != (terms.length,):
        raise UsageError(f"the terms call for {terms.length} elements of the ring of {terms.ring_bits} bits")
    return value


def read_vector(values: bytes, terms: Terms) -> RingArray:
    """Ring elements that came in a message."""
    found = np.frombuffer(values, dtype=ring_dtype(terms)) if len(values) % ring_dtype(terms).itemsize == 0 else None
    if found is None or len(found) != terms.length:
        raise PeerError(Fault.PARAMS_MISMATCH, "a vector has not the length that the terms call for")
    return found


def pairwise_pad(agreed: bytes, meeting: Meeting, *, sharing: bytes, low: bytes, high: bytes) -> RingArray:
    """The pad of one edge. The lower name adds it, the higher one subtracts it. Everything that both must believe alike
    is bound into its key: other words, another pad."""
    bound = (meeting.mark, sharing, low, high)  # the mark is the hash of round, terms, H(V) and roster
    return _pad(derive(agreed, "prirec", VERSION, "pairwise mask, the lower name adds", *bound), meeting)


def own_pad(seed: bytes, meeting: Meeting, *, name: bytes) -> RingArray:
    """The second mask: whoever may learn the pairwise pads of a person still lacks this one."""
    return _pad(derive(seed, "prirec", VERSION, "own mask", meeting.mark, name), meeting)


def commitment(seed: bytes, meeting: Meeting, *, name: bytes) -> bytes:
    """Sent with the vector: by it the collector knows that it has put the seed together from the right shares."""
    return derive(seed, "prirec", VERSION, "commitment", meeting.mark, name)


def members_key(parts: Iterable[bytes], meeting: Meeting, *, sharing: bytes) -> bytes:
    """A key that all members hold, each of whom gave a part of it, and nobody else."""
    return derive(b"".join(parts), "prirec", VERSION, "members' key", meeting.mark, sharing)


def members_check(key: bytes, meeting: Meeting) -> bytes:
    """By it the collector knows that all members hold the same key; it reveals nothing of the key."""
    return derive(key, "prirec", VERSION, "members' check", meeting.mark)


def members_pad(key: bytes, meeting: Meeting, *, name: bytes) -> RingArray:
    """What lies on top of a vector where the members open: pairwise pads cancel for anyone who holds all vectors."""
    return _pad(derive(key, "prirec", VERSION, "members' pad", meeting.mark, name), meeting)


def add_pads(value: RingArray, *, added: Iterable[RingArray], taken: Iterable[RingArray] = ()) -> RingArray:
    """value + pads - pads in the ring; the inverse is the same with the two exchanged."""
    total = value.copy()
    for pad in added:
        total += pad
    for pad in taken:
        total -= pad
    return total


def _pad(seed: bytes, meeting: Meeting) -> RingArray:
    terms = meeting.statement.invited.terms
    return stretch(seed, terms.length, ring_dtype(terms))
