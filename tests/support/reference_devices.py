"""A double beside each device: a second file with the same person, which nothing ever happens to. It learns whenever
the device must have learnt, and comes to the same linear model."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copyfile

import numpy as np

from prirec.device.ledger import LedgerStore
from prirec.device.person import Person
from prirec.device.records import Records, encode_records
from prirec.device.rounds import initial_model, learn, visited_places
from prirec.device.store import Store, load_model, save_visit_contribution
from prirec.privacy.accountant import Spent, total
from prirec.privacy.ledger import Budget, Ledger, fits
from prirec.protocols import terms as noise
from prirec.recommender.release import Catalogue
from prirec.types import RealArray
from prirec.wire.campaign import SPAN
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
    linear: dict[int, RealArray] = field(default_factory=dict)  # W_i by campaign
    _records: dict[int, Records] = field(default_factory=dict)
    _learnt: dict[int, int] = field(default_factory=dict)  # rounds behind, by campaign
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
        """What the device has paid for since, it has learnt from; and its model is the double's."""
        now = changes_of(self.path), len(self.public.courses)
        if now == self._seen:
            return
        with closing(sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)) as rows:
            new = rows.execute("SELECT kind, number FROM spending ORDER BY rowid LIMIT -1 OFFSET ?", (self._paid,))
            for kind, number in new.fetchall():
                self._paid += 1
                self._follow(kind, number)
            masked = rows.execute("SELECT count(*) FROM rounds WHERE masked = 1").fetchone()[0]
            if masked != self._paid:
                raise ViolationError(f"a device has masked {masked} vectors and paid for {self._paid}")
            if self.public.courses:
                self._compare(rows, self.public.course)
        self._seen = now

    def _follow(self, kind: str, number: int) -> None:
        if kind == "popularity":
            course = self.public.courses[number // SPAN]
            given = visited_places(self.person, course.campaign, self._known(course))
            with self.person.store.transaction() as rows:
                save_visit_contribution(rows, course.campaign.name, given)
            self._records.pop(number // SPAN, None)
        elif kind == "interaction":
            self._learn(number)

    def _learn(self, number: int) -> None:
        """Steps (c) and (d) of the round, as learning.py has them; once, in whatever attempt."""
        course, t, taught = self.public.taught(number)
        at, cohort = number // SPAN, course.cohort[self.name]
        if self._learnt.get(at, 0) > t:
            return
        if at not in self._records:
            self._records[at] = encode_records(self.person, course.campaign, self._known(course))
        mean = taught.means[cohort] if cohort in taught.opened else None
        linear = self.linear.get(at, initial_model(course.campaign))
        self.linear[at] = learn(
            self._records[at], course.campaign, linear=linear, interaction=taught.V, iteration=t, mean=mean
        ).linear
        self._learnt[at] = t + 1

    def _compare(self, rows: sqlite3.Connection, course: Course) -> None:
        at = course.campaign.charter.campaign
        held = load_model(rows, course.campaign.name)
        if held is not None and held.iteration != self._learnt.get(at):
            number = at * SPAN + held.iteration - 1
            if self.budget.period_days is None and self._could_pay(course):
                raise ViolationError("a device has learnt from a round that it did not pay for, and could have")
            self._learn(number)  # alone
        if (held is None) != (at not in self.linear) or not same_bits(
            np.zeros(0) if held is None else held.linear, self.linear.get(at, np.zeros(0))
        ):
            raise ViolationError("a device's linear model is not what its rounds come to")

    def _could_pay(self, course: Course) -> bool:
        terms = course.campaign.interaction(0, V=course.V).terms
        with closing(Store.open(self.path)) as store:
            paid = LedgerStore(store, self.budget)
            return paid.how_many_more(noise.privacy_cost(terms, norm=course.campaign.norm("interaction")), day=0) > 0

    def _known(self, course: Course):  # type: ignore[no-untyped-def]
        """Everything: what a device learns does not depend on places that it has nothing to do with."""
        campaign = course.campaign
        manifest = campaign.charter.manifest if campaign.edition is None else campaign.edition.manifest
        return Catalogue.read(manifest, self._document, campaign=campaign).known

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
