"""prirec recommend: Algorithm 3 for one person of a saved run. Also how all commands print recommended places."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from prirec.cli.options import At, DataFolder, Json, ListLength, Near, Radius, RunFolder, SkipBad, examples, moment_of
from prirec.cli.output import busy, notes, show_json, show_table
from prirec.util.shown import SIMULATION

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
    person: Annotated[str, typer.Option(metavar="ID", help="Person's id; prirec data describe --people lists some.")],
    near: Near = None,
    at: At = None,
    k: ListLength = 10,
    radius_km: Radius = 5.0,
    skip_bad: SkipBad = False,
    json: Json = False,
) -> None:
    """Recommend places to one person of a simulation, with reasons.

    Places that the person has visited are left out."""
    here, time = moment_of(near, at)
    from prirec import load, read_folder
    from prirec.util.jit import in_numpy

    with busy("reading the data"), in_numpy():  # for one person, as on a device, no compiler is loaded
        fit = load(run, read_folder(data, skip_bad=skip_bad))
        found = fit.recommend(person, near=here, at=time, k=k, radius_km=radius_km)
    if json:
        places = [place.to_dict() for place in found]
        show_json({"places": places, "distance_from": found.distance_from, "notes": found.notes})
        return
    notes((*fit.notes, *found.notes))
    show_suggestions(found, origin=found.distance_from)
    typer.echo(SIMULATION)


def show_suggestions(
    places: "Sequence[Suggestion]", *, origin: str | None = "home", title: str | None = None
) -> None:  # fmt: skip
    """One line a place, best first; `origin` is what distances are measured from."""
    if not places:
        typer.echo("there is nothing to recommend: every place that matches has been visited")
        return
    columns = {
        ">": [str(rank) for rank in range(1, len(places) + 1)],
        "place": [one.place for one in places],
        "about": [one.about for one in places],
        ">km": ["" if one.distance_km is None else f"{one.distance_km:.1f}" for one in places],
        ">chance": [f"{100 * one.probability:.0f} %" for one in places],
        "why": [one.why for one in places],
    }
    filled = {name: cells for name, cells in columns.items() if any(cells)}
    show_table(tuple(filled), zip(*filled.values(), strict=True), title=title)
    if ">km" in filled and origin:
        typer.echo(f"km: from {origin}")
