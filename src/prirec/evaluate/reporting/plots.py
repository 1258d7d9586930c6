"""The report's plots: how good each model is, how it got there, and for whom."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from prirec.engines.state import Passed
from prirec.evaluate.comparison import Entry
from prirec.evaluate.reporting.drawing import FAINT, INK, draw, marker, series
from prirec.evaluate.reporting.page import number
from prirec.evaluate.spread import SURE, Crowd, Line
from prirec.types import RealArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

START = math.log(2)  # the loss of a model that knows nothing
WIDE, NARROW = 440, 300  # CSS pixels; fonts stay readable when a phone shrinks the wide ones a little


@dataclass(frozen=True, slots=True)
class Dot:
    """A figure of one model, and its standard error; NaN where it has no meaning."""

    name: str
    value: float
    error: float


def dots(rows: Sequence[Dot], *, label: str, limits: tuple[float, float]) -> str:
    """One line a model, the figure beside its dot, the whisker a 95 % interval."""
    return draw(partial(_dots, rows=rows, limits=limits), label=label, width=WIDE, height=70 + 38 * len(rows))


def _dots(figure: "Figure", *, rows: Sequence[Dot], limits: tuple[float, float]) -> None:
    axes = figure.add_subplot()
    for at, row in enumerate(rows):
        if math.isfinite(row.value):
            whisker = SURE * row.error if math.isfinite(row.error) else 0.0
            axes.errorbar(row.value, at, xerr=whisker, fmt=marker(at), color=series(at), ms=7, elinewidth=1.6)
        axes.annotate(
            number(row.value), (1.0, at), xycoords=("axes fraction", "data"), xytext=(6, 0),
            textcoords="offset points", va="center",
        )  # fmt: skip
    if limits[0] < 0.5 < limits[1]:
        axes.axvline(0.5, color=INK, linewidth=0.8, linestyle=":")
    axes.set(xlim=limits, ylim=(len(rows) - 0.5, -0.5), xlabel="AUC (0.5 is guessing)")
    axes.set_yticks(range(len(rows)), [_wrapped(row.name) for row in rows])
    axes.grid(visible=False, axis="y")
    axes.tick_params(left=False)
    axes.spines["left"].set_visible(False)


def _wrapped(name: str) -> str:
    """At most two lines of a label."""
    return fill(name, 16, max_lines=2, placeholder="…")


def limits_of(rows: Sequence[Dot]) -> tuple[float, float]:
    """From below the lowest whisker to above the highest."""
    errors = [SURE * row.error if math.isfinite(row.error) else 0.0 for row in rows]
    known = [(r.value - e, r.value + e) for r, e in zip(rows, errors, strict=True) if math.isfinite(r.value)]
    low, high = min((k[0] for k in known), default=0.5), max((k[1] for k in known), default=1.0)
    margin = max(0.08 * (high - low), 0.002)
    return low - margin, high + margin


def curve(entry: Entry, *, at: int, limits: tuple[float, float]) -> str:
    """Training loss against the iteration: rounds, or passes over all records."""
    history, unit = entry.outcome.trained.history, unit_of(entry)
    name = f"{entry.contender.name}: training loss by {unit}"
    return draw(partial(_curve, history=history, at=at, limits=limits, unit=unit), label=name, width=NARROW, height=210)


def _curve(figure: "Figure", *, history: Sequence[Passed], at: int, limits: tuple[float, float], unit: str) -> None:
    axes = figure.add_subplot()
    when = [passed.iteration for passed in history]
    loss = _finite([passed.loss for passed in history])
    few = marker(at) if len(when) <= 15 else None
    axes.plot(when, loss, color=series(at), marker=few)
    held = _finite([math.nan if p.held_out_loss is None else p.held_out_loss for p in history])
    axes.plot(when, held, color=series(at), linestyle="--", linewidth=1.2)
    axes.axhline(START, color=INK, linewidth=0.8, linestyle=":")
    highest = np.nanmax(loss, initial=0.0)
    if highest > limits[1]:
        axes.set_title(f"goes up to {highest:.3g}", loc="right")
    axes.set(ylim=limits, xlabel=unit, ylabel="loss")
    _whole_ticks(axes)


def loss_limits(entries: Sequence[Entry]) -> tuple[float, float]:
    """One scale for all curves; what lies far above a model that knows nothing is cut off."""
    losses = np.array([passed.loss for entry in entries for passed in entry.outcome.trained.history])
    losses = losses[np.isfinite(losses)]
    low, high = min(losses.min(initial=START), START), min(max(losses.max(initial=START), START), 2 * START)
    return low - 0.06 * (high - low) - 0.005, high + 0.06 * (high - low) + 0.005


def unit_of(entry: Entry) -> str:
    """What one iteration of this model is."""
    return "rounds" if entry.contender.settings.schedule == "rounds" else "passes"


def by_records(crowd: Crowd, lines: Sequence[Line | None]) -> str:
    """AUC of the people with so many training records, one line a model."""
    label = "AUC by the number of training records a person has"
    return draw(partial(_by_records, crowd=crowd, lines=lines), label=label, width=WIDE, height=300)


def _by_records(figure: "Figure", *, crowd: Crowd, lines: Sequence[Line | None]) -> None:
    axes = figure.add_subplot()
    for at, line in enumerate(lines):
        if line is not None:
            axes.plot(range(len(crowd)), line.auc, color=series(at), marker=marker(at))
    _groups(axes, crowd, "AUC")


def gains(crowd: Crowd, lines: Sequence[Line | None], *, reference: str) -> str:
    """By how much each model's AUC differs from the reference, with 95 % intervals."""
    label = f"difference of AUC from {reference} by the number of training records"
    return draw(partial(_gains, crowd=crowd, lines=lines), label=label, width=WIDE, height=300)


def _gains(figure: "Figure", *, crowd: Crowd, lines: Sequence[Line | None]) -> None:
    axes = figure.add_subplot()
    shown = [at for at, line in enumerate(lines) if line is not None]
    for place, at in enumerate(shown):
        line = lines[at]
        if line is not None:
            shift = min(0.11, 0.8 / len(shown)) * (place - (len(shown) - 1) / 2)
            axes.errorbar(
                np.arange(len(crowd)) + shift, line.auc, yerr=SURE * np.nan_to_num(line.error), fmt=marker(at),
                color=series(at), elinewidth=1.2,
            )  # fmt: skip
    axes.axhline(0.0, color=INK, linewidth=0.9)
    _groups(axes, crowd, "difference of AUC")


def _groups(axes: "Axes", crowd: Crowd, measured: str) -> None:
    axes.set_xticks(range(len(crowd)), crowd.names)
    axes.set(xlim=(-0.5, len(crowd) - 0.5), xlabel="training records of the person", ylabel=measured)
    axes.grid(visible=False, axis="x")


def _whole_ticks(axes: "Axes") -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.grid(color=FAINT)


def _finite(values: Sequence[float]) -> RealArray:
    """Infinities as gaps, because an axis cannot show them."""
    array = np.asarray(values, dtype=np.float64)
    return np.where(np.isfinite(array), array, np.nan)
