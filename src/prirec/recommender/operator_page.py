"""The operator's page: who may see it, and what it is given. Read-only; on the operator's port alone.

A request must name this service as its certificate does: a page of another site that has its name point here (DNS
rebinding) names itself. What changes something, logging in and out, must come from the page's own origin. A login
token is exchanged for a cookie that no script can read and that no other site's page sends along; the cookie bears the
service's own name, since browsers keep one jar for all ports of a machine.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec
from fastapi import Request, Response

from prirec.pages import page_if_built, security_headers
from prirec.recommender.limits import Limits, RateLimiter
from prirec.recommender.operator_logins import SESSION_SECONDS, OperatorLogins
from prirec.recommender.overview import OverviewReader
from prirec.recommender.responses import (
    FORBIDDEN,
    PRIVATE,
    PageResponse,
    RefusedError,
    body_of,
    header_of,
    not_found,
    unauthenticated,
)
from prirec.recommender.tls import LOCAL
from prirec.util.decode_errors import NOT_DECODED

OPERATOR: Final = "/operator"
LONGEST_LOGIN: Final = 1000  # bytes
JSON: Final = b"application/json"


class Login(msgspec.Struct, forbid_unknown_fields=True):
    token: str


_login = msgspec.json.Decoder(Login)


class OperatorPage:
    """One method a route."""

    def __init__(
        self, logins: OperatorLogins, overview: OverviewReader, *, name: str, hosts: frozenset[str], limits: Limits,
        clock: Callable[[], float], steady: Callable[[], float], count: Callable[[Request], str],
        ask: Callable[..., Awaitable[Any]],
    ) -> None:  # fmt: skip
        """`name` tells this service's cookie from those of others on the machine; `hosts` are the names in the server's
        certificate. `count` counts a request against its address, `ask` runs a function in a thread."""
        self._logins, self._overview, self._clock, self._steady = logins, overview, clock, steady
        self._hosts, self._cookie = hosts | frozenset(LOCAL), f"__Host-prirec-{name}"
        self._count, self._ask, self._page = count, ask, page_if_built("operator")
        self._failures = RateLimiter[str](limits.login, most=limits.remembered)

    async def home(self, request: Request) -> Response:
        """To the page's own folder."""
        self._admit(request)
        return Response(status_code=308, headers={"location": f"{OPERATOR}/"})

    async def file(self, request: Request) -> Response:
        """The page and its files, which say nothing of this deployment."""
        self._admit(request)
        if self._page is None or not self._page.has(request.path_params["name"]):
            raise not_found()
        return PageResponse(self._page, below=OPERATOR)

    async def log_in(self, request: Request) -> Response:
        """A session, for the token."""
        address = self._admit(request, changing=True)
        self._failures.refuse_spent(address, now=self._steady())
        token = await _token_in(request)
        session = await self._ask(lambda: self._logins.log_in(token, now=int(self._clock())))
        if session is None:
            self._failures.take(address, now=self._steady())
            raise unauthenticated()
        return self._done(f"{session}; Max-Age={SESSION_SECONDS}")

    async def log_out(self, request: Request) -> Response:
        """End the session."""
        self._admit(request, changing=True)
        await self._ask(self._logins.log_out, self._session_of(request))
        return self._done("; Max-Age=0")

    async def overview(self, request: Request) -> Response:
        """Everything that the page shows, in JSON."""
        self._admit(request)
        session, now = self._session_of(request), int(self._clock())
        if not session or not await self._ask(lambda: self._logins.is_open(session, now=now)):
            raise unauthenticated()
        found = msgspec.json.encode(await self._ask(self._overview.read))
        return Response(found, headers=_private(), media_type=JSON.decode())

    def _admit(self, request: Request, *, changing: bool = False) -> str:
        """The address that a request comes from. RefusedError for one that is not meant for this service, or that a
        page of another origin sends."""
        address = self._count(request)
        host = header_of(request, b"host")
        name = _name_in(host)
        if not self._hosts & {name, f"*.{name.partition('.')[2]}"}:
            raise RefusedError(421, FORBIDDEN, "this page goes by the names in the server's certificate alone")
        origin, site = header_of(request, b"origin"), header_of(request, b"sec-fetch-site")
        foreign = origin not in ((b"https://" + host,) if changing else (b"", b"https://" + host))
        # `none`: somebody has typed the address. A link from elsewhere shows the page, which then asks by itself.
        navigating = header_of(request, b"sec-fetch-mode") == b"navigate"
        if foreign or not ((navigating and not changing) or site in (b"", b"same-origin", b"none")):
            raise RefusedError(403, FORBIDDEN, "a page of another origin may not ask for this")
        return address

    def _session_of(self, request: Request) -> str:
        return request.cookies.get(self._cookie, "")

    def _done(self, value: str) -> Response:
        cookie = f"{self._cookie}={value}; Path=/; Secure; HttpOnly; SameSite=Strict"
        return Response(status_code=204, headers={**_private(), "set-cookie": cookie})


def _private() -> Mapping[str, str]:
    return {**PRIVATE, **security_headers()}


def _name_in(host: bytes) -> str:
    """The name in a Host header, without its port."""
    name = host.decode("latin-1").lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0].rstrip(".")


async def _token_in(request: Request) -> str:
    """A browser sends JSON to another origin only after it has asked, and is never let."""
    body = await body_of(request, limit=LONGEST_LOGIN)
    try:
        if header_of(request, b"content-type").partition(b";")[0] == JSON:
            return _login.decode(body).token
    except NOT_DECODED:
        pass
    raise RefusedError(400, "DECODE", "a login is a JSON object with a token")
