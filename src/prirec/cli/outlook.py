"""The figures behind prirec privacy plan, and the terms of a promise. From settings and public counts alone."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from prirec.cli.cohorts import Cohorts, cohorts_of
from prirec.cli.progress import busy
from prirec.data.dataset import Dataset
from prirec.data.folder import read_folder
from prirec.errors import UsageError
from prirec.evaluate.collection import columns
from prirec.features.planning import plan as encoding
from prirec.features.popularity import Popularity
from prirec.privacy.accountant import Spent
from prirec.privacy.budget import planned, popularity_entries, sized
from prirec.privacy.plan import Kind, Plan, Release, Row
from prirec.privacy.randomized_response import RandomizedResponse, Reporters
from prirec.privacy.read_figures import foreseen
from prirec.privacy.units import Adjacency, Unit
from prirec.settings import Settings

FEATURES = 50
FIGURES = {"auc": "AUC", "log_loss": "log loss", "base_rate": "share of positives"}
_YEAR = 365
_WELL_BELOW = 0.1  # of 1 / people


@dataclass(frozen=True, slots=True)
class Counts:
    """What everybody may know of a city."""

    people: int
    places: int
    features: int


@dataclass(frozen=True, slots=True)
class Term:
    """What a person has spent at the end of a stretch of time in which the plan was carried out so many times."""

    when: str
    days: int | None  # None: for life
    plans: int
    epsilon: float
    epsilon_replace_one: float


@dataclass(frozen=True, slots=True)
class LocalAnswers:
    """The price of randomised response: a bit for each place, one more for each average of it, and all of them are one
    person's."""

    epsilon_per_bit: float
    bits: int  # of one person, if everyone reports
    reporters: str
    reveals_who_was_there: bool
    epsilon_per_user_and_collection: float | None  # None: no ε bounds it
    chance_of_a_false_answer: float
    sd_of_a_count: float | None  # None: how many report is not known before


@dataclass(frozen=True, slots=True)
class Outlook:
    """All that there is to say about settings before they are used."""

    settings: Settings
    counts: Counts
    plan: Plan | None  # None: nothing is promised
    cohorts: Cohorts | None  # where there is a plan
    terms: tuple[Term, ...]
    answers: LocalAnswers | None
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "preset": self.settings.preset,
            **asdict(self.counts),
            "promised": self._promised(),
            "adjacency": {"epsilon": Adjacency.ZERO_OUT, "epsilon_replace_one": Adjacency.REPLACE_ONE},
            "roster_is_public": True,
            "amplification_by_sampling": False,
            "terms": [asdict(term) for term in self.terms],
            "cohorts": None if self.cohorts is None else asdict(self.cohorts),
            "sums": [as_dict(row, release) for row, release in rows(self.plan)] if self.plan else [],
            "randomized_response": None if self.answers is None else asdict(self.answers),
            "notes": self.notes,
        }

    def _promised(self) -> dict[str, Any] | None:
        if self.plan is None:
            return None
        days, delta = self.settings.privacy.period_days, self.plan.delta
        return {"unit": Unit.USER, "epsilon": self.plan.epsilon_per_user, "delta": delta, "period_days": days}


def counted(data: Path, settings: Settings) -> Counts:
    """Everyone and every place that the folder lists, before any filter, and D, as training would encode them."""
    with busy("counting"):
        dataset = read_folder(data).dataset
        return Counts(len(dataset.people), len(dataset.places), features_of(dataset, settings))


def features_of(dataset: Dataset, settings: Settings) -> int:
    """D. Of people and visits only the names, kinds and declarations of columns count, so it is public. A release that
    the noise leaves without any difference between places would have one feature less."""
    some = np.arange(len(dataset.places), dtype=np.float64)  # in place of what nobody has released yet
    release = Popularity(dict.fromkeys(columns(dataset, settings), some))
    return len(encoding(dataset, release, settings.features).names())


