"""Algorithm 3 for one person of a simulated city, by the code that a device runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal, Self

import numpy as np

from prirec.data.dataset import Places
from prirec.data.prepare import POOL, nearest_places
from prirec.errors import UsageError
from prirec.features.encoding import Clock
from prirec.features.samples import Records
from prirec.metrics import PlaceLists, RankFigures, RankQuality, positives, rank_figures, some_tested_people
from prirec.model.scoring import FactorizationModels, Models, SharedModels, own_model
from prirec.privacy.quality_figures import NO_LIST
from prirec.protocols.prediction import (
    FactorizationScorer,
    Moment,
    PersonState,
    Predictor,
    Recommendation,
    Scorer,
    SharedScorer,
    Suggestion,
)
from prirec.simulate.setup import Setup
from prirec.types import FeatureArray, IndexArray, LabelArray, OffsetArray, RealArray
from prirec.util.geography import haversine_km, located

_NO_MODEL: RealArray = np.empty(0)  # for what depends on none: to learn one takes longer than all the rest
FAR_KM = 100.0  # nobody asks for a place nearby from so far: rather, the coordinates were swapped


@dataclass(frozen=True, slots=True)
class Advisor:
    """A trained model, ready to recommend: the public half is computed once and serves everyone."""

    setup: Setup
    models: Models
    predictor: Predictor
    known: PlaceLists = field(repr=False)  # where each person has been, as the device knows it

    @classmethod
    def of(cls, setup: Setup, models: Models) -> Self:
        """An advisor for measuring: the device knows the training records alone."""
        return cls._knowing(setup, models, positives(setup.samples.train))

    @classmethod
    def knowing_all_visits(cls, setup: Setup, models: Models) -> Self:
        """An advisor for recommending: the device knows every visit, whatever part of the split it is in."""
        return cls._knowing(setup, models, positives(setup.samples.train, setup.samples.test))

    @classmethod
    def _knowing(cls, setup: Setup, models: Models, known: PlaceLists) -> Self:
        catalogue = setup.samples.catalogue
        scorer: Scorer
        if isinstance(models, SharedModels):
            scorer = SharedScorer.of(models.shared, models.moments, setup.samples.columns, catalogue)
        else:
            scorer = FactorizationScorer.of(setup.encoding, models.interaction, catalogue)
        location = setup.prepared.dataset.places.location
        return cls(setup, models, Predictor.of(setup.encoding, scorer, places=catalogue, location=location), known)

    def alone(self, setup: Setup, models: Models) -> Self:
        """For one person, of whom alone this other set-up is, with the same public half."""
        return replace(self, setup=setup, models=models, known=positives(setup.samples.train, setup.samples.test))

    def recommend(
        self, person: int, *, moment: Moment | None = None, k: int = 10, radius_km: float = 5.0
    ) -> tuple[Recommendation, ...]:
        """Algorithm 3: match, score, choose, with reasons. Places that the person knows are left out."""
        state = replace(self.person_state(person), home_given=_gave_a_home(self, person))
        return self.predictor.recommend(state, moment=moment, k=k, radius_km=radius_km)

    def person_state(self, person: int) -> PersonState:
        """What the person's device holds."""
        return self._person(person, own_model(self.models, self.setup.samples, person))

    def _person(self, person: int, own: RealArray) -> PersonState:
        return PersonState(self.setup.samples.people[person], own, self.home(person), self.visited(person))

    def scores(self, person: int, places: IndexArray, context: FeatureArray) -> RealArray:
        """Lines 3 to 9 for one person at these places."""
        return self.predictor.scorer.scores(self.person_state(person), places, context)

    def matched(self, person: int, moment: Moment, *, k: int, radius_km: float) -> IndexArray:
        """Line 1: the places near; all of them in a city without coordinates, or for a person without a home."""
        return self.predictor.matched(self._person(person, _NO_MODEL), moment, k=k, radius_km=radius_km)

    def context(self, person: int, matched: IndexArray, moment: Moment) -> tuple[FeatureArray, RealArray]:
        """The context of each matched place, and how far it is from home."""
        return self.predictor.context(self._person(person, _NO_MODEL), matched, moment)

    def home(self, person: int) -> tuple[float, float] | None:
        home = self.setup.samples.home
        if home is None or np.isnan(home[person]).any():
            return None
        return float(home[person, 0]), float(home[person, 1])

    def visited(self, person: int) -> IndexArray:
        """Where the person has been, as the device knows it."""
        return np.unique(self.known[person])


