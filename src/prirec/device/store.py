"""A device's file: one SQLite database with the round journal, the privacy ledger, personal data and documents.

`Store` opens the file and runs transactions; the functions below it read and write rows inside one, so that whatever
must be true together is committed together. The tables, and the life of each record:

    table       holds                                                      deleted
    rounds      the journal: the last attempt at each round number         never: a round is entered once
    spending    the privacy ledger (device/ledger.py)                      never: nothing is refunded
    ledger_seal its checksum, and the latest day seen                      never; replaced with each charge
    budget, own_floor    what the person allows                            never; replaced by a new one
    profile, home, visits, labelled    personal data (device/person.py)    by the person, or by `forget`
    membership  the deployment: pinned keys and their rotations, own       by `leave` or `forget`
                identity, place in log
    given       what this device added to a campaign's sum of visits       with its campaign, `leave` or `forget`
    documents   public documents by their hash                             when nothing in force names them
    zeros       sums that this device added nothing but zeros to, and why  by `leave` or `forget`
    standing    the document in force of each kind (device/sync.py)        replaced when the log goes on
    regions     coarse cells that the person asked for beside the own      by `leave` or `forget`

Rounds are journalled before anything is sent (the rules: protocols/journal.py). Every journal write reads what is
stored, asks the rules and writes the answer inside one exclusive transaction, and returns when that is durable. A crash
therefore leaves the journal either before or after a write, never between, and two processes on one file behave as if
they ran one after the other.

Not detectable from the file: that it was deleted, or replaced by an older copy. The recommender catches part of that,
since it never reopens a round number that it has closed.
"""

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, Self, TypeAlias

import msgspec
import numpy as np

from prirec.errors import PeerError, PolicyError, StateError, UsageError
from prirec.protocols import journal
from prirec.protocols.codec import decode_with, encode
from prirec.protocols.journal import ConflictError, JournalEntry, Verdict
from prirec.protocols.messages import Round
from prirec.protocols.party import Persist, Stage
from prirec.sharing.keys import KEY, SigningKey
from prirec.types import OffsetArray
from prirec.util import sqlite
from prirec.wire.documents import Head, Rotation, Rotations, address
from prirec.wire.rotations import Operators

Migrations: TypeAlias = Sequence[Sequence[str]]  # the statements that lead from version 0, 1, ... to the next

APPLICATION = 0x50524543  # "PREC" in the header of the file
WAIT = 30.0  # seconds that a second writer waits for the first
# synchronous=EXTRA: with a rollback journal a commit is the removal of that journal. FULL leaves the removal to the
# operating system, so after a power failure the journal can reappear and undo an acknowledged commit, which here would
# be an acknowledged charge. EXTRA is FULL with the folder synced as well.
# secure_delete: `forget` must leave nothing in free pages. trusted_schema: a schema in a foreign file runs no code.
PRAGMAS = ("synchronous=EXTRA", "fullfsync=ON", "secure_delete=ON", "trusted_schema=OFF", "cell_size_check=ON")
DAMAGED = (
    "is damaged; move it away and enrol this device anew. Do not put an older copy in its place: "
    "with that, this device could take part in a round twice"
)


