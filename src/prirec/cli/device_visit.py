"""prirec device visit: where a person was, told to their own device."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prirec.cli.device_file import DeviceFile, opened
from prirec.cli.options import examples

if TYPE_CHECKING:
    from prirec.device.visits import Visit

EPILOG = examples(
    "prirec device visit phone.db noodle-bar",
    "prirec device visit phone.db museum --time 2024-05-04T19:30 --ignored",
    "prirec device visit phone.db --from visits.csv",
)


def visit(
    file: DeviceFile,
    place: Annotated[
        str | None, typer.Argument(metavar="POI", help="Id of the place, as in the catalogue.", show_default=False)
    ] = None,
    *,
    time: Annotated[
        str | None, typer.Option(metavar="TIME", show_default="now", help="Local time, such as 2024-05-04T19:30.")
    ] = None,
    ignored: Annotated[bool, typer.Option("--ignored", help="It was shown, and not wanted.")] = False,
    id_: Annotated[
        str | None,
        typer.Option(
            "--id", metavar="TEXT", show_default="place and time", help="A name for this visit: told twice, kept once."
        ),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="CSV", help="File with the columns poi and, if any, time, label, id; others describe it."
        ),
    ] = None,
    remove: Annotated[str | None, typer.Option(metavar="ID", help="Remove the visit of this name.")] = None,
) -> None:
    """Record a visit, or many from a file. None of it leaves the device.

    What the device learns from visits goes into sums only masked, with noise, and within the budget."""
    from prirec.errors import UsageError

    if sum(given is not None for given in (place, source, remove)) != 1:
        raise UsageError("name a place, or a file after --from, or a visit after --remove: one of them")
    if place is None and (time, id_, ignored) != (None, None, False):
        raise UsageError("--time, --id and --ignored belong to one place")
    if remove is not None:
        _remove(file, remove)
    elif source is not None:
        _record_file(file, source)
    elif place is not None:
        _record_one(file, place, time=time, label=-1 if ignored else 1, id_=id_)


def _record_one(file: Path, place: str, *, time: str | None, label: int, id_: str | None) -> None:
    from prirec.cli.moments import now, wall_clock_of
    from prirec.device.visits import Visit

    told = Visit(place, now() if time is None else wall_clock_of(time, flag="--time"), label, {}, id_).checked()
    _record(file, [told], labelled=False)


def _record_file(file: Path, source: Path) -> None:
    from prirec.device.visits_file import read_visits

    found = read_visits(source)
    _record(file, found.visits, labelled=found.labelled)


def _record(file: Path, visits: "list[Visit]", *, labelled: bool) -> None:
    from prirec.cli.output import note
    from prirec.device.asked import refuse_unfit_visits, unknown_places

    with opened(file) as device:
        refuse_unfit_visits(device.person, visits)
        new = device.person.record_visits(visits)
        if labelled:
            device.person.set_labelled(so=True)
        unknown = unknown_places(device.person, visits)
    known = len(visits) - new
    typer.echo(f"recorded {new:,}" + (f"; {known:,} known already" if known else ""))
    if unknown:
        which = "the place is" if len(visits) == 1 else f"{unknown:,} are to places that are"
        note(f"{which} not among those that this device has downloaded: nothing is learnt there")


def _remove(file: Path, name: str) -> None:
    from prirec.errors import UsageError

    with opened(file) as device:
        if not device.person.remove_visit(name):
            raise UsageError("there is no visit of that name; prirec device export shows them")
    typer.echo("removed; what was learnt from it stays in the model until a campaign begins anew")
