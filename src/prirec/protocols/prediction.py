"""Algorithm 3: prediction on the person's device. Scores, reasons and the choice never leave it.

The recommender learns that the model and a region's places were pulled (lines 2 and 5), not which of them were matched
or chosen. Lines are counted as the paper counts those of Algorithm 2: comments and ends of loops count. `Predictor` is
the algorithm from end to end, for whoever holds a catalogue and one person's own data: that person's device, or a
simulation of it. Below it are the lines of the algorithm; the reasons that a person is shown are in reasons.py.
"""

import math
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, TypeAlias

import numpy as np

from prirec.data.dataset import Visits
from prirec.errors import UsageError
from prirec.features.columns import (
    Columns,
    Moments,
    PlaceColumns,
    columns_of_places,
    moment_rows,
    person_rows,
    product_columns,
)
from prirec.features.encoding import Encoding, encode_context, rows_to_columns
from prirec.features.history import History
from prirec.graph.matching import RegionIndex
from prirec.model.shared_model import SharedModel, fill_rows
from prirec.model.shared_model import score_places as score_own_places
from prirec.protocols.reasons import Contrast, Reason, Wording, contributions
from prirec.types import FeatureArray, IndexArray, OffsetArray, RealArray
from prirec.util.geography import haversine_km, located, unit_vectors

Features: TypeAlias = FeatureArray | RealArray

BLOCK = 65_536  # places taken to float64 at a time, so that a large catalogue is never copied whole


@dataclass(frozen=True, slots=True)
class PlacePart:
    """What Eq. (1) needs of each place's features and V: public, the same for everyone, computed once for each V."""

    pull: RealArray = field(repr=False)  # (J, K) X^j V_j
    square: RealArray = field(repr=False)  # (J,) the sum of x^2 |v|^2 over the place's features

    @classmethod
    def of(cls, interaction: RealArray, places: Features, *, first: int) -> Self:
        """From V (D, K) and places (J, n), whose features are the columns first, ..., first + n - 1 of a sample."""
        if interaction.ndim != 2 or places.ndim != 2 or not 0 <= first <= len(interaction) - places.shape[1]:
            raise UsageError("V must be (D, K), places (J, n), and first + n at most D")
        _refuse_non_finite(interaction, places)
        V = interaction[first : first + places.shape[1]]
        pull, square = np.empty((len(places), V.shape[1])), np.empty(len(places))
        for start in range(0, len(places), BLOCK):
            block = slice(start, start + BLOCK)
            pull[block], square[block] = _part(V, places[block])
        return cls(pull, square)

    def take(self, rows: IndexArray) -> Self:
        """The parts of these places, in that order."""
        return type(self)(self.pull[rows], self.square[rows])


@dataclass(frozen=True, slots=True, repr=False)
class Recommendation:
    """One place for the person's eyes. Nothing of it prints: where someone is sent says where they are."""

    place_row: int
    score: float
    probability: float  # sigma(score)
    distance_km: float | None
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Suggestion:
    """One recommended place, by its id and in words. Its repr shows nothing: where somebody is sent says where they
    are."""

    place: str
    about: str  # public words on the place, its name first
    distance_km: float | None  # from where the person is, or from home
    probability: float
    reasons: tuple[Reason, ...]

    @property
    def why(self) -> str:
        """What speaks for the place, and then what speaks against it, in words: `popular; close to home; but …`."""
        in_favour = [reason.words for reason in self.reasons if reason.pull >= 0]
        against = "; ".join(reason.words for reason in self.reasons if reason.pull < 0)
        return "; ".join([*in_favour, *([f"but {against}"] if against else [])])

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "place": self.place,
            "about": self.about,
            "distance_km": self.distance_km,
            "probability": self.probability,
            "reasons": [{"name": reason.name, "pull": reason.pull, "words": reason.words} for reason in self.reasons],
        }


@dataclass(frozen=True, slots=True, repr=False)
class Moment:
    """Where the person is and when; by default at home, at no particular time."""

    here: tuple[float, float] | None = None
    time: int | None = None


@dataclass(frozen=True, slots=True, repr=False)
class PersonState:
    """The private half of a prediction: one person. Nothing of it prints."""

    features: FeatureArray  # (m,) X^i
    model: RealArray  # W_i (D + 1,), or the coefficients of the shared model, Bᵀ a_i + w_i (width,)
    home: tuple[float, float] | None
    visited: IndexArray  # rows of the places that the person knows
    home_given: bool = True  # by the person; otherwise it is the middle of their visits


