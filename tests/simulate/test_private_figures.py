"""Quality figures of a simulated deployment: near what only a simulation can see, and refused without a budget."""

import math
from itertools import pairwise

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from prirec.config import PRIVATE, Settings
from prirec.errors import PolicyError, UsageError
from prirec.features.samples import Records
from prirec.privacy.noise import Participants, Stream
from prirec.privacy.plan import Kind, Release, Sum, plan
from prirec.privacy.quality_figures import USUAL, QualityTerms
from prirec.simulate import private_figures as simulated
from prirec.simulate.private_figures import private_figures, quality_release, true_figures
from prirec.util.keyed_random import generator
from support import messages
from support.cities import SMALL_ROUNDS, change, samples_of, small_city


def some_records(people: int, *, most: int = 6, seed: int = 0) -> tuple[Records, np.ndarray]:
    """Test records, none for some people, and scores that know the labels a little."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, most + 1, people))])
    person = np.repeat(np.arange(people, dtype=np.int32), np.diff(offsets))
    label = np.where(rng.random(len(person)) < 0.4, 1, -1).astype(np.int8)
    records = Records(offsets, person, np.zeros_like(person), label, np.zeros((len(person), 0), dtype=np.float32))
    return records, rng.normal(label, 1.5)


def relabelled(records: Records, *, label: np.ndarray) -> Records:
    return Records(records.offsets, records.person, records.place, label, records.context)


def release_for(people: int, *, epsilon: float = 1.0, length: int = USUAL.length) -> Release:
    alone = Sum(kind=Kind.QUALITY, share=1.0, releases=1, crowd=Participants(people), sensitivity=1.0, length=length)
    return plan([alone], epsilon_per_user=epsilon).releases[0]


def test_true_figures_count_everyone_once():
    records, scores = some_records(300)
    found = true_figures(records, scores)
    own = [slice(a, b) for a, b in pairwise(records.offsets) if b > a]
    weights = np.concatenate([[1 / (records.label[one] == y).sum() for y in records.label[one]] for one in own])
    assert found.auc == pytest.approx(roc_auc_score(records.label, scores, sample_weight=weights), abs=1e-12)
    loss = np.logaddexp(0, -records.label * scores)
    assert found.log_loss == pytest.approx(np.mean([loss[one].mean() for one in own]), abs=1e-12)
    assert found.base_rate == pytest.approx(np.mean([(records.label[one] > 0).mean() for one in own]), abs=1e-12)


def test_true_auc_counts_ties_half_and_needs_both_classes():
    records, scores = some_records(50)
    assert true_figures(records, np.zeros_like(scores)).auc == 0.5
    assert math.isnan(true_figures(relabelled(records, label=np.ones_like(records.label)), scores).auc)
    nobody, _ = some_records(5, most=0)
    nothing = true_figures(nobody, np.empty(0))
    assert all(math.isnan(value) for value in (nothing.auc, nothing.log_loss, nothing.base_rate))


@pytest.mark.statistical  # seeded, so no false alarm; must notice noise left out of the errors
def test_figures_are_within_five_standard_errors_of_the_truth():
    records, scores = some_records(4000)
    found = private_figures(records, scores, release=release_for(4000), seed=1)
    for name, off in (("auc", 0.002), ("log_loss", 0.01), ("base_rate", 0.002)):  # bins, the cap, rounding
        read, true = getattr(found.read, name), getattr(found.true, name)
        assert abs(read.value - true) < 5 * read.noise + off
        assert 0 < read.noise < 0.05


def test_noise_follows_from_the_seed_and_differs_between_seeds():
    records, scores = some_records(500)
    release = release_for(500, epsilon=4.0)
    one, again, other = (private_figures(records, scores, release=release, seed=s).read.auc for s in (1, 1, 2))
    assert one == again != other


def test_blocks_of_people_give_the_same_sum(monkeypatch):
    records, scores = some_records(500)
    release = release_for(500, epsilon=4.0)
    how = {"release": release, "terms": USUAL, "there": np.arange(500) % 3 > 0}
    whole = simulated._total(records, scores, **how)
    monkeypatch.setattr(simulated, "_BLOCK", 7)
    assert (simulated._total(records, scores, **how) == whole).all()


def test_lost_devices_are_in_no_figure(monkeypatch):
    """The same sum as if the lost had no records, with the noise of the shares that are left."""
    records, scores = some_records(500)
    release, left = release_for(500, epsilon=4.0), np.arange(500) % 8 > 0
    heard = []
    monkeypatch.setattr(simulated, "read", lambda total, **how: heard.append((total, how["noise_variance"])))
    private_figures(records, scores, release=release, seed=1, left=left)
    kept = left[records.person]
    counts = np.where(left, np.diff(records.offsets), 0)
    only = Records(
        np.concatenate([[0], np.cumsum(counts)]),
        *(array[kept] for array in (records.person, records.place, records.label, records.context)),
    )
    (total, variance), shares = heard[0], release.noise()
    assert variance == shares.total_variance(int(left.sum())) < shares.total_variance(500)
    bare = simulated._total(only, scores[kept], release=release, terms=USUAL, there=np.ones(500, dtype=np.bool_))
    stream = Stream(generator(1, "quality figures").bytes(32))
    noise = shares.total(stream, survivors=int(left.sum()), count=USUAL.length)
    assert (total == bare + noise).all()
    assert (bare != simulated._total(records, scores, release=release, terms=USUAL, there=left | True)).any()


def test_with_too_few_left_no_figure_is_opened():
    records, scores = some_records(500)
    with pytest.raises(PolicyError, match=messages.devices_left_for_quality(399, devices=500)):
        private_figures(records, scores, release=release_for(500), seed=0, left=np.arange(500) < 399)
    private_figures(records, scores, release=release_for(500), seed=0, left=np.arange(500) < 400)
    with pytest.raises(UsageError, match=messages.FIGURES_NEED_ONE_SCORE):
        private_figures(records, scores, release=release_for(500), seed=0, left=np.ones(499, dtype=np.bool_))


def test_a_plan_for_others_is_refused():
    records, scores = some_records(500)
    with pytest.raises(UsageError, match=messages.PLAN_FOR_OTHER_FIGURES):
        private_figures(records, scores, release=release_for(501), seed=0)
    with pytest.raises(UsageError, match=messages.PLAN_FOR_OTHER_FIGURES):
        private_figures(records, scores, release=release_for(500, length=26), seed=0)
    with pytest.raises(UsageError, match=messages.FIGURES_NEED_ONE_SCORE):
        private_figures(records, scores[:-1], release=release_for(500), seed=0)


def test_other_bins_may_be_chosen():
    records, scores = some_records(4000)
    coarse = QualityTerms(edges=(-1.0, 0.0, 1.0))
    found = private_figures(records, scores, release=release_for(4000), seed=0, terms=coarse)
    assert len(found.read.positives) == 4
    assert found.read.auc.value == pytest.approx(found.true.auc, abs=0.06)


def test_diverged_models_and_too_few_people_are_refused():
    records, scores = some_records(200)
    with pytest.raises(UsageError, match=messages.SCORE_NOT_A_NUMBER):
        private_figures(records, np.full_like(scores, np.nan), release=release_for(200), seed=0)
    with pytest.raises(UsageError, match=messages.FIGURES_UNDER_NOISE):
        private_figures(records, scores, release=release_for(200, epsilon=0.1), seed=0)


def private(part: float) -> Settings:
    return change(PRIVATE, data={"keep": "all"}, privacy={"quality": part})


def test_settings_give_quality_no_part_of_the_budget_by_default():
    samples = samples_of(small_city(), SMALL_ROUNDS)
    with pytest.raises(PolicyError, match=messages.QUALITY_WITHOUT_A_BUDGET):
        quality_release(private(0.0), samples)
    with pytest.raises(PolicyError, match=messages.NO_BUDGET_PROMISED):
        quality_release(change(SMALL_ROUNDS, privacy={"quality": 0.1}), samples)


def test_a_part_of_the_budget_is_one_of_the_sum_of_inverse_variances():
    samples = samples_of(small_city(), SMALL_ROUNDS)
    release = quality_release(private(0.25), samples)  # beside parts that add up to 1: a fifth of the whole
    assert release.noise_multiplier == pytest.approx(4.225 * math.sqrt(5), rel=1e-3)
    assert release.of.crowd.size == len(samples.ids)
    assert release.of.length >= USUAL.length
