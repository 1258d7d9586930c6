"""Top-k questions to a saved run, for a sample of its people. Only a simulation can ask: it sees everyone's tests."""

from dataclasses import dataclass

import numpy as np

from prirec.cli.saved import Reopened
from prirec.evaluate.person import Advisor, Moment
from prirec.evaluate.ranking import RankQuality, asked, positives, rank_quality
from prirec.types import IndexArray, RealArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked: the length of the list, among which places, of how many people."""

    k: int
    radius_km: float
    candidates: str
    people: int


def rank(opened: Reopened, question: Question) -> RankQuality:
    """Hit rate, NDCG and recall at k; nobody is told the time, and everyone asks from home."""
    samples = opened.setup.samples
    advisor = Advisor.of(opened.setup, opened.run.models)
    everywhere = np.arange(len(samples.places), dtype=np.int32)

    def candidates(person: int) -> IndexArray:
        if question.candidates == "all":
            return everywhere
        return advisor.matched(person, Moment(), k=question.k, radius_km=question.radius_km)

    return rank_quality(
        lambda person, places: scores(advisor, person, places),
        tests=positives(samples.test),
        candidates=candidates,
        exclude=positives(samples.train),
        k=question.k,
        people=asked(samples.test, question.people, seed=opened.run.settings.seed),
    )


def scores(advisor: Advisor, person: int, places: IndexArray) -> RealArray:
    """One person's scores at these places, at no particular time."""
    context, _ = advisor.context(person, places, Moment())
    return advisor.scores(person, places, context)
