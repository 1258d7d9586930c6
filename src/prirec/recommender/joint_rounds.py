"""Sums over two operators in the store, at either operator: what must survive a crash (protocols/two_operators.py).

    table         written by                                          deleted
    joint_rounds  an operator's party; the recommender opens a round  never: a number is not used twice. The share
                  for reports                                         without noise is erased when the set is closed
    settled       an operator's party: names, hashes and verdicts     with the box keys, when their campaign is over
    reports       a device, by the recommender's service              the body when the report is settled or refused,
                                                                      the hash with the box keys
    box_keys      an operator, one for a campaign                     when the campaign is over
    cosigned      the helper's last signature on the log              overwritten

A copy that `back_up` makes has no box keys and no shares: whoever is restored from it opens nothing that began before.
PostgreSQL tells by itself that its tables come from a dump or a snapshot; of a file that was copied by other means
`restore` has to be told.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, TypeAlias, get_args

import msgspec

from prirec.errors import Fault, PeerError, StateError
from prirec.protocols import journal
from prirec.protocols.codec import decode_with, encode
from prirec.protocols.journal import JournalEntry, Verdict
from prirec.protocols.messages import Report, Round, SecretStruct
from prirec.protocols.party import Persist, Settle, Stage
from prirec.protocols.two_operators import Kept, Lines, mark_of_report
from prirec.recommender.database import Connection, Database, forget_joint_rounds, take_numbers
from prirec.sharing.keys import AgreementKey
from prirec.wire.documents import SumKind

Transaction: TypeAlias = Callable[[bytes | None], AbstractContextManager[Connection]]

MOST_READ: Final = 16 * 2**20  # bytes of reports that are read into memory together
FINAL: Final = (Stage.OPENED, Stage.BURNT)
ERASES: Final = (Stage.AGREED, *FINAL)  # after which no share without noise may be on the disk
KINDS: Final = frozenset(get_args(SumKind))

_KEY = "deployment = ? AND kind = ? AND number = ?"
_lines: msgspec.msgpack.Decoder[Lines] = msgspec.msgpack.Decoder(Lines)


class MissingKeyError(StateError):
    """An operator was restored, and opens nothing that began before."""

    def __init__(self) -> None:
        super().__init__(
            "this operator has no key of the campaign: its store was restored from a copy, and opens nothing that "
            "began before. End the campaign (prirec recommender rounds end) and begin another one"
        )


class Farewell(SecretStruct, frozen=True):
    """The last messages of a round, to be said until the other operator has heard them."""

    messages: tuple[bytes, ...]


_farewells: msgspec.msgpack.Decoder[Farewell] = msgspec.msgpack.Decoder(Farewell)


@dataclass(frozen=True, slots=True)
class _Door:
    """State of a round that decides whether it takes a report; by default that of a round that was never open."""

    round: int = 0
    stage: int = Stage.BURNT
    held: bytes = b""
    box_length: int = 0
    closes: int = 0

    def refusal(self, report: Report, mark: bytes, *, known: bytes | None, now: float) -> PeerError | None:
        """Why a report is not taken; `known` is the mark of the one that this device has posted before."""
        if known is not None:
            again = known == mark
            return None if again else PeerError(Fault.EQUIVOCATION, "a second, different report for one window")
        if self.stage != Stage.ENTERED or now >= self.closes:
            return PeerError(Fault.ORDER, "no report is taken for this window: it is over, or was never open")
        if report.held != self.held:
            return PeerError(Fault.PARAMS_MISMATCH, "the report is for another window than this one")
        if len(report.leader_box) != self.box_length:
            return PeerError(Fault.DECODE, "a report has not the length that its terms call for")
        return None


class JointRounds:
    """Reads and writes these tables; each method is one transaction, or one read."""

    def __init__(self, database: Database, transaction: Transaction) -> None:
        self._database, self._transaction = database, transaction

    # The journal of an operator's party

    def write(self, persist: Persist, *, holder: bytes | None = None) -> None:
        """StateError where the journal's rules refuse it; after a ConflictError the round is burnt."""
        with self._transaction(holder) as db:
            settle_stage(db, persist)
        if persist.stage in ERASES:
            self._database.erase_deleted()

    def settle(self, wanted: Settle, *, holder: bytes | None = None) -> None:
        """Settle these reports, and erase their bodies."""
        with self._transaction(holder) as db:
            found = db.one(f"SELECT id, settled FROM joint_rounds WHERE {_KEY}", *_key(wanted.round))  # noqa: S608
            at, settled = (0, 0) if found is None else found
            known = db.one("SELECT mark FROM settled WHERE round = ? AND number = ?", at, wanted.number)
            held = _held(db, wanted.round)
            verdict = journal.admit_settled(
                wanted, held=held, settled=settled, known=None if known is None else known[0]
            )
            if verdict is Verdict.KNOWN:
                return
            query = "INSERT INTO settled (round, number, lines, mark) VALUES (?, ?, ?, ?)"
            db.execute(query, at, wanted.number, wanted.lines, journal.mark(wanted))
            db.execute("UPDATE joint_rounds SET settled = ?, state = ? WHERE id = ?", settled + 1, wanted.state, at)
            names = [line.name for line in decode_with(_lines, wanted.lines, limit=2**31).lines]
            query = "UPDATE reports SET body = NULL WHERE round = ? AND name = ?"
            db.execute_many(query, [(at, name) for name in names])

    def kept(self, of: Round) -> Kept | None:
        """The journal that a party is restored from."""
        with self._database.reading() as db:
            query = f"SELECT id, stage, payload, state FROM joint_rounds WHERE {_KEY}"  # noqa: S608
            row = db.one(query, *_key(of))
            if row is None:
                return None
            lines = db.all("SELECT lines FROM settled WHERE round = ? ORDER BY number", row[0])
        return Kept(Stage(row[1]), row[2], tuple(one for (one,) in lines), row[3])

    def stage(self, of: Round) -> Stage | None:
        row = self._database.one(f"SELECT stage FROM joint_rounds WHERE {_KEY}", *_key(of))  # noqa: S608
        return None if row is None else Stage(row[0])

    def under_way(self) -> list[Round]:
        """Rounds neither opened nor burnt."""
        found = self._database.all("SELECT deployment, kind, number FROM joint_rounds WHERE stage < 5 ORDER BY id")
        return [Round(*row) for row in found]

    def farewells(self) -> list[tuple[Round, tuple[bytes, ...]]]:
        """Last messages of rounds that are over which the other operator has not confirmed."""
        query = "SELECT deployment, kind, number, farewell FROM joint_rounds WHERE farewell IS NOT NULL ORDER BY id"
        return [
            (Round(*of), decode_with(_farewells, body, limit=2**31).messages) for *of, body in self._database.all(query)
        ]

    def heard(self, of: Round) -> None:
        """The other operator has heard the last messages of a round."""
        with self._transaction(None) as db:
            db.execute(f"UPDATE joint_rounds SET farewell = NULL WHERE {_KEY}", *_key(of))  # noqa: S608

    # Reports of devices, at the recommender

    def take_reports(self, of: Round, *, box_length: int, until: int, holder: bytes | None = None) -> None:
        """From now on reports are taken, until a time."""
        with self._transaction(holder) as db:
            query = f"UPDATE joint_rounds SET box_length = ?, closes = ? WHERE {_KEY}"  # noqa: S608
            db.execute(query, box_length, until, *_key(of))

    def shut(self, of: Round, *, holder: bytes | None = None) -> None:
        """From now on no report is taken: all that came are there to be read."""
        with self._transaction(holder) as db:
            db.execute(f"UPDATE joint_rounds SET closes = 0 WHERE {_KEY}", *_key(of))  # noqa: S608

    def post(self, posted: Sequence[tuple[Report, bytes]], *, now: float) -> list[PeerError | None]:
        """Store reports, each with its body, in one transaction; for each, why it is not taken. The same again is
        known. ORDER if none is taken now, DECODE for one of another length, EQUIVOCATION for a second one."""
        marked = [(report, mark_of_report(report), body) for report, body in posted]
        problems, new = list[PeerError | None](), dict[tuple[int, bytes], tuple[bytes, bytes]]()
        with self._transaction(None) as db:
            doors = {of: _door(db, of) for of in {report.round for report, _ in posted}}
            for report, mark, body in marked:
                door = doors[report.round]
                place = door.round, report.sender
                known = new.get(place) or db.one("SELECT mark FROM reports WHERE round = ? AND name = ?", *place)
                problems.append(door.refusal(report, mark, known=None if known is None else known[0], now=now))
                if problems[-1] is None and known is None:
                    new[place] = mark, body
            if new:
                first = take_numbers(db, "reports", many=len(new))
                rows = [(first + at, *place, *said) for at, (place, said) in enumerate(new.items())]
                db.insert("reports (number, round, name, mark, body)", rows)
        return problems

    def posted(self, of: Round, *, after: int, most: int) -> list[tuple[int, bytes]]:
        """Reports that are not settled, after this number and in their order; fewer where they are long."""
        with self._database.reading() as db:
            among = f"number > ? AND round = (SELECT id FROM joint_rounds WHERE {_KEY}) ORDER BY number LIMIT ?"  # noqa: S608
            query = f"SELECT number, length(body) FROM reports WHERE body IS NOT NULL AND {among}"  # noqa: S608
            size, found = 0, list[tuple[int, bytes]]()
            for number, length in db.all(query, after, *_key(of), most):
                size += length
                if found and size > MOST_READ:
                    break
                row = db.one("SELECT body FROM reports WHERE number = ?", number)
                if row is not None and row[0] is not None:
                    found.append((number, row[0]))
        return found

    def drop(self, numbers: Sequence[int], *, holder: bytes | None = None) -> None:
        """Erase the bodies of reports that were refused."""
        with self._transaction(holder) as db:
            db.execute_many("UPDATE reports SET body = NULL WHERE number = ?", [(number,) for number in numbers])

    def count_reports(self, of: Round) -> int:
        query = f"SELECT count(*) FROM reports WHERE round = (SELECT id FROM joint_rounds WHERE {_KEY})"  # noqa: S608
        row = self._database.one(query, *_key(of))
        return 0 if row is None else int(row[0])

    def settled(self) -> list[tuple[int, int]]:
        """Which lists of settled reports are kept: those of the campaign under way."""
        return [(int(at), int(number)) for at, number in self._database.all("SELECT round, number FROM settled")]

    def lines(self, at: int, number: int) -> Lines:
        """One of these lists; it may be gone by now."""
        row = self._database.one("SELECT lines FROM settled WHERE round = ? AND number = ?", at, number)
        return Lines(()) if row is None else decode_with(_lines, row[0], limit=2**31)

    def emptied(self) -> list[tuple[int, int]]:
        """Rounds that were not given up, and how many reports in each were settled or refused."""
        query = (
            "SELECT reports.round, count(*) FROM reports JOIN joint_rounds ON joint_rounds.id = reports.round"
            " WHERE reports.body IS NULL AND joint_rounds.stage < 6 GROUP BY reports.round"
        )
        return [(int(at), int(many)) for at, many in self._database.all(query)]

    # Box keys

    def has_box_key(self, campaign: int) -> bool:
        return self._database.one("SELECT 1 FROM box_keys WHERE campaign = ?", campaign) is not None

    def box_key(self, campaign: int) -> AgreementKey:
        """MissingKeyError if there is none."""
        row = self._database.one("SELECT secret FROM box_keys WHERE campaign = ?", campaign)
        if row is None:
            raise MissingKeyError
        return AgreementKey(row[0])

    def make_box_key(self, campaign: int, secret: bytes) -> AgreementKey:
        """The key of a campaign: of this secret, unless there is one."""
        with self._transaction(None) as db:
            query = "INSERT INTO box_keys (campaign, secret) VALUES (?, ?) ON CONFLICT (campaign) DO NOTHING"
            db.execute(query, campaign, secret)
        return self.box_key(campaign)

    def forget_campaigns(self, *, but: int) -> None:
        """Erase the box keys of all campaigns but one, and what was kept of their reports."""
        if self._database.one("SELECT 1 FROM box_keys WHERE campaign <> ?", but) is None:
            return
        with self._transaction(None) as db:
            db.execute("DELETE FROM box_keys WHERE campaign <> ?", but)
            over = "SELECT id FROM joint_rounds WHERE stage >= 5"
            for table in ("settled", "reports"):
                db.execute(f"DELETE FROM {table} WHERE round IN ({over})")  # noqa: S608
        self._database.erase_deleted()

    # After a restore

    def forget(self) -> None:
        """Erase all that an operator of two could open a round with: for a store that was put back from a copy."""
        with self._transaction(None) as db:
            forget_joint_rounds(db)
        self._database.erase_deleted()

    def forget_if_moved(self) -> None:
        """The same, where the database can tell that its tables were restored from a dump or a snapshot."""
        if not self._moved():
            return
        with self._transaction(None) as db:
            (known,) = db.one("SELECT place FROM founding") or ("",)
            if known:  # else an earlier version has founded it
                forget_joint_rounds(db)
            db.execute(f"UPDATE founding SET place = {db.place}")  # noqa: S608

    def _moved(self) -> bool:
        with self._database.reading() as db:
            row = db.one(f"SELECT place, {db.place} FROM founding")  # noqa: S608
        return row is not None and row[0] != row[1]


