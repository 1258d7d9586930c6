"""Figure 6: the number of neighbours N, or in rounds the size of a cohort."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from prirec.evaluate.reporting.drawing import marker, series
from prirec.experiments.averages import Average, average, told
from prirec.experiments.cabinet import Cabinet
from prirec.experiments.cells import Cell, repeated
from prirec.experiments.cities import CITIES
from prirec.experiments.contest import Contest
from prirec.experiments.experiment import Experiment
from prirec.experiments.shown import Drawing, Shown, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Figure 6: the number of neighbours"


def _cell(city: str, model: str, N: int, settings: Mapping[str, Any]) -> Cell:
    return Cell.of(city, model, {"neighbours.count": N, "model.dimension": settings["dimension"]})


def cells(settings: Mapping[str, Any]) -> tuple[Cell, ...]:
    made = [
        _cell(city, model, N, settings)
        for city in settings["cities"]
        for model in settings["models"]
        for N in settings["neighbours"]
    ]
    return repeated(made, settings["seeds"])


def show(settings: Mapping[str, Any], cabinet: Cabinet) -> Shown:
    rows, drawings = [], []
    for city in settings["cities"]:
        lines = {
            model: [
                average(cabinet, _cell(city, model, N, settings), settings["seeds"]) for N in settings["neighbours"]
            ]
            for model in settings["models"]
        }
        if any(one is not None for line in lines.values() for one in line):
            rows += [(CITIES[city].title, model, *map(told, line)) for model, line in lines.items()]
            drawings.append(_drawing(city, lines, settings["neighbours"]))
    columns = ("data", "model", *(f">N = {N}" for N in settings["neighbours"]))
    words = "AUC of Algorithm 2 at K = 5 with 80 % for training. The paper finds it to rise with N and then to be "
    words += "stable; it prints no figures."
    return Shown(TITLE, (words,), (Table("AUC", columns, tuple(rows)),), tuple(drawings))


def _drawing(city: str, lines: Mapping[str, list[Average | None]], counts: list[int]) -> Drawing:
    def paint(figure: "Figure") -> None:
        axes = figure.subplots()
        for position, (model, line) in enumerate(lines.items()):
            known = [(N, one) for N, one in zip(counts, line, strict=True) if one is not None]
            axes.errorbar(
                [N for N, _ in known], [one.mean for _, one in known], yerr=[one.spread or 0.0 for _, one in known],
                color=series(position), marker=marker(position), label=model, capsize=3,
            )  # fmt: skip
        axes.set_xlabel("neighbours N")
        axes.set_ylabel("AUC")
        axes.legend()

    return Drawing(f"figure6-{city}", f"AUC against N on {CITIES[city].title}", paint)


EXPERIMENT = Experiment("figure6", TITLE, cells, Contest(), show)
