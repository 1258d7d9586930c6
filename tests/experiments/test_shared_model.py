"""The shared model: its columns, its sums, what the recommender makes of them, and what a device learns alone."""

from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize

from prirec.config import load
from prirec.data.synthetic import CityPlan, make_city
from prirec.metrics import auc
from prirec.privacy.accountant import affordable
from prirec.simulate.setup import Setup, set_up
from prirec.util.keyed_random import generator
from prirec_experiments import shared_model
from prirec_experiments.shared_columns import Moments, PrivateColumns, fill_place, layout, place_scales
from prirec_experiments.shared_learning import (
    Devices,
    Estimate,
    Public,
    Writing,
    add_contributions,
    mode_by_columns,
    mode_by_records,
)


def _setup(name: str = "private", people: int = 600) -> Setup:
    plan = CityPlan(people=people, places=200, records=30 * people, districts=4, categories=8)
    return set_up(
        make_city(plan, generator(0, "shared model")), load(changes={"preset": name, **shared_model.FEATURES})
    )


@pytest.fixture(scope="module")
def city() -> Setup:
    return _setup()


def _parties(setup: Setup, B: np.ndarray | None = None) -> tuple[Devices, Public]:
    samples, where = setup.samples, layout(setup.encoding)
    rng = np.random.default_rng(1)
    who = np.hstack([np.ones((len(samples.ids), 1)), rng.normal(size=(len(samples.ids), 3))])
    scales = place_scales(
        samples, setup.encoding, _moments(setup)
    )  # fmt: skip
    B = np.zeros((4, where.width)) if B is None else B
    B[1:, ~np.isin(np.arange(where.width), where.crossed)] = 0
    train = samples.train
    return Devices(train.offsets, train.place, train.context, train.label, who), Public(
        samples.places, where, scales, B, -1.0
    )


def _moments(setup: Setup) -> Moments:
    private = PrivateColumns.of(setup.encoding)
    return private.read(private.vectors(setup.samples).sum(axis=0), len(setup.samples.ids))


# Columns


def test_core_columns_have_about_mean_0_and_variance_1_and_products_are_products(city: Setup) -> None:
    devices, public = _parties(city)
    rows = np.empty((len(devices.place), public.where.width))
    for r, row in enumerate(rows):
        fill_place(public.places[devices.place[r]], devices.context[r], public.where, public.scales, row)
    names = city.encoding.names()[len(city.samples.people[0]) :]
    private = slice(1 + city.samples.places.shape[1] + city.samples.popularity.shape[1], public.where.core)
    assert len(names) == public.where.core - 1
    assert (rows[:, 0] == 1).all()
    # every person weighs the same, however many records they have
    counts = np.diff(devices.offsets)
    weight = np.repeat(1 / np.maximum(counts, 1), counts) / (counts > 0).sum()
    assert np.abs(weight @ rows[:, private]).max() < 0.01
    assert np.abs(weight @ rows[:, private] ** 2 - 1).max() < 0.05
    numbers = np.clip(rows[:, public.where.numbers], -3, 3)
    at = public.where.core
    for u in range(numbers.shape[1]):
        for v in range(u, numbers.shape[1]):
            product = numbers[:, u] * numbers[:, v]
            assert np.allclose(rows[:, at], (product - 1) / sqrt(2) if u == v else product)
            at += 1
    assert public.where.width - at == len(public.where.clock) * len(public.where.words)


def test_a_device_adds_no_more_to_the_moments_than_the_norm_they_are_priced_by(city: Setup) -> None:
    private = PrivateColumns.of(city.encoding)
    vectors = private.vectors(city.samples)
    lengths = np.linalg.norm(vectors, axis=1)
    assert vectors.shape[1] == private.length
    assert (lengths <= private.norm + 1e-9).mean() > 0.99  # the rest is clipped
    assert lengths.mean() > 0.3 * private.norm  # a norm that nobody comes near to would be paid for with noise


# What devices add


def _contributions(devices: Devices, public: Public, writing: Writing, blocks: list[tuple[int, int]]) -> np.ndarray:
    total, losses = np.zeros(public.B.shape, dtype=np.int64), np.zeros(len(devices.who))
    for block in blocks:
        add_contributions(block, devices, public, writing, total, losses)
    return total


