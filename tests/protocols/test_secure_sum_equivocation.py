"""A collector that says different things to different devices: no vector leaves a device that was told otherwise than
one of its neighbours."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from prirec.engines.protocol import Wire
from prirec.errors import Fault
from prirec.protocols.codec import decode_content, digest, encode, read_vector, unseal
from prirec.protocols.messages import AnyMessage, Boxes, Invitation, Masked, Message, Receipt, Roster, Vector
from prirec.protocols.party import Action, Send, Stage
from prirec.protocols.roster import Task
from prirec.protocols.secure_sum import Collector
from prirec.sharing import merkle
from prirec.sharing.keys import AgreementKey
from support.cheating import signed_again
from support.rounds import OTHER_MODEL, RECOMMENDER, Gathering, altered, gather, task_of, terms_of

DEFAULT, OTHERS = terms_of("double"), {0, 2}
Change = Callable[[Any], Any]


class TwoFaced(Collector):
    """Tells some of its members something else, and carries every box all the same."""

    def __init__(self, task: Task, *, entropy: bytes, to: frozenset[bytes], changes: dict[type, Change]) -> None:
        super().__init__(task, identity=RECOMMENDER, entropy=entropy)
        self.to, self.changes = to, changes

    def invite(self, names: Any) -> list[Action]:
        return self._changed(super().invite(names))

    def advance(self) -> list[Action]:
        return self._changed(super().advance())

    def _changed(self, actions: list[Action]) -> list[Action]:
        return [Send(self._told(one.message)) if isinstance(one, Send) else one for one in actions]

    def _told(self, message: AnyMessage) -> AnyMessage:
        change = self.changes.get(type(message)) if message.receiver in self.to else None
        return change(message) if change else message

    def _take_boxes(self, message: Boxes) -> list[Action]:
        self._boxes[self._places[message.sender]] = message
        return []


def invitation_with(**changes: Any) -> Change:
    """Signed as it should be."""
    return lambda message: signed_again(message, **changes)


def shorter(message: Roster) -> Roster:
    """The same roster without its last line."""
    lines = message.listed[:-1]
    if message.receiver == message.listed[-1].name:
        return message
    many, root = len(lines), merkle.Tree([encode(one) for one in lines]).root
    t = 2 * many // 3 + 1
    return altered(message, size=many, degree=many - 1, threshold=min(t, many), root=root, listed=lines)


def run(
    changes: dict[type, Change],
    *,
    many: int = 5,
    others: set[int] = OTHERS,
    terms: Any = DEFAULT,
    task: Any = None,
) -> tuple[Gathering, Wire, list[Message]]:
    gathering = gather(many, terms, other=dict.fromkeys(others, task) if task else None)
    to = frozenset(gathering.names[at] for at in others)
    cheat = TwoFaced(gathering.task, entropy=bytes(range(32)), to=to, changes=changes)
    told = replace(gathering, collector=cheat)
    sent: list[Message] = []

    def watched(message: Message) -> tuple[int, ...]:
        sent.append(message)
        return (0,)

    return told, told.run(watched), sent


CASES: dict[str, tuple[dict[type, Change], Any]] = {
    "V": ({Invitation: invitation_with(model=OTHER_MODEL)}, task_of(DEFAULT, model=OTHER_MODEL)),
    "terms": (
        {Invitation: invitation_with(terms=altered(DEFAULT, fraction_bits=9))},
        task_of(altered(DEFAULT, fraction_bits=9)),
    ),
    "bounds": ({Invitation: invitation_with(terms=altered(DEFAULT, lost=300))}, task_of(altered(DEFAULT, lost=300))),
    "collector's key": ({Invitation: invitation_with(box_key=AgreementKey(bytes([7] * 32)).public)}, None),
}


@pytest.mark.parametrize("about", CASES)
def test_two_different_statements_are_noticed_before_a_vector_leaves(about: str) -> None:
    changes, task = CASES[about]
    gathering, wire, sent = run(changes, task=task)
    assert sum(isinstance(one, Boxes) for one in sent) == 5  # they all believed it until they heard of one another
    assert not [one for one in sent if isinstance(one, Masked)]
    assert not wire.finished
    for member in gathering.members:
        assert wire.aborted[member.name].fault is Fault.PARAMS_MISMATCH
        assert Stage.MASKED not in [one.stage for one in gathering.journals[member.name].written]


@pytest.mark.parametrize("about", CASES)
def test_one_member_with_another_statement_is_enough(about: str) -> None:
    changes, task = CASES[about]
    _, wire, sent = run(changes, task=task, others={3})
    assert not [one for one in sent if isinstance(one, Masked)]
    assert not wire.finished


def test_two_rosters_are_noticed_before_a_vector_leaves() -> None:
    gathering, wire, sent = run({Roster: shorter})
    assert {one.sender for one in sent if isinstance(one, Boxes)} == set(gathering.names)
    assert not [one for one in sent if isinstance(one, Masked)]
    assert not wire.finished


def test_on_a_sparse_graph_exactly_the_neighbours_of_a_member_with_another_statement_leave_and_nobody_masks() -> None:
    terms, many = terms_of("double", corrupt=0, lost=10, length=1), 66
    change = {Invitation: invitation_with(model=OTHER_MODEL)}
    gathering, wire, sent = run(change, many=many, others={5, 40}, terms=terms, task=task_of(terms, model=OTHER_MODEL))
    near = gathering.collector._neighbours
    beside = {at for at in range(many) if at in {5, 40} or near[at] & {5, 40}}
    receipts = {gathering.names.index(one.sender) for one in sent if isinstance(one, Receipt)}
    assert receipts == set(range(many)) - beside
    assert not wire.finished
    assert not any(isinstance(one, Masked) for one in sent)


@pytest.mark.parametrize(("others", "exact"), [(OTHERS, 0), (set(range(5)), 64)])
def test_under_pads_two_different_models_V_open_nothing_but_noise(others: set[int], exact: int) -> None:
    """No step is left there in which the members could hear of one another: the masks bind what each believes. The
    control: when all were told the same, the sum opens."""
    terms = altered(terms_of("pads", length=64), floor=5)
    change, task = {Invitation: invitation_with(model=OTHER_MODEL)}, task_of(terms, model=OTHER_MODEL)
    gathering, _, sent = run(change, terms=terms, task=task, others=others)
    vectors = [opened_by_hand(gathering.collector, one) for one in sent if isinstance(one, Masked)]
    assert len(vectors) == 5
    assert int((sum(vectors) == gathering.total()).sum()) == exact


def opened_by_hand(collector: TwoFaced, message: Masked) -> Any:
    """The vector in a box, whichever V its sender was told of."""
    view = collector._view
    if message.sender in collector.to:
        invited = altered(view.statement.invited, model=OTHER_MODEL)
        view = replace(view, digest=digest(altered(view.statement, invited=invited)))
    header = view.header(sender=message.sender, receiver=collector.name, kind=Masked)
    content = decode_content(Vector, unseal(collector._agreed[message.sender], header, message.sealed))
    return read_vector(content.values, collector.task.terms)
