"""Who may be on a roster: a device that knows takes part with nobody else."""

from collections.abc import Collection
from dataclasses import replace

import pytest

from prirec.errors import PeerError
from prirec.protocols.messages import Masked
from prirec.protocols.party import State
from support import messages
from support.rounds import Gathering, gather, terms_of

PEOPLE = 7


def gathered(allowed: Collection[bytes] | None, *, who: int = 0) -> Gathering:
    """A round in which one member knows whom to expect."""
    gathering = gather(PEOPLE, terms_of(floor=4))
    one = gathering.members[who]
    one.task = replace(one.task, allowed=None if allowed is None else frozenset(allowed))
    return gathering


def names() -> list[bytes]:
    return gather(PEOPLE, terms_of(floor=4)).names


@pytest.mark.parametrize("allowed", [None, names(), [*names(), bytes(32)]], ids=["anybody", "all", "all and more"])
def test_a_roster_of_those_who_are_allowed_is_fine(allowed):
    gathering = gathered(allowed)
    wire = gathering.run()
    assert wire.finished[gathering.collector.name].summands == PEOPLE
    assert not wire.refused


@pytest.mark.parametrize("missing", [1, 3, PEOPLE - 1])
def test_a_member_sends_nothing_of_its_own_where_a_stranger_is_listed(missing):
    gathering = gathered(one for at, one in enumerate(names()) if at != missing)
    sent = []

    def watched(message):
        sent.append(message)
        return (0,)

    wire = gathering.run(watched)
    careful = gathering.members[0]
    assert careful.state is State.ENTERED
    assert not [one for one in sent if isinstance(one, Masked) and one.sender == careful.name]
    assert any("no place in this round" in str(fault) for fault in wire.refused)
    assert wire.finished[gathering.collector.name].summands == PEOPLE - 1  # the others knew of no list


def test_a_roster_longer_than_those_who_are_allowed_is_refused_though_no_stranger_is_near():
    careful = gathered(names()).members[0]
    careful._refuse_strangers(PEOPLE, names())
    with pytest.raises(PeerError, match=messages.STRANGER_ON_THE_ROSTER):
        careful._refuse_strangers(PEOPLE + 1, names())


def test_a_member_sends_nothing_of_its_own_where_the_roster_is_shorter_than_it_asks_for():
    """Made-up names would have to be as many."""
    gathering = gathered(None)
    careful = gathering.members[0]
    careful.task = replace(careful.task, fewest=PEOPLE + 1)
    wire = gathering.run()
    assert careful.state is State.ENTERED
    assert any(messages.ROSTER_TOO_SMALL_FOR_THIS_DEVICE in str(fault) for fault in wire.refused)
    assert wire.finished[gathering.collector.name].summands == PEOPLE - 1


def test_a_collector_gives_up_where_fewer_come_than_members_ask_for():
    """Before anybody has masked, or paid for, a vector: such a sum is tried again."""
    gathering = gather(PEOPLE, terms_of(floor=4))
    for party in (gathering.collector, *gathering.members):
        party.task = replace(party.task, fewest=PEOPLE)
    away = gathering.names[0]
    wire = gathering.run(lambda message: () if message.sender == away else (0,))
    assert gathering.collector.state is State.BURNT
    assert not wire.finished
    assert all(member.state is State.ENTERED for member in gathering.members)
