"""Figures for whoever runs the service, as Prometheus reads them. No label holds a person, an address or a path that
somebody chose: routes are named by their pattern."""

import os
from pathlib import Path
from typing import Final

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

SHARED: Final = "PROMETHEUS_MULTIPROC_DIR"  # where workers of one machine keep figures together; read at import
PAGE: Final = CONTENT_TYPE_LATEST

_SECONDS: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_MANY: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


disable_created_metrics()  # type: ignore[no-untyped-call]  # they would double the page


class Metrics:
    """The figures of one worker; where workers share a folder, `page` adds theirs up."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "prirec_requests", "Requests, by route and status.", ("route", "status"), registry=registry
        )  # fmt: skip
        self.seconds = Histogram(
            "prirec_request_seconds", "Time to an answer, with what it waited for letters.", ("route",),
            registry=registry, buckets=_SECONDS,
        )  # fmt: skip
        self.messages = Counter(
            "prirec_messages", "Messages of the protocols that were handed in: taken, or why not.", ("result",),
            registry=registry,
        )  # fmt: skip
        self.letters = Counter("prirec_letters", "Letters that were given out.", registry=registry)
        self.received = Counter("prirec_message_bytes", "Bytes of messages that were handed in.", registry=registry)
        self.commits = Histogram(
            "prirec_commit_messages", "Messages that were made durable together.", registry=registry, buckets=_MANY
        )
        self.commit_seconds = Histogram(
            "prirec_commit_seconds", "Time until they were durable.", registry=registry, buckets=_SECONDS
        )
        self.polls = Gauge(
            "prirec_waiting_polls", "Requests that wait for letters.", registry=registry, multiprocess_mode="livesum"
        )
        self.conductor_failures = Counter(
            "prirec_conductor_failures", "How often the conductor ended with an error.", registry=registry
        )
        if SHARED in os.environ:
            _forget_the_dead(Path(os.environ[SHARED]))
        else:
            ProcessCollector(registry=registry)

    def page(self) -> bytes:
        if SHARED not in os.environ:
            return generate_latest(self._registry)
        shared = CollectorRegistry()
        MultiProcessCollector(shared)  # type: ignore[no-untyped-call]
        return generate_latest(shared)


def _forget_the_dead(folder: Path) -> None:
    """What workers that are gone had under way is under way no more."""
    for process in {int(file.stem.rpartition("_")[2]) for file in folder.glob("gauge_live*_*.db")}:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            mark_process_dead(process)  # type: ignore[no-untyped-call]
