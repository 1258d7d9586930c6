"""Repeats of a cell as one figure: their mean and their spread."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from prirec.experiments.cabinet import Cabinet
from prirec.experiments.cells import Cell


@dataclass(frozen=True, slots=True)
class Average:
    """`spread` is the standard deviation of the repeats; none where there is one."""

    mean: float
    spread: float | None
    repeats: int

    def __str__(self) -> str:
        around = "" if self.spread is None else f" ± {self.spread:.4f}"
        return f"{self.mean:.4f}{around}"


def averaged(values: Sequence[float]) -> Average | None:
    """None without a value, or with one that has no meaning."""
    if not values or not all(math.isfinite(value) for value in values):
        return None
    return Average(fmean(values), stdev(values) if len(values) > 1 else None, len(values))


def average(cabinet: Cabinet, cell: Cell, seeds: Iterable[int], what: str = "auc") -> Average | None:
    """Over the repeats that were measured."""
    held = [cabinet.values(cell.changed(seed=seed)) for seed in seeds]
    return averaged([float(one[what]) for one in held if one is not None and one.get(what) is not None])


def told(found: Average | None) -> str:
    return "–" if found is None else str(found)
