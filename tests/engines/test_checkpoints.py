"""A checkpoint comes back with the same bits or not at all, and a crash never costs the one before it."""

import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest

from prirec.config import Settings
from prirec.engines.state import (
    Checkpoint,
    FactorizationState,
    IterationReport,
    RoundsState,
    State,
    identity,
    is_checkpoint,
    load_checkpoint,
    save_checkpoint,
    state_of,
)
from prirec.errors import StateError
from prirec.features.columns import Moments
from prirec.features.samples import Samples
from prirec.model.estimate import Estimate
from support import messages
from support.cities import (
    SMALL_FM,
    SMALL_PAPER,
    SMALL_PRIVATE,
    SMALL_ROUNDS,
    change,
    same_state,
    samples_of,
    small_city,
)

WHOSE = "this run"
SAMPLES = samples_of(small_city(people=30, records=100), SMALL_ROUNDS)
FEW = samples_of(
    small_city(people=3, places=2, records=9),
    change(SMALL_ROUNDS, features={"words": 0, "context": False, "dynamic": False}),
)
BOTH = pytest.mark.parametrize("settings", [SMALL_ROUNDS, SMALL_PAPER], ids=["rounds", "paper"])


def a_state(seed: int, iteration: int = 4, *, settings: Settings = SMALL_ROUNDS, samples: Samples = FEW) -> State:
    rng = np.random.default_rng(seed)
    if settings.schedule != "rounds":
        people = 1 if settings.schedule == "centralised" else len(samples.ids)
        V = rng.normal(size=(samples.features, settings.model.dimension))
        return FactorizationState(iteration, rng.normal(size=(people, samples.features + 1)), V)
    columns = samples.columns
    widths = (columns.person, columns.person, *[columns.context - columns.popularity] * 2)
    moments = Moments(*(rng.normal(size=width) for width in widths), rng.random(), 1 + rng.random())
    averages = (rng.normal(size=columns.groups.shape) for _ in range(3))
    return RoundsState(iteration, moments, Estimate(columns.groups, rng.random(), *averages, rng.random(), iteration))


def a_run(seed: int = 0, *, best: bool = True, settings: Settings = SMALL_ROUNDS) -> Checkpoint:
    history = [IterationReport(iteration=1, loss=0.1 + 0.2, took_part=3, in_sum=2, held_out_loss=1 / 3, seconds=0.25)]
    later = a_state(seed + 100, 2, settings=settings) if best else None
    return Checkpoint(a_state(seed, settings=settings), history, later)


def loaded(path: Path, *, settings: Settings = SMALL_ROUNDS, samples: Samples = FEW) -> Checkpoint:
    return load_checkpoint(path, WHOSE, state_of(samples, settings))


def equal(a: Checkpoint, b: Checkpoint) -> bool:
    if (a.best is None) != (b.best is None) or not same_state(a.state, b.state) or a.history != b.history:
        return False
    return a.best is None or same_state(a.best, b.best)


@BOTH
@pytest.mark.parametrize("best", [True, False])
def test_what_is_saved_comes_back_bit_for_bit(tmp_path, best, settings):
    run = a_run(best=best, settings=settings)
    save_checkpoint(tmp_path / "run.npz", run, WHOSE)
    assert equal(loaded(tmp_path / "run.npz", settings=settings), run)
    assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]


def test_of_rounds_a_checkpoint_holds_public_things_alone(tmp_path):
    """What follows from opened sums: nothing in it has a row for each person."""
    state = a_state(0, samples=SAMPLES)
    save_checkpoint(tmp_path / "run.npz", Checkpoint(state), WHOSE)
    with np.load(tmp_path / "run.npz") as file:
        arrays = {name: file[name].shape for name in file if name != "header"}
    assert set(arrays) == {f"{name}0" for name in ("average", "B", "first", "estimate", *Moments._fields)}
    assert len(SAMPLES.ids) not in {size for shape in arrays.values() for size in shape}
    assert same_state(loaded(tmp_path / "run.npz", samples=SAMPLES).state, state)


def test_every_array_is_in_the_hash_of_a_checkpoint(tmp_path):
    """One that was taken out, or put in place of another, is damage."""
    path = tmp_path / "run.npz"
    save_checkpoint(path, a_run(), WHOSE)
    with np.load(path) as file:
        arrays = dict(file)
    for name in sorted(set(arrays) - {"header"}):
        taken_out = {other: array for other, array in arrays.items() if other != name}
        for changed in (taken_out, arrays | {name: np.append(arrays[name], 1.0)}):
            np.savez(path, **changed)
            with pytest.raises(StateError, match=messages.CHECKPOINT_DAMAGED):
                loaded(path)


