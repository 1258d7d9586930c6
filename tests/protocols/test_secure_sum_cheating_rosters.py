"""A collector that cheats in whom it invites to what, and in whom it lists: the device refuses at the door."""

from functools import partial
from typing import Any

import pytest

from prirec.errors import Fault
from prirec.protocols import mask_graph
from prirec.protocols.codec import encode
from prirec.protocols.mask_graph import Graph
from prirec.protocols.messages import (
    COMMITMENT,
    VERSION,
    Box,
    Delivery,
    Invitation,
    Keys,
    Roster,
    RosterEntry,
    Signed,
)
from prirec.protocols.party import Action, State
from prirec.protocols.secure_sum import Collector, Member
from prirec.sharing import merkle
from prirec.sharing.keys import SigningKey
from support.cheating import DEFAULT, SPARSE, lines_in, roster_to, signed_again
from support.rounds import (
    OTHER_MODEL,
    OUTSIDER,
    RECOMMENDER,
    Gathering,
    altered,
    gather,
    held_at,
    refusal,
    sends,
    terms_of,
)

EVERY_METHOD = [terms_of("pads"), DEFAULT, terms_of("shares")]


# Invitations


def invited(gathering: Gathering, *, by: SigningKey = RECOMMENDER, **changes: Any) -> Invitation:
    """An invitation to the first member, changed and signed again."""
    first = min(held_at(gathering, Invitation), key=lambda one: one.receiver)
    return signed_again(first, by=by, **changes)


@pytest.mark.parametrize("terms", EVERY_METHOD)
@pytest.mark.parametrize(
    "changes",
    [
        {"length": 4},
        {"ring_bits": 32},
        {"fraction_bits": 9},
        {"bound": 2**21},
        {"floor": 1},
        {"corrupt": 0},
        {"lost": 401},
        {"noise": 1},
    ],
)
def test_other_terms_are_refused_though_they_are_signed(terms: Any, changes: dict[str, int]) -> None:
    gathering = gather(3, terms)
    invitation = invited(gathering, terms=altered(gathering.task.terms, **changes))
    assert refusal(gathering.members[0], invitation) is Fault.PARAMS_MISMATCH


@pytest.mark.parametrize("terms", EVERY_METHOD)
def test_another_V_is_refused_though_it_is_signed(terms: Any) -> None:
    gathering = gather(3, terms)
    assert refusal(gathering.members[0], invited(gathering, model=OTHER_MODEL)) is Fault.PARAMS_MISMATCH


@pytest.mark.parametrize("terms", EVERY_METHOD)
def test_an_invitation_that_the_collector_did_not_sign_is_refused(terms: Any) -> None:
    gathering = gather(3, terms)
    assert refusal(gathering.members[0], invited(gathering, by=OUTSIDER)) is Fault.AUTH
    gathering = gather(3, terms)
    assert refusal(gathering.members[0], altered(invited(gathering), box_key=OUTSIDER.public)) is Fault.AUTH


@pytest.mark.parametrize("terms", EVERY_METHOD)
def test_an_invitation_from_somebody_else_is_refused(terms: Any) -> None:
    gathering = gather(3, terms)
    stranger = invited(gathering, by=OUTSIDER, sender=OUTSIDER.public)
    assert refusal(gathering.members[0], stranger) is Fault.AUTH


@pytest.mark.parametrize("terms", EVERY_METHOD)
def test_a_collector_key_of_low_order_is_refused_at_the_door(terms: Any) -> None:
    gathering = gather(3, terms)
    assert refusal(gathering.members[0], invited(gathering, box_key=bytes(32))) is Fault.AUTH


@pytest.mark.parametrize("terms", EVERY_METHOD)
@pytest.mark.parametrize(
    "changes", [{"number": 2}, {"attempt": 1}, {"group": 1}, {"kind": "counts"}, {"deployment": b"another one here"}]
)
def test_an_invitation_to_another_round_is_refused(terms: Any, changes: dict[str, Any]) -> None:
    gathering = gather(3, terms)
    other = invited(gathering, round=altered(gathering.task.round, **changes))
    assert refusal(gathering.members[0], other) is Fault.ORDER


