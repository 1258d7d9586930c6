"""Which differences between models are more than luck: 95 % intervals on every model less a reference, people drawn
anew with all their repeats (evaluate/bootstrap.py)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from prirec.evaluate.bootstrap import Resampled, Resampling, differences, mean_of, resample_scores
from prirec.experiments.cabinet import Cabinet
from prirec.experiments.cells import Cell

REFERENCE = "FM"
RESAMPLES = 1000
FIGURES = {"auc": "AUC", "gauc": "GAUC", "log_loss": "log loss"}
NAME = "differences"  # in a file of results


def intervals(cells: Mapping[str, Cell], seeds: Iterable[int], cabinet: Cabinet) -> dict[str, Any]:
    """For each model but the reference, by figure; those without evidence at hand are left out."""
    known = tuple(seeds)
    drawn = {model: _resampled([cell.changed(seed=seed) for seed in known], cabinet) for model, cell in cells.items()}
    base = drawn.pop(REFERENCE, None)
    if base is None:
        return {}
    return {
        model: {name: asdict(one) for name, one in differences(mine, base).items()}
        for model, mine in drawn.items()
        if mine is not None and mine.by == base.by
    }


def _resampled(cells: Sequence[Cell], cabinet: Cabinet) -> Resampled | None:
    held = [one for one in (cabinet.evidence(cell) for cell in cells) if one is not None]
    if len(held) < len(cells):
        return None
    return mean_of(
        [
            resample_scores(one.label, one.scores, person=one.person, by=Resampling(one.people, RESAMPLES))
            for one in held
        ]
    )


def told(interval: Mapping[str, float] | None) -> str:
    """The difference and its ends; a mark where both ends are on one side of 0."""
    if interval is None:
        return "–"
    low, high = interval["low"], interval["high"]
    mark = " ▲" if low > 0 else " ▼" if high < 0 else ""
    return f"{interval['difference']:+.4f} ({low:+.4f} to {high:+.4f}){mark}"
