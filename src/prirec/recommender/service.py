"""The recommender's service over HTTP (FastAPI): public documents for anyone, mail for devices with a session.

Requests for public documents carry no name, and two people of one region send the same ones: the recommender does not
learn who downloads what. Bodies are MessagePack. Routes are FastAPI's, so that it can describe them (OpenAPI); but
endpoints work on plain requests and responses, for sealed boxes pass through here by the thousand.
"""

import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from os import urandom
from time import monotonic, time
from typing import Any, Final, TypeAlias, get_type_hints

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.routing import APIRoute
from prometheus_client import Counter
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

import prirec
from prirec.errors import PeerError, StateError
from prirec.protocols.messages import Part
from prirec.recommender import observability
from prirec.recommender.endpoints import Endpoints
from prirec.recommender.limits import Limits
from prirec.recommender.observability import Metrics
from prirec.recommender.responses import (
    NOT_FOUND,
    RefusedError,
    internal_error,
    not_found,
    refusal_of,
    store_unavailable,
)
from prirec.recommender.store import Store
from prirec.wire.http import MEDIA, Challenge, Done, Hello, Mail, Post, Refusal, Session, SignedClaim, SignedEnrolment
from prirec.wire.log import Page

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]
Background: TypeAlias = Callable[[Endpoints], AbstractContextManager[None]]

MAIL: Final = "POST /v1/mail"


def app(
    store: Store,
    *,
    limits: Limits | None = None,
    code: str | None = None,
    clock: Callable[[], float] = time,
    steady: Callable[[], float] = monotonic,
    entropy: Callable[[int], bytes] = urandom,
    alongside: Background = lambda at: nullcontext(),
) -> FastAPI:
    """The service on a store. `code` is the enrolment code that the operator hands out; without one anybody may enrol.
    `clock` is the time of day, `steady` one that never jumps. `alongside` is a context around the life of the service:
    the conductor runs in it."""
    at = Endpoints(
        store, limits=limits or Limits(), metrics=Metrics(), code=code, clock=clock, steady=steady, entropy=entropy
    )

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[dict[str, Any]]:
        with alongside(at), _frozen_garbage_collector():
            at.mailbox.open()
            try:
                yield {"release": at.mailbox.release}
            finally:
                await at.close()

    service = Service(
        title="PriRec recommender", version=prirec.__version__, lifespan=life, docs_url=None, redoc_url=None,
        redirect_slashes=False,
    )  # fmt: skip
    service.router.route_class = PlainRoute
    service.add_exception_handler(HTTPException, _unknown_route(at.metrics))
    for route, description in ROUTES.items():
        (method, path), name = route.split(), description["name"]
        endpoint = _guarded(getattr(at, name), at=at, route=path)
        service.add_api_route(path, endpoint, methods=[method], response_class=Response, **description)
        if route == MAIL:
            service.shortcut = _as_asgi(endpoint)
    return service


