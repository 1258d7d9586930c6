"""The tables of the recommender's store, and the life of each record: who writes it, and when it is deleted.

    table      written by                                            deleted
    founding   the operator, once (`prirec recommender init`)        never: it is the deployment, with its secret keys
    people     a device that enrols: its name and the cell it told   when it leaves
    documents  the conductor, or the operator who publishes          never: the log names them
    log        the conductor or the operator, signed                 never: devices check that it only grows
    rounds     the conductor, before what follows is done            never: a number is not gone back to
    invited    the conductor: who may hand in messages for a round   with its round, or when the device leaves
    inbox      a device that hands in a message, sealed              when its round is opened, burnt or begun anew
    mail       the conductor, for one device, sealed                 when it arrived, with its round, or its device
    progress   the conductor: where it is, public or sealed sums     overwritten
    lease      the worker that conducts                              overwritten, or given back
    counters   with every row that takes a number from them          never: a number is given once

No row holds a private value: names are keys, cells are as coarse as the device chose, and what devices say is sealed
or masked. A limit: PostgreSQL keeps deleted rows on its disk until it needs the room, and any database keeps them in
copies made meanwhile. They are sealed for keys that only ever were in memory.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeAlias, TypeVar

import msgspec

from prirec.errors import StateError, UsageError
from prirec.protocols import journal
from prirec.protocols.actions import Persist, Stage
from prirec.protocols.codec import digest, encode
from prirec.protocols.journal import ConflictError, JournalEntry, Verdict
from prirec.protocols.messages import Part, Round
from prirec.recommender.database import Database, Migrations, Row, Rows
from prirec.wire import log
from prirec.wire.documents import Line, address
from prirec.wire.http import Letter
from prirec.wire.log import Head, LogEntry, SignedEntry, Subject

MIGRATIONS: Migrations = (
    (
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
        "CREATE INDEX rounds_that_are_open ON rounds (id) WHERE stage < 5",
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
)


# Who conducts, how far it has come, and numbers that are given once, as rows.


ANYTHING: Final = b"anything"  # that the progress may have been before


@dataclass(frozen=True, slots=True)
class Counts:
    """How much there is of everything, for whoever looks after the service."""

    people: int
    documents: int
    entries: int
    rounds: int  # ever entered
    open_rounds: int
    messages: int  # handed in, of rounds that are open
    letters: int  # that have not arrived


class LeaseLostError(StateError):
    """Another worker conducts now. Whoever hears this gives up its rounds: they were burnt."""

    def __init__(self) -> None:
        super().__init__("another worker conducts the rounds now; nothing was written")


class OvertakenError(StateError):
    """The campaign is not where whoever writes believed it to be."""

    def __init__(self) -> None:
        super().__init__("another worker has gone on with the campaign; what was begun here is given up")


def numbers(rows: Rows, counter: str, *, many: int) -> int:
    """The first of so many new numbers: never given before, and higher than all that anybody can have seen."""
    row = rows.one("SELECT value FROM counters WHERE name = ?", counter)
    if row is None:
        raise StateError("the store has lost its counters; put back a whole copy")
    rows.change("UPDATE counters SET value = value + ? WHERE name = ?", many, counter)
    return int(row[0]) + 1


def note(rows: Rows, progress: bytes) -> None:
    """How far the conductor has come, in its own words."""
    query = "INSERT INTO progress (one, body) VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET body = excluded.body"
    rows.change(query, progress)
    numbers(rows, "progress", many=1)


def expect(rows: Rows, before: bytes | None) -> None:
    """OvertakenError if the progress is another."""
    if before is not ANYTHING and progress(rows) != before:
        raise OvertakenError


def progress(rows: Rows) -> bytes | None:
    row = rows.one("SELECT body FROM progress")
    return None if row is None else row[0]


def progress_since(rows: Rows, changes: int) -> tuple[int, bytes | None]:
    """In one statement: the body is the one that was there after so many changes."""
    row = rows.one(
        "SELECT counters.value, progress.body FROM counters LEFT JOIN progress ON counters.value <> ?"
        " WHERE counters.name = 'progress'",
        changes,
    )
    return (changes, None) if row is None else (int(row[0]), row[1])


def counts(rows: Rows) -> Counts:
    tables = ("people", "documents", "log", "rounds", "rounds WHERE stage < 5", "inbox", "mail")
    row = rows.one("SELECT " + ", ".join(f"(SELECT count(*) FROM {table})" for table in tables))  # noqa: S608
    return Counts(*row or ())


def lease(rows: Rows, holder: bytes, seconds: float) -> bool:
    """Takes or renews; by the clock of the database, so that machines need not agree on the time. One that lasts longer
    than anybody asks for was taken before the clock was set back, and binds nobody."""
    return bool(
        rows.change(
            f"INSERT INTO lease (one, holder, until) VALUES (1, ?, {rows.clock} + ?)"  # noqa: S608
            " ON CONFLICT (one) DO UPDATE SET holder = excluded.holder, until = excluded.until"
            f" WHERE lease.holder = excluded.holder OR lease.until <= {rows.clock}"
            f" OR lease.until > {rows.clock} + ?",
            holder, float(seconds), 2.0 * seconds,
        )
    )  # fmt: skip


def release(rows: Rows, holder: bytes) -> None:
    rows.change("DELETE FROM lease WHERE holder = ?", holder)


def fence(rows: Rows, holder: bytes | None) -> None:
    """LeaseLostError where somebody else has taken the lease since, however long ago it ran out."""
    if holder is not None and rows.one("SELECT 1 FROM lease WHERE holder = ?", holder) is None:
        raise LeaseLostError


# Public documents and the signed log, as rows. The log only grows, and names nothing that is not there.


Entries: TypeAlias = Sequence[SignedEntry] | Callable[[Head], Sequence[SignedEntry]]  # ready, or signed for a head

_entries: msgspec.msgpack.Decoder[SignedEntry] = msgspec.msgpack.Decoder(SignedEntry)


def put(rows: Rows, documents: Iterable[tuple[bytes, bytes]]) -> None:
    """Those that are there already stay as they are: another body would have another name."""
    rows.change_each(
        "INSERT INTO documents (name, body) VALUES (?, ?) ON CONFLICT (name) DO NOTHING", map(_checked, documents)
    )


def document(rows: Rows, name: bytes) -> bytes | None:
    row = rows.one("SELECT body FROM documents WHERE name = ?", name)
    return None if row is None else row[0]


def head(rows: Rows) -> Head:
    row = rows.one("SELECT place, digest FROM log ORDER BY place DESC LIMIT 1")
    return Head() if row is None else Head(row[0] + 1, row[1])


def entries(rows: Rows, after: int, most: int) -> list[SignedEntry]:
    """From place `after` on: for somebody who knows that many."""
    found = rows.all("SELECT body FROM log WHERE place >= ? ORDER BY place LIMIT ?", after, most)
    return [_entries.decode(body) for (body,) in found]


def last(rows: Rows, subject: Subject) -> LogEntry | None:
    row = rows.one("SELECT body FROM log WHERE subject = ? ORDER BY place DESC LIMIT 1", subject)
    return None if row is None else _entries.decode(row[0]).entry


def append(rows: Rows, signed: Entries) -> None:
    """StateError where an entry does not go on from the one before: somebody else has written meanwhile. To what signs
    them here, in the transaction, that does not happen."""
    known = head(rows)
    for one in signed(known) if callable(signed) else signed:
        entry = one.entry
        if (entry.index, entry.previous) != (known.length, known.last):
            raise StateError("a log entry is not the next one; another worker has gone on, so look at the log again")
        if rows.one("SELECT 1 FROM documents WHERE name = ?", entry.document) is None:
            raise StateError("a log entry names a document that is not in the store; put it there first")
        known = Head(known.length + 1, digest(entry))
        values = (entry.index, entry.subject, known.last, encode(one))
        rows.change("INSERT INTO log (place, subject, digest, body) VALUES (?, ?, ?, ?)", *values)


def _checked(document: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    name, body = document
    if address(body) != name:
        raise UsageError("a document is put under its own hash and no other name")
    return name, body


# The collector's journal, as rows. The rules are those of protocols/journal.py; a collector has many
# cohorts at a number, so a round's key has its cohort in it, and numbers rise in each cohort by itself.


COLLECTED = (Stage.ENTERED, Stage.AGREED, Stage.OPENED, Stage.BURNT)  # the stages of a collector: it masks nothing
FINAL = (Stage.OPENED, Stage.BURNT)

_COLUMNS = "id, deployment, kind, number, cohort, attempt, stage, digest, masked"
_KEY = "deployment = ? AND kind = ? AND cohort = ? AND number = ?"


def settle(rows: Rows, wanted: Persist) -> JournalEntry:
    """Writes what the rules admit. A round that is over, or begun anew, loses its letters and messages with it."""
    if wanted.stage not in COLLECTED:
        raise UsageError(f"a collector has no stage {wanted.stage.name}")
    of = wanted.round
    row = rows.one(f"SELECT {_COLUMNS} FROM rounds WHERE {_KEY}", *_key(of))  # noqa: S608
    held = None if row is None else _entry(row)
    if journal.admit(wanted, held=held, last=_last(rows, of)) is Verdict.KNOWN and held is not None:
        return held
    new = journal.entry(wanted, held=held)
    number = row[0] if row is not None and held is not None and held.round == of else numbers(rows, "rounds", many=1)
    if row is not None and (number != row[0] or new.stage in FINAL):
        empty(rows, row[0])
    _write(rows, number, new)
    return new


def settle_all(rows: Rows, wanted: Sequence[Persist]) -> None:
    for one in wanted:
        settle(rows, one)


def begin_masking(rows: Rows, rounds: Iterable[Round]) -> None:
    """From now on somebody may mask a vector in these: there will be no other attempt at their numbers."""
    for of in rounds:
        rows.change(f"UPDATE rounds SET masked = 1 WHERE {_KEY} AND attempt = ?", *_key(of), of.attempt)  # noqa: S608


def open_rounds(rows: Rows) -> list[Round]:
    return [_entry(row).round for row in rows.all(f"SELECT {_COLUMNS} FROM rounds WHERE stage < 5 ORDER BY id")]  # noqa: S608


def latest(rows: Rows, most: int) -> list[JournalEntry]:
    """The rounds that were entered last, the newest first."""
    return [_entry(row) for row in rows.all(f"SELECT {_COLUMNS} FROM rounds ORDER BY id DESC LIMIT ?", most)]  # noqa: S608


def open_ids(rows: Rows, rounds: Iterable[Round]) -> dict[Round, int]:
    """Those of these rounds that are open, with the number that their letters and messages go by."""
    query = f"SELECT id FROM rounds WHERE {_KEY} AND attempt = ? AND stage < 5"  # noqa: S608
    found = {of: rows.one(query, *_key(of), of.attempt) for of in set(rounds)}
    return {of: row[0] for of, row in found.items() if row is not None}


def close_round(rows: Rows, of: Round) -> None:
    """Its letters and messages are deleted. Those of an earlier attempt went when the next one was entered."""
    row = rows.one(f"SELECT id FROM rounds WHERE {_KEY} AND attempt = ?", *_key(of), of.attempt)  # noqa: S608
    if row is not None:
        empty(rows, row[0])


def empty(rows: Rows, number: int) -> None:
    rows.change("DELETE FROM mail WHERE round = ?", number)
    rows.change("DELETE FROM inbox WHERE round = ?", number)
    rows.change("DELETE FROM invited WHERE round = ?", number)


def _key(of: Round) -> tuple[bytes, str, int, int]:
    return of.deployment, of.kind, of.group, of.number


def _last(rows: Rows, of: Round) -> int | None:
    query = "SELECT max(number) FROM rounds WHERE deployment = ? AND kind = ? AND cohort = ?"
    row = rows.one(query, of.deployment, of.kind, of.group)
    return None if row is None else row[0]


def _entry(row: Row) -> JournalEntry:
    _, deployment, kind, number, cohort, attempt, stage, digest, masked = row
    return JournalEntry(Round(deployment, kind, number, cohort, attempt), Stage(stage), digest, b"", bool(masked))


def _write(rows: Rows, number: int, new: JournalEntry) -> None:
    of = new.round
    rows.change(f"DELETE FROM rounds WHERE {_KEY}", *_key(of))  # noqa: S608
    rows.change(
        f"INSERT INTO rounds ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
        number, of.deployment, of.kind, of.number, of.group, of.attempt, int(new.stage), new.digest, int(new.masked),
    )  # fmt: skip


# What devices hand in and what waits for them, as rows. Both belong to a round that is open, and go with it;
# and only those hand in who were invited to it.


MOST_SAID = 6  # different messages of one device in a round: a member of a sum has five to send, and may err once
MOST_BYTES = 64 * 2**20  # of messages that are looked at together
MOST_ASKED = 256  # names in one question
_SAME_AGAIN = "ON CONFLICT (round, sender, digest) DO NOTHING"


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message as it was handed in, by whom and for which round."""

    round: Round
    sender: bytes
    body: bytes = field(repr=False)


