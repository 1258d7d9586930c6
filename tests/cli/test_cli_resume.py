"""A run that is killed, stopped or repeated: nothing is lost, and the bits are those of a run that was left alone."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from prirec.cli.train import what_is_saved
from prirec.config import load
from prirec.data.folder import read_folder
from prirec.engines.train import Checkpointing, train
from prirec.simulate.saved_runs import load_run
from prirec.simulate.setup import set_up
from prirec.util.files import room_beside
from support import messages
from support.shell import call, says, write_city
from support.waiting import until

ITERATIONS = 120
# a shell that starts jobs in the background lets them ignore Ctrl-C, and tests may run in such a job
PROGRAM = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from prirec.cli.main import run; run()"
)  # fmt: skip


def words_of(city, out, *, iterations=ITERATIONS, every=1):
    return ["train", city, "--out", out, "--iterations", iterations, "--checkpoint-every", every]


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    return write_city(tmp_path_factory.mktemp("resumed") / "city")


def stopped_by(number, words, checkpoint):
    """Starts the program, waits for its first checkpoint, and sends the signal."""
    command = [sys.executable, "-c", PROGRAM, *(str(word) for word in words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        until(lambda: checkpoint.exists() or program.poll() is not None, every=0.002)
        assert program.poll() is None, program.stderr.read()
        program.send_signal(number)
        _, said = program.communicate()
    return program.returncode, said


def test_a_run_killed_outright_and_started_again_gives_the_bits_of_one_left_alone(city, tmp_path):
    killed, alone = tmp_path / "killed", tmp_path / "alone"
    code, _ = stopped_by(signal.SIGKILL, words_of(city, killed), tmp_path / "killed.checkpoint")
    assert code == -signal.SIGKILL
    assert not killed.exists()
    again = call(*words_of(city, killed))
    assert again.exit_code == 0
    assert says(again.stderr, messages.resuming_after(r"\d+", rounds=ITERATIONS, file=f"{killed}.checkpoint"))
    assert call(*words_of(city, alone, every=ITERATIONS)).exit_code == 0
    for file in {file.name for file in alone.iterdir()} - {"history.jsonl", "run.json"}:  # which tell the time
        assert (killed / file).read_bytes() == (alone / file).read_bytes()
    assert len(load_run(killed).history) == ITERATIONS
    assert load_run(killed).settings == load_run(alone).settings
    assert not Path(f"{killed}.checkpoint").exists()
    someone = read_folder(city).dataset.people.ids[7]
    for command, *words in (["evaluate", "--ranking", "--people", 40], ["recommend", "--person", someone]):
        one, other = (json.loads(call(command, run, city, *words, "--json").stdout) for run in (killed, alone))
        assert {**one, "run": str(alone)} == {**other, "run": str(alone)}


def test_ctrl_c_keeps_the_work_and_says_how_to_go_on(city, tmp_path):
    out = tmp_path / "stopped"
    code, said = stopped_by(signal.SIGINT, words_of(city, out), tmp_path / "stopped.checkpoint")
    assert code == 130
    assert says(said, messages.STOPPED_AFTER_A_CHECKPOINT)
    assert "Traceback" not in said
    assert (tmp_path / "stopped.checkpoint").is_file()
    assert not out.exists()


@pytest.fixture
def unfinished(city, tmp_path):
    """A checkpoint after 4 rounds without noise, and the words that go on from it."""
    return kept_after(4, city, tmp_path, preset="rounds")


def kept_after(rounds, city, folder, *, preset):
    setup = set_up(read_folder(city).dataset, load(changes={"preset": preset, "iterations": rounds}))
    kept = folder / "kept.checkpoint"
    train(setup.samples, setup.settings, checkpointing=Checkpointing(kept, every=rounds))
    return kept, ["train", city, "--out", folder / "r", "--checkpoint", kept, "--preset", preset]


def test_training_resumes_from_a_checkpoint_of_the_same_run(unfinished):
    kept, words = unfinished
    answer = json.loads(call(*words, "--iterations", 6, "--json").stdout)
    assert (answer["resumed_at"], answer["iterations"], len(answer["loss"])) == (4, 6, 6)
    assert not kept.exists()


def test_under_a_budget_a_checkpoint_for_another_number_of_rounds_is_of_another_run(city, tmp_path):
    """Its rounds had the noise of 4, which is the whole budget: 2 more, with the noise of 6, would overspend it."""
    kept, words = kept_after(4, city, tmp_path, preset="private")
    found = call(*words, "--iterations", 6)
    assert (found.exit_code, found.stdout) == (5, "")
    assert says(found.stderr, messages.CHECKPOINT_OF_ANOTHER_RUN)
    assert kept.exists()
    assert json.loads(call(*words, "--iterations", 4, "--json").stdout)["resumed_at"] == 4


def test_starting_over_ignores_the_checkpoint(unfinished):
    kept, words = unfinished
    assert json.loads(call(*words, "--iterations", 6, "--no-resume", "--json").stdout)["resumed_at"] == 0
    assert not kept.exists()


def test_fewer_iterations_than_are_done_are_refused(unfinished):
    kept, words = unfinished
    found = call(*words, "--iterations", 3)
    assert found.exit_code == 2
    assert says(found.stderr, messages.more_iterations_done(4, wanted=3))
    assert kept.exists()


def test_a_checkpoint_of_another_run_is_a_state_error_and_kept(unfinished):
    kept, words = unfinished
    found = call(*words, "--seed", 9)
    assert found.exit_code == 5
    assert says(found.stderr, messages.joined(messages.CHECKPOINT_OF_ANOTHER_RUN, messages.NO_RESUME_STARTS_OVER))
    assert kept.exists()


def test_a_damaged_checkpoint_is_a_state_error(unfinished):
    kept, words = unfinished
    rotten = bytearray(kept.read_bytes())
    rotten[len(rotten) // 2] ^= 1
    kept.write_bytes(rotten)
    assert call(*words).exit_code == 5


DAMAGE = {
    "changed": lambda whole: whole[:600] + bytes([whole[600] ^ 1]) + whole[601:],
    "cut off": lambda whole: whole[: len(whole) // 2],
    "list of arrays": lambda whole: whole[:-300] + bytes(300),
    "its first name": lambda whole: whole.replace(b"average0", b"average9")[: len(whole) // 2],
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_starting_over_works_wherever_it_is_offered_and_removing_the_file_always(unfinished, damage):
    kept, words = unfinished
    words = [*words, "--iterations", 4]
    kept.write_bytes(damage(kept.read_bytes()))
    found = call(*words)
    assert (found.exit_code, found.stdout) == (5, "")
    assert says(found.stderr, messages.CHECKPOINT_DAMAGED)
    offered = says(found.stderr, messages.NO_RESUME_STARTS_OVER)
    assert offered is (damage is not DAMAGE["its first name"])
    if not offered:
        assert call(*words, "--no-resume").exit_code == 2
        kept.unlink()
    assert call(*words, "--no-resume").exit_code == 0


def test_starting_over_never_removes_a_file_that_is_no_checkpoint(city, tmp_path):
    precious = tmp_path / "thesis.txt"
    precious.write_text("years of work")
    found = call("train", city, "--out", tmp_path / "r", "--checkpoint", precious, "--no-resume")
    assert found.exit_code == 2
    assert precious.read_text() == "years of work"


def test_a_run_that_was_being_replaced_by_somebody_killed_is_put_back_before_any_work(city, tmp_path):
    out = tmp_path / "r"
    earlier = room_beside(out).with_name(f"{room_beside(out).name}.earlier")
    earlier.mkdir()
    (earlier / "run.json").touch()
    found = call("train", city, "--out", out)
    assert (found.exit_code, found.stdout) == (2, "")
    assert says(found.stderr, messages.OVERWRITE_REPLACES_A_RUN)
    assert (out / "run.json").is_file()


def test_a_checkpoint_that_cannot_be_written_is_refused_before_any_work(city, tmp_path):
    (tmp_path / "file").write_text("")
    found = call("train", city, "--out", tmp_path / "r", "--checkpoint", tmp_path / "file" / "c")
    assert found.exit_code == 5
    assert found.stderr.startswith("error: ")


THEIRS = {"manifest.json": '{"name": "my app"}', "photo.npz": "holidays"}


@pytest.mark.parametrize("names", [["manifest.json"], ["manifest.json", "photo.npz"], ["photo.npz"]])
def test_starting_over_never_removes_a_folder_that_is_no_checkpoint(names, city, tmp_path):
    precious = tmp_path / "mine"
    precious.mkdir()
    for name in names:
        (precious / name).write_text(THEIRS[name])
    for word in ("--resume", "--no-resume"):
        found = call("train", city, "--out", tmp_path / "r", "--checkpoint", precious, word)
        assert (found.exit_code, found.stdout) == (2, "")
        assert says(found.stderr, messages.CHECKPOINT_IS_A_FOLDER)
    assert {file.name: file.read_text() for file in precious.iterdir()} == {name: THEIRS[name] for name in names}


def test_ctrl_c_before_the_first_checkpoint_says_that_nothing_was_saved(tmp_path):
    assert says(what_is_saved(tmp_path / "none", [], every=9), messages.STOPPED_BEFORE_A_CHECKPOINT)