class Scorer(Protocol):
    """The public half of a score: what places of a catalogue come to under a published model."""

    def scores(self, person: PersonState, places: IndexArray, context: FeatureArray) -> RealArray:
        """(M,): for one person at these places, with the context of each."""

    def contributions(self, person: PersonState, places: IndexArray, context: FeatureArray) -> RealArray:
        """(M, D): the same by feature, in the order of the encoding; a row adds up to the score, but for what all
        places have in common."""


@dataclass(frozen=True, slots=True)
class FactorizationScorer:
    """Eq. (1), under V."""

    interaction: RealArray = field(repr=False)  # (D, K)
    places: FeatureArray = field(repr=False)  # (J, n) X^j, static and dynamic
    part: PlacePart = field(repr=False)

    @classmethod
    def of(cls, encoding: Encoding, interaction: RealArray, places: FeatureArray) -> Self:
        return cls(interaction, places, PlacePart.of(interaction, places, first=encoding.width(encoding.person)))

    def scores(self, person: PersonState, places: IndexArray, context: FeatureArray) -> RealArray:
        """Lines 3 to 9."""
        return score_places(
            linear=person.model,
            interaction=self.interaction,
            person=person.features,
            places=self.places[places],
            context=context,
            part=self.part.take(places),
        )

    def contributions(self, person: PersonState, places: IndexArray, context: FeatureArray) -> RealArray:
        samples = combine(person.features, self.places[places], context)
        return contributions(person.model, self.interaction, samples)


@dataclass(frozen=True, slots=True)
class SharedScorer:
    """The shared model, and a person's own around it: score = base + (Bᵀ a_i + w_i) · b."""

    model: SharedModel = field(repr=False)
    moments: Moments = field(repr=False)
    columns: Columns = field(repr=False)
    rows: PlaceColumns = field(repr=False)
    popularity: FeatureArray = field(repr=False)  # (J, p)

    @classmethod
    def of(cls, model: SharedModel, moments: Moments, columns: Columns, places: FeatureArray) -> Self:
        """places (J, n + p): X^j, static and dynamic."""
        static = places.shape[1] - columns.popularity
        return cls(model, moments, columns, columns_of_places(places[:, :static], columns), places[:, static:])

    def scores(self, person: PersonState, places: IndexArray, context: FeatureArray) -> RealArray:
        """Lines 3 to 9."""
        out, own = np.empty(len(places)), self._coefficients(person)
        score_own_places(places, self._scaled(places, context), self.rows, self.model, own, out)
        return out

    def contributions(self, person: PersonState, places: IndexArray, context: FeatureArray) -> RealArray:
        """Half of what a column of the place gets from a column of the person counts for the person's, and half of a
        product for each of its two columns."""
        layout, m = self.model.layout, self.columns.person
        scaled, b = self._scaled(places, context), np.empty((len(places), layout.width))
        fill_rows(places, scaled, self.rows, self.model, b)
        who = person_rows(person.features[None], self.moments)[0]
        crossing = np.zeros((m, layout.width))
        crossing[:, layout.crossed] = who[1:, None] * self.model.crossing
        whole = np.zeros((len(places), m + layout.core - 1))
        whole[:, :m] = 0.5 * b @ crossing.T
        terms = b * (self._coefficients(person) - 0.5 * crossing.sum(axis=0))
        whole[:, m:] = terms[:, 1 : layout.core]
        for at, (first, second) in enumerate(product_columns(layout), start=layout.core):
            whole[:, m + first - 1] += 0.5 * terms[:, at]
            whole[:, m + second - 1] += 0.5 * terms[:, at]
        return whole

    def _coefficients(self, person: PersonState) -> RealArray:
        if person.model.shape != (self.model.layout.width,):
            raise UsageError("the coefficients must be as many as the shared model has columns")
        return person.model

    def _scaled(self, places: IndexArray, context: FeatureArray) -> RealArray:
        return moment_rows(np.hstack([self.popularity[places], context]), self.columns, self.moments)


