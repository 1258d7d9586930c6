"""What a request carries, looked at no further than it must be."""

from collections.abc import Callable
from typing import TypeVar

from h3.api import basic_int as h3
from starlette.requests import ClientDisconnect, Request

from prirec.contract.wire import FINEST_CELL, read_request
from prirec.errors import Fault, PeerError
from prirec.protocols.messages import Part
from prirec.recommender.answers import too_large
from prirec.recommender.limits import LARGE

Asked = TypeVar("Asked", bound=Part)


async def body_of(request: Request, *, limit: int, charge: Callable[[int], None] | None = None) -> bytes:
    """Up to so many bytes. A large body is charged for as it comes; that it comes in time is for the connection to see
    to."""
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
        if charge is not None and size > LARGE:
            charge(size - charged)
            charged = size
    return b"".join(chunks)


def header_of(request: Request, wanted: bytes) -> bytes:
    """The first of this name, or nothing."""
    return next((value for name, value in request.scope["headers"] if name == wanted), b"")


def read(body: bytes, kind: type[Asked], *, limit: int) -> Asked:
    """A request of the kind that the address takes."""
    asked = read_request(body, limit=limit)
    if not isinstance(asked, kind):
        raise PeerError(Fault.DECODE, "the body is not what this address takes")
    return asked


def refuse_odd(cell: int) -> None:
    """A cell that is none would end a campaign before it begins; a finer one tells more than a device means to."""
    if cell and not (h3.is_valid_cell(cell) and h3.get_resolution(cell) <= FINEST_CELL):
        raise PeerError(Fault.DECODE, f"a cell is one of h3's, of resolution {FINEST_CELL} or coarser, or 0")