# Inside a transaction


def _door(db: Connection, of: Round) -> _Door:
    if of.kind not in KINDS:  # a name with a zero byte PostgreSQL cannot look for: all reports of the commit would fail
        return _Door()
    query = f"SELECT id, stage, digest, box_length, closes FROM joint_rounds WHERE {_KEY}"  # noqa: S608
    return _Door(*(db.one(query, *_key(of)) or ()))


def settle_stage(db: Connection, wanted: Persist, *, farewell: Sequence[bytes] = ()) -> None:
    """Write what the journal's rules admit; a round that is over keeps its last messages until they were heard."""
    held = _held(db, wanted.round)
    query = "SELECT max(number) FROM joint_rounds WHERE deployment = ? AND kind = ?"
    highest = db.one(query, wanted.round.deployment, wanted.round.kind)
    if journal.admit(wanted, held=held, last=None if highest is None else highest[0]) is Verdict.KNOWN:
        return
    new = journal.entry(wanted, held=held)
    if held is None:
        names = "id, deployment, kind, number, stage, digest, payload, state"
        values = (take_numbers(db, "joint_rounds"), *_key(wanted.round), int(new.stage), new.digest, new.payload, b"")
        db.execute(f"INSERT INTO joint_rounds ({names}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", *values)  # noqa: S608
        return
    last = encode(Farewell(tuple(farewell))) if farewell else None
    query = f"UPDATE joint_rounds SET stage = ?, digest = ?, payload = ?, state = ?, farewell = ? WHERE {_KEY}"  # noqa: S608
    db.execute(query, int(new.stage), new.digest, new.payload, b"", last, *_key(wanted.round))
    if new.stage in FINAL:
        over = f"SELECT id FROM joint_rounds WHERE {_KEY}"  # noqa: S608
        db.execute(f"UPDATE reports SET body = NULL WHERE round = ({over})", *_key(wanted.round))  # noqa: S608


