"""Privacy plans, forecasts, prices and ledgers as the command line shows them."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import typer

from prirec.cli.output import busy, console, figure, note, notes, show_table
from prirec.config import Settings
from prirec.data.folder import read_folder
from prirec.errors import PolicyError, UsageError
from prirec.model.scoring import scores
from prirec.privacy.accountant import Spent
from prirec.privacy.ledger import Budget, Ledger, fits, how_many_more, statement
from prirec.privacy.plan import Kind, Plan, planned
from prirec.privacy.quality_figures import DROWNED, Estimate
from prirec.privacy.units import Adjacency, Unit
from prirec.rounds.participation import left_in_collection
from prirec.simulate.forecast import Forecast
from prirec.simulate.forecast import Row as Forecasted
from prirec.simulate.outlook import (
    FIGURES,
    SUMS,
    WITHOUT_NOISE,
    Cohorts,
    Counts,
    PrivacyPlan,
    Term,
    cohorts_of,
    drowned,
    promise,
    rows,
    terms,
)
from prirec.simulate.popularity import REVEALS, LocalAnswers, mechanism_of
from prirec.simulate.private_figures import PrivateFigures, private_figures
from prirec.simulate.setup import Outcome, Setup, features_of


def counted(data: Path, settings: Settings) -> Counts:
    """Everyone and every place that the folder lists, before any filter, and D, as training would encode them."""
    with busy("counting"):
        dataset = read_folder(data).dataset
        return Counts(len(dataset.people), len(dataset.places), features_of(dataset, settings))


# prirec privacy plan and prirec privacy forecast in words and tables.


_PROMISE = (
    (
        "epsilon",
        "how well anyone can tell if a person took part with their records or with none: one "
        "contribution replaced by zero, the roster public",
    ),
    ("replace-one", "the same for their records or any others"),
    ("delta", "the odds, about, that epsilon does not hold"),
)
_MEANING = (
    ("part", "of the sum of 1 / noise^2, which is what adds up; epsilons do not"),
    ("devices", "in one sum; for linear models, in the smallest cohort"),
    ("fewest", "with fewer survivors a sum stays closed"),
    ("colluders", "so many devices may take their noise back, and the promise holds"),
    ("longest", "the norm that a person's contribution is scaled or cut to"),
    ("noise", "of all who do not collude among the fewest: its sd in units of that norm"),
    ("sd", "of one opened entry, and of one entry of the mean, when everybody survives"),
)
_LIMITS = (
    "No amplification by sampling is claimed: every release is charged in full, as soon as a device has masked its "
    "vector for it. Nothing is refunded, and a round that is repeated is charged again.",
    "Public anyway, and in no epsilon: the roster, so that a device takes part, in which rounds and when; for linear "
    "models, in which cohort.",
)
_FORECASTED = ("mechanism", ">error", ">above noise", ">AUC", ">cost")


def show_plan(outlook: PrivacyPlan) -> None:
    """The promise first, then what it is made of, then what it leaves out."""
    counts = outlook.counts
    _say(f"{counts.people:,} people, {counts.places:,} places, {counts.features:,} features")
    if outlook.plan is None:
        _show_no_promise(outlook.settings)
    else:
        _show_promise(outlook.plan, outlook.terms)
        _show_sums(outlook.plan)
    if outlook.cohorts is not None:
        _say(outlook.cohorts.in_words)
    if outlook.answers is not None:
        _show_answers(outlook.answers, places=counts.places)
    notes(outlook.notes)


def _show_promise(plan: Plan, terms: tuple[Term, ...]) -> None:
    lines = [
        (term.when, figure(term.epsilon, digits=3), figure(term.epsilon_replace_one, digits=3), f"{plan.delta:g}")
        for term in terms
    ]
    show_table(("promised to each person, for all sums together", ">epsilon", ">replace-one", ">delta"), lines)
    _define(_PROMISE)
    if len(terms) > 1:
        times = f"{terms[1].plans:,} times"
        _say(f"Each {terms[0].days} days have a budget of their own. Over a longer time they add up: the plan {times}.")


def _show_sums(plan: Plan) -> None:
    lines = rows(plan)
    released = [
        (
            SUMS[release.of.kind],
            f"{100 * row.share:.3g} %",
            *(f"{count:,}" for count in (row.releases, row.devices, row.survivors, row.colluders)),
        )
        for row, release in lines
    ]
    noise = [
        (
            SUMS[release.of.kind],
            *(
                f"{value:.3g}"
                for value in (release.of.sensitivity, row.noise_multiplier, row.sd_of_sum, row.sd_of_mean)
            ),
            figure(row.loss.epsilon, digits=3),
        )
        for row, release in lines
    ]
    columns = ("sum of", ">part", ">releases", ">devices", ">fewest", ">colluders")
    show_table(columns, released, title="What is released")
    columns = ("sum of", ">longest", ">noise", ">sd of sum", ">sd of mean", ">epsilon alone")
    show_table(columns, noise, title="The noise in it")
    _define(_MEANING)
    for text in _LIMITS:
        _say(text)


def _show_answers(answers: LocalAnswers, *, places: int) -> None:
    price, sd = answers.epsilon_per_user_and_collection, answers.sd_of_a_count
    lines = (
        ("epsilon per bit", f"{answers.epsilon_per_bit:g}"),
        ("chance that an answer is false", f"{100 * answers.chance_of_a_false_answer:.3g} %"),
        ("who answers about a place", answers.reporters.replace("-", " ")),
        ("epsilon per user, each collection", "no bound" if price is None else f"{price:,.6g}"),
        ("sd of a place's count", "not known before" if sd is None else f"{sd:,.3g}"),
    )
    show_table(("randomised response", ">"), lines, title="Popularity")
    if answers.reveals_who_was_there:
        _say(REVEALS)
    else:
        _say(
            f"Epsilon = {answers.epsilon_per_bit:g} is for one bit. A person sends {answers.bits:,} bits about "
            f"{places:,} places, and pays for all of them in each collection."
        )


def _show_no_promise(settings: Settings) -> None:
    counts = f" {mechanism_of(settings).without_a_promise}".rstrip() if settings.features.dynamic else ""
    _say(
        f"These settings promise nothing to anyone. {WITHOUT_NOISE[settings.schedule]}{counts} Such settings "
        "are for simulation; --preset private promises one budget for each person."
    )


def show_forecast(
    found: Forecast,
    epsilons: list[float],
    *,
    terms: tuple[Term, ...],
    cohorts: Cohorts | None,
    trained: dict[str, float] | None,
) -> None:
    """What is planned first; then every mechanism at every price."""
    _say(
        f"{found.people:,} people, {found.places:,} places, {found.pairs:,} pairs of a person and a visited "
        f"place; a place has {found.median_visitors:,.0f} visitors (median), {found.mean_visitors:,.1f} (mean)"
    )
    _say(f"AUC of popularity alone with plain counts, which nothing protects: {figure(found.plain_auc)}")
    if terms:
        _say(f"The plan costs each person, for everything: {promise(terms, found.delta)}")
    if cohorts is not None:
        _say(cohorts.in_words)
    if found.as_planned is not None and found.part_for_popularity is not None:
        part = f"{100 * found.part_for_popularity:.3g} % of the budget for popularity"
        _show_forecasted([found.as_planned], title=f"as planned: {part}")
    for epsilon in epsilons:
        rows = [row for row in found.rows if row.user_level and row.epsilon_per_user == epsilon]
        _show_forecasted(rows, title=f"ε = {epsilon:g}, δ = {found.delta:g} per user, all of it for popularity")
    rest = [(*_cells(row), _promised(row)) for row in found.rows if not row.user_level]
    show_table((*_FORECASTED, "promise"), rest, title="for comparison: not that promise")
    if trained is not None:
        plain = ("without a budget (rounds)", figure(trained["auc_without_a_budget"]), "")
        lines = [plain, ("as planned", figure(trained["auc"]), figure(trained["cost"]))]
        show_table(("model, trained on this folder", ">AUC", ">cost"), lines, title="the AUC cost of the plan")


def _show_forecasted(rows: list[Forecasted], *, title: str) -> None:
    cells = [(*_cells(row), figure(row.epsilon_replace_one, digits=3)) for row in rows]
    show_table((*_FORECASTED, ">replace-one ε"), cells, title=title)


def _cells(row: Forecasted) -> tuple[str, ...]:
    error, above = f"{row.error:,.1f}", f"{row.places_above_noise:,}"
    return row.mechanism, error, above, figure(row.auc), figure(row.cost)


def _promised(row: Forecasted) -> str:
    if row.epsilon_per_user is None or row.epsilon_replace_one is None:
        return row.promise
    return f"ε = {row.epsilon_per_user:g} (replace-one {row.epsilon_replace_one:.3f}), {row.promise}"


def _define(words: tuple[tuple[str, str], ...]) -> None:
    """A word a line, and beside it what it means."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2, 0, 0))
    for word, meaning in words:
        grid.add_row(f" {word}", meaning)
    console().print(grid)


