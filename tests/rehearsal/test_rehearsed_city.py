"""A whole city on one machine: really started over TLS, and nothing of it is left when it ends, however it ends."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from prirec.device.device import Device
from prirec.recommender.store import Store
from prirec.rehearsal import processes
from prirec.rehearsal.city import rehearse
from prirec.rehearsal.plan import Plan
from prirec.rehearsal.population import SIMULATIONS
from support.pages import CITY_OF_TWO, CITY_UP
from support.postgres import GROUP
from support.rehearsed_city import MODULE, census, descendants, ended_by, lines_of, started, still_there, until, using
from support.shell import call, told, write_city

FLOOR = 50


@pytest.fixture
def memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where cities of this test have their files."""
    made = folder / "memory"
    made.mkdir()
    monkeypatch.setattr(processes, "MEMORY", made)
    return made


@pytest.mark.long
@pytest.mark.parametrize(("command", "operators"), [(CITY_OF_TWO, 2), (CITY_UP, 1)])
def test_a_city_trains_over_tls_and_leaves_no_process_and_no_file(memory, folder, command, operators):
    kept, page = folder / "kept", folder / "city.html"
    with census() as seen:
        outcome = told(*command.removeprefix("prirec ").split(), "--out", kept, "--record", page)
    if operators == 2:
        watch_what_devices_say_they_sent(kept, page)
    assert outcome["operators"] == operators
    assert [one["kind"] for one in outcome["sums"]] == ["visits", "moments", "learning", "learning"]
    assert all(one["opened"] and one["survivors"] >= FLOOR for one in outcome["sums"])
    assert all(one["bytes_sent"] > 0 and one["bytes_received"] > 0 for one in outcome["sums"])
    assert (outcome["phase"], outcome["rounds_opened"], outcome["abandoned"]) == ("over", 2, 0)
    assert (outcome["devices_killed"], outcome["recommender_killed"]) == (0, 0)
    measured = [one["auc"] for one in outcome["sums"] if one["kind"] == "learning"]
    assert measured[-1] == outcome["quality"]["auc"] > 0.55
    simulated = [one["auc"] for one in outcome["simulated"]]
    assert len(set(simulated)) == SIMULATIONS  # each has noise of its own
    assert min(simulated) - 0.15 < outcome["quality"]["auc"] < max(simulated) + 0.15
    assert [one["count"] for one in outcome["recommended"]] == [5, 5, 5]
    assert all(place["reasons"] for one in outcome["recommended"] for place in one["places"][:1])
    assert all(0 < one["epsilon_per_user"] <= 1.0 for one in outcome["recommended"])  # on a busy machine one is late

    assert {words.split(MODULE)[1].split()[0] for words in seen.values()} == {
        "server_process", "device_process", "cleanup_process"
    }  # fmt: skip
    assert still_there(seen) == []
    assert list(memory.iterdir()) == []


def watch_what_devices_say_they_sent(kept: Path, page: Path) -> None:
    """What left each watched device, as it was noted on its way out, is what its own file says was sent."""
    (lines,) = re.findall(r'<script type="application/jsonl" id="events">(.*?)</script>', page.read_text(), re.DOTALL)
    events = [json.loads(line) for line in lines.splitlines()]
    assert (events[0]["event"], events[-1]["event"], events[-1]["phase"]) == ("city", "end", "over")
    assert len(events[0]["watched"]) == 3
    for kind in ("model", "accuracy"):
        assert [one["round"] for one in events if one["event"] == kind] == [1, 2]
    for row in events[0]["watched"]:
        left = [one for one in events if one["event"] == "sent" and one["device"] == row]
        with Device.open(kept / "devices" / f"device-{row:05}") as device:
            traffic = device.traffic()
        assert [one.kind for one in traffic.sums] == [one["kind"] for one in left]
        assert {one["name"] for one in left} == {traffic.name}
        for said, seen in zip(traffic.sums, left, strict=True):
            lengths = {one.name: one.bytes for one in said.fields}
            assert (lengths["leader_box"], lengths["helper_box"]) == (seen["leader_box"], seen["helper_box"])
            assert 0 <= seen["bytes"] - sum(size or 0 for size in lengths.values()) < 200  # names, round, version


@pytest.mark.soak
def test_devices_and_server_are_killed_and_every_round_is_opened_or_abandoned(memory, folder):
    kept = folder / "kept"
    plan = Plan(devices=60, rounds=2, chaos=0.1, seed=1, operators=1, step=5.0, out=kept)
    with census() as seen:
        outcome = rehearse(plan)
    assert outcome.server_deaths == 1
    assert outcome.device_deaths >= 12
    log = lines_of(kept / "recommender.log")
    assert sum(line["event"] == "serving" for line in log) == 2
    for row in outcome.rows:
        assert row.opened == (not row.burnt and row.survivors >= FLOOR)
    assert outcome.phase == "over"
    assert outcome.rows[0].opened  # or there would have been nothing to go on with
    assert any(row.opened for row in outcome.rows[2:])  # it went on after the server's death
    for file in sorted((kept / "devices").iterdir()):
        with Device.open(file) as device:
            assert device.account().lifetime.epsilon <= 1.0
    assert still_there(seen) == []
    assert list(memory.iterdir()) == []


