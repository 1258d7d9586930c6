"""What noisy secure sums give away, from a million runs: never more than claimed, and more for every planted mistake.

Everybody's contributions but one person's are known to the onlooker, who also has the c colluders' shares of noise, and
as few devices as may be have survived: what is left is the noise of the honest, and the person's vector in it or not.
An onlooker who adds up what is opened along that vector, each sum in units of its variance, decides best. Entries in
which the vector is 0 hold noise of their own and tell nothing: they are not drawn.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from prirec.config import PRIVATE
from prirec.features.columns import ModelSize
from prirec.privacy.accountant import Adjacency, Spent, total
from prirec.privacy.noise import Participants, Skellam
from prirec.privacy.norm import scaled
from prirec.privacy.plan import Kind, Release, plan_for
from prirec.privacy.quality_figures import USUAL, contribution
from support.audit import claimed, epsilon_at_least, excess, share_shown, shown
from support.cities import change
from support.exact_figures import fresh

CROWD = Participants(5000)  # 4,000 survive at least, 250 collude
HONEST = CROWD.survivors - CROWD.colluders
DRAWS = 1_000_000
ALONE = 1.0
DELTA = 1e-6


class Part(NamedTuple):
    """One opened sum, and what the person adds to it where that is not 0."""

    release: Release
    vector: np.ndarray


class Seen(NamedTuple):
    """The noise along the person's vectors in each run, where they move it to, and how wide it should be."""

    noise: np.ndarray
    move: float
    sd: float


def releases_for(**shares: float) -> dict[Kind, Release]:
    """ε = 1 shared out among these kinds, one release of each."""
    parts = dict.fromkeys(("popularity", "moments", "interaction", "quality"), 0.0) | shares
    settings = change(PRIVATE, iterations=1, privacy=parts | {"delta": DELTA})
    found = plan_for(settings, people=CROWD.size, pois=2000, size=ModelSize.assumed(20))
    return {release.of.kind: release for release in found.releases}


def vector_of(release: Release) -> np.ndarray:
    """Somebody with one place; moments and gradients that are far off in five entries; badly served people."""
    if release.of.kind is Kind.POPULARITY:
        return scaled(np.ones(1), release.norm)
    if release.of.kind is Kind.QUALITY:
        labels, scores = np.array([1, -1], dtype=np.int8), np.array([-5.0, 5.0])
        whole = contribution(labels, scores, hit=False, norm=release.norm, terms=USUAL)
        return whole[whole != 0]
    return scaled(np.array([3.0, -1.0, 0.5, 2.0, -1.5]), release.norm)


def parts_for(**shares: float) -> list[Part]:
    return [Part(release, vector_of(release)) for release in releases_for(**shares).values()]


def drawn(release: Release, runs: int, entries: int) -> np.ndarray:
    """What the honest leave, by the law that simulations use."""
    share = release.noise()
    left = replace(share, survivors=HONEST, colluders=0)
    assert left.variance == share.variance
    return left.total(fresh(), survivors=HONEST, count=runs * entries).reshape(runs, entries)


def missing(release: Release, runs: int, entries: int, *, adding: int, planned: Participants = CROWD) -> np.ndarray:
    """What is left where only so many add their shares, and these are sized for another crowd."""
    law = Skellam(release.noise(planned).variance * adding)
    return law.draw(fresh(), runs * entries).reshape(runs, entries)


def seen_in(parts: Sequence[Part], draw=drawn, **mistake) -> Seen:
    runs = DRAWS // max(len(vector) for _, vector in parts)
    variances = [float(release.noise().variance * HONEST) for release, _ in parts]
    along = [draw(release, runs, len(vector), **mistake) @ vector for release, vector in parts]
    squares = [float(vector @ vector) / variance for (_, vector), variance in zip(parts, variances, strict=True)]
    noise = sum(one / variance for one, variance in zip(along, variances, strict=True))
    return Seen(noise, sum(squares), math.sqrt(sum(squares)))


def cost(parts: Sequence[Part]) -> Spent:
    return total(release.each for release, _ in parts)


CASES = {
    "popularity": {"popularity": ALONE},
    "moments": {"moments": ALONE},
    "gradients": {"interaction": ALONE},
    "quality figures": {"quality": ALONE},
    "popularity and moments": {"popularity": 0.7, "moments": 0.3},
    "all four": {"popularity": 0.4, "moments": 0.2, "interaction": 0.2, "quality": 0.2},
}


@cache
def honest(name: str) -> tuple[Seen, Spent]:
    parts = parts_for(**CASES[name])
    return seen_in(parts), cost(parts)


@pytest.mark.parametrize("name", CASES)
def test_the_budget_of_every_case_is_one(name):
    spent = cost(parts_for(**CASES[name]))
    assert 0.999 < spent.loss(DELTA).epsilon <= 1
    assert 2 < spent.loss(DELTA, Adjacency.REPLACE_ONE).epsilon < 2.2


@pytest.mark.statistical  # false alarm 2e-8 a case; must notice the mistakes below, and a claim twice as large
@pytest.mark.parametrize("name", CASES)
def test_a_contribution_or_none_shows_no_more_than_claimed(name):
    seen, spent = honest(name)
    found, claim = shown(seen.noise, move=seen.move, sd=seen.sd), claimed(spent)
    assert excess(found, claim) <= 0
    assert share_shown(found, claim) > 0.6  # 12 sd below what is shown: the claim is not far off


