"""What a device adds to each kind of sum, and what it costs: worked out from the signed log and its own data alone."""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from prirec.contract.campaign import Campaign
from prirec.contract.documents import Model, array
from prirec.device.learning import learn, mixing_vector, start, visited_places, visits_vector
from prirec.device.models import Kept, save_given, save_model
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
        return _visits(of, view, campaign, person)
    return (_mixing if of.kind == "linear" else _learning)(of, view, campaign, model, person)


def is_current(of: Round, view: View) -> bool:
    """Whether the log is at this round. Devices mix first, and learn once mixing is over."""
    campaign, model = view.campaign, view.model
    if campaign is None or view.over or of.deployment != view.member.deployment:
        return False
    if model is None:
        return campaign.edition is None and (of.kind, campaign.iteration(of.number)) == ("popularity", 0)
    kind = "interaction" if model.mixed else "linear"
    return (of.kind, campaign.iteration(of.number)) == (kind, model.iteration)


def _visits(of: Round, view: View, campaign: Campaign, person: Person) -> Contribution:
    task = _same(campaign.popularity(attempt=of.attempt), of)
    visited, name = visited_places(person, campaign, view.known), campaign.name
    return _priced(task, visits_vector(visited, campaign), campaign, lambda rows: save_given(rows, name, visited))


def _mixing(of: Round, view: View, campaign: Campaign, model: Model, person: Person) -> Contribution:
    V, centre = _interaction(model, campaign), _centre(view)
    task = campaign.mixing(model.iteration, view.cohort or 0, V=V, centre=centre, attempt=of.attempt)
    value = mixing_vector(campaign, _linear(person, campaign), centre=centre)
    return _priced(_same(task, of), value, campaign, _nothing)


def _learning(of: Round, view: View, campaign: Campaign, model: Model, person: Person) -> Contribution:
    V, t, cohort = _interaction(model, campaign), model.iteration, view.cohort
    opened = positions(model.opened, size=len(model.means))
    task = _same(campaign.interaction(t, V=V, attempt=of.attempt), of)
    learnt = learn(
        records_of(person, campaign, view.known),
        campaign,
        linear=_linear(person, campaign),
        interaction=V,
        iteration=t,
        mean=_centre(view) if cohort in opened else None,
    )
    kept = Kept(campaign.name, t + 1, learnt.linear, view.mean_name or b"" if cohort in opened else b"")
    return _priced(task, learnt.contribution, campaign, lambda rows: save_model(rows, kept))


def _linear(person: Person, campaign: Campaign) -> RealArray:
    """W_i as it is; in a campaign's first round 0 for everyone."""
    held = person.model(campaign.name)
    return start(campaign) if held is None else held.linear


def _same(task: Task, of: Round) -> Task:
    if task.round != of:
        raise PeerError(Fault.PARAMS_MISMATCH, "this device is invited to another round than its own")
    return task


def _priced(
    task: Task, value: RingArray, campaign: Campaign, settle: Callable[[sqlite3.Connection], None]
) -> Contribution:
    kind = task.round.kind
    return Contribution(task, value, WHAT[kind], noise.cost(task.terms, norm=campaign.norm(kind)), settle)


def _interaction(model: Model, campaign: Campaign) -> RealArray:
    wide = len(campaign.encoding.names())
    return _finite(array(model.interaction, np.float64, (wide, campaign.settings.model.dimension)))


def _centre(view: View) -> RealArray:
    if view.mean is None or view.campaign is None:
        raise PeerError(Fault.ORDER, "this device has no cohort in that campaign")
    return _finite(array(view.mean.values, np.float64, (len(view.campaign.encoding.names()) + 1,)))


def _finite(values: RealArray) -> RealArray:
    if not np.isfinite(values).all():
        raise PeerError(Fault.PARAMS_MISMATCH, "a published model has entries that are no numbers")
    return values
