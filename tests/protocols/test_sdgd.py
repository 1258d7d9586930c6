"""Algorithm 1: exact, private to the last bit of a view, with the messages and bytes of the paper."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from prirec.engines.protocol import Wire
from prirec.errors import Fault, UsageError
from prirec.protocols import roster
from prirec.protocols.codec import encode, seal
from prirec.protocols.messages import VERSION, Agreement, Masked, Partial, Revealed, Roster, ShareOf, Vector, step
from prirec.protocols.party import Persist, Stage, State
from prirec.protocols.sdgd import Neighbour, Receiver
from support import messages
from support.ring_views import INPUTS, all_choices, distribution, in_ring, tell_apart
from support.rounds import (
    OUTSIDER,
    RECOMMENDER,
    Gathering,
    altered,
    gather,
    held_at,
    identity,
    make_member,
    people,
    refusal,
    sends,
    task_of,
    terms_of,
)

SHARES = terms_of("shares")


# Views, over Z_4 in all cases. One round holds them all: each column of the vectors is one choice of all pads.

PADS = all_choices(6).reshape(3, 2, -1)  # (N, N - 1, 4^6)
ENTROPY = [bytes([at + 1] * 96) for at in range(3)]
NAMES = [one.public for one in people(3)]
Contents = dict[tuple[bytes, bytes], np.ndarray]


@pytest.fixture(scope="module")
def seen() -> dict[tuple[int, ...], Contents]:
    """For each of the 64 inputs of three neighbours: what went from whom to whom, in all 4096 cases."""
    return {values: contents(values, PADS) for values in INPUTS}


def contents(values: tuple[int, ...], pads: np.ndarray) -> Contents:
    """Every vector that real parties sealed, by sender and receiver, in a round with these pads."""
    cases = pads.shape[2]
    task = task_of(terms_of("shares", length=cases, floor=3))
    rng, found = np.random.default_rng(0), {}

    def watched(agreed: bytes, header: Any, content: Vector) -> bytes:
        found[header.sender, header.receiver] = np.frombuffer(content.values, dtype=np.uint64)
        return seal(agreed, header, content)

    members = [
        Neighbour(task, identity=who, value=np.full(cases, in_ring(value)), pads=rows, entropy=entropy)
        for who, value, rows, entropy in zip(people(3), values, pads, ENTROPY, strict=True)
    ]
    collector = Receiver(task, identity=RECOMMENDER, entropy=rng.bytes(32))
    vectors = np.array([one._value for one in members])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(roster, "seal", watched)
        wire = Gathering(task, collector, members, vectors).run()
    assert (wire.finished[collector.name].total == vectors.sum(axis=0, dtype=np.uint64)).all()
    return found


def view(found: Contents, *, of: Iterable[int], receiver: bool, pads: np.ndarray) -> np.ndarray:
    """What these neighbours, and the receiver or not, know together: their pads and all that came to them."""
    own = [row for at in of for row in pads[at]]
    readers = {NAMES[at] for at in of} | ({RECOMMENDER.public} if receiver else set())
    came = [vector for (_, to), vector in sorted(found.items()) if to in readers]
    return distribution([*own, *came])


@pytest.mark.parametrize("of", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)])
def test_neighbours_learn_nothing_of_the_others_not_even_two_together(of: tuple[int, ...], seen: Any) -> None:
    """Total variation 0 between any two inputs that agree in the colluders' own."""
    views = {values: view(found, of=of, receiver=False, pads=PADS) for values, found in seen.items()}
    assert not tell_apart(views, lambda values: tuple(values[at] for at in of))[0]


def test_the_receiver_learns_the_sum_and_nothing_else(seen: Any) -> None:
    views = {values: view(found, of=(), receiver=True, pads=PADS) for values, found in seen.items()}
    assert tell_apart(views, lambda values: sum(values) % 4) == (False, True)