class Store:
    """A device's file: the round journal, and transactions in which other rows are written together with it.

    Whoever drives a protocol party hands over each `Persist` before doing what follows it: a message that is sent
    before it is on disk could be sent again after a crash with other content.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path, self._connection = path, connection

    @classmethod
    def open(cls, path: Path, *, migrations: Migrations | None = None) -> Self:
        """Open the file, or create it readable by its owner only. StateError, and the file untouched, if it is damaged,
        newer or foreign. An older file is migrated, after a backup beside it named `<name>.version-<number>`."""
        path = path.absolute()  # the program may go to another folder, and start a process there (device/worker.py)
        if path.exists() and not path.is_file():
            raise StateError(f"{path.name} is not a file; name the file of a device")
        with _explained(path):
            sqlite.create(path)
            store = cls(path, _connect(path))
            try:
                # One transaction for all: of two processes that find no file, one creates the tables, the other sees
                # them.
                with store._exclusively() as rows:
                    before: int = rows.execute("PRAGMA user_version").fetchone()[0]
                    wanted = MIGRATIONS if migrations is None else migrations
                    sqlite.migrate(
                        rows, path, wanted, application=APPLICATION, damaged=DAMAGED, connected=_connect
                    )  # fmt: skip
                    if before < len(wanted) >= SEALED_SINCE:
                        day = rows.execute("SELECT max(day) FROM spending").fetchone()[0] or 0
                        seal_ledger(rows, day=check_ledger(rows, version=before) if before >= SEALED_SINCE else day)
                # No write-ahead log: a device writes a few rows a round, so its speed buys nothing, and without it a
                # copy of this one file is a copy of everything.
                store._connection.execute("PRAGMA journal_mode=DELETE")
            except BaseException:
                store.close()
                raise
        return store

    @classmethod
    def connected(cls, path: Path) -> Self:
        """A file that an agent has open, for the process that computes for it: neither made nor migrated."""
        with _explained(path):
            return cls(path, _connect(path))

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- transactions

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, and durable on exit. A journal conflict rolls everything back and burns the round."""
        try:
            with self._exclusively() as rows:
                yield rows
        except ConflictError as conflict:
            # Two different vectors for one round would let the recommender subtract them: neither is sent any more.
            with self._exclusively() as rows, suppress(StateError):  # a finished round cannot be burnt, and need not
                write_journal(rows, Persist(conflict.round, Stage.BURNT, bytes(32)))
            raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The rows as they are, for SELECT only."""
        with _explained(self.path):
            yield self._connection

    @contextmanager
    def _exclusively(self) -> Iterator[sqlite3.Connection]:
        with _explained(self.path):
            # IMMEDIATE takes the write lock before anything is read: nobody changes what a rule has just looked at.
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.rollback()
                raise

    # --- the round journal

    def write(self, persist: Persist) -> JournalEntry:
        """The journal entry, once it is on disk. StateError where the rules refuse it; a conflict burns the round."""
        with self.transaction() as rows:
            return write_journal(rows, persist)

    def entry(self, of: Round) -> JournalEntry | None:
        """The entry for this round's number. It may be of another attempt: look at `entry.round`."""
        with self.reading() as rows:
            return _journal_entry(rows, of)

    def pending(self) -> list[bytes]:
        """Every masked vector that may still be sent again, bit for bit."""
        with self.reading() as rows:
            found = rows.execute("SELECT payload FROM rounds WHERE stage = ? AND payload != x''", (Stage.MASKED,))
            return [bytes(payload) for (payload,) in found]

    def pending_rounds(self) -> list[Round]:
        """Whose vectors these are; also of those that another version of the protocols masked."""
        with self.reading() as rows:
            found = rows.execute(
                "SELECT deployment, kind, number, cohort, attempt FROM rounds WHERE stage = ? AND payload != x''",
                (Stage.MASKED,),
            )
            return [Round(*columns) for columns in found]

    # --- beside the file

    @contextmanager
    def agent_lock(self) -> Iterator[None]:
        """Held by the one process that takes part with this file; StateError while another holds it.

        A lock on a file of its own, so that writers do not wait for it; the system releases it when the process ends,
        however it ends."""
        beside = self.path.with_name(f"{self.path.name}.agent")
        with _explained(self.path):
            sqlite.create(beside)
            lock = sqlite3.connect(beside, timeout=0.0, isolation_level=None)
        try:
            with _explained(beside):
                try:
                    lock.execute("BEGIN EXCLUSIVE")
                except sqlite3.OperationalError as error:
                    if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                        raise
                    raise StateError(f"another agent is at work on {self.path.name}; stop that one first") from None
            yield
        finally:
            lock.close()

    def delete_backups(self) -> None:
        """Delete the backups that migrations made: they still hold what was erased here since."""
        folder, prefix = self.path.absolute().parent, f"{self.path.name}.version-"
        try:
            for file in [one for one in folder.iterdir() if one.name.startswith(prefix)]:
                file.unlink(missing_ok=True)
            sqlite.sync(folder)
        except OSError as error:
            raise StateError(
                f"an older copy of {self.path.name} could not be removed ({error.strerror}); remove it by hand"
            ) from None


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite.connect(path, pragmas=PRAGMAS, wait=WAIT)