def _say(text: str) -> None:
    """A paragraph as wide as the terminal."""
    console().print(text)


# What a run that is trained within a budget would cost each person, and what it would tell its operator.


UNREAD = f"no quality figure can be read: {DROWNED}"


@dataclass(frozen=True, slots=True)
class Price:
    """The loss of a person who takes part in everything, and quality figures where they have a part of the budget."""

    plan: Plan = field(repr=False)
    cohorts: Cohorts
    terms: tuple[Term, ...]  # for life; or for the period, and for a year of such periods
    figures: PrivateFigures | None = None  # None: not wanted, not read yet, or drowned

    def as_dict(self) -> dict[str, Any]:
        first = self.terms[0]
        return {
            "epsilon": first.epsilon,
            "epsilon_replace_one": first.epsilon_replace_one,
            "delta": self.plan.delta,
            "period_days": first.days,
            "terms": [asdict(term) for term in self.terms],
            "cohorts": asdict(self.cohorts),
            "figures": None if self.figures is None else _as_dict(self.figures),
        }

    def warnings(self) -> tuple[str, ...]:
        """Before anything is spent."""
        return (*self.cohorts.notes(), *drowned(self.plan))


def _as_dict(figures: PrivateFigures) -> dict[str, Any]:
    found = {name: getattr(figures.read, name) for name in FIGURES}
    read = {name: None if estimate is None else asdict(estimate) for name, estimate in found.items()}
    return {"read": read, "true": asdict(figures.true)}