@pytest.mark.parametrize("of", [0, 1, 2])
def test_the_receiver_with_one_neighbour_learns_the_sum_of_the_others(of: int, seen: Any) -> None:
    views = {values: view(found, of=(of,), receiver=True, pads=PADS) for values, found in seen.items()}
    assert not tell_apart(views, lambda values: (values[of], sum(values) % 4))[0]


def test_the_enumeration_notices_pads_that_are_used_twice(seen: Any) -> None:
    """The control: from two rounds under the same pads the receiver learns how each single model moved."""
    still, moved = (0, 0, 0), (1, 3, 0)
    to = RECOMMENDER.public
    views = {
        after: distribution([seen[values][name, to] for values in (still, after) for name in NAMES])
        for after in (still, moved)
    }
    assert tell_apart(views, lambda values: sum(values) % 4)[0]


def test_the_enumeration_notices_a_pad_of_zeros() -> None:
    pads = PADS.copy()
    pads[2, 0] = 0
    views = {v: view(contents(v, pads), of=(0, 1), receiver=False, pads=pads) for v in [(0, 0, 0), (0, 0, 1)]}
    assert tell_apart(views, lambda values: values[:2])[0] is False  # the other pad still hides the remainder
    pads[2, 1] = 0
    shown = {v: view(contents(v, pads), of=(0, 1), receiver=True, pads=pads) for v in [(0, 1, 3), (0, 2, 2)]}
    assert tell_apart(shown, lambda values: sum(values) % 4)[0]


# Messages and bytes


def overhead(length: int, kind: type[ShareOf] | type[Partial] | type[Masked]) -> int:
    """What a message weighs beyond its payload: names, round, tag and signature, alike for all of a kind."""
    vector = Vector(bytes(8 * length))
    sealed = len(encode(vector)) + 16
    of = task_of(SHARES).round
    signature = (bytes(64),) if kind is Masked else ()
    return len(encode(kind(VERSION, of, bytes(32), bytes(32), bytes(sealed), *signature))) - 8 * length


@pytest.mark.parametrize("length", [5, 90, 445])
@pytest.mark.parametrize("many", [2, 5, 10])
def test_algorithm_1_takes_the_messages_and_bytes_of_the_paper(many: int, length: int) -> None:
    traffic = gather(many, terms_of("shares", length=length)).run().traffic
    assert traffic.messages[step(ShareOf)] == many * (many - 1)
    assert traffic.messages[step(Partial)] == many
    each = {kind: overhead(length, kind) for kind in (ShareOf, Partial)}
    assert traffic.octets[step(ShareOf)] == many * (many - 1) * (length * 8 + each[ShareOf])
    assert traffic.octets[step(Partial)] == many * (length * 8 + each[Partial])
    assert set(traffic.messages) == {"invitation", "keys", "roster", "share", "partial"}


@pytest.mark.parametrize("length", [5, 90, 445])
@pytest.mark.parametrize("many", [2, 5, 10])
def test_under_pads_the_same_sum_takes_one_vector_each(many: int, length: int) -> None:
    traffic = gather(many, terms_of("pads", length=length)).run().traffic
    assert traffic.messages[step(Masked)] == many
    assert traffic.octets[step(Masked)] == many * (length * 8 + overhead(length, Masked))


def test_the_overhead_is_the_same_for_every_message_of_a_size() -> None:
    """Whoever watches the wire learns nothing from lengths."""
    sizes = set()
    for seed in range(3):
        gathering, lengths = gather(4, SHARES, seed=seed), Counter[tuple[str, int]]()
        gathering.run(
            lambda message, lengths=lengths: lengths.update([(step(type(message)), len(encode(message)))]) or (0,)
        )
        sizes |= {(kind, size) for kind, size in lengths if kind in ("share", "partial", "keys", "roster")}
    assert len(sizes) == 4
    assert overhead(90, ShareOf) < 200


# Order, and what is refused


