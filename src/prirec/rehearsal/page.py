"""The live city: a page on this machine that follows the events of a rehearsal, and the same page as one file.

The server gives the page's own files and the events, as server-sent events, and takes nothing. It is on this machine
alone. The one file holds page and events, and loads nothing: its policy lets no request through.
"""

import asyncio
import base64
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, nullcontext
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from prirec.errors import StateError, UsageError
from prirec.pages import Asgi, PageServer, Receive, Send, built
from prirec.pages.local import listen, origin_of, say, served
from prirec.rehearsal.events import EventFile, ShowEvent
from prirec.util.files import new_file

EVENTS: Final = "/events"
PAUSE: Final = 0.1  # seconds between two looks at the file of events
FILE_EXISTS: Final = "{} is there already; name a new file"
_HEADERS: Final = ((b"content-type", b"text/event-stream"), (b"cache-control", b"no-store"))
_STYLE: Final = re.compile(r'<link rel="stylesheet" href="\.?/?([^"]+)">')
_SCRIPT: Final = re.compile(r'<script type="module" src="\.?/?([^"]+)"></script>')


class CityPage:
    """An ASGI app: the page `city`, and the events in a file that grows."""

    def __init__(self, events: Path) -> None:
        self._events, self._files = events, PageServer(built("city"))

    async def __call__(self, scope: Asgi, receive: Receive, send: Send) -> None:
        if scope["path"] != EVENTS:
            await self._files(scope, receive, send)
        elif scope["method"] != "GET":
            await say(send, 405, b"")
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


@contextmanager
def page_of(events: Path) -> Iterator[str]:
    """The page in a thread of this process, on a free port of this machine, while the context lasts; its address."""
    with listen() as listening, served(CityPage(events), listening):
        yield f"{origin_of(listening)}/"


@contextmanager
def shown(target: Path | None, *, tell: Callable[[str], None] | None) -> Iterator[ShowEvent]:
    """The page of a rehearsal while the context lasts: whoever rehearses calls what this yields with each event. `tell`
    is told its address; None: there is no page. At the end it is written into one file, if there is a `target`,
    whatever has happened."""
    if target is not None and (target.exists() or target.is_symlink()):  # new_file writes through no link
        raise UsageError(FILE_EXISTS.format(target.name))
    if target is not None and not target.absolute().parent.is_dir():
        raise UsageError(f"there is no folder {target.parent}; make it, or name another file")
    with TemporaryDirectory(prefix="prirec-page-") as folder:
        events = Path(folder) / "city.jsonl"
        with EventFile(events) as write, page_of(events) if tell else nullcontext() as address:
            if tell is not None and address is not None:
                tell(address)
            try:
                yield write
            finally:
                if target is not None and write.many:
                    record(events, target)


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
        with new_file(target) as file:
            file.write(html.encode())
    except FileExistsError:
        raise UsageError(FILE_EXISTS.format(target.name)) from None
    except OSError as broken:
        raise StateError(f"{target.name} could not be written: {broken.strerror}") from None
