"""The state of a campaign, and what follows from each opened sum: pure functions, without a store and a clock. The
conductor runs the sums, and writes what follows in one transaction with the fact that they were opened.

visits -> moments -> learning for each round -> quality, if it has a part of the budget -> over. Each phase has one sum
over everyone; what is computed from it is defined in prirec/rounds. A sum of gradients that was not opened leaves B as
it was, and the campaign goes on. The sums of visits and of moments, which everything is built on, are tried again among
people who have not masked in them, while they are enough for a roster; without a sum of quality figures none are
published. A campaign fails without them, and if B never moved, since then there is nothing to publish.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple, Self, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta

from prirec.errors import Fault, PeerError, StateError
from prirec.features.columns import Columns
from prirec.model.estimate import Estimate
from prirec.protocols.messages import Digest, Name, Natural, WireStruct
from prirec.protocols.party import Finished
from prirec.protocols.roster import Task
from prirec.protocols.two_operators import JointTask
from prirec.recommender.release import Catalogue, moments_release, noise_in_sum, popularity_release, quality_release
from prirec.types import RealArray
from prirec.util.decode_errors import NOT_DECODED
from prirec.wire.campaign import Campaign, write_model
from prirec.wire.documents import (
    Charter,
    Edition,
    Head,
    MaybeDigest,
    Roster,
    Scales,
    Subject,
    SumKind,
    Window,
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
    """The outcome of the sum of one phase, for the operator."""

    kind: str
    iteration: Natural
    opened: bool
    survivors: Natural
    rostered: Natural
    problem: str = ""  # why it was not opened


class Owed(WireStruct, frozen=True):
    """At a helper: an entry that the log must have next, for it follows from the opened sum."""

    subject: str
    document: Digest


class CampaignState(WireStruct, frozen=True, tag="prirec state of a campaign"):
    """The state of a campaign. All of it is public: opened sums, and what is computed from them."""

    charter: Digest
    phase: Literal["visits", "moments", "learning", "quality", "over", "failed"]
    iteration: Natural = 0
    attempt: Natural = 0
    edition: MaybeDigest = b""
    scales: MaybeDigest = b""
    average: bytes = b""  # float64 (entries,), and likewise the next two: the estimate of B
    shared: bytes = b""
    first: bytes = b""
    curvature: float = 0.0
    variance: float = 0.0
    rounds: Natural = 0  # that have moved B
    published: MaybeDigest = b""  # the model that it has come to
    past: Annotated[tuple[PhaseOutcome, ...], Meta(max_length=200_000)] = ()
    masked: tuple[Name, ...] = ()  # who may have masked in this phase's sums that were not opened: none does again
    # over two operators, where `attempt` counts how often the window was extended
    window: MaybeDigest = b""  # of the phase's sum; empty: it has not opened yet
    seconds: Natural = 0  # that a window lasts
    owed: tuple[Owed, ...] = ()

    @property
    def ended(self) -> bool:
        return self.phase in ("over", "failed")

    def estimate(self, columns: Columns) -> Estimate:
        """What the sums of gradients have come to."""
        average, shared, first = (
            _entries_to(columns, array(values, np.float64, (columns.entries,)))
            for values in (self.average, self.shared, self.first)
        )
        return Estimate(columns.groups, self.curvature, average, shared, first, self.variance, self.rounds)


def with_estimate(state: CampaignState, estimate: Estimate) -> CampaignState:
    live = estimate.groups >= 0
    average, shared, first = (
        octets(values[live], np.float64) for values in (estimate.average, estimate.B, estimate.first)
    )
    return replaced(
        state, average=average, shared=shared, first=first, curvature=estimate.curvature, variance=estimate.variance,
        rounds=estimate.rounds,
    )  # fmt: skip


def _entries_to(columns: Columns, entries: RealArray) -> RealArray:
    whole = np.zeros(columns.groups.shape)
    whole[columns.groups >= 0] = entries
    return whole


class _FirstState(msgspec.Struct, array_like=True, tag="prirec progress"):
    """How the state begins that version 1 has stored."""

    charter: Digest
    phase: str
    iteration: Natural


class _EarlierState(_FirstState, tag="prirec campaign state"):
    """A campaign's state in stores of versions 2 and 3."""


_decoder: msgspec.msgpack.Decoder[CampaignState | _FirstState | _EarlierState] = msgspec.msgpack.Decoder(
    CampaignState | _FirstState | _EarlierState
)


