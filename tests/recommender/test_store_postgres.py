"""What is PostgreSQL's own: a schema beside others, connections that are lost, writers that hang, and no password."""

import os
import resource
import sys
import traceback
from collections.abc import Callable

import psycopg
import pytest

from prirec.errors import StateError, UsageError
from prirec.protocols.codec import encode
from prirec.protocols.party import Persist, Settle, Stage
from prirec.protocols.two_operators import Lines
from prirec.recommender import postgres
from prirec.recommender.joint_rounds import MissingKeyError
from prirec.recommender.store import MIGRATIONS, Founding, Store
from support import messages
from support.postgres import GROUP, Server
from support.stores import ONE, enter, everything, of, prepare

pytestmark = GROUP
LATER = (*MIGRATIONS, ("CREATE TABLE later (number {whole} NOT NULL) {table}",))


@pytest.fixture(params=["postgresql"])
def url(postgres: Server) -> str:
    return postgres.fresh()


def run(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def cut_off(url: str) -> None:
    """As when the server was started anew: everyone else's connections are gone."""
    run(url, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'prirec'")


def test_other_tables_in_the_database_are_left_alone(url: str) -> None:
    run(url, "CREATE TABLE people (name text); INSERT INTO people VALUES ('somebody')")
    with Store.open(url) as store:
        assert store.people() == []
    assert run(url, "SELECT * FROM public.people") == [("somebody",)]


def test_a_schema_of_that_name_that_is_not_ours_is_refused_and_left_alone(url: str) -> None:
    run(url, "CREATE SCHEMA prirec; CREATE TABLE prirec.people (name text)")
    with pytest.raises(StateError, match=messages.SCHEMA_NOT_OURS):
        Store.open(url)
    assert run(url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'prirec'") == [(1,)]


def test_newer_tables_are_refused_and_left_alone(url: str) -> None:
    Store.open(url, migrations=LATER).close()
    with pytest.raises(StateError, match=messages.version_too_new(len(LATER), newest=len(MIGRATIONS))):
        Store.open(url)
    assert run(url, "SELECT version FROM prirec.version") == [(len(LATER),)]


def test_older_tables_are_migrated_with_what_is_in_them(url: str) -> None:
    with Store.open(url) as store:
        prepare(store)
        before = everything(store)
    with Store.open(url, migrations=LATER) as store:
        assert everything(store) == before
    assert run(url, "SELECT count(*) FROM prirec.later") == [(0,)]


def copied(postgres: Server, url: str) -> str:
    """To another database of the server, as it is."""
    ((source,),) = run(url, "SELECT current_database()")
    return postgres.fresh(like=str(source))


def restored(_: Server, url: str) -> str:
    """To the same place, as from a dump: with tables that are new."""
    run(
        url,
        "CREATE TABLE prirec.dumped AS TABLE prirec.box_keys; DROP TABLE prirec.box_keys; "
        "ALTER TABLE prirec.dumped RENAME TO box_keys; ALTER TABLE prirec.box_keys ADD PRIMARY KEY (campaign)",
    )
    return url


@pytest.mark.parametrize("put_back", [copied, restored])
def test_an_operator_notices_that_its_tables_were_put_back(
    url: str, postgres: Server, put_back: Callable[[Server, str], str]
) -> None:
    """It would open the sums under way a second time, with other noise."""
    with Store.open(url) as store:
        store.found(Founding(bytes(16), bytes(32), bytes(32), "helper", role="helper"))
        store.joint.make_box_key(0, b"\7" * 32)
        store.joint.write(Persist(of(0), Stage.ENTERED, bytes(32)))
        store.joint.settle(Settle(of(0), 0, encode(Lines(())), b"a share"))
    for _ in range(2):
        with Store.open(url) as store:  # nothing has happened to it
            assert store.joint.box_key(0)
    with Store.open(put_back(postgres, url)) as store:
        with pytest.raises(MissingKeyError):
            store.joint.box_key(0)
        kept = store.joint.kept(of(0))
        assert kept is not None
        assert kept.state == kept.payload == b""
        store.joint.make_box_key(1, b"\7" * 32)
    with Store.open(url) as store:  # and from here on it is this one
        assert (put_back is copied) or store.joint.box_key(1)


def test_a_migration_that_fails_leaves_the_tables_as_they_were(url: str) -> None:
    with Store.open(url) as store:
        prepare(store)
        before = everything(store)
    with pytest.raises(StateError, match=messages.TABLES_UNKNOWN):
        Store.open(url, migrations=(*LATER, ("INSERT INTO nowhere VALUES (1)",)))
    with Store.open(url) as store:
        assert everything(store) == before
    assert run(url, "SELECT version FROM prirec.version") == [(len(MIGRATIONS),)]


@pytest.mark.parametrize("spoil", ["DROP TABLE prirec.inbox", "DELETE FROM prirec.version"])
def test_missing_tables_are_reported(url: str, spoil: str) -> None:
    with Store.open(url) as store:
        run(url, spoil)
        with pytest.raises(StateError, match=messages.any_of(messages.TABLES_UNKNOWN, messages.DATABASE_DAMAGED)):
            store.counts() if "inbox" in spoil else Store.open(url)


def test_a_database_user_without_the_right_to_write_is_refused(url: str) -> None:
    Store.open(url).close()
    run(url, "DROP ROLE IF EXISTS reader")
    run(url, "CREATE ROLE reader LOGIN")
    with pytest.raises(StateError, match=messages.TABLES_UNKNOWN):
        Store.open(url.replace("postgres:@", "reader@"))


# Connections


def test_a_server_that_was_started_anew_is_not_noticed(url: str) -> None:
    with Store.open(url) as store:
        for _ in range(2):
            prepare(store)
            cut_off(url)
            assert len(store.open_rounds()) == 2
            cut_off(url)
            store.advance(progress=b"", persists=[Persist(one, Stage.BURNT, ONE) for one in store.open_rounds()])
            run(url, "DELETE FROM prirec.rounds")


def test_a_process_with_thousands_of_open_files_uses_it_as_before(url: str) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 4096), most))
    taken = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        with Store.open(url) as store:
            assert store._database._idle[0]._connection.fileno() > 1023  # or nothing was tested
            assert store.lease(b"holder", 60)
            assert store.head().length == 0
            assert len(store._database._idle) == 1
    finally:
        for one in taken:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_connection_in_an_unknown_state_is_closed_and_committed_rows_stay(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(self: postgres.PostgresConnection) -> bool:
        raise OSError

    with Store.open(url) as store:
        monkeypatch.setattr(postgres, "_has_input", unknown)
        store._database.close()
        store._database._closed = False
        assert store.lease(b"holder", 60)
        assert not store._database._idle
        monkeypatch.undo()
        assert not store.lease(b"another", 60)


def test_a_connection_that_is_lost_in_a_write_undoes_it_and_the_next_one_works(url: str) -> None:
    def write(store: Store) -> None:
        with store._database.transaction() as rows:
            rows.execute("INSERT INTO progress VALUES (1, ?)", b"lost")
            cut_off(url)
            rows.execute("INSERT INTO lease VALUES (1, ?, 1.0)", b"lost")

    with Store.open(url) as store:
        with pytest.raises(
            StateError, match=messages.any_of(messages.DATABASE_UNREACHABLE, messages.DATABASE_SHUTTING_DOWN)
        ):
            write(store)
        assert store.progress() is None
        enter(store, of())


def test_a_writer_that_waits_too_long_gets_an_error_and_loses_nothing(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(url) as store:
        monkeypatch.setattr(postgres, "POSTGRES_WAIT", 0.1)
        with Store.open(url) as impatient:
            with store._database.transaction(), pytest.raises(StateError, match=messages.WRITTEN_BY_ANOTHER_PROCESS):
                enter(impatient, of())
            enter(impatient, of())
        assert store.open_rounds() == [of()]


def test_a_writer_that_hangs_is_cut_off_and_the_others_go_on(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(hanging: Store, other: Store) -> None:
        with hanging._database.transaction() as rows:
            rows.execute("INSERT INTO progress VALUES (1, ?)", b"from long ago")
            enter(other, of())  # waits until the server has had enough

    with Store.open(url) as other:
        monkeypatch.setattr(postgres, "POSTGRES_WAIT", 0.2)
        with Store.open(url) as hanging:
            with pytest.raises(
                StateError, match=messages.any_of(messages.DATABASE_UNREACHABLE, messages.store_unusable("25P03"))
            ):
                hang(hanging, other)
            assert other.progress() is None
            assert hanging.open_rounds() == [of()]


def test_a_commit_waits_for_the_disk_whatever_the_servers_habit(url: str) -> None:
    run(url, f"ALTER DATABASE {url.split('/')[3].split('?')[0]} SET synchronous_commit TO off")
    assert run(url, "SHOW synchronous_commit") == [("off",)]
    with Store.open(url) as store, store._database.transaction() as rows:
        assert rows.one("SHOW synchronous_commit") == ("on",)


# What is told


def test_no_error_contains_a_password() -> None:
    for url, kind in (
        ("postgresql://somebody:hunter2@127.0.0.1:1/database", StateError),
        ("postgresql://somebody:hunter2@127.0.0.1:port/database", (StateError, UsageError)),
        ("postgresql://somebody:hunter2@[/database", UsageError),
        ("postgres://somebody:hunter2@127.0.0.1:1/database?hunter2=1", UsageError),
    ):
        with pytest.raises(kind) as caught:
            Store.open(url)
        assert "hunter2" not in "".join(traceback.format_exception(caught.value, chain=True))


def test_a_row_of_the_wrong_kind_is_refused_without_being_quoted(url: str) -> None:
    short = b"a name that is no key"
    with Store.open(url) as store:
        with pytest.raises(StateError, match=messages.store_unusable("23514")) as caught:
            store.enrol(short, day=1)
        told = "".join(traceback.format_exception(caught.value))
        assert "no key" not in told
        assert short.hex() not in told
        assert store.people() == []


def test_without_psycopg_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "prirec.recommender.postgres")
    with pytest.raises(UsageError, match=messages.POSTGRES_DRIVER_MISSING):
        Store.open("postgresql://host/database")
