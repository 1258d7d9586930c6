"""Figure 5: training and test loss, pass after pass."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from prirec.engines.state import start
from prirec.engines.training import make_engine
from prirec.evaluate.experiment import set_up
from prirec.evaluate.reporting.drawing import series
from prirec.experiments.cabinet import Cabinet
from prirec.experiments.cells import Cell, repeated
from prirec.experiments.cities import CITIES
from prirec.experiments.contest import Contest
from prirec.experiments.experiment import Experiment, Workshop
from prirec.experiments.rivals.passes import Tell, quiet
from prirec.experiments.shown import Drawing, Shown, Table
from prirec.model.scoring import mean_loss, scores

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Figure 5: losses against the number of passes or rounds"
LOOKS = (1, 2, 5, 10, 20, 50, 100)


@dataclass(frozen=True, slots=True)
class Course(Contest):
    """The test loss is looked at after every pass: only an experiment may, and nothing is chosen by it."""

    def run(self, cell: Cell, workshop: Workshop, cabinet: Cabinet, tell: Tell = quiet) -> None:
        _, dataset, data = workshop.city(cell.city)
        how = self.chosen(cell, workshop)
        setup = set_up(dataset, how.settings)
        samples, state = setup.samples, start(setup.samples, setup.settings)
        motor = make_engine("local", samples, setup.settings, threads=workshop.threads)
        losses, tests = [], []
        for _ in range(setup.settings.iterations):
            passed = motor.advance(state)
            losses.append(passed.loss)
            tests.append(mean_loss(samples.test, scores(state.models, samples, samples.test)))
            tell(passed.iteration, passed.loss)
        cabinet.put(cell, how.digest(model=cell.model, data=data), {"training": losses, "test": tests})


def cells(settings: Mapping[str, Any]) -> tuple[Cell, ...]:
    made = [
        Cell.of(city, model, {"iterations": settings["iterations"], "model.dimension": settings["dimension"]})
        for city in settings["cities"]
        for model in settings["models"]
    ]
    return repeated(made, settings["seeds"])


def _mean(settings: Mapping[str, Any], cabinet: Cabinet, cell: Cell, what: str) -> list[float]:
    held = [cabinet.values(cell.changed(seed=seed)) for seed in settings["seeds"]]
    known = [values[what] for values in held if values is not None]
    return np.mean(known, axis=0).tolist() if known else []


def show(settings: Mapping[str, Any], cabinet: Cabinet) -> Shown:
    rows, drawings = [], []
    for city in settings["cities"]:
        lines: dict[str, tuple[list[float], list[float]]] = {}
        for cell in (one for one in cells({**settings, "cities": [city], "seeds": [0]})):
            training, test = (_mean(settings, cabinet, cell, what) for what in ("training", "test"))
            if training:
                lines[cell.model] = (training, test)
                for name, line in (("training", training), ("test", test)):
                    figures = [f"{line[at - 1]:.4f}" if at <= len(line) else "–" for at in LOOKS]
                    rows.append((CITIES[city].title, cell.model, name, *figures))
        if lines:
            drawings += [_drawing(city, lines, at) for at in range(2)]
    columns = ("data", "model", "loss", *(f">T = {at}" for at in LOOKS))
    words = (
        "The mean of -ln σ(y ŷ) over records, without penalties; K = 5 and N = 30 as in the paper. A test loss that "
    )
    words += "rises while the training loss falls is over-fitting. ln 2 = 0.6931 is knowing nothing."
    return Shown(TITLE, (words,), (Table("Mean loss", columns, tuple(rows)),), tuple(drawings))


def _drawing(city: str, lines: Mapping[str, tuple[list[float], list[float]]], at: int) -> Drawing:
    what = ("training", "test")[at]

    def paint(figure: "Figure") -> None:
        axes = figure.subplots()
        for position, (model, pair) in enumerate(lines.items()):
            axes.plot(range(1, len(pair[at]) + 1), pair[at], color=series(position), label=model)
        axes.set_xscale("log")
        axes.set_xlabel("passes, or rounds")
        axes.set_ylabel(f"mean {what} loss")
        axes.legend()

    return Drawing(f"figure5-{city}-{what}", f"Mean {what} loss on {CITIES[city].title}", paint)


EXPERIMENT = Experiment("figure5", TITLE, cells, Course(), show)
