"""The mailbox: everything that has come goes into one transaction, and nobody waits for a message that is there."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prirec.errors import StateError
from prirec.recommender import mailbox as mailbox_module
from prirec.recommender.mailbox import MOST_BATCHED, MOST_SENT_IN_MEMORY, Mailbox
from prirec.recommender.responses import RefusedError
from prirec.recommender.store import Store
from prirec.wire.http import QueuedMessage
from support.hypothesis_settings import PATIENT
from support.mailboxes import Watched, opened
from support.services import Site
from support.stores import enter, name, of, said
from support.waiting import PATIENCE


@pytest.fixture
def store(site: Site) -> Any:
    with Watched.open(site.url) as opened_:
        yield opened_


async def held_up(store: Watched, mailbox: Mailbox) -> "asyncio.Future[Any]":
    """One errand, in the middle of whose commit the writer thread is held up."""
    store.gate.clear()
    store.inside.clear()
    first = mailbox.ask(name(0), [said(0, b"first")], after=0)
    await asyncio.to_thread(store.inside.wait, PATIENCE)
    return first


def test_what_comes_during_a_commit_shares_the_next_one(store: Watched) -> None:
    async def run() -> None:
        async with opened(store) as mailbox:
            first = await held_up(store, mailbox)
            rest = [mailbox.ask(name(at), [said(at, b"%d" % at), said(at, b"more")], after=0) for at in range(1, 51)]
            store.gate.set()
            found = await asyncio.gather(first, *rest)
        assert [one.taken for one in found] == [(True,)] + [(True, True)] * 50

    asyncio.run(run())
    assert store.commits == [1, 100]
    assert store.counts().messages == 101


def test_no_commit_grows_without_bound(store: Watched) -> None:
    async def run() -> None:
        async with opened(store) as mailbox:
            first = await held_up(store, mailbox)
            rest = [mailbox.ask(name(at), [said(at, b"x")], after=0) for at in range(MOST_BATCHED + 10)]
            store.gate.set()
            await asyncio.gather(first, *rest)

    asyncio.run(run())
    assert store.commits == [1, MOST_BATCHED, 10]


def test_each_request_is_answered_for_its_own_messages(store: Watched) -> None:
    async def run() -> None:
        async with opened(store) as mailbox:
            first = await held_up(store, mailbox)
            asked = [
                mailbox.ask(name(at), [said(at, b"x", to=of(1 + at % 2)), said(at, b"y")], after=0) for at in range(8)
            ]
            store.gate.set()
            await first
            assert [(await one).taken for one in asked] == [(at % 2 == 0, True) for at in range(8)]

    asyncio.run(run())


def test_a_message_is_acknowledged_only_when_it_is_durable(store: Watched) -> None:
    async def run() -> None:
        async with opened(store) as mailbox:
            first = await held_up(store, mailbox)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(first), 0.2)
            store.gate.set()
            await first

    asyncio.run(run())


def test_mailboxes_are_looked_into_only_where_there_may_be_something(store: Watched) -> None:
    async def run() -> None:
        async with opened(store) as mailbox:
            for _ in range(5):
                assert (await mailbox.ask(name(1), [], after=0)).queued == ()
            assert store.lookups == 0
            store.deliver([(name(1), of(), b"hello")])
            (message,) = (await mailbox.ask(name(1), [], after=0)).queued
            assert (await mailbox.ask(name(1), [], after=message.number)).queued == ()
            assert (await mailbox.ask(name(2), [], after=0)).queued == ()
            assert store.lookups == 1

    asyncio.run(run())


def test_acknowledged_messages_are_deleted_once(store: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox_module, "CHECK_EVERY", 0.005)

    async def run() -> None:
        async with opened(store) as mailbox:
            for after in (3, 2):  # the second is behind the first
                await mailbox.ask(name(1), [], after=after)
            await mailbox.ask(name(2), [], after=1)
            async with asyncio.timeout(PATIENCE):
                while len(store.thrown) < 2:
                    await asyncio.sleep(0.005)
            await asyncio.sleep(0.1)  # time for a second deletion, which there must not be

    asyncio.run(run())
    assert sorted(store.thrown) == [(name(1), 3), (name(2), 1)]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("deliver"), st.integers(0, 2), st.integers(1, 3)),
        st.tuples(st.just("ask"), st.integers(0, 2), st.integers(0, 12)),
        st.tuples(st.just("look"), st.just(0), st.just(0)),
    ),
    max_size=25,
)


@settings(PATIENT, max_examples=30)
@given(steps)
def test_messages_are_what_the_store_has_whatever_is_known_of_mailboxes(script: list[tuple[str, int, int]]) -> None:
    async def run(store: Store) -> None:
        async with opened(store) as mailbox:
            for what, who, many in script:
                if what == "deliver":
                    store.deliver([(name(who), of(), b"x")] * many)
                elif what == "look":
                    mailbox.wake()
                else:
                    expected = store.queued(name(who), many, 64)
                    assert list((await mailbox.ask(name(who), [], after=many)).queued) == expected

    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108
    with TemporaryDirectory(dir=memory) as folder, Watched.open(Path(folder) / "store") as store:
        enter(store, of())
        asyncio.run(run(store))


def test_messages_from_this_process_wake_at_once(store: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox_module, "CHECK_EVERY", 1000.0)

    async def run() -> None:
        async with opened(store) as mailbox:
            with mailbox.long_poll(name(1), after=0, seconds=1000) as poll:
                assert (await mailbox.ask(name(1), [], after=0)).queued == ()
                waiting = asyncio.create_task(mailbox.queued(name(1), entries=0, poll=poll))
                await asyncio.sleep(0.05)
                await asyncio.to_thread(store.deliver, [(name(1), of(), b"hello")])
                await asyncio.to_thread(mailbox.wake)
                found = await asyncio.wait_for(waiting, PATIENCE)
            assert [message.body for message in found.queued] == [b"hello"]

    asyncio.run(run())


def test_a_message_that_comes_between_looking_and_waiting_is_not_missed(
    store: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailbox_module, "CHECK_EVERY", 1000.0)

    async def run() -> None:
        async with opened(store) as mailbox:
            with mailbox.long_poll(name(1), after=0, seconds=1000) as poll:
                assert (await mailbox.ask(name(1), [], after=0)).queued == ()
                store.deliver([(name(1), of(), b"hello")])
                await mailbox.ask(name(2), [], after=0)  # somebody else's errand finds out
                found = await asyncio.wait_for(mailbox.queued(name(1), entries=0, poll=poll), PATIENCE)
            assert len(found.queued) == 1

    asyncio.run(run())


def test_when_the_service_ends_whoever_waits_is_answered_and_nobody_waits_any_more(store: Watched) -> None:
    async def run() -> None:
        async with opened(store) as mailbox:
            with mailbox.long_poll(name(1), after=0, seconds=1000) as poll:
                waiting = asyncio.create_task(mailbox.queued(name(1), entries=0, poll=poll))
                await asyncio.sleep(0.05)
                mailbox.release()
                assert (await asyncio.wait_for(waiting, PATIENCE)).queued == ()
            with mailbox.long_poll(name(1), after=0, seconds=1000) as poll:
                assert poll.released

    asyncio.run(run())


def test_queued_messages_are_written_when_the_mailbox_closes(store: Watched) -> None:
    async def run() -> list[Any]:
        async with opened(store) as mailbox:
            asked = [mailbox.ask(name(at), [said(at, b"x")], after=0) for at in range(20)]
        return [await one for one in asked]

    assert all(found.taken == (True,) for found in asyncio.run(run()))
    assert store.counts().messages == 20


@pytest.mark.parametrize(("error", "status"), [(StateError("full"), 503), (ValueError("x"), 500)])
def test_a_failing_store_is_answered_with_an_error_and_the_writer_goes_on(
    store: Watched, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise error

    async def run(mend: Callable[[], None]) -> None:
        async with opened(store) as mailbox:
            asked = [mailbox.ask(name(at), [said(at, b"x")], after=0) for at in range(3)]
            told = await asyncio.gather(*asked, return_exceptions=True)
            assert [one.status for one in told if isinstance(one, RefusedError)] == [status] * 3
            mend()
            assert (await mailbox.ask(name(1), [said(1, b"x")], after=0)).taken == (True,)

    with monkeypatch.context() as patch:
        patch.setattr(store, "post_messages", broken)
        asyncio.run(run(patch.undo))


def test_a_cancelled_request_does_not_stop_the_others(store: Watched) -> None:
    async def run() -> None:
        async with opened(store) as mailbox:
            first = await held_up(store, mailbox)
            gone, stays = mailbox.ask(name(1), [said(1, b"x")], after=0), mailbox.ask(name(2), [said(2, b"x")], after=0)
            gone.cancel()
            store.gate.set()
            await first
            assert (await stays).taken == (True,)

    asyncio.run(run())
    assert store.counts().messages == 3


def test_a_message_that_was_fetched_already_is_not_brought_again(
    store: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be found in the store before the news of it comes here."""
    monkeypatch.setattr(mailbox_module, "CHECK_EVERY", 1000.0)

    async def run() -> None:
        async with opened(store) as mailbox:
            await asyncio.to_thread(store.deliver, [(name(2), of(), b"another's")])
            first = await asyncio.to_thread(store.deliver, [(name(1), of(), b"mine")])
            with mailbox.long_poll(name(1), after=first, seconds=1000) as poll:
                assert (await mailbox.ask(name(1), [], after=first)).queued == ()
                waiting = asyncio.create_task(mailbox.queued(name(1), entries=0, poll=poll))
                known = [(name(2), QueuedMessage(first - 1, b"another's")), (name(1), QueuedMessage(first, b"mine"))]
                await asyncio.to_thread(mailbox.wake, known)
                await asyncio.sleep(0.05)
                assert not waiting.done()
                later = await asyncio.to_thread(store.deliver, [(name(1), of(), b"later")])
                await asyncio.to_thread(mailbox.wake, [(name(1), QueuedMessage(later, b"later"))])
                found = await asyncio.wait_for(waiting, PATIENCE)
            assert [message.body for message in found.queued] == [b"later"]

    asyncio.run(run())


