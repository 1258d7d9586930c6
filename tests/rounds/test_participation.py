"""Who takes part: shares as asked, the same again for the same seed, and nobody counted who was not online."""

from math import erfc, sqrt

import numpy as np
import pytest

from prirec.rounds.definition import left_in_collection, participation
from prirec.util.keyed_random import person_keys
from support.cities import SMALL_ROUNDS, change

KEYS = person_keys([f"person {n}" for n in range(100_000)])


def standing_of(online: float, dropout: float, *, iteration: int = 0, seed: int = 0, keys=KEYS):
    settings = change(SMALL_ROUNDS, seed=seed, participation={"online": online, "dropout": dropout})
    return participation(keys, iteration, settings)


def chance_of(seen: np.ndarray, share: float) -> float:
    """Two-sided p-value of a share, by the normal approximation."""
    z = abs(seen.mean() - share) / sqrt(share * (1 - share) / len(seen))
    return erfc(z / sqrt(2))


@pytest.mark.statistical  # false alarm 1e-9 each; must notice a share that is off by 0.02
@pytest.mark.parametrize(("online", "dropout"), [(0.7, 0.3), (0.5, 0.0), (1.0, 0.2), (0.1, 0.9)])
def test_shares_of_people_online_and_lost_are_those_of_the_settings(online, dropout):
    there = standing_of(online, dropout)
    for seen, share in ((there.online, online), (there.counted, online * (1 - dropout))):
        if share < 1:
            assert chance_of(seen, share) > 1e-9
            assert chance_of(seen, share + 0.02 if share < 0.9 else share - 0.02) < 1e-9


@pytest.mark.statistical  # false alarm 1e-9; must notice fates that follow from being online (a share off by 0.02)
def test_being_lost_does_not_depend_on_having_been_online_before():
    earlier, later = standing_of(0.5, 0.0, iteration=3).online, standing_of(0.5, 0.0, iteration=4).online
    assert chance_of(earlier & later, 0.25) > 1e-9
    assert chance_of(earlier & later, 0.27) < 1e-9


def test_everyone_takes_part_when_nobody_is_offline_or_lost():
    there = standing_of(1.0, 0.0)
    assert there.online.all()
    assert there.counted.all()


def test_only_devices_that_were_online_are_counted():
    there = standing_of(0.6, 0.5)
    assert not (there.counted & ~there.online).any()
    assert (there.online & ~there.counted).any()


def test_seed_and_iteration_determine_who_takes_part():
    first, again = standing_of(0.5, 0.2), standing_of(0.5, 0.2)
    assert (first.online == again.online).all()
    assert (first.counted == again.counted).all()
    assert (first.online != standing_of(0.5, 0.2, iteration=1).online).any()
    assert (first.online != standing_of(0.5, 0.2, seed=1).online).any()


def test_whether_a_person_takes_part_does_not_depend_on_the_row():
    order = np.random.default_rng(0).permutation(len(KEYS))
    here, there = standing_of(0.5, 0.2), standing_of(0.5, 0.2, keys=KEYS[order])
    assert (here.online[order] == there.online).all()
    assert (here.counted[order] == there.counted).all()


def test_more_online_never_loses_anyone_who_was_there():
    assert not (standing_of(0.3, 0.0).online & ~standing_of(0.6, 0.0).online).any()


@pytest.mark.statistical  # false alarm 1e-9 each; must notice a share that is off by 0.02
def test_a_sum_before_the_first_round_waits_for_those_who_are_offline_and_loses_a_share():
    settings = change(SMALL_ROUNDS, participation={"online": 0.3, "dropout": 0.2})
    popularity, moments = (left_in_collection(KEYS, settings, of=kind) for kind in ("popularity", "moments"))
    for left in (popularity, moments):
        assert chance_of(left, 0.8) > 1e-9
        assert chance_of(left, 0.78) < 1e-9
    assert chance_of(popularity & moments, 0.64) > 1e-9  # who is lost from one is not lost from the other for that
    assert chance_of(popularity & moments, 0.66) < 1e-9
