"""Drawings as SVG inside a page: plots by matplotlib, and a map. The same data always give the same bytes.

Fonts and colours come from the page, so that a drawing follows dark mode. matplotlib knows no style sheets: it draws
with stand-in colours, which are then replaced by names that the style sheet defines.
"""

import io
import math
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from prirec.errors import UsageError
from prirec.evaluate.html import packaged
from prirec.evaluate.intervals import Z_95, GroupAucs, RecordGroups
from prirec.simulate.compare import Entry
from prirec.types import RealArray
from prirec.util.geography import EARTH_RADIUS_KM
from prirec.util.shown import number, text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", Arial, sans-serif'
COLOURS = 8  # that the style sheet names --series-0, ...
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
INK, FAINT = "#010203", "#010204"  # stand-ins for the text and for lines that help the eye

_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # a name with dollars in it is a name
    "font.size": 9.75,  # 13 CSS pixels
    "axes.titlesize": 9.75,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.linewidth": 0.6,
    "grid.color": FAINT,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.0,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
} | dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK)


def colour(position: int) -> int:
    """Colour of the model at this position."""
    return position % COLOURS


def shape(position: int) -> int:
    """Which of the markers it has, so that colour is never the only difference; after eight, new pairs."""
    return (position + position // COLOURS) % len(MARKERS)


def series(position: int) -> str:
    """The stand-in for the colour of the model at this position."""
    return f"#0201{colour(position):02x}"


def marker(position: int) -> str:
    return MARKERS[shape(position)]


def draw(paint: Callable[["Figure"], None], *, label: str, width: int, height: int) -> str:
    """SVG of a figure of so many CSS pixels that `paint` fills. The label is what a screen reader says."""
    matplotlib = require_matplotlib()
    from matplotlib.figure import Figure

    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)  # the reader's fonts draw it
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE | {"svg.hashsalt": label})
        made = Figure(figsize=(width / 96, height / 96))
        paint(made)
        out = io.StringIO()
        made.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _inline(out.getvalue(), label, width)


def require_matplotlib() -> Any:
    """The module; UsageError, with what to install, where it is missing."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise UsageError("a report is drawn with matplotlib; install it with: pip install 'prirec[report]'") from None
    return matplotlib


def _inline(svg: str, label: str, width: int) -> str:
    """Only what a page needs: no prologue, no metadata, no ids of groups, which would repeat from plot to plot."""
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg).replace("xlink:href", "href")
    svg = re.sub(r'style="[^"]*"', lambda found: _themed(found[0]), svg)
    box = re.search(r'viewBox="[^"]*"', svg)
    opening = f'<svg class="plot" {box[0] if box else ""} style="max-width:{round(1.2 * width)}px" role="img"'
    return f'{opening} aria-label="{text(label)}">' + re.sub(r"\s*\n\s*", "\n", svg[svg.index(">") + 1 :]).strip()


def _themed(style: str) -> str:
    """The page's colours for the stand-ins; of fonts only the size is kept."""
    style = re.sub(r'font(-size)?: ([\d.]+)px[^;"]*', r"font-size: \2px", style)
    style = style.replace(INK, "currentColor").replace(FAINT, "var(--faint)")
    return re.sub(r"#0201([0-9a-f]{2})", lambda found: f"var(--series-{int(found[1], 16)})", style)


def alone(svg: str) -> str:
    """With the report's colours inside, and a ground of its own: it is shown as an image."""
    light, dark = (_colours(block) for block in re.findall(r":root \{(.*?)\}", packaged("report.css"), re.DOTALL)[:2])
    style = (
        f"<style>svg {{ {light} color: var(--ink); font-family: {FONT}; }}\n"
        f"@media (prefers-color-scheme: dark) {{ svg {{ {dark} }} }}</style>"
    )
    opening, rest = re.sub(r' class="plot"| style="max-width[^"]*"', "", svg).split(">", 1)
    opening = opening.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    return f'{opening}>\n{style}\n<rect width="100%" height="100%" style="fill: var(--page)"/>{rest}\n'


