"""Algorithm 3: prediction on the person's device. Scores, reasons and the choice never leave it.

The recommender learns that V and a region's places were pulled (lines 2 and 5), not which of them were matched or
chosen. Lines are counted as the paper counts those of Algorithm 2: comments and ends of loops count.
"""

import math
from dataclasses import dataclass, field
from typing import Self, TypeAlias

import numpy as np

from prirec.errors import UsageError
from prirec.protocols.reasons import Contrast, Reason
from prirec.types import FeatureArray, IndexArray, OffsetArray, RealArray

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
