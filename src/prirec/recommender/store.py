"""The recommender's store: everything that must survive a crash, for any number of workers on one database.

Each method of `Store` is one transaction, or one read that waits for nobody. A worker may die at any moment: a sum that
was opened is written together with everything that follows from it (`Store.advance`), and a round that was still open
is burnt by whichever worker takes the lease next. The tables, and the life of each record:

    table      written by                                             deleted
    founding   the operator, once (`prirec recommender init`)         never: it is the deployment, with its secret keys,
                                                                      which rotations overwrite
    next_keys  an operator: its own next key, and the other's that    with its rotation
               it has approved
    people     a device that enrols: its public key                   when the device leaves
    answered   a device that enrols: hash of the challenge it signed  when the challenge has expired
    documents  the conductor, or the operator who publishes           never: the log names them
    log        the conductor or the operator, signed                  never: devices check that it only grows
    rounds     the conductor, before it acts on them                  never: a round number is not used twice
    invited    the conductor: who may post messages to a round, and   with its round, or when the device leaves
               who may have masked a vector in it
    inbox      a device that posts a message, sealed                  when its round is opened, burnt or begun anew
    mail       the conductor, for one device, sealed                  on receipt, with its round, or with its device
    blamed     the conductor: who broke the protocol, for certain     never: the operator looks at it before excluding
    exclusions the operator: who takes part no more, and why          never: readmitting a device closes its row
    progress   the conductor: campaign state, public or opened sums   overwritten
    lease      the worker that conducts                               overwritten, or released
    counters   every transaction that takes a number from them        never: a number is given out once

Those of a deployment over two operators are in joint_rounds.py, those of the operator's page in operator_logins.py.

No row holds a private value: people are public keys, and what devices post is sealed or masked. A limit: PostgreSQL
keeps deleted rows on its disk until it needs the space, and any database keeps them in backups made meanwhile. They are
sealed for keys that were only ever in memory.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from typing import Final, Self, TypeAlias

import msgspec

from prirec.errors import PassingError, StateError, UsageError
from prirec.protocols import journal
from prirec.protocols.codec import digest, encode
from prirec.protocols.journal import ConflictError, JournalEntry, Verdict
from prirec.protocols.messages import Round
from prirec.protocols.party import Persist, Stage
from prirec.recommender import operator_logins
from prirec.recommender.database import DAMAGED, Connection, Database, Migrations, Row, take_numbers
from prirec.recommender.joint_rounds import MIGRATION, REPORTS_THAT_WAIT, JointRounds, burn, settle_stage
from prirec.sharing.keys import SigningKey
from prirec.util.decode_errors import NOT_DECODED
from prirec.wire import documents
from prirec.wire.documents import Head, KeyChange, LogEntry, SignedCoSignature, SignedEntry, Subject, address
from prirec.wire.http import QueuedMessage

# Entries for the log: signed already, or a function that signs them for whatever head the log has in the transaction,
# and refuses other keys than it knows of.
Entries: TypeAlias = Sequence[SignedEntry] | Callable[[Head, "Founding"], Sequence[SignedEntry]]

ANY_STATE: Final = b"any state"  # for `advance`: do not compare the campaign state before overwriting it
MOST_MESSAGES = 7  # different messages of one device in a round: a member of a sum has six to send, and may err once
MOST_BYTES = 64 * 2**20  # of posted messages that are read into memory together
MOST_NAMES = 256  # in one query
FINAL = (Stage.OPENED, Stage.BURNT)


@dataclass(frozen=True, slots=True)
class Founding:
    """A deployment: its public id and title, and the recommender's secret keys."""

    deployment: bytes  # 16 bytes
    identity: bytes = field(repr=False)  # 32 bytes: secret half of the key that signs the log
    token_key: bytes = field(repr=False)  # 32 bytes: authenticates session tokens, at every worker
    title: str
    role: str = "recommender"  # or "helper", of a deployment over two operators
    peer: bytes | None = None  # public key of the other operator; None: there is none, or a helper is not paired yet
    peer_url: str | None = None  # the recommender's: where the helper is,
    peer_authority: bytes | None = None  # and the CA certificate (PEM) of its server

    @property
    def key(self) -> SigningKey:
        return SigningKey(self.identity)


@dataclass(frozen=True, slots=True)
class NextKey:
    """An operator's own next key, which is its identity from its rotation on."""

    secret: bytes = field(repr=False)
    made: int  # seconds since 1970

    @property
    def key(self) -> SigningKey:
        return SigningKey(self.secret)


@dataclass(frozen=True, slots=True)
class PostedMessage:
    """A protocol message as a device posted it."""

    round: Round
    sender: bytes
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class BlamedDevice:
    """A device that broke the protocol, for certain, and how it did last."""

    name: bytes
    times: int
    kind: str  # of the sum
    number: int  # of the round
    why: str


@dataclass(frozen=True, slots=True)
class Exclusion:
    """An operator's decision that a device takes part no more. Days are counted from 1970."""

    name: bytes
    reason: str
    since: int
    until: int | None = None  # None: it is excluded now; else readmitted on that day


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """Number of rows of each kind, for `prirec recommender status`."""

    people: int  # enrolled, and not excluded
    documents: int
    entries: int
    rounds: int  # ever entered
    open_rounds: int
    messages: int  # posted, in rounds that are open
    queued: int  # messages for devices, not yet received
    blamed: int  # devices that broke the protocol and are not excluded
    excluded: int


class LeaseLostError(StateError):
    """Another worker conducts now. The conductor that gets this error gives up its rounds: they were burnt."""

    def __init__(self) -> None:
        super().__init__("another worker conducts the rounds now; nothing was written")


