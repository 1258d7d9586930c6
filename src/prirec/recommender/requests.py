"""Reading requests: a body up to a limit, and a header."""

from collections.abc import Callable

from fastapi import Request
from starlette.requests import ClientDisconnect

from prirec.recommender.limits import LARGE_BODY
from prirec.recommender.responses import too_large


async def body_of(request: Request, *, limit: int, charge: Callable[[int], None] | None = None) -> bytes:
    """The body, of at most so many bytes. A large one is charged for as it arrives, not by its declared length: who
    declares much and sends nothing occupies nothing. That it arrives in time, server.py sees to."""
    declared = header_of(request, b"content-length")
    if declared.isdigit() and (len(declared) > 15 or int(declared) > limit):
        raise too_large(limit)
    chunks, size, charged, more = [], 0, 0, True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk, more = message.get("body", b""), message.get("more_body", False)
        size += len(chunk)
        if size > limit:
            raise too_large(limit)
        chunks.append(chunk)
        if charge is not None and size > LARGE_BODY:
            charge(size - charged)
            charged = size
    return b"".join(chunks)


def header_of(request: Request, wanted: bytes) -> bytes:
    """The first header of this name, or nothing."""
    return next((value for name, value in request.scope["headers"] if name == wanted), b"")
