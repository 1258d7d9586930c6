"""The comparison as a table."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from prirec.evaluate.comparison import Entry
from prirec.evaluate.reporting.page import number, text


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    value: Callable[[Entry], float]
    better: Callable[[float, float], float]  # max or min
    digits: int = 4


_COLUMNS = (
    _Column("AUC", lambda entry: entry.outcome.quality.auc, max),
    _Column("log loss", lambda entry: entry.outcome.quality.log_loss, min),
    _Column("AUC, fewest records", lambda entry: entry.outcome.quality.auc_few, max),
    _Column("GAUC", lambda entry: entry.outcome.quality.gauc, max),
    _Column("seconds", lambda entry: entry.seconds, min, digits=1),
)


def comparison_table(entries: Sequence[Entry]) -> str:
    """One row a model; the best figure of each column carries a star."""
    titles = "".join(f'<th scope="col" class="figure">{text(column.title)}</th>' for column in _COLUMNS)
    head = f'<thead><tr><th scope="col">model</th>{titles}<th scope="col">what it collects</th></tr></thead>'
    best = [_best(column, entries) for column in _COLUMNS]
    body = "\n".join(_row(entry, best) for entry in entries)
    return f'<div class="scroll" tabindex="0"><table>\n{head}\n<tbody>\n{body}\n</tbody></table></div>'


def _row(entry: Entry, best: Sequence[str]) -> str:
    cells = "".join(_cell(number(c.value(entry), c.digits), at) for c, at in zip(_COLUMNS, best, strict=True))
    collects = text(entry.contender.collects or "–")
    return f'<tr><th scope="row">{text(entry.contender.name)}</th>{cells}<td class="words">{collects}</td></tr>'


def _cell(shown: str, best: str) -> str:
    if shown != best:
        return f'<td class="figure">{shown}</td>'
    return f'<td class="figure best">{shown}<span class="star" role="img" aria-label="best">★</span></td>'


def _best(column: _Column, entries: Sequence[Entry]) -> str:
    """The best figure as it is shown, so that what reads the same is marked the same; a single row has no best."""
    known = [column.value(entry) for entry in entries if math.isfinite(column.value(entry))]
    if len(known) < 2:
        return ""
    best = known[0]
    for value in known[1:]:
        best = column.better(best, value)
    return number(best, column.digits)
