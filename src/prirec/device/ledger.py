"""The privacy ledger on disk: a release is charged in the same transaction that journals it, before anything is sent.

What is paid for is masking: from then on the vector may be sent at any moment. The journal's MASKED and the charge are
written together or not at all, whatever crashes. Entering a round, giving one up and everything else that sends nothing
computed from a person's records is free, and never refused here. The rules are in privacy/ledger.py.

Not detectable, as in the journal: an older copy of the file that was put back has forgotten what was spent since.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, inf, nextafter
from pathlib import Path
from typing import TypeAlias

from prirec.device.store import (
    APPLICATION,
    CHARGE,
    DAMAGED,
    MIGRATIONS,
    SEALED_SINCE,
    Store,
    check_ledger,
    seal_ledger,
    write_journal,
)
from prirec.errors import PolicyError, StateError, UsageError
from prirec.privacy import ledger as rules
from prirec.privacy.accountant import GRAINS, Adjacency, PrivacyLoss, Spent, Unit
from prirec.privacy.ledger import Account, Budget, Charge, Ledger, LedgerEntry, Verdict
from prirec.protocols.journal import JournalEntry
from prirec.protocols.party import Persist, Stage
from prirec.util.sqlite import FOREIGN

EMPTY = "is empty: no device has written to it, or what it held is lost. Delete it: prirec device init makes a new one"

Rows: TypeAlias = sqlite3.Connection


@dataclass(frozen=True, slots=True)
class Price:
    """What a round costs a person, and what it is for, in plain words."""

    what: str
    cost: Spent
    at_worst: Spent | None = None  # if all other names of the roster are made up


class LedgerStore:
    """The journal of a store, in which nothing is masked unpaid. `day` is today in days since 1970.

    Without a budget, the person's stored one applies. It is read each time, so that lowering it counts at once."""

    def __init__(self, store: Store, budget: Budget | None = None):
        self._store, self._fixed_budget = store, budget

    def write(
        self, persist: Persist, *, day: int, price: Price | None = None, together: Callable[[Rows], None] | None = None
    ) -> JournalEntry:
        """Store.write, with the charge at stage MASKED. PolicyError, and nothing written, if it overspends; StateError
        if the ledger is damaged.

        `together` writes further rows in the same transaction."""
        with self._store.transaction() as rows:
            if persist.stage is Stage.MASKED:
                if price is None:
                    raise PolicyError("nothing computed from a person's records is masked without a price; name it")
                of = persist.round
                charge = Charge(of.deployment, of.kind, of.number, of.attempt, price.what, price.cost, price.at_worst)
                pay(rows, charge, budget=self._budget(rows), day=day)
            elif persist.stage is Stage.ENTERED:
                _see(rows, day)
            if together is not None:
                together(rows)
            return write_journal(rows, persist)

    def see(self, day: int) -> None:
        """Note that this day has come. StateError if the ledger is damaged."""
        with self._store.transaction() as rows:
            _see(rows, day)

    def how_many_more(self, cost: Spent, *, day: int) -> int:
        """How many releases at this price the budget still covers. Ask before entering a round."""
        with self._store.reading() as rows:
            return rules.how_many_more(_load(rows), cost, budget=self._budget(rows), day=day)

    def ledger(self) -> Ledger:
        with self._store.reading() as rows:
            return _load(rows)

    def account(self, *, day: int) -> Account:
        """What was spent on what, and what is left of the budget."""
        with self._store.reading() as rows:
            return rules.account(_load(rows), budget=self._budget(rows), day=day)

    def _budget(self, rows: Rows) -> Budget:
        return load_budget(rows) if self._fixed_budget is None else self._fixed_budget


def _see(rows: Rows, day: int) -> None:
    if check_ledger(rows) < day:
        seal_ledger(rows, day=day)


def load_budget(rows: Rows) -> Budget:
    """The person's budget, or the default one where none was set."""
    row = rows.execute("SELECT epsilon, delta, period_days FROM budget").fetchone()
    return Budget() if row is None else Budget(*row)


def save_budget(rows: Rows, budget: Budget) -> None:
    """Set the person's budget from now on. What was spent stays spent, whatever the budget."""
    if budget.unit is not Unit.USER:
        raise UsageError("a person's budget is per user: whatever was done, on whatever day, counts together")
    day = check_ledger(rows)
    rows.execute(
        "INSERT OR REPLACE INTO budget VALUES (1, ?, ?, ?)",
        (float(budget.epsilon), float(budget.delta), budget.period_days),
    )
    seal_ledger(rows, day=day)


def load_floor(rows: Rows) -> int:
    """How many devices a sum must be over, for this person; 0: as many as the campaign says."""
    row = rows.execute("SELECT devices FROM own_floor").fetchone()
    return 0 if row is None else int(row[0])


def save_floor(rows: Rows, devices: int) -> None:
    """Take part only in sums over at least so many devices from now on."""
    if not 0 <= devices < 2**31:
        raise UsageError("a floor is a number of devices from 0 up")
    day = check_ledger(rows)
    rows.execute("INSERT OR REPLACE INTO own_floor VALUES (1, ?)", (devices,))
    seal_ledger(rows, day=day)


