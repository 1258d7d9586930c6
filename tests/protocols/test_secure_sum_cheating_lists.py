"""A collector that cheats in who survived and who agreed: no share is given out, or the round is burnt."""

from typing import Any

import pytest

from prirec.errors import Fault
from prirec.protocols.codec import ParticipantList, bitmap, decode_content, encode
from prirec.protocols.messages import VERSION, Agreements, Participants, Reveal, Revealed, Signed, Survivors
from prirec.protocols.party import Aborted, Persist, Stage, State
from prirec.protocols.roster import graph_for
from prirec.protocols.secure_sum import Member
from support import cheating
from support.cheating import DEFAULT, SPARSE, without
from support.rounds import OUTSIDER, Gathering, altered, gather, held_at, refusal, sends, terms_of

# Survivors


def settled(terms: Any = DEFAULT, many: int = 4) -> tuple[Gathering, Member, Survivors]:
    gathering = gather(many, terms)
    return gathering, gathering.members[0], held_at(gathering, Survivors)[0]


def test_survivors_below_the_fewest_end_the_round() -> None:
    for terms, who in [(DEFAULT, {0, 1}), (terms_of("double", lost=0), {0, 1, 2}), (DEFAULT, {0})]:
        _, member, true = settled(terms)
        assert refusal(member, altered(true, survivors=bitmap(who, size=4))) is Fault.ABORTED
        assert member.state is State.BURNT


def test_survivors_without_this_device_are_refused() -> None:
    _, member, true = settled()
    assert refusal(member, altered(true, survivors=bitmap({1, 2, 3}, size=4))) is Fault.PARAMS_MISMATCH
    assert sends(member.receive(true))


def test_survivors_who_never_took_part_are_refused() -> None:
    gathering, *_ = cheating.told(many=5)
    for member, named in zip(gathering.members[:4], held_at(gather(5, DEFAULT), Participants), strict=False):
        member.receive(without(4, named, many=5))
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
        Signed(at, one._signing_key.sign(encode(ParticipantList(one._view.digest, one._participants))))
        for at, one in enumerate(members)
        if at in survivors - {to}
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
    gathering = gather(4, DEFAULT)
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
    gathering = gather(many, DEFAULT)
    true = held_at(gathering, Agreements)[0]
    return gathering, gathering.members[0], true.signatures, graph_for(DEFAULT, many).threshold - 1


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


def test_lists_of_participants_that_differ_open_nothing() -> None:
    """Some are told that the last one does not mask: their vectors leave, but nobody gives out a share."""
    gathering = gather(5, DEFAULT)
    for at, true in enumerate(held_at(gathering, Participants)[:4]):
        gathering.members[at].receive(without(4, true, many=5) if at < 2 else true)
    signed = signatures_on(gathering, {0, 1, 2, 3}, of={0, 1, 2, 3})
    for at in range(4):
        rest = tuple(one for one in signed if one.position != at)
        assert refusal(gathering.members[at], agreements(gathering, rest, to=at)) is Fault.ABORTED
        assert gathering.members[at].state is State.AGREED


@pytest.mark.parametrize("change", ["left out", "forged", "exchanged", "of another list"])
def test_on_a_sparse_graph_survivors_need_what_every_neighbour_signed(change: str) -> None:
    """Two arcs of the ring that were told of different participants could each have t signatures of their own."""
    gathering = gather(66, SPARSE)
    true, member = held_at(gathering, Survivors)[0], gathering.members[0]
    first, second, *rest = true.signatures
    other = encode(ParticipantList(member._view.digest, bitmap(range(65), size=66)))
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
    gathering = gather(4, DEFAULT)
    held_at(gathering, Survivors)
    signed = signatures_on(gathering, {0, 1, 2}, of={0, 1, 2})
    member, collector = gathering.members[0], gathering.collector
    (reveal,) = sends(member.receive(agreements(gathering, signed[1:])))
    content = decode_content(Revealed, collector.unseal(reveal.sender, Reveal, reveal.sealed))
    assert sorted(share.position for share in content.seeds) == [0, 1, 2]
    assert [share.position for share in content.mask_keys] == [3]
    assert content.mask_keys[0].share == member._held[3].mask_key
    assert all(share.share != member._held[3].seed for share in (*content.seeds, *content.mask_keys))