# Rosters


def roster_of(gathering: Gathering, lines: list[RosterEntry]) -> Roster:
    """The roster that a collector would send to the first member of a complete graph for these lines."""
    return roster_to(gathering.names[0], gathering, lines, shown=range(len(lines)))


def meeting(terms: Any = DEFAULT, many: int = 4) -> tuple[Gathering, Member, list[RosterEntry]]:
    """A round in which the rosters were kept back: the lines of the true one."""
    gathering = gather(many, terms)
    return gathering, gathering.members[0], list(held_at(gathering, Roster)[0].listed)


def numbered(lines: list[RosterEntry]) -> list[RosterEntry]:
    return [altered(one, position=at) for at, one in enumerate(lines)]


@pytest.mark.parametrize("terms", EVERY_METHOD)
def test_the_true_roster_is_taken(terms: Any) -> None:
    gathering, member, lines = meeting(terms)
    assert sends(member.receive(roster_of(gathering, lines)))


WORDS = ["mask_key", "box_key", "signing_key", "signature", "name"]
ALL_OR_NOTHING = [terms for terms in EVERY_METHOD if terms.method != "double"]
DOUBLE = [terms for terms in EVERY_METHOD if terms.method == "double"]


@pytest.mark.parametrize("terms", ALL_OR_NOTHING)
@pytest.mark.parametrize("field", WORDS)
def test_a_false_entry_for_a_neighbour_is_refused(terms: Any, field: str) -> None:
    gathering, member, lines = meeting(terms)
    false = getattr(lines[2], field)
    lines[2] = altered(lines[2], **{field: false[:-1] + bytes([false[-1] ^ 1])})
    assert refusal(member, roster_of(gathering, lines)) is Fault.AUTH


def boxed_up(gathering: Gathering, roster: Roster) -> Delivery:
    """What a collector can deliver that showed a false roster to the first member, and the true one to the others."""
    others = [sends(one.receive(true)) for one, true in zip(gathering.members[1:], rosters(gathering)[1:], strict=True)]
    boxes = tuple(
        Box(at + 1, next(b.sealed for b in sent.boxes if b.position == 0)) for at, (sent,) in enumerate(others)
    )
    commitments = b"".join(sent.commitments[: 2 * COMMITMENT] for (sent,) in others)  # the first is for position 0
    signed = tuple(Signed(at + 1, sent.signature) for at, (sent,) in enumerate(others))
    names = (gathering.collector.name, gathering.names[0])
    return Delivery(VERSION, gathering.task.round, *names, boxes, commitments, signed)


def rosters(gathering: Gathering) -> list[Roster]:
    """The true ones, which were kept back."""
    lines = list(gathering.collector._roster)
    return [altered(roster_of(gathering, lines), receiver=name) for name in gathering.names]


@pytest.mark.parametrize("terms", DOUBLE)
@pytest.mark.parametrize("field", [word for word in WORDS if word != "name"])
def test_a_false_entry_for_a_neighbour_ends_the_round_before_a_vector_leaves(terms: Any, field: str) -> None:
    gathering, member, lines = meeting(terms)
    false = getattr(lines[2], field)
    lines[2] = altered(lines[2], **{field: false[:-1] + bytes([false[-1] ^ 1])})
    roster = roster_of(gathering, lines)
    assert sends(member.receive(roster))
    assert refusal(member, boxed_up(gathering, roster)) is Fault.PARAMS_MISMATCH
    assert member.state is State.BURNT


@pytest.mark.parametrize("terms", DOUBLE)
def test_the_true_roster_and_what_the_others_signed_are_taken(terms: Any) -> None:
    gathering, member, lines = meeting(terms)
    roster = roster_of(gathering, lines)
    member.receive(roster)
    assert sends(member.receive(boxed_up(gathering, roster)))[0].unusable == ()


