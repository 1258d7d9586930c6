"""--engine cluster from the command line: what is refused, in one line and before any data are read."""

import socket
import sys

import pytest

from prirec.cli.output import bar, bars
from prirec.engines.state import IterationReport
from support import messages
from support.shell import call, flat, says, told, write_city


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    return write_city(tmp_path_factory.mktemp("cluster") / "city")


def nobody_listens() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def refused(*words: object, code: int, message: str) -> None:
    found = call(*words)
    assert found.exit_code == code
    assert says(found.stderr, message), found.stderr


def test_without_ray_the_error_says_how_to_install_it(city, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    refused("train", city, "--out", tmp_path / "run", "--engine", "cluster", code=2, message=messages.RAY_MISSING)


@pytest.mark.parametrize("command", [("train", "--out", "run"), ("reproduce", "table4", "--quick"), ("tune", "small")])
def test_an_unreachable_cluster_is_a_state_error(command, city, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name, *rest = command
    words = (name, city, *rest) if name == "train" else command
    address = f"127.0.0.1:{nobody_listens()}"
    message = messages.no_cluster_at(address)
    refused(*words, "--engine", "cluster", "--address", address, code=5, message=message)


@pytest.mark.parametrize("address", ["head", "head:", ":6379", "head:0", "head:99999", "ray://head:10001/x"])
def test_an_invalid_cluster_address_is_refused(address, city, tmp_path):
    words = ("train", city, "--out", tmp_path / "run", "--engine", "cluster", "--address", address)
    refused(*words, code=2, message=messages.CLUSTER_ADDRESS_INVALID)


@pytest.mark.parametrize("flag", [("--address", "head:6379"), ("--actors", "3")])
def test_cluster_flags_with_another_engine_are_refused(flag, city, tmp_path):
    message = messages.belongs_to_the_cluster(flag[0].removeprefix("--"))
    refused("train", city, "--out", tmp_path / "run", *flag, code=2, message=message)


def test_threads_are_refused_on_a_cluster(city, tmp_path):
    words = ("train", city, "--out", tmp_path / "run", "--engine", "cluster", "--threads", "2")
    refused(*words, code=2, message=messages.THREADS_ON_A_CLUSTER)


def test_the_papers_schedule_is_refused_with_the_reason(city, tmp_path):
    words = ("train", city, "--out", tmp_path / "run", "--engine", "cluster", "--preset", "paper")
    refused(*words, code=2, message=messages.joined(messages.CLUSTER_RUNS_ROUNDS_ONLY, messages.SAMPLES_IN_ORDER))


def test_optuna_is_refused_on_a_cluster(tmp_path):
    words = ("tune", "small", "--by", "optuna", "--engine", "cluster", "--out", tmp_path)
    refused(*words, code=2, message=messages.OPTUNA_ON_A_CLUSTER)


@pytest.mark.parametrize("engine", ["local", "cluster"])
@pytest.mark.parametrize("resume", ["--resume", "--no-resume"])
def test_a_checkpoint_folder_of_an_earlier_version_is_refused_and_left_alone(engine, resume, city, tmp_path):
    files = ("manifest.json", "shard-00000-0000005.npz", "conductor-0000005.npz")
    (tmp_path / "run.checkpoint").mkdir()
    for name in files:
        (tmp_path / "run.checkpoint" / name).write_text("before")
    words = ("train", city, "--out", tmp_path / "run", "--engine", engine, resume)
    refused(*words, code=2, message=messages.CHECKPOINT_IS_A_FOLDER)
    assert {file.name for file in (tmp_path / "run.checkpoint").iterdir()} == set(files)


def test_a_partitioned_folder_has_no_page(city, tmp_path):
    assert call("data", "partition", city, tmp_path / "parts", "--parts", 3).exit_code == 0
    words = ("--out", tmp_path / "run", "--engine", "cluster", "--report", tmp_path / "page.html")
    refused("train", tmp_path / "parts", *words, code=2, message=messages.REPORT_OF_PARTS)


def test_a_folder_is_partitioned_and_read_as_before(city, tmp_path):
    found = call("data", "partition", city, tmp_path / "parts", "--parts", 3)
    assert found.exit_code == 0
    assert "260 people and 5,200 records in 3 parts" in flat(found.stdout)
    before, after = (told("data", "describe", folder) for folder in (city, tmp_path / "parts"))
    assert {**before, "name": "parts"} == after


def test_progress_tells_pace_bytes_and_time_to_finish():
    passed = IterationReport(iteration=4, loss=0.5, took_part=1_000_000, in_sum=1, seconds=2.0, moved=3_500_000)
    with bars() as shown:
        row = bar(shown, "training", iterations=10)
        row.tell(passed)
        assert shown.tasks[0].fields["stage"] == "loss 0.5000, 500,000 people/s, 3.5 MB a round, 12 s left"