def decode_state(data: bytes) -> CampaignState:
    """The state as the conductor has stored it. StateError if it is damaged. A campaign of an earlier version that was
    under way has failed: neither this recommender nor the devices can go on with it."""
    try:
        state = _decoder.decode(data)
    except NOT_DECODED:
        raise StateError("the store's account of the campaign is damaged; restore the store from a backup") from None
    if isinstance(state, CampaignState):
        return state
    return CampaignState(state.charter, "over" if state.phase == "over" else "failed", state.iteration)


def with_outcome(state: CampaignState, outcome: PhaseOutcome) -> CampaignState:
    return replaced(state, past=(*state.past, outcome)[-MOST_PAST:])


def replaced(state: CampaignState, **changes: object) -> CampaignState:
    return msgspec.structs.replace(state, **changes)


def failed(state: CampaignState) -> CampaignState:
    """The state of a campaign that ends here, with nothing published."""
    return replaced(state, phase="failed")


# Which sum a phase has, and what follows when it is over


class NextState(NamedTuple):
    """What is written in one transaction: the new state of the campaign, and entries for the log, each with its subject
    and the documents that are stored with it, of which the entry names the last."""

    state: CampaignState
    entries: Sequence[tuple[Subject, Documents]] = ()


@dataclass(frozen=True, slots=True)
class CampaignSteps:
    """The steps of a campaign: which sum a phase has, who is invited, and what follows from its result."""

    campaign: Campaign
    names: tuple[bytes, ...] = field(repr=False)  # the roster
    fetch: Fetch = field(repr=False)

    @classmethod
    def of(cls, state: CampaignState, fetch: Fetch) -> Self:
        charter = read(Charter, fetch(state.charter), name=state.charter)
        edition = read(Edition, fetch(state.edition), name=state.edition) if state.edition else None
        scales = read(Scales, fetch(state.scales), name=state.scales) if state.scales else None
        names = read(Roster, fetch(charter.people), name=charter.people).names if charter.people else ()
        return cls(Campaign.of(charter, edition, scales), names, fetch)

    def holds(self, state: CampaignState) -> bool:
        """Whether this is the campaign that the state belongs to, with as much of it as is known by now."""
        campaign = self.campaign
        here = campaign.name, campaign.edition is not None, campaign.scales is not None
        return here == (state.charter, bool(state.edition), bool(state.scales))

    def sum(self, state: CampaignState) -> tuple[Task, list[bytes]]:
        """The sum of a phase, and who is invited to it."""
        task = self._task(state)
        return self.campaign.among(task, frozenset(self.names)), self._not_masked(state)

    def _task(self, state: CampaignState) -> Task:
        if state.phase == "visits":
            return self.campaign.popularity(attempt=state.attempt)
        if state.phase == "moments":
            return self.campaign.moments(attempt=state.attempt)
        B = state.estimate(self.campaign.columns).B
        return self.campaign.interaction(state.iteration, B=B, attempt=state.attempt)

    def after(
        self, state: CampaignState, opened: Finished | None, *, rostered: int, masked: bool,
        participants: Sequence[bytes] = (),
    ) -> NextState:  # fmt: skip
        """What follows from the sum; None: it was not opened. `rostered` is how many devices were in it, `masked`
        whether any of these may have masked a vector, `participants` who, if known."""
        # Nobody has paid for the phase, so it is tried again. Once vectors were masked it is not: each device masks one
        # vector for it, ever, so that no two sums differ by one of them. Visits and moments are tried with the others.
        if opened is None and state.phase != "learning":
            state = replaced(state, masked=(*state.masked, *participants))
            enough = max(self.campaign.settings.floor, self.campaign.fewest(len(self.names)))
            masked = len(self._not_masked(state)) < enough
        if opened is None and not masked and state.attempt + 1 < MOST_ATTEMPTS:
            return NextState(replaced(state, attempt=state.attempt + 1))
        if state.phase == "learning":
            return self._after_learning(state, opened, rostered=rostered)
        if opened is None:
            return NextState(failed(state))
        return (self._after_visits if state.phase == "visits" else self._after_moments)(
            state, opened, rostered=rostered
        )

    def window(self, state: CampaignState, *, people: int, listed: Head, opens: int, closes: int) -> Window:
        """The window of a phase's sum over two operators."""
        kind, B = self._joint(state)
        return self.campaign.window(
            kind, state.iteration, B=B, people=people, listed=listed, opens=opens, closes=closes
        )  # fmt: skip

    def joint(self, state: CampaignState, window: Window) -> JointTask:
        """The task of a phase's sum over two operators. PeerError for a window of another sum."""
        kind, B = self._joint(state)
        if (window.kind, self.campaign.iteration(window.number)) != (kind, state.iteration):
            raise PeerError(Fault.ORDER, "a window is of another sum than the campaign is at")
        return self.campaign.joint(window, B=B)

    def _joint(self, state: CampaignState) -> tuple[SumKind, RealArray | None]:
        if state.phase == "visits":
            return "popularity", None
        if state.phase == "moments":
            return "moments", None
        return "quality" if state.phase == "quality" else "interaction", state.estimate(self.campaign.columns).B

    def after_window(self, state: CampaignState, opened: Finished | None) -> NextState:
        """The campaign after a sum over two operators; None: the sum was given up."""
        state = replaced(state, window=b"", attempt=0)
        rostered = 0 if opened is None else opened.summands
        if state.phase == "learning":
            return self._after_learning(state, opened, rostered=rostered)
        if state.phase == "quality":
            return self._after_quality(state, opened)
        if opened is None:
            return NextState(failed(state))
        after = self._after_visits if state.phase == "visits" else self._after_moments
        return after(state, opened, rostered=rostered)

    def _not_masked(self, state: CampaignState) -> list[bytes]:
        masked = frozenset(state.masked)
        return [name for name in self.names if name not in masked]

    def _after_visits(self, state: CampaignState, opened: Finished, *, rostered: int) -> NextState:
        """The edition: how popular places are."""
        catalogue = Catalogue.read(self.campaign.charter.manifest, self.fetch, basis=self.campaign)
        issued = popularity_release(
            self.campaign, catalogue, opened=opened.total, survivors=opened.summands, rostered=rostered
        )
        begun = replaced(state, phase="moments", attempt=0, masked=(), edition=issued.name)
        return NextState(begun, [("edition", issued.documents)])

    def _after_moments(self, state: CampaignState, opened: Finished, *, rostered: int) -> NextState:
        """The scales, and B before the first round."""
        edition = self.campaign.edition
        if edition is None:
            raise StateError("moments are summed under an edition")
        catalogue = Catalogue.read(edition.manifest, self.fetch, basis=self.campaign)
        moments, scales = moments_release(
            self.campaign, catalogue, opened=opened.total, survivors=opened.summands, rostered=rostered
        )
        page = written(scales)
        begun = replaced(state, phase="learning", attempt=0, masked=(), scales=page[0])
        begun = with_estimate(begun, self.campaign.rules.first_estimate(moments))
        return NextState(begun, [("scales", [page]), ("model", [self._model(begun)])])

    def _after_learning(self, state: CampaignState, opened: Finished | None, *, rostered: int) -> NextState:
        """Steps (c) and (d): B moves on, if the sum was opened. The next round begins, or the model is published."""
        if opened is not None:
            noise = noise_in_sum(
                self.campaign, self.campaign.rules.codes.interaction.noise, survivors=opened.summands, rostered=rostered
            )
            before = state.estimate(self.campaign.columns)
            state = with_estimate(
                state, self.campaign.rules.moved(before, opened.total, survivors=opened.summands, noise=noise)
            )
        moved = replaced(state, attempt=0, iteration=state.iteration + 1)
        if moved.iteration < self.campaign.settings.iterations:
            return NextState(moved, [("model", [self._model(moved)])])
        if not moved.rounds:  # B is still 0: what was published before stays in force
            return NextState(failed(moved))
        figures = self.campaign.settings.privacy.quality > 0
        page = self._model(moved)
        return NextState(
            replaced(moved, phase="quality" if figures else "over", published=page[0]), [("publication", [page])]
        )

    def _after_quality(self, state: CampaignState, opened: Finished | None) -> NextState:
        """The quality figures of the model that is published."""
        over = replaced(state, phase="over")
        if opened is None:
            return NextState(over)
        found = quality_release(self.campaign, state.published, opened=opened.total, reports=opened.summands)
        return NextState(over, [("figures", [written(found)])])

    def _model(self, state: CampaignState) -> tuple[bytes, bytes]:
        """B as it is published: step (a) of the next round, or what to recommend with."""
        columns = self.campaign.columns
        return written(
            write_model(state.scales, columns, state.estimate(columns).B, iteration=state.iteration)
        )  # fmt: skip
