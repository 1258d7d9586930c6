"""prirec city up: a recommender and a city of devices on one machine, as processes of their own, with TLS between."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prirec.cli.options import Json, examples
from prirec.cli.output import subgroup

if TYPE_CHECKING:
    from prirec.rehearsal.city import Outcome
    from prirec.rehearsal.plan import Plan

EPILOG = examples(
    "prirec city up",
    "prirec city up --devices 60 --rounds 2",
    "prirec city up --devices 100 --chaos 0.1",
    "prirec city up --data city --postgres --out kept",
)
STOPPED = 130  # the shell's code for Ctrl-C


def build() -> typer.Typer:
    """The commands and their names."""
    made = subgroup("A whole city of devices on one machine.", epilog=examples("prirec city up --devices 60"))
    made.command("up", epilog=EPILOG)(up)
    return made


def up(
    *,
    devices: Annotated[int, typer.Option(metavar="N", help="Devices, each with a person; at least 60.")] = 200,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", show_default="a made-up city", help="Data folder whose people get devices."),
    ] = None,
    rounds: Annotated[int, typer.Option(metavar="N", help="Rounds of training.")] = 5,
    chaos: Annotated[
        float,
        typer.Option(
            metavar="SHARE", help="Kill so many of the devices in every sum, and now and then the recommender."
        ),
    ] = 0.0,
    postgres: Annotated[
        bool, typer.Option("--postgres", help="A real PostgreSQL and two workers instead of SQLite and one.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Keep stores, devices' files and logs there; must be new or empty."),
    ] = None,
    show: Annotated[
        bool, typer.Option("--show", help="Print the places for people of FOLDER, not only counts.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the city and of whom chaos hits.")] = 0,
    json: Json = False,
) -> None:
    """Start a whole city on this machine, train over HTTPS, and stop it.

    Settings are those of the preset private. Loss and AUC are computed by this command, which has all data here."""
    from prirec.cli.city_view import as_dict, show_outcome, told_live
    from prirec.cli.output import needing, note, notes, show_json

    with needing("recommender"), needing("device"):
        from prirec.rehearsal.city import rehearse
        from prirec.rehearsal.plan import Plan

    plan = Plan(devices=devices, rounds=rounds, seed=seed, data=data, chaos=chaos, postgres=postgres, out=out)
    try:
        with told_live(plan) as tell:
            outcome = rehearse(plan, tell=tell)
    except KeyboardInterrupt:
        note(f"stopped; all processes have ended, {_left(plan)}")
        raise typer.Exit(STOPPED) from None
    personal = show or data is None
    if json:
        show_json(as_dict(outcome, personal=personal))
    else:
        notes(outcome.notes)
        show_outcome(outcome, personal=personal)
        typer.echo(f"all processes have ended; {_left(plan)}")
    _refuse_failed(outcome)


def _left(plan: "Plan") -> str:
    return "no file is left" if plan.out is None else f"files are kept in {plan.out}"


def _refuse_failed(outcome: "Outcome") -> None:
    from prirec.errors import ProtocolError

    if outcome.phase == "failed":
        raise ProtocolError(
            "too few devices were left in the sum of visits: it was not opened, and training ends there"
        )
