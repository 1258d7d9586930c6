"""What is published when the sum of moments is open is, to the bit, what a simulation of the same sum scales by."""

import numpy as np
import pytest

from prirec.engines.local import Rounds
from prirec.errors import UsageError
from prirec.recommender.release import Catalogue, moments_release
from prirec.wire.campaign import read_scales
from prirec.wire.documents import written
from support import messages
from support.campaigns import Staged, staged
from support.cities import same_bits, small_city, with_idle_people, without_coordinates

CITY = small_city(people=150, places=60, records=900)
CITIES = {
    "usual": lambda: staged(CITY),
    "fine regions": lambda: staged(CITY, resolution=6),
    "no coordinates": lambda: staged(without_coordinates(CITY)),
    "idle people": lambda: staged(with_idle_people(CITY)),
}


@pytest.fixture(scope="module", params=CITIES)
def both(request) -> Staged:
    return CITIES[request.param]()


def simulated(both: Staged) -> tuple[Rounds, np.ndarray, int]:
    """The engine under the campaign's settings, its opened sum of moments, and over how many."""
    engine = Rounds(both.setup.samples, both.campaign.settings, threads=1)
    total, survivors = engine.moment_sum()
    code = engine.rules.codes.moments
    assert engine.rules.open(total, code, survivors=survivors, rostered=survivors, where=("moments", 0))
    return engine, total, survivors


def test_scales_are_those_of_a_simulation_with_the_same_sum(both):
    engine, total, many = simulated(both)
    moments, scales = moments_release(both.campaign, both.edited.catalogue, opened=total, survivors=many, rostered=many)
    assert scales.edition == both.edited.name
    found, words = read_scales(scales, both.campaign.columns)
    for one in (moments, found):
        assert all(same_bits(np.asarray(a), np.asarray(b)) for a, b in zip(one, engine.start().moments, strict=True))
    assert same_bits(words.factor, engine.words.factor)
    assert same_bits(words.centre, engine.words.centre)
    assert words.factor.any()


def test_a_recommender_that_has_restarted_publishes_the_same_bytes(both):
    _, total, many = simulated(both)
    kept = Catalogue.read(both.edited.catalogue.name, both.bodies.__getitem__, basis=both.campaign)
    pages = [
        written(moments_release(both.campaign, one, opened=total, survivors=many, rostered=many)[1])
        for one in (kept, both.edited.catalogue)
    ]
    assert pages[0] == pages[1]


def test_a_sum_of_another_size_makes_no_scales():
    both = CITIES["usual"]()
    _, total, many = simulated(both)
    with pytest.raises(UsageError, match=messages.OPENED_MOMENTS_OF_ANOTHER_SIZE):
        moments_release(both.campaign, both.edited.catalogue, opened=total[1:], survivors=many, rostered=many)
    with pytest.raises(UsageError, match=messages.MOMENTS_WITHOUT_AN_EDITION):
        moments_release(both.campaign_without_edition, both.static, opened=total, survivors=many, rostered=many)
