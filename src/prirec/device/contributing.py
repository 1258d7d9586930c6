"""What a device adds to each kind of sum, and what it costs: worked out from the signed log and its own data alone.

Which round it is and what it costs follow from public documents, and are refused where these are wrong. What is added
follows from the person's records too, and whatever goes wrong there is not told: not even by silence, since whoever
writes the documents could choose them so that some records fail and others do not, and ask for free. The device then
adds zeros, at the full price, and its model stays as it was.
"""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from prirec.contract.campaign import Campaign
from prirec.contract.documents import Model, array
from prirec.contract.sound import MOST_ATTEMPTS, is_within
from prirec.device.learning import Learnt, learn, mixing_vector, start, visited_places, visits_vector
from prirec.device.models import Kept, Visited, save_given, save_model
from prirec.device.person import Person
from prirec.device.records import records_of
from prirec.device.view import View
from prirec.errors import Fault, PeerError
from prirec.privacy.accountant import Spent
from prirec.protocols import noise
from prirec.protocols.codec import positions
from prirec.protocols.meeting import Task
from prirec.protocols.messages import Round
from prirec.types import RealArray, RingArray

WHAT = {
    "popularity": "how popular places are",
    "linear": "mixing linear models in the neighbourhood",
    "interaction": "the feature interaction model V",
}

_Made = TypeVar("_Made")


def _nothing(rows: sqlite3.Connection) -> None:
    """Nothing follows on the device."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """One vector for one sum."""

    task: Task
    value: RingArray = field(repr=False)
    what: str
    cost: Spent
    settle: Callable[[sqlite3.Connection], None] = field(default=_nothing, repr=False)
    empty: Exception | None = field(default=None, repr=False)  # why it is nothing but zeros, for the person's eyes

    def alone(self, person: Person) -> None:
        """What the device does with it if it may not be sent: it has learnt for itself."""
        if self.task.round.kind == "interaction":
            with person.store.transaction() as rows:
                self.settle(rows)


def contribution(of: Round, view: View, person: Person) -> Contribution:
    """What this device would add to a round that it was invited to. PeerError if it is not one of its rounds."""
    if not is_current(of, view):
        raise PeerError(Fault.ORDER, "this device's log is not at the round that it is invited to")
    campaign, model = view.campaign, view.model
    if campaign is None or view.position is None:
        raise PeerError(Fault.ORDER, "this device has no part in that campaign")
    if model is None:
        made = _visits(of, view, campaign, person)
    else:
        made = (_mixing if of.kind == "linear" else _learning)(of, view, campaign, model, person)
    return replace(made, task=replace(made.task, allowed=view.allowed(of.kind)))


def is_current(of: Round, view: View) -> bool:
    """Whether the log is at this round, and the charter has it. Devices mix first, and learn once mixing is over."""
    campaign, model = view.campaign, view.model
    if campaign is None or view.over or of.deployment != view.member.deployment or of.attempt >= MOST_ATTEMPTS:
        return False
    if model is None:
        return campaign.edition is None and (of.kind, campaign.iteration(of.number)) == ("popularity", 0)
    if model.iteration >= campaign.settings.iterations or not (model.mixed or campaign.mixes(model.iteration)):
        return False
    kind = "interaction" if model.mixed else "linear"
    return (of.kind, campaign.iteration(of.number)) == (kind, model.iteration)


def _visits(of: Round, view: View, campaign: Campaign, person: Person) -> Contribution:
    task, name = _same(campaign.popularity(attempt=of.attempt), of), campaign.name
    nowhere = Visited(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    visited, why = _worked_out(lambda: visited_places(person, campaign, view.known), instead=nowhere)
    return _priced(
        task, visits_vector(visited, campaign), campaign, lambda rows: save_given(rows, name, visited), why
    )  # fmt: skip


def _mixing(of: Round, view: View, campaign: Campaign, model: Model, person: Person) -> Contribution:
    V, centre, held = _interaction(model, campaign), _centre(view), person.model(campaign.name)
    task = campaign.mixing(model.iteration, view.cohort or 0, V=V, centre=centre, attempt=of.attempt)
    value, why = _worked_out(
        lambda: mixing_vector(campaign, _linear(held, campaign), centre=centre),
        instead=campaign.rounds.linear.ring.zeros(len(centre)),
    )
    return _priced(_same(task, of), value, campaign, _nothing, why)


def _learning(of: Round, view: View, campaign: Campaign, model: Model, person: Person) -> Contribution:
    V, t, cohort = _interaction(model, campaign), model.iteration, view.cohort
    opened = cohort in positions(model.opened, size=len(model.means))
    mean = _centre(view) if opened else None
    task, held = _same(campaign.interaction(t, V=V, attempt=of.attempt), of), person.model(campaign.name)
    zeros = campaign.rounds.interaction.ring.zeros(V.size)
    if held is not None and held.iteration > t:  # in an attempt before this one: nobody learns from a round twice
        return _priced(task, zeros, campaign, _nothing)
    linear = _linear(held, campaign)
    learnt, why = _worked_out(
        lambda: learn(
            records_of(person, campaign, view.known), campaign, linear=linear, interaction=V, iteration=t, mean=mean
        ),
        instead=Learnt(linear, zeros, 0.0),
    )
    took = (view.mean_name or b"") if opened and why is None else b""
    kept = Kept(campaign.name, t + 1, learnt.linear, took)
    return _priced(task, learnt.contribution, campaign, lambda rows: save_model(rows, kept), why)


def _worked_out(work: Callable[[], _Made], *, instead: _Made) -> tuple[_Made, Exception | None]:
    """What comes of the person's records; where nothing does, what stands for it, and why. Anything is caught, since
    any kind of failure would tell something; what is refused for the public part alone was refused before."""
    try:
        return work(), None
    except Exception as problem:
        return instead, problem.with_traceback(None)  # which would keep the records in memory


def _linear(held: Kept | None, campaign: Campaign) -> RealArray:
    """W_i as it is; in a campaign's first round 0 for everyone."""
    return start(campaign) if held is None else held.linear


def _same(task: Task, of: Round) -> Task:
    if task.round != of:
        raise PeerError(Fault.PARAMS_MISMATCH, "this device is invited to another round than its own")
    return task


def _priced(
    task: Task, value: RingArray, campaign: Campaign, settle: Callable[[sqlite3.Connection], None],
    empty: Exception | None = None,
) -> Contribution:  # fmt: skip
    kind = task.round.kind
    return Contribution(task, value, WHAT[kind], noise.cost(task.terms, norm=campaign.norm(kind)), settle, empty)


def _interaction(model: Model, campaign: Campaign) -> RealArray:
    wide = len(campaign.encoding.names())
    return _bounded(array(model.interaction, np.float64, (wide, campaign.settings.model.dimension)))


def _centre(view: View) -> RealArray:
    if view.mean is None or view.campaign is None:
        raise PeerError(Fault.ORDER, "this device has no cohort in that campaign")
    return _bounded(array(view.mean.values, np.float64, (len(view.campaign.encoding.names()) + 1,)))


def _bounded(values: RealArray) -> RealArray:
    if not is_within(values):
        raise PeerError(Fault.PARAMS_MISMATCH, "a published model has entries that are no numbers, or beyond all use")
    return values