def invite(rows: Rows, invited: Sequence[tuple[bytes, Round]]) -> None:
    """From now on these may hand in messages, each for its round. StateError where one is not open."""
    ids = _open(rows, (of for _, of in invited))
    names = [(ids[of], name) for name, of in invited]
    rows.insert("invited (round, name)", names, "ON CONFLICT (round, name) DO NOTHING")


def hand_in(rows: Rows, items: Sequence[Incoming]) -> list[bool]:
    """Of each whether its round is open and its sender was invited to it. The same message again is one; a second of
    another kind is kept, for the collector to judge, up to as many as nobody honest sends."""
    ids = open_ids(rows, (item.round for item in items))
    guests = _guests(rows, ids, items)
    welcome = [item.sender in guests.get(item.round, ()) for item in items]
    taken = [item for item, good in zip(items, welcome, strict=True) if good]
    first = numbers(rows, "inbox", many=len(taken)) if taken else 0
    kept = [(at, ids[one.round], one.sender, _digest(one.body), one.body) for at, one in enumerate(taken, first)]
    if _said_at_most(rows, kept) <= MOST_SAID:
        rows.insert("inbox (number, round, sender, digest, body)", kept, _SAME_AGAIN)
    else:
        query = "INSERT INTO inbox (number, round, sender, digest, body) SELECT ?, ?, ?, ?, ?"
        room = " WHERE (SELECT count(*) FROM inbox WHERE round = ? AND sender = ?) < ? "
        rows.change_each(query + room + _SAME_AGAIN, [(*one, one[1], one[2], MOST_SAID) for one in kept])
    return welcome


