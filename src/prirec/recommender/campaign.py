"""How far a campaign has come, and what each opened sum leads to: rules only. The conductor gathers sums, and writes
what follows from here in one transaction with the fact that they were opened.

visits -> (mixing -> learning) for each round -> over. A sum that was not opened changes nothing: V or a mean stays as
it was, and the campaign goes on. Without the sum of visits there is nothing to go on with, and if V never moved nothing
to publish: the campaign has failed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple, Self

import msgspec
import numpy as np
from msgspec import Meta

from prirec.errors import StateError
from prirec.model import adam
from prirec.model.adam import Moments, no_moments
from prirec.protocols.actions import Finished
from prirec.protocols.codec import bitmap
from prirec.protocols.meeting import Task
from prirec.protocols.messages import Digest, Natural, Part
from prirec.recommender.release import Catalogue, popularity_release, publication
from prirec.types import RealArray
from prirec.util.decode_errors import NOT_DECODED
from prirec.util.keyed_random import generator
from prirec.wire.campaign import Campaign, cohorts_by
from prirec.wire.documents import Charter, Edition, Line, MaybeDigest, Mean, Model, People, array, octets, read, written
from prirec.wire.http import MOST_ATTEMPTS
from prirec.wire.log import Subject

MOST_PAST = 1000  # sums that are over: so many are told of, the last

Documents = list[tuple[bytes, bytes]]


class Past(Part, frozen=True):
    """What one sum came to, for whoever runs the deployment."""

    kind: str
    iteration: Natural
    opened: Natural  # sums: cohorts, or the one over everyone
    gathered: Natural  # sums that were begun
    survivors: Natural
    rostered: Natural


class Progress(Part, frozen=True, tag="prirec progress"):
    """Public, all of it: nothing but opened sums and what is made of them."""

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
    past: Annotated[tuple[Past, ...], Meta(max_length=200_000)] = ()

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


_decoder: msgspec.msgpack.Decoder[Progress] = msgspec.msgpack.Decoder(Progress)


def read_progress(data: bytes) -> Progress:
    """What the conductor has written itself."""
    try:
        return _decoder.decode(data)
    except NOT_DECODED:
        raise StateError("the store's account of the campaign is damaged; restore the store from a backup") from None


def first_round(progress: Progress, campaign: Campaign) -> tuple[Progress, Documents]:
    """The sum of visits is open: V starts small and random, from the public seed, and every model at 0."""
    edition, s = _edition(campaign), campaign.settings
    features = len(campaign.encoding.names())
    shape = (features, s.model.dimension)
    V = generator(s.seed, "start of V").normal(0.0, s.model.spread, size=shape)
    none = no_moments(shape)
    begun = _replace(
        progress,
        phase="learning",  # the first round mixes nothing
        attempt=0,
        edition=written(edition)[0],
        shape=shape,
        means=octets(np.zeros((edition.cohorts, features + 1)), np.float64),
        **_learnt(V, none),
    )
    return begun, model_of(begun, mixed=True)


def after_mixing(progress: Progress, campaign: Campaign, opened: Mapping[int, Finished]) -> tuple[Progress, Documents]:
    """Steps (b) and (c): each cohort's new mean, around its last one."""
    means, ring = progress.centres, campaign.rounds.linear.ring
    for cohort, total in opened.items():
        means[cohort] = means[cohort] + ring.decode(total.total) / total.summands
    mixed = _replace(progress, phase="learning", attempt=0, means=octets(means, np.float64))
    return mixed, model_of(mixed, mixed=True, opened=sorted(opened))


def after_learning(progress: Progress, campaign: Campaign, opened: Finished | None) -> tuple[Progress, Documents]:
    """Step (f): V moves on, if its sum was opened, and the next round begins; after the last one there is none."""
    settings, after = campaign.settings, progress.iteration + 1
    learnt: dict[str, object] = {}
    if opened is not None:
        mean = campaign.rounds.interaction.ring.decode(opened.total) / opened.summands
        V, moments = adam.move(
            progress.V, mean, progress.moments, alpha=settings.interaction.alpha, lambda_v=settings.model.lambda_v
        )
        learnt = _learnt(V, moments)
    phase = "over" if after == settings.iterations else "mixing"
    moved = _replace(progress, phase=phase, attempt=0, iteration=after, **learnt)
    return moved, [] if phase == "over" else model_of(moved, mixed=False)


def model_of(progress: Progress, *, mixed: bool, opened: Sequence[int] = ()) -> Documents:
    """V and the cohorts' means as they are published; the model itself is the last."""
    means = [
        written(Mean(number, octets(mean, np.float64))) for number, mean in enumerate(progress.centres)
    ]  # fmt: skip
    model = Model(
        progress.edition, progress.iteration, mixed, progress.interaction, tuple(name for name, _ in means),
        bitmap(opened, size=len(means)),
    )  # fmt: skip
    return [*means, written(model)]


def noted(progress: Progress, past: Past) -> Progress:
    return _replace(progress, past=(*progress.past, past)[-MOST_PAST:])


def failed(progress: Progress) -> Progress:
    """Nothing follows any more, and nothing is published."""
    return _replace(progress, phase="failed")


def _learnt(V: RealArray, moments: Moments) -> dict[str, object]:
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


def _replace(progress: Progress, **changes: object) -> Progress:
    return msgspec.structs.replace(progress, **changes)


# The course of a campaign: which sums a phase has, and what follows when they are over. No store and no clock.


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
            mixed, documents = after_mixing(progress, self.campaign, opened)
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
            return Following(failed(progress))
        catalogue = Catalogue.read(self.campaign.charter.manifest, self.fetch, campaign=self.campaign)
        issued = popularity_release(
            self.campaign, catalogue, self.lines,
            opened=opened.total, survivors=opened.summands, rostered=rostered,
        )  # fmt: skip
        campaign = Campaign.of(self.campaign.charter, issued.document)
        begun, model = first_round(progress, campaign)
        return Following(begun, (Step("edition", issued.documents), Step("model", model)))

    def _after_learning(self, progress: Progress, opened: Finished | None) -> Following:
        moved, documents = after_learning(progress, self.campaign, opened)
        if moved.phase != "over":
            return Following(moved, (Step("model", documents),))
        if not moved.steps:  # V is the random start: people keep what was published before
            return Following(failed(moved))
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
