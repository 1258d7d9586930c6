"""A device follows one story, and does not let it be told again."""

import asyncio
import re
from pathlib import Path

import msgspec
import numpy as np
import pytest
from h3.api import basic_int as h3

from prirec.device.agent import AgentNews
from prirec.device.client import UnavailableError
from prirec.device.device import status as deployment_status
from prirec.device.person import Person
from prirec.device.store import Store
from prirec.device.sync import View, catch_up, fetch_extra_regions, save_extra_region
from prirec.errors import Fault, PeerError
from prirec.features.encoding import Log
from prirec.wire.campaign import Campaign
from prirec.wire.documents import Counts, Model, Offer, Places, RegionLine, address, octets, written
from support import messages
from support.cities import change, same_bits
from support.dishonest_recommender import DEPLOYMENT, ENCODING, IDS, SETTINGS, Dishonest, Target, Wire
from support.fault_injection import FEW
from support.low_floors import low_floor
from support.waiting import PATIENCE


@pytest.fixture(autouse=True)
def floor(monkeypatch: pytest.MonkeyPatch) -> None:
    low_floor(monkeypatch, FEW)


def follow(person: Person, recommender: Dishonest) -> View:
    return asyncio.run(catch_up(person, Wire(recommender)))


def refused(person: Person, recommender: Dishonest) -> Fault:
    """How the device refuses to follow; what it knew before is what it still knows."""
    before = View.of(person)
    with pytest.raises(PeerError) as refusal:
        follow(person, recommender)
    assert View.of(person).latest == before.latest
    assert View.of(person).member.head == before.member.head
    return refusal.value.fault


def test_a_campaign_is_followed_from_its_charter_to_its_rounds(tmp_path: Path) -> None:
    recommender = Dishonest()
    person = Target.of(recommender, tmp_path / "device").person
    charter = recommender.charter()
    assert follow(person, recommender).campaign.edition is None
    edition = recommender.edition(charter)
    assert follow(person, recommender).campaign.scales is None
    campaign = recommender.scales(charter, edition)
    for iteration in (0, 1, 2):
        B = recommender.model(campaign, 0.5 * iteration, iteration=iteration)
        view = follow(person, recommender)
        assert view.model.iteration == iteration
        assert same_bits(view.campaign.shared(view.model), B)


@pytest.mark.parametrize("again", ["edition", "scales"])
def test_what_follows_from_a_sum_is_said_once_a_campaign(tmp_path: Path, again: str) -> None:
    recommender = Dishonest()
    person = Target.of(recommender, tmp_path / "device").person
    charter = recommender.charter()
    edition = recommender.edition(charter)
    recommender.scales(charter, edition)
    follow(person, recommender)
    if again == "edition":
        recommender.edition(charter)
    else:
        recommender.scales(charter, edition, positive=0.3)
    assert refused(person, recommender) is Fault.EQUIVOCATION


def test_scales_without_an_edition_are_not_followed(tmp_path: Path) -> None:
    recommender = Dishonest()
    person = Target.of(recommender, tmp_path / "device").person
    campaign, _ = recommender.rounds()
    follow(person, recommender)
    recommender.charter(campaign=9)
    recommender.say("scales", campaign.scales)
    assert refused(person, recommender) is Fault.EQUIVOCATION


def test_scales_or_a_model_of_another_campaign_are_not_followed(tmp_path: Path) -> None:
    recommender = Dishonest()
    person = Target.of(recommender, tmp_path / "device").person
    before, _ = recommender.rounds()
    charter = recommender.charter(campaign=9)
    edition = recommender.edition(charter)
    follow(person, recommender)
    recommender.say("scales", before.scales)
    assert refused(person, recommender) is Fault.PARAMS_MISMATCH
    recommender.set_back(to=len(recommender.entries) - 1)
    recommender.scales(charter, edition)
    recommender.model(before)
    assert refused(person, recommender) is Fault.PARAMS_MISMATCH


