"""The same training with every sum taken by the protocols, over an in-memory wire: the bits of engines/plain.py.

Every device and the recommender is a party of its own; what crosses between them are encoded messages. It is far slower
than engines/local.py. It shows that the protocols come to what the fast engines simulate, and what they cost in bytes.
Keys and pads come from the operating system; nothing about the result depends on them.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import count
from os import urandom
from typing import Literal

import msgspec
import numpy as np

from prirec.engines import plain
from prirec.engines.codes import Code, codes
from prirec.engines.noise import Where, simulated_noise
from prirec.engines.participation import opens
from prirec.engines.state import Passed, State
from prirec.engines.sums import added
from prirec.engines.wire import Fate, MemoryJournal, Traffic, Wire
from prirec.errors import ProtocolError, UsageError
from prirec.features.samples import Samples
from prirec.protocols import convener, noise, sdgd
from prirec.protocols.guest import Guest
from prirec.protocols.meeting import Task
from prirec.protocols.messages import AnyMessage, Boxes, Masked, Round, Terms
from prirec.protocols.sdgd import Neighbour, Receiver
from prirec.protocols.secure_sum import member
from prirec.protocols.secure_sum.collector import Collector
from prirec.protocols.secure_sum.member import Member
from prirec.protocols.terms import all_or_nothing, double_masks, model_hash
from prirec.settings import Settings
from prirec.sharing.keys import SigningKey
from prirec.types import RealArray, RingArray

Method = Literal["shares", "pads"]


class Party:
    """A device or the recommender between rounds: who it is, and its journals.

    A device is a member once at a number, whatever the cohort; a collector has many cohorts at the same number.
    """

    def __init__(self) -> None:
        self.identity, self.journal = SigningKey(urandom(32)), MemoryJournal()
        self.collecting: defaultdict[int, MemoryJournal] = defaultdict(MemoryJournal)

    @property
    def name(self) -> bytes:
        return self.identity.public


class ByProtocol:
    """engines.sums.Sums, each sum a protocol. `method` is how Algorithm 1 adds up: by shares as printed, or under pads.

    Who is lost is lost at one of two points, after the roster or after the boxes; both come to the same.
    """

    def __init__(self, samples: Samples, settings: Settings, *, method: Method = "shares") -> None:
        self.settings, self.codes, self.method = settings, codes(samples, settings), method
        self.deployment, self.recommender = urandom(16), Party()
        self.devices = [Party() for _ in samples.ids]
        self.traffic = Traffic()
        self._numbers = count()

    def over_cohort(
        self, cohort: int, values: Mapping[int, RingArray], *,
        survivors: Sequence[int], public: Sequence[RealArray], centre: RealArray, iteration: int,
    ) -> RingArray | None:  # fmt: skip
        """Opened to the members: each survivor has the sum, and it is the same for all."""
        terms = self._terms(self.codes.linear, values, opening="members")
        task = self._task(Round(self.deployment, "linear", iteration, cohort), terms, self.recommender, *public, centre)
        wire = self._run(task, self.recommender, values, survivors, where=("linear", iteration, cohort))
        opened = {wire.finished[self.devices[i].name].total.tobytes() for i in survivors if wire.finished}
        if len(opened) > 1:
            raise ProtocolError("members of one cohort opened different sums")
        return wire.finished[self.devices[survivors[0]].name].total if opened else None

    def over_everyone(
        self, values: Mapping[int, RingArray], *, survivors: Sequence[int], public: Sequence[RealArray], iteration: int
    ) -> RingArray | None:
        """Opened to the recommender."""
        terms = self._terms(self.codes.interaction, values, opening="collector")
        task = self._task(Round(self.deployment, "interaction", iteration), terms, self.recommender, *public)
        wire = self._run(task, self.recommender, values, survivors, where=("interaction", iteration))
        opened = wire.finished.get(self.recommender.name)
        return None if opened is None else opened.total

    def over_neighbours(self, i: int, values: Mapping[int, RingArray], *, V: RealArray) -> RingArray:
        """Algorithm 1, lines 1 to 9."""
        if len(values) < 2:
            raise UsageError("with a single neighbour the sum is that neighbour's own model; give at least two")
        length = len(next(iter(values.values())))
        terms = all_or_nothing(self.codes.linear.ring, self.method, length=length, people=len(values))
        user = self.devices[i]
        task = self._task(Round(self.deployment, "neighbours", next(self._numbers), i), terms, user, V)
        return self._run(task, user, values, tuple(values)).finished[user.name].total

    def over_batch(self, values: Sequence[tuple[int, RingArray]], *, V: RealArray) -> RingArray:
        """One-time pads. A batch of one person alone is that person's gradient, whatever is laid on it: it is sent as
        it is, which is what the paper's batch of one comes to."""
        own = {i: added([value for who, value in values if who == i]) for i, _ in values}
        if len(own) == 1:
            return next(iter(own.values()))
        length = len(values[0][1])
        terms = all_or_nothing(self.codes.interaction.ring, "pads", length=length, people=len(own))
        task = self._task(Round(self.deployment, "batch", next(self._numbers)), terms, self.recommender, V)
        return self._run(task, self.recommender, own, tuple(own)).finished[self.recommender.name].total

    def _terms(self, code: Code, values: Mapping[int, RingArray], *, opening: Literal["collector", "members"]) -> Terms:
        length, settings = len(next(iter(values.values()), np.empty(1))), self.settings
        agreed = {"length": length, "floor": settings.floor, "noise": code.noise}
        return double_masks(code.ring, opening=opening, sums=settings.sums, **agreed)

    def _task(self, of: Round, terms: Terms, collector: Party, *held: RealArray) -> Task:
        return Task(of, collector.name, terms, model_hash(*held))

    def _run(
        self, task: Task, collector: Party, values: Mapping[int, RingArray], survivors: Sequence[int],
        where: Where = (),
    ) -> Wire:  # fmt: skip
        """One round over a wire of its own, to its end."""
        wire = Wire(self._fate(set(values) - set(survivors)), self.traffic)
        entropy = {i: urandom(sdgd.ENTROPY if task.terms.method == "shares" else member.ENTROPY) for i in values}
        if task.terms.noise and opens(len(survivors), rostered=len(values), settings=self.settings):
            values = self._with_simulated_noise(task.terms, values, survivors, entropy, where)
        for i, value in values.items():
            guest = self._guest(task, self.devices[i].identity, value, entropy[i])
            wire.attach(guest, self.devices[i].journal)
        make = Receiver if task.terms.method == "shares" else Collector
        host = make(task, identity=collector.identity, entropy=urandom(convener.ENTROPY))
        wire.attach(host, collector.collecting[task.round.group])
        wire.do(host, host.invite([self.devices[i].name for i in values]))
        wire.run(host)
        return wire

    def _with_simulated_noise(
        self, terms: Terms, values: Mapping[int, RingArray], survivors: Sequence[int], entropy: Mapping[int, bytes],
        where: Where,
    ) -> Mapping[int, RingArray]:  # fmt: skip
        """Every device adds its own share of noise. So that the sum still has the bits of a simulation, one survivor's
        vector is moved by what the simulated noise is more than the survivors' shares; a deployment has no such thing.
        """
        one = survivors[0]
        moved = values[one] + simulated_noise(
            terms.noise, terms.length, rostered=len(values), survivors=len(survivors), settings=self.settings,
            where=where,
        ).astype(values[one].dtype)  # fmt: skip
        for i in survivors:
            moved -= noise.drawn(terms, len(values), seed=member.noise_seed(entropy[i]))
        return {**values, one: moved}

    def _guest(self, task: Task, identity: SigningKey, value: RingArray, entropy: bytes) -> Guest:
        if task.terms.method != "shares":
            return Member(task, identity=identity, value=value, entropy=entropy)
        shape = (task.terms.floor - 1, task.terms.length)
        pads = np.frombuffer(urandom(value.itemsize * shape[0] * shape[1]), dtype=value.dtype).reshape(shape)
        return Neighbour(task, identity=identity, value=value, pads=pads, entropy=entropy)

    def _fate(self, lost: set[int]) -> Fate:
        """Every other of the lost falls silent before its boxes, the rest before their vectors."""
        silent = {self.devices[i].name: (Boxes, Masked)[n % 2] for n, i in enumerate(sorted(lost))}

        def fate(message: AnyMessage) -> Sequence[int]:
            return () if isinstance(message, silent.get(message.sender, ())) else (0,)

        return fate


class Carried:
    """The oracle's schedule, carried by the protocols; it counts what crosses the wire."""

    def __init__(self, samples: Samples, settings: Settings, *, method: Method = "shares") -> None:
        self.sums = ByProtocol(samples, settings, method=method)
        self._schedule = plain.engine(samples, settings, self.sums)

    def advance(self, state: State) -> Passed:
        before = self.sums.traffic.octets.total()
        passed = self._schedule.advance(state)
        return msgspec.structs.replace(passed, octets=self.sums.traffic.octets.total() - before)
