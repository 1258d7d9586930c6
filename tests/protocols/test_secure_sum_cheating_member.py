"""A member that cheats the collector, or an outsider: refused, or the round ends without a sum. Never a wrong sum."""

from typing import Any

import numpy as np
import pytest

from prirec.engines.wire import Wire
from prirec.errors import Fault, PeerError
from prirec.protocols.codec import bitmap, decode_content, encode
from prirec.protocols.meeting import graph_for
from prirec.protocols.messages import (
    VERSION,
    Agreement,
    Box,
    Boxes,
    Delivery,
    Keys,
    Masked,
    Partial,
    Reveal,
    Revealed,
    Secrets,
    Share,
    Vector,
)
from prirec.protocols.moves import State
from prirec.protocols.statements import Delivered, RoundKeys
from prirec.sharing.keys import SigningKey
from support.rounds import (
    OUTSIDER,
    Gathering,
    altered,
    fingerprint,
    gather,
    held_at,
    refusal,
    terms_of,
)

DOUBLE, PADS, SHARES = terms_of("double"), terms_of("pads"), terms_of("shares")


def finish(gathering: Gathering, messages: list[Any]) -> Wire:
    """The round goes on with these messages, faithfully from here."""
    wire = gathering.on(Wire())
    for message in messages:
        wire._send(message)
    wire.run(gathering.collector)
    return wire


def assert_no_sum(gathering: Gathering, wire: Wire) -> None:
    assert not wire.finished
    assert wire.aborted[gathering.collector.name].fault is Fault.ABORTED
    assert gathering.collector.state is State.BURNT


def assert_sum_of(gathering: Gathering, wire: Wire, inside: list[int]) -> None:
    found = wire.finished[gathering.collector.name]
    assert found.total.tolist() == gathering.total(inside).tolist()
    assert found.summands == len(inside)


def signed_keys(true: Keys, who: SigningKey, **changes: Any) -> Keys:
    new = altered(true, **changes)
    said = RoundKeys(VERSION, new.round, new.sender, new.mask_key, new.box_key, new.signing_key)
    return altered(new, signature=who.sign(encode(said)))


# Keys


@pytest.mark.parametrize("terms", [DOUBLE, PADS, SHARES])
@pytest.mark.parametrize("field", ["mask_key", "box_key", "signing_key", "signature"])
def test_keys_that_their_sender_did_not_sign_are_refused(terms: Any, field: str) -> None:
    gathering = gather(3, terms)
    true = held_at(gathering, Keys)[0]
    other = bytes(64) if field == "signature" else OUTSIDER.public
    assert refusal(gathering.collector, altered(true, **{field: other})) is Fault.AUTH
    assert gathering.collector.receive(true) == []


@pytest.mark.parametrize("terms", [DOUBLE, PADS, SHARES])
def test_an_uninvited_sender_is_refused(terms: Any) -> None:
    gathering = gather(3, terms)
    true = held_at(gathering, Keys)[0]
    stranger = signed_keys(true, OUTSIDER, sender=OUTSIDER.public)
    assert refusal(gathering.collector, stranger) is Fault.AUTH


