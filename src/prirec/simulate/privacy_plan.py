"""What a privacy budget promises each person, what it costs in noise, and whether that is usable.

Computed from settings and from public counts of people, places and columns alone, so that it may be printed before
anything is collected. `make_plan` is the whole of it; `prirec.plan` and `prirec privacy plan` show its answer.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np
from msgspec.structs import replace as replace_fields

from prirec.config import Settings
from prirec.data.prepare import Prepared
from prirec.errors import UsageError
from prirec.features.columns import ModelSize
from prirec.features.samples import Samples
from prirec.model.estimate import noise_in_scores
from prirec.privacy.accountant import Adjacency, Spent, Unit
from prirec.privacy.plan import EQUAL_AT, Kind, Plan, Release, chosen_parts, plan_for, with_parts
from prirec.privacy.popularity_estimate import CityAverage
from prirec.privacy.quality_figures import FIGURES, QualityFigures, foreseen
from prirec.proofs.parameters import ELEMENT, Parameters
from prirec.simulate.popularity import REVEALS, LocalAnswers, SecureSum, mechanism_of, reporting
from prirec.util.shown import Shown, Table, counted

FEATURES = 50  # assumed where nobody has given the number of features
VISITS = 20.0  # places that a person visits, where nobody has said how many
LONGEST_YEARS = 20  # what a budget for each day comes to then is still a number
_SUMS = {
    Kind.POPULARITY: "popularity of places",
    Kind.MOMENTS: "means and spreads of private columns",
    Kind.INTERACTION: "the shared model",
    Kind.QUALITY: "quality figures",
}
_EVENLY = CityAverage(0.0, 1 / 3)  # the averages of places lie evenly over the declared range
_YEAR = 365
_WELL_BELOW = 0.1  # of 1 / people
_MOST_PEOPLE = 2**32
_CLEAR = 2  # standard deviations of noise: an average place with more has risen out of it
# In made-up cities what is learnt moves scores by about 1. Noise of 0.11, 0.38 and 0.53 cost 0.004, 0.034 and 0.046 of
# AUC, and noise of 1.9 to 7.6 cost 0.08 to 0.12 (10,000, 2,000 and 500 people, ε = 1 and 4, later records).
MOST_NOISE, SIGNAL = 0.5, 1.0
WITHOUT_NOISE = {
    "centralised": "One place holds everyone's records.",
    "samples": "The paper's schedule opens a sum without noise at each interaction: what those reveal has no bound.",
    "rounds": "The sums of moments and of gradients carry no noise.",
}
_PROMISE = (
    (
        "ε",
        "how well anyone can tell whether a person took part with their records or with none: one contribution "
        "replaced by zero, the roster public",
    ),
    ("replace-one ε", "the same between their records and any others"),
    ("δ", "probability with which the ε bound may fail, for each person"),
)
_COLUMNS = (
    ("part", "of the budget: of the sum of 1 / noise², which is what adds up; ε does not"),
    ("devices", "in one sum"),
    ("fewest", "survivors; with fewer a sum stays closed"),
    ("colluders", "so many devices may subtract their own noise, and the promise still holds"),
    ("clip", "norm that a person's contribution is scaled or clipped to"),
    ("noise", "sd of the noise of the honest among the fewest survivors, in units of the clip"),
    ("one at worst", "ε of one such sum if the operator makes up all other names of its roster"),
    ("sd", "of one entry of the opened sum, and of the mean, when everybody survives"),
)
_LIMITS = (
    "No amplification by sampling is claimed: every release is charged in full, as soon as a device has masked its "
    "vector for it. Nothing is refunded, and a round that is repeated is charged again.",
    "Public anyway, and in no ε: the roster, so that a device takes part, in which rounds and when.",
)


def _named(kind: Kind, settings: Settings) -> str:
    """Name of a sum, with the averages that are collected in it."""
    averages = settings.features.averages
    return _SUMS[kind] + (f", averages of {', '.join(averages)}" if kind is Kind.POPULARITY and averages else "")


@dataclass(frozen=True, slots=True)
class Counts:
    """The public size of a city."""

    people: int
    places: int
    features: int
    size: ModelSize  # of the shared model
    visits: float = VISITS  # places that a person visits, as expected

    @classmethod
    def of(cls, samples: Samples) -> Self:
        return cls(len(samples.ids), len(samples.places), samples.features, samples.columns.size)

    @classmethod
    def assumed(cls, people: int, places: int, features: int = FEATURES) -> Self:
        """Counts where no columns are known."""
        return cls(people, places, features, ModelSize.assumed(features))


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
    counts: Counts  # people, places, features, and numbers of the shared model
    plan: Plan | None  # None: nothing is promised
    noise: "ModelNoise | None"  # where there is a plan
    terms: tuple[Term, ...]  # ε and δ for life, or for a period and for years of periods
    answers: LocalAnswers | None  # the price of randomised response, where popularity is collected by it
    notes: tuple[str, ...]

    @property
    def usable(self) -> bool:
        """Whether the noise in the shared model leaves something to learn; False without a promise."""
        return self.noise is not None and self.noise.usable

    @property
    def verdict(self) -> str:
        """A few sentences: what is promised, and whether the noise leaves something to learn."""
        if self.plan is None or self.noise is None:
            counts = f" {mechanism_of(self.settings).without_a_promise}" if self.settings.features.dynamic else ""
            return (
                f"No privacy promise. {WITHOUT_NOISE[self.settings.schedule]}{counts} Such settings are for "
                "simulation; the preset 'private' promises one budget for each person."
            )
        verdict = "Usable" if self.usable else "Noisy"
        first = self.terms[0]
        promised = f"ε = {first.epsilon:.4g} for each person {first.when} (δ = {self.plan.delta:g})"
        return f"{verdict}: {promised}. {self.noise.in_words}"

    @property
    def parts(self) -> str:
        """How the budget is divided, who decided that, and why; empty without a promise."""
        if self.plan is None:
            return ""
        share, c = {row.what: f"{100 * row.share:.3g} %" for row in self.plan.rows()}, self.counts
        divided = ", ".join(f"{_named(what, self.settings)} {part}" for what, part in share.items())
        if not chosen_by_plan(self.settings, c):
            return f"Parts of the budget are those of the settings: {divided}."
        if Kind.POPULARITY not in share:
            return f"Parts of the budget: {divided}. There are no dynamic features, so that nothing counts visits."
        few = c.places > c.people
        return (
            f"Popularity gets {share[Kind.POPULARITY]} of the budget, as the plan chooses: the less, the more the "
            f"shared model has to learn (it has {c.size.entries:,} numbers; with {EQUAL_AT:,} both would count alike), "
            f"and the fewer people there are for a place (here {c.people / c.places:.2g}"
            f"{', so that counts drown sooner' if few else ''}). Means and spreads need little, "
            f"{share[Kind.MOMENTS]}; the shared model has the rest."
        )

    @property
    def traffic(self) -> str:
        """What a device sends in a round."""
        entries, octets = self.counts.size.entries, self.settings.ring.bits // 8
        if self.plan is not None and self.settings.sums.operators == 2:
            return (
                f"A device sends one report a round, with {entries:,} numbers and a proof of their norm: "
                f"{self._bytes_a_round / 1e3:,.1f} kB."
            )
        return f"A device sends {entries:,} numbers a round, {octets} bytes each: {entries * octets / 1e3:,.1f} kB."

    @property
    def _bytes_a_round(self) -> int:
        """Of a device's vector; over two operators, of its report but for some 500 bytes."""
        entries = self.counts.size.entries
        if self.plan is None or self.settings.sums.operators == 1:
            return entries * self.settings.ring.bits // 8
        norm = int(self.plan.release(Kind.INTERACTION).norm.units)
        proof = Parameters.shortest(dimension=entries, norm_bound=norm)
        return ELEMENT * (proof.encoded_length + proof.proofs_length)

    @property
    def price(self) -> str:
        """What a person who takes part in everything has spent, in one line; empty without a promise."""
        return "" if self.plan is None else promise(self.terms, self.plan.delta)

    @property
    def assumption(self) -> str:
        """What ε rests on, and what it would be otherwise; empty without a promise."""
        if self.plan is None:
            return ""
        if self.settings.sums.operators == 2:
            return (
                "These ε hold while one of the two operators is honest, whatever all other devices do and however many "
                "come. Each operator adds all of the noise, so that a sum has 1.41 times as much as is needed. Both "
                "operators together see everything; a right sum needs both of them honest."
            )
        worst = max(self.plan.rows(), key=lambda row: row.epsilon_at_worst)
        return (
            f"These ε hold if at most {100 * self.settings.sums.corrupt:.3g} % of each roster work with the operator. "
            "If the operator makes up all other names, only a device's own share of the noise hides its person: the "
            f"sum of {_named(worst.what, self.settings)} alone is then worth ε = {worst.epsilon_at_worst:,.1f}, and "
            f"all sums together ε = {self.plan.epsilon_at_worst():,.1f}."
        )

    @property
    def figures(self) -> dict[str, tuple[str, float]]:
        """Of each quality figure that can be read its name, and twice the error that is foreseen from noise alone."""
        release = None if self.plan is None else quality_release(self.plan)
        found = None if release is None else figures_foreseen(release, release.of.crowd.size)
        known = {key: getattr(found, key, None) for key in FIGURES}
        return {key: (FIGURES[key], 2 * one.error) for key, one in known.items() if one is not None}

    @property
    def averages(self) -> tuple[float, float] | None:
        """Twice the errors that are foreseen of an average over visits, as parts of its declared range: the city's, and
        a place's. As if visits lay evenly over places and values over the range, alike at one place."""
        many, counts = len(self.settings.features.averages), self.counts
        if self.plan is None or not many or not self.settings.features.dynamic:
            return None
        visited = min(counts.visits, counts.places)
        of_a_visit = 1 / math.sqrt(visited * (1 + many * _EVENLY.spread))  # in a vector of norm 1
        visitors = np.full(counts.places, counts.people * visited * of_a_visit / counts.places)
        # the range is 2 wide, so that twice an error is this part of it
        return _EVENLY.errors(visitors, self.plan.release(Kind.POPULARITY).sd_of_sum())

    def panels(self) -> Iterator[str | Table]:
        counts = self.counts
        yield self.verdict
        yield (
            f"{counted(counts.people, 'person')}, {counted(counts.places, 'place')}, "
            f"{counted(counts.features, 'feature')}, {counted(self.settings.iterations, 'round')}."
        )
        if self.plan is None:
            return
        yield Table(("promised to each person, for all sums together", ">ε", ">replace-one ε", ">δ"), [
            (term.when, f"{term.epsilon:.3f}", f"{term.epsilon_replace_one:.3f}", f"{self.plan.delta:g}")
            for term in self.terms
        ])  # fmt: skip
        yield Table(("sum of", ">part", ">releases", ">devices", ">sd of sum", ">sd of mean"), [
            (
                _named(row.what, self.settings), f"{100 * row.share:.3g} %", f"{row.releases:,}", f"{row.devices:,}",
                f"{row.sd_of_sum:.3g}", f"{row.sd_of_mean:.3g}",
            )
            for row in self.plan.rows()
        ])  # fmt: skip
        yield self.parts
        yield self.traffic
        if self.averages is not None:
            city, place, unknown = (f"± {100 * part:.2g} %" for part in (*self.averages, math.sqrt(_EVENLY.spread)))
            yield (
                f"Twice the error of an average over visits, as foreseen for {counts.visits:g} places that each person "
                f"visits: {city} of its declared range in the city, {place} at a place ({unknown}: nothing is known)."
            )
        if self.figures:
            errors = ", ".join(f"{name} ± {error:.2g}" for name, error in self.figures.values())
            yield f"Twice the error of quality figures, as foreseen for a model with an AUC of 0.8: {errors}."
        yield self.assumption

    def details(self) -> Iterator[str | Table]:
        """What comes below the panels for whoever wants all of it: what each column means, and what is left out."""
        if self.plan is not None:
            if len(self.terms) > 1:
                yield (
                    f"A budget is for any {counted(self.terms[0].days or 0, 'day')}. Over a longer time they add up: "
                    f"the plan {self.terms[1].plans:,} times."
                )
            yield Table(("sum of", ">fewest", ">colluders", ">clip", ">noise", ">ε alone", ">one at worst"), [
                (
                    _named(row.what, self.settings), f"{row.survivors:,}", f"{row.colluders:,}",
                    f"{row.longest_contribution:.3g}", f"{row.noise_multiplier:.3g}", f"{row.epsilon_alone:.3f}",
                    f"{row.epsilon_at_worst:,.1f}",
                )
                for row in self.plan.rows()
            ])  # fmt: skip
            yield Table(("", "meaning"), (*_PROMISE, *_COLUMNS))
            yield from _LIMITS
        if (local := self.answers) is not None:
            price, sd = local.epsilon_per_user_and_collection, local.sd_of_a_count
            yield Table(("popularity by randomised response", ">"), [
                ("ε per bit", f"{local.epsilon_per_bit:g}"),
                ("probability that an answer is false", f"{100 * local.chance_of_a_false_answer:.3g} %"),
                ("who answers about a place", local.reporters.replace("-", " ")),
                ("ε per user, each collection", "no bound" if price is None else f"{price:,.6g}"),
                ("sd of a place's count", "not known before" if sd is None else f"{sd:,.3g}"),
            ])  # fmt: skip
            yield (
                REVEALS
                if local.reveals_who_was_there
                else (
                    f"ε = {local.epsilon_per_bit:g} is for one bit. A person sends {local.bits:,} bits about "
                    f"{self.counts.places:,} places, and pays for all of them in each collection."
                )
            )

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "preset": self.settings.preset,
            "people": self.counts.people,
            "places": self.counts.places,
            "features": self.counts.features,
            "visits_per_person": self.counts.visits,
            "shared_model": {
                "entries": self.counts.size.entries,
                "bytes_a_round": self._bytes_a_round,
            },
            "verdict": self.verdict,
            "usable": self.usable,
            "promised": self._promised(),
            "operators": self.settings.sums.operators,
            "adjacency": {"epsilon": Adjacency.ZERO_OUT, "epsilon_replace_one": Adjacency.REPLACE_ONE},
            "roster_is_public": True,
            "amplification_by_sampling": False,
            "assumption": self.assumption,
            "epsilon_at_worst": None if self.plan is None else self.plan.epsilon_at_worst(),
            "terms": [asdict(term) for term in self.terms],
            "noise": None if self.noise is None else asdict(self.noise),
            "parts": self.parts,
            "sums": [asdict(row) for row in self.plan.rows()] if self.plan else [],
            "figures": {key: {"name": name, "error": error} for key, (name, error) in self.figures.items()},
            "averages": None if self.averages is None else dict(zip(("city", "place"), self.averages, strict=True)),
            "randomized_response": None if self.answers is None else asdict(self.answers),
            "notes": self.notes,
        }

    def _promised(self) -> dict[str, Any] | None:
        if self.plan is None:
            return None
        days, delta = self.settings.privacy.period_days, self.plan.delta
        return {"unit": Unit.USER, "epsilon": self.plan.epsilon_per_user, "delta": delta, "period_days": days}


