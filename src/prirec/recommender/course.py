"""The course of a campaign: which sums a phase has, and what follows when they are over. No store and no clock."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import msgspec
import numpy as np

from prirec.contract.campaign import Campaign, cohorts_by
from prirec.contract.documents import Charter, Edition, Line, People, read
from prirec.contract.log import Subject
from prirec.contract.sound import MOST_ATTEMPTS
from prirec.errors import StateError
from prirec.protocols.actions import Finished
from prirec.protocols.meeting import Task
from prirec.recommender import progress as rules
from prirec.recommender.catalogue import Catalogue
from prirec.recommender.editions import edition
from prirec.recommender.progress import Documents, Progress
from prirec.recommender.publishing import publication

Fetch = Callable[[bytes], bytes]  # a document of the recommender's own, by its name


class Step(NamedTuple):
    """An entry for the log: the last of the documents is what it names."""

    subject: Subject
    documents: Documents


@dataclass(frozen=True, slots=True)
class Following:
    """What is written together: how far the campaign is, and what the log says about it."""

    progress: Progress
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Course:
    """A campaign with its people, as the store knows them."""

    campaign: Campaign
    lines: tuple[Line, ...] = field(repr=False)
    fetch: Fetch = field(repr=False)

    @classmethod
    def of(cls, progress: Progress, fetch: Fetch) -> Self:
        charter = read(Charter, fetch(progress.charter), name=progress.charter)
        found = read(Edition, fetch(progress.edition), name=progress.edition) if progress.edition else None
        people = read(People, fetch(charter.people), name=charter.people)
        return cls(Campaign.of(charter, found), people.lines, fetch)

    def holds(self, progress: Progress) -> bool:
        """Whether this is still the course that progress is on."""
        return self.campaign.name == progress.charter and (self.campaign.edition is None) == (not progress.edition)

    def sums(self, progress: Progress) -> list[tuple[Task, list[bytes]]]:
        """The sums of a phase, and who is in each."""
        everyone, t, attempt = [line.name for line in self.lines], progress.iteration, progress.attempt
        if progress.phase == "visits":
            return [(self.campaign.popularity(attempt=attempt), everyone)]
        if progress.phase == "learning":
            return [(self.campaign.interaction(t, V=progress.V, attempt=attempt), everyone)]
        cohort, V, centres = cohorts_by(self.lines, self.campaign.settings), progress.V, progress.centres
        members = [[everyone[at] for at in np.flatnonzero(cohort == one)] for one in range(int(cohort.max()) + 1)]
        return [
            (self.campaign.mixing(t, number, V=V, centre=centres[number], attempt=attempt), names)
            for number, names in enumerate(members)
        ]

    def after(self, progress: Progress, opened: Mapping[int, Finished], *, rostered: int, masked: bool) -> Following:
        """By group, the sums that were opened. Where nobody masked anything, the same can be tried once more."""
        if not opened and not masked and progress.attempt + 1 < MOST_ATTEMPTS:
            return Following(msgspec.structs.replace(progress, attempt=progress.attempt + 1))
        if progress.phase == "mixing":
            mixed, documents = rules.after_mixing(progress, self.campaign, opened)
            return Following(mixed, (Step("model", documents),))
        if progress.phase == "learning":
            return self._after_learning(progress, opened.get(0))
        return self._after_visits(progress, opened.get(0), rostered=rostered)

    def interrupted(self, progress: Progress, *, masked: bool) -> Following:
        """Sums that somebody began and did not finish. They are tried again, unless boxes were delivered in one of
        them: then vectors were masked for it, and it may have been open to whoever began it."""
        return self.after(progress, {}, rostered=0, masked=masked)

    def _after_visits(self, progress: Progress, opened: Finished | None, *, rostered: int) -> Following:
        if opened is None:
            return Following(rules.failed(progress))
        catalogue = Catalogue.read(self.campaign.charter.manifest, self.fetch, campaign=self.campaign)
        issued = edition(
            self.campaign, catalogue, self.lines,
            opened=opened.total, survivors=opened.summands, rostered=rostered,
        )  # fmt: skip
        campaign = Campaign.of(self.campaign.charter, issued.document)
        begun, model = rules.first_round(progress, campaign)
        return Following(begun, (Step("edition", issued.documents), Step("model", model)))

    def _after_learning(self, progress: Progress, opened: Finished | None) -> Following:
        moved, documents = rules.after_learning(progress, self.campaign, opened)
        if moved.phase != "over":
            return Following(moved, (Step("model", documents),))
        if not moved.steps:  # V is the random start: people keep what was published before
            return Following(rules.failed(moved))
        catalogue = Catalogue.read(self._edition.manifest, self.fetch, campaign=self.campaign)
        issued = publication(
            self.campaign, catalogue, self.lines, iteration=moved.iteration, V=moved.V, means=moved.centres
        )
        return Following(moved, (Step("publication", issued.documents),))

    @property
    def _edition(self) -> Edition:
        if self.campaign.edition is None:
            raise StateError("rounds begin with an edition")
        return self.campaign.edition
