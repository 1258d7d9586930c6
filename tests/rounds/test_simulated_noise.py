"""Simulated noise: the law of the survivors' shares, fresh for every sum of a run, and none where none is wanted."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from prirec.config import Settings
from prirec.engines.plain import Sums
from prirec.errors import PolicyError, UsageError
from prirec.privacy.noise import NoiseShare
from prirec.privacy.plan import participants
from prirec.protocols.terms import RingCode, draw_noise
from prirec.rounds.definition import simulated_noise
from prirec.sharing.fixed_point import FixedPoint
from support import messages
from support.cities import SMALL_PRIVATE, SMALL_ROUNDS, change
from support.exact_figures import chi_square_p, skellam_law
from support.rounds import terms_of

ODDS = 1e-9
WANTED = 40
SHARE = NoiseShare(Fraction(WANTED), 50, 3)  # of 60 devices a fifth may be lost, but the floor is 50; 3 may collude


def noise(
    *where: str | int, wanted: int = WANTED, count: int = 40, rostered: int = 60, survivors: int = 55, seed: int = 0
) -> np.ndarray:
    settings = change(SMALL_PRIVATE, seed=seed)
    return simulated_noise(
        wanted, count, rostered=rostered, survivors=survivors, settings=settings, where=where
    ).view(np.int64)  # fmt: skip


def by_seeds(many: int, **how: int) -> np.ndarray:
    """A run's noise in one place, of many runs: seeds that nobody chose for their luck."""
    first = int.from_bytes(np.random.default_rng().bytes(7), "little")
    return np.concatenate([noise("moments", 0, count=2000, seed=first + s, **how) for s in range(many)])


def test_shares_are_sized_for_the_roster():
    among = participants(SMALL_PRIVATE, 60)
    assert (among.survivors, among.colluders) == (SHARE.survivors, SHARE.colluders)


@pytest.mark.statistical  # false alarm 1e-9 each; must notice the shares of six more or fewer
@pytest.mark.parametrize("survivors", [50, 60])
def test_the_noise_of_a_sum_has_the_law_of_its_survivors_shares(survivors):
    draws = by_seeds(60, survivors=survivors)
    assert chi_square_p(draws, skellam_law(SHARE.total_variance(survivors), 70)) > ODDS
    for wrong in (6, -6):
        assert chi_square_p(draws, skellam_law(SHARE.variance * (survivors + wrong), 70)) < ODDS


@pytest.mark.statistical  # false alarm 1e-9; must notice the shares of six more or fewer
def test_devices_shares_together_have_the_same_law():
    """protocols/terms.py, which is what leaves devices: 55 of 60 survive."""
    terms, rng = terms_of(noise=WANTED, floor=50, lost=200, length=100_000), np.random.default_rng()
    total = sum(draw_noise(terms, 60, seed=rng.bytes(32)) for _ in range(55)).view(np.int64)
    assert chi_square_p(total, skellam_law(SHARE.total_variance(55), 70)) > ODDS
    for wrong in (49, 61):
        assert chi_square_p(total, skellam_law(SHARE.variance * wrong, 70)) < ODDS


@pytest.mark.statistical  # 6 sd, and seeded: no false alarm; must notice a variance off by a twentieth, 15 sd
def test_large_noise_has_the_variance_that_is_counted_with():
    wanted, count = 998_127_567, 200_000
    draws = noise("interaction", 3, wanted=wanted, count=count).astype(float)
    stated = float(NoiseShare(Fraction(wanted), 50, 3).total_variance(55))
    assert abs((draws**2).mean() / stated - 1) < 6 * np.sqrt(2 / count) < 1 / 20
    assert abs(draws.mean()) < 6 * np.sqrt(stated / count)


