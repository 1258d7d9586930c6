"""Device and Recommender as a program would use them: in plain code, and inside a running event loop."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path

import pytest

import prirec
from prirec.device.device import DeviceStatus, MembershipStatus
from prirec.errors import PolicyError, StateError, UsageError
from prirec.recommender.conductor import Pace
from support import messages
from support.founded_deployment import folder  # noqa: F401  # a fixture
from support.https_deployment import OPEN
from support.waiting import PATIENCE


@pytest.fixture
def recommender(folder: Path) -> Iterator[prirec.Recommender]:  # noqa: F811
    prirec.make_city(people=60, seed=1).save(folder / "town")
    with prirec.Recommender.create(folder / "town.db", title="Our town", hosts=["localhost"]) as made:
        made.publish(folder / "town")
        yield made


def home() -> tuple[float, float]:
    return 35.68, 139.76


def test_a_deployment_is_founded_opened_and_described(recommender: prirec.Recommender, folder: Path) -> None:  # noqa: F811
    found = recommender.status()
    assert (found.title, found.places, found.counts.people, found.campaign) == ("Our town", 24, 0, None)
    assert len(recommender.fingerprint) == 64
    assert recommender.authority.startswith(b"-----BEGIN CERTIFICATE")
    assert repr(recommender) == "Recommender 'Our town': 0 people enrolled, no campaign yet"
    with prirec.Recommender.open(folder / "town.db") as again:
        assert again.fingerprint == recommender.fingerprint
    with pytest.raises(StateError, match=messages.STORE_HAS_A_DEPLOYMENT):
        prirec.Recommender.create(folder / "town.db", title="Our town")
    with pytest.raises(StateError, match=messages.no_store("nowhere.db", "recommender", "Recommender")):
        prirec.Recommender.open(folder / "nowhere.db")
    assert not (folder / "nowhere.db").exists()


def test_few_devices_begin_no_campaign(recommender: prirec.Recommender) -> None:
    with pytest.raises(PolicyError, match=messages.too_few_enrolled(0)):
        recommender.begin()
    with pytest.raises(PolicyError, match=messages.NO_CAMPAIGN_TO_END):
        recommender.end()
    assert recommender.campaign() is None


def test_keys_are_rotated_and_a_backup_is_made(recommender: prirec.Recommender, folder: Path) -> None:  # noqa: F811
    before = recommender.certificates.certificate.read_bytes()
    recommender.rotate_keys()
    assert recommender.certificates.certificate.read_bytes() != before
    assert recommender.back_up(folder / "copy.db") == recommender.status().counts.entries
    with pytest.raises(UsageError, match=messages.code_length(100)), recommender.serving(code=""):
        pass


def test_a_device_joins_takes_part_and_leaves_in_plain_code(recommender: prirec.Recommender, folder: Path) -> None:  # noqa: F811
    with recommender.serving() as url, prirec.Device.open(folder / "phone.db") as device:
        device.join(url, home=home(), authority=recommender.authority, fingerprint=recommender.fingerprint)
        member = device.status().membership
        assert member is not None
        assert member.enrolled
        assert recommender.status().counts.people == 1
        device.record_visit("p01")
        device.take_part(seconds=0.5)
        device.leave()
        assert device.status().membership is None
        assert recommender.status().counts.people == 0


def test_asynchronous_methods_do_what_the_plain_ones_do(recommender: prirec.Recommender, folder: Path) -> None:  # noqa: F811
    async def app() -> None:
        async with recommender.serving_async() as url:
            with prirec.Device.open(folder / "phone.db") as device:
                await device.join_async(url, home=home(), authority=recommender.authority)
                await device.take_part_async(seconds=0.5)
                assert recommender.status().counts.people == 1
                assert await device.download_async(near=home()) == 0  # they are the own regions, too
                await device.leave_async()
                assert recommender.status().counts.people == 0

    asyncio.run(app())


def test_plain_calls_work_inside_a_running_loop(recommender: prirec.Recommender, folder: Path) -> None:  # noqa: F811
    """As in a cell of a notebook, or in a handler of a web framework."""

    async def cell() -> None:
        with recommender.serving() as url, prirec.Device.open(folder / "phone.db") as device:
            device.join(url, home=home(), authority=recommender.authority)
            device.record_visit("p01")
            device.take_part(seconds=0.5)
            assert device.download(near=home()) == 0
            device.leave()
            assert recommender.status().counts.people == 0

    asyncio.run(cell())


def test_before_anything_is_published_a_device_has_nothing_to_recommend_from(folder: Path) -> None:  # noqa: F811
    with (
        prirec.Recommender.create(folder / "town.db", title="Our town", hosts=["localhost"]) as recommender,
        recommender.serving() as url,
        prirec.Device.open(folder / "phone.db") as device,
    ):
        device.join(url, home=home(), authority=recommender.authority)
        assert (device.status().membership.model, device.status().membership.can_recommend) == ("", False)
        with pytest.raises(StateError, match=messages.NOTHING_TO_RECOMMEND_FROM):
            device.recommend()
        with pytest.raises(StateError, match=messages.NOTHING_PUBLISHED):
            device.download(near=home())


async def answers(port: int) -> bool:
    try:
        _, line = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    line.close()
    return True


def test_a_service_in_a_task_ends_when_it_is_cancelled(recommender: prirec.Recommender, folder: Path) -> None:  # noqa: F811
    async def app() -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        serving = asyncio.create_task(recommender.serve_async(port=port))
        async with asyncio.timeout(PATIENCE):
            while not await answers(port):
                await asyncio.sleep(0.01)
        assert not serving.done()
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving
        with pytest.raises(UsageError, match=messages.ONE_WORKER_ONLY):
            recommender.serve(workers=2)

    asyncio.run(app())


@pytest.mark.long  # 55 devices and a service in one process
def test_a_campaign_from_founding_to_recommendations(folder: Path) -> None:  # noqa: F811
    """Devices and recommender in one program, by the front door alone: enrol, begin, sum, learn, recommend."""
    many = 55
    city = prirec.make_city(people=many, places=40, records=many * 20, seed=4)
    city.save(folder / "town")
    settings = prirec.settings("private", iterations=1, floor=50)
    with ExitStack() as stack:
        recommender = stack.enter_context(prirec.Recommender.create(folder / "town.db", title="Our town"))
        recommender.publish(folder / "town", settings)
        devices = [stack.enter_context(prirec.Device.open(folder / f"{at}.db")) for at in range(many)]
        asyncio.run(_campaign(recommender, devices, city, settings))
        found = devices[3].recommend(k=3)
        assert len(found) == 3
        spent = devices[3].account().lifetime.epsilon
        assert 0.5 < spent <= 1.0  # one round mixes no models, and their part of the budget is left


async def _campaign(
    recommender: prirec.Recommender, devices: list[prirec.Device], city: prirec.City, settings: prirec.Settings
) -> None:
    visits, homes, stop = city.dataset.visits, city.dataset.people.location, asyncio.Event()
    for at, device in enumerate(devices):
        for row in (visits.person == at).nonzero()[0]:
            device.record_visit(city.places[visits.place[row]], wanted=bool(visits.label[row] > 0), id=str(row))
    async with recommender.serving_async(pace=Pace(coming=900.0, step=900.0), limits=OPEN) as url:
        for at, device in enumerate(devices):
            await device.join_async(url, home=tuple(homes[at].tolist()), authority=recommender.authority)
        recommender.begin(settings, anyway=True)
        working = asyncio.gather(*(device.take_part_until(stop) for device in devices))
        try:
            async with asyncio.timeout(3600):
                while (held := recommender.campaign()) is None or held.phase not in ("over", "failed"):
                    await asyncio.sleep(0.1)
                assert held.phase == "over"
                while not all(device.status().membership.model == "campaign 0" for device in devices):
                    await asyncio.sleep(0.1)
        finally:
            stop.set()
            await working


def test_a_device_without_a_catalogue_says_what_it_takes_and_promises_nothing() -> None:
    """Its recommender may be over, as that of `prirec city up` is: the device cannot know."""
    known = {"title": "Our town", "enrolled": True, "campaign": 1, "takes_part": True, "can_recommend": False}
    joined = MembershipStatus(**(dict.fromkeys((one.name for one in fields(MembershipStatus)), 0) | known))
    status = DeviceStatus(visits=0, profile=(), home=False, membership=joined)
    said = status.verdict
    assert repr(status) == f"Device with 0 visits: {said}."
    assert "cannot recommend: this device has no catalogue" in said
    assert "if its recommender runs" in said
    assert "yet" not in said