def incoming(rows: Rows, after: int, most: int) -> list[tuple[int, bytes]]:
    """In order; fewer than `most` where they are large, but at least one. Sizes are read first: they cost no more than
    the rows' heads."""
    sizes = rows.all("SELECT number, length(body) FROM inbox WHERE number > ? ORDER BY number LIMIT ?", after, most)
    if not sizes:
        return []
    many = max(1, bisect_right(list(accumulate(size for _, size in sizes)), MOST_BYTES))
    last = sizes[many - 1][0]
    found = rows.all("SELECT number, body FROM inbox WHERE number > ? AND number <= ? ORDER BY number", after, last)
    return [(number, body) for number, body in found]


def deliver(rows: Rows, letters: Sequence[tuple[bytes, Round, bytes]]) -> int:
    """The number of the first; the others follow it. StateError, and none delivered, where a round is not open."""
    ids = _open(rows, (of for _, of, _ in letters))
    first = numbers(rows, "mail", many=len(letters))
    written = [(at, ids[of], receiver, body) for at, (receiver, of, body) in enumerate(letters, first)]
    rows.insert("mail (number, round, receiver, body)", written)
    return first


def letters(rows: Rows, receiver: bytes, after: int, most: int) -> list[Letter]:
    query = "SELECT number, body FROM mail WHERE receiver = ? AND number > ? ORDER BY number LIMIT ?"
    return [Letter(number, body) for number, body in rows.all(query, receiver, after, most)]


