"""Waiting for what must happen. How soon it happens says something about the machine and nothing about what is tested,
so no test asserts it: the limits here are only there to end a test that hangs."""

from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

PATIENCE = 400.0  # seconds for what takes moments on an idle machine; a load of thirty makes it minutes
NEVER = 1e6  # seconds: a deadline that no test lives to see


def until(found: Callable[[], Any], *, every: float = 0.01) -> Any:
    """What is found, as soon as it is anything."""
    end = monotonic() + PATIENCE
    while not (something := found()):
        assert monotonic() < end, "it never happened"
        sleep(every)
    return something
