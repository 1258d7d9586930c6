"""prirec recommend: Algorithm 3 for one person of a saved run."""

from typing import Annotated

import typer

from prirec.cli.options import DataFolder, Json, ListLength, Radius, RunFolder, examples

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
    from prirec.cli.advice import moment_of, show_advice
    from prirec.cli.evaluate_work import reopen_later
    from prirec.cli.output import SIMULATION, notes, show_json
    from prirec.simulate.recommend import Advisor, advise, notes_on_distance, notes_on_moment, refuse_remote

    moment = moment_of(near, at)
    opened = reopen_later(run, data)
    advisor = Advisor.in_earnest(opened.setup, opened.run.models)
    refuse_remote(advisor, moment, radius_km=radius_km)
    row = advisor.row(person)
    lines = advise(advisor, row, moment=moment, k=k, radius_km=radius_km)
    told = [
        *notes_on_moment(advisor, moment),
        *notes_on_distance(advisor, row, lines, moment=moment, k=k, radius_km=radius_km),
    ]
    origin = "home" if moment.here is None else "here"
    if json:
        show_json({"places": [line.as_dict() for line in lines], "distance_from": origin, "notes": told})
        return
    notes(told)
    show_advice(lines, origin=origin, recent_days=opened.setup.settings.features.recent_days)
    typer.echo(SIMULATION)
