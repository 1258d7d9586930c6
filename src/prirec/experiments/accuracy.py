"""Tables 4 and 5: every model for every K and share of training records, with the paper's figure beside ours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prirec.experiments import differences
from prirec.experiments.averages import average, told
from prirec.experiments.cabinet import Cabinet
from prirec.experiments.cells import Cell, repeated
from prirec.experiments.cities import CITIES
from prirec.experiments.entrants import ENTRANTS
from prirec.experiments.shown import Shown, Table

BEYOND = {
    "gauc": "GAUC", "auc_few": "AUC, fewest records", "ndcg": "NDCG@10", "recall": "recall@10", "log_loss": "log loss"
}  # fmt: skip


def cells(settings: Mapping[str, Any]) -> tuple[Cell, ...]:
    """Cities × models × K × shares × repeats. Rivals and controls are measured for the first K."""
    made = [
        _cell(city, model, K, share)
        for city in settings["cities"]
        for model in settings["models"]
        for K in (settings["dimensions"] if model in settings["every_dimension"] else settings["dimensions"][:1])
        for share in settings["shares"]
    ]
    return repeated(made, settings["seeds"])


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How the table is shown."""

    title: str
    words: tuple[str, ...]
    paper: Mapping[tuple[str, int, float], float]

    def show(self, settings: Mapping[str, Any], cabinet: Cabinet) -> Shown:
        tables: list[Table] = []
        for city in settings["cities"]:
            if any(cabinet.values(cell) for cell in cells({**settings, "cities": [city]})):
                tables += [
                    self._aucs(city, settings, cabinet), _beyond(city, settings, cabinet),
                    _apart(city, settings, cabinet),
                ]  # fmt: skip
        return Shown(self.title, self.words, tuple(tables))

    def _aucs(self, city: str, settings: Mapping[str, Any], cabinet: Cabinet) -> Table:
        columns = [(K, share) for share in settings["shares"] for K in settings["dimensions"]]
        heads = [f">K = {K}, {100 * share:g} %" for K, share in columns]
        rows: list[tuple[str, ...]] = []
        for model in settings["models"]:
            found = [told(average(cabinet, _cell(city, model, K, share), settings["seeds"]))
                     for K, share in columns]  # fmt: skip
            rows.append((_name(model), *found))
            printed = [self.paper.get((model, K, share)) for K, share in columns]
            if any(value is not None for value in printed):
                rows.append((f"{model}, the paper's", *("–" if one is None else f"{one:.4f}" for one in printed)))
        told_of = CITIES[city]
        return Table(
            f"AUC on {told_of.title}", ("model", *heads), tuple(rows), note=f"Stands for {told_of.stands_for}."
        )  # fmt: skip


def _beyond(city: str, settings: Mapping[str, Any], cabinet: Cabinet) -> Table:
    K, share = settings["dimensions"][0], settings["shares"][0]
    rows = [
        (_name(model), *(_figure(_cell(city, model, K, share), settings["seeds"], what, cabinet) for what in BEYOND))
        for model in settings["models"]
    ]
    return Table(
        f"Beyond AUC on {CITIES[city].title}, K = {K}, {100 * share:g} %",
        ("model", *(f">{name}" for name in BEYOND.values())), tuple(rows),
        note="Lists are of 10 among the matched places, for 300 people; fewest records: the quarter of people with "
        "fewest in training.",
    )  # fmt: skip


def _cell(city: str, model: str, K: int, share: float) -> Cell:
    return Cell.of(city, model, {"model.dimension": K, "data.train_share": share})


def _figure(cell: Cell, seeds: Sequence[int], what: str, cabinet: Cabinet) -> str:
    return told(average(cabinet, cell, seeds, what)) if _has(cell.model, what) else "–"


def _has(model: str, figure: str) -> bool:
    return figure != "log_loss" or ENTRANTS[model].chances


def _name(model: str) -> str:
    return f"{model} (control)" if ENTRANTS[model].control else model


def conclude(settings: Mapping[str, Any], cabinet: Cabinet) -> None:
    """Intervals at the first K and share, where there is evidence; else those that are known stay."""
    K, share = settings["dimensions"][0], settings["shares"][0]
    known = dict(cabinet.together(differences.NAME) or {})
    for city in settings["cities"]:
        at = {model: _cell(city, model, K, share) for model in settings["models"]}
        if found := differences.intervals(at, settings["seeds"], cabinet):
            known[city] = found
    cabinet.put_together(differences.NAME, known)


def _apart(city: str, settings: Mapping[str, Any], cabinet: Cabinet) -> Table:
    K, share = settings["dimensions"][0], settings["shares"][0]
    found = (cabinet.together(differences.NAME) or {}).get(city, {})
    rows = [
        (
            _name(model),
            *(differences.told(found[model].get(what) if _has(model, what) else None) for what in differences.FIGURES),
        )
        for model in settings["models"]
        if model in found
    ]
    return Table(
        f"Less {differences.REFERENCE} on {CITIES[city].title}, K = {K}, {100 * share:g} %",
        ("model", *(f">{name}" for name in differences.FIGURES.values())), tuple(rows),
        note="95 % intervals: people drawn anew 1,000 times, with all repeats together. ▲ and ▼: both ends on one side "
        "of 0. For log loss less is better.",
    )  # fmt: skip
