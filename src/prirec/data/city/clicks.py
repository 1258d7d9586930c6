"""Who clicks: the law behind the labels. A model may learn it from records alone; nothing of it is in the data set."""

from dataclasses import dataclass, field

import numpy as np
from scipy.special import expit

from prirec.data.city.clock import evening, weekend
from prirec.data.city.residents import TASTE_RANK, Residents
from prirec.data.city.venues import Venues
from prirec.types import FeatureArray, IndexArray, RealArray, TimeArray

_APPEAL = 0.9  # a popular place is clicked more often, by anyone
_DISTANCE = 1.0  # log of the distance, in thirds of a reach
_CATEGORY = 0.3  # what the whole city likes
_DISTRICT = 1.1  # what a district likes, against the city: the sign differs from one to the next
_INDIVIDUAL = 0.35  # own taste, for each of its dimensions
_TRAITS = (0.5, 0.3, 0.25, 0.7)  # age x category, gender x category, sociability x evening, spending x price
_HOURS = (0.6, 0.5)  # evening and weekend places at their time
_CALIBRATE_ON = 200_000
_CHUNK = 1_000_000


@dataclass(frozen=True, slots=True)
class ClickLaw:
    """logit P(click) = intercept + appeal - distance + taste of the district + traits x lures + hours."""

    residents: Residents = field(repr=False)
    venues: Venues = field(repr=False)
    taste: FeatureArray = field(repr=False)  # (D, C)
    walk_km: float

    def logits(self, person: IndexArray, place: IndexArray, time: TimeArray) -> RealArray:
        """Without the intercept; a chunk at a time, so that memory stays flat."""
        out = np.empty(len(person))
        for start in range(0, len(out), _CHUNK):
            rows = slice(start, start + _CHUNK)
            out[rows] = self._chunk(person[rows], place[rows], time[rows])
        return out

    def _chunk(self, person: IndexArray, place: IndexArray, time: TimeArray) -> RealArray:
        who, what = self.residents, self.venues
        step = who.home[person] - what.spot[place]
        distance = np.sqrt(step[:, 0] ** 2 + step[:, 1] ** 2)
        pull = np.array([*_TRAITS, *[_INDIVIDUAL] * TASTE_RANK], dtype=np.float32)
        match = np.einsum("rk,rk,k->r", who.traits[person], what.lures[place], pull)
        liked = self.taste[who.district[person][:, None], what.tags[place]]  # (R, MOST_TAGS)
        taste = (liked * what.weights[place]).sum(axis=1)
        hours = what.hours[place]
        moment = _HOURS[0] * hours[:, 0] * _sign(evening(time)) + _HOURS[1] * hours[:, 1] * _sign(weekend(time))
        near = _DISTANCE * np.log1p(distance / self.walk_km)
        return np.asarray(_APPEAL * what.appeal[place] - near + match + taste + moment, dtype=np.float64)


def district_tastes(*, districts: int, categories: int, rng: np.random.Generator) -> FeatureArray:
    """What each district likes: the city's taste plus leanings that cancel over the districts, shape (D, C)."""
    own = rng.normal(size=(districts, categories))
    own -= own.mean(axis=0)
    return np.asarray(_DISTRICT * own + _CATEGORY * rng.normal(size=categories), dtype=np.float32)


def intercept_for(logits: RealArray, share: float) -> float:
    """Bisection: the intercept at which the mean click probability is that share."""
    sample = logits[:: max(1, len(logits) // _CALIBRATE_ON)]
    low, high = -100.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expit(sample + middle).mean() < share else (low, middle)
    return (low + high) / 2


def _sign(happens: np.ndarray) -> FeatureArray:
    return np.where(happens, np.float32(1), np.float32(-1))