@dataclass(frozen=True, slots=True)
class Predictor:
    """The public half of a prediction: a catalogue under a published model. Computed once, for any number of people."""

    encoding: Encoding = field(repr=False)
    scorer: Scorer = field(repr=False)
    places: FeatureArray = field(repr=False)  # (J, n) X^j, static and dynamic
    location: RealArray | None = field(repr=False)  # (J, 2)
    points: RealArray | None = field(repr=False)  # (J, 3): the same on the unit sphere
    index: RegionIndex | None = field(repr=False)  # None: no place has coordinates

    @classmethod
    def of(
        cls, encoding: Encoding, scorer: Scorer, *, places: FeatureArray, location: RealArray | None
    ) -> Self:  # fmt: skip
        somewhere = location is not None and bool(located(location).any())
        index = RegionIndex.build(location) if location is not None and somewhere else None
        points = None if location is None else unit_vectors(location)
        return cls(encoding, scorer, places, location, points, index)

    def recommend(
        self, person: PersonState, *, moment: Moment | None = None, k: int = 10, radius_km: float = 5.0
    ) -> tuple[Recommendation, ...]:  # fmt: skip
        """Algorithm 3: match, score, choose, with reasons. Places that the person knows are left out."""
        when = moment if moment is not None else Moment()
        matched = self.matched(person, when, k=k, radius_km=radius_km)
        context, km = self.context(person, matched, when)
        samples = combine(person.features, self.places[matched], context)
        pulls = self.scorer.contributions(person, matched, context)
        familiar = np.any(self.places[person.visited] > 0, axis=0)
        home = "home" if person.home_given else "the middle of your visits"
        wording = Wording(self.encoding, samples, pulls, familiar, home)
        groups, names = self.encoding.groups()
        return recommend(
            matched=matched,
            scores=self.scorer.scores(person, matched, context),
            k=k,
            visited=person.visited,
            distance_km=km,
            contrast=Contrast.of(pulls, groups=groups, group_names=names, wording=wording),
        )

    def finds(self, person: PersonState, expected: IndexArray, *, k: int, radius_km: float = 5.0) -> bool:
        """Whether one of these places is among the first k of the person's list, from home at no particular time. Of
        equal scores the others come first."""
        matched = self.matched(person, Moment(), k=k, radius_km=radius_km)
        offered = matched[~np.isin(matched, person.visited)]
        context, _ = self.context(person, offered, Moment())
        wanted = np.isin(offered, expected)
        return bool(wanted[top(self.scorer.scores(person, offered, context), ties=wanted, k=k)].any())

    def matched(self, person: PersonState, moment: Moment, *, k: int, radius_km: float) -> IndexArray:
        """Line 1: the places near; all of them in a city without coordinates, or for a person without a home."""
        here = moment.here if moment.here is not None else person.home
        if self.index is None or here is None:
            return np.arange(len(self.places), dtype=np.int32)
        within = self.index.near(here, radius_km)
        if len(np.setdiff1d(within, person.visited)) >= k:
            return within
        return self.index.near(here, radius_km, at_least=k + len(person.visited))

    def context(self, person: PersonState, matched: IndexArray, moment: Moment) -> tuple[FeatureArray, RealArray]:
        """The context of each matched place, and how far it is from home. What visits are described by is not known of
        a visit that has not happened."""
        km = np.full(len(matched), np.nan)
        if self.location is not None and person.home is not None:
            km = haversine_km(np.array(person.home), self.location[matched])
        time = None if moment.time is None else np.full(len(matched), moment.time, dtype=np.int64)
        unknown = rows_to_columns(self.encoding.context, [{}] * len(matched))
        visits = Visits(np.zeros_like(person.visited), person.visited, np.ones(len(person.visited), dtype=np.int8))
        own = History.of(self.encoding, visits, people=1, features=self.places, points=self.points)
        history = own.encode(np.zeros_like(matched), matched)
        return encode_context(self.encoding, unknown, km=km, history=history, time=time), km


# The lines of Algorithm 3


def combine(person: Features, places: Features, context: Features) -> RealArray:
    """Algorithm 3, line 6: X^ij = X^i (+) X^j (+) context, (M, m + n + c). The paper does not print the context."""
    _check_features(person, places, context)
    repeated = np.broadcast_to(person, (len(places), len(person)))
    return np.concatenate([repeated, places, context], axis=1, dtype=np.float64)


