"""prirec device without a deployment: what a person tells it, what is refused, and what is never repeated."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from prirec.device.device import Device
from prirec.device.store import save_zeros
from prirec.protocols.messages import Round
from support import messages, shell
from support.device_city import membership

call, told = partial(shell.call, "device"), partial(shell.told, "device")
CANARY = "zanzibar-canary"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Of a device that belongs nowhere yet."""
    with Device.open(tmp_path / "phone.db"):
        return tmp_path / "phone.db"


COMMANDS = [("profile",), ("visit", "x"), ("run",), ("recommend",), ("status",), ("privacy",), ("export",)]


every_command = pytest.mark.parametrize(
    "words", [*COMMANDS, ("forget", "--yes"), ("download", "--near", "1,2")], ids=lambda words: words[0]
)


@every_command
def test_commands_do_not_create_a_missing_device_file(tmp_path, words):
    done = call(words[0], tmp_path / "none.db", *words[1:])
    assert (done.exit_code, list(tmp_path.iterdir())) == (5, [])
    assert shell.says(done.stderr, messages.DEVICE_FILE_MISSING)


@every_command
def test_an_empty_file_is_not_taken_for_a_device_that_has_spent_nothing(tmp_path, words):
    """Who has lost a file's content has lost its ledger, too, and is told so."""
    (tmp_path / "phone.db").touch()
    done = call(words[0], tmp_path / "phone.db", *words[1:])
    assert (done.exit_code, (tmp_path / "phone.db").stat().st_size) == (5, 0)
    assert shell.says(done.stderr, messages.DEVICE_FILE_EMPTY)


def test_a_file_of_somebody_else_is_left_alone(tmp_path):
    other = tmp_path / "notes.txt"
    other.write_text("not a device\n" * 100)
    assert call("status", other).exit_code == 5
    assert other.read_text() == "not a device\n" * 100


@pytest.mark.parametrize("words", [("run",), ("recommend",), ("download", "--near", "1,2")], ids=lambda words: words[0])
def test_a_device_in_no_deployment_says_how_to_join_one(file, words):
    done = call(words[0], file, *words[1:])
    assert (done.exit_code, done.stdout) == (5, "")
    assert shell.says(done.stderr, messages.IN_NO_DEPLOYMENT)


def test_a_profile_is_numbers_words_and_lists_and_can_be_forgotten(file):
    assert told("profile", file) == {"profile": {}, "home": None, "features": None, "unused": {}}
    assert "no profile yet" in call("profile", file).stdout
    words = ("age=31", "job=cook", "likes=tea|music", 'zip="0123"', "--home", "35.5,-139.25")
    assert call("profile", file, *words).exit_code == 0
    found = told("profile", file)
    assert found["profile"] == {"age": 31.0, "job": "cook", "likes": ["tea", "music"], "zip": "0123"}
    assert found["home"] == [35.5, -139.25]
    shown = shell.flat(call("profile", file, "--forget", "age", "--forget", "likes", "job=baker").stdout)
    assert "job baker" in shown
    assert told("profile", file)["profile"] == {"job": "baker", "zip": "0123"}


BAD_PROFILES = {
    ("age",): 2,
    ("=31",): 2,
    ("age=",): 2,
    ("age=1", "age=2"): 2,
    ("user=me",): 2,
    ("age=nan",): 3,
    ("x" * 501 + "=1",): 2,
    (f"age={'y' * 501}",): 3,
    ("--home", f"95.1,{CANARY}"): 2,
    ("--home", "95.15,12.5"): 2,
}


@pytest.mark.parametrize("words", BAD_PROFILES, ids=lambda words: words[0][:12])
def test_an_invalid_profile_is_refused_and_nothing_is_stored(file, words):
    done = call("profile", file, "job=cook", *words)
    assert (done.exit_code, done.stdout) == (BAD_PROFILES[words], "")
    assert not [value for value in (CANARY, "95.1", "yyy") if value in done.stderr]
    assert told("profile", file)["profile"] == {}


def test_what_cannot_be_checked_yet_is_said(file):
    for words in (("profile", file, "age=31"), ("visit", file, "noodle-bar")):
        done = call(*words)
        assert done.exit_code == 0
        assert shell.says(done.stderr, messages.NOT_CHECKED)
    for words in (("profile", file), ("profile", file, "--forget", "age")):
        assert call(*words).stderr == ""


