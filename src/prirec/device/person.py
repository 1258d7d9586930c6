"""A person's own data on their own device: what describes them, where they live, where they were. None of it leaves.

What a recommender ever gets is computed from it by device/learning.py, and goes masked and noisy into sums.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any, cast

from prirec.data.schema import RESERVED
from prirec.device.exporting import exported
from prirec.device.membership import Membership, held_membership, save_membership
from prirec.device.models import Kept, Visited, held_given, held_model
from prirec.device.shelf import held_document
from prirec.device.store import Store, give_up
from prirec.device.tables import OF_DEPLOYMENT, OF_PERSON
from prirec.device.values import Given, checked_name, checked_point, checked_values, to_json, value_from
from prirec.device.visits import Visit, held_visits, save_visit
from prirec.features.told import Value

Point = tuple[float, float]  # latitude, longitude in degrees


class Person:
    """Over the device's file. What is refused is refused before anything is written, in words that repeat none of it.

    What must be true together with a round joins that round's transaction, through functions of its rows: models.py,
    membership.py, shelf.py."""

    def __init__(self, store: Store) -> None:
        self.store = store

    # what describes the person

    def profile(self) -> dict[str, Value]:
        with self.store.reading() as rows:
            return {
                name: value_from(data) for name, data in rows.execute("SELECT name, value FROM profile ORDER BY name")
            }

    def set_profile(self, values: Mapping[str, Given | None]) -> None:
        """Sets these and leaves the others; what is None is forgotten."""
        gone = [_name(name) for name, value in values.items() if value is None]
        kept = checked_values(
            {name: value for name, value in values.items() if value is not None},
            what="the name of a person's column",
            reserved=RESERVED["users"],
        )
        with self.store.transaction() as rows:
            rows.executemany("DELETE FROM profile WHERE name = ?", ((name,) for name in gone))
            rows.executemany(
                "INSERT OR REPLACE INTO profile VALUES (?, ?)", ((name, to_json(one)) for name, one in kept.items())
            )

    def home(self) -> Point | None:
        """Where the person said to live; the device works it out from visits where nothing was said."""
        with self.store.reading() as rows:
            found: Point | None = rows.execute("SELECT lat, lon FROM home").fetchone()
            return found

    def set_home(self, home: Point | None) -> None:
        point = None if home is None else checked_point(*home)
        with self.store.transaction() as rows:
            rows.execute("DELETE FROM home")
            if point is not None:
                rows.execute("INSERT INTO home VALUES (1, ?, ?)", point)

    # visits

    def record_visit(
        self, place: str, *, time: int | None = None, label: int = 1,
        context: Mapping[str, Given] | None = None, id: str | None = None,  # noqa: A002
    ) -> bool:  # fmt: skip
        """Whether it is new: the same visit told again is the same visit."""
        told = cast("Mapping[str, Value]", context or {})  # looked at when it is saved
        return self.record_visits([Visit(place, time, label, told, id)]) == 1

    def record_visits(self, visits: Iterable[Visit]) -> int:
        """All of them or none, durable when this returns; how many are new."""
        told = list(visits)  # whatever they come from is not waited for while others are locked out
        with self.store.transaction() as rows:
            return sum(save_visit(rows, visit) for visit in told)

    def visits(self) -> tuple[Visit, ...]:
        """By time, then as they came."""
        with self.store.reading() as rows:
            return held_visits(rows)

    def labelled(self) -> bool:
        """Whether visits tell what was ignored, too. Where they do not, the device draws negatives of its own. As it
        was said; where nothing was said, whether there is such a visit."""
        with self.store.reading() as rows:
            said = rows.execute("SELECT so FROM labelled").fetchone()
            shown = rows.execute("SELECT EXISTS (SELECT 1 FROM visits WHERE label < 0)").fetchone()
            return bool((said or shown)[0])

    def set_labelled(self, *, so: bool) -> None:
        """Said once by whoever records the visits: an app that shows places and knows which of them were ignored."""
        with self.store.transaction() as rows:
            rows.execute("INSERT OR REPLACE INTO labelled VALUES (1, ?)", (bool(so),))

    def remove_visit(self, id: str) -> bool:  # noqa: A002
        """Whether there was one. What was learnt from it stays in the model until the next campaign begins anew."""
        with self.store.transaction() as rows:
            return rows.execute("DELETE FROM visits WHERE id = ?", (_name(id),)).rowcount == 1

    # where the device belongs, and what it has from there

    def membership(self) -> Membership | None:
        with self.store.reading() as rows:
            return held_membership(rows)

    def join(self, membership: Membership) -> None:
        """StateError if the device belongs somewhere already."""
        with self.store.transaction() as rows:
            save_membership(rows, membership)

    def leave(self) -> None:
        """The device is nobody there any more, and what it had from there is gone, vectors that it masked for a sum
        there included; the person's own data stay."""
        with self.store.transaction() as rows:
            _empty(rows, OF_DEPLOYMENT)
            give_up(rows)

    def model(self, campaign: bytes) -> Kept | None:
        with self.store.reading() as rows:
            return held_model(rows, campaign)

    def given(self, campaign: bytes) -> Visited:
        """What this device added to a campaign's sum of visits."""
        with self.store.reading() as rows:
            return held_given(rows, campaign)

    def document(self, name: bytes) -> bytes | None:
        with self.store.reading() as rows:
            return held_document(rows, name)

    # all of it

    def export(self) -> dict[str, Any]:
        """Everything that the file holds on the person, ready for JSON, for the person's eyes; no secret key."""
        with self.store.reading() as rows:
            return exported(rows)

    def forget(self) -> None:
        """Erases all of it, copies of older versions included. What was spent is not refunded, and rounds that were
        entered stay entered: ledger and journal are kept."""
        with self.store.transaction() as rows:
            _empty(rows, OF_DEPLOYMENT + OF_PERSON)
            give_up(rows)
        self.store.erase_copies()


def _empty(rows: sqlite3.Connection, tables: Iterable[str]) -> None:
    for table in tables:
        rows.execute(f"DELETE FROM {table}")  # noqa: S608


def _name(name: object) -> str:
    return checked_name(name, what="a name")
