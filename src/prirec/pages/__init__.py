"""Built pages: folders of static files that come with the wheel, and a small ASGI app that serves one of them.

Their sources are in web/, and `make setup` builds them. Headers are strict: a page loads its own files alone, connects
to the origins that it is given alone, runs no inline script, and is shown in no frame.
"""

import gzip
import mimetypes
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from prirec.errors import StateError, UsageError

BUILT: Final = Path(__file__).parent / "built"
HASHED: Final = re.compile(r"-[A-Z0-9]{8}\.\w+$")  # a bundle's name changes with its content (web/scripts/build.ts)
_TYPES: Final = {".js": "text/javascript", ".webmanifest": "application/manifest+json", ".woff2": "font/woff2"}
_TEXT: Final = ("text/", "application/json", "application/manifest+json", "image/svg+xml")
_ORIGIN: Final = re.compile(r"https?://(\[[0-9a-f:]+\]|[a-z0-9.-]+)(:\d{1,5})?")

Asgi: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Asgi]]
Send: TypeAlias = Callable[[Asgi], Awaitable[None]]


def built(name: str) -> Path:
    """The folder of a page. StateError if it was not built."""
    folder = BUILT / name
    if not (folder / "index.html").is_file():
        raise StateError(f"the page '{name}' is not built: `make setup` builds it in a checkout; wheels contain it")
    return folder


def page_if_built(name: str) -> "PageServer | None":
    """A page that a service has beside what it is for: without it the service runs as well."""
    return PageServer(built(name)) if (BUILT / name / "index.html").is_file() else None


def security_headers(connect: Iterable[str] = ()) -> Mapping[str, str]:
    """What every answer of a page's origin says. `connect`: the origins that the page may talk to beside its own."""
    origins = " ".join(("'self'", *map(_checked_origin, connect)))
    policy = (
        "default-src 'self'", f"connect-src {origins}", "img-src 'self' data: blob:", "object-src 'none'",
        "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'",
        "trusted-types default",
    )  # fmt: skip
    return MappingProxyType({
        "content-security-policy": "; ".join(policy),
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "permissions-policy": "geolocation=(self), camera=(), microphone=(), payment=(), usb=()",
    })  # fmt: skip


def caching(name: str) -> str:
    """How long a file may be kept: a bundle for ever, as its name changes with its content. The rest is asked for."""
    return "public, max-age=31536000, immutable" if HASHED.search(name) else "no-cache"


def _checked_origin(origin: str) -> str:
    if not _ORIGIN.fullmatch(origin):
        raise UsageError("an origin is https://, a host's name and perhaps a port: https://places.example:8443")
    return origin


@dataclass(frozen=True, slots=True)
class _File:
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    packed: bytes | None  # with gzip, where that is smaller

    @classmethod
    def of(cls, name: str, body: bytes) -> "_File":
        kind = _TYPES.get(Path(name).suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
        text = kind.startswith(_TEXT)
        headers = {
            "content-type": f"{kind}; charset=utf-8" if text else kind,
            "cache-control": caching(name),
            "etag": f'"{sha256(body).hexdigest()[:32]}"',
            "vary": "accept-encoding",
        }
        packed = gzip.compress(body, mtime=0) if text else body
        return cls(_encoded(headers), body, packed if len(packed) < len(body) else None)


class PageServer:
    """An ASGI app that serves a folder, and nothing else. Files are read once, so an update of the package never mixes
    two builds."""

    def __init__(self, folder: Path, *, connect: Iterable[str] = (), extra: Mapping[str, bytes] | None = None):
        """`extra`: files that are not in the folder, by name."""
        self._security = _encoded(security_headers(connect))
        held = {one.relative_to(folder).as_posix(): one.read_bytes() for one in folder.rglob("*") if one.is_file()}
        self._files = {f"/{name}": _File.of(name, body) for name, body in (held | dict(extra or {})).items()}
        self._files["/"] = self._files["/index.html"]

    def has(self, name: str) -> bool:
        """Whether there is a file of this name; the empty name is the page itself."""
        return f"/{name}" in self._files

    async def __call__(self, scope: Asgi, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._answer(scope, send)

    async def _answer(self, scope: Asgi, send: Send) -> None:
        path = str(scope["path"]).removeprefix(str(scope.get("root_path", "")))
        asked = {bytes(name): bytes(value) for name, value in scope["headers"]}
        file = self._files.get(path or "/")
        if scope["method"] not in ("GET", "HEAD"):
            status, headers, body = 405, _encoded({"allow": "GET, HEAD"}), b""
        elif file is None:
            status, headers, body = 404, _encoded({"content-type": "text/plain"}), b"there is nothing at this address\n"
        elif (b"etag", asked.get(b"if-none-match", b"")) in file.headers:
            status, headers, body = 304, file.headers, b""
        elif file.packed is not None and b"gzip" in asked.get(b"accept-encoding", b""):
            status, headers, body = 200, (*file.headers, (b"content-encoding", b"gzip")), file.packed
        else:
            status, headers, body = 200, file.headers, file.body
        length = () if status == 304 else ((b"content-length", b"%d" % len(body)),)
        shown = b"" if scope["method"] == "HEAD" else body
        await send({
            "type": "http.response.start", "status": status, "headers": [*headers, *length, *self._security]
        })  # fmt: skip
        await send({"type": "http.response.body", "body": shown})


def _encoded(headers: Mapping[str, str]) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items())
