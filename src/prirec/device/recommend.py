"""Algorithm 3 on the person's own device, offline, from downloaded documents: nobody learns what was asked for."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from prirec.device.person import Person
from prirec.device.records import encode_profile, encode_records, home_of, visited_positions
from prirec.device.rounds import learn
from prirec.errors import StateError, UsageError
from prirec.protocols.prediction import Moment, PersonState, Predictor, Suggestion
from prirec.rounds.newcomers import Starts
from prirec.types import RealArray
from prirec.util.geography import haversine_km
from prirec.wire.campaign import Campaign
from prirec.wire.documents import Publication
from prirec.wire.regions import KnownPlaces, read_publication

FAR_KM = 100.0  # a point farther than this from every downloaded place is outside the downloaded regions
PASSES = 5  # over the own records, for somebody who took no part in the campaign


@dataclass(frozen=True, slots=True)
class Published:
    """A publication with the places that this device has downloaded: the public half of a recommendation."""

    campaign: Campaign = field(repr=False)  # with its edition
    known: KnownPlaces = field(repr=False)
    interaction: RealArray = field(repr=False)  # (D, K)
    starts: Starts = field(repr=False)
    predictor: Predictor = field(repr=False)


def published(publication: Publication, campaign: Campaign, known: KnownPlaces) -> Published:
    """A publication made ready to recommend from. PeerError if its documents contradict each other."""
    model = read_publication(publication, campaign=campaign)
    predictor = Predictor.of(
        campaign.encoding,
        interaction=model.interaction,
        places=known.catalogue(campaign.encoding),
        location=known.location,
        part=known.part,
    )
    return Published(campaign, known, model.interaction, model.starts, predictor)


def recommend(
    person: Person, of: Published, *, moment: Moment | None = None, k: int = 10, radius_km: float = 5.0
) -> tuple[Suggestion, ...]:
    """The k best places nearby that the person has not visited. Offline, and without cost to the privacy budget."""
    when = moment if moment is not None else Moment()
    _refuse_remote(when, of.known, radius_km=radius_km)
    return tuple(
        Suggestion(
            place=of.known.ids[found.place_row],
            about=of.known.words[found.place_row],
            distance_km=_km(of.known, found.place_row, when, home_km=found.distance_km),
            probability=found.probability,
            reasons=found.reasons,
        )
        for found in of.predictor.recommend(person_state(person, of), moment=when, k=k, radius_km=radius_km)
    )


def distance_notes(places: Sequence[Suggestion], *, radius_km: float) -> list[str]:
    """A sentence if places beyond the radius are among them."""
    far = sum((one.distance_km or 0.0) > radius_km for one in places)
    return [f"too few new places are within {radius_km:g} km; {far} beyond are shown too"] if far else []


def person_state(person: Person, of: Published) -> PersonState:
    """The private half of a recommendation: the person's features, linear model, home and visited places."""
    home = home_of(person, of.known)
    return PersonState(
        features=encode_profile(person, of.campaign.encoding, np.array(home or (np.nan, np.nan))),
        linear=model_for(person, of),
        latent=np.empty(0),  # deployments have no latent part: its sums are over too few people
        home=home,
        visited=visited_positions(person.visits(), of.known),
        home_given=person.home() is not None,
    )


def model_for(person: Person, of: Published) -> RealArray:
    """W_i as learnt in the campaign. Whoever took no part starts at the mean of the cohorts around their cell and takes
    a few passes over their own records; neither sends anything."""
    model = person.model(of.campaign.name)
    if model is None:
        return _newcomer(person, of)
    if len(model.linear) != len(of.interaction) + 1:
        raise StateError("the model on this device is of another size than its campaign calls for")
    return model.linear


def _newcomer(person: Person, of: Published) -> RealArray:
    """Local steps as in a round, with the start in place of the cohort's mean."""
    cell = np.array([person.require_membership().cell], dtype=np.uint64)
    start: RealArray = of.starts.for_cells(cell)[0]
    records, w = encode_records(person, of.campaign, of.known), start.copy()
    for iteration in range(PASSES):
        w = learn(records, of.campaign, linear=w, interaction=of.interaction, iteration=iteration, mean=start).linear
    return w


def _refuse_remote(moment: Moment, known: KnownPlaces, *, radius_km: float) -> None:
    """UsageError, without the point, if no downloaded place is anywhere near it: swapped coordinates, most often."""
    if moment.here is None:
        return
    km = haversine_km(np.array(moment.here), known.location)
    if not (km <= max(FAR_KM, radius_km)).any():
        raise UsageError(
            f"this device has no place within {max(FAR_KM, radius_km):g} km of that point: latitude comes first, "
            "then longitude, and the region has to be downloaded"
        )


def _km(known: KnownPlaces, row: int, moment: Moment, *, home_km: float | None) -> float | None:
    if moment.here is None:
        return home_km
    km = float(haversine_km(np.array(moment.here), known.location[row]))
    return None if np.isnan(km) else km
