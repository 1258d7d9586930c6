"""What a rehearsal is asked to be."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from prirec.config import HARD_FLOOR, PRIVATE, Settings, check
from prirec.errors import PolicyError, UsageError
from prirec.recommender.conductor import Pace

FEWEST = 60  # devices: the hard floor, and some that may be lost
MOST_CHAOS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many devices, on whose data, for how long, and what may happen to them."""

    devices: int = 200
    rounds: int = 5
    seed: int = 0  # of the city, and of whom chaos hits; what protects a person comes from the operating system
    data: Path | None = None  # None: a city that is made up
    chaos: float = 0.0  # the share of devices that is killed in every sum, and of sums in which the server is
    postgres: bool = False
    out: Path | None = None  # where everything stays; None: nothing stays
    step: float | None = None  # seconds that a step of a sum waits for whoever is missing; None: by the devices

    def __post_init__(self) -> None:
        if self.devices < FEWEST:
            raise PolicyError(
                f"a city has at least {FEWEST} devices: a sum over fewer than {HARD_FLOOR} people can be taken apart, "
                "so none is opened, and a few devices may be lost on the way"
            )
        if self.rounds < 1:
            raise UsageError("a campaign has at least one round")
        if not 0 <= self.chaos <= MOST_CHAOS:
            raise UsageError(f"chaos is a share of the devices, from 0 to {MOST_CHAOS:g}")

    @property
    def settings(self) -> Settings:
        """The preset private, with a floor that so many devices can reach, for so many rounds. People and places were
        filtered before the city was made of them."""
        data = msgspec.structs.replace(PRIVATE.data, keep="all")
        floor = max(HARD_FLOOR, min(PRIVATE.floor, self.devices // 2))
        return check(msgspec.structs.replace(PRIVATE, iterations=self.rounds, floor=floor, data=data))

    @property
    def pace(self) -> Pace:
        """Devices share a machine here, so the more there are the longer each step takes. With chaos somebody is always
        missing, and every step that waits for them waits in vain."""
        usual = max(10.0, self.devices / 10) * (0.5 if self.chaos else 1.0)
        step = usual if self.step is None else self.step
        return Pace(coming=3 * step, step=step)

    @property
    def sums(self) -> int:
        """Visits once; then V in every round, and linear models in all but the first."""
        return 2 * self.rounds
