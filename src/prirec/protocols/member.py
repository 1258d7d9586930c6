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

from contextlib import suppress

import numpy as np

from prirec.errors import Fault, PeerError, UsageError
from prirec.protocols import masking, meeting, noise
from prirec.protocols.actions import Action, Finished, Persist, Send, Stage
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
from prirec.protocols.meeting import FatalError, Meeting, MemberBase, Task, least
from prirec.protocols.messages import (
    VERSION,
    Agreement,
    Agreements,
    AnyMessage,
    Box,
    Boxes,
    Delivery,
    Invitation,
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
from prirec.protocols.moves import MEMBER, PAD_MEMBER
from prirec.sharing import secret_sharing
from prirec.sharing.keys import SigningKey, derive, verify
from prirec.types import RingArray

# Bytes: keys, then 32 each for the seed of the own mask, the coefficients of its shares, a part of the members' key,
# and noise. All entropy is drawn when the member is made, so that a repeated message is answered with the same bits.
ENTROPY = meeting.MEMBER_ENTROPY + 128


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
        self._value = masking.checked(value, task.terms)
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
        if len(sharing) < least(self.task.terms, meeting.graph.size) or 1 + len(near) < meeting.graph.threshold:
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
            added.append(masking.own_pad(self._seed, meeting, name=self.name))
            proof = masking.commitment(self._seed, meeting, name=self.name)
        if terms.opening == "members":
            self._members_key = self._key_of_members(sharing, held)
            added.append(masking.members_pad(self._members_key, meeting, name=self.name))
            check = masking.members_check(self._members_key, meeting)
        if terms.noise:  # added as another pad, which nobody can take off
            added.append(noise.drawn(terms, meeting.graph.size, seed=self._noise_seed))
        values = masking.lay_on(self._value, added=added, taken=taken)
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
        if len(survivors) < least(self.task.terms, meeting.graph.size):
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
        pads = (masking.members_pad(self._members_key, self._meeting, name=names[at]) for at in sorted(self._survivors))
        opened = decode_content(Vector, self.unseal_from_collector(self._meeting, Opened, message.sealed))
        total = masking.lay_on(masking.vector(opened.values, self.task.terms), added=(), taken=pads)
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
        return masking.pairwise_pad(self._edges[at], self._meeting, sharing=sharing, low=low, high=high)

    def _key_of_members(self, sharing: bytes, held: dict[int, Secrets]) -> bytes:
        parts = {at: one.members for at, one in held.items()} | {self._meeting.position: self._part}
        return masking.members_key((parts[at] for at in sorted(parts)), self._meeting, sharing=sharing)

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
