"""Events of a rehearsal and its page: they tell private things of made-up people alone, and this machine alone."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from prirec.errors import StateError, UsageError
from prirec.metrics import Quality
from prirec.pages.local import ThisMachineAlone
from prirec.rehearsal.events import ABSENT, City, Devices, EventFile, Holds, Recorder, read_events
from prirec.rehearsal.page import CityPage, page_of, record, shown
from prirec.rehearsal.plan import Plan
from prirec.rehearsal.population import Population, load_people, make_devices
from support import messages
from support.full_disk import largest_file

PLAN = Plan(devices=60, rounds=2, operators=2)
QUALITY = Quality(auc=0.71828, log_loss=0.31415, gauc=0.5, auc_few=0.5, records=9)


@pytest.fixture(scope="module")
def population(tmp_path_factory) -> Population:
    return make_devices(load_people(PLAN), PLAN, tmp_path_factory.mktemp("devices"))


def recorded(population: Population, *, personal: bool) -> list:
    """What a recorder tells of everything private that it is shown."""
    told = []
    recorder = Recorder(told.append, PLAN, personal=personal)
    recorder.city(population, [3], at=0.0)
    recorder.watched([{"device": 3, "sent": [SENT], "epsilon": 0.25}], at=1.0)
    recorder.accuracy(1, QUALITY, at=2.0)
    recorder.end("over", QUALITY, [QUALITY], at=3.0)
    return told


SENT = {
    "name": "ab" * 32, "kind": "popularity", "bytes": 9, "leader_box": 5, "leader_begins": "0102", "helper_box": 3,
    "helper_begins": "0304",
}  # fmt: skip


def test_of_people_who_are_not_made_up_nothing_private_is_told(population, tmp_path):
    private = population.dataset.people.location
    homes = {f"{one:.5f}".rstrip("0") for one in private[:, 0].tolist()}
    file = tmp_path / "open.jsonl", tmp_path / "closed.jsonl"
    for path, personal in zip(file, (True, False), strict=True):
        with EventFile(path) as write:
            for event in recorded(population, personal=personal):
                write(event)
    told, hidden = (path.read_text() for path in file)
    assert all(home in told for home in homes)  # the canaries sing where they may
    for canary in (*homes, "71828", "31415", "0102", "0304", "ab" * 32, '"holds"', '"records"', '"people"'):
        assert canary not in hidden
    assert json.loads(hidden.splitlines()[0])["personal"] is False


def test_a_watched_device_holds_what_its_person_did(population):
    holds = next(event for event in recorded(population, personal=True) if isinstance(event, Holds))
    train = population.prepared.train
    mine = (train.person == 3) & (train.label > 0)
    assert sum(times for _, times in holds.visits) == int(mine.sum()) > 0
    assert {place for place, _ in holds.visits} == set(train.place[mine].tolist())


def test_only_what_has_changed_is_told():
    told = []
    recorder = Recorder(told.append, PLAN, personal=True)
    recorder._counts = [ABSENT] * 4
    for at, counts in enumerate([[ABSENT, 0, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0], [0, ABSENT, 2, 3], [0, 1, 2, 3]]):
        recorder.devices(counts, at=float(at))
    assert told == [
        Devices(at=0.0, came=[1, 2, 3]),
        Devices(at=1.0, came=[0], added=[2]),
        Devices(at=3.0, gone=[1], added=[2, 3]),
        Devices(at=4.0, came=[1], added=[1]),
    ]
    for at, sent in enumerate([[SENT], [SENT], [SENT, SENT]]):
        recorder.watched([{"device": 2, "sent": sent, "epsilon": 0.5}], at=float(at))
    assert [type(event).__name__ for event in told[4:]] == ["Sent", "Spent", "Sent"]


def test_a_file_of_events_is_read_back_and_anything_else_is_refused(population, tmp_path):
    events, file = recorded(population, personal=True), tmp_path / "city.jsonl"
    with EventFile(file) as write:
        for event in events:
            write(event)
    with file.open("ab") as more:
        more.write(b'{"event":"doing","at"')  # cut off by a kill
    assert read_events(file) == events
    for text in (b'{"event":"city","version":2,"at":0}\n', b"[]\n", b"", b'{"event":"doing","at":0,"text":"x"}\n'):
        file.write_bytes(text)
        with pytest.raises(StateError, match=messages.NO_RECORDING):
            read_events(file)


# The page


@pytest.fixture
def events(tmp_path: Path) -> Path:
    file = tmp_path / "city.jsonl"
    plan = City(
        at=0.0, version=1, made_up=True, personal=True, devices=1, rounds=1, operators=1, floor=50, epsilon=1.0,
        places=[(1.0, 2.0)], names=["</script><b>bar & grill"],
    )  # fmt: skip
    with EventFile(file) as write:
        write(plan)
        write(Devices(at=1.0, came=[0]))
    return file


async def ask(
    page: CityPage | ThisMachineAlone, path: str, *, host: str = "127.0.0.1:8000", pieces: int = 1, **headers: str
):
    """An answer: its status, and so many pieces of its body; then the client leaves."""
    sent, enough = [], asyncio.Event()

    async def send(message):
        sent.append(message)
        if len(sent) > pieces:
            enough.set()

    async def receive():
        await enough.wait()
        return {"type": "http.disconnect"}

    given = [(b"host", host.encode())] + [(name.replace("_", "-").encode(), v.encode()) for name, v in headers.items()]
    scope = {"type": "http", "method": "GET", "path": path, "headers": given}
    await asyncio.wait_for(page(scope, receive, send), 60)
    return sent[0]["status"], b"".join(one["body"] for one in sent[1:])


def test_events_are_told_to_this_machine_alone(events):
    page = ThisMachineAlone(CityPage(events))
    first, second = events.read_bytes().splitlines()
    for host in ("127.0.0.1:8000", "localhost", "[::1]:9"):
        status, body = asyncio.run(ask(page, "/events", host=host, pieces=2))
        assert (status, body) == (200, b"id: 1\ndata: %s\n\nid: 2\ndata: %s\n\n" % (first, second))
    for host in ("rebound.example", "127.0.0.1.example:8000", "localhost.example", ""):
        for path in ("/events", "/"):
            status, body = asyncio.run(ask(page, path, host=host))
            assert status == 421
            assert b"bar" not in body


def test_who_comes_back_is_told_only_what_is_new(events):
    _, body = asyncio.run(ask(CityPage(events), "/events", last_event_id="1"))
    assert body.startswith(b"id: 2\n")


def test_one_file_holds_page_and_events_and_its_policy_lets_nothing_through(events, tmp_path):
    target = tmp_path / "city.html"
    record(events, target)
    html = target.read_text()
    assert "default-src 'none'" in html
    assert "src=" not in html.split("<body>")[0]
    assert html.count("</script>") == html.count("<script")
    assert "\\u003c/script>\\u003cb>bar & grill" in html
    with pytest.raises(UsageError, match=messages.NAME_A_NEW_FILE):
        record(events, target)
    link = tmp_path / "link.html"
    link.symlink_to(tmp_path / "nothing.html")
    for there in (target, link):
        with pytest.raises(UsageError, match=messages.NAME_A_NEW_FILE), shown(there, tell=lambda address: None):
            raise AssertionError("what takes long was begun")


def test_a_recording_that_does_not_fit_on_the_disk_is_not_there_and_a_folder_that_is_not_is_named_first(
    events, tmp_path
):
    with largest_file(2_000), pytest.raises(StateError, match=messages.NOT_WRITTEN):
        record(events, tmp_path / "city.html")
    assert not list(tmp_path.glob("*city.html*"))
    target = tmp_path / "none" / "city.html"
    with pytest.raises(UsageError, match=messages.NO_FOLDER_FOR_IT), shown(target, tell=lambda address: None):
        raise AssertionError("what takes long was begun")


def test_a_rehearsal_that_ends_badly_leaves_its_recording(events, tmp_path):
    target, addresses = tmp_path / "city.html", []
    (event,) = (one for one in read_events(events) if isinstance(one, City))

    def interrupted() -> None:
        with shown(target, tell=addresses.append) as write:
            write(event)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert addresses[0].startswith("http://127.0.0.1:")
    assert '"event":"city"' in target.read_text()


def test_the_page_is_served_while_the_context_lasts(events):
    with page_of(events) as address:
        answer = httpx.get(address, trust_env=False)
        assert (answer.status_code, answer.headers["content-security-policy"].split(";")[0]) == (
            200,
            "default-src 'self'",
        )
    with pytest.raises(httpx.ConnectError):
        httpx.get(address, trust_env=False)


def test_without_a_budget_or_a_model_nothing_is_made_up():
    told = []
    Recorder(told.append, replace(PLAN, operators=1), personal=True).end("failed", None, [], at=1.0)
    assert (told[0].auc, told[0].simulated) == (None, [])
