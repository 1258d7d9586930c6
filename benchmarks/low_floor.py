"""Small rounds, in processes of a benchmark alone: the fewest people that a sum may hold are policy, and policy's
number would take a town."""

from collections.abc import Iterator
from contextlib import contextmanager

from prirec import config
from prirec.privacy import noise
from prirec.protocols import roster

FEW = 5


def lower(fewest: int = FEW) -> None:
    """From now on, in this process."""
    for module in (config, roster, noise):
        module.HARD_FLOOR = fewest  # type: ignore[attr-defined]


@contextmanager
def lowered() -> Iterator[None]:
    before = config.HARD_FLOOR
    lower()
    try:
        yield
    finally:
        lower(before)
