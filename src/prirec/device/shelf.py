"""Public documents that a device has fetched: whatever is named by its hash need not be asked for again."""

import sqlite3
from collections.abc import Collection, Iterable

from prirec.contract.documents import address


def save_documents(rows: sqlite3.Connection, bodies: Iterable[bytes]) -> None:
    rows.executemany("INSERT OR IGNORE INTO documents VALUES (?, ?)", ((address(body), body) for body in bodies))


def held_document(rows: sqlite3.Connection, name: bytes) -> bytes | None:
    """Its bytes, as they were fetched; contract.documents.read looks whether they are still those."""
    row = rows.execute("SELECT body FROM documents WHERE name = ?", (name,)).fetchone()
    return None if row is None else bytes(row[0])


def held_names(rows: sqlite3.Connection) -> frozenset[bytes]:
    return frozenset(name for (name,) in rows.execute("SELECT name FROM documents"))


def prune_documents(rows: sqlite3.Connection, *, keeping: Collection[bytes]) -> int:
    """Drops all others; how many those were. A device keeps what its last publication and its campaign name."""
    others = held_names(rows) - set(keeping)
    rows.executemany("DELETE FROM documents WHERE name = ?", ((name,) for name in others))
    return len(others)
