"""What each message shows, and to whom; what is in its boxes, disclosure.py tells."""

from collections.abc import Mapping

from prirec.protocols.disclosure import Role, Sent
from prirec.protocols.messages import (
    Agreement,
    Agreements,
    AnyMessage,
    Boxes,
    Delivery,
    Invitation,
    Keys,
    Masked,
    Opened,
    Partial,
    Reveal,
    Roster,
    ShareOf,
    Survivors,
)

_UP = ((Role.MEMBER, Role.COLLECTOR),)
_DOWN = ((Role.COLLECTOR, Role.MEMBER),)
_ALL_UP = (*_UP, (Role.NEIGHBOUR, Role.USER))
_ALL_DOWN = (*_DOWN, (Role.USER, Role.NEIGHBOUR))
_SAME = "The same."

SEEN: Mapping[type[AnyMessage], Sent] = {
    Invitation: Sent(
        ways=_ALL_DOWN,
        fields={
            "terms": "what is summed and how",
            "model": "the hash of V, and in a cohort of the mean that it opened last",
            "box_key": "the collector's public key for boxes to it, made for this round",
            "signature": "by the collector's identity, on all of this and the round",
        },
        to_receiver="That this sum is to be taken, by whom, under which V; and that the collector knows this device.",
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
            "root": "the hash that stands for the whole roster",
            "listed": "the lines of this device and of those it masks with",
            "proof": "hashes that stand for the other lines",
        },
        to_receiver=(
            "How many take part, and the names of those it masks with: everyone in a cohort, under pads, in Algorithm "
            "1 and up to 64 devices; else a few, drawn by the roster's hash."
        ),
        to_relay=_SAME,
        hidden="The other names: each hash covers keys made for this round, so a name cannot be tested against it.",
    ),
    Boxes: Sent(
        ways=_UP,
        fields={
            "signature": "by the device's identity, on terms, hash of V and centre, and roster as it holds them",
            "boxes": "for each one it masks with, a box with its secrets",
        },
        to_receiver="That the device holds the same V, terms and roster. The roster says for whom the boxes are.",
        to_relay=_SAME,
        hidden="What is in the boxes: the collector delivers them and cannot open them.",
    ),
    Delivery: Sent(
        ways=_DOWN,
        fields={
            "sharing": "which positions go on",
            "boxes": "the boxes for this device",
            "signatures": "those of the boxes' senders, on what all must hold alike",
        },
        to_receiver="Who of the roster goes on, by position; one box each from those it masks with.",
        to_relay="The same, but not what is in the boxes.",
        hidden="Names behind the positions with which this device does not mask.",
    ),
    Masked: Sent(
        ways=_UP,
        fields={
            "sealed": "a box with the masked vector",
            "signature": "by the device's key of this round, on who went on, as it was told",
        },
        to_receiver="That the device is still there; and the vector in the box.",
        to_relay="That a vector was sent, and when. Its length follows from the terms.",
        hidden="The vector, to all but the collector; the value in it, to all but the device.",
    ),
    Survivors: Sent(
        ways=_DOWN,
        fields={
            "survivors": "the positions whose vectors arrived; the others that went on are lost",
            "signatures": "on who went on, by those that this device masks with, as they came with their vectors",
        },
        to_receiver="Who will be in the sum and who was lost on the way, by position; that all were told the same.",
        to_relay=_SAME,
        hidden="Names behind the positions with which this device does not mask.",
    ),
    Agreement: Sent(
        ways=_UP,
        fields={"signature": "by the device's key of this round, on who went on and who survived"},
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
    Opened: Sent(
        ways=_DOWN,
        fields={"sealed": "a box with the sum, under the members' pads"},
        to_receiver=(
            "The sum over the survivors, for the device holds the members' key. It has no proof that this is the sum: "
            "a collector can add to it."
        ),
        to_relay="That a sum was opened. Without the members' key it is uniform words, to the collector as well.",
        hidden="The summands, beyond what their sum tells.",
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
}
