"""The live city: a page on this machine that follows the events of a rehearsal, and the same page as one file.

The server gives the page's own files and the events, as server-sent events, and takes nothing. It listens on this
machine alone, and answers only to names of this machine: a page of another site cannot reach it under a name of its own
(DNS rebinding). The one file holds page and events, and loads nothing: its policy lets no request through.
"""

import asyncio
import base64
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from threading import Thread
from time import sleep
from typing import Final

from prirec.errors import StateError, UsageError
from prirec.pages import Asgi, PageServer, Receive, Send, built

HOST: Final = "127.0.0.1"
EVENTS: Final = "/events"
PAUSE: Final = 0.1  # seconds between two looks at the file of events
_NAMES: Final = re.compile(rb"(127\.0\.0\.1|localhost|\[::1\])(:\d+)?")
_HEADERS: Final = ((b"content-type", b"text/event-stream"), (b"cache-control", b"no-store"))
_STYLE: Final = re.compile(r'<link rel="stylesheet" href="\.?/?([^"]+)">')
_SCRIPT: Final = re.compile(r'<script type="module" src="\.?/?([^"]+)"></script>')


class CityPage:
    """An ASGI app: the page `city`, and the events in a file that grows."""

    def __init__(self, events: Path) -> None:
        self._events, self._files = events, PageServer(built("city"))

    async def __call__(self, scope: Asgi, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        host = next((value for name, value in scope["headers"] if name == b"host"), b"")
        if not _NAMES.fullmatch(host):
            await _say(send, 421, b"this page is for this machine alone\n")
        elif scope["path"] != EVENTS:
            await self._files(scope, receive, send)
        elif scope["method"] != "GET":
            await _say(send, 405, b"")
        else:
            await self._stream(scope, receive, send)

    async def _stream(self, scope: Asgi, receive: Receive, send: Send) -> None:
        """All events, and then each new one. Who comes back names the last one that it has."""
        last = next((value for name, value in scope["headers"] if name == b"last-event-id"), b"")
        done = int(last) if last.isdigit() and len(last) < 10 else 0
        await send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
        gone = asyncio.create_task(_gone(receive))
        try:
            async for number, line in _lines(self._events, until=gone):
                if number > done:
                    body = b"id: %d\ndata: %s\n\n" % (number, line)
                    await send({"type": "http.response.body", "body": body, "more_body": True})
        finally:
            gone.cancel()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _lines(path: Path, *, until: "asyncio.Task[None]") -> AsyncIterator[tuple[int, bytes]]:
    """The lines of a file that grows, counted from 1."""
    number, rest = 0, b""
    with path.open("rb") as file:
        while not until.done():
            *lines, rest = (rest + file.read()).split(b"\n")
            for line in lines:
                number += 1
                yield number, line
            await asyncio.sleep(PAUSE)


async def _say(send: Send, status: int, text: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": text})


@contextmanager
def page_of(events: Path, *, port: int = 0) -> Iterator[str]:
    """The page in a thread of this process, while the context lasts; its address. Port 0 takes a free one."""
    from uvicorn import Config, Server

    server = Server(
        Config(
            CityPage(events), host=HOST, port=port, lifespan="off", ws="none", log_config=None, access_log=False,
            server_header=False, timeout_graceful_shutdown=1,
        )
    )  # fmt: skip
    thread = Thread(target=server.run, name="page", daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise StateError("the page of the city did not start: its port is in use, or not this machine's")
        sleep(0.01)
    try:
        found = server.servers[0].sockets[0].getsockname()
        yield f"http://{HOST}:{found[1]}/"
    finally:
        server.should_exit = True
        thread.join()


# One file


def record(events: Path, target: Path) -> None:
    """Write page and events into one file, which needs no server and no network. UsageError if there is such a file."""
    folder = built("city")
    html = (folder / "index.html").read_text(encoding="utf-8")
    styles = "".join((folder / name).read_text(encoding="utf-8") for name in _STYLE.findall(html))
    script = "".join((folder / name).read_text(encoding="utf-8") for name in _SCRIPT.findall(html))
    script = script.replace("</script", "<\\/script")
    allowed = base64.b64encode(sha256(script.encode()).digest()).decode("ascii")
    policy = f"default-src 'none'; script-src 'sha256-{allowed}'; style-src 'unsafe-inline'; img-src data:"
    held = events.read_text(encoding="utf-8").replace("<", "\\u003c")
    html = _STYLE.sub("", html).replace(
        "<head>", f'<head>\n<meta http-equiv="Content-Security-Policy" content="{policy}">'
    )
    html = html.replace("</head>", f"<style>{styles}</style>\n</head>", 1)
    data = f'<script type="application/jsonl" id="events">{held}</script>\n'
    html = _SCRIPT.sub(lambda _: f'{data}<script type="module">{script}</script>', html)
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(html)
    except FileExistsError:
        raise UsageError(f"{target.name} is there already; name a new file") from None
    except OSError:
        raise UsageError(f"{target.name} cannot be written there") from None
