"""From flags to settings for the commands about privacy: where no preset is named, it is the private one."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from prirec.settings import PresetName

if TYPE_CHECKING:
    from prirec.settings import Settings

BudgetPreset: TypeAlias = Annotated[
    PresetName | None,
    typer.Option(
        help="Settings to start from; of the presets, only private promises anything.", show_default="private"
    ),
]


def budget_settings(
    *,
    preset: str | None,
    file: Path | None,
    assignments: Sequence[str] | None,
    flags: Mapping[str, Any] | None = None,
) -> "Settings":
    """The preset that was named, or private, changed by the file, then by flags (None: not given) and --set."""
    from prirec import settings_file
    from prirec.cli.choosing import assignment
    from prirec.errors import UsageError

    changes = {key: value for key, value in {"preset": preset, **(flags or {})}.items() if value is not None}
    for key, value in map(assignment, assignments or ()):
        if key in changes:
            raise UsageError(f"the setting '{key}' is given twice")
        changes[key] = value
    return settings_file.load(file, changes=changes, base="private")
