"""A small deployment with injected faults: real devices, a real conductor and a real store in one process, where
anything dies at any moment and messages arrive in any way; and observers that work out what must come of it."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prirec.config import Settings
from prirec.data.dataset import Dataset
from prirec.data.synthetic import CityPlan, make_city
from prirec.device.agent import Agent
from prirec.device.ledger import LedgerStore
from prirec.device.person import Person
from prirec.errors import StateError
from prirec.privacy.ledger import Budget
from prirec.protocols.party import Stage
from prirec.recommender import campaign as rules
from prirec.recommender import conductor
from prirec.recommender.conductor import Conductor, Pace
from prirec.recommender.operator import begin_campaign, found_deployment
from prirec.types import DAY
from support import deployment
from support.cities import SMALL_PRIVATE, change
from support.deployment import AT_ONCE, NOW, Entropy, deployed
from support.faults import ALL_FAULTS, NO_FAULTS, FaultRates, FaultSource, KilledError, MortalDeviceStore, MortalStore
from support.faulty_connection import Air, BadLine
from support.low_floors import low_floor
from support.observer import ViolationError, Witness
from support.recomputed_campaign import Recomputed
from support.reference_devices import Double

FEW = 5  # the floor in these tests: protocols know none, and policy's would take a city
PACE = Pace(coming=5.0, step=3.0)  # in turns


def few_people(*, iterations: int) -> Settings:
    return change(
        SMALL_PRIVATE, floor=FEW, iterations=iterations, sums={"lost": 0.4}, privacy={"epsilon_per_user": 3.0},
        features={"words": 3, "buckets": 2, "areas": 2},
    )  # fmt: skip


def _town(people: int, *, seed: int) -> Dataset:
    """So small that every device knows all of it: what it learns does not depend on what it could fetch."""
    plan = CityPlan(people=people, places=20, records=8 * people, districts=4, categories=5, span_km=6.0)
    return make_city(plan, np.random.default_rng(seed))


@dataclass
class Body:
    """A device's process: it comes and goes; its file and its line stay."""

    path: Path
    line: BadLine
    double: Double
    lives: int = 0
    agent: Agent | None = None
    store: MortalDeviceStore | None = None
    sleeps_until: int = 0


def _usual_budget(at: int) -> Budget:
    """Everyone can pay for everything, but for one, who soon cannot."""
    return Budget(epsilon=200.0 if at else 1.0)


def _years_off(luck: FaultSource) -> Callable[[], float]:
    """The clock of one life of a device."""
    when = NOW + DAY * int(luck.rng.integers(-4000, 4000))
    return lambda: when


@dataclass
class Plan:
    """What is special about a deployment."""

    conductor: Callable[..., Conductor] = Conductor
    device_store: type[MortalDeviceStore] = MortalDeviceStore
    budget: Callable[[int], Budget] = _usual_budget  # by device
    clock: Callable[[FaultSource], Callable[[], float]] = _years_off


