"""Figure 4: how near to home people click. The reason for learning with neighbours."""

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from prirec.data.dataset import Dataset
from prirec.errors import UsageError
from prirec.evaluate.experiment import set_up
from prirec.evaluate.reporting.drawing import marker, series
from prirec.experiments.cabinet import Cabinet
from prirec.experiments.cells import Cell
from prirec.experiments.cities import CITIES, City
from prirec.experiments.experiment import Experiment
from prirec.experiments.sheets import Sheet
from prirec.experiments.shown import Drawing, Shown, Table
from prirec.geography import haversine_km
from prirec.settings_file import load
from prirec.types import RealArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Figure 4: distance and clicks"
EDGES = (0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 40.0)  # km


def count(city: City, dataset: Dataset) -> dict[str, Any]:
    """Test records by their distance from homes that training records gave: a home that knew the visit would be drawn
    to it."""
    setup = set_up(dataset, load(changes={"preset": "rounds", **city.settings}))
    samples, location = setup.samples, setup.prepared.dataset.places.location
    if samples.home is None or location is None:
        raise UsageError(f"{city.title} has no coordinates")
    test = samples.test
    km = haversine_km(samples.home[test.person], location[test.place])
    clicked = _shares(km[test.label > 0])
    return {"clicked": clicked.tolist(), "ignored": _shares(km[test.label < 0]).tolist(),
            "median km, clicked": float(np.nanmedian(km[test.label > 0])),
            "median km, ignored": float(np.nanmedian(km[test.label < 0]))}  # fmt: skip


def _shares(km: RealArray) -> RealArray:
    """Of all with a distance, how many are in each band; the last has no end."""
    known = km[np.isfinite(km)]
    counts, _ = np.histogram(known, [*EDGES, np.inf])
    return np.asarray(counts / max(len(known), 1))


def cells(settings: Mapping[str, Any]) -> tuple[Cell, ...]:
    return tuple(Cell.of(city, "distances") for city in settings["cities"])


def show(settings: Mapping[str, Any], cabinet: Cabinet) -> Shown:
    held = {cell.city: cabinet.values(cell) for cell in cells(settings)}
    found = {city: values for city, values in held.items() if values is not None}
    bands = [f"{low:g}–{high:g} km" for low, high in pairwise(EDGES)] + [f"over {EDGES[-1]:g} km"]
    rows = [
        (
            CITIES[city].title,
            kind,
            *(f"{100 * share:.1f} %" for share in values[kind]),
            f"{values[f'median km, {kind}']:.1f}",
        )
        for city, values in found.items()
        for kind in ("clicked", "ignored")
    ]
    columns = ("data", "places", *(f">{band}" for band in bands), ">median km")
    words = "Test records, by their distance from the home that training records gave. Ignored places are negatives "
    words += "drawn anywhere where the data have visits alone."
    drawings = [_drawing(city, values, bands) for city, values in found.items()]
    return Shown(TITLE, (words,), (Table("Distance from home", columns, tuple(rows)),), tuple(drawings))


def _drawing(city: str, values: Mapping[str, Any], bands: list[str]) -> Drawing:
    def paint(figure: "Figure") -> None:
        axes = figure.subplots()
        for at, kind in enumerate(("clicked", "ignored")):
            shares = [100 * share for share in values[kind]]
            axes.plot(range(len(bands)), shares, color=series(at), marker=marker(at), label=kind)
        axes.set_xticks(range(len(bands)), bands, rotation=40, ha="right")
        axes.set_ylabel("% of records")
        axes.set_ylim(bottom=0)
        axes.legend()

    return Drawing(f"figure4-{city}", f"Distance from home on {CITIES[city].title}", paint)


EXPERIMENT = Experiment("figure4", TITLE, cells, Sheet(count), show)
