"""What a privacy budget promises each person, what it costs in noise, and whether that is usable: known beforehand.

Computed from settings and from public counts of people, places and features alone, so that it may be printed before
anything is collected. `look_ahead` is the whole of it; `prirec.plan` and `prirec privacy plan` show its answer.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from prirec.config import Settings
from prirec.errors import UsageError
from prirec.privacy.accountant import Spent
from prirec.privacy.plan import (
    LONGEST_NOISE,
    Kind,
    Plan,
    Release,
    Row,
    noise_in_mean,
    planned,
    size_asked,
    sized,
)
from prirec.privacy.quality_figures import foreseen
from prirec.privacy.units import Adjacency, Unit
from prirec.simulate.popularity import LocalAnswers, mechanism_of
from prirec.util.shown import Shown, Table

FEATURES = 50  # assumed where nobody has given the number of features
FIGURES = {"auc": "AUC", "log_loss": "log loss", "base_rate": "share of positives"}
SUMS = {
    Kind.POPULARITY: "popularity of places",
    Kind.MIXING: "linear models (cohort)",
    Kind.INTERACTION: "gradient of V",
    Kind.QUALITY: "quality figures",
}
_YEAR = 365
_WELL_BELOW = 0.1  # of 1 / people
WITHOUT_NOISE = {
    "centralised": "One place holds everyone's records.",
    "samples": "The paper's schedule opens a sum without noise at each interaction: what those tell has no bound.",
    "rounds": "The sums of linear models and of gradients carry no noise.",
}


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


@dataclass(frozen=True, slots=True, repr=False)
class PrivacyPlan(Shown):
    """What settings promise each person of a city, what noise that takes in which sums, and whether it is usable.

    Prints with the verdict first. Nothing in it is computed from anyone's records."""

    settings: Settings
    counts: Counts
    plan: Plan | None  # None: nothing is promised
    cohorts: "Cohorts | None"  # where there is a plan
    terms: tuple[Term, ...]
    answers: LocalAnswers | None
    notes: tuple[str, ...]

    @property
    def usable(self) -> bool:
        """Whether the noise in a cohort's mean is small enough to learn linear models from; False without a promise."""
        # a hair above the limit: where the plan chose the size itself, the noise stands at the limit
        return self.cohorts is not None and self.cohorts.noise_in_mean <= 1.005 * LONGEST_NOISE

    @property
    def verdict(self) -> str:
        """One or two sentences: what is promised, and whether the noise leaves something to learn."""
        if self.plan is None or self.cohorts is None:
            return f"No privacy promise. {WITHOUT_NOISE[self.settings.schedule]} Such settings are for simulation."
        promised = f"ε = {self.terms[0].epsilon:.4g} for each person {self.terms[0].when} (δ = {self.plan.delta:g})"
        noise = f"noise in a cohort mean: {self.cohorts.noise_in_mean:.2g} × the clipping norm"
        if self.usable:
            return f"Usable: {promised}. {noise.capitalize()}, in cohorts of {self.cohorts.smallest:,} people."
        return (
            f"Noisy: {promised}. {noise.capitalize()}, in cohorts of {self.cohorts.smallest:,} people; usable below "
            f"about {LONGEST_NOISE:.2f}, which takes cohorts of about {self.cohorts.asked:,}."
        )

    def panels(self) -> Iterator[str | Table]:
        counts = self.counts
        yield self.verdict
        yield (
            f"{counts.people:,} people, {counts.places:,} places, {counts.features:,} features, "
            f"{self.settings.iterations:,} rounds."
        )
        if self.plan is not None:
            yield Table(("promised to each person", ">ε", ">replace-one ε", ">δ"), [
                (term.when, f"{term.epsilon:.3f}", f"{term.epsilon_replace_one:.3f}", f"{self.plan.delta:g}")
                for term in self.terms
            ])  # fmt: skip
            yield Table(("sum of", ">part of the budget", ">releases", ">devices", ">sd of sum", ">sd of mean"), [
                (
                    SUMS[release.of.kind], f"{100 * row.share:.3g} %", f"{row.releases:,}", f"{row.devices:,}",
                    f"{row.sd_of_sum:.3g}", f"{row.sd_of_mean:.3g}",
                )
                for row, release in rows(self.plan)
            ])  # fmt: skip
        yield from (f"Note: {words}." for words in self.notes)

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