class OvertakenError(StateError):
    """The campaign state in the store is not the one that this write follows from."""

    def __init__(self) -> None:
        super().__init__("another worker has gone on with the campaign; what was begun here is given up")


class Store:
    """Reads and writes the recommender's tables. Any thread may use it.

    `holder` is the lease under which a conductor writes: a worker that lost the lease without noticing (it was
    suspended, say) gets LeaseLostError instead of writing into rounds that another worker has burnt."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._one, self._all = database.one, database.all
        self.joint = JointRounds(database, self._transaction)
        self.logins = operator_logins.OperatorLogins(database)

    @classmethod
    def open(cls, url: str | Path, *, migrations: Migrations | None = None) -> Self:
        """A path, "sqlite:///path" or "postgresql://...". StateError, and nothing changed, if the database is damaged,
        newer than this program, or not PriRec's."""
        store = cls(Database.open(url, migrations=MIGRATIONS if migrations is None else migrations))
        if migrations is None:
            store.joint.forget_if_moved()
        return store

    def watch(self, tell: Callable[[PassingError | None], None]) -> None:
        """Report outages: `tell` is called with the error when one begins, and with None when it is over."""
        self._database.outage.tell = tell

    def check_writable(self) -> None:
        """StateError if nothing can be written now. SQLite writes nothing where nothing changes, so a counter does."""
        with self._database.transaction() as db:
            take_numbers(db, "probes", many=1)

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The deployment and its people

    def found(self, founding: Founding) -> None:
        """Create the deployment. StateError if the store has one: its keys are pinned by devices."""
        with self._database.transaction() as db:
            _check_unfounded(db)
            db.execute(
                f"INSERT INTO founding (one, {_FOUNDING}) VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
                founding.deployment, founding.identity, founding.token_key, founding.title, founding.role,
                founding.peer, founding.peer_url, founding.peer_authority,
            )  # fmt: skip
            db.execute(f"UPDATE founding SET place = {db.place}")  # noqa: S608

    def check_unfounded(self) -> None:
        """StateError if the store has a deployment."""
        with self._database.reading() as db:
            _check_unfounded(db)

    def founding(self) -> Founding:
        """The deployment. StateError if none was founded here."""
        with self._database.reading() as db:
            return _founding(db)

    def pair(self, deployment: bytes, peer: bytes) -> bool:
        """A helper: which deployment it helps, and its recommender's public key, once and for all. False if it is
        paired with another one."""
        with self._database.transaction() as db:
            query = "UPDATE founding SET deployment = ?, peer = ? WHERE role = 'helper' AND (peer IS NULL OR"
            return bool(db.execute(f"{query} (deployment = ? AND peer = ?))", deployment, peer, deployment, peer))

    def make_next_key(self, secret: bytes, *, now: int) -> NextKey:
        """The operator's own next key: of this secret, unless there is one."""
        with self._database.transaction() as db:
            query = "INSERT INTO next_keys (own, body, made) VALUES (1, ?, ?) ON CONFLICT (own) DO NOTHING"
            db.execute(query, secret, now)
            found = db.one("SELECT body, made FROM next_keys WHERE own = 1") or ()
        return NextKey(*found)

    def next_key(self) -> NextKey | None:
        row = self._one("SELECT body, made FROM next_keys WHERE own = 1")
        return None if row is None else NextKey(*row)

    def approve_key(self, key: bytes, *, now: int) -> None:
        """The other operator's next key, in the place of one that was approved before."""
        with self._database.transaction() as db:
            db.execute("DELETE FROM next_keys WHERE own = 0")
            db.execute("INSERT INTO next_keys (own, body, made) VALUES (0, ?, ?)", key, now)

    def approved_key(self) -> bytes | None:
        row = self._one("SELECT body FROM next_keys WHERE own = 0")
        return None if row is None else row[0]

    def set_token_key(self, token_key: bytes) -> None:
        """Replace the key of session tokens; the recommender's identity stays. Workers read it when they start."""
        with self._database.transaction() as db:
            changed = db.execute("UPDATE founding SET token_key = ?", token_key)
        if not changed:
            self.founding()  # says that there is none

    def enrol(self, name: bytes, *, day: int) -> bool:
        """Enrol a device; False, and nothing changed, if it is excluded. It may enrol again."""
        with self._database.transaction() as db:
            if _is_excluded(db, name):
                return False
            db.execute(
                "INSERT INTO people (name, day) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET day = excluded.day",
                name, day,
            )  # fmt: skip
            return True

    def use_challenge(self, challenge: bytes, *, now: int, until: int) -> bool:
        """Mark a challenge as answered until it expires; False if it was answered before. Times are in seconds."""
        with self._database.transaction() as db:
            db.execute("DELETE FROM answered WHERE until < ?", now)
            query = "INSERT INTO answered (challenge, until) VALUES (?, ?) ON CONFLICT (challenge) DO NOTHING"
            return bool(db.execute(query, sha256(challenge).digest(), until))

    def enrolled(self, names: Collection[bytes]) -> set[bytes]:
        """Those of these devices that are enrolled, and not excluded."""
        if not names:
            return set()
        with self._database.reading() as db:
            query = f"SELECT name FROM people WHERE {_NOT_EXCLUDED.format('people')} AND name IN "  # noqa: S608
            found = [db.all(query + marks, *some) for marks, some in _in_clauses(list(names))]
        return {name for rows in found for (name,) in rows}

    def leave(self, name: bytes) -> None:
        """Delete a device with its mail and invitations. Rosters that list it are public documents, and stay."""
        with self._database.transaction() as db:
            _forget_messages(db, name)
            db.execute("DELETE FROM people WHERE name = ?", name)

    def people(self) -> list[bytes]:
        """The names (public keys) of everyone who is enrolled and not excluded, ascending."""
        found = self._all(f"SELECT name FROM people WHERE {_NOT_EXCLUDED.format('people')} ORDER BY name")  # noqa: S608
        return [name for (name,) in found]

    def blame(self, blamed: Sequence[tuple[bytes, Round, str]], *, holder: bytes | None = None) -> None:
        """Write down which devices broke the protocol, in which round and how: (name, round, why). Of each device the
        number of times is kept, and the last one."""
        query = (
            "INSERT INTO blamed (name, times, kind, number, why) VALUES (?, 1, ?, ?, ?) ON CONFLICT (name) DO UPDATE"
            " SET times = blamed.times + 1, kind = excluded.kind, number = excluded.number, why = excluded.why"
        )
        with self._transaction(holder) as db:
            db.execute_many(query, [(name, of.kind, of.number, why) for name, of, why in blamed])

    def blamed(self) -> list[BlamedDevice]:
        """All devices that broke the protocol, most often first."""
        found = self._all("SELECT name, times, kind, number, why FROM blamed ORDER BY times DESC, name")
        return [BlamedDevice(*row) for row in found]

    def exclude(self, name: bytes, *, reason: str, day: int) -> bool:
        """Exclude a device: from now on it is in no roster, has no session and cannot enrol. Its mail and invitations
        are deleted, and a report that the operators have not decided on: in sums under way it counts as lost, unless
        both have accepted its report by now. False, and nothing changed, if no such device is enrolled or
        was blamed, or if it is excluded already."""
        with self._database.transaction() as db:
            query = "SELECT 1 FROM people WHERE name = ? UNION SELECT 1 FROM blamed WHERE name = ?"
            if db.one(query, name, name) is None or _is_excluded(db, name):
                return False
            _forget_messages(db, name)
            db.execute("UPDATE reports SET body = NULL WHERE name = ?", name)
            number = take_numbers(db, "exclusions", many=1)
            query = "INSERT INTO exclusions (number, name, reason, since) VALUES (?, ?, ?, ?)"
            db.execute(query, number, name, reason, day)
            return True

    def readmit(self, name: bytes, *, day: int) -> bool:
        """End the exclusion of a device, which then takes part as before; False if it is not excluded."""
        with self._database.transaction() as db:
            return bool(db.execute("UPDATE exclusions SET until = ? WHERE name = ? AND until IS NULL", day, name))

    def exclusions(self) -> list[Exclusion]:
        """All exclusions, also those that were ended, in the order in which they were decided."""
        found = self._all("SELECT name, reason, since, until FROM exclusions ORDER BY number")
        return [Exclusion(*row) for row in found]

    def counts(self) -> StoreCounts:
        tables = (
            f"people WHERE {_NOT_EXCLUDED.format('people')}",
            "documents",
            "log",
            "rounds",
            "rounds WHERE stage < 5",
            "inbox",
            "mail",
            f"blamed WHERE {_NOT_EXCLUDED.format('blamed')}",
            "exclusions WHERE until IS NULL",
        )
        row = self._one("SELECT " + ", ".join(f"(SELECT count(*) FROM {table})" for table in tables))  # noqa: S608
        return StoreCounts(*row or ())

    def enrolled_by_day(self) -> list[tuple[int, int]]:
        """Days, counted from 1970, and how many of those who are enrolled now enrolled on each."""
        query = f"SELECT day, count(*) FROM people WHERE {_NOT_EXCLUDED.format('people')} GROUP BY day ORDER BY day"  # noqa: S608
        return [(int(day), int(many)) for day, many in self._all(query)]

    def usage(self) -> tuple[str, int]:
        """The database's name and version, and how many bytes it takes."""
        return self._database.usage()

    @property
    def file(self) -> Path | None:
        """The store's file; None for PostgreSQL."""
        return self._database.file

    # Public documents and the signed log

    def put(self, documents: Iterable[tuple[bytes, bytes]]) -> None:
        """Store documents, each as (SHA-256, body), as wire.documents.written gives them."""
        with self._database.transaction() as db:
            _put_documents(db, documents)

    def document(self, name: bytes) -> bytes | None:
        """A document by its SHA-256; None if there is none. StateError if it was damaged on the disk."""
        row = self._one("SELECT body FROM documents WHERE name = ?", name)
        if row is not None and address(row[0]) != name:
            raise StateError(f"a document of the store {DAMAGED}")
        return None if row is None else row[0]

    def head(self) -> Head:
        """Length of the log and digest of its last entry."""
        with self._database.reading() as db:
            return _head(db)

    def shown(self, *, cosigned: bool) -> int:
        """How many entries devices follow: with a helper, as far as it has signed them."""
        signed = self.cosigned() if cosigned else None
        return self.head().length if not cosigned else 0 if signed is None else signed.statement.length

    def place_of(self, length: int) -> tuple[int, bytes]:
        """A former head: so many entries, and the digest of the last."""
        row = self._one("SELECT digest FROM log WHERE place = ?", length - 1)
        return length, bytes(32) if row is None else row[0]

    def entries(self, after: int, most: int = documents.MOST_ENTRIES) -> list[SignedEntry]:
        """Log entries from index `after` on, for a device that has that many."""
        found = self._all("SELECT body FROM log WHERE place >= ? ORDER BY place LIMIT ?", after, most)
        return [_decoded_entry(body) for (body,) in found]

    def times(self, subject: Subject) -> int:
        """How many log entries there are about a subject: as many campaigns as charters."""
        row = self._one("SELECT count(*) FROM log WHERE subject = ?", subject)
        return 0 if row is None else int(row[0])

    def last(self, subject: Subject) -> LogEntry | None:
        """The latest log entry about a subject, such as "catalogue"."""
        row = self._one("SELECT body FROM log WHERE subject = ? ORDER BY place DESC LIMIT 1", subject)
        return None if row is None else _decoded_entry(row[0]).entry

    def entries_about(self, subjects: Sequence[Subject], *, after: int, before: int) -> list[LogEntry]:
        """Log entries about these subjects, from index `after` on and before another one."""
        among = f"subject IN ({', '.join('?' * len(subjects))})"
        query = f"SELECT body FROM log WHERE place >= ? AND place < ? AND {among} ORDER BY place"  # noqa: S608
        found = self._all(query, after, before, *subjects)
        return [_decoded_entry(body).entry for (body,) in found]

    def missing(self, names: Sequence[bytes]) -> list[bytes]:
        """Those of these documents that are not here, once each."""
        found = set[bytes]()
        with self._database.reading() as db:
            for marks, some in _in_clauses(names):
                found |= {name for (name,) in db.all(f"SELECT name FROM documents WHERE name IN {marks}", *some)}  # noqa: S608
        return [name for name in dict.fromkeys(names) if name not in found]

    def cosigned(self) -> SignedCoSignature | None:
        """The helper's last signature on the log."""
        row = self._one("SELECT body FROM cosigned")
        return None if row is None else _cosigned_decoder.decode(row[0])

    def put_cosigned(self, signed: SignedCoSignature) -> None:
        with self._database.transaction() as db:
            query = (
                "INSERT INTO cosigned (one, body) VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET body = excluded.body"
            )
            db.execute(query, encode(signed))

    # Messages from devices (inbox) and to devices (mail)

    def post_messages(self, items: Sequence[PostedMessage], *, arrived: Sequence[tuple[bytes, int]] = ()) -> list[bool]:
        """Store a batch of posted messages, and delete mail that has `arrived` (receiver, up to which number), in one
        transaction. For each message: whether its round is open and its sender was invited; if not, it is dropped."""
        if not items and not arrived:
            return []
        with self._database.transaction() as db:
            db.execute_many("DELETE FROM mail WHERE receiver = ? AND number <= ?", arrived)
            return _insert_posted(db, items)

    def incoming(self, after: int, most: int) -> list[tuple[int, bytes]]:
        """Posted messages after this number, in order, each with its own number. Fewer than `most` where they are
        large (MOST_BYTES), but at least one: sizes are read first, which costs no more than the rows' heads."""
        with self._database.reading() as db:
            query = "SELECT number, length(body) FROM inbox WHERE number > ? ORDER BY number LIMIT ?"
            sizes = db.all(query, after, most)
            if not sizes:
                return []
            many = max(1, bisect_right(list(accumulate(size for _, size in sizes)), MOST_BYTES))
            query = "SELECT number, body FROM inbox WHERE number > ? AND number <= ? ORDER BY number"
            return [(number, body) for number, body in db.all(query, after, sizes[many - 1][0])]

    def deliver(
        self, queued: Sequence[tuple[bytes, Round, bytes]], *, persists: Sequence[Persist] = (),
        inviting: Sequence[tuple[bytes, Round]] = (), masking: Sequence[tuple[bytes, Round]] = (),
        holder: bytes | None = None,
    ) -> int:  # fmt: skip
        """Put (receiver, round, body) into mail, in one transaction with what the journal must hold before they are
        sent. `inviting`: who may post messages to which round from now on. `masking`: who may mask a vector in which
        round from now on, so that no other attempt at its number is made with them.

        Returns the number of the first message; the others follow it. StateError, and nothing written, if a round is
        not open."""
        with self._transaction(holder) as db:
            for persist in persists:
                _settle(db, persist)
            for of in {of for _, of in masking}:
                db.execute(f"UPDATE rounds SET masked = 1 WHERE {_KEY} AND attempt = ?", *_key(of), of.attempt)  # noqa: S608
            ids = _open_ids(db, rounds := {of for _, of in (*inviting, *masking)} | {of for _, of, _ in queued})
            if len(ids) < len(rounds):
                raise StateError("messages are sent in a round that is open; this one was never entered, or is over")
            names = [(ids[of], name) for name, of in inviting]
            db.insert("invited (round, name)", names, "ON CONFLICT (round, name) DO NOTHING")
            participants = [(ids[of], name) for name, of in masking]
            db.execute_many("UPDATE invited SET may_mask = 1 WHERE round = ? AND name = ?", participants)
            first = take_numbers(db, "mail", many=len(queued))
            mail = [(at, ids[of], receiver, body) for at, (receiver, of, body) in enumerate(queued, first)]
            db.insert("mail (number, round, receiver, body)", mail)
        self._erase_deleted(persists)
        return first

    def queued(self, receiver: bytes, after: int, most: int) -> list[QueuedMessage]:
        """Messages queued for one device after a number."""
        query = "SELECT number, body FROM mail WHERE receiver = ? AND number > ? ORDER BY number LIMIT ?"
        return [QueuedMessage(number, body) for number, body in self._all(query, receiver, after, most)]

    def receivers_since(self, number: int) -> tuple[int, set[bytes]]:
        """The number of the latest message, and who has mail after the number given."""
        with self._database.reading() as db:
            # The counter is read first: all messages up to it are visible when the second query runs.
            row = db.one("SELECT value FROM counters WHERE name = 'mail'")
            latest = number if row is None else int(row[0])
            if latest <= number:
                return latest, set()
            query = "SELECT DISTINCT receiver FROM mail WHERE number > ? AND number <= ?"
            return latest, {receiver for (receiver,) in db.all(query, number, latest)}

    # Rounds and the campaign

    def write(self, persist: Persist, *, holder: bytes | None = None) -> JournalEntry:
        """Write one stage of a round; returns the journal's entry. StateError where the journal's rules refuse it."""
        with self._transaction(holder) as db:
            entry = _settle(db, persist)
        self._erase_deleted([persist])
        return entry

    def advance(
        self,
        *,
        progress: bytes | None,
        before: bytes | None = ANY_STATE,
        entries: Entries = (),
        documents: Iterable[tuple[bytes, bytes]] = (),
        persists: Sequence[Persist] = (),
        over: Sequence[Round] = (),
        joint: Sequence[Persist] = (),
        farewell: Sequence[bytes] = (),
        rotated: KeyChange | None = None,
        holder: bytes | None = None,
    ) -> None:
        """Write an opened sum and all that follows from it, in one transaction: on disk together or not at all.

        `progress` is the new campaign state (None: unchanged), `before` the state that it follows from, `over` the
        rounds whose messages are deleted, `joint` what an operator's party persists, with its last messages, its
        `farewell`, `rotated` the operator's key that is another one after these entries. StateError, and nothing
        written, where the journal's rules or the log refuse a part of it."""
        with self._transaction(holder) as db:
            if before is not ANY_STATE and _progress(db) != before:
                raise OvertakenError
            for persist in persists:
                _settle(db, persist)
            for persist in joint:
                settle_stage(db, persist, farewell=farewell)
            _put_documents(db, documents)
            _append(db, entries)
            if rotated is not None:
                _rotate(db, rotated)
            for of in over:  # messages of an earlier attempt were deleted when the next attempt was entered
                row = db.one(f"SELECT id FROM rounds WHERE {_KEY} AND attempt = ?", *_key(of), of.attempt)  # noqa: S608
                if row is not None:
                    _delete_messages(db, row[0])
            if progress is not None:
                query = "INSERT INTO progress (one, body) VALUES (1, ?)"
                db.execute(f"{query} ON CONFLICT (one) DO UPDATE SET body = excluded.body", progress)
                take_numbers(db, "progress", many=1)
        self._erase_deleted(persists, over=bool(over) or bool(joint) or rotated is not None)

    def progress(self) -> bytes | None:
        """The campaign state, encoded."""
        with self._database.reading() as db:
            return _progress(db)

    def progress_since(self, changes: int) -> tuple[int, bytes | None]:
        """How often the campaign state was ever changed, and the state itself unless that number is `changes`: it can
        be megabytes, and a conductor looks many times a second. One statement, so that both belong together."""
        row = self._one(
            "SELECT counters.value, progress.body FROM counters LEFT JOIN progress ON counters.value <> ?"
            " WHERE counters.name = 'progress'",
            changes,
        )
        return (changes, None) if row is None else (int(row[0]), row[1])

    def open_rounds(self) -> list[Round]:
        """Rounds neither opened nor burnt, in the order in which they were entered."""
        return [_journal_entry(row).round for row in self._all(f"{_SELECT} WHERE stage < 5 ORDER BY id")]

    def participants(self) -> list[bytes]:
        """Who may have masked a vector in a round that is open."""
        query = (
            "SELECT DISTINCT name FROM invited WHERE may_mask = 1 AND round IN (SELECT id FROM rounds WHERE stage < 5)"
        )
        return [name for (name,) in self._all(f"{query} ORDER BY name")]

    def rounds(self, most: int) -> list[JournalEntry]:
        """The rounds that were entered last, newest first."""
        return [_journal_entry(row) for row in self._all(f"{_SELECT} ORDER BY id DESC LIMIT ?", most)]

    def lease(self, holder: bytes, seconds: float) -> bool:
        """Take or renew the right to conduct rounds; False while another worker holds it.

        Measured by the database's clock, so that machines need not agree on the time. A lease that lasts longer than
        anybody asks for was taken before that clock was set back, and binds nobody."""
        with self._database.transaction() as db:
            return bool(
                db.execute(
                    f"INSERT INTO lease (one, holder, until) VALUES (1, ?, {db.clock} + ?)"  # noqa: S608
                    " ON CONFLICT (one) DO UPDATE SET holder = excluded.holder, until = excluded.until"
                    f" WHERE lease.holder = excluded.holder OR lease.until <= {db.clock}"
                    f" OR lease.until > {db.clock} + ?",
                    holder, float(seconds), 2.0 * seconds,
                )
            )  # fmt: skip

    def is_conducted(self) -> bool:
        """Whether some worker holds the lease."""
        with self._database.reading() as db:
            row = db.one(f"SELECT until > {db.clock} FROM lease")  # noqa: S608
        return row is not None and bool(row[0])

    def release(self, holder: bytes) -> None:
        with self._database.transaction() as db:
            db.execute("DELETE FROM lease WHERE holder = ?", holder)

    @contextmanager
    def _transaction(self, holder: bytes | None) -> Iterator[Connection]:
        """A conductor's transaction. After a journal conflict nothing of it is written, and the round is burnt: two
        different lists of survivors, say, must never both lead to an opened sum."""
        try:
            with self._database.transaction() as db:
                # Only whether somebody else took the lease counts, not whether it ran out: nobody acted meanwhile.
                if holder is not None and db.one("SELECT 1 FROM lease WHERE holder = ?", holder) is None:
                    raise LeaseLostError
                yield db
        except ConflictError as conflict:
            with self._database.transaction() as db, suppress(StateError):  # a round that is over cannot be burnt
                if not burn(db, conflict.round):
                    _settle(db, Persist(conflict.round, Stage.BURNT, bytes(32)))
            self._database.erase_deleted()
            raise

    def _erase_deleted(self, persists: Sequence[Persist] = (), *, over: bool = False) -> None:
        """Once a round is over its sealed boxes and shares must not survive, not even in SQLite's write-ahead log."""
        if over or any(persist.stage in FINAL for persist in persists):
            self._database.erase_deleted()


