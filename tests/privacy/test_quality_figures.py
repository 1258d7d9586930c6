"""Quality figures: nobody's vector is longer than its norm, and what is read from the noisy sum is what is there."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtri
from sklearn.metrics import log_loss, roc_auc_score

from prirec.errors import UsageError
from prirec.privacy import quality_figures
from prirec.privacy.noise import NoiseShare
from prirec.privacy.norm import Norm, clipped, within
from prirec.privacy.quality_figures import (
    BASE,
    COUNT,
    HISTOGRAM,
    LIST,
    LOSS,
    NO_LIST,
    USUAL,
    QualityFigures,
    QualityTerms,
    auc_of_bins,
    contribution,
    contributions,
    foreseen,
    read,
)
from support import messages
from support.exact_figures import chi_square_p, fresh, skellam_law
from support.hypothesis_settings import PATIENT

ODDS = 1e-9
COLLECTIONS = 12_000
FINE = Norm(1.0, 11)
LABELS = st.sampled_from([-1, 1])
SCORES = st.one_of(st.floats(-8, 8), st.floats(allow_nan=False), st.sampled_from([math.inf, -math.inf, 0.0]))


def labels_of(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int8)


Crowd = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def crowd(people: int, *, auc: float = 0.8, seed: int = 1) -> Crowd:
    """People with 0 to 8 records and calibrated normal scores: labels, scores, hits and where each person's records
    begin. A quarter of those with a positive have a hit."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 9, people))])
    label = np.where(rng.random(offsets[-1]) < 0.5, 1, -1).astype(np.int8)
    m = float(ndtri(auc)) ** 2
    scores = rng.normal(label * m, math.sqrt(2 * m))
    person = np.repeat(np.arange(people), np.diff(offsets))
    hits = np.where(np.bincount(person, label > 0, people) > 0, rng.random(people) < 0.25, NO_LIST).astype(np.int8)
    return label, scores, hits, offsets


def no_lists(offsets: np.ndarray) -> np.ndarray:
    return np.full(len(offsets) - 1, NO_LIST, dtype=np.int8)