@pytest.mark.parametrize("kind", ["prirec charter", "prirec edition", "prirec model", "prirec publication"])
def test_a_campaign_of_an_earlier_version_is_passed_over_and_the_next_one_followed(tmp_path: Path, kind: str) -> None:
    recommender = Dishonest()
    person = Target.of(recommender, tmp_path / "device").person
    for one in ("charter", "edition", "model", "publication"):
        recommender.say_raw(one, msgspec.msgpack.encode([f"prirec {one}", 1, bytes(16), b"as it was"]))
        if f"prirec {one}" == kind:
            break
    view = follow(person, recommender)
    assert (view.campaign, view.model, view.publication, view.over) == (None, None, None, False)
    assert view.member.head == recommender.head
    assert not deployment_status(person).membership.can_recommend
    campaign, _ = recommender.rounds()
    assert follow(person, recommender).campaign.name == campaign.name


def test_before_a_campaign_the_offered_catalogue_is_followed_and_then_the_campaigns(tmp_path: Path) -> None:
    recommender = Dishonest()
    person = Target.of(recommender, tmp_path / "device").person
    assert (follow(person, recommender).basis, View.of(person).in_use) == (None, "")
    offer = recommender.offer()
    view = follow(person, recommender)
    assert (view.campaign, view.basis.offered, view.known.ids, view.in_use) == (None, offer, IDS, "own records alone")
    charter = recommender.charter()
    view = follow(person, recommender)
    assert (view.basis, view.basis.offered, view.in_use) == (view.campaign, charter, "own records alone")
    recommender.offer()  # for the campaign after this one
    assert follow(person, recommender).basis.offered == charter


def test_a_starting_model_is_recommended_with_until_a_campaign_has_published_its_own(tmp_path: Path) -> None:
    recommender = Dishonest()
    person = Target.of(recommender, tmp_path / "device").person
    start = recommender.start(recommender.offer())
    view = follow(person, recommender)
    model, basis, known = view.start
    assert (view.in_use, view.publication, basis, known.ids) == ("start", None, start, IDS)
    assert (basis.shared(model)[basis.columns.groups >= 0] == 0.25).all()
    campaign, _ = recommender.rounds()
    assert follow(person, recommender).in_use == "start"
    entries = octets(np.zeros(campaign.columns.entries), np.float32)
    recommender.say("publication", Model(written(campaign.scales)[0], 3, entries))
    view = follow(person, recommender)
    assert (view.in_use, view.start, "start" in view.latest) == ("campaign 1", None, False)
    recommender.start(recommender.offer())
    assert follow(person, recommender).in_use == "campaign 1"


OTHER_PLACES = msgspec.structs.replace(ENCODING, place=(Log(column="stars"),))


