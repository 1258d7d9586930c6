"""Results on disk: one JSON file an experiment, written whole after each cell, so that what is stopped goes on there.

The scores behind a cell's figures lie beside it (evidence.py); what follows from them together, such as intervals on
differences, is kept with the results. A cell counts as done only if it was made from the same data, settings and code,
which its digest tells.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prirec.damage import NOT_ARRAYS, NOT_DECODED
from prirec.engines.durable import replacing
from prirec.errors import StateError, UsageError
from prirec.experiments.cells import Cell
from prirec.experiments.evidence import Evidence

VERSION = 1


class Cabinet:
    """The results of one experiment."""

    def __init__(self, folder: Path, experiment: str) -> None:
        self.file, self._scores = folder / f"{experiment}.json", folder / "scores"
        self._cells, self._together = _read(self.file)

    def done(self, cell: Cell, digest: str) -> bool:
        return self._cells.get(cell.key, {}).get("digest") == digest

    def values(self, cell: Cell) -> Mapping[str, Any] | None:
        """What was found, by whatever code; None if the cell was never measured."""
        return self._cells.get(cell.key)

    def evidence(self, cell: Cell) -> Evidence | None:
        """None where the cell was not measured here."""
        held = self._cells.get(cell.key)
        if held is None:
            return None
        try:
            return Evidence.from_bytes((self._scores / f"{held['digest']}.npz").read_bytes())
        except NOT_ARRAYS:
            return None

    def put(self, cell: Cell, digest: str, values: Mapping[str, Any], evidence: Evidence | None = None) -> None:
        """A cell that was measured."""
        if evidence is not None:
            write_whole(self._scores / f"{digest}.npz", evidence.to_bytes())
        self._cells[cell.key] = {**values, "digest": digest}
        self._write()

    def together(self, name: str) -> Any:
        """What follows from many cells; None if nobody has worked it out."""
        return self._together.get(name)

    def put_together(self, name: str, values: Any) -> None:
        self._together[name] = values
        self._write()

    def _write(self) -> None:
        held = {"version": VERSION, "cells": dict(sorted(self._cells.items())), "together": self._together}
        write_whole(self.file, (json.dumps(held, indent=1, ensure_ascii=False) + "\n").encode())


def _read(file: Path) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    try:
        held = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}, {}
    except (OSError, *NOT_DECODED):
        raise StateError(f"{file} is no file of results; move it away, or name another folder") from None
    if not isinstance(held, dict) or held.get("version") != VERSION:
        raise StateError(f"{file} was written by another version; move it away, or name another folder")
    cells, together = held.get("cells"), held.get("together")
    if not isinstance(cells, dict) or not isinstance(together, dict):
        raise StateError(f"{file} is damaged; move it away, or name another folder")
    return cells, together


def write_whole(file: Path, body: bytes) -> None:
    """With the folder that it is in. UsageError, and what was there untouched, if it cannot be."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as out:
            out.write(body)
    except OSError as error:
        raise UsageError(f"results could not be written to {file}: {error.strerror or error}") from None
