"""A Ray cluster to work on: one that is there already, or one of our own on this machine, which ends with us."""

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prirec.errors import StateError, UsageError

PATIENCE = 5.0  # seconds
# Ray puts the machine's own address in the place of 127.0.0.1; on Linux all of 127.0.0.0/8 stays on the machine
LOOPBACK = "127.0.0.2" if sys.platform == "linux" else None
QUIET = {"logging_level": "ERROR", "log_to_driver": False}


def library() -> Any:
    """Ray. It would tell its makers about every cluster unless it is told not to, before it is imported."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else it warns of what a later version will do
    try:
        import ray
    except ModuleNotFoundError:
        raise UsageError("a cluster needs Ray; install it with: pip install 'prirec[cluster]'") from None
    return ray


@contextmanager
def connected(address: str | None = None, *, cpus: int | None = None) -> Iterator[None]:
    """Until this is left. Where Ray is connected already, that connection is used, and left as it is."""
    ray = library()
    if address is not None:
        refuse_unreachable(address)
    if ray.is_initialized():
        yield
        return
    try:
        if address is None:
            ray.init(address="local", num_cpus=cpus, include_dashboard=False, _node_ip_address=LOOPBACK, **QUIET)
        else:
            ray.init(address=address, **QUIET)
    except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
        raise StateError(f"no Ray cluster could be reached: {_first_line(error)}") from None
    try:
        yield
    finally:
        ray.shutdown()


def processors() -> int:
    """Of all nodes together."""
    return max(1, int(library().cluster_resources().get("CPU", 1)))


def refuse_unreachable(address: str) -> None:
    """At once, where Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UsageError("--address is the HOST:PORT of a cluster's head, as `ray start --head` tells it")
    try:
        socket.create_connection((host, int(port)), timeout=PATIENCE).close()
    except OSError as error:
        why = error.strerror or "no answer"
        raise StateError(f"no Ray cluster answers at {address} ({why}); is its head running?") from None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
