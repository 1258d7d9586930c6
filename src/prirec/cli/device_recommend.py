"""prirec device recommend: Algorithm 3 on the person's own device."""

from typing import TYPE_CHECKING, Annotated

import typer

from prirec.cli.device_file import DeviceFile, opened
from prirec.cli.options import Json, ListLength, Radius, examples

if TYPE_CHECKING:
    from prirec.evaluate.report import AdviceLine

EPILOG = examples(
    "prirec device recommend phone.db",
    "prirec device recommend phone.db --near 35.68,139.76 --at 2024-05-04T19:30 -k 5",
)


def recommend(
    file: DeviceFile,
    *,
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
    """Recommend places, with reasons. It is done offline: nobody learns of it.

    Places that the person has visited are left out."""
    from prirec.cli.advice import as_dict, moment_of, show_advice
    from prirec.cli.output import notes, show_json
    from prirec.evaluate.report import AdviceLine

    moment = moment_of(near, at)
    with opened(file) as device:
        found = device.recommend(near=moment.here, at=moment.time, k=k, radius_km=radius_km)
    lines = [AdviceLine(one.place, one.words, one.distance_km, one.probability, one.reasons) for one in found]
    told, origin = _remarks(lines, radius_km=radius_km), "home" if moment.here is None else "here"
    if json:
        show_json({"places": [as_dict(line) for line in lines], "distance_from": origin, "notes": told})
        return
    notes(told)
    show_advice(lines, origin=origin)


def _remarks(lines: "list[AdviceLine]", *, radius_km: float) -> list[str]:
    far = sum((line.distance_km or 0.0) > radius_km for line in lines)
    return [f"too few new places are within {radius_km:g} km; {far} beyond are shown too"] if far else []