def test_a_visit_is_now_unless_a_time_is_given(file, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        before = time.time() + 9 * 3600
        assert call("visit", file, "noodle-bar").stdout == "recorded 1\n"
        found = told_export(file)["visits"][0]
        assert (found["place"], found["label"]) == ("noodle-bar", 1)
        assert before - 2 <= found["time"] <= time.time() + 9 * 3600  # by the clock on the wall, as visits are told
    finally:
        monkeypatch.undo()
        time.tzset()


def told_export(file):
    import json

    return json.loads(call("export", file).stdout)


def test_a_visit_recorded_twice_is_kept_once_and_another_under_its_id_is_refused(file):
    words = ("visit", file, "museum", "--time", "2024-05-04T19:30")
    assert call(*words).stdout == "recorded 1\n"
    assert call(*words).stdout == "recorded 0; 1 known already\n"
    assert call(*words, "--ignored").exit_code == 2
    assert call("visit", file, "bar", "--id", "one", "--time", "2024-05-04").exit_code == 0
    assert call("visit", file, "park", "--id", "one", "--time", "2024-05-04").exit_code == 2
    assert [one["place"] for one in told_export(file)["visits"]] == ["bar", "museum"]
    assert call("visit", file, "--remove", "one").exit_code == 0
    assert call("visit", file, "--remove", "one").exit_code == 2
    assert [one["place"] for one in told_export(file)["visits"]] == ["museum"]


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("a", "--from", "v.csv"),
        ("a", "--remove", "x"),
        ("--from", "v.csv", "--ignored"),
        ("--remove", "x", "--id", "y"),
    ],
    ids=str,
)
def test_a_place_a_file_and_a_removal_exclude_each_other(file, words):
    done = call("visit", file, *words)
    assert (done.exit_code, told_export(file)["visits"]) == (2, [])


def test_many_visits_come_from_a_file_with_their_labels_and_moments(file, tmp_path):
    table = tmp_path / "visits.csv"
    table.write_text(
        "\ufeffpoi,time,label,id,rain,with\n"
        "bar,2024-05-04T19:30:00+09:00,1,a,0.5,ann|bob\n"
        "park,1714851000,0,,,\n"
        '"a, b",,1,,2,ann\n',
        encoding="utf-8",
    )
    assert call("visit", file, "--from", table).stdout == "recorded 3\n"
    assert call("visit", file, "--from", table).stdout == "recorded 0; 3 known already\n"
    found = told_export(file)
    assert found["labelled"] is True
    by_place = {one["place"]: one for one in found["visits"]}
    assert by_place["bar"] | {"id": "a"} == {
        "id": "a", "place": "bar", "time": 1714851000, "label": 1, "context": {"rain": 0.5, "with": ["ann", "bob"]},
    }  # fmt: skip
    assert (by_place["park"]["time"], by_place["park"]["label"], by_place["park"]["context"]) == (1714851000, -1, {})
    assert (by_place["a, b"]["time"], by_place["a, b"]["context"]) == (None, {"rain": 2.0, "with": ["ann"]})


def test_columns_are_known_by_the_names_that_data_folders_know(file, tmp_path):
    table = tmp_path / "visits.csv"
    table.write_text("Venue ID,UTC_timestamp,is_clicked,rain\nbar,1714851000,1,0.5\npark,2024-05-04T19:30,0,\n")
    assert call("visit", file, "--from", table).stdout == "recorded 2\n"
    found = {one["place"]: (one["time"], one["label"], one["context"]) for one in told_export(file)["visits"]}
    assert found == {"bar": (1714851000, 1, {"rain": 0.5}), "park": (1714851000, -1, {})}


