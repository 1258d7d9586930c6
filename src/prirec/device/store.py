"""Where a person's own data stand in the device's file, beside the journal and the ledger (device/store.py).

`forget` empties all of these. What was spent and which rounds were entered stays: both guard against a second time.
"""

import sqlite3
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from prirec.device.database import DAMAGED, Database, Migrations
from prirec.device.values import checked_name
from prirec.errors import StateError, UsageError
from prirec.protocols import journal
from prirec.protocols.actions import Persist, Stage
from prirec.protocols.journal import ConflictError, JournalEntry, Verdict
from prirec.protocols.messages import Round
from prirec.sharing.keys import KEY, SigningKey
from prirec.types import OffsetArray, RealArray
from prirec.wire.documents import address
from prirec.wire.log import Head

PERSON = (
    """
    CREATE TABLE profile (
        name  TEXT NOT NULL PRIMARY KEY CHECK (typeof(name) = 'text'),
        value BLOB NOT NULL CHECK (typeof(value) = 'blob')
    ) WITHOUT ROWID
    """,  # JSON: a number, a word or a list of words
    """
    CREATE TABLE home (
        only_one INTEGER NOT NULL PRIMARY KEY CHECK (only_one = 1),
        lat      REAL    NOT NULL CHECK (typeof(lat) = 'real' AND lat BETWEEN -90 AND 90),
        lon      REAL    NOT NULL CHECK (typeof(lon) = 'real' AND lon BETWEEN -180 AND 180)
    )
    """,
    """
    CREATE TABLE visits (
        number  INTEGER NOT NULL PRIMARY KEY,
        id      TEXT    NOT NULL UNIQUE CHECK (typeof(id) = 'text'),
        place   TEXT    NOT NULL CHECK (typeof(place) = 'text'),
        time    INTEGER          CHECK (typeof(time) IN ('integer', 'null')),
        label   INTEGER NOT NULL CHECK (label IN (1, -1)),
        context BLOB    NOT NULL CHECK (typeof(context) = 'blob')
    )
    """,  # context: JSON, a value for each name
    """
    CREATE TABLE labelled (
        only_one INTEGER NOT NULL PRIMARY KEY CHECK (only_one = 1),
        so       INTEGER NOT NULL CHECK (so IN (0, 1))
    )
    """,  # whether what was shown and ignored is recorded beside what was visited
    """
    CREATE TABLE membership (
        only_one    INTEGER NOT NULL PRIMARY KEY CHECK (only_one = 1),
        deployment  BLOB    NOT NULL CHECK (typeof(deployment) = 'blob' AND length(deployment) = 16),
        url         TEXT    NOT NULL CHECK (typeof(url) = 'text'),
        authority   BLOB    NOT NULL CHECK (typeof(authority) = 'blob'),
        recommender BLOB    NOT NULL CHECK (typeof(recommender) = 'blob' AND length(recommender) = 32),
        title       TEXT    NOT NULL CHECK (typeof(title) = 'text'),
        cell        BLOB    NOT NULL CHECK (typeof(cell) = 'blob' AND length(cell) = 8),
        identity    BLOB    NOT NULL CHECK (typeof(identity) = 'blob' AND length(identity) = 32),
        enrolled    INTEGER NOT NULL CHECK (enrolled IN (0, 1)),
        length      INTEGER NOT NULL CHECK (typeof(length) = 'integer' AND length >= 0),
        last        BLOB    NOT NULL CHECK (typeof(last) = 'blob' AND length(last) = 32)
    )
    """,  # cell: big endian, for an h3 cell may be beyond what SQLite calls an integer
    """
    CREATE TABLE models (
        campaign  BLOB    NOT NULL PRIMARY KEY CHECK (typeof(campaign) = 'blob' AND length(campaign) = 32),
        iteration INTEGER NOT NULL CHECK (typeof(iteration) = 'integer' AND iteration >= 0),
        linear    BLOB    NOT NULL CHECK (typeof(linear) = 'blob'),
        mean      BLOB    NOT NULL CHECK (typeof(mean) = 'blob')
    )
    """,  # linear: float64, little endian
    """
    CREATE TABLE given (
        campaign BLOB    NOT NULL CHECK (typeof(campaign) = 'blob' AND length(campaign) = 32),
        place    INTEGER NOT NULL CHECK (typeof(place) = 'integer' AND place >= 0),
        whole    INTEGER NOT NULL CHECK (typeof(whole) = 'integer'),
        PRIMARY KEY (campaign, place)
    ) WITHOUT ROWID
    """,  # what this device added to the sum of visits, by row of the catalogue
    """
    CREATE TABLE budget (
        only_one    INTEGER NOT NULL PRIMARY KEY CHECK (only_one = 1),
        epsilon     REAL    NOT NULL CHECK (typeof(epsilon) = 'real' AND epsilon > 0),
        delta       REAL    NOT NULL CHECK (typeof(delta) = 'real' AND delta > 0 AND delta < 1),
        period_days INTEGER          CHECK (typeof(period_days) IN ('integer', 'null')),
        local       REAL    NOT NULL CHECK (typeof(local) = 'real' AND local >= 0)
    )
    """,  # this person's privacy budget; it stays when the rest is forgotten, as what was spent does
    """
    CREATE TABLE regions (
        cell BLOB NOT NULL PRIMARY KEY CHECK (typeof(cell) = 'blob' AND length(cell) = 8)
    ) WITHOUT ROWID
    """,  # those that the person asked for, beside those around the own cell; big endian
    """
    CREATE TABLE standing (
        subject  TEXT NOT NULL PRIMARY KEY CHECK (subject IN ('charter', 'edition', 'model', 'publication')),
        document BLOB NOT NULL CHECK (typeof(document) = 'blob' AND length(document) = 32)
    ) WITHOUT ROWID
    """,  # the last document of each kind that the log named
    """
    CREATE TABLE documents (
        name BLOB NOT NULL PRIMARY KEY CHECK (typeof(name) = 'blob' AND length(name) = 32),
        body BLOB NOT NULL CHECK (typeof(body) = 'blob')
    )
    """,
)