def make_plan(settings: Settings, counts: Counts, *, years: float | None = None) -> PrivacyPlan:
    """The promise and its price in noise; where settings promise nothing, a plan without a promise.

    `years`, with privacy.period_days: for how many years the periods are added up."""
    promised, period = settings.privacy.epsilon_per_user is not None, settings.privacy.period_days
    if years is not None and not (promised and period):
        raise UsageError("years has no meaning here: no budget has a period; give privacy.period_days")
    dynamic, mechanism = settings.features.dynamic, mechanism_of(settings)
    answers = mechanism.price(settings, people=counts.people, places=counts.places) if dynamic else None
    if not promised:
        return PrivacyPlan(settings, counts, None, None, (), answers, ())
    noise = ModelNoise.of(settings, counts)
    settings = with_parts(settings, people=counts.people, places=counts.places, size=counts.size)
    found = plan_for(settings, people=counts.people, pois=counts.places, size=counts.size)
    due = terms(found, period, years=1.0 if years is None else years)
    return PrivacyPlan(settings, counts, found, noise, due, answers, (*_notes(settings, counts), *drowned(found)))


def chosen_by_plan(settings: Settings, counts: Counts) -> bool:
    """Whether the parts of the budget are left to the plan, or are those that it chose for this city."""
    p = settings.privacy
    chosen = chosen_parts(people=counts.people, places=counts.places, entries=counts.size.entries)
    return p.interaction is None or (p.popularity, p.moments, p.interaction) == tuple(chosen.values())