def test_every_sum_of_a_run_has_its_own_noise_and_so_has_every_run():
    wheres = [("popularity",), ("moments", 0), *product(("interaction",), range(120))]
    found = {noise(*where, seed=seed).tobytes() for where in wheres for seed in (0, 1, 2**63 - 1)}
    assert len(found) == 3 * len(wheres)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("interaction", 1, 12), ("interaction", 11, 2)),
        (("interaction", 1), ("interaction", "1")),
        (("interaction", 0, 1), ("interaction", 1, 0)),
        (("interaction, 1",), ("interaction", 1)),
    ],
)
def test_names_that_look_alike_are_not_the_same_sum(one, other):
    assert noise(*one).tolist() != noise(*other).tolist()
    assert noise(2, *one, seed=1).tolist() != noise(*one, seed=12).tolist()


@pytest.mark.statistical  # 6 sd, and seeded: no false alarm; must notice that a twentieth of the variance is shared
def test_noise_of_two_sums_has_nothing_in_common():
    count = 100_000
    rows = [noise(*where, count=count) for where in (("moments", 0), ("interaction", 0), ("interaction", 1))]
    rows += [noise("popularity", count=count), noise("moments", 0, count=count, seed=1)]
    together = np.corrcoef(rows) - np.eye(len(rows))
    assert np.abs(together).max() < 6 / np.sqrt(count) < 1 / 50


def test_a_run_that_is_repeated_has_the_same_bits():
    assert noise("interaction", 4).tolist() == noise("interaction", 4).tolist()


def test_without_a_budget_the_noise_is_zero():
    """Whatever the roster: sums without a budget have no floor of noise to keep to."""
    for rostered in (2, 60):
        silent = simulated_noise(0, 7, rostered=rostered, survivors=2, settings=SMALL_ROUNDS, where=("moments", 0))
        assert silent.dtype == np.uint64
        assert not silent.any()


def test_a_sum_that_must_not_be_opened_has_no_noise_to_be_opened_with():
    with pytest.raises(UsageError, match=messages.sum_not_opened(50)):
        noise("moments", 0, survivors=49)
    with pytest.raises(PolicyError, match=messages.too_few_devices(49, floor=50)):
        noise("moments", 0, rostered=49, survivors=49)


# Sums in the clear, as the oracle takes them

VALUES = {i: np.arange(4, dtype=np.uint64) * np.uint64(i) - np.uint64(5) for i in range(60)}
NOISY = RingCode(FixedPoint(summands=60, bound=400.0, fraction_bits=1), noise=WANTED)
BARE = replace(NOISY, noise=0)


def taken(
    *where: str | int, code: RingCode = NOISY, settings: Settings = SMALL_PRIVATE, survivors: int = 60
) -> np.ndarray | None:
    return Sums(settings).over_roster(where, code, VALUES, survivors=list(range(survivors)), held=())


def plain_sum(survivors: int = 60) -> np.ndarray:
    return sum(VALUES[i] for i in range(survivors))


@pytest.mark.parametrize("survivors", [50, 57, 60])
@pytest.mark.parametrize("where", [("moments", 0), ("interaction", 3)])
def test_what_the_oracle_opens_is_the_sum_and_its_noise(where, survivors):
    added = taken(*where, survivors=survivors) - plain_sum(survivors)
    assert added.view(np.int64).tolist() == noise(*where, count=4, survivors=survivors).tolist()
    assert added.any()


def test_no_two_sums_that_the_oracle_opens_share_their_noise():
    opened = [taken(kind, t) for kind in ("moments", "interaction") for t in (0, 1)]
    assert len({one.tobytes() for one in opened}) == 4


def test_too_few_survivors_open_nothing():
    assert taken("moments", 0, survivors=49) is None


def test_without_a_budget_the_oracle_opens_the_bare_sum():
    assert taken("moments", 0, code=BARE, settings=SMALL_ROUNDS).tolist() == plain_sum().tolist()


def test_in_the_narrow_ring_the_noise_is_the_same_number():
    small = {i: value.astype(np.uint32) for i, value in VALUES.items()}
    found = Sums(SMALL_PRIVATE).over_roster(("moments", 0), NOISY, small, survivors=list(range(60)), held=())
    assert found.dtype == np.uint32
    assert found.view(np.int32).tolist() == taken("moments", 0).view(np.int64).tolist()
