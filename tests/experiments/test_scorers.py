"""One door to every model: scores of test records and of candidates are of one model."""

from functools import cache
from types import ModuleType

import numpy as np
import pytest

from prirec.config import Settings
from prirec.engines.train import train
from prirec.metrics import auc
from prirec.simulate.setup import Setup, quality
from prirec_experiments.rivals.descent import Descent
from prirec_experiments.scorer import AdvisorScorer, PairScorer, PopularityModel, Scorer
from support.cities import SMALL_FM, SMALL_PAPER, SMALL_ROUNDS, change
from support.rivals import RIVALS, hamlet, ready

PRESETS = {"fm": SMALL_FM, "paper": change(SMALL_PAPER, neighbours={"count": 4}), "rounds": SMALL_ROUNDS}


@cache
def setup() -> Setup:
    return ready()


def assert_agreement(scorer: Scorer, where: Setup) -> None:
    """At the test records of everyone at places that they have not been to, whose own part nothing leaves out."""
    samples, scores, compared = where.samples, scorer.test(), 0
    assert scores.shape == (len(samples.test),)
    for person in range(len(samples.ids)):
        mine = slice(samples.train.offsets[person], samples.train.offsets[person + 1])
        been = samples.train.place[mine][samples.train.label[mine] > 0]
        rows = np.flatnonzero((samples.test.person == person) & ~np.isin(samples.test.place, been))
        compared += len(rows)
        np.testing.assert_allclose(scorer.of(person, samples.test.place[rows]), scores[rows], rtol=1e-6, atol=1e-9)
    assert compared > 20
    assert np.ptp(scores) > 0


@pytest.mark.parametrize(("rival", "settings"), RIVALS, ids=["mf", "dmf", "fm_ids"])
def test_a_rival_scores_candidates_as_it_scores_test_records(rival: ModuleType, settings: Descent) -> None:
    assert_agreement(rival.scorer(setup(), settings), setup())


@pytest.mark.parametrize("settings", PRESETS.values(), ids=PRESETS)
def test_own_models_score_candidates_as_they_score_test_records(settings: Settings) -> None:
    where = ready(hamlet(), settings)
    models = train(where.samples, where.settings).models
    scorer = AdvisorScorer.trained(where, models)
    assert_agreement(scorer, where)
    assert auc(where.samples.test.label, scorer.test()) == quality(where.samples, models).auc


def test_popularity_alone_is_the_same_for_everyone() -> None:
    counts = setup().popularity.released["visitors"]
    scorer = PairScorer(PopularityModel(counts), setup().samples.test)
    assert_agreement(scorer, setup())
    everywhere = np.arange(12, dtype=np.int32)
    np.testing.assert_array_equal(scorer.of(0, everywhere), counts)
    np.testing.assert_array_equal(scorer.of(29, everywhere), counts)
