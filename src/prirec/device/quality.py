"""What a device adds to the sum of quality figures: how good the published model is at the places that it holds out.

Nothing was learnt from them: the device has added them to no sum of the campaign, and for this sum the person's own
model, home and history come from the other records alone (device/records.py). simulate/private_figures.py computes the
same for all people of a simulated city.
"""

from typing import NamedTuple

import numpy as np

from prirec.device.person import Person
from prirec.device.recommend import Published, learnt_from, published
from prirec.device.records import Records, home_of, parted_records, parted_visits, visited_positions
from prirec.features.columns import Columns, Moments
from prirec.model.shared_model import SharedModel, score_places
from prirec.privacy.quality_figures import FIRST, contribution
from prirec.protocols.prediction import PersonState
from prirec.types import LabelArray, RealArray, RingArray
from prirec.wire.campaign import Campaign
from prirec.wire.documents import Model
from prirec.wire.regions import KnownPlaces


class Measured(NamedTuple):
    """How good the model is for one person. Private."""

    labels: LabelArray
    scores: RealArray
    hit: bool | None  # None: no new place was held out


def quality_vector(person: Person, campaign: Campaign, known: KnownPlaces, model: Model) -> RingArray:
    """The contribution to the sum of quality figures."""
    found = measured(person, published(model, campaign, known), share=campaign.charter.settings.held_out)
    return contribution(found.labels, found.scores, hit=found.hit, norm=campaign.figures.norm).view(np.uint64)


def measured(person: Person, of: Published, *, share: int) -> Measured:
    """On the places that this device holds out, by that share of them in thousandths."""
    learnt, held = parted_records(person, of.basis, of.known, share=share)
    under = of.basis.columns, of.moments, of.model
    own = learnt_from(learnt, *under)
    visits, others = parted_visits(person, share=share)
    visited = visited_positions(visits, of.known)
    new = np.setdiff1d(visited_positions(others, of.known), visited)
    hit = None
    if len(new):
        state = PersonState(learnt.person, own, home_of(person, of.known, visits), visited)
        hit = of.predictor.finds(state, new, k=FIRST)
    return Measured(held.label, scored(held, *under, own), hit)


def scored(
    records: Records, columns: Columns, moments: Moments, model: SharedModel, own: RealArray
) -> RealArray:  # fmt: skip
    """(R,): the score of each record by a person's own model."""
    mine, rows = records.scaled(columns, moments)
    out = np.empty(len(records.place))
    score_places(mine.place, mine.context, rows, model, own, out)
    return out
