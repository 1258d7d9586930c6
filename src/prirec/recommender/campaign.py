"""The state of a campaign, and what follows from each opened sum: pure functions, without a store and a clock. The
conductor runs the sums, and writes what follows in one transaction with the fact that they were opened.

visits -> (mixing -> learning) for each round -> over. What a round computes is defined in prirec/rounds. A sum that was
not opened changes nothing: V or a mean stays as it was, and the campaign goes on. It fails without the sum of visits,
which everything is built on, and if V never moved, since then there is nothing to publish.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple, Self

import msgspec
import numpy as np
from msgspec import Meta

from prirec.errors import StateError
from prirec.model.adam import Moments, no_moments
from prirec.protocols.actions import Finished
from prirec.protocols.codec import bitmap
from prirec.protocols.meeting import Task
from prirec.protocols.messages import Digest, Natural, Part
from prirec.recommender.release import Catalogue, popularity_release, publication
from prirec.rounds.definition import first_interaction, first_linear
from prirec.types import RealArray
from prirec.util.decode_errors import NOT_DECODED
from prirec.wire.campaign import Campaign, cohorts_by
from prirec.wire.documents import Charter, Edition, Line, MaybeDigest, Mean, Model, People, array, octets, read, written
from prirec.wire.http import MOST_ATTEMPTS
from prirec.wire.log import Subject

MOST_PAST = 1000  # reports of sums that are over: the last so many are kept

Documents = list[tuple[bytes, bytes]]  # name and content


class PhaseOutcome(Part, frozen=True):
    """The outcome of the sums of one phase, for the operator."""

    kind: str
    iteration: Natural
    opened: Natural  # sums: cohorts, or the one over everyone
    gathered: Natural  # sums that were begun
    survivors: Natural
    rostered: Natural


class CampaignState(Part, frozen=True, tag="prirec progress"):
    """The state of a campaign. All of it is public: opened sums, and what is computed from them."""

    charter: Digest
    phase: Literal["visits", "mixing", "learning", "over", "failed"]
    iteration: Natural = 0
    attempt: Natural = 0
    edition: MaybeDigest = b""
    shape: tuple[Natural, Natural] = (0, 0)  # D, K
    interaction: bytes = b""
    first: bytes = b""  # Adam's moments
    second: bytes = b""
    steps: Natural = 0
    means: bytes = b""  # float64 (C, D + 1)
    past: Annotated[tuple[PhaseOutcome, ...], Meta(max_length=200_000)] = ()

    @property
    def ended(self) -> bool:
        return self.phase in ("over", "failed")

    @property
    def V(self) -> RealArray:  # noqa: N802  the paper's name
        return array(self.interaction, np.float64, self.shape)

    @property
    def moments(self) -> Moments:
        return Moments(
            array(self.first, np.float64, self.shape), array(self.second, np.float64, self.shape), self.steps
        )  # fmt: skip

    @property
    def centres(self) -> RealArray:
        return array(self.means, np.float64, (-1, self.shape[0] + 1))


_decoder: msgspec.msgpack.Decoder[CampaignState] = msgspec.msgpack.Decoder(CampaignState)


def decode_state(data: bytes) -> CampaignState:
    """The state as the conductor has stored it. StateError if it is damaged."""
    try:
        return _decoder.decode(data)
    except NOT_DECODED:
        raise StateError("the store's account of the campaign is damaged; restore the store from a backup") from None


def first_round(progress: CampaignState, campaign: Campaign) -> tuple[CampaignState, Documents]:
    """After the sum of visits: V starts small and random, from the public seed, and every linear model at 0."""
    edition, features = _edition(campaign), len(campaign.encoding.names())
    V = first_interaction(features, campaign.settings)
    begun = _replace(
        progress,
        phase=_first_phase(campaign, 0),
        attempt=0,
        edition=written(edition)[0],
        shape=V.shape,
        means=octets(first_linear(edition.cohorts, features), np.float64),
        **_interaction_fields(V, no_moments(V.shape)),
    )
    return begun, model_of(begun, mixed=begun.phase == "learning")


def after_mixing(
    progress: CampaignState, campaign: Campaign, opened: Mapping[int, Finished]
) -> tuple[CampaignState, Documents]:
    """Step (b): the new mean of each cohort whose sum was opened; the others keep their last one."""
    means, rules = progress.centres, campaign.rounds
    centres = rules.centres(means)
    for cohort, total in opened.items():
        means[cohort] = rules.cohort_mean(centres[cohort], total.total, total.summands)
    mixed = _replace(progress, phase="learning", attempt=0, means=octets(means, np.float64))
    return mixed, model_of(mixed, mixed=True, opened=sorted(opened))


def after_learning(
    progress: CampaignState, campaign: Campaign, opened: Finished | None
) -> tuple[CampaignState, Documents]:
    """Step (f): V moves on, if its sum was opened, and the next round begins, unless this was the last one."""
    after, learnt = progress.iteration + 1, dict[str, object]()
    if opened is not None:
        V, moments = progress.V, progress.moments
        learnt = _interaction_fields(*campaign.rounds.move_interaction(V, moments, opened.total, opened.summands))
    phase = "over" if after == campaign.settings.iterations else _first_phase(campaign, after)
    moved = _replace(progress, phase=phase, attempt=0, iteration=after, **learnt)
    return moved, [] if phase == "over" else model_of(moved, mixed=phase == "learning")


def _first_phase(campaign: Campaign, iteration: int) -> str:
    """With what a round begins: by mixing, or by learning where nothing is mixed."""
    return "mixing" if campaign.rounds.mixes(iteration) else "learning"


def model_of(progress: CampaignState, *, mixed: bool, opened: Sequence[int] = ()) -> Documents:
    """V and the cohorts' means as they are published: a document for each mean, then the model that names them."""
    means = [
        written(Mean(number, octets(mean, np.float64))) for number, mean in enumerate(progress.centres)
    ]  # fmt: skip
    model = Model(
        progress.edition, progress.iteration, mixed, progress.interaction, tuple(name for name, _ in means),
        bitmap(opened, size=len(means)),
    )  # fmt: skip
    return [*means, written(model)]


