"""Several models on one city, a bar for each."""

import os
from collections.abc import Sequence

from prirec.cli.progress import Bar, bar, bars
from prirec.data.dataset import Dataset
from prirec.evaluate.comparison import Contender, Entry, compare


def compared(city: Dataset, models: Sequence[Contender]) -> tuple[Entry, ...]:
    """Each in turn, on all cores; its bar says what is being done for it."""
    with bars() as shown:
        rows = [bar(shown, model.name, iterations=model.settings.iterations) for model in models]
        return tuple(_entry(city, model, row) for model, row in zip(models, rows, strict=True))


def _entry(city: Dataset, model: Contender, row: Bar) -> Entry:
    row.begin()
    (entry,) = compare(city, [model], threads=os.cpu_count() or 1, tell=lambda _, passed: row.tell(passed))
    row.finish()
    return entry
