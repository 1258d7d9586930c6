"""A journal on a full disk, or shared by processes: nothing that was told is lost, and each number is masked once."""

from pathlib import Path
from select import select

import pytest

from prirec.device import store as device_store
from prirec.device.store import Store, write_journal
from prirec.errors import StateError
from prirec.protocols.journal import JournalEntry
from prirec.protocols.party import Persist, Stage
from support import messages
from support.journals import ONE, after, holds, life, of, resent
from support.processes import finish, start

# Full disks


def test_a_full_file_refuses_and_keeps_what_it_has(path: Path) -> None:
    with Store.open(path) as store:
        for one in life(1)[:2]:
            store.write(one)
        with store.transaction() as rows:
            rows.execute("PRAGMA max_page_count=1")  # the least possible: as many as there are
        store.write(Persist(of(2), Stage.ENTERED, ONE))
        with pytest.raises(StateError, match=messages.DISK_FULL) as caught:
            store.write(Persist(of(2), Stage.MASKED, ONE, b"a secret" * 9000))
        assert "secret" not in str(caught.value)
        expected = after([*life(1)[:2], Persist(of(2), Stage.ENTERED, ONE)])
        assert holds(store, range(9)) == expected
        with store.transaction() as rows:
            rows.execute("PRAGMA max_page_count=100000")
        store.write(Persist(of(2), Stage.MASKED, ONE, b"a secret" * 9000))
    with Store.open(path) as store:
        assert resent(store, of(2)) == b"a secret" * 9000
        assert store.entry(of(1)) == expected[1]


def test_a_full_disk_is_reported_and_nothing_is_lost(tmp_path: Path) -> None:
    """The limit on the size of files makes the write itself fail, as a full or failing disk does."""
    told = finish(
        start(
            """
with Store.open(folder / "journal") as store:
    room = (folder / "journal").stat().st_size + 80_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    try:
        for number in range(100):
            for one in life(number)[:2]:
                store.write(one)
                say(f"{number}")
    except StateError as error:
        say(str(error))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    store.write(Persist(of(200), Stage.ENTERED, ONE))
""",
            tmp_path,
        )
    )
    assert len(told) > 10
    assert "SQLITE_IOERR" in told[-1]
    assert "nothing was written" in told[-1]
    acknowledged = [one for number in range(100) for one in life(number)[:2]][: len(told) - 1]
    with Store.open(tmp_path / "journal") as store:
        assert holds(store, range(300)) == after([*acknowledged, Persist(of(200), Stage.ENTERED, ONE)])


# Other processes


def test_of_two_processes_neither_loses_an_entry_and_one_masks_each_number(tmp_path: Path) -> None:
    """Both make the file, write rounds of a kind of their own, and race for the rounds of a third kind."""
    text = """
own, mark = sys.argv[2], bytes([ord(sys.argv[2])]) * 32
sys.stdin.readline()
with Store.open(folder / "journal") as store:
    for number in range(12):
        for stage in (Stage.ENTERED, Stage.MASKED):
            store.write(Persist(of(number, kind=own), stage, ONE))
        try:
            store.write(Persist(of(number, kind="shared"), Stage.ENTERED, ONE))
            store.write(Persist(of(number, kind="shared"), Stage.MASKED, mark, mark))
            say(f"{number}")
        except StateError:
            pass
"""
    processes = [start(text, tmp_path, own) for own in "ab"]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    won = [set(map(int, finish(process))) for process in processes]
    assert won[0] | won[1] == set(range(12))
    assert not won[0] & won[1]
    with Store.open(tmp_path / "journal") as store:
        for own, number in ((own, number) for own in "ab" for number in range(12)):
            assert store.entry(of(number, kind=own)) == JournalEntry(
                of(number, kind=own), Stage.MASKED, ONE, b"", masked=True
            )
            kept = resent(store, of(number, kind="shared"))
            assert kept in (None, b"a" * 32 if number in won[0] else b"b" * 32)  # none: the other one burnt it


def test_a_second_writer_waits_for_the_first(path: Path, store: Store) -> None:
    text = """
with Store.open(folder / "journal") as store:
    say("ready")
    sys.stdin.readline()
    store.write(life(2)[0])
    say("done")
"""
    second = start(text, path.parent)
    assert second.stdin is not None
    assert second.stdout is not None
    assert second.stdout.readline() == "ready\n"
    with store.transaction() as rows:
        write_journal(rows, life(1)[0])
        second.stdin.write("go\n")
        second.stdin.flush()
        assert select([second.stdout], [], [], 0.3)[0] == []
        assert holds(store, range(9)) == after(life(1)[:1])
    assert finish(second) == ["done"]
    assert holds(store, range(9)) == after([life(1)[0], life(2)[0]])


def test_a_writer_that_waits_too_long_gets_an_error_and_loses_nothing(
    path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_store, "WAIT", 0.05)
    with Store.open(path) as impatient:
        with store.transaction(), pytest.raises(StateError, match=messages.WRITTEN_BY_ANOTHER_PROCESS):
            impatient.write(life(1)[0])
        assert impatient.write(life(1)[0]) == after(life(1)[:1])[1]