def test_a_share_may_overtake_the_roster() -> None:
    gathering = gather(3, SHARES)
    late = gathering.names[0]
    wire = gathering.run(lambda message: (50,) if isinstance(message, Roster) and message.receiver == late else (0,))
    assert not wire.refused
    assert wire.finished[gathering.collector.name].total.tolist() == gathering.total().tolist()


def shared(many: int = 3) -> tuple[Gathering, list[ShareOf]]:
    gathering = gather(many, SHARES)
    return gathering, held_at(gathering, ShareOf)


def between(shares: list[ShareOf], sender: bytes, receiver: bytes) -> ShareOf:
    return next(one for one in shares if (one.sender, one.receiver) == (sender, receiver))


def test_the_pads_are_written_down_as_used_before_a_share_leaves() -> None:
    gathering = gather(3, SHARES)
    roster = held_at(gathering, Roster)[0]
    first, *rest = gathering.members[0].receive(roster)
    assert isinstance(first, Persist)
    assert first.stage is Stage.MASKED
    assert len(rest) == 2


def test_a_share_that_does_not_open_ends_the_round() -> None:
    gathering, shares = shared()
    a, b, c = gathering.names
    true = between(shares, b, a)
    for bad in (altered(true, sealed=true.sealed[:-1] + b"\0"), altered(between(shares, c, a), sender=b)):
        gathering, _ = shared()
        member = gathering.members[0]
        assert refusal(member, bad) is Fault.AUTH
        assert member.state is State.BURNT
        assert refusal(member, true) is Fault.ORDER


@pytest.mark.parametrize("content", [Vector(bytes(23)), Vector(b""), Vector(bytes(32)), Revealed((), ())])
def test_a_malformed_share_ends_the_round(content: Any) -> None:
    gathering, _ = shared()
    member, other = gathering.members[:2]
    header = other._view.header(sender=other.name, receiver=member.name, kind=ShareOf)
    sealed = seal(other._box_key.agree(member._box_key.public), header, content)
    bad = ShareOf(VERSION, member.round, other.name, member.name, sealed)
    assert refusal(member, bad) in (Fault.PARAMS_MISMATCH, Fault.DECODE)
    assert member.state is State.BURNT


def test_a_bad_share_that_overtakes_the_roster_ends_the_round_before_anything_leaves() -> None:
    gathering = gather(3, SHARES)
    roster = held_at(gathering, Roster)[0]
    member, other = gathering.members[:2]
    bad = ShareOf(VERSION, member.round, other.name, member.name, b"no box")
    assert member.receive(bad) == []
    assert refusal(member, roster) is Fault.AUTH
    assert member.state is State.BURNT


def test_shares_from_outside_are_refused_or_left_aside() -> None:
    gathering = gather(3, SHARES)
    roster = held_at(gathering, Roster)[0]
    member = gathering.members[0]
    stranger = ShareOf(VERSION, member.round, OUTSIDER.public, member.name, b"")
    assert member.receive(stranger) == []  # nobody knows yet who is in
    assert len(sends(member.receive(roster))) == 2
    assert refusal(member, altered(stranger, sender=identity(2).public)) is Fault.AUTH
    assert member.state is State.COLLECTING


def test_strangers_cannot_fill_a_neighbours_memory() -> None:
    gathering = gather(3, SHARES)
    held_at(gathering, Roster)
    member = gathering.members[0]
    for number in range(2):
        assert member.receive(ShareOf(VERSION, member.round, identity(number + 5).public, member.name, b"")) == []
    third = ShareOf(VERSION, member.round, identity(9).public, member.name, b"")
    assert refusal(member, third) is Fault.ORDER


def test_a_second_different_share_burns_the_round_and_the_same_one_changes_nothing() -> None:
    gathering, shares = shared()
    a, b, c = gathering.names
    member = gathering.members[0]
    assert member.receive(between(shares, b, a)) == []
    assert member.receive(between(shares, b, a)) == []
    assert refusal(member, altered(between(shares, b, a), sealed=b"another")) is Fault.EQUIVOCATION
    assert refusal(member, between(shares, c, a)) is Fault.ORDER