@dataclass(frozen=True, slots=True)
class ModelNoise:
    """How much noise the shared model would have, and how many people it takes for little."""

    in_scores: float  # the standard deviation that it gives to a score, before blocks of noise alone are shrunk away
    people: int  # enough for MOST_NOISE: those of the city or, rounded up, more

    @classmethod
    def of(cls, settings: Settings, counts: Counts) -> Self:
        people, rounds, size = counts.people, settings.iterations, counts.size
        if chosen_by_plan(settings, counts):  # for more people it would choose others
            free = replace_fields(settings.privacy, popularity=None, moments=None, interaction=None)
            settings = replace_fields(settings, privacy=free)

        def noise(people: int) -> float:
            made = plan_for(settings, people=people, pois=counts.places, size=size).release(Kind.INTERACTION)
            return noise_in_scores(made.sd_of_mean(), entries=size.entries, rounds=rounds)

        found = left = noise(people)
        while left > MOST_NOISE and people < _MOST_PEOPLE:  # it falls about as people grow; parts move too
            people = _rounded_up(people * max(left / MOST_NOISE, 1.01))
            left = noise(people)
        return cls(found, people)

    @property
    def usable(self) -> bool:
        """Whether it is small enough to learn from."""
        return self.in_scores <= MOST_NOISE

    @property
    def drowns(self) -> bool:
        """Whether it is larger than what is learnt, so that the budget would be spent for next to nothing."""
        return self.in_scores > SIGNAL

    @property
    def takes(self) -> str:
        """How many people it takes for noise of no more than MOST_NOISE."""
        return f"about {self.people:,} people"

    @property
    def in_words(self) -> str:
        noise = f"Noise in the shared model moves scores by {self.in_scores:.2g}; what it learns moves them by about 1."
        return noise if self.usable else f"{noise} Usable below about {MOST_NOISE:g}; you need {self.takes} for that."

    def notes(self) -> Iterator[str]:
        """A warning, before training, about a shared model that is mostly noise."""
        if not self.usable:
            yield (
                f"noise in the shared model will move scores by {self.in_scores:.2g}, and costs accuracy above about "
                f"{MOST_NOISE:g}: you need {self.takes} for that"
            )