OTHERS = {
    "other people": (SMALL_PAPER, SAMPLES, SMALL_PAPER),
    "another K": (SMALL_PAPER, FEW, change(SMALL_PAPER, model={"dimension": 4})),
    "a model for everyone": (SMALL_FM, FEW, SMALL_PAPER),
    "other columns": (SMALL_ROUNDS, SAMPLES, SMALL_ROUNDS),
    "another schedule": (SMALL_ROUNDS, FEW, SMALL_PAPER),
    "the paper's": (SMALL_PAPER, FEW, SMALL_ROUNDS),
}


@pytest.mark.parametrize(("saved", "samples", "wanted"), OTHERS.values(), ids=OTHERS)
def test_models_of_another_size_or_kind_are_refused(tmp_path, saved, samples, wanted):
    """Kernels do not check the size of an array."""
    save_checkpoint(tmp_path / "run.npz", a_run(settings=saved), WHOSE)
    with pytest.raises(StateError, match=messages.CHECKPOINT_OF_ANOTHER_SIZE):
        loaded(tmp_path / "run.npz", settings=wanted, samples=samples)


@BOTH
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_models_that_are_not_numbers_are_refused(tmp_path, settings, value):
    run = a_run(settings=settings)
    next(iter(run.state.arrays().values()))[0, 0] = value
    save_checkpoint(tmp_path / "run.npz", run, WHOSE)
    with pytest.raises(StateError, match=messages.CHECKPOINT_OF_ANOTHER_SIZE):
        loaded(tmp_path / "run.npz", settings=settings)


def with_another_array(path: Path) -> None:
    with ZipFile(path, "a") as archive:
        archive.writestr("more0.npy", b"")


def with_a_comment(path: Path) -> None:
    with ZipFile(path, "a") as archive:
        archive.comment = b"more"


@pytest.mark.parametrize(
    "more",
    [
        lambda path: path.write_bytes(path.read_bytes() + b"\0"),
        lambda path: path.write_bytes(path.read_bytes() + bytes(70_000)),
        lambda path: path.write_bytes(2 * path.read_bytes()),
        lambda path: path.write_bytes(b"#!/bin/sh\n" + path.read_bytes()),
        with_another_array,
        with_a_comment,
    ],
    ids=["a byte behind it", "many bytes behind it", "itself again", "a line before it", "an array", "a comment"],
)
def test_a_checkpoint_to_which_something_was_added_is_damaged(tmp_path, more):
    path = tmp_path / "run.npz"
    save_checkpoint(path, a_run(), WHOSE)
    more(path)
    with pytest.raises(StateError, match=messages.CHECKPOINT_DAMAGED):
        loaded(path)


def test_a_later_checkpoint_replaces_the_earlier_one(tmp_path):
    save_checkpoint(tmp_path / "run.npz", a_run(0), WHOSE)
    save_checkpoint(tmp_path / "run.npz", a_run(1), WHOSE)
    assert equal(loaded(tmp_path / "run.npz"), a_run(1))


@pytest.mark.parametrize("broken", ["replace", "fsync", "write"])
def test_a_failure_on_the_way_leaves_the_old_checkpoint_whole(tmp_path, monkeypatch, broken):
    path = tmp_path / "run.npz"
    save_checkpoint(path, a_run(0), WHOSE)

    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    if broken == "replace":
        monkeypatch.setattr(Path, "replace", fail)
    elif broken == "fsync":
        monkeypatch.setattr("os.fsync", fail)
    else:
        monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(StateError, match=messages.checkpoint_not_written(messages.Foreign.NO_SPACE_LEFT)):
        save_checkpoint(path, a_run(1), WHOSE)
    monkeypatch.undo()
    assert equal(loaded(path), a_run(0))
    assert [left.name for left in tmp_path.iterdir()] == ["run.npz"]


def test_killed_between_writing_and_replacing_leaves_the_old_checkpoint_whole(tmp_path, monkeypatch):
    path = tmp_path / "run.npz"
    save_checkpoint(path, a_run(0), WHOSE)

    def killed(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(path, a_run(1), WHOSE)
    monkeypatch.undo()
    assert equal(loaded(path), a_run(0))
    save_checkpoint(path, a_run(2), WHOSE)
    assert equal(loaded(path), a_run(2))


@pytest.mark.parametrize("where", ["missing", "file"])
def test_a_folder_that_cannot_be_written_to_is_a_state_error(tmp_path, where):
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StateError, match=messages.CHECKPOINT_NOT_WRITTEN):
        save_checkpoint(tmp_path / where / "run.npz", a_run(), WHOSE)