# Versions 3 and 4 could give local answers (randomised response): version 4 had the tables `answers` and `secrets`, and
# a budget had a part for them. What was charged for an answer stays in `spending` and counts. A new file passes through
# here too, where `answers` and `secrets` never were.
WITHOUT_ANSWERS = (
    "DROP TABLE IF EXISTS answers",
    "DROP TABLE IF EXISTS secrets",
    """
    CREATE TABLE new_budget (
        only_one    INTEGER NOT NULL PRIMARY KEY CHECK (only_one = 1),
        epsilon     REAL    NOT NULL CHECK (typeof(epsilon) = 'real' AND epsilon > 0),
        delta       REAL    NOT NULL CHECK (typeof(delta) = 'real' AND delta > 0 AND delta < 1),
        period_days INTEGER          CHECK (typeof(period_days) IN ('integer', 'null'))
    )
    """,
    "INSERT INTO new_budget SELECT only_one, epsilon, delta, period_days FROM budget",
    "DROP TABLE budget",
    "ALTER TABLE new_budget RENAME TO budget",
)

OF_DEPLOYMENT = ("membership", "models", "given", "documents", "standing", "regions")  # gone when the device leaves
OF_PERSON = ("profile", "home", "visits", "labelled")


# Public documents that a device has fetched: whatever is named by its hash need not be asked for again.


def save_documents(rows: sqlite3.Connection, bodies: Iterable[bytes]) -> None:
    rows.executemany("INSERT OR IGNORE INTO documents VALUES (?, ?)", ((address(body), body) for body in bodies))


def load_document(rows: sqlite3.Connection, name: bytes) -> bytes | None:
    """Its bytes, as they were fetched; contract.documents.read looks whether they are still those."""
    row = rows.execute("SELECT body FROM documents WHERE name = ?", (name,)).fetchone()
    return None if row is None else bytes(row[0])


def document_names(rows: sqlite3.Connection) -> frozenset[bytes]:
    return frozenset(name for (name,) in rows.execute("SELECT name FROM documents"))


def prune_documents(rows: sqlite3.Connection, *, keeping: Collection[bytes]) -> int:
    """Drops all others; how many those were. A device keeps what its last publication and its campaign name."""
    others = document_names(rows) - set(keeping)
    rows.executemany("DELETE FROM documents WHERE name = ?", ((name,) for name in others))
    return len(others)


# The deployment that a device belongs to: whom it trusts, who it is there, and how far it has followed the log.


_COLUMNS = "deployment, url, authority, recommender, title, cell, identity, enrolled, length, last"


@dataclass(frozen=True, slots=True)
class Membership:
    """One device has one. The recommender's key is pinned when it is made; the secret is the device's alone."""

    deployment: bytes
    url: str
    recommender: bytes  # its public key
    title: str
    cell: int = field(repr=False)  # as the device chose to tell it; 0 is none
    secret: bytes = field(repr=False)
    authority: bytes = b""  # PEM of whoever vouches for the server; empty: those that the system trusts
    enrolled: bool = False  # whether the recommender has said so
    head: Head = field(default_factory=Head)

    @property
    def identity(self) -> SigningKey:
        return SigningKey(self.secret)

    @property
    def name(self) -> bytes:
        """What everybody there knows the device by."""
        return self.identity.public


