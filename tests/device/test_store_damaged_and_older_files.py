"""A journal that is not sound and ours is refused and left alone; an older one is migrated, and its copy kept."""

import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from prirec.device.ledger import LedgerStore
from prirec.device.person import Person
from prirec.device.store import (
    MIGRATIONS,
    Membership,
    Store,
    load_document,
    load_visit_contribution,
    save_documents,
    save_head,
    seal_ledger,
)
from prirec.device.sync import load_latest
from prirec.errors import StateError, UsageError
from prirec.wire.documents import Head, address
from support import messages
from support.journals import LEDGER, PRESENT, VECTOR, after, charges, holds, life, of, resent


def newer(path: Path) -> None:
    Store.open(path, migrations=LEDGER).close()


def of_another_program(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE contacts (name)")


def with_another_mark(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA application_id=7")


def no_database(path: Path) -> None:
    path.write_text("user,poi\n" * 200)


def damaged(path: Path) -> None:
    with Store.open(path) as store:
        for one in life(1)[:2]:
            store.write(one)
    content = bytearray(path.read_bytes())
    content[4096 : 2 * 4096] = b"\xff" * 4096
    path.write_bytes(content)


def cut_short(path: Path) -> None:
    with Store.open(path) as store:
        for one in life(1)[:2]:
            store.write(one)
    path.write_bytes(path.read_bytes()[: 2 * 4096])


def with_an_impossible_stage(path: Path) -> None:
    with Store.open(path) as store:
        store.write(life(1)[0])
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints=ON")
        connection.execute("UPDATE rounds SET stage = 9")


def without_a_version(path: Path) -> None:
    Store.open(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version=0")


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (newer, messages.version_too_new(PRESENT + 1, newest=PRESENT)),
        (of_another_program, messages.FILE_NOT_OURS),
        (with_another_mark, messages.FILE_NOT_OURS),
        (no_database, messages.FILE_NOT_OURS),
        (damaged, messages.FILE_DAMAGED),
        (cut_short, messages.FILE_DAMAGED),
        (with_an_impossible_stage, messages.FILE_DAMAGED),
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


def test_damage_found_later_is_reported_as_damage(path: Path) -> None:
    with Store.open(path) as store:
        for one in life(1)[:2]:
            store.write(one)
    with Store.open(path) as store:
        content = bytearray(path.read_bytes())
        content[4096:] = b"\xff" * (len(content) - 4096)
        content[24:28] = b"\xff" * 4  # the count of changes, which tells a reader to look again
        path.write_bytes(content)
        with pytest.raises(StateError, match=messages.FILE_DAMAGED):
            store.entry(of(1))


def test_a_folder_is_not_a_journal(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=messages.DEVICE_FILE_NOT_A_FILE):
        Store.open(tmp_path)


def test_a_missing_folder_is_named_as_the_trouble(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=messages.file_not_made(messages.Foreign.NO_SUCH_FILE)):
        Store.open(tmp_path / "missing" / "journal")


# Older versions


def pragma(path: Path, name: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def test_a_file_of_version_8_loses_its_linear_models_and_nothing_else(path: Path) -> None:
    campaign, document = b"\1" * 32, b"a charter of the last version"
    with Store.open(path, migrations=MIGRATIONS[:8]) as store:
        store.write(life(1)[0])
        with store.transaction() as rows:
            rows.execute("INSERT INTO models VALUES (?, 3, ?, x'')", (campaign, bytes(80)))
            rows.execute("INSERT INTO given VALUES (?, 17, 4)", (campaign,))
            rows.execute("INSERT INTO standing VALUES ('charter', ?)", (address(document),))
            save_documents(rows, [document])
    with Store.open(path) as store:
        assert store.entry(of(1)) is not None
        with store.transaction() as rows:
            assert load_latest(rows) == {"charter": address(document)}
            assert load_document(rows, address(document)) == document
            assert load_visit_contribution(rows, campaign).entries.tolist() == [17]
            rows.execute("INSERT INTO standing VALUES ('scales', ?)", (campaign,))
            tables = {name for (name,) in rows.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert "models" not in tables


BEFORE_HELPERS = "deployment, url, authority, recommender, title, cell, identity, enrolled, length, last"


def test_a_device_of_version_10_goes_on_in_its_deployment_of_one_operator(path: Path) -> None:
    charge = "'popularity', 65536, 0, 'visits', 'user', 100, 5000, 0.0, 0.0, 'a contribution or none', 0.0"
    with Store.open(path, migrations=MIGRATIONS[:10]) as store, store.transaction() as rows:
        values = bytes(16), "https://town", b"", b"\1" * 32, "a town", bytes(8), b"\2" * 32, 1, 7, b"\3" * 32
        rows.execute(f"INSERT INTO membership (only_one, {BEFORE_HELPERS}) VALUES (1{', ?' * 10})", values)  # noqa: S608
        rows.execute(f"INSERT INTO spending VALUES (zeroblob(16), {charge})")  # noqa: S608
        seal_ledger(rows, day=100)
    with Store.open(path) as store:
        member = Person(store).membership()
        assert member == Membership(
            bytes(16), "https://town", b"\1" * 32, "a town", 0, b"\2" * 32, enrolled=True, head=Head(7, b"\3" * 32)
        )
        assert (member.helper, member.cosigned, member.joined) == (b"", b"", 0)
        assert len(LedgerStore(store).ledger().entries) == 1  # under the seal that it had
    assert pragma(path, "user_version") == len(MIGRATIONS) == 12


def test_what_a_device_knows_of_two_operators_is_stored(path: Path) -> None:
    member = Membership(bytes(16), "https://town", b"\1" * 32, "a town", 5, b"\2" * 32, helper=b"\4" * 32)
    with Store.open(path) as store:
        Person(store).join(member)
        with store.transaction() as rows:
            save_head(rows, Head(3, b"\5" * 32), cosigned=b"signed", joined=2)
        with pytest.raises(StateError), store.transaction() as rows:
            save_head(rows, Head(2, b"\5" * 32), cosigned=b"an older one", joined=1)
    with Store.open(path) as store:
        found = Person(store).membership()
    assert found == replace(member, head=Head(3, b"\5" * 32), cosigned=b"signed", joined=2)


@pytest.mark.parametrize("helper", [b"\4" * 31, b"\4" * 33], ids=["short", "long"])
def test_a_helper_s_key_has_32_bytes(path: Path, helper: bytes) -> None:
    member = Membership(bytes(16), "https://town", b"\1" * 32, "a town", 5, b"\2" * 32, helper=helper)
    with Store.open(path) as store, pytest.raises(UsageError, match=messages.MEMBERSHIP_SIZES):
        Person(store).join(member)


def test_an_older_file_is_migrated_and_its_copy_kept(path: Path) -> None:
    with Store.open(path) as store:
        for one in life(1)[:2]:
            store.write(one)
    with Store.open(path, migrations=(*LEDGER, ("INSERT INTO charges VALUES (7)",))) as store:
        assert charges(store) == 1
        assert resent(store, of(1)) == VECTOR * 500
    assert pragma(path, "user_version") == PRESENT + 2
    backup = path.with_name(f"journal.version-{PRESENT}")
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    with Store.open(backup) as store:
        assert holds(store, range(9)) == after(life(1)[:2])
    assert {file.name for file in path.parent.iterdir()} == {path.name, backup.name}


def test_a_new_file_needs_no_copy(path: Path) -> None:
    Store.open(path, migrations=LEDGER).close()
    Store.open(path, migrations=LEDGER).close()
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_migration_that_fails_leaves_the_file_as_it_was(path: Path) -> None:
    with Store.open(path) as store:
        store.write(life(1)[0])
    with pytest.raises(StateError, match=messages.store_unusable("SQLITE_ERROR")):
        Store.open(path, migrations=(*LEDGER, ("INSERT INTO nowhere VALUES (1)",)))
    with Store.open(path) as store:
        assert store.write(life(1)[1]) == after(life(1)[:2])[1]
    Store.open(path, migrations=LEDGER).close()
    with Store.open(path.with_name(f"journal.version-{PRESENT}")) as store:
        assert holds(store, range(9)) == after(life(1)[:2])


def test_half_a_copy_from_a_crash_is_made_anew(path: Path) -> None:
    with Store.open(path) as store:
        store.write(life(1)[0])
    path.with_name(f"journal.version-{PRESENT}.part").write_bytes(b"half a copy")
    Store.open(path, migrations=LEDGER).close()
    assert {file.name for file in path.parent.iterdir()} == {"journal", f"journal.version-{PRESENT}"}


def test_nothing_is_migrated_that_cannot_be_copied(path: Path) -> None:
    with Store.open(path) as store:
        store.write(life(1)[0])
    path.with_name(f"journal.version-{PRESENT}").mkdir()
    with pytest.raises(StateError, match=messages.file_not_made(messages.Foreign.IS_A_DIRECTORY)):
        Store.open(path, migrations=LEDGER)
    assert pragma(path, "user_version") == PRESENT
