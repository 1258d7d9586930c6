"""A campaign worked out once more: from what devices added to each sum that counts as opened, and from nothing else.

Each document that the log names must be what follows, to the bit; and whatever counts as opened must have been
followed by one."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from prirec.model import public_half
from prirec.model.public_half import Moments, no_moments
from prirec.protocols.codec import positions
from prirec.protocols.messages import Round
from prirec.protocols.party import Stage
from prirec.recommender.store import Store
from prirec.types import RealArray
from prirec.util.keyed_random import generator
from prirec.wire.campaign import SPAN, Campaign, cohorts_by, seed_of
from prirec.wire.documents import Charter, Edition, LogEntry, Mean, Model, People, Publication, array, octets, read
from support.cities import same_bits
from support.observer import ViolationError, Witness

_LATEST = 40  # rounds that are looked at: far more than begin between two looks


class Taught(NamedTuple):
    """What devices learn under in a round."""

    V: RealArray
    means: RealArray
    opened: frozenset[int]  # cohorts that have mixed in this round


@dataclass
class Course:
    """One campaign."""

    campaign: Campaign
    cohort: dict[bytes, int] = field(default_factory=dict)  # by name
    iteration: int = 0
    V: RealArray = field(default_factory=lambda: np.empty((0, 0)))
    moments: Moments = field(default_factory=lambda: no_moments((0, 0)))
    means: RealArray = field(default_factory=lambda: np.empty((0, 0)))
    taught: dict[int, Taught] = field(default_factory=dict)  # by round


@dataclass
class Recomputed:
    """Follows the log as it grows."""

    store: Store
    witness: Witness
    courses: dict[int, Course] = field(default_factory=dict)  # by the campaign's number
    rounds: int = 0  # that are behind, of all campaigns
    _place: int = 0
    _followed: set[Round] = field(default_factory=set)

    def follow(self) -> None:
        opened = {one.round for one in self.store.rounds(_LATEST) if one.stage is Stage.OPENED}
        while entries := self.store.entries(self._place):
            for signed in entries:
                self._entry(signed.entry, opened)
            self._place += len(entries)
        if opened - self._followed:
            raise ViolationError("a sum counts as opened, and nothing followed from it")

    @property
    def course(self) -> Course:
        return self.courses[max(self.courses)]

    def taught(self, number: int) -> tuple[Course, int, Taught]:
        """The course, the round and what was learnt under, for the number of a sum."""
        course = self.courses[number // SPAN]
        return course, number % SPAN, course.taught[number % SPAN]

    def _entry(self, entry: LogEntry, opened: set[Round]) -> None:
        body = self.store.document(entry.document)
        assert body is not None
        match entry.subject:
            case "charter":
                charter = read(Charter, body, name=entry.document)
                self.courses[charter.campaign] = Course(Campaign.of(charter))
            case "edition":
                self._edition(read(Edition, body, name=entry.document), opened)
            case "model":
                self._model(read(Model, body, name=entry.document), opened)
            case "publication":
                self._learnt(opened)
                self._same(read(Publication, body, name=entry.document).interaction, self.course.V)

    def _edition(self, edition: Edition, opened: set[Round]) -> None:
        """What is drawn follows from the sum of visits: V starts from there."""
        course = self.course
        charter, total = course.campaign.charter, self._sum("popularity", 0, 0, opened)
        if total is None or edition.seed != seed_of(course.campaign.name, octets(total[0], np.uint64)):
            raise ViolationError("an edition does not follow from its sum of visits")
        course.campaign = Campaign.of(charter, edition)
        people = read(People, self.store.document(charter.people) or b"", name=charter.people).lines
        cohorts = cohorts_by(people, course.campaign.settings).tolist()
        course.cohort = {line.name: cohort for line, cohort in zip(people, cohorts, strict=True)}
        settings, D = course.campaign.settings, len(course.campaign.encoding.names())
        shape = (D, settings.model.dimension)
        course.V = generator(edition.seed, "start of V").normal(0.0, settings.model.spread, size=shape)
        course.moments, course.means = no_moments(shape), np.zeros((max(cohorts) + 1, D + 1))

    def _model(self, model: Model, opened: set[Round]) -> None:
        course, mixed = self.course, frozenset[int]()
        if not model.mixed:
            self._learnt(opened)
        elif course.iteration:
            mixed = self._mixed(opened)
        else:
            course.taught.clear()
        if model.mixed:
            course.taught[course.iteration] = Taught(course.V, course.means.copy(), mixed)
        if model.iteration != course.iteration or positions(model.opened, size=len(model.means)) != mixed:
            raise ViolationError("a model is of another round, or of other cohorts, than were opened")
        self._same(model.interaction, course.V)
        for cohort, name in enumerate(model.means):
            self._same(read(Mean, self.store.document(name) or b"", name=name).values, course.means[cohort])

    def _learnt(self, opened: set[Round]) -> None:
        """Step (f): V moves by the mean of what the survivors added, if there is one."""
        course, found = self.course, self._sum("interaction", self.course.iteration, 0, opened)
        if found is not None:
            ring, s = course.campaign.rounds.interaction.ring, course.campaign.settings
            course.V, course.moments = public_half.adam_move(
                course.V, ring.decode(found[0]) / found[1], course.moments,
                alpha=s.interaction.alpha, lambda_v=s.model.lambda_v,
            )  # fmt: skip
        course.iteration += 1
        self.rounds += 1

    def _mixed(self, opened: set[Round]) -> frozenset[int]:
        """Steps (b) and (c): a cohort's mean moves, if its sum was opened."""
        course, mixed = self.course, set()
        for cohort in range(len(course.means)):
            found = self._sum("linear", course.iteration, cohort, opened)
            if found is not None:
                ring = course.campaign.rounds.linear.ring
                course.means[cohort] = course.means[cohort] + ring.decode(found[0]) / found[1]
                mixed.add(cohort)
        return frozenset(mixed)

    def _sum(self, kind: str, iteration: int, group: int, opened: set[Round]) -> tuple[np.ndarray, int] | None:
        """What the devices added to a sum that counts as opened; None where none does."""
        number = self.course.campaign.charter.campaign * SPAN + iteration
        found = [of for of in opened if (of.kind, of.number, of.group) == (kind, number, group)]
        if not found:
            return None
        self._followed.add(found[0])
        return self.witness.opened[found[0]]

    def _same(self, found: bytes, expected: RealArray) -> None:
        if not same_bits(array(found, np.float64, expected.shape), expected):
            raise ViolationError("a published model is not what the opened sums come to")
