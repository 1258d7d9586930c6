"""Floors are policy: checked by settings and by devices; protocols know none. Of fifty devices each checks the others'
signatures, which would be most of what tests do."""

from pathlib import Path

import pytest

MODULES = ("prirec.config", "prirec.protocols.roster", "prirec.protocols.two_operators", "prirec.privacy.noise")


def low_floor(patch: pytest.MonkeyPatch, fewest: int) -> None:
    """As low as a small round needs."""
    for module in MODULES:
        patch.setattr(f"{module}.HARD_FLOOR", fewest)


def low_floor_in_children(patch: pytest.MonkeyPatch, fewest: int, folder: Path) -> None:
    """In the processes that this one starts from now on, too: Python runs a sitecustomize.py on its path when it
    starts, and a device gives its process the path that it has itself."""
    lowered = [f"import {module}\n{module}.HARD_FLOOR = {fewest}\n" for module in MODULES]
    (folder / "sitecustomize.py").write_text("".join(lowered), encoding="utf-8")
    patch.syspath_prepend(folder)