def _explained(path: Path) -> AbstractContextManager[None]:
    return sqlite.explained(path, damaged=DAMAGED)


# --- Journal rows ---------------------------------------------------------------------------------------------------


def write_journal(rows: sqlite3.Connection, wanted: Persist) -> JournalEntry:
    """Write what the journal's rules admit, inside a transaction that other rows may have joined."""
    held = _journal_entry(rows, wanted.round)
    last = _last_number(rows, wanted.round.deployment, wanted.round.kind)
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
    """Burn every round whose masked vector could still be sent, and erase the vector: the device leaves."""
    rows.execute("UPDATE rounds SET stage = ?, payload = x'' WHERE payload != x''", (Stage.BURNT,))


def _journal_entry(rows: sqlite3.Connection, of: Round) -> JournalEntry | None:
    row = rows.execute(
        "SELECT cohort, attempt, stage, digest, payload, masked FROM rounds"
        " WHERE deployment = ? AND kind = ? AND number = ?",
        (of.deployment, of.kind, of.number),
    ).fetchone()
    if row is None:
        return None
    group, attempt, stage, digest, payload, masked = row
    stored = Round(of.deployment, of.kind, of.number, group, attempt)
    return JournalEntry(stored, Stage(stage), digest, payload, bool(masked))


def _last_number(rows: sqlite3.Connection, deployment: bytes, kind: str) -> int | None:
    found = rows.execute("SELECT max(number) FROM rounds WHERE deployment = ? AND kind = ?", (deployment, kind))
    number: int | None = found.fetchone()[0]
    return number


# --- The seal of the ledger: a checksum over all charges, and over what the person allows -----------------------------
# SQLite notices a page that is no page, but not a number in it that has become another one: a charge would be smaller,
# or gone, or the budget larger. It is a checksum, no signature: whoever may write the file can compute it.


CHARGE = "deployment, kind, number, attempt, what, unit, day, grains, epsilon, delta, adjacency, at_worst"  # columns
_ALLOWED = ("epsilon, delta, period_days FROM budget", "devices FROM own_floor")


def seal_ledger(rows: sqlite3.Connection, *, day: int) -> None:
    """Write the checksum, and the latest day that this device has seen."""
    version = rows.execute("PRAGMA user_version").fetchone()[0]
    rows.execute("INSERT OR REPLACE INTO ledger_seal VALUES (1, ?, ?)", (day, _ledger_checksum(rows, day, version)))


def check_ledger(rows: sqlite3.Connection, *, version: int | None = None) -> int:
    """The latest day that this device has seen. StateError if day, charges, budget and floor are not those that were
    written. `version` is that of the seal, if the file is being migrated."""
    written: int = rows.execute("PRAGMA user_version").fetchone()[0] if version is None else version
    seal = rows.execute("SELECT day, checksum FROM ledger_seal").fetchone()
    if seal is None or _ledger_checksum(rows, seal[0], written) != seal[1]:
        raise StateError(f"the device's file {DAMAGED}")
    return int(seal[0])


def _ledger_checksum(rows: sqlite3.Connection, day: int, version: int) -> bytes:
    charges = rows.execute(f"SELECT {CHARGE} FROM spending ORDER BY rowid").fetchall()  # noqa: S608
    allowed = [rows.execute(f"SELECT {one}").fetchall() for one in _ALLOWED]
    content = (day, charges, *allowed) if version >= ALLOWED_SINCE else (day, charges)
    return sha256(repr(content).encode()).digest()


# --- Membership: the deployment that the device belongs to ----------------------------------------------------------

_COLUMNS = (
    "deployment, url, authority, recommender, title, cell, identity, enrolled, length, last, helper, cosigned, joined, "
    "rotations"
)


