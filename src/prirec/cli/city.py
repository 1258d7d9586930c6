"""prirec city up: two operators and a city of devices on one machine, as processes of their own, with TLS between."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prirec.cli.commands import subgroup
from prirec.cli.options import AppOrigins, Json, examples, no_flag
from prirec.cli.output import console, note, notes, show_json, show_table, table_of
from prirec.util.shown import counted, number

if TYPE_CHECKING:
    from prirec.rehearsal.city import DeviceAnswer, Outcome, Status, SumRow
    from prirec.rehearsal.plan import Plan

STOPPED = 130  # the shell's code for Ctrl-C
COLUMNS = ("sum", ">round", "opened", ">devices", ">lost", ">MB out", ">MB in", ">s", ">log loss", ">AUC")


def build() -> typer.Typer:
    """The group of commands, each with its examples."""
    made = subgroup("A whole city of devices on one machine.", epilog=examples("prirec city up --devices 60"))
    lines = (
        "",
        " --devices 60 --rounds 2",
        " --operators 1 --devices 60 --rounds 2",
        " --devices 100 --chaos 0.1",
        " --record city.html",
        " --data city --postgres --out kept",
    )
    made.command("up", epilog=examples(*(f"prirec city up{flags}" for flags in lines)))(up)
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
            metavar="SHARE",
            help="Fault injection: share of devices killed in each sum, and of sums that kill the operators.",
        ),
    ] = 0.0,
    operators: Annotated[
        int,
        typer.Option(
            min=1, max=2, metavar="N", help="Two operators, of whom one is honest; or one, with double masks."
        ),
    ] = 2,
    postgres: Annotated[
        bool, typer.Option("--postgres", help="PostgreSQL and two workers instead of SQLite and one.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Keep stores, devices' files and logs there; must be new or empty."),
    ] = None,
    show: Annotated[
        bool,
        typer.Option(
            "--show",
            help="With --data: also show private data of its people: their places, and on the page homes and visits.",
        ),
    ] = False,
    record: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            callback=no_flag,
            help="Also write the page as one HTML file that replays without a server; a new file.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the city and of the injected faults.")] = 0,
    app_origin: AppOrigins = None,
    json: Json = False,
) -> None:
    """Run a recommender, a helper and many devices on this machine.

    Devices enrol, train over HTTPS and recommend; then everything is stopped. Settings are those of the preset private.
    Loss and AUC are computed by this command, which has everyone's data.

    Unless with --json, it prints the addresses of pages on this machine: one that shows what happens, each operator's
    own, and with two operators My phone, with which you join from your browser."""
    from prirec.util.system import needing

    with needing("recommender", "device"):
        import prirec.recommender.server  # noqa: F401  # for the recommender's process: here its absence is explained
        from prirec.rehearsal.city import rehearse
        from prirec.rehearsal.page import shown
        from prirec.rehearsal.plan import Plan

    plan = Plan(
        devices=devices, rounds=rounds, seed=seed, data=data, chaos=chaos, postgres=postgres, out=out,
        operators=operators, app_origins=tuple(app_origin or ()), app=not json,
    )  # fmt: skip
    personal = show or data is None
    try:
        with (
            shown(record, tell=None if json else _name_page) as write,
            _live_table(plan) as tell,
        ):
            outcome = rehearse(
                plan, tell=tell, record=write, personal=personal, tell_app=_name_app,
                tell_pages=(lambda pages: None) if json else _name_operators,
            )  # fmt: skip
    except KeyboardInterrupt:
        note(f"stopped; all processes have ended, {_files(plan)}")
        raise typer.Exit(STOPPED) from None
    if json:
        show_json(to_dict(outcome, personal=personal))
    else:
        notes(outcome.notes)
        show_outcome(outcome, personal=personal)
        if record is not None:
            typer.echo(f"the city can be played again: {record}")
        typer.echo(f"all processes have ended; {_files(plan)}")
    if outcome.phase == "failed":
        from prirec.errors import ProtocolError

        raise ProtocolError(
            "too few devices were left in the sum of visits or of moments: it was not opened, and training ends there"
        )


def _name_page(address: str) -> None:
    note(f"a page shows the city: {address}")


def _name_app(link: str) -> None:
    note(f"join it with a phone in this machine's browser: {link}")


def _name_operators(pages: Mapping[str, str]) -> None:
    for who, address in pages.items():
        note(f"the {who}'s operator sees {address}")


def _files(plan: "Plan") -> str:
    return "no file is left" if plan.out is None else f"files are kept in {plan.out}"


def show_outcome(outcome: "Outcome", *, personal: bool) -> None:
    """The verdict, then the table of sums. Places are printed of people who are made up, or on request."""
    from prirec.cli.recommend import show_suggestions

    for line in summary(outcome):
        typer.echo(line)
    show_table(COLUMNS, map(cells, outcome.rows))
    typer.echo("devices: in the sum, of those who came; MB: at the devices, before TLS")
    typer.echo("log loss and AUC: on records that no device has, computed by this command, which has everyone's data")
    if not personal and outcome.asked:
        places = sum(len(one.places) for one in outcome.asked)
        devices = counted(len(outcome.asked), "device")
        typer.echo(f"{devices} recommended {counted(places, 'place')} offline; --show prints them")
        return
    who = "a made-up person" if outcome.made_up else "a person of the folder"
    for one in outcome.asked:
        show_suggestions(one.places, origin="home", title=f"Places for {who}, by device {one.device}, offline")


def summary(outcome: "Outcome") -> Iterator[str]:
    """In whole sentences, the verdict first."""
    from prirec.rehearsal.city import rounds_opened

    plan, rows = outcome.plan, outcome.rows
    abandoned = sum(not row.opened for row in rows)
    sums = counted(len(rows), "sum")
    rounds = counted(plan.rounds, "round")
    yield f"the shared model moved in {rounds_opened(rows)} of {rounds}; of {sums} {abandoned} were abandoned"
    if outcome.quality is not None and outcome.simulated:
        simulated = [one.auc for one in outcome.simulated]
        other = "" if outcome.labelled else ", other negatives than devices drew"
        yield (
            f"AUC {number(outcome.quality.auc)}; in {len(simulated)} simulations with the same people, records and "
            f"popularity, no device lost{other}, and other random draws, of noise above all: "
            f"{number(min(simulated))} to {number(max(simulated))}"
        )
    if outcome.asked:
        yield f"privacy spent by a device: ε = {max(one.epsilon for one in outcome.asked):.3f} at most"
    people = "made-up people" if outcome.made_up else "people"
    where = "PostgreSQL, two workers" if plan.postgres else "SQLite"
    helper = " and its helper" if plan.operators == 2 else ""
    megabytes = (outcome.traffic.sent + outcome.traffic.received) / 1e6 / plan.devices
    yield (
        f"{plan.devices:,} devices of {people}, one recommender ({where}){helper}, TLS on this machine: "
        f"{outcome.seconds:.0f} s, {megabytes:.2f} MB a device"
    )
    if plan.chaos:
        devices, server = (counted(many, "time") for many in (outcome.device_deaths, outcome.server_deaths))
        yield f"killed on the way: devices {devices}, the recommender {server}"


def cells(row: "SumRow") -> Sequence[str]:
    """One line of the table of sums."""
    counted = row.opened is not None and not row.burnt
    return (
        row.kind,
        str(row.round) if row.round else "",
        "under way" if row.opened is None else "burnt" if row.burnt else "yes" if row.opened else "no",
        f"{row.survivors} of {row.rostered}" if counted else "",
        str(row.lost) if counted else "",
        f"{row.traffic.sent / 1e6:.1f}",
        f"{row.traffic.received / 1e6:.1f}",
        f"{row.seconds:.1f}",
        "" if row.quality is None else number(row.quality.log_loss),
        "" if row.quality is None else number(row.quality.auc),
    )


@contextmanager
def _live_table(plan: "Plan") -> "Iterator[Callable[[Status], None]]":
    """A table on the standard error stream that follows the sums; nothing where that is no terminal."""
    screen = console(stderr=True)
    if not screen.is_terminal:
        yield lambda status: None
        return
    from rich.live import Live

    def show(status: "Status") -> None:
        moved = (status.traffic.sent + status.traffic.received) / 1e6
        title = f"{plan.devices:,} devices: {status.doing}, {status.seconds:.0f} s, {moved:.1f} MB"
        live.update(table_of(COLUMNS, map(cells, status.rows), title=title))

    with Live(console=screen, transient=True, refresh_per_second=4) as live:
        yield show


def to_dict(outcome: "Outcome", *, personal: bool) -> dict[str, Any]:
    """Ready for JSON."""
    from prirec.rehearsal.city import rounds_opened

    plan = outcome.plan
    return {
        "devices": plan.devices,
        "rounds": plan.rounds,
        "operators": plan.operators,
        "made_up": outcome.made_up,
        "labelled": outcome.labelled,
        "database": "postgresql" if plan.postgres else "sqlite",
        "phase": outcome.phase,
        "sums": [row.to_dict() for row in outcome.rows],
        "rounds_opened": rounds_opened(outcome.rows),
        "abandoned": sum(not row.opened for row in outcome.rows),
        "devices_killed": outcome.device_deaths,
        "recommender_killed": outcome.server_deaths,
        "seconds": outcome.seconds,
        "bytes_sent": outcome.traffic.sent,
        "bytes_received": outcome.traffic.received,
        "quality": None if outcome.quality is None else outcome.quality.to_dict(),
        "simulated": [one.to_dict() for one in outcome.simulated],
        "recommended": [_recommended(one, personal=personal) for one in outcome.asked],
        "folder": None if plan.out is None else str(plan.out),
        "notes": list(outcome.notes),
    }


def _recommended(answer: "DeviceAnswer", *, personal: bool) -> dict[str, Any]:
    counted: dict[str, Any] = {
        "device": answer.device, "count": len(answer.places), "epsilon_per_user": answer.epsilon
    }  # fmt: skip
    return counted | ({"places": [place.to_dict() for place in answer.places]} if personal else {})
