"""What can happen to a deployment by itself: processes that die between two words, disks that are full, messages that
go astray. All of it is drawn from a seed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from prirec.device.store import Store as DeviceStore
from prirec.errors import StateError
from prirec.recommender.store import Store as RecommenderStore

Thing = TypeVar("Thing")


class KilledError(BaseException):
    """The process is gone. No `except Exception` hears of it."""


@dataclass(frozen=True)
class FaultRates:
    """How likely each fault is, at each moment at which it can happen."""

    device_dies: float = 0.0  # at a write, or at a word to or from the recommender
    device_full: float = 0.0  # at a write
    server_dies: float = 0.0
    server_full: float = 0.0
    taken_over: float = 0.0  # by another worker, though the one before lives
    away: float = 0.0  # a question, or an answer, does not arrive
    lost: float = 0.0  # each message for a device
    twice: float = 0.0  # each message, either way
    cut: float = 0.0
    later: float = 0.0  # each message: kept back, and handed in some time after
    replayed: float = 0.0  # one of earlier
    asleep: float = 0.0  # each device, each turn


NO_FAULTS = FaultRates()
ALL_FAULTS = FaultRates(
    device_dies=0.003, device_full=0.002, server_dies=0.008, server_full=0.003, taken_over=0.004, away=0.02,
    lost=0.006, twice=0.06, cut=0.04, later=0.006, replayed=0.08, asleep=0.05,
)  # fmt: skip


@dataclass
class FaultSource:
    """Draws from one seed. `rates` may change while it goes on."""

    rng: np.random.Generator
    rates: FaultRates = NO_FAULTS
    happened: dict[str, int] = field(default_factory=dict)

    def hits(self, fault: str) -> bool:
        hit = bool(self.rng.random() < getattr(self.rates, fault))
        if hit:
            self.happened[fault] = self.happened.get(fault, 0) + 1
        return hit

    def one_of(self, things: Sequence[Thing]) -> Thing:
        return things[int(self.rng.integers(len(things)))]

    def shuffled(self, things: Sequence[Thing]) -> list[Thing]:
        return [things[at] for at in self.rng.permutation(len(things))]

    @contextmanager
    def moment(self, whose: str, *, inside: bool = False) -> Iterator[str]:
        """Something that is done at once or not at all. The process may die before or after it; where it says so,
        whoever does it also asks for "inside"."""
        if self.hits(f"{whose}_full"):
            raise StateError("it does not fit on the disk any more; nothing was written")
        dies = self.hits(f"{whose}_dies")
        when = self.one_of(("before", "inside", "after") if inside else ("before", "after")) if dies else ""
        if when == "before":
            raise KilledError
        yield when
        if when == "after":
            raise KilledError


class MortalDeviceStore(DeviceStore):
    """A device's file, in a process that may die at any write: before it, with all of it undone, or when it is durable
    and nobody was told."""

    luck = FaultSource(np.random.default_rng(0))

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        with self.luck.moment("device", inside=True) as when, super().transaction() as rows:
            yield rows
            if when == "inside":
                raise KilledError


class MortalStore(RecommenderStore):
    """The recommender's store as a conductor has it that may die at each thing that it writes, or hears."""

    luck = FaultSource(np.random.default_rng(0))

    @contextmanager
    def _transaction(self, holder: bytes | None) -> Iterator[Any]:
        with self.luck.moment("server", inside=True) as when, super()._transaction(holder) as rows:
            yield rows
            if when == "inside":
                raise KilledError

    def incoming(self, after: int, most: int) -> list[tuple[int, bytes]]:
        with self.luck.moment("server"):
            return super().incoming(after, most)
