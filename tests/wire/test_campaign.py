"""What both sides work out from a charter: rounds, terms, prices, and what members sign that they hold."""

import msgspec
import numpy as np
import pytest

from prirec.config import PRIVATE, ROUNDS
from prirec.errors import Fault, PeerError, PolicyError, UsageError
from prirec.features.encoding import Range, from_json
from prirec.model.estimate import Estimate
from prirec.model.shared_model import FINE_B, LARGEST_B
from prirec.privacy.plan import Kind, plan_for
from prirec.protocols.codec import encode
from prirec.protocols.terms import privacy_cost
from prirec.wire.campaign import (
    LEAST_CORRUPT,
    LEAST_LOST,
    LEAST_ROSTER,
    SPAN,
    Campaign,
    deployable,
    read_scales,
    write_model,
    write_scales,
)
from prirec.wire.documents import Head, Model, Window, address, octets, written
from prirec.wire.settings import CampaignSettings
from support import messages
from support.cities import change, same_bits
from support.device_city import town

CAMPAIGN = town().campaign
B = np.zeros(CAMPAIGN.columns.groups.shape)


def other(**changes: object) -> Campaign:
    """The same campaign with another edition or other scales, or under another charter."""
    documents = []
    for document in (CAMPAIGN.charter, CAMPAIGN.edition, CAMPAIGN.scales):
        mine = {name: changes.pop(name) for name in document.__struct_fields__ if name in changes}
        documents.append(msgspec.structs.replace(document, **mine))
    charter, edition, scales = documents
    edition = msgspec.structs.replace(edition, charter=address(encode(charter)))
    return Campaign.of(charter, edition, msgspec.structs.replace(scales, edition=address(encode(edition))))


@pytest.mark.parametrize(
    "changes",
    [{"shape": 5.0}, {"manifest": bytes([1]) * 32}, {"sigma": 7.0}, {"people": bytes([2]) * 32}, {"positive": 0.4}],
    ids=lambda changes: next(iter(changes)),
)
def test_another_charter_edition_or_scale_gives_another_hash_of_what_members_hold(changes):
    told = other(**changes)
    assert told.interaction(0, B=B).model != CAMPAIGN.interaction(0, B=B).model
    assert told.moments().model != CAMPAIGN.moments().model


def test_equal_campaigns_give_equal_sums_and_another_model_another_hash():
    assert other().interaction(0, B=B) == CAMPAIGN.interaction(0, B=B)
    assert CAMPAIGN.interaction(0, B=B + 2.0**-20).model != CAMPAIGN.interaction(0, B=B).model


def test_numbers_go_on_over_campaigns_and_say_which_round_they_are():
    first, next_one = (other(campaign=number) for number in (0, 1))
    assert first.interaction(3, B=B).round.number == 3
    assert next_one.interaction(0, B=B).round.number == SPAN
    assert next_one.iteration(SPAN + 4) == 4


