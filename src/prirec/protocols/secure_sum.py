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

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress

import numpy as np

from prirec.errors import Fault, PeerError, UsageError
from prirec.protocols.codec import (
    Delivered,
    MemberStatement,
    SurvivorList,
    bitmap,
    check_vector,
    decode_content,
    digest,
    encode,
    keys_of,
    positions,
    read_vector,
    ring_dtype,
    ring_zeros,
)
from prirec.protocols.messages import (
    VERSION,
    Agreement,
    Agreements,
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
    Secrets,
    Share,
    Signed,
    Survivors,
    Vector,
)
from prirec.protocols.party import (
    COLLECTOR,
    COLLECTOR_STEPS,
    MEMBER,
    PAD_MEMBER,
    PAD_STEPS,
    Action,
    FatalError,
    Finished,
    Handlers,
    Persist,
    Stage,
    State,
)
from prirec.protocols.roster import MEMBER_ENTROPY, CollectorBase, MemberBase, RosterView, Task, fewest_survivors
from prirec.protocols.terms import draw_noise
from prirec.sharing import secret_sharing
from prirec.sharing.keys import AgreementKey, SigningKey, derive, verify
from prirec.sharing.masks import stretch
from prirec.types import RingArray

# Pads. Everything that two parties must believe alike is bound into the key of a pad: with other words there is another
# pad, and the sum is noise. `RosterView.digest` is the hash of round, terms, H(V) and roster.


def pairwise_pad(agreed: bytes, view: RosterView, *, sharing: bytes, low: bytes, high: bytes) -> RingArray:
    """The pad of one edge. The lower name adds it, the higher one subtracts it."""
    return _pad(_bound(agreed, "pairwise mask, the lower name adds", view, sharing, low, high), view)


def own_pad(seed: bytes, view: RosterView, *, name: bytes) -> RingArray:
    """The second mask: whoever may learn the pairwise pads of a person still lacks this one."""
    return _pad(_bound(seed, "own mask", view, name), view)


def members_pad(key: bytes, view: RosterView, *, name: bytes) -> RingArray:
    """What lies on top of a vector where the members open: pairwise pads cancel for anyone who holds all vectors."""
    return _pad(_bound(key, "members' pad", view, name), view)


def commitment(seed: bytes, view: RosterView, *, name: bytes) -> bytes:
    """Sent with the vector: by it the collector knows that it has put the seed together from the right shares."""
    return _bound(seed, "commitment", view, name)


def members_key(parts: Iterable[bytes], view: RosterView, *, sharing: bytes) -> bytes:
    """A key that all members hold, each of whom gave a part of it, and nobody else."""
    return _bound(b"".join(parts), "members' key", view, sharing)


def members_check(key: bytes, view: RosterView) -> bytes:
    """By it the collector knows that all members hold the same key; it reveals nothing of the key."""
    return _bound(key, "members' check", view)


def add_pads(value: RingArray, *, added: Iterable[RingArray] = (), taken: Iterable[RingArray] = ()) -> RingArray:
    """value + pads - pads in the ring; the inverse is the same with the two exchanged."""
    total = value.copy()
    for pad in added:
        total += pad
    for pad in taken:
        total -= pad
    return total


def _bound(secret: bytes, purpose: str, view: RosterView, *fields: bytes) -> bytes:
    return derive(secret, "prirec", VERSION, purpose, view.digest, *fields)


def _pad(key: bytes, view: RosterView) -> RingArray:
    terms = view.statement.invited.terms
    return stretch(key, terms.length, ring_dtype(terms))


# The member's side


