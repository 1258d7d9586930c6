"""The generated part of docs/mechanisms.md, between its two marks, and the plot beside it."""

from pathlib import Path
from typing import Any

import numpy as np

import popularity_plot
from generated_parts import replace_part
from prirec_experiments.unary import COMPARED

DOCS = Path(__file__).parent.parent / "docs"
PAGE, PICTURE = DOCS / "mechanisms.md", DOCS / "pictures" / "mechanisms.svg"
BEGIN = "<!-- generated: benchmarks/popularity.py -->\n"
USER_LEVEL = {one.name for one in COMPARED if one.user_level}
APART = {
    "secure sum, no loss": "*not offered:* secure sum, noise for a roster that loses nobody and has no colluders",
    "Eq. (6)": "*not user-level:* Eq. (6), ε = 1 per **bit**, everyone reports",
    "records only": "*no promise:* ε = 1 per bit, those with a record report; who reports reveals the action",
    "plain counts": "*nothing private:* plain counts, the ceiling",
}


def tables(found: dict[str, Any]) -> list[str]:
    """A table a city: the mean AUC over the seeds; user-level mechanisms first, the rest set apart by words."""
    made: list[str] = []
    for city, rows in found.items():
        prices = list(next(iter(rows.values())))
        made += [
            "",
            f"**{city}**",
            "",
            "| user-level ε | " + " | ".join(prices) + " |",
            "|---" * (len(prices) + 1) + "|",
        ]
        order = [name for name in rows if name in USER_LEVEL] + list(APART)
        made += [_row(APART.get(name, name), rows[name]) for name in order]
    return made[1:]


def _row(name: str, prices: dict[str, list[float]]) -> str:
    return f"| {name} | " + " | ".join(f"{np.mean(seeds):.3f}" for seeds in prices.values()) + " |"


def filled(text: str, found: dict[str, Any]) -> str:
    """The page with its generated part made anew."""
    return replace_part(text, begin=BEGIN, lines=tables(found))


def write(found: dict[str, Any]) -> None:
    """Page and plot, if there is anything to show."""
    if found["auc"]:
        PICTURE.parent.mkdir(exist_ok=True)
        PICTURE.write_text(popularity_plot.picture(found["auc"]), encoding="utf-8")
        PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), found["auc"]), encoding="utf-8")
