"""Algorithm 3 on the person's own device, offline, from what it has downloaded: nobody learns what was asked for."""

from dataclasses import dataclass, field

import numpy as np

from prirec.device.person import Person
from prirec.device.records import belonging, home_of, positions_of, records_of
from prirec.device.rounds import learn_alone
from prirec.errors import StateError, UsageError
from prirec.features.encoding import encode_columns, rows_to_columns
from prirec.protocols.prediction import Asker, Guide, Moment, Reason
from prirec.rounds.newcomers import Starts
from prirec.types import RealArray
from prirec.util.geography import haversine_km
from prirec.wire.campaign import Campaign
from prirec.wire.documents import Publication
from prirec.wire.regions import Known, read_publication

FAR_KM = 100.0  # what is farther from every place that the device knows is none of its regions
PASSES = 5  # that somebody new learns from their own records, from the start of their cell


@dataclass(frozen=True, slots=True, repr=False)
class Suggestion:
    """One place for the person's eyes. Nothing of it prints: where someone is sent says where they are."""

    place: str
    words: str  # public, on the place
    probability: float
    distance_km: float | None  # from where the person is, or from home
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Published:
    """A publication with the places that this device has of it: all that is public in a recommendation."""

    campaign: Campaign = field(repr=False)  # with its edition
    known: Known = field(repr=False)
    interaction: RealArray = field(repr=False)  # (D, K)
    starts: Starts = field(repr=False)
    guide: Guide = field(repr=False)


def published(publication: Publication, campaign: Campaign, known: Known) -> Published:
    """Ready to recommend. PeerError if what was published does not fit together."""
    model = read_publication(publication, campaign=campaign)
    guide = Guide.of(
        campaign.encoding,
        interaction=model.interaction,
        places=known.catalogue(campaign.encoding),
        location=known.location,
        part=known.part,
    )
    return Published(campaign, known, model.interaction, model.starts, guide)


def recommend(
    person: Person, of: Published, *, moment: Moment | None = None, k: int = 10, radius_km: float = 5.0
) -> tuple[Suggestion, ...]:
    """The best places near, of those that the person does not know. Without a network, a sum or a price."""
    when = moment if moment is not None else Moment()
    _refuse_remote(when, of.known, radius_km=radius_km)
    return tuple(
        Suggestion(
            place=of.known.ids[found.place_row],
            words=of.known.words[found.place_row],
            probability=found.probability,
            distance_km=_km(of.known, found.place_row, when, home_km=found.distance_km),
            reasons=found.reasons,
        )
        for found in of.guide.recommend(asker(person, of), moment=when, k=k, radius_km=radius_km)
    )


def asker(person: Person, of: Published) -> Asker:
    """What the device knows of its person, as Algorithm 3 wants it."""
    blocks = of.campaign.encoding.person
    return Asker(
        features=encode_columns(blocks, rows_to_columns(blocks, [person.profile()]), 1)[0],
        linear=model_for(person, of),
        latent=np.empty(0),  # a campaign has a budget, and so no latent part
        home=home_of(person, of.known),
        visited=positions_of(person.visits(), of.known),
    )


def model_for(person: Person, of: Published) -> RealArray:
    """W_i as it was learnt in the campaign. Whoever took no part starts at the mean of the cohorts around, and learns
    from their own records: both without telling anybody anything."""
    kept = person.model(of.campaign.name)
    if kept is None:
        return _newcomer(person, of)
    if len(kept.linear) != len(of.interaction) + 1:
        raise StateError("the model on this device is of another size than its campaign calls for")
    return kept.linear


def _newcomer(person: Person, of: Published) -> RealArray:
    """As members of a cohort do, with the start in the place of the cohort's mean."""
    cell = np.array([belonging(person).cell], dtype=np.uint64)
    start: RealArray = of.starts.for_cells(cell)[0]
    records, w = records_of(person, of.campaign, of.known), start.copy()
    for iteration in range(PASSES):
        w = learn_alone(
            records, of.campaign, linear=w, interaction=of.interaction, iteration=iteration, mean=start
        )  # fmt: skip
    return w


def _refuse_remote(moment: Moment, known: Known, *, radius_km: float) -> None:
    """Someone who says where they are wants places near there; the point is not repeated."""
    if moment.here is None:
        return
    km = haversine_km(np.array(moment.here), known.location)
    if not (km <= max(FAR_KM, radius_km)).any():
        raise UsageError(
            f"this device has no place within {max(FAR_KM, radius_km):g} km of that point: latitude comes first, "
            "then longitude, and the region has to be downloaded"
        )


def _km(known: Known, row: int, moment: Moment, *, home_km: float | None) -> float | None:
    if moment.here is None:
        return home_km
    km = float(haversine_km(np.array(moment.here), known.location[row]))
    return None if np.isnan(km) else km