def receivers_since(rows: Rows, after: int) -> tuple[int, set[bytes]]:
    """The count is read first: all letters up to it are there to be seen when the second question is asked."""
    row = rows.one("SELECT value FROM counters WHERE name = 'mail'")
    latest = after if row is None else int(row[0])
    if latest <= after:
        return latest, set()
    query = "SELECT DISTINCT receiver FROM mail WHERE number > ? AND number <= ?"
    return latest, {receiver for (receiver,) in rows.all(query, after, latest)}


def throw_away(rows: Rows, arrived: Sequence[tuple[bytes, int]]) -> None:
    """The letters of each receiver up to a number: they have arrived."""
    rows.change_each("DELETE FROM mail WHERE receiver = ? AND number <= ?", arrived)


def _open(rows: Rows, rounds: Iterable[Round]) -> dict[Round, int]:
    """All of them."""
    wanted = set(rounds)
    ids = open_ids(rows, wanted)
    if len(ids) < len(wanted):
        raise StateError("letters are sent in a round that is open; this one was never entered, or is over")
    return ids


def _said_at_most(rows: Rows, kept: Sequence[tuple[int, int, bytes, bytes, bytes]]) -> int:
    """As often as anybody will have spoken in a round, or a little more where the same is said again."""
    now, before = Counter((of, sender) for _, of, sender, _, _ in kept), 0
    for number in {of for of, _ in now}:
        for marks, senders in _asked([sender for of, sender in now if of == number]):
            each = f"SELECT count(*) AS said FROM inbox WHERE round = ? AND sender IN {marks} GROUP BY sender"  # noqa: S608
            row = rows.one(f"SELECT max(said) FROM ({each}) AS each", number, *senders)  # noqa: S608
            before = max(before, (row and row[0]) or 0)
    return before + max(now.values(), default=0)


