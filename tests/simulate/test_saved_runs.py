"""A finished run comes back as it was saved, or is refused; a folder is never half written."""

import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from prirec.data.dataset import Dataset, take
from prirec.errors import StateError, UsageError
from prirec.features.columns import WordScales, person_rows
from prirec.features.samples import Samples
from prirec.model.scoring import FactorizationModels, Models, SharedModels, own_model
from prirec.simulate.saved_runs import (
    CityOfRun,
    Run,
    _contents,
    bytes_of,
    hash_of,
    load_run,
    names_of_files,
    read_card,
    rows_of,
    save_run,
    to_run,
    write_files,
)
from prirec.simulate.setup import Outcome, quality, run, set_up
from prirec.util.files import room_beside
from support import messages
from support.cities import (
    SMALL_FM,
    SMALL_PAPER,
    SMALL_ROUNDS,
    change,
    in_another_order,
    same_bits,
    samples_of,
    small_city,
)

SETTINGS = change(SMALL_ROUNDS, floor=50)
CITY: Dataset = small_city(people=60, places=10, records=240)
OUTCOME: Outcome = run(set_up(CITY, SETTINGS))
SAVED: Run = to_run(OUTCOME, "a small city")
FACTORED: dict[str, Run] = {of.preset: to_run(run(set_up(CITY, of)), "a small city") for of in (SMALL_PAPER, SMALL_FM)}
FILES = names_of_files(SETTINGS)


def test_any_number_of_threads_scores_the_test_records_alike() -> None:
    for threads in (1, 3, 70):
        again = Outcome.of(OUTCOME.setup, OUTCOME.trained, threads=threads)
        assert same_bits(again.test_scores, OUTCOME.test_scores)
        assert again.quality == OUTCOME.quality


def arrays(models: Models) -> list[np.ndarray]:
    if isinstance(models, FactorizationModels):
        return [models.linear, models.interaction]
    shared = models.shared
    return [shared.everyone, shared.crossing, *shared.words, *map(np.asarray, models.moments)]


