"""prirec privacy plan: what a person is promised, before anything is collected."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prirec.cli.options import Assignments, Json, SettingsFile, examples
from prirec.cli.privacy_settings import BudgetPreset

if TYPE_CHECKING:
    from prirec.cli.outlook import Counts
    from prirec.settings import Settings

EPILOG = examples(
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
    from prirec.cli.outlook import look_ahead
    from prirec.cli.outlook_words import show
    from prirec.cli.output import show_json
    from prirec.cli.privacy_settings import budget_settings

    _check_years(years)
    settings = budget_settings(preset=preset, file=file, assignments=assignments)
    counts = _counts(city, people=people, places=places, features=features, settings=settings)
    outlook = look_ahead(settings, counts, years=years)
    if json:
        show_json(outlook.as_dict())
    else:
        show(outlook)


def _check_years(years: float | None) -> None:
    from prirec.errors import UsageError

    if years is not None and not 0 < years <= LONGEST:  # false for NaN as well
        raise UsageError(f"--years takes a number above 0, and at most {LONGEST}")


def _counts(
    city: Path | None, *, people: int | None, places: int | None, features: int | None, settings: "Settings"
) -> "Counts":
    """What a flag says goes before what the folder holds: the folder may be a sample of what is to come."""
    from prirec.cli.outlook import FEATURES, Counts, counted
    from prirec.errors import UsageError

    found = None if city is None else counted(city, settings)
    if found is not None:
        return Counts(people or found.people, places or found.places, features or found.features)
    if people is None or places is None:
        raise UsageError("name a data folder, or give --people and --places")
    return Counts(people, places, features or FEATURES)