def _guests(rows: Rows, ids: Mapping[Round, int], items: Sequence[Incoming]) -> dict[Round, set[bytes]]:
    """Of each round that is open, who was invited to it among those who have sent something."""
    senders: dict[Round, set[bytes]] = {of: set() for of in ids}
    for item in items:
        if item.round in senders:
            senders[item.round].add(item.sender)
    return {of: _invited(rows, ids[of], list(names)) for of, names in senders.items()}


def _invited(rows: Rows, number: int, names: Sequence[bytes]) -> set[bytes]:
    """Those of these names that were invited to a round: most often all of them, and then they are only counted."""
    found = set[bytes]()
    for marks, asked in _asked(names):
        among, everyone = f"FROM invited WHERE round = ? AND name IN {marks}", set(asked)
        if rows.one(f"SELECT count(*) {among}", number, *asked) == (len(everyone),):
            found |= everyone
        else:
            found.update(name for (name,) in rows.all(f"SELECT name {among}", number, *asked))
    return found


def _asked(names: Sequence[bytes]) -> Iterator[tuple[str, list[bytes]]]:
    """Some at a time, with marks for them. A statement asks for a power of two, the last name again and again if need
    be: so there are few statements, and each is prepared once."""
    for first in range(0, len(names), MOST_ASKED):
        some = list(names[first : first + MOST_ASKED])
        asked = some + some[-1:] * ((1 << (len(some) - 1).bit_length()) - len(some))
        yield f"({', '.join('?' * len(asked))})", asked


def _digest(body: bytes) -> bytes:
    """To know the same again. Who finds two of its own messages with one digest has merely sent one of them."""
    return sha256(body).digest()[:16]


# Who founded the deployment and who has enrolled, as rows.


_Kind = TypeVar("_Kind", bound=Part)


@dataclass(frozen=True, slots=True)
class Founding:
    """A deployment: its public name and title, and the recommender's secrets."""

    deployment: bytes  # 16 bytes
    identity: bytes = field(repr=False)  # 32 bytes: the secret half of the recommender's name
    token_key: bytes = field(repr=False)  # 32 bytes: sessions are sealed with it, by any worker
    title: str


def found(rows: Rows, founding: Founding) -> None:
    if rows.one("SELECT 1 FROM founding") is not None:
        raise StateError("a deployment was founded in this store before; name another one for a new deployment")
    values = (founding.deployment, founding.identity, founding.token_key, founding.title)
    rows.change("INSERT INTO founding (one, deployment, identity, token_key, title) VALUES (1, ?, ?, ?, ?)", *values)


def founding(rows: Rows) -> Founding:
    row = rows.one("SELECT deployment, identity, token_key, title FROM founding")
    if row is None:
        raise StateError("no deployment was founded in this store; run prirec recommender init first")
    return Founding(*row)


def seal_anew(rows: Rows, token_key: bytes) -> None:
    """Another key for sessions; who the recommender is stays."""
    if not rows.change("UPDATE founding SET token_key = ?", token_key):
        founding(rows)


def enrol(rows: Rows, line: Line, *, day: int) -> None:
    """Again is the same, and may change the cell: for campaigns that begin from then on."""
    rows.change(
        "INSERT INTO people (name, cell, day) VALUES (?, ?, ?)"
        " ON CONFLICT (name) DO UPDATE SET cell = excluded.cell, day = excluded.day",
        line.name, line.cell.to_bytes(8, "big"), day,
    )  # fmt: skip