@pytest.mark.parametrize(
    "changes",
    [
        {"more": 1},
        {"B": 99.0},
        {"settings": "no settings"},
        {"settings": 'preset = "of a newer version"'},
        {"encoding": OTHER_PLACES},
        {"regions": [RegionLine(h3.latlng_to_cell(48.0, 2.0, 5), bytes(32), bytes(32))]},
    ],
    ids=["size", "entries", "settings", "newer", "features of places", "places"],
)
def test_a_starting_model_that_cannot_be_used_is_passed_over_and_the_next_campaign_followed(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    recommender = Dishonest()
    target = Target.of(recommender, tmp_path / "device")
    news = AgentNews(target.agent)
    offer = recommender.offer()
    recommender.start(offer, **changes)
    asyncio.run(target.agent.follow())
    assert [words for words in news.news() if re.search(messages.UNUSABLE_START, words)]
    view = View.of(target.person)
    assert (view.member.head, view.in_use, view.start) == (recommender.head, "own records alone", None)
    recommender.start(offer)
    assert follow(target.person, recommender).in_use == "start"
    recommender.start(offer, **changes)
    campaign, _ = recommender.rounds()
    assert follow(target.person, recommender).campaign.name == campaign.name


@pytest.mark.parametrize("body", [b"\x90", msgspec.msgpack.encode(["prirec start", 3, b"of a newer version"])])
def test_a_starting_model_that_cannot_be_read_is_passed_over(tmp_path: Path, body: bytes) -> None:
    recommender = Dishonest()
    person = Target.of(recommender, tmp_path / "device").person
    recommender.offer()
    recommender.say_raw("start", body)
    view = follow(person, recommender)
    assert (view.member.head, view.in_use) == (recommender.head, "own records alone")
    assert deployment_status(person).membership.can_recommend


def test_a_catalogue_of_another_deployment_is_refused_and_one_of_an_earlier_version_passed_over(tmp_path: Path) -> None:
    recommender = Dishonest()
    person = Target.of(recommender, tmp_path / "device").person
    recommender.offer(deployment=b"\1" * 16)
    assert refused(person, recommender) is Fault.PARAMS_MISMATCH
    recommender.set_back(to=0)
    earlier = msgspec.msgpack.encode(["prirec manifest", 5, []])
    recommender.documents[address(earlier)] = earlier
    recommender.say("catalogue", Offer(1, DEPLOYMENT, ENCODING.to_json(), address(earlier), 3))
    assert follow(person, recommender).basis is None


@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_a_campaign_is_not_begun_again(tmp_path: Path, known: bool, between: bool) -> None:
    recommender = Dishonest()
    person = Target.of(recommender, tmp_path / "device").person
    charter = recommender.charter(campaign=3)
    edition = recommender.edition(charter)
    recommender.model(recommender.scales(charter, edition), iteration=1)
    if known:
        follow(person, recommender)
    if between:
        recommender.charter(campaign=9)
    recommender.say("charter", charter)
    recommender.say("edition", msgspec.structs.replace(edition, sigma=99.0))
    assert refused(person, recommender) is Fault.EQUIVOCATION


def test_what_another_process_has_read_meanwhile_holds(tmp_path: Path) -> None:
    recommender = Dishonest()
    person = Target.of(recommender, tmp_path / "device").person
    charter = recommender.charter()

    class Overtaken(Wire):
        async def document(self, name: bytes) -> bytes:
            if len(recommender.entries) == 1:
                recommender.edition(charter)
                with Store.open(tmp_path / "device") as store:
                    await catch_up(Person(store), Wire(recommender))
            return await super().document(name)

    view = asyncio.run(catch_up(person, Overtaken(recommender)))
    assert view.member.head == recommender.head
    assert view.campaign.edition is not None


def test_an_edition_of_another_charter_is_not_followed(tmp_path: Path) -> None:
    recommender = Dishonest()
    person = Target.of(recommender, tmp_path / "device").person
    first = recommender.charter(campaign=1)
    recommender.charter(campaign=2)
    recommender.edition(first)
    assert refused(person, recommender) is Fault.PARAMS_MISMATCH


@pytest.mark.parametrize("campaign", [0, 3])
def test_campaigns_have_numbers_that_rise(tmp_path: Path, campaign: int) -> None:
    recommender = Dishonest()
    person = Target.of(recommender, tmp_path / "device").person
    recommender.charter(campaign=3)
    follow(person, recommender)
    recommender.charter(campaign=campaign, settings=SETTINGS, features=np.ones((3, 1)))
    assert refused(person, recommender) is Fault.EQUIVOCATION


def test_a_campaign_does_not_go_back_to_an_earlier_round(tmp_path: Path) -> None:
    recommender = Dishonest()
    person = Target.of(recommender, tmp_path / "device").person
    campaign, _ = recommender.rounds(iteration=1)
    follow(person, recommender)
    recommender.model(campaign, iteration=0)
    assert refused(person, recommender) is Fault.EQUIVOCATION


def test_another_deployments_charter_is_not_followed(tmp_path: Path) -> None:
    recommender = Dishonest()
    person = Target.of(recommender, tmp_path / "device").person
    charter = recommender.charter()
    follow(person, recommender)
    recommender.say("charter", msgspec.structs.replace(charter, deployment=b"x" * 16, campaign=9))
    assert refused(person, recommender) is Fault.PARAMS_MISMATCH


class Withholding(Wire):
    """Has some documents for nobody."""

    async def document(self, name: bytes) -> bytes:
        if name not in self.recommender.documents:
            raise UnavailableError("not now")
        return await super().document(name)


@pytest.mark.parametrize("asked", [False, True])
def test_a_missing_region_does_not_reveal_who_asked_for_it(tmp_path: Path, asked: bool) -> None:
    home, elsewhere = h3.latlng_to_cell(35.7, 139.7, 6), h3.latlng_to_cell(48.9, 2.3, 6)
    withheld = RegionLine(h3.cell_to_parent(elsewhere, 5), b"\5" * 32)
    recommender = Dishonest()
    person = Target.of(recommender, tmp_path / "device", cell=home).person
    if asked:
        with person.store.transaction() as rows:
            save_extra_region(rows, elsewhere)
    recommender.charter(regions=[withheld])
    view = asyncio.run(catch_up(person, Withholding(recommender)))
    assert view.member.head == recommender.head
    asyncio.run(fetch_extra_regions(person, Withholding(recommender)))
    assert len(View.of(person).known) == len(IDS)


class Slow(Wire):
    """Lets whoever asks for a region wait for ever."""

    region = b""

    async def document(self, name: bytes) -> bytes:
        if name == self.region:
            await asyncio.Event().wait()
        return await super().document(name)


def test_a_region_that_never_comes_keeps_nobody_from_answering(tmp_path: Path) -> None:
    """Or whoever holds it back would see who asked for it."""
    here, far = h3.latlng_to_cell(35.0, 139.0, 5), h3.latlng_to_cell(48.0, 2.0, 5)
    recommender = Dishonest()
    target = Target.of(recommender, tmp_path / "device", visits=("a",), cell=here)
    with target.person.store.transaction() as rows:
        save_extra_region(rows, far)
    target.line = target.agent.client = Slow(recommender)
    target.line.region = recommender.put(Places(far, ("d",), ("far",), octets(np.array([3]), np.int32), b"", b""))
    charter = recommender.charter(regions=[RegionLine(far, target.line.region)])

    async def in_time() -> list[str]:
        async with asyncio.timeout(PATIENCE):
            said = await target.invited(Campaign.of(charter).popularity())
            assert target.agent._download is not None
            await target.agent.stop_downloads()
        return [type(one).__name__ for one in said]

    assert asyncio.run(in_time()) == ["Keys"]


@pytest.mark.parametrize("asked", [False, True])
def test_a_malformed_region_of_a_starting_model_silences_nobody(tmp_path: Path, asked: bool) -> None:
    """Or whoever publishes it would see who asked for it."""
    here, far = h3.latlng_to_cell(35.0, 139.0, 5), h3.latlng_to_cell(48.0, 2.0, 5)
    recommender = Dishonest()
    target = Target.of(recommender, tmp_path / "device", cell=here)
    if asked:
        with target.person.store.transaction() as rows:
            save_extra_region(rows, far)
    nowhere, plain = octets(np.full((1, 2), np.nan), np.float64), octets(np.zeros((1, 1)), np.float32)
    region = recommender.put(Places(far, ("d",), ("far",), octets(np.array([3]), np.int32), nowhere, plain))
    counts = recommender.put(Counts(far, b"", *(octets(np.full(1, np.nan), np.float64),) * 3))
    offer = recommender.offer(regions=[RegionLine(far, region)])
    recommender.start(offer, regions=[RegionLine(far, region, counts)])

    async def steps() -> None:
        for _ in range(3):
            await target.agent.step(wait=0)
            await target.agent.stop_downloads()
            recommender.offer()  # something new in the log

    asyncio.run(steps())
    assert target.agent.view.member.head.length == 4
    assert target.agent.view.in_use == "start"


def test_a_device_of_an_earlier_version_reads_the_catalogue_that_it_had_passed_over(tmp_path: Path) -> None:
    recommender = Dishonest()
    target = Target.of(recommender, tmp_path / "device")
    recommender.offer()
    follow(target.person, recommender)

    def as_version_9() -> None:
        with target.person.store.transaction() as rows:
            rows.execute("DELETE FROM standing")
            rows.execute("DELETE FROM documents")

    as_version_9()
    assert View.of(target.person).in_use == ""
    assert follow(target.person, recommender).in_use == View.of(target.person).in_use == "own records alone"
    as_version_9()
    other = Dishonest()  # with the same key and another past
    for _ in range(2):
        other.offer(encoding=msgspec.structs.replace(ENCODING, person=()))
    with pytest.raises(PeerError, match=messages.LOG_SET_BACK):
        follow(target.person, other)


def test_a_catalogue_with_an_encoding_of_no_version_is_the_recommenders_fault(tmp_path: Path) -> None:
    recommender = Dishonest()
    target = Target.of(recommender, tmp_path / "device")
    offer = recommender.offer()
    follow(target.person, recommender)
    damaged = msgspec.structs.replace(offer, encoding=b"{}")
    recommender.say("catalogue", damaged)
    assert refused(target.person, recommender) is Fault.DECODE
    recommender.set_back(to=1)
    recommender.put(damaged)
    recommender.start(damaged)  # a model for it, with a sound encoding of its own
    assert follow(target.person, recommender).in_use == "own records alone"


def test_a_region_that_was_asked_for_is_there_in_the_end(tmp_path: Path) -> None:
    here, far = h3.latlng_to_cell(35.0, 139.0, 5), h3.latlng_to_cell(48.0, 2.0, 5)
    recommender = Dishonest()
    target = Target.of(recommender, tmp_path / "device", cell=here)
    with target.person.store.transaction() as rows:
        save_extra_region(rows, far)
    nowhere, plain = octets(np.full((1, 2), np.nan), np.float64), octets(np.zeros((1, 1)), np.float32)
    region = recommender.put(Places(far, ("d",), ("far",), octets(np.array([3]), np.int32), nowhere, plain))
    recommender.charter(regions=[RegionLine(far, region)])

    async def steps() -> int:
        await target.agent.step(wait=0)
        return len(target.agent.view.known)

    assert asyncio.run(steps()) == len(IDS) + 1
    recommender.charter(campaign=7, regions=[RegionLine(far, region)])
    follow(target.person, recommender)
    assert target.person.document(region) is not None  # it is not thrown away as nobody's


@pytest.mark.parametrize("after", ["shorter", "as long", "longer"])
@pytest.mark.parametrize("kept", [0, 3])
def test_a_recommender_that_was_set_back_is_noticed_before_anything_is_entered(
    tmp_path: Path, kept: int, after: str
) -> None:
    recommender = Dishonest()
    target = Target.of(recommender, tmp_path / "device", visits=("a",))
    campaign, B = recommender.rounds()
    follow(target.person, recommender)
    target.agent.view = View.of(target.person)
    recommender.set_back(to=kept)
    again = recommender.rounds(settings=change(SETTINGS, iterations=4))[0] if kept == 0 else campaign
    if kept == 0:
        recommender.set_back(to=3)
    if after != "shorter":
        recommender.model(again, 0.5)
    if after == "longer":
        recommender.model(again, 0.5, iteration=1)
    # the invitation that fits what the device holds, so that nothing but the log speaks against it
    view = View.of(target.person)
    task = view.campaign.interaction(0, B=B)
    with pytest.raises(PeerError, match=messages.LOG_SET_BACK if after != "longer" else messages.EQUIVOCATION):
        asyncio.run(target.invited(task))
    assert target.line.said == []
    assert target.agent.rounds.waiting == []


def test_a_log_that_stands_still_is_read_again_before_a_round_is_entered(tmp_path: Path) -> None:
    recommender = Dishonest()
    target = Target.of(recommender, tmp_path / "device", visits=("a",))
    task = Campaign.of(recommender.charter()).popularity()
    asyncio.run(target.agent.follow())
    asked = list[int]()

    class Noting(Wire):
        async def log(self, after: int):
            asked.append(after)
            return await super().log(after)

    target.line.__class__ = Noting
    assert len(asyncio.run(target.invited(task))) == 1
    assert asked == [0]  # from the entry that it knows
