"""The right to conduct, kept while it is used."""

from contextlib import suppress
from os import urandom
from threading import Event, Thread
from time import monotonic
from types import TracebackType
from typing import Self

from prirec.errors import PrirecError
from prirec.recommender.store import Store

LEASE = 15.0  # seconds for which a conductor has the word; it asks again in time


class Lease:
    """Renewed by a thread of its own: to open one sum may take longer than it lasts. Only whoever asks `held` takes it,
    so that a conductor that lost it hears of that, even if it could have it back."""

    def __init__(self, store: Store, *, seconds: float = LEASE) -> None:
        self._store, self._seconds, self.holder = store, seconds, urandom(16)
        self._have, self._ended, self._next = Event(), Event(), -seconds
        self._renewing = Thread(target=self._renew, name="lease", daemon=True)

    def __enter__(self) -> Self:
        self._renewing.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._renewing.join()
        with suppress(PrirecError):  # it runs out by itself
            self._store.release(self.holder)

    def held(self) -> bool:
        """Takes it if it is free; asks now and then."""
        if not self._have.is_set() and monotonic() >= self._next:
            self._next = monotonic() + self._seconds / 3
            if self._store.lease(self.holder, self._seconds):
                self._have.set()
        return self._have.is_set()

    def doubt(self) -> None:
        """Something happened that would not have, had it been held: ask before it is used again."""
        self._have.clear()
        self._next = -self._seconds

    def _renew(self) -> None:
        while not self._ended.wait(self._seconds / 3):
            with suppress(PrirecError):  # the store is away: it is held until somebody else takes it
                if self._have.is_set() and not self._store.lease(self.holder, self._seconds):
                    self._have.clear()