# Inside a transaction: numbers, documents and the log


_FOUNDING = "deployment, identity, token_key, title, role, peer, peer_url, peer_authority"
_cosigned_decoder: msgspec.msgpack.Decoder[SignedCoSignature] = msgspec.msgpack.Decoder(SignedCoSignature)
_entry_decoder: msgspec.msgpack.Decoder[SignedEntry] = msgspec.msgpack.Decoder(SignedEntry)


def _decoded_entry(body: bytes) -> SignedEntry:
    try:
        return _entry_decoder.decode(body)
    except NOT_DECODED:
        raise StateError(f"the log of the store {DAMAGED}") from None


def _founding(db: Connection) -> Founding:
    row = db.one(f"SELECT {_FOUNDING} FROM founding")  # noqa: S608
    if row is None:
        raise StateError("no deployment was founded in this store; run prirec recommender init first")
    return Founding(*row)


def _rotate(db: Connection, change: KeyChange) -> None:
    """Another identity, of this operator or of the other one. The old secret is overwritten."""
    own = _founding(db).role == change.role
    if own:
        row = db.one("SELECT body, made FROM next_keys WHERE own = 1")
        if row is None or NextKey(*row).key.public != change.new:
            raise StateError(
                "this operator's key was rotated, and the new key is not in this store: it is a copy from before that. "
                "Put back a newer copy"
            )
        db.execute("UPDATE founding SET identity = ?", row[0])
        db.execute("DELETE FROM next_keys WHERE own = 1")
    else:
        db.execute("UPDATE founding SET peer = ?", change.new)
        # a helper that was restored follows earlier rotations first, and goes on hearing the key approved after that
        db.execute("DELETE FROM next_keys WHERE own = 0 AND body = ?", change.new)


