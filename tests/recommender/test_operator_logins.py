"""The token of the operator's page, and sessions: on a file and on PostgreSQL."""

from contextlib import closing
from hashlib import sha256
from itertools import count
from pathlib import Path

from prirec.recommender.database import back_up, connect_sqlite
from prirec.recommender.operator_logins import MOST_SESSIONS, SESSION_SECONDS
from prirec.recommender.store import Store

NOW = 1_800_000_000


def test_a_token_opens_sessions_and_nothing_else_does(store: Store) -> None:
    assert store.logins.log_in("", now=NOW) is None  # before there is one
    token = store.logins.new_token()
    session = store.logins.log_in(token, now=NOW)
    assert session is not None
    assert store.logins.is_open(session, now=NOW)
    assert store.logins.log_in(session, now=NOW) is None
    assert not store.logins.is_open(token, now=NOW)
    for wrong in ("", token[:-1], token + "A", token.swapcase(), sha256(token.encode()).hexdigest(), "\udcff"):
        assert store.logins.log_in(wrong, now=NOW) is None
        assert not store.logins.is_open(wrong, now=NOW)


def test_each_session_is_another_one_and_ends_by_itself_or_by_logging_out(store: Store) -> None:
    token = store.logins.new_token()
    one, other = (store.logins.log_in(token, now=NOW) or "" for _ in range(2))
    assert one != other
    store.logins.log_out(one)
    assert [store.logins.is_open(session, now=NOW) for session in (one, other)] == [False, True]
    assert store.logins.is_open(other, now=NOW + SESSION_SECONDS - 1)
    assert not store.logins.is_open(other, now=NOW + SESSION_SECONDS)


def test_a_new_token_voids_the_one_before_and_ends_every_session(store: Store) -> None:
    token = store.logins.new_token()
    session = store.logins.log_in(token, now=NOW) or ""
    another = store.logins.new_token()
    assert another != token
    assert store.logins.log_in(token, now=NOW) is None
    assert not store.logins.is_open(session, now=NOW)
    assert store.logins.log_in(another, now=NOW)


def test_so_many_sessions_are_open_at_once_and_the_oldest_ends_when_another_begins(store: Store) -> None:
    token = store.logins.new_token()
    sessions = [store.logins.log_in(token, now=NOW + at) or "" for at in range(MOST_SESSIONS + 3)]
    still = [store.logins.is_open(session, now=NOW + 100) for session in sessions]
    assert still == [False] * 3 + [True] * MOST_SESSIONS


def test_neither_token_nor_session_is_in_the_store_and_a_copy_has_no_session(folder: Path) -> None:
    drawn = count(1)
    with Store.open(folder / "store") as store:
        token = store.logins.new_token(entropy=lambda size: sha256(b"%d" % next(drawn)).digest()[:size])
        session = store.logins.log_in(token, now=NOW) or ""
        held = b"".join(file.read_bytes() for file in folder.iterdir())
        for secret in (token, session):
            assert secret.encode() not in held
            assert sha256(secret.encode()).digest() in held  # what is searched for would be found
        back_up(folder / "store", folder / "copy")
    with closing(connect_sqlite(folder / "copy")) as rows:
        assert rows.execute("SELECT count(*) FROM operator_sessions").fetchone() == (0,)
        assert rows.execute("SELECT count(*) FROM operator_token").fetchone() == (1,)
