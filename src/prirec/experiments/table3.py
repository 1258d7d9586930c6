"""Table 3: what each model needs, and what it gives away: measured, where the paper asserts."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any

from prirec.engines.training import train
from prirec.evaluate.experiment import Setup, set_up
from prirec.experiments import attacks
from prirec.experiments.attacks import Found, Scene
from prirec.experiments.cabinet import Cabinet
from prirec.experiments.cells import Cell, repeated
from prirec.experiments.cities import CITIES
from prirec.experiments.contest import Contest
from prirec.experiments.entrants import ENTRANTS
from prirec.experiments.experiment import Experiment, Workshop
from prirec.experiments.questions import Questions
from prirec.experiments.rivals.dmf import DmfSettings
from prirec.experiments.rivals.passes import Tell, quiet
from prirec.experiments.shown import Shown, Table

TITLE = "Table 3: what leaves, and what can be told from it"
COLUMNS = {
    "recommender": "the recommender", "neighbour": "a neighbour", "everybody else, by V": "everybody else, by V",
    "everybody else, by W": "everybody else, by W", "labels": "labels read",
}  # fmt: skip
PAPER = {
    "MF": "rating", "FM": "rating and user feature", "DMF": "gradient", "PriRec-": "none", "PriRec": "none",
}  # fmt: skip
WORDS = (
    "The paper says of PriRec that no private information leaks. Here every model is attacked: of two places that are "
    "equally popular, somebody has visited one; which? Guessing is right in 0.5, and every figure is how often the "
    "attacker is. What an honest but curious party sees by design is all that it uses.",
    "“Everybody else” is the strongest attacker that there is: all other people and the recommender together, who take "
    "their own contributions off an opened sum. Without noise what is left is one person's, whatever protocol took the "
    "sum; with it, ε bounds what can be told.",
)


@dataclass(frozen=True, slots=True)
class Attacked(Contest):
    """Trains as a contest does, then attacks."""

    def run(self, cell: Cell, workshop: Workshop, cabinet: Cabinet, tell: Tell = quiet) -> None:
        _, dataset, _ = workshop.city(cell.city)
        questions = cell.get("questions", 0)
        how = self.chosen(cell.without("questions"), workshop)
        setup = set_up(dataset, how.settings)
        asked = Questions.about(setup.samples, many=int(questions or 0), seed=how.settings.seed)
        found = _attacked(cell.model, setup, asked, own=how.own, threads=workshop.threads, tell=tell)
        cabinet.put(cell, self.digest(cell, workshop), {**found, "questions": len(asked)})

    def digest(self, cell: Cell, workshop: Workshop) -> str:
        return f"{cell.get('questions')}-{Contest.digest(self, cell.without('questions'), workshop)}"

    def expected(self, cell: Cell, workshop: Workshop) -> float:
        return Contest.expected(self, cell.without("questions"), workshop) + 0.1 * float(cell.get("questions", 0) or 0)


def _attacked(model: str, setup: Setup, asked: Questions, *, own: Any, threads: int, tell: Tell) -> Found:
    samples, settings = setup.samples, setup.settings
    if model == "popularity alone":
        return attacks.by_popularity(setup.popularity.released["visitors"], asked)
    if model in ("MF", "FM"):
        return attacks.by_records(samples, asked)
    if model == "DMF" and isinstance(own, DmfSettings):
        return attacks.by_gradients_of_neighbours(samples, asked, own)
    trained = train(samples, settings, threads=threads, tell=lambda passed: tell(passed.iteration, passed.loss))
    scene = Scene(setup, trained.state, asked)
    if settings.schedule == "rounds":
        return attacks.by_sums(scene)
    opened = attacks.by_single_gradients(scene)
    if settings.popularity.mechanism != "randomized-response" or not settings.features.dynamic:
        return opened
    if settings.popularity.reporters == "those-with-a-record":
        reports = attacks.by_records(samples, asked)
    else:
        reports = attacks.by_bits(asked, epsilon=settings.popularity.epsilon_per_bit, seed=settings.seed)
    return {**opened, "recommender": max(opened["recommender"], reports["recommender"])}


def cells(settings: Mapping[str, Any]) -> tuple[Cell, ...]:
    made = [
        Cell.of(city, model, {"questions": settings["questions"]})
        for city in settings["cities"]
        for model in settings["models"]
    ]
    return repeated(made, settings["seeds"])


def show(settings: Mapping[str, Any], cabinet: Cabinet) -> Shown:
    tables = []
    for city in settings["cities"]:
        rows = []
        for model in settings["models"]:
            cell = Cell.of(city, model, {"questions": settings["questions"]})
            held = [cabinet.values(cell.changed(seed=seed)) for seed in settings["seeds"]]
            known = [one for one in held if one is not None]
            if known:
                figures = [_rate([one for one in known if name in one], name) for name in COLUMNS]
                rows.append((model, ENTRANTS[model].says, PAPER.get(model, "–"), *figures))
        if rows:
            columns = ("model", "what it is", "leaks, by the paper", *(f">{name}" for name in COLUMNS.values()))
            title = f"How often an attacker is right on {CITIES[city].title}"
            note = "± half a 95 % interval. A dash: this party sees nothing that could be used."
            tables.append(Table(title, columns, tuple(rows), note))
    return Shown(TITLE, WORDS, tuple(tables))


def _rate(known: list[Mapping[str, Any]], name: str) -> str:
    """Over all repeats; each question is one trial."""
    if not known:
        return "–"
    rate, many = sum(float(one[name]) for one in known) / len(known), sum(int(one["questions"]) for one in known)
    return f"{rate:.3f} ± {1.96 * sqrt(max(rate * (1 - rate), 1 / many) / many):.3f}"


EXPERIMENT = Experiment("table3", TITLE, cells, Attacked(), show)
