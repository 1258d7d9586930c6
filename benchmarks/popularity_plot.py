"""AUC of popularity alone against the price for each user, a panel a city, as an SVG that stands by itself.

Colours are those of the report's style sheet, for light and for dark; every line has its name at its end.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from prirec.evaluate.plots import FAINT, INK, alone, draw, marker, series
from prirec_experiments.unary import COMPARED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH, PANEL = 680, 360
LINES = [one.name for one in COMPARED if one.user_level]
LEVELS = {
    "plain counts": "plain counts: no privacy",
    "records only": "records only: no promise",
    "Eq. (6)": "Eq. (6): ε = 1 per bit",
}
TITLES = {"foursquare-tokyo": "Foursquare Tokyo", "yelp": "Yelp"}
APART = 14.0  # CSS pixels between names


def picture(found: dict[str, Any]) -> str:
    label = "AUC of popularity alone against epsilon for each user, for every mechanism"
    svg = draw(partial(_paint, found=found), label=label, width=WIDTH, height=PANEL * len(found))
    return alone(svg)


def _paint(figure: "Figure", *, found: dict[str, Any]) -> None:
    panels = figure.subplots(len(found), 1, squeeze=False)[:, 0]
    figure.get_layout_engine().set(h_pad=0.12, rect=(0, 0, 0.70, 1))  # room for names on the right
    for axes, (city, rows) in zip(panels, found.items(), strict=True):
        _panel(axes, rows, title=TITLES.get(city, city))
    figure.draw_without_rendering()  # names are set in pixels, once the panels have their places, and keep them
    figure.set_layout_engine("none")
    for axes, rows in zip(panels, found.values(), strict=True):
        _names(axes, rows)


def _panel(axes: "Axes", rows: dict[str, Any], *, title: str) -> None:
    from matplotlib.ticker import MultipleLocator

    prices = [float(price) for price in rows["plain counts"]]
    axes.set_xscale("log", base=2)
    for at, name in reversed(list(enumerate(LINES))):  # the best on top
        axes.plot(prices, _means(rows[name]), color=series(at), marker=marker(at))
    for name in LEVELS:
        axes.plot(prices, _means(rows[name]), color=INK, linewidth=1.0, linestyle="--" if "plain" in name else ":")
    axes.set_xticks(prices, [f"{price:g}" for price in prices])
    axes.minorticks_off()
    axes.yaxis.set_major_locator(MultipleLocator(0.05))
    axes.set(title=title, xlabel="ε for each user (δ = 1e-6)", ylabel="AUC of popularity alone")
    axes.margins(y=0.04)
    axes.grid(color=FAINT)


def _names(axes: "Axes", rows: dict[str, Any]) -> None:
    """Each name at the end of its line, pushed up or down as far as others are in its way."""
    ends = {name: _means(rows[name])[-1] for name in [*LEVELS, *LINES]}
    order = sorted(ends, key=lambda name: ends[name])
    to_pixels = axes.transData.transform
    x = float(axes.get_xlim()[1])
    wanted = np.array([to_pixels((x, ends[name]))[1] for name in order])
    gap = APART * axes.figure.dpi / 96
    for name, y in zip(order, _spread(wanted, gap), strict=True):
        height = axes.transAxes.inverted().transform((0, y))[1]
        level = axes.transAxes.inverted().transform(to_pixels((x, ends[name])))[1]
        ink = series(LINES.index(name)) if name in LINES else INK
        axes.plot([1.0, 1.03], [level, height], transform=axes.transAxes, color=ink, linewidth=0.8, clip_on=False)
        axes.text(1.04, height, LEVELS.get(name, name), transform=axes.transAxes, color=ink, va="center")


def _spread(wanted: np.ndarray, gap: float) -> np.ndarray:
    """Rising positions at least a gap apart, as near to the wanted ones as least squares can have them."""
    steps = gap * np.arange(len(wanted))
    blocks: list[list[float]] = []  # mean and size: pool adjacent violators
    for value in wanted - steps:
        blocks.append([value, 1])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (low, few), (high, more) = blocks[-2:]
            blocks[-2:] = [[(low * few + high * more) / (few + more), few + more]]
    return np.repeat([mean for mean, _ in blocks], [int(size) for _, size in blocks]) + steps


def _means(prices: dict[str, list[float]]) -> list[float]:
    return [float(np.mean(seeds)) for seeds in prices.values()]