WRITING = Writing(1.0, 2.0**-12, 2**24, 0.3)


def test_sums_are_the_same_however_people_are_divided_into_blocks(city: Setup) -> None:
    devices, public = _parties(city)
    people = len(devices.who)
    whole = _contributions(devices, public, WRITING, [(0, people)])
    assert whole.any()
    assert (whole == _contributions(devices, public, WRITING, [(0, 7), (7, 100), (100, people)])).all()


def test_each_contribution_is_the_clipped_gradient_of_the_loss(city: Setup) -> None:
    B = np.random.default_rng(3).normal(0, 0.1, size=(4, layout(city.encoding).width))
    devices, public = _parties(city, B)
    for i in range(0, 40):
        rows = slice(devices.offsets[i], devices.offsets[i + 1])
        b = np.empty((devices.offsets[i + 1] - devices.offsets[i], public.where.width))
        for r, row in enumerate(b):
            at = devices.offsets[i] + r
            fill_place(public.places[devices.place[at]], devices.context[at], public.where, public.scales, row)
        a = devices.who[i]
        p = 1 / (1 + np.exp(-(public.base + b @ (a @ public.B))))
        live = np.ones_like(public.B)
        live[1:, ~np.isin(np.arange(public.where.width), public.where.crossed)] = 0
        gradient = live * np.outer(a, (p - (devices.label[rows] > 0)) @ b)
        typical = 0.3 * sqrt((live * np.multiply.outer(a**2, (b**2).sum(axis=0))).sum())
        expected = gradient / max(np.linalg.norm(gradient), typical)
        found = _contributions(devices, public, WRITING, [(i, i + 1)]) * WRITING.unit
        assert np.abs(found - expected).max() <= 1.5 * WRITING.unit
        assert (found[live == 0] == 0).all()
        assert live.sum() < live.size


def test_no_contribution_is_longer_than_its_bound_in_whole_numbers(city: Setup) -> None:
    devices, public = _parties(city)
    coarse = Writing(1.0, 2.0**-4, 2**8, 0.0)  # rounding alone would make many vectors too long
    for i in range(200):
        whole = _contributions(devices, public, coarse, [(i, i + 1)])
        assert (whole**2).sum() <= coarse.most


# What the recommender makes of sums


def _quadratic(noise: float, *, seed: int, rounds: int = 20) -> tuple[Estimate, np.ndarray, float]:
    """An estimate from noisy gradients of a quadratic loss of curvature 0.2; the first block has no signal."""
    rng = np.random.default_rng(seed)
    truth, groups = np.zeros((1, 400)), np.repeat([[0, 1]], 200, axis=1)
    truth[0, 200:] = rng.normal(size=200)
    estimate = Estimate.nothing(groups.astype(np.int32), 0.35, 5.0)
    for _ in range(rounds):
        estimate.take(0.2 * (estimate.shared - truth) + noise * rng.normal(size=truth.shape), noise)
    return estimate, truth, 0.2


def test_without_noise_the_optimum_is_found_and_the_curvature_measured() -> None:
    estimate, truth, curvature = _quadratic(0.0, seed=0)
    assert estimate.curvature == pytest.approx(curvature)
    assert np.allclose(estimate.shared, truth, atol=1e-6)


@pytest.mark.statistical  # the noise of the measured curvature is 0.004 here: off by 0.05 once in 10^30
def test_under_noise_the_curvature_is_measured_without_bias() -> None:
    found = [_quadratic(0.05, seed=seed, rounds=2)[0].curvature for seed in range(20)]
    assert abs(np.mean(found) - 0.2) < 0.02


@pytest.mark.statistical
def test_the_noise_of_the_average_is_what_the_estimate_says_and_blocks_without_signal_vanish() -> None:
    estimate, truth, _ = _quadratic(0.05, seed=4)
    errors = (estimate.average - truth)[0, 200:]
    assert 0.7 < errors.std() / sqrt(estimate.variance) < 1.3  # 200 entries: a factor of 1.3 is five deviations off
    assert np.abs(estimate.shared[0, :200]).mean() < 0.3 * np.abs(estimate.average[0, :200]).mean()
    assert np.linalg.norm(estimate.shared - truth) < np.linalg.norm(estimate.average - truth)


