"""The file of a store: private, durable, refused where it is not sound and ours, and clean of what was deleted."""

import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from prirec.errors import StateError, UsageError
from prirec.protocols.party import Persist, Stage
from prirec.recommender import database
from prirec.recommender.store import MIGRATIONS, Store
from prirec.wire.documents import Model, written
from support import messages
from support.full_disk import largest_file
from support.stores import FOUNDING, ONE, enter, everything, name, of, prepare, said, signed

LATER = (*MIGRATIONS, ("CREATE TABLE later (number {whole} NOT NULL) {table}",))
PRESENT = len(MIGRATIONS)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store.open(path) as opened:
        yield opened


def test_a_path_and_its_url_are_the_same_store(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store.open(path).close()
    monkeypatch.chdir(path.parent)
    for url in (f"sqlite:///{path}", str(path), "store", "sqlite:///store"):
        with Store.open(url) as store:
            store.enrol(name(len(url)), day=1)
    with Store.open(path) as store:
        assert len(store.people()) == 4
    assert [file.name for file in path.parent.iterdir()] == ["store"]


def test_another_kind_of_url_is_refused() -> None:
    with pytest.raises(UsageError, match=messages.STORE_ADDRESS_INVALID):
        Store.open("mysql://root:hunter2@host/database")


def test_the_files_are_private(path: Path) -> None:
    old = os.umask(0)
    try:
        with Store.open(path) as store:
            prepare(store)
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    finally:
        os.umask(old)
    assert modes == {"store": 0o600, "store-wal": 0o600, "store-shm": 0o600}
    assert [file.name for file in path.parent.iterdir()] == ["store"]  # the log is folded in at the end


def test_a_commit_waits_for_the_disk_and_readers_wait_for_nobody(store: Store) -> None:
    pragmas = ("journal_mode", "synchronous", "fullfsync", "secure_delete", "trusted_schema")
    with store._database.transaction() as writing:
        assert [(writing.one(f"PRAGMA {name}") or ())[0] for name in pragmas] == ["wal", 2, 1, 1, 0]
        writing.execute("INSERT INTO progress VALUES (1, ?)", b"unseen")
        assert store.progress() is None
    assert store.progress() == b"unseen"


def test_a_closed_store_says_so(path: Path) -> None:
    with Store.open(path) as store:
        pass
    for use in (store.people, lambda: store.write(Persist(of(), Stage.ENTERED, ONE)), lambda: store.lease(b"", 1)):
        with pytest.raises(UsageError, match=messages.STORE_CLOSED):
            use()


# What was deleted


def files_with(text: bytes, folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir() if text in file.read_bytes()}


@pytest.mark.parametrize(
    "close",
    [
        lambda store: store.write(Persist(of(), Stage.BURNT, ONE)),
        lambda store: store.advance(progress=b"", persists=[Persist(of(), Stage.OPENED, ONE)]),
        lambda store: store.deliver([], persists=[Persist(of(), Stage.BURNT, ONE)]),
        lambda store: store.advance(progress=None, over=[of()]),
    ],
)
def test_boxes_and_shares_leave_no_trace_on_the_disk(
    path: Path, store: Store, close: Callable[[Store], object]
) -> None:  # fmt: skip
    enter(store, of())
    long = b"a sealed box, " * 1000
    store.post_messages([said(at, long + bytes([at])) for at in range(50)])
    store.deliver([(name(at), of(), long) for at in range(50)])
    store._database.erase_deleted()
    store.post_messages([said(99, b"a sealed box, short")])
    assert files_with(b"a sealed box, ", path.parent) == {"store", "store-wal"}
    close(store)
    assert files_with(b"a sealed box, ", path.parent) == set()


def test_a_reader_in_the_middle_does_not_hold_up_the_end_of_a_round(path: Path, store: Store) -> None:
    prepare(store)
    with closing(sqlite3.connect(path)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM inbox").fetchone() == (2,)
        store.write(Persist(of(), Stage.BURNT, ONE))
        assert len(store.incoming(0, 9)) == 1
    store.write(Persist(of(group=1), Stage.BURNT, ONE))
    assert (path.parent / "store-wal").stat().st_size == 0


# Files that are refused


def newer(path: Path) -> None:
    Store.open(path, migrations=LATER).close()


def of_another_program(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE contacts (name)")


def of_a_device(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA application_id={0x50524543}")
        connection.execute("PRAGMA user_version=1")


def no_database(path: Path) -> None:
    path.write_text("user,poi\n" * 1000)


def filled(path: Path) -> bytearray:
    with Store.open(path) as store:
        store.found(FOUNDING)
        enter(store, of())
        store.post_messages([said(at, bytes(3000)) for at in range(20)])
    return bytearray(path.read_bytes())


def damaged(path: Path) -> None:
    content = filled(path)
    content[4096 : 5 * 4096] = b"\xff" * 4 * 4096
    path.write_bytes(content)


def cut_short(path: Path) -> None:
    path.write_bytes(filled(path)[: 5 * 4096])


def with_a_garbled_schema(path: Path) -> None:
    content = filled(path)
    at = content.index(b"CREATE TABLE people")
    content[at : at + 12] = b"\x9c" * 12  # not UTF-8, and SQLite quotes it
    path.write_bytes(content)


def without_a_version(path: Path) -> None:
    filled(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version=0")


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (newer, messages.version_too_new(PRESENT + 1, newest=PRESENT)),
        (of_another_program, messages.FILE_NOT_OURS),
        (of_a_device, messages.FILE_NOT_OURS),
        (no_database, messages.FILE_NOT_OURS),
        (damaged, messages.FILE_DAMAGED),
        (cut_short, messages.FILE_DAMAGED),
        (with_a_garbled_schema, messages.FILE_DAMAGED),
        (without_a_version, messages.FILE_DAMAGED),
    ],
)
def test_a_file_that_is_not_sound_and_ours_is_refused_and_left_alone(
    path: Path, spoil: Callable[[Path], None], text: str
) -> None:
    spoil(path)
    before = path.read_bytes()
    with pytest.raises(StateError, match=text) as caught:
        Store.open(path)
    assert caught.value.exit_code == 5
    assert caught.value.__cause__ is None
    assert path.read_bytes() == before
    assert {file.name for file in path.parent.iterdir()} <= {"store", "store-wal", "store-shm"}  # no copy was made


def test_a_damaged_document_or_log_is_told_and_not_passed_on(path: Path) -> None:
    document = written(Model(bytes(32), 0, b"\x11" * 800))
    with Store.open(path) as store:
        store.found(FOUNDING)
        store.advance(progress=None, documents=[document], entries=signed(store.head(), ("model", document[0])))
        assert store.document(document[0]) == document[1]
    content = bytearray(path.read_bytes())
    content[content.index(b"\x11" * 800) + 400] = 1  # SQLite notices nothing
    path.write_bytes(content)
    with Store.open(path) as store:
        with pytest.raises(StateError, match=messages.DOCUMENT_DAMAGED):
            store.document(document[0])
        assert len(store.entries(0)) == 1
        with store._database.transaction() as rows:
            rows.execute("UPDATE log SET body = ?", b"\xc1 canary")
        for look in (lambda: store.entries(0), lambda: store.last("model")):
            with pytest.raises(StateError, match=messages.LOG_DAMAGED) as caught:
                look()
            assert "canary" not in str(caught.value)


def test_whatever_byte_of_a_file_is_another_the_error_is_typed(path: Path) -> None:
    """Every page: its first bytes, where SQLite keeps its structure, and some of the rest."""
    document = written(Model(bytes(32), 0, bytes(800)))
    filled(path)
    with Store.open(path) as store:
        store.advance(progress=b"", documents=[document], entries=signed(store.head(), ("model", document[0])))
    whole, refused = path.read_bytes(), 0
    rng = np.random.default_rng(0)
    places = {
        page + at for page in range(0, len(whole), 4096) for at in (*range(0, 100, 7), *rng.integers(100, 4096, 6))
    }
    for at in sorted(places):
        changed = bytearray(whole)
        changed[at] ^= 0xFF
        path.write_bytes(changed)
        try:
            with Store.open(path) as store:
                for look in (store.founding, store.head, store.people, store.open_rounds, store.counts, store.progress):
                    look()
                store.entries(0)
                store.document(document[0])
                store.rounds(10)
                store.incoming(0, 100)
        except StateError:
            refused += 1
        for left in path.parent.glob("store-*"):
            left.unlink()
    assert refused > len(places) / 10


def test_a_missing_folder_is_named_as_the_trouble(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=messages.file_not_made(messages.Foreign.NO_SUCH_FILE)):
        Store.open(tmp_path / "missing" / "store")


def test_a_row_of_the_wrong_kind_is_refused_without_being_quoted(store: Store) -> None:
    with pytest.raises(StateError, match=messages.store_unusable("SQLITE_CONSTRAINT")) as caught:
        store.enrol(b"hunter2", day=1)
    assert "hunter2" not in str(caught.value)


# Older files, full disks and other writers


def test_an_older_file_is_migrated_and_its_copy_kept(path: Path) -> None:
    with Store.open(path) as store:
        prepare(store)
        before = everything(store)
    with Store.open(path, migrations=LATER) as store, store._database.reading() as rows:
        assert rows.all("SELECT * FROM later") == []
        assert everything(store) == before
    backup = path.with_name(f"store.version-{PRESENT}")
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    with Store.open(backup) as store:
        assert everything(store) == before
    assert {file.name for file in path.parent.iterdir()} == {"store", backup.name}


def test_a_migration_that_fails_leaves_the_file_as_it_was(path: Path) -> None:
    with Store.open(path) as store:
        prepare(store)
        before = everything(store)
    with pytest.raises(StateError, match=messages.store_unusable("SQLITE_ERROR")):
        Store.open(path, migrations=(*LATER, ("INSERT INTO nowhere VALUES (1)",)))
    with Store.open(path) as store:
        assert everything(store) == before


def test_a_full_disk_refuses_and_keeps_what_it_has(store: Store) -> None:
    prepare(store)
    before = everything(store)
    with store._database.reading() as rows:  # the one connection that there is
        rows.execute("PRAGMA max_page_count=1")  # the least possible: as many as there are
    with pytest.raises(StateError, match=messages.DISK_FULL) as caught:
        store.post_messages([said(5, b"a secret" * 9000)])
    assert "secret" not in str(caught.value)
    assert everything(store) == before
    with store._database.reading() as rows:
        rows.execute("PRAGMA max_page_count=100000")
    assert store.post_messages([said(5, b"a secret" * 9000)]) == [True]


@pytest.mark.parametrize("room", [0, 40_000, 120_000])
def test_of_a_copy_that_does_not_fit_on_the_disk_nothing_is_left(path: Path, store: Store, room: int) -> None:
    prepare(store)
    store.post_messages([said(5, b"a secret" * 20_000)])
    beside = {file.name for file in path.parent.iterdir()}
    with largest_file(room), pytest.raises(StateError, match=messages.DISK_FAILS):
        database.back_up(path, path.with_name("copy"))
    assert {file.name for file in path.parent.iterdir()} == beside
    database.back_up(path, path.with_name("copy"))


def test_a_writer_that_waits_too_long_gets_an_error_and_loses_nothing(
    path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "SQLITE_WAIT", 0.05)
    with Store.open(path) as impatient:
        with store._database.transaction(), pytest.raises(StateError, match=messages.WRITTEN_BY_ANOTHER_PROCESS):
            enter(impatient, of())
        enter(impatient, of())
    assert store.open_rounds() == [of()]
