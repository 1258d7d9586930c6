"""All that the recommender must not forget, for any number of workers on one database.

Each method is one transaction, or looks without waiting for anybody. What is in the tables, who writes it and when it
is deleted stands in schema.py; the rules of a round in protocols/journal.py. A worker may die at any moment: a sum that
was opened was written together with everything that follows from it (`advance`), and a round that was still open is
given up by whoever takes the lease next. `holder` is the lease under which something is written: with it, a worker
that lost the lease without noticing writes nothing any more.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from prirec.contract import log
from prirec.contract.documents import Line
from prirec.contract.wire import Letter
from prirec.errors import StateError
from prirec.protocols.actions import Persist, Stage
from prirec.protocols.journal import ConflictError, Entry
from prirec.protocols.messages import Round
from prirec.recommender import store_conducting, store_log, store_mail, store_people, store_rounds
from prirec.recommender.database import Database, Migrations, Rows
from prirec.recommender.schema import MIGRATIONS
from prirec.recommender.store_conducting import ANYTHING, Counts, LeaseLostError, OvertakenError
from prirec.recommender.store_mail import Incoming
from prirec.recommender.store_people import Founding
from prirec.recommender.store_rounds import FINAL

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
            store_people.found(rows, founding)

    def founding(self) -> Founding:
        """StateError if there is none."""
        with self._database.reading() as rows:
            return store_people.founding(rows)

    def seal_anew(self, token_key: bytes) -> None:
        """Another key for sessions. Workers read it when they start."""
        with self._database.transaction() as rows:
            store_people.seal_anew(rows, token_key)

    def enrol(self, name: bytes, cell: int, *, day: int) -> None:
        """Again is the same, and may change the cell: for campaigns that begin from then on."""
        with self._database.transaction() as rows:
            store_people.enrol(rows, Line(name, cell), day=day)

    def enrolled(self, name: bytes) -> bool:
        with self._database.reading() as rows:
            return store_people.enrolled(rows, name)

    def leave(self, name: bytes) -> None:
        with self._database.transaction() as rows:
            store_people.leave(rows, name)

    def people(self) -> list[Line]:
        """Everyone who has enrolled, by name."""
        with self._database.reading() as rows:
            return store_people.people(rows)

    def counts(self) -> Counts:
        with self._database.reading() as rows:
            return store_conducting.counts(rows)

    # Documents and the log

    def put(self, documents: Iterable[tuple[bytes, bytes]]) -> None:
        """Documents by name, as contract.documents.written gives them."""
        with self._database.transaction() as rows:
            store_log.put(rows, documents)

    def document(self, name: bytes) -> bytes | None:
        with self._database.reading() as rows:
            return store_log.document(rows, name)

    def head(self) -> log.Head:
        with self._database.reading() as rows:
            return store_log.head(rows)

    def entries(self, after: int, most: int = log.MOST) -> list[log.SignedEntry]:
        """For somebody who knows `after` entries: those from that index on."""
        with self._database.reading() as rows:
            return store_log.entries(rows, after, most)

    def last(self, subject: log.Subject) -> log.Entry | None:
        with self._database.reading() as rows:
            return store_log.last(rows, subject)

    # Messages and letters

    def hand_in(self, items: Sequence[Incoming], *, arrived: Sequence[tuple[bytes, int]] = ()) -> list[bool]:
        """One transaction for the batch, with what has `arrived` thrown away in it. For each whether its round is
        open and its sender was invited to it; where not, the message was not kept."""
        if not items and not arrived:
            return []
        with self._database.transaction() as rows:
            store_mail.throw_away(rows, arrived)
            return store_mail.hand_in(rows, items)

    def incoming(self, after: int, most: int) -> list[tuple[int, bytes]]:
        """Messages that were handed in after this number, in order, each with its own."""
        with self._database.reading() as rows:
            return store_mail.incoming(rows, after, most)

    def deliver(
        self, letters: Sequence[tuple[bytes, Round, bytes]], *, persists: Sequence[Persist] = (),
        inviting: Sequence[tuple[bytes, Round]] = (), masking: Iterable[Round] = (), holder: bytes | None = None,
    ) -> int:  # fmt: skip
        """(receiver, round, body) each, in one transaction, after what must be in the journal before they are sent.
        Those whom it is `inviting` may hand in messages for that round; `masking` are the rounds in which whoever gets
        a letter may mask a vector. Returns the number of the first letter; the others follow it.

        StateError, and none delivered, if a round is not open."""
        with self._transaction(holder) as rows:
            store_rounds.settle_all(rows, persists)
            store_rounds.masking(rows, masking)
            store_mail.invite(rows, inviting)
            first = store_mail.deliver(rows, letters)
        self._tidy(persists)
        return first

    def letters(self, receiver: bytes, after: int, most: int) -> list[Letter]:
        with self._database.reading() as rows:
            return store_mail.letters(rows, receiver, after, most)

    def receivers_since(self, number: int) -> tuple[int, set[bytes]]:
        """The number of the latest letter, and whom there are letters for after the one given."""
        with self._database.reading() as rows:
            return store_mail.receivers_since(rows, number)

    def throw_away(self, receiver: bytes, up_to: int) -> None:
        with self._database.transaction() as rows:
            store_mail.throw_away(rows, [(receiver, up_to)])

    # Rounds

    def write(self, persist: Persist, *, holder: bytes | None = None) -> Entry:
        """What is held once this is on disk. StateError where the rules refuse it; a conflict burns the round first."""
        with self._transaction(holder) as rows:
            entry = store_rounds.settle(rows, persist)
        self._tidy([persist])
        return entry

    def advance(
        self,
        *,
        progress: bytes | None,
        before: bytes | None = ANYTHING,
        entries: store_log.Entries = (),
        documents: Iterable[tuple[bytes, bytes]] = (),
        persists: Sequence[Persist] = (),
        over: Sequence[Round] = (),
        holder: bytes | None = None,
    ) -> None:
        """An opened sum and all that follows from it, in one transaction: on disk together or not at all. `before` is
        the progress that it follows from, and the entries may be signed for the log as it is then.

        StateError, and nothing written, where the journal's rules or the log refuse a part of it."""
        with self._transaction(holder) as rows:
            store_conducting.expect(rows, before)
            store_rounds.settle_all(rows, persists)
            store_log.put(rows, documents)
            store_log.append(rows, entries)
            for of in over:
                store_rounds.close_round(rows, of)
            if progress is not None:  # else it stays as it is
                store_conducting.note(rows, progress)
        self._tidy(persists, over=bool(over))

    def progress(self) -> bytes | None:
        with self._database.reading() as rows:
            return store_conducting.progress(rows)

    def progress_since(self, changes: int) -> tuple[int, bytes | None]:
        """How often the progress was changed, ever; and the progress itself, where that is not as often as was known
        already. A look costs the same however large it is."""
        with self._database.reading() as rows:
            return store_conducting.progress_since(rows, changes)

    def open_rounds(self) -> list[Round]:
        """Not opened, not burnt; in the order in which they were entered."""
        with self._database.reading() as rows:
            return store_rounds.open_rounds(rows)

    def rounds(self, most: int) -> list[Entry]:
        """The rounds that were entered last, the newest first."""
        with self._database.reading() as rows:
            return store_rounds.latest(rows, most)

    def lease(self, holder: bytes, seconds: float) -> bool:
        """Takes or renews the right to conduct rounds; False while another holds it."""
        with self._database.transaction() as rows:
            return store_conducting.lease(rows, holder, seconds)

    def release(self, holder: bytes) -> None:
        with self._database.transaction() as rows:
            store_conducting.release(rows, holder)

    @contextmanager
    def _transaction(self, holder: bytes | None) -> Iterator[Rows]:
        """All or nothing, durable when it is left. After a conflict: nothing of it, but the round burnt."""
        try:
            with self._database.transaction() as rows:
                store_conducting.fence(rows, holder)
                yield rows
        except ConflictError as conflict:
            with self._database.transaction() as rows, suppress(StateError):  # one that is over is not burnt any more
                store_rounds.settle(rows, Persist(conflict.round, Stage.BURNT, bytes(32)))
            raise

    def _tidy(self, persists: Sequence[Persist] = (), *, over: bool = False) -> None:
        """Boxes and shares are not kept after use, not even in a file's log."""
        if over or any(persist.stage in FINAL for persist in persists):
            self._database.tidy()
