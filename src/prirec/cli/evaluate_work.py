"""A saved run and the data it was trained on, put together again."""

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from prirec.cli.output import busy, figure, notes, show_table
from prirec.data.folder import read_folder
from prirec.metrics import RankQuality, positives, rank_quality, some_tested_people
from prirec.protocols.prediction import Moment
from prirec.simulate.recommend import Advisor
from prirec.simulate.saved_runs import Run, load_run, set_up_again, set_up_later
from prirec.simulate.setup import Setup
from prirec.types import IndexArray, RealArray


@dataclass(frozen=True, slots=True)
class Reopened:
    """The model and the city that it belongs to."""

    run: Run = field(repr=False)
    setup: Setup = field(repr=False)


def reopen(run: Path, data: Path) -> Reopened:
    """To test a run: StateError if it is damaged or the data are others; the data's notes go to stderr."""
    saved = load_run(run)
    with busy("reading the data"):
        loaded = read_folder(data)
        setup = set_up_again(loaded.dataset, saved)
    notes(loaded.notes)
    return Reopened(saved, setup)


def reopen_later(run: Path, data: Path) -> Reopened:
    """To recommend from a run: the data may have grown since it was trained."""
    saved = load_run(run)
    with busy("reading the data"):
        loaded = read_folder(data)
        setup, models = set_up_later(loaded.dataset, saved)
    notes(loaded.notes)
    return Reopened(replace(saved, linear=models.linear, latent=models.latent, people=setup.samples.keys), setup)


# Quality figures, with the words that go with them.


if TYPE_CHECKING:
    from prirec.metrics import Quality, RankQuality
    from prirec.simulate.setup import Setup

KNOWING_NOTHING = math.log(2)  # the log loss of whoever answers one half to everything


def show_quality(quality: "Quality") -> None:
    """One model on its test records."""
    rows = [
        ("AUC", figure(quality.auc), "a visited place scores above an ignored one"),
        ("log loss", figure(quality.log_loss), "lower is better"),
        ("GAUC", figure(quality.gauc), "AUC within each person"),
        ("AUC of few", figure(quality.auc_few), "the quarter of people with fewest records"),
        ("records", f"{quality.records:,}", "in the test set"),
    ]
    show_table(("test", ">figure", "meaning"), rows)


def doubts(quality: "Quality", setup: "Setup") -> list[str]:
    """What to say about a model that misleads; why, where the split by record is known to do it (decisions/0009)."""
    if not quality.log_loss > KNOWING_NOTHING:
        return []
    told = [f"a log loss above {KNOWING_NOTHING:.4f} is worse than knowing nothing, on these test records"]
    dataset = setup.prepared.dataset
    if not dataset.labelled and setup.settings.data.split == "record":
        later = "; --set data.split=time tests on later visits instead" if dataset.visits.time is not None else ""
        told.append(
            "for visits without labels the random split by record does that to features of people (decisions/0009)"
            + later
        )
    return told


def show_ranking(ranking: "RankQuality", *, k: int, among: str) -> None:
    """One model's top k, against the new places that people went to."""
    rows = [
        (f"hit rate at {k}", figure(ranking.hit_rate), "people with a new place of theirs in the list"),
        (f"NDCG at {k}", figure(ranking.ndcg), "the same, higher in the list counts more"),
        (f"recall at {k}", figure(ranking.recall), "new places that the list holds"),
        ("people", f"{ranking.people:,}", f"asked; candidates are {among}"),
    ]
    show_table(("ranking", ">figure", "meaning"), rows)


# Top-k questions to a saved run, for a sample of its people. Only a simulation can ask: it sees everyone's tests.


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
        people=some_tested_people(samples.test, question.people, seed=opened.run.settings.seed),
    )


def scores(advisor: Advisor, person: int, places: IndexArray) -> RealArray:
    """One person's scores at these places, at no particular time."""
    context, _ = advisor.context(person, places, Moment())
    return advisor.scores(person, places, context)
