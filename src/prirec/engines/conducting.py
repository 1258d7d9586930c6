"""The conductor of shards: adds their sums, opens what is split over several, moves V. It holds nothing of a person."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from prirec.engines.codes import Code, Codes
from prirec.engines.losses import mean
from prirec.engines.noise import Where, simulated_noise
from prirec.engines.participation import opens
from prirec.engines.shard import Stepped, Sums
from prirec.engines.state import Passed, State, mixes, move_public
from prirec.settings import Settings
from prirec.types import RingArray


class Added(Protocol):
    """What can be added in any order."""

    def plus(self, other: Any) -> Any: ...


Sum = TypeVar("Sum", bound=Added)


class Crew(Protocol):
    """Shards, wherever they are."""

    def each(self, call: str, *args: Any) -> list[Any]:
        """What every shard answers, in their order."""

    def summed(self, call: str, *args: Any) -> Any:
        """The sum of what every shard answers."""

    def one(self, at: int, call: str, *args: Any) -> Any:
        """What one of them answers."""

    def among(self, give: str, take: str) -> None:
        """Every shard is told by `take` what every shard, itself too, answers to `give`, one after another."""


class Together:
    """Shards in one process, one after another: what a cluster must come to."""

    def __init__(self, shards: Sequence[Any]):
        self.shards = shards

    def one(self, at: int, call: str, *args: Any) -> Any:
        return getattr(self.shards[at], call)(*args)

    def among(self, give: str, take: str) -> None:
        for giver in self.shards:
            given = getattr(giver, give)()
            for taker in self.shards:
                getattr(taker, take)(given)

    def each(self, call: str, *args: Any) -> list[Any]:
        return [getattr(shard, call)(*args) for shard in self.shards]

    def summed(self, call: str, *args: Any) -> Any:
        return added(self.each(call, *args))


def added(parts: Sequence[Sum]) -> Sum:
    total = parts[0]
    for part in parts[1:]:
        total = total.plus(part)
    return total


class Conductor:
    """Rounds over shards. `split`: whether any cohort is in more than one of them."""

    def __init__(self, crew: Crew, settings: Settings, codes: Codes, *, split: bool):
        self.crew, self.settings, self.codes, self.split = crew, settings, codes, split

    def advance(self, state: State) -> Passed:
        """One round t. Of the state V and its moments are moved here, the rest where the people are."""
        among = self.opened(self.crew.summed("mix"), state) if self.split else None
        done: Stepped = self.crew.summed("step", state.interaction, state.moments, among)
        opened = opens(done.counted, rostered=done.present, settings=self.settings)
        if opened:
            code, total = self.codes.interaction, done.total.copy()
            self._add_noise(total, code, done.present, done.counted, ("interaction", state.iteration))
            move_public(state, code.ring.decode(total) / done.counted, self.settings)
        state.iteration += 1
        return Passed(
            iteration=state.iteration,
            loss=mean(done.losses, done.records),
            took_part=done.present,
            in_sum=done.counted,
            cohorts_opened=done.opened + (0 if among is None else len(among.numbers)),
            opened=opened,
        )

    def opened(self, sums: Sums, state: State) -> Sums:
        """Step (b) for the cohorts that are in several shards: those that are opened, with noise."""
        if not mixes(state, noisy=self.codes.linear.noise > 0):
            return sums.only(np.zeros(len(sums.numbers), dtype=np.bool_))
        pairs = zip(sums.members.tolist(), sums.rostered.tolist(), strict=True)
        enough = np.array([opens(some, rostered=all_, settings=self.settings) for some, all_ in pairs], dtype=np.bool_)
        found = sums.only(enough)
        for at, number in enumerate(found.numbers.tolist()):
            many = int(found.rostered[at]), int(found.members[at])
            self._add_noise(found.total[at], self.codes.linear, *many, ("linear", state.iteration, number))
        return found

    def _add_noise(self, total: RingArray, code: Code, rostered: int, survivors: int, where: Where) -> None:
        total += simulated_noise(
            code.noise, len(total), rostered=rostered, survivors=survivors, settings=self.settings, where=where
        ).astype(total.dtype)
