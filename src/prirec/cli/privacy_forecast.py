"""prirec privacy forecast: what each mechanism would leave of popularity, before anyone is asked anything."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prirec.cli.options import Json, Seed, examples

if TYPE_CHECKING:
    from prirec.data.recipe import Prepared
    from prirec.evaluate.forecast import Forecast, Row

EPILOG = examples(
    "prirec privacy forecast --people 10000",
    "prirec privacy forecast --people 50000 --places 8000 --visits-per-person 12 --epsilon 1 --epsilon 4",
    "prirec privacy forecast city --json",
)
PLACES, VISITS = 2000, 20.0


def forecast(
    city: Annotated[
        Path | None, typer.Argument(metavar="CITY", show_default=False, help="Data folder to simulate on.")
    ] = None,
    *,
    people: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Without CITY: devices of a made-up city.")
    ] = None,
    places: Annotated[
        int | None, typer.Option(min=1, metavar="N", show_default=str(PLACES), help="Places of the made-up city.")
    ] = None,
    visits_per_person: Annotated[
        float | None,
        typer.Option(min=0.1, metavar="N", show_default=f"{VISITS:g}", help="Visits of a person that are counted."),
    ] = None,
    epsilon: Annotated[
        list[float] | None,
        typer.Option(metavar="E", show_default="1", help="What a person spends on popularity; repeatable."),
    ] = None,
    delta: Annotated[float, typer.Option(metavar="D", help="The odds that go with epsilon.")] = 1e-6,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Forecast what noise costs popularity, before any collection."""
    from prirec.cli.output import show_json
    from prirec.cli.progress import bars, busy
    from prirec.evaluate.forecast import forecast as simulate
    from prirec.evaluate.forecast import runs

    epsilons = epsilon or [1.0]
    rounds = len(runs(epsilons))
    with busy("preparing the city"):
        prepared = _prepared(city, people=people, places=places, visits=visits_per_person, seed=seed)
    with bars() as shown:
        task = shown.add_task("simulating", total=rounds, stage="")
        found = simulate(
            prepared,
            epsilons_per_user=epsilons,
            delta=delta,
            seed=seed,
            tell=lambda done, name: shown.update(task, completed=done, stage=name),
        )
        shown.update(task, completed=rounds, stage="")
    if json:
        show_json({**found.as_dict(), "notes": _notes(found)})
        return
    _show(found, epsilons)


def _prepared(
    city: Path | None, *, people: int | None, places: int | None, visits: float | None, seed: int
) -> "Prepared":
    from prirec.data.folder import read_folder
    from prirec.data.recipe import prepare
    from prirec.engines.randomness import generator
    from prirec.errors import UsageError
    from prirec.evaluate.experiment import recipe
    from prirec.evaluate.forecast import made_up
    from prirec.settings import Data

    if (city is None) == (people is None) or (city is not None and (places, visits) != (None, None)):
        raise UsageError("give a data folder, or --people with --places and --visits-per-person, and not both")
    if city is None:
        size = {"places": PLACES if places is None else places, "people": people or 0}
        return made_up(**size, visits_per_person=VISITS if visits is None else visits, seed=seed)
    dataset = read_folder(city).dataset
    return prepare(dataset, recipe(Data(), labelled=dataset.labelled), generator(seed, "data"))


def _show(found: "Forecast", epsilons: list[float]) -> None:
    from prirec.cli.output import figure, notes, show_table

    typer.echo(
        f"{found.people:,} people, {found.places:,} places, {found.pairs:,} pairs of a person and a visited "
        f"place; a place has {found.median_visitors:,.0f} visitors (median), {found.mean_visitors:,.1f} (mean)"
    )
    typer.echo(f"AUC of popularity alone with plain counts, which nothing protects: {figure(found.plain_auc)}")
    columns = ("mechanism", ">error, visitors", ">above noise", ">AUC", ">cost")
    for epsilon in epsilons:
        rows = [_cells(row) for row in found.rows if row.user_level and row.epsilon_per_user == epsilon]
        show_table(columns, rows, title=f"ε = {epsilon:g}, δ = {found.delta:g} per user")
    rest = [(*_cells(row), _promise(row)) for row in found.rows if not row.user_level]
    show_table((*columns, "promise"), rest, title="for comparison: not that promise")
    notes(_notes(found))


def _cells(row: "Row") -> tuple[str, ...]:
    from prirec.cli.output import figure

    return (
        row.mechanism,
        f"{row.error:,.1f}",
        f"{row.places_above_noise:,}",
        figure(row.auc),
        figure(row.cost),
    )


def _promise(row: "Row") -> str:
    return row.promise if row.epsilon_per_user is None else f"ε = {row.epsilon_per_user:g}, {row.promise}"


def _notes(found: "Forecast") -> list[str]:
    made_up = "this city is made up, and yours is another; " if found.made_up else ""
    return [
        f"a simulation that collects nothing and protects nobody; {made_up}the mean of three runs",
        "AUC is of popularity alone, not of a model, and the whole epsilon is spent on popularity",
        "error: how far a place's count lies off; above noise: places with more than twice as many visitors",
        f"secure sums have noise enough if {found.lost:.0%} of devices are lost and {found.corrupt:.0%} collude",
        f"at 1 per bit, a bit for each of {found.places:,} places is an epsilon of {found.places:,} per user",
    ]
