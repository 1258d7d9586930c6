"""A member that cheats the collector, or an outsider: refused, or the round ends without a sum. Never a wrong sum."""

from typing import Any

import pytest

from prirec.engines.protocol import Wire
from prirec.errors import Fault, PeerError
from prirec.protocols.codec import ParticipantList, RoundKeys, decode_content, encode
from prirec.protocols.messages import (
    COMMITMENT,
    VERSION,
    Agreement,
    Box,
    Boxes,
    Delivery,
    Keys,
    Masked,
    Partial,
    Receipt,
    Reveal,
    Revealed,
    Secrets,
    Vector,
)
from prirec.protocols.party import State
from prirec.sharing.keys import SigningKey
from support import messages
from support.cheating import assert_no_sum, assert_sum_of, finish, go_on_without, held_at_again, vector_of
from support.rounds import OUTSIDER, Gathering, altered, fingerprint, gather, held_at, refusal, terms_of

DOUBLE, PADS, SHARES = terms_of("double"), terms_of("pads"), terms_of("shares")


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


@pytest.mark.parametrize("kind", [Keys, Boxes, Receipt, Masked, Agreement, Reveal])
def test_a_second_different_message_is_refused_and_the_first_kept(kind: Any) -> None:
    gathering = gather(4)
    first, *rest = held_at(gathering, kind)
    gathering.collector.receive(first)
    before = fingerprint(gathering.collector)
    field = {Keys: "box_key", Boxes: "boxes", Receipt: "unusable", Agreement: "signature"}.get(kind, "sealed")
    value = (2,) if kind is Receipt else getattr(rest[0], field)
    with pytest.raises(PeerError, match=messages.EQUIVOCATION):
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


@pytest.mark.parametrize("change", [lambda c: c[1:], lambda c: c[COMMITMENT:], lambda c: c + c[:COMMITMENT]])
def test_boxes_without_a_commitment_to_each_share_are_refused(change: Any) -> None:
    gathering = gather(4)
    true = held_at(gathering, Boxes)[0]
    assert refusal(gathering.collector, altered(true, commitments=change(true.commitments))) is Fault.PARAMS_MISMATCH


@pytest.mark.parametrize("unusable", [(0,), (4,), (1, 2**30)])
def test_a_receipt_for_boxes_that_were_not_delivered_is_refused(unusable: tuple[int, ...]) -> None:
    gathering = gather(4)
    true = held_at(gathering, Receipt)[0]
    assert refusal(gathering.collector, altered(true, unusable=unusable)) is Fault.PARAMS_MISMATCH
    assert refusal(gathering.collector, altered(true, sender=OUTSIDER.public)) is Fault.AUTH


def dealt(gathering: Gathering) -> Boxes:
    """The first member's boxes again, with commitments to shares that are of no secret: its neighbours cannot tell."""
    member: Any = gathering.members[0]
    true = next(one for one in held_at(gathering, Boxes) if one.sender == member.name)
    boxes, commitments = [], []
    for at, other in member._view.neighbours.items():
        content = Secrets(bytes([at] * 36), bytes([at] * 36))
        assert other.position == at
        boxes.append(Box(at, member.seal(other.name, Boxes, content)))
        commitments.append(member._commitments(content, owner=0, holder=at))
    own = true.commitments[-COMMITMENT:]
    return altered(true, boxes=tuple(boxes), commitments=b"".join([*commitments, own]))


@pytest.mark.parametrize("lost", [False, True])
def test_shares_of_no_secret_close_the_sum_and_their_owner_is_named(lost: bool) -> None:
    """Wrong shares of the seed where their owner survives, of the mask key where it is lost."""
    gathering = gather(5)
    bad = dealt(gathering)
    rest = [one for one in held_at_again(gathering, Boxes) if one.sender != bad.sender]
    wire = gathering.on(Wire(lambda m: () if lost and isinstance(m, Masked) and m.sender == bad.sender else (0,)))
    for message in (bad, *rest):
        wire._send(message)
    wire.run(gathering.collector)
    assert_no_sum(gathering, wire)
    assert [one.name for one in wire.blamed] == [bad.sender]


# Vectors


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
    true = decode_content(Vector, collector.unseal(first.sender, Masked, first.sealed))
    wire = finish(gathering, [vector_of(gathering, 0, altered(true, commitment=bytes(32))), *rest])
    assert_no_sum(gathering, wire)
    assert [one.name for one in wire.blamed] == [first.sender]


@pytest.mark.parametrize("terms", [DOUBLE, PADS])
def test_a_vector_whose_sender_received_another_participant_list_is_refused(terms: Any) -> None:
    gathering = gather(4, terms)
    first, second, *_ = held_at(gathering, Masked)
    other = encode(ParticipantList(gathering.collector._view.digest, b"\7"))
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
    go_on_without(Masked, gathering, rest, steps=2)
    assert gathering.collector.state is State.VECTORS
    late = vector_of(gathering, 0, Vector(bytes(24), bytes(32)))
    assert refusal(gathering.collector, late) is Fault.AUTH


# The order of things


def test_a_collector_takes_nothing_out_of_turn_and_nothing_of_its_own_side() -> None:
    late = {kind: held_at(gather(4), kind)[0] for kind in (Keys, Boxes, Receipt, Masked, Agreement, Reveal)}
    for kind in late:
        gathering = gather(4)
        held_at(gathering, kind)
        for other, message in late.items():
            if other is not kind:
                said = (other, message.sender) in gathering.collector._answered
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
