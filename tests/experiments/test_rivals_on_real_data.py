"""Rivals as strong as they were tuned to be, on the real data: a comparison with a weak rival says nothing."""

from functools import cache
from types import ModuleType

import pytest

from prirec import config
from prirec.metrics import auc
from prirec.simulate.setup import Setup, set_up
from prirec_experiments.rivals import dmf, fm_ids, mf
from prirec_experiments.rivals.descent import Descent
from support.real_data import ON_REAL_DATA, real_city

pytestmark = ON_REAL_DATA


@cache
def city(name: str) -> Setup:
    dataset = real_city(name)
    return set_up(dataset, config.load(changes={"preset": "rounds"}))


def auc_of(rival: ModuleType, settings: Descent, name: str) -> float:
    return auc(city(name).samples.test.label, rival.scorer(city(name), settings).test())


@pytest.mark.long
def test_fm_with_ids_is_the_strongest_peer() -> None:
    settings = fm_ids.FmIdsSettings(dimension=8)
    assert auc_of(fm_ids, settings, "yelp") > 0.915
    assert auc_of(fm_ids, settings, "foursquare-tokyo") > 0.80


@pytest.mark.parametrize(
    ("name", "least"), [("foursquare-tokyo", 0.81), pytest.param("yelp", 0.89, marks=pytest.mark.long)]
)
def test_mf_without_a_feature_holds_its_own(name: str, least: float) -> None:
    assert auc_of(mf, mf.MfSettings(), name) > least


@pytest.mark.long
def test_dmf_keeps_copies_only_where_a_gradient_comes() -> None:
    """Of 60 million pairs of a person and a place; 15 factors in float32 then fit in 0.6 GB."""
    model = dmf.fit(city("yelp").samples, dmf.DmfSettings(passes=1))
    assert 8_000_000 < len(model.held.place) < 10_000_000
    assert model.parts.common.itemsize == 4
