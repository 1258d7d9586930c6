"""prirec recommender rounds: begin a campaign, see what its sums came to, and end one that does not go on."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from prirec.cli.options import Assignments, Json, SettingsFile, examples
from prirec.cli.privacy_settings import BudgetPreset
from prirec.cli.recommender_store import StoreName, opened

if TYPE_CHECKING:
    from prirec.contract.documents import Charter
    from prirec.recommender.progress import Past
    from prirec.recommender.standing import Campaign

EPILOG = examples("prirec recommender rounds begin town.db", "prirec recommender rounds list town.db")
EPILOG_BEGIN = examples(
    "prirec recommender rounds begin town.db",
    "prirec recommender rounds begin town.db --settings campaign.toml --set iterations=10",
)
EPILOG_LIST = examples("prirec recommender rounds list town.db", "prirec recommender rounds list town.db --json")
EPILOG_END = examples("prirec recommender rounds end town.db")
SUMS = {"visits": "visits", "mixing": "linear models", "learning": "gradients of V"}


def begin(
    store: StoreName,
    *,
    preset: BudgetPreset = None,
    file: SettingsFile = None,
    assignments: Assignments = None,
    iterations: Annotated[int | None, typer.Option(metavar="T", help="Rounds.")] = None,
    dimension: Annotated[int | None, typer.Option(metavar="K", help="Dimension of V.")] = None,
    json: Json = False,
) -> None:
    """Begin a campaign with everyone who has enrolled by now.

    Settings, people and places are fixed for it and go into the signed log; the service conducts it by itself. Each
    device works out what it would pay, and takes part as far as its own budget allows."""
    from prirec.cli.privacy_settings import budget_settings
    from prirec.recommender.beginning import begin as start

    flags = {"iterations": iterations, "model.dimension": dimension}
    settings = budget_settings(preset=preset, file=file, assignments=assignments, flags=flags)
    with opened(store) as held:
        charter = start(held, settings)
    _show_begun(charter, json=json)


def _show_begun(charter: "Charter", *, json: bool) -> None:
    """With the price for a person who takes part in everything."""
    from prirec.cli.outlook import terms
    from prirec.cli.outlook_words import promise
    from prirec.cli.output import show_json
    from prirec.privacy.budget import planned
    from prirec.settings_file import loads

    settings = loads(charter.settings)
    plan = planned(settings, people=charter.many, pois=charter.places)
    price = terms(plan, settings.privacy.period_days)
    if json:
        show_json({
            "campaign": charter.campaign, "people": charter.many, "places": charter.places,
            "rounds": settings.iterations, "floor": settings.floor, "delta": plan.delta,
            "terms": [asdict(term) for term in price],
        })  # fmt: skip
        return
    typer.echo(f"campaign {charter.campaign} has begun: {charter.many:,} people, {charter.places:,} places")
    typer.echo(f"a sum of visits, then {settings.iterations:,} rounds; no sum of fewer than {settings.floor} is opened")
    typer.echo(f"who takes part in everything pays {promise(price, plan.delta)}")


def end(store: StoreName) -> None:
    """End a campaign that does not go on.

    Sums that are open are given up and nothing is published, so the model before stays in force. Devices that have
    masked a vector have paid for it; they come to the next campaign by themselves."""
    from prirec.recommender.beginning import end as stop

    with opened(store) as held:
        ended = stop(held)
    typer.echo(f"the campaign was ended in its phase {ended.phase}; nothing is published of it")


def listing(store: StoreName, *, json: Json = False) -> None:
    """List the sums of the last campaign that are over.

    Opened: of a mixing, how many cohorts. Survivors: whose contributions are in it; rostered: who had come to it."""
    from prirec.cli.output import show_json
    from prirec.recommender.standing import campaign

    with opened(store) as held:
        found = campaign(held)
    if json:
        show_json({
            "campaign": None if found is None else found.number,
            "phase": None if found is None else found.phase,
            "sums": [] if found is None else [_as_dict(past) for past in found.past],
        })  # fmt: skip
        return
    if found is None:
        typer.echo("no campaign has begun yet")
    else:
        _show(found)


def _show(found: "Campaign") -> None:
    from prirec.cli.output import show_table

    if not found.past:
        typer.echo(f"campaign {found.number}: no sum is over yet; the phase is {found.phase}")
        return
    lines = [
        (
            SUMS.get(past.kind, past.kind), str(past.iteration), f"{past.opened} of {past.gathered}",
            f"{past.survivors:,}", f"{past.rostered:,}",
        )
        for past in found.past
    ]  # fmt: skip
    columns = ("sum of", ">round", ">opened", ">survivors", ">rostered")
    show_table(columns, lines, title=f"campaign {found.number}, {found.phase}")


def _as_dict(past: "Past") -> dict[str, object]:
    names = ("opened", "gathered", "survivors", "rostered")
    return {"sum": past.kind, "round": past.iteration, **{name: getattr(past, name) for name in names}}
