"""The file of a journal: private, alone, on the disk before anybody is told, and used by one thread."""

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest

from prirec.device import store as device_store
from prirec.device.store import Store
from prirec.errors import StateError, UsageError
from support import messages
from support.journals import after, holds, life, of


def test_the_file_is_private_and_alone(path: Path) -> None:
    old = os.umask(0)
    try:
        with Store.open(path) as store:
            store.write(life(1)[0])
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_new_file_is_durable_in_its_folder(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_ino))
    Store.open(path).close()
    assert synced == [path.parent.stat().st_ino]
    Store.open(path).close()
    assert len(synced) == 1


def test_a_commit_waits_for_the_disk(store: Store) -> None:
    with store.transaction() as rows:
        found = [rows.execute(f"PRAGMA {name}").fetchone()[0] for name in ("synchronous", "journal_mode", "fullfsync")]
    assert found == [3, "delete", 1]


def test_a_file_that_was_switched_to_a_log_is_switched_back(path: Path) -> None:
    Store.open(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    with Store.open(path) as store, store.transaction() as rows:
        assert rows.execute("PRAGMA journal_mode").fetchone()[0] == "delete"


def test_a_file_name_with_characters_of_a_url_is_taken_literally(tmp_path: Path) -> None:
    path = tmp_path / "a ?mode=memory#%41.db"
    Store.open(path).close()
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_nothing_but_a_private_file_is_ever_made(path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError, match=messages.Foreign.UNABLE_TO_OPEN):
        device_store._connect(path)
    assert not path.exists()


def test_nothing_is_acknowledged_once_the_file_is_gone(path: Path, store: Store) -> None:
    store.write(life(1)[0])
    path.rename(path.with_name("moved"))
    with pytest.raises(StateError, match=messages.FILE_NOT_WRITABLE):
        store.write(life(1)[1])
    with Store.open(path.with_name("moved")) as moved:
        assert holds(moved, range(9)) == after(life(1)[:1])


def test_a_closed_store_says_so(path: Path) -> None:
    with Store.open(path) as store:
        pass
    for use in (lambda: store.write(life(1)[0]), lambda: store.entry(of(1)), store.pending):
        with pytest.raises(UsageError, match=messages.FILE_CLOSED):
            use()


def test_use_from_another_thread_is_refused(store: Store) -> None:
    told: list[Exception] = []

    def use() -> None:
        with pytest.raises(UsageError, match=messages.FILE_CLOSED) as caught:
            store.write(life(1)[0])
        told.append(caught.value)

    thread = Thread(target=use)
    thread.start()
    thread.join()
    assert told