def test_a_truncated_checkpoint_is_refused(tmp_path):
    path = tmp_path / "run.npz"
    save_checkpoint(path, a_run(), WHOSE)
    whole = path.read_bytes()
    for length in (0, 1, 3, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(StateError, match=messages.checkpoint_damaged("run.npz")):
            loaded(path)


def a_long_run() -> Checkpoint:
    """Its first array is longer than what zipfile hands on before it has compared a checksum."""
    return Checkpoint(a_state(1, settings=SMALL_PAPER, samples=SAMPLES))


def loaded_long(path: Path) -> Checkpoint:
    return loaded(path, settings=SMALL_PAPER, samples=SAMPLES)


def heads_and_list(path: Path) -> tuple[list[range], range]:
    """Of a zip file of arrays, all but the numbers in them: where each array is announced, and the list at the end."""
    with ZipFile(path) as archive:
        heads = [range(one.header_offset, one.header_offset + 189) for one in archive.infolist()]
        return heads, range(archive.start_dir, path.stat().st_size)


def flipped(path: Path, places: Iterable[tuple[int, int]]) -> Iterator[None]:
    """The file with these bits of one byte changed, one byte after the other."""
    whole = path.read_bytes()
    with path.open("r+b", buffering=0) as file:
        for at, bits in places:
            os.pwrite(file.fileno(), bytes([whole[at] ^ bits]), at)
            yield
            os.pwrite(file.fileno(), whole[at : at + 1], at)


def refused_or_equal(
    path: Path, run: Checkpoint, places: Sequence[tuple[int, int]], *, load: Callable[[Path], Checkpoint] = loaded
) -> None:
    refused, leaked = 0, set()
    for _ in flipped(path, places):
        try:
            assert equal(load(path), run)
        except StateError:
            refused += 1
        except Exception as error:
            leaked.add(type(error).__name__)
    assert not leaked
    assert refused > len(places) / 2


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.soak)])
def test_a_damaged_byte_is_refused_or_does_not_matter(tmp_path, step):
    path, run = tmp_path / "run.npz", a_run()
    save_checkpoint(path, run, WHOSE)
    refused_or_equal(path, run, [(at, 0x41) for at in range(0, path.stat().st_size, step)])


@pytest.mark.parametrize("bits", [3, pytest.param(8, marks=pytest.mark.soak)])
def test_a_damaged_bit_of_a_long_array_or_of_the_list_of_arrays_is_refused_or_does_not_matter(tmp_path, bits):
    """Bits of each byte that numpy reads before anything is checked; one bit of each byte elsewhere."""
    path, run = tmp_path / "run.npz", a_long_run()
    save_checkpoint(path, run, WHOSE)
    (long, *short), listed = heads_and_list(path)
    every = [
        (at, 1 << bit) for at in (*long, *listed) for bit in sorted(range(8), key=lambda b: (b + 3 * at) % 8)[:bits]
    ]
    refused_or_equal(path, run, [*every, *((at, 1 << at % 8) for head in short for at in head)], load=loaded_long)


@pytest.mark.parametrize("method", [8, 9, 12, 14, 99])
def test_arrays_said_to_be_packed_are_refused(tmp_path, method):
    """The directory at the end says by which method each array is packed; none is."""
    path, run = tmp_path / "run.npz", a_long_run()
    run.state.linear = np.zeros((200, 100))  # more than is unpacked at a time
    save_checkpoint(path, run, WHOSE)
    whole = path.read_bytes()
    entries = [at.start() for at in re.finditer(rb"PK\x01\x02", whole)]
    assert len(entries) == 3
    for at in entries:
        path.write_bytes(whole[: at + 10] + bytes([method]) + whole[at + 11 :])
        with pytest.raises(StateError, match=messages.CHECKPOINT_DAMAGED):
            loaded_long(path)