def pay(rows: Rows, charge: Charge, *, budget: Budget, day: int) -> Verdict:
    """Write the charge if the rules admit it, inside the caller's transaction.

    It is dated with the latest day that this device has seen. Under a clock that was set back it would else be dated so
    early that it falls out of a period when the clock is right again."""
    verdict = rules.admit(_load(rows), charge, budget=budget, day=day)
    if verdict is Verdict.CHARGE:
        latest = max(day, check_ledger(rows))
        cost, local = charge.cost, (0.0, 0.0, Adjacency.ZERO_OUT)  # ε, δ of a local answer: earlier versions had some
        rows.execute(
            f"INSERT INTO spending ({CHARGE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
            (*charge.key, charge.what, cost.unit, latest, cost.grains, *local, _squared(charge.at_worst)),
        )
        seal_ledger(rows, day=latest)
    return verdict


def _load(rows: Rows) -> Ledger:
    # a file that is only read may be an earlier version's, which has no seal, and before that no worst cases
    version: int = rows.execute("PRAGMA user_version").fetchone()[0]
    if version >= SEALED_SINCE:
        check_ledger(rows)
    columns = CHARGE if version >= SEALED_SINCE - 1 else CHARGE.replace("at_worst", "0.0")
    return Ledger(tuple(map(_paid, rows.execute(f"SELECT {columns} FROM spending ORDER BY rowid"))))  # noqa: S608


def _paid(row: tuple[bytes, str, int, int, str, str, int, int, float, float, str, float]) -> LedgerEntry:
    deployment, kind, number, attempt, what, unit_name, day, grains, epsilon, delta, adjacency, at_worst = row
    unit = Unit(unit_name)
    local = (PrivacyLoss(epsilon, unit, delta, Adjacency(adjacency)),) if epsilon or delta else ()
    worst = Spent(ceil(Fraction(at_worst) * GRAINS)) if at_worst else None
    return LedgerEntry(Charge(deployment, kind, number, attempt, what, Spent(grains, local, unit), worst), day)


def _squared(at_worst: Spent | None) -> float:
    """μ² as it is stored: a worst case has more grains than SQLite's integers have room for. 0: not known."""
    return 0.0 if at_worst is None else nextafter(at_worst.grains / GRAINS, inf)  # never less than it is


# --- Reading a ledger from outside, for `prirec privacy ledger` -----------------------------------------------------
# Read only: nothing is created, migrated or written. A query holds the file's shared lock for some milliseconds, and a
# device that commits then waits. The header is read first, without SQLite, which would put two files beside a foreign
# database in write-ahead mode.

_WAIT = 5.0  # seconds for a device to finish a write
_MAGIC, _ROLLBACK_MODE, _HEADER = b"SQLite format 3\0", b"\1\1", 100
_PROBLEMS = {
    sqlite3.SQLITE_BUSY: "is being written; try again in a moment",
    sqlite3.SQLITE_NOTADB: FOREIGN,
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; look at who may read it and its folder",
    sqlite3.SQLITE_READONLY: "was left in the middle of a write, and is put right when its device next opens it; "
    "look again then",
    sqlite3.SQLITE_CORRUPT: DAMAGED,
}


def ledger_in(path: Path) -> Ledger:
    """All that this device was ever charged. StateError, and the file untouched, if it is missing or not a device's."""
    with _explained(path):
        _check_header(path)
        address = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=_WAIT, isolation_level=None)) as rows:
            rows.execute("PRAGMA trusted_schema=OFF")  # a schema in a foreign file must run no code
            _check_version(rows, path)
            return _load(rows)


def _check_header(path: Path) -> None:
    if not path.exists():
        raise StateError(f"there is no file {path.name}; name the file in which a device keeps its journal and ledger")
    if not path.is_file():
        raise StateError(f"{path.name} is not a file; name the file in which a device keeps its journal and ledger")
    with path.open("rb") as file:
        header = file.read(_HEADER)
    if not header:
        raise StateError(f"{path.name} {EMPTY}")
    ours = header[:16] == _MAGIC and header[18:20] == _ROLLBACK_MODE and header[68:72] == APPLICATION.to_bytes(4, "big")
    if not ours:
        raise StateError(f"{path.name} {FOREIGN}")


def _check_version(rows: sqlite3.Connection, path: Path) -> None:
    version: int = rows.execute("PRAGMA user_version").fetchone()[0]
    if version > len(MIGRATIONS):
        raise StateError(
            f"{path.name} has version {version}, this program knows {len(MIGRATIONS)}; get a newer program"
        )
    if version < 1 or rows.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
        raise StateError(f"{path.name} {DAMAGED}")
    if not rows.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'spending'").fetchone()[0]:
        raise StateError(
            f"{path.name} has version {version}, which had no ledger yet; its device adds one when it next opens it"
        )


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """SQLite's errors in words that say what to do; its own texts may quote a row."""
    try:
        yield
    except sqlite3.Error as error:
        problem = _PROBLEMS.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, DAMAGED)
        raise StateError(f"{path.name} {problem}") from None
    except (ValueError, UsageError):  # a row that no ledger would have written
        raise StateError(f"{path.name} {DAMAGED}") from None
    except OSError as error:
        raise StateError(f"{path.name} cannot be read: {error.strerror}") from None
