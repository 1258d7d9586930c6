"""Answers as they travel: MessagePack, and refusals that say why without repeating anything of what was sent."""

from collections.abc import Mapping
from math import ceil
from typing import Final

from starlette.responses import Response

from prirec.contract.wire import BEARER, MEDIA, Refusal
from prirec.errors import Fault, PeerError, PrirecError
from prirec.protocols.codec import encode
from prirec.protocols.messages import Part

PRIVATE: Final = {"cache-control": "no-store"}  # for whatever is one device's own
STATUS: Final = {Fault.DECODE: 400, Fault.AUTH: 401}  # every other fault is a 409

# what is refused before a protocol has anything to say about it
ABSENT, TOO_LARGE, TOO_MANY, FAILED, AWAY = "ABSENT", "TOO_LARGE", "TOO_MANY", "FAILED", "AWAY"
_MEDIA: Final = MEDIA.encode("ascii")


class RefusedError(PrirecError):
    """A request that is answered with a refusal. The words are the project's own."""

    def __init__(self, status: int, fault: str, problem: str, *, headers: Mapping[str, str] | None = None):
        super().__init__(f"{fault}: {problem}")
        self.status, self.fault, self.problem, self.headers = status, fault, problem, dict(headers or {})

    @property
    def response(self) -> Response:
        return packed(Refusal(self.fault, self.problem), status=self.status, headers=PRIVATE | self.headers)


def nobody() -> RefusedError:
    """One for every failure of authentication: what exactly was wrong, and whether a name is known, is not told."""
    held = {"www-authenticate": BEARER}
    return RefusedError(401, Fault.AUTH, "a key, a signature or a session does not hold", headers=held)


def broken() -> RefusedError:
    """A fault of this program's own."""
    return RefusedError(500, FAILED, "something went wrong here; it is in the log of whoever runs this")


def absent() -> RefusedError:
    return RefusedError(404, ABSENT, "there is nothing at this address")


def too_large(limit: int) -> RefusedError:
    return RefusedError(413, TOO_LARGE, f"a body at this address has at most {limit} bytes")


def too_many(seconds: float) -> RefusedError:
    wait = max(1, ceil(seconds))
    return RefusedError(429, TOO_MANY, f"too many requests; try again in {wait} s", headers={"retry-after": str(wait)})


def away() -> RefusedError:
    """The store cannot be used at the moment: its disk is full, or its server is gone."""
    return RefusedError(503, AWAY, "the store cannot be used now; try again later", headers={"retry-after": "5"})


def refused(fault: PeerError) -> RefusedError:
    """What the other side did wrong, as it is told. Words about authentication are always the same."""
    if fault.fault is Fault.AUTH:
        return nobody()
    return RefusedError(STATUS.get(fault.fault, 409), fault.fault, str(fault).removeprefix(f"{fault.fault}: "))


class Packed(Response):
    """Starlette's response with its headers written down at once: boxes pass through here by the thousand."""

    def __init__(self, body: bytes, *, status: int = 200, headers: Mapping[str, str] | None = None):
        self.status_code, self.body, self.background = status, body, None
        written = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in (headers or {}).items()]
        self.raw_headers = [(b"content-type", _MEDIA), (b"content-length", b"%d" % len(body)), *written]


def packed(part: Part, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Packed(encode(part), status=status, headers=headers)