def score_places(
    *,
    linear: RealArray,
    interaction: RealArray,
    person: Features,
    places: Features,
    context: Features,
    part: PlacePart,
) -> RealArray:
    """Algorithm 3, lines 3 to 9: Eq. (1) for every matched place at once, (M,).

    linear (D + 1,), interaction (D, K), person (m,), places (M, n), context (M, c) with D = m + n + c, and the part of
    the same M places. Samples are never put together: the place's share of the pairs comes ready-made.
    """
    _check_features(person, places, context)
    m, n = len(person), places.shape[1]
    _check_models(linear, interaction, features=m + n + context.shape[1])
    if part.pull.shape != (len(places), interaction.shape[1]) or part.square.shape != (len(places),):
        raise UsageError("the place part must be that of the same places and the same V; take its matched rows")
    _refuse_non_finite(linear, interaction, person, places, context, part.pull, part.square)
    w, V = linear[1:], interaction
    person_pull, person_square = _part(V[:m], person)
    context_pull, context_square = _part(V[m + n :], context)
    pull = part.pull + context_pull + person_pull  # (M, K)
    square = part.square + context_square + person_square  # (M,)
    flat = linear[0] + w[:m] @ person + places.astype(np.float64) @ w[m : m + n] + context @ w[m + n :]
    score: RealArray = flat + 0.5 * (np.einsum("mk,mk->m", pull, pull) - square)
    return score


def recommend(
    *,
    matched: IndexArray,
    scores: RealArray,
    k: int,
    visited: IndexArray | None = None,
    distance_km: RealArray | None = None,
    contrast: Contrast | None = None,
) -> tuple[Recommendation, ...]:
    """Algorithm 3, lines 10 and 11: the k matched places with the highest scores, ties by row; fewer if fewer match.

    matched holds the rows of line 1; scores, distance_km (NaN where unknown) and contrast follow its order. Visited
    places are left out of the answer, not out of the comparison that reasons are drawn from.
    """
    if matched.ndim != 1 or any(a.shape != matched.shape for a in (scores, distance_km) if a is not None):
        raise UsageError("scores and distances must have one entry for each matched place")
    if contrast is not None and len(contrast.pulls) != len(matched):
        raise UsageError("the contrast must be drawn over the matched places")
    _refuse_non_finite(scores)
    open_to = np.arange(len(matched)) if visited is None else np.flatnonzero(~np.isin(matched, visited))
    best = open_to[top(scores[open_to], ties=matched[open_to], k=k)]
    if len(np.unique(matched[best])) < len(best):
        raise UsageError("a place is matched more than once; give each row once")
    return tuple(
        Recommendation(
            place_row=int(matched[at]),
            score=float(scores[at]),
            probability=_probability(float(scores[at])),
            distance_km=None if distance_km is None or math.isnan(distance_km[at]) else float(distance_km[at]),
            reasons=() if contrast is None else contrast.reasons(int(at)),
        )
        for at in best
    )


def top(scores: RealArray, *, ties: np.ndarray, k: int) -> OffsetArray:
    """Positions of the k highest scores, highest first; among equal scores the smaller entry of `ties` comes first."""
    if k < 1:
        raise UsageError("k must be at least 1")
    if k < len(scores):
        kth = np.partition(scores, len(scores) - k)[len(scores) - k]
        contenders = np.flatnonzero(scores >= kth)
    else:
        contenders = np.arange(len(scores))
    return contenders[np.lexsort((ties[contenders], -scores[contenders]))[:k]]


def _part(V: RealArray, features: Features) -> tuple[RealArray, RealArray]:
    """The pull x V and the square sum of x^2 |v|^2 of some of the columns, for one row of features or many."""
    x = features.astype(np.float64, copy=False)
    return x @ V, np.square(x) @ np.square(V).sum(axis=1)


def _probability(score: float) -> float:
    """sigma(score), without overflow."""
    small = math.exp(-abs(score))
    return 1.0 / (1.0 + small) if score >= 0 else small / (1.0 + small)


def _check_features(person: Features, places: Features, context: Features) -> None:
    if person.ndim != 1 or places.ndim != 2 or context.ndim != 2 or len(places) != len(context):
        raise UsageError("the person must be (m,), places (M, n) and context (M, c)")


def _check_models(linear: RealArray, interaction: RealArray, *, features: int) -> None:
    if interaction.ndim != 2 or linear.shape != (len(interaction) + 1,):
        raise UsageError("the linear model must have D + 1 entries where V has the shape (D, K)")
    if features != len(interaction):
        raise UsageError("the features of person, place and context must be as many as V has rows")


def _refuse_non_finite(*arrays: np.ndarray) -> None:
    if not all(np.isfinite(array).all() for array in arrays):
        raise UsageError("models, features and scores must be finite; a NaN or an infinity was given")
