"""Logs of the service: one JSON object a line, with nothing in it that anybody sent.

What this program says of itself is written out: an event, numbers, words of its own. Of what libraries say only the
place in their source is: their texts can hold an address, a path or a part of a request. Of an error its type and
where it happened; its text only if it is this program's own, which repeats nothing private.
"""

import json
import logging
import traceback
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from prirec.errors import PrirecError

_LOGGER: Final = "prirec.recommender"
_log = logging.getLogger(_LOGGER)


class Lines(logging.Formatter):
    """A record as a line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
        }
        if record.name == _LOGGER:
            line |= {"event": record.msg, **getattr(record, "told", {})}
        else:
            line |= {"event": "library", "source": f"{record.name} {record.module}:{record.lineno}"}
        if record.exc_info and record.exc_info[1] is not None:
            line |= _error(record.exc_info[1])
        return json.dumps(line)


def note(event: str, **told: int | float | str) -> None:
    """Something that whoever runs the service should know. Words are the program's own."""
    _log.info(event, extra={"told": told})


def warning(event: str, **told: int | float | str) -> None:
    """The same, and something is to be done about it."""
    _log.warning(event, extra={"told": told})


def failure(event: str, error: BaseException, **told: int | float | str) -> None:
    """Something that should not have happened."""
    _log.error(event, extra={"told": told | _error(error)})


def told(by: Any) -> None:
    """What a conductor tells about itself, which has an `event` and numbers or words beside it; empty ones are left
    out."""
    held = {field.name: getattr(by, field.name) for field in fields(by)}
    event = held.pop("event")
    note(event, **{name: value for name, value in held.items() if value})


def _error(error: BaseException) -> dict[str, Any]:
    frames = traceback.extract_tb(error.__traceback__)
    at = [f"{Path(frame.filename).stem}:{frame.lineno} {frame.name}" for frame in frames]
    told = {"problem": str(error)} if isinstance(error, PrirecError) else {}
    return {"error": type(error).__name__, "at": at, **told}


def configuration() -> dict[str, Any]:
    """For logging.config.dictConfig: everything that anybody logs goes out as such lines, on standard error."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": {"()": Lines}},
        "handlers": {"lines": {"class": "logging.StreamHandler", "formatter": "lines"}},
        "root": {"handlers": ["lines"], "level": "WARNING"},
        # of uvicorn no warnings: anybody can make it write one with every line of garbage
        "loggers": {_LOGGER: {"level": "INFO"}, "uvicorn": {"level": "ERROR"}},
    }