def look_ahead(settings: Settings, counts: Counts, *, years: float | None = None) -> PrivacyPlan:
    """The promise and its price in noise; where settings promise nothing, a plan without a promise.

    `years`, with privacy.period_days: for how many years the periods are added up."""
    promised, period = settings.privacy.epsilon_per_user is not None, settings.privacy.period_days
    if years is not None and not (promised and period):
        raise UsageError("years has no meaning here: no budget has a period; give privacy.period_days")
    dynamic, mechanism = settings.features.dynamic, mechanism_of(settings)
    answers = mechanism.price(settings, people=counts.people, places=counts.places) if dynamic else None
    if not promised:
        return PrivacyPlan(settings, counts, None, None, (), answers, ())
    many = {"people": counts.people, "features": counts.features}
    settings = sized(settings, **many)
    found = planned(settings, **many, pois=counts.places)
    cohorts = cohorts_of(found, settings, **many)
    due = terms(found, period, years=1.0 if years is None else years)
    told = (*_notes(settings, counts), *cohorts.notes(), *drowned(found))
    return PrivacyPlan(settings, counts, found, cohorts, due, answers, told)


# Cohorts: how large they are under a plan, who chose that, and what the noise in their means comes to.


@dataclass(frozen=True, slots=True)
class Cohorts:
    """The smallest cohort of a run, beside the one that its plan asks for."""

    people: int
    size: int  # the smallest, in words of the settings; with fewer people all are in one
    asked: int  # by the plan
    noise_in_mean: float  # of the smallest, when nobody is lost: its length, as a part of the longest model

    @property
    def smallest(self) -> int:
        """People in the smallest cohort."""
        return min(self.people, self.size)

    @property
    def in_words(self) -> str:
        """One sentence: how large, and why."""
        noise = f"the noise in a mean is {self.noise_in_mean:.2g} times as long as the longest model"
        if self.people <= self.size:
            return f"All {self.people:,} people are in one cohort: {noise}."
        if self.size == self.asked:
            return f"Cohorts have at least {self.size:,} people, as the plan asks: {noise}."
        return (
            f"Cohorts have at least {self.size:,} people, as the settings say, where the plan would ask for "
            f"{self.asked:,}: {noise}."
        )

    def notes(self) -> Iterator[str]:
        """What is not as it should be."""
        if self.people < self.size:
            yield f"there are fewer people than a cohort should have ({self.size:,}), so all are in one"
        if self.noise_in_mean > LONGEST_NOISE and self.people <= self.size:
            yield (
                f"for {self.people:,} people noise in linear models costs more: all are in one cohort, and in its mean "
                f"noise is {self.noise_in_mean:.2g} times as long as the longest model; with {self.asked:,} people it "
                "is a third, which costs almost nothing"
            )


def cohorts_of(plan: Plan, settings: Settings, *, people: int, features: int) -> Cohorts:
    """Of a plan for these settings, in which a size stands already: see privacy.plan.sized."""
    release = plan.release(Kind.MIXING)
    return Cohorts(
        people=people,
        size=settings.neighbours.size,
        asked=size_asked(settings, features=features),
        noise_in_mean=noise_in_mean(release, release.of.crowd),
    )


# The rows of a plan, and the terms of its promise.


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


def promise(terms: tuple[Term, ...], delta: float) -> str:
    """In one line: for life, or in a period and what a year of such periods comes to."""
    first, *later = terms
    told = f"ε = {first.epsilon:.4g} {first.when} (δ = {delta:g}; {_between(first)})"
    return told + "".join(f", and ε = {term.epsilon:.4g} {term.when} ({_between(term)})" for term in later)


def _between(term: Term) -> str:
    return f"{term.epsilon_replace_one:.4g} between any two contributions"
