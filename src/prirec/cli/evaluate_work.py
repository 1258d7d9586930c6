"""A saved run and the data it was trained on, put together again."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from prirec.cli.output import busy, figure, notes, show_table
from prirec.data.folder import read_folder
from prirec.metrics import Quality, RankQuality
from prirec.simulate.saved_runs import Run, load_run, set_up_again, set_up_later
from prirec.simulate.setup import Setup


@dataclass(frozen=True, slots=True)
class Reopened:
    """The model and the city that it belongs to."""

    run: Run = field(repr=False)
    setup: Setup = field(repr=False)


def reopen(run: Path, data: Path) -> Reopened:
    """To test a run: StateError if it is damaged or the data are others; the data's notes go to stderr."""
    saved = load_run(run)
    with busy("reading the data"):
        loaded = read_folder(data)
        setup = set_up_again(loaded.dataset, saved)
    notes(loaded.notes)
    return Reopened(saved, setup)


def reopen_later(run: Path, data: Path) -> Reopened:
    """To recommend from a run: the data may have grown since it was trained."""
    saved = load_run(run)
    with busy("reading the data"):
        loaded = read_folder(data)
        setup, models = set_up_later(loaded.dataset, saved)
    notes(loaded.notes)
    return Reopened(replace(saved, linear=models.linear, latent=models.latent, people=setup.samples.keys), setup)


# Quality figures, with the words that go with them.


def show_quality(quality: Quality) -> None:
    """One model on its test records."""
    rows = [
        ("AUC", figure(quality.auc), "a visited place scores above an ignored one"),
        ("log loss", figure(quality.log_loss), "lower is better"),
        ("GAUC", figure(quality.gauc), "AUC within each person"),
        ("AUC of few", figure(quality.auc_few), "the quarter of people with fewest records"),
        ("records", f"{quality.records:,}", "in the test set"),
    ]
    show_table(("test", ">figure", "meaning"), rows)


def show_ranking(ranking: RankQuality, *, k: int, among: str) -> None:
    """One model's top k, against the new places that people went to."""
    rows = [
        (f"hit rate at {k}", figure(ranking.hit_rate), "people with a new place of theirs in the list"),
        (f"NDCG at {k}", figure(ranking.ndcg), "the same, higher in the list counts more"),
        (f"recall at {k}", figure(ranking.recall), "new places that the list holds"),
        ("people", f"{ranking.people:,}", f"asked; candidates are {among}"),
    ]
    show_table(("ranking", ">figure", "meaning"), rows)
