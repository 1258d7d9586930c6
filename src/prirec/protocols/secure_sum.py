"""A secure sum that its collector opens: one protocol for both mask graphs.

    member u sends    y_u = x_u + own pad(b_u) + sum over neighbours v of ± pad(s_uv)    in the ring
    the collector     adds up the y_u of the survivors; from shares that their neighbours give out it learns b_u of each
                      survivor and the mask key of each that was lost, never both of one, and takes those pads off

Correct: between two survivors the pads cancel; between a survivor and one that was lost the pad follows from the lost
one's mask key; own pads follow from the seeds; ring sums are exact. Each share was committed to by its owner: one that
does not fit is put aside, and whoever gave it out is named. A seed or a key that does not fit, though its shares do,
names its owner and ends the round without a sum.

Who can open whose box is settled before anybody masks (decisions/0022). A device whose box a neighbour cannot use has
one holder of its shares fewer; the two mask with each other all the same, since their pad does not come from boxes. So
reports of unusable boxes, true or false, take away shares and never a mask.

Private: y_u is under own pad(b_u), which is uniform to whoever lacks b_u; and once b_u is open, under the pads of the
edges to honest survivors, who stay connected (decisions/0011), so that beyond their sum the y_u are uniform. b_u and
the mask key of one person are never both open, since each honest holder answers once and 2t > k + 1 + c.

Against a collector that cheats, the device itself insists: on its own terms and its own hash of V, signed by every
neighbour's identity together with the roster, and bound into every box and mask; on one list of survivors, signed by t
holders of its shares; on neighbours who were told of the same participants as itself; on the fewest survivors that the
terms allow; on one answer a round.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from heapq import heapify, heappop, heappush
from typing import Literal, TypeAlias

import numpy as np

from prirec.errors import Fault, PeerError, UsageError
from prirec.protocols.codec import (
    MemberStatement,
    ParticipantList,
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
    COMMITMENT,
    VERSION,
    Agreement,
    Agreements,
    Box,
    Boxes,
    Delivery,
    Invitation,
    Keys,
    Masked,
    Participants,
    Receipt,
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
    Blame,
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
from prirec.sharing.keys import AgreementKey, SigningKey, derive, stretch, verify
from prirec.types import RingArray

# Pads. Everything that two parties must believe alike is bound into the key of a pad: with other words there is another
# pad, and the sum is noise. `RosterView.digest` is the hash of round, terms, H(V) and roster.


def pairwise_pad(agreed: bytes, view: RosterView, *, participants: bytes, low: bytes, high: bytes) -> RingArray:
    """The pad of one edge. The lower name adds it, the higher one subtracts it."""
    return _pad(_bound(agreed, "pairwise mask, the lower name adds", view, participants, low, high), view)


def own_pad(seed: bytes, view: RosterView, *, name: bytes) -> RingArray:
    """The second of the double masks: whoever learns a device's pairwise pads still lacks this one."""
    return _pad(_bound(seed, "own mask", view, name), view)


def commitment(seed: bytes, view: RosterView, *, name: bytes) -> bytes:
    """Sent with the vector: by it the collector knows that it has put the seed together from the right shares."""
    return _bound(seed, "commitment", view, name)


def share_commitment(share: bytes, view: RosterView, secret: "Secret", *, owner: int, holder: int) -> bytes:
    """By it holder and collector know a share for the one that its owner sealed.

    A hash hides a share without a salt: with t - 1 others known, a share takes as many guesses as the secret, which is
    256 random bits (all limbs are in one hash; 30 bits alone could be guessed). 16 bytes bind it: a holder would have
    to find a second preimage. An owner could find two shares with one hash in 2^64 steps, and then spoil a sum, as any
    member can by a false vector.
    """
    places = owner.to_bytes(4, "big") + holder.to_bytes(4, "big")
    return sha256(b"prirec share" + view.digest + secret + places + share).digest()[:COMMITMENT]