BAD_TABLES = {
    "a user by another name": (
        f"user_id,poi\n{CANARY},bar\n",
        messages.in_column("user_id", messages.COLUMN_OUT_OF_PLACE),
    ),
    "coordinates by another name": (
        "poi_id,lng\nbar,35.123456\n",
        messages.in_column("lng", messages.COLUMN_OUT_OF_PLACE),
    ),
    "two places": (
        f"venue_id,place_id\n{CANARY},bar\n",
        messages.joined(messages.in_column("venue_id"), messages.COLUMN_NOT_PLAIN),
    ),
    "a place's name": (
        f"poi,venue_name\nbar,{CANARY}\n",
        messages.joined(messages.in_column("venue_name"), messages.COLUMN_NOT_PLAIN),
    ),
    "bad timestamp": (f"poi,timestamp\nbar,{CANARY}\n", messages.in_column("timestamp", messages.NOT_A_TIME, line=2)),
    "no poi": (f"somewhere,time\n{CANARY},1\n", messages.in_line(1, messages.NO_COLUMN_OF_PLACES)),
    "no header": (f"{CANARY},2024-05-04\n", messages.in_line(1, messages.NO_KNOWN_COLUMN)),
    "semicolons": (f"poi;time\n{CANARY};1\n", messages.in_line(1, messages.COLUMNS_BY_SEMICOLONS)),
    "a long line": ("poi\n" + 9_000_000 * "a", messages.LONG_LINE),
    "a user": (f"user,poi\n{CANARY},bar\n", messages.in_column("user", messages.COLUMN_OUT_OF_PLACE, line=1)),
    "coordinates": ("poi,lat\nbar,35.123456\n", messages.in_column("lat", messages.COLUMN_OUT_OF_PLACE, line=1)),
    "twice": ("poi,x,x\nbar,1,2\n", messages.in_column("x", messages.NAME_OF_A_COLUMN_TWICE, line=1)),
    "no name": ("poi,\nbar,1\n", messages.in_line(1, messages.COLUMN_WITHOUT_A_NAME)),
    "bad time": (f"poi,time\nbar,1\nbar,{CANARY}\n", messages.in_column("time", messages.NOT_A_TIME, line=3)),
    "no such day": ("poi,time\nbar,2024-02-31\n", messages.in_column("time", messages.NOT_A_TIME, line=2)),
    "bad label": (f"poi,label\nbar,1\nbar,{CANARY}\n", messages.in_column("label", messages.NOT_A_LABEL, line=3)),
    "too few cells": ("poi,time,label\nbar,1,1\nbar,1\n", messages.in_line(3, messages.CELLS_UNEVEN)),
    "too many cells": (f"poi\nbar\nbar,{CANARY}\n", messages.in_line(3, messages.CELLS_UNEVEN)),
    "no place": ("poi,time\nbar,1\n,2\n", messages.in_line(3, messages.blank_or_too_long("the id of a place"))),
    "not finite": ("poi,rain\nbar,1\nbar,inf\n", messages.in_line(3, messages.in_column("rain", messages.NOT_FINITE))),
    "quotes": (f'poi\n"bar{CANARY}\n', messages.NOT_CSV),
    "not text": (b"poi\n\xff\xfe" + CANARY.encode(), messages.NOT_UTF_8),
    "empty": ("", messages.in_line(1, messages.TABLE_EMPTY)),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_a_bad_table_is_refused_whole_with_its_line_and_column_and_none_of_its_cells(file, tmp_path, name):
    content, message = BAD_TABLES[name]
    table = tmp_path / "visits.csv"
    table.write_bytes(content if isinstance(content, bytes) else content.encode())
    done = call("visit", file, "--from", table)
    assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (3, "", 1)
    assert done.stderr.startswith("error: visits.csv")
    assert shell.says(done.stderr, message)
    assert not [value for value in (CANARY, "35.123456") if value in done.stderr]
    assert told_export(file)["visits"] == []


def test_a_table_that_is_not_there_is_a_usage_error(file, tmp_path):
    assert call("visit", file, "--from", tmp_path / "none.csv").exit_code == 2


def test_pipes_and_folders_are_no_files(file, tmp_path):
    """Opening a pipe to which nobody writes would wait for ever."""
    pipe, folder = tmp_path / "pipe", tmp_path / "folder"
    os.mkfifo(pipe)
    folder.mkdir()
    for wrong, message in ((folder, messages.FOLDER_FOR_A_FILE), (pipe, messages.NOT_A_REGULAR_FILE)):
        done = call("visit", file, "--from", wrong)
        assert (done.exit_code, shell.says(done.stderr, message)) == (3, True)
    for wrong in (pipe, folder):
        done = call("status", wrong)
        assert (done.exit_code, shell.says(done.stderr, messages.DEVICE_FILE_NOT_A_FILE)) == (5, True)
        done = call("init", tmp_path / "new.db", "--url", "https://town:8443", "--authority", wrong)
        assert (done.exit_code, shell.says(done.stderr, messages.AUTHORITY_FILE_MISSING)) == (2, True)


@pytest.mark.parametrize("when", [CANARY, "2024-13-01", "21:47"])
def test_an_invalid_time_is_not_repeated(file, when):
    done = call("visit", file, "bar", "--time", when)
    assert (done.exit_code, when in done.stderr) == (2, False)


def test_a_device_that_spent_nothing_says_so(file):
    assert told("privacy", file)["items"] == []
    assert "Nothing was spent" in call("privacy", file).stdout


def test_an_own_floor_is_set_shown_and_taken_back(file):
    assert told("privacy", file)["floor"] == 0
    assert "only in sums over at least 1,000 devices" in shell.flat(call("privacy", file, "--floor", 1000).stdout)
    assert told("privacy", file)["floor"] == 1000
    assert "at least" not in call("privacy", file, "--floor", 0).stdout
    assert call("privacy", file, "--floor", -1).exit_code == 2


def test_sums_that_got_nothing_but_zeros_are_shown_with_the_reason(file):
    """The agent's log does not say so: others may read that."""
    assert (told("privacy", file)["zeros"], "zeros" in call("privacy", file).stdout) == (0, False)
    with Device.open(file) as device:
        device.person.join(membership())
        with device.store.transaction() as rows:
            save_zeros(rows, Round(bytes(16), "linear", 1), why="reason 1")
    assert "to 1 sum, at the full price; the last time: reason 1" in shell.flat(call("status", file).stdout)
    with Device.open(file) as device, device.store.transaction() as rows:
        save_zeros(rows, Round(bytes(16), "linear", 2), why="reason 2")
    belongs = told("status", file)["membership"]
    assert (belongs["zeros"], belongs["zeros_because"]) == (2, "reason 2")
    assert "to 2 sums, at the full price; the last time: reason 2" in shell.flat(call("status", file).stdout)
    assert (told("privacy", file)["zeros"], told("privacy", file)["zeros_because"]) == (2, "reason 2")
    shown = shell.flat(call("privacy", file).stdout)
    assert "nothing but zeros to 2 of these sums; the last time: reason 2" in shown


def test_forgetting_needs_no_deployment_and_leaves_no_trace_in_the_file(file):
    call("profile", file, f"nickname={CANARY}")
    call("visit", file, CANARY)
    assert CANARY.encode() in file.read_bytes()
    done = call("forget", file, "--yes")
    assert (done.exit_code, "was in no deployment" in done.stdout) == (0, True)
    assert CANARY.encode() not in file.read_bytes()


def test_a_full_disk_loses_nothing_and_is_reported_in_one_line(file, tmp_path):
    call("visit", file, "bar", "--time", "2024-05-04")
    table = tmp_path / "visits.csv"
    table.write_text("poi\n" + "".join(f"place-{at}\n" for at in range(20_000)))
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000));"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "from prirec.cli.main import run; run()"
    )
    done = subprocess.run(
        [sys.executable, "-c", limited, "device", "visit", str(file), "--from", str(table)],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (5, "", 1), done.stderr
    assert [one["place"] for one in told_export(file)["visits"]] == ["bar"]


MISSING = ("httpx", "httpcore", "fastapi", "uvicorn")


def without_extras(*words: object) -> "subprocess.CompletedProcess[str]":
    script = f"import sys; sys.modules.update(dict.fromkeys({MISSING!r})); from prirec.cli.main import run; run()"
    command = [sys.executable, "-c", script, "device", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.long
def test_without_the_extra_what_goes_online_names_it_and_all_else_works(file, tmp_path):
    for words in (
        ("init", tmp_path / "other.db", "--url", "https://x"), ("run", file), ("download", file, "--near", "1,2"),
    ):  # fmt: skip
        done = without_extras(*words)
        assert (done.returncode, done.stdout) == (2, "")
        assert shell.says(done.stderr, messages.extra_missing("device"))
    for words in (("visit", file, "bar"), ("profile", file, "age=3"), ("status", file), ("export", file)):
        assert without_extras(*words).returncode == 0


def test_a_device_of_two_operators_shows_both_keys_and_what_its_promise_rests_on(file):
    with Device.open(file) as device:
        device.person.join(replace(membership(), helper=b"\xab" * 32))
    shown = call("status", file).stdout
    assert "helper's key" in shown
    assert "ab" * 32 in "".join(shown.split())
    assert told("status", file)["membership"]["helper_key"] == "ab" * 32
    assert "while one of its deployment's two operators is honest" in shell.flat(call("privacy", file).stdout)
    assert told("privacy", file)["two_operators"] is True


def test_a_device_of_one_operator_shows_no_helper(file):
    with Device.open(file) as device:
        device.person.join(membership())
    assert "helper" not in call("status", file).stdout
    assert "honest" not in call("privacy", file).stdout
    assert told("privacy", file)["two_operators"] is False