@dataclass(frozen=True, slots=True)
class Membership:
    """The one deployment that a device belongs to: whom it trusts, who it is there, how far it has read the log.

    The keys of the recommender and of the helper are pinned when the membership is made, and follow rotations in the
    log from then on; the secret never leaves the device."""

    deployment: bytes
    url: str
    recommender: bytes  # its public key
    title: str
    cell: int = field(repr=False)  # the coarse H3 cell whose surroundings the device downloads; 0: all regions
    secret: bytes = field(repr=False)
    authority: bytes = field(default=b"", repr=False)  # PEM of the server's CA; empty: the system's authorities
    enrolled: bool = False  # whether the recommender has confirmed the enrolment
    head: Head = field(default_factory=Head)
    helper: bytes = b""  # its public key; empty: the deployment has one operator
    cosigned: bytes = field(default=b"", repr=False)  # the helper's last signature on the log; empty: none yet
    joined: int = 0  # entries of the log up to that which lists this device; 0: none does, or it was taken off the list
    rotations: tuple[Rotation, ...] = ()  # of operators' keys, which have led to the pinned ones

    @property
    def identity(self) -> SigningKey:
        return SigningKey(self.secret)

    @property
    def operators(self) -> Operators:
        return Operators(self.recommender, self.helper, self.rotations)

    @property
    def name(self) -> bytes:
        """The device's public key: its name in rosters."""
        return self.identity.public


_rotations: msgspec.msgpack.Decoder[Rotations] = msgspec.msgpack.Decoder(Rotations)
ALREADY_A_MEMBER = "this device belongs to a deployment already; let it leave that one first"


def save_membership(rows: sqlite3.Connection, new: Membership) -> None:
    """Store the deployment that the device joins. StateError if it belongs to one: it has to leave that first."""
    if load_membership(rows) is not None:
        raise StateError(ALREADY_A_MEMBER)
    keys = new.recommender, new.secret, new.helper or bytes(KEY)
    wrong = len(new.deployment) != 16 or any(len(one) != KEY for one in keys)
    if wrong or not 0 <= new.cell < 2**64 or len(new.title) > 200:
        raise UsageError("a deployment has 16 bytes, keys have 32, a cell has 64 bits, a title up to 200 characters")
    rows.execute(
        f"INSERT INTO membership (only_one, {_COLUMNS}) VALUES (1{', ?' * 14})",  # noqa: S608
        (
            *(new.deployment, new.url, new.authority, new.recommender, new.title, new.cell.to_bytes(8, "big")),
            *(new.secret, new.enrolled, new.head.length, new.head.last, new.helper, new.cosigned, new.joined),
            encode(Rotations(new.rotations)),
        ),
    )


def load_membership(rows: sqlite3.Connection) -> Membership | None:
    row = rows.execute(f"SELECT {_COLUMNS} FROM membership").fetchone()  # noqa: S608
    if row is None:
        return None
    deployment, url, authority, recommender, title, cell, secret, enrolled, length, last, *rest = row
    helper, cosigned, joined, rotations = rest
    return Membership(
        deployment, url, recommender, title, int.from_bytes(cell, "big"), secret, authority,
        enrolled=bool(enrolled), head=Head(length, last), helper=helper, cosigned=cosigned, joined=joined,
        rotations=_rotations_from(rotations),
    )  # fmt: skip


def save_enrolled(rows: sqlite3.Connection) -> None:
    """Store that the recommender has confirmed the enrolment."""
    _require_one(rows.execute("UPDATE membership SET enrolled = 1"))


def save_head(
    rows: sqlite3.Connection, head: Head, *, cosigned: bytes = b"", joined: int = 0, operators: Operators | None = None
) -> None:
    """Store how far the log is verified, and whose keys are in force there (None: the same as before). It never goes
    back, or a recommender could rewrite what it has published."""
    _require_one(
        rows.execute(
            "UPDATE membership SET length = ?, last = ?, cosigned = ?, joined = ?"
            " WHERE length < ? OR (length = ? AND last = ?)",
            (head.length, head.last, cosigned, joined, head.length, head.length, head.last),
        )
    )
    if operators is not None:
        rows.execute(
            "UPDATE membership SET recommender = ?, helper = ?, rotations = ?",
            (operators.recommender, operators.helper, encode(Rotations(operators.rotations))),
        )


def _rotations_from(data: bytes) -> tuple[Rotation, ...]:
    """Stored rotations, decoded. StateError if they are damaged."""
    try:
        return decode_with(_rotations, data, limit=len(data)).rotations if data else ()
    except PeerError:
        raise StateError(f"the device's file {DAMAGED}") from None


