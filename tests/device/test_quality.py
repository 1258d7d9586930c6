"""What a device holds out for quality figures: it is in no other sum, and nothing is learnt from it. What is published
of the sum is followed only as it belongs."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import numpy as np
import pytest

from prirec.device.device import status
from prirec.device.person import Person
from prirec.device.records import encode_records, held_out, learnt_records, parted_records, parted_visits
from prirec.device.rounds import contribution, moments_vector, prepare, visited_places
from prirec.device.store import Store
from prirec.device.sync import View, catch_up
from prirec.errors import Fault, PeerError
from prirec.protocols.messages import Round
from prirec.wire.campaign import Campaign
from prirec.wire.documents import Figure, Figures, Model, octets, written
from support.cities import change, same_bits
from support.device_city import Town, membership, town
from support.dishonest_operators import JOINT, Dishonest2, Sums, steps, target_of
from support.dishonest_recommender import IDS, OTHERS, TARGET, Target
from support.fault_injection import FEW
from support.low_floors import low_floor

EVERYBODY = (TARGET.public, *(one.public for one in OTHERS))
MEASURED = change(JOINT, privacy={"quality": 0.5}, data={"train_share": 0.5})


@pytest.fixture(autouse=True)
def floor() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        low_floor(patch, FEW)
        yield


# What is held out


def with_secret(secret: bytes) -> Person:
    return cast(Person, SimpleNamespace(require_membership=lambda: SimpleNamespace(secret=secret)))


def test_about_the_share_of_places_is_held_out_and_each_device_draws_its_own() -> None:
    places = [f"place {at}" for at in range(4000)]
    one, other = (with_secret(bytes([at]) * 32) for at in range(2))
    first, second = (held_out(person, places, share=200) for person in (one, other))
    assert 0.16 < np.mean(first) < 0.24  # 6 standard deviations
    assert 0.02 < np.mean(np.logical_and(first, second)) < 0.06  # as independent draws have
    assert held_out(one, places[::-1], share=200) == first[::-1]
    more = held_out(one, places, share=500)
    assert all(later for now, later in zip(first, more, strict=True) if now)
    assert not any(held_out(one, places, share=0))


def holding_out(campaign: Campaign, share: int) -> Campaign:
    settings = msgspec.structs.replace(campaign.charter.settings, held_out=share)
    return replace(campaign, offered=msgspec.structs.replace(campaign.charter, settings=settings))


def twin_of(person: Person, here: Town, folder: Path, places: set[str]) -> Person:
    """The same person, who was never at these places."""
    made = Person(Store.open(folder / "twin"))
    made.join(replace(membership(), secret=person.require_membership().secret))
    made.set_profile(person.profile())
    made.set_labelled(labelled=True)
    if (home := person.home()) is not None:
        made.set_home(home)
    made.record_visits(visit for visit in person.visits() if visit.place not in places)
    return made


def test_sums_are_those_of_somebody_who_was_never_at_what_is_held_out(tmp_path: Path) -> None:
    here = town()
    campaign = holding_out(here.campaign, 300)
    person = here.person(int(np.argmax(here.setup.samples.train.counts())), tmp_path)
    places = {visit.place for visit in person.visits()}
    out = {place for place in places if held_out(person, [place], share=300) == [True]}
    assert 0 < len(out) < len(places)
    twin = twin_of(person, here, tmp_path, out)
    assert same_bits(
        visited_places(person, campaign, here.known).entries, visited_places(twin, here.campaign, here.known).entries
    )
    mine, theirs = learnt_records(person, campaign, here.known), encode_records(twin, here.campaign, here.known)
    assert all(
        same_bits(getattr(mine, name), getattr(theirs, name)) for name in ("person", "context", "label", "place")
    )
    summing = holding_out(here.summing_moments, 300)
    assert same_bits(moments_vector(mine, summing), moments_vector(theirs, here.summing_moments))
    # what the person is shown is learnt from all
    everything = encode_records(person, campaign, here.known)
    held = parted_records(person, campaign, here.known, share=300)[1]
    assert len(everything.label) == len(mine.label) + len(held.label)
    assert len(held.label) == len(parted_visits(person, share=300)[1]) > 0
    for one in (person, twin):
        one.store.close()


# The sum


def measuring(path: Path) -> tuple[Dishonest2, Campaign, np.ndarray, Target]:
    """Its model is published, and the window of the sum of quality figures is open."""
    recommender = Dishonest2()
    campaign, B = recommender.learning(settings=MEASURED)
    publish(recommender, campaign)
    recommender.window(campaign, "quality", B=B, iteration=MEASURED.iterations)
    return recommender, campaign, B, target_of(recommender, path / "device", visits=IDS)


def publish(recommender: Dishonest2, campaign: Campaign) -> bytes:
    assert campaign.scales is not None
    entries = octets(np.zeros(campaign.columns.entries), np.float32)
    return recommender.say("publication", Model(written(campaign.scales)[0], MEASURED.iterations, entries))


def follow(target: Target) -> View:
    return asyncio.run(catch_up(target.person, target.line))  # type: ignore[arg-type]


def test_a_report_of_quality_figures_is_made_once_and_paid_for(tmp_path: Path) -> None:
    recommender, campaign, B, target = measuring(tmp_path)
    (report,) = steps(target)
    view = View.of(target.person)
    assert view.window is not None
    operators = Sums(recommender, campaign.joint(view.window, B=B), EVERYBODY)
    operators.take(report)
    assert operators.leader.count == operators.helper.count == 1
    added = contribution(Round(view.member.deployment, "quality", view.window.number), view, target.person)
    assert operators.total.tolist() == added.value.view(np.int64).tolist()
    assert operators.total.any()
    (charge,) = (one.charge for one in target.paid.ledger().entries)
    assert charge.kind == "quality"
    assert charge.cost.grains <= campaign.figures.each.grains
    assert not steps(target)
    assert (view.learnt, view.over) == (True, False)


def test_what_is_done_before_a_record_is_read_depends_on_no_region(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, _, target = measuring(tmp_path)
    view = follow(target)

    def private(self: View) -> Any:
        raise AssertionError("which regions a device has is private")

    monkeypatch.setattr(View, "known", property(private))
    prepare(view)


def figures_of(model: bytes, value: float = 0.75) -> Figures:
    return Figures(model, 9, b"", (Figure("auc", value, 0.01, 0.02),))


def test_published_figures_are_shown_and_end_the_campaign(tmp_path: Path) -> None:
    recommender, _, _, target = measuring(tmp_path)
    model = follow(target).latest["publication"]
    recommender.say("figures", figures_of(model))
    view = follow(target)
    assert view.over
    shown = status(target.person).membership
    assert shown is not None
    assert shown.quality is not None
    assert dict(shown.quality.rows)["AUC"] == "0.7500 ± 0.045"
    assert dict(shown.quality.rows)["log loss"] == "drowned by noise"
    assert shown.visits_held_out == len(parted_visits(target.person, share=500)[1])
    assert not steps(target)


@pytest.mark.parametrize("wrong", ["of another model", "a second time"])
def test_figures_that_do_not_belong_are_not_followed(tmp_path: Path, wrong: str) -> None:
    recommender, _, _, target = measuring(tmp_path)
    model = follow(target).latest["publication"]
    if wrong == "a second time":
        recommender.say("figures", figures_of(model))
    recommender.say("figures", figures_of(bytes(32) if wrong == "of another model" else model, 0.5))
    with pytest.raises(PeerError) as refusal:
        follow(target)
    assert refusal.value.fault is (Fault.PARAMS_MISMATCH if wrong == "of another model" else Fault.EQUIVOCATION)


def test_without_a_part_of_the_budget_no_window_of_quality_figures_is_entered(tmp_path: Path) -> None:
    recommender = Dishonest2()
    campaign, B = recommender.learning()
    publish(recommender, campaign)
    recommender.window(campaign, "quality", B=B, iteration=MEASURED.iterations)
    target = target_of(recommender, tmp_path / "device", visits=IDS)
    assert not steps(target)
    assert View.of(target.person).over
    with pytest.raises(PeerError) as refusal:
        campaign.joint(recommender.window(campaign, "quality", B=B), B=B)
    assert refusal.value.fault is Fault.PARAMS_MISMATCH
