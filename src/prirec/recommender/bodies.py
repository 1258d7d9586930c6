"""What a request carries, looked at no further than it must be."""

from starlette.requests import ClientDisconnect, Request

from prirec.recommender.answers import too_large
from prirec.recommender.limits import Hold


async def body_of(request: Request, *, limit: int, hold: Hold | None = None) -> bytes:
    """Up to so many bytes. That they come in time is for the connection to see to."""
    declared = header_of(request, b"content-length")
    if declared.isdigit() and (len(declared) > 15 or int(declared) > limit):
        raise too_large(limit)
    chunks, size, more = [], 0, True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk, more = message.get("body", b""), message.get("more_body", False)
        size += len(chunk)
        if size > limit:
            raise too_large(limit)
        if hold is not None:
            hold.take(len(chunk))
        chunks.append(chunk)
    return b"".join(chunks)


def header_of(request: Request, wanted: bytes) -> bytes:
    """The first of this name, or nothing."""
    return next((value for name, value in request.scope["headers"] if name == wanted), b"")
