"""On a real Ray cluster, from a partitioned folder to a saved run: the files of the local engine, byte for byte."""

import json
import os
import shutil
import signal

import pytest

from prirec.cluster import train
from prirec.cluster.pool import ActorPool
from prirec.cluster.train import open_partitioned
from prirec.engines.train import Checkpointing
from prirec.simulate.saved_runs import load_run
from support.cities import SMALL_ROUNDS, small_city
from support.partitioned import partitioned
from support.shell import call

pytestmark = [pytest.mark.usefixtures("nodes"), pytest.mark.xdist_group("ray")]  # one process has the cluster
SETTINGS = ("--set", "floor=50", "--set", "data.keep=all", "--iterations", "4")
TIMED = {"history.jsonl", "run.json"}


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    return partitioned(small_city(people=300, records=2400), tmp_path_factory.mktemp("apart"), parts=5)


@pytest.fixture(scope="module")
def local(city):
    """What the local engine makes of the same folder."""
    run = city.parent / "local"
    return run, json.loads(call("train", city, "--out", run, *SETTINGS, "--json").stdout)


def same_files(run, local) -> None:
    assert {file.name for file in run.iterdir()} == {file.name for file in local.iterdir()}
    for name in {file.name for file in local.iterdir()} - TIMED:
        assert (run / name).read_bytes() == (local / name).read_bytes(), name
    found, wanted = load_run(run), load_run(local)
    assert found.rows == wanted.rows
    assert [(p.iteration, p.loss, p.in_sum) for p in found.history] == [
        (p.iteration, p.loss, p.in_sum) for p in wanted.history
    ]


def test_a_run_over_parts_is_the_run_of_the_whole(city, local, tmp_path):
    told = call(
        "train", city, "--out", tmp_path / "run", "--engine", "cluster", "--actors", 2, *SETTINGS, "--json",
    )  # fmt: skip
    same_files(tmp_path / "run", local[0])
    found, wanted = json.loads(told.stdout)["quality"], local[1]["quality"]
    assert {name: found[name] for name in ("auc", "auc_few", "records")} == {
        name: wanted[name] for name in ("auc", "auc_few", "records")
    }
    assert found["log_loss"] == pytest.approx(wanted["log_loss"], rel=1e-12)
    assert found["gauc"] == pytest.approx(wanted["gauc"], rel=1e-12)
    assert not (tmp_path / "run.checkpoint").exists()


@pytest.mark.long
def test_a_killed_actor_is_replaced_and_the_run_has_the_same_files(city, local, tmp_path):
    settings, done = load_run(local[0]).settings, []
    with open_partitioned(city, settings, actors=2) as away:

        def progress(passed) -> None:
            done.append(passed.iteration)
            if passed.iteration == 3:
                os.kill(away.pool.one(1, "process"), signal.SIGKILL)

        course = away.train(checkpointing=None, progress=progress)
        assert away.pool.mended == 1
        away.save(tmp_path / "run", course, source=load_run(local[0]).source)
    assert done == [1, 2, 3, 4]
    same_files(tmp_path / "run", local[0])


@pytest.mark.long
def test_an_actor_lost_when_all_rounds_are_done_is_replaced_and_asked_again(city, local, tmp_path, monkeypatch):
    lost = {"measure", "write_records"}
    asked = ActorPool._submit_all

    def asked_and_lost(self, call, args):
        if call in lost:
            lost.remove(call)
            os.kill(self.one(1, "process"), signal.SIGKILL)
        return asked(self, call, args)

    with open_partitioned(city, load_run(local[0]).settings, actors=2) as away:
        course = away.train(checkpointing=None, progress=lambda passed: None)
        monkeypatch.setattr(ActorPool, "_submit_all", asked_and_lost)
        quality = away.quality(course)
        away.save(tmp_path / "run", course, source=load_run(local[0]).source)
        assert (lost, away.pool.mended) == (set(), 2)
    assert quality.auc == local[1]["quality"]["auc"]
    same_files(tmp_path / "run", local[0])


@pytest.mark.long
def test_an_actor_lost_while_data_are_read_costs_a_new_beginning(city, local, tmp_path, monkeypatch):
    settings, begun = load_run(local[0]).settings, []

    class Unlucky(train.PartitionedSetup):
        def _release_popularity(self, people):
            begun.append(people)
            if len(begun) == 1:
                os.kill(self.pool.one(0, "process"), signal.SIGKILL)
            return super()._release_popularity(people)

    monkeypatch.setattr(train, "PartitionedSetup", Unlucky)
    with open_partitioned(city, settings, actors=2) as away:
        away.save(tmp_path / "run", away.train(checkpointing=None, progress=lambda passed: None), source="x")
    assert begun == [300, 300]
    assert (tmp_path / "run" / "shared.npy").read_bytes() == (local[0] / "shared.npy").read_bytes()


@pytest.mark.long
def test_a_run_over_parts_goes_on_from_its_checkpoint_with_another_number_of_actors(city, local, tmp_path):
    settings, kept = load_run(local[0]).settings, Checkpointing(tmp_path / "kept", every=2)

    def stop(passed) -> None:
        if passed.iteration == 3:
            raise KeyboardInterrupt

    with open_partitioned(city, settings, actors=1) as away, pytest.raises(KeyboardInterrupt):
        away.train(checkpointing=kept, progress=stop)
    with open_partitioned(city, settings, actors=2) as away:
        assert away.checkpoint_file(kept).resumed_iteration(settings, resume=True) == 2
        away.save(tmp_path / "run", away.train(checkpointing=kept, progress=lambda passed: None), source=str(city))
    same_files(tmp_path / "run", local[0])


def test_a_checkpoint_of_other_places_or_another_schema_is_of_another_run(city, tmp_path):
    before = train._identity_of(city, SMALL_ROUNDS)
    for name in ("pois.parquet", "schema.toml"):
        other = tmp_path / name.partition(".")[0]
        shutil.copytree(city, other)
        assert train._identity_of(other, SMALL_ROUNDS) == before
        content = bytearray((other / name).read_bytes())
        content[len(content) // 2] ^= 1
        (other / name).write_bytes(content)
        assert train._identity_of(other, SMALL_ROUNDS) != before
