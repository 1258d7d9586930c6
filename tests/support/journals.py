"""Rounds as a journal on disk keeps them, and what the rules say is held of them."""

from prirec.device.store import MIGRATIONS, Store
from prirec.protocols.journal import JournalEntry, entry
from prirec.protocols.messages import Round
from prirec.protocols.party import Persist, Stage

ONE, OTHER = b"\1" * 32, b"\2" * 32
VECTOR = b"a masked vector, sealed"
LEDGER = (*MIGRATIONS, ("CREATE TABLE charges (amount INTEGER NOT NULL)",))
PRESENT = len(MIGRATIONS)


def of(number: int = 5, *, attempt: int = 0, group: int = 3, kind: str = "moments") -> Round:
    return Round(bytes(16), kind, number, group, attempt)


def life(number: int) -> list[Persist]:
    """A member's whole round."""
    return [
        Persist(of(number), Stage.ENTERED, ONE),
        Persist(of(number), Stage.MASKED, OTHER, VECTOR * 500),
        Persist(of(number), Stage.AGREED, ONE),
        Persist(of(number), Stage.REVEALED, ONE),
        Persist(of(number), Stage.OPENED, ONE),
    ]


def after(writes: list[Persist]) -> dict[int, JournalEntry]:
    """What the rules say is held of each number."""
    held: dict[int, JournalEntry] = {}
    for one in writes:
        held[one.round.number] = entry(one, held=held.get(one.round.number))
    return held


def holds(store: Store, numbers: range) -> dict[int, JournalEntry]:
    return {number: one for number in numbers if (one := store.entry(of(number))) is not None}


def charges(store: Store) -> int:
    """How many rows are in the table that `LEDGER` adds."""
    with store.transaction() as rows:
        return int(rows.execute("SELECT count(*) FROM charges").fetchone()[0])


def resent(store: Store, of: Round) -> bytes | None:
    """The masked vector of exactly this round and attempt, while it may be sent again."""
    found = store.entry(of)
    if found is None or found.round != of or found.stage is not Stage.MASKED:
        return None
    return found.payload or None


def last_number(store: Store, deployment: bytes, kind: str) -> int | None:
    """The highest round number of this kind that a device has entered."""
    with store.reading() as rows:
        found = rows.execute("SELECT max(number) FROM rounds WHERE deployment = ? AND kind = ?", (deployment, kind))
        number: int | None = found.fetchone()[0]
    return number
