"""Tables 2 to 5 of the paper: their cells, how these are measured, and how they are shown beside its figures."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any

from prirec.config import load
from prirec.data.dataset import Dataset
from prirec.engines.train import train
from prirec.simulate.popularity import mechanism_of
from prirec.simulate.setup import Setup, set_up
from prirec_experiments import attacks, summaries
from prirec_experiments.attacks import Questions, Scene, SuccessRates
from prirec_experiments.cities import CITIES, City
from prirec_experiments.experiment import CountCells, Experiment, Workspace
from prirec_experiments.models import MODELS
from prirec_experiments.results_store import Cell, ResultsStore, repeated
from prirec_experiments.rivals.descent import Tell, quiet
from prirec_experiments.rivals.dmf import DmfSettings
from prirec_experiments.show import Section, Table
from prirec_experiments.summaries import average, average_text
from prirec_experiments.trial import TrainAndTest

TABLE_2 = {
    "Foursquare": (11_824, 13_924, 924_474, 6),
    "Koubei": (85_466, 118_598, 497_838, 89),
}  # users, items, interactions, features

# (model, K, training share) -> AUC
TABLE_4: Mapping[tuple[str, int, float], float] = {
    ("FM", 5, 0.8): 0.8152, ("PriRec-", 5, 0.8): 0.4777, ("PriRec", 5, 0.8): 0.7834,
    ("FM", 5, 0.9): 0.8106, ("PriRec-", 5, 0.9): 0.4722, ("PriRec", 5, 0.9): 0.7818,
    ("FM", 10, 0.8): 0.8145, ("PriRec-", 10, 0.8): 0.4771, ("PriRec", 10, 0.8): 0.7831,
    ("FM", 10, 0.9): 0.8098, ("PriRec-", 10, 0.9): 0.4727, ("PriRec", 10, 0.9): 0.7824,
    ("FM", 15, 0.8): 0.8131, ("PriRec-", 15, 0.8): 0.4749, ("PriRec", 15, 0.8): 0.7829,
    ("FM", 15, 0.9): 0.8083, ("PriRec-", 15, 0.9): 0.4702, ("PriRec", 15, 0.9): 0.7816,
}  # fmt: skip
TABLE_5: Mapping[tuple[str, int, float], float] = {
    ("FM", 5, 0.8): 0.7154, ("PriRec-", 5, 0.8): 0.7484, ("PriRec", 5, 0.8): 0.7605,
    ("FM", 5, 0.9): 0.7172, ("PriRec-", 5, 0.9): 0.7495, ("PriRec", 5, 0.9): 0.7695,
    ("FM", 10, 0.8): 0.7180, ("PriRec-", 10, 0.8): 0.7519, ("PriRec", 10, 0.8): 0.7633,
    ("FM", 10, 0.9): 0.7205, ("PriRec-", 10, 0.9): 0.7534, ("PriRec", 10, 0.9): 0.7713,
    ("FM", 15, 0.8): 0.7192, ("PriRec-", 15, 0.8): 0.7529, ("PriRec", 15, 0.8): 0.7643,
    ("FM", 15, 0.9): 0.7207, ("PriRec-", 15, 0.9): 0.7546, ("PriRec", 15, 0.9): 0.7720,
}  # fmt: skip


# Tables 4 and 5: every model for every K and share of training records, with the paper's figure beside ours.


OTHER_FIGURES = {
    "gauc": "GAUC", "auc_few": "AUC, fewest records", "ndcg": "NDCG@10", "recall": "recall@10", "log_loss": "log loss"
}  # fmt: skip


def accuracy_cells(settings: Mapping[str, Any]) -> tuple[Cell, ...]:
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
    """How Table 4 or 5 is shown: three tables a city, with the paper's figures beside ours."""

    title: str
    words: tuple[str, ...]
    paper: Mapping[tuple[str, int, float], float]

    def show(self, settings: Mapping[str, Any], store: ResultsStore) -> Section:
        tables: list[Table] = []
        for city in settings["cities"]:
            if models := [model for model in settings["models"] if _measured(city, model, settings, store)]:
                known = {**settings, "models": models}
                tables += [
                    self._aucs(city, known, store), _other_figures(city, known, store), _differences(city, known, store)
                ]  # fmt: skip
        return Section(self.title, self.words if _comparable(settings) else (), tuple(tables))

    def _aucs(self, city: str, settings: Mapping[str, Any], store: ResultsStore) -> Table:
        columns = [(K, share) for share in settings["shares"] for K in settings["dimensions"]]
        heads = [f">K = {K}, {100 * share:g} %" for K, share in columns]
        rows: list[tuple[str, ...]] = []
        for model in settings["models"]:
            cells = [_cell(city, model, K, share) for K, share in columns]
            rows.append((_name(model), *(average_text(average(store, cell, settings["seeds"])) for cell in cells)))
            printed = [self.paper.get((model, K, share)) for K, share in columns]
            if _comparable({"cities": [city]}) and any(value is not None for value in printed):
                rows.append((f"{model}, the paper's", *("–" if one is None else f"{one:.4f}" for one in printed)))
        note = " ".join([CITIES[city].note, *_noise_notes(city, settings, store)])
        return Table(f"AUC on {CITIES[city].title}", ("model", *heads), tuple(rows), note=note)


