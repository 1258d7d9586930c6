"""A page on this machine alone, for rehearsals.

It answers only to names of this machine, so that a page of another site cannot reach it under a name of its own (DNS
rebinding)."""

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any, Final

from prirec.errors import UsageError
from prirec.pages import Asgi, Receive, Send

HOST: Final = "127.0.0.1"
_NAMES: Final = re.compile(rb"(127\.0\.0\.1|localhost|\[::1\])(:\d+)?")


class ThisMachineAlone:
    """An ASGI app that passes on what is asked for under a name of this machine."""

    def __init__(self, page: Any) -> None:
        self._page = page

    async def __call__(self, scope: Asgi, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        host = next((value for name, value in scope["headers"] if name == b"host"), b"")
        if _NAMES.fullmatch(host):
            await self._page(scope, receive, send)
        else:
            await say(send, 421, b"this page is for this machine alone\n")


async def say(send: Send, status: int, text: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": text})


def listen(port: int = 0) -> socket.socket:
    """A socket for a page on this machine; port 0 takes a free one."""
    try:
        return socket.create_server((HOST, port))
    except (OSError, OverflowError):
        raise UsageError(
            f"port {port} of this machine cannot be listened on: it is in use, or needs a privilege"
        ) from None


def origin_of(listening: socket.socket) -> str:
    return f"http://{HOST}:{listening.getsockname()[1]}"


@contextmanager
def served(page: Any, listening: socket.socket) -> Iterator[None]:
    """An ASGI app in a thread of this process, while the context lasts."""
    from uvicorn import Config, Server

    config = Config(
        ThisMachineAlone(page), lifespan="off", ws="none", log_config=None, access_log=False, server_header=False,
        timeout_graceful_shutdown=1,
    )  # fmt: skip
    server = Server(config)
    thread = Thread(target=server.run, kwargs={"sockets": [listening]}, name="page", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()
