"""A member that cheats with signatures on the survivors, or with shares: the sum stays closed. Never a wrong sum."""

from typing import Any

import numpy as np
import pytest

from prirec.errors import Fault
from prirec.protocols.codec import decode_content
from prirec.protocols.messages import Agreement, Masked, Reveal, Revealed, Share
from prirec.protocols.party import State
from prirec.protocols.roster import graph_for
from support.cheating import assert_no_sum, assert_sum_of, finish, go_on_without, held_at_again, vector_of
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
    go_on_without(Reveal, gathering, held_at_again(gathering, Masked)[:3], steps=2)
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
    go_on_without(Reveal, gathering, rest)
    assert gathering.collector.state is State.REVEALS
    assert refusal(gathering.collector, vector_of(gathering, 0, Revealed((), ()), Reveal)) is Fault.AUTH
