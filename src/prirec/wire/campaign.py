"""The sums of a campaign, derived from its charter by devices and recommender alike: no device is told a price.

A campaign sums visits once; then, in each round t, the linear models of every cohort (not in the first round, where all
are 0) and everyone's gradients of V. Each sum contains noise, and a cohort's mean is published to its members and to
newcomers: so all sums are opened by the recommender (decisions/0015).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from math import ceil
from typing import TYPE_CHECKING, Self

import msgspec
import numpy as np

from prirec.config import Settings, loads, mechanism_not_collected
from prirec.errors import PolicyError
from prirec.features.encoding import Encoding, from_json
from prirec.graph.cohorts import cohorts_of
from prirec.privacy.norm import Norm
from prirec.privacy.plan import Kind, Release, plan_for, popularity_entries
from prirec.protocols.codec import encode
from prirec.protocols.messages import Round
from prirec.protocols.roster import Task
from prirec.protocols.terms import RingCode, double_masks, model_hash
from prirec.sharing.fixed_point import FixedPoint
from prirec.types import IndexArray, RealArray
from prirec.util.keyed_random import person_keys
from prirec.wire.documents import Charter, Edition, RosterLine, address
from prirec.wire.http import refuse_oversized

if TYPE_CHECKING:
    from prirec.rounds.definition import RoundRules

# Masks and noise are never sized for a smaller share of colluding devices, whatever a recommender writes: it could
# otherwise declare everybody honest and enrol colluders.
LEAST_CORRUPT = 0.05
# Nor for fewer drop-outs: each device's own share of the noise, all that is left to a person whose roster is made up
# beside them, is a part 1 / (1 - lost - corrupt) / n of the whole, and least where nobody may be lost.
LEAST_LOST = 0.1
# No roster holds a smaller share of the people whom the charter lists: made-up names on it must be as many.
LEAST_ROSTER = 0.1
SPAN = 2**16  # round numbers per campaign: numbers never repeat within a deployment


def person_id(name: bytes) -> str:
    """The id of a device in keyed shuffles and cohorts."""
    return name.hex()


def deployable(settings: Settings) -> Settings:
    """The settings, if devices may be asked to follow them. PolicyError for what only a simulation may do."""
    uncollected = mechanism_not_collected(settings.popularity.mechanism)
    wrong = {
        "privacy.epsilon_per_user: without a budget nothing hides a person": settings.privacy.epsilon_per_user is None,
        str(uncollected): uncollected is not None,
        "features.averages: they are not collected yet": bool(settings.features.averages),
        "popularity.cap: it is for comparisons": settings.popularity.cap is not None,
        "features.dynamic: a campaign begins with the sum of visits": not settings.features.dynamic,
        "participation: devices take part as they are there": settings.participation != type(settings.participation)(),
        "stopping: it looks at everyone's records": settings.stopping.patience > 0,
        "latent: sums of its factors are over too few people at many a place": settings.latent.dimension > 0,
        "seed: nobody may choose it, it follows from the first opened sum": settings.seed != 0,
        "iterations: a campaign has at most 65,000 rounds": settings.iterations > 65_000,
        f"sums.corrupt: at least {LEAST_CORRUPT:.0%} of the devices may work for the server, and people are protected "
        "against them": settings.sums.corrupt < LEAST_CORRUPT,
        f"sums.lost: at least {LEAST_LOST:.0%} of the devices may be lost; the fewer may be, the less noise of its own "
        "each device adds": settings.sums.lost < LEAST_LOST,
        f"sums.roster: a roster holds at least {LEAST_ROSTER:.0%} of the people, or a few made-up names would fill "
        "it": settings.sums.roster < LEAST_ROSTER,
    }
    for problem, is_so in wrong.items():
        if is_so:
            raise PolicyError(f"these settings are for a simulation, not for a deployment ({problem})")
    return settings


@dataclass(frozen=True)
class Campaign:
    """A charter and what follows from it; with an edition, the sums of its rounds too."""

    charter: Charter
    settings: Settings
    edition: Edition | None = None

    @classmethod
    def of(cls, charter: Charter, edition: Edition | None = None) -> Self:
        settings = deployable(loads(charter.settings))
        encoding = from_json(charter.encoding if edition is None else edition.encoding)
        refuse_oversized(charter, edition, settings, encoding)  # before anything of the announced sizes is allocated
        if edition is None:
            return cls(charter, settings)
        # the seed was 0 until the sum of visits was open: whoever knew it before could choose who is in whose cohort
        seeded = msgspec.structs.replace(settings, seed=edition.seed)
        return cls(charter, seeded, edition)

    @property
    def name(self) -> bytes:
        return address(encode(self.charter))

    @property
    def encoding(self) -> Encoding:
        return from_json(self.charter.encoding if self.edition is None else self.edition.encoding)

    @property
    def visits(self) -> Release:
        """The planned release of the sum of visits."""
        return plan_for(self.settings, people=self.charter.many, pois=self.charter.places).release(Kind.POPULARITY)

    @cached_property
    def entries(self) -> int:
        """Of the longest vector that a device adds to a sum, now: visits, and with an edition a round's."""
        if self.edition is None:
            return popularity_entries(self.charter.places, self.settings)
        encoding = self.encoding
        wide = encoding.width(encoding.blocks())
        return max(wide + 1, wide * self.settings.model.dimension)

    def fewest(self, people: int) -> int:
        """How many of so many people, everyone or a cohort, must be on the roster of a sum over them."""
        return ceil(self.settings.sums.roster * people - 1e-6)

    def among(self, task: Task, people: frozenset[bytes], *, floor: int = 0) -> Task:
        """The task of a sum over these people, everyone or a cohort: nobody else may be on its roster, and the share of
        them that the charter states must be, or `floor` of them if that is more. Devices and recommender count alike:
        of all whom the sum is over, also in an attempt to which only those are invited who have not masked in it."""
        return replace(task, allowed=people, fewest=max(self.fewest(len(people)), floor))

    def popularity(self, *, attempt: int = 0) -> Task:
        """The sum of everyone's vectors of visits."""
        norm, length = self.visits.norm, popularity_entries(self.charter.places, self.settings)
        ring = FixedPoint(summands=self.charter.many, bound=norm.sensitivity, fraction_bits=norm.fraction_bits)
        code = RingCode(ring, noise=self.visits.wanted_whole)
        return self._task(Round(self.charter.deployment, "popularity", self._number(0), 0, attempt), code, length)

    def mixing(
        self, iteration: int, cohort: int, *, V: RealArray, centre: RealArray, attempt: int = 0
    ) -> Task:  # fmt: skip
        """Step (b) of a round: the sum of a cohort's linear models, as differences from its last mean (`centre`)."""
        of = Round(self.charter.deployment, "linear", self._number(iteration), cohort, attempt)
        return self._task(of, self.rounds.linear, len(centre), V, centre)

    def interaction(self, iteration: int, *, V: RealArray, attempt: int = 0) -> Task:
        """Step (e) of a round: the sum of everyone's gradients of V."""
        of = Round(self.charter.deployment, "interaction", self._number(iteration), 0, attempt)
        return self._task(of, self.rounds.interaction, V.size, V)

    @cached_property
    def rounds(self) -> "RoundRules":
        """What a round computes. There is none before an edition, whose seed and encoding it needs.

        Computed when it is needed: planning the noise takes SciPy, and a device that only records a visit, shows its
        status or recommends would wait for that import longer than for everything else."""
        if self.edition is None:
            raise PolicyError("rounds begin when the sum of visits is open")
        from prirec.rounds.definition import RoundRules

        size = {"people": self.charter.many, "places": self.charter.places, "features": len(self.encoding.names())}
        return RoundRules.sized(self.settings, **size)

    def norm(self, kind: str) -> Norm:
        """The norm of a person's contribution to a kind of sum: with the terms' noise, it gives the price."""
        wide = len(self.encoding.names())
        plan = plan_for(self.settings, people=self.charter.many, pois=self.charter.places, features=wide)
        return plan.release(Kind(kind)).norm

    def iteration(self, number: int) -> int:
        """The round of this campaign that a round number stands for."""
        return number - self._number(0)

    def _number(self, iteration: int) -> int:
        return self.charter.campaign * SPAN + iteration

    def _task(self, of: Round, code: RingCode, length: int, *held: RealArray) -> Task:
        # terms are derived from the charter, never taken from a message: else a recommender could name less noise
        terms = double_masks(
            code.ring, length=length, opening="collector", floor=self.settings.floor, sums=self.settings.sums,
            noise=code.noise,
        )  # fmt: skip
        return Task(of, self.charter.recommender, terms, self._held(*held))

    def _held(self, *models: RealArray) -> bytes:
        """The hash that members of a round sign: of the charter, and with an edition also of that, V and the centre.

        Charter and edition name everything else by hash. So if a recommender shows some members another roster,
        encoding, seed, catalogue or model, their signatures differ and the round is given up."""
        if self.edition is None:
            return self.name
        edition = address(encode(self.edition))
        return sha256(b"prirec held" + self.name + edition + model_hash(*models)).digest()


def cohorts_by(lines: Sequence[RosterLine], settings: Settings) -> IndexArray:
    """The cohort of each line of a roster, which everyone computes from the roster and the edition's seed."""
    cells = np.array([line.cell for line in lines], dtype=np.uint64)
    return cohorts_of(cells, person_keys([person_id(line.name) for line in lines]), settings)


def seed_of(charter: bytes, opened: bytes) -> int:
    """The seed of all public draws of a campaign, a hash of the opened sum of visits."""
    return int.from_bytes(sha256(b"prirec beacon" + charter + opened).digest()[:8], "little") >> 1
