"""Messages that were sent in this process go to whoever waits for them without being read again; what a device gets is
what is in the store, whoever sends and in whatever order it is heard of."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prirec.recommender import mailbox as mailbox_module
from prirec.recommender.conductor import WakePollers
from prirec.recommender.mailbox import MOST_SENT_IN_MEMORY, LongPoll, Mailbox, NewMail, nothing_missing
from prirec.recommender.store import Store
from prirec.wire.http import MOST_QUEUED, QueuedMessage
from support.hypothesis_settings import PATIENT
from support.mailboxes import Watched, opened
from support.services import Site
from support.stores import enter, name, of
from support.waiting import PATIENCE


@pytest.fixture
def store(site: Site, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(mailbox_module, "CHECK_EVERY", 1000.0)
    with Watched.open(site.url) as opened_:
        yield opened_


def send(
    store: Store, *queued: tuple[int, bytes], wake: WakePollers = lambda queued: None
) -> list[tuple[bytes, QueuedMessage]]:  # fmt: skip
    """As a conductor does: on disk first."""
    first = store.deliver([(name(who), of(), body) for who, body in queued])
    sent = [(name(who), QueuedMessage(at, body)) for at, (who, body) in enumerate(queued, first)]
    wake(sent)
    return sent


async def waited(mailbox: Mailbox, who: int, *, after: int = 0) -> "asyncio.Task[list[bytes]]":
    """A device that has asked, found nothing, and waits."""
    begun = asyncio.Event()

    async def wait() -> list[bytes]:
        with mailbox.long_poll(name(who), after=after, seconds=1000) as poll:
            found = await mailbox.ask(name(who), [], after=after)
            begun.set()
            if not found.queued:
                found = await mailbox.queued(name(who), entries=found.entries, poll=poll)
            return [message.body for message in found.queued]

    task = asyncio.create_task(wait())
    await begun.wait()
    return task


def test_messages_for_pollers_are_not_read_from_the_store(store: Watched) -> None:
    async def run() -> None:
        async with opened(store) as mailbox:
            tasks = [await waited(mailbox, who) for who in range(3)]
            asked = store.lookups
            send(store, (0, b"a"), (1, b"b"), (0, b"c"), (2, b"d"), wake=mailbox.wake)
            assert await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE) == [[b"a", b"c"], [b"b"], [b"d"]]
            assert store.lookups == asked

    asyncio.run(run())


def test_a_poller_with_older_messages_gets_them_too(store: Watched) -> None:
    async def run() -> None:
        async with opened(store) as mailbox:
            with mailbox.long_poll(name(1), after=0, seconds=1000) as poll:
                await mailbox.ask(name(1), [], after=0)
                send(store, (1, b"older"))
                send(store, (2, b"between"), wake=mailbox.wake)
                found = await asyncio.wait_for(mailbox.queued(name(1), entries=0, poll=poll), PATIENCE)
                assert [message.body for message in found.queued] == [b"older"]
            task = await waited(mailbox, 1, after=found.queued[0].number)
            send(store, (1, b"newer"), wake=mailbox.wake)
            assert await asyncio.wait_for(task, PATIENCE) == [b"newer"]

    asyncio.run(run())


def test_two_parcels_before_a_device_is_awake_are_one_answer(store: Watched) -> None:
    async def run() -> None:
        async with opened(store) as mailbox:
            task = await waited(mailbox, 1)
            send(store, (1, b"first"), wake=mailbox.wake)
            send(store, (1, b"second"), wake=mailbox.wake)
            assert await asyncio.wait_for(task, PATIENCE) in ([b"first"], [b"first", b"second"])

    asyncio.run(run())


def test_more_than_fit_an_answer_are_fetched_one_answer_after_the_other(store: Watched) -> None:
    async def run() -> None:
        async with opened(store) as mailbox:
            task = await waited(mailbox, 1)
            send(store, *((1, b"x%d" % at) for at in range(MOST_QUEUED + 5)), wake=mailbox.wake)
            assert await asyncio.wait_for(task, PATIENCE) == [b"x%d" % at for at in range(MOST_QUEUED)]

    asyncio.run(run())


def test_a_conductor_that_is_far_ahead_does_not_fill_the_memory(store: Watched) -> None:
    async def run() -> None:
        async with opened(store) as mailbox:
            task = await waited(mailbox, 99)
            store.gate.clear()
            store.inside.clear()
            held = mailbox.ask(name(0), [], after=5)
            mailbox._queue.put(mailbox_module._Check(delete=True))
            await asyncio.to_thread(store.inside.wait, PATIENCE)
            for at in range(MOST_SENT_IN_MEMORY + 3):
                send(store, (99, b"%d" % at), wake=mailbox.wake)
            assert not mailbox._sent_in_memory.acquire(blocking=False)
            store.gate.set()
            await held
            assert await asyncio.wait_for(task, PATIENCE) == [b"%d" % at for at in range(MOST_SENT_IN_MEMORY + 3)]

    asyncio.run(run())


@pytest.mark.parametrize(("after", "brought"), [(6, False), (7, True), (8, True)])
def test_a_bundle_is_for_whoever_has_all_earlier_messages(after: int, brought: bool) -> None:
    found = NewMail((QueuedMessage(9, b"new"),), since=7).found(LongPoll(after, 1000.0), entries=3)
    assert (found is not None) is brought


@pytest.mark.parametrize(
    ("numbers", "follows"), [([], False), ([5], True), ([6], False), ([4, 5], False), ([5, 6], True), ([5, 7], False)]
)
def test_messages_are_handed_on_from_memory_only_if_no_number_is_missing(numbers: list[int], follows: bool) -> None:
    sent = [(name(1), QueuedMessage(number, b"x")) for number in numbers]
    assert nothing_missing(sent, after=4) is follows


def test_a_device_woken_again_before_it_ran_asks_for_all() -> None:
    async def run() -> None:
        poll = LongPoll(0, asyncio.get_running_loop().time() + 1000)
        for number, since in ((1, 0), (2, 1)):
            poll.wake(NewMail((QueuedMessage(number, b"x"),), since=since).found(poll, entries=0))
        await poll.wait()
        assert poll.found is None

    asyncio.run(run())


steps = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.lists(st.integers(0, 2), min_size=1, max_size=4)),
        st.tuples(st.just("elsewhere"), st.lists(st.integers(0, 2), min_size=1, max_size=2)),
        st.tuples(st.just("wait"), st.lists(st.integers(0, 2), min_size=1, max_size=1)),
        st.tuples(st.just("look"), st.just([])),
    ),
    max_size=20,
)


@settings(PATIENT, max_examples=40)
@given(steps)
def test_everyone_gets_every_message_once_and_in_order(script: list[tuple[str, list[int]]]) -> None:
    got, sent = {who: list[QueuedMessage]() for who in range(3)}, list[tuple[bytes, QueuedMessage]]()

    async def follow(mailbox: Mailbox, who: int) -> None:
        after = got[who][-1].number if got[who] else 0
        with mailbox.long_poll(name(who), after=after, seconds=0.02) as poll:
            found = await mailbox.ask(name(who), [], after=after)
            if not found.queued:
                found = await mailbox.queued(name(who), entries=found.entries, poll=poll)
        got[who] += found.queued

    async def run(store: Store) -> None:
        async with opened(store) as mailbox:
            waiting: dict[int, asyncio.Task[None]] = {}
            for what, whom in script:
                if what == "wait":
                    if (earlier := waiting.pop(whom[0], None)) is not None:
                        await earlier
                    waiting[whom[0]] = asyncio.create_task(follow(mailbox, whom[0]))
                    await asyncio.sleep(0)
                elif what == "look":
                    mailbox.wake()
                    await asyncio.sleep(0.001)
                else:
                    wake = mailbox.wake if what == "send" else lambda queued: None
                    sent.extend(send(store, *((who, b"x") for who in whom), wake=wake))
            await asyncio.gather(*waiting.values())
            for who in got:
                await follow(mailbox, who)
                await follow(mailbox, who)

    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108
    with TemporaryDirectory(dir=memory) as folder, Watched.open(Path(folder) / "store") as store:
        enter(store, of())
        asyncio.run(run(store))
    for who, queued in got.items():
        assert queued == [message for to, message in sent if to == name(who)]