def test_keys_that_a_neighbour_signed_for_another_round_are_refused() -> None:
    gathering, member, lines = meeting(terms_of("pads"))
    other = gather(4, terms_of("pads"), of=altered(gathering.task.round, number=2), seed=9)
    lines[2] = held_at(other, Roster)[0].listed[2]
    assert refusal(member, roster_of(gathering, lines)) is Fault.AUTH


@pytest.mark.parametrize("field", ["mask_key", "box_key", "signing_key"])
def test_a_false_entry_for_the_device_itself_is_refused(field: str) -> None:
    gathering, member, lines = meeting()
    lines[0] = altered(lines[0], **{field: OUTSIDER.public})
    assert refusal(member, roster_of(gathering, lines)) is Fault.AUTH


@pytest.mark.parametrize("terms", EVERY_METHOD)
def test_a_roster_without_the_device_is_refused(terms: Any) -> None:
    gathering, member, lines = meeting(terms, many=5)
    stranger = altered(lines[0], name=bytes(32))
    assert refusal(member, roster_of(gathering, [stranger, *lines[1:]])) is Fault.AUTH
    fewer = roster_of(gathering, numbered(lines[1:]))
    assert refusal(member, fewer) in (Fault.AUTH, Fault.PARAMS_MISMATCH)


def test_names_twice_or_out_of_order_are_refused() -> None:
    gathering, member, lines = meeting()
    twice = numbered([*lines[:3], lines[2], lines[3]])
    assert refusal(member, roster_of(gathering, twice)) is Fault.AUTH
    swapped = numbered([lines[0], lines[2], lines[1], lines[3]])
    assert refusal(member, roster_of(gathering, swapped)) is Fault.AUTH


class Careless(Collector):
    """Takes any keys from its accomplice."""

    def take_keys(self, keys: Keys) -> list[Action]:
        self._keys[keys.sender], self._agreed[keys.sender] = keys, bytes(32)
        return []


BAD_KEYS = [(terms, "_box_key") for terms in EVERY_METHOD] + [
    (terms, "_mask_key")
    for terms in EVERY_METHOD
    if terms.method != "shares"  # Algorithm 1 has no use for it
]


@pytest.mark.parametrize(("terms", "field"), BAD_KEYS)
def test_a_roster_with_a_key_of_low_order_is_refused(terms: Any, field: str) -> None:
    """The neighbour works for the collector, which lets its key pass."""
    gathering = gather(4, terms)
    getattr(gathering.members[2], field).public = bytes(32)
    if terms.method != "shares":
        gathering.collector = Careless(gathering.task, identity=RECOMMENDER, entropy=bytes([5] * 32))
    else:
        gathering.collector.take_keys = partial(Careless.take_keys, gathering.collector)
    assert refusal(gathering.members[0], held_at(gathering, Roster)[0]) is Fault.AUTH