def save_membership(rows: sqlite3.Connection, new: Membership) -> None:
    """StateError if the device belongs somewhere already: it leaves first."""
    if load_membership(rows) is not None:
        raise StateError("this device belongs to a deployment already; let it leave that one first")
    _check(new)
    rows.execute(
        f"INSERT INTO membership (only_one, {_COLUMNS}) VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
        (
            *(new.deployment, new.url, new.authority, new.recommender, new.title, new.cell.to_bytes(8, "big")),
            *(new.secret, new.enrolled, new.head.length, new.head.last),
        ),
    )


def load_membership(rows: sqlite3.Connection) -> Membership | None:
    row = rows.execute(f"SELECT {_COLUMNS} FROM membership").fetchone()  # noqa: S608
    if row is None:
        return None
    deployment, url, authority, recommender, title, cell, secret, enrolled, length, last = row
    return Membership(
        deployment=deployment,
        url=url,
        recommender=recommender,
        title=title,
        cell=int.from_bytes(cell, "big"),
        secret=secret,
        authority=authority,
        enrolled=bool(enrolled),
        head=Head(length, last),
    )


def save_enrolled(rows: sqlite3.Connection) -> None:
    """The recommender has taken the device in."""
    _one(rows.execute("UPDATE membership SET enrolled = 1"))


def save_head(rows: sqlite3.Connection, head: Head) -> None:
    """How far the log was checked; it is never gone back, or a recommender could tell its story anew."""
    _one(
        rows.execute(
            "UPDATE membership SET length = ?, last = ? WHERE length < ? OR (length = ? AND last = ?)",
            (head.length, head.last, head.length, head.length, head.last),
        )
    )


def _one(done: sqlite3.Cursor) -> None:
    if done.rowcount != 1:
        raise StateError("this device belongs to no deployment, or knows more of its log than that")


def _check(new: Membership) -> None:
    checked_name(new.url, what="the address of a recommender")
    if new.title:
        checked_name(new.title, what="the title of a deployment")
    wrong = len(new.deployment) != 16 or len(new.recommender) != KEY or len(new.secret) != KEY
    if wrong or not 0 <= new.cell < 2**64 or len(new.title) > 200:
        raise UsageError("a deployment has 16 bytes, keys have 32, a cell has 64 bits, a title up to 200 characters")


# A person's linear models W_i, one for each campaign, and what the device added to a campaign's sum of visits.
#
# Both are written in the transaction that masks what was computed from them (device/ledger.py): a crash leaves the
# model and the round where they were, or both behind. None of it leaves the device.


@dataclass(frozen=True, slots=True)
class LinearModel:
    """W_i with so many rounds of a campaign behind it."""

    campaign: bytes  # the charter's name
    iteration: int
    linear: RealArray = field(repr=False)  # (D + 1,)
    mean: bytes = b""  # the name of the cohort's mean that it took last; empty: none yet


@dataclass(frozen=True, slots=True)
class VisitContribution:
    """What this device added to a sum of visits, in whole numbers of 2^-f: where is private, as visits are."""

    places: OffsetArray = field(repr=False)  # (n,), rows of the catalogue, ascending
    whole: OffsetArray = field(repr=False)  # (n,)


def save_model(rows: sqlite3.Connection, kept: LinearModel) -> None:
    """StateError if a model with as many rounds behind it is held: nobody learns from a round twice."""
    if kept.linear.ndim != 1 or not np.isfinite(kept.linear).all():
        raise UsageError("a linear model is a vector of finite numbers")
    held = rows.execute("SELECT iteration FROM models WHERE campaign = ?", (kept.campaign,)).fetchone()
    if held is not None and held[0] >= kept.iteration:
        raise StateError("this device has learnt in that round already, or in a later one")
    linear = kept.linear.astype("<f8").tobytes()
    rows.execute(
        "INSERT OR REPLACE INTO models (campaign, iteration, linear, mean) VALUES (?, ?, ?, ?)",
        (kept.campaign, kept.iteration, linear, kept.mean),
    )


def load_model(rows: sqlite3.Connection, campaign: bytes) -> LinearModel | None:
    row = rows.execute("SELECT iteration, linear, mean FROM models WHERE campaign = ?", (campaign,)).fetchone()
    return None if row is None else LinearModel(campaign, row[0], _vector(row[1]), row[2])


