"""The deployment that a device belongs to: whom it trusts, who it is there, and how far it has followed the log."""

import sqlite3
from dataclasses import dataclass, field

from prirec.contract.log import Head
from prirec.device.values import checked_name
from prirec.errors import StateError, UsageError
from prirec.sharing.keys import KEY, SigningKey

_COLUMNS = "deployment, url, authority, recommender, title, cell, identity, enrolled, length, last"


@dataclass(frozen=True, slots=True)
class Membership:
    """One device has one. The recommender's key is pinned when it is made; the secret is the device's alone."""

    deployment: bytes
    url: str
    recommender: bytes  # its public key
    title: str
    cell: int = field(repr=False)  # as the device chose to tell it; 0 is none
    secret: bytes = field(repr=False)
    authority: bytes = b""  # PEM of whoever vouches for the server; empty: those that the system trusts
    enrolled: bool = False  # whether the recommender has said so
    head: Head = field(default_factory=Head)

    @property
    def identity(self) -> SigningKey:
        return SigningKey(self.secret)

    @property
    def name(self) -> bytes:
        """What everybody there knows the device by."""
        return self.identity.public


def save_membership(rows: sqlite3.Connection, new: Membership) -> None:
    """StateError if the device belongs somewhere already: it leaves first."""
    if held_membership(rows) is not None:
        raise StateError("this device belongs to a deployment already; let it leave that one first")
    _check(new)
    rows.execute(
        f"INSERT INTO membership (only_one, {_COLUMNS}) VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
        (
            *(new.deployment, new.url, new.authority, new.recommender, new.title, new.cell.to_bytes(8, "big")),
            *(new.secret, new.enrolled, new.head.length, new.head.last),
        ),
    )


def held_membership(rows: sqlite3.Connection) -> Membership | None:
    row = rows.execute(f"SELECT {_COLUMNS} FROM membership").fetchone()  # noqa: S608
    if row is None:
        return None
    deployment, url, authority, recommender, title, cell, secret, enrolled, length, last = row
    return Membership(
        deployment=deployment,
        url=url,
        recommender=recommender,
        title=title,
        cell=int.from_bytes(cell, "big"),
        secret=secret,
        authority=authority,
        enrolled=bool(enrolled),
        head=Head(length, last),
    )


def save_enrolled(rows: sqlite3.Connection) -> None:
    """The recommender has taken the device in."""
    _one(rows.execute("UPDATE membership SET enrolled = 1"))


def save_head(rows: sqlite3.Connection, head: Head) -> None:
    """How far the log was checked; it is never gone back, or a recommender could tell its story anew."""
    _one(
        rows.execute(
            "UPDATE membership SET length = ?, last = ? WHERE length < ? OR (length = ? AND last = ?)",
            (head.length, head.last, head.length, head.length, head.last),
        )
    )


def _one(done: sqlite3.Cursor) -> None:
    if done.rowcount != 1:
        raise StateError("this device belongs to no deployment, or knows more of its log than that")


def _check(new: Membership) -> None:
    checked_name(new.url, what="the address of a recommender")
    if new.title:
        checked_name(new.title, what="the title of a deployment")
    wrong = len(new.deployment) != 16 or len(new.recommender) != KEY or len(new.secret) != KEY
    if wrong or not 0 <= new.cell < 2**64 or len(new.title) > 200:
        raise UsageError("a deployment has 16 bytes, keys have 32, a cell has 64 bits, a title up to 200 characters")
