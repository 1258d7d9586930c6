"""The sums of a campaign, derived from its charter by devices and recommender alike, each with its price.

A campaign sums visits once, then moments once, then in each round t everyone's gradients of B, and in the end quality
figures where these have a part of the budget. Each sum is over everyone, contains noise, and is opened by the
recommender (decisions/0015), or by the recommender and a helper over all who report in a window (decisions/0027).
"""

from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from math import ceil
from typing import TYPE_CHECKING, Self

import numpy as np

from prirec.config import Settings, mechanism_not_collected
from prirec.errors import Fault, PeerError, PolicyError, StateError, UsageError
from prirec.features.columns import FINE, LARGEST, RAREST, Columns, Moments, WordScales
from prirec.features.encoding import Encoding, from_json
from prirec.features.popularity import Scale, average_column
from prirec.privacy.norm import Norm
from prirec.privacy.plan import Kind, Plan, Release, norm_of_visits, plan_for, popularity_entries
from prirec.privacy.quality_figures import FIGURES, Estimate
from prirec.protocols.codec import encode
from prirec.protocols.messages import Round
from prirec.protocols.roster import Task
from prirec.protocols.terms import RingCode, double_masks, model_hash, over_two_operators
from prirec.sharing.fixed_point import FixedPoint
from prirec.sharing.keys import KEY
from prirec.types import RealArray
from prirec.util.shown import counted
from prirec.wire.documents import (
    Charter,
    Edition,
    Figures,
    Head,
    Model,
    Offer,
    Scales,
    SumKind,
    Window,
    address,
    array,
    octets,
)
from prirec.wire.http import MOST_RECORDS, is_within, refuse_oversized

if TYPE_CHECKING:
    from prirec.model.shared_model import SharedModel
    from prirec.protocols.two_operators import JointTask
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
    """The id of a device among the people of a simulation."""
    return name.hex()


