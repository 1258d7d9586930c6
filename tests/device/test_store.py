"""The journal on disk: written before use, whole after any crash, private, and refused when it is not sound."""

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory
from threading import Thread

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from prirec.device import database
from prirec.device.store import MIGRATIONS, Store, settle
from prirec.errors import StateError, UsageError
from prirec.protocols.actions import Persist, Stage
from prirec.protocols.journal import LIFE, ConflictError, Entry, Verdict, admit, entry
from prirec.protocols.messages import Round

ONE, OTHER = b"\1" * 32, b"\2" * 32
VECTOR = b"a masked vector, sealed"
LEDGER = (*MIGRATIONS, ("CREATE TABLE charges (amount INTEGER NOT NULL)",))
PRESENT = len(MIGRATIONS)


def of(number: int = 5, *, attempt: int = 0, group: int = 3, kind: str = "linear") -> Round:
    return Round(bytes(16), kind, number, group, attempt)


def life(number: int) -> list[Persist]:
    """A member's whole round."""
    return [
        Persist(of(number), Stage.ENTERED, ONE),
        Persist(of(number), Stage.MASKED, OTHER, VECTOR * 500),
        Persist(of(number), Stage.AGREED, ONE),
        Persist(of(number), Stage.REVEALED, ONE),
        Persist(of(number), Stage.OPENED, ONE),
    ]


def after(writes: list[Persist]) -> dict[int, Entry]:
    """What the rules say is held of each number."""
    held: dict[int, Entry] = {}
    for one in writes:
        held[one.round.number] = entry(one, held=held.get(one.round.number))
    return held


def holds(store: Store, numbers: range) -> dict[int, Entry]:
    return {number: one for number in numbers if (one := store.entry(of(number))) is not None}