def _measured(city: str, model: str, settings: Mapping[str, Any], store: ResultsStore) -> bool:
    return any(store.values(cell) for cell in accuracy_cells({**settings, "cities": [city], "models": [model]}))


def _noise_notes(city: str, settings: Mapping[str, Any], store: ResultsStore) -> Iterator[str]:
    """Why a model with a budget is so far behind, where noise drowns what so few people add."""
    K, share, seed = settings["dimensions"][0], settings["shares"][0], settings["seeds"][0]
    for model in settings["models"]:
        held = store.values(_cell(city, model, K, share).changed(seed=seed)) or {}
        if words := held.get("noise_note"):
            yield f"{_name(model)}: {words}"


def _comparable(settings: Mapping[str, Any]) -> bool:
    """Whether the paper's figures mean anything beside these cities: those of the quick mode stand for nothing."""
    return any(CITIES[city].stands_for for city in settings["cities"])


def _other_figures(city: str, settings: Mapping[str, Any], store: ResultsStore) -> Table:
    K, share = settings["dimensions"][0], settings["shares"][0]
    rows = []
    for model in settings["models"]:
        cell, known = _cell(city, model, K, share), [what for what in OTHER_FIGURES if _has(model, what)]
        figures = {what: average_text(average(store, cell, settings["seeds"], what)) for what in known}
        rows.append((_name(model), *(figures.get(what, "–") for what in OTHER_FIGURES)))
    return Table(
        f"Beyond AUC on {CITIES[city].title}, K = {K}, {100 * share:g} %",
        ("model", *(f">{name}" for name in OTHER_FIGURES.values())), tuple(rows),
        note="Lists are of 10 among the matched places, for 300 people; fewest records: the quarter of people with "
        "fewest in training.",
    )  # fmt: skip


def _cell(city: str, model: str, K: int, share: float) -> Cell:
    return Cell.of(city, model, {"model.dimension": K, "data.train_share": share})


def _has(model: str, figure: str) -> bool:
    return figure != "log_loss" or MODELS[model].probabilities


def _name(model: str) -> str:
    return f"{model} (control)" if MODELS[model].control else model


def put_intervals(settings: Mapping[str, Any], store: ResultsStore) -> None:
    """Intervals at the first K and share."""
    K, share, models = settings["dimensions"][0], settings["shares"][0], settings["models"]
    compared = {city: {model: _cell(city, model, K, share) for model in models} for city in settings["cities"]}
    summaries.put_intervals(compared, settings["seeds"], store)


def _differences(city: str, settings: Mapping[str, Any], store: ResultsStore) -> Table:
    K, share = settings["dimensions"][0], settings["shares"][0]
    found = (store.combined(summaries.STORED_AS) or {}).get(city, {})
    shown = {what: name for what, name in summaries.FIGURES.items() if any(what in one for one in found.values())}
    rows = []
    for model in (one for one in settings["models"] if one in found):
        known = [found[model].get(what) if _has(model, what) else None for what in shown]
        rows.append((_name(model), *map(summaries.interval_text, known)))
    return Table(
        f"Difference from {summaries.REFERENCE} on {CITIES[city].title}, K = {K}, {100 * share:g} %",
        ("model", *(f">{name}" for name in shown.values())), tuple(rows),
        note="95 % intervals: people drawn anew 1,000 times, with all repeats together. ▲ and ▼: both ends on one side "
        "of 0. For log loss less is better.",
    )  # fmt: skip


# Table 2: what the data are, after the paper's filters.


