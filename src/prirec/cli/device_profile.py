"""prirec device profile: what a person tells their own device."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from prirec.cli.device_file import DeviceFile, HomePoint, opened
from prirec.cli.options import Json, examples

if TYPE_CHECKING:
    from prirec.device.api import Device
    from prirec.features.told import Value

EPILOG = examples(
    "prirec device profile phone.db age=31 'likes=music|tea' --home 35.68,139.76",
    "prirec device profile phone.db --forget age",
    "prirec device profile phone.db",
)


def profile(
    file: DeviceFile,
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=VALUE", help="A number, a word, or words such as tea|music.", show_default=False),
    ] = None,
    *,
    home: HomePoint = None,
    forget: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Forget a value; repeatable.")] = None,
    json: Json = False,
) -> None:
    """Set or show what describes the person. None of it leaves the device.

    A word that looks like a number is put in double quotes. Names are those that the deployment asks for; others are
    kept and not used."""
    from prirec.cli.moments import point_of

    told = {**_parsed(values or ()), **dict.fromkeys(forget or ())}
    here = None if home is None else point_of(home, flag="--home")
    with opened(file) as device:
        if told:
            device.describe(told)
        if here is not None:
            device.person.set_home(here)
        _show(device, json=json)


def _parsed(values: Sequence[str]) -> "dict[str, Value]":
    from prirec.device.visits_file import value_of
    from prirec.errors import UsageError

    told = {}
    for text in values:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise UsageError("write NAME=VALUE, such as age=31; --forget NAME forgets one")
        if name in told:
            raise UsageError(f"'{name}' is given twice")
        told[name] = value_of(value)
    return told


def _show(device: "Device", *, json: bool) -> None:
    """For the person's eyes."""
    from prirec.cli.output import show_json, show_table
    from prirec.device.asked import encoding_of

    held, home, encoding = device.person.profile(), device.person.home(), encoding_of(device.person)
    asked = None if encoding is None else [block.column for block in encoding.person]
    if json:
        show_json({"profile": held, "home": home, "asked": asked})
        return
    used = {name: "" if asked is None else "yes" if name in asked else "no" for name in held}
    rows = [(name, _words(value), used[name]) for name, value in held.items()]
    rows += [] if home is None else [("home", f"{home[0]:g},{home[1]:g}", "")]
    missing = [name for name in asked or () if name not in held]
    if rows:
        show_table(("name", "value", "used") if asked is not None else ("name", "value", ""), rows)
    else:
        typer.echo("nothing was told yet")
    if missing:
        typer.echo(f"the deployment also knows what to do with: {', '.join(missing)}")


def _words(value: "Value") -> str:
    return f"{value:g}" if isinstance(value, float) else value if isinstance(value, str) else " | ".join(value)
