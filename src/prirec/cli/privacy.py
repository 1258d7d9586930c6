"""From flags to settings for the commands about privacy: where no preset is named, it is the private one."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from prirec.cli.options import Assignments, Json, SettingsFile, examples
from prirec.config import PresetName

if TYPE_CHECKING:
    from prirec.config import Settings

BudgetPreset: TypeAlias = Annotated[
    PresetName | None,
    typer.Option(
        help="Settings to start from; of the presets, only private promises anything.", show_default="private"
    ),
]


def budget_settings(
    *,
    preset: str | None,
    file: Path | None,
    assignments: Sequence[str] | None,
    flags: Mapping[str, Any] | None = None,
) -> "Settings":
    """The preset that was named, or private, changed by the file, then by flags (None: not given) and --set."""
    from prirec import config
    from prirec.cli.options import assignment
    from prirec.errors import UsageError

    changes = {key: value for key, value in {"preset": preset, **(flags or {})}.items() if value is not None}
    for key, value in map(assignment, assignments or ()):
        if key in changes:
            raise UsageError(f"the setting '{key}' is given twice")
        changes[key] = value
    return config.load(file, changes=changes, base="private")


# prirec privacy plan: what a person is promised, before anything is collected.


if TYPE_CHECKING:
    from prirec.config import Settings
    from prirec.simulate.outlook import Counts

PRIVACY_PLAN_EPILOG = examples(
    "prirec privacy plan city",
    "prirec privacy plan --people 50000 --places 20000 --set privacy.epsilon_per_user=2",
    "prirec privacy plan --people 50000 --places 20000 --set privacy.period_days=30 --years 3",
)
LONGEST = 20  # years: what a budget for each day comes to then is still a number


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
        typer.Option(min=1, metavar="D", show_default="50", help="Features of a sample; cohorts grow with their root."),
    ] = None,
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
    """Say what each person is promised, before any collection.

    Also how much noise that takes, in which sums. It is not computed from anyone's records: of a data folder only the
    numbers of people and places count, public columns of places, and the names of all others."""
    from prirec.cli.output import show_json
    from prirec.cli.privacy_figures import show_plan
    from prirec.errors import UsageError
    from prirec.simulate.outlook import look_ahead

    _check_years(years)
    settings = budget_settings(preset=preset, file=file, assignments=assignments)
    counts = _counts(city, people=people, places=places, features=features, settings=settings)
    if years is not None and None in (settings.privacy.epsilon_per_user, settings.privacy.period_days):
        raise UsageError("--years has no meaning here: no budget has a period; give privacy.period_days")
    outlook = look_ahead(settings, counts, years=years)
    if json:
        show_json(outlook.as_dict())
    else:
        show_plan(outlook)


def _check_years(years: float | None) -> None:
    from prirec.errors import UsageError

    if years is not None and not 0 < years <= LONGEST:  # false for NaN as well
        raise UsageError(f"--years takes a number above 0, and at most {LONGEST}")


def _counts(
    city: Path | None, *, people: int | None, places: int | None, features: int | None, settings: "Settings"
) -> "Counts":
    """What a flag says goes before what the folder holds: the folder may be a sample of what is to come."""
    from prirec.cli.privacy_figures import counted
    from prirec.errors import UsageError
    from prirec.simulate.outlook import FEATURES, Counts

    found = None if city is None else counted(city, settings)
    if found is not None:
        return Counts(people or found.people, places or found.places, features or found.features)
    if people is None or places is None:
        raise UsageError("name a data folder, or give --people and --places")
    return Counts(people, places, features or FEATURES)


# prirec privacy forecast: what a plan, and what each mechanism, would leave of popularity, before any collection.


if TYPE_CHECKING:
    from prirec.config import Settings
    from prirec.data.dataset import Dataset
    from prirec.data.prepare import Prepared
    from prirec.simulate.forecast import Forecast
    from prirec.simulate.outlook import Cohorts, Term

PRIVACY_FORECAST_EPILOG = examples(
    "prirec privacy forecast --people 10000",
    "prirec privacy forecast --people 50000 --places 8000 --visits-per-person 12 --epsilon 1 --epsilon 4",
    "prirec privacy forecast city --set privacy.popularity=0.5 --train",
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
        typer.Option(
            metavar="E",
            show_default="the plan's",
            help="For the tables of mechanisms: what a person spends on popularity alone; repeatable.",
        ),
    ] = None,
    delta: Annotated[
        float | None, typer.Option(metavar="D", show_default="1e-06", help="Sets privacy.delta, which goes with it.")
    ] = None,
    train: Annotated[
        bool, typer.Option("--train", help="With CITY: train as planned and without a budget, and compare.")
    ] = False,
    preset: BudgetPreset = None,
    file: SettingsFile = None,
    assignments: Assignments = None,
    seed: Annotated[
        int | None, typer.Option(min=0, metavar="N", show_default="0", help="The same seed gives the same answer.")
    ] = None,
    json: Json = False,
) -> None:
    """Forecast what noise costs popularity, before any collection.

    On top stands what the settings plan, in which popularity has a part of the budget; below it every mechanism, with
    the whole budget spent on popularity."""
    from prirec.cli.output import busy, notes, show_json
    from prirec.cli.privacy_figures import show_forecast

    flags = {"privacy.delta": delta, "seed": seed}
    settings = budget_settings(preset=preset, file=file, assignments=assignments, flags=flags)
    _check(city, settings, people=people, other=(places, visits_per_person), train=train)
    with busy("preparing the city"):
        dataset, prepared = _prepared(city, settings, people=people, places=places, visits=visits_per_person)
    epsilons = epsilon or [settings.privacy.epsilon_per_user or 1.0]
    found = _simulated(prepared, epsilons, settings)
    trained = _trained(dataset, settings) if train and dataset is not None else None
    due, cohorts = _planned(found, settings, dataset=dataset or prepared.dataset)
    told = [*_notes(found, trained), *(() if cohorts is None else cohorts.notes())]
    if json:
        more = {"terms": [asdict(term) for term in due], "cohorts": None if cohorts is None else asdict(cohorts)}
        show_json({**found.as_dict(), **more, "trained": trained, "notes": told})
        return
    show_forecast(found, epsilons, terms=due, cohorts=cohorts, trained=trained)
    notes(told)


def _check(
    city: Path | None, settings: "Settings", *, people: int | None, other: tuple[object, object], train: bool
) -> None:
    from prirec.errors import PolicyError, UsageError

    if (city is None) == (people is None) or (city is not None and other != (None, None)):
        raise UsageError("give a data folder, or --people with --places and --visits-per-person, and not both")
    if train and city is None:
        raise UsageError("--train needs a data folder: a model of a made-up city would say nothing about yours")
    if train and settings.privacy.epsilon_per_user is None:
        raise PolicyError("--train compares a plan with none, and these settings promise nothing: use 'private'")


def _prepared(
    city: Path | None, settings: "Settings", *, people: int | None, places: int | None, visits: float | None
) -> "tuple[Dataset | None, Prepared]":
    from prirec.data.folder import read_folder
    from prirec.data.prepare import prepare
    from prirec.simulate.forecast import made_up
    from prirec.simulate.setup import recipe
    from prirec.util.keyed_random import generator

    if city is None:
        size = {"places": PLACES if places is None else places, "people": people or 0}
        return None, made_up(**size, visits_per_person=VISITS if visits is None else visits, seed=settings.seed)
    dataset = read_folder(city).dataset
    how = recipe(settings.data, labelled=dataset.labelled)
    return dataset, prepare(dataset, how, generator(settings.seed, "data"))


def _simulated(prepared: "Prepared", epsilons: list[float], settings: "Settings") -> "Forecast":
    from prirec.cli.output import bars
    from prirec.simulate.forecast import forecast as simulate
    from prirec.simulate.forecast import plans_popularity, runs

    rounds = len(runs(epsilons)) + plans_popularity(settings)
    with bars() as shown:
        task = shown.add_task("simulating", total=rounds, stage="")
        found = simulate(
            prepared,
            epsilons_per_user=epsilons,
            delta=settings.privacy.delta,
            seed=settings.seed,
            settings=settings,
            tell=lambda done, name: shown.update(task, completed=done, stage=name),
        )
        shown.update(task, completed=rounds, stage="")
    return found


def _trained(dataset: "Dataset", settings: "Settings") -> dict[str, float]:
    """AUC of a model as planned and of one without a budget, on the same test records."""
    from prirec.cli.demo_work import compared
    from prirec.simulate.forecast import with_and_without

    ours, plain = compared(dataset, with_and_without(settings))
    auc, ceiling = ours.outcome.quality.auc, plain.outcome.quality.auc
    return {"auc": auc, "auc_without_a_budget": ceiling, "cost": ceiling - auc}


def _planned(
    found: "Forecast", settings: "Settings", *, dataset: "Dataset"
) -> "tuple[tuple[Term, ...], Cohorts | None]":
    """What the plan promises, and how large its cohorts are; nothing where nothing is promised."""
    from prirec.simulate.outlook import Counts, look_ahead
    from prirec.simulate.setup import features_of

    if settings.privacy.epsilon_per_user is None:
        return (), None
    ahead = look_ahead(settings, Counts(found.people, found.places, features_of(dataset, settings)))
    return ahead.terms, ahead.cohorts


def _notes(found: "Forecast", trained: dict[str, float] | None) -> list[str]:
    made_up = "this city is made up, and yours is another; " if found.made_up else ""
    told = [
        f"a simulation that collects nothing and protects nobody; {made_up}the mean of three runs",
        "ε is between a person's contribution and none; replace-one: the same promise between any two contributions",
        "error: how far a place's count lies off, in visitors; above noise: places with more than twice as many",
        f"secure sums have noise enough if {found.lost:.0%} of devices are lost and {found.corrupt:.0%} collude",
        f"at 1 per bit, a bit for each of {found.places:,} places is an epsilon of {found.places:,} per user",
    ]
    if found.as_planned is None:
        told.append("these settings release no popularity within a budget, so no row is as planned")
    if trained is None:
        return [*told, "AUC is of popularity alone, not of a model; with a data folder, --train has both"]
    return [
        *told,
        "choosing settings by what records of real people show is in no epsilon; each model was trained once",
    ]


# prirec privacy ledger: what a device's person has spent, and what is left.


PRIVACY_LEDGER_EPILOG = examples(
    "prirec privacy ledger device.db",
    "prirec privacy ledger device.db --settings deployed.toml --json",
)


def ledger(
    store: Annotated[
        Path, typer.Argument(metavar="STORE", help="File in which a device keeps its journal and ledger; only read.")
    ],
    *,
    preset: BudgetPreset = None,
    file: SettingsFile = None,
    assignments: Assignments = None,
    json: Json = False,
) -> None:
    """Say what a device has spent on what, and what is left.

    The budget is the one that the settings give."""
    from datetime import UTC, datetime

    from prirec.cli.output import show_json
    from prirec.cli.privacy_figures import account, budget_of, show_ledger
    from prirec.device.ledger import ledger_in

    budget = budget_of(budget_settings(preset=preset, file=file, assignments=assignments))
    today = (datetime.now(UTC) - datetime.fromtimestamp(0, UTC)).days
    found = account(ledger_in(store), budget=budget, day=today)
    if json:
        show_json(found.as_dict())
    else:
        show_ledger(found)