DATA_TITLE = "Table 2: the data"
DATA_COLUMNS = ("people", "places", "records", "features")


def count_data(city: City, dataset: Dataset) -> dict[str, Any]:
    """As training sees them: filtered, with negatives, encoded."""
    setup = set_up(dataset, load(changes={"preset": "rounds", **city.settings}))
    kept, samples = setup.prepared.dataset, setup.samples
    records = len(setup.prepared.train) + len(setup.prepared.test)
    sizes = (len(kept.people), len(kept.places), records, samples.features)
    positive = sum(int((part.label > 0).sum()) for part in (setup.prepared.train, setup.prepared.test))
    return {**dict(zip(DATA_COLUMNS, sizes, strict=True)), "positive": positive / records}


def data_cells(settings: Mapping[str, Any]) -> tuple[Cell, ...]:
    return tuple(Cell.of(city, "data") for city in settings["cities"])


def show_data(settings: Mapping[str, Any], store: ResultsStore) -> Section:
    shown = TABLE_2 if _comparable(settings) else {}
    rows = [(f"{name}, the paper's", *(f"{size:,}" for size in sizes), "–", "") for name, sizes in shown.items()]
    for cell in data_cells(settings):
        if (held := store.values(cell)) is not None:
            city = CITIES[cell.city]
            figures = [f"{held[name]:,}" for name in DATA_COLUMNS]
            rows.append((city.title, *figures, f"{100 * held['positive']:.0f} %", city.stands_for or "quick mode"))
    words = (
        "Places with at least 10 visitors where only visits are known; people and places with at least 5 records where "
        "there are labels, except in the made-up city, which is as large as Koubei was after its filter."
    )
    columns = ("data", *(f">{name}" for name in DATA_COLUMNS), ">positive", "stands for")
    return Section(DATA_TITLE, (words,), (Table("After filters, with negatives", columns, tuple(rows)),))


TABLE2 = Experiment("table2", DATA_TITLE, data_cells, CountCells(count_data), show_data)


# Table 3: what each model needs, and what it gives away: measured, where the paper asserts.


ATTACKS_TITLE = "Table 3: what leaves, and what can be told from it"
ATTACKERS = {
    "recommender": "the recommender", "neighbour": "a neighbour", "everybody else": "everybody else",
    "labels": "labels read",
}  # fmt: skip
LEAKS_BY_THE_PAPER = {
    "MF": "rating", "FM": "rating and user feature", "DMF": "gradient", "PriRec-": "none", "PriRec": "none",
}  # fmt: skip
ATTACKS_WORDS = (
    "The paper says of PriRec that no private information leaks. Here every model is attacked: of two places that are "
    "equally popular, somebody has visited one; which? Guessing is right in 0.5, and every figure is how often the "
    "attacker is. What an honest but curious party sees by design is all that it uses.",
    "“Everybody else” is the strongest attacker that there is: all other people and the recommender together, who take "
    "their own contributions off an opened sum. Without noise what is left is one person's, whatever protocol took the "
    "sum; with it, ε bounds what can be told.",
)


@dataclass(frozen=True, slots=True)
class TrainAndAttack(TrainAndTest):
    """Trains a model as TrainAndTest does, then attacks it."""

    def run(self, cell: Cell, workspace: Workspace, store: ResultsStore, tell: Tell = quiet) -> None:
        _, dataset, _ = workspace.city(cell.city)
        questions = cell.get("questions", 0)
        how = self.settings_of(cell.without("questions"), workspace)
        setup = set_up(dataset, how.settings)
        asked = Questions.about(setup.samples, many=int(questions or 0), seed=how.settings.seed)
        found = _attacked(cell.model, setup, asked, own=how.own, threads=workspace.threads, tell=tell)
        store.put(cell, self.digest(cell, workspace), {**found, "questions": len(asked)})

    def digest(self, cell: Cell, workspace: Workspace) -> str:
        return f"{cell.get('questions')}-{TrainAndTest.digest(self, cell.without('questions'), workspace)}"

    def expected(self, cell: Cell, workspace: Workspace) -> float:
        training = TrainAndTest.expected(self, cell.without("questions"), workspace)
        return training + 0.1 * float(cell.get("questions", 0) or 0)


