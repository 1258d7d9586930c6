"""What goes online can be called where an event loop runs already, as in a notebook or a web framework."""

import asyncio
from pathlib import Path

import pytest

from prirec.device.client import UnavailableError
from prirec.device.device import Device
from prirec.errors import StateError
from prirec.util.async_twins import blocking
from support import messages


def test_joining_inside_a_running_loop_goes_as_far_as_outside(tmp_path: Path) -> None:
    with Device.open(tmp_path / "phone.db") as device:

        async def inside() -> None:
            with pytest.raises(UnavailableError, match=messages.NOBODY_TO_JOIN):
                device.join("https://localhost:1")
            with pytest.raises(UnavailableError, match=messages.NOBODY_TO_JOIN):
                await device.join_async("https://localhost:1")
            for online in (device.take_part, device.leave):
                with pytest.raises(StateError, match=messages.IN_NO_DEPLOYMENT):
                    online()

        asyncio.run(inside())
        with pytest.raises(UnavailableError, match=messages.NOBODY_TO_JOIN):
            device.join("https://localhost:1")


def test_what_is_written_inside_a_running_loop_is_in_the_same_file(tmp_path: Path) -> None:
    async def describe(device: Device) -> str:
        device.describe({"age": 34})
        return "done"

    with Device.open(tmp_path / "phone.db") as device:

        async def inside() -> str:
            return blocking(describe)(device)

        assert asyncio.run(inside()) == "done"
        assert device.person.profile() == {"age": 34.0}