@BOTH
def test_a_checkpoint_is_known_as_one_wherever_it_is_cut_or_changed_after_its_first_array_began(tmp_path, settings):
    path = tmp_path / "run.npz"
    save_checkpoint(path, Checkpoint(a_state(1, settings=settings, samples=SAMPLES)), WHOSE)
    whole = path.read_bytes()
    end = heads_and_list(path)[1]
    assert is_checkpoint(path)
    for length in (300, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        assert is_checkpoint(path)
    for at in (end[0], end[-22], end[-6]):  # an entry of the list, and what says that there is one, and where
        path.write_bytes(whole[:at] + b"\xff" + whole[at + 1 :])
        assert is_checkpoint(path)


def test_a_file_of_somebody_else_is_never_known_as_a_checkpoint(tmp_path):
    path = tmp_path / "theirs"
    rows = np.zeros((30, 40))
    for arrays in ({"linear0": rows}, {"weights": rows}, {"header": rows}, {"linear0": rows, "interaction0": rows}):
        with path.open("wb") as file:
            np.savez(file, **arrays)
        assert not is_checkpoint(path)
    path.write_bytes(path.read_bytes().replace(b"linear0", b"weights")[:5000])
    assert not is_checkpoint(path)
    for rubbish in (b"", b"PK\x03\x04", b"years of work", b"linear0.npy" * 99):
        path.write_bytes(rubbish)
        assert not is_checkpoint(path)
    assert not is_checkpoint(tmp_path / "nowhere")


def test_rubbish_and_other_files_are_refused(tmp_path):
    path = tmp_path / "run.npz"
    other = io.BytesIO()
    np.savez(other, something=np.zeros(3))
    array = io.BytesIO()
    np.save(array, np.zeros(3))
    for rubbish in (b"", b"rubbish", b"PK\x03\x04", other.getvalue(), array.getvalue()):
        path.write_bytes(rubbish)
        with pytest.raises(StateError, match=messages.CHECKPOINT_DAMAGED):
            loaded(path)


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    save_checkpoint(tmp_path / "run.npz", a_run(), "another run")
    with pytest.raises(StateError, match=messages.CHECKPOINT_OF_ANOTHER_RUN):
        loaded(tmp_path / "run.npz")


@pytest.mark.parametrize(
    ("version", "says"),
    [(2, messages.SAVED_BY_AN_EARLIER_VERSION), (4, messages.version_unknown(4, newest=3))],
    ids=["earlier", "newer"],
)
def test_a_checkpoint_of_another_version_is_refused(tmp_path, monkeypatch, version, says):
    monkeypatch.setattr("prirec.engines.state.VERSION", version)
    save_checkpoint(tmp_path / "run.npz", a_run(), WHOSE)
    monkeypatch.undo()
    with pytest.raises(StateError, match=says):
        loaded(tmp_path / "run.npz")


def altered(array: np.ndarray) -> np.ndarray:
    changed = array.copy()
    changed.flat[-1] = changed.flat[-1] + 1
    return changed


@pytest.mark.parametrize("name", ["keys", "home", "people", "places"])
def test_a_run_is_another_run_if_people_or_places_differ(name):
    other = replace(SAMPLES, **{name: altered(getattr(SAMPLES, name))})
    assert identity(other, SMALL_ROUNDS) != identity(SAMPLES, SMALL_ROUNDS)


def test_a_run_among_people_who_are_alike_is_another_run_if_their_areas_differ():
    alike = change(SMALL_ROUNDS, neighbours={"kind": "alike", "alike": "city"})
    areas = np.arange(len(SAMPLES.keys), dtype=np.float64)
    here, there = replace(SAMPLES, area=areas), replace(SAMPLES, area=altered(areas))
    assert identity(here, alike) != identity(there, alike)
    assert identity(here, SMALL_ROUNDS) == identity(there, SMALL_ROUNDS) == identity(SAMPLES, SMALL_ROUNDS)


@pytest.mark.parametrize("name", ["offsets", "place", "label", "context"])
def test_a_run_is_another_run_if_training_records_differ(name):
    train = replace(SAMPLES.train, **{name: altered(getattr(SAMPLES.train, name))})
    assert identity(replace(SAMPLES, train=train), SMALL_ROUNDS) != identity(SAMPLES, SMALL_ROUNDS)


@pytest.mark.parametrize(
    "changes",
    [{"seed": 1}, {"floor": 11}, {"features": {"areas": 3}}, {"privacy": {"quality": 0.1}}, {"ring": {"bits": 32}},
     {"stopping": {"patience": 2}}, {"participation": {"online": 0.5}}],
    ids=str,
)  # fmt: skip
def test_a_run_is_another_run_if_settings_differ(changes):
    assert identity(SAMPLES, change(SMALL_ROUNDS, **changes)) != identity(SAMPLES, SMALL_ROUNDS)


def test_a_run_may_be_prolonged_and_its_test_records_do_not_matter():
    assert identity(SAMPLES, change(SMALL_ROUNDS, iterations=99)) == identity(SAMPLES, SMALL_ROUNDS)
    assert identity(replace(SAMPLES, test=SAMPLES.train), SMALL_ROUNDS) == identity(SAMPLES, SMALL_ROUNDS)


def test_a_run_under_a_budget_is_not_prolonged():
    """How noisy a round is follows from how many there are: more of them after the fact would overspend the budget."""
    assert identity(SAMPLES, change(SMALL_PRIVATE, iterations=99)) != identity(SAMPLES, SMALL_PRIVATE)


def test_identity_holds_where_there_are_no_private_features():
    bare = replace(SAMPLES, people=np.empty((30, 0), dtype=np.float32))
    assert identity(bare, SMALL_ROUNDS) != identity(SAMPLES, SMALL_ROUNDS)