def look_ahead(settings: Settings, counts: Counts, *, years: float | None = None) -> Outlook:
    """The promise and its price; where nothing is promised, that."""
    promised, period = settings.privacy.epsilon_per_user is not None, settings.privacy.period_days
    if years is not None and not (promised and period):
        raise UsageError("--years has no meaning here: no budget has a period; give privacy.period_days")
    answers = _answers(settings, counts)
    if not promised:
        return Outlook(settings, counts, None, None, (), answers, ())
    many = {"people": counts.people, "features": counts.features}
    settings = sized(settings, **many)
    found = planned(settings, **many, pois=counts.places)
    cohorts = cohorts_of(found, settings, **many)
    due = terms(found, period, years=1.0 if years is None else years)
    told = (*_notes(settings, counts), *cohorts.notes(), *drowned(found))
    return Outlook(settings, counts, found, cohorts, due, answers, told)


def rows(plan: Plan) -> list[tuple[Row, Release]]:
    """A plan's lines, each with the release that it tells of."""
    return list(zip(plan.rows(), plan.releases, strict=True))


def as_dict(row: Row, release: Release) -> dict[str, Any]:
    """One kind of sum, ready for JSON."""
    told = asdict(row)
    loss = told.pop("loss")
    del told["fraction_bits"], told["share_variance"]
    longest = {"longest_contribution": release.of.sensitivity, "entries": release.of.length}
    return {**told, **longest, "epsilon_alone": loss["epsilon"]}


def terms(plan: Plan, period: int | None, *, years: float = 1.0) -> tuple[Term, ...]:
    """For life, or for a period and for so many years of such periods."""
    if period is None:
        return (_term(plan, "for life", days=None, plans=1),)
    # so many stretches of `period` days cover the time, and none of them holds more than one budget
    plans = math.ceil(years * _YEAR / period)
    words = "if it goes on for a year" if years == 1 else f"if it goes on for {years:g} years"
    return (
        _term(plan, f"in any {period} days", days=period, plans=1),
        _term(plan, words, days=math.ceil(years * _YEAR), plans=plans),
    )


def _term(plan: Plan, when: str, *, days: int | None, plans: int) -> Term:
    spent = Spent(plan.spent.grains * plans)
    one, other = (spent.loss(plan.delta, adjacency).epsilon for adjacency in Adjacency)
    return Term(when, days, plans, one, other)


def _answers(settings: Settings, counts: Counts) -> LocalAnswers | None:
    chosen = settings.popularity
    if chosen.mechanism != "randomized-response" or not settings.features.dynamic:
        return None
    mechanism, everyone = RandomizedResponse(chosen.epsilon_per_bit), Reporters(chosen.reporters) is Reporters.EVERYONE
    bits = popularity_entries(counts.places, settings)
    return LocalAnswers(
        epsilon_per_bit=chosen.epsilon_per_bit,
        bits=bits,
        reporters=chosen.reporters,
        reveals_who_was_there=not everyone,
        epsilon_per_user_and_collection=mechanism.loss_per_user(bits).epsilon if everyone else None,
        chance_of_a_false_answer=float(mechanism.flip),
        sd_of_a_count=mechanism.standard_deviation(counts.people) if everyone else None,
    )


def drowned(plan: Plan) -> tuple[str, ...]:
    """What to say, before anything is spent, of quality figures that could not be read afterwards."""
    release = next((one for one in plan.releases if one.of.kind is Kind.QUALITY), None)
    if release is None:
        return ()
    people, lost = release.of.crowd.size, list(FIGURES.values())
    try:
        found = foreseen(people, norm=release.norm, noise_variance=release.noise().total_variance(people))
        lost = [name for key, name in FIGURES.items() if getattr(found, key) is None]
    except UsageError:  # nothing at all could be read
        pass
    if not lost:
        return ()
    some = f"too much to read {' or '.join(lost)}"
    every = "too much to read any of them, and their part of the budget would be spent for nothing"
    return (
        f"for {people:,} people the noise in quality figures is {some if len(lost) < len(FIGURES) else every}: "
        "it takes more devices or a larger privacy.quality, or leave it at 0",
    )


def _notes(settings: Settings, counts: Counts) -> list[str]:
    delta = settings.privacy.delta
    if delta * counts.people <= _WELL_BELOW:
        return []
    return [
        f"delta = {delta:g} is not well below 1 / people = {1 / counts.people:.2g}: such a promise could be kept "
        f"and somebody's records come out whole; set privacy.delta to {_rounded_down(counts.people):g} or less"
    ]


def _rounded_down(people: int) -> float:
    """The power of ten at or below a tenth of 1 / people."""
    return float(f"1e{-len(str(10 * people - 1))}")
