"""Permanent answers of a device: paid for, kept and only then sent, in one transaction.

The first time, the charge, the answers and nothing else are written together; whatever crashes, a charge and what it
paid for are both there or neither. From then on the answers come from the file, bit for bit, and cost nothing: also
when the person has since added or removed a visit of those days, which a changed answer would show.

The random words follow from a secret that was drawn from the operating system when the file was made. An older copy of
the file that was put back has forgotten the charge, but not the secret: it says the same again as long as the visits
are the same. Whoever has the secret and the answers has the truth, so it never leaves the device and `forget` erases
it. What was answered before that is not answered anew: a second draw about the same would not be paid for.
"""

import sqlite3

import numpy as np

from prirec.device.answer_tables import DRAW_ONCE
from prirec.device.ledger import pay
from prirec.device.store import Store
from prirec.errors import PolicyError, StateError
from prirec.privacy.answers import Asked
from prirec.privacy.ledger import Budget, Verdict
from prirec.types import BoolArray


class AnsweringStore:
    """A store that answers nothing unpaid. `day` is today, in days since 1970, from whoever has a clock."""

    def __init__(self, store: Store, budget: Budget):
        self._store, self.budget = store, budget

    def answer(self, asked: Asked, visited: BoolArray, *, day: int) -> BoolArray:
        """(J,): what may be sent once this returns. `visited` is the truth for each POI, and never leaves the device.

        PolicyError, and nothing written, while the window is open, where the budget does not cover it, or where what
        was answered has been erased."""
        with self._store.transaction() as rows:
            if pay(rows, asked.charge, budget=self.budget, day=day) is Verdict.KNOWN:
                return _given(rows, asked)
            answers = asked.answers(visited, today=day, secret=_secret(rows))
            _keep(rows, asked, answers)
        return answers


def _secret(rows: sqlite3.Connection) -> bytes:
    """This device's own, made anew if it was erased with everything else."""
    rows.execute(DRAW_ONCE)
    value: bytes = rows.execute("SELECT value FROM secrets WHERE name = 'answers'").fetchone()[0]
    return value


def _keep(rows: sqlite3.Connection, asked: Asked, answers: BoolArray) -> None:
    charge = asked.charge
    rows.execute(
        "INSERT INTO answers VALUES (?, ?, ?, ?, ?)",
        (charge.deployment, charge.number, charge.attempt, asked.digest, np.packbits(answers[asked.order]).tobytes()),
    )


def _given(rows: sqlite3.Connection, asked: Asked) -> BoolArray:
    """As they were, in the order in which POIs are named now."""
    charge, many = asked.charge, len(asked.places)
    row = rows.execute(
        "SELECT asked, answers FROM answers WHERE deployment = ? AND number = ? AND attempt = ?",
        (charge.deployment, charge.number, charge.attempt),
    ).fetchone()
    if row is None:
        raise PolicyError(
            f"{asked.what}: they were given before, and have been erased on this device since; to answer anew would "
            "tell more than was paid for, so nothing is sent"
        )
    digest, kept = row
    if digest != asked.digest or len(kept) != (many + 7) // 8:
        raise StateError("another question was paid for under the name of this one; nothing is sent")
    answers = np.empty(many, dtype=np.bool_)
    answers[asked.order] = np.unpackbits(np.frombuffer(kept, dtype=np.uint8), count=many).astype(np.bool_)
    return answers