def _rounded_up(people: float) -> int:
    """To two significant digits."""
    unit = int(10 ** max(len(str(math.ceil(people))) - 2, 0))
    return math.ceil(people / unit) * unit


# Noise in the figures of a model that was trained under a plan


def drowned_by_noise(prepared: Prepared, settings: Settings, counts: Counts) -> str:
    """For beside the figures of a model with a budget: how many people it takes, where noise drowns much of what these
    add. Empty where it does not, or where there is none. It looks at visits, as only a simulation can."""
    made = make_plan(settings, counts)
    if made.plan is None or made.noise is None:
        return ""
    takes = [] if made.noise.usable else [f"{made.noise.takes} for the shared model"]
    mechanism = mechanism_of(settings)
    if settings.features.dynamic and isinstance(mechanism, SecureSum):
        sd = made.plan.release(Kind.POPULARITY).sd_of_sum()
        mean = float(mechanism.contributions(reporting(prepared, settings)).total()[: counts.places].mean())
        if 0 < mean < _CLEAR * sd:
            needed = float(f"{counts.people * _CLEAR * sd / mean:.2g}")
            takes.append(
                f"about {needed:,.0f} people for the popularity of {counts.places:,} places (of an average one it is "
                f"{mean:.2g}, under noise of {sd:.2g})"
            )
    if not takes:
        return ""
    return (
        f"Noise drowns much of what {counts.people:,} people add: ε = {made.plan.epsilon_per_user:g} takes "
        f"{', and '.join(takes)}."
    )


