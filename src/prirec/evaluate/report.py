"""A comparison as one HTML file that needs nothing else: for people who look before they read."""

from pathlib import Path

from prirec.data.dataset import Dataset
from prirec.engines.durable import replacing
from prirec.errors import UsageError
from prirec.evaluate.comparison import Entry
from prirec.evaluate.reporting.advice import Advice, AdviceLine, advice_section
from prirec.evaluate.reporting.findings import comparison, learning
from prirec.evaluate.reporting.map_section import map_of
from prirec.evaluate.reporting.page import page
from prirec.evaluate.reporting.sections import opening, small_print, title_of, who_holds_what
from prirec.evaluate.reporting.who_gains import by_records
from prirec.evaluate.spread import Scored

__all__ = ["Advice", "AdviceLine", "write_report"]


def write_report(path: Path, *, city: Dataset, entries: tuple[Entry, ...], advice: Advice | None) -> None:
    """The report at `path`, whole or not at all. It holds the records' statistics and homes: for simulations only."""
    if not entries:
        raise UsageError("a report needs at least one trained model")
    _write(path, report(city, entries, advice))


def report(city: Dataset, entries: tuple[Entry, ...], advice: Advice | None) -> str:
    """The page. The same input gives the same bytes."""
    scored = [Scored.of(entry) for entry in entries]
    parts = [
        opening(city),
        who_holds_what(),
        comparison(entries, scored),
        learning(entries),
        by_records(entries, scored),
        map_of(entries),
        "" if advice is None else advice_section(advice),
        small_print(entries),
    ]
    return page(title_of(city), [part for part in parts if part])


def _write(path: Path, html: str) -> None:
    try:
        with replacing(path) as file:
            file.write(html.encode())
    except OSError as error:
        raise UsageError(f"the report could not be written to {path}: {error.strerror or error}") from None
