"""What the service's OpenAPI document says of its bodies: they are MessagePack, and their fields are named here."""

from typing import Any, Final, get_type_hints

import msgspec

from prirec.contract.wire import MEDIA, Refusal
from prirec.protocols.messages import Part

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


def described(
    name: str,
    *faults: int,
    answer: type[Part] | None = None,
    request: type[Part] | None = None,
    parameters: tuple[dict[str, Any], ...] = (),
    session: bool = False,
) -> dict[str, Any]:
    """For FastAPI's add_api_route: what goes in and comes out, and which refusals there are."""
    responses: dict[int | str, dict[str, Any]] = {status: _answered(status, Refusal) for status in (*faults, *_ALWAYS)}
    if 304 in faults:
        responses[304] = {"description": _WORDS[304]}
    responses[200] = _answered(200, answer)
    extra: dict[str, Any] = {"parameters": list(parameters)} if parameters else {}
    if request is not None:
        body = {"required": True, "description": fields_of(request), "content": {MEDIA: _BINARY}}
        extra["requestBody"] = body
    if session:
        extra["security"] = [{"session": []}]
    return {"name": name, "responses": responses, "openapi_extra": extra}


def parameter(name: str, where: str, *, schema: dict[str, Any], words: str) -> dict[str, Any]:
    return {"name": name, "in": where, "required": where == "path", "schema": schema, "description": words}


def fields_of(kind: type[Part]) -> str:
    """A part as it is on the wire, in words: an array that begins with a name."""
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
    return {"description": f"{_WORDS[status]} {fields_of(kind)}", "content": {MEDIA: _BINARY}}
