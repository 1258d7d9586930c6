"""Cells, and the files in which their results are stored.

A cell is one number of a table before it is averaged: a city, a model, and the settings that differ from its own.
"""

import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np

from prirec.errors import StateError, UsageError
from prirec.features.samples import Samples
from prirec.metrics import RankFigures
from prirec.types import IndexArray, LabelArray, RealArray
from prirec.util.decode_errors import NOT_ARRAYS, NOT_DECODED
from prirec.util.files import replacing

Scalar: TypeAlias = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Cell:
    """What is measured; what it is called in a file of results follows from it."""

    city: str
    model: str
    changes: tuple[tuple[str, Scalar], ...] = ()  # settings by name, in the order of names

    @classmethod
    def of(cls, city: str, model: str, changes: Mapping[str, Scalar] | None = None) -> Self:
        return cls(city, model, tuple(sorted((changes or {}).items())))

    @property
    def key(self) -> str:
        return " | ".join((self.city, self.model, *(f"{name}={value}" for name, value in self.changes)))

    def get(self, name: str, default: Scalar | None = None) -> Scalar | None:
        return dict(self.changes).get(name, default)

    def changed(self, **changes: Scalar) -> "Cell":
        """Names have two underscores where settings have a dot."""
        given = {name.replace("__", "."): value for name, value in changes.items()}
        return Cell.of(self.city, self.model, {**dict(self.changes), **given})

    def without(self, *names: str) -> "Cell":
        return Cell(self.city, self.model, tuple(one for one in self.changes if one[0] not in names))


def repeated(cells: Iterable[Cell], seeds: Iterable[int]) -> tuple[Cell, ...]:
    """Each with every seed: a split, negatives and a start of its own."""
    known = tuple(seeds)
    return tuple(cell.changed(seed=seed) for cell in cells for seed in known)


# The scores behind a cell's figures: what intervals on differences are made of. Kept beside results, never published:
# a row is a person's test record.


@dataclass(frozen=True, slots=True)
class CellScores:
    """Test records of one model. People stand in the order of their ids, which repeats of a cell share."""

    label: LabelArray = field(repr=False)  # (R,)
    person: IndexArray = field(repr=False)  # (R,)
    scores: RealArray = field(repr=False)  # (R,)
    people: int
    lists: RankFigures | None = field(default=None, repr=False)  # None: measured before these were kept

    @classmethod
    def of(cls, samples: Samples, scores: RealArray, lists: RankFigures) -> Self:
        rank = np.empty(len(samples.ids), dtype=np.int32)
        rank[np.argsort(np.array(samples.ids, dtype=object), kind="stable")] = np.arange(len(rank), dtype=np.int32)
        lists = replace(lists, person=rank[lists.person].astype(np.int64))
        return cls(samples.test.label, rank[samples.test.person], scores, len(rank), lists)

    def to_bytes(self) -> bytes:
        out = io.BytesIO()
        names = () if self.lists is None else (one.name for one in fields(RankFigures))
        lists = {f"lists_{name}": getattr(self.lists, name) for name in names}
        np.savez_compressed(
            out, label=self.label, person=self.person, scores=self.scores, people=self.people, **lists
        )  # fmt: skip
        return out.getvalue()

    @classmethod
    def from_bytes(cls, body: bytes) -> Self:
        """Raises one of decode_errors.NOT_ARRAYS for anything else."""
        with np.load(io.BytesIO(body), allow_pickle=False) as held:
            lists = {name.removeprefix("lists_"): held[name] for name in held if name.startswith("lists_")}
            figures = RankFigures(**lists) if lists else None
            return cls(held["label"], held["person"], held["scores"], int(held["people"]), figures)


# Results on disk: one JSON file an experiment, written whole after each cell, so that what is stopped goes on there.
#
# The scores behind a cell's figures lie beside it; what follows from them together, such as intervals on
# differences, is kept with the results. A cell counts as done only if it was made from the same data, settings and
# code, which its digest tells.


VERSION = 1


class ResultsStore:
    """The results of one experiment."""

    def __init__(self, folder: Path, experiment: str) -> None:
        self.file, self._scores = folder / f"{experiment}.json", folder / "scores"
        self._cells, self._combined = _read(self.file)

    def done(self, cell: Cell, digest: str) -> bool:
        return self._cells.get(cell.key, {}).get("digest") == digest

    def values(self, cell: Cell) -> Mapping[str, Any] | None:
        """What was found, by whatever code; None if the cell was never measured."""
        return self._cells.get(cell.key)

    def scores(self, cell: Cell) -> CellScores | None:
        """The stored test scores of a cell; None where it was measured on another machine."""
        held = self._cells.get(cell.key)
        if held is None:
            return None
        try:
            return CellScores.from_bytes((self._scores / f"{held['digest']}.npz").read_bytes())
        except NOT_ARRAYS:
            return None

    def put(self, cell: Cell, digest: str, values: Mapping[str, Any], scores: CellScores | None = None) -> None:
        """Stores what a cell gave, and the scores behind it; the file is written whole each time."""
        if scores is not None:
            write_whole(self._scores / f"{digest}.npz", scores.to_bytes())
        self._cells[cell.key] = {**values, "digest": digest}
        self._write()

    def combined(self, name: str) -> Any:
        """What follows from many cells; None if nobody has worked it out."""
        return self._combined.get(name)

    def put_combined(self, name: str, values: Any) -> None:
        self._combined[name] = values
        self._write()

    def _write(self) -> None:
        held = {"version": VERSION, "cells": dict(sorted(self._cells.items())), "together": self._combined}
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