def _colours(block: str) -> str:
    used = r"--(?:page|ink|faint|series-\d): #[0-9a-f]+;"
    return " ".join(re.findall(used, block))


# Plots of the report: how good each model is, how it got there, and for whom


START = math.log(2)  # the loss of a model that knows nothing
WIDE, NARROW = 440, 300  # CSS pixels; fonts stay readable when a phone shrinks the wide ones a little


@dataclass(frozen=True, slots=True)
class Dot:
    """A figure of one model, and its standard error; NaN where it has no meaning."""

    name: str
    value: float
    error: float

    @property
    def whisker(self) -> float:
        """Half a 95 % interval; nothing is drawn where the error is unknown."""
        return Z_95 * self.error if math.isfinite(self.error) else 0.0


def dots(rows: Sequence[Dot], *, label: str, limits: tuple[float, float]) -> str:
    """One line a model, the figure beside its dot, the whisker a 95 % interval."""

    def paint(figure: "Figure") -> None:
        axes = figure.add_subplot()
        for at, row in enumerate(rows):
            if math.isfinite(row.value):
                axes.errorbar(row.value, at, xerr=row.whisker, fmt=marker(at), color=series(at), ms=7, elinewidth=1.6)
            axes.annotate(
                number(row.value), (1.0, at), xycoords=("axes fraction", "data"), xytext=(6, 0),
                textcoords="offset points", va="center",
            )  # fmt: skip
        if limits[0] < 0.5 < limits[1]:
            axes.axvline(0.5, color=INK, linewidth=0.8, linestyle=":")
        axes.set(xlim=limits, ylim=(len(rows) - 0.5, -0.5), xlabel="AUC (0.5 is guessing)")
        axes.set_yticks(range(len(rows)), [fill(row.name, 16, max_lines=2, placeholder="…") for row in rows])
        axes.grid(visible=False, axis="y")
        axes.tick_params(left=False)
        axes.spines["left"].set_visible(False)

    return draw(paint, label=label, width=WIDE, height=70 + 38 * len(rows))


def limits_of(rows: Sequence[Dot]) -> tuple[float, float]:
    """From below the lowest whisker to above the highest."""
    known = [row for row in rows if math.isfinite(row.value)]
    low = min((row.value - row.whisker for row in known), default=0.5)
    high = max((row.value + row.whisker for row in known), default=1.0)
    margin = max(0.08 * (high - low), 0.002)
    return low - margin, high + margin


def curve(entry: Entry, *, at: int, limits: tuple[float, float]) -> str:
    """Training loss against the iteration: rounds, or passes over all records."""
    history, unit = entry.history, unit_of(entry)

    def paint(figure: "Figure") -> None:
        axes = figure.add_subplot()
        when = [passed.iteration for passed in history]
        loss = _finite([passed.loss for passed in history])
        axes.plot(when, loss, color=series(at), marker=marker(at) if len(when) <= 15 else None)
        held_out = _finite([math.nan if p.held_out_loss is None else p.held_out_loss for p in history])
        axes.plot(when, held_out, color=series(at), linestyle="--", linewidth=1.2)
        axes.axhline(START, color=INK, linewidth=0.8, linestyle=":")
        highest = np.nanmax(loss, initial=0.0)
        if highest > limits[1]:
            axes.set_title(f"goes up to {highest:.3g}", loc="right")
        axes.set(ylim=limits, xlabel=unit, ylabel="loss")
        _whole_ticks(axes)

    return draw(paint, label=f"{entry.contender.name}: training loss by {unit}", width=NARROW, height=210)


def loss_limits(entries: Sequence[Entry]) -> tuple[float, float]:
    """One scale for all curves; what lies far above a model that knows nothing is cut off."""
    losses = np.array([passed.loss for entry in entries for passed in entry.history])
    losses = losses[np.isfinite(losses)]
    low, high = min(losses.min(initial=START), START), min(max(losses.max(initial=START), START), 2 * START)
    return low - 0.06 * (high - low) - 0.005, high + 0.06 * (high - low) + 0.005


