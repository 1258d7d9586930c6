"""From flags to settings."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from prirec import settings_file
from prirec.damage import NOT_TOML
from prirec.errors import UsageError
from prirec.settings import Settings


def choose(
    *,
    preset: str | None,
    file: Path | None,
    assignments: Sequence[str] | None,
    flags: Mapping[str, Any] | None = None,
) -> Settings:
    """The preset, changed by the file, then by flags and --set; a flag that was not given is None."""
    given = [(key, value) for key, value in (flags or {}).items() if value is not None]
    given += [("preset", preset)] if preset is not None else []
    given += [assignment(text) for text in assignments or ()]
    _refuse_twice([key for key, _ in given])
    return settings_file.load(file, changes=dict(given))


def assignment(text: str) -> tuple[str, Any]:
    """KEY=VALUE with a TOML value; a bare word is a string."""
    key, equals, value = (part.strip() for part in text.partition("="))
    if not (key and equals and value):
        raise UsageError("write --set KEY=VALUE, such as --set neighbours.size=200")
    if key.count(".") > 1:
        raise UsageError(f"unknown setting '{key}'; a setting is named like model.dimension")
    return key, _literal(value)


def _literal(text: str) -> Any:
    try:
        table = tomllib.loads(f"value = {text}")
    except NOT_TOML:
        return text
    return table["value"] if len(table) == 1 else text


def _refuse_twice(keys: Iterable[str]) -> None:
    seen: set[str] = set()
    for key in keys:
        if any(key == other or key.startswith(f"{other}.") or other.startswith(f"{key}.") for other in seen):
            raise UsageError(f"the setting '{key}' is given twice")
        seen.add(key)
