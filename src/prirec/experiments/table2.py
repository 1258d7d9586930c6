"""Table 2: what the data are, after the paper's filters."""

from collections.abc import Mapping
from typing import Any

from prirec.data.dataset import Dataset
from prirec.evaluate.experiment import set_up
from prirec.experiments.cabinet import Cabinet
from prirec.experiments.cells import Cell
from prirec.experiments.cities import CITIES, City
from prirec.experiments.experiment import Experiment
from prirec.experiments.paper_figures import TABLE_2
from prirec.experiments.sheets import Sheet
from prirec.experiments.shown import Shown, Table
from prirec.settings_file import load

TITLE = "Table 2: the data"
COLUMNS = ("people", "places", "records", "features")


def count(city: City, dataset: Dataset) -> dict[str, Any]:
    """As training sees them: filtered, with negatives, encoded."""
    setup = set_up(dataset, load(changes={"preset": "rounds", **city.settings}))
    kept, samples = setup.prepared.dataset, setup.samples
    records = len(setup.prepared.train) + len(setup.prepared.test)
    sizes = (len(kept.people), len(kept.places), records, samples.features)
    positive = sum(int((part.label > 0).sum()) for part in (setup.prepared.train, setup.prepared.test))
    return {**dict(zip(COLUMNS, sizes, strict=True)), "positive": positive / records}


def cells(settings: Mapping[str, Any]) -> tuple[Cell, ...]:
    return tuple(Cell.of(city, "data") for city in settings["cities"])


def show(settings: Mapping[str, Any], cabinet: Cabinet) -> Shown:
    rows = [(f"{name}, the paper's", *(f"{size:,}" for size in sizes), "–", "") for name, sizes in TABLE_2.items()]
    for cell in cells(settings):
        if (held := cabinet.values(cell)) is not None:
            city = CITIES[cell.city]
            figures = [f"{held[name]:,}" for name in COLUMNS]
            rows.append((city.title, *figures, f"{100 * held['positive']:.0f} %", city.stands_for))
    words = "Places with at least 10 visitors where only visits are known; people and places with at least 5 records "
    words += "where there are labels, except in the made-up city, which is as large as Koubei was after its filter."
    columns = ("data", *(f">{name}" for name in COLUMNS), ">positive", "stands for")
    return Shown(TITLE, (words,), (Table("After filters, with negatives", columns, tuple(rows)),))


EXPERIMENT = Experiment("table2", TITLE, cells, Sheet(count), show)