def enrolled(rows: Rows, name: bytes) -> bool:
    return rows.one("SELECT 1 FROM people WHERE name = ?", name) is not None


def leave(rows: Rows, name: bytes) -> None:
    """What waits for a device goes with it, and so do its invitations. Rosters that list it are public, and stay."""
    rows.change("DELETE FROM mail WHERE receiver = ?", name)
    rows.change("DELETE FROM invited WHERE name = ?", name)
    rows.change("DELETE FROM people WHERE name = ?", name)


def people(rows: Rows) -> list[Line]:
    found = rows.all("SELECT name, cell FROM people ORDER BY name")
    return [Line(name, int.from_bytes(cell, "big")) for name, cell in found]


# All that the recommender must not forget, for any number of workers on one database.
#
# Each method is one transaction, or looks without waiting for anybody. What is in the tables, who writes it and when it
# is deleted stands in schema.py; the rules of a round in protocols/journal.py. A worker may die at any moment: a sum
# that was opened was written together with everything that follows from it (`advance`), and a round that was still open
# is given up by whoever takes the lease next. `holder` is the lease under which something is written: with it, a worker
# that lost the lease without noticing writes nothing any more.


__all__ = ["Counts", "Founding", "Incoming", "LeaseLostError", "OvertakenError", "Store"]