def unit_of(entry: Entry) -> str:
    """What one iteration of this model is."""
    return "rounds" if entry.contender.settings.schedule == "rounds" else "passes"


def by_records(groups: RecordGroups, lines: Sequence[GroupAucs | None]) -> str:
    """AUC of the people with so many training records, one line a model."""

    def paint(figure: "Figure") -> None:
        axes = figure.add_subplot()
        for at, line in enumerate(lines):
            if line is not None:
                axes.plot(range(len(groups)), line.auc, color=series(at), marker=marker(at))
        _groups(axes, groups, "AUC")

    return draw(paint, label="AUC by the number of training records a person has", width=WIDE, height=300)


def gains(groups: RecordGroups, lines: Sequence[GroupAucs | None], *, reference: str) -> str:
    """By how much each model's AUC differs from the reference, with 95 % intervals."""
    shown = [(at, line) for at, line in enumerate(lines) if line is not None]

    def paint(figure: "Figure") -> None:
        axes = figure.add_subplot()
        for place, (at, line) in enumerate(shown):  # side by side, so that whiskers do not cover each other
            shift = min(0.11, 0.8 / len(shown)) * (place - (len(shown) - 1) / 2)
            axes.errorbar(
                np.arange(len(groups)) + shift, line.auc, yerr=Z_95 * np.nan_to_num(line.error), fmt=marker(at),
                color=series(at), elinewidth=1.2,
            )  # fmt: skip
        axes.axhline(0.0, color=INK, linewidth=0.9)
        _groups(axes, groups, "difference of AUC")

    label = f"difference of AUC from {reference} by the number of training records"
    return draw(paint, label=label, width=WIDE, height=300)


def _groups(axes: "Axes", groups: RecordGroups, measured: str) -> None:
    axes.set_xticks(range(len(groups)), groups.names)
    axes.set(xlim=(-0.5, len(groups) - 0.5), xlabel="training records of the person", ylabel=measured)
    axes.grid(visible=False, axis="x")


def _whole_ticks(axes: "Axes") -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.grid(color=FAINT)


def _finite(values: Sequence[float]) -> RealArray:
    """Infinities as gaps, because an axis cannot show them."""
    array = np.asarray(values, dtype=np.float64)
    return np.where(np.isfinite(array), array, np.nan)


# The map of a simulated city: places, and people. Only a simulation knows where everyone lives.
#
# Drawn without a plotting library: a dot costs a dozen bytes, and takes its colour from the page.


MOST = 4000  # dots of each kind; more would only hide each other
KM_A_DEGREE = np.pi * EARTH_RADIUS_KM / 180
WIDTH = 640
_SIZES = (3.0, 5.0, 8.0, 12.0)  # diameters of places, from the least visited quarter up


@dataclass(frozen=True, slots=True)
class City:
    """What a map shows. Locations (n, 2) are latitude and longitude in degrees, NaN where unknown. Private."""

    places: RealArray = field(repr=False)
    visitors: np.ndarray = field(repr=False)  # (J,)
    homes: RealArray = field(repr=False)


@dataclass(frozen=True, slots=True)
class Frame:
    """Equirectangular around the city's middle, so that a kilometre is equally long in both directions."""

    middle: tuple[float, float]
    low: RealArray = field(repr=False)  # (2,) kilometres east and north of the middle
    span: RealArray = field(repr=False)  # (2,)

    @property
    def scale(self) -> float:
        """Pixels a kilometre."""
        return WIDTH / float(self.span[0])

    @property
    def height(self) -> int:
        return round(float(self.span[1]) * self.scale)

    def pixels(self, location: RealArray) -> RealArray:
        """(n, 2) across and down; NaN for what is unknown or outside."""
        away = (_kilometres(location, self.middle) - self.low) / self.span
        away[~((away >= 0) & (away <= 1)).all(axis=1)] = np.nan
        return np.column_stack([away[:, 0], 1 - away[:, 1]]) * (WIDTH, self.height)


