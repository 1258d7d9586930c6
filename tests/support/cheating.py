"""Messages of a round, put together again as a cheat would, and what a round comes to after them."""

from collections.abc import Sequence
from typing import Any

import msgspec

from prirec.engines.protocol import Wire
from prirec.errors import Fault
from prirec.protocols.codec import Invited, ParticipantList, bitmap, encode
from prirec.protocols.messages import VERSION, Delivery, Invitation, Masked, Participants, Roster, RosterEntry
from prirec.protocols.party import Send, State
from prirec.protocols.roster import graph_for
from prirec.sharing import merkle
from prirec.sharing.keys import SigningKey
from support.rounds import RECOMMENDER, Gathering, gather, held_at, terms_of

DEFAULT = terms_of("double")
SPARSE = terms_of("double", corrupt=0, lost=10, length=1)


def delivered(terms: Any = DEFAULT, many: int = 4) -> tuple[Gathering, Any, Delivery]:
    gathering = gather(many, terms)
    return gathering, gathering.members[0], held_at(gathering, Delivery)[0]


def told(terms: Any = DEFAULT, many: int = 4) -> tuple[Gathering, Any, Participants]:
    """A round in which the lists of participants were kept back: the first member, and what it would be told."""
    gathering = gather(many, terms)
    return gathering, gathering.members[0], held_at(gathering, Participants)[0]


def without(at: int, told: Participants, *, many: int) -> Participants:
    return msgspec.structs.replace(told, participants=bitmap(set(range(many)) - {at}, size=many))


def lines_in(rosters: Sequence[Roster]) -> list[RosterEntry]:
    """All lines that somebody was shown, in their order."""
    lines = {one.position: one for roster in rosters for one in roster.listed}
    return [lines[at] for at in sorted(lines)]


def roster_to(name: bytes, gathering: Gathering, lines: list[RosterEntry], *, shown: Sequence[int]) -> Roster:
    """What a collector with these lines would send to a name to which it shows some of them."""
    graph = graph_for(gathering.task.terms, len(lines))
    tree = merkle.Tree([encode(one) for one in lines])
    of, who, listed = gathering.task.round, gathering.collector.name, tuple(lines[at] for at in shown)
    shape = (graph.size, graph.degree, graph.threshold)
    return Roster(VERSION, of, who, name, *shape, tree.root, listed, tree.prove(shown))


def signed_again(true: Invitation, *, by: SigningKey = RECOMMENDER, **changes: Any) -> Invitation:
    """Changed, and signed again."""
    new = msgspec.structs.replace(true, **changes)
    said = Invited(VERSION, new.round, new.sender, new.terms, new.model, new.box_key)
    return msgspec.structs.replace(new, signature=by.sign(encode(said)))


def go_on_without(kind: Any, gathering: Gathering, messages: list[Any], *, steps: int = 1) -> None:
    """The round goes on with these messages for so many steps; what is then sent of this kind is lost."""
    wire, collector = gathering.on(Wire(lambda one: () if isinstance(one, kind) else (0,))), gathering.collector
    for message in messages:
        wire._send(message)
    wire._deliver()
    for _ in range(steps):
        wire.do(collector, collector.advance())
        wire._deliver()


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
        for _, actions in member._answered.values():
            found += [one.message for one in actions if isinstance(one, Send) and isinstance(one.message, kind)]
    return found


def vector_of(gathering: Gathering, at: int, content: Any, kind: Any = Masked) -> Any:
    member: Any = gathering.members[at]
    sealed = member.seal(member.task.collector, kind, content)
    signed = (member._signing_key.sign(delivered_to(gathering)),) if kind is Masked else ()
    return kind(VERSION, member.round, member.name, gathering.collector.name, sealed, *signed)


def delivered_to(gathering: Gathering) -> bytes:
    """What goes with a vector: who masks, as the collector has it."""
    collector: Any = gathering.collector
    return encode(ParticipantList(collector._view.digest, bitmap(collector._participants, size=collector.size)))
