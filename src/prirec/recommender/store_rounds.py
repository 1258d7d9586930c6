"""The collector's journal, as rows. The rules are those of protocols/journal.py; a collector has many
cohorts at a number, so a round's key has its cohort in it, and numbers rise in each cohort by itself."""

from collections.abc import Iterable, Sequence

from prirec.errors import UsageError
from prirec.protocols import journal
from prirec.protocols.actions import Persist, Stage
from prirec.protocols.journal import Entry, Verdict
from prirec.protocols.messages import Round
from prirec.recommender.database import Row, Rows
from prirec.recommender.store_conducting import numbers

COLLECTED = (Stage.ENTERED, Stage.AGREED, Stage.OPENED, Stage.BURNT)  # the stages of a collector: it masks nothing
FINAL = (Stage.OPENED, Stage.BURNT)

_COLUMNS = "id, deployment, kind, number, cohort, attempt, stage, digest, masked"
_KEY = "deployment = ? AND kind = ? AND cohort = ? AND number = ?"


def settle(rows: Rows, wanted: Persist) -> Entry:
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


def masking(rows: Rows, rounds: Iterable[Round]) -> None:
    """From now on somebody may mask a vector in these: there will be no other attempt at their numbers."""
    for of in rounds:
        rows.change(f"UPDATE rounds SET masked = 1 WHERE {_KEY} AND attempt = ?", *_key(of), of.attempt)  # noqa: S608


def open_rounds(rows: Rows) -> list[Round]:
    return [_entry(row).round for row in rows.all(f"SELECT {_COLUMNS} FROM rounds WHERE stage < 5 ORDER BY id")]  # noqa: S608


def latest(rows: Rows, most: int) -> list[Entry]:
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


def _entry(row: Row) -> Entry:
    _, deployment, kind, number, cohort, attempt, stage, digest, masked = row
    return Entry(Round(deployment, kind, number, cohort, attempt), Stage(stage), digest, b"", bool(masked))


def _write(rows: Rows, number: int, new: Entry) -> None:
    of = new.round
    rows.change(f"DELETE FROM rounds WHERE {_KEY}", *_key(of))  # noqa: S608
    rows.change(
        f"INSERT INTO rounds ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
        number, of.deployment, of.kind, of.number, of.group, of.attempt, int(new.stage), new.digest, int(new.masked),
    )  # fmt: skip