def drop_models(rows: sqlite3.Connection, *, keeping: Iterable[bytes]) -> None:
    """What belongs to any other campaign than these is gone."""
    wanted = set(keeping)
    for table in ("models", "given"):
        for (campaign,) in rows.execute(f"SELECT DISTINCT campaign FROM {table}").fetchall():  # noqa: S608
            if campaign not in wanted:
                rows.execute(f"DELETE FROM {table} WHERE campaign = ?", (campaign,))  # noqa: S608


def save_visit_contribution(rows: sqlite3.Connection, campaign: bytes, visited: VisitContribution) -> None:
    """Written when the vector is masked: it may then be in the sum, so it is what is left out of it (decisions/0006).

    Visits that come later are in no sum of this campaign, and nothing is left out for them."""
    drop_visit_contribution(rows, campaign)
    lines = zip(visited.places.tolist(), visited.whole.tolist(), strict=True)
    rows.executemany("INSERT INTO given VALUES (?, ?, ?)", ((campaign, place, whole) for place, whole in lines))


def load_visit_contribution(rows: sqlite3.Connection, campaign: bytes) -> VisitContribution:
    """Nothing, for a device that took no part."""
    found = rows.execute("SELECT place, whole FROM given WHERE campaign = ? ORDER BY place", (campaign,)).fetchall()
    pairs = np.array(found, dtype=np.int64).reshape(-1, 2)
    return VisitContribution(pairs[:, 0].copy(), pairs[:, 1].copy())


def drop_visit_contribution(rows: sqlite3.Connection, campaign: bytes) -> None:
    """The sum was opened without this device: there is nothing of it in there."""
    rows.execute("DELETE FROM given WHERE campaign = ?", (campaign,))


def _vector(data: bytes) -> RealArray:
    if len(data) % 8:
        raise StateError(f"the device's file {DAMAGED}")
    return np.frombuffer(data, dtype="<f8").astype(np.float64)


# What a device must not forget: the journal of its rounds, written before use (the rules: protocols/journal.py).
#
# Correct: every write reads what is held, asks the rules and writes the answer inside one transaction that locks others
# out, and returns when that is durable. So a crash at any moment leaves the journal as it was before a write or after
# it, and what a caller was told of is after it; two processes that share the file are as one after the other.
#
# A limit: that an older copy of the file was put back, or the file removed, cannot be seen from the file. The
# recommender's round numbers catch part of it: those that it has closed it does not open again.


MIGRATIONS: Migrations = (
    (
        """
        CREATE TABLE rounds (
            deployment BLOB    NOT NULL CHECK (typeof(deployment) = 'blob'),
            kind       TEXT    NOT NULL CHECK (typeof(kind) = 'text'),
            number     INTEGER NOT NULL CHECK (typeof(number) = 'integer'),
            cohort     INTEGER NOT NULL CHECK (typeof(cohort) = 'integer'),
            attempt    INTEGER NOT NULL CHECK (typeof(attempt) = 'integer'),
            stage      INTEGER NOT NULL CHECK (stage IN (1, 2, 3, 4, 5, 6)),
            digest     BLOB    NOT NULL CHECK (typeof(digest) = 'blob'),
            payload    BLOB    NOT NULL CHECK (typeof(payload) = 'blob'),
            masked     INTEGER NOT NULL CHECK (masked IN (0, 1)),
            PRIMARY KEY (deployment, kind, number)
        )
        """,
    ),
    (
        """
        CREATE TABLE spending (
            deployment BLOB    NOT NULL CHECK (typeof(deployment) = 'blob'),
            kind       TEXT    NOT NULL CHECK (typeof(kind) = 'text'),
            number     INTEGER NOT NULL CHECK (typeof(number) = 'integer'),
            attempt    INTEGER NOT NULL CHECK (typeof(attempt) = 'integer'),
            what       TEXT    NOT NULL CHECK (typeof(what) = 'text'),
            unit       TEXT    NOT NULL CHECK (unit IN ('bit', 'value', 'event', 'user-day', 'user')),
            day        INTEGER NOT NULL CHECK (typeof(day) = 'integer'),
            grains     INTEGER NOT NULL CHECK (typeof(grains) = 'integer' AND grains >= 0),
            epsilon    REAL    NOT NULL CHECK (typeof(epsilon) = 'real' AND epsilon >= 0),
            delta      REAL    NOT NULL CHECK (typeof(delta) = 'real' AND delta BETWEEN 0 AND 1),
            adjacency  TEXT    NOT NULL CHECK (adjacency IN ('a contribution or none', 'a contribution or any other')),
            PRIMARY KEY (deployment, kind, number, attempt)
        )
        """,
        # nothing is refunded
        "CREATE TRIGGER spent_is_spent BEFORE DELETE ON spending BEGIN SELECT RAISE(ABORT, 'spent'); END",
        "CREATE TRIGGER paid_is_paid BEFORE UPDATE ON spending BEGIN SELECT RAISE(ABORT, 'paid'); END",
    ),
    PERSON,
    (),  # version 4 had tables for local answers, which the next step removes from files that have them
    WITHOUT_ANSWERS,
)