def equal(a: Run, b: Run) -> bool:
    return (
        all(same_bits(one, other) for one, other in zip(arrays(a.models), arrays(b.models), strict=True))
        and same_bits(a.people, b.people)
        and same_bits(a.catalogue, b.catalogue)
        and (a.settings, a.encoding, a.released, a.history, a.source, a.rows)
        == (b.settings, b.encoding, b.released, b.history, b.source, b.rows)
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_run(tmp_path / "run", SAVED)
    return tmp_path / "run"


def test_a_run_comes_back_as_it_was_saved(folder):
    assert equal(load_run(folder), SAVED)
    assert sorted(path.name for path in folder.iterdir()) == sorted((*FILES, "run.json"))
    assert [path.name for path in folder.parent.iterdir()] == ["run"]


@pytest.mark.parametrize("preset", FACTORED)
def test_a_run_of_eq_1_comes_back_with_w_and_v(tmp_path, preset):
    saved = FACTORED[preset]
    save_run(tmp_path / "run", saved)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == sorted(
        (*names_of_files(saved.settings), "run.json")
    )
    back = load_run(tmp_path / "run")
    assert equal(back, saved)
    assert quality(CityOfRun.of(CITY, back).set_up().samples, back.models) == quality(
        set_up(CITY, saved.settings).samples, saved.models
    )


def with_old_setting(folder: Path, value: float) -> None:
    """A run of an earlier version, whose settings had `privacy.local`."""
    contents = _contents(SAVED)
    settings = contents["settings.toml"].replace(b"[privacy]\n", b"[privacy]\nlocal = %r\n" % value)
    folder.mkdir()
    write_files(folder, contents | {"settings.toml": settings}, source=SAVED.source, rows=SAVED.rows)


def test_a_run_with_a_setting_of_an_earlier_version_is_read_where_that_stands_at_its_default(tmp_path):
    with_old_setting(tmp_path / "run", 0.0)
    assert equal(load_run(tmp_path / "run"), SAVED)
    with_old_setting(tmp_path / "other", 0.2)
    with pytest.raises(
        StateError,
        match=messages.joined(
            messages.RUN_UNREADABLE,
            messages.setting_of_an_earlier_version("privacy.local"),
            messages.SETTING_TO_BE_REMOVED,
        ),
    ):
        load_run(tmp_path / "other")


def with_shared(**parts: object) -> Run:
    return replace(SAVED, models=replace(SAVED.models, shared=SAVED.models.shared._replace(**parts)))


def with_moments(**parts: object) -> Run:
    return replace(SAVED, models=replace(SAVED.models, moments=SAVED.models.moments._replace(**parts)))


@pytest.mark.parametrize(
    "spoilt",
    [
        replace(SAVED, people=SAVED.people.astype(np.float32)),
        replace(SAVED, catalogue=SAVED.catalogue.astype(np.float32)),
        with_shared(
            **{name: getattr(SAVED.models.shared, name).astype(np.float32) for name in ("everyone", "crossing")}
        ),
    ],
    ids=["people", "catalogue", "shared"],
)
def test_an_array_of_another_kind_is_refused(tmp_path, spoilt):
    save_run(tmp_path / "run", spoilt)
    with pytest.raises(StateError, match=messages.entries_of_another_type("float32")):
        load_run(tmp_path / "run")


def test_a_run_that_came_back_scores_as_before(folder):
    back = load_run(folder)
    setup = CityOfRun.of(CITY, back).set_up()
    assert quality(setup.samples, back.models) == OUTCOME.quality


def test_a_run_is_refused_for_other_people(folder):
    order = np.random.default_rng(0).permutation(60)
    renamed = replace(CITY, people=replace(CITY.people, ids=tuple(f"other {n}" for n in range(60))))
    with pytest.raises(StateError, match=messages.OTHER_RECORDS):
        CityOfRun.of(renamed, load_run(folder)).set_up()
    CityOfRun.of(in_another_order(CITY, order), load_run(folder)).set_up()  # Z-order puts them back in place


def test_a_run_is_refused_for_other_records_of_the_same_people(folder):
    """With other records the split differs, and the test would hold records that the model has learnt from."""
    fewer = CITY.with_visits(CITY.visits.take(np.arange(len(CITY.visits)) % 10 != 0))
    with pytest.raises(StateError, match=messages.OTHER_RECORDS):
        CityOfRun.of(fewer, load_run(folder)).set_up()


def with_a_newcomer() -> Dataset:
    """Somebody before all others, who lives where the first of them does."""
    people = CITY.people
    return replace(
        CITY,
        people=replace(
            people,
            ids=("newcomer", *people.ids),
            location=None if people.location is None else np.vstack([people.location[:1], people.location]),
            columns={name: take(column, np.r_[0, 0:60]) for name, column in people.columns.items()},
        ),
        visits=replace(CITY.visits, person=CITY.visits.person + np.int32(1)),
    )


def by_the_shared_model(person: int, samples: Samples, models: SharedModels) -> np.ndarray:
    """Bᵀ a."""
    a = person_rows(samples.people[person : person + 1], models.moments)[0]
    found = models.shared.everyone.copy()
    found[models.shared.layout.crossed] += a[1:] @ models.shared.crossing
    return found


def test_a_run_serves_data_that_have_grown():
    """A person more, who has no record yet, has the shared model alone."""
    setup, models = CityOfRun.of(with_a_newcomer(), SAVED).set_up_alone(0)
    assert setup.samples.ids == ("newcomer",)
    assert models == SAVED.models
    found = own_model(models, setup.samples, 0)
    np.testing.assert_allclose(found, by_the_shared_model(0, setup.samples, models), atol=1e-4)


def test_a_newcomer_learns_from_the_own_records_as_somebody_does_who_was_there():
    """Everyone but one is of the run: that one learns what the run had for them."""
    gone = int(OUTCOME.setup.samples.train.counts().argmax())
    city = CityOfRun.of(CITY, replace(SAVED, people=np.delete(SAVED.people, gone)))
    setup, models = city.set_up_alone(int(city.order[gone]))
    assert setup.samples.ids == (OUTCOME.setup.samples.ids[gone],)
    found = own_model(models, setup.samples, 0)
    assert same_bits(found, own_model(SAVED.models, OUTCOME.setup.samples, gone))
    assert np.abs(found - by_the_shared_model(0, setup.samples, models)).max() > 0.01  # it has learnt


def test_words_are_scaled_as_in_the_catalogue_of_the_training_when_places_are_added():
    rows = np.r_[0:10, [0] * 20]
    places = replace(
        CITY.places,
        ids=(*CITY.places.ids, *(f"new {n}" for n in range(20))),
        location=None if CITY.places.location is None else CITY.places.location[rows],
        columns={name: take(column, rows) for name, column in CITY.places.columns.items()},
    )
    setup, models = CityOfRun.of(replace(CITY, places=places), SAVED).set_up_alone(0)
    assert same_bits(models.shared.words.factor, SAVED.models.shared.words.factor)
    assert not same_bits(
        WordScales.of(setup.samples.places, setup.samples.columns).factor, SAVED.models.shared.words.factor
    )


@pytest.mark.parametrize("preset", FACTORED)
def test_a_newcomer_of_a_run_of_eq_1_has_the_mean_model(preset):
    saved = FACTORED[preset]
    city = CityOfRun.of(with_a_newcomer(), saved)
    _, models = city.set_up_alone(0)
    np.testing.assert_allclose(models.of(0), saved.models.linear.mean(axis=0))
    for row, person in enumerate(CITY.people.ids):
        _, models = city.set_up_alone(1 + row)
        assert same_bits(models.of(0), saved.models.of(OUTCOME.setup.samples.ids.index(person)))


def test_a_run_does_not_serve_other_people():
    renamed = replace(CITY, people=replace(CITY.people, ids=tuple(f"other {n}" for n in range(60))))
    with pytest.raises(StateError, match=messages.OTHER_PEOPLE):
        CityOfRun.of(renamed, SAVED).set_up_alone(0)


def spoilt_arrays(array: np.ndarray) -> list[np.ndarray]:
    return [array[:3].copy(), array.astype(np.float32), np.full_like(array, np.nan)]


SPOILT = {
    "B": [
        with_shared(**{name: one})
        for name in ("everyone", "crossing")
        for one in spoilt_arrays(getattr(SAVED.models.shared, name))
    ],
    "words": [
        with_shared(words=SAVED.models.shared.words._replace(centre=one))
        for one in spoilt_arrays(SAVED.models.shared.words.centre)
    ],
    **{
        name: [with_moments(**{name: one}) for one in spoilt_arrays(getattr(SAVED.models.moments, name))]
        for name in ("person_mean", "person_sd", "moment_mean", "moment_sd")
    },
    **{
        f"{name} of Eq. (1)": [
            replace(FACTORED["paper"], models=replace(FACTORED["paper"].models, **{name: one}))
            for one in spoilt_arrays(getattr(FACTORED["paper"].models, name))
        ]
        for name in ("linear", "interaction")
    },
}


@pytest.mark.parametrize("part", SPOILT)
def test_models_of_another_size_or_kind_are_refused(part):
    for spoilt in SPOILT[part]:
        for open_again in (CityOfRun.set_up, lambda city: city.set_up_alone(0)):
            with pytest.raises(StateError, match=messages.MODELS_OF_ANOTHER_SIZE):
                open_again(CityOfRun.of(CITY, spoilt))


def test_a_shared_model_of_another_length_is_refused(tmp_path):
    folder, contents = tmp_path / "run", _contents(SAVED)
    folder.mkdir()
    write_files(folder, contents | {"shared.npy": bytes_of(np.zeros(7))}, source="", rows="")
    with pytest.raises(StateError, match=messages.RUN_UNREADABLE):
        load_run(folder)


@pytest.mark.parametrize("change", [{"positive": 0.0}, {"positive": 1.5}, {"person_mean": None}, {"more": 1}])
def test_scales_that_cannot_be_are_refused(tmp_path, change):
    """With a card that is right about them: somebody wrote them, they were not damaged."""
    folder, contents = tmp_path / "run", _contents(SAVED)
    folder.mkdir()
    scales = msgspec.json.encode(msgspec.json.decode(contents["scales.json"]) | change)
    write_files(folder, contents | {"scales.json": scales}, source="", rows="")
    with pytest.raises(StateError, match=messages.RUN_UNREADABLE):
        load_run(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_tampered_byte_is_noticed(folder, name):
    file = folder / name
    whole = file.read_bytes()
    for at in {0, 1, len(whole) // 3, len(whole) // 2, len(whole) - 1}:
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(StateError, match=messages.run_file_damaged(name)):
            load_run(folder)
    file.write_bytes(whole + b"\n")
    with pytest.raises(StateError, match=messages.run_file_damaged(name)):
        load_run(folder)


def test_a_tampered_byte_of_the_card_is_noticed(folder):
    file = folder / "run.json"
    whole, unnoticed = file.read_bytes(), []
    for at in range(len(whole)):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        try:
            if not equal(load_run(folder), SAVED):
                unnoticed.append(at)
        except StateError:
            continue
    assert not unnoticed


@pytest.mark.parametrize("name", [*FILES, "run.json"])
def test_a_missing_file_is_noticed(folder, name):
    (folder / name).unlink()
    with pytest.raises(StateError, match=messages.NO_RUN if name == "run.json" else messages.run_has_lost(name)):
        load_run(folder)


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(StateError, match=messages.NO_RUN):
        load_run(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("version", "refusal"),
    [
        *((version, messages.RUN_VERSION_UNKNOWN) for version in (5, "4", None)),
        *((version, messages.RUN_OF_AN_EARLIER_VERSION) for version in (3, 2, 1, 0)),
    ],
)
def test_another_version_is_refused(folder, version, refusal):
    card = msgspec.json.decode((folder / "run.json").read_bytes())
    (folder / "run.json").write_bytes(msgspec.json.encode(card | {"version": version}))
    with pytest.raises(StateError, match=refusal):
        load_run(folder)


@pytest.mark.parametrize("bit", [1 << bit for bit in range(8)])
def test_a_changed_byte_of_the_card_is_a_state_error_or_does_not_matter(folder, bit):
    file = folder / "run.json"
    whole = file.read_bytes()
    for at in range(0, len(whole), 3):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
        with suppress(StateError):
            assert read_card(folder).files == {name: hash_of((folder / name).read_bytes()) for name in FILES}


DEEP = b"[" * 100_000


@pytest.mark.parametrize("name", ["history.jsonl", "popularity.json", "encoding.json", "settings.toml", "scales.json"])
@pytest.mark.parametrize(
    "text",
    [DEEP, b'{"a": ' + DEEP, b"a = " + DEEP, b'{"a": "\xe9"}', b"a = '\xe9'"],
    ids=lambda text: repr(text[:16]),
)
def test_a_file_that_is_as_saved_and_no_text_of_ours_is_a_state_error(tmp_path, name, text):
    folder = tmp_path / "run"
    folder.mkdir()
    write_files(folder, _contents(SAVED) | {name: text}, source="", rows="")
    with pytest.raises(StateError):
        load_run(folder)


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b'{"version": 3}', b"\xff", b'{"version": "\xe9"}', DEEP, b'{"version": ' + DEEP],
    ids=lambda text: repr(text[:16]),
)
def test_a_damaged_card_is_refused(folder, text):
    (folder / "run.json").write_bytes(text)
    with pytest.raises(StateError):
        load_run(folder)


def test_an_existing_target_is_refused_and_left_alone(folder):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(UsageError, match=messages.joined(messages.FOLDER_EXISTS, messages.OVERWRITE_REPLACES_A_RUN)):
        save_run(folder, SAVED)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_only_an_earlier_run_may_be_overwritten(folder, tmp_path):
    save_run(folder, replace(SAVED, source="second"), overwrite=True)
    assert load_run(folder).source == "second"
    precious = tmp_path / "photos"
    precious.mkdir()
    (precious / "one.jpg").write_bytes(b"holiday")
    with pytest.raises(UsageError, match=messages.joined(messages.FOLDER_EXISTS, messages.NO_RUN_TO_OVERWRITE)):
        save_run(precious, SAVED, overwrite=True)
    assert (precious / "one.jpg").read_bytes() == b"holiday"


def fail(*args, **kwargs):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("step", ["prirec.simulate.saved_runs.write_file", "pathlib.Path.rename"])
def test_a_failure_on_the_way_leaves_nothing_behind(tmp_path, monkeypatch, step):
    monkeypatch.setattr(step, fail)
    with pytest.raises(StateError, match=messages.Foreign.NO_SPACE_LEFT):
        save_run(tmp_path / "run", SAVED)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", ["prirec.simulate.saved_runs.write_file", "pathlib.Path.rename"])
def test_a_failure_while_overwriting_leaves_the_earlier_run(folder, monkeypatch, step):
    monkeypatch.setattr(step, fail)
    with pytest.raises(StateError, match=messages.Foreign.NO_SPACE_LEFT):
        save_run(folder, replace(SAVED, source="second"), overwrite=True)
    monkeypatch.undo()
    assert equal(load_run(folder), SAVED)


def test_a_failure_in_the_very_last_move_puts_the_earlier_run_back(folder, monkeypatch):
    move = Path.rename
    refused = []

    def once(source: Path, target: Path) -> Path:
        if target == folder and not refused:
            refused.append(source)
            fail()
        return move(source, target)

    monkeypatch.setattr(Path, "rename", once)
    with pytest.raises(StateError, match=messages.Foreign.NO_SPACE_LEFT):
        save_run(folder, replace(SAVED, source="second"), overwrite=True)
    assert refused
    assert equal(load_run(folder), SAVED)
    assert [path.name for path in folder.parent.iterdir()] == ["run"]


@pytest.fixture
def moved_away(folder: Path) -> Path:
    """A process that is no more was killed while it replaced the run."""
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    ours = room_beside(folder).name
    folder.rename(folder.with_name(ours.replace(f"-{os.getpid()}.", f"-{int(gone.stdout)}.") + ".earlier"))
    return folder


def test_a_run_that_was_being_replaced_is_there_for_whoever_reads_it_next(moved_away):
    assert equal(load_run(moved_away), SAVED)
    assert [path.name for path in moved_away.parent.iterdir()] == ["run"]


def test_a_run_that_was_being_replaced_is_not_lost_to_whoever_writes_next(moved_away):
    with pytest.raises(UsageError, match=messages.FOLDER_EXISTS):
        save_run(moved_away, replace(SAVED, source="second"))
    assert equal(load_run(moved_away), SAVED)


def test_the_fingerprint_of_rows_depends_on_their_order_and_reveals_no_name():
    samples = samples_of(CITY, SETTINGS)
    swapped = replace(samples, keys=samples.keys[::-1].copy())
    assert rows_of(samples) == SAVED.rows != rows_of(swapped)
    assert not any(person in SAVED.rows for person in samples.ids)


def test_private_arrays_do_not_print():
    for thing in (SAVED, OUTCOME.trained.state, OUTCOME.setup.samples):
        assert "array" not in repr(thing)
        assert not any(person in repr(thing) for person in CITY.people.ids)
