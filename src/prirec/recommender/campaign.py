"""The state of a campaign, and what follows from each opened sum: pure functions, without a store and a clock. The
conductor runs the sums, and writes what follows in one transaction with the fact that they were opened.

visits -> (mixing -> learning) for each round -> over. What a round computes is defined in prirec/rounds. A sum that was
not opened changes nothing: V or a mean stays as it was, and the campaign goes on. The sum of visits, which everything
is built on, is tried again among people who have not masked in it, while they are enough for a roster. A campaign fails
without it, and if V never moved, since then there is nothing to publish.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple, Self, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta

from prirec.errors import StateError
from prirec.model.public_half import Moments, no_moments
from prirec.protocols.codec import bitmap
from prirec.protocols.messages import Digest, Name, Natural, WireStruct
from prirec.protocols.party import Finished
from prirec.protocols.roster import Task
from prirec.recommender.release import Catalogue, popularity_release, publication
from prirec.rounds.definition import first_interaction, first_linear
from prirec.types import RealArray
from prirec.util.decode_errors import NOT_DECODED
from prirec.wire.campaign import Campaign, cohorts_by
from prirec.wire.documents import (
    Charter,
    Edition,
    MaybeDigest,
    Mean,
    Model,
    People,
    RosterLine,
    Subject,
    array,
    octets,
    read,
    written,
)
from prirec.wire.http import MOST_ATTEMPTS

MOST_PAST = 1000  # reports of sums that are over: the last so many are kept

Documents: TypeAlias = list[tuple[bytes, bytes]]  # name and content
Fetch: TypeAlias = Callable[[bytes], bytes]  # a document from the recommender's store, by its name


class PhaseOutcome(WireStruct, frozen=True):
    """The outcome of the sums of one phase, for the operator."""

    kind: str
    iteration: Natural
    opened: Natural  # sums: cohorts, or the one over everyone
    gathered: Natural  # sums that were begun
    survivors: Natural
    rostered: Natural
    problem: str = ""  # why a sum was not opened; of several sums, the first that has one


class CampaignState(WireStruct, frozen=True, tag="prirec progress"):
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
    masked: tuple[Name, ...] = ()  # who may have masked in sums of visits that were not opened: none of them does again

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


def with_outcome(state: CampaignState, outcome: PhaseOutcome) -> CampaignState:
    return _replace(state, past=(*state.past, outcome)[-MOST_PAST:])


def failed(state: CampaignState) -> CampaignState:
    """The state of a campaign that ends here, with nothing published."""
    return _replace(state, phase="failed")


def _replace(state: CampaignState, **changes: object) -> CampaignState:
    return msgspec.structs.replace(state, **changes)


# Which sums a phase has, and what follows when they are over


class NextState(NamedTuple):
    """What is written in one transaction: the new state of the campaign, and entries for the log, each with its subject
    and the documents that are stored with it, of which the entry names the last."""

    state: CampaignState
    entries: Sequence[tuple[Subject, Documents]] = ()


@dataclass(frozen=True, slots=True)
class CampaignSteps:
    """The steps of a campaign: which sums a phase has, who is invited, and what follows from their results."""

    campaign: Campaign
    lines: tuple[RosterLine, ...] = field(repr=False)
    fetch: Fetch = field(repr=False)

    @classmethod
    def of(cls, state: CampaignState, fetch: Fetch) -> Self:
        charter = read(Charter, fetch(state.charter), name=state.charter)
        found = read(Edition, fetch(state.edition), name=state.edition) if state.edition else None
        people = read(People, fetch(charter.people), name=charter.people)
        return cls(Campaign.of(charter, found), people.lines, fetch)

    def holds(self, state: CampaignState) -> bool:
        """Whether this is the campaign, and the edition of it, that the state belongs to."""
        return self.campaign.name == state.charter and (self.campaign.edition is None) == (not state.edition)

    def sums(self, state: CampaignState) -> list[tuple[Task, list[bytes]]]:
        """The sums of a phase, and who is invited to each."""
        everyone, t, attempt = [line.name for line in self.lines], state.iteration, state.attempt
        among, all_names = self.campaign.among, frozenset(everyone)
        if state.phase == "visits":
            return [(among(self.campaign.popularity(attempt=attempt), all_names), self._not_masked(state))]
        if state.phase == "learning":
            return [(among(self.campaign.interaction(t, V=state.V, attempt=attempt), all_names), everyone)]
        cohort, V, centres = cohorts_by(self.lines, self.campaign.settings), state.V, state.centres
        members = [[everyone[at] for at in np.flatnonzero(cohort == one)] for one in range(int(cohort.max()) + 1)]
        return [
            (
                among(
                    self.campaign.mixing(t, number, V=V, centre=centres[number], attempt=attempt), frozenset(names)
                ),
                names,
            )
            for number, names in enumerate(members)
        ]  # fmt: skip

    def after(
        self, state: CampaignState, opened: Mapping[int, Finished], *, rostered: int, masked: bool,
        participants: Sequence[bytes] = (),
    ) -> NextState:  # fmt: skip
        """What follows from the sums that were opened, by cohort (0 for a sum over everyone). `rostered` is how many
        devices were in them, `masked` whether any of these may have masked a vector, `participants` who, if known."""
        # Nobody has paid for the phase, so it is tried again. Once vectors were masked it is not: each device masks one
        # vector for it, ever, so that no two sums differ by one of them. The sum of visits is tried with the others.
        if not opened and state.phase == "visits":
            state = _replace(state, masked=(*state.masked, *participants))
            enough = max(self.campaign.settings.floor, self.campaign.fewest(len(self.lines)))
            masked = len(self._not_masked(state)) < enough
        if not opened and not masked and state.attempt + 1 < MOST_ATTEMPTS:
            return NextState(_replace(state, attempt=state.attempt + 1))
        if state.phase == "visits":
            return self._after_visits(state, opened.get(0), rostered=rostered)
        if state.phase == "mixing":
            return self._after_mixing(state, opened)
        return self._after_learning(state, opened.get(0))

    def _not_masked(self, state: CampaignState) -> list[bytes]:
        masked = frozenset(state.masked)
        return [line.name for line in self.lines if line.name not in masked]

    def _after_visits(self, state: CampaignState, opened: Finished | None, *, rostered: int) -> NextState:
        """The edition, and the start of the first round: V small and random, from the public seed, and every linear
        model at 0."""
        if opened is None:
            return NextState(failed(state))
        catalogue = Catalogue.read(self.campaign.charter.manifest, self.fetch, campaign=self.campaign)
        issued = popularity_release(
            self.campaign, catalogue, self.lines, opened=opened.total, survivors=opened.summands, rostered=rostered
        )
        campaign = Campaign.of(self.campaign.charter, issued.document)
        features = len(campaign.encoding.names())
        V = first_interaction(features, campaign.settings)
        begun = _replace(
            state,
            phase=_first_phase(campaign, 0),
            attempt=0,
            masked=(),
            edition=issued.name,
            shape=V.shape,
            means=octets(first_linear(issued.document.cohorts, features), np.float64),
            **_interaction_fields(V, no_moments(V.shape)),
        )
        model = model_documents(begun, mixed=begun.phase == "learning")
        return NextState(begun, [("edition", issued.documents), ("model", model)])

    def _after_mixing(self, state: CampaignState, opened: Mapping[int, Finished]) -> NextState:
        """Step (b): the new mean of each cohort whose sum was opened; the others keep their last one."""
        means, rules = state.centres, self.campaign.rounds
        centres = rules.centres(means)
        for cohort, total in opened.items():
            means[cohort] = rules.cohort_mean(centres[cohort], total.total, total.summands)
        mixed = _replace(state, phase="learning", attempt=0, means=octets(means, np.float64))
        return NextState(mixed, [("model", model_documents(mixed, mixed=True, opened=sorted(opened)))])

    def _after_learning(self, state: CampaignState, opened: Finished | None) -> NextState:
        """Step (f): V moves on, if its sum was opened. The next round begins, or the model is published."""
        after, learnt, rules = state.iteration + 1, dict[str, object](), self.campaign.rounds
        if opened is not None:
            learnt = _interaction_fields(
                *rules.move_interaction(state.V, state.moments, opened.total, opened.summands)
            )  # fmt: skip
        last = after == self.campaign.settings.iterations
        phase = "over" if last else _first_phase(self.campaign, after)
        moved = _replace(state, phase=phase, attempt=0, iteration=after, **learnt)
        if not last:
            return NextState(moved, [("model", model_documents(moved, mixed=phase == "learning"))])
        if not moved.steps:  # V is still its random start: what was published before stays in force
            return NextState(failed(moved))
        if self.campaign.edition is None:
            raise StateError("rounds begin with an edition")
        catalogue = Catalogue.read(self.campaign.edition.manifest, self.fetch, campaign=self.campaign)
        issued = publication(
            self.campaign, catalogue, self.lines, iteration=moved.iteration, V=moved.V, means=moved.centres
        )
        return NextState(moved, [("publication", issued.documents)])


def _first_phase(campaign: Campaign, iteration: int) -> str:
    """With what a round begins: by mixing, or by learning where nothing is mixed."""
    return "mixing" if campaign.rounds.mixes(iteration) else "learning"


def model_documents(state: CampaignState, *, mixed: bool, opened: Sequence[int] = ()) -> Documents:
    """V and the cohorts' means as they are published: a document for each mean, then the model that names them."""
    means = [written(Mean(number, octets(mean, np.float64))) for number, mean in enumerate(state.centres)]
    model = Model(
        state.edition, state.iteration, mixed, state.interaction, tuple(name for name, _ in means),
        bitmap(opened, size=len(means)),
    )  # fmt: skip
    return [*means, written(model)]


def _interaction_fields(V: RealArray, moments: Moments) -> dict[str, object]:
    return {
        "interaction": octets(V, np.float64),
        "first": octets(moments.first, np.float64),
        "second": octets(moments.second, np.float64),
        "steps": moments.steps,
    }
