"""Public documents and the signed log, as rows. The log only grows, and names nothing that is not there."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec

from prirec.contract.documents import address
from prirec.contract.log import Entry, Head, SignedEntry, Subject
from prirec.errors import StateError, UsageError
from prirec.protocols.codec import encode
from prirec.protocols.statements import digest
from prirec.recommender.database import Rows

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


def last(rows: Rows, subject: Subject) -> Entry | None:
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
