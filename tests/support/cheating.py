"""Messages of a round, put together again as a cheat would, and what a round comes to after them."""

from typing import Any

from prirec.engines.wire import Wire
from prirec.errors import Fault
from prirec.protocols.codec import bitmap, encode
from prirec.protocols.messages import (
    VERSION,
    Delivery,
    Masked,
)
from prirec.protocols.moves import State
from prirec.protocols.secure_sum.member import Member
from prirec.protocols.statements import Delivered
from support.rounds import (
    Gathering,
    altered,
    gather,
    held_at,
    terms_of,
)

MEMBERS = terms_of("double", "members")
SPARSE = terms_of("double", "collector", corrupt=0, lost=10, length=1)


def delivered(terms: Any = MEMBERS, many: int = 4) -> tuple[Gathering, Member, Delivery]:
    gathering = gather(many, terms)
    return gathering, gathering.members[0], held_at(gathering, Delivery)[0]


def without(at: int, delivery: Delivery, *, many: int) -> Delivery:
    rest = set(range(many)) - {at}
    return altered(
        delivery,
        sharing=bitmap(rest, size=many),
        boxes=tuple(box for box in delivery.boxes if box.position != at),
        signatures=tuple(one for one in delivery.signatures if one.position != at),
    )


def finish(gathering: Gathering, messages: list[Any]) -> Wire:
    """The round goes on with these messages, faithfully from here."""
    wire = gathering.on(Wire())
    for message in messages:
        wire._send(message)
    wire.run(gathering.collector)
    return wire


def assert_no_sum(gathering: Gathering, wire: Wire) -> None:
    aborted = wire.aborted[gathering.collector.name].fault is Fault.ABORTED
    if wire.finished or not aborted or gathering.collector.state is not State.BURNT:
        raise AssertionError("a sum was opened, or the round was not given up")


def assert_sum_of(gathering: Gathering, wire: Wire, inside: list[int]) -> None:
    found = wire.finished[gathering.collector.name]
    if found.total.tolist() != gathering.total(inside).tolist() or found.summands != len(inside):
        raise AssertionError("another sum was opened than that of those inside")


def held_at_again(gathering: Gathering, kind: Any) -> list[Any]:
    """What the members of a round that was stopped at this kind have sent already."""
    found = []
    for member in gathering.members:
        for _, actions in member._heard.values():
            found += [action.message for action in actions if isinstance(getattr(action, "message", None), kind)]
    return found


def vector_of(gathering: Gathering, at: int, content: Any, kind: Any = Masked) -> Any:
    member = gathering.members[at]
    sealed = member.seal_for_collector(member._meeting, kind, content)
    signed = (member._signing_key.sign(delivered_to(gathering)),) if kind is Masked else ()
    return kind(VERSION, member.round, member.name, gathering.collector.name, sealed, *signed)


def delivered_to(gathering: Gathering) -> bytes:
    """What goes with a vector: who went on, as the collector has it."""
    collector = gathering.collector
    return encode(Delivered(collector._meeting.mark, bitmap(collector._sharing, size=collector.size)))
