"""What both sides work out from a charter: rounds, terms, prices, and what members sign that they hold."""

import msgspec
import numpy as np
import pytest

from prirec.config import PRIVATE, ROUNDS, dump
from prirec.errors import PolicyError, UsageError
from prirec.protocols.codec import encode
from prirec.wire.campaign import LEAST_CORRUPT, LEAST_LOST, LEAST_ROSTER, SPAN, Campaign, deployable
from prirec.wire.documents import address
from support import messages
from support.cities import change
from support.device_city import town

CAMPAIGN = town().campaign
WIDE = len(CAMPAIGN.encoding.names())
V, CENTRE = np.zeros((WIDE, CAMPAIGN.settings.model.dimension)), np.zeros(WIDE + 1)


def other(**changes: object) -> Campaign:
    """The same campaign with another edition, or under another charter."""
    charter = {name: value for name, value in changes.items() if name in CAMPAIGN.charter.__struct_fields__}
    edition = {name: value for name, value in changes.items() if name not in charter}
    made = msgspec.structs.replace(CAMPAIGN.charter, **charter)
    held = msgspec.structs.replace(CAMPAIGN.edition, charter=address(encode(made)), **edition)
    return Campaign.of(made, held)


@pytest.mark.parametrize(
    "changes",
    [{"seed": 5}, {"manifest": bytes([1]) * 32}, {"sigma": 7.0}, {"people": bytes([2]) * 32}, {"cohorts": 9}],
    ids=lambda changes: next(iter(changes)),
)
def test_another_charter_or_edition_gives_another_hash_of_the_model(changes):
    told = other(**changes)
    assert told.interaction(0, V=V).model != CAMPAIGN.interaction(0, V=V).model
    mixing = {"V": V, "centre": CENTRE}
    assert told.mixing(1, 0, **mixing).model != CAMPAIGN.mixing(1, 0, **mixing).model


def test_equal_campaigns_give_equal_sums_and_another_V_another_hash():
    assert other().interaction(0, V=V) == CAMPAIGN.interaction(0, V=V)
    assert CAMPAIGN.interaction(0, V=V + 1e-9).model != CAMPAIGN.interaction(0, V=V).model


def test_numbers_go_on_over_campaigns_and_say_which_round_they_are():
    first, next_one = (other(campaign=number) for number in (0, 1))
    assert first.interaction(3, V=V).round.number == 3
    assert next_one.interaction(0, V=V).round.number == SPAN
    assert next_one.iteration(SPAN + 4) == 4


REFUSED = {
    "privacy.epsilon_per_user": ROUNDS,
    "popularity.mechanism": change(PRIVATE, popularity={"mechanism": "plain"}),
    "features.averages": change(PRIVATE, features={"averages": ("spend",)}),
    "popularity.cap": change(PRIVATE, popularity={"cap": 10}),
    "latent": change(PRIVATE, latent={"dimension": 2}),
    "features.dynamic": change(PRIVATE, features={"dynamic": False}),
    "participation": change(PRIVATE, participation={"dropout": 0.1}),
    "stopping": change(PRIVATE, stopping={"patience": 3}),
    "seed": change(PRIVATE, seed=5),
    "iterations": change(PRIVATE, iterations=65_001),
    "sums.corrupt": change(PRIVATE, sums={"corrupt": LEAST_CORRUPT - 0.001}),
    "sums.lost": change(PRIVATE, sums={"lost": LEAST_LOST - 0.001}),
    "sums.roster": change(PRIVATE, sums={"roster": LEAST_ROSTER - 0.001}),
}


@pytest.mark.parametrize("setting", REFUSED)
def test_what_only_a_simulation_may_do_is_refused_by_name(setting):
    with pytest.raises(PolicyError, match=messages.simulation_only(setting)):
        deployable(REFUSED[setting])


def test_the_preset_private_is_deployable_and_devices_read_the_same_settings():
    assert deployable(PRIVATE) == PRIVATE
    settings = change(CAMPAIGN.settings, seed=0, sums={"corrupt": 0.0})
    with pytest.raises(PolicyError, match=messages.simulation_only("sums.corrupt")):
        Campaign.of(msgspec.structs.replace(CAMPAIGN.charter, settings=dump(settings)))


def test_a_charter_with_a_setting_of_an_earlier_version_is_followed_where_that_stands_at_its_default():
    old, asking = (
        msgspec.structs.replace(
            CAMPAIGN.charter, settings=CAMPAIGN.charter.settings.replace("[privacy]\n", f"[privacy]\nlocal = {value}\n")
        )
        for value in (0.0, 0.2)
    )
    assert old.settings != CAMPAIGN.charter.settings
    assert Campaign.of(old).settings == Campaign.of(CAMPAIGN.charter).settings
    with pytest.raises(UsageError, match=messages.setting_of_an_earlier_version("privacy.local")):
        Campaign.of(asking)
