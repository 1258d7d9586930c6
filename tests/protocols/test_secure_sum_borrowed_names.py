"""A collector that lists keys of its own under the names of people who are away gathers shares, and gets no vector."""

from collections.abc import Sequence

import numpy as np
import pytest

from prirec.engines.protocol import Wire
from prirec.errors import Fault
from prirec.protocols.codec import decode_content, unseal
from prirec.protocols.messages import VERSION, AnyMessage, Boxes, Keys, Masked, Secrets, Terms
from prirec.protocols.party import Action, State
from prirec.protocols.secure_sum import Collector
from prirec.sharing.keys import AgreementKey, SigningKey
from support.rounds import RECOMMENDER, Gathering, make_member, people, random_ring, task_of, terms_of

BOX, MASK, SIGNING = AgreementKey(bytes([1] * 32)), AgreementKey(bytes([2] * 32)), SigningKey(bytes([3] * 32))
DEFAULT = terms_of("double", lost=200)
SPARSE = terms_of("double", corrupt=0, lost=50)


class Borrowing(Collector):
    """Makes up a line for one who is away, and leaves it out of those who go on."""

    away = b""
    stolen: dict[int, Secrets]

    def end_step(self) -> list[Action]:
        if self.state is State.KEYS:
            made_up = (MASK.public, BOX.public, SIGNING.public, bytes(64))
            self._keys[self.away] = Keys(VERSION, self.round, self.away, self.name, *made_up)
            self._agreed[self.away], self.stolen = bytes(32), {}
        return super().end_step()

    def _take_boxes(self, message: Boxes) -> list[Action]:
        answer, at = super()._take_boxes(message), self._places[message.sender]
        header = self._view.header(sender=message.sender, receiver=self.away, kind=Boxes)
        for box in message.boxes:
            if box.position == self._places[self.away]:
                opened = unseal(BOX.agree(self._roster[at].box_key), header, box.sealed)
                self.stolen[at] = decode_content(Secrets, opened)
        return answer


def borrowing(terms: Terms, many: int, *, true_keys: bool = False) -> tuple[Gathering, Wire, list[type[AnyMessage]]]:
    """A round of a borrowing collector; with true keys, of one whose absent member has entered and gone."""
    task, rng = task_of(terms), np.random.default_rng(1)
    values = random_ring(terms, rng, rows=many)
    host = (Collector if true_keys else Borrowing)(task, identity=RECOMMENDER, entropy=rng.bytes(32))
    guests = [make_member(task, who, value, rng) for who, value in zip(people(many), values, strict=True)]
    away, sent = guests[4].name, list[type[AnyMessage]]()
    if isinstance(host, Borrowing):
        host.away = away

    def fate(message: AnyMessage) -> Sequence[int]:
        sent.append(type(message))
        gone = message.sender == away and (not true_keys or isinstance(message, Boxes))
        return () if gone or (message.receiver == away and not true_keys) else (0,)

    gathering = Gathering(task, host, guests, values)
    wire = gathering.on(Wire(fate))
    wire.do(host, host.invite(gathering.names))
    wire.run(host)
    return gathering, wire, sent


@pytest.mark.parametrize(("terms", "many"), [(DEFAULT, 10), (SPARSE, 66)])
def test_a_member_with_a_borrowed_name_among_its_neighbours_sends_no_vector(terms: Terms, many: int) -> None:
    gathering, wire, _ = borrowing(terms, many)
    assert isinstance(gathering.collector, Borrowing)
    shown = {gathering.names[at] for at in gathering.collector.stolen}  # they sealed a box for the false line
    assert len(shown) >= 2
    assert {name for name in shown if wire.aborted[name].fault is Fault.AUTH} == shown
    assert not wire.finished


def test_on_a_complete_graph_a_borrowed_name_stops_every_vector() -> None:
    _, _, sent = borrowing(DEFAULT, 10)
    assert Boxes in sent
    assert Masked not in sent


@pytest.mark.parametrize(("terms", "many"), [(DEFAULT, 10), (SPARSE, 66)])
def test_a_member_that_came_and_dropped_out_stops_no_vector(terms: Terms, many: int) -> None:
    """The control: what ends the round above is the false line alone."""
    gathering, wire, _ = borrowing(terms, many, true_keys=True)
    expected = gathering.total([at for at in range(many) if at != 4])
    assert wire.finished[gathering.collector.name].total.tolist() == expected.tolist()
    assert not wire.aborted
