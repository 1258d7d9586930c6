"""Recommendations for one person, as the program shows them: on the person's own device nobody else would see them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import typer

from prirec.cli.options import point_of, wall_clock_of
from prirec.cli.output import show_table
from prirec.data.dataset import Places
from prirec.data.describe import describe_place
from prirec.errors import UsageError
from prirec.evaluate.report import AdviceLine
from prirec.features.blocks import Clock
from prirec.protocols.prediction import Moment, in_words
from prirec.simulate.recommend import Advisor
from prirec.util.geography import haversine_km

FAR_KM = 100.0  # nobody asks for a place nearby from so far: rather, the coordinates were swapped
WHY = "why (+) and why not (-)"


def moment_of(near: str | None, at: str | None) -> Moment:
    """Where and when, from the flags."""
    here = None if near is None else point_of(near, flag="--near")
    return Moment(here, None if at is None else wall_clock_of(at, flag="--at"))


def refuse_remote(advisor: Advisor, moment: Moment, *, radius_km: float) -> None:
    """Someone who says where they are wants places near there; the point is not repeated."""
    if moment.here is None:
        return
    location = advisor.setup.prepared.dataset.places.location
    if location is None or np.isnan(location).any(axis=1).all():
        raise UsageError("these places have no coordinates, so --near has no meaning; leave it out")
    if np.nanmin(haversine_km(np.array(moment.here), location)) > max(FAR_KM, radius_km):
        raise UsageError(
            f"no place is within {max(FAR_KM, radius_km):g} km of that point; --near takes latitude, then longitude"
        )


def remarks(advisor: Advisor, moment: Moment) -> list[str]:
    """What was asked for and makes no difference."""
    timed = any(isinstance(block, Clock) for block in advisor.setup.encoding.context)
    idle = moment.time is not None and not timed
    return ["this model does not know times, so --at makes no difference"] if idle else []


def advise(
    advisor: Advisor, person: int, *, moment: Moment | None = None, k: int = 10, radius_km: float = 5.0
) -> tuple[AdviceLine, ...]:
    """Algorithm 3 in words: what each place is, how far (from where the person is, or from home), and why."""
    places = advisor.setup.prepared.dataset.places
    lines = []
    for found in advisor.recommend(person, moment=moment, k=k, radius_km=radius_km):
        line = AdviceLine(
            place=places.ids[found.place_row],
            about=describe_place(places, found.place_row),
            distance_km=_km(places, found.place_row, moment, home_km=found.distance_km),
            probability=found.probability,
            reasons=found.reasons,
        )
        lines.append(line)
    return tuple(lines)


def beyond(
    advisor: Advisor, person: int, lines: Sequence[AdviceLine], *, moment: Moment, k: int, radius_km: float
) -> list[str]:
    """That places outside the radius are shown, and why; for the person's own eyes."""
    here, location = moment.here or advisor.home(person), advisor.setup.prepared.dataset.places.location
    if here is None or location is None or all((line.distance_km or 0.0) <= radius_km for line in lines):
        return []
    new = np.delete(haversine_km(np.array(here), location), advisor.visited(person))
    if (within := int((new <= radius_km).sum())) >= k:
        return [f"many places within {radius_km:g} km are visited already; near ones beyond are shown too"]
    few = {0: "no new place is", 1: "only 1 new place is"}.get(within, f"only {within} new places are")
    return [f"{few} within {radius_km:g} km; the nearest beyond are shown too"]


def _km(places: Places, row: int, moment: Moment | None, *, home_km: float | None) -> float | None:
    if moment is None or moment.here is None or places.location is None:
        return home_km
    return float(haversine_km(np.array(moment.here), places.location[row]))


def show_advice(lines: Sequence[AdviceLine], *, origin: str, title: str | None = None, recent_days: int = 30) -> None:
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


def _counts_in(lines: Sequence[AdviceLine], *, recent_days: int) -> str:
    """What the popularity among the reasons counts; empty where no reason is a count."""
    shown = {reason.name.removesuffix(" (popularity)") for line in lines for reason in line.reasons}
    meaning = {
        "visitors": "how many people came",
        "visits": "how often people came",
        "recent visits": f"how often in the last {recent_days} days of the data",
    }
    return "; ".join(f"{name}: {words}" for name, words in meaning.items() if name in shown)


def as_dict(line: AdviceLine) -> dict[str, Any]:
    """Ready for JSON."""
    return {
        "place": line.place,
        "about": line.about,
        "distance_km": line.distance_km,
        "probability": line.probability,
        "reasons": [{"name": reason.name, "pull": reason.pull} for reason in line.reasons],
    }