def opens(page: str) -> int:
    """The status of logging in to an operator's page with the token in its address, as soon as it is served."""
    address, _, token = page.partition("/operator/#token=")
    until(lambda: not refused(address))
    headers, given = {"origin": address}, {"token": token}
    return httpx.post(f"{address}/operator/login", json=given, headers=headers, verify=False).status_code  # noqa: S501


def refused(address: str) -> bool:
    try:
        httpx.get(f"{address}/healthz", verify=False)  # noqa: S501
    except httpx.ConnectError:
        return True
    return False


@pytest.mark.long
def test_over_two_operators_every_window_is_opened_though_devices_and_server_are_killed(memory, folder):
    plan, opened = Plan(devices=60, rounds=2, chaos=0.1, seed=1, out=folder / "kept"), {}
    with census() as seen:
        outcome = rehearse(plan, tell_pages=lambda pages: opened.update({who: opens(pages[who]) for who in pages}))
    assert opened == {"recommender": 204, "helper": 204}
    assert outcome.server_deaths == 1
    assert outcome.phase == "over"
    assert all(row.opened and row.survivors >= FLOOR for row in outcome.rows)
    assert len(outcome.rows) == 4
    helped, led = (Store.open(folder / "kept" / "recommender" / name) for name in ("helper", "store"))
    with helped, led:
        assert helped.head() == led.head()
    assert still_there(seen) == []
    assert list(memory.iterdir()) == []


@GROUP
@pytest.mark.long
def test_a_city_on_postgresql_has_two_workers_and_names_nobodys_places(memory, folder):
    kept, data = folder / "kept", write_city(folder / "data")
    with census() as seen:
        found = call("city", "up", "--devices", 60, "--rounds", 1, "--data", data, "--postgres", "--out", kept)
    assert found.exit_code == 0
    assert "3 devices recommended 15 places offline; --show prints them" in found.stdout
    assert "the shared model moved in 1 of 1 round;" in found.stdout
    assert not re.search(r"\bp\d{2}\b", found.stdout)  # as places are called in that folder
    serving = [line for line in lines_of(kept / "recommender.log") if line["event"] == "serving"]
    assert [line["workers"] for line in serving] == [2]
    assert still_there(seen) == []
    assert not (kept / "postgres" / "postmaster.pid").exists()
    assert sorted(one.name for one in kept.iterdir()) == [
        "devices",
        "devices.log",
        "helper.log",
        "postgres",
        "recommender",
        "recommender.log",
    ]
    devices = sorted((kept / "devices").iterdir())
    assert len(devices) == 60
    with sqlite3.connect(devices[0]) as rows:
        assert rows.execute("SELECT count(*) FROM spending").fetchone() == (3,)
    assert list(memory.iterdir()) == []


@GROUP
@pytest.mark.long
def test_a_city_whose_command_was_killed_ends_by_itself_database_and_all(folder):
    with started(folder, "--devices", "60", "--postgres") as process:
        assert until(lambda: _children(process.pid, "device_process"))
        city = next(folder.iterdir())
        seen = descendants(process.pid)
        assert using(city / "postgres")
        process.kill()
        assert until(lambda: not still_there(seen) and not using(city))
    assert until(lambda: list(folder.iterdir()) == [])


@pytest.mark.long
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 128 + signal.SIGTERM, marks=pytest.mark.soak)],
)
def test_a_city_that_gets_a_signal_ends_in_order(number, code, folder):
    with started(folder, "--devices", "60") as process:
        assert until(lambda: _children(process.pid, "device_process"))
        seen = descendants(process.pid)
        returned, complaint = ended_by(process, number)
        assert returned == code
        assert "Traceback" not in complaint
        assert still_there(seen) == []
    assert list(folder.iterdir()) == []


def _children(of: int, module: str) -> bool:
    return any(MODULE + module in words for words in descendants(of).values())


DATABASE = """
import sys
from pathlib import Path
from prirec.rehearsal.deployment import postgres

with postgres(Path(sys.argv[1]) / "data") as url:
    print(url.startswith("postgresql://"))
"""


def test_a_database_of_a_city_leaves_nothing_but_its_data_folder(tmp_path: Path) -> None:
    folder, temporary = tmp_path / "city", tmp_path / "temporary"
    folder.mkdir()
    temporary.mkdir(mode=0o777)
    environment = {name: value for name, value in os.environ.items() if name != "XDG_RUNTIME_DIR"}
    environment["TMPDIR"] = str(temporary)
    done = subprocess.run(
        [sys.executable, "-c", DATABASE, str(folder)], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n"
    assert (list(temporary.iterdir()), [one.name for one in folder.iterdir()]) == ([], ["data"])
    assert not (folder / "data" / "postmaster.pid").exists()  # the server has ended
