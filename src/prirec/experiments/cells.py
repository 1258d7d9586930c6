"""A cell is one number of a table before it is averaged: a city, a model, and the settings that differ from its own."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self, TypeAlias

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