REFUSED = {
    "privacy.epsilon_per_user": ROUNDS,
    "popularity.mechanism": change(PRIVATE, popularity={"mechanism": "plain"}),
    "popularity.cap": change(PRIVATE, popularity={"cap": 10}),
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
        Campaign.of(msgspec.structs.replace(CAMPAIGN.charter, settings=CampaignSettings.of(settings)))


SETTLED = change(PRIVATE, privacy={"popularity": 0.2, "moments": 0.1, "interaction": 0.7})


@pytest.mark.parametrize(
    "changes",
    [{}, {"iterations": 7, "floor": 60}, {"privacy": {"period_days": 90, "quality": 0.1, "delta": 1e-7}},
     {"sums": {"lost": 0.125, "corrupt": 0.05, "roster": 0.7}}, {"sums": {"operators": 2}}, {"ring": {"bits": 32}},
     {"data": {"ratio": 3, "negatives": "nearby", "split": "time"}}, {"features": {"own_left_out": False}}],
    ids=lambda changes: ",".join(changes),
)  # fmt: skip
def test_what_devices_compute_by_comes_back_from_a_charter(changes):
    settings = change(SETTLED, **changes)
    assert CampaignSettings.of(settings).whole() == settings


def test_what_is_averaged_stands_in_the_encoding():
    settings = change(SETTLED, features={"averages": ("spend", "length")})
    assert CampaignSettings.of(settings).whole(("spend", "length")) == settings
    averages = (Range(column="spend", low=0.0, high=50.0), Range(column="length", low=0.0, high=24.0))
    encoding = msgspec.structs.replace(from_json(CAMPAIGN.charter.encoding), version=2, averages=averages)
    campaign = Campaign.of(msgspec.structs.replace(CAMPAIGN.charter, encoding=encoding.to_json()))
    assert campaign.settings.features.averages == ("spend", "length")
    assert campaign.visits.of.length == campaign.popularity().terms.length == 3 * CAMPAIGN.charter.places


def test_an_average_that_is_there_twice_is_refused():
    averages = (Range(column="spend", low=0.0, high=50.0),) * 2
    encoding = msgspec.structs.replace(from_json(CAMPAIGN.charter.encoding), version=2, averages=averages)
    with pytest.raises(PolicyError, match=messages.SETTINGS_OF_A_CHARTER):
        Campaign.of(msgspec.structs.replace(CAMPAIGN.charter, encoding=encoding.to_json()))


def test_what_no_device_computes_by_is_not_in_a_charter():
    assert CampaignSettings.of(change(SETTLED, features={"areas": 3}, data={"keep": "all"})).whole() == SETTLED


@pytest.mark.parametrize("wrong", [{"floor": 49}, {"ratio": 0}, {"delta": 0.0}, {"interaction": 0.0}])
def test_settings_that_nobody_may_choose_are_refused_in_a_charter_too(wrong):
    settings = msgspec.structs.replace(CAMPAIGN.charter.settings, **wrong)
    with pytest.raises(PolicyError, match=messages.SETTINGS_OF_A_CHARTER):
        Campaign.of(msgspec.structs.replace(CAMPAIGN.charter, settings=settings))


# The shared model and its scales, as they are published


def entries(values: np.ndarray) -> np.ndarray:
    """B with these entries."""
    whole = np.zeros(CAMPAIGN.columns.groups.shape)
    whole[CAMPAIGN.columns.groups >= 0] = values
    return whole


def published(B: np.ndarray, *, scales: bytes | None = None) -> Model:
    return write_model(scales or written(CAMPAIGN.scales)[0], CAMPAIGN.columns, B, iteration=1)


def test_every_entry_that_a_shared_model_can_have_is_published_without_rounding():
    many, rng = CAMPAIGN.columns.entries, np.random.default_rng(1)
    whole = rng.integers(-(2**24) + 1, 2**24, many)
    whole[:3] = 2**24 - 1, 1 - 2**24, 1
    B = entries(whole / FINE_B)
    assert np.abs(B).max() == LARGEST_B
    assert same_bits(CAMPAIGN.shared(published(B)), B)


def test_a_recommender_never_has_an_entry_that_would_be_rounded():
    columns, rng = CAMPAIGN.columns, np.random.default_rng(2)
    estimate = Estimate.nothing(columns, CAMPAIGN.scaling[0])
    for _ in range(3):
        estimate = estimate.after(1e3 * rng.normal(size=columns.entries), 1e-6)
        assert np.abs(estimate.B).max() == LARGEST_B
        assert same_bits(CAMPAIGN.shared(published(estimate.B)), estimate.B)


@pytest.mark.parametrize("wrong", [16.0, -1e30, np.inf, np.nan, 2.0**-21, 1e-30])
def test_an_entry_that_no_recommender_computes_is_refused(wrong: float):
    values = np.zeros(CAMPAIGN.columns.entries)
    values[-1] = wrong
    with pytest.raises(PeerError, match=messages.MODEL_BEYOND_USE):
        CAMPAIGN.shared(published(entries(values)))


def test_a_model_of_other_scales_or_of_another_size_is_refused():
    with pytest.raises(PeerError, match=messages.MODEL_OF_ANOTHER_CAMPAIGN):
        CAMPAIGN.shared(published(B, scales=bytes(32)))
    short = msgspec.structs.replace(published(B), shared=published(B).shared[:-4])
    with pytest.raises(PeerError, match=messages.ARRAY_OF_ANOTHER_SIZE):
        CAMPAIGN.shared(short)


def test_scales_come_back_as_they_were_written():
    moments, words = CAMPAIGN.scaling
    again = write_scales(CAMPAIGN.scales.edition, CAMPAIGN.columns, moments, words)
    assert again == CAMPAIGN.scales
    found = read_scales(again, CAMPAIGN.columns)[0]
    assert all(same_bits(np.asarray(a), np.asarray(b)) for a, b in zip(found, moments, strict=True))
    assert words.factor.any()


@pytest.mark.parametrize(
    ("part", "value"),
    [("person_mean", 3.1), ("person_mean", np.nan), ("person_sd", 0.0), ("person_sd", -1.0), ("person_sd", np.inf),
     ("moment_mean", -4.0), ("moment_sd", 0.01), ("word_factor", 51.0), ("word_factor", 1 / 512),
     ("word_centre", np.nan)],
)  # fmt: skip
def test_scales_under_which_columns_would_overflow_are_refused(part: str, value: float):
    values = np.frombuffer(getattr(CAMPAIGN.scales, part), dtype="<f8").copy()
    values[-1] = value
    with pytest.raises(PeerError, match=messages.SCALES_BEYOND_USE):
        read_scales(msgspec.structs.replace(CAMPAIGN.scales, **{part: octets(values, np.float64)}), CAMPAIGN.columns)


@pytest.mark.parametrize("changes", [{"positive": 0.0}, {"positive": 1.0}, {"positive": np.nan}, {"root_records": 0.5}])
def test_shares_that_no_sum_leads_to_are_refused(changes):
    with pytest.raises(PeerError, match=messages.SCALES_BEYOND_USE):
        read_scales(msgspec.structs.replace(CAMPAIGN.scales, **changes), CAMPAIGN.columns)


def test_no_charter_leaves_the_parts_of_the_budget_open():
    """Else an edition, whose columns nobody knows before, would decide how much of the budget each sum takes."""
    for settings in (PRIVATE, ROUNDS):
        with pytest.raises(UsageError, match=messages.PARTS_LEFT_OPEN):
            CampaignSettings.of(settings)


# Sums over two operators


LEADER_BOX, HELPER, HELPER_BOX = (bytes([mark]) * 32 for mark in (21, 22, 23))
JOINT = {
    "settings": CampaignSettings.of(change(CAMPAIGN.settings, sums={"operators": 2})), "people": b"", "many": 0,
    "helper": HELPER, "leader_box": LEADER_BOX, "helper_box": HELPER_BOX, "most": 500,
}  # fmt: skip
LISTED = Head(7, bytes([7]) * 32)


def windowed(campaign: Campaign, kind: str = "interaction", **changes: object) -> Window:
    B0 = B if kind == "interaction" else None
    window = campaign.window(kind, 0, B=B0, people=80, listed=LISTED, opens=1000, closes=5000)
    return msgspec.structs.replace(window, **changes)


def test_a_window_gives_the_task_of_a_sum_over_the_operators_that_the_charter_names():
    campaign = other(**JOINT)
    first = Campaign.of(campaign.charter)
    for at, kind in ((campaign, "interaction"), (campaign, "moments"), (first, "popularity")):
        window = windowed(at, kind)
        task = at.joint(window, B=B if kind == "interaction" else None)
        assert (task.leader, task.helper) == ((campaign.charter.recommender, LEADER_BOX), (HELPER, HELPER_BOX))
        assert (task.round.kind, task.round.number, task.people) == (kind, window.number, 80)
        assert task.terms.method == "two_operators"
        assert task.terms.noise == campaign.rules.codes.interaction.noise or kind != "interaction"
        norm = at.norm(kind)
        assert (
            privacy_cost(task.terms, norm=norm).grains
            <= plan_for(campaign.settings, people=500, pois=campaign.charter.places, size=campaign.columns.size)
            .release(Kind(kind))
            .each.grains
        )
        assert task.terms.bound == int(norm.units)


def test_an_extended_window_has_the_same_task_and_any_other_has_another():
    campaign = other(**JOINT)
    task = campaign.joint(windowed(campaign), B=B)
    assert campaign.joint(windowed(campaign, closes=9000), B=B) == task
    for changes in ({"people": 81}, {"entries": 8}, {"listed": bytes(32)}, {"number": 1}):
        assert campaign.joint(windowed(campaign, **changes), B=B).model != task.model


@pytest.mark.parametrize("wrong", [{"charter": bytes(32)}, {"model": bytes(32)}, {"people": 501}, {"people": 49}])
def test_a_window_that_does_not_fit_its_campaign_is_refused(wrong):
    campaign = other(**JOINT)
    with pytest.raises(PeerError) as refused:
        campaign.joint(windowed(campaign, **wrong), B=B)
    assert refused.value.fault is Fault.PARAMS_MISMATCH


@pytest.mark.parametrize(
    "wrong",
    [{"helper": b""}, {"helper": HELPER[:31]}, {"helper_box": b""}, {"leader_box": HELPER_BOX}, {"most": 49},
     {"people": bytes(32)}, {"many": 60}, {"helper": CAMPAIGN.charter.recommender},
     {"settings": CAMPAIGN.charter.settings}],
    ids=lambda wrong: next(iter(wrong)),
)  # fmt: skip
def test_a_charter_whose_operators_are_not_those_of_its_settings_is_refused(wrong):
    with pytest.raises(PolicyError, match=messages.OPERATORS_OF_A_CHARTER):
        other(**(JOINT | wrong))
    for changes in ({"helper": HELPER}, {"most": 500}, {"settings": JOINT["settings"]}):
        with pytest.raises(PolicyError, match=messages.OPERATORS_OF_A_CHARTER):
            other(**changes)
