"""A person's linear models W_i, one for each campaign, and what the device added to a campaign's sum of visits.

Both are written in the transaction that masks what was computed from them (device/ledger.py): a crash leaves the model
and the round where they were, or both behind. None of it leaves the device.
"""

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from prirec.device.database import DAMAGED
from prirec.errors import StateError, UsageError
from prirec.types import OffsetArray, RealArray


@dataclass(frozen=True, slots=True)
class Kept:
    """W_i with so many rounds of a campaign behind it."""

    campaign: bytes  # the charter's name
    iteration: int
    linear: RealArray = field(repr=False)  # (D + 1,)
    mean: bytes = b""  # the name of the cohort's mean that it took last; empty: none yet


@dataclass(frozen=True, slots=True)
class Visited:
    """What this device added to a sum of visits, in whole numbers of 2^-f: where is private, as visits are."""

    places: OffsetArray = field(repr=False)  # (n,), rows of the catalogue, ascending
    whole: OffsetArray = field(repr=False)  # (n,)


def save_model(rows: sqlite3.Connection, kept: Kept) -> None:
    """StateError if a model with as many rounds behind it is held: nobody learns from a round twice."""
    if kept.linear.ndim != 1 or not np.isfinite(kept.linear).all():
        raise UsageError("a linear model is a vector of finite numbers")
    held = rows.execute("SELECT iteration FROM models WHERE campaign = ?", (kept.campaign,)).fetchone()
    if held is not None and held[0] >= kept.iteration:
        raise StateError("this device has learnt in that round already, or in a later one")
    linear = kept.linear.astype("<f8").tobytes()
    rows.execute(
        "INSERT OR REPLACE INTO models (campaign, iteration, linear, mean) VALUES (?, ?, ?, ?)",
        (kept.campaign, kept.iteration, linear, kept.mean),
    )


def held_model(rows: sqlite3.Connection, campaign: bytes) -> Kept | None:
    row = rows.execute("SELECT iteration, linear, mean FROM models WHERE campaign = ?", (campaign,)).fetchone()
    return None if row is None else Kept(campaign, row[0], _vector(row[1]), row[2])


def drop_models(rows: sqlite3.Connection, *, keeping: Iterable[bytes]) -> None:
    """What belongs to any other campaign than these is gone."""
    wanted = set(keeping)
    for table in ("models", "given"):
        for (campaign,) in rows.execute(f"SELECT DISTINCT campaign FROM {table}").fetchall():  # noqa: S608
            if campaign not in wanted:
                rows.execute(f"DELETE FROM {table} WHERE campaign = ?", (campaign,))  # noqa: S608


def save_given(rows: sqlite3.Connection, campaign: bytes, visited: Visited) -> None:
    """Written when the vector is masked: it may then be in the sum, so it is what is left out of it (decisions/0006).

    Visits that come later are in no sum of this campaign, and nothing is left out for them."""
    drop_given(rows, campaign)
    lines = zip(visited.places.tolist(), visited.whole.tolist(), strict=True)
    rows.executemany("INSERT INTO given VALUES (?, ?, ?)", ((campaign, place, whole) for place, whole in lines))


def held_given(rows: sqlite3.Connection, campaign: bytes) -> Visited:
    """Nothing, for a device that took no part."""
    found = rows.execute("SELECT place, whole FROM given WHERE campaign = ? ORDER BY place", (campaign,)).fetchall()
    pairs = np.array(found, dtype=np.int64).reshape(-1, 2)
    return Visited(pairs[:, 0].copy(), pairs[:, 1].copy())


def drop_given(rows: sqlite3.Connection, campaign: bytes) -> None:
    """The sum was opened without this device: there is nothing of it in there."""
    rows.execute("DELETE FROM given WHERE campaign = ?", (campaign,))


def _vector(data: bytes) -> RealArray:
    if len(data) % 8:
        raise StateError(f"the device's file {DAMAGED}")
    return np.frombuffer(data, dtype="<f8").astype(np.float64)
