"""The generated part of docs/one-budget.md, and its plot: AUC of everything within one budget, against epsilon."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import private
from generated_parts import replace_part
from prirec.evaluate.plots import FAINT, INK, alone, draw, marker, series
from prirec_experiments.cities import CITIES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOCS = Path(__file__).parent.parent / "docs"
PAGE, PICTURE = DOCS / "one-budget.md", DOCS / "pictures" / "one-budget.svg"
BEGIN = "<!-- generated: benchmarks/private.py -->\n"
WIDTH, PANEL = 680, 230
LEVELS = {"centralised FM, everyone's raw data": ("FM: raw data", "--"), "rounds, no noise": ("rounds, no noise", ":")}


def page(text: str, found: dict[str, Any]) -> str:
    return replace_part(text, begin=BEGIN, lines=private.lines(found)[2:])


def picture(found: dict[str, Any]) -> str:
    label = "AUC of the preset private against epsilon for each person, beside centralised FM and no noise"
    return alone(draw(partial(_paint, found=found), label=label, width=WIDTH, height=PANEL * len(found)))


def _paint(figure: "Figure", *, found: dict[str, Any]) -> None:
    panels = figure.subplots(len(found), 1, squeeze=False)[:, 0]
    for at, (axes, (city, rows)) in enumerate(zip(panels, found.items(), strict=True)):
        prices = rows["against epsilon"]
        x = [float(price) for price in prices]
        axes.set_xscale("log", base=2)
        axes.plot(x, [np.mean(seeds) for seeds in prices.values()], color=series(at), marker=marker(at))
        levels = sorted((float(np.mean(rows[name])), *words) for name, words in LEVELS.items())
        for (level, short, style), side in zip(levels, ("top", "bottom"), strict=True):  # names never meet
            axes.axhline(level, color=INK, linewidth=1.0, linestyle=style)
            axes.annotate(short, (1.0, level), xycoords=("axes fraction", "data"), xytext=(4, 0),
                          textcoords="offset points", va=side, color=INK)  # fmt: skip
        axes.set_xticks(x, [f"{price:g}" for price in x])
        axes.minorticks_off()
        axes.set(title=CITIES[city].title, ylabel="AUC")
        axes.grid(color=FAINT)
    panels[-1].set_xlabel("ε for each person, for everything together (δ = 1e-6)")


def write(found: dict[str, Any]) -> None:
    """Page and plot, if there is anything to show."""
    if found:
        PICTURE.write_text(picture(found), encoding="utf-8")
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")
