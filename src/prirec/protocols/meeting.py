"""How a round comes together: an invitation, keys, a roster. Both sums and Algorithm 1 begin like this.

The device's side is in guest.py, the collector's in convener.py.
"""

from dataclasses import dataclass, field

from prirec.errors import UsageError
from prirec.protocols import mask_graph, noise
from prirec.protocols.mask_graph import Graph
from prirec.protocols.messages import VERSION, Listed, Message, Round, Terms, step
from prirec.protocols.statements import BoxHeader, Statement
from prirec.settings_check import HARD_FLOOR


@dataclass(frozen=True, slots=True)
class Task:
    """What a party has made up its mind to take part in, before it hears a word."""

    round: Round
    collector: bytes
    terms: Terms
    model: bytes  # H(V), of the V that this party holds
    allowed: frozenset[bytes] | None = field(default=None, repr=False)  # who may be on the roster; None: anybody

    def __post_init__(self) -> None:
        if self.terms.opening == "members" and self.terms.method != "double":
            raise UsageError("a sum that its members open needs double masks")
        if self.terms.corrupt + 2 * self.terms.lost >= 1000 or 3 * self.terms.corrupt >= 1000:
            raise UsageError("no sum is safe unless corrupt + 2 lost is below 1000 per mille, and corrupt below 334")
        if self.terms.noise and (self.terms.method != "double" or self.terms.floor < HARD_FLOOR):
            raise UsageError(f"noise is for sums under double masks, with a floor of at least {HARD_FLOOR}")


@dataclass(frozen=True, slots=True)
class Meeting:
    """What a member knows of the others once the roster is checked."""

    statement: Statement
    mark: bytes  # its digest
    position: int = -1  # a collector has none
    others: dict[int, Listed] = field(default_factory=dict, repr=False)
    channels: dict[int, bytes] = field(default_factory=dict, repr=False)  # agreed with each of them, for boxes

    @property
    def graph(self) -> Graph:
        return Graph(self.statement.size, self.statement.degree, self.statement.threshold)

    def header(self, *, sender: bytes, receiver: bytes, kind: type[Message]) -> BoxHeader:
        of = self.statement.invited.round
        return BoxHeader(VERSION, of, sender, receiver, step(kind), self.mark)


def graph_for(terms: Terms, size: int) -> Graph:
    """The mask graph of a roster: complete where all must be heard or the members open, else as sparse as is safe."""
    if terms.method != "double":
        return Graph(size, size - 1, size)
    if terms.opening == "members":
        return mask_graph.complete(size)
    return mask_graph.plan(size, corrupt=terms.corrupt / 1000, lost=terms.lost / 1000)


def acceptable(graph: Graph, terms: Terms) -> bool:
    """Whether a device goes along with a roster of this size and graph: no sum may wrap, none may be taken apart."""
    if not graph.possible or graph.size < terms.floor:
        return False
    if graph.size * terms.bound + noise.room(terms, graph.size) > 2 ** (terms.ring_bits - 1) - 1:
        return False
    if terms.method != "double":
        return graph == graph_for(terms, terms.floor)
    if terms.opening == "members" and not graph.is_complete:
        return False
    return mask_graph.adequate(graph, corrupt=terms.corrupt / 1000, lost=terms.lost / 1000)


def least(terms: Terms, size: int) -> int:
    """The fewest survivors with which a sum over this roster is opened."""
    if terms.method != "double":
        return terms.floor
    return mask_graph.least_survivors(size, floor=terms.floor, lost=terms.lost / 1000)
