"""Figures 4 to 6 of the paper, and harder questions to the same models."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from prirec.config import load
from prirec.data.dataset import Dataset
from prirec.engines.train import make_engine, models_of
from prirec.errors import UsageError
from prirec.evaluate.plots import marker, series
from prirec.model.scoring import mean_loss, scores
from prirec.simulate.setup import set_up
from prirec.types import RealArray
from prirec.util.geography import haversine_km
from prirec_experiments import summaries
from prirec_experiments.cities import CITIES, City
from prirec_experiments.experiment import CountCells, Experiment, Workspace
from prirec_experiments.results_store import Cell, ResultsStore, repeated
from prirec_experiments.rivals.descent import Tell, quiet
from prirec_experiments.show import Plot, Section, Table
from prirec_experiments.summaries import Average, average, average_text
from prirec_experiments.trial import TrainAndTest

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DISTANCES_TITLE = "Figure 4: distance and clicks"
EDGES = (0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 40.0)  # km


def count_distances(city: City, dataset: Dataset) -> dict[str, Any]:
    """Test records by their distance from homes that training records gave: a home that knew the visit would be drawn
    to it."""
    setup = set_up(dataset, load(changes={"preset": "rounds", **city.settings}))
    samples, location = setup.samples, setup.prepared.dataset.places.location
    if samples.home is None or location is None:
        raise UsageError(f"{city.title} has no coordinates")
    test = samples.test
    km = haversine_km(samples.home[test.person], location[test.place])
    of_kind = {"clicked": km[test.label > 0], "ignored": km[test.label < 0]}
    medians = {f"median km, {kind}": float(np.nanmedian(some)) for kind, some in of_kind.items()}
    return {kind: _shares(some).tolist() for kind, some in of_kind.items()} | medians


def _shares(km: RealArray) -> RealArray:
    """Of all with a distance, how many are in each band; the last has no end."""
    known = km[np.isfinite(km)]
    counts, _ = np.histogram(known, [*EDGES, np.inf])
    return np.asarray(counts / max(len(known), 1))


def distance_cells(settings: Mapping[str, Any]) -> tuple[Cell, ...]:
    return tuple(Cell.of(city, "distances") for city in settings["cities"])


def show_distances(settings: Mapping[str, Any], store: ResultsStore) -> Section:
    held = {cell.city: store.values(cell) for cell in distance_cells(settings)}
    found = {city: values for city, values in held.items() if values is not None}
    bands = [f"{low:g}–{high:g} km" for low, high in pairwise(EDGES)] + [f"over {EDGES[-1]:g} km"]
    rows = []
    for city, values in found.items():
        for kind in ("clicked", "ignored"):
            shares = [f"{100 * share:.1f} %" for share in values[kind]]
            rows.append((CITIES[city].title, kind, *shares, f"{values[f'median km, {kind}']:.1f}"))
    columns = ("data", "places", *(f">{band}" for band in bands), ">median km")
    words = (
        "Test records, by their distance from the home that training records gave. Ignored places are negatives drawn "
        "anywhere where the data have visits alone."
    )
    drawings = [_plot_distances(city, values, bands) for city, values in found.items()]
    return Section(DISTANCES_TITLE, (words,), (Table("Distance from home", columns, tuple(rows)),), tuple(drawings))


def _plot_distances(city: str, values: Mapping[str, Any], bands: list[str]) -> Plot:
    def paint(figure: "Figure") -> None:
        axes = figure.subplots()
        for at, kind in enumerate(("clicked", "ignored")):
            shares = [100 * share for share in values[kind]]
            axes.plot(range(len(bands)), shares, color=series(at), marker=marker(at), label=kind)
        axes.set_xticks(range(len(bands)), bands, rotation=40, ha="right")
        axes.set_ylabel("% of records")
        axes.set_ylim(bottom=0)
        axes.legend()

    return Plot(f"figure4-{city}", f"Distance from home on {CITIES[city].title}", paint)


FIGURE4 = Experiment("figure4", DISTANCES_TITLE, distance_cells, CountCells(count_distances), show_distances)


# Figure 5: training and test loss, pass after pass.


LOSSES_TITLE = "Figure 5: losses against the number of passes or rounds"
SHOWN_PASSES = (1, 2, 5, 10, 20, 50, 100)


@dataclass(frozen=True, slots=True)
class LossesByPass(TrainAndTest):
    """The test loss is looked at after every pass: only an experiment may, and nothing is chosen by it."""

    def run(self, cell: Cell, workspace: Workspace, store: ResultsStore, tell: Tell = quiet) -> None:
        _, dataset, data = workspace.city(cell.city)
        how = self.settings_of(cell, workspace)
        setup = set_up(dataset, how.settings)
        samples, losses, tests = setup.samples, list[float](), list[float]()
        motor = make_engine("local", samples, setup.settings, threads=workspace.threads)
        state = motor.start()
        for _ in range(setup.settings.iterations):
            passed = motor.advance(state)
            losses.append(passed.loss)
            models = models_of(state, samples, setup.settings)
            tests.append(mean_loss(samples.test, scores(models, samples, samples.test)))
            tell(passed.iteration, passed.loss)
        store.put(cell, how.digest(model=cell.model, data=data), {"training": losses, "test": tests})


def loss_cells(settings: Mapping[str, Any]) -> tuple[Cell, ...]:
    made = [
        Cell.of(city, model, {"iterations": settings["iterations"], "model.dimension": settings["dimension"]})
        for city in settings["cities"]
        for model in settings["models"]
    ]
    return repeated(made, settings["seeds"])


def _mean(settings: Mapping[str, Any], store: ResultsStore, cell: Cell, what: str) -> list[float]:
    held = [store.values(cell.changed(seed=seed)) for seed in settings["seeds"]]
    known = [values[what] for values in held if values is not None]
    return np.mean(known, axis=0).tolist() if known else []


def show_losses(settings: Mapping[str, Any], store: ResultsStore) -> Section:
    rows, drawings = [], []
    for city in settings["cities"]:
        lines: dict[str, tuple[list[float], list[float]]] = {}
        for cell in loss_cells({**settings, "cities": [city], "seeds": [0]}):
            training, test = (_mean(settings, store, cell, what) for what in ("training", "test"))
            if training:
                lines[cell.model] = (training, test)
                for name, line in (("training", training), ("test", test)):
                    figures = [f"{line[at - 1]:.4f}" if at <= len(line) else "–" for at in SHOWN_PASSES]
                    rows.append((CITIES[city].title, cell.model, name, *figures))
        if lines:
            drawings += [_plot_losses(city, lines, at) for at in range(2)]
    columns = ("data", "model", "loss", *(f">T = {at}" for at in SHOWN_PASSES))
    words = (
        "The mean of -ln σ(y ŷ) over records, without penalties; K = 5 and N = 30 as in the paper. A test loss that "
        "rises while the training loss falls is over-fitting. ln 2 = 0.6931 is knowing nothing."
    )
    return Section(LOSSES_TITLE, (words,), (Table("Mean loss", columns, tuple(rows)),), tuple(drawings))


def _plot_losses(city: str, lines: Mapping[str, tuple[list[float], list[float]]], at: int) -> Plot:
    what = ("training", "test")[at]

    def paint(figure: "Figure") -> None:
        axes = figure.subplots()
        for position, (model, pair) in enumerate(lines.items()):
            axes.plot(range(1, len(pair[at]) + 1), pair[at], color=series(position), label=model)
        axes.set_xscale("log")
        axes.set_xlabel("passes, or rounds")
        axes.set_ylabel(f"mean {what} loss")
        axes.legend()

    return Plot(f"figure5-{city}-{what}", f"Mean {what} loss on {CITIES[city].title}", paint)


FIGURE5 = Experiment("figure5", LOSSES_TITLE, loss_cells, LossesByPass(), show_losses)


# Figure 6: the number of neighbours N.


NEIGHBOURS_TITLE = "Figure 6: the number of neighbours"


def _neighbour_cell(city: str, model: str, N: int, settings: Mapping[str, Any]) -> Cell:
    return Cell.of(city, model, {"neighbours.count": N, "model.dimension": settings["dimension"]})


def neighbour_cells(settings: Mapping[str, Any]) -> tuple[Cell, ...]:
    made = [
        _neighbour_cell(city, model, N, settings)
        for city in settings["cities"]
        for model in settings["models"]
        for N in settings["neighbours"]
    ]
    return repeated(made, settings["seeds"])


def show_neighbours(settings: Mapping[str, Any], store: ResultsStore) -> Section:
    rows, drawings = [], []
    for city in settings["cities"]:
        lines = {
            model: [
                average(store, _neighbour_cell(city, model, N, settings), settings["seeds"])
                for N in settings["neighbours"]
            ]
            for model in settings["models"]
        }
        if any(one is not None for line in lines.values() for one in line):
            rows += [(CITIES[city].title, model, *map(average_text, line)) for model, line in lines.items()]
            drawings.append(_plot_neighbours(city, lines, settings["neighbours"]))
    columns = ("data", "model", *(f">N = {N}" for N in settings["neighbours"]))
    words = (
        "AUC of Algorithm 2 at K = 5 with 80 % for training. The paper finds it to rise with N and then to be stable; "
        "it prints no figures."
    )
    return Section(NEIGHBOURS_TITLE, (words,), (Table("AUC", columns, tuple(rows)),), tuple(drawings))


def _plot_neighbours(city: str, lines: Mapping[str, list[Average | None]], counts: list[int]) -> Plot:
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

    return Plot(f"figure6-{city}", f"AUC against N on {CITIES[city].title}", paint)


FIGURE6 = Experiment("figure6", NEIGHBOURS_TITLE, neighbour_cells, TrainAndTest(), show_neighbours)


# Beyond the paper: other questions to the same models. Later visits instead of random ones, places nearby instead of
# anywhere, and what a device knows of its person's history and home.


QUESTIONS_TITLE = "Beyond the paper: harder questions"
QUESTIONS_WORDS = (
    "A random split asks who went where, given the rest of the same days; a split by time asks where people go next. "
    "Negatives drawn from the whole catalogue are mostly far away, and distance alone tells them; those drawn from the "
    "200 places around a visited one ask for taste. NDCG and recall are of lists of ten new places near home; “AUC "
    "nearby” compares a new place with those around it. “New pairs” leaves out test records whose person and place are "
    "in a training record together: a device may remember those.",
    "“Bare” is with the paper's features: without own history, how near and how like a place is to the others that the "
    "person has visited (decisions/0019), and without the area of the home (decisions/0024). All others have both. "
    "“Popularity, private” is a noisy sum of visits alone, for the whole budget of private.",
)
QUESTION_FIGURES = {
    "ndcg": "NDCG@10", "recall": "recall@10", "auc_nearby": "AUC nearby", "gauc": "GAUC", "auc": "AUC",
    "auc_new": "AUC, new pairs", "seen": "seen pairs", "auc_few": "AUC, fewest records",
}  # fmt: skip
OPPONENT, SAME_PRICE = "FM, tuned", "popularity, private"
WITH_INTERVALS = ("ndcg", "auc")
ASKED = 1000  # people whose lists are looked at: lists are what these questions are about


@dataclass(frozen=True, slots=True)
class Question:
    """The same test for several models on one city."""

    city: str
    asks: str  # in words
    cells: Mapping[str, Cell]  # by model

    @property
    def name(self) -> str:
        return f"{self.city}: {self.asks}"


def questions_of(settings: Mapping[str, Any]) -> list[Question]:
    """A question may have models of its own."""
    return [
        Question(
            one["city"],
            one["asks"],
            {model: Cell.of(one["city"], model, one["settings"]) for model in one.get("models", settings["models"])},
        )
        for one in settings["questions"]
    ]


def question_cells(settings: Mapping[str, Any]) -> tuple[Cell, ...]:
    return repeated([cell for one in questions_of(settings) for cell in one.cells.values()], settings["seeds"])


def put_question_intervals(settings: Mapping[str, Any], store: ResultsStore) -> None:
    """Differences from popularity at the same price are in the file of results alone."""
    compared = {one.name: one.cells for one in questions_of(settings)}
    for reference in (OPPONENT, SAME_PRICE):
        summaries.put_intervals(compared, settings["seeds"], store, reference=reference)


def show_questions(settings: Mapping[str, Any], store: ResultsStore) -> Section:
    found = [(one, question_figures(one, settings["seeds"], store)) for one in questions_of(settings)]
    tables = [_question_table(one, rows, settings, store) for one, rows in found if rows]
    return Section(QUESTIONS_TITLE, QUESTIONS_WORDS, tuple(tables))


def question_figures(
    question: Question, seeds: Sequence[int], store: ResultsStore
) -> dict[str, dict[str, Average | None]]:
    """By model, then by figure: the mean over repeats. Models that were not measured are left out."""
    found = {
        model: {what: average(store, cell, seeds, what) for what in QUESTION_FIGURES}
        for model, cell in question.cells.items()
    }
    return {model: row for model, row in found.items() if any(row.values())}


def _question_table(
    question: Question, found: Mapping[str, Mapping[str, Average | None]], settings: Mapping[str, Any],
    store: ResultsStore,
) -> Table:  # fmt: skip
    """Columns without any figure are left out. Differences are from the tuned FM."""
    shown = [what for what in QUESTION_FIGURES if any(one[what] is not None for one in found.values())]
    if not any((seen := one["seen"]) is not None and seen.mean for one in found.values()):
        shown = [what for what in shown if what not in ("auc_new", "seen")]
    differences = (store.combined(summaries.stored_as(OPPONENT)) or {}).get(question.name, {})
    rows = [
        (
            model,
            *(average_text(figures[what]) for what in shown),
            *(summaries.interval_text(differences.get(model, {}).get(what)) for what in WITH_INTERVALS),
        )
        for model, figures in found.items()
    ]
    heads = [f">{QUESTION_FIGURES[what]}, difference from {OPPONENT}" for what in WITH_INTERVALS]
    columns = ("model", *(f">{QUESTION_FIGURES[what]}" for what in shown), *heads)
    title = f"{CITIES[question.city].title}: {question.asks}"
    return Table(title, columns, tuple(rows), note=_choices(question.cells, settings, store))


def _choices(cells: Mapping[str, Cell], settings: Mapping[str, Any], store: ResultsStore) -> str:
    """What was chosen for tuned models, split by split."""
    told = []
    for model, cell in cells.items():
        held = [store.values(cell.changed(seed=seed)) or {} for seed in settings["seeds"]]
        chosen = [one["chosen"] for one in held if "chosen" in one]
        if chosen:
            each = ", ".join(f"K = {one['dimension']} at {one['alpha']:g} for {one['passes']} passes" for one in chosen)
            told.append(f"{model}, chosen on held-out training records of each split: {each}.")
    return " ".join(told)


BEYOND = Experiment(
    "beyond", QUESTIONS_TITLE, question_cells, TrainAndTest(ASKED), show_questions, put_question_intervals
)
