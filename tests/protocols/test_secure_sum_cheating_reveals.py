"""A member that cheats with signatures on the survivors, or with shares: what is wrong does not count, and as long as
enough is left the sum is opened all the same. Never a wrong sum."""

from collections.abc import Container
from typing import Any

import numpy as np
import pytest

from prirec.errors import Fault
from prirec.protocols.codec import decode_content
from prirec.protocols.messages import Agreement, Masked, Reveal, Revealed, Share
from prirec.protocols.party import State
from prirec.protocols.roster import graph_for
from support.cheating import SPARSE, assert_no_sum, assert_sum_of, finish, go_on_without, held_at_again, vector_of
from support.rounds import OUTSIDER, Gathering, altered, gather, held_at, refusal, terms_of

DOUBLE = terms_of("double")


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
    return decode_content(Revealed, gathering.collector.unseal(message.sender, Reveal, message.sealed))


def spoilt(share: bytes) -> bytes:
    """Another value of the field, so that nothing but the secret is wrong."""
    words = np.frombuffer(share, dtype="<u4").copy()
    words[0] = (words[0] + 1) % (2**31 - 1)
    return words.tobytes()


SPOIL = pytest.mark.parametrize("spoil", [spoilt, lambda share: b"\xff" * 36, lambda share: bytes(36)])


def with_wrong_shares(gathering: Gathering, at: int, message: Reveal, spoil: Any, whose: Container[int]) -> Reveal:
    """What a member reveals, with other shares of these members' secrets."""
    content = revealed_by(gathering, at, message)
    both = [
        tuple(Share(one.position, spoil(one.share)) if one.position in whose else one for one in shares)
        for shares in (content.seeds, content.mask_keys)
    ]
    changed: Reveal = vector_of(gathering, at, Revealed(*both), Reveal)
    assert changed.sealed != message.sealed
    return changed


@SPOIL
@pytest.mark.parametrize("whose", [{0}, {1}, {3}, range(5)])
def test_a_wrong_share_of_a_seed_is_put_aside_and_its_giver_named(spoil: Any, whose: Any) -> None:
    gathering = gather(5)
    first, *rest = held_at(gathering, Reveal)
    wire = finish(gathering, [with_wrong_shares(gathering, 0, first, spoil, whose), *rest])
    assert_sum_of(gathering, wire, [0, 1, 2, 3, 4])
    assert [(one.name, one.why[:2]) for one in wire.blamed] == [(first.sender, f"{len(whose)} ")]


@SPOIL
def test_a_wrong_share_of_a_mask_key_is_put_aside_and_its_giver_named(spoil: Any) -> None:
    gathering = gather(7)
    held_at(gathering, Masked)
    go_on_without(Reveal, gathering, held_at_again(gathering, Masked)[:6], steps=2)
    assert gathering.collector.state is State.REVEALS
    first, *rest = held_at_again(gathering, Reveal)
    assert [one.position for one in revealed_by(gathering, 0, first).mask_keys] == [6]
    wire = finish(gathering, [with_wrong_shares(gathering, 0, first, spoil, {6}), *rest])
    assert_sum_of(gathering, wire, [0, 1, 2, 3, 4, 5])
    assert [one.name for one in wire.blamed] == [first.sender]


@pytest.mark.parametrize(("many", "terms"), [(4, DOUBLE), (9, DOUBLE), (12, terms_of("double")), (70, SPARSE)])
def test_as_many_may_give_out_wrong_shares_as_may_be_silent(many: int, terms: Any) -> None:
    """Up to n - t of a complete graph; with one more the sum stays closed, and all of them are named."""
    graph = graph_for(terms, many)
    spare = many - graph.threshold if graph.is_complete else graph.degree + 1 - graph.threshold
    for liars in (spare, spare + 1) if graph.is_complete else (spare,):
        gathering = gather(many, terms)
        true = held_at(gathering, Reveal)
        bad = [with_wrong_shares(gathering, at, true[at], spoilt, range(many)) for at in range(liars)]
        wire = finish(gathering, [*bad, *true[liars:]])
        assert [one.name for one in wire.blamed] == [one.sender for one in bad]
        if liars > spare:
            assert_no_sum(gathering, wire)
        else:
            assert wire.finished.keys() == {gathering.collector.name}
            assert all(one.total.tolist() == gathering.total().tolist() for one in wire.finished.values())


def test_honest_members_are_not_named() -> None:
    gathering = gather(5)
    assert gathering.run().blamed == []


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
    go_on_without(Reveal, gathering, rest)
    assert gathering.collector.state is State.REVEALS
    assert refusal(gathering.collector, vector_of(gathering, 0, Revealed((), ()), Reveal)) is Fault.AUTH
