"""prirec device status, privacy, export and forget: what a person can see, take away and erase."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from prirec.cli.device_file import DeviceFile, opened
from prirec.cli.options import Json, examples

if TYPE_CHECKING:
    from prirec.device.api import Device
    from prirec.device.status import Belonging, Status

EPILOG_STATUS = examples("prirec device status phone.db", "prirec device status phone.db --json")
EPILOG_PRIVACY = examples("prirec device privacy phone.db", "prirec device privacy phone.db --json")
EPILOG_EXPORT = examples("prirec device export phone.db --out mine.json")
EPILOG_FORGET = examples("prirec device forget phone.db --yes", "prirec device forget phone.db --leave --yes")


def status(file: DeviceFile, *, json: Json = False) -> None:
    """Say what the device keeps, and where it belongs."""
    from prirec.cli.output import show_json, show_table

    with opened(file) as device:
        found = device.status()
    if json:
        show_json(asdict(found))
        return
    show_table((file.name, ""), _rows(found))
    if found.belonging is not None:
        typer.echo(f"the recommender's key: {found.belonging.recommender}")


def _rows(found: "Status") -> list[tuple[str, str]]:
    kept = [
        ("visits", f"{found.visits:,}"),
        ("described by", ", ".join(found.described_by) or "nothing"),
        ("home", "told" if found.home else "not told"),
    ]
    belongs = found.belonging
    return [*kept, ("deployment", "none: prirec device init")] if belongs is None else [*kept, *_belonging(belongs)]


def _belonging(of: "Belonging") -> list[tuple[str, str]]:
    part = "takes part" if of.takes_part else "takes no part"
    campaign = "none yet" if of.campaign is None else f"{of.campaign}: {part}, {of.learnt} of {of.rounds} rounds learnt"
    return [
        ("deployment", of.title),
        ("address", of.url),
        ("enrolled", "yes" if of.enrolled else "not yet: prirec device run"),
        ("tells of the home", "a coarse cell" if of.tells_a_cell else "nothing"),
        ("log, checked", f"{of.entries:,} entries"),
        ("campaign", campaign),
        ("places downloaded", f"{of.places:,}"),
        ("recommends", "yes" if of.can_recommend else "not yet: no model is published, or none is downloaded"),
        *([("learns nothing", f"{of.unusable}; it adds zeros to sums, at the full price")] if of.unusable else []),
    ]


def privacy(file: DeviceFile, *, json: Json = False) -> None:
    """Say what was spent of the budget on what, and what is left."""
    from prirec.cli.account import account
    from prirec.cli.account_words import show
    from prirec.cli.output import show_json

    with opened(file) as device:
        found = account(device.paid().ledger(), budget=device.budget, day=device.day)
    if json:
        show_json(found.as_dict())
    else:
        show(found)


def export(
    file: DeviceFile,
    *,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", show_default="shown here", help="New file, for its owner alone.")
    ] = None,
) -> None:
    """Give out all that the file holds on the person, as JSON."""
    import json

    from prirec.cli.output import finite, show_json
    from prirec.errors import UsageError

    with opened(file) as device:
        found = device.export()
    if out is None:
        show_json(found)
        return
    try:
        handle = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise UsageError(f"{out.name} is there already; name a new file") from None
    with os.fdopen(handle, "w", encoding="utf-8") as target:
        json.dump(finite(found), target, indent=2, ensure_ascii=False, allow_nan=False)
    typer.echo(f"wrote everything to {out}: keep it as you would keep the device")


def forget(
    file: DeviceFile,
    *,
    leave: Annotated[
        bool, typer.Option("--leave", help="Erase only if the recommender can be told that the device leaves.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Erase; without it nothing is done.")] = False,
) -> None:
    """Erase the person from the device, and leave the deployment.

    What was spent of the budget is not refunded: the ledger stays in the file, and counts if the device joins again."""
    from prirec.errors import UsageError

    if not yes:
        raise UsageError("this erases visits, profile, model and identity for good; add --yes to do so")
    with opened(file) as device:
        told = _left(device, insist=leave)
        device.forget()
    typer.echo(f"erased; {told}")
    typer.echo("what was spent is not refunded: the ledger stays, and says when this device took part and in what")


def _left(device: "Device", *, insist: bool) -> str:
    """What became of the deployment, in words. Whoever cannot be reached does not keep a person from erasing."""
    from prirec.cli.extras import needing
    from prirec.errors import Fault, PeerError, ProtocolError, UsageError

    member = device.person.membership()
    if member is None:
        return "it belonged to no deployment"
    try:
        with needing("device"):
            device.leave()
    except PeerError as refusal:
        if refusal.fault is Fault.AUTH:
            return "the recommender does not know this device"
        if insist:
            raise
    except (ProtocolError, UsageError):
        if insist:
            raise
    else:
        return "the recommender was told, and has erased it too"
    return "the recommender could not be told: it knows a key that nobody holds any more"