def price_of(setup: Setup) -> Price | None:
    """Known before training; None where the settings promise nothing."""
    samples = setup.samples
    return price_for(
        setup.settings, people=len(samples.ids), places=len(samples.places), features=samples.features
    )  # fmt: skip


def price_for(settings: Settings, *, people: int, places: int, features: int) -> Price | None:
    """The same, of a city that nobody holds."""
    if settings.privacy.epsilon_per_user is None:
        return None
    many = {"people": people, "features": features}
    plan = planned(settings, **many, pois=places)
    return Price(plan, cohorts_of(plan, settings, **many), terms(plan, settings.privacy.period_days))


def with_figures(price: Price, outcome: Outcome) -> tuple[Price, tuple[str, ...]]:
    """The price with what the operator could read, if that is in it; a note where the noise drowns everything."""
    settings, samples, state = outcome.setup.settings, outcome.setup.samples, outcome.trained.state
    if not settings.privacy.quality:
        return price, ()
    told = scores(state.models, samples, samples.test)
    left = left_in_collection(samples.keys, settings, of="quality")
    release = price.plan.release(Kind.QUALITY)
    try:
        figures = private_figures(samples.test, told, release=release, seed=settings.seed, left=left)
    except UsageError:
        return price, (UNREAD,)
    except PolicyError as closed:
        return price, (str(closed),)
    return replace(price, figures=figures), ()


def show_price(price: Price) -> None:
    """In plain words."""
    if price.figures is not None:
        _show_figures(price.figures)
    console().print(price.cohorts.in_words)
    told = promise(price.terms, price.plan.delta)
    console().print(f"with devices, all this would cost each person {told}; prirec privacy plan shows the parts")


