"""Methods in two forms, blocking and asynchronous, of which only the asynchronous one is written.

    class Device:
        async def join_async(self, url: str) -> Membership: ...
        join = blocking(join_async)  # same parameters, same answer, same docstring

asyncio is imported when a twin is called: an app that only stores a visit must not wait for it.
"""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar


class ForThread(Protocol):
    """An object that can be opened a second time, for the use of another thread."""

    def for_thread(self) -> AbstractContextManager[Self]: ...


Owner = TypeVar("Owner", bound=ForThread)
AnyOwner = TypeVar("AnyOwner")
Answer = TypeVar("Answer")
P = ParamSpec("P")


def blocking(
    method: Callable[Concatenate[Owner, P], Coroutine[Any, Any, Answer]],
) -> Callable[Concatenate[Owner, P], Answer]:
    """A method that runs the coroutine to its end, also where an event loop runs already, as in a notebook.

    There the coroutine gets a thread, and `owner.for_thread()` in place of the owner: a connection to SQLite belongs to
    the thread that opened it. The caller waits; whoever must not hold up the running loop awaits the coroutine."""

    @wraps(method)
    def run(owner: Owner, /, *args: P.args, **kwargs: P.kwargs) -> Answer:
        import asyncio

        if not in_event_loop():
            return asyncio.run(method(owner, *args, **kwargs))
        from concurrent.futures import ThreadPoolExecutor

        def in_thread() -> Answer:
            with owner.for_thread() as twin:
                return asyncio.run(method(twin, *args, **kwargs))

        with ThreadPoolExecutor(1, thread_name_prefix="prirec") as thread:
            return thread.submit(in_thread).result()

    run.called_with = ""  # type: ignore[attr-defined]  # for docs/api_page.py, which reads the coroutine's definition
    return run


def async_context(
    method: Callable[Concatenate[AnyOwner, P], AbstractContextManager[Answer]],
) -> Callable[Concatenate[AnyOwner, P], AbstractAsyncContextManager[Answer]]:
    """An asynchronous context manager from a blocking one: it is entered and left in a thread, and the loop goes on."""

    @asynccontextmanager
    @wraps(method)
    async def run(owner: AnyOwner, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[Answer]:
        import asyncio

        context = method(owner, *args, **kwargs)
        entered = await asyncio.to_thread(context.__enter__)
        try:
            yield entered
        finally:
            await asyncio.to_thread(context.__exit__, None, None, None)

    run.called_with = "async with "  # type: ignore[attr-defined]
    return run


def in_event_loop() -> bool:
    """Whether an event loop runs in this thread."""
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