# Bytes: keys, then 32 each for the seed of the own mask, the coefficients of its shares, a part of the members' key,
# and noise. All entropy is drawn when the member is made, so that a repeated message is answered with the same bits.
ENTROPY = MEMBER_ENTROPY + 128


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
        self._edges: dict[int, bytes] = {}  # key agreed with each neighbour, for pads
        self._own_share: bytes  # of this device's own seed
        self._held: dict[int, Secrets] = {}  # shares of the neighbours' secrets
        self._sharing, self._survivors, self._settled = b"", frozenset[int](), b""

    @property
    def handlers(self) -> Handlers:
        return {
            Invitation: self.enter,
            Roster: self._share,
            Delivery: self._mask_among,
            Survivors: self._agree,
            Agreements: self._reveal,
            Opened: self._open,
        }

    def _share(self, roster: Roster) -> list[Action]:
        """Send every neighbour a share of both secrets, and keep one of the seed."""
        view = self.check_roster(roster)
        self._edges = {at: self._mask_key.agree(other.mask_key) for at, other in view.neighbours.items()}
        self._view = view
        if self.task.terms.method == "pads":
            everyone = bitmap(range(view.graph.size), size=view.graph.size)
            return self._mask(everyone, frozenset(view.neighbours), {})
        near = [*view.neighbours, view.position]
        points, t = np.array(near, dtype=np.int64) + 1, view.graph.threshold
        split = [
            secret_sharing.shamir_split(secret, threshold=t, points=points, seed=derive(self._coefficients, use))
            for secret, use in ((self._seed, "seed"), (self._mask_secret, "mask key"))
        ]
        seeds, mask_keys = ([row.astype("<u4").tobytes() for row in shares] for shares in split)
        part = self._part if self.task.terms.opening == "members" else b""
        boxes = tuple(
            Box(at, self.seal(other.name, Boxes, Secrets(seed, mask_key, part)))
            for (at, other), seed, mask_key in zip(view.neighbours.items(), seeds, mask_keys, strict=False)
        )
        self._own_share = seeds[-1]
        signature = self._identity.sign(encode(MemberStatement(view.statement, view.position)))
        return [self.send(Boxes, self.task.collector, signature, boxes)]

    def _mask_among(self, delivery: Delivery) -> list[Action]:
        """Send the masked vector, once every neighbour that goes on has signed the same statement as this device."""
        view = self._view
        sharing = positions(delivery.sharing, size=view.graph.size)
        # Exactly the neighbours that go on: with a box withheld, this device would mask with fewer than it believes.
        near, came = sharing & view.neighbours.keys(), {box.position: box.sealed for box in delivery.boxes}
        signed = {one.position: one.signature for one in delivery.signatures}
        if view.position not in sharing or not near == came.keys() == signed.keys():
            raise PeerError(Fault.PARAMS_MISMATCH, "the boxes delivered are not those of the neighbours that go on")
        too_few = len(sharing) < fewest_survivors(self.task.terms, view.graph.size)
        if too_few or 1 + len(near) < view.graph.threshold:
            raise FatalError(Fault.ABORTED, "too few of the roster, or of this device's neighbours, go on")
        for at in sorted(view.neighbours.keys() - near):  # all checks come before the vector leaves
            self._refuse_false_line(at)
        held = {at: self._open_box(at, came[at], signed[at]) for at in sorted(near)}
        self._held, self._sharing = held, delivery.sharing
        return self._mask(delivery.sharing, near, held)

    def _mask(self, sharing: bytes, near: frozenset[int], held: dict[int, Secrets]) -> list[Action]:
        """y_u = x_u ± pairwise pads + own pad + members' pad + noise: see the top of this file."""
        view, terms = self._view, self.task.terms
        added: list[RingArray] = []
        taken: list[RingArray] = []
        for at in near:
            low, high = sorted((self.name, view.neighbours[at].name))
            pad = pairwise_pad(self._edges[at], view, sharing=sharing, low=low, high=high)
            (added if self.name == low else taken).append(pad)
        proof = check = b""
        if terms.method == "double":
            added.append(own_pad(self._seed, view, name=self.name))
            proof = commitment(self._seed, view, name=self.name)
        if terms.opening == "members":
            parts = {at: one.members for at, one in held.items()} | {view.position: self._part}
            self._members_key = members_key((parts[at] for at in sorted(parts)), view, sharing=sharing)
            added.append(members_pad(self._members_key, view, name=self.name))
            check = members_check(self._members_key, view)
        if terms.noise:  # added like a pad, but one that nobody can take off
            added.append(draw_noise(terms, view.graph.size, seed=self._noise_seed))
        y = add_pads(self._value, added=added, taken=taken)
        sealed = self.seal(self.task.collector, Masked, Vector(y.tobytes(), proof, check))
        signature = self._signing_key.sign(encode(Delivered(view.digest, sharing)))
        sent = self.send(Masked, self.task.collector, sealed, signature)
        return [Persist(self.round, Stage.MASKED, digest(sent.message), encode(sent.message)), sent]

    def _agree(self, message: Survivors) -> list[Action]:
        """Sign a list of survivors: the only one that this device ever signs in this round. With two lists a collector
        could get shares of both secrets of a person."""
        view, size = self._view, self._view.graph.size
        survivors = positions(message.survivors, size=size)
        if view.position not in survivors or not survivors <= positions(self._sharing, size=size):
            raise PeerError(
                Fault.PARAMS_MISMATCH, "the survivors are not part of those who went on, or not this device"
            )
        if len(survivors) < fewest_survivors(self.task.terms, size):
            raise FatalError(Fault.ABORTED, "fewer survivors than the terms allow a sum of; nothing is opened")
        # On a sparse graph a collector could deliver other boxes to one arc of the ring than to the rest, and open the
        # sum of each. So every surviving neighbour must have masked among the same as this device. On a complete graph
        # the list that t sign says so already.
        delivered, near = encode(Delivered(view.digest, self._sharing)), survivors & self._held.keys()
        if not view.graph.is_complete and self._signers(message.signatures, delivered, near) < len(near):
            raise FatalError(Fault.PARAMS_MISMATCH, "a neighbour was told of other boxes; nothing is opened")
        settled = SurvivorList(view.digest, self._sharing, message.survivors)
        self._survivors, self._settled = survivors, encode(settled)
        agreement = self.send(Agreement, self.task.collector, self._signing_key.sign(self._settled))
        return [Persist(self.round, Stage.AGREED, digest(settled)), agreement]

    def _reveal(self, message: Agreements) -> list[Action]:
        """Give out a share of one of each neighbour's two secrets: which one follows from the list that t signed."""
        near, enough = self._survivors & self._held.keys(), self._view.graph.threshold - 1  # this device signed too
        if self._signers(message.signatures, self._settled, near, enough=enough) < enough:
            raise PeerError(Fault.ABORTED, "too few have signed the same survivors; no share is given out")
        seeds = [Share(at, one.seed) for at, one in self._held.items() if at in self._survivors]
        mask_keys = [Share(at, one.mask_key) for at, one in self._held.items() if at not in self._survivors]
        content = Revealed((*seeds, Share(self._view.position, self._own_share)), tuple(mask_keys))
        reveal = self.send(Reveal, self.task.collector, self.seal(self.task.collector, Reveal, content))
        return [Persist(self.round, Stage.REVEALED, digest(reveal.message)), reveal]

    def _open(self, message: Opened) -> list[Action]:
        """Where the members open: take off the pads that only they hold."""
        view, terms = self._view, self.task.terms
        if terms.opening != "members":
            raise PeerError(Fault.ORDER, "this sum is not opened to its members")
        opened = decode_content(Vector, self.unseal(message.sender, Opened, message.sealed))
        names = {at: one.name for at, one in view.neighbours.items()} | {view.position: self.name}
        pads = (members_pad(self._members_key, view, name=names[at]) for at in sorted(self._survivors))
        total = add_pads(read_vector(opened.values, terms), taken=pads)
        return [Persist(self.round, Stage.OPENED, digest(message)), Finished(total, len(self._survivors))]

    def _open_box(self, at: int, sealed: bytes, signature: bytes) -> Secrets:
        """A neighbour's box, if its identity has signed the very statement that this device holds, and its place in it:
        which nobody signs with false keys in the line. So this also says that the keys are the neighbour's."""
        name = self._view.neighbours[at].name
        try:
            verify(name, signature=signature, message=encode(MemberStatement(self._view.statement, at)))
            content = decode_content(Secrets, self.unseal(name, Boxes, sealed))
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
        line = self._view.neighbours[at]
        try:
            verify(line.name, signature=line.signature, message=encode(keys_of(line, self.round)))
        except PeerError:
            raise FatalError(Fault.AUTH, "the roster holds keys that are not their owner's; nothing is sent") from None

    def _signers(
        self, signatures: tuple[Signed, ...], what: bytes, among: frozenset[int], *, enough: int | None = None
    ) -> int:  # fmt: skip
        """How many of these neighbours signed it; an invalid signature does not count. Verifying is most of a device's
        work in this step, so it stops when there are enough (None: all of them)."""
        signers = set[int]()
        for one in signatures:
            if len(signers) < (len(among) if enough is None else enough) and one.position in among:
                with suppress(PeerError):
                    key = self._view.neighbours[one.position].signing_key
                    verify(key, signature=one.signature, message=what)
                    signers.add(one.position)
        return len(signers)


