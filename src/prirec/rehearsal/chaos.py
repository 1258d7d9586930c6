"""Who is killed, and when: drawn from a seed, so that a rehearsal can be repeated, as far as clocks allow.

In every sum the doomed devices die, at a random moment, and are started again; in some sums the recommender dies
as well. Not in the first: visits are summed once in a campaign, and where that sum is burnt after devices have paid for
it, there is nothing to go on with (recommender/campaign.py)."""

from dataclasses import dataclass, field

from numpy.random import Generator

from prirec.rehearsal.crew import Crew
from prirec.rehearsal.plan import Plan
from prirec.rehearsal.station import Station
from prirec.util.keyed_random import generator

USUAL = 2.0  # seconds that a sum takes, before one is known


def doomed(plan: Plan) -> int:
    """How many devices are killed."""
    return round(plan.chaos * plan.devices)


@dataclass(slots=True)
class Chaos:
    """Told when sums begin, it does its work when it is asked to."""

    plan: Plan
    crew: Crew
    station: Station
    server_deaths: int = 0
    _rng: Generator = field(init=False, repr=False)
    _fatal: set[int] = field(init=False)  # sums in which the recommender dies
    _devices_at: float | None = None
    _server_at: float | None = None

    def __post_init__(self) -> None:
        self._rng = generator(self.plan.seed, "chaos")
        later = self._rng.permutation(self.plan.sums - 1) + 1
        deaths = max(1, round(self.plan.chaos * len(later))) if self.plan.chaos else 0
        self._fatal = set(later[:deaths].tolist())

    def sum_begins(self, number: int, *, now: float, usual: float = USUAL) -> None:
        """A sum with this number, counted from 0, that will take about so many seconds. If it is over sooner, whoever
        was to die in it dies in the next."""
        if self.crew.doomed is not None and self._devices_at is None:
            self._devices_at = now + usual * self._rng.random()
        if number in self._fatal:
            self._fatal.discard(number)
            self._server_at = now + usual * self._rng.random()

    def act(self, *, now: float) -> None:
        if self._devices_at is not None and now >= self._devices_at and self.crew.doomed is not None:
            self._devices_at = None
            self.crew.doomed.kill()
            self.crew.doomed.start()
        if self._server_at is not None and now >= self._server_at:
            self._server_at = None
            self.server_deaths += 1
            self.station.kill()
            self.station.start()