class Store:
    """Any thread may use it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    def open(cls, url: str | Path, *, migrations: Migrations = MIGRATIONS) -> Self:
        """A path, "sqlite:///path" or "postgresql://...". Damaged, newer or not ours: StateError, and left alone."""
        return cls(Database.open(url, migrations=migrations))

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # The deployment and its people

    def found(self, founding: Founding) -> None:
        """Once. StateError if there is a deployment in this store."""
        with self._database.transaction() as rows:
            found(rows, founding)

    def founding(self) -> Founding:
        """StateError if there is none."""
        with self._database.reading() as rows:
            return founding(rows)

    def seal_anew(self, token_key: bytes) -> None:
        """Another key for sessions. Workers read it when they start."""
        with self._database.transaction() as rows:
            seal_anew(rows, token_key)

    def enrol(self, name: bytes, cell: int, *, day: int) -> None:
        """Again is the same, and may change the cell: for campaigns that begin from then on."""
        with self._database.transaction() as rows:
            enrol(rows, Line(name, cell), day=day)

    def enrolled(self, name: bytes) -> bool:
        with self._database.reading() as rows:
            return enrolled(rows, name)

    def leave(self, name: bytes) -> None:
        with self._database.transaction() as rows:
            leave(rows, name)

    def people(self) -> list[Line]:
        """Everyone who has enrolled, by name."""
        with self._database.reading() as rows:
            return people(rows)

    def counts(self) -> Counts:
        with self._database.reading() as rows:
            return counts(rows)

    # Documents and the log

    def put(self, documents: Iterable[tuple[bytes, bytes]]) -> None:
        """Documents by name, as contract.documents.written gives them."""
        with self._database.transaction() as rows:
            put(rows, documents)

    def document(self, name: bytes) -> bytes | None:
        with self._database.reading() as rows:
            return document(rows, name)

    def head(self) -> log.Head:
        with self._database.reading() as rows:
            return head(rows)

    def entries(self, after: int, most: int = log.MOST) -> list[log.SignedEntry]:
        """For somebody who knows `after` entries: those from that index on."""
        with self._database.reading() as rows:
            return entries(rows, after, most)

    def last(self, subject: log.Subject) -> log.LogEntry | None:
        with self._database.reading() as rows:
            return last(rows, subject)

    # Messages and letters

    def hand_in(self, items: Sequence[Incoming], *, arrived: Sequence[tuple[bytes, int]] = ()) -> list[bool]:
        """One transaction for the batch, with what has `arrived` thrown away in it. For each whether its round is
        open and its sender was invited to it; where not, the message was not kept."""
        if not items and not arrived:
            return []
        with self._database.transaction() as rows:
            throw_away(rows, arrived)
            return hand_in(rows, items)

    def incoming(self, after: int, most: int) -> list[tuple[int, bytes]]:
        """Messages that were handed in after this number, in order, each with its own."""
        with self._database.reading() as rows:
            return incoming(rows, after, most)

    def deliver(
        self, letters: Sequence[tuple[bytes, Round, bytes]], *, persists: Sequence[Persist] = (),
        inviting: Sequence[tuple[bytes, Round]] = (), masking: Iterable[Round] = (), holder: bytes | None = None,
    ) -> int:  # fmt: skip
        """(receiver, round, body) each, in one transaction, after what must be in the journal before they are sent.
        Those whom it is `inviting` may hand in messages for that round; `masking` are the rounds in which whoever gets
        a letter may mask a vector. Returns the number of the first letter; the others follow it.

        StateError, and none delivered, if a round is not open."""
        with self._transaction(holder) as rows:
            settle_all(rows, persists)
            begin_masking(rows, masking)
            invite(rows, inviting)
            first = deliver(rows, letters)
        self._tidy(persists)
        return first

    def letters(self, receiver: bytes, after: int, most: int) -> list[Letter]:
        with self._database.reading() as rows:
            return letters(rows, receiver, after, most)

    def receivers_since(self, number: int) -> tuple[int, set[bytes]]:
        """The number of the latest letter, and whom there are letters for after the one given."""
        with self._database.reading() as rows:
            return receivers_since(rows, number)

    def throw_away(self, receiver: bytes, up_to: int) -> None:
        with self._database.transaction() as rows:
            throw_away(rows, [(receiver, up_to)])

    # Rounds

    def write(self, persist: Persist, *, holder: bytes | None = None) -> JournalEntry:
        """What is held once this is on disk. StateError where the rules refuse it; a conflict burns the round first."""
        with self._transaction(holder) as rows:
            entry = settle(rows, persist)
        self._tidy([persist])
        return entry

    def advance(
        self,
        *,
        progress: bytes | None,
        before: bytes | None = ANYTHING,
        entries: Entries = (),
        documents: Iterable[tuple[bytes, bytes]] = (),
        persists: Sequence[Persist] = (),
        over: Sequence[Round] = (),
        holder: bytes | None = None,
    ) -> None:
        """An opened sum and all that follows from it, in one transaction: on disk together or not at all. `before` is
        the progress that it follows from, and the entries may be signed for the log as it is then.

        StateError, and nothing written, where the journal's rules or the log refuse a part of it."""
        with self._transaction(holder) as rows:
            expect(rows, before)
            settle_all(rows, persists)
            put(rows, documents)
            append(rows, entries)
            for of in over:
                close_round(rows, of)
            if progress is not None:  # else it stays as it is
                note(rows, progress)
        self._tidy(persists, over=bool(over))

    def progress(self) -> bytes | None:
        with self._database.reading() as rows:
            return progress(rows)

    def progress_since(self, changes: int) -> tuple[int, bytes | None]:
        """How often the progress was changed, ever; and the progress itself, where that is not as often as was known
        already. A look costs the same however large it is."""
        with self._database.reading() as rows:
            return progress_since(rows, changes)

    def open_rounds(self) -> list[Round]:
        """Not opened, not burnt; in the order in which they were entered."""
        with self._database.reading() as rows:
            return open_rounds(rows)

    def rounds(self, most: int) -> list[JournalEntry]:
        """The rounds that were entered last, the newest first."""
        with self._database.reading() as rows:
            return latest(rows, most)

    def lease(self, holder: bytes, seconds: float) -> bool:
        """Takes or renews the right to conduct rounds; False while another holds it."""
        with self._database.transaction() as rows:
            return lease(rows, holder, seconds)

    def release(self, holder: bytes) -> None:
        with self._database.transaction() as rows:
            release(rows, holder)

    @contextmanager
    def _transaction(self, holder: bytes | None) -> Iterator[Rows]:
        """All or nothing, durable when it is left. After a conflict: nothing of it, but the round burnt."""
        try:
            with self._database.transaction() as rows:
                fence(rows, holder)
                yield rows
        except ConflictError as conflict:
            with self._database.transaction() as rows, suppress(StateError):  # one that is over is not burnt any more
                settle(rows, Persist(conflict.round, Stage.BURNT, bytes(32)))
            raise

    def _tidy(self, persists: Sequence[Persist] = (), *, over: bool = False) -> None:
        """Boxes and shares are not kept after use, not even in a file's log."""
        if over or any(persist.stage in FINAL for persist in persists):
            self._database.tidy()
