"""What the recommender publishes when the sum of visits is open is, to the bit, what a simulation of the same sum has:
simulate/popularity.py, features/encoding.py and features/samples.py. What a device leaves out is the same, too."""

from dataclasses import replace

import numpy as np
import pytest

from prirec.data.dataset import Dataset
from prirec.features.encoding import encode_popularity, from_json
from prirec.features.popularity import OwnCounts
from prirec.privacy.popularity_estimate import NEARBY, POPULARITY
from prirec.recommender.release import popularity_release
from prirec.wire.campaign import Campaign
from support.campaigns import Staged, staged
from support.cities import (
    SMALL_PRIVATE,
    change,
    same_bits,
    small_city,
    with_idle_people,
    with_moods,
    with_spending,
    without_coordinates,
)

CITY = small_city(people=150, places=60, records=900)


# with which a prior of each kind comes of these cities
PARTS = {"popularity": 0.7, "moments": 0.15, "interaction": 0.15}


def partly_located(city: Dataset) -> Dataset:
    location = city.places.location.copy()
    location[::7] = np.nan
    return replace(city, places=replace(city.places, location=location))


CITIES = {
    "usual": lambda: staged(CITY, change(SMALL_PRIVATE, privacy=PARTS)),
    "few places": lambda: staged(small_city(people=60, places=12, records=240), change(SMALL_PRIVATE, privacy=PARTS)),
    "some are lost": lambda: staged(CITY, dropout=0.08),
    "some places have no coordinates": lambda: staged(partly_located(CITY)),
    "no coordinates": lambda: staged(without_coordinates(CITY)),
    "context columns": lambda: staged(with_moods(CITY, np.random.default_rng(1))),
    "idle people": lambda: staged(with_idle_people(CITY)),
    "fine regions": lambda: staged(CITY, resolution=6),
    "drowned": lambda: staged(CITY, change(SMALL_PRIVATE, privacy=PARTS | {"epsilon_per_user": 0.05})),
    "averages over visits": lambda: staged(
        with_spending(CITY),
        change(SMALL_PRIVATE, privacy={"epsilon_per_user": 20.0}, features={"averages": ("spend",)}),
    ),
    "loud": lambda: staged(CITY, change(SMALL_PRIVATE, privacy={"epsilon_per_user": 20.0})),
}  # fmt: skip


@pytest.fixture(scope="module", params=CITIES)
def both(request) -> Staged:
    return CITIES[request.param]()


def test_the_encoding_is_the_one_that_a_simulation_plans(both):
    assert from_json(both.edited.document.encoding) == both.setup.encoding
    assert both.edited.document.encoding == both.setup.encoding.to_json()


def test_features_of_places_are_those_of_the_samples(both):
    known, samples = both.known(), both.setup.samples
    assert known.rows.tolist() == list(range(len(samples.places)))
    assert known.ids == both.setup.prepared.dataset.places.ids
    assert same_bits(known.features, samples.places)
    assert same_bits(known.catalogue(both.campaign.encoding), samples.catalogue)


def test_sums_their_noise_and_popularity_are_the_simulated_ones(both):
    popular, released = both.known().counted, both.setup.popularity.released
    assert same_bits(np.concatenate([popular.sums, *popular.values.T]), both.release.sums)
    assert popular.sigma == both.release.sigma
    assert popular.names == tuple(block.column for block in both.setup.encoding.popularity) != ()
    for at, name in enumerate(popular.names):
        assert same_bits(popular.released[:, at].copy(), released[name])


def test_each_device_leaves_out_what_the_simulation_leaves_out_for_it(both):
    """From its own part alone, and with the prior that is published."""
    known, own, train = both.known(), both.release.own, both.setup.prepared.train
    encoding, popular, entries = both.campaign.encoding, known.counted, own.places
    left_out = 0
    for person in range(len(both.setup.samples.ids)):
        mine = own.pairs // entries == person
        visits = train.take(train.person == person)
        seen = popular.seen_with(OwnCounts(entries, own.pairs[mine] % entries, own.counts[mine]))
        here = seen.seen_by(replace(visits, person=np.zeros(len(visits), dtype=np.int32)))
        there = both.setup.popularity.seen_by(visits)
        for name in popular.names:
            assert same_bits(here[name], there[name])
        assert same_bits(
            encode_popularity(encoding, here, len(visits)), encode_popularity(encoding, there, len(visits))
        )
        left_out += sum(int((here[name] != popular.seen_with().seen_by(visits)[name]).sum()) for name in here)
    assert (left_out > 20) is (POPULARITY in popular.names)


def test_a_device_with_some_regions_has_the_same_numbers_for_them(both):
    whole, cells = both.known(), both.edited.catalogue.known.cells
    some = both.known(cells[::2])
    assert 0 < len(some) <= len(whole)
    assert (len(some) < len(whole)) is (len(cells) > 1)
    own, everywhere = (
        OwnCounts(many, np.arange(many), np.full(many, 0.25))
        for many in (len(known) * (1 + len(known.counted.averages)) for known in (some, whole))
    )
    here, there = some.counted.seen_with(own), whole.counted.seen_with(everywhere)
    assert list(here.own) == list(there.own) == [name for name in some.counted.names if name != NEARBY]
    for name in here.own:
        assert same_bits(here.own[name].counts, there.own[name].counts[some.rows])
    encoding = both.campaign.encoding
    assert same_bits(some.catalogue(encoding), whole.catalogue(encoding)[some.rows])


def test_a_charter_has_the_parts_of_the_budget_that_a_simulation_settles_on(both):
    assert Campaign.of(both.chartered.document).settings.privacy == both.setup.settings.privacy


def test_an_edition_follows_from_every_bit_of_the_sum():
    both = staged(small_city(people=60, places=12, records=240))
    opened = np.rint(both.release.sums * 2.0**both.campaign.visits.norm.fraction_bits).astype(np.int64).view(np.uint64)
    told = {"survivors": 60, "rostered": 60}
    campaign, static = Campaign.of(both.chartered.document), both.static
    again = popularity_release(campaign, static, opened=opened, **told)
    assert again.documents == both.edited.documents
    other = opened.copy()
    other[7] ^= np.uint64(1)
    assert popularity_release(campaign, static, opened=other, **told).document.manifest != again.document.manifest


def test_these_cities_have_priors_of_every_kind():
    """A shape; a prediction that is all that is known; and nothing that rises out of the noise."""
    shapes = {name: CITIES[name]().edited.document.shape for name in ("usual", "few places", "drowned")}
    assert 0 < shapes["usual"] < np.inf
    assert shapes["few places"] == np.inf
    assert shapes["drowned"] == 0
    assert CITIES["drowned"]().known().counted.names == (NEARBY,)  # a column of zeros says nothing


def test_surroundings_are_released_where_there_are_places_enough():
    assert staged(CITY).known().counted.names == (POPULARITY, NEARBY)
    assert CITIES["few places"]().known().counted.names == (POPULARITY,)