# The terms of a plan's promise


def terms(plan: Plan, period: int | None, *, years: float = 1.0) -> tuple[Term, ...]:
    """Totals for life, or for a period and for so many years of such periods."""
    if period is None:
        return (_term(plan, "for life", days=None, plans=1),)
    # so many stretches of `period` days cover the time, and none of them holds more than one budget
    plans = math.ceil(years * _YEAR / period)
    words = "if it goes on for a year" if years == 1 else f"if it goes on for {years:g} years"
    return (
        _term(plan, f"in any {counted(period, 'day')}", days=period, plans=1),
        _term(plan, words, days=math.ceil(years * _YEAR), plans=plans),
    )


def _term(plan: Plan, when: str, *, days: int | None, plans: int) -> Term:
    spent = Spent(plan.spent.grains * plans)
    one, other = (spent.loss(plan.delta, adjacency).epsilon for adjacency in Adjacency)
    return Term(when, days, plans, one, other)


def quality_release(plan: Plan) -> Release | None:
    return next((one for one in plan.releases if one.of.kind is Kind.QUALITY), None)


def figures_foreseen(release: Release, people: int) -> QualityFigures | None:
    """What could be read if so many people reported; None: nothing at all."""
    noise = release.noise(replace(release.of.crowd, size=people))
    try:
        return foreseen(people, norm=release.norm, noise_variance=noise.total_variance(people))
    except UsageError:
        return None


