"""Who founded the deployment and who has enrolled, as rows."""

from dataclasses import dataclass, field
from typing import TypeVar

from prirec.contract.documents import Line
from prirec.errors import StateError
from prirec.protocols.messages import Part
from prirec.recommender.database import Rows

_Kind = TypeVar("_Kind", bound=Part)


@dataclass(frozen=True, slots=True)
class Founding:
    """A deployment: its public name and title, and the recommender's secrets."""

    deployment: bytes  # 16 bytes
    identity: bytes = field(repr=False)  # 32 bytes: the secret half of the recommender's name
    token_key: bytes = field(repr=False)  # 32 bytes: sessions are sealed with it, by any worker
    title: str


def found(rows: Rows, founding: Founding) -> None:
    if rows.one("SELECT 1 FROM founding") is not None:
        raise StateError("a deployment was founded in this store before; name another one for a new deployment")
    values = (founding.deployment, founding.identity, founding.token_key, founding.title)
    rows.change("INSERT INTO founding (one, deployment, identity, token_key, title) VALUES (1, ?, ?, ?, ?)", *values)


def founding(rows: Rows) -> Founding:
    row = rows.one("SELECT deployment, identity, token_key, title FROM founding")
    if row is None:
        raise StateError("no deployment was founded in this store; run prirec recommender init first")
    return Founding(*row)


def seal_anew(rows: Rows, token_key: bytes) -> None:
    """Another key for sessions; who the recommender is stays."""
    if not rows.change("UPDATE founding SET token_key = ?", token_key):
        founding(rows)


def enrol(rows: Rows, line: Line, *, day: int) -> None:
    """Again is the same, and may change the cell: for campaigns that begin from then on."""
    rows.change(
        "INSERT INTO people (name, cell, day) VALUES (?, ?, ?)"
        " ON CONFLICT (name) DO UPDATE SET cell = excluded.cell, day = excluded.day",
        line.name, line.cell.to_bytes(8, "big"), day,
    )  # fmt: skip


def enrolled(rows: Rows, name: bytes) -> bool:
    return rows.one("SELECT 1 FROM people WHERE name = ?", name) is not None


def leave(rows: Rows, name: bytes) -> None:
    """What waits for a device goes with it, and so do its invitations. Rosters that list it are public, and stay."""
    rows.change("DELETE FROM mail WHERE receiver = ?", name)
    rows.change("DELETE FROM invited WHERE name = ?", name)
    rows.change("DELETE FROM people WHERE name = ?", name)


def people(rows: Rows) -> list[Line]:
    found = rows.all("SELECT name, cell FROM people ORDER BY name")
    return [Line(name, int.from_bytes(cell, "big")) for name, cell in found]