def row_of(person_id: str, ids: Sequence[str]) -> int:
    """The row of the person with this id. UsageError, which does not repeat the id, if nobody has it."""
    try:
        return ids.index(person_id)
    except ValueError:
        raise UsageError(
            "nobody with that id is in this run: the filter data.keep may have left the person out; `fit.people` "
            "lists ids, and so does `prirec data describe`"
        ) from None


def typical_row(counts: OffsetArray) -> int:
    """The row of a person with the median number of training records."""
    return int(np.argsort(counts, kind="stable")[len(counts) // 2])


# Recommendations in words, and what there is to remark on a question.


def refuse_remote(advisor: Advisor, moment: Moment, *, radius_km: float) -> None:
    """UsageError if the person asks for places near a point that no place is near. The point is not repeated."""
    if moment.here is None:
        return
    location = advisor.setup.prepared.dataset.places.location
    if location is None or np.isnan(location).any(axis=1).all():
        raise UsageError("these places have no coordinates, so near has no meaning; leave it out")
    if np.nanmin(haversine_km(np.array(moment.here), location)) > max(FAR_KM, radius_km):
        raise UsageError(
            f"no place is within {max(FAR_KM, radius_km):g} km of that point; near takes latitude, then longitude"
        )


def notes_on_moment(advisor: Advisor, moment: Moment) -> list[str]:
    """A note if a time is given and the model has no features of time."""
    timed = any(isinstance(block, Clock) for block in advisor.setup.encoding.context)
    idle = moment.time is not None and not timed
    return ["this model does not know times, so a time makes no difference"] if idle else []


def advise(
    advisor: Advisor, person: int, *, moment: Moment | None = None, k: int = 10, radius_km: float = 5.0
) -> tuple[Suggestion, ...]:
    """Algorithm 3 in words: what each place is, how far (from where the person is, or from home), and why."""
    places = advisor.setup.prepared.dataset.places
    lines = []
    for found in advisor.recommend(person, moment=moment, k=k, radius_km=radius_km):
        line = Suggestion(
            place=places.ids[found.place_row],
            about=places.about(found.place_row),
            distance_km=_km(places, found.place_row, moment, home_km=found.distance_km),
            probability=found.probability,
            reasons=found.reasons,
        )
        lines.append(line)
    return tuple(lines)


def notes_on_distance(
    advisor: Advisor, person: int, lines: Sequence[Suggestion], *, moment: Moment, k: int, radius_km: float
) -> list[str]:
    """A note if places outside the radius are suggested, and why. It depends on visits: for the person's own eyes."""
    here, location = moment.here or advisor.home(person), advisor.setup.prepared.dataset.places.location
    if here is None or location is None or all((line.distance_km or 0.0) <= radius_km for line in lines):
        return []
    new = np.delete(haversine_km(np.array(here), location), advisor.visited(person))
    if (within := int((new <= radius_km).sum())) >= k:
        return [f"many places within {radius_km:g} km are visited already; near ones beyond are shown too"]
    few = {0: "no new place is", 1: "only 1 new place is"}.get(within, f"only {within} new places are")
    return [f"{few} within {radius_km:g} km; the nearest beyond are shown too"]


def origin_of(advisor: Advisor, person: int, moment: Moment) -> str | None:
    """What distances are measured from; None where there are none. People whose table has no home for them live, for
    all that is known, in the middle of where they went."""
    dataset = advisor.setup.prepared.dataset
    if dataset.places.location is None or (moment.here is None and advisor.home(person) is None):
        return None
    if moment.here is not None:
        return "here"
    return "home" if _gave_a_home(advisor, person) else "the middle of the visits"


def _gave_a_home(advisor: Advisor, person: int) -> bool:
    people = advisor.setup.prepared.dataset.people
    if people.location is None:
        return False
    return not np.isnan(people.location[people.ids.index(advisor.setup.samples.ids[person])]).any()


def _km(places: Places, row: int, moment: Moment | None, *, home_km: float | None) -> float | None:
    if moment is None or moment.here is None or places.location is None:
        return home_km
    return float(haversine_km(np.array(moment.here), places.location[row]))


# Top-k questions to a trained model, for a sample of its people. Only a simulation can ask: it sees everyone's tests.


K, RADIUS_KM, PEOPLE = 10, 5.0, 500  # how long a list is, how near its places are, whose lists are looked at
Candidates = Literal["matched", "all"]


def rank(
    advisor: Advisor, *, k: int = K, radius_km: float = RADIUS_KM, candidates: Candidates = "matched",
    people: int = PEOPLE,
) -> RankQuality:  # fmt: skip
    """`ranked` as means over people."""
    return ranked(advisor, k=k, radius_km=radius_km, candidates=candidates, people=people).mean()


def ranked(
    advisor: Advisor,
    score: Callable[[int, IndexArray], RealArray] | None = None,
    *,
    k: int = K,
    radius_km: float = RADIUS_KM,
    candidates: Candidates = "matched",
    people: int = PEOPLE,
) -> RankFigures:
    """Hit rate, NDCG and recall at k over the places near home or over the whole catalogue, and the AUC against the
    places around those expected, of some people, drawn by the seed.

    The advisor knows the training records alone (`Advisor.of`); everyone asks from home, at no particular time. Another
    model scores by `score(person, places)`."""
    samples = advisor.setup.samples
    everywhere = np.arange(len(samples.places), dtype=np.int32)

    def among(person: int) -> IndexArray:
        return everywhere if candidates == "all" else advisor.matched(person, Moment(), k=k, radius_km=radius_km)

    person_state = lru_cache(maxsize=1)(advisor.person_state)  # one person is asked about twice in a row

    def own_scores(person: int, places: IndexArray) -> RealArray:
        context, _ = advisor.context(person, places, Moment())
        return advisor.predictor.scorer.scores(person_state(person), places, context)

    return rank_figures(
        own_scores if score is None else score,
        tests=positives(samples.test),
        candidates=among,
        exclude=positives(samples.train),
        k=k,
        people=some_tested_people(samples.test, people, seed=advisor.setup.settings.seed),
        around=_around(advisor.setup.prepared.dataset.places),
    )


def hits_of_all(advisor: Advisor, *, k: int) -> LabelArray:
    """(I,): whether the first k places near home hold one of each person's test that is new to them, 1 or 0; NO_LIST
    for people who have none. The advisor knows the training records alone (`Advisor.of`)."""
    tests = positives(advisor.setup.samples.test)
    found = np.full(len(tests), NO_LIST, dtype=np.int8)
    for person in range(len(tests)):
        expected = np.setdiff1d(tests[person], advisor.known[person])
        if len(expected):
            found[person] = advisor.predictor.finds(advisor.person_state(person), expected, k=k, radius_km=RADIUS_KM)
    return found


def _around(places: Places) -> Callable[[int], IndexArray] | None:
    """Rows of the places around a place, from which nearby negatives are drawn too; None without coordinates."""
    known = np.zeros(0, dtype=np.int64) if places.location is None else np.flatnonzero(located(places.location))
    if places.location is None or len(known) < 2:
        return None
    near, row = nearest_places(places.location, known, pool=POOL), np.full(len(places), -1)
    row[known] = np.arange(len(known))

    def around(place: int) -> IndexArray:
        found = near[row[place]] if row[place] >= 0 else np.zeros(0, dtype=np.int32)
        others: IndexArray = found[found != place]
        return others

    return around


def candidate_records(advisor: Advisor, person: int, places: IndexArray) -> Records:
    """Candidates as records of this person without a moment, for models that score records; labels say nothing."""
    many = len(places)
    offsets = np.zeros(len(advisor.setup.samples.ids) + 1, dtype=np.int64)
    offsets[person + 1 :] = many
    context, _ = advisor.context(person, places, Moment())
    return Records(offsets, np.full(many, person, dtype=np.int32), places, np.ones(many, dtype=np.int8), context)


def no_models(setup: Setup) -> Models:
    """A model of zeros: which places are matched, and what is known of them, does not depend on one."""
    D = setup.samples.features
    return FactorizationModels(np.zeros((1, D + 1)), np.zeros((D, 1)))