def drowned(plan: Plan) -> tuple[str, ...]:
    """A warning, before anything is spent, about quality figures that could not be read afterwards."""
    release = quality_release(plan)
    if release is None:
        return ()
    people = release.of.crowd.size
    found = figures_foreseen(release, people)
    lost = [name for key, name in FIGURES.items() if getattr(found, key, None) is None]
    if not lost:
        return ()
    some = f"too much to read {' or '.join(lost)}"
    every = "too much to read any of them, and their part of the budget would be spent for nothing"
    return (
        f"for {people:,} people the noise in quality figures is {some if len(lost) < len(FIGURES) else every}: "
        f"it takes about {people_for_figures(release):,} people or a larger privacy.quality, or leave it at 0",
    )


def people_for_figures(release: Release) -> int:
    """The fewest people, from those whom the release is for on, with whom every quality figure could be read."""

    def readable(people: int) -> bool:
        found = figures_foreseen(release, people)
        return all(getattr(found, key, None) is not None for key in FIGURES)

    fewest = release.of.crowd.size
    return fewest + bisect_left(range(fewest, _MOST_PEOPLE), True, key=readable)  # noqa: FBT003


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
    words = f"ε = {first.epsilon:.4g} {first.when} (δ = {delta:g}; {_between(first)})"
    return words + "".join(f", and ε = {term.epsilon:.4g} {term.when} ({_between(term)})" for term in later)


def _between(term: Term) -> str:
    return f"{term.epsilon_replace_one:.4g} between any two contributions"
