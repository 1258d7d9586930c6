"""A city on one machine as the program shows it: sums and figures; places only of people who are made up, or on
request."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from prirec.cli.output import console, figure, show_table
from prirec.cli.recommend import show_suggestions
from prirec.rehearsal.city import DeviceAnswer, Outcome, Status, SumRow, rounds_opened
from prirec.rehearsal.plan import Plan

if TYPE_CHECKING:
    from rich.table import Table

COLUMNS = ("sum", ">round", "opened", ">devices", ">lost", ">MB out", ">MB in", ">s", ">log loss", ">AUC")
OWNED = "log loss and AUC: on records that no device has, computed by this command, which owns all data here"


@contextmanager
def told_live(plan: Plan) -> Iterator[Callable[[Status], None]]:
    """A table that follows what happens, on the standard error stream; nothing where nobody watches."""
    screen = console(stderr=True)
    if not screen.is_terminal:
        yield lambda status: None
        return
    from rich.live import Live

    with Live(console=screen, transient=True, refresh_per_second=4) as live:
        yield lambda status: live.update(_picture(status, plan))


def show_outcome(outcome: Outcome, *, personal: bool) -> None:
    plan = outcome.plan
    people = "made-up people" if outcome.made_up else "people"
    where = "PostgreSQL, two workers" if plan.postgres else "SQLite"
    typer.echo(f"{plan.devices:,} devices of {people}, one recommender ({where}), TLS on this machine")
    show_table(COLUMNS, map(cells, outcome.rows))
    typer.echo("opened: sums, of those begun; devices: in the sum, of those who came; MB: at the devices, before TLS")
    typer.echo(OWNED)
    for line in summary(outcome):
        typer.echo(line)
    for one in outcome.asked if personal else ():
        show_suggestions(one.places, title=_title(one, outcome))
    if outcome.asked and not personal:
        places = sum(len(one.places) for one in outcome.asked)
        typer.echo(f"{len(outcome.asked)} devices were asked offline and named {places} places; --show prints them")


def summary(outcome: Outcome) -> Iterator[str]:
    """In whole sentences."""
    plan, rows = outcome.plan, outcome.rows
    abandoned = sum(not row.opened for row in rows)
    yield f"V moved in {rounds_opened(rows)} of {plan.rounds} rounds; {abandoned} of {len(rows)} sums were abandoned"
    if plan.chaos:
        yield f"killed on the way: devices {outcome.device_deaths} times, the recommender {outcome.server_deaths} times"
    if outcome.quality is not None and outcome.simulated is not None:
        other = "nobody lost" if outcome.labelled else "nobody lost, with other negatives than devices drew"
        yield f"AUC {figure(outcome.quality.auc)}; the same simulated, {other}: {figure(outcome.simulated.auc)}"
    if outcome.asked:
        yield f"each device that was asked has spent at most ε = {max(one.epsilon for one in outcome.asked):.3f}"
    megabytes = (outcome.traffic.sent + outcome.traffic.received) / 1e6
    yield f"{outcome.seconds:.0f} s, {megabytes / plan.devices:.2f} MB a device"


def as_dict(outcome: Outcome, *, personal: bool) -> dict[str, Any]:
    """Ready for JSON."""
    plan = outcome.plan
    return {
        "devices": plan.devices,
        "rounds": plan.rounds,
        "made_up": outcome.made_up,
        "labelled": outcome.labelled,
        "database": "postgresql" if plan.postgres else "sqlite",
        "phase": outcome.phase,
        "sums": [row.as_dict() for row in outcome.rows],
        "rounds_opened": rounds_opened(outcome.rows),
        "abandoned": sum(not row.opened for row in outcome.rows),
        "device_deaths": outcome.device_deaths,
        "server_deaths": outcome.server_deaths,
        "seconds": outcome.seconds,
        "bytes_sent": outcome.traffic.sent,
        "bytes_received": outcome.traffic.received,
        "quality": None if outcome.quality is None else outcome.quality.as_dict(),
        "simulated": None if outcome.simulated is None else outcome.simulated.as_dict(),
        "asked": [_asked_dict(one, personal=personal) for one in outcome.asked],
        "kept": None if plan.out is None else str(plan.out),
        "notes": list(outcome.notes),
    }


def cells(row: SumRow) -> Sequence[str]:
    """One line of the table."""
    under_way = row.opened is None
    return (
        row.kind,
        str(row.round) if row.round else "",
        "under way" if under_way else "burnt" if row.burnt else f"{row.opened} of {row.gathered}",
        "" if under_way or row.burnt else f"{row.survivors} of {row.rostered}",
        "" if under_way or row.burnt else str(row.lost),
        f"{row.traffic.sent / 1e6:.1f}",
        f"{row.traffic.received / 1e6:.1f}",
        f"{row.seconds:.1f}",
        "" if row.quality is None else figure(row.quality.log_loss),
        "" if row.quality is None else figure(row.quality.auc),
    )


def _picture(status: Status, plan: Plan) -> "Table":
    from rich import box
    from rich.table import Table

    moved = (status.traffic.sent + status.traffic.received) / 1e6
    words = f"{plan.devices:,} devices: {status.doing}, {status.seconds:.0f} s, {moved:.1f} MB"
    table = Table(box=box.SIMPLE_HEAD, title=words, title_justify="left", title_style="bold", padding=(0, 1, 0, 0))
    for name in COLUMNS:
        table.add_column(name.removeprefix(">"), justify="right" if name.startswith(">") else "left", no_wrap=True)
    for row in status.rows:
        table.add_row(*cells(row))
    return table


def _title(asked: DeviceAnswer, outcome: Outcome) -> str:
    who = "a made-up person" if outcome.made_up else "a person of the folder"
    return f"Places for {who}, by device {asked.device}, offline"


def _asked_dict(asked: DeviceAnswer, *, personal: bool) -> dict[str, Any]:
    told: dict[str, Any] = {"device": asked.device, "count": len(asked.places), "epsilon_per_user": asked.epsilon}
    return told | ({"places": [line.as_dict() for line in asked.places]} if personal else {})