def test_nothing_but_noise_leaves_an_estimate_near_0() -> None:
    rng = np.random.default_rng(5)
    estimate = Estimate.nothing(np.zeros((1, 500), dtype=np.int32), 0.3, 5.0)
    for _ in range(20):
        estimate.take(0.2 * estimate.shared + 0.05 * rng.normal(size=(1, 500)), 0.05)
    assert np.linalg.norm(estimate.shared) < 0.3 * np.linalg.norm(estimate.average)


# What a device learns alone


def _problem(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, d))
    return Z, rng.normal(size=n), (rng.random(n) < 0.4).astype(float)


@given(
    n=st.integers(1, 30), d=st.integers(1, 30), precision=st.sampled_from([0.5, 10.0, 300.0]), seed=st.integers(0, 99)
)
def test_the_mode_is_the_same_found_among_records_or_among_columns(
    n: int, d: int, precision: float, seed: int
) -> None:  # fmt: skip
    Z, shared, target = _problem(n, d, seed)
    a, w = np.zeros(n), np.zeros(d)
    by_records = mode_by_records(Z @ Z.T, shared, target, precision, a)
    by_columns = mode_by_columns(Z, shared, target, precision, w)
    assert np.allclose(Z.T @ a / precision, w, atol=1e-4)
    assert by_records == pytest.approx(by_columns, abs=1e-6)


def test_the_mode_is_the_one_that_scipy_finds() -> None:
    Z, shared, target = _problem(25, 6, 7)
    w = np.zeros(6)
    mode_by_columns(Z, shared, target, 2.0, w)

    def objective(v: np.ndarray) -> float:
        scores = shared + Z @ v
        return float(np.logaddexp(0, np.where(target > 0.5, -scores, scores)).sum() + v @ v)

    assert np.allclose(minimize(objective, np.zeros(6), tol=1e-12).x, w, atol=1e-5)


def test_the_evidence_is_close_to_the_integral_for_one_column() -> None:
    Z, shared, target = _problem(12, 1, 11)

    def density(v: float) -> float:
        scores = shared + Z[:, 0] * v
        likelihood = np.exp(-np.logaddexp(0, np.where(target > 0.5, -scores, scores)).sum())
        return float(likelihood * sqrt(3.0 / (2 * np.pi)) * np.exp(-1.5 * v * v))

    found = mode_by_columns(Z, shared, target, 3.0, np.zeros(1))
    assert found == pytest.approx(log(quad(density, -6, 6)[0]), abs=0.02)


# The whole


def _auc(setup: Setup, **changes: float) -> float:
    recipe = shared_model.Recipe(**changes)
    settled = shared_model.settle(setup, recipe)
    test = settled.samples.test
    return auc(test.label, shared_model.learn(settled, recipe=recipe).scores(test))


def test_all_its_sums_are_within_the_budget(city: Setup) -> None:
    settled = shared_model.settle(city)
    private, entries = PrivateColumns.of(settled.encoding), shared_model.size(settled.encoding)
    people = len(settled.samples.ids)
    releases = shared_model.releases(
        settled.settings, shared_model.USUAL, people=people, private=private, entries=entries
    )  # fmt: skip
    popular = settled.settings.privacy.popularity
    spent = sum(release.spent.grains for release in releases)
    whole = affordable(1.0, 1e-6).grains
    assert 0.999 * whole * (1 - popular) < spent <= whole * (1 - popular) * (1 + 1e-9)


def test_it_learns_from_people_without_noise_and_nearly_as_much_with_many_people() -> None:
    assert _auc(_setup("rounds")) > 0.74
    assert _auc(_setup("private", people=3000)) > 0.70


def test_threads_change_no_bit(city: Setup) -> None:
    settled = shared_model.settle(city)
    one, two = (shared_model.learn(settled, threads=threads) for threads in (1, 2))
    assert (one.public.B == two.public.B).all()
    assert (one.coefficients == two.coefficients).all()