# The collector's side: the recommender's, or under pads that of user i in Algorithm 1


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
        self._members: set[bytes] = set()  # checks of the members' key: all the same, or nobody could open
        self._agreements: dict[int, Signed] = {}
        self._reveals: dict[int, Revealed] = {}
        self._sharing: frozenset[int] = frozenset()
        self._survivors: frozenset[int] = frozenset()
        self._shared = self._settled = b""

    @property
    def handlers(self) -> Handlers:
        return {
            Keys: self.take_keys,
            Boxes: self._take_boxes,
            Masked: self._take_vector,
            Agreement: self._take_agreement,
            Reveal: self._take_reveal,
        }

    def end_step(self) -> list[Action]:
        ends: dict[State, Callable[[], list[Action]]] = {
            State.KEYS: self._send_rosters,
            State.BOXES: self._deliver,
            State.VECTORS: self._settle if self._double else self._add_up,
            State.AGREEMENTS: self._pass_agreements,
            State.REVEALS: self._open,
        }
        return ends[self.state]()

    def expected(self) -> tuple[Collection[int], Collection[int]]:
        expected: dict[State, tuple[Collection[int], Collection[int]]] = {
            State.BOXES: (range(self.size), self._boxes),
            State.VECTORS: (self._sharing, self._commitments),
            State.AGREEMENTS: (self._survivors, self._agreements),
            State.REVEALS: (self._agreements, self._reveals),
        }
        return expected.get(self.state, ((), ()))

    def _send_rosters(self) -> list[Action]:
        actions = self.send_rosters()
        self._continue_with(range(self.size))  # under pads everyone does
        return actions

    def _continue_with(self, who: Collection[int]) -> None:
        self._sharing, self._shared = frozenset(who), bitmap(who, size=self.size)

    def _take_boxes(self, message: Boxes) -> list[Action]:
        at = self.position_of(message.sender, range(self.size))
        # A member that sealed no box for some neighbour would leave too few shares of its secrets, should it drop out.
        if self._neighbours[at] != {box.position for box in message.boxes} or len(message.boxes) != len(
            self._neighbours[at]
        ):
            raise PeerError(Fault.PARAMS_MISMATCH, "boxes for others than the sender's neighbours")
        verify(message.sender, signature=message.signature, message=encode(MemberStatement(self._view.statement, at)))
        self._boxes[at] = message
        return []

    def _deliver(self) -> list[Action]:
        """Send everyone who sealed boxes the boxes that are for them."""
        self._continue_with(self._boxes)
        self.refuse_too_few(len(self._sharing), "sealed their boxes")
        sealed: dict[int, list[Box]] = {at: [] for at in sorted(self._sharing)}
        for sender in sorted(self._sharing):
            for box in self._boxes[sender].boxes:
                if box.position in sealed:
                    sealed[box.position].append(Box(sender, box.sealed))
        signed = {at: Signed(at, message.signature) for at, message in self._boxes.items()}
        self._boxes = {}
        return [
            self.send(
                Delivery, self._roster[at].name, self._shared, tuple(boxes), tuple(signed[b.position] for b in boxes)
            )
            for at, boxes in sealed.items()
        ]

    def _take_vector(self, message: Masked) -> list[Action]:
        at = self.position_of(message.sender, self._sharing)
        content = decode_content(Vector, self.unseal(message.sender, Masked, message.sealed))
        lengths = (32 if self._double else 0, 32 if self.task.terms.opening == "members" else 0)
        if (len(content.commitment), len(content.members)) != lengths:
            raise PeerError(Fault.PARAMS_MISMATCH, "a vector without the commitments that belong to it")
        # Neighbours on a sparse graph will insist on this signature: a bad one costs its sender, not everybody's round.
        delivered = encode(Delivered(self._view.digest, self._shared))
        verify(self._roster[at].signing_key, signature=message.signature, message=delivered)
        self._total += read_vector(content.values, self.task.terms)
        self._commitments[at], self._delivered[at] = content.commitment, Signed(at, message.signature)
        self._members.add(content.members)
        return []

    def _settle(self) -> list[Action]:
        """Settle the list of survivors for good, and ask them to sign it."""
        self._survivors = frozenset(self._commitments)
        self.refuse_too_few(len(self._survivors), "sent their vectors")
        if len(self._members) > 1:
            raise FatalError(Fault.ABORTED, "the members do not hold the same key; none of them could open the sum")
        settled = SurvivorList(self._view.digest, self._shared, bitmap(self._survivors, size=self.size))
        self._settled = encode(settled)
        sends = []
        for at in sorted(self._survivors):
            near = [] if self._view.graph.is_complete else sorted(self._neighbours[at] & self._survivors)
            signed = tuple(self._delivered[one] for one in near)
            sends.append(self.send(Survivors, self._roster[at].name, settled.survivors, signed))
        return [Persist(self.round, Stage.AGREED, digest(settled)), *sends]

    def _take_agreement(self, message: Agreement) -> list[Action]:
        at = self.position_of(message.sender, self._survivors)
        verify(self._roster[at].signing_key, signature=message.signature, message=self._settled)
        self._agreements[at] = Signed(at, message.signature)
        return []

    def _pass_agreements(self) -> list[Action]:
        """Send everyone who signed the list the signatures of their neighbours."""
        signed = self._agreements
        return [
            self.send(
                Agreements,
                self._roster[at].name,
                tuple(signed[one] for one in sorted(self._neighbours[at] & signed.keys())),
            )
            for at in sorted(signed)
        ]

    def _take_reveal(self, message: Reveal) -> list[Action]:
        at = self.position_of(message.sender, self._agreements)
        content = decode_content(Revealed, self.unseal(message.sender, Reveal, message.sealed))
        near = self._neighbours[at] & self._sharing
        seeds, mask_keys = sorted((near & self._survivors) | {at}), sorted(near - self._survivors)
        # Exactly those, once each: a missing share could keep the sum closed, and one too many is asked of nobody.
        given = [sorted(share.position for share in shares) for shares in (content.seeds, content.mask_keys)]
        if given != [seeds, mask_keys]:
            raise PeerError(Fault.PARAMS_MISMATCH, "shares of other secrets than the survivors call for")
        self._reveals[at] = content
        return []

    def _open(self) -> list[Action]:
        """Take off every pad that has not cancelled: the own pads of survivors, and the pads of edges between survivors
        and members that were lost. Where the members open, their pads stay on the sum."""
        seeds, keys = self._recovered_seeds(), self._recovered_mask_keys()
        self._reveals = {}  # shares are not kept after use
        names = [one.name for one in self._roster]
        total = add_pads(self._total, taken=(own_pad(seed, self._view, name=names[at]) for at, seed in seeds.items()))
        for lost, key in keys.items():
            for at in sorted(self._neighbours[lost] & self._survivors):
                agreed, (low, high) = key.agree(self._roster[at].mask_key), sorted((names[at], names[lost]))
                pad = pairwise_pad(agreed, self._view, sharing=self._shared, low=low, high=high)
                if names[at] == low:  # the survivor added it, as the lower of the two
                    total -= pad
                else:
                    total += pad
        return self._opened(total)

    def _recovered_seeds(self) -> dict[int, bytes]:
        """The seed b_u of each survivor, put together from shares."""
        shares = _by_owner({at: one.seeds for at, one in self._reveals.items()})
        seeds = {at: self._combined(shares.get(at, [])) for at in sorted(self._survivors)}
        for at, seed in seeds.items():
            if commitment(seed, self._view, name=self._roster[at].name) != self._commitments[at]:
                raise _unfit()
        return seeds

    def _recovered_mask_keys(self) -> dict[int, AgreementKey]:
        """The mask key of each member that was lost after its boxes were delivered."""
        shares = _by_owner({at: one.mask_keys for at, one in self._reveals.items()})
        lost = sorted(at for at in self._sharing - self._survivors if self._neighbours[at] & self._survivors)
        keys = {at: AgreementKey(self._combined(shares.get(at, []))) for at in lost}
        # The public half of a mask key is its commitment: a key from wrong shares does not match the roster.
        if any(key.public != self._roster[at].mask_key for at, key in keys.items()):
            raise _unfit()
        return keys

    def _combined(self, shares: list[tuple[int, bytes]]) -> bytes:
        t = self._view.graph.threshold
        if len(shares) < t:
            raise FatalError(Fault.ABORTED, "too few shares of a secret were given out; the sum stays closed")
        points = np.array([at for at, _ in shares[:t]], dtype=np.int64) + 1
        rows = np.frombuffer(b"".join(share for _, share in shares[:t]), dtype="<u4").reshape(t, -1)
        try:
            return secret_sharing.shamir_combine(points, rows)
        except PeerError:
            raise _unfit() from None

    def _add_up(self) -> list[Action]:
        """Under pads alone nobody may be missing: then the pads have cancelled."""
        self._survivors = frozenset(self._commitments)
        self.refuse_too_few(len(self._survivors), "sent their vectors")
        return self._opened(self._total)

    def _opened(self, total: RingArray) -> list[Action]:
        # The digest is the view's, no hash of the sum: with that, a guess of the sum could be tested.
        opened = Persist(self.round, Stage.OPENED, self._view.digest)
        if self.task.terms.opening == "collector":
            return [opened, Finished(total, len(self._survivors))]
        content, names = Vector(total.tobytes()), [self._roster[at].name for at in sorted(self._survivors)]
        return [opened, *(self.send(Opened, name, self.seal(name, Opened, content)) for name in names)]


def _by_owner(given: Mapping[int, Iterable[Share]]) -> dict[int, list[tuple[int, bytes]]]:
    """Shares by the person whose secret they are of, each with its holder."""
    shares: dict[int, list[tuple[int, bytes]]] = {}
    for holder in sorted(given):
        for share in given[holder]:
            shares.setdefault(share.position, []).append((holder, share.share))
    return shares


def _unfit() -> FatalError:
    """A secret that is not as it was committed to ends the round: better no sum than a wrong one."""
    return FatalError(Fault.ABORTED, "shares that were given out do not fit together; the sum stays closed")