def _check_unfounded(db: Connection) -> None:
    if db.one("SELECT 1 FROM founding") is not None:
        raise StateError("a deployment was founded in this store before; name another one for a new deployment")


_NOT_EXCLUDED = "NOT EXISTS (SELECT 1 FROM exclusions WHERE exclusions.name = {}.name AND until IS NULL)"


def _is_excluded(db: Connection, name: bytes) -> bool:
    return db.one("SELECT 1 FROM exclusions WHERE name = ? AND until IS NULL", name) is not None


def _forget_messages(db: Connection, name: bytes) -> None:
    """Delete the mail and the invitations of a device."""
    db.execute("DELETE FROM mail WHERE receiver = ?", name)
    db.execute("DELETE FROM invited WHERE name = ?", name)


def _progress(db: Connection) -> bytes | None:
    row = db.one("SELECT body FROM progress")
    return None if row is None else row[0]


def _put_documents(db: Connection, documents: Iterable[tuple[bytes, bytes]]) -> None:
    checked = []
    for name, body in documents:
        if address(body) != name:
            raise UsageError("a document is put under its own hash and no other name")
        checked.append((name, body))
    # One that is there already has the same bytes: its name is their hash.
    db.execute_many("INSERT INTO documents (name, body) VALUES (?, ?) ON CONFLICT (name) DO NOTHING", checked)


