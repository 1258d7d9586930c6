"""The tuned FM: chosen on training records alone, the same for any number of threads, with everyone's features."""

import math
from dataclasses import replace

import numpy as np
import pytest

import prirec
from prirec.config import Settings, load
from prirec.data.dataset import Dataset
from prirec.data.prepare import by_time
from prirec.metrics import auc
from prirec.model.scoring import scores
from prirec.simulate.compare import TUNED, contender
from prirec.simulate.setup import run, set_up, set_up_validation
from prirec.simulate.tuned_fm import EARLY, tune


@pytest.fixture(scope="module")
def city() -> Dataset:
    return prirec.make_city(people=400, seed=3).dataset


def settings(**changes: object) -> Settings:
    return contender(TUNED, changes={"data.split": "time", **changes}).settings


def test_what_is_chosen_has_the_figure_that_it_claims_on_held_out_training_records(city: Dataset) -> None:
    found = tune(city, settings())
    samples = set_up_validation(city, found.settings).samples
    outcome = run(set_up_validation(city, found.settings))
    again = auc(samples.test.label, scores(outcome.trained.models, samples, samples.test))
    assert found.auc == again
    assert len(outcome.trained.history) == found.settings.iterations
    plain = run(set_up_validation(city, load(changes={"preset": "fm", "data.split": "time"})))
    assert found.auc > plain.quality.auc  # the paper's K = 5, on the same records


def test_labels_of_test_records_change_nothing(city: Dataset) -> None:
    """The latest fifth of everyone's records is the test: with its labels turned around, the same settings are chosen,
    by the same AUC."""
    kept = settings(**{"data.keep": "all"})
    known = by_time(city.visits, train_share=kept.data.train_share)
    spoilt = city.with_visits(replace(city.visits, label=np.where(known, city.visits.label, -city.visits.label)))
    assert set_up(spoilt, kept).samples.test.label.sum() == -set_up(city, kept).samples.test.label.sum() != 0
    assert tune(spoilt, kept) == tune(city, kept)


def test_any_number_of_threads_chooses_the_same(city: Dataset) -> None:
    assert tune(city, settings(), threads=1) == tune(city, settings(), threads=3)


def test_iterations_are_the_most_passes(city: Dataset) -> None:
    assert tune(city, settings(iterations=2)).settings.iterations <= 2 < EARLY


def test_it_has_the_features_that_the_settings_name(city: Dataset) -> None:
    plain, wide = (tune(city, settings(**{"features.own_history": own, "iterations": 1})) for own in (False, True))
    assert wide.settings.features.own_history
    features = [set_up(city, one.settings).samples.features for one in (plain, wide)]
    assert features[1] > features[0]


def test_with_one_class_held_out_the_settings_stay_as_they_are(city: Dataset) -> None:
    clicks = city.with_visits(city.visits.take(city.visits.label > 0))
    found = tune(clicks, settings(iterations=2))
    assert found.settings == settings(iterations=2)
    assert math.isnan(found.auc)


def test_a_comparison_trains_what_was_chosen_and_says_so(city: Dataset) -> None:
    found = prirec.compare(prirec.City.of(city), [TUNED, "popularity"], data={"split": "time"})
    chosen = tune(city, settings())
    tuned = found.entries[0]
    assert tuned.chosen == chosen
    assert tuned.contender.settings == chosen.settings
    assert found.table[0]["chosen"] == chosen.to_dict()
    assert chosen.words in repr(found)
    assert found[TUNED].quality == run(set_up(city, chosen.settings)).quality
    np.testing.assert_equal(found.table[1]["chosen"], None)
