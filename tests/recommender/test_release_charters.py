"""A charter holds all that a campaign starts from, and nothing that devices would refuse later."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from prirec.config import Settings
from prirec.errors import DataError, PolicyError, UsageError
from prirec.features.encoding import Encoding, Hashed, plan_encoding
from prirec.features.popularity import Popularity
from prirec.privacy.plan import Kind, participants
from prirec.recommender.release import make_charter, noisy_sums, pack_regions, popularity_release
from prirec.wire.campaign import Campaign
from prirec.wire.documents import Roster, read, written
from prirec.wire.settings import CampaignSettings
from support import messages
from support.campaigns import DEPLOYMENT, RECOMMENDER, begun, staged
from support.cities import SMALL_PRIVATE, change, small_city, without_coordinates

CITY = small_city(people=60, places=50, records=300)
ENCODING = plan_encoding(CITY, Popularity(), SMALL_PRIVATE.features)
TOO_WIDE = msgspec.structs.replace(ENCODING, person=tuple(Hashed(column=f"c{at}", buckets=4096) for at in range(8)))
NAMES = tuple(bytes([n]) * 32 for n in range(60))


def chartered(
    settings: Settings = SMALL_PRIVATE, names: tuple[bytes, ...] = NAMES, encoding: Encoding = ENCODING
):  # fmt: skip
    return make_charter(
        pack_regions(CITY.places, ENCODING), names, deployment=DEPLOYMENT, campaign=3, recommender=RECOMMENDER,
        settings=settings, encoding=encoding,
    )  # fmt: skip


def test_a_charter_names_its_people_and_places_and_they_come_with_it():
    issued, bodies = chartered(), dict(chartered().documents)
    document = issued.document
    assert issued.name == written(document)[0] == list(bodies)[-1]
    assert read(Roster, bodies[document.people], name=document.people).names == NAMES
    assert document.manifest == issued.catalogue.name in bodies
    assert (document.many, document.places) == (60, 50)
    assert (document.deployment, document.recommender, document.campaign) == (DEPLOYMENT, RECOMMENDER, 3)
    assert {line.places for line in issued.catalogue.manifest.regions} < set(bodies)


def test_people_stand_by_name_whatever_order_they_came_in():
    assert chartered(names=NAMES[::-1]).documents == chartered().documents


def test_settings_come_back_from_a_charter_as_they_were_with_the_parts_of_the_budget():
    """Devices are told the parts, so that no edition decides about them."""
    settled = chartered().document.settings
    parts = {"popularity": settled.popularity, "moments": settled.moments, "interaction": settled.interaction}
    assert sum(parts.values()) == pytest.approx(1.0)
    assert settled == CampaignSettings.of(change(SMALL_PRIVATE, privacy=parts))


def test_parts_that_the_operator_chose_stay():
    chosen = change(SMALL_PRIVATE, privacy={"popularity": 0.5, "moments": 0.1, "interaction": 0.4})
    assert chartered(chosen).document.settings == CampaignSettings.of(chosen)


@pytest.mark.parametrize(
    ("given", "error", "problem"),
    [
        ({"names": NAMES[:49]}, PolicyError, messages.too_few_devices(49, floor=50)),
        ({"names": (*NAMES, NAMES[3])}, UsageError, messages.DEVICE_TWICE_ON_THE_ROSTER),
        ({"encoding": TOO_WIDE}, PolicyError, messages.joined(messages.CAMPAIGN_TOO_LARGE, messages.MODEL_TOO_LARGE)),
        (
            {"settings": change(SMALL_PRIVATE, privacy={"epsilon_per_user": None})},
            PolicyError,
            messages.PRIVATE_WITHOUT_EPSILON,
        ),
        (
            {"settings": change(SMALL_PRIVATE, participation={"dropout": 0.1})},
            PolicyError,
            messages.simulation_only("participation"),
        ),
        ({"settings": change(SMALL_PRIVATE, floor=10)}, PolicyError, messages.floor_too_low(50)),
        ({"settings": change(SMALL_PRIVATE, iterations=10**9)}, PolicyError, messages.simulation_only("iterations")),
        (
            {"settings": change(SMALL_PRIVATE, privacy={"epsilon_per_user": 1e-6})},
            UsageError,
            messages.BUDGET_TOO_SMALL_FOR_ITS_RELEASES,
        ),
        ({"encoding": staged(CITY).setup.encoding}, UsageError, messages.CHARTER_WITH_POPULARITY),
        ({"encoding": Encoding()}, DataError, messages.NO_FEATURE_OF_PLACES),
    ],
)
def test_what_devices_would_refuse_is_never_chartered(given, error, problem):
    with pytest.raises(error, match=problem):
        chartered(**given)


@pytest.mark.parametrize(
    "city",
    [CITY, without_coordinates(CITY), small_city(people=60, places=30)],
    ids=["surroundings", "no coordinates", "few places"],
)
def test_the_plan_counts_the_columns_of_popularity_that_there_will_be(city):
    """Before anything is summed: the parts of the budget follow from how many numbers the shared model has."""
    both = staged(city)
    assert both.campaign.settings.privacy == both.setup.settings.privacy


def test_the_stated_noise_is_that_of_the_terms_for_the_actual_roster():
    """Not for everyone in the charter: how much each brings follows from who came."""
    issued = begun(CITY, SMALL_PRIVATE, NAMES)
    campaign = Campaign.of(issued.document)
    release = campaign.visits
    assert release.of.kind is Kind.POPULARITY
    opened = np.arange(50, dtype=np.uint64)
    usual = noisy_sums(campaign, opened, survivors=60, rostered=60)
    assert usual.sigma == release.sd_of_sum(60)
    assert usual.sums.tolist() == (np.arange(50) * 2.0**-release.norm.fraction_bits).tolist()
    assert not len(usual.own.pairs)
    fewer = noisy_sums(campaign, opened, survivors=55, rostered=55)
    shares = release.noise(participants(SMALL_PRIVATE, 55))
    assert fewer.sigma == np.sqrt(float(shares.total_variance(55))) * 2.0**-release.norm.fraction_bits
    assert fewer.sigma != release.sd_of_sum(55)
    lost = noisy_sums(campaign, opened, survivors=55, rostered=60)
    assert lost.sigma == release.sd_of_sum(55)


def test_sums_below_zero_are_read_as_such():
    campaign = Campaign.of(chartered().document)
    opened = np.full(50, -3, dtype=np.int64).view(np.uint64)
    found = noisy_sums(campaign, opened, survivors=60, rostered=60)
    assert found.sums.tolist() == [-3 * 2.0**-campaign.visits.norm.fraction_bits] * 50


@pytest.mark.parametrize("opened", [np.zeros(49, np.uint64), np.zeros(50, np.uint32), np.zeros((50, 1), np.uint64)])
def test_a_sum_of_another_size_makes_no_edition(opened):
    issued = chartered()
    with pytest.raises(UsageError, match=messages.OPENED_SUM_OF_ANOTHER_SIZE):
        popularity_release(Campaign.of(issued.document), issued.catalogue, opened=opened, survivors=60, rostered=60)


def test_a_sum_that_should_not_have_been_opened_makes_no_edition():
    issued = chartered()
    with pytest.raises(UsageError, match=messages.sum_not_opened(50)):
        popularity_release(
            Campaign.of(issued.document), issued.catalogue, opened=np.zeros(50, np.uint64), survivors=49,
            rostered=60,
        )  # fmt: skip


def test_what_is_issued_does_not_print_its_documents():
    assert "places" not in repr(replace(chartered(), document=None))