def _show_figures(figures: PrivateFigures) -> None:
    pairs = [(words, getattr(figures.read, name), getattr(figures.true, name)) for name, words in FIGURES.items()]
    rows = [(words, _told(read), figure(true)) for words, read, true in pairs]
    show_table(("quality, each person counting once", ">as the operator reads it", ">as it is"), rows)
    if any(read is None for _, read, _ in pairs):
        typer.echo(f"drowned: {DROWNED}")


def _told(estimate: Estimate | None) -> str:
    return "drowned" if estimate is None else f"{figure(estimate.value)} ± {2 * estimate.error:.3f}"


# The figures behind prirec privacy ledger.


MOST = 2**16  # how_many_more looks no further


@dataclass(frozen=True, slots=True)
class Item:
    """What was spent on one thing, had it been the only one."""

    what: str
    unit: Unit
    releases: int
    epsilon: float
    # such releases that the budget still covers, at the last price, if nothing else is paid for; None: cannot be said,
    # or the releases are local answers of an earlier version, of which no more are made
    more: int | None


@dataclass(frozen=True, slots=True)
class Total:
    """Everything together, over a stretch of time."""

    days: int | None  # None: for life
    releases: int
    epsilon: float
    epsilon_replace_one: float


@dataclass(frozen=True, slots=True)
class Account:
    """A person's ledger against a budget."""

    budget: Budget  # per user, as the settings have it
    counted_per: Unit  # the unit of the totals
    items: tuple[Item, ...]
    lifetime: Total
    period: Total | None  # where the budget has a period
    overspent: bool  # beyond what this budget allows: the device had another
    covered_again_in_days: int | None  # where nothing is left now, and a period will end

    @property
    def nothing_left(self) -> bool:
        more = [item.more for item in self.items if item.more is not None]
        return bool(more) and not any(more)

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        told = asdict(self)
        adjacency = {"epsilon": Adjacency.ZERO_OUT, "epsilon_replace_one": Adjacency.REPLACE_ONE}
        return {**told, "nothing_left": self.nothing_left, "adjacency": adjacency}


def budget_of(settings: Settings) -> Budget:
    """The budget that settings give each person."""
    p = settings.privacy
    if p.epsilon_per_user is None:
        raise PolicyError("these settings promise nothing: give privacy.epsilon_per_user, or use the preset 'private'")
    return Budget(p.epsilon_per_user, p.delta, p.period_days)


def account(ledger: Ledger, *, budget: Budget, day: int) -> Account:
    """A loss per event bounds nothing about a person, so where one was charged all is counted per event."""
    unit = _smallest(one.charge.cost.unit for one in ledger.entries)
    counting = replace(budget, unit=unit)
    prices = {  # the last one stays
        (one.charge.what, one.charge.cost.unit): one.charge.cost for one in ledger.entries if not one.charge.cost.local
    }
    more = {
        key: how_many_more(ledger, cost, budget=budget, day=day) if unit is Unit.USER else None
        for key, cost in prices.items()
    }
    lines = statement(ledger, budget=counting, day=day).lines
    return Account(
        budget=budget,
        counted_per=unit,
        items=tuple(
            Item(line.what, line.loss.unit, line.releases, line.loss.epsilon, more.get((line.what, line.loss.unit)))
            for line in lines
        ),
        lifetime=_total(ledger, counting, since=None, days=None),
        period=_period(ledger, counting, day=day),
        overspent=unit is Unit.USER and not fits(ledger.counted(budget, day=day), budget),
        covered_again_in_days=_again(ledger, budget, prices.values(), day=day) if unit is Unit.USER else None,
    )


def _period(ledger: Ledger, budget: Budget, *, day: int) -> Total | None:
    days = budget.period_days
    return None if days is None else _total(ledger, budget, since=day - days + 1, days=days)


def _total(ledger: Ledger, budget: Budget, *, since: int | None, days: int | None) -> Total:
    spent = ledger.spent(budget, since=since)
    one, other = (spent.loss(budget.delta, adjacency).epsilon for adjacency in Adjacency)
    releases = sum(since is None or paid.day >= since for paid in ledger.entries)
    return Total(days, releases, one, other)


