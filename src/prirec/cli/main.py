"""The program: its commands, its version, and what it does with a refusal (see group.py)."""

from typing import Annotated

import typer

from prirec import __version__
from prirec.cli import (
    city,
    data_describe,
    data_import,
    data_make,
    data_partition,
    demo,
    device,
    evaluate,
    privacy_forecast,
    privacy_ledger,
    privacy_plan,
    recommend,
    recommender,
    reproduce,
    settings,
    train,
    tune,
)
from prirec.cli.group import HELP, Commands, subgroup
from prirec.cli.options import examples


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


def build() -> typer.Typer:
    """The commands and their names. A traceback never shows local variables: they may hold private values."""
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
    app.command("demo", epilog=demo.EPILOG)(demo.demo)
    data = subgroup("Make, import, describe and partition data folders.")
    data.command("make", epilog=data_make.EPILOG)(data_make.make)
    data.command("import", epilog=data_import.EPILOG)(data_import.import_data)
    data.command("describe", epilog=data_describe.EPILOG)(data_describe.describe)
    data.command("partition", epilog=data_partition.EPILOG)(data_partition.partition)
    app.add_typer(data, name="data")
    app.command("train", epilog=train.EPILOG)(train.train)
    app.command("evaluate", epilog=evaluate.EPILOG)(evaluate.evaluate)
    app.command("recommend", epilog=recommend.EPILOG)(recommend.recommend)
    app.command("settings", epilog=settings.EPILOG)(settings.settings)
    app.command("reproduce", epilog=reproduce.EPILOG)(reproduce.reproduce)
    app.command("tune", epilog=tune.EPILOG)(tune.tune)
    privacy = subgroup(
        "What each person is promised, and what was spent of it.",
        epilog=examples("prirec privacy plan --people 50000 --places 20000", "prirec privacy ledger device.db"),
    )
    privacy.command("plan", epilog=privacy_plan.EPILOG)(privacy_plan.plan)
    privacy.command("forecast", epilog=privacy_forecast.EPILOG)(privacy_forecast.forecast)
    privacy.command("ledger", epilog=privacy_ledger.EPILOG)(privacy_ledger.ledger)
    app.add_typer(privacy, name="privacy")
    app.add_typer(recommender.build(), name="recommender")
    app.add_typer(device.build(), name="device")
    app.add_typer(city.build(), name="city")
    return app


app = build()


def run() -> None:
    """The console script."""
    app(prog_name="prirec")


if __name__ == "__main__":
    run()
