"""A device is killed at every moment of a round: the others get the sum of what arrived or none, and the device knows
after its death what it may still say.

The device is a process with a real journal and real entropy; the others and the collector live here, keep no journal
of what was before, and answer whatever they are asked. No clock is asked by anyone.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest

from prirec.device.store import Store
from prirec.protocols.messages import Keys, Masked, Participants
from prirec.protocols.party import Action, Persist, Send, Stage
from support.kill_moments import DEATHS, EVERYONE, FIRST, LIVES, TERMS, dead, deeds_before, held_round, of, summed
from support.restarted_device import MANY, Device, Nursery
from support.rounds import gather, held_at


@pytest.mark.parametrize("kind", LIVES)
def test_the_table_of_moments_leaves_none_out(nursery: Nursery, folder: Path, kind: str) -> None:
    device = Device(nursery, folder / "journal", TERMS[kind], at=1)
    device.start()
    assert summed(device, held_round(device, FIRST)) == EVERYONE
    assert tuple(map(tuple, device.deeds)) == LIVES[kind]


@pytest.mark.parametrize(("kind", "moment"), DEATHS)
def test_the_others_get_the_sum_of_what_arrived_or_none(nursery: Nursery, folder: Path, kind: str, moment: int) -> None:
    device, meeting = dead(nursery, folder, kind, moment)
    done = deeds_before(kind, moment)
    arrived = ("Partial" if kind == "shares" else "Masked") in done
    without = EVERYONE - {1} if device.terms.method == "double" else None
    assert summed(device, meeting) == (EVERYONE if arrived else without)
    stages = [Stage[deed] for deed in done if deed in Stage.__members__]
    with Store.open(device.journal) as store:
        entry = store.entry(FIRST)
    assert (entry is None) == (not stages)
    if entry is not None:
        assert (entry.round, entry.stage, entry.masked) == (FIRST, stages[-1], Stage.MASKED in stages)


@pytest.mark.parametrize(("kind", "moment"), DEATHS)
def test_after_a_restart_a_number_is_open_until_it_was_masked_and_the_next_always(
    nursery: Nursery, folder: Path, kind: str, moment: int
) -> None:
    device, _ = dead(nursery, folder, kind, moment)
    done = deeds_before(kind, moment)
    for attempt, takes_part in ((0, "ENTERED" not in done), (1, "ENTERED" in done and "MASKED" not in done)):
        device.start()
        meeting = held_round(device, of(1, attempt=attempt))
        assert (1 in meeting.senders(Keys)) == takes_part
        assert (1 in (summed(device, meeting) or ())) == takes_part
    device.start()
    assert summed(device, held_round(device, of(2))) == EVERYONE


@pytest.mark.parametrize(("kind", "moment"), DEATHS)
def test_a_device_that_comes_back_at_once_sends_its_vector_again_and_nothing_else(
    nursery: Nursery, folder: Path, kind: str, moment: int
) -> None:
    device = Device(nursery, folder / "journal", TERMS[kind], at=1, returns=True)
    device.start(dies_at=moment)
    meeting = held_round(device, FIRST)
    done = deeds_before(kind, moment)
    kept = kind != "shares" and [deed for deed in done if deed in Stage.__members__][-1:] == ["MASKED"]
    assert device.life == 2
    if "ENTERED" in done:
        repeated = [(type(one.message), one.again) for one in device.said if one.life == 2]
        assert repeated == [(Masked, True)] * kept
        assert (1 in meeting.senders(Masked)) == ("Masked" in done or kept)
    else:  # nothing was known of the round, so its invitation is like any other
        assert summed(device, meeting) == EVERYONE


# A write that fails is a crash that the party does not notice


def carry_out(actions: Iterable[Action], store: Store) -> list[object]:
    """What is sent."""
    sent: list[object] = []
    for action in actions:
        if isinstance(action, Persist):
            store.write(action)
        elif isinstance(action, Send):
            sent.append(action.message)
    return sent


def test_a_vector_that_could_not_be_written_is_not_sent_when_its_cause_comes_again(folder: Path) -> None:
    """The disk was full for a moment, the driver kept the party, and the server repeats itself."""
    gathering = gather(MANY, TERMS["double"], of=FIRST)
    device, delivery = gathering.members[1], held_at(gathering, Participants)[1]
    with Store.open(folder / "journal") as store:
        store.write(gathering.journals[device.name].written[0])  # that it entered
        device.receive(delivery)  # the write that this asks for fails, so nothing after it is done
        sent = carry_out(device.receive(delivery), store)
        entry = store.entry(FIRST)
        assert entry is not None
        assert entry.masked or sent == []
