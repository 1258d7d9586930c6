"""Quality figures of a simulated deployment: near what only a simulation can see, and refused without a budget."""

import math
from itertools import pairwise

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from prirec.config import PRIVATE, Settings
from prirec.engines.train import make_engine
from prirec.errors import PolicyError, UsageError
from prirec.features.samples import Records
from prirec.privacy.noise import Participants
from prirec.privacy.plan import Kind, Release, Sum, plan
from prirec.privacy.quality_figures import NO_LIST, USUAL, QualityTerms
from prirec.rounds.definition import simulated_noise
from prirec.simulate import private_figures as simulated
from prirec.simulate.private_figures import private_figures, quality_release, true_figures
from prirec.simulate.recommend import Advisor, hits_of_all, ranked
from prirec.simulate.setup import set_up
from support import messages
from support.cities import SMALL_ROUNDS, change, samples_of, small_city


def some_records(people: int, *, most: int = 6, seed: int = 0) -> tuple[Records, np.ndarray, np.ndarray]:
    """Test records, none for some people, scores that know the labels a little, and hits of a third."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, most + 1, people))])
    person = np.repeat(np.arange(people, dtype=np.int32), np.diff(offsets))
    label = np.where(rng.random(len(person)) < 0.4, 1, -1).astype(np.int8)
    records = Records(offsets, person, np.zeros_like(person), label, np.zeros((len(person), 0), dtype=np.float32))
    scores = rng.normal(label, 1.5)
    hits = np.where(np.bincount(person, label > 0, people) > 0, rng.random(people) < 1 / 3, NO_LIST).astype(np.int8)
    return records, scores, hits


def relabelled(records: Records, *, label: np.ndarray) -> Records:
    return Records(records.offsets, records.person, records.place, label, records.context)


def release_for(people: int, *, epsilon: float = 1.0, length: int = USUAL.length) -> Release:
    alone = Sum(kind=Kind.QUALITY, share=1.0, releases=1, crowd=Participants(people), sensitivity=1.0, length=length)
    return plan([alone], epsilon_per_user=epsilon).releases[0]


def seeded(seed: int) -> Settings:
    return change(PRIVATE, seed=seed)


def test_true_figures_count_everyone_once():
    records, scores, hits = some_records(300)
    found = true_figures(records, scores, hits)
    own = [slice(a, b) for a, b in pairwise(records.offsets) if b > a]
    weights = np.concatenate([[1 / (records.label[one] == y).sum() for y in records.label[one]] for one in own])
    assert found.auc == pytest.approx(roc_auc_score(records.label, scores, sample_weight=weights), abs=1e-12)
    loss = np.logaddexp(0, -records.label * scores)
    assert found.log_loss == pytest.approx(np.mean([loss[one].mean() for one in own]), abs=1e-12)
    assert found.base_rate == pytest.approx(np.mean([(records.label[one] > 0).mean() for one in own]), abs=1e-12)


def test_true_auc_counts_ties_half_and_needs_both_classes():
    records, scores, hits = some_records(50)
    assert true_figures(records, np.zeros_like(scores), hits).auc == 0.5
    assert math.isnan(true_figures(relabelled(records, label=np.ones_like(records.label)), scores, hits).auc)
    nobody, _, none = some_records(5, most=0)
    nothing = true_figures(nobody, np.empty(0), none)
    assert all(math.isnan(value) for value in (nothing.auc, nothing.log_loss, nothing.base_rate, nothing.hit_rate))


@pytest.mark.statistical  # seeded, so no false alarm; must notice noise left out of the errors
def test_figures_are_within_five_standard_errors_of_the_truth():
    records, scores, hits = some_records(4000)
    found = private_figures(records, scores, hits, release=release_for(4000), settings=seeded(1))
    for name, off in (
        ("auc", 0.002),
        ("log_loss", 0.01),
        ("base_rate", 0.002),
        ("hit_rate", 0.002),
    ):  # bins, the cap, rounding
        read, true = getattr(found.read, name), getattr(found.true, name)
        assert abs(read.value - true) < 5 * read.noise + off
        assert 0 < read.noise < 0.05


def test_noise_follows_from_the_seed_and_differs_between_seeds():
    records, scores, hits = some_records(500)
    release = release_for(500, epsilon=4.0)
    one, again, other = (
        private_figures(records, scores, hits, release=release, settings=seeded(s)).read.auc for s in (1, 1, 2)
    )
    assert one == again != other


def test_blocks_of_people_give_the_same_sum(monkeypatch):
    records, scores, hits = some_records(500)
    release = release_for(500, epsilon=4.0)
    how = {"release": release, "terms": USUAL, "there": np.arange(500) % 3 > 0}
    whole = simulated._total(records, scores, hits, **how)
    monkeypatch.setattr(simulated, "_BLOCK", 7)
    assert (simulated._total(records, scores, hits, **how) == whole).all()


def test_lost_devices_are_in_no_figure(monkeypatch):
    """The same sum as if the lost had no records, with the noise of the shares that are left."""
    records, scores, hits = some_records(500)
    release, left = release_for(500, epsilon=4.0), np.arange(500) % 8 > 0
    heard = []
    monkeypatch.setattr(simulated, "read", lambda total, **how: heard.append((total, how["noise_variance"])))
    private_figures(records, scores, hits, release=release, settings=seeded(1), left=left)
    kept = left[records.person]
    counts = np.where(left, np.diff(records.offsets), 0)
    only = Records(
        np.concatenate([[0], np.cumsum(counts)]),
        *(array[kept] for array in (records.person, records.place, records.label, records.context)),
    )
    (total, variance), shares = heard[0], release.noise()
    assert variance == shares.total_variance(int(left.sum())) < shares.total_variance(500)
    bare = simulated._total(only, scores[kept], hits, release=release, terms=USUAL, there=np.ones(500, dtype=np.bool_))
    noise = simulated_noise(
        release.wanted_whole, USUAL.length, rostered=500, survivors=int(left.sum()), settings=seeded(1),
        where=("quality",),
    )  # fmt: skip
    assert (total == bare + noise.view(np.int64)).all()
    assert (bare != simulated._total(records, scores, hits, release=release, terms=USUAL, there=left | True)).any()


def test_with_too_few_left_no_figure_is_opened():
    records, scores, hits = some_records(500)
    with pytest.raises(PolicyError, match=messages.devices_left_for_quality(399, devices=500)):
        private_figures(records, scores, hits, release=release_for(500), settings=seeded(0), left=np.arange(500) < 399)
    private_figures(records, scores, hits, release=release_for(500), settings=seeded(0), left=np.arange(500) < 400)
    with pytest.raises(UsageError, match=messages.FIGURES_NEED_ONE_SCORE):
        private_figures(
            records, scores, hits, release=release_for(500), settings=seeded(0), left=np.ones(499, dtype=np.bool_)
        )


def test_a_plan_for_others_is_refused():
    records, scores, hits = some_records(500)
    with pytest.raises(UsageError, match=messages.PLAN_FOR_OTHER_FIGURES):
        private_figures(records, scores, hits, release=release_for(501), settings=seeded(0))
    with pytest.raises(UsageError, match=messages.PLAN_FOR_OTHER_FIGURES):
        private_figures(records, scores, hits, release=release_for(500, length=USUAL.length - 1), settings=seeded(0))
    with pytest.raises(UsageError, match=messages.FIGURES_NEED_ONE_SCORE):
        private_figures(records, scores[:-1], hits, release=release_for(500), settings=seeded(0))


def test_other_bins_may_be_chosen():
    records, scores, hits = some_records(4000)
    coarse = QualityTerms(edges=(-1.0, 0.0, 1.0))
    found = private_figures(records, scores, hits, release=release_for(4000), settings=seeded(0), terms=coarse)
    assert len(found.read.positives) == 4
    assert found.read.auc.value == pytest.approx(found.true.auc, abs=0.06)


def test_diverged_models_and_too_few_people_are_refused():
    records, scores, hits = some_records(200)
    with pytest.raises(UsageError, match=messages.SCORE_NOT_A_NUMBER):
        private_figures(records, np.full_like(scores, np.nan), hits, release=release_for(200), settings=seeded(0))
    with pytest.raises(UsageError, match=messages.FIGURES_UNDER_NOISE):
        private_figures(records, scores, hits, release=release_for(200, epsilon=0.1), settings=seeded(0))


def test_hits_are_those_of_the_lists_that_a_simulation_ranks() -> None:
    """Of a city with a list for most people, of whom some have a hit."""
    setup = set_up(small_city(people=60, places=60, records=900), SMALL_ROUNDS)
    models = make_engine("local", setup.samples, setup.settings).models(
        make_engine("local", setup.samples, setup.settings).start()
    )
    advisor = Advisor.of(setup, models)
    hits, ranks = hits_of_all(advisor, k=10), ranked(advisor, people=60)
    assert np.flatnonzero(hits != NO_LIST).tolist() == ranks.person.tolist()
    assert hits[ranks.person].tolist() == ranks.hit_rate.tolist()
    assert 0 < ranks.hit_rate.mean() < 1


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
