"""What the commands of a device have in common: its file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

if TYPE_CHECKING:
    from prirec.device.api import Device

DeviceFile: TypeAlias = Annotated[Path, typer.Argument(metavar="FILE", help="The device's file.")]
HomePoint: TypeAlias = Annotated[
    str | None, typer.Option("--home", metavar="LAT,LON", help="Where the person lives, in degrees; it stays here.")
]
CODE = "PRIREC_ENROLMENT_CODE"


def opened(file: Path) -> "Device":
    """StateError, and no file made, if there is none."""
    from prirec.device.api import Device
    from prirec.errors import StateError

    if not file.exists():
        raise StateError(f"there is no file {file.name}; prirec device init makes one")
    return Device.open(file)