def class_weights(label: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """1 over how many records of the same label the person has: everyone counts once in each class."""
    weights = np.empty(len(label))
    for first, last in pairwise(offsets):
        own = label[first:last]
        weights[first:last] = [1 / (own == one).sum() for one in own]
    return weights


def over_people(values: np.ndarray, offsets: np.ndarray) -> float:
    """The mean over people with records of their mean."""
    return float(np.mean([values[a:b].mean() for a, b in pairwise(offsets) if b > a]))


def without_noise(
    label: np.ndarray, scores: np.ndarray, hits: np.ndarray, offsets: np.ndarray, norm: Norm = FINE
) -> QualityFigures:
    total = contributions(label, scores, hits, offsets=offsets, norm=norm).sum(axis=0)
    return read(total, norm=norm, noise_variance=Fraction(0))


# On the device


@PATIENT
@given(
    records=st.lists(st.tuples(LABELS, SCORES), max_size=40),
    hit=st.sampled_from([None, False, True]),
    norm=st.builds(Norm, st.floats(0.1, 100), st.integers(10, 20)),
    terms=st.builds(
        QualityTerms,
        st.lists(st.floats(-9, 9), min_size=1, max_size=30, unique=True).map(lambda edges: tuple(sorted(edges))),
        st.floats(1, 50),
    ),
)
def test_no_vector_is_longer_than_its_norm_whatever_the_records(records, hit, norm, terms):
    label, scores = labels_of(*(one for one, _ in records)), np.array([score for _, score in records])
    whole = contribution(label, scores, hit=hit, norm=norm, terms=terms)
    assert whole.shape == (terms.length,)
    assert sum(q**2 for q in whole.tolist()) <= (Fraction(norm.sensitivity) * 2**norm.fraction_bits) ** 2


def test_the_longest_vector_uses_all_of_the_norm():
    """One positive and one negative, both as wrong as can be."""
    worst = contribution(labels_of(1, -1), np.array([-9.0, 9.0]), hit=False, norm=FINE)
    assert math.sqrt((worst**2).sum()) / 2048 > 0.965  # √0.94: all but the base rate's part
    assert within(worst, FINE)
    assert sum([HISTOGRAM, HISTOGRAM, LIST, COUNT, BASE, LOSS]) == pytest.approx(1.0, abs=1e-15)


def test_what_should_the_parts_be_too_long_is_shortened(monkeypatch):
    """The planted mistake: a histogram that takes twice its part."""
    monkeypatch.setattr(quality_figures, "HISTOGRAM", 2 * HISTOGRAM)
    label, scores = labels_of(1, -1), np.array([-9.0, 9.0])
    whole = contribution(label, scores, hit=True, norm=FINE)
    assert within(whole, FINE)
    unguarded = quality_figures._means(label, scores, np.array([1]), np.array([0, 2]), USUAL) * USUAL.weights() * 2048
    assert not within(np.rint(unguarded[0]).astype(np.int64), FINE)


def test_many_people_at_once_give_what_each_gives_alone():
    label, scores, hits, offsets = crowd(60)
    together = contributions(label, scores, hits, offsets=offsets, norm=FINE)
    for i, (first, last) in enumerate(pairwise(offsets)):
        own = label[first:last], scores[first:last]
        alone = contribution(*own, hit=None if hits[i] == NO_LIST else bool(hits[i]), norm=FINE)
        assert (together[i] == alone).all()
        vector = quality_figures._means(*own, hits[i : i + 1], np.array([0, last - first]), USUAL)[0]
        slowly = clipped(vector * USUAL.weights() * USUAL.reach(FINE), FINE)
        assert np.abs(slowly - alone).max() <= 1  # two orders of multiplication may round a half apart


def test_shares_are_of_a_persons_own_positives_and_negatives():
    label, scores = labels_of(1, 1, 1, 1, -1), np.array([0.1, 0.1, 9.0, 9.0, -9.0])
    shares = contribution(label, scores, hit=None, norm=FINE)[:24] / 2048 / math.sqrt(HISTOGRAM)
    assert shares[6] == shares[11] == pytest.approx(0.5, abs=2e-3)
    assert shares[12] == pytest.approx(1.0, abs=3e-3)
    assert np.count_nonzero(shares) == 3


def test_a_person_without_records_contributes_zeros():
    assert not contribution(labels_of(), np.empty(0), hit=None, norm=FINE).any()


def test_a_person_with_positives_only_contributes_no_negatives():
    whole = contribution(labels_of(1, 1), np.array([0.5, -0.5]), hit=None, norm=FINE)
    assert whole[:12].any()
    assert not whole[12:24].any()
    assert within(whole, FINE)


def test_infinite_scores_are_held_at_the_cap():
    wrong, far = (contribution(labels_of(1), np.array([s]), hit=None, norm=FINE) for s in (-math.inf, -2.6))
    assert (wrong[-1], wrong[-3]) == (far[-1], far[-3])
    right = contribution(labels_of(1), np.array([math.inf]), hit=None, norm=FINE)
    assert right[-1] < 0 < wrong[-1]


@pytest.mark.parametrize(
    ("label", "scores", "words"),
    [
        (labels_of(1, -1), [0.0, math.nan], messages.SCORE_NOT_A_NUMBER),
        (labels_of(1, 0), [0.0, 0.0], messages.LABELS_NOT_SIGNS),
        (labels_of(1, -1), [0.0], messages.SCORES_AND_LABELS_UNEVEN),
    ],
)
def test_invalid_records_are_refused(label, scores, words):
    with pytest.raises(UsageError, match=words):
        contribution(label, np.array(scores), hit=None, norm=FINE)


@pytest.mark.parametrize("hits", [[], [2], [-2], [0, 1]])
def test_what_is_no_hit_is_refused(hits):
    with pytest.raises(UsageError, match=messages.HITS_INVALID):
        contributions(labels_of(1), np.zeros(1), labels_of(*hits), offsets=np.array([0, 1]), norm=FINE)


@pytest.mark.parametrize("edges", [(), (1.0, 1.0), (2.0, 1.0), (math.nan,), (0.0, math.inf)])
def test_invalid_edges_of_bins_are_refused(edges):
    with pytest.raises(UsageError, match=messages.EDGES_OF_BINS_INVALID):
        QualityTerms(edges)


@pytest.mark.parametrize("cap", [0.9, math.inf, math.nan])
def test_a_cap_is_finite_and_leaves_room_for_a_coin(cap):
    with pytest.raises(UsageError, match=messages.LOSS_CAP_OUT_OF_RANGE):
        QualityTerms(loss_cap=cap)


def test_too_few_fraction_bits_are_refused():
    with pytest.raises(UsageError, match=messages.TOO_FEW_FRACTION_BITS):
        contribution(labels_of(1), np.array([0.0]), hit=None, norm=Norm(1.0, 2))


# Without noise


def test_auc_with_ties_counted_half_is_that_of_binned_scores():
    label, scores, hits, offsets = crowd(500)
    weights = class_weights(label, offsets)
    column = np.searchsorted(USUAL.edges, scores, side="right")
    positives, negatives = (np.bincount(column[label == y], weights[label == y], 12) for y in (1, -1))
    expected = roc_auc_score(label, column, sample_weight=weights)
    assert auc_of_bins(positives, negatives, within=0.0) == pytest.approx(expected, abs=1e-12)
    norm = Norm(1.0, 20)
    read_ones = without_noise(label, scores, hits, offsets, norm)
    assert auc_of_bins(read_ones.positives, read_ones.negatives, within=0.0) == pytest.approx(expected, abs=1e-5)
    assert read_ones.positives == pytest.approx(positives, abs=1e-3)  # in people


@pytest.mark.parametrize(
    ("auc", "off"), [(0.55, 0.009), (0.6, 0.004), (0.7, 0.001), (0.8, 0.001), (0.9, 0.001), (0.95, 0.002)]
)
def test_bins_cost_no_more_than_stated(auc, off):
    ideal = foreseen(10**6, norm=Norm(1.0, 20), noise_variance=Fraction(1), auc=auc)
    ties = auc_of_bins(ideal.positives, ideal.negatives, within=0.0)
    assert ideal.auc.value == pytest.approx(auc, abs=off)
    assert abs(ideal.auc.value - auc) < 0.6 * abs(ties - auc)  # what the correction within bins is for


def test_the_figures_are_those_of_the_records():
    label, scores, hits, offsets = crowd(3000)
    found = without_noise(label, scores, hits, offsets)
    weights = class_weights(label, offsets)
    assert found.auc.value == pytest.approx(roc_auc_score(label, scores, sample_weight=weights), abs=1.5e-3)
    assert found.log_loss.value == pytest.approx(over_people(np.logaddexp(0, -label * scores), offsets), abs=1.5e-3)
    assert found.base_rate.value == pytest.approx(over_people((label > 0) * 1.0, offsets), abs=1e-3)
    assert found.people == pytest.approx((np.diff(offsets) > 0).sum(), rel=2e-3)
    asked = hits != NO_LIST
    assert found.hit_rate.value == pytest.approx(hits[asked].mean(), abs=1e-3)
    assert found.lists == pytest.approx(asked.sum(), rel=2e-3)
    assert (found.auc.noise, found.log_loss.noise, found.hit_rate.noise) == (0, 0, 0)


def test_one_record_each_is_the_plain_log_loss_as_far_as_the_cap():
    label, scores, *_ = crowd(1000)
    scores, offsets = np.clip(scores, -2.3, 2.3), np.arange(len(label) + 1)
    found = without_noise(label, scores, no_lists(offsets), offsets)
    assert found.log_loss.value == pytest.approx(log_loss(label, 1 / (1 + np.exp(-scores))), abs=1.5e-3)


def test_rare_positives_count_as_much_as_negatives():
    """1 positive among 50 records of each person: positives still come to one a person."""
    rng = np.random.default_rng(3)
    label = np.tile(labels_of(1, *[-1] * 49), 400)
    offsets = np.arange(0, 400 * 50 + 1, 50)
    found = without_noise(label, rng.normal(label * 1.0, 1.0), no_lists(offsets), offsets)
    assert found.positives.sum() == pytest.approx(400, rel=1e-2)
    assert found.negatives.sum() == pytest.approx(400, rel=1e-2)
    assert found.base_rate.value == pytest.approx(0.02, abs=1e-3)


# With noise


@pytest.mark.statistical  # false alarm 1e-9 each; must notice that one of six shares is missing
def test_the_simulated_total_has_the_law_of_the_devices_own_vectors_added_up():
    noise, collections = NoiseShare(Fraction(12), 5, 1), 2500
    label, scores, hits, offsets = crowd(6)
    whole = contributions(label, scores, hits, offsets=offsets, norm=FINE)
    sent = np.array(
        [
            own + noise.draw(fresh(u), collections * USUAL.length).reshape(-1, USUAL.length)
            for u, own in enumerate(whole)
        ]
    )
    at_once = whole.sum(axis=0) + noise.total(fresh(), survivors=6, count=collections * USUAL.length).reshape(
        -1, USUAL.length
    )
    law = skellam_law(noise.total_variance(6), 60)
    assert chi_square_p((sent.sum(axis=0) - whole.sum(axis=0)).ravel(), law) > ODDS
    assert chi_square_p((at_once - whole.sum(axis=0)).ravel(), law) > ODDS
    silent = sent.sum(axis=0) - (sent[0] - whole[0])
    assert chi_square_p((silent - whole.sum(axis=0)).ravel(), law) < ODDS


def readings(noise: NoiseShare, *, people: int = 2000, silent: int = 0) -> tuple[QualityFigures, list[QualityFigures]]:
    """The figures without noise, and those of many collections in which some devices added none."""
    label, scores, hits, offsets = crowd(people)
    exact = contributions(label, scores, hits, offsets=offsets, norm=FINE).sum(axis=0)
    draws = noise.total(fresh(), survivors=people - silent, count=COLLECTIONS * USUAL.length).reshape(
        COLLECTIONS, USUAL.length
    )
    variance = noise.total_variance(people)
    found = [read(exact + drawn, norm=FINE, noise_variance=variance) for drawn in draws]
    return read(exact, norm=FINE, noise_variance=Fraction(0)), found


def off(found: list[QualityFigures], name: str) -> float:
    """How far the spread of a figure is from what is predicted, as a part of it."""
    values = np.array([getattr(one, name).value for one in found])
    return values.std() / float(np.mean([getattr(one, name).noise for one in found])) - 1


# false alarm 2e-9 (6 sd) a mean of 4,000 collections, 1e-8 a spread of 12,000 (4 %, 6.2 sd); must notice that three
# shares of noise in 20 are missing, which makes the spread less by 7.8 %
@pytest.mark.statistical
@pytest.mark.parametrize("sigma", [1.0, 12.0])  # of the whole sum, in units of the norm
def test_figures_are_unbiased_and_have_the_predicted_spread(sigma):
    noise = NoiseShare(Fraction(int((sigma * 2048) ** 2)), 1700, 0)
    truth, whole = readings(noise)
    _, lacking = readings(noise, silent=300)
    for name in ("auc", "log_loss", "base_rate", "hit_rate"):
        some = [getattr(one, name) for one in whole[:4000]]
        mean, error = np.mean([one.value for one in some]), np.mean([one.noise for one in some])
        assert abs(mean - getattr(truth, name).value) < 6 * error / math.sqrt(4000)
        assert abs(off(whole, name)) < 0.04
        assert off(lacking, name) < -0.04


def test_a_noisy_people_count_is_refused_with_what_to_do():
    *records, offsets = crowd(200)
    exact = contributions(*records, offsets=offsets, norm=FINE).sum(axis=0)
    with pytest.raises(UsageError, match=messages.FIGURES_UNDER_NOISE):
        read(exact, norm=FINE, noise_variance=Fraction((20 * 2048) ** 2))


def test_each_figure_that_noise_drowns_is_left_out_and_the_others_stay():
    label, scores, hits, offsets = crowd(2000)
    label[:] = 1  # nobody has a negative
    hits[:] = NO_LIST
    exact = contributions(label, scores, hits, offsets=offsets, norm=FINE).sum(axis=0)
    found = read(exact, norm=FINE, noise_variance=Fraction((4 * 2048) ** 2))
    assert found.auc is None
    assert found.hit_rate is None
    assert found.base_rate.value == pytest.approx(1.0, abs=0.05)
    loud = read(exact, norm=FINE, noise_variance=Fraction((60 * 2048) ** 2))
    assert loud.log_loss is None
    assert loud.base_rate is not None


def test_figures_stay_where_figures_can_be():
    label, offsets = np.tile(labels_of(1, -1), 1000), np.arange(0, 2001, 2)
    perfect = without_noise(
        label, label * 0.1, no_lists(offsets), offsets
    )  # neighbouring bins, where the correction overshoots
    assert perfect.auc.value == 1.0
    assert perfect.auc.sampling == 0.0


def test_a_sum_of_another_length_is_refused():
    with pytest.raises(UsageError, match=messages.entries_of_quality_figures(USUAL.length)):
        read(np.zeros(USUAL.length - 1, dtype=np.int64), norm=FINE, noise_variance=Fraction(1))


def test_what_is_foreseen_is_what_comes():
    """Before anything is spent: the errors for 2,000 people are those that a crowd then has."""
    variance = Fraction((5 * 2048) ** 2)
    label, scores, hits, offsets = crowd(2000)
    keep = np.diff(offsets) > 0
    come = read(
        contributions(label, scores, hits, offsets=offsets, norm=FINE).sum(axis=0), norm=FINE, noise_variance=variance
    )
    ahead = foreseen(int(keep.sum()), norm=FINE, noise_variance=variance)
    for name in ("log_loss", "base_rate", "auc"):
        assert getattr(ahead, name).noise == pytest.approx(getattr(come, name).noise, rel=0.15)
        assert getattr(ahead, name).value == pytest.approx(getattr(come, name).value, abs=0.03)
    with pytest.raises(UsageError, match=messages.FIGURES_UNDER_NOISE):
        foreseen(100, norm=FINE, noise_variance=Fraction((20 * 2048) ** 2))
    with pytest.raises(UsageError, match=messages.AUC_OUT_OF_RANGE):
        foreseen(100, norm=FINE, noise_variance=variance, auc=0.5)


def test_the_error_holds_what_noise_and_what_people_do():
    estimate = foreseen(1000, norm=FINE, noise_variance=Fraction(2048**2)).auc
    assert estimate.error == pytest.approx(math.hypot(estimate.noise, estimate.sampling))


@pytest.mark.statistical  # draws are seeded: no false alarm; must notice a bound that forgets that people are few
def test_another_draw_of_people_moves_the_figures_by_no_more_than_stated():
    found = [without_noise(*crowd(300, seed=seed)) for seed in range(100)]
    # a bound, which one value of a hundred may lead beyond where it is the spread itself, as it is of hits
    for name, most in (("auc", 1.0), ("log_loss", 1.0), ("base_rate", 1.0), ("hit_rate", 1.3)):
        values = np.array([getattr(one, name).value for one in found])
        assert 0.15 * getattr(found[0], name).sampling < values.std() <= most * getattr(found[0], name).sampling
