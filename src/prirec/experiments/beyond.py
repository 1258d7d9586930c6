"""Beyond the paper: other questions to the same models. Later visits instead of random ones, places nearby instead of
anywhere, what a device knows of its own visits, and a latent vector that it keeps to itself."""

from collections.abc import Mapping
from typing import Any

from prirec.experiments import differences
from prirec.experiments.averages import average, told
from prirec.experiments.cabinet import Cabinet
from prirec.experiments.cells import Cell, repeated
from prirec.experiments.cities import CITIES
from prirec.experiments.contest import Contest
from prirec.experiments.experiment import Experiment
from prirec.experiments.shown import Shown, Table

TITLE = "Beyond the paper: harder questions"
WORDS = (
    "A random split asks who went where, given the rest of the same days; a split by time asks where people go next. "
    "Negatives drawn from the whole catalogue are mostly far away, and distance alone tells them; those drawn from the "
    "200 places around a visited one ask for taste.",
    "“Own visits” is one more feature of the moment: how far a place is from the nearest other place that the person "
    "has visited. It is made and used on the device; no sum and no price is added for it.",
    "“Latent” is a vector on each device and public factors of places. They are learnt in sums that hold a dozen "
    "people at many a place, and no noise: for simulation, or a recommender that is trusted (decisions/0016).",
)
FIGURES = {"auc": "AUC", "gauc": "GAUC", "auc_few": "AUC, fewest records", "ndcg": "NDCG@10", "recall": "recall@10"}


def _questions(settings: Mapping[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """City, what is asked in words, and the settings that ask it."""
    return [(one["city"], one["asks"], dict(one["settings"])) for one in settings["questions"]]


def cells(settings: Mapping[str, Any]) -> tuple[Cell, ...]:
    made = [
        Cell.of(city, model, changes)
        for city, _, changes in _questions(settings)
        for model in settings["models"]
    ]  # fmt: skip
    return repeated(made, settings["seeds"])


def conclude(settings: Mapping[str, Any], cabinet: Cabinet) -> None:
    """Intervals for every question."""
    known = dict(cabinet.together(differences.NAME) or {})
    for city, asks, changes in _questions(settings):
        at = {model: Cell.of(city, model, changes) for model in settings["models"]}
        if found := differences.intervals(at, settings["seeds"], cabinet):
            known[f"{city}: {asks}"] = found
    cabinet.put_together(differences.NAME, known)


def show(settings: Mapping[str, Any], cabinet: Cabinet) -> Shown:
    tables = [
        _table(city, asks, changes, settings, cabinet)
        for city, asks, changes in _questions(settings)
        if any(cabinet.values(cell) for cell in repeated([Cell.of(city, settings["models"][0], changes)], [0]))
    ]
    return Shown(TITLE, WORDS, tuple(tables))


def _table(
    city: str, asks: str, changes: Mapping[str, Any], settings: Mapping[str, Any], cabinet: Cabinet
) -> Table:  # fmt: skip
    apart = (cabinet.together(differences.NAME) or {}).get(f"{city}: {asks}", {})
    rows = [
        (
            model,
            *(told(average(cabinet, Cell.of(city, model, changes), settings["seeds"], what)) for what in FIGURES),
            differences.told(apart.get(model, {}).get("auc")),
        )
        for model in settings["models"]
    ]
    columns = ("model", *(f">{name}" for name in FIGURES.values()), f">AUC less {differences.REFERENCE}")
    return Table(f"{CITIES[city].title}: {asks}", columns, tuple(rows))


EXPERIMENT = Experiment("beyond", TITLE, cells, Contest(), show, conclude)