class FaultyDeployment:
    """One deployment, turn by turn."""

    def __init__(
        self, folder: Path, settings: Settings, *, people: int, seed: int, patch: pytest.MonkeyPatch,
        plan: Plan | None = None,
    ) -> None:  # fmt: skip
        low_floor(patch, FEW)
        self.settings, self.plan, self.now = settings, plan or Plan(), 0
        self.luck = FaultSource(np.random.default_rng(seed))
        self.witness = Witness()
        self.witness.watch(patch)
        patch.setattr(deployment, "found_deployment", partial(found_deployment, entropy=Entropy(b"founding %d" % seed)))
        made = deployed(_town(people, seed=seed), settings, folder)
        self.store, self.mortal = made.store, self._mortal(made.store)
        self.public, self.air = Recomputed(self.store, self.witness), Air()
        self.bodies = [
            self._body(folder / f"device-{at}", at, person) for at, person in enumerate(made.people.values())
        ]
        self.conductor: Conductor | None = None
        self.ghosts: list[Conductor] = []
        self.leases = 0
        self.ended: list[str] = []  # why agents and conductors ended; a death gives no reason

    def _mortal(self, store: Any) -> MortalStore:
        mortal = MortalStore(store._database)
        mortal.luck = self.luck
        return mortal

    def _body(self, path: Path, at: int, person: Person) -> Body:
        person.store.close()
        double = Double.beside(path, budget=self.plan.budget(at), public=self.public)
        line = BadLine(self.store, double.name, luck=self.luck, air=self.air, tap=self.witness.heard)
        return Body(path, line, double)

    async def run(self, *, rounds: int, rates: FaultRates = ALL_FAULTS, turns: int = 400) -> None:
        """Campaigns one after another until so many rounds are behind, with so many turns for each of them at the most;
        then everybody comes to rest."""
        while len(self.store.people()) < len(self.bodies):
            await self.turn()
        self.luck.rates = rates
        for _ in range(turns * (rounds + 10)):
            if not self.under_way:
                if self.public.rounds >= rounds:
                    return await self._rest()
                self.begin()
            await self.turn()
        raise ViolationError("the campaign does not end")

    def begin(self) -> None:
        """The next campaign."""
        begin_campaign(self.store, self.settings)

    async def _rest(self) -> None:
        self.luck.rates = NO_FAULTS
        for _ in range(12):
            await self.turn()
        self._account()

    @property
    def under_way(self) -> bool:
        held = self.store.progress()
        return held is not None and rules.decode_state(held).phase not in ("over", "failed")

    async def turn(self) -> None:
        """Everyone does something, in whatever order."""
        self.now += 1
        self._conduct()
        self._haunt()
        self.public.follow()
        self._check_masked()
        for body in self.luck.shuffled(self.bodies):
            if body.sleeps_until <= self.now and not self.luck.hits("asleep"):
                await self._step(body)

    # the recommender

    def _conduct(self) -> None:
        """As conducting.conduct does, with the moments that a process can die at."""
        try:
            if self.conductor is None or self.luck.hits("taken_over"):
                self.ghosts += [] if self.conductor is None else [self.conductor]
                self.conductor = None
                self.conductor = self._taken_over()
            else:
                self.conductor.tick()
        except (KilledError, StateError) as end:
            self.ended.append(str(end))
            if isinstance(end, StateError) and conductor._is_temporary(end):
                return  # it tries again
            if self.conductor is not None and self.luck.rng.random() < 0.3:
                self.ghosts.append(self.conductor)
            self.conductor = None

    def _taken_over(self) -> Conductor:
        conductor = self._new_conductor()
        conductor.take_over()
        return conductor

    def _check_masked(self) -> None:
        """Nobody who has masked in an earlier attempt at a sum before the rounds is invited to mask again."""
        held = self.store.progress()
        state = None if held is None else rules.decode_state(held)
        if state is None or state.phase not in ("visits", "moments"):
            return
        of = rules.CampaignSteps.of(state, self.store.document).sum(state)[0].round  # type: ignore[arg-type]
        earlier = {(of.kind, of.number, attempt) for attempt in range(state.attempt)}
        masked = {body.double.name for body in self.bodies if self.witness.vectors_of(body.double.name) & earlier}
        if not masked <= set(state.masked):
            raise ViolationError("somebody who has masked is invited to mask again")

    def _new_conductor(self) -> Conductor:
        self.leases += 1
        holder = self.leases.to_bytes(16, "big")
        if not self.store.lease(holder, 0.0):  # it runs out at once: whoever wants it next has it
            raise ViolationError("a lease that ran out cannot be taken")
        return self.plan.conductor(
            self.mortal, holder=holder, pace=PACE, clock=lambda: float(self.now), entropy=Entropy(b"server" + holder)
        )

    def _haunt(self) -> None:
        """Whoever lost the lease without noticing goes on, and nothing comes of it."""
        if not self.ghosts or self.conductor is None:
            return
        before, held = self._written(), self.luck.rates
        self.luck.rates = NO_FAULTS
        try:
            self.luck.one_of(self.ghosts).tick()
        except StateError:
            self.ghosts.clear()
        self.luck.rates = held
        if self._written() != before:
            raise ViolationError("a conductor that lost its lease has written something")

    def _written(self) -> tuple[object, ...]:
        queued = self.store.receivers_since(0)[0]
        return self.store.progress(), self.store.head(), self.store.rounds(5), queued

    # devices

    async def _step(self, body: Body) -> None:
        try:
            if body.agent is None:
                body.agent = self.born(body)
            await body.agent.step(wait=0)
        except (KilledError, StateError) as end:
            self.ended.append(str(end))
            if body.store is not None:
                body.store.close()
            body.agent = body.store = None
            body.sleeps_until = self.now + int(self.luck.rng.integers(1, 8))
        body.double.look()

    def born(self, body: Body) -> Agent:
        """The device's next life, on its file."""
        body.lives += 1
        body.store = self.plan.device_store.open(body.path)
        body.store.luck = self.luck
        paid = LedgerStore(body.store, body.double.budget)
        entropy = Entropy(body.double.name + body.lives.to_bytes(4, "big"))
        clock = self.plan.clock(self.luck)
        return Agent(Person(body.store), paid, body.line, retry=AT_ONCE, clock=clock, entropy=entropy)  # type: ignore[arg-type]

    # at the end

    def _account(self) -> None:
        """Everybody is up to date, all accounts are in order, and no round is left open."""
        self.public.follow()
        if self.store.open_rounds():
            raise ViolationError("a round is neither opened nor burnt")
        head = self.store.head()
        for body in self.bodies:
            member = None if body.agent is None else body.agent.person.membership()
            if member is None or member.head != head:
                raise ViolationError("a device does not know the log to its end")
            body.double.account(self.witness.vectors_of)

    def ends(self) -> Counter[Stage]:
        """How the rounds of the recommender's journal ended."""
        return Counter(one.stage for one in self.store.rounds(100_000))


async def until(chaos: FaultyDeployment, holds: Callable[[], bool]) -> None:
    """Turn after turn, as long as it takes within reason."""
    for _ in range(300):
        if holds():
            return
        await chaos.turn()
    raise ViolationError("it does not come to that")