@pytest.mark.parametrize("terms", EVERY_METHOD)
@pytest.mark.parametrize(
    "changes",
    [
        {"threshold": 1},
        {"threshold": 2},
        {"threshold": 5},
        {"threshold": 2**31 - 1},
        {"degree": 2},
        {"degree": 4},
        {"size": 3},
        {"size": 5},
        {"size": 5, "degree": 4, "threshold": 4},
        {"size": 1, "degree": 0, "threshold": 1},
        {"size": 0, "degree": 0, "threshold": 0},
        {"size": 2**31 - 1, "degree": 2**31 - 2, "threshold": 2**31 - 1},
        {"size": 2**25, "degree": 2**25 - 1, "threshold": 2 * 2**25 // 3 + 1},
        {"size": 2**24, "degree": 2**24 - 1, "threshold": 2 * 2**24 // 3 + 1},
    ],
)
def test_a_thinner_or_another_graph_is_refused(terms: Any, changes: dict[str, int]) -> None:
    gathering, member, lines = meeting(terms)
    true = roster_of(gathering, lines)
    assert refusal(member, altered(true, **changes)) is Fault.PARAMS_MISMATCH


def test_a_position_outside_the_roster_is_refused() -> None:
    gathering, member, lines = meeting()
    true = roster_of(gathering, lines)
    for at in (4, 2**31 - 1):
        shifted = (altered(lines[0], position=at), *lines[1:])
        assert refusal(member, altered(true, listed=shifted)) in (Fault.PARAMS_MISMATCH, Fault.AUTH)


def test_a_sum_that_could_wrap_is_refused() -> None:
    gathering, member, lines = meeting(terms_of("double", bound=2**61))
    assert refusal(member, roster_of(gathering, lines)) is Fault.PARAMS_MISMATCH


def test_a_list_that_the_root_does_not_stand_for_is_refused() -> None:
    gathering, member, lines = meeting()
    true = roster_of(gathering, lines)
    for bad in (
        altered(true, root=bytes(32)),
        altered(true, proof=(bytes(32),)),
        altered(true, listed=true.listed[:-1]),
        altered(true, listed=(*true.listed, true.listed[-1])),
        altered(true, listed=()),
    ):
        assert refusal(member, bad) in (Fault.PARAMS_MISMATCH, Fault.AUTH)
    assert sends(member.receive(true))


@pytest.fixture(scope="module")
def sparse() -> tuple[Gathering, Roster, list[RosterEntry]]:
    """A round on a sparse graph, the roster of the first member, and all lines."""
    gathering = gather(66, SPARSE)
    rosters = held_at(gathering, Roster)
    return gathering, rosters[0], lines_in(rosters)


def sparse_refusal(sparse: tuple[Gathering, Roster, list[RosterEntry]], bad: Roster) -> Fault:
    gathering, _, _ = sparse
    return refusal(gathering.members[0], bad)


def test_neighbours_that_do_not_follow_from_the_root_are_refused(
    sparse: tuple[Gathering, Roster, list[RosterEntry]],
) -> None:
    _, true, lines = sparse
    tree = merkle.Tree([encode(one) for one in lines])
    listed = {one.position for one in true.listed}
    stranger = next(at for at in range(true.size) if at not in listed)
    for dropped in sorted(listed - {0}):
        chosen = sorted(listed - {dropped} | {stranger})
        bad = altered(true, listed=tuple(lines[at] for at in chosen), proof=tree.prove(chosen))
        assert sparse_refusal(sparse, bad) is Fault.PARAMS_MISMATCH


def test_a_proof_that_does_not_hold_is_refused(sparse: tuple[Gathering, Roster, list[RosterEntry]]) -> None:
    _, true, _ = sparse
    assert true.proof
    for bad in (
        (),
        true.proof[:-1],
        (*true.proof, bytes(32)),
        (bytes(32), *true.proof[1:]),
        tuple(reversed(true.proof)),
    ):
        assert sparse_refusal(sparse, altered(true, proof=bad)) is Fault.PARAMS_MISMATCH


def test_a_sparse_graph_that_is_thinner_than_planned_is_refused(
    sparse: tuple[Gathering, Roster, list[RosterEntry]],
) -> None:
    """The collector keeps to all rules of a graph with fewer neighbours, or a lower threshold."""
    gathering, true, lines = sparse
    tree = merkle.Tree([encode(one) for one in lines])
    for degree, threshold in [(true.degree - 2, true.threshold), (true.degree, true.threshold - 1), (2, 2), (2, 1)]:
        graph = Graph(true.size, degree, threshold)
        near = [0, *mask_graph.neighbours(graph, beacon=true.root, position=0).tolist()]
        listed = tuple(lines[at] for at in sorted(near))
        bad = altered(true, degree=degree, threshold=threshold, listed=listed, proof=tree.prove(near))
        assert sparse_refusal(sparse, bad) is Fault.PARAMS_MISMATCH
    assert sends(gathering.members[0].receive(true))