@pytest.mark.statistical  # false alarm 2e-8 a case; must notice that only ε was claimed between any two contributions
@pytest.mark.parametrize("name", ["moments", "gradients", "popularity and moments"])
def test_a_contribution_or_its_opposite_shows_no_more_than_claimed_between_any_two(name):
    seen, spent = honest(name)
    found = shown(seen.noise, move=2 * seen.move, sd=seen.sd)
    claim = claimed(spent, Adjacency.REPLACE_ONE)
    assert excess(found, claim) <= 0
    assert share_shown(found, claim) > 0.7
    assert excess(found, claimed(spent)) > 0.1


# Planted mistakes


def as_planted(draw=drawn, *, longer: float = 1.0, **mistake) -> dict[float, float]:
    seen = seen_in(parts_for(popularity=ALONE), draw, **mistake) if mistake else honest("popularity")[0]
    return shown(seen.noise, move=longer * seen.move, sd=seen.sd)


@pytest.mark.statistical  # half the noise is 0.125 above the claim, with an sd of 0.003
def test_half_of_the_shares_missing_is_noticed():
    assert excess(as_planted(missing, adding=HONEST // 2), claimed(honest("popularity")[1])) > 0.05


@pytest.mark.statistical  # it is 0.48 above the claim, and at 1.22 instead of 1 for δ = 1e-6, both with an sd of 0.01
def test_a_vector_twice_as_long_is_noticed_even_at_the_delta_of_the_plan():
    found = as_planted(longer=2.0)
    assert excess(found, claimed(honest("popularity")[1])) > 0.3
    assert found[DELTA] > 1.0


@pytest.mark.statistical  # three quarters of the noise are 0.024 above the claim, with an sd of 0.001
def test_shares_sized_as_if_nobody_were_lost_or_colluded_are_noticed():
    everyone = Participants(CROWD.size, lost=0.0, corrupt=0.0)
    found = as_planted(missing, adding=HONEST, planned=everyone)
    assert excess(found, claimed(honest("popularity")[1])) > 0.0


@pytest.mark.statistical  # false alarm 2e-8; must notice the same noise in both
def test_noise_that_serves_twice_is_noticed_in_the_difference_of_two_sums():
    """Two rounds of moments at half the price each, in which a person is far off one way, and then the other."""
    release = releases_for(moments=0.5, quality=0.5)[Kind.MOMENTS]
    vector = vector_of(release)
    runs, claim = DRAWS // len(vector), claimed(Spent(2 * release.each.grains))
    first, second = (drawn(release, runs, len(vector)) @ vector for _ in range(2))
    square = float(vector @ vector)
    wide = math.sqrt(2 * square * float(release.noise().variance * HONEST))
    fresh_noise = shown(first - second, move=2 * square, sd=wide)
    assert excess(fresh_noise, claim) <= 0
    assert share_shown(fresh_noise, claim) > 0.6
    there, not_there = (first + square) - (first - square), first - first
    assert epsilon_at_least(there > 0, not_there > 0, delta=DELTA) > 9


# Noise that is not whole, or not all of whose whole numbers can come out


def by_residue(here: np.ndarray, there: np.ndarray, modulus: int) -> float:
    """The most that the remainder of what is opened shows."""
    rests = here % modulus, there % modulus
    return max(epsilon_at_least(rests[0] == r, rests[1] == r, delta=DELTA) for r in range(modulus))


@pytest.mark.statistical  # false alarm 3e-8; must notice noise in units 16 times as coarse, and a vector not rounded
def test_the_last_bits_of_a_noisy_sum_tell_nothing():
    release = releases_for(popularity=ALONE)[Kind.POPULARITY]
    vector = scaled(np.ones(3), release.norm)
    runs = DRAWS // 4
    noise = drawn(release, runs, 1)[:, 0]
    assert noise.dtype == np.int64
    assert vector[0] % 16
    assert by_residue(noise + vector[0], noise, 16) < 0.01
    coarse = noise // 16 * 16
    assert by_residue(coarse + vector[0], coarse, 16) > 9
    unrounded = 2.0**release.norm.fraction_bits / math.sqrt(3)
    assert epsilon_at_least((noise + unrounded) % 1 > 0, noise % 1.0 > 0, delta=DELTA) > 9


@pytest.mark.statistical  # odds as above; must notice noise in floating point, whose last bits depend on its size
def test_noise_in_floating_point_is_noticed_by_its_last_bits():
    release = releases_for(popularity=ALONE)[Kind.POPULARITY]
    rng, one = np.random.default_rng(), float(vector_of(release)[0])
    floats = rng.normal(0.0, math.sqrt(release.wanted), DRAWS // 4)

    def fine(opened: np.ndarray) -> np.ndarray:
        """Near 0 but no multiple of the last bit of one / 2: noise near - one is a multiple of it."""
        return (np.abs(opened) < one / 4) & (np.fmod(opened, np.spacing(one / 2)) != 0)

    assert epsilon_at_least(fine(floats), fine(floats + one), delta=DELTA) > 5
    whole = drawn(release, DRAWS // 4, 1)[:, 0].astype(float)
    assert not fine(whole).any()
    assert not fine(whole + one).any()
