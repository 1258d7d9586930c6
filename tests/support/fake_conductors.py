"""Stand-ins for a conductor, where what is tested is the service beside it; they can be sent to another process."""

import os
from collections.abc import Callable
from pathlib import Path
from threading import Event

from prirec.protocols.codec import decode
from prirec.recommender.conductor import WakePollers
from prirec.recommender.store import Store


def echo(
    store: Store, stop: Event, *, came: Event, wake: WakePollers, failed: Callable[[], None], folder: Path
) -> None:  # fmt: skip
    """Whoever holds the lease answers each message with a message that names its process."""
    holder, heard = os.urandom(16), 0
    (folder / f"conductor-{os.getpid()}").touch()
    while not stop.wait(0.02):
        if not store.lease(holder, 1.0):
            continue
        incoming = store.incoming(heard, 100)
        queued = [
            (message.sender, message.round, b"%d" % os.getpid()) for message in (decode(body) for _, body in incoming)
        ]
        if queued:
            store.deliver(queued)
            heard = incoming[-1][0]
            wake(())
    store.release(holder)
    (folder / f"ended-{os.getpid()}").touch()


def failing(store: Store, stop: Event, *, came: Event, wake: WakePollers, failed: Callable[[], None]) -> None:
    raise ValueError("canary-41aa")
