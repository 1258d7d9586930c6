"""Charges for local answers (randomised response), as programs wrote them up to version 4 of a device's file.

No program writes such rows any more; a person's ledger still counts them.
"""

import sqlite3

from prirec.device.store import check_ledger, seal_ledger
from prirec.privacy.accountant import Adjacency, PrivacyLoss, Unit, local_loss


def charge_answer(
    rows: sqlite3.Connection, number: int = 1, *, loss: PrivacyLoss | None = None, what: str = "visited in June",
    day: int = 100, grains: int = 0, deployment: bytes = bytes(16),
) -> None:  # fmt: skip
    """One row of `spending`; by default an answer with ε = 0.25 per user."""
    loss = loss or local_loss(0.25, Unit.USER)
    latest = check_ledger(rows)
    rows.execute(
        "INSERT INTO spending VALUES (?, 'visited', ?, 0, ?, ?, ?, ?, ?, ?, ?, 0.0)",
        (deployment, number, what, loss.unit, day, grains, loss.epsilon, loss.delta, Adjacency(loss.adjacency)),
    )
    seal_ledger(rows, day=latest)
