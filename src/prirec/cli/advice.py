"""Recommendations for one person, as the program shows them: on the person's own device nobody else would see them."""

from collections.abc import Sequence

import typer

from prirec.cli.options import point_of, wall_clock_of
from prirec.cli.output import show_table
from prirec.protocols.prediction import Moment, Suggestion, in_words

WHY = "why (+) and why not (-)"


def moment_of(near: str | None, at: str | None) -> Moment:
    """Where and when, from the flags."""
    here = None if near is None else point_of(near, flag="--near")
    return Moment(here, None if at is None else wall_clock_of(at, flag="--at"))


def show_advice(lines: Sequence[Suggestion], *, origin: str, title: str | None = None, recent_days: int = 30) -> None:
    """One line a place, best first; origin is what distances are from."""
    if not lines:
        typer.echo("there is nothing to recommend: every place that matches has been visited")
        return
    columns = {
        ">": [str(at) for at in range(1, len(lines) + 1)],
        "place": [line.place for line in lines],
        "about": [line.about for line in lines],
        ">km": ["" if line.distance_km is None else f"{line.distance_km:.1f}" for line in lines],
        ">chance": [f"{100 * line.probability:.0f} %" for line in lines],
        WHY: [", ".join(in_words(reason) for reason in line.reasons) for line in lines],
    }
    known = {name: cells for name, cells in columns.items() if any(cells)}
    show_table(tuple(known), zip(*known.values(), strict=True), title=title)
    far = f"km: from {origin}; " if ">km" in known else ""
    typer.echo(f"{far}figures: how far a reason lifts (+) or lowers (-) a place against the mean nearby")
    if counts := _counts_in(lines, recent_days=recent_days):
        typer.echo(f"{counts}; without your own")


def _counts_in(lines: Sequence[Suggestion], *, recent_days: int) -> str:
    """What the popularity among the reasons counts; empty where no reason is a count."""
    shown = {reason.name.removesuffix(" (popularity)") for line in lines for reason in line.reasons}
    meaning = {
        "visitors": "how many people came",
        "visits": "how often people came",
        "recent visits": f"how often in the last {recent_days} days of the data",
    }
    return "; ".join(f"{name}: {words}" for name, words in meaning.items() if name in shown)
