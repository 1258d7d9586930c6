"""Who may see the operator's page: one login token, and the sessions that were opened with it. The store has hashes of
both, so that a copy of the store opens no page.

    table              written by                                    deleted
    operator_token     the operator, who makes a token               overwritten
    operator_sessions  the service, when somebody logs in            at logout, when it has ended, or with its token
"""

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256
from os import urandom
from typing import Final

from prirec.recommender.database import Database

SESSION_SECONDS: Final = 12 * 3600  # how long a stolen cookie is of use, unless its owner logs out
MOST_SESSIONS: Final = 16  # the oldest ends when another begins
_LENGTH: Final = 32  # bytes of a token or a session


class OperatorLogins:
    """Reads and writes these tables; each method is one transaction, or one read. Times are in seconds since 1970."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def new_token(self, *, entropy: Callable[[int], bytes] = urandom) -> str:
        """A new login token, which nobody is told again. The one before is void, and all sessions end."""
        token = _made(entropy)
        with self._database.transaction() as db:
            query = "INSERT INTO operator_token (one, digest) VALUES (1, ?)"
            db.execute(f"{query} ON CONFLICT (one) DO UPDATE SET digest = excluded.digest", _digest(token))
            db.execute("DELETE FROM operator_sessions")
        return token

    def log_in(self, token: str, *, now: int, entropy: Callable[[int], bytes] = urandom) -> str | None:
        """A new session for whoever has the token, and None for anybody else."""
        with self._database.transaction() as db:
            row = db.one("SELECT digest FROM operator_token")
            # Hashes are compared, in constant time: timing tells neither how long the token is nor how it begins.
            if not hmac.compare_digest(_digest(token), bytes(_LENGTH) if row is None else row[0]):
                return None
            db.execute("DELETE FROM operator_sessions WHERE until <= ?", now)
            newest = "SELECT digest FROM operator_sessions ORDER BY until DESC, digest LIMIT ?"
            db.execute(f"DELETE FROM operator_sessions WHERE digest NOT IN ({newest})", MOST_SESSIONS - 1)  # noqa: S608
            session = _made(entropy)
            query = "INSERT INTO operator_sessions (digest, until) VALUES (?, ?)"
            db.execute(query, _digest(session), now + SESSION_SECONDS)
        return session

    def is_open(self, session: str, *, now: int) -> bool:
        """Whether the session was opened here, and goes on."""
        query = "SELECT 1 FROM operator_sessions WHERE digest = ? AND until > ?"
        return self._database.one(query, _digest(session), now) is not None

    def log_out(self, session: str) -> None:
        with self._database.transaction() as db:
            db.execute("DELETE FROM operator_sessions WHERE digest = ?", _digest(session))


def _made(entropy: Callable[[int], bytes]) -> str:
    return urlsafe_b64encode(entropy(_LENGTH)).decode("ascii").rstrip("=")


def _digest(secret: str) -> bytes:
    return sha256(secret.encode("utf-8", "surrogatepass")).digest()


MIGRATION: Final = (
    "CREATE TABLE operator_token (one {whole} PRIMARY KEY CHECK (one = 1), digest {bytes} NOT NULL) {table}",
    "CREATE TABLE operator_sessions (digest {bytes} PRIMARY KEY, until {whole} NOT NULL) {table}",
)