def _head(db: Connection) -> Head:
    row = db.one("SELECT place, digest FROM log ORDER BY place DESC LIMIT 1")
    return Head() if row is None else Head(row[0] + 1, row[1])


def _append(db: Connection, signed: Entries) -> None:
    """Append to the log. An entry that does not follow the last one is refused: devices that saw another entry at that
    index would hold proof that the recommender signed two histories."""
    known = _head(db)
    for one in signed(known, _founding(db)) if callable(signed) else signed:
        entry = one.entry
        if (entry.index, entry.previous) != (known.length, known.last):
            raise StateError("a log entry is not the next one; another worker has gone on, so look at the log again")
        if db.one("SELECT 1 FROM documents WHERE name = ?", entry.document) is None:
            raise StateError("a log entry names a document that is not in the store; put it there first")
        known = Head(known.length + 1, digest(entry))
        values = (entry.index, entry.subject, known.last, encode(one))
        db.execute("INSERT INTO log (place, subject, digest, body) VALUES (?, ?, ?, ?)", *values)


# Inside a transaction: the collector's journal. The rules are those of protocols/journal.py. Stores of version 1 had
# many cohorts at one number, so the cohort is part of a round's key, and numbers rise in each cohort separately.


COLLECTOR_STAGES = (Stage.ENTERED, Stage.AGREED, Stage.OPENED, Stage.BURNT)  # a collector masks and reveals nothing

