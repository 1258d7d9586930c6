"""prirec device run and download: what goes online."""

from typing import TYPE_CHECKING, Annotated

import typer

from prirec.cli.device_file import CODE, DeviceFile, opened
from prirec.cli.options import examples

if TYPE_CHECKING:
    import asyncio

    from prirec.device.status import Status

EPILOG = examples("prirec device run phone.db", "prirec device run phone.db --seconds 60")
EPILOG_DOWNLOAD = examples("prirec device download phone.db --near 35.68,139.76")


def run(
    file: DeviceFile,
    *,
    seconds: Annotated[
        float | None, typer.Option(min=0.0, metavar="N", show_default="until stopped", help="For how long.")
    ] = None,
    code: Annotated[
        str, typer.Option(envvar=CODE, metavar="TEXT", help="If the device has not enrolled yet, and one is asked for.")
    ] = "",
) -> None:
    """Take part in rounds in the background, until stopped.

    Ctrl-C or SIGTERM stop it at any moment. It follows the signed log, downloads whole regions, and enters a sum only
    if the ledger covers it. What it does is said in one line each, without anything about the person."""
    import asyncio

    from prirec.cli.extras import needing

    with needing("device"):
        import prirec.device.agent  # noqa: F401
    from prirec.device.view import View

    async def until_stopped() -> None:
        stop = asyncio.Event()
        _end_with(stop, seconds)
        await device.take_part_until(stop, code=code, tell=_say)

    with opened(file) as device:
        View.of(device.person)  # whether it belongs somewhere is told first
        _say("running; Ctrl-C stops")
        asyncio.run(until_stopped())
    _say("stopped")


def download(
    file: DeviceFile,
    *,
    near: Annotated[str, typer.Option(metavar="LAT,LON", help="Where the person will be, in degrees.")],
) -> None:
    """Download the region around a point, to be offline there.

    The recommender sees which region, and nothing finer."""
    from prirec.cli.extras import needing
    from prirec.cli.moments import point_of

    with needing("device"):
        import prirec.device.agent  # noqa: F401
    here = point_of(near, flag="--near")
    with opened(file) as device:
        before = _places(device.status())
        device.download(near=here)
        typer.echo(f"downloaded {_places(device.status()) - before:,} places more")


def _places(status: "Status") -> int:
    return 0 if status.belonging is None else status.belonging.places


def _end_with(stop: "asyncio.Event", seconds: float | None) -> None:
    import asyncio
    import signal
    from contextlib import suppress

    loop = asyncio.get_running_loop()
    for one in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):  # where the system has no such thing, Ctrl-C ends it with 130
            loop.add_signal_handler(one, stop.set)
    if seconds is not None:
        loop.call_later(seconds, stop.set)


def _say(words: str) -> None:
    from datetime import datetime

    from prirec.cli.output import printable

    typer.echo(f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S}  {printable(words)}")