def _require_one(done: sqlite3.Cursor) -> None:
    if done.rowcount != 1:
        raise StateError("this device belongs to no deployment, or knows more of its log than that")


# --- The contribution to a campaign's sum of visits ------------------------------------------------------------------
# Written in the transaction that masks it (device/ledger.py). It never leaves the device in the clear.


@dataclass(frozen=True, slots=True)
class VisitContribution:
    """What this device added to a sum of visits, in units of 2^-f. As private as the visits themselves."""

    entries: OffsetArray = field(repr=False)  # (n,), of the vector, ascending: rows of the catalogue come first
    whole: OffsetArray = field(repr=False)  # (n,)


def drop_contributions(rows: sqlite3.Connection, *, keeping: Iterable[bytes]) -> None:
    """Delete the visit contributions of all campaigns but these."""
    wanted = set(keeping)
    for (campaign,) in rows.execute("SELECT DISTINCT campaign FROM given").fetchall():
        if campaign not in wanted:
            rows.execute("DELETE FROM given WHERE campaign = ?", (campaign,))


def save_visit_contribution(rows: sqlite3.Connection, campaign: bytes, visited: VisitContribution) -> None:
    """Record what was masked: it may be in the opened sum, so it is what the device leaves out again (decisions/0006).

    Visits recorded later are in no sum of this campaign, and nothing is left out for them."""
    rows.execute("DELETE FROM given WHERE campaign = ?", (campaign,))
    pairs = zip(visited.entries.tolist(), visited.whole.tolist(), strict=True)
    rows.executemany("INSERT INTO given VALUES (?, ?, ?)", ((campaign, entry, whole) for entry, whole in pairs))


def load_visit_contribution(rows: sqlite3.Connection, campaign: bytes) -> VisitContribution:
    """What this device added to a campaign's sum of visits; empty if it took no part."""
    found = rows.execute("SELECT place, whole FROM given WHERE campaign = ? ORDER BY place", (campaign,)).fetchall()
    pairs = np.array(found, dtype=np.int64).reshape(-1, 2)
    return VisitContribution(pairs[:, 0].copy(), pairs[:, 1].copy())


def save_zeros(rows: sqlite3.Connection, of: Round, *, why: str) -> None:
    """Record that this device adds nothing but zeros to a sum. Nobody else learns of it, since it may tell something of
    the records; the person does."""
    rows.execute(
        "INSERT OR REPLACE INTO zeros VALUES (?, ?, ?, ?, ?)", (of.deployment, of.kind, of.number, of.attempt, why)
    )


class ZeroSums(NamedTuple):
    """Sums that this device paid for and added nothing to."""

    many: int
    why: str  # of the last one; empty: there is none


def load_zeros(rows: sqlite3.Connection) -> ZeroSums:
    many, why = rows.execute(
        "SELECT count(*), (SELECT why FROM zeros ORDER BY rowid DESC LIMIT 1) FROM zeros"
    ).fetchone()
    return ZeroSums(many, why or "")


# --- Public documents, by their hash: what is stored never has to be fetched again ------------------------------------


MOST_STORED = 256 * 2**20  # bytes of the documents in force


def save_documents(rows: sqlite3.Connection, bodies: Iterable[bytes], *, beside: bool = False) -> None:
    """Store documents. PolicyError if all together are more than a device stores. `beside`: others are in force until
    these are complete, so that there may be twice as much."""
    rows.executemany("INSERT OR IGNORE INTO documents VALUES (?, ?)", ((address(body), body) for body in bodies))
    stored = rows.execute("SELECT sum(length(body)) FROM documents").fetchone()[0]
    refuse_too_much(stored / 2 if beside else stored)


def refuse_too_much(octets: float) -> None:
    if octets > MOST_STORED:
        raise PolicyError(
            f"the recommender's documents take up more than the {MOST_STORED / 2**20:,.0f} MB that a device stores; "
            "they are not downloaded"
        )


def load_document(rows: sqlite3.Connection, name: bytes) -> bytes | None:
    """A document's bytes as fetched; wire.documents.read verifies the hash again on every use."""
    row = rows.execute("SELECT body FROM documents WHERE name = ?", (name,)).fetchone()
    return None if row is None else bytes(row[0])