LOW_ORDER = [
    bytes(32),
    b"\1" + bytes(31),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
    bytes.fromhex("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
]


@pytest.mark.parametrize("key", LOW_ORDER)
@pytest.mark.parametrize("field", ["mask_key", "box_key"])
def test_keys_of_low_order_and_bad_signatures_are_refused_in_the_same_words(key: bytes, field: str) -> None:
    gathering = gather(3)
    true = held_at(gathering, Keys)[0]
    texts = set()
    for bad in (signed_keys(true, gathering.members[0]._identity, **{field: key}), altered(true, signature=bytes(64))):
        with pytest.raises(PeerError) as found:
            gathering.collector.receive(bad)
        assert found.value.fault is Fault.AUTH
        texts.add(str(found.value))
    assert len(texts) == 1


def test_a_member_without_a_proper_signing_key_is_as_good_as_lost() -> None:
    gathering = gather(5)
    first, *rest = held_at(gathering, Keys)
    weak = signed_keys(first, gathering.members[0]._identity, signing_key=b"\1" + bytes(31))
    wire = finish(gathering, [weak, *rest])
    assert {fault.fault for fault in wire.refused} == {Fault.AUTH}
    assert_sum_of(gathering, wire, [1, 2, 3, 4])


@pytest.mark.parametrize("kind", [Keys, Boxes, Masked, Agreement, Reveal])
def test_a_second_different_message_is_refused_and_the_first_kept(kind: Any) -> None:
    gathering = gather(4)
    first, *rest = held_at(gathering, kind)
    gathering.collector.receive(first)
    before = fingerprint(gathering.collector)
    field = {Keys: "box_key", Boxes: "boxes", Masked: "sealed", Agreement: "signature", Reveal: "sealed"}[kind]
    value = getattr(rest[0], field)
    with pytest.raises(PeerError, match="EQUIVOCATION"):
        gathering.collector.receive(altered(first, **{field: value}))
    assert fingerprint(gathering.collector) == before
    assert gathering.collector.receive(first) == []  # the same again is the same
    assert fingerprint(gathering.collector) == before
    assert_sum_of(gathering, finish(gathering, rest), [0, 1, 2, 3])


# Boxes


@pytest.mark.parametrize("positions", [(1, 2), (1, 2, 3, 3), (0, 1, 2), (1, 2, 4), (1, 1, 2), (), (1, 2, 2**30)])
def test_boxes_for_others_than_the_neighbours_are_refused(positions: tuple[int, ...]) -> None:
    gathering = gather(4)
    true = held_at(gathering, Boxes)[0]
    bad = altered(true, boxes=tuple(Box(at, b"") for at in positions))
    assert refusal(gathering.collector, bad) is Fault.PARAMS_MISMATCH


def test_boxes_under_another_signature_are_refused() -> None:
    gathering = gather(4)
    first, second, *_ = held_at(gathering, Boxes)
    for signature in (bytes(64), second.signature):
        assert refusal(gathering.collector, altered(first, signature=signature)) is Fault.AUTH


def test_boxes_from_outside_the_roster_are_refused() -> None:
    gathering = gather(4)
    true = held_at(gathering, Boxes)[0]
    assert refusal(gathering.collector, altered(true, sender=OUTSIDER.public)) is Fault.AUTH


def dealt(gathering: Gathering, **wrong: bytes) -> Boxes:
    """The first member's boxes again, with shares of something else."""
    member = gathering.members[0]
    true = next(one for one in held_at(gathering, Boxes) if one.sender == member.name)
    boxes = []
    for at, other in member._meeting.others.items():
        content = Secrets(bytes([at] * 36), bytes([at] * 36), b"")
        assert other.position == at
        boxes.append(Box(at, member.seal_for(member._meeting, at, Boxes, altered(content, **wrong))))
    return altered(true, boxes=tuple(boxes))


@pytest.mark.parametrize("lost", [False, True])
def test_shares_that_were_dealt_wrongly_close_the_sum(lost: bool) -> None:
    """Wrong shares of the seed where their owner survives, of the mask key where it is lost."""
    gathering = gather(5)
    bad = dealt(gathering)
    rest = [one for one in held_at_again(gathering, Boxes) if one.sender != bad.sender]
    wire = gathering.on(Wire(lambda m: () if lost and isinstance(m, Masked) and m.sender == bad.sender else (0,)))
    for message in (bad, *rest):
        wire._send(message)
    wire.run(gathering.collector)
    assert_no_sum(gathering, wire)


def held_at_again(gathering: Gathering, kind: Any) -> list[Any]:
    """What the members of a round that was stopped at this kind have sent already."""
    found = []
    for member in gathering.members:
        for _, actions in member._heard.values():
            found += [action.message for action in actions if isinstance(getattr(action, "message", None), kind)]
    return found


# Vectors


def vector_of(gathering: Gathering, at: int, content: Any, kind: Any = Masked) -> Any:
    member = gathering.members[at]
    sealed = member.seal_for_collector(member._meeting, kind, content)
    signed = (member._signing_key.sign(delivered_to(gathering)),) if kind is Masked else ()
    return kind(VERSION, member.round, member.name, gathering.collector.name, sealed, *signed)


def delivered_to(gathering: Gathering) -> bytes:
    """What goes with a vector: who went on, as the collector has it."""
    collector = gathering.collector
    return encode(Delivered(collector._meeting.mark, bitmap(collector._sharing, size=collector.size)))


@pytest.mark.parametrize("terms", [DOUBLE, PADS])
@pytest.mark.parametrize("octets", [0, 16, 23, 25, 32, 24 * 2])
def test_a_vector_of_another_length_is_refused(terms: Any, octets: int) -> None:
    gathering = gather(4, terms)
    true = held_at(gathering, Masked)
    proof = bytes(32) if terms is DOUBLE else b""
    bad = vector_of(gathering, 0, Vector(bytes(octets), proof))
    assert refusal(gathering.collector, bad) is Fault.PARAMS_MISMATCH
    assert_sum_of(gathering, finish(gathering, true), [0, 1, 2, 3])


@pytest.mark.parametrize(
    ("terms", "proof"), [(DOUBLE, b""), (DOUBLE, bytes(31)), (DOUBLE, bytes(33)), (PADS, bytes(32))]
)
def test_a_vector_without_its_commitment_is_refused(terms: Any, proof: bytes) -> None:
    gathering = gather(4, terms)
    held_at(gathering, Masked)
    bad = vector_of(gathering, 0, Vector(bytes(24), proof))
    assert refusal(gathering.collector, bad) is Fault.PARAMS_MISMATCH


def test_something_else_in_the_place_of_a_vector_is_refused() -> None:
    gathering = gather(4)
    held_at(gathering, Masked)
    bad = vector_of(gathering, 0, Revealed((), ()))
    assert refusal(gathering.collector, bad) is Fault.DECODE


def test_a_commitment_to_another_seed_closes_the_sum() -> None:
    gathering = gather(4)
    first, *rest = held_at(gathering, Masked)
    collector = gathering.collector
    true = decode_content(Vector, collector.unsealed(0, Masked, first.sealed))
    wire = finish(gathering, [vector_of(gathering, 0, altered(true, commitment=bytes(32))), *rest])
    assert_no_sum(gathering, wire)


@pytest.mark.parametrize("terms", [DOUBLE, PADS])
def test_a_vector_whose_sender_was_told_of_other_boxes_is_refused(terms: Any) -> None:
    gathering = gather(4, terms)
    first, second, *_ = held_at(gathering, Masked)
    other = encode(Delivered(gathering.collector._meeting.mark, b"\7"))
    for signature in (bytes(64), second.signature, gathering.members[0]._signing_key.sign(other)):
        assert refusal(gathering.collector, altered(first, signature=signature)) is Fault.AUTH


def test_a_vector_in_the_name_of_another_is_refused() -> None:
    for terms in (DOUBLE, PADS):
        gathering = gather(4, terms)
        first, second, *_ = held_at(gathering, Masked)
        for sender, fault in [(second.sender, Fault.AUTH), (OUTSIDER.public, Fault.AUTH)]:
            assert refusal(gathering.collector, altered(first, sender=sender)) is fault


def test_a_vector_from_one_that_sealed_no_boxes_is_refused() -> None:
    gathering = gather(5)
    _, *rest = held_at(gathering, Boxes)
    wire = gathering.on(Wire(lambda message: () if isinstance(message, Masked) else (0,)))
    for message in rest:
        wire._send(message)
    wire._deliver()
    wire.do(gathering.collector, gathering.collector.advance())
    assert gathering.collector.state is State.VECTORS
    late = vector_of(gathering, 0, Vector(bytes(24), bytes(32)))
    assert refusal(gathering.collector, late) is Fault.AUTH


# Agreements


@pytest.mark.parametrize("forged", [0, 1, 2])
def test_agreements_that_do_not_hold_count_for_nothing(forged: int) -> None:
    """Each device sees for itself whether t have signed: with one forged of five they have, with two they have not."""
    gathering = gather(5)
    true = held_at(gathering, Agreement)
    other = [gathering.members[at]._signing_key.sign(b"another list") for at in range(forged)]
    bad = [altered(one, signature=signature) for one, signature in zip(true, other, strict=False)]
    wire = finish(gathering, [*bad, *true[forged:]])
    if forged <= 5 - graph_for(DOUBLE, 5).threshold:
        assert_sum_of(gathering, wire, [0, 1, 2, 3, 4])
    else:
        assert_no_sum(gathering, wire)


def test_an_agreement_from_outside_the_survivors_is_refused() -> None:
    gathering = gather(4)
    first = held_at(gathering, Agreement)[0]
    assert refusal(gathering.collector, altered(first, sender=OUTSIDER.public)) is Fault.AUTH


# Reveals


def revealed_by(gathering: Gathering, at: int, message: Reveal) -> Revealed:
    return decode_content(Revealed, gathering.collector.unsealed(at, Reveal, message.sealed))


def spoilt(share: bytes) -> bytes:
    """Another value of the field, so that nothing but the secret is wrong."""
    words = np.frombuffer(share, dtype="<u4").copy()
    words[0] = (words[0] + 1) % (2**31 - 1)
    return words.tobytes()


@pytest.mark.parametrize("spoil", [spoilt, lambda share: b"\xff" * 36, lambda share: bytes(36)])
@pytest.mark.parametrize("whose", [0, 1, 3])
def test_a_wrong_share_of_a_seed_closes_the_sum(spoil: Any, whose: int) -> None:
    gathering = gather(4)
    first, *rest = held_at(gathering, Reveal)
    content = revealed_by(gathering, 0, first)
    seeds = tuple(Share(one.position, spoil(one.share)) if one.position == whose else one for one in content.seeds)
    bad = vector_of(gathering, 0, altered(content, seeds=seeds), Reveal)
    assert_no_sum(gathering, finish(gathering, [bad, *rest]))


@pytest.mark.parametrize("spoil", [spoilt, lambda share: b"\xff" * 36, lambda share: bytes(36)])
def test_a_wrong_share_of_a_mask_key_closes_the_sum(spoil: Any) -> None:
    gathering = gather(4)
    held_at(gathering, Masked)
    wire = gathering.on(Wire(lambda message: () if isinstance(message, Reveal) else (0,)))
    for message in held_at_again(gathering, Masked)[:3]:
        wire._send(message)
    wire._deliver()
    for _ in range(2):
        wire.do(gathering.collector, gathering.collector.advance())
        wire._deliver()
    assert gathering.collector.state is State.REVEALS
    first, *rest = held_at_again(gathering, Reveal)
    content = revealed_by(gathering, 0, first)
    assert [one.position for one in content.mask_keys] == [3]
    keys = tuple(Share(one.position, spoil(one.share)) for one in content.mask_keys)
    bad = vector_of(gathering, 0, altered(content, mask_keys=keys), Reveal)
    assert_no_sum(gathering, finish(gathering, [bad, *rest]))


@pytest.mark.parametrize(
    "change",
    [
        lambda c: {"seeds": c.seeds[1:]},
        lambda c: {"seeds": (*c.seeds, c.seeds[0])},
        lambda c: {"seeds": (*c.seeds[1:], c.seeds[1])},
        lambda c: {"mask_keys": (c.seeds[0],)},
        lambda c: {"seeds": c.seeds[1:], "mask_keys": c.seeds[:1]},
        lambda c: {"seeds": (*c.seeds, Share(9, bytes(36)))},
        lambda c: {"seeds": ()},
    ],
)
def test_shares_of_other_secrets_than_called_for_are_refused(change: Any) -> None:
    gathering = gather(4)
    true = held_at(gathering, Reveal)
    content = revealed_by(gathering, 0, true[0])
    bad = vector_of(gathering, 0, altered(content, **change(content)), Reveal)
    assert refusal(gathering.collector, bad) is Fault.PARAMS_MISMATCH
    assert_sum_of(gathering, finish(gathering, true), [0, 1, 2, 3])


def test_shares_from_one_that_did_not_agree_are_refused() -> None:
    gathering = gather(4)
    _, *rest = held_at(gathering, Agreement)
    wire = gathering.on(Wire(lambda message: () if isinstance(message, Reveal) else (0,)))
    for message in rest:
        wire._send(message)
    wire._deliver()
    wire.do(gathering.collector, gathering.collector.advance())
    assert gathering.collector.state is State.REVEALS
    assert refusal(gathering.collector, vector_of(gathering, 0, Revealed((), ()), Reveal)) is Fault.AUTH


# The order of things


def test_a_collector_takes_nothing_out_of_turn_and_nothing_of_its_own_side() -> None:
    late = {kind: held_at(gather(4), kind)[0] for kind in (Keys, Boxes, Masked, Agreement, Reveal)}
    for kind in late:
        gathering = gather(4)
        held_at(gathering, kind)
        for other, message in late.items():
            if other is not kind:
                said = (other, message.sender) in gathering.collector._heard
                expected = Fault.ORDER if not said else None
                if expected:
                    assert refusal(gathering.collector, message) is expected
    gathering = gather(4)
    delivery = held_at(gathering, Delivery)[0]
    turned = altered(delivery, sender=delivery.receiver, receiver=delivery.sender)
    assert refusal(gathering.collector, turned) is Fault.ORDER


def test_a_partial_sum_of_algorithm_1_has_no_place_in_a_secure_sum() -> None:
    gathering = gather(4, PADS)
    true = held_at(gathering, Masked)[0]
    partial = Partial(VERSION, true.round, true.sender, true.receiver, true.sealed)
    assert refusal(gathering.collector, partial) is Fault.ORDER