def test_a_roster_of_another_size_than_the_pads_are_for_is_refused() -> None:
    four = gather(4, SHARES)
    lists = held_at(four, Roster)[0]
    rng = np.random.default_rng(0)
    task = four.members[0].task
    three = task_of(altered(task.terms, floor=3))
    for_three = make_member(three, people(4)[0], np.zeros(3, dtype=np.uint64), rng)
    collector = Receiver(three, identity=RECOMMENDER, entropy=rng.bytes(32))
    members = [make_member(three, who, np.zeros(3, dtype=np.uint64), rng) for who in people(4)[1:]]
    gathering = Gathering(three, collector, [for_three, *members], np.zeros((4, 3), dtype=np.uint64))
    roster = held_at(gathering, Roster)[0]
    assert len(roster.listed) == len(lists.listed) == 4
    assert refusal(for_three, roster) is Fault.PARAMS_MISMATCH


def test_the_receiver_refuses_what_is_no_partial_sum() -> None:
    gathering = gather(3, SHARES)
    first, second, third = held_at(gathering, Partial)
    receiver, member = gathering.collector, gathering.members[0]
    assert refusal(receiver, altered(first, sender=OUTSIDER.public)) is Fault.AUTH
    assert refusal(receiver, altered(first, sealed=second.sealed)) is Fault.AUTH
    for content, fault in [(Vector(bytes(16)), Fault.PARAMS_MISMATCH), (Revealed((), ()), Fault.DECODE)]:
        sealed = member.seal(member.task.collector, Partial, content)
        assert refusal(receiver, altered(first, sealed=sealed)) is fault
    assert receiver.waiting == frozenset(gathering.names)
    assert receiver.receive(first) == receiver.receive(first) == []
    assert receiver.waiting == frozenset(gathering.names[1:])
    assert refusal(receiver, altered(first, sealed=b"")) is Fault.EQUIVOCATION
    wire = gathering.on(Wire())
    for message in (second, third):
        wire._send(message)
    wire.run(receiver)
    assert wire.finished[receiver.name].total.tolist() == gathering.total().tolist()
    assert receiver.waiting == frozenset()


def test_each_side_refuses_what_has_no_place_in_algorithm_1() -> None:
    gathering = gather(3, SHARES)
    held_at(gathering, Partial)
    a, to, of = gathering.names[0], gathering.collector.name, gathering.task.round
    assert refusal(gathering.collector, Agreement(VERSION, of, a, to, bytes(64))) is Fault.ORDER
    assert refusal(gathering.members[0], Agreement(VERSION, of, to, a, bytes(64))) is Fault.ORDER


def test_only_fitting_terms_make_a_neighbour_or_a_receiver() -> None:
    value, entropy, who = np.zeros(3, dtype=np.uint64), bytes(96), people(1)[0]
    for terms, shape in [
        (terms_of("pads"), (1, 3)),
        (terms_of("shares", floor=3), (1, 3)),
        (terms_of("shares", floor=3), (2, 2)),
    ]:
        with pytest.raises(UsageError, match=messages.PADS_MISSING):
            Neighbour(task_of(terms), identity=who, value=value, pads=np.zeros(shape, dtype=np.uint64), entropy=entropy)
    for terms in (terms_of("pads"), terms_of("shares", floor=1)):
        with pytest.raises(UsageError, match=messages.ONE_NEIGHBOUR):
            Receiver(task_of(terms), identity=RECOMMENDER, entropy=bytes(32))


def test_a_receiver_whose_round_is_over_has_no_next_step() -> None:
    gathering = gather(3, SHARES)
    gathering.run()
    with pytest.raises(UsageError, match=messages.ROUND_IS_OVER):
        gathering.collector.advance()