def delete_document(rows: sqlite3.Connection, name: bytes) -> None:
    rows.execute("DELETE FROM documents WHERE name = ?", (name,))


def document_names(rows: sqlite3.Connection) -> frozenset[bytes]:
    return frozenset(name for (name,) in rows.execute("SELECT name FROM documents"))


def prune_documents(rows: sqlite3.Connection, *, keeping: Collection[bytes]) -> int:
    """Delete all documents but these, and count the deleted. A device keeps what its campaign and its last publication
    name."""
    others = document_names(rows) - set(keeping)
    rows.executemany("DELETE FROM documents WHERE name = ?", ((name,) for name in others))
    return len(others)


# --- Tables ---------------------------------------------------------------------------------------------------------
# Every column has a CHECK on its type: SQLite would otherwise store any type anywhere, and a damaged row would be
# read as something else.

_JOURNAL = (
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
)

_LEDGER = (
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
    # nothing is ever refunded: the database itself refuses to delete or change a charge
    "CREATE TRIGGER spent_is_spent BEFORE DELETE ON spending BEGIN SELECT RAISE(ABORT, 'spent'); END",
    "CREATE TRIGGER paid_is_paid BEFORE UPDATE ON spending BEGIN SELECT RAISE(ABORT, 'paid'); END",
)