def _attacked(model: str, setup: Setup, asked: Questions, *, own: Any, threads: int, tell: Tell) -> SuccessRates:
    samples, settings = setup.samples, setup.settings
    if model == "popularity alone":
        return attacks.by_popularity(setup.popularity.released["visitors"], asked)
    if model in ("MF", "FM"):
        return attacks.by_records(samples, asked)
    if model == "DMF" and isinstance(own, DmfSettings):
        return attacks.by_gradients_of_neighbours(samples, asked, own)
    trained = train(samples, settings, threads=threads, progress=lambda passed: tell(passed.iteration, passed.loss))
    scene = Scene(setup, trained.state, asked)
    if settings.schedule == "rounds":
        return attacks.by_sums(scene)
    opened = attacks.by_single_gradients(scene)
    if not (settings.features.dynamic and mechanism_of(settings).local):
        return opened
    if settings.popularity.reporters == "those-with-a-record":
        reports = attacks.by_records(samples, asked)
    else:
        reports = attacks.by_bits(asked, epsilon=settings.popularity.epsilon_per_bit, seed=settings.seed)
    return {**opened, "recommender": max(opened["recommender"], reports["recommender"])}


def attack_cells(settings: Mapping[str, Any]) -> tuple[Cell, ...]:
    made = [
        Cell.of(city, model, {"questions": settings["questions"]})
        for city in settings["cities"]
        for model in settings["models"]
    ]
    return repeated(made, settings["seeds"])


def show_attacks(settings: Mapping[str, Any], store: ResultsStore) -> Section:
    tables = []
    for city in settings["cities"]:
        rows = []
        for model in settings["models"]:
            cell = Cell.of(city, model, {"questions": settings["questions"]})
            held = [store.values(cell.changed(seed=seed)) for seed in settings["seeds"]]
            known = [one for one in held if one is not None]
            if known:
                figures = [_rate([one for one in known if name in one], name) for name in ATTACKERS]
                rows.append((model, MODELS[model].description, LEAKS_BY_THE_PAPER.get(model, "–"), *figures))
        if rows:
            columns = ("model", "what it is", "leaks, by the paper", *(f">{name}" for name in ATTACKERS.values()))
            title = f"How often an attacker is right on {CITIES[city].title}"
            note = "± half a 95 % interval. A dash: this party sees nothing that could be used."
            tables.append(Table(title, columns, tuple(rows), note))
    return Section(ATTACKS_TITLE, ATTACKS_WORDS, tuple(tables))


def _rate(known: list[Mapping[str, Any]], name: str) -> str:
    """Over all repeats; each question is one trial."""
    if not known:
        return "–"
    rate, many = sum(float(one[name]) for one in known) / len(known), sum(int(one["questions"]) for one in known)
    return f"{rate:.3f} ± {1.96 * sqrt(max(rate * (1 - rate), 1 / many) / many):.3f}"


TABLE3 = Experiment("table3", ATTACKS_TITLE, attack_cells, TrainAndAttack(), show_attacks)


# Table 4: AUC on Foursquare.


_ON_FOURSQUARE = Accuracy(
    "Table 4: AUC on Foursquare",
    (
        "The paper's Foursquare set has 11,824 people, 13,924 places and 924,474 records with negatives; it is "
        "published by its author and is not at hand. What stands for it is said below each table.",
        "PriRec- falls below 0.5 because of the split, not because of its features: with one negative for each visit "
        "and a random split by record, who has many visits in training has few left for the test (decisions/0009).",
        "The paper's PriRec fits reports by those only who have a record for a place; who reports then tells who was "
        "there. With reports by everyone, as Eq. (6) prints it, popularity drowns in noise.",
    ),
    TABLE_4,
)
TABLE4 = Experiment("table4", _ON_FOURSQUARE.title, accuracy_cells, TrainAndTest(), _ON_FOURSQUARE.show, put_intervals)


# Table 5: AUC on Koubei.


_ON_KOUBEI = Accuracy(
    "Table 5: AUC on Koubei",
    (
        "Koubei's clicks are not public. trivago has the same kind of labels, a made-up city the same size, Yelp real "
        "geography; none of them is Koubei, and the paper's figures stand here to be seen, not to be reached.",
        "trivago: people and hotels with at least 5 impressions, then ignored hotels thinned to three a click within "
        "its session. Yelp: visits alone, with one negative each.",
    ),
    TABLE_5,
)
TABLE5 = Experiment("table5", _ON_KOUBEI.title, accuracy_cells, TrainAndTest(), _ON_KOUBEI.show, put_intervals)