def pragma(path: Path, name: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store.open(path) as opened:
        yield opened


# What is kept


def test_what_was_written_is_there_after_opening_again(path: Path) -> None:
    with Store.open(path) as store:
        for one in life(1)[:2]:
            store.write(one)
    with Store.open(path) as store:
        held = store.entry(of(1))
    assert held == Entry(of(1), Stage.MASKED, OTHER, VECTOR * 500, masked=True)


def test_a_write_answers_with_what_is_then_held(store: Store) -> None:
    for number in (1, 2):
        for at, one in enumerate(life(number)):
            assert store.write(one) == after(life(number)[: at + 1])[number] == store.entry(one.round)


def test_nothing_is_held_of_what_was_never_entered(store: Store) -> None:
    assert (store.entry(of(1)), store.last(bytes(16), "linear"), store.resend(of(1))) == (None, None, None)


def test_the_last_number_is_of_one_deployment_and_kind(store: Store) -> None:
    for number in (2, 9):
        store.write(Persist(of(number), Stage.ENTERED, ONE))
    store.write(Persist(of(4, kind="interaction"), Stage.ENTERED, ONE))
    assert store.last(bytes(16), "linear") == 9
    assert store.last(bytes(16), "interaction") == 4
    assert store.last(b"\1" * 16, "linear") is None


def test_an_entry_tells_which_attempt_and_cohort_it_is_of(store: Store) -> None:
    store.write(Persist(of(attempt=0, group=7), Stage.ENTERED, ONE))
    store.write(Persist(of(attempt=2, group=8), Stage.ENTERED, ONE))
    held = store.entry(of(attempt=0, group=7))
    assert held is not None
    assert held.round == of(attempt=2, group=8)


def test_a_masked_vector_is_sent_again_bit_for_bit(path: Path) -> None:
    with Store.open(path) as store:
        store.write(Persist(of(), Stage.ENTERED, ONE, b"not a vector"))
        assert store.resend(of()) is None
        store.write(Persist(of(), Stage.MASKED, ONE, VECTOR))
    with Store.open(path) as store:
        assert store.resend(of()) == VECTOR
        assert store.resend(of(attempt=1)) is None
        store.write(Persist(of(), Stage.MASKED, ONE, b"another"))
        assert store.resend(of()) == VECTOR


@pytest.mark.parametrize("end", [Stage.OPENED, Stage.BURNT])
def test_a_round_that_is_over_leaves_no_vector_behind(path: Path, end: Stage) -> None:
    with Store.open(path) as store:
        for one in life(1)[:4]:
            store.write(one)
        store.write(Persist(of(1), end, ONE))
        assert store.resend(of(1)) is None
    assert VECTOR not in path.read_bytes()


def test_a_masked_round_is_not_entered_anew_after_a_restart(path: Path) -> None:
    with Store.open(path) as store:
        for one in life(1)[:2]:
            store.write(one)
        store.write(Persist(of(1), Stage.BURNT, ONE))
    with Store.open(path) as store, pytest.raises(StateError, match="twice"):
        store.write(Persist(of(1, attempt=1), Stage.ENTERED, ONE))


def test_a_conflict_burns_the_round_for_good(path: Path) -> None:
    with Store.open(path) as store:
        for one in life(1)[:2]:
            store.write(one)
        with pytest.raises(ConflictError, match="given up"):
            store.write(Persist(of(1), Stage.MASKED, ONE, b"another vector"))
    with Store.open(path) as store:
        assert store.entry(of(1)) == Entry(of(1), Stage.BURNT, bytes(32), b"", masked=True)
        assert store.resend(of(1)) is None


def test_a_conflict_over_an_opened_sum_leaves_it_opened(store: Store) -> None:
    for one in life(1):
        store.write(one)
    with pytest.raises(ConflictError):
        store.write(Persist(of(1), Stage.OPENED, OTHER))
    assert store.entry(of(1)) == after(life(1))[1]


def test_a_refused_write_changes_nothing(store: Store) -> None:
    store.write(life(1)[0])
    with pytest.raises(StateError, match="ENTERED does not go to REVEALED"):
        store.write(Persist(of(1), Stage.REVEALED, ONE))
    assert holds(store, range(9)) == after(life(1)[:1])


class TwinJournals(RuleBasedStateMachine):
    """The file, closed and opened at whim, against the rules kept in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.store = Store.open(Path(self.folder.name) / "journal")
        self.held: dict[int, Entry] = {}

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.store = Store.open(Path(self.folder.name) / "journal")

    @rule(
        number=st.integers(0, 2),
        attempt=st.integers(0, 1),
        stage=st.sampled_from(Stage),
        digest=st.sampled_from([ONE, OTHER]),
        payload=st.binary(max_size=3),
    )
    def write(self, number: int, attempt: int, stage: Stage, digest: bytes, payload: bytes) -> None:
        wanted = Persist(of(number, attempt=attempt), stage, digest, payload)
        held, last = self.held.get(number), max(self.held, default=None)
        try:
            verdict = admit(wanted, held=held, last=last)
        except StateError as refused:
            with pytest.raises(type(refused)):
                self.store.write(wanted)
            if isinstance(refused, ConflictError) and held is not None and Stage.BURNT in LIFE[held.stage]:
                self.held[number] = entry(Persist(wanted.round, Stage.BURNT, bytes(32)), held=held)
        else:
            if verdict is Verdict.WRITE:
                self.held[number] = entry(wanted, held=held)
            assert self.store.write(wanted) == self.held[number]
        assert holds(self.store, range(3)) == self.held
        assert self.store.last(bytes(16), "linear") == max(self.held, default=None)

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()


TwinJournals.TestCase.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
TestTwinJournals = TwinJournals.TestCase


# One transaction for the journal and whatever joins it


def charge(store: Store, wanted: Persist, *, amount: int | None = 1) -> Entry:
    """As a ledger will: the charge and the entry together."""
    with store.transaction() as rows:
        rows.execute("INSERT INTO charges VALUES (?)", (amount,))
        return settle(rows, wanted)


def charges(store: Store) -> int:
    with store.transaction() as rows:
        return int(rows.execute("SELECT count(*) FROM charges").fetchone()[0])


def test_what_joins_the_transaction_is_written_with_the_journal(path: Path) -> None:
    with Store.open(path, migrations=LEDGER) as store:
        charge(store, life(1)[0])
        assert (charges(store), holds(store, range(9))) == (1, after(life(1)[:1]))


def test_what_joins_a_refused_transaction_is_not_written(path: Path) -> None:
    with Store.open(path, migrations=LEDGER) as store:
        with pytest.raises(StateError, match="never entered"):
            charge(store, life(1)[1])
        assert (charges(store), holds(store, range(9))) == (0, {})


def test_a_conflict_undoes_what_joined_it_and_burns_the_round(path: Path) -> None:
    with Store.open(path, migrations=LEDGER) as store:
        store.write(life(1)[0])
        with pytest.raises(ConflictError):
            charge(store, Persist(of(1), Stage.ENTERED, OTHER))
        assert charges(store) == 0
        held = store.entry(of(1))
        assert held is not None
        assert held.stage is Stage.BURNT


def test_an_error_of_the_joined_rows_is_told_without_what_is_in_them(path: Path) -> None:
    with Store.open(path, migrations=LEDGER) as store:
        with pytest.raises(StateError, match="SQLITE_CONSTRAINT_NOTNULL") as caught:
            charge(store, Persist(of(1), Stage.ENTERED, ONE, VECTOR), amount=None)
        assert caught.value.__cause__ is None
        assert "vector" not in str(caught.value)
        assert store.entry(of(1)) is None


# The file


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


def test_a_name_with_signs_of_its_own_is_a_name(tmp_path: Path) -> None:
    path = tmp_path / "a ?mode=memory#%41.db"
    Store.open(path).close()
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_nothing_but_a_private_file_is_ever_made(path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        database._connect(path)
    assert not path.exists()


def test_nothing_is_acknowledged_once_the_file_is_gone(path: Path, store: Store) -> None:
    store.write(life(1)[0])
    path.rename(path.with_name("moved"))
    with pytest.raises(StateError, match="cannot be opened for writing"):
        store.write(life(1)[1])
    with Store.open(path.with_name("moved")) as moved:
        assert holds(moved, range(9)) == after(life(1)[:1])


def test_a_closed_store_says_so(path: Path) -> None:
    with Store.open(path) as store:
        pass
    for use in (lambda: store.write(life(1)[0]), lambda: store.entry(of(1)), lambda: store.last(bytes(16), "linear")):
        with pytest.raises(UsageError, match="closed"):
            use()


def test_another_thread_is_told_to_open_its_own(store: Store) -> None:
    told: list[Exception] = []

    def use() -> None:
        with pytest.raises(UsageError, match="thread") as caught:
            store.write(life(1)[0])
        told.append(caught.value)

    thread = Thread(target=use)
    thread.start()
    thread.join()
    assert told


# Files that are refused


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
        (newer, f"has version {PRESENT + 1}, this program knows {PRESENT}.*newer program"),
        (of_another_program, "not a file of PriRec's"),
        (with_another_mark, "not a file of PriRec's"),
        (no_database, "not a file of PriRec's"),
        (damaged, "is damaged; move it away"),
        (cut_short, "is damaged; move it away"),
        (with_an_impossible_stage, "is damaged; move it away"),
        (without_a_version, "is damaged; move it away"),
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


def test_damage_that_shows_later_is_told_as_damage(path: Path) -> None:
    with Store.open(path) as store:
        for one in life(1)[:2]:
            store.write(one)
    with Store.open(path) as store:
        content = bytearray(path.read_bytes())
        content[4096:] = b"\xff" * (len(content) - 4096)
        content[24:28] = b"\xff" * 4  # the count of changes, which tells a reader to look again
        path.write_bytes(content)
        with pytest.raises(StateError, match="is damaged"):
            store.entry(of(1))


def test_a_folder_is_not_a_journal(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="cannot be opened for writing"):
        Store.open(tmp_path)


def test_a_missing_folder_is_named_as_the_trouble(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"could not be made \(No such file or directory\); name a folder"):
        Store.open(tmp_path / "missing" / "journal")


# Older versions


def test_an_older_file_is_migrated_and_its_copy_kept(path: Path) -> None:
    with Store.open(path) as store:
        for one in life(1)[:2]:
            store.write(one)
    with Store.open(path, migrations=(*LEDGER, ("INSERT INTO charges VALUES (7)",))) as store:
        assert charges(store) == 1
        assert store.resend(of(1)) == VECTOR * 500
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
    with pytest.raises(StateError, match="could not be used"):
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
    with pytest.raises(StateError, match="Is a directory"):
        Store.open(path, migrations=LEDGER)
    assert pragma(path, "user_version") == PRESENT


# Full disks


def test_a_full_file_refuses_and_keeps_what_it_has(path: Path) -> None:
    with Store.open(path) as store:
        for one in life(1)[:2]:
            store.write(one)
        with store.transaction() as rows:
            rows.execute("PRAGMA max_page_count=1")  # the least possible: as many as there are
        store.write(Persist(of(2), Stage.ENTERED, ONE))
        with pytest.raises(StateError, match="Make room") as caught:
            store.write(Persist(of(2), Stage.MASKED, ONE, b"a secret" * 9000))
        assert "secret" not in str(caught.value)
        expected = after([*life(1)[:2], Persist(of(2), Stage.ENTERED, ONE)])
        assert holds(store, range(9)) == expected
        with store.transaction() as rows:
            rows.execute("PRAGMA max_page_count=100000")
        store.write(Persist(of(2), Stage.MASKED, ONE, b"a secret" * 9000))
    with Store.open(path) as store:
        assert store.resend(of(2)) == b"a secret" * 9000
        assert store.entry(of(1)) == expected[1]


# Other processes

SCRIPT = """
import os, resource, signal, sys, time
from pathlib import Path
from prirec.device.store import Store
from prirec.errors import StateError
from prirec.protocols.actions import Persist, Stage
from prirec.protocols.messages import Round

folder = Path(sys.argv[1])

def persist(number, stage, *, kind="linear", digest=bytes([1]) * 32, payload=b""):
    return Persist(Round(bytes(16), kind, number, 3, 0), stage, digest, payload)

def life(number):
    one, other = bytes([1]) * 32, bytes([2]) * 32
    yield persist(number, Stage.ENTERED)
    yield persist(number, Stage.MASKED, digest=other, payload=b"a masked vector, sealed" * 500)
    yield from (persist(number, stage) for stage in (Stage.AGREED, Stage.REVEALED, Stage.OPENED))

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def say(text):
    os.write(1, text.encode() + bytes([10]))
"""


def script(text: str, *arguments: object) -> list[str]:
    return [sys.executable, "-c", SCRIPT + text, *map(str, arguments)]


def start(text: str, *arguments: object) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        script(text, *arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process: "subprocess.Popen[str]", said: str = "") -> list[str]:
    out, err = process.communicate(said, timeout=60)
    assert (process.returncode, err) == (0, "")
    return out.splitlines()


def test_a_disk_that_takes_no_more_is_told_and_nothing_is_lost(tmp_path: Path) -> None:
    """The limit on the size of files makes the write itself fail, as a full or failing disk does."""
    told = finish(
        start(
            """
with Store.open(folder / "journal") as store:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    try:
        for number in range(100):
            for one in list(life(number))[:2]:
                store.write(one)
                say(f"{number}")
    except StateError as error:
        say(str(error))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    store.write(persist(200, Stage.ENTERED))
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


def test_of_two_processes_neither_loses_an_entry_and_one_masks_each_number(tmp_path: Path) -> None:
    """Both make the file, write rounds of a kind of their own, and race for the rounds of a third kind."""
    text = """
own, mark = sys.argv[2], bytes([ord(sys.argv[2])]) * 32
sys.stdin.readline()
with Store.open(folder / "journal") as store:
    for number in range(12):
        for stage in (Stage.ENTERED, Stage.MASKED):
            store.write(persist(number, stage, kind=own))
        try:
            store.write(persist(number, Stage.ENTERED, kind="shared"))
            store.write(persist(number, Stage.MASKED, kind="shared", digest=mark, payload=mark))
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
            assert store.entry(of(number, kind=own)) == Entry(of(number, kind=own), Stage.MASKED, ONE, b"", masked=True)
            kept = store.resend(of(number, kind="shared"))
            assert kept in (None, b"a" * 32 if number in won[0] else b"b" * 32)  # none: the other one burnt it


def test_a_second_writer_waits_for_the_first(path: Path, store: Store) -> None:
    text = """
with Store.open(folder / "journal") as store:
    say("ready")
    sys.stdin.readline()
    store.write(persist(2, Stage.ENTERED))
    say("done")
"""
    second = start(text, path.parent)
    assert second.stdin is not None
    assert second.stdout is not None
    assert second.stdout.readline() == "ready\n"
    with store.transaction() as rows:
        settle(rows, life(1)[0])
        second.stdin.write("go\n")
        second.stdin.flush()
        assert select([second.stdout], [], [], 0.3)[0] == []
        assert holds(store, range(9)) == after(life(1)[:1])
    assert finish(second) == ["done"]
    assert holds(store, range(9)) == after([life(1)[0], life(2)[0]])


def test_who_waits_too_long_is_told_and_loses_nothing(
    path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "WAIT", 0.05)
    with Store.open(path) as impatient:
        with store.transaction(), pytest.raises(StateError, match="another process; nothing was written"):
            impatient.write(life(1)[0])
        assert impatient.write(life(1)[0]) == after(life(1)[:1])[1]


KILLED = """
def lives(point):
    # dies at the start of the point-th statement: before a transaction, inside one, or at its COMMIT; or, where the
    # point is negative, right after a write was durable and before anybody was told
    store = Store.open(folder / f"journal{point}")
    seen = 0
    def count(statement):
        nonlocal seen
        if seen == point:
            die()
        seen += 1
    store._database._connection.set_trace_callback(count)
    with open(folder / f"told{point}", "wb", buffering=0) as told:
        for at, one in enumerate(life(1)):
            store.write(one)
            if at == -1 - point:
                die()
            told.write(b".")
    os._exit(seen > 0)

for point in range(-5, 100):
    child = os.fork()
    if child == 0:
        lives(point)
    status = os.waitpid(child, 0)[1]
    say(f"{point} {os.WIFSIGNALED(status)}")
    if not os.WIFSIGNALED(status):
        break
"""


def test_a_kill_at_any_point_leaves_a_prefix_with_all_that_was_told(tmp_path: Path) -> None:
    *killed, (survived, _) = (line.split() for line in finish(start(KILLED, tmp_path)))
    assert int(survived) >= 5 * 4  # at least BEGIN, two questions, a write (and COMMIT) for each of five stages
    assert {ending for _, ending in killed} == {"True"}
    reached = []
    for point in (int(point) for point, _ in killed):
        told = len((tmp_path / f"told{point}").read_bytes())
        with Store.open(tmp_path / f"journal{point}") as store:
            held = holds(store, range(9))
            written = next(n for n in range(6) if held == after(life(1)[:n]))
            assert written == told + (point < 0)
            if written < 5:
                assert store.write(life(1)[written]) == after(life(1)[: written + 1])[1]  # it goes on where it was
        reached.append(written)
    assert set(reached) == set(range(6))


ANY_MOMENT = """
def lives(at):
    with open(folder / f"told{at}", "wb", buffering=0) as told, Store.open(folder / f"journal{at}") as store:
        for number in range(1000):
            for one in life(number):
                store.write(one)
                told.write(b".")

for at in range(12):
    child, told = os.fork(), folder / f"told{at}"
    if child == 0:
        lives(at)
        os._exit(0)
    while not told.exists() or not told.stat().st_size:
        time.sleep(0.001)
    time.sleep(0.0007 * at)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""


def test_a_kill_at_any_moment_leaves_a_prefix_with_all_that_was_told(tmp_path: Path) -> None:
    """Most of a write's time goes into its commit, so most of these kills fall inside one."""
    assert finish(start(ANY_MOMENT, tmp_path)) == []
    writes = [one for number in range(100) for one in life(number)]
    for at in range(12):
        told = len((tmp_path / f"told{at}").read_bytes())
        assert told > 0
        with Store.open(tmp_path / f"journal{at}") as store:
            assert holds(store, range(100)) in (after(writes[:told]), after(writes[: told + 1]))


@pytest.mark.parametrize("kind", ["fresh", "migrating"])
def test_a_kill_while_opening_leaves_a_file_that_opens(tmp_path: Path, kind: str) -> None:
    text = """
import sqlite3
from prirec.device import database, store as stores

connect, migrations = database._connect, (*stores.MIGRATIONS, ("CREATE TABLE charges (amount)",))
for point in range(100):
    path = folder / f"journal{point}"
    if sys.argv[2] == "migrating":
        with Store.open(path) as store:
            store.write(persist(1, Stage.ENTERED))
    child = os.fork()
    if child == 0:
        seen = 0
        def count(statement):
            global seen
            if seen == point:
                die()
            seen += 1
        def traced(path):
            connection = connect(path)
            connection.set_trace_callback(count)
            return connection
        database._connect = traced
        Store.open(path, migrations=migrations).close()
        os._exit(0)
    if not os.WIFSIGNALED(os.waitpid(child, 0)[1]):
        say(f"{point}")
        break
"""
    (survived,) = map(int, finish(start(text, tmp_path, kind)))
    assert survived > 6
    for point in range(survived):
        with Store.open(tmp_path / f"journal{point}", migrations=LEDGER) as store:
            assert holds(store, range(9)) == (after(life(1)[:1]) if kind == "migrating" else {})
            assert charges(store) == 0
            store.write(Persist(of(7), Stage.ENTERED, ONE))