_PERSON = (
    """
    CREATE TABLE profile (
        name  TEXT NOT NULL PRIMARY KEY CHECK (typeof(name) = 'text'),
        value BLOB NOT NULL CHECK (typeof(value) = 'blob')
    ) WITHOUT ROWID
    """,  # value: JSON, a number, a word or a list of words
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
    """,  # whether ignored suggestions are recorded beside visits
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
    """,  # cell: big endian bytes, since an H3 cell may exceed SQLite's signed integers
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
    """,  # this device's contribution to the sum of visits; places are entries of the vector, averages among them
    """
    CREATE TABLE budget (
        only_one    INTEGER NOT NULL PRIMARY KEY CHECK (only_one = 1),
        epsilon     REAL    NOT NULL CHECK (typeof(epsilon) = 'real' AND epsilon > 0),
        delta       REAL    NOT NULL CHECK (typeof(delta) = 'real' AND delta > 0 AND delta < 1),
        period_days INTEGER          CHECK (typeof(period_days) IN ('integer', 'null')),
        local       REAL    NOT NULL CHECK (typeof(local) = 'real' AND local >= 0)
    )
    """,  # the person's privacy budget; like the ledger, it survives `forget`
    """
    CREATE TABLE regions (
        cell BLOB NOT NULL PRIMARY KEY CHECK (typeof(cell) = 'blob' AND length(cell) = 8)
    ) WITHOUT ROWID
    """,  # coarse cells whose surroundings the person asked for, beside those around the own cell; big endian
    """
    CREATE TABLE standing (
        subject  TEXT NOT NULL PRIMARY KEY CHECK (subject IN ('charter', 'edition', 'model', 'publication')),
        document BLOB NOT NULL CHECK (typeof(document) = 'blob' AND length(document) = 32)
    ) WITHOUT ROWID
    """,  # the latest document of each kind that the log named
    """
    CREATE TABLE documents (
        name BLOB NOT NULL PRIMARY KEY CHECK (typeof(name) = 'blob' AND length(name) = 32),
        body BLOB NOT NULL CHECK (typeof(body) = 'blob')
    )
    """,
)

# Versions 3 and 4 could give local answers (randomised response): version 4 had the tables `answers` and `secrets`, and
# the budget had a column for them. What was charged for an answer stays in `spending` and counts. A new file runs these
# statements too, without ever having had `answers` or `secrets`.
_WITHOUT_ANSWERS = (
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

_MADE_UP_NAMES = (
    # μ² of a charge if all other names of the roster were made up; 0: not known, in charges of earlier versions
    "ALTER TABLE spending ADD COLUMN at_worst REAL NOT NULL DEFAULT 0.0 "
    "CHECK (typeof(at_worst) = 'real' AND at_worst >= 0)",
    """
    CREATE TABLE own_floor (
        only_one INTEGER NOT NULL PRIMARY KEY CHECK (only_one = 1),
        devices  INTEGER NOT NULL CHECK (typeof(devices) = 'integer' AND devices >= 0)
    )
    """,  # how many devices a sum must be over, as the person wants it; like the budget, it survives `forget`
)

_SEAL = (
    """
    CREATE TABLE ledger_seal (
        only_one INTEGER NOT NULL PRIMARY KEY CHECK (only_one = 1),
        day      INTEGER NOT NULL CHECK (typeof(day) = 'integer'),
        checksum BLOB    NOT NULL CHECK (typeof(checksum) = 'blob' AND length(checksum) = 32)
    )
    """,  # the latest day that the device has seen, and the checksum of that day and of all charges
)

_ZEROS = (
    """
    CREATE TABLE zeros (
        deployment BLOB    NOT NULL CHECK (typeof(deployment) = 'blob'),
        kind       TEXT    NOT NULL CHECK (typeof(kind) = 'text'),
        number     INTEGER NOT NULL CHECK (typeof(number) = 'integer'),
        attempt    INTEGER NOT NULL CHECK (typeof(attempt) = 'integer'),
        why        TEXT    NOT NULL CHECK (typeof(why) = 'text'),
        PRIMARY KEY (deployment, kind, number, attempt)
    )
    """,
)

# Up to version 8 rounds moved a linear model on the device. A device now computes its own model from its records when
# it recommends. Scales are a new kind of document.
_WITHOUT_MODELS = (
    "DROP TABLE models",
    """
    CREATE TABLE new_standing (
        subject  TEXT NOT NULL PRIMARY KEY CHECK (subject IN ('charter', 'edition', 'scales', 'model', 'publication')),
        document BLOB NOT NULL CHECK (typeof(document) = 'blob' AND length(document) = 32)
    ) WITHOUT ROWID
    """,
    "INSERT INTO new_standing SELECT subject, document FROM standing",
    "DROP TABLE standing",
    "ALTER TABLE new_standing RENAME TO standing",
)

# From version 10 on a device follows the catalogue and the starting model, too. The list of subjects is in sync.py.
_BEFORE_A_CAMPAIGN = (
    """
    CREATE TABLE new_standing (
        subject  TEXT NOT NULL PRIMARY KEY CHECK (typeof(subject) = 'text'),
        document BLOB NOT NULL CHECK (typeof(document) = 'blob' AND length(document) = 32)
    ) WITHOUT ROWID
    """,
    "INSERT INTO new_standing SELECT subject, document FROM standing",
    "DROP TABLE standing",
    "ALTER TABLE new_standing RENAME TO standing",
)

# From version 11 on a deployment may have two operators.
_HELPER = (
    "ALTER TABLE membership ADD COLUMN helper BLOB NOT NULL DEFAULT x'' "
    "CHECK (typeof(helper) = 'blob' AND length(helper) IN (0, 32))",
    "ALTER TABLE membership ADD COLUMN cosigned BLOB NOT NULL DEFAULT x'' CHECK (typeof(cosigned) = 'blob')",
    "ALTER TABLE membership ADD COLUMN joined INTEGER NOT NULL DEFAULT 0 "
    "CHECK (typeof(joined) = 'integer' AND joined >= 0)",
)

# From version 12 on operators' keys may be rotated.
_ROTATIONS = (
    "ALTER TABLE membership ADD COLUMN rotations BLOB NOT NULL DEFAULT x'' CHECK (typeof(rotations) = 'blob')",
)

# Index = version to upgrade from. Version 4 only had tables that the next step removes again.
MIGRATIONS: Migrations = (
    _JOURNAL, _LEDGER, _PERSON, (), _WITHOUT_ANSWERS, _MADE_UP_NAMES, _SEAL, _ZEROS, _WITHOUT_MODELS,
    _BEFORE_A_CAMPAIGN, _HELPER, _ROTATIONS,
)  # fmt: skip
SEALED_SINCE = 7  # a file of that version or a later one has a seal, which is checked and never made anew
ALLOWED_SINCE = 8  # and one of that version has the budget and the own floor under it

OF_DEPLOYMENT = ("membership", "given", "zeros", "documents", "standing", "regions")  # emptied by `leave`
OF_PERSON = ("profile", "home", "visits", "labelled")  # emptied by `forget`, with those of the deployment