def frame_of(city: City) -> Frame | None:
    """The frame that holds nearly everything: a few far-off points must not shrink the rest. None without points."""
    points = np.concatenate([city.places, city.homes])
    points = points[np.isfinite(points).all(axis=1)]
    if not len(points):
        return None
    around = points[0, 1] + _turned(points[:, 1] - points[0, 1])
    middle = float(np.median(points[:, 0])), float(np.median(around))
    low, high = np.quantile(_kilometres(points, middle), [0.002, 0.998], axis=0)
    wanted = np.maximum(1.06 * (high - low), 0.1)
    span = np.array([max(wanted[0], wanted[1] / 1.1), max(wanted[1], wanted[0] / 2.2)])
    return Frame(middle, (low + high - span) / 2, span)


def draw_map(city: City, frame: Frame) -> str:
    """The map as SVG: places below, people above, and a scale."""
    label = "map of the city: places in grey, people in colour"
    return (
        f'<svg class="map" viewBox="0 0 {WIDTH} {frame.height}" role="img" aria-label="{label}">\n'
        f'<g class="places">{_places(city, frame)}</g>\n<g class="people">{_people(city, frame)}</g>\n'
        f"{_scale_bar(frame)}</svg>"
    )


def _places(city: City, frame: Frame) -> str:
    some = _every(len(city.places))
    pixels, size = frame.pixels(city.places[some]), sizes(city.visitors)[some]
    return "".join(_dots(pixels[size == at], f'stroke-width="{width:g}"') for at, width in enumerate(_SIZES))


def sizes(visitors: np.ndarray) -> np.ndarray:
    """(J,): the size of each place's dot, from 0 for the least visited quarter to 3."""
    steps = np.quantile(visitors, [0.25, 0.5, 0.75]) if len(visitors) else np.zeros(3)
    return np.searchsorted(steps, visitors)


def _people(city: City, frame: Frame) -> str:
    some = _every(len(city.homes))
    return _dots(frame.pixels(city.homes[some]), 'stroke="var(--series-0)"')


def _dots(pixels: RealArray, look: str) -> str:
    """One path for all dots: strokes of no length with round ends."""
    known = pixels[np.isfinite(pixels).all(axis=1)]
    return f'<path {look} d="{"".join(f"M{x:.0f} {y:.0f}h0" for x, y in known)}"/>' if len(known) else ""


def _every(rows: int) -> slice:
    """Evenly spaced rows, at most MOST of them. People stand along a curve through the city, so none of it is lost."""
    return slice(None, None, max(1, -(-rows // MOST)))


def _scale_bar(frame: Frame) -> str:
    """The longest of 1, 2, 5, 10, ... kilometres that takes at most a quarter of the width."""
    quarter = float(frame.span[0]) / 4
    power = 10.0 ** np.floor(np.log10(quarter))
    km = max(step * power for step in (1, 2, 5) if step * power <= quarter)
    left, down = 14, frame.height - 14
    bar = f"M{left} {down - 6}v6h{km * frame.scale:.0f}v-6"
    said = f"{km:g} km" if km >= 1 else f"{1000 * km:g} m"
    behind = f'<rect x="{left - 8}" y="{down - 36}" width="{km * frame.scale + 16:.0f}" height="44"/>'
    return f'<g class="scale">{behind}<path d="{bar}"/><text x="{left + 6}" y="{down - 8}">{said}</text></g>'


def _kilometres(location: RealArray, middle: tuple[float, float]) -> RealArray:
    """(n, 2): kilometres east and north of the middle."""
    east = _turned(location[:, 1] - middle[1]) * np.cos(np.radians(middle[0]))
    return np.column_stack([east, location[:, 0] - middle[0]]) * KM_A_DEGREE


def _turned(degrees: RealArray) -> RealArray:
    """An angle in degrees, between -180 and 180."""
    turned: RealArray = (degrees + 180.0) % 360.0 - 180.0
    return turned
