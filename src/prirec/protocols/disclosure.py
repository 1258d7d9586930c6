"""What messages show, and to whom: the words of docs/who-learns-what.md, kept beside the message types.

Here are the parts that messages are made of, with what stands at the head of each, and what lies in boxes; the messages
themselves are in seen.py. A type without words, or a field that they leave out, fails a test.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from prirec.protocols.messages import (
    AnyContent,
    AnyMessage,
    Box,
    Boxes,
    Delivery,
    Listed,
    Masked,
    Message,
    Opened,
    Part,
    Partial,
    Reveal,
    Revealed,
    Round,
    Secrets,
    Share,
    ShareOf,
    Signed,
    Terms,
    Vector,
)


class Role(StrEnum):
    COLLECTOR = "collector"  # the recommender
    MEMBER = "member"
    USER = "user i"  # the collector of Algorithm 1
    NEIGHBOUR = "neighbour"  # its members


@dataclass(frozen=True, slots=True, kw_only=True)
class Disclosure:
    """What something shows. Where a message holds a box, what is in the box is told of under its own name."""

    fields: Mapping[str, str]
    to_receiver: str
    to_relay: str  # and to whoever else sees the bytes of the message
    hidden: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent(Disclosure):
    """Of a message."""

    ways: tuple[tuple[Role, Role], ...]  # from whom to whom


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed(Disclosure):
    """Of what lies in a box, which the relay cannot read."""

    inside: tuple[type[AnyMessage], ...]


PARTS: Mapping[type[Part], Mapping[str, str]] = {
    Message: {
        "version": "of the protocol",
        "round": "which sum is meant",
        "sender": "the name of a party: its identity's public key, the same in all rounds",
        "receiver": "likewise",
    },
    Round: {
        "deployment": "which system",
        "kind": "what is summed: visits, linear models, gradients of V, figures of quality",
        "number": "which round",
        "group": "which cohort; in Algorithm 1, whose neighbourhood",
        "attempt": "how often it was begun",
    },
    Terms: {
        "method": "shares, pads or double masks",
        "opening": "to the collector or to the members",
        "length": "of the vectors",
        "ring_bits": "of each entry",
        "fraction_bits": "of each entry",
        "bound": "on each entry",
        "floor": "the fewest that may be in a sum",
        "corrupt": "the share of devices against which the sum is meant to hold",
        "lost": "the share of devices that may be lost",
        "noise": "how strong the noise is that hides one vector in the sum",
    },
    Listed: {
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
}

CONTENTS: Mapping[type[AnyContent], Sealed] = {
    Secrets: Sealed(
        inside=(Boxes, Delivery),
        fields={
            "seed": "one share of the seed of the sender's own pad",
            "mask_key": "one share of the sender's secret mask key",
            "members": "where the members open, the sender's part of the members' key; else empty",
        },
        to_receiver=(
            "Shares that say nothing while fewer than the threshold are together. With the parts of all members it "
            "has the members' key."
        ),
        to_relay="Nothing but the length, which is the same for all.",
        hidden="Both secrets. Whoever works with one member of a cohort has the members' key, the collector included.",
    ),
    Vector: Sealed(
        inside=(Masked, Opened, ShareOf, Partial),
        fields={
            "values": "ring elements: a masked vector, a sum under the members' pads, a share, or a sum of shares",
            "commitment": "under double masks, by which the collector knows the right seed; else empty",
            "members": "where the members open, by which the collector knows that all hold the same key; else empty",
        },
        to_receiver=(
            "Words that cannot be told from uniform ones. All those of a round together tell their sum (to user i, or "
            "to the collector once pads cancel or are taken off), or that under the members' pads."
        ),
        to_relay="Nothing but the length, which is the same for all.",
        hidden=(
            "The value. The commitments tell neither seed nor key. Under double masks, a vector that is late stays "
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
            "off the total."
        ),
        to_relay="Nothing but the length.",
        hidden="The mask keys of survivors and the seeds of the lost: of each person one secret stays closed.",
    ),
}