class Service(FastAPI):
    """FastAPI with a shortcut: nearly all requests are for mail, and skip the search for their route."""

    shortcut: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.shortcut is not None and f"{scope.get('method')} {scope.get('path')}" == MAIL:
            await self.shortcut(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        schema = super().openapi()
        schema.setdefault("components", {}).update(SECURITY)
        return schema


class PlainRoute(APIRoute):
    """A route that FastAPI describes but does not call: its endpoint gets the request itself, without FastAPI's parsing
    of parameters and models."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **description: Any):
        super().__init__(path, endpoint, **description)
        self.app = _as_asgi(endpoint)


@contextmanager
def _frozen_garbage_collector() -> Iterator[None]:
    """Exempt from garbage collection what exists before the service begins: it stays anyway, and with thousands of
    boxes coming and going, traversing it took up to a third of a busy worker's time."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _as_asgi(endpoint: Endpoint) -> ASGIApp:
    async def plainly(scope: Scope, receive: Receive, send: Send) -> None:
        response = await endpoint(Request(scope, receive, send))
        await response(scope, receive, send)

    return plainly


def _guarded(endpoint: Endpoint, *, at: Endpoints, route: str) -> Endpoint:
    """An endpoint that only ever answers: errors become typed refusals, none of which repeats what was sent. Requests
    are counted by route and status."""
    counts, seconds = at.metrics.requests, at.metrics.seconds.labels(route)
    answered: dict[int, Counter] = {}

    async def guarded(request: Request) -> Response:
        begun = at.steady()
        try:
            response = await endpoint(request)
        except RefusedError as refusal:
            response = refusal.response
        except PeerError as fault:
            response = refusal_of(fault).response
        except StateError as trouble:
            observability.failure("the store failed", trouble, route=route)
            response = store_unavailable().response
        except ClientDisconnect:
            response = Response(status_code=400)  # to nobody
        except Exception as error:
            observability.failure("an answer failed", error, route=route)
            response = internal_error().response
        status = response.status_code
        if (count := answered.get(status)) is None:
            count = answered[status] = counts.labels(route, status)
        count.inc()
        seconds.observe(at.steady() - begun)
        return response

    guarded.__doc__ = endpoint.__doc__
    return guarded


def _unknown_route(metrics: Metrics) -> Callable[[Request, Exception], Awaitable[Response]]:
    """Answers to unknown paths and methods."""

    async def handle(_: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException) and error.status_code == 405:
            refusal = RefusedError(405, NOT_FOUND, "this address does not take that method", headers=error.headers)
        else:
            refusal = not_found()
        metrics.requests.labels("none", refusal.status).inc()
        return refusal.response

    return handle


# Routes, each with the name of its endpoint and its OpenAPI description


_BINARY: Final = {"schema": {"type": "string", "format": "binary"}}
HEX: Final = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
COUNT: Final = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
SECURITY: Final = {"securitySchemes": {"session": {"type": "http", "scheme": "bearer"}}}
_WORDS: Final = {
    200: "So it is.",
    304: "The document is the one that is held already.",
    400: "The body, or a parameter, is not what belongs here.",
    401: "Whoever asks is not known, or has not shown it: always the same words.",
    404: "There is nothing at this address.",
    413: "The body is larger than belongs here.",
    429: "Too many requests; the header Retry-After says how long to wait.",
    500: "A fault of the service's own.",
    503: "The store cannot be used now.",
}
_ALWAYS: Final = (429, 500, 503)


def route_description(
    name: str,
    *faults: int,
    answer: type[Part] | None = None,
    request: type[Part] | None = None,
    parameters: tuple[dict[str, Any], ...] = (),
    session: bool = False,
) -> dict[str, Any]:
    """Arguments for FastAPI's add_api_route: what goes in and comes out, and which refusals there are."""
    responses: dict[int | str, dict[str, Any]] = {status: _answered(status, Refusal) for status in (*faults, *_ALWAYS)}
    if 304 in faults:
        responses[304] = {"description": _WORDS[304]}
    responses[200] = _answered(200, answer)
    extra: dict[str, Any] = {"parameters": list(parameters)} if parameters else {}
    if request is not None:
        body = {"required": True, "description": wire_fields(request), "content": {MEDIA: _BINARY}}
        extra["requestBody"] = body
    if session:
        extra["security"] = [{"session": []}]
    return {"name": name, "responses": responses, "openapi_extra": extra}


def parameter(name: str, where: str, *, schema: dict[str, Any], words: str) -> dict[str, Any]:
    return {"name": name, "in": where, "required": where == "path", "schema": schema, "description": words}


def wire_fields(kind: type[Part]) -> str:
    """A message as it is on the wire, in words: an array that begins with its name."""
    hints = get_type_hints(kind)
    fields = [f"{field.name} ({_plain(hints[field.name])})" for field in msgspec.structs.fields(kind)]
    tag = kind.__struct_config__.tag
    return f"MessagePack array: {', '.join([f'the text {tag!r}', *fields])}."


def _plain(kind: Any) -> str:
    if isinstance(kind, type):
        return kind.__name__
    return "array" if "tuple" in str(kind) else str(kind).split(".")[-1]


def _answered(status: int, kind: type[Part] | None) -> dict[str, Any]:
    if kind is None:
        return {"description": _WORDS[status], "content": {MEDIA: _BINARY}}
    return {"description": f"{_WORDS[status]} {wire_fields(kind)}", "content": {MEDIA: _BINARY}}


_NAME = parameter("name", "path", schema=HEX, words="The document's SHA-256.")
_AFTER = parameter("after", "query", schema=COUNT, words="How many entries are known already.")
_ASKED = (400, 401, 413)
ROUTES: Final[dict[str, dict[str, Any]]] = {  # each with the name of its endpoint
    MAIL: route_description("mail", *_ASKED, answer=Post, request=Mail, session=True),
    "GET /v1/deployment": route_description("deployment", answer=Hello),
    "GET /v1/log": route_description("log", 400, answer=Page, parameters=(_AFTER,)),
    "GET /v1/documents/{name}": route_description("document", 304, 404, parameters=(_NAME,)),
    "POST /v1/devices": route_description("enrol", *_ASKED, answer=Done, request=SignedEnrolment),
    "POST /v1/devices/leave": route_description("leave", *_ASKED, answer=Done, request=Mail, session=True),
    "POST /v1/challenges": route_description("challenge", 400, 413, answer=Challenge),
    "POST /v1/sessions": route_description("session", *_ASKED, answer=Session, request=SignedClaim),
    "GET /healthz": {"name": "healthy", "include_in_schema": False},
    "GET /readyz": {"name": "ready", "include_in_schema": False},
    "GET /metrics": {"name": "figures", "include_in_schema": False},
}
