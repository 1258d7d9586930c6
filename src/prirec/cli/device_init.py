"""prirec device init: a device comes into a deployment."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prirec.cli.device_file import CODE, DeviceFile, HomePoint
from prirec.cli.options import examples

if TYPE_CHECKING:
    from prirec.privacy.ledger import Budget

EPILOG = examples(
    "prirec device init phone.db --url https://recommender.example:8443 --authority authority.pem",
    "prirec device init phone.db --url https://recommender.example --home 35.68,139.76 --epsilon 0.5",
)
LARGEST = 100_000  # bytes of a file with certificates


def init(
    file: DeviceFile,
    *,
    url: Annotated[str, typer.Option(metavar="URL", help="The recommender's address, as its operator told.")],
    authority: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default="those of the system", help="Whose certificates are believed (PEM)."),
    ] = None,
    fingerprint: Annotated[
        str | None, typer.Option(metavar="HEX", help="Of the recommender's key: with another one nobody is joined.")
    ] = None,
    home: HomePoint = None,
    code: Annotated[str, typer.Option(envvar=CODE, metavar="TEXT", help="If the operator hands out one.")] = "",
    epsilon: Annotated[
        float | None, typer.Option(metavar="N", show_default="1", help="The most that may ever be told of the person.")
    ] = None,
    delta: Annotated[float | None, typer.Option(metavar="N", show_default="1e-06", help="The odds beside it.")] = None,
    period_days: Annotated[
        int | None, typer.Option(metavar="N", show_default="for life", help="The budget is for any N days in a row.")
    ] = None,
) -> None:
    """Join a deployment with a new device, in a file of its own.

    With --home the recommender is told the coarse cell around it (about 36 km²), and nothing finer; without one it is
    told none, and the device downloads all regions. The budget is the person's: beyond it nothing is sent."""
    from prirec.cli.extras import needing
    from prirec.cli.moments import point_of
    from prirec.cli.output import printable
    from prirec.device.api import Device

    with needing("device"):
        import prirec.device.joining  # noqa: F401
    here = None if home is None else point_of(home, flag="--home")
    trusted = b"" if authority is None else _read(authority)
    with Device.open(file) as device:
        budget = _budget(device.budget, epsilon=epsilon, delta=delta, period_days=period_days)
        device.allow(budget)  # first: from then on nothing is told of the person beyond it
        joined = device.join(url, home=here, authority=trusted, fingerprint=fingerprint, code=code)
        enrolled = device.status().belonging
    typer.echo(f"joined: {printable(joined.title)}")
    typer.echo(f"the recommender's key, pinned from now on: {joined.recommender.hex()}")
    if fingerprint is None:
        typer.echo("compare it with the fingerprint that the operator made known")
    if enrolled is None or not enrolled.enrolled:
        typer.echo("the recommender did not answer any more; the device enrols when it runs")
    _say_budget(budget)


def _read(path: Path) -> bytes:
    from prirec.errors import UsageError

    try:
        with path.open("rb") as file:
            found = file.read(LARGEST + 1)
    except FileNotFoundError:
        raise UsageError(f"there is no file {path.name} with an authority's certificate") from None
    if len(found) > LARGEST or not found:
        raise UsageError(f"{path.name} is not an authority's certificate (PEM)")
    return found


def _budget(
    held: "Budget", *, epsilon: float | None, delta: float | None, period_days: int | None
) -> "Budget":  # fmt: skip
    """What was said before, changed by the flags that are given."""
    from dataclasses import replace

    given = {"epsilon": epsilon, "delta": delta, "period_days": period_days}
    return replace(held, **{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]


def _say_budget(budget: "Budget") -> None:
    when = "for life" if budget.period_days is None else f"in any {budget.period_days} days"
    typer.echo(f"the budget: epsilon = {budget.epsilon:g}, delta = {budget.delta:g}, {when}; what is spent stays spent")
