"""Logs and metrics of the service, with nothing in them that a client sent.

A log line is a JSON object. This program's own events are written out: a name, numbers, texts of its own. Of what
libraries log only the place in their source is: their texts can hold an address, a path or a part of a request. Of an
error its type and where it happened; its text only if it is this program's own, which repeats nothing private.
"""

import json
import logging
import os
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields as dataclass_fields
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

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
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from prirec.errors import PassingError, PrirecError

if TYPE_CHECKING:
    from prirec.recommender.overview import Campaign, Overview

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


_POSTED: Final = {"prirec_reports": "report, when it was posted", "prirec_messages": "message, when it was posted"}


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
        self.reports = counter(
            "prirec_reports", "Reports of devices over two operators that were posted: taken, or why not.", ("result",)
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

    def page(self, of: "Overview | None" = None) -> bytes:
        """Metrics for Prometheus, with the figures of the overview if it could be read."""
        figures = CollectorRegistry()
        if of is not None:
            figures.register(_Figures(of))
        return generate_latest(self._all()) + generate_latest(figures)

    def refused(self) -> list[tuple[str, str, int]]:
        """What all workers have refused since they started: of what, for which fault, how often."""
        found = []
        for family in self._all().collect():
            what = _POSTED.get(family.name)
            for sample in family.samples if what else ():
                result = sample.labels.get("result")
                if what and result and result != "taken" and sample.name.endswith("_total"):
                    found.append((what, result, int(sample.value)))
        return sorted(found)

    def _all(self) -> CollectorRegistry:
        """The metrics of all workers that share a folder."""
        if SHARED_METRICS not in os.environ:
            return self._registry
        shared = CollectorRegistry()
        MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
        return shared


def _forget_the_dead(folder: Path) -> None:
    """Drop the gauges of workers that have died: their long polls are gone."""
    for process in {int(file.stem.rpartition("_")[2]) for file in folder.glob("gauge_live*_*.db")}:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            mark_process_dead(process)  # type: ignore[no-untyped-call]


class _Figures(Collector):
    """Figures of the overview as gauges. Times are in seconds since 1970."""

    def __init__(self, of: "Overview") -> None:
        self._of = of

    def collect(self) -> Iterator[Metric]:
        of = self._of
        build = {"role": of.role, "version": of.version, "database": of.disk.database}
        yield _gauge("prirec_build", "What runs here; always 1.", [(build, 1)])
        yield _gauge("prirec_people", "People enrolled.", _known(of.people.enrolled))
        yield _gauge("prirec_listed_people", "People on the list that both operators keep.", _known(of.people.listed))
        yield _gauge(
            "prirec_blamed_devices", "Devices that broke the protocol and are not excluded.", _known(of.people.blamed)
        )
        yield _gauge("prirec_excluded_devices", "Devices that are excluded.", _known(of.people.excluded))
        yield from _campaign_figures(of.campaign)
        yield _gauge(
            "prirec_refused_reports", "Settled reports of the campaign under way that are in no sum, by reason.",
            [({"reason": one.reason}, one.many) for one in of.settled],
        )  # fmt: skip
        if of.visits is not None:
            yield _gauge(
                "prirec_visits_noise", "Noise in each number of the sum of visits (sd).", _known(of.visits.noise)
            )
            yield _gauge("prirec_visits_places", "Places in the sum of visits.", _known(of.visits.places))
            yield _gauge("prirec_visits_above_noise", "Places more than two sd above 0.", _known(of.visits.above))
            averages = [({"column": one.name}, one) for one in of.visits.averages]
            yield _gauge(
                "prirec_average", "An average over visits, of the city.", [(name, one.value) for name, one in averages]
            )
            yield _gauge(
                "prirec_average_error", "Twice its standard error.", [(name, one.error) for name, one in averages]
            )
            yield _gauge(
                "prirec_average_place_error", "Twice the standard error of a place's average, unless noise drowns it.",
                [(name, one.at_a_place) for name, one in averages if one.at_a_place is not None],
            )  # fmt: skip
        if of.model is not None:
            sizes = [("measured", of.model.measured), ("noise", of.model.noise), ("published", of.model.published)]
            yield _gauge(
                "prirec_model_size", "Entries of B, root mean square.", [({"of": name}, one) for name, one in sizes]
            )
        if of.quality is not None:
            known = [({"figure": one.name}, one) for one in of.quality.figures if one.value is not None]
            yield _gauge(
                "prirec_quality", "A figure of the published model.", [(name, one.value or 0.0) for name, one in known]
            )
            yield _gauge(
                "prirec_quality_error", "Twice its standard error.", [(name, one.error) for name, one in known]
            )
        yield _gauge("prirec_log_entries", "Entries of the signed log.", _known(of.log.entries))
        yield _gauge("prirec_log_signed_entries", "Entries that the helper has signed.", _known(of.log.signed))
        yield _gauge("prirec_signature_time_seconds", "When the helper signed the log last.", _known(of.log.signed_at))
        yield _gauge(
            "prirec_certificate_end_seconds", "When a certificate ends.",
            [({"certificate": name}, until) for name, until in of.certificates.items()],
        )  # fmt: skip
        yield _gauge("prirec_box_key", "Whether the campaign's box key is there.", _known(of.box_key))
        yield _gauge("prirec_store_bytes", "Size of the database.", _known(of.disk.bytes))
        yield _gauge("prirec_disk_free_bytes", "Free on the disk of the store.", _known(of.disk.free))


def _campaign_figures(of: "Campaign | None") -> Iterator[Metric]:
    if of is None:
        return
    yield _gauge("prirec_campaign", "Number of the campaign under way, or of the last one.", _known(of.number))
    yield _gauge("prirec_campaign_phase", "1 for the phase that it is in.", [({"phase": of.phase}, 1)])
    yield _gauge("prirec_campaign_finished_rounds", "Rounds finished.", _known(of.round))
    yield _gauge("prirec_campaign_rounds", "Rounds that it has.", _known(of.rounds))
    yield _gauge("prirec_campaign_floor", "People below whom no sum is opened.", _known(of.floor))
    yield _gauge("prirec_conducted", "Whether a worker conducts.", _known(of.conducted))
    yield _gauge(
        "prirec_sums_opened", "Sums of the campaign that were opened.", _known(sum(one.opened for one in of.sums))
    )
    yield _gauge("prirec_sums_abandoned", "Sums that were not.", _known(sum(not one.opened for one in of.sums)))
    if of.sums:
        yield _gauge("prirec_last_sum_people", "People in the last sum.", _known(of.sums[-1].survivors))
        yield _gauge("prirec_last_sum_came", "People who came to it.", _known(of.sums[-1].rostered))
    if of.window is not None:
        yield _gauge("prirec_window_reports", "Reports in the open window.", _known(of.window.reports))
        yield _gauge("prirec_window_people", "People who may report in it.", _known(of.window.people))
        yield _gauge("prirec_window_closes_seconds", "When it closes.", _known(of.window.closes))
        yield _gauge("prirec_window_extensions", "How often it was extended.", _known(of.window.extended))


Labelled: TypeAlias = tuple[Mapping[str, str], float]


def _known(value: float | None) -> list[Labelled]:
    """Nothing where it is not known: there is then no such line."""
    return [] if value is None else [({}, value)]


def _gauge(name: str, what: str, values: Sequence[Labelled]) -> GaugeMetricFamily:
    labels = list(values[0][0]) if values else []
    made = GaugeMetricFamily(name, what, labels=labels)
    for held, value in values:
        made.add_metric([held[label] for label in labels], float(value))
    return made
