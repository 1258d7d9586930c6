"""Quality figures, with the words that go with them."""

import math
from typing import TYPE_CHECKING

from prirec.cli.output import figure, show_table

if TYPE_CHECKING:
    from prirec.evaluate.experiment import Setup
    from prirec.evaluate.metrics import Quality
    from prirec.evaluate.ranking import RankQuality

KNOWING_NOTHING = math.log(2)  # the log loss of whoever answers one half to everything


def show_quality(quality: "Quality") -> None:
    """One model on its test records."""
    rows = [
        ("AUC", figure(quality.auc), "a visited place scores above an ignored one"),
        ("log loss", figure(quality.log_loss), "lower is better"),
        ("GAUC", figure(quality.gauc), "AUC within each person"),
        ("AUC of few", figure(quality.auc_few), "the quarter of people with fewest records"),
        ("records", f"{quality.records:,}", "in the test set"),
    ]
    show_table(("test", ">figure", "meaning"), rows)


def doubts(quality: "Quality", setup: "Setup") -> list[str]:
    """What to say about a model that misleads; why, where the split by record is known to do it (decisions/0009)."""
    if not quality.log_loss > KNOWING_NOTHING:
        return []
    told = [f"a log loss above {KNOWING_NOTHING:.4f} is worse than knowing nothing, on these test records"]
    dataset = setup.prepared.dataset
    if not dataset.labelled and setup.settings.data.split == "record":
        later = "; --set data.split=time tests on later visits instead" if dataset.visits.time is not None else ""
        told.append(
            "for visits without labels the random split by record does that to features of people (decisions/0009)"
            + later
        )
    return told


def show_ranking(ranking: "RankQuality", *, k: int, among: str) -> None:
    """One model's top k, against the new places that people went to."""
    rows = [
        (f"hit rate at {k}", figure(ranking.hit_rate), "people with a new place of theirs in the list"),
        (f"NDCG at {k}", figure(ranking.ndcg), "the same, higher in the list counts more"),
        (f"recall at {k}", figure(ranking.recall), "new places that the list holds"),
        ("people", f"{ranking.people:,}", f"asked; candidates are {among}"),
    ]
    show_table(("ranking", ">figure", "meaning"), rows)
