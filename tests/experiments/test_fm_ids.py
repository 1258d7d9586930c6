"""FM with ids: the kernel is Eq. (1) on one long sample, and whoever is unknown is scored by features."""

from dataclasses import replace
from functools import cache

import msgspec
import numpy as np
import pytest

from prirec.features.samples import Samples
from prirec.model.scoring import FactorizationModels, scores
from prirec_experiments.rivals.fm_ids import FmIdsSettings, fit
from support.rivals import PlainFmIds, ready, without_records_of

SETTINGS = FmIdsSettings(
    dimension=3, passes=3, alpha=0.2, lambda_w=0.01, lambda_v=0.02, lambda_weights=0.3, lambda_ids=0.05, spread=0.3
)


@cache
def samples() -> Samples:
    return ready().samples


@pytest.mark.parametrize("changes", [{}, {"dimension": 0}, {"lambda_ids": 0.0, "lambda_v": 0.0, "seed": 3}])
def test_the_kernel_is_a_machine_on_one_long_sample(changes: dict[str, float]) -> None:
    settings = msgspec.structs.replace(SETTINGS, **changes)
    found, plain = fit(samples(), settings), PlainFmIds(samples(), settings)
    m = found.machine
    np.testing.assert_allclose(m.linear, [plain.w0, *plain.w[: samples().features]], rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose([*m.of_person, *m.of_place], plain.w[samples().features :], rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose(np.vstack([m.transposed.T, m.person, m.place]), plain.V, rtol=1e-8, atol=1e-11)
    test = samples().test
    wanted = [plain.score(plain.x(test, row)) for row in range(len(test))]
    np.testing.assert_allclose(found.scores(samples(), test), wanted, rtol=1e-8, atol=1e-10)


def test_an_unknown_person_at_an_unknown_place_is_scored_by_eq_1_over_the_features() -> None:
    model, s = fit(without_records_of(samples(), person=3, place=5), SETTINGS), samples()
    m, many = model.machine, len(s.test)
    assert not any(part.any() for part in (m.of_person[3], m.person[3], m.of_place[5], m.place[5]))
    theirs = replace(s.test, person=np.full(many, 3, dtype=np.int32), place=np.full(many, 5, dtype=np.int32))
    features = FactorizationModels(m.linear[None].copy(), m.transposed.T.copy())
    plain = scores(features, s, theirs)
    np.testing.assert_allclose(model.scores(s, theirs), plain, rtol=1e-12)
    assert np.abs(model.scores(s, s.test) - scores(features, s, s.test)).max() > 0.1


def test_ids_tell_more_than_features_where_people_differ_in_taste() -> None:
    s = samples()
    halves = np.where((s.train.person % 2) == (s.train.place % 2), 1, -1).astype(np.int8)
    divided = replace(s, train=replace(s.train, label=halves))
    settings = msgspec.structs.replace(SETTINGS, passes=40, lambda_ids=0.0)
    right = np.sign(fit(divided, settings).scores(divided, divided.train)) == halves
    assert right.mean() > 0.9
