"""A process of a rehearsal ends with whoever started it, however that ended."""

import os
import resource
import signal
from threading import Thread
from typing import NoReturn


def hold() -> None:
    """From now on this process, and whatever it starts, ends when its standard input does: the other end is in the
    hands of the rehearsal alone. Stores and devices' files stand a sudden end; that is what they are made for."""
    Thread(target=_wait, name="lifeline", daemon=True).start()


def allow_many_files() -> None:
    """As many as the system lets this user have: a city's devices have a file and a connection each."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def until_closed(handle: int) -> None:
    while os.read(handle, 4096):
        pass


def _wait() -> NoReturn:
    until_closed(0)
    if os.getpgrp() == os.getpid():  # it was given a group of its own
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)
