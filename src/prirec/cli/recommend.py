"""prirec recommend: Algorithm 3 for one person of a saved run."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from prirec.cli.options import DataFolder, Json, ListLength, Radius, RunFolder, examples

if TYPE_CHECKING:
    from prirec import Suggestion

EPILOG = examples(
    "prirec recommend runs/first city --person u0042",
    "prirec recommend runs/first city --person u0042 --near 35.68,139.76 --at 2024-05-04T19:30 -k 5",
)


def recommend(
    run: RunFolder,
    data: DataFolder,
    *,
    person: Annotated[str, typer.Option(metavar="ID", help="Whose recommendations; data describe --people lists ids.")],
    near: Annotated[
        str | None, typer.Option(metavar="LAT,LON", show_default="home", help="Where the person is, in degrees.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(metavar="TIME", show_default="no particular time", help="Local time, such as 2024-05-04T19:30."),
    ] = None,
    k: ListLength = 10,
    radius_km: Radius = 5.0,
    json: Json = False,
) -> None:
    """Recommend places to one person, with reasons.

    Places that the person has visited are left out."""
    from prirec.cli.output import SIMULATION, busy, notes, show_json

    here, time = moment_of(near, at)
    with busy("reading the data"):
        from prirec.api import load

        fit = load(run, data)
        found = fit.recommend(person, near=here, at=time, k=k, radius_km=radius_km)
    if json:
        show_json({"places": [place.as_dict() for place in found], "distance_from": found.distance_from,
                   "notes": found.notes})  # fmt: skip
        return
    notes((*fit.notes, *found.notes))
    show_suggestions(found, origin=found.distance_from, recent_days=fit.settings.features.recent_days)
    typer.echo(SIMULATION)


# Suggestions of a simulation or of a device, as the commands show them.


def moment_of(near: str | None, at: str | None) -> tuple[tuple[float, float] | None, int | None]:
    """Where and when, from the flags."""
    from prirec.cli.options import point_of, wall_clock_of

    here = None if near is None else point_of(near, flag="--near")
    return here, None if at is None else wall_clock_of(at, flag="--at")


def show_suggestions(
    places: "Sequence[Suggestion]", *, origin: str = "home", title: str | None = None, recent_days: int = 30
) -> None:
    """One line a place, best first; `origin` is what distances are from."""
    from prirec.cli.output import show_table

    if not places:
        typer.echo("there is nothing to recommend: every place that matches has been visited")
        return
    columns = {
        ">": [str(at) for at in range(1, len(places) + 1)],
        "place": [place.place for place in places],
        "about": [place.about for place in places],
        ">km": ["" if place.distance_km is None else f"{place.distance_km:.1f}" for place in places],
        ">chance": [f"{100 * place.probability:.0f} %" for place in places],
        "why (+) and why not (-)": [", ".join(reason.words for reason in place.reasons) for place in places],
    }
    known = {name: cells for name, cells in columns.items() if any(cells)}
    show_table(tuple(known), zip(*known.values(), strict=True), title=title)
    far = f"km: from {origin}; " if ">km" in known else ""
    typer.echo(f"{far}figures: how far a reason lifts (+) or lowers (-) a place against the mean nearby")
    if counts := _counts_in(places, recent_days=recent_days):
        typer.echo(f"{counts}; without your own")


def _counts_in(places: "Sequence[Suggestion]", *, recent_days: int) -> str:
    """What the popularity among the reasons counts; empty where no reason is a count."""
    shown = {reason.name.removesuffix(" (popularity)") for place in places for reason in place.reasons}
    meaning = {
        "visitors": "how many people came",
        "visits": "how often people came",
        "recent visits": f"how often in the last {recent_days} days of the data",
    }
    return "; ".join(f"{name}: {words}" for name, words in meaning.items() if name in shown)
