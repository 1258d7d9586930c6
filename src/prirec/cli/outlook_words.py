"""prirec privacy plan and prirec privacy forecast in words and tables."""

from prirec.cli.cohorts import Cohorts
from prirec.cli.outlook import LocalAnswers, Outlook, Term, rows
from prirec.cli.output import console, figure, notes, show_table
from prirec.evaluate.forecast import Forecast
from prirec.evaluate.forecast import Row as Forecasted
from prirec.privacy.plan import Kind, Plan
from prirec.settings import Settings

_SUMS = {
    Kind.POPULARITY: "popularity of places",
    Kind.MIXING: "linear models (cohort)",
    Kind.INTERACTION: "gradient of V",
    Kind.QUALITY: "quality figures",
}
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
REVEALS = (
    "Only those with a record answer. Whoever answers about a place is known to have a record there, whatever "
    "the answer says: no epsilon bounds that. It is for the paper's table, in simulation."
)
_WITHOUT_NOISE = {
    "centralised": "One place holds everyone's records.",
    "samples": "The paper's schedule opens a sum without noise at each interaction: what those tell has no bound.",
    "rounds": "The sums of linear models and of gradients carry no noise.",
}


def show(outlook: Outlook) -> None:
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


def promise(terms: tuple[Term, ...], delta: float) -> str:
    """In one line: for life, or in a period and what a year of such periods comes to."""
    first, *later = terms
    told = f"ε = {first.epsilon:.4g} {first.when} (δ = {delta:g}; {_between(first)})"
    return told + "".join(f", and ε = {term.epsilon:.4g} {term.when} ({_between(term)})" for term in later)


def _between(term: Term) -> str:
    return f"{term.epsilon_replace_one:.4g} between any two contributions"


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
            _SUMS[release.of.kind],
            f"{100 * row.share:.3g} %",
            *(f"{count:,}" for count in (row.releases, row.devices, row.survivors, row.colluders)),
        )
        for row, release in lines
    ]
    noise = [
        (
            _SUMS[release.of.kind],
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
    plain = settings.features.dynamic and settings.popularity.mechanism == "plain"
    counts = " Popularity comes from plain counts." if plain else ""
    _say(
        f"These settings promise nothing to anyone. {_WITHOUT_NOISE[settings.schedule]}{counts} Such settings "
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
