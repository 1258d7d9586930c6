"""prirec settings: all settings of a preset as TOML, to start a settings file from."""

from typing import Any

import typer

from prirec.cli.options import Assignments, Preset, SettingsFile, examples

EPILOG = examples("prirec settings --preset paper > mine.toml", "prirec settings --settings mine.toml")


def settings(*, preset: Preset = None, file: SettingsFile = None, assignments: Assignments = None) -> None:
    """Print all settings of a preset or a file as TOML."""
    import msgspec

    from prirec.cli.choosing import choose
    from prirec.settings_file import dump, written

    chosen = choose(preset=preset, file=file, assignments=assignments)
    every = msgspec.to_builtins(chosen)
    unset = ", ".join([*_unset(every), *(name for name in every if name not in written(chosen))])
    typer.echo("# Use with: prirec train DATA --out RUN --settings FILE")
    typer.echo(f"# Left to their defaults: {unset}" if unset else "# Nothing is left to a default")
    typer.echo(dump(chosen), nl=False)


def _unset(table: dict[str, Any], prefix: str = "") -> list[str]:
    found: list[str] = []
    for key, value in table.items():
        if isinstance(value, dict):
            found += _unset(value, f"{prefix}{key}.")
        elif value is None:
            found.append(f"{prefix}{key}")
    return found