def deployable(settings: Settings) -> Settings:
    """The settings, if devices may be asked to follow them. PolicyError for what only a simulation may do."""
    uncollected = mechanism_not_collected(settings.popularity.mechanism)
    wrong = {
        "privacy.epsilon_per_user: without a budget nothing hides a person": settings.privacy.epsilon_per_user is None,
        str(uncollected): uncollected is not None,
        "privacy.quality: quality figures are collected over two operators alone": settings.privacy.quality > 0
        and settings.sums.operators == 1,
        "popularity.cap: it is for comparisons": settings.popularity.cap is not None,
        "features.dynamic: a campaign begins with the sum of visits": not settings.features.dynamic,
        "participation: devices take part as they are there": settings.participation != type(settings.participation)(),
        "stopping: it looks at everyone's records": settings.stopping.patience > 0,
        "seed: devices draw nothing from it": settings.seed != 0,
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


def refuse_other_operators(charter: Charter, settings: Settings) -> None:
    """PolicyError where the settings are for another number of operators than the charter names."""
    boxes = charter.leader_box, charter.helper_box
    if settings.sums.operators == 1:
        whole = bool(charter.people) and not any((charter.helper, *boxes, charter.most))
    else:
        parties = {charter.recommender, charter.helper}, set(boxes)
        whole = all(len(keys) == 2 and all(len(one) == KEY for one in keys) for keys in parties)
        whole = whole and settings.floor <= charter.most and not (charter.people or charter.many)
    if not whole:
        raise PolicyError("a charter names a roster with one operator; with two, both with a key each, and no roster")


def read_encoding(json: bytes) -> Encoding:
    """A published encoding. PeerError for one that is damaged, or of another version."""
    try:
        return from_json(json)
    except StateError as error:
        raise PeerError(Fault.DECODE, str(error)) from None


@dataclass(frozen=True)
class Basis:
    """What a device encodes records by, and reads a model under: a catalogue and settings; with an edition, popularity;
    with scales, those of its columns. A campaign is one; others are a catalogue with which no campaign has begun yet,
    and that of a starting model."""

    offered: Offer | Charter  # both name a catalogue, and the encoding of what is in it
    settings: Settings
    edition: Edition | None = None
    scales: Scales | None = None

    def __post_init__(self) -> None:
        """PolicyError before anything of the announced sizes is allocated."""
        campaign = self.offered.campaign if isinstance(self.offered, Charter) else 0
        refuse_oversized(self.settings, self.encoding, places=self.offered.places, campaign=campaign)

    @cached_property
    def encoding(self) -> Encoding:
        return read_encoding(self.offered.encoding if self.edition is None else self.edition.encoding)

    @cached_property
    def columns(self) -> Columns:
        """Columns of the shared model; before an edition, without popularity."""
        return Columns.of(self.encoding)

    @cached_property
    def scaling(self) -> tuple[Moments, WordScales]:
        """What columns are scaled by. PolicyError before the sum of moments is open, PeerError for scales that no sum
        and no catalogue could lead to."""
        if self.scales is None:
            raise PolicyError("columns can be scaled when the sum of moments is open")
        return read_scales(self.scales, self.columns)

    def model(self, B: RealArray) -> "SharedModel":
        """Step (a) of a round, or what to recommend with."""
        from prirec.model.shared_model import SharedModel

        moments, words = self.scaling
        return SharedModel.of(B, self.columns.layout, words, positive=moments.positive)

    def shared(self, model: Model) -> RealArray:
        """B (1 + m, width) of a published model. PeerError if it is none under these scales."""
        from prirec.model.shared_model import FINE_B, LARGEST_B

        if self.scales is None or model.scales != address(encode(self.scales)):
            raise PeerError(Fault.PARAMS_MISMATCH, "the model is another campaign's")
        entries = array(model.shared, np.float32, (self.columns.entries,)).astype(np.float64)
        if not is_within(entries, LARGEST_B) or (entries * FINE_B % 1).any():
            raise PeerError(
                Fault.PARAMS_MISMATCH, "a published model has entries that are no numbers, or beyond all use"
            )
        B = np.zeros(self.columns.groups.shape)
        B[self.columns.groups >= 0] = entries
        return B


@dataclass(frozen=True)
class Campaign(Basis):
    """A charter and what follows from it: with an edition the sum of moments, with scales the sums of its rounds."""

    offered: Charter

    @classmethod
    def of(cls, charter: Charter, edition: Edition | None = None, scales: Scales | None = None) -> Self:
        averages = tuple(block.column for block in read_encoding(charter.encoding).averages)
        try:
            settings = charter.settings.whole(averages)
        except (UsageError, PolicyError) as problem:
            raise PolicyError(f"the charter has settings that nobody may choose: {problem}") from None
        deployable(settings)
        refuse_other_operators(charter, settings)
        return cls(charter, settings, edition, scales)

    @property
    def charter(self) -> Charter:
        return self.offered

    @property
    def name(self) -> bytes:
        return address(encode(self.charter))

    @property
    def people(self) -> int:
        """How many people a sum is sized for: those on the roster or, with two operators, the most that may report."""
        return self.charter.most or self.charter.many

    @property
    def visits(self) -> Release:
        """The planned release of the sum of visits."""
        return self._plan.release(Kind.POPULARITY)

    @property
    def figures(self) -> Release:
        """The planned release of quality figures. UsageError if they have no part of the budget."""
        return self._plan.release(Kind.QUALITY)

    @property
    def _plan(self) -> Plan:
        size = None if self.edition is None else self.columns.size
        return plan_for(self.settings, people=self.people, pois=self.charter.places, size=size)

    @property
    def visits_norm(self) -> Norm:
        """The norm of a person's contribution to the sum of visits, without a plan of its noise."""
        return norm_of_visits(self.charter.places, self.settings)

    @cached_property
    def entries(self) -> int:
        """Of the longest vector that a device adds to a sum, now: visits, and with an edition moments or gradients."""
        if self.edition is None:
            return popularity_entries(self.charter.places, self.settings)
        return max(self.columns.entries, self.columns.moments.length)

    def fewest(self, people: int) -> int:
        """How many of so many people must be on the roster of a sum over them."""
        return ceil(self.settings.sums.roster * people - 1e-6)

    def among(self, task: Task, people: frozenset[bytes], *, floor: int = 0) -> Task:
        """The task of a sum over these people: nobody else may be on its roster, and the share of them that the charter
        states must be, or `floor` of them if that is more. Devices and recommender count alike: of all whom the sum is
        over, also in an attempt to which only those are invited who have not masked in it."""
        return replace(task, allowed=people, fewest=max(self.fewest(len(people)), floor))

    def popularity(self, *, attempt: int = 0) -> Task:
        """The sum of everyone's vectors of visits."""
        return self._task("popularity", 0, attempt)

    def moments(self, *, attempt: int = 0) -> Task:
        """The sum of everyone's means and squares of private columns."""
        return self._task("moments", 0, attempt)

    def interaction(self, iteration: int, *, B: RealArray, attempt: int = 0) -> Task:
        """Step (b) of a round: the sum of everyone's gradients of B."""
        return self._task("interaction", iteration, attempt, B)

    def window(
        self, kind: SumKind, iteration: int, *, B: RealArray | None = None, people: int, listed: Head, opens: int,
        closes: int,
    ) -> Window:  # fmt: skip
        """The window of a sum over two operators, of the people whom the log lists up to a head."""
        held = () if B is None else (B,)
        number, model = self._number(iteration), self._held(*held)
        return Window(self.name, kind, number, people, listed.length, listed.last, model, opens, closes)

    def joint(self, window: Window, *, B: RealArray | None = None) -> "JointTask":
        """The task of a window's sum over two operators. PeerError for a window of another sum than this campaign is
        at, over another model, or of more people than it was sized for."""
        from prirec.protocols.two_operators import JointTask, OperatorKeys

        charter, held = self.charter, () if B is None else (B,)
        if (window.charter, window.model) != (self.name, self._held(*held)):
            raise PeerError(Fault.PARAMS_MISMATCH, "a window is of another campaign, or over another model")
        if not self.settings.floor <= window.people <= charter.most:
            raise PeerError(Fault.PARAMS_MISMATCH, "a window lists fewer people than the floor, or more than the most")
        if window.kind == "quality" and not self.settings.privacy.quality:
            raise PeerError(Fault.PARAMS_MISMATCH, "a window is of quality figures, which this campaign does not take")
        code, length = self.code(window.kind)
        terms = over_two_operators(code, length=length, floor=self.settings.floor)
        of = Round(charter.deployment, window.kind, window.number)
        leader = OperatorKeys(charter.recommender, charter.leader_box)
        helper = OperatorKeys(charter.helper, charter.helper_box)
        return JointTask(of, terms, window.bound, leader, helper, window.listed, people=window.people)

    @cached_property
    def rules(self) -> "RoundRules":
        """What a round computes. There is none before an edition, whose encoding it needs.

        Computed when it is needed: planning the noise takes SciPy, and a device that only records a visit, shows its
        status or recommends would wait for that import longer than for everything else."""
        from prirec.rounds.definition import RoundRules

        if self.edition is None:
            raise PolicyError("the columns are known when the sum of visits is open")
        return RoundRules.sized(self.settings, people=self.people, places=self.charter.places, columns=self.columns)

    def norm(self, kind: str) -> Norm:
        """The norm of a person's contribution to a kind of sum: with the terms' noise, it gives the price."""
        return self._plan.release(Kind(kind)).norm

    def iteration(self, number: int) -> int:
        """The round of this campaign that a round number stands for."""
        return number - self._number(0)

    def _number(self, iteration: int) -> int:
        return self.charter.campaign * SPAN + iteration

    def _task(self, kind: SumKind, iteration: int, attempt: int, *held: RealArray) -> Task:
        # terms are derived from the charter, never taken from a message: else a recommender could name less noise
        code, length = self.code(kind)
        terms = double_masks(
            code.ring, length=length, floor=self.settings.floor, sums=self.settings.sums,
            noise=code.noise,
        )  # fmt: skip
        of = Round(self.charter.deployment, kind, self._number(iteration), 0, attempt)
        return Task(of, self.charter.recommender, terms, self._held(*held))

    def code(self, kind: SumKind) -> tuple[RingCode, int]:
        """How the vectors of a kind of sum are encoded, and how long they are."""
        if kind == "moments":
            return self.rules.codes.moments, self.columns.moments.length
        if kind == "interaction":
            return self.rules.codes.interaction, self.columns.entries
        release = self.visits if kind == "popularity" else self.figures
        length = popularity_entries(self.charter.places, self.settings) if kind == "popularity" else release.of.length
        norm = release.norm
        ring = FixedPoint(summands=self.people, bound=norm.sensitivity, fraction_bits=norm.fraction_bits)
        return RingCode(ring, most=int(norm.units) ** 2, noise=release.wanted_whole), length

    def _held(self, *models: RealArray) -> bytes:
        """The hash that members of a round sign, and that a window names: of the charter, of the edition and the scales
        once there are any, and of B.

        Charter and edition name everything else by hash. So if a recommender shows some members another roster,
        encoding, catalogue, scale or model, their signatures differ and the round is given up."""
        if self.edition is None:
            return self.name
        named = b"".join(address(encode(one)) for one in (self.edition, self.scales) if one is not None)
        return sha256(b"prirec held" + self.name + named + model_hash(*models)).digest()


def write_scales(edition: bytes, columns: Columns, moments: Moments, words: WordScales) -> Scales:
    """The document of scales that follows from the sum of moments."""
    named = columns.place_words + 1
    return Scales(
        edition=edition,
        person_mean=octets(moments.person_mean, np.float64),
        person_sd=octets(moments.person_sd, np.float64),
        moment_mean=octets(moments.moment_mean, np.float64),
        moment_sd=octets(moments.moment_sd, np.float64),
        positive=moments.positive,
        root_records=moments.root_records,
        word_factor=octets(words.factor[named], np.float64),
        word_centre=octets(words.centre[named], np.float64),
    )


def read_scales(scales: Scales, columns: Columns) -> tuple[Moments, WordScales]:
    """PeerError for scales that no sum and no catalogue could lead to: under them columns would overflow."""
    person, moment, word = (columns.person,), (columns.context - columns.popularity,), (len(columns.place_words),)
    who, who_sd = (array(values, np.float64, person) for values in (scales.person_mean, scales.person_sd))
    then, then_sd = (array(values, np.float64, moment) for values in (scales.moment_mean, scales.moment_sd))
    factor, centre = (array(values, np.float64, word) for values in (scales.word_factor, scales.word_centre))
    good = (
        is_within(who, LARGEST) and is_within(then, LARGEST)
        and all(is_within(sd) and (sd >= RAREST).all() for sd in (who_sd, then_sd))
        and RAREST <= scales.positive <= 1 - RAREST and 1 <= scales.root_records <= MOST_RECORDS
        and is_within(factor, 1 / RAREST) and is_within(centre, 1 / RAREST)
        and not (np.hstack([factor, centre]) * FINE % 1).any()
    )  # fmt: skip
    if not good:
        raise PeerError(Fault.DECODE, "scales are no numbers, or beyond all use")
    core = np.zeros((2, columns.layout.core))
    core[:, columns.place_words + 1] = factor, centre
    moments = Moments(who, who_sd, then, then_sd, scales.positive, scales.root_records)
    return moments, WordScales(core[0], core[1])


@dataclass(frozen=True, slots=True)
class PublishedFigures:
    """How good a published model is, as it was read from a noisy sum."""

    reports: int
    figures: dict[str, Estimate]  # by name, without those that noise drowns

    @classmethod
    def of(cls, document: Figures) -> Self:
        found: dict[str, Estimate] = {
            one.name: Estimate(one.value, one.noise, one.sampling) for one in document.figures
        }
        return cls(document.reports, found)

    @property
    def rows(self) -> list[tuple[str, str]]:
        """In words, for a table, each figure with twice its error."""
        return [
            ("quality figures", f"from {counted(self.reports, 'report')}"),
            *(
                (words, self.figures[name].words if name in self.figures else "drowned by noise")
                for name, words in FIGURES.items()
            ),
        ]


@dataclass(frozen=True, slots=True)
class PublishedAverage:
    """An average over visits, as it was read from a noisy sum: of the whole city and, around it, of places. All of it
    is in the unit of what visits have."""

    column: str
    value: float  # of the city
    noise: float  # its standard error
    spread: float  # standard deviation of places around it; 0: noise drowns how they differ
    error: float  # standard error of a place's average, the root of the mean square; popularity is taken as known

    @classmethod
    def all_of(cls, edition: Edition) -> "tuple[PublishedAverage, ...]":
        if not edition.averages:  # nothing was collected, as for a starting model
            return ()
        return tuple(
            cls(
                one.column,
                Scale(one.low, one.high).outward(np.array([found.middle])).item(),
                *(np.array([found.noise, found.spread**0.5, found.error]) * (one.high - one.low) / 2).tolist(),
            )
            for one, found in zip(read_encoding(edition.encoding).averages, edition.averages, strict=True)
        )

    @property
    def row(self) -> tuple[str, str]:
        """In words, for a table, with twice each error."""
        at_a_place = f"of a place ± {2 * self.error:.2g} at best" if self.spread else "noise drowns how places differ"
        return average_column(self.column), f"{self.value:.4g} ± {2 * self.noise:.2g} in the city, {at_a_place}"


def write_model(scales: bytes, columns: Columns, B: RealArray, *, iteration: int) -> Model:
    """B as it is published under these scales."""
    return Model(scales, iteration, octets(B[columns.groups >= 0], np.float32))
