"""One sum under way, with real members: what its result may be, and how messages go out."""

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
import pytest

from prirec.errors import StateError
from prirec.protocols import terms as noise
from prirec.protocols.codec import encode
from prirec.protocols.messages import VERSION, Invitation, Participants, Terms
from prirec.protocols.party import Persist, Send, Stage
from prirec.recommender.conductor import OpenSum, Outbox, Pace
from prirec.recommender.store import Store
from support import messages
from support.low_floors import low_floor
from support.rounds import gather, terms_of
from support.stores import ONE, enter, name, of, said

BOUND = 100


def opened_by(terms: Terms, values: np.ndarray) -> OpenSum:
    """The sum over these vectors, when everybody has come and nobody was lost."""
    round_ = gather(len(values), terms, values=values)
    gathering = OpenSum(round_.collector, pace=Pace(inf, inf))  # type: ignore[arg-type]
    members = {one.name: one for one in round_.members}
    gathering.begin(round_.names)
    while not gathering.over:
        _, sends = gathering.take()
        for send in sends:
            for answer in members[send.message.receiver].receive(send.message):
                if isinstance(answer, Send):
                    gathering.receive([answer.message])
        assert gathering.move(now=0.0)
    return gathering


@pytest.mark.parametrize("many", [10, pytest.param(50, marks=pytest.mark.soak)])
@pytest.mark.parametrize("noisy", [False, True], ids=["plain", "noisy"])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_larger_than_its_members_could_make_it_is_not_used(
    sign: int, noisy: bool, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    low_floor(monkeypatch, many)
    terms = terms_of(bound=BOUND, floor=many, noise=2**20) if noisy else terms_of(bound=BOUND)
    room = noise.noise_bound(terms, many)
    honest = np.full((many, terms.length), sign * BOUND, dtype=np.int64)
    fine = opened_by(terms, honest.view(np.uint64))
    assert fine.opened is not None
    assert (fine.problem, fine.ending.stage) == ("", Stage.OPENED)
    honest[3, 1] += sign * (2 * room + 1)
    wrong = opened_by(terms, honest.view(np.uint64))
    assert wrong.opened is None
    assert wrong.ending.stage is Stage.BURNT
    assert "larger than its members could make it" in wrong.problem


@pytest.mark.parametrize("entry", [2**63, 2**63 - 1, 2**62])
def test_a_sum_at_the_end_of_the_ring_is_not_used(entry: int) -> None:
    values = np.zeros((5, 3), dtype=np.uint64)
    values[0, 0] = entry
    assert opened_by(terms_of(bound=BOUND), values).opened is None


# Messages


class Portions(Store):
    """Counts what is written at a time; is away when it is told so."""

    away = False
    written: list[tuple[int, int, int]]

    def deliver(
        self,
        queued: Sequence[Any],
        *,
        persists: Sequence[Persist] = (),
        inviting: Any = (),
        masking: Any = (),
        holder: bytes | None = None,
    ) -> int:
        if self.away:
            raise StateError("away")
        first = super().deliver(queued, persists=persists, inviting=inviting, masking=masking, holder=holder)
        self.written.append((len(queued), len(persists), len(masking)))
        return first


@pytest.fixture
def portions(url: str):
    with Portions.open(url) as opened:
        opened.written = []
        yield opened


def invitation(at: int) -> Send:
    return Send(Invitation(VERSION, of(), bytes(32), name(at), terms_of(), bytes(32), bytes(32), bytes(64)))


def participants(at: int) -> Send:
    return Send(Participants(VERSION, of(), bytes(32), name(at), b""))


def test_messages_are_written_in_portions_after_what_goes_before_them(portions: Portions) -> None:
    outbox = Outbox(portions, holder=None, batch=2 * len(encode(invitation(1).message)))
    outbox.put([Persist(of(), Stage.ENTERED, ONE)], [invitation(at) for at in range(5)])
    outbox.empty()
    assert portions.written[0][:2] == (2, 1)
    assert [many for many, _, _ in portions.written] == [2, 2, 1]
    assert sum(len(portions.queued(name(at), 0, 10)) for at in range(5)) == 5
    outbox.empty()
    assert len(portions.written) == 3


def test_only_invited_devices_may_post_messages(portions: Portions) -> None:
    outbox = Outbox(portions, holder=None)
    outbox.put([Persist(of(), Stage.ENTERED, ONE)], [invitation(1), participants(2)])
    outbox.empty()
    assert portions.post_messages([said(at, b"sealed") for at in (1, 2, 3)]) == [True, False, False]


def test_what_could_not_be_sent_is_sent_when_the_store_is_back(portions: Portions) -> None:
    outbox = Outbox(portions, holder=None)
    outbox.put([Persist(of(), Stage.ENTERED, ONE)], [invitation(1)])
    portions.away = True
    with pytest.raises(StateError):
        outbox.empty()
    outbox.put([], [invitation(2)])
    portions.away = False
    outbox.empty()
    assert portions.written == [(2, 1, 0)]


def test_with_the_first_participants_it_is_written_that_vectors_may_be_masked(portions: Portions) -> None:
    enter(portions, of(), of(group=1))
    outbox = Outbox(portions, holder=None)
    outbox.put([], [invitation(1)])
    outbox.empty()
    assert [one.masked for one in portions.rounds(2)] == [False, False]
    outbox.put([], [participants(1), participants(2)])
    outbox.empty()
    assert {one.round: one.masked for one in portions.rounds(2)} == {of(): True, of(group=1): False}
    portions.write(Persist(of(), Stage.BURNT, ONE))
    enter(portions, of(attempt=1))  # who had masked stays away, by its own journal
    portions.write(Persist(of(attempt=1), Stage.OPENED, ONE))
    with pytest.raises(StateError, match=messages.ROUND_ENTERED_TWICE):
        enter(portions, of(attempt=2))
