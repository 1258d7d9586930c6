"""A campaign worked out once more: from what devices added to each sum that counts as opened, and from nothing else.

Each document that the log names must be what follows, to the bit; and whatever counts as opened must have been
followed by one."""

from dataclasses import dataclass, field
from math import sqrt
from typing import NamedTuple

import numpy as np

from prirec.features.columns import WordScales
from prirec.model.estimate import Estimate
from prirec.protocols.messages import Round
from prirec.protocols.party import Stage
from prirec.protocols.terms import noise_share
from prirec.recommender.release import Catalogue
from prirec.recommender.store import Store
from prirec.wire.campaign import SPAN, Campaign, write_scales
from prirec.wire.documents import Charter, Edition, LogEntry, Model, Scales, read
from prirec.wire.regions import KnownPlaces
from support.cities import same_bits
from support.observer import ViolationError, Witness

_LATEST = 40  # rounds that are looked at: far more than begin between two looks


@dataclass
class Course:
    """One campaign."""

    campaign: Campaign
    iteration: int = 0
    estimate: Estimate | None = None
    shared: dict[int, np.ndarray] = field(default_factory=dict)  # B that a round began with


class Opened(NamedTuple):
    """A sum that counts as opened: what its survivors added, and the standard deviation of the noise in an entry."""

    total: np.ndarray
    survivors: int
    spread: float


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

    def _entry(self, entry: LogEntry, opened: set[Round]) -> None:
        body = self.store.document(entry.document)
        assert body is not None
        match entry.subject:
            case "charter":
                charter = read(Charter, body, name=entry.document)
                self.courses[charter.campaign] = Course(Campaign.of(charter))
            case "edition":
                self._edition(read(Edition, body, name=entry.document), opened)
            case "scales":
                self._scales(read(Scales, body, name=entry.document), entry.document, opened)
            case "model":
                self._model(read(Model, body, name=entry.document), opened)
            case "publication":
                self._model(read(Model, body, name=entry.document), opened)

    def _edition(self, edition: Edition, opened: set[Round]) -> None:
        """Its noisy sums are those of visits."""
        course, found = self.course, self._sum("popularity", 0, opened)
        course.campaign = Campaign.of(course.campaign.charter, edition)
        counted = self._catalogue(course.campaign).counted
        unit = 2.0**-course.campaign.visits.norm.fraction_bits
        if found is None or not same_bits(counted.sums, found.total.view(np.int64) * unit):
            raise ViolationError("an edition does not follow from its sum of visits")

    def _scales(self, scales: Scales, name: bytes, opened: set[Round]) -> None:
        """They follow from the sum of moments, and from the whole catalogue."""
        course, found = self.course, self._sum("moments", 0, opened)
        campaign, edition = course.campaign, course.campaign.edition
        if found is None or edition is None:
            raise ViolationError("scales do not follow from a sum of moments")
        columns, ring = campaign.columns, campaign.rules.codes.moments.ring
        moments = columns.moments.read(ring.decode(found.total), found.survivors, found.spread)
        places = self._catalogue(campaign)
        if scales != write_scales(scales.edition, columns, moments, WordScales.of(places.features, columns)):
            raise ViolationError("scales do not follow from their sum of moments")
        course.campaign = Campaign.of(campaign.charter, edition, scales)
        course.estimate = Estimate.nothing(columns, moments)

    def _catalogue(self, campaign: Campaign) -> KnownPlaces:
        assert campaign.edition is not None
        fetch = self.store.document
        return Catalogue.read(campaign.edition.manifest, lambda name: fetch(name) or b"", basis=campaign).known

    def _model(self, model: Model, opened: set[Round]) -> None:
        """Step (d): B moves by the mean of what the survivors added, if there is one."""
        course = self.course
        if course.estimate is None:
            raise ViolationError("a model comes before its scales")
        if model.iteration:  # the first one is published with the scales
            found = self._sum("interaction", course.iteration, opened)
            if found is not None:
                mean = course.campaign.rules.codes.interaction.ring.decode(found.total) / found.survivors
                course.estimate = course.estimate.after(mean, found.spread / found.survivors)
            course.iteration += 1
            self.rounds += 1
        if model.iteration != course.iteration:
            raise ViolationError("a model is of another round than was opened")
        if not same_bits(course.campaign.shared(model), course.estimate.B):
            raise ViolationError("a published model is not what the opened sums come to")
        course.shared[model.iteration] = course.estimate.B

    def _sum(self, kind: str, iteration: int, opened: set[Round]) -> Opened | None:
        """What the devices added to a sum that counts as opened; None where none does."""
        campaign = self.course.campaign
        number = campaign.charter.campaign * SPAN + iteration
        found = [of for of in opened if (of.kind, of.number) == (kind, number)]
        if not found:
            return None
        self._followed.add(found[0])
        total, survivors = self.witness.opened[found[0]]
        if kind == "popularity":
            return Opened(total, survivors, 0.0)
        task = campaign.moments() if kind == "moments" else campaign.interaction(0, B=campaign_zeros(campaign))
        shares = noise_share(task.terms, self.witness.rostered[found[0]])
        ring = campaign.rules.codes._asdict()[kind].ring
        return Opened(total, survivors, sqrt(shares.total_variance(survivors)) / ring.scale)


def campaign_zeros(campaign: Campaign) -> np.ndarray:
    return np.zeros(campaign.columns.groups.shape)
