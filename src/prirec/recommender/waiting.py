"""A device that waits for letters, and what is brought to it."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import Self

from prirec.contract.wire import MOST_LETTERS, Letter


@dataclass(slots=True)
class Found:
    """What the clerk brings back."""

    letters: tuple[Letter, ...] = field(repr=False)
    entries: int  # of the log, counted after the letters were found: what they speak of is in it
    taken: tuple[bool, ...] = ()  # of each message that was handed in, whether its round is open


class Poll:
    """A request that waits for letters after a number until a moment, or until it is released."""

    def __init__(self, after: int, until: float):
        self.after, self.until, self.released = after, until, False
        self.found: Found | None = None  # brought by whoever woke it
        self._woken = asyncio.Event()

    def wake(self, found: Found | None = None) -> None:
        self.found = found
        self._woken.set()

    def release(self) -> None:
        self.released = True
        self._woken.set()

    async def rest(self) -> None:
        """Until there may be a letter, or there is no use in waiting."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self.until):
                await self._woken.wait()
        self._woken.clear()


@dataclass(frozen=True, slots=True)
class Bundle:
    """New letters for one device, all there are after a number; they are on disk, and need not be read from there."""

    letters: tuple[Letter, ...] = field(repr=False)
    since: int

    def found(self, poll: Poll, *, entries: int) -> Found | None:
        """For a device that has all earlier ones, those that it has not got from the store by itself; else it asks."""
        new = tuple(letter for letter in self.letters if letter.number > poll.after)
        known = poll.after >= self.since and 0 < len(new) <= MOST_LETTERS
        return Found(new, entries) if known else None


@dataclass(frozen=True, slots=True)
class Parcel:
    """Letters in the order of their numbers, for many devices."""

    letters: Sequence[tuple[bytes, Letter]] = field(default=(), repr=False)

    @classmethod
    def of(cls, parts: Sequence[Self]) -> Self:
        return cls([one for part in parts for one in part.letters])

    @property
    def last(self) -> int:
        return self.letters[-1][1].number

    def follows(self, number: int) -> bool:
        """Whether these are all letters after that one, with none missing: another worker may have sent some."""
        numbers = [letter.number for _, letter in self.letters]
        return bool(numbers) and numbers == list(range(number + 1, number + 1 + len(numbers)))

    def by_receiver(self) -> dict[bytes, tuple[Letter, ...]]:
        ordered = sorted(self.letters, key=lambda one: one[0])  # stable: a device's own stay in order
        return {name: tuple(letter for _, letter in mine) for name, mine in groupby(ordered, key=lambda one: one[0])}