def _again(ledger: Ledger, budget: Budget, prices: Iterable[Spent], *, day: int) -> int | None:
    """In how many days something that was paid for before is covered again; None if it is now, or never will be."""
    if budget.period_days is None or not ledger.entries:
        return None
    costs = set(prices)
    ends = sorted({paid.day + budget.period_days for paid in ledger.entries} | {day})
    for end in (end for end in ends if end >= day):
        if any(how_many_more(ledger, cost, budget=budget, day=end) for cost in costs):
            return end - day or None
    return None


def _smallest(units: Iterable[Unit]) -> Unit:
    order = tuple(Unit)  # from the smallest to the largest
    return min(units, key=order.index, default=Unit.USER)


# prirec privacy ledger in words and tables.


GOES_ON = "The device still downloads, trains locally and recommends; it sends nothing more for a sum."


def show_ledger(account: Account) -> None:
    """What was spent, what it comes to, and what is left."""
    if not account.items:
        _say_account_words(
            "Nothing was spent: by this ledger, nothing computed from this person's records has left the device."
        )
        _say_account_words(_words(account.budget))
        return
    _show_items(account)
    _show_totals(account)
    _say_account_words(_left(account))
    if account.overspent:
        note("more was spent than these settings allow; the device had another budget: name its settings")


def _show_items(account: Account) -> None:
    lines = [
        (item.what, item.unit, f"{item.releases:,}", figure(item.epsilon, digits=3), _more(item))
        for item in account.items
    ]
    show_table(("spent on", "counted per", ">releases", ">epsilon alone", ">more covered"), lines)


def _show_totals(account: Account) -> None:
    lines = [_total_account_words("in all, ever", account.lifetime)]
    if account.period is not None:
        lines.append(_total_account_words(f"in the last {account.period.days} days", account.period))
    if account.counted_per is Unit.USER:
        lines.append(("budget", "", figure(account.budget.epsilon, digits=3), ""))
    title = f"Together, per {account.counted_per}, delta = {account.budget.delta:g}"
    show_table(("", ">releases", ">epsilon", ">replace-one epsilon"), lines, title=title)
    _say_account_words(f"{_meaning(account.counted_per)} Together is less than the sum of each alone.")


def _meaning(unit: Unit) -> str:
    if unit is not Unit.USER:
        return f"epsilon: how well anyone can tell if one {unit} is in it or not; replace-one: that one or any other."
    return (
        "epsilon: how well anyone can tell if this person took part with these records or with none (each contribution "
        "replaced by zero, the roster public); replace-one: with these or with any others."
    )


def _total_account_words(name: str, total: Total) -> tuple[str, str, str, str]:
    epsilon, replaced = figure(total.epsilon, digits=3), figure(total.epsilon_replace_one, digits=3)
    return name, f"{total.releases:,}", epsilon, replaced


def _left(account: Account) -> str:
    if account.counted_per is not Unit.USER:
        return (
            f"Some of it was counted per {account.counted_per} only, which does not bound what is known about the "
            "person: a budget per user cannot cover it, and what is left cannot be said."
        )
    budget = _words(account.budget)
    if not account.nothing_left:
        return f"{budget} More covered: releases at the last price, if nothing else is paid for."
    again = account.covered_again_in_days
    days = "1 day" if again == 1 else f"{again} days"
    when = f" Something is covered again in {days}." if again else ""
    return f"{budget} Nothing is left of it for any of these. {GOES_ON}{when}"


def _words(budget: Budget) -> str:
    days = "for life" if budget.period_days is None else f"in any {budget.period_days} days"
    return f"The budget is epsilon = {budget.epsilon:g} and delta = {budget.delta:g} per user, {days}."


def _more(item: Item) -> str:
    if item.more is None:
        return "-"
    return f"{item.more:,}" if item.more < MOST else f"{MOST:,} or more"


def _say_account_words(text: str) -> None:
    console().print(text)