class Store:
    """A device's memory in one file. Whoever drives a party hands it each `Persist` before doing what follows.

    The ledger (device/ledger.py), or whatever else must be true together with the journal, joins in one `transaction`
    through functions of its rows, as `settle` does.
    """

    def __init__(self, database: Database):
        self._database = database

    @classmethod
    def open(cls, path: Path, *, migrations: Migrations = MIGRATIONS) -> Self:
        """Opens the file, or makes it, for its owner alone. Damaged, newer or not ours: StateError, and left alone.

        An older one is brought up to date, after a copy of it was put beside it as `<name>.version-<number>`."""
        return cls(Database.open(path, migrations=migrations))

    def write(self, persist: Persist) -> JournalEntry:
        """What is held once this is on disk. StateError where the rules refuse it; a conflict burns the round first."""
        with self.transaction() as rows:
            return write_journal(rows, persist)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, durable when it is left. After a conflict: nothing of it, but the round burnt."""
        try:
            with self._database.transaction() as rows:
                yield rows
        except ConflictError as conflict:
            with self._database.transaction() as rows, suppress(StateError):  # one that is over is not burnt any more
                write_journal(rows, Persist(conflict.round, Stage.BURNT, bytes(32)))
            raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The rows as they are, to look at only."""
        with self._database.reading() as rows:
            yield rows

    def entry(self, of: Round) -> JournalEntry | None:
        """What is held for the number of this round, if need be from another attempt: the entry's own round tells."""
        with self.reading() as rows:
            return _held(rows, of)

    def last(self, deployment: bytes, kind: str) -> int | None:
        """The highest number that this device has entered."""
        with self.reading() as rows:
            return _last(rows, deployment, kind)

    def resend(self, of: Round) -> bytes | None:
        """The masked vector of this very round, bit for bit, while its survivors are not settled."""
        held = self.entry(of)
        return held.payload or None if held is not None and held.round == of else None

    def alone(self) -> AbstractContextManager[None]:
        """As long as this lasts no other process can have the same: for whoever answers letters on this file."""
        return self._database.alone()

    def erase_copies(self) -> None:
        """Removes the copies of older versions that stand beside the file."""
        self._database.erase_copies()

    def pending(self) -> list[bytes]:
        """Every masked vector that may still be sent again, bit for bit."""
        with self.reading() as rows:
            found = rows.execute("SELECT payload FROM rounds WHERE stage = ? AND payload != x''", (Stage.MASKED,))
            return [bytes(payload) for (payload,) in found]

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def write_journal(rows: sqlite3.Connection, wanted: Persist) -> JournalEntry:
    """Writes what the rules admit, inside a transaction that others may have joined."""
    held, last = _held(rows, wanted.round), _last(rows, wanted.round.deployment, wanted.round.kind)
    if journal.admit(wanted, held=held, last=last) is Verdict.KNOWN and held is not None:
        return held
    new = journal.entry(wanted, held=held)
    of = new.round
    rows.execute(
        "INSERT OR REPLACE INTO rounds VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (of.deployment, of.kind, of.number, of.group, of.attempt, new.stage, new.digest, new.payload, new.masked),
    )
    return new


def burn_unsent(rows: sqlite3.Connection) -> None:
    """Burns every round in which a masked vector could still be sent, and the vector with it: the device leaves."""
    rows.execute("UPDATE rounds SET stage = ?, payload = x'' WHERE payload != x''", (Stage.BURNT,))


def _held(rows: sqlite3.Connection, of: Round) -> JournalEntry | None:
    row = rows.execute(
        "SELECT cohort, attempt, stage, digest, payload, masked FROM rounds"
        " WHERE deployment = ? AND kind = ? AND number = ?",
        (of.deployment, of.kind, of.number),
    ).fetchone()
    if row is None:
        return None
    group, attempt, stage, digest, payload, masked = row
    return JournalEntry(
        Round(of.deployment, of.kind, of.number, group, attempt), Stage(stage), digest, payload, bool(masked)
    )


def _last(rows: sqlite3.Connection, deployment: bytes, kind: str) -> int | None:
    found = rows.execute("SELECT max(number) FROM rounds WHERE deployment = ? AND kind = ?", (deployment, kind))
    number: int | None = found.fetchone()[0]
    return number
