"""What holds for every rival: a seed decides all, divergence is refused, test records are never looked at."""

from dataclasses import replace
from functools import cache
from types import ModuleType

import msgspec
import numpy as np
import pytest

from prirec.errors import UsageError
from prirec.simulate.setup import Setup
from prirec_experiments.rivals.descent import Descent, refuse_infinite
from support import messages
from support.rivals import RIVALS, ready, without_records_of

each_rival = pytest.mark.parametrize(("rival", "settings"), RIVALS, ids=["mf", "dmf", "fm_ids"])


@cache
def setup() -> Setup:
    return ready()


def scored(rival: ModuleType, settings: Descent, where: Setup) -> np.ndarray:
    scores: np.ndarray = rival.scorer(where, settings).test()
    return scores


@each_rival
def test_a_seed_decides_all(rival: ModuleType, settings: Descent) -> None:
    one, same = (scored(rival, settings, setup()) for _ in range(2))
    other = scored(rival, msgspec.structs.replace(settings, seed=1), setup())
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


@each_rival
def test_every_pass_is_reported_and_lowers_the_loss(rival: ModuleType, settings: Descent) -> None:
    told: list[tuple[int, float]] = []
    longer = msgspec.structs.replace(settings, passes=12)
    rival.fit(setup().samples, longer, tell=lambda number, loss: told.append((number, loss)))
    assert [number for number, _ in told] == list(range(1, 13))
    assert told[-1][1] < told[0][1] < 0.8


@each_rival
def test_divergence_is_refused_with_what_to_do(rival: ModuleType, settings: Descent) -> None:
    with pytest.raises(UsageError, match=messages.RIVALS_LOSS_NOT_A_NUMBER):
        rival.fit(setup().samples, msgspec.structs.replace(settings, alpha=1e200))


@pytest.mark.parametrize(("rival", "settings"), RIVALS[:2], ids=["mf", "dmf"])
def test_penalties_that_overshoot_are_refused_in_the_pass_where_it_shows(rival: ModuleType, settings: Descent) -> None:
    """Each step then makes a factor longer than it was. Adagrad shortens such steps, so this is not for FM."""
    told: list[int] = []
    overshooting = msgspec.structs.replace(settings, alpha=1.0, lambda_v=10.0, passes=500)
    with pytest.raises(UsageError, match=messages.RIVALS_LOSS_NOT_A_NUMBER):
        rival.fit(setup().samples, overshooting, tell=lambda number, loss: told.append(number))
    assert len(told) < 100


def test_a_model_whose_last_step_diverged_is_refused() -> None:
    refuse_infinite(np.ones(3), np.zeros((2, 0)))
    for bad in (np.inf, np.nan):
        with pytest.raises(UsageError, match=messages.RIVALS_MODEL_NOT_A_NUMBER):
            refuse_infinite(np.ones(3), np.array([[1.0, bad]]))


@each_rival
@pytest.mark.parametrize(
    "changes",
    [{"alpha": 0.0}, {"alpha": float("nan")}, {"dimension": -1}, {"passes": 0}, {"spread": -0.1}, {"lambda_v": -1.0}],
)
def test_settings_that_make_no_sense_are_refused(
    rival: ModuleType, settings: Descent, changes: dict[str, float]
) -> None:
    with pytest.raises(
        UsageError,
        match=messages.any_of(
            messages.RIVALS_DIMENSION_OR_SEED_NEGATIVE,
            messages.RIVALS_STEP_OR_SPREAD_OUT_OF_RANGE,
            messages.RIVALS_PENALTIES_NEGATIVE,
        ),
    ):
        rival.fit(setup().samples, msgspec.structs.replace(settings, **changes))


@each_rival
def test_labels_of_the_test_change_nothing(rival: ModuleType, settings: Descent) -> None:
    samples = setup().samples
    turned = replace(setup(), samples=replace(samples, test=replace(samples.test, label=-samples.test.label)))
    np.testing.assert_array_equal(scored(rival, settings, setup()), scored(rival, settings, turned))


@each_rival
def test_a_person_and_a_place_without_records_have_scores(rival: ModuleType, settings: Descent) -> None:
    lonely = replace(setup(), samples=without_records_of(setup().samples, person=3, place=5))
    scorer = rival.scorer(lonely, settings)
    assert np.isfinite(scorer.of(3, np.arange(12, dtype=np.int32))).all()
    assert np.isfinite(scorer.test()).all()
