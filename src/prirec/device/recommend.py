"""Algorithm 3 on the person's own device, offline, from downloaded documents: nobody learns what was asked for."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from prirec.device.person import Person
from prirec.device.records import Records, encode_profile, encode_records, home_of, visited_positions
from prirec.device.sync import NO_CATALOGUE, View
from prirec.errors import StateError, UsageError
from prirec.features.columns import Columns, Moments, WordScales
from prirec.model.own_model import PRECISIONS, learn_own
from prirec.model.shared_model import SharedModel
from prirec.protocols.prediction import Moment, PersonState, Predictor, SharedScorer, Suggestion
from prirec.types import RealArray
from prirec.util.geography import haversine_km
from prirec.util.jit import in_numpy
from prirec.wire.campaign import Basis
from prirec.wire.documents import Model
from prirec.wire.regions import KnownPlaces

FEW_VISITS = 1000
FAR_KM = 100.0  # a point farther than this from every downloaded place is outside the downloaded regions


@dataclass(frozen=True, slots=True)
class Published:
    """What is public, with the places that this device has downloaded: the public half of a recommendation."""

    basis: Basis = field(repr=False)
    known: KnownPlaces = field(repr=False)
    moments: Moments = field(repr=False)
    model: SharedModel = field(repr=False)
    predictor: Predictor = field(repr=False)

    @classmethod
    def of(cls, basis: Basis, known: KnownPlaces, moments: Moments, model: SharedModel) -> Self:
        places = known.catalogue(basis.encoding)
        scorer = SharedScorer.of(model, moments, basis.columns, places)
        predictor = Predictor.of(basis.encoding, scorer, places=places, location=known.location)
        return cls(basis, known, moments, model, predictor)


def published(model: Model, basis: Basis, known: KnownPlaces) -> Published:
    """A published model made ready to recommend from. PeerError if its documents contradict each other."""
    return Published.of(basis, known, basis.scaling[0], basis.model(basis.shared(model)))


def unpublished(basis: Basis, known: KnownPlaces) -> Published:
    """The public half where no model is published: the catalogue, with popularity once a campaign has released it.
    Columns are scaled by a campaign's scales or, before there are any, as is usual, and words by how common they are in
    the downloaded regions."""
    columns = basis.columns
    if basis.scales is not None:
        moments, words = basis.scaling
    else:
        moments, words = columns.moments.usual(), WordScales.of(known.features, columns)
    return Published.of(basis, known, moments, SharedModel.unlearnt(basis.encoding, columns, words, moments))


def in_use(view: View) -> Published:
    """What this device recommends with, `View.in_use` in words. StateError if it has no catalogue yet."""
    if (found := view.publication or view.start) is not None:
        return published(*found)
    if view.basis is None:
        raise StateError(f"there is nothing to recommend from: {NO_CATALOGUE}")
    return unpublished(view.basis, view.known)


def recommend(
    person: Person, of: Published, *, moment: Moment | None = None, k: int = 10, radius_km: float = 5.0
) -> tuple[Suggestion, ...]:
    """The k best places nearby that the person has not visited. Offline, and without cost to the privacy budget."""
    when = moment if moment is not None else Moment()
    _refuse_remote(when, of.known, radius_km=radius_km)
    # to load compiled kernels takes longer than to do without them, up to so many visits
    with in_numpy() if len(person.visits()) <= FEW_VISITS else nullcontext():
        best = of.predictor.recommend(person_state(person, of), moment=when, k=k, radius_km=radius_km)
    return tuple(
        Suggestion(
            place=of.known.ids[found.place_row],
            about=of.known.words[found.place_row],
            distance_km=_km(of.known, found.place_row, when, home_km=found.distance_km),
            probability=found.probability,
            reasons=found.reasons,
        )
        for found in best
    )


def distance_notes(places: Sequence[Suggestion], *, radius_km: float) -> list[str]:
    """A sentence if places beyond the radius are among them."""
    far = sum((one.distance_km or 0.0) > radius_km for one in places)
    return [f"too few new places are within {radius_km:g} km; {far} beyond are shown too"] if far else []


def person_state(person: Person, of: Published) -> PersonState:
    """The private half of a recommendation: the person's features, own model, home and visited places."""
    home = home_of(person, of.known)
    return PersonState(
        features=encode_profile(person, of.basis.encoding, np.array(home or (np.nan, np.nan))),
        model=own_model(person, of),
        home=home,
        visited=visited_positions(person.visits(), of.known),
        home_given=person.home() is not None,
    )


def own_model(person: Person, of: Published) -> RealArray:
    """The coefficients Bᵀ a + w of this person (width,): the shared model, and what the own records say beyond it.
    Computed here from what the device holds now, so that whoever took no part in the campaign has as good a model."""
    return learnt_from(encode_records(person, of.basis, of.known), of.basis.columns, of.moments, of.model)


def learnt_from(records: Records, columns: Columns, moments: Moments, model: SharedModel) -> RealArray:
    """The coefficients of a person who has these records."""
    own, rows = records.scaled(columns, moments)
    mine = np.empty(model.layout.width)
    learn_own(0, own, rows, model, PRECISIONS, mine)
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