_COLUMNS = "id, deployment, kind, number, cohort, attempt, stage, digest, masked"
_SELECT = f"SELECT {_COLUMNS} FROM rounds"  # noqa: S608
_KEY = "deployment = ? AND kind = ? AND cohort = ? AND number = ?"


def _settle(db: Connection, wanted: Persist) -> JournalEntry:
    """Write what the journal's rules admit. A round that is over, or begun anew, loses its messages."""
    if wanted.stage not in COLLECTOR_STAGES:
        raise UsageError(f"a collector has no stage {wanted.stage.name}")
    of = wanted.round
    row = db.one(f"{_SELECT} WHERE {_KEY}", *_key(of))
    held = None if row is None else _journal_entry(row)
    query = "SELECT max(number) FROM rounds WHERE deployment = ? AND kind = ? AND cohort = ?"
    highest = db.one(query, of.deployment, of.kind, of.group)
    # A device masks once at a number, whatever the attempt. A collector may begin a burnt round anew: who had masked in
    # it stays away, so the two sums have nobody in common.
    known = None if held is None else replace(held, masked=held.masked and held.stage is not Stage.BURNT)
    verdict = journal.admit(wanted, held=known, last=None if highest is None else highest[0])
    if verdict is Verdict.KNOWN and held is not None:
        return held
    new = journal.entry(wanted, held=held)
    # A new attempt gets a new id, so that messages posted to the old attempt cannot end up in it.
    number = row[0] if row is not None and held is not None and held.round == of else None
    number = take_numbers(db, "rounds", many=1) if number is None else number
    if row is not None and (number != row[0] or new.stage in FINAL):
        _delete_messages(db, row[0])
    db.execute(f"DELETE FROM rounds WHERE {_KEY}", *_key(of))  # noqa: S608
    db.execute(
        f"INSERT INTO rounds ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
        number, of.deployment, of.kind, of.number, of.group, of.attempt, int(new.stage), new.digest, int(new.masked),
    )  # fmt: skip
    return new