def with_outcome(progress: CampaignState, past: PhaseOutcome) -> CampaignState:
    return _replace(progress, past=(*progress.past, past)[-MOST_PAST:])


def failed(progress: CampaignState) -> CampaignState:
    """The campaign ends here, and nothing is published."""
    return _replace(progress, phase="failed")


def _interaction_fields(V: RealArray, moments: Moments) -> dict[str, object]:
    return {
        "interaction": octets(V, np.float64),
        "first": octets(moments.first, np.float64),
        "second": octets(moments.second, np.float64),
        "steps": moments.steps,
    }


def _edition(campaign: Campaign) -> Edition:
    if campaign.edition is None:
        raise StateError("rounds begin with an edition")
    return campaign.edition


def _replace(progress: CampaignState, **changes: object) -> CampaignState:
    return msgspec.structs.replace(progress, **changes)


# Which sums a phase has, and what follows when they are over


Fetch = Callable[[bytes], bytes]  # a document from the recommender's store, by its name


class Step(NamedTuple):
    """A log entry and the documents that are stored with it; the entry names the last of them."""

    subject: Subject
    documents: Documents


@dataclass(frozen=True, slots=True)
class NextState:
    """What is written in one transaction: the new state of the campaign, and entries for the log."""

    progress: CampaignState
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class CampaignSteps:
    """A campaign with its roster, as the store has them."""

    campaign: Campaign
    lines: tuple[Line, ...] = field(repr=False)
    fetch: Fetch = field(repr=False)

    @classmethod
    def of(cls, progress: CampaignState, fetch: Fetch) -> Self:
        charter = read(Charter, fetch(progress.charter), name=progress.charter)
        found = read(Edition, fetch(progress.edition), name=progress.edition) if progress.edition else None
        people = read(People, fetch(charter.people), name=charter.people)
        return cls(Campaign.of(charter, found), people.lines, fetch)

    def holds(self, progress: CampaignState) -> bool:
        """Whether this is the campaign, and the edition of it, that the state belongs to."""
        return self.campaign.name == progress.charter and (self.campaign.edition is None) == (not progress.edition)

    def sums(self, progress: CampaignState) -> list[tuple[Task, list[bytes]]]:
        """The sums of a phase, and who is invited to each."""
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

    def after(
        self, progress: CampaignState, opened: Mapping[int, Finished], *, rostered: int, masked: bool
    ) -> NextState:
        """What follows from the sums that were opened, by group. Where none was, and nobody has masked a vector, the
        phase is tried again: nobody has paid for it yet."""
        if not opened and not masked and progress.attempt + 1 < MOST_ATTEMPTS:
            return NextState(msgspec.structs.replace(progress, attempt=progress.attempt + 1))
        if progress.phase == "mixing":
            mixed, documents = after_mixing(progress, self.campaign, opened)
            return NextState(mixed, (Step("model", documents),))
        if progress.phase == "learning":
            return self._after_learning(progress, opened.get(0))
        return self._after_visits(progress, opened.get(0), rostered=rostered)

    def interrupted(self, progress: CampaignState, *, masked: bool) -> NextState:
        """After sums that another conductor began and did not finish. They are tried again, unless key boxes were
        delivered in one of them: then vectors were masked for it, and that conductor may have opened it."""
        return self.after(progress, {}, rostered=0, masked=masked)

    def _after_visits(self, progress: CampaignState, opened: Finished | None, *, rostered: int) -> NextState:
        if opened is None:
            return NextState(failed(progress))
        catalogue = Catalogue.read(self.campaign.charter.manifest, self.fetch, campaign=self.campaign)
        issued = popularity_release(
            self.campaign, catalogue, self.lines,
            opened=opened.total, survivors=opened.summands, rostered=rostered,
        )  # fmt: skip
        campaign = Campaign.of(self.campaign.charter, issued.document)
        begun, model = first_round(progress, campaign)
        return NextState(begun, (Step("edition", issued.documents), Step("model", model)))

    def _after_learning(self, progress: CampaignState, opened: Finished | None) -> NextState:
        moved, documents = after_learning(progress, self.campaign, opened)
        if moved.phase != "over":
            return NextState(moved, (Step("model", documents),))
        if not moved.steps:  # V is still its random start: what was published before stays in force
            return NextState(failed(moved))
        catalogue = Catalogue.read(_edition(self.campaign).manifest, self.fetch, campaign=self.campaign)
        issued = publication(
            self.campaign, catalogue, self.lines, iteration=moved.iteration, V=moved.V, means=moved.centres
        )
        return NextState(moved, (Step("publication", issued.documents),))