def add_pads(value: RingArray, *, added: Iterable[RingArray] = (), taken: Iterable[RingArray] = ()) -> RingArray:
    """value + pads - pads in the ring; the inverse is the same with the two exchanged."""
    total = value.copy()
    for pad in added:
        total += pad
    for pad in taken:
        total -= pad
    return total


Secret: TypeAlias = Literal[b"seed", b"mask key"]  # the two of a member


def _bound(secret: bytes, purpose: str, view: RosterView, *fields: bytes) -> bytes:
    return derive(secret, "prirec", VERSION, purpose, view.digest, *fields)


def _pad(key: bytes, view: RosterView) -> RingArray:
    terms = view.statement.invited.terms
    return stretch(key, terms.length, ring_dtype(terms))


# The member's side


# Bytes: keys, then 32 each for the seed of the own mask, the coefficients of the shares of both secrets, and noise.
# All entropy is drawn when the member is made, so that a repeated message is answered with the same bits.
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
        self._seed, *self._coefficients = (entropy[at : at + 32] for at in (96, 128, 160))
        self._noise_seed = noise_seed(entropy)
        self._edges: dict[int, bytes] = {}  # key agreed with each neighbour, for pads
        self._own_share: bytes  # of this device's own seed
        self._vouched: frozenset[int] = frozenset()  # neighbours that signed the statement which this device holds
        self._held: dict[int, Secrets] = {}  # shares of the neighbours' secrets, as far as their boxes are usable
        self._near: frozenset[int] = frozenset()  # neighbours that this device masks with
        self._participants, self._survivors, self._settled = b"", frozenset[int](), b""

    def supply(self, value: RingArray) -> None:
        """The vector to add, where it is computed after the keys were sent. It counts until this device masks."""
        self._value = check_vector(value, self.task.terms)

    @property
    def handlers(self) -> Handlers:
        return {
            Invitation: self.enter,
            Roster: self._share,
            Delivery: self._take_boxes,
            Participants: self._mask_among,
            Survivors: self._agree,
            Agreements: self._reveal,
        }

    def _share(self, roster: Roster) -> list[Action]:
        """Send every neighbour a share of both secrets, and keep one of the seed."""
        view = self.check_roster(roster)
        self._edges = {at: self._mask_key.agree(other.mask_key) for at, other in view.neighbours.items()}
        self._view = view
        if self.task.terms.method == "pads":
            everyone = bitmap(range(view.graph.size), size=view.graph.size)
            return self._mask(everyone, frozenset(view.neighbours))
        near = [*view.neighbours, view.position]
        points, t = np.array(near, dtype=np.int64) + 1, view.graph.threshold
        split = [
            secret_sharing.shamir_split(secret, threshold=t, points=points, seed=coefficients)
            for secret, coefficients in zip((self._seed, self._mask_secret), self._coefficients, strict=True)
        ]
        seeds, mask_keys = ([row.astype("<u4").tobytes() for row in shares] for shares in split)
        self._own_share = seeds[-1]
        boxes, commitments = [], []
        for (at, other), seed, mask_key in zip(view.neighbours.items(), seeds, mask_keys, strict=False):
            secrets = Secrets(seed, mask_key)
            boxes.append(Box(at, self.seal(other.name, Boxes, secrets)))
            commitments.append(self._commitments(secrets, owner=view.position, holder=at))
        own = share_commitment(self._own_share, view, b"seed", owner=view.position, holder=view.position)
        signature = self._identity.sign(encode(MemberStatement(view.statement, view.position)))
        return [self.send(Boxes, self.task.collector, signature, tuple(boxes), b"".join([*commitments, own]))]

    def _take_boxes(self, delivery: Delivery) -> list[Action]:
        """Open the neighbours' boxes, if all of them have signed the same statement as this device, and say which ones
        are unusable."""
        view, came = self._view, [box.position for box in delivery.boxes]
        in_order = came == [one.position for one in delivery.signatures] == sorted(view.neighbours.keys() & set(came))
        if not in_order or len(delivery.commitments) != 2 * COMMITMENT * len(came):
            raise PeerError(
                Fault.PARAMS_MISMATCH, "boxes that are not neighbours', or without signature and commitments"
            )
        for one in delivery.signatures:
            self._refuse_other_statement(one.position, one.signature)
        opened = [self._open_box(box, _slice(delivery.commitments, n)) for n, box in enumerate(delivery.boxes)]
        self._vouched = frozenset(came)
        self._held = {at: secrets for at, secrets in zip(came, opened, strict=True) if secrets is not None}
        unusable = tuple(at for at in came if at not in self._held)
        return [self.send(Receipt, self.task.collector, unusable)]

    def _mask_among(self, message: Participants) -> list[Action]:
        """Send the masked vector, if all neighbours that mask hold the same statement, and enough of them do."""
        view = self._view
        participants = positions(message.participants, size=view.graph.size)
        near = participants & view.neighbours.keys()
        if view.position not in participants or not near <= self._vouched:
            raise PeerError(
                Fault.PARAMS_MISMATCH, "participants without this device, or with a neighbour that signed nothing"
            )
        too_few = len(participants) < fewest_survivors(self.task.terms, view.graph.size)
        if too_few or 1 + len(near) < view.graph.threshold:
            raise FatalError(Fault.ABORTED, "too few of the roster, or of this device's neighbours, go on")
        for at in sorted(view.neighbours.keys() - self._vouched):  # all checks come before the vector leaves
            self._refuse_false_line(at)
        return self._mask(message.participants, near)

    def _mask(self, participants: bytes, near: frozenset[int]) -> list[Action]:
        """y_u = x_u ± pairwise pads + own pad + noise: see the top of this file."""
        view, terms = self._view, self.task.terms
        self._participants, self._near = participants, near
        added: list[RingArray] = []
        taken: list[RingArray] = []
        for at in near:
            low, high = sorted((self.name, view.neighbours[at].name))
            pad = pairwise_pad(self._edges[at], view, participants=participants, low=low, high=high)
            (added if self.name == low else taken).append(pad)
        proof = b""
        if terms.method == "double":
            added.append(own_pad(self._seed, view, name=self.name))
            proof = commitment(self._seed, view, name=self.name)
        if terms.noise:  # added like a pad, but one that nobody can take off
            added.append(draw_noise(terms, view.graph.size, seed=self._noise_seed))
        y = add_pads(self._value, added=added, taken=taken)
        sealed = self.seal(self.task.collector, Masked, Vector(y.tobytes(), proof))
        signature = self._signing_key.sign(encode(ParticipantList(view.digest, participants)))
        sent = self.send(Masked, self.task.collector, sealed, signature)
        return [Persist(self.round, Stage.MASKED, digest(sent.message), encode(sent.message)), sent]

    def _agree(self, message: Survivors) -> list[Action]:
        """Sign a list of survivors: the only one that this device ever signs in this round. With two lists a collector
        could get shares of both secrets of a person."""
        view, size = self._view, self._view.graph.size
        survivors = positions(message.survivors, size=size)
        if view.position not in survivors or not survivors <= positions(self._participants, size=size):
            raise PeerError(Fault.PARAMS_MISMATCH, "the survivors are not part of the participants, or not this device")
        if len(survivors) < fewest_survivors(self.task.terms, size):
            raise FatalError(Fault.ABORTED, "fewer survivors than the terms allow a sum of; nothing is opened")
        # On a sparse graph a collector could name other participants to one arc of the ring than to the rest, and open
        # the sum of each. So every surviving neighbour must have masked among the same as this device. On a complete
        # graph the list that t sign says so already.
        masking, near = encode(ParticipantList(view.digest, self._participants)), survivors & self._near
        if not view.graph.is_complete and self._signers(message.signatures, masking, near) < len(near):
            raise FatalError(Fault.PARAMS_MISMATCH, "a neighbour was told of other participants; nothing is opened")
        settled = SurvivorList(view.digest, self._participants, message.survivors)
        self._survivors, self._settled = survivors, encode(settled)
        agreement = self.send(Agreement, self.task.collector, self._signing_key.sign(self._settled))
        return [Persist(self.round, Stage.AGREED, digest(settled)), agreement]

    def _reveal(self, message: Agreements) -> list[Action]:
        """Give out a share of one of each neighbour's two secrets: which one follows from the list that t signed."""
        near, enough = self._survivors & self._near, self._view.graph.threshold - 1  # this device signed too
        if self._signers(message.signatures, self._settled, near, enough=enough) < enough:
            raise PeerError(Fault.ABORTED, "too few have signed the same survivors; no share is given out")
        seeds = [Share(at, self._held[at].seed) for at in sorted(near & self._held.keys())]
        lost = (self._near - self._survivors) & self._held.keys()
        mask_keys = [Share(at, self._held[at].mask_key) for at in sorted(lost)]
        content = Revealed((*seeds, Share(self._view.position, self._own_share)), tuple(mask_keys))
        reveal = self.send(Reveal, self.task.collector, self.seal(self.task.collector, Reveal, content))
        return [Persist(self.round, Stage.REVEALED, digest(reveal.message)), reveal]

    def _refuse_other_statement(self, at: int, signature: bytes) -> None:
        """A neighbour's identity must have signed the very statement that this device holds, and its place in it: which
        nobody signs with false keys in the line. So this also says that the keys are the neighbour's."""
        name = self._view.neighbours[at].name
        try:
            verify(name, signature=signature, message=encode(MemberStatement(self._view.statement, at)))
        except PeerError:
            raise FatalError(
                Fault.PARAMS_MISMATCH, "a neighbour holds another roster, V or terms; nothing is sent"
            ) from None

    def _open_box(self, box: Box, commitments: bytes) -> Secrets | None:
        """A neighbour's shares, if they are those that it committed to; None if the box is unusable. Who spoilt it, its
        owner or the collector, cannot be told."""
        at = box.position
        try:
            content = decode_content(Secrets, self.unseal(self._view.neighbours[at].name, Boxes, box.sealed))
        except PeerError:
            return None
        return content if self._commitments(content, owner=at, holder=self._view.position) == commitments else None

    def _commitments(self, shares: Secrets, *, owner: int, holder: int) -> bytes:
        seed = share_commitment(shares.seed, self._view, b"seed", owner=owner, holder=holder)
        return seed + share_commitment(shares.mask_key, self._view, b"mask key", owner=owner, holder=holder)

    def _refuse_false_line(self, at: int) -> None:
        """One that has signed no statement was still sent a box by this device: so its keys must be its own.
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
        self._committed: dict[int, bytes] = {}  # by owner: commitments to its shares
        self._unusable: dict[int, frozenset[int]] = {}  # by holder: whose boxes it cannot use
        self._participants: frozenset[int] = frozenset()
        self._seed_commitments: dict[int, bytes] = {}  # of each whose vector arrived
        self._participant_lists: dict[int, Signed] = {}
        self._survivors: frozenset[int] = frozenset()
        self._agreements: dict[int, Signed] = {}
        self._revealed: set[int] = set()
        self._shares: dict[tuple[Secret, int], list[tuple[int, bytes]]] = {}  # by owner: holders, and what they gave
        self._participating = self._settled = b""

    @property
    def handlers(self) -> Handlers:
        return {
            Keys: self.take_keys,
            Boxes: self._take_boxes,
            Receipt: self._take_receipt,
            Masked: self._take_vector,
            Agreement: self._take_agreement,
            Reveal: self._take_reveal,
        }

    def end_step(self) -> list[Action]:
        ends: dict[State, Callable[[], list[Action]]] = {
            State.KEYS: self._send_rosters,
            State.BOXES: self._deliver,
            State.RECEIPTS: self._name_participants,
            State.VECTORS: self._settle if self._double else self._add_up,
            State.AGREEMENTS: self._pass_agreements,
            State.REVEALS: self._open,
        }
        return ends[self.state]()

    def expected(self) -> tuple[Collection[int], Collection[int]]:
        expected: dict[State, tuple[Collection[int], Collection[int]]] = {
            State.BOXES: (range(self.size), self._boxes),
            State.RECEIPTS: (self._committed, self._unusable),
            State.VECTORS: (self._participants, self._seed_commitments),
            State.AGREEMENTS: (self._survivors, self._agreements),
            State.REVEALS: (self._agreements, self._revealed),
        }
        return expected.get(self.state, ((), ()))

    @property
    def participants(self) -> list[bytes]:
        """Names of those who may have masked a vector."""
        return [self._roster[at].name for at in sorted(self._participants)]

    def _send_rosters(self) -> list[Action]:
        actions = self.send_rosters()
        if not self._double:
            self._continue_with(range(self.size))
        return actions

    def _continue_with(self, who: Collection[int]) -> None:
        self._participants, self._participating = frozenset(who), bitmap(who, size=self.size)

    def _take_boxes(self, message: Boxes) -> list[Action]:
        at = self.position_of(message.sender, range(self.size))
        near = self._rows[at]
        # A member that sealed no box for some neighbour would leave too few shares of its secrets, should it drop out.
        if [box.position for box in message.boxes] != near or len(message.commitments) != COMMITMENT * (
            2 * len(near) + 1
        ):
            raise PeerError(
                Fault.PARAMS_MISMATCH, "boxes for others than the sender's neighbours, or not as many commitments"
            )
        verify(message.sender, signature=message.signature, message=encode(MemberStatement(self._view.statement, at)))
        self._boxes[at] = message
        return []

    def _deliver(self) -> list[Action]:
        """Send everyone who sealed boxes the boxes that are for them."""
        self.refuse_too_few(len(self._boxes), "sealed their boxes")
        self._committed = {at: message.commitments for at, message in self._boxes.items()}
        delivered: dict[int, list[tuple[Box, bytes, Signed]]] = {at: [] for at in sorted(self._boxes)}
        for sender in delivered:
            message = self._boxes[sender]
            signed = Signed(sender, message.signature)
            for n, box in enumerate(message.boxes):
                if box.position in delivered:
                    with_commitments = Box(sender, box.sealed), _slice(message.commitments, n), signed
                    delivered[box.position].append(with_commitments)
        self._boxes = {}
        sends: list[Action] = []
        for at, those in delivered.items():
            boxes, commitments, signatures = zip(*those, strict=True) if those else ((), (), ())
            sends.append(self.send(Delivery, self._roster[at].name, boxes, b"".join(commitments), signatures))
        return sends

    def _take_receipt(self, message: Receipt) -> list[Action]:
        at, unusable = self.position_of(message.sender, self._committed), frozenset(message.unusable)
        if not unusable <= self._neighbours[at] & self._committed.keys():
            raise PeerError(Fault.PARAMS_MISMATCH, "a receipt for boxes that were not delivered")
        self._unusable[at] = unusable
        return []

    def _name_participants(self) -> list[Action]:
        """Settle who masks: all who sent receipts, but for those without whom everyone has enough holders."""
        graph = self._view.graph
        # The graph has k - t holders to spare for devices that will be lost. Unusable boxes may take a quarter of them.
        spare = max(0, graph.degree - graph.threshold) // 4
        going = with_usable_boxes(self._unusable, most=spare)
        self.refuse_too_few(len(going), "have boxes that others can use")
        self._continue_with(going)
        return [self.send(Participants, name, self._participating) for name in self.participants]

    def _take_vector(self, message: Masked) -> list[Action]:
        at = self.position_of(message.sender, self._participants)
        content = decode_content(Vector, self.unseal(message.sender, Masked, message.sealed))
        if len(content.commitment) != (32 if self._double else 0):
            raise PeerError(Fault.PARAMS_MISMATCH, "a vector without the commitment that belongs to it")
        # Neighbours on a sparse graph will insist on this signature: a bad one costs its sender, not everybody's round.
        masking = encode(ParticipantList(self._view.digest, self._participating))
        verify(self._roster[at].signing_key, signature=message.signature, message=masking)
        self._total += read_vector(content.values, self.task.terms)
        self._seed_commitments[at], self._participant_lists[at] = content.commitment, Signed(at, message.signature)
        return []

    def _settle(self) -> list[Action]:
        """Settle the list of survivors for good, and ask them to sign it."""
        self._survivors = frozenset(self._seed_commitments)
        self.refuse_too_few(len(self._survivors), "sent their vectors")
        settled = SurvivorList(self._view.digest, self._participating, bitmap(self._survivors, size=self.size))
        self._settled = encode(settled)
        sends = []
        for at in sorted(self._survivors):
            near = [] if self._view.graph.is_complete else sorted(self._neighbours[at] & self._survivors)
            signed = tuple(self._participant_lists[one] for one in near)
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
        sends: list[Action] = []
        for at in sorted(signed):
            near = tuple(signed[one] for one in sorted(self._neighbours[at] & signed.keys()))
            sends.append(self.send(Agreements, self._roster[at].name, near))
        return sends

    def _take_reveal(self, message: Reveal) -> list[Action]:
        """Keep the shares that fit their commitments; whoever gave out another one is named."""
        at = self.position_of(message.sender, self._agreements)
        content = decode_content(Revealed, self.unseal(message.sender, Reveal, message.sealed))
        near = (self._neighbours[at] & self._participants) - self._unusable[at]
        seeds, mask_keys = sorted((near & self._survivors) | {at}), sorted(near - self._survivors)
        # Exactly those, once each: a missing share could keep the sum closed, and one too many is asked of nobody.
        given = [sorted(share.position for share in shares) for shares in (content.seeds, content.mask_keys)]
        if given != [seeds, mask_keys]:
            raise PeerError(Fault.PARAMS_MISMATCH, "shares of other secrets than the survivors call for")
        self._revealed.add(at)
        shares: list[tuple[Secret, Share]] = [(b"seed", one) for one in content.seeds]
        shares += [(b"mask key", one) for one in content.mask_keys]
        wrong = sum(not self._keep(secret, share, holder=at) for secret, share in shares)
        why = f"{wrong} of the shares that it gave out are not those that their owners committed to"
        return [Blame(message.sender, why)] if wrong else []

    def _keep(self, secret: Secret, given: Share, *, holder: int) -> bool:
        """Keep a share, if it is the one that its owner committed to."""
        owner = given.position
        at = 2 * bisect_left(self._rows[owner], holder) + (secret == b"mask key")
        at = 2 * len(self._rows[owner]) if owner == holder else at  # the own share's is the last
        committed = self._committed[owner][COMMITMENT * at : COMMITMENT * (at + 1)]
        if share_commitment(given.share, self._view, secret, owner=owner, holder=holder) != committed:
            return False
        kept = self._shares.setdefault((secret, owner), [])
        if len(kept) < self._view.graph.threshold:  # more are not needed
            kept.append((holder, given.share))
        return True

    def _open(self) -> list[Action]:
        """Take off every pad that has not cancelled: the own pads of survivors, and the pads of edges between survivors
        and members that were lost."""
        names = [one.name for one in self._roster]
        seeds = {at: self._recovered(b"seed", at, self._is_seed_of(at)) for at in sorted(self._survivors)}
        lost = sorted(at for at in self._participants - self._survivors if self._neighbours[at] & self._survivors)
        keys = {at: AgreementKey(self._recovered(b"mask key", at, self._is_mask_key_of(at))) for at in lost}
        self._shares = {}  # they are not kept after use
        total = add_pads(
            self._total, taken=(own_pad(seed, self._view, name=names[at]) for at, seed in seeds.items())
        )  # fmt: skip
        for at_lost, key in keys.items():
            for at in sorted(self._neighbours[at_lost] & self._survivors):
                agreed, (low, high) = key.agree(self._roster[at].mask_key), sorted((names[at], names[at_lost]))
                pad = pairwise_pad(agreed, self._view, participants=self._participating, low=low, high=high)
                if names[at] == low:  # the survivor added it, as the lower of the two
                    total -= pad
                else:
                    total += pad
        return self._opened(total)

    def _recovered(self, secret: Secret, owner: int, fits: Callable[[bytes], bool]) -> bytes:
        """The secret from the shares of it. Better no sum than a wrong one: if it is not the one that its owner masked
        with, the round is over, and the owner named, for each share is as the owner committed to it."""
        shares, t = self._shares.get((secret, owner), []), self._view.graph.threshold
        if len(shares) < t:
            raise FatalError(Fault.ABORTED, "too few right shares of a secret were given out; the sum stays closed")
        points = np.array([at for at, _ in shares], dtype=np.int64) + 1
        rows = np.frombuffer(b"".join(share for _, share in shares), dtype="<u4").reshape(t, -1)
        with suppress(PeerError):
            found = secret_sharing.shamir_combine(points, rows)
            if fits(found):
                return found
        name = self._roster[owner].name
        raise FatalError(
            Fault.ABORTED, "a member has shared another secret than it masked with; the sum stays closed", blamed=[name]
        )

    def _is_seed_of(self, at: int) -> Callable[[bytes], bool]:
        name, committed = self._roster[at].name, self._seed_commitments[at]
        return lambda seed: commitment(seed, self._view, name=name) == committed

    def _is_mask_key_of(self, at: int) -> Callable[[bytes], bool]:
        """The public half of a mask key, which is in the roster, is its commitment."""
        return lambda key: AgreementKey(key).public == self._roster[at].mask_key

    def _add_up(self) -> list[Action]:
        """Under pads alone nobody may be missing: then the pads have cancelled."""
        self._survivors = frozenset(self._seed_commitments)
        self.refuse_too_few(len(self._survivors), "sent their vectors")
        return self._opened(self._total)

    def _opened(self, total: RingArray) -> list[Action]:
        # The digest is the roster view's, no hash of the sum: with that, a guess of the sum could be tested.
        return [Persist(self.round, Stage.OPENED, self._view.digest), Finished(total, len(self._survivors))]


def with_usable_boxes(unusable: Mapping[int, frozenset[int]], *, most: int) -> frozenset[int]:
    """The participants of a sum: all who sent receipts, without those who are left out so that each participant has
    at most `most` others who cannot use its box.

    Nobody is blamed: of a pair, the owner may have sealed garbage, or the holder may lie. Whoever is in most such pairs
    is left out first, so that one who seals garbage for many, or complains of many, leaves alone. For c
    complaints it takes c log c steps."""
    going = set(unusable)
    holders: dict[int, list[int]] = {at: [] for at in going}  # by owner: who cannot use its box
    for holder in unusable:
        for owner in unusable[holder] & going:
            holders[owner].append(holder)
    complaints = {owner: len(those) for owner, those in holders.items()}
    involved = {at: len(unusable[at] & going) + complaints[at] for at in going}  # pairs that a device is in
    too_many = {owner for owner in going if complaints[owner] > most}
    queue = [(-pairs, at) for at, pairs in involved.items()]
    heapify(queue)
    while too_many:  # each pair is looked at when its first device leaves, and not again
        pairs, at = heappop(queue)
        if at not in going or involved[at] != -pairs:
            continue  # it was counted before another left
        going.remove(at)
        too_many.discard(at)
        for owner in (owned := unusable[at] & going):
            complaints[owner] -= 1
            if complaints[owner] <= most:
                too_many.discard(owner)
        for other in (*owned, *(holder for holder in holders[at] if holder in going)):
            involved[other] -= 1
            heappush(queue, (-involved[other], other))
    return frozenset(going)


def _slice(commitments: bytes, n: int) -> bytes:
    """The two commitments that belong to the n-th box."""
    return commitments[2 * COMMITMENT * n : 2 * COMMITMENT * (n + 1)]
