"""All that a device's file holds on its person, for that person to read or to take elsewhere."""

import sqlite3
from typing import Any

from prirec.device.membership import held_membership
from prirec.device.models import held_given, held_model
from prirec.device.values import value_from
from prirec.device.visits import held_visits
from prirec.protocols.actions import Stage


def exported(rows: sqlite3.Connection) -> dict[str, Any]:
    """Ready for JSON. Secrets are left out: with them somebody else could take part as this device. So are public
    documents."""
    home = rows.execute("SELECT lat, lon FROM home").fetchone()
    labelled = rows.execute("SELECT so FROM labelled").fetchone()
    return {
        "profile": {name: value_from(data) for name, data in rows.execute("SELECT * FROM profile ORDER BY name")},
        "home": None if home is None else list(home),
        "visits": [
            {"id": one.id, "place": one.place, "time": one.time, "label": one.label, "context": dict(one.context)}
            for one in held_visits(rows)
        ],
        "labelled": None if labelled is None else bool(labelled[0]),
        "membership": _membership(rows),
        "regions": [cell.hex() for (cell,) in rows.execute("SELECT cell FROM regions ORDER BY cell")],
        "models": [_model(rows, campaign) for campaign in _campaigns(rows)],
        "budget": _budget(rows),
        "spent": [
            {"kind": kind, "number": number, "attempt": attempt, "what": what, "day": day}
            for kind, number, attempt, what, day in rows.execute(
                "SELECT kind, number, attempt, what, day FROM spending ORDER BY rowid"
            )
        ],
        "rounds": [
            {"kind": kind, "number": number, "attempt": attempt, "cohort": cohort, "stage": Stage(stage).name.lower()}
            for kind, number, attempt, cohort, stage in rows.execute(
                "SELECT kind, number, attempt, cohort, stage FROM rounds ORDER BY kind, number"
            )
        ],
    }


def _membership(rows: sqlite3.Connection) -> dict[str, Any] | None:
    held = held_membership(rows)
    if held is None:
        return None
    return {
        "deployment": held.deployment.hex(),
        "url": held.url,
        "title": held.title,
        "name": held.name.hex(),
        "cell": f"{held.cell:x}" if held.cell else None,
        "enrolled": held.enrolled,
    }


def _budget(rows: sqlite3.Connection) -> dict[str, Any] | None:
    row = rows.execute("SELECT epsilon, delta, period_days FROM budget").fetchone()
    names = ("epsilon_per_user", "delta", "period_days")
    return None if row is None else dict(zip(names, row, strict=True))


def _campaigns(rows: sqlite3.Connection) -> list[bytes]:
    found = rows.execute("SELECT campaign FROM models UNION SELECT campaign FROM given ORDER BY campaign")
    return [campaign for (campaign,) in found.fetchall()]


def _model(rows: sqlite3.Connection, campaign: bytes) -> dict[str, Any]:
    kept, given = held_model(rows, campaign), held_given(rows, campaign)
    return {
        "campaign": campaign.hex(),
        "rounds": 0 if kept is None else kept.iteration,
        "linear": [] if kept is None else kept.linear.tolist(),
        "given": {"places": given.places.tolist(), "whole": given.whole.tolist()},
    }
