"""What each protocol message discloses, and to whom: the tables from which `make docs` writes who-learns-what.md.

PARTS describes the fields that messages are made of, CONTENTS what is sealed in boxes, and MESSAGES each message.
tests/docs/test_who_learns_what.py fails if a message type, or a field of one, has no entry here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from prirec.protocols.messages import (
    Agreement,
    Agreements,
    AnyContent,
    AnyMessage,
    Batch,
    Box,
    Boxes,
    Closing,
    Delivery,
    Forwarded,
    GivenUp,
    Invitation,
    Keys,
    Masked,
    Message,
    NoisedShare,
    OpenedSum,
    Partial,
    Participants,
    Receipt,
    Report,
    Reveal,
    Revealed,
    Roster,
    RosterEntry,
    Round,
    Secrets,
    Share,
    ShareOf,
    Signed,
    Survivors,
    Terms,
    Vector,
    Verdict,
    Verdicts,
    WireStruct,
)


class Role(StrEnum):
    """The parties, as the page calls them."""

    COLLECTOR = "collector"  # the recommender
    MEMBER = "member"
    USER = "user i"  # the collector of Algorithm 1
    NEIGHBOUR = "neighbour"  # its members
    DEVICE = "device"  # of a sum over two operators
    LEADER = "leader"  # the recommender
    HELPER = "helper"  # the second operator


@dataclass(frozen=True, slots=True, kw_only=True)
class Disclosure:
    """Who learns what from a message, or from the content of a box. A message's entry leaves out what is sealed in its
    boxes: that content has an entry of its own."""

    fields: Mapping[str, str]
    to_receiver: str
    to_relay: str  # and to whoever else sees the bytes of the message
    hidden: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent(Disclosure):
    """Disclosure of a message."""

    ways: tuple[tuple[Role, Role], ...]  # (sender, receiver)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed(Disclosure):
    """Disclosure of what is sealed in a box, which the relay cannot read."""

    inside: tuple[type[AnyMessage], ...]  # the messages that carry such boxes


PARTS: Mapping[type[WireStruct], Mapping[str, str]] = {
    Message: {
        "version": "of the protocol",
        "round": "which sum is meant",
        "sender": "the name of a party: its identity's public key, the same in all rounds",
        "receiver": "likewise",
    },
    Round: {
        "deployment": "which system",
        "kind": "what is summed: visits, moments, gradients of the shared model, figures of quality",
        "number": "which round",
        "group": "in Algorithm 1, whose neighbourhood; else 0",
        "attempt": "how often it was begun",
    },
    Terms: {
        "method": "shares, pads, double masks or two operators",
        "length": "of the vectors",
        "ring_bits": "of each entry",
        "fraction_bits": "of each entry",
        "bound": "on each entry; with two operators on the norm of a vector",
        "floor": "the fewest that may be in a sum",
        "corrupt": "the share of devices against which the sum is meant to hold",
        "lost": "the share of devices that may be lost",
        "noise": "how strong the noise is that hides one vector in the sum; each of two operators adds all of it",
    },
    RosterEntry: {
        "position": "a place in the roster, which is sorted by name",
        "name": "whose line it is",
        "mask_key": "as in that member's keys",
        "box_key": "as in that member's keys",
        "signing_key": "as in that member's keys",
        "signature": "as in that member's keys",
    },
    Box: {
        "position": "whose box it is: for whom on the way in, from whom on the way out",
        "sealed": "bytes that only sender and receiver can read, or change unnoticed",
    },
    Signed: {"position": "who signed", "signature": "by that member's key of this round; with boxes, by its identity"},
    Share: {"position": "whose secret it is a share of", "share": "one share of it"},
    Forwarded: {
        "name": "whose report it is",
        "nonce": "as in the report",
        "public": "as in the report",
        "leader_box": "the hash of the leader's box, which the device has signed",
        "helper_box": "as in the report",
        "signature": "as in the report",
        "verifier": "the leader's share of what decides whether the proof holds",
    },
    Verdict: {
        "reason": "accepted, or what is wrong with the report",
        "seeds": "of an accepted report, the randomness that both operators must have used",
    },
}

CONTENTS: Mapping[type[AnyContent], Sealed] = {
    Secrets: Sealed(
        inside=(Boxes, Delivery),
        fields={
            "seed": "one share of the seed of the sender's own pad",
            "mask_key": "one share of the sender's secret mask key",
        },
        to_receiver="Shares that say nothing while fewer than the threshold are together.",
        to_relay="Nothing but the length, which is the same for all.",
        hidden="Both secrets.",
    ),
    Vector: Sealed(
        inside=(Masked, ShareOf, Partial),
        fields={
            "values": "ring elements: a masked vector, a share, or a sum of shares",
            "commitment": "under double masks, by which the collector knows the right seed; else empty",
        },
        to_receiver=(
            "Words that cannot be told from uniform ones. All those of a round together tell their sum (to user i, or "
            "to the collector once pads cancel or are taken off)."
        ),
        to_relay="Nothing but the length, which is the same for all.",
        hidden=(
            "The value. The commitment does not tell the seed. Under double masks, a vector that is late stays "
            "under its own pad."
        ),
    ),
    Revealed: Sealed(
        inside=(Reveal,),
        fields={
            "seeds": "a share of the seed of each survivor that the sender masks with, and of its own",
            "mask_keys": "a share of the mask key of each of them that was lost",
        },
        to_receiver=(
            "With those of enough others: the own pads of survivors and the pairwise pads of the lost, which it takes "
            "off the total. Whether each share is the one that its owner committed to: if not, the sender lies."
        ),
        to_relay="Nothing but the length.",
        hidden="The mask keys of survivors and the seeds of the lost: of each person one secret stays closed.",
    ),
}

_UP = ((Role.MEMBER, Role.COLLECTOR),)
_DOWN = ((Role.COLLECTOR, Role.MEMBER),)
_ALL_UP = (*_UP, (Role.NEIGHBOUR, Role.USER))
_ALL_DOWN = (*_DOWN, (Role.USER, Role.NEIGHBOUR))
_SAME = "The same."

MESSAGES: Mapping[type[AnyMessage], Sent] = {
    Invitation: Sent(
        ways=_ALL_DOWN,
        fields={
            "terms": "what is summed and how",
            "model": "the hash of what all must hold alike: charter, edition, scales and B, or V",
            "box_key": "the collector's public key for boxes to it, made for this round",
            "signature": "by the collector's identity, on all of this and the round",
        },
        to_receiver="That this sum is to be taken, by whom, under which model; that the collector knows this device.",
        to_relay=_SAME,
        hidden="Nothing of anyone's data is in it. It does not say who else is invited.",
    ),
    Keys: Sent(
        ways=_ALL_UP,
        fields={
            "mask_key": "public key from which pads are agreed, made for this round",
            "box_key": "public key for boxes, made for this round",
            "signing_key": "public key for signatures, made for this round",
            "signature": "by the device's identity, on the three keys and the round",
        },
        to_receiver="That this device takes part in this round, now.",
        to_relay=_SAME,
        hidden="The secret halves. The keys say nothing of the value, or of keys of other rounds.",
    ),
    Roster: Sent(
        ways=_ALL_DOWN,
        fields={
            "size": "how many take part",
            "degree": "with how many each one masks",
            "threshold": "how many shares bring a secret back",
            "root": "the hash of the whole roster (root of a hash tree)",
            "listed": "the lines of this device and of those it masks with",
            "proof": "hashes that stand for the other lines",
        },
        to_receiver=(
            "How many take part, and the names of those it masks with: everyone under pads, in Algorithm 1 and up to "
            "64 devices; else a few, drawn by the roster's hash."
        ),
        to_relay=_SAME,
        hidden="The other names: each hash covers keys made for this round, so a name cannot be tested against it.",
    ),
    Boxes: Sent(
        ways=_UP,
        fields={
            "signature": "by the device's identity, on terms, hash of the model and roster as it holds them",
            "boxes": "for each one it masks with, a box with its secrets",
            "commitments": "hashes of the shares in them, and of the one that it keeps",
        },
        to_receiver="That the device holds the same model, terms and roster. The roster says for whom the boxes are.",
        to_relay=_SAME,
        hidden=(
            "What is in the boxes: the collector delivers them and cannot open them. A share takes as many guesses, "
            "tested against its hash, as the secret, which is 256 random bits."
        ),
    ),
    Delivery: Sent(
        ways=_DOWN,
        fields={
            "boxes": "the boxes for this device",
            "commitments": "hashes of the shares in them",
            "signatures": "those of the boxes' senders, on what all must hold alike",
        },
        to_receiver="Which of those it masks with are still there; one box from each of them.",
        to_relay="The same, but not what is in the boxes.",
        hidden="Who else is there.",
    ),
    Receipt: Sent(
        ways=_UP,
        fields={"unusable": "positions whose boxes do not open, or hold other shares than those committed to"},
        to_receiver="That the device is still there, and whose boxes it says it cannot use.",
        to_relay=_SAME,
        hidden="What is in the boxes. Whether a box was spoilt by its sender, by the collector, or not at all.",
    ),
    Participants: Sent(
        ways=_DOWN,
        fields={"participants": "the positions that mask"},
        to_receiver="Who of the roster masks, by position.",
        to_relay=_SAME,
        hidden="Names behind the positions with which this device does not mask.",
    ),
    Masked: Sent(
        ways=_UP,
        fields={
            "sealed": "a box with the masked vector",
            "signature": "by the device's key of this round, on who masks, as it was told",
        },
        to_receiver="That the device is still there; and the vector in the box.",
        to_relay="That a vector was sent, and when. Its length follows from the terms.",
        hidden="The vector, to all but the collector; the value in it, to all but the device.",
    ),
    Survivors: Sent(
        ways=_DOWN,
        fields={
            "survivors": "the positions whose vectors arrived; the other participants are lost",
            "signatures": "on who masks, by those that this device masks with, as they came with their vectors",
        },
        to_receiver="Who will be in the sum and who was lost on the way, by position; that all were told the same.",
        to_relay=_SAME,
        hidden="Names behind the positions with which this device does not mask.",
    ),
    Agreement: Sent(
        ways=_UP,
        fields={"signature": "by the device's key of this round, on who masked and who survived"},
        to_receiver="That the device was shown this list, and will stand by no other.",
        to_relay=_SAME,
        hidden="Nothing of anyone's value is in it.",
    ),
    Agreements: Sent(
        ways=_DOWN,
        fields={"signatures": "on the list of survivors, by those that this device masks with"},
        to_receiver="Who of them is still there, and that they were shown the same list.",
        to_relay=_SAME,
        hidden="Nothing of anyone's value is in it.",
    ),
    Reveal: Sent(
        ways=_UP,
        fields={"sealed": "a box with shares of the others' secrets, one of each person's two"},
        to_receiver="The shares in the box.",
        to_relay="That shares were given out, and by the length of the box about how many.",
        hidden="Of no one's two secrets does a device that follows the protocol give out shares of both.",
    ),
    ShareOf: Sent(
        ways=((Role.NEIGHBOUR, Role.NEIGHBOUR),),
        fields={"sealed": "a box with one share of the sender's weighted model"},
        to_receiver="The share in the box.",
        to_relay="Which two devices are neighbours of the same person. The length follows from the terms.",
        hidden="The share, to all but the receiver; the model, of which one share says nothing.",
    ),
    Partial: Sent(
        ways=((Role.NEIGHBOUR, Role.USER),),
        fields={"sealed": "a box with the sum of the shares that the sender holds"},
        to_receiver="The partial sum in the box.",
        to_relay="That the sender is done. The length follows from the terms.",
        hidden="The partial sum, to all but user i; the models, beyond what their sum tells.",
    ),
    Report: Sent(
        ways=((Role.DEVICE, Role.LEADER),),
        fields={
            "nonce": "random bytes",
            "held": "the hash of what the device holds: terms, model, both operators and their keys",
            "public": "hashes from which the joint randomness of the proof comes",
            "leader_box": "for the leader: its share of the vector, of bits about its norm, and of the proof",
            "helper_box": "for the helper: seeds, from which its shares of the same come",
            "signature": "by the device's identity, on all of this",
        },
        to_receiver="That this device reports, now; a share of its vector that is uniform without the helper's.",
        to_relay="That this device reports, and when. The length follows from the terms.",
        hidden="The vector, to each of the two operators; the boxes, to all but the operator that each is for.",
    ),
    Batch: Sent(
        ways=((Role.LEADER, Role.HELPER),),
        fields={"number": "which batch", "reports": "of each report what concerns the helper"},
        to_receiver=(
            "Who has reported, and in which order; a share of each vector that is uniform without the leader's; "
            "whether each vector is within its bound."
        ),
        to_relay="Who has reported. The shares of verifiers say nothing without the helper's.",
        hidden="The vectors. When each report came: only the order is told.",
    ),
    Verdicts: Sent(
        ways=((Role.HELPER, Role.LEADER),),
        fields={"number": "which batch", "verdicts": "of each report, in their order"},
        to_receiver="Which reports are in the sum, and what is wrong with the others.",
        to_relay="How many reports are in the sum, and what is wrong with the others.",
        hidden="Everything of a vector but that it is within its bound.",
    ),
    Closing: Sent(
        ways=((Role.LEADER, Role.HELPER), (Role.HELPER, Role.LEADER)),
        fields={
            "batches": "how many there were",
            "accepted": "the hash of the accepted reports, in their order",
            "count": "how many they are: at least the floor",
            "signature": "by the sender's identity, on all of this",
            "commitment": "the hash of its noised share and a salt",
        },
        to_receiver="That the other has accepted the same reports, and will open their sum and no other.",
        to_relay="How many reports are in the sum.",
        hidden="The noised share: the hash has a salt.",
    ),
    NoisedShare: Sent(
        ways=((Role.LEADER, Role.HELPER), (Role.HELPER, Role.LEADER)),
        fields={"share": "the sender's share of the sum, with all of its noise", "salt": "of the commitment"},
        to_receiver="The sum, with both operators' noise; it knows its own, and not the other's.",
        to_relay="Nothing from one of the two: it is uniform. Both together are the noisy sum, which is published.",
        hidden="The sum without the sender's noise. The share without noise is kept nowhere.",
    ),
    OpenedSum: Sent(
        ways=((Role.LEADER, Role.HELPER), (Role.HELPER, Role.LEADER)),
        fields={"signature": "by the sender's identity, on the sum and the set of reports that it is of"},
        to_receiver="That the other has the same sum.",
        to_relay="That the sum is open.",
        hidden="Nothing of anyone's vector is in it.",
    ),
    GivenUp: Sent(
        ways=((Role.LEADER, Role.HELPER), (Role.HELPER, Role.LEADER)),
        fields={},
        to_receiver="That this round ends without a sum.",
        to_relay=_SAME,
        hidden="Nothing of anyone's vector is in it.",
    ),
}
