"""Logs and metrics of the service, with nothing in them that a client sent.

A log line is a JSON object. This program's own events are written out: a name, numbers, texts of its own. Of what
libraries log only the place in their source is: their texts can hold an address, a path or a part of a request. Of an
error its type and where it happened; its text only if it is this program's own, which repeats nothing private.
"""

import json
import logging
import os
import traceback
from dataclasses import fields as dataclass_fields
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from prirec.errors import PassingError, PrirecError

_LOGGER: Final = "prirec.recommender"
_log = logging.getLogger(_LOGGER)


class JsonLines(logging.Formatter):
    """Formats a log record as a line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
        }
        if record.name == _LOGGER:
            line |= {"event": record.msg, **getattr(record, "fields", {})}
        else:
            line |= {"event": "library", "source": f"{record.name} {record.module}:{record.lineno}"}
        if record.exc_info and record.exc_info[1] is not None:
            line |= _error(record.exc_info[1])
        return json.dumps(line)


def note(event: str, **fields: int | float | str) -> None:
    """Log something that whoever runs the service should know, in the program's own words."""
    _log.info(event, extra={"fields": fields})


def warning(event: str, **fields: int | float | str) -> None:
    """Log something that whoever runs the service should act on."""
    _log.warning(event, extra={"fields": fields})


def failure(event: str, error: BaseException, **fields: int | float | str) -> None:
    """Log an error that should not have happened."""
    _log.error(event, extra={"fields": fields | _error(error)})


def log_outage(problem: PassingError | None) -> None:
    """Log that the store cannot be used, or can be used again (Store.watch)."""
    if problem is None:
        note("the store is back")
    else:
        warning("the store is away", problem=str(problem))


def log_event(by: Any) -> None:
    """Log a dataclass with a field `event` and others beside it (ConductorEvent); empty fields are left out. What says
    that the store is away is not logged: `log_outage` has done so once."""
    if by.passing:
        return
    held = {field.name: getattr(by, field.name) for field in dataclass_fields(by)}
    event = held.pop("event")
    note(event, **{name: value for name, value in held.items() if value})


def _error(error: BaseException) -> dict[str, Any]:
    frames = traceback.extract_tb(error.__traceback__)
    at = [f"{Path(frame.filename).stem}:{frame.lineno} {frame.name}" for frame in frames]
    problem = {"problem": str(error)} if isinstance(error, PrirecError) else {}
    return {"error": type(error).__name__, "at": at, **problem}


def configuration() -> dict[str, Any]:
    """For logging.config.dictConfig: everything is logged as such lines, on standard error."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": {"()": JsonLines}},
        "handlers": {"lines": {"class": "logging.StreamHandler", "formatter": "lines"}},
        "root": {"handlers": ["lines"], "level": "WARNING"},
        # of uvicorn no warnings: anybody can make it write one with every line of garbage
        "loggers": {_LOGGER: {"level": "INFO"}, "uvicorn": {"level": "ERROR"}},
    }


# Metrics for Prometheus. No label holds a person, an address or a path that a client chose: routes are named by their
# pattern, which also bounds the number of time series.


SHARED_METRICS: Final = "PROMETHEUS_MULTIPROC_DIR"  # folder that workers of one machine share; read at import
PAGE: Final = CONTENT_TYPE_LATEST

_SECONDS: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_MANY: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


disable_created_metrics()  # type: ignore[no-untyped-call]  # they would double the page


class Metrics:
    """The metrics of one worker; where workers share a folder, `page` adds theirs up."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        counter, histogram = partial(Counter, registry=registry), partial(Histogram, registry=registry)
        self.requests = counter("prirec_requests", "Requests, by route and status.", ("route", "status"))
        self.seconds = histogram(
            "prirec_request_seconds", "Time to an answer, with what it waited for queued messages.", ("route",),
            buckets=_SECONDS,
        )  # fmt: skip
        self.messages = counter(
            "prirec_messages", "Messages of the protocols that were posted: taken, or why not.", ("result",)
        )
        self.queued = counter("prirec_queued_messages", "Messages of the recommender that devices have fetched.")
        self.received = counter("prirec_message_bytes", "Bytes of messages that were posted.")
        self.commits = histogram("prirec_commit_messages", "Messages that were made durable together.", buckets=_MANY)
        self.commit_seconds = histogram("prirec_commit_seconds", "Time until they were durable.", buckets=_SECONDS)
        self.polls = Gauge(
            "prirec_waiting_polls",
            "Requests that wait for queued messages.",
            registry=registry,
            multiprocess_mode="livesum",
        )
        self.conductor_failures = counter("prirec_conductor_failures", "How often the conductor ended with an error.")
        if SHARED_METRICS in os.environ:
            _forget_the_dead(Path(os.environ[SHARED_METRICS]))
        else:
            ProcessCollector(registry=registry)

    def page(self) -> bytes:
        if SHARED_METRICS not in os.environ:
            return generate_latest(self._registry)
        shared = CollectorRegistry()
        MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
        return generate_latest(shared)


def _forget_the_dead(folder: Path) -> None:
    """Drop the gauges of workers that have died: their long polls are gone."""
    for process in {int(file.stem.rpartition("_")[2]) for file in folder.glob("gauge_live*_*.db")}:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            mark_process_dead(process)  # type: ignore[no-untyped-call]