def _journal_entry(row: Row) -> JournalEntry:
    _, deployment, kind, number, cohort, attempt, stage, digest, masked = row
    return JournalEntry(Round(deployment, kind, number, cohort, attempt), Stage(stage), digest, b"", bool(masked))


def _key(of: Round) -> tuple[bytes, str, int, int]:
    return of.deployment, of.kind, of.group, of.number


def _open_ids(db: Connection, rounds: Iterable[Round]) -> dict[Round, int]:
    """Those of these rounds that are open, with the id that their messages refer to."""
    query = f"SELECT id FROM rounds WHERE {_KEY} AND attempt = ? AND stage < 5"  # noqa: S608
    found = {of: db.one(query, *_key(of), of.attempt) for of in set(rounds)}
    return {of: row[0] for of, row in found.items() if row is not None}


def _delete_messages(db: Connection, number: int) -> None:
    for table in ("mail", "inbox", "invited"):
        db.execute(f"DELETE FROM {table} WHERE round = ?", number)  # noqa: S608


# Inside a transaction: posted messages. They belong to a round that is open and are deleted with it; only devices that
# were invited to the round may post.


_Posted: TypeAlias = tuple[int, int, bytes, bytes, bytes]  # number, round id, sender, digest, body


def _insert_posted(db: Connection, items: Sequence[PostedMessage]) -> list[bool]:
    """Store messages; for each, whether it was taken. The same message again is stored once. A different second message
    of one step is stored too, for the collector to judge, up to MOST_MESSAGES: more, and a device could fill the disk.
    """
    ids = _open_ids(db, (item.round for item in items))
    invited = _invited(db, ids, items)
    taken = [item.sender in invited.get(item.round, ()) for item in items]
    kept = [item for item, good in zip(items, taken, strict=True) if good]
    first = take_numbers(db, "inbox", many=len(kept)) if kept else 0
    # 16 bytes of hash: a device that finds two messages of its own with one digest has merely sent one of them.
    rows: list[_Posted] = [
        (at, ids[one.round], one.sender, sha256(one.body).digest()[:16], one.body) for at, one in enumerate(kept, first)
    ]
    same_again = "ON CONFLICT (round, sender, digest) DO NOTHING"
    if _most_posted(db, rows) <= MOST_MESSAGES:  # nearly always: then many rows go in with one statement
        db.insert("inbox (number, round, sender, digest, body)", rows, same_again)
    else:
        query = "INSERT INTO inbox (number, round, sender, digest, body) SELECT ?, ?, ?, ?, ?"
        room = " WHERE (SELECT count(*) FROM inbox WHERE round = ? AND sender = ?) < ? "
        db.execute_many(query + room + same_again, [(*one, one[1], one[2], MOST_MESSAGES) for one in rows])
    return taken


def _invited(db: Connection, ids: Mapping[Round, int], items: Sequence[PostedMessage]) -> dict[Round, set[bytes]]:
    """For each open round, senders of these messages who were invited to it."""
    senders: dict[Round, set[bytes]] = {of: set() for of in ids}
    for item in items:
        if item.round in senders:
            senders[item.round].add(item.sender)
    found: dict[Round, set[bytes]] = {of: set() for of in ids}
    for of, number in ids.items():
        for marks, names in _in_clauses(list(senders[of])):
            among, everyone = f"FROM invited WHERE round = ? AND name IN {marks}", set(names)
            if db.one(f"SELECT count(*) {among}", number, *names) != (len(everyone),):  # most often all were invited
                everyone = {name for (name,) in db.all(f"SELECT name {among}", number, *names)}
            found[of] |= everyone
    return found


def _most_posted(db: Connection, rows: Sequence[_Posted]) -> int:
    """An upper bound on the messages that any one device will have posted to a round, these included."""
    now, before = Counter((number, sender) for _, number, sender, _, _ in rows), 0
    for number in {of for of, _ in now}:
        for marks, senders in _in_clauses([sender for of, sender in now if of == number]):
            each = f"SELECT count(*) AS said FROM inbox WHERE round = ? AND sender IN {marks} GROUP BY sender"  # noqa: S608
            row = db.one(f"SELECT max(said) FROM ({each}) AS each", number, *senders)  # noqa: S608
            before = max(before, (row and row[0]) or 0)
    return before + max(now.values(), default=0)


def _in_clauses(names: Sequence[bytes]) -> Iterator[tuple[str, list[bytes]]]:
    """Placeholders and values for IN (...), some at a time, padded with the last name to a power of two: so there are
    few different statements, and each is prepared once."""
    for first in range(0, len(names), MOST_NAMES):
        some = list(names[first : first + MOST_NAMES])
        padded = some + some[-1:] * ((1 << (len(some) - 1).bit_length()) - len(some))
        yield f"({', '.join('?' * len(padded))})", padded


# The schema: migrations for both databases (`typed` fills in the column types of each). A migration that has been
# released is never changed; a new one is added.


