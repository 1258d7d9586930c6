"""The messages between parties, and the contents of sealed boxes. Each message has a version, a round, a sender and a
receiver; its step is the tag that leads it on the wire. docs/who-learns-what.md says what each reveals, and to whom.

A party is named by its Ed25519 public key, so that a signature can be checked without a directory. `position` is a
place in the round's roster, which is sorted by name. Bitmaps say which positions of a roster are meant.
"""

from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from prirec.protocols.mask_graph import MOST_DEVICES, MOST_NEIGHBOURS

# 3 had no list of people in the task of two operators, 2 sums that members open, 1 no commitments to shares and no
# receipts: whoever has one of these must update.
VERSION: Final = 4
_NEAR: Final = MOST_NEIGHBOURS + 1  # a member and those it masks with
_HEIGHT: Final = MOST_DEVICES.bit_length() - 1  # of the hash tree over the longest roster

Name: TypeAlias = Annotated[bytes, Meta(min_length=32, max_length=32)]
Digest: TypeAlias = Annotated[bytes, Meta(min_length=32, max_length=32)]
Key: TypeAlias = Annotated[bytes, Meta(min_length=32, max_length=32)]
Signature: TypeAlias = Annotated[bytes, Meta(min_length=64, max_length=64)]
ShareBytes: TypeAlias = Annotated[bytes, Meta(min_length=36, max_length=36)]
COMMITMENT: Final = 16  # bytes, to one share
Natural: TypeAlias = Annotated[int, Meta(ge=0, lt=2**31)]
PerMille: TypeAlias = Annotated[int, Meta(ge=0, lt=1000)]
Nonce: TypeAlias = Annotated[bytes, Meta(min_length=16, max_length=16)]
HelperBox: TypeAlias = Annotated[bytes, Meta(min_length=176, max_length=176)]  # four seeds, sealed
MOST_FORWARDED: Final = 2**14  # reports in one batch
Bitmap: TypeAlias = Annotated[bytes, Meta(max_length=MOST_DEVICES // 8)]


class WireStruct(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """Base of everything that is encoded on the wire."""


class SecretStruct(WireStruct, frozen=True):
    """A part whose fields are not printed: they are secret, or long."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


class Round(WireStruct, frozen=True):
    """Which sum is meant. Numbers only rise; an attempt is another try at the same number."""

    deployment: Annotated[bytes, Meta(min_length=16, max_length=16)]
    kind: Annotated[str, Meta(min_length=1, max_length=32)]  # what is summed: "linear", "interaction"
    number: Natural
    group: Natural = 0  # whose neighbourhood, in Algorithm 1; 0 where everyone is in one sum
    attempt: Natural = 0


class Terms(WireStruct, frozen=True):
    """The parameters of a sum, on which everyone in a round must agree; signed, and bound into every mask."""

    # Algorithm 1; one-time pads; double masks, which survive drop-outs; one report from each device to two operators
    method: Literal["shares", "pads", "double", "two_operators"]
    length: Annotated[int, Meta(ge=1, lt=2**31)]
    ring_bits: Literal[32, 64]
    fraction_bits: Annotated[int, Meta(ge=1, le=40)]
    # the largest entry, as it is encoded; with two operators the largest norm, which each report proves
    bound: Annotated[int, Meta(ge=1, le=2**62)]
    floor: Natural = 2  # the fewest people that an opened sum may hold
    corrupt: PerMille = 50  # the share of devices that may work for the server, in thousandths
    lost: PerMille = 200  # the share that may be lost after the roster
    # the variance, as encoded, that hides a vector; each of two operators adds all of it; 0: none
    noise: Annotated[int, Meta(ge=0, le=2**52)] = 0


class Box(SecretStruct, frozen=True):
    """Sealed end to end; its relay sees sender, receiver and length."""

    position: Natural  # the receiver's on the way in, the sender's on the way out
    sealed: Annotated[bytes, Meta(max_length=128)]  # Secrets: 101 bytes at most


class Signed(SecretStruct, frozen=True):
    """A signature, and the position of who signed."""

    position: Natural
    signature: Signature


class Share(SecretStruct, frozen=True):
    """A share of one person's secret."""

    position: Natural  # whose secret this is a share of
    share: ShareBytes


SealedBoxes: TypeAlias = Annotated[tuple[Box, ...], Meta(max_length=_NEAR)]
Signatures: TypeAlias = Annotated[tuple[Signed, ...], Meta(max_length=_NEAR)]
Shares: TypeAlias = Annotated[tuple[Share, ...], Meta(max_length=_NEAR)]
Commitments: TypeAlias = Annotated[bytes, Meta(max_length=2 * COMMITMENT * _NEAR)]


class Message(SecretStruct, frozen=True):
    """Base of all messages: version, round, sender and receiver."""

    version: Literal[4]
    round: Round
    sender: Name
    receiver: Name


def step(kind: type[Message]) -> str:
    """The tag of a kind of message."""
    return str(kind.__struct_config__.tag)


class Invitation(Message, frozen=True, tag="invitation"):
    """Collector to member: what is to be summed, under which model."""

    terms: Terms
    model: Digest  # the hash of what everyone must hold alike: V, or B with what it is scaled by
    box_key: Key
    signature: Signature


class Keys(Message, frozen=True, tag="keys"):
    """Member to collector: the keys of this round, signed by the identity."""

    mask_key: Key
    box_key: Key
    signing_key: Key
    signature: Signature


class RosterEntry(WireStruct, frozen=True):
    """One line of a roster."""

    position: Natural
    name: Name
    mask_key: Key
    box_key: Key
    signing_key: Key
    signature: Signature


class Roster(Message, frozen=True, tag="roster"):
    """Collector to member: who is in, as far as the member has to do with them, with a proof for the rest."""

    size: Natural
    degree: Natural
    threshold: Natural
    root: Digest
    listed: Annotated[tuple[RosterEntry, ...], Meta(max_length=_NEAR)]
    proof: Annotated[tuple[Digest, ...], Meta(max_length=_NEAR * _HEIGHT)]


class Boxes(Message, frozen=True, tag="boxes"):
    """Member to collector: a sealed share of its two secrets for each neighbour, commitments to these shares, and its
    signature on the statement."""

    signature: Signature
    boxes: SealedBoxes  # by position
    commitments: Commitments  # for each box two, to the shares of seed and mask key; then one to its own share


class Delivery(Message, frozen=True, tag="delivery"):
    """Collector to member: the boxes that are for it."""

    boxes: SealedBoxes
    commitments: Commitments  # for each box two, to the shares in it
    signatures: Signatures


class Receipt(Message, frozen=True, tag="receipt"):
    """Member to collector: whose boxes do not open, or hold other shares than those committed to."""

    unusable: Annotated[tuple[Natural, ...], Meta(max_length=_NEAR)]


class Participants(Message, frozen=True, tag="participants"):
    """Collector to member: the participants, who mask and send their vectors."""

    participants: Bitmap


class Masked(Message, frozen=True, tag="masked"):
    """Member to collector: the masked vector, sealed, and a signature on who masks, as the sender was told."""

    sealed: bytes
    signature: Signature


class Survivors(Message, frozen=True, tag="survivors"):
    """Collector to member: whose vectors arrived. All other participants are lost."""

    survivors: Bitmap
    signatures: Signatures  # what the neighbours among them signed with their vectors


class Agreement(Message, frozen=True, tag="agreement"):
    """Member to collector: its signature on the list of survivors."""

    signature: Signature


class Agreements(Message, frozen=True, tag="agreements"):
    """Collector to member: what its neighbours signed."""

    signatures: Signatures


class Reveal(Message, frozen=True, tag="reveal"):
    """Member to collector: for each neighbour one share of one of its two secrets, sealed."""

    sealed: Annotated[bytes, Meta(max_length=64 + 44 * _NEAR)]  # Revealed: a share takes 44 bytes at most


class ShareOf(Message, frozen=True, tag="share"):
    """Algorithm 1, line 4: neighbour to neighbour, one share of the weighted model, sealed."""

    sealed: bytes


class Partial(Message, frozen=True, tag="partial"):
    """Algorithm 1, line 8: neighbour to user i, the sum of the shares it holds, sealed."""

    sealed: bytes


# Two operators: a device sends its report and is done; the rest is between the leader and the helper


class Report(Message, frozen=True, tag="report"):
    """Device to leader: its vector, split between the operators, and the proof of its norm. The signature is on all of
    it, and on what the device holds of the round."""

    nonce: Nonce
    held: Digest  # of what the device holds: terms, model, operators and their keys
    public: Annotated[bytes, Meta(min_length=128, max_length=128)]  # for both operators
    leader_box: bytes
    helper_box: HelperBox
    signature: Signature


class Forwarded(SecretStruct, frozen=True):
    """One report, as far as it concerns the helper."""

    name: Name
    nonce: Nonce
    public: Annotated[bytes, Meta(min_length=128, max_length=128)]
    leader_box: Digest
    helper_box: HelperBox
    signature: Signature
    verifier: Annotated[bytes, Meta(max_length=2**20)]  # the leader's share of the verifier


class Batch(Message, frozen=True, tag="batch"):
    """Leader to helper: reports to be decided on. The next batch follows when this one is decided."""

    number: Natural
    reports: Annotated[tuple[Forwarded, ...], Meta(max_length=MOST_FORWARDED)]


class Verdict(SecretStruct, frozen=True):
    """What became of one report."""

    reason: Annotated[int, Meta(ge=0, le=8)]  # 0: accepted; see two_operators.Reason
    seeds: Annotated[bytes, Meta(max_length=64)]  # of an accepted report: both operators must have used them


class Verdicts(Message, frozen=True, tag="verdicts"):
    """Helper to leader: what became of the reports of a batch, in their order."""

    number: Natural
    verdicts: Annotated[tuple[Verdict, ...], Meta(max_length=MOST_FORWARDED)]


class Closing(Message, frozen=True, tag="closing"):
    """Operator to operator: these reports are in the sum, and no others ever; and a commitment to the sender's noised
    share of it."""

    batches: Natural
    accepted: Digest  # of the accepted reports, in their order
    count: Natural
    signature: Signature
    commitment: Digest


class NoisedShare(Message, frozen=True, tag="noised share"):
    """Operator to operator, after both closings: the sender's share of the sum, with all of its noise in it."""

    share: bytes
    salt: Digest


class OpenedSum(Message, frozen=True, tag="opened sum"):
    """Operator to operator: the sender's signature on the sum, which both have by now."""

    signature: Signature


class GivenUp(Message, frozen=True, tag="given up"):
    """Operator to operator: the round ends without a sum. It is said again to whoever goes on with it."""


class Secrets(SecretStruct, frozen=True, tag="secrets"):
    """Inside a box of `Boxes`: shares of the sender's seed and mask key."""

    seed: ShareBytes
    mask_key: ShareBytes


class Vector(SecretStruct, frozen=True, tag="vector"):
    """Inside `Masked`, `ShareOf`, `Partial`: ring elements; under double masks a commitment to the seed."""

    values: bytes
    commitment: bytes = b""


class Revealed(SecretStruct, frozen=True, tag="revealed"):
    """Inside `Reveal`: a share of the seed of each survivor, and of the mask key of each that was lost."""

    seeds: Shares
    mask_keys: Shares


AnyMessage: TypeAlias = (
    Invitation
    | Keys
    | Roster
    | Boxes
    | Delivery
    | Receipt
    | Participants
    | Masked
    | Survivors
    | Agreement
    | Agreements
    | Reveal
    | ShareOf
    | Partial
    | Report
    | Batch
    | Verdicts
    | Closing
    | NoisedShare
    | OpenedSum
    | GivenUp
)
AnyContent: TypeAlias = Secrets | Vector | Revealed
