"""A double beside each device: a second file with the same person, which nothing ever happens to. Whatever the device
adds to a sum, the double works out by itself."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copyfile

import numpy as np

from prirec.device.ledger import LedgerStore
from prirec.device.person import Person
from prirec.device.records import encode_records
from prirec.device.rounds import gradient_vector, moments_vector, visited_places, visits_vector
from prirec.device.store import Store, save_visit_contribution
from prirec.privacy.accountant import Spent, total
from prirec.privacy.ledger import Budget, Ledger, fits
from prirec.recommender.release import Catalogue
from prirec.types import RingArray
from prirec.wire.campaign import SPAN
from prirec.wire.regions import KnownPlaces
from support.cities import same_bits
from support.observer import ViolationError
from support.recomputed_campaign import Course, Recomputed

Learnt = tuple[str, int, int]  # kind, number, attempt


def changes_of(path: Path) -> bytes:
    """How often transactions have changed a file, as SQLite counts it in bytes 24 to 27 of the header, and whether one
    is under way or was cut off. Not for a file that this process is writing: closing it undoes its locks."""
    with path.open("rb") as file:
        header = file.read(28)
    if header[18:20] != b"\1\1":
        raise ViolationError("a device's file has a write-ahead log, which does not count its changes")
    return header[24:] + bytes([path.with_name(f"{path.name}-journal").exists()])


@dataclass
class Double:
    """Looks at the device's file after each of its steps, and at nothing else of the device."""

    path: Path  # the device's file
    person: Person  # its own
    budget: Budget
    public: Recomputed = field(repr=False)
    _paid: int = 0  # rows of the ledger that were looked at
    _seen: tuple[bytes, int] = (b"", 0)  # the file's count of its changes, and campaigns, at the last look

    @classmethod
    def beside(cls, path: Path, *, budget: Budget, public: Recomputed) -> "Double":
        copyfile(path, own := path.with_name(f"{path.name}-double"))
        return cls(path, Person(Store.open(own)), budget, public)

    @property
    def name(self) -> bytes:
        member = self.person.membership()
        assert member is not None
        return member.name

    def look(self) -> None:
        """What the device has added to a sum since, and paid for, is what its person's records come to."""
        now = changes_of(self.path), len(self.public.courses)
        if now == self._seen:
            return
        with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as rows:
            query = "SELECT kind, number, attempt FROM spending ORDER BY rowid LIMIT -1 OFFSET ?"
            for paid in rows.execute(query, (self._paid,)).fetchall():
                self._paid += 1
                self._compare(rows, *paid)
            masked = rows.execute("SELECT count(*) FROM rounds WHERE masked = 1").fetchone()[0]
            if masked != self._paid:
                raise ViolationError(f"a device has masked {masked} vectors and paid for {self._paid}")
        self._seen = now

    def _compare(self, rows: sqlite3.Connection, kind: str, number: int, attempt: int) -> None:
        expected = self._vector(self.public.courses[number // SPAN], kind, number % SPAN)
        query = "SELECT 1 FROM zeros WHERE (kind, number, attempt) = (?, ?, ?)"
        if rows.execute(query, (kind, number, attempt)).fetchone() is not None:
            expected = np.zeros_like(expected)
        if not same_bits(self.public.witness.vectors[self.name, kind, number, attempt], expected):
            raise ViolationError("what a device has added to a sum is not what its records come to")

    def _vector(self, course: Course, kind: str, iteration: int) -> RingArray:
        campaign, known = course.campaign, self._known(course)
        if kind == "popularity":
            given = visited_places(self.person, campaign, known)
            with self.person.store.transaction() as rows:
                save_visit_contribution(rows, campaign.name, given)
            return visits_vector(given, campaign)
        records = encode_records(self.person, campaign, known)
        if kind == "moments":
            return moments_vector(records, campaign)
        return gradient_vector(records, campaign, course.shared[iteration])

    def _known(self, course: Course) -> KnownPlaces:
        """Everything: what a device learns does not depend on places that it has nothing to do with."""
        campaign = course.campaign
        manifest = campaign.charter.manifest if campaign.edition is None else campaign.edition.manifest
        return Catalogue.read(manifest, self._document, basis=campaign).known

    def _document(self, name: bytes) -> bytes:
        return self.public.store.document(name) or b""

    def account(self, on_the_wire: Callable[[bytes], set[Learnt]]) -> None:
        """Of all its life: one charge for each masked vector, none beyond the budget, and nothing sent unpaid."""
        with closing(Store.open(self.path)) as store:
            ledger = LedgerStore(store, self.budget).ledger()
            with store.reading() as rows:
                masked = set(rows.execute("SELECT kind, number, attempt FROM rounds WHERE masked = 1"))
        paid = [(one.charge.kind, one.charge.number, one.charge.attempt) for one in ledger.entries]
        if len(set(paid)) != len(paid) or set(paid) != masked or not on_the_wire(self.name) <= set(paid):
            raise ViolationError("what a device has masked, paid for and sent is not the same")
        if not all(fits(spent, self.budget) for spent in self._windows(ledger)):
            raise ViolationError("a device has overspent")

    def _windows(self, ledger: Ledger) -> Iterator[Spent]:
        """What was spent in all, or in any so many days in a row."""
        period = self.budget.period_days
        if period is None:
            yield ledger.spent(self.budget)
            return
        for first in {one.day for one in ledger.entries}:
            yield total(one.charge.cost for one in ledger.entries if first <= one.day < first + period)
