"""What the README claims beside its generated tables, held to experiments/results/beyond.json."""

import re

import pytest

import accuracy
from support.pages import ROOT

README = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
FOUND = accuracy.found()
OPPONENT, OURS = "FM, tuned", "PriRec, private"
YELP = "yelp: records at random, negatives anywhere"


def mean(question: str, model: str, figure: str = "auc") -> float:
    average = FOUND[question][model][figure]
    assert average is not None
    assert average.repeats == 3
    return average.mean


@pytest.mark.parametrize("question", accuracy.AT_RANDOM)
def test_every_figure_of_the_table_is_a_mean_of_three_splits(question: str) -> None:
    assert all(0.5 < mean(question, model) < 1 for model in accuracy.MODELS)


def test_the_price_of_privacy_on_yelp_is_what_the_first_screen_says() -> None:
    (said,) = re.findall(r"On Yelp that costs (0\.\d{3}) of AUC", README)
    assert said == f"{mean(YELP, OPPONENT) - mean(YELP, OURS):.3f}"
