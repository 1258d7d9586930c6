"""Repeats of a cell as one figure with its spread, and intervals on differences between models."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any

from prirec.evaluate.bootstrap import (
    Resampled,
    Resampling,
    differences,
    mean_of,
    resample_lists,
    resample_scores,
    together,
)
from prirec_experiments.results_store import Cell, CellScores, ResultsStore, repeated


@dataclass(frozen=True, slots=True)
class Average:
    """`spread` is the standard deviation of the repeats; None where there is a single one."""

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


def average(store: ResultsStore, cell: Cell, seeds: Iterable[int], what: str = "auc") -> Average | None:
    """One figure of a cell, over the repeats that were measured."""
    held = [store.values(cell.changed(seed=seed)) for seed in seeds]
    return averaged([float(one[what]) for one in held if one is not None and one.get(what) is not None])


def average_text(found: Average | None) -> str:
    return "–" if found is None else str(found)


# Which differences between models are more than luck: 95 % intervals on the difference of every model from a
# reference, people drawn anew with all their repeats (prirec.evaluate.bootstrap).


REFERENCE = "FM"
RESAMPLES = 1000
FIGURES = {
    "auc": "AUC", "gauc": "GAUC", "log_loss": "log loss",
    "ndcg": "NDCG@10", "recall": "recall@10", "auc_nearby": "AUC nearby",
}  # fmt: skip
STORED_AS = "differences"  # in a file of results


def stored_as(reference: str) -> str:
    return STORED_AS if reference == REFERENCE else f"{STORED_AS} from {reference}"


def intervals(
    cells: Mapping[str, Cell], seeds: Iterable[int], store: ResultsStore, *, reference: str = REFERENCE
) -> dict[str, Any]:
    """For each model but the reference, by figure; those without stored test scores are left out."""
    drawn = {model: _resampled(repeated([cell], seeds), store) for model, cell in cells.items()}
    base = drawn.pop(reference, None)
    if base is None:
        return {}
    return {
        model: {name: asdict(one) for name, one in differences(mine, base).items()}
        for model, mine in drawn.items()
        if mine is not None and mine.by == base.by
    }


def put_intervals(
    compared: Mapping[str, Mapping[str, Cell]], seeds: Iterable[int], store: ResultsStore, *, reference: str = REFERENCE
) -> None:
    """Stores the intervals of each comparison by its name. Those that are known stay where no test scores are stored:
    scores are private and lie on the machine that measured them."""
    known, seeds = dict(store.combined(stored_as(reference)) or {}), tuple(seeds)
    for name, cells in compared.items():
        if found := intervals(cells, seeds, store, reference=reference):
            known[name] = {**known.get(name, {}), **found}
    store.put_combined(stored_as(reference), known)


def _resampled(cells: Sequence[Cell], store: ResultsStore) -> Resampled | None:
    held = [one for one in (store.scores(cell) for cell in cells) if one is not None]
    if len(held) < len(cells):
        return None

    def resampled(one: CellScores) -> Resampled:
        by = Resampling(one.people, RESAMPLES)
        scored = resample_scores(one.label, one.scores, person=one.person, by=by)
        return scored if one.lists is None else together(scored, resample_lists(one.lists, by))

    return mean_of([resampled(one) for one in held])


def interval_text(interval: Mapping[str, float] | None) -> str:
    """The difference and its ends; a mark where both ends are on one side of 0."""
    if interval is None:
        return "–"
    low, high = interval["low"], interval["high"]
    mark = " ▲" if low > 0 else " ▼" if high < 0 else ""
    return f"{interval['difference']:+.4f} ({low:+.4f} to {high:+.4f}){mark}"