MIGRATIONS: Migrations = (
    (
        # CHECK (one = 1) on the key: a table of at most one row.
        """CREATE TABLE founding (
            one        {whole} PRIMARY KEY CHECK (one = 1),
            deployment {bytes} NOT NULL CHECK (length(deployment) = 16),
            identity   {bytes} NOT NULL CHECK (length(identity) = 32),
            token_key  {bytes} NOT NULL CHECK (length(token_key) = 32),
            title      {text}  NOT NULL
        ) {table}""",
        """CREATE TABLE people (
            name {bytes} PRIMARY KEY CHECK (length(name) = 32),
            cell {bytes} NOT NULL CHECK (length(cell) = 8),
            day  {whole} NOT NULL
        ) {table}""",
        """CREATE TABLE documents (
            name {bytes} PRIMARY KEY CHECK (length(name) = 32),
            body {bytes} NOT NULL
        ) {table}""",
        """CREATE TABLE log (
            place   {whole} PRIMARY KEY CHECK (place >= 0),
            subject {text}  NOT NULL,
            digest  {bytes} NOT NULL CHECK (length(digest) = 32),
            body    {bytes} NOT NULL
        ) {table}""",
        "CREATE INDEX log_by_subject ON log (subject, place)",
        # UNIQUE without the attempt: of each round number only the last attempt is there (protocols/journal.py).
        """CREATE TABLE rounds (
            id         {whole} PRIMARY KEY,
            deployment {bytes} NOT NULL CHECK (length(deployment) = 16),
            kind       {text}  NOT NULL,
            cohort     {whole} NOT NULL,
            number     {whole} NOT NULL,
            attempt    {whole} NOT NULL,
            stage      {whole} NOT NULL CHECK (stage IN (1, 3, 5, 6)),
            digest     {bytes} NOT NULL,
            masked     {whole} NOT NULL CHECK (masked IN (0, 1)),
            UNIQUE (deployment, kind, cohort, number)
        ) {table}""",
        # A partial index: open rounds are few, and are looked up with every posted message.
        "CREATE INDEX rounds_that_are_open ON rounds (id) WHERE stage < 5",
        # UNIQUE (round, sender, digest): a message that a device posts again is stored once.
        """CREATE TABLE inbox (
            number {whole} PRIMARY KEY,
            round  {whole} NOT NULL,
            sender {bytes} NOT NULL CHECK (length(sender) = 32),
            digest {bytes} NOT NULL CHECK (length(digest) = 16),
            body   {bytes} NOT NULL,
            UNIQUE (round, sender, digest)
        ) {table}""",
        """CREATE TABLE mail (
            number   {whole} PRIMARY KEY,
            round    {whole} NOT NULL,
            receiver {bytes} NOT NULL CHECK (length(receiver) = 32),
            body     {bytes} NOT NULL
        ) {table}""",
        "CREATE INDEX mail_by_receiver ON mail (receiver, number)",
        "CREATE INDEX mail_by_round ON mail (round)",
        "CREATE TABLE progress (one {whole} PRIMARY KEY CHECK (one = 1), body {bytes} NOT NULL) {table}",
        """CREATE TABLE lease (
            one    {whole} PRIMARY KEY CHECK (one = 1),
            holder {bytes} NOT NULL,
            until  {real}  NOT NULL
        ) {table}""",
        # Not the databases' own sequences: those leave gaps when a transaction is rolled back, and the mailbox takes a
        # gap for messages that another worker has sent.
        "CREATE TABLE counters (name {text} PRIMARY KEY, value {whole} NOT NULL) {table}",
        "INSERT INTO counters VALUES ('rounds', 0), ('inbox', 0), ('mail', 0)",
    ),
    (
        """CREATE TABLE invited (
            round {whole} NOT NULL,
            name  {bytes} NOT NULL CHECK (length(name) = 32),
            PRIMARY KEY (round, name)
        ) {table}""",
        "CREATE INDEX invited_by_name ON invited (name)",
        "INSERT INTO counters SELECT 'progress', count(*) FROM progress",
    ),
    (
        """CREATE TABLE answered (
            challenge {bytes} PRIMARY KEY CHECK (length(challenge) = 32),
            until     {whole} NOT NULL
        ) {table}""",
        "INSERT INTO counters VALUES ('probes', 0)",
    ),
    (
        # Rounds that an older version left open: anyone who was invited may have masked.
        "ALTER TABLE invited ADD COLUMN may_mask {whole} NOT NULL DEFAULT 0",
        "UPDATE invited SET may_mask = 1 WHERE round IN (SELECT id FROM rounds WHERE masked = 1)",
        """CREATE TABLE blamed (
            name   {bytes} PRIMARY KEY CHECK (length(name) = 32),
            times  {whole} NOT NULL,
            kind   {text}  NOT NULL,
            number {whole} NOT NULL,
            why    {text}  NOT NULL
        ) {table}""",
        """CREATE TABLE exclusions (
            number {whole} PRIMARY KEY,
            name   {bytes} NOT NULL CHECK (length(name) = 32),
            reason {text}  NOT NULL,
            since  {whole} NOT NULL,
            until  {whole}
        ) {table}""",
        "CREATE INDEX exclusions_by_name ON exclusions (name)",
        "INSERT INTO counters VALUES ('exclusions', 0)",
    ),
    # Devices no longer say where they are.
    ("ALTER TABLE people DROP COLUMN cell",),
    MIGRATION,
    ("ALTER TABLE founding ADD COLUMN place {text} NOT NULL DEFAULT ''",),
    operator_logins.MIGRATION,
    (
        # own = 1: this operator's next secret key; 0: the public key of the other one's that it has approved
        """CREATE TABLE next_keys (
            own  {whole} PRIMARY KEY CHECK (own IN (0, 1)),
            body {bytes} NOT NULL CHECK (length(body) = 32),
            made {whole} NOT NULL
        ) {table}""",
    ),
    REPORTS_THAT_WAIT,
)