def test_a_store_that_fails_while_messages_are_looked_for_loses_no_wake_up(
    store: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    head, calls = store.head, list[int]()

    def failing() -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise StateError("away")
        return head()

    monkeypatch.setattr(mailbox_module, "CHECK_EVERY", 1000.0)
    monkeypatch.setattr(store, "head", failing)

    async def run() -> None:
        async with opened(store) as mailbox:
            with mailbox.long_poll(name(1), after=0, seconds=1000) as poll:
                assert (await mailbox.ask(name(1), [], after=0)).queued == ()
                waiting = asyncio.create_task(mailbox.queued(name(1), entries=0, poll=poll))
                number = await asyncio.to_thread(store.deliver, [(name(1), of(), b"hello")])
                await asyncio.to_thread(mailbox.wake, [(name(1), QueuedMessage(number, b"hello"))])
                async with asyncio.timeout(PATIENCE):
                    while len(calls) < 2:
                        await asyncio.sleep(0.005)
                assert not waiting.done()
                await asyncio.to_thread(mailbox.wake)
                found = await asyncio.wait_for(waiting, PATIENCE)
            assert [message.body for message in found.queued] == [b"hello"]

    asyncio.run(run())


def test_messages_are_carried_after_any_number_of_failures(store: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox_module, "CHECK_EVERY", 1000.0)

    async def run(mend: Callable[[], None]) -> None:
        async with opened(store) as mailbox:
            for _ in range(MOST_SENT_IN_MEMORY + 1):
                mailbox.wake([(name(1), QueuedMessage(1, b"x"))])
                with pytest.raises(RefusedError):
                    await mailbox.ask(name(2), [said(2, b"x")], after=0)
            mend()
            await mailbox.ask(name(2), [], after=0)
            number, before = await asyncio.to_thread(store.deliver, [(name(1), of(), b"hello")]), store.lookups
            with mailbox.long_poll(name(1), after=0, seconds=1000) as poll:
                mailbox.wake([(name(1), QueuedMessage(number, b"hello"))])
                found = await asyncio.wait_for(mailbox.queued(name(1), entries=0, poll=poll), PATIENCE)
            assert [message.body for message in found.queued] == [b"hello"]
            assert store.lookups == before  # it was brought, and not read

    def broken(*_: object, **__: object) -> None:
        raise StateError("full")

    with monkeypatch.context() as patch:
        patch.setattr(store, "post_messages", broken)
        asyncio.run(run(patch.undo))
