"""Algorithm 3 on the person's own device, offline, from downloaded documents: nobody learns what was asked for."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from prirec.device.person import Person
from prirec.device.records import encode_profile, encode_records, home_of, visited_positions
from prirec.errors import UsageError
from prirec.model.own_model import PRECISIONS, learn_own
from prirec.model.shared_model import SharedModel
from prirec.protocols.prediction import Moment, PersonState, Predictor, SharedScorer, Suggestion
from prirec.types import RealArray
from prirec.util.geography import haversine_km
from prirec.wire.campaign import Campaign
from prirec.wire.documents import Model
from prirec.wire.regions import KnownPlaces

FAR_KM = 100.0  # a point farther than this from every downloaded place is outside the downloaded regions


@dataclass(frozen=True, slots=True)
class Published:
    """A publication with the places that this device has downloaded: the public half of a recommendation."""

    campaign: Campaign = field(repr=False)  # with its edition and scales
    known: KnownPlaces = field(repr=False)
    model: SharedModel = field(repr=False)
    predictor: Predictor = field(repr=False)


def published(model: Model, campaign: Campaign, known: KnownPlaces) -> Published:
    """A published model made ready to recommend from. PeerError if its documents contradict each other."""
    shared, places = campaign.model(campaign.shared(model)), known.catalogue(campaign.encoding)
    scorer = SharedScorer.of(shared, campaign.scaling[0], campaign.columns, places)
    predictor = Predictor.of(campaign.encoding, scorer, places=places, location=known.location)
    return Published(campaign, known, shared, predictor)


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
    """The private half of a recommendation: the person's features, own model, home and visited places."""
    home = home_of(person, of.known)
    return PersonState(
        features=encode_profile(person, of.campaign.encoding, np.array(home or (np.nan, np.nan))),
        model=own_model(person, of),
        home=home,
        visited=visited_positions(person.visits(), of.known),
        home_given=person.home() is not None,
    )


def own_model(person: Person, of: Published) -> RealArray:
    """The coefficients Bᵀ a + w of this person (width,): the shared model, and what the own records say beyond it.
    Computed here from what the device holds now, so that whoever took no part in the campaign has as good a model."""
    columns, (moments, _) = of.campaign.columns, of.campaign.scaling
    own, rows = encode_records(person, of.campaign, of.known).scaled(columns, moments)
    mine = np.empty(columns.layout.width)
    learn_own(0, own, rows, of.model, PRECISIONS, mine)
    return mine


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
