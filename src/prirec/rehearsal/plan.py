"""The plan of a rehearsal: how many devices, on which data, for how many rounds, with which faults."""

from dataclasses import dataclass
from math import ceil
from pathlib import Path

import msgspec

from prirec.config import HARD_FLOOR, PRIVATE, Settings, check
from prirec.errors import PolicyError, UsageError
from prirec.recommender.conductor import Pace

SHORTEST_WINDOW = 6  # seconds
FEWEST = 60  # devices: the hard floor, and some that may be lost
MOST_CHAOS = 0.5
VISITORS = 20  # that apps may add to the devices


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a rehearsal runs, checked when it is made: PolicyError for a city too small to protect anybody, UsageError
    for odd numbers."""

    devices: int = 200
    rounds: int = 5
    seed: int = 0  # of the made-up data and of the faults; keys, masks and noise come from the operating system
    data: Path | None = None  # folder with real data; None: a made-up city
    chaos: float = 0.0  # share of devices that is killed in every sum, and of sums in which the recommender is
    postgres: bool = False
    out: Path | None = None  # folder to keep all files in; None: nothing is kept
    app_origins: tuple[str, ...] = ()  # of apps in browsers that may be devices of the recommender here
    app: bool = False  # My phone on this machine, with which people join what is rehearsed; over two operators alone
    operators: int = 2  # sums over two operators, in windows; with 1, double masks
    step: float | None = (
        None  # seconds that a step of a sum with one operator waits for missing devices; None: by their number
    )

    def __post_init__(self) -> None:
        if self.devices < FEWEST:
            raise PolicyError(
                f"a city has at least {FEWEST} devices: a sum over fewer than {HARD_FLOOR} people can be taken apart, "
                "so none is opened, and a few devices may be lost on the way"
            )
        if self.operators not in (1, 2):
            raise UsageError("a deployment has one operator, or two")
        if self.rounds < 1:
            raise UsageError("a campaign has at least one round")
        if not 0 <= self.chaos <= MOST_CHAOS:
            raise UsageError(f"chaos is a share of the devices, from 0 to {MOST_CHAOS:g}")
        if self.app_origins:
            from prirec.recommender.service import checked_origin  # with a web server, which no device's process needs

            for origin in self.app_origins:
                checked_origin(origin)

    @property
    def settings(self) -> Settings:
        """The preset `private` with these rounds, and a floor that so many devices can reach. keep="all": people and
        places were filtered before the devices were made."""
        data = msgspec.structs.replace(PRIVATE.data, keep="all")
        floor = max(HARD_FLOOR, min(PRIVATE.floor, self.devices // 2))
        return check(msgspec.structs.replace(PRIVATE, iterations=self.rounds, floor=floor, data=data))

    @property
    def pace(self) -> Pace:
        """Of sums with one operator. Devices share a machine here: the more there are, the longer each step takes. With
        faults some are always missing, so waiting for them is cut short."""
        usual = max(10.0, self.devices / 10) * (0.5 if self.chaos else 1.0)
        step = usual if self.step is None else self.step
        return Pace(coming=3 * step, step=step)

    def window(self, joined: float) -> int:
        """Seconds that a window over two operators lasts, where it took so many for all devices to join: a report is
        about half of that work. A window that turns out too short is extended."""
        return max(SHORTEST_WINDOW, ceil(1.5 * joined))

    @property
    def most(self) -> int:
        """People that sums are sized for: the devices, and whoever joins with an app."""
        return self.devices + (VISITORS if self.app or self.app_origins else 0)

    @property
    def sums(self) -> int:
        """Number of sums: visits once, moments once, then gradients in every round."""
        return 2 + self.rounds
