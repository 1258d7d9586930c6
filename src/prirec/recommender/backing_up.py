"""A copy of a store that is one file, made while the service goes on.

What waits to be delivered or heard is left out of it: boxes and shares are not kept after use, and a copy would keep
them. Whoever starts from the copy burns the rounds that were open, so nobody will miss them.
"""

from contextlib import closing
from pathlib import Path

from prirec import sqlite
from prirec.errors import StateError, UsageError
from prirec.recommender.database_sqlite import DAMAGED, connected


def back_up(store: Path, target: Path) -> int:
    """Copies a store to a new file, for its owner alone; how long the log is in there.

    UsageError if there is such a file already. In place only when it is whole and durable."""
    if target.exists():
        raise UsageError(f"{target.name} is there already; name another file: a copy is not written over an older one")
    made = target.with_name(f"{target.name}.unsifted")
    with sqlite.explained(target, damaged=DAMAGED):
        try:
            sqlite.back_up(store, made, connected=connected)
            entries = _sift(made)
            made.replace(target)
        except BaseException:
            made.unlink(missing_ok=True)
            raise
        sqlite.sync(target.absolute().parent)
    return entries


def _sift(copy: Path) -> int:
    with closing(connected(copy)) as rows:
        for table in ("mail", "inbox", "invited", "lease"):  # who conducts the original does not conduct the copy
            rows.execute(f"DELETE FROM {table}")  # noqa: S608
        rows.execute("PRAGMA journal_mode=DELETE")  # one file, and none beside it
        if rows.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise StateError(f"the store {DAMAGED}")
        entries: int = rows.execute("SELECT count(*) FROM log").fetchone()[0]
        return entries
