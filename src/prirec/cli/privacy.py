"""prirec privacy plan, forecast and ledger: what each person is promised, what noise costs, and what was spent."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from prirec.cli.options import Assignments, Json, SettingsFile, examples
from prirec.config import PresetName

VISITS = 20.0  # of a person

BudgetPreset: TypeAlias = Annotated[
    PresetName | None,
    typer.Option(
        help="Settings to start from; of the presets, only private promises anything.", show_default="private"
    ),
]

PRIVACY_PLAN_EPILOG = examples(
    "prirec privacy plan city",
    "prirec privacy plan --people 50000 --places 20000 --set privacy.epsilon_per_user=2",
    "prirec privacy plan --people 50000 --places 20000 --set privacy.period_days=30 --years 3",
)


def plan(
    city: Annotated[
        Path | None,
        typer.Argument(metavar="CITY", show_default=False, help="Data folder to count people, places and features in."),
    ] = None,
    *,
    people: Annotated[int | None, typer.Option(min=1, metavar="N", help="People who take part.")] = None,
    places: Annotated[int | None, typer.Option(min=1, metavar="J", help="Places of the catalogue.")] = None,
    features: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="D",
            show_default="50",
            help="Number of features, from which the size of the shared model is guessed.",
        ),
    ] = None,
    visits_per_person: Annotated[
        float, typer.Option(min=1, metavar="N", help="Places that a person visits: for the errors of averages.")
    ] = VISITS,
    years: Annotated[
        float | None,
        typer.Option(
            metavar="N", show_default="1", help="With privacy.period_days: for how many years to add the periods up."
        ),
    ] = None,
    preset: BudgetPreset = None,
    file: SettingsFile = None,
    assignments: Assignments = None,
    json: Json = False,
) -> None:
    """Show what a budget promises, and whether the noise is usable.

    Before any collection, and not computed from anyone's records: of a data folder only the numbers of people and
    places count, public columns of places, and the names of all others."""
    from prirec.cli.options import choose
    from prirec.cli.output import busy, notes, show, show_json
    from prirec.errors import UsageError

    settings = choose(preset=preset, file=file, assignments=assignments)
    if city is None and (people is None or places is None):
        raise UsageError("name a data folder, or give --people and --places")
    with busy("counting"):
        from prirec import plan as make_plan

        found = make_plan(
            city, people=people, places=places, features=features, visits_per_person=visits_per_person, years=years,
            settings=settings,
        )  # fmt: skip
    if json:
        show_json(found.to_dict())
        return
    show(found.panels())
    show(found.details())
    notes(found.notes)


# Forecast


PRIVACY_FORECAST_EPILOG = examples(
    "prirec privacy forecast --people 10000",
    "prirec privacy forecast --people 50000 --places 8000 --visits-per-person 12 --epsilon 1 --epsilon 4",
    "prirec privacy forecast --people 100000 --train",
    "prirec privacy forecast city --set privacy.epsilon_per_user=4 --train",
)
PLACES = 2000


def forecast(
    city: Annotated[
        Path | None, typer.Argument(metavar="CITY", show_default=False, help="Data folder to simulate on.")
    ] = None,
    *,
    people: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Without CITY: people of a made-up city.")
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
        typer.Option(
            metavar="E",
            show_default="the plan's",
            help="Budget ε for the tables of mechanisms, all of it for popularity; repeatable.",
        ),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            metavar="D",
            show_default="1e-06",
            help="δ: probability with which the ε bound may fail, for each person (privacy.delta).",
        ),
    ] = None,
    train: Annotated[
        bool,
        typer.Option("--train", help="Also train a model as planned and one without a budget, and compare them."),
    ] = False,
    preset: BudgetPreset = None,
    file: SettingsFile = None,
    assignments: Assignments = None,
    seed: Annotated[
        int | None, typer.Option(min=0, metavar="N", show_default="0", help="The same seed gives the same answer.")
    ] = None,
    json: Json = False,
) -> None:
    """Forecast accuracy under a budget, before any collection.

    First what the settings plan, in which popularity has a part of the budget; then every mechanism, with the whole
    budget spent on popularity."""
    from prirec.cli.options import choose
    from prirec.cli.output import bars, busy, notes, show, show_json
    from prirec.errors import UsageError

    settings = choose(preset=preset, file=file, assignments=assignments, flags={"privacy.delta": delta, "seed": seed})
    if (city is None) == (people is None) or (city is not None and (places, visits_per_person) != (None, None)):
        raise UsageError("give a data folder, or --people with --places and --visits-per-person, and not both")
    with busy("loading"):
        from prirec import forecast as simulate

    with bars() as shown:
        task = shown.add_task("simulating", total=None, stage="preparing the city")
        found = simulate(
            city,
            people=people,
            places=PLACES if places is None else places,
            visits_per_person=VISITS if visits_per_person is None else visits_per_person,
            epsilons=epsilon or None,
            settings=settings,
            train=train,
            progress=lambda done, of, name: shown.update(task, completed=done, total=of, stage=name),
            training_progress=lambda name, passed: shown.update(task, stage=f"training {name}"),
        )
        shown.update(task, completed=shown.tasks[task].total, stage="")
    if json:
        show_json(found.to_dict())
        return
    show(found.panels())
    notes(found.notes)


# Ledger


PRIVACY_LEDGER_EPILOG = examples(
    "prirec privacy ledger device.db",
    "prirec privacy ledger device.db --settings deployed.toml --json",
)


def ledger(
    store: Annotated[
        Path, typer.Argument(metavar="STORE", help="File of a device, with its journal and ledger; only read.")
    ],
    *,
    preset: BudgetPreset = None,
    file: SettingsFile = None,
    assignments: Assignments = None,
    json: Json = False,
) -> None:
    """Show what a device has spent of a budget, and what is left.

    The budget is the one that the settings give."""
    from prirec import read_ledger
    from prirec.cli.options import choose
    from prirec.cli.output import notes, show, show_json

    found = read_ledger(store, choose(preset=preset, file=file, assignments=assignments))
    if json:
        show_json(found.to_dict())
        return
    show(found.panels())
    notes(found.notes)
