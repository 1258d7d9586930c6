"""The program `prirec`: its commands, its version, and `prirec settings`, all settings of a preset as TOML."""

import gc
import sys
from importlib import import_module
from typing import Annotated, Any

import typer

from prirec import __version__
from prirec.cli.commands import HELP, Commands, subgroup
from prirec.cli.options import Assignments, Preset, SettingsFile, examples

EPILOG = examples("prirec settings --preset paper > mine.toml", "prirec settings --settings mine.toml")


def settings(*, preset: Preset = None, file: SettingsFile = None, assignments: Assignments = None) -> None:
    """Print all settings of a preset or a file as TOML."""
    import msgspec

    from prirec.cli.options import choose
    from prirec.config import dump, written

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


# The program: its commands and its version. What it does with a refusal is in output.py.


OWN_FILE = (
    "city",
    "device",
    "helper",
    "recommend",
    "recommender",
)  # a command, or a group of them, with a file of its name
PLUGINS = "prirec.commands"  # entry points of other packages, each a function that adds its commands to the program


def _version(value: bool) -> None:  # noqa: FBT001  # called with one argument by position
    if value:
        typer.echo(f"prirec {__version__}")
        raise typer.Exit


def program(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Recommend nearby places without collecting anyone's data: simulated on one machine, or by real devices."""


def build(first: str = "") -> typer.Typer:
    """The program with its commands. A traceback never shows local variables: they may hold private values.

    Where `first`, the first word of the command line, names one of OWN_FILE, only that file is loaded: all commands
    together with those of other packages take longer to load than `prirec device visit` takes."""
    app = typer.Typer(
        cls=Commands,
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings=HELP,
        pretty_exceptions_enable=False,
        pretty_exceptions_show_locals=False,
        epilog=examples("prirec demo", "prirec data make city", "prirec train city --out runs/first"),
    )
    app.callback()(program)
    if first in OWN_FILE:
        _add(app, first)
        return app
    from importlib.metadata import entry_points

    from prirec.cli import data, demo, evaluate, privacy, train

    app.command("demo", epilog=demo.EPILOG)(demo.demo)
    data_group = subgroup("Make, import, check, describe and partition data folders.")
    data_group.command("make", epilog=data.DATA_MAKE_EPILOG)(data.make)
    data_group.command("import", epilog=data.DATA_IMPORT_EPILOG)(data.import_data)
    data_group.command("check", epilog=data.DATA_CHECK_EPILOG)(data.check)
    data_group.command("describe", epilog=data.DATA_DESCRIBE_EPILOG)(data.describe)
    data_group.command("partition", epilog=data.DATA_PARTITION_EPILOG)(data.partition)
    app.add_typer(data_group, name="data")
    app.command("train", epilog=train.EPILOG)(train.train)
    app.command("evaluate", epilog=evaluate.EPILOG)(evaluate.evaluate)
    app.command("report", epilog=evaluate.REPORT_EPILOG)(evaluate.report)
    _add(app, "recommend")
    app.command("settings", epilog=EPILOG)(settings)
    privacy_group = subgroup(
        "Privacy budgets: plans, forecasts, and a device's ledger.",
        epilog=examples("prirec privacy plan --people 50000 --places 20000", "prirec privacy ledger device.db"),
    )
    privacy_group.command("plan", epilog=privacy.PRIVACY_PLAN_EPILOG)(privacy.plan)
    privacy_group.command("forecast", epilog=privacy.PRIVACY_FORECAST_EPILOG)(privacy.forecast)
    privacy_group.command("ledger", epilog=privacy.PRIVACY_LEDGER_EPILOG)(privacy.ledger)
    app.add_typer(privacy_group, name="privacy")
    for name in ("recommender", "helper", "device", "city"):
        _add(app, name)
    for plugin in sorted(entry_points(group=PLUGINS), key=lambda found: found.name):
        plugin.load()(app)
    return app


def _add(app: typer.Typer, name: str) -> None:
    """Add a command, or a group of commands, from its own file."""
    module = import_module(f"prirec.cli.{name}")
    if name == "recommend":
        app.command(name, epilog=module.EPILOG)(module.recommend)
    else:
        app.add_typer(module.build(), name=name)


def __getattr__(name: str) -> Any:
    """`app`, the whole program, is built when somebody asks for it."""
    if name != "app":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    globals()["app"] = build()
    return globals()["app"]


def run() -> None:
    """The console script."""
    # Most objects of a short command are modules and classes, which stay to the end: looking through them for garbage
    # took a tenth of its time.
    gc.set_threshold(100_000, 20, 20)
    app = globals().get("app") or build(sys.argv[1] if len(sys.argv) > 1 else "")
    app(prog_name="prirec")


if __name__ == "__main__":
    run()
