"""prirec privacy ledger: what a device's person has spent, and what is left."""

from pathlib import Path
from typing import Annotated

import typer

from prirec.cli.options import Assignments, Json, SettingsFile, examples
from prirec.cli.privacy_settings import BudgetPreset

EPILOG = examples(
    "prirec privacy ledger device.db",
    "prirec privacy ledger device.db --settings deployed.toml --json",
)


def ledger(
    store: Annotated[
        Path, typer.Argument(metavar="STORE", help="File in which a device keeps its journal and ledger; only read.")
    ],
    *,
    preset: BudgetPreset = None,
    file: SettingsFile = None,
    assignments: Assignments = None,
    json: Json = False,
) -> None:
    """Say what a device has spent on what, and what is left.

    The budget is the one that the settings give."""
    from datetime import UTC, datetime

    from prirec.cli.account import account, budget_of
    from prirec.cli.account_words import show
    from prirec.cli.output import show_json
    from prirec.cli.privacy_settings import budget_settings
    from prirec.device.looking import ledger_in

    budget = budget_of(budget_settings(preset=preset, file=file, assignments=assignments))
    today = (datetime.now(UTC) - datetime.fromtimestamp(0, UTC)).days
    found = account(ledger_in(store), budget=budget, day=today)
    if json:
        show_json(found.as_dict())
    else:
        show(found)