def burn(db: Connection, of: Round) -> bool:
    """After a conflict: whether the round is one of these."""
    held = _held(db, of)
    if held is not None and held.stage not in FINAL:
        settle_stage(db, Persist(of, Stage.BURNT, bytes(32)))
    return held is not None


def _held(db: Connection, of: Round) -> JournalEntry | None:
    row = db.one(f"SELECT stage, digest, payload FROM joint_rounds WHERE {_KEY}", *_key(of))  # noqa: S608
    if row is None:
        return None
    return JournalEntry(Round(*_key(of)), Stage(row[0]), row[1], row[2], masked=row[0] != Stage.ENTERED)


def _key(of: Round) -> tuple[bytes, str, int]:
    return of.deployment, of.kind, of.number


MIGRATION: Final = (
    "ALTER TABLE founding ADD COLUMN role {text} NOT NULL DEFAULT 'recommender'",
    "ALTER TABLE founding ADD COLUMN peer {bytes}",
    "ALTER TABLE founding ADD COLUMN peer_url {text}",
    "ALTER TABLE founding ADD COLUMN peer_authority {bytes}",
    """CREATE TABLE joint_rounds (
        id         {whole} PRIMARY KEY,
        deployment {bytes} NOT NULL CHECK (length(deployment) = 16),
        kind       {text}  NOT NULL,
        number     {whole} NOT NULL,
        stage      {whole} NOT NULL CHECK (stage IN (1, 3, 4, 5, 6)),
        digest     {bytes} NOT NULL,
        payload    {bytes} NOT NULL,
        state      {bytes} NOT NULL,
        settled    {whole} NOT NULL DEFAULT 0,
        box_length {whole} NOT NULL DEFAULT 0,
        closes     {whole} NOT NULL DEFAULT 0,
        farewell   {bytes},
        UNIQUE (deployment, kind, number)
    ) {table}""",
    """CREATE TABLE settled (
        round  {whole} NOT NULL,
        number {whole} NOT NULL,
        lines  {bytes} NOT NULL,
        mark   {bytes} NOT NULL CHECK (length(mark) = 32),
        PRIMARY KEY (round, number)
    ) {table}""",
    """CREATE TABLE reports (
        number {whole} PRIMARY KEY,
        round  {whole} NOT NULL,
        name   {bytes} NOT NULL CHECK (length(name) = 32),
        mark   {bytes} NOT NULL CHECK (length(mark) = 32),
        body   {bytes},
        UNIQUE (round, name)
    ) {table}""",
    """CREATE TABLE box_keys (
        campaign {whole} PRIMARY KEY,
        secret   {bytes} NOT NULL CHECK (length(secret) = 32)
    ) {table}""",
    "CREATE TABLE cosigned (one {whole} PRIMARY KEY CHECK (one = 1), body {bytes} NOT NULL) {table}",
    "INSERT INTO counters VALUES ('joint_rounds', 0), ('reports', 0)",
)

# Reports that wait are few, and are looked for all the time.
REPORTS_THAT_WAIT: Final = ("CREATE INDEX reports_that_wait ON reports (round, number) WHERE body IS NOT NULL",)
