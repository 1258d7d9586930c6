"""A collector that cheats in its words to one device: the device refuses before anything private leaves."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from prirec.errors import Fault, PeerError
from prirec.protocols import mask_graph
from prirec.protocols.actions import Aborted, Action, Finished, Persist, Stage
from prirec.protocols.codec import bitmap, decode_content, encode
from prirec.protocols.mask_graph import Graph
from prirec.protocols.meeting import graph_for, least
from prirec.protocols.messages import (
    VERSION,
    Agreements,
    Box,
    Boxes,
    Delivery,
    Invitation,
    Keys,
    Listed,
    Masked,
    Opened,
    Reveal,
    Revealed,
    Roster,
    Secrets,
    Signed,
    Survivors,
    Vector,
)
from prirec.protocols.moves import State
from prirec.protocols.secure_sum.collector import Collector
from prirec.protocols.secure_sum.member import Member
from prirec.protocols.statements import Delivered, Invited
from prirec.sharing import merkle
from prirec.sharing.keys import SigningKey
from support.rounds import (
    OTHER_MODEL,
    OUTSIDER,
    RECOMMENDER,
    Gathering,
    altered,
    fingerprint,
    gather,
    held_at,
    refusal,
    sends,
    terms_of,
)

MEMBERS = terms_of("double", "members")
SPARSE = terms_of("double", "collector", corrupt=0, lost=10, length=1)
EVERY_METHOD = [terms_of("pads"), terms_of("double"), MEMBERS, terms_of("shares")]


# Invitations


def invited(gathering: Gathering, *, by: SigningKey = RECOMMENDER, **changes: Any) -> Invitation:
    """An invitation to the first member, changed and signed again."""
    first = min(held_at(gathering, Invitation), key=lambda one: one.receiver)
    new = altered(first, **changes)
    said = Invited(VERSION, new.round, new.sender, new.terms, new.model, new.box_key)
    return altered(new, signature=by.sign(encode(said)))


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


def roster_of(gathering: Gathering, lines: list[Listed], graph: Graph | None = None) -> Roster:
    """The roster that a collector would send to the first member of a complete graph for these lines."""
    graph = graph or graph_for(gathering.task.terms, len(lines))
    tree = merkle.Tree([encode(one) for one in lines])
    to, of = gathering.names[0], gathering.task.round
    proof = tree.prove([one.position for one in lines])
    who = gathering.collector.name
    return Roster(VERSION, of, who, to, graph.size, graph.degree, graph.threshold, tree.root, tuple(lines), proof)


def meeting(terms: Any = MEMBERS, many: int = 4) -> tuple[Gathering, Member, list[Listed]]:
    """A round in which the rosters were kept back: the lines of the true one."""
    gathering = gather(many, terms)
    return gathering, gathering.members[0], list(held_at(gathering, Roster)[0].listed)


def numbered(lines: list[Listed]) -> list[Listed]:
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
def test_a_false_word_about_a_neighbour_is_refused(terms: Any, field: str) -> None:
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
    signed = tuple(Signed(at + 1, sent.signature) for at, (sent,) in enumerate(others))
    names = (gathering.collector.name, gathering.names[0])
    return Delivery(VERSION, gathering.task.round, *names, bitmap(range(roster.size), size=roster.size), boxes, signed)


def rosters(gathering: Gathering) -> list[Roster]:
    """The true ones, which were kept back."""
    lines = list(gathering.collector._roster)
    return [altered(roster_of(gathering, lines), receiver=name) for name in gathering.names]


@pytest.mark.parametrize("terms", DOUBLE)
@pytest.mark.parametrize("field", [word for word in WORDS if word != "name"])
def test_a_false_word_about_a_neighbour_ends_the_round_before_a_vector_leaves(terms: Any, field: str) -> None:
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
    assert isinstance(sends(member.receive(boxed_up(gathering, roster)))[0], Masked)


def test_keys_that_a_neighbour_signed_for_another_round_are_refused() -> None:
    gathering, member, lines = meeting(terms_of("pads"))
    other = gather(4, terms_of("pads"), of=altered(gathering.task.round, number=2), seed=9)
    lines[2] = held_at(other, Roster)[0].listed[2]
    assert refusal(member, roster_of(gathering, lines)) is Fault.AUTH


@pytest.mark.parametrize("field", ["mask_key", "box_key", "signing_key"])
def test_a_false_word_about_the_device_itself_is_refused(field: str) -> None:
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
    gathering, member, lines = meeting(terms_of("double", "members", bound=2**61))
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
def sparse() -> tuple[Gathering, Roster, list[Listed]]:
    """A round on a sparse graph, the roster of the first member, and all lines."""
    gathering = gather(66, SPARSE)
    rosters = held_at(gathering, Roster)
    lines = {one.position: one for roster in rosters for one in roster.listed}
    return gathering, rosters[0], [lines[at] for at in sorted(lines)]


def sparse_refusal(sparse: tuple[Gathering, Roster, list[Listed]], bad: Roster) -> Fault:
    gathering, _, _ = sparse
    return refusal(gathering.members[0], bad)


def test_neighbours_that_do_not_follow_from_the_root_are_refused(
    sparse: tuple[Gathering, Roster, list[Listed]],
) -> None:
    _, true, lines = sparse
    tree = merkle.Tree([encode(one) for one in lines])
    listed = {one.position for one in true.listed}
    stranger = next(at for at in range(true.size) if at not in listed)
    for dropped in sorted(listed - {0}):
        chosen = sorted(listed - {dropped} | {stranger})
        bad = altered(true, listed=tuple(lines[at] for at in chosen), proof=tree.prove(chosen))
        assert sparse_refusal(sparse, bad) is Fault.PARAMS_MISMATCH


def test_a_proof_that_does_not_hold_is_refused(sparse: tuple[Gathering, Roster, list[Listed]]) -> None:
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
    sparse: tuple[Gathering, Roster, list[Listed]],
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


# Deliveries


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


def test_boxes_that_were_exchanged_end_the_round() -> None:
    _, member, true = delivered()
    first, second, *rest = true.boxes
    swapped = (Box(first.position, second.sealed), Box(second.position, first.sealed), *rest)
    assert refusal(member, altered(true, boxes=swapped)) is Fault.PARAMS_MISMATCH
    assert member.state is State.BURNT


def test_a_box_for_somebody_else_ends_the_round() -> None:
    gathering = gather(4, MEMBERS)
    mine, other, *_ = held_at(gathering, Delivery)
    boxes = {box.position: box.sealed for box in other.boxes}
    moved = tuple(Box(box.position, boxes.get(box.position, box.sealed)) for box in mine.boxes)
    assert refusal(gathering.members[0], altered(mine, boxes=moved)) is Fault.PARAMS_MISMATCH


def test_boxes_of_another_round_end_the_round() -> None:
    of = gather(2).task.round
    other = held_at(gather(4, MEMBERS, of=altered(of, number=2)), Delivery)[0]
    for field in ("boxes", "signatures"):
        _, member, true = delivered()
        assert refusal(member, altered(true, **{field: getattr(other, field)})) is Fault.PARAMS_MISMATCH
        assert member.state is State.BURNT


def test_signatures_that_were_exchanged_end_the_round() -> None:
    _, member, true = delivered()
    first, second, *rest = true.signatures
    swapped = (Signed(first.position, second.signature), Signed(second.position, first.signature), *rest)
    assert refusal(member, altered(true, signatures=swapped)) is Fault.PARAMS_MISMATCH
    assert member.state is State.BURNT


@pytest.mark.parametrize(
    "change",
    [
        lambda d: {"boxes": d.boxes[1:]},
        lambda d: {"signatures": d.signatures[1:]},
        lambda d: {"boxes": (*d.boxes, Box(0, b""))},
        lambda d: {"boxes": (*d.boxes, Box(99, b""))},
        lambda d: {"signatures": (*d.signatures, Signed(0, bytes(64)))},
        lambda d: {"sharing": bitmap({1, 2, 3}, size=4)},
        lambda d: {"sharing": bitmap({0, 1, 2}, size=4)},
        lambda d: {"sharing": bitmap(set(), size=4), "boxes": (), "signatures": ()},
    ],
)
def test_a_delivery_that_does_not_fit_the_list_of_those_who_go_on_is_refused(
    change: Callable[[Delivery], dict[str, Any]],
) -> None:
    _, member, true = delivered()
    assert refusal(member, altered(true, **change(true))) is Fault.PARAMS_MISMATCH
    assert member.state is State.SHARING
    assert sends(member.receive(true))


def test_a_bitmap_of_another_length_is_refused() -> None:
    _, member, true = delivered()
    for bits in (b"", b"\x0f\0", b"\x1f", b"\xff", bytes(100)):
        assert refusal(member, altered(true, sharing=bits)) is Fault.DECODE


def test_a_delivery_without_enough_holders_of_the_own_secrets_ends_the_round() -> None:
    """The fewest survivors would do, but fewer than t hold shares of what this device shared."""
    few = graph_for(MEMBERS, 5).threshold - 1
    assert few >= least(MEMBERS, 5)
    _, member, true = delivered(many=5)
    boxes = tuple(box for box in true.boxes if box.position < few)
    signatures = tuple(one for one in true.signatures if one.position < few)
    sharing = bitmap(range(few), size=5)
    assert refusal(member, altered(true, sharing=sharing, boxes=boxes, signatures=signatures)) is Fault.ABORTED
    assert member.state is State.BURNT


def test_a_delivery_with_too_few_who_go_on_ends_the_round() -> None:
    _, member, true = delivered(terms_of("double", "members", lost=0))
    assert refusal(member, without(3, true, many=4)) is Fault.ABORTED
    assert member.state is State.BURNT


@pytest.mark.parametrize(
    ("terms", "content"),
    [
        (MEMBERS, Vector(bytes(8))),
        (MEMBERS, Secrets(bytes(36), bytes(36), b"")),
        (MEMBERS, Secrets(bytes(36), bytes(36), bytes(33))),
        (terms_of("double", "collector"), Secrets(bytes(36), bytes(36), bytes(32))),
    ],
)
def test_a_box_with_something_else_inside_ends_the_round(terms: Any, content: Any) -> None:
    gathering, member, true = delivered(terms)
    sealed = gathering.members[1].seal_for(gathering.members[1]._meeting, 0, Boxes, content)
    boxes = tuple(Box(box.position, sealed if box.position == 1 else box.sealed) for box in true.boxes)
    assert refusal(member, altered(true, boxes=boxes)) is Fault.PARAMS_MISMATCH
    assert member.state is State.BURNT


# Survivors


def settled(terms: Any = MEMBERS, many: int = 4) -> tuple[Gathering, Member, Survivors]:
    gathering = gather(many, terms)
    return gathering, gathering.members[0], held_at(gathering, Survivors)[0]


def test_survivors_below_the_fewest_end_the_round() -> None:
    for terms, who in [(MEMBERS, {0, 1}), (terms_of("double", "members", lost=0), {0, 1, 2}), (MEMBERS, {0})]:
        _, member, true = settled(terms)
        assert refusal(member, altered(true, survivors=bitmap(who, size=4))) is Fault.ABORTED
        assert member.state is State.BURNT


def test_survivors_without_this_device_are_refused() -> None:
    _, member, true = settled()
    assert refusal(member, altered(true, survivors=bitmap({1, 2, 3}, size=4))) is Fault.PARAMS_MISMATCH
    assert sends(member.receive(true))


def test_survivors_who_never_went_on_are_refused() -> None:
    gathering, *_ = delivered(many=5)
    for member, delivery in zip(gathering.members[:4], held_at(gather(5, MEMBERS), Delivery), strict=False):
        member.receive(without(4, delivery, many=5))
    member = gathering.members[0]
    assert refusal(member, told(gathering, set(range(5)))) is Fault.PARAMS_MISMATCH
    assert sends(member.receive(told(gathering, set(range(4)))))


def test_survivors_of_another_length_are_refused() -> None:
    _, member, true = settled()
    for bits in (b"", b"\x0f\0", b"\x1f"):
        assert refusal(member, altered(true, survivors=bits)) is Fault.DECODE


def told(gathering: Gathering, survivors: set[int], *, to: int = 0) -> Survivors:
    """A list of survivors, with what the members signed with their vectors."""
    members, many = gathering.members, len(gathering.members)
    signed = tuple(
        Signed(at, members[at]._signing_key.sign(encode(Delivered(members[at]._meeting.mark, members[at]._sharing))))
        for at in sorted(survivors - {to})
    )
    names = (gathering.collector.name, members[to].name)
    return Survivors(VERSION, gathering.task.round, *names, bitmap(survivors, size=many), signed)


def signatures_on(gathering: Gathering, survivors: set[int], *, of: set[int]) -> tuple[Signed, ...]:
    """What these members sign when they are told of these survivors."""
    found = []
    for at in sorted(of):
        (agreement,) = sends(gathering.members[at].receive(told(gathering, survivors, to=at)))
        found.append(Signed(at, agreement.signature))
    return tuple(found)


def agreements(gathering: Gathering, signatures: tuple[Signed, ...], *, to: int = 0) -> Agreements:
    return Agreements(VERSION, gathering.task.round, gathering.collector.name, gathering.names[to], tuple(signatures))


def test_a_request_for_both_secrets_burns_the_round() -> None:
    """A second list, on which another person is lost, would give the mask key of one whose seed the first gave."""
    gathering, member, true = settled()
    (first,) = sends(member.receive(true))
    written = member.receive(altered(true, survivors=bitmap({0, 1, 2}, size=4)))
    assert [type(action) for action in written] == [Persist, Aborted]
    assert written[0].stage is Stage.BURNT
    assert written[1].error.fault is Fault.EQUIVOCATION
    assert not hasattr(first, "sealed")
    signed = signatures_on(gathering, {0, 1, 2, 3}, of={1, 2, 3})
    assert refusal(member, agreements(gathering, signed)) is Fault.ORDER


def test_a_second_list_after_the_shares_gives_out_nothing_more() -> None:
    gathering = gather(4, MEMBERS)
    held_at(gathering, Reveal)
    member = gathering.members[0]
    second = told(gathering, {0, 1, 2})
    assert refusal(member, second) is Fault.EQUIVOCATION
    assert member.state is State.BURNT


def test_two_lists_to_two_halves_open_nothing() -> None:
    gathering, *_ = settled(many=6)
    lists = {0: ({0, 1, 2}, set(range(6))), 3: ({3, 4, 5}, {0, 1, 3, 4, 5})}
    signed = [signatures_on(gathering, survivors, of=half) for half, survivors in lists.values()]
    for at in lists:
        for offered in (signed[0], signed[1], signed[0] + signed[1]):
            assert refusal(gathering.members[at], agreements(gathering, offered, to=at)) in (Fault.ABORTED, Fault.AUTH)
            assert gathering.members[at].state is State.AGREED


# Agreements


def agreed(many: int = 5) -> tuple[Gathering, Member, tuple[Signed, ...], int]:
    """A round in which the agreements were kept back, what the others signed, and how many others must."""
    gathering = gather(many, MEMBERS)
    true = held_at(gathering, Agreements)[0]
    return gathering, gathering.members[0], true.signatures, graph_for(MEMBERS, many).threshold - 1


def test_shares_are_given_out_on_exactly_t_signatures() -> None:
    gathering, member, signed, needed = agreed()
    assert len(signed) > needed
    for few in range(needed):
        assert refusal(member, agreements(gathering, signed[:few])) is Fault.ABORTED
        assert member.state is State.AGREED
    (reveal,) = sends(member.receive(agreements(gathering, signed[:needed])))
    assert isinstance(reveal, Reveal)


def test_repeated_signatures_count_once() -> None:
    gathering, member, signed, needed = agreed()
    repeated = (signed[:1] * 10 + signed[: needed - 1]) * 2
    assert refusal(member, agreements(gathering, repeated)) is Fault.ABORTED


def test_a_signature_of_its_own_counts_once() -> None:
    gathering, member, signed, needed = agreed()
    own = Signed(0, member._signing_key.sign(member._settled))
    assert refusal(member, agreements(gathering, (own, own, *signed[: needed - 1]))) is Fault.ABORTED


def test_signatures_of_strangers_do_not_count() -> None:
    gathering, member, signed, needed = agreed()
    strange = Signed(99, OUTSIDER.sign(member._settled))
    assert refusal(member, agreements(gathering, (strange, *signed[: needed - 1]))) is Fault.ABORTED


def test_forged_signatures_do_not_count() -> None:
    gathering, member, signed, needed = agreed()
    forged = Signed(signed[0].position, OUTSIDER.sign(member._settled))
    exchanged = Signed(signed[0].position, signed[1].signature)
    for bad in (forged, exchanged, Signed(signed[0].position, bytes(64))):
        assert refusal(member, agreements(gathering, (bad, *signed[1:needed]))) is Fault.ABORTED
        assert member.state is State.AGREED
    assert sends(member.receive(agreements(gathering, (forged, *signed))))


def test_signatures_on_another_list_do_not_count() -> None:
    gathering, *_ = settled(many=5)
    signatures_on(gathering, set(range(5)), of={0})
    others = signatures_on(gathering, set(range(4)), of={1, 2, 3})
    assert refusal(gathering.members[0], agreements(gathering, others)) is Fault.ABORTED


def test_lists_of_those_who_go_on_that_differ_open_nothing() -> None:
    """Some are told that the last one sealed no boxes: their vectors leave, but nobody gives out a share."""
    gathering = gather(5, MEMBERS)
    for at, true in enumerate(held_at(gathering, Delivery)[:4]):
        gathering.members[at].receive(without(4, true, many=5) if at < 2 else true)
    signed = signatures_on(gathering, {0, 1, 2, 3}, of={0, 1, 2, 3})
    for at in range(4):
        rest = tuple(one for one in signed if one.position != at)
        assert refusal(gathering.members[at], agreements(gathering, rest, to=at)) is Fault.ABORTED
        assert gathering.members[at].state is State.AGREED


@pytest.mark.parametrize("change", ["left out", "forged", "exchanged", "of another list"])
def test_on_a_sparse_graph_survivors_need_what_every_neighbour_signed(change: str) -> None:
    """Two arcs of the ring that were told of different boxes could each have t signatures of their own."""
    gathering = gather(66, SPARSE)
    true, member = held_at(gathering, Survivors)[0], gathering.members[0]
    first, second, *rest = true.signatures
    other = encode(Delivered(member._meeting.mark, bitmap(range(65), size=66)))
    signed = gathering.members[first.position]._signing_key.sign(other)
    signatures = {
        "left out": (second, *rest),
        "forged": (altered(first, signature=bytes(64)), second, *rest),
        "exchanged": (Signed(first.position, second.signature), second, *rest),
        "of another list": (Signed(first.position, signed), second, *rest),
    }[change]
    assert refusal(member, altered(true, signatures=signatures)) is Fault.PARAMS_MISMATCH
    assert member.state is State.BURNT


def test_of_a_lost_neighbour_only_the_mask_key_and_of_a_survivor_only_the_seed_is_shared() -> None:
    gathering = gather(4, MEMBERS)
    held_at(gathering, Survivors)
    signed = signatures_on(gathering, {0, 1, 2}, of={0, 1, 2})
    member, collector = gathering.members[0], gathering.collector
    (reveal,) = sends(member.receive(agreements(gathering, signed[1:])))
    content = decode_content(Revealed, collector.unsealed(0, Reveal, reveal.sealed))
    assert sorted(share.position for share in content.seeds) == [0, 1, 2]
    assert [share.position for share in content.mask_keys] == [3]
    assert content.mask_keys[0].share == member._held[3].mask_key
    assert all(share.share != member._held[3].seed for share in (*content.seeds, *content.mask_keys))


# The opened sum


def test_a_sum_of_another_length_or_that_was_tampered_with_is_refused() -> None:
    gathering = gather(4, MEMBERS)
    true = held_at(gathering, Opened)[0]
    member = gathering.members[0]
    for size in (0, 23, 16, 32, 25):
        sealed = gathering.collector.seal_for(0, Opened, Vector(bytes(size)))
        assert refusal(member, altered(true, sealed=sealed)) is Fault.PARAMS_MISMATCH
    for spoilt in (true.sealed[:-1], true.sealed[:-1] + b"\0", held_at(gather(4, MEMBERS), Opened)[1].sealed):
        assert refusal(member, altered(true, sealed=spoilt)) is Fault.AUTH
    found = [action for action in member.receive(true) if isinstance(action, Finished)]
    assert found[0].total.tolist() == gathering.total().tolist()


def test_a_sum_for_the_collector_is_not_opened_to_a_member() -> None:
    gathering = gather(4, terms_of("double", "collector"))
    gathering.run()
    member = gathering.members[0]
    shown = Opened(VERSION, member.round, gathering.collector.name, member.name, bytes(24))
    assert refusal(member, shown) is Fault.ORDER


def test_a_second_different_sum_is_refused_and_the_first_stays() -> None:
    gathering = gather(4, MEMBERS)
    true = held_at(gathering, Opened)[0]
    member = gathering.members[0]
    member.receive(true)
    before = fingerprint(member)
    with pytest.raises(PeerError, match="EQUIVOCATION"):
        member.receive(altered(true, sealed=bytes(40)))
    assert fingerprint(member) == before


# Every step, once more


@pytest.mark.parametrize("kind", [Invitation, Roster, Delivery, Survivors, Agreements, Opened])
def test_what_comes_from_anybody_but_the_collector_is_refused(kind: Any) -> None:
    gathering = gather(4, MEMBERS)
    true = held_at(gathering, kind)[0]
    member = gathering.members[0]
    for sender in (OUTSIDER.public, gathering.names[1], member.name):
        assert refusal(member, altered(true, sender=sender)) is Fault.AUTH
    assert member.receive(true)


@pytest.mark.parametrize("kind", [Invitation, Roster, Delivery, Survivors, Agreements])
def test_a_second_different_message_burns_the_round(kind: Any) -> None:
    gathering = gather(4, MEMBERS)
    true = held_at(gathering, kind)[0]
    member = gathering.members[0]
    member.receive(true)
    change = {
        Invitation: {"model": OTHER_MODEL},
        Roster: {"root": bytes(32)},
        Delivery: {"boxes": ()},
        Survivors: {"survivors": b"\x07"},
        Agreements: {"signatures": ()},
    }[kind]
    assert refusal(member, altered(true, **change)) is Fault.EQUIVOCATION
    assert member.state is State.BURNT
    for again in (altered(true, **change), altered(true, sender=OUTSIDER.public)):
        assert refusal(member, again) is Fault.ORDER


def test_a_member_takes_no_message_of_its_own_side() -> None:
    gathering = gather(4, MEMBERS)
    boxes = held_at(gathering, Boxes)[0]
    assert refusal(gathering.members[0], altered(boxes, receiver=gathering.names[0])) is Fault.ORDER
