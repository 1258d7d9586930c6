"""The tables of the README: what `prirec reproduce beyond` has found (experiments/results/beyond.json), in few figures.

Means of the repeats, each a split of its own.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from prirec_experiments.figures import BEYOND, question_figures, questions_of
from prirec_experiments.results_store import ResultsStore
from prirec_experiments.summaries import Average

RESULTS = Path(__file__).parent.parent / "experiments" / "results"
FIGURES = Mapping[str, Mapping[str, Average | None]]  # by model, then by figure
LABELS = {
    "FM, tuned": "centralised FM, tuned, with every feature; sees everyone's raw data",
    "FM, tuned, bare": "centralised FM, tuned, with the paper's features",
    "PriRec, private": "**PriRec, `private`: ε = 1 for each person in total**",
    "PriRec, private, 10 % lost": "PriRec, `private`, 10 % of the devices lost",
    "PriRec, rounds": "PriRec, `rounds`, no noise",
    "popularity alone": "popularity alone, exact counts",
    "popularity, private": "popularity alone, ε = 1",
}
AT_RANDOM = {
    "yelp: records at random, negatives anywhere": "Yelp",
    "new york: records at random, negatives anywhere": "New York",
    "tokyo: records at random, negatives anywhere": "Tokyo",
    "trivago: lists kept whole": "trivago",
    "demo: records at random": "demo city",
}
NEAR_HOME = {
    "yelp: records at random, negatives anywhere": "Yelp",
    "new york: records at random, negatives anywhere": "New York",
    "demo: records at random": "demo city",
    "tokyo: records at random, negatives anywhere": "Tokyo, of all places",
}
MODELS = tuple(LABELS)[:6]
LISTS = ("FM, tuned", "PriRec, private", "PriRec, rounds", "popularity alone", "popularity, private")


def accuracy() -> str:
    """AUC of each model in each city."""
    return "\n".join(_rows(AT_RANDOM, MODELS, ("auc",), "AUC"))


def ranking() -> str:
    """Lists among the places near home, and the order within a person."""
    return "\n".join(_rows(NEAR_HOME, LISTS, ("ndcg", "gauc"), "NDCG@10 / GAUC"))


def found() -> dict[str, FIGURES]:
    """By the name of the question."""
    settings, store = BEYOND.settings(quick=False), ResultsStore(RESULTS, BEYOND.name)
    return {one.name: question_figures(one, settings["seeds"], store) for one in questions_of(settings)}


def _rows(cities: Mapping[str, str], models: Sequence[str], figures: Sequence[str], head: str) -> list[str]:
    known = found()

    def cell(question: str, model: str) -> str:
        shown = [known[question].get(model, {}).get(figure) for figure in figures]
        return " / ".join("–" if one is None else f"{one.mean:.3f}" for one in shown)

    return [
        f"| {head} | {' | '.join(cities.values())} |",
        "|---" * (len(cities) + 1) + "|",
        *(f"| {LABELS[model]} | {' | '.join(cell(question, model) for question in cities)} |" for model in models),
    ]
