"""Two operators that run as services, with a tap on each: what it receives and answers, what it opens of reports and
computes from them, and what it logs."""

import logging
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from prirec.proofs import pine
from prirec.proofs.parameters import Parameters
from prirec.protocols import two_operators
from prirec.recommender import server
from prirec.recommender.observability import JsonLines
from prirec.recommender.store import Store

Heard = defaultdict[str, list[bytes]]  # by channel


@contextmanager
def tapped_operators(patch: pytest.MonkeyPatch) -> Iterator[Heard]:
    """Of operators that are started inside."""
    heard: Heard = defaultdict(list)
    whole, prepare = server.app, pine.prepare

    def prepared(p: Parameters, key: bytes, role: int, **given: bytes) -> tuple[pine.State, bytes]:
        state, verifier = prepare(p, key, role, **given)
        heard[f"opened by the {two_operators.ROLES[role]}"] += [given["share"], state.entries.tobytes(), verifier]
        return state, verifier

    def tapped(store: Store, **rest: Any) -> Any:
        return _Tapped(whole(store, **rest), heard, f"the {store.founding().role}")

    patch.setattr(two_operators.pine, "prepare", prepared)
    patch.setattr(server, "app", tapped)
    ear, root, own = _Ear(heard["log"]), logging.getLogger(), logging.getLogger("prirec.recommender")
    levels = {logger: logger.level for logger in (root, own)}
    root.addHandler(ear)
    for logger in levels:
        logger.setLevel(logging.DEBUG)
    try:
        yield heard
    finally:
        root.removeHandler(ear)
        for logger, level in levels.items():
            logger.setLevel(level)


class _Tapped:
    """A service of which every byte of bodies, paths and headers is heard."""

    def __init__(self, service: Any, heard: Heard, who: str) -> None:
        self._service, self._heard, self._who = service, heard, who

    def __getattr__(self, name: str) -> Any:
        return getattr(self._service, name)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        asked, answered = self._heard[f"asked of {self._who}"], self._heard[f"answered by {self._who}"]
        if scope["type"] == "http":
            asked += [scope["raw_path"], scope["query_string"], *(part for line in scope["headers"] for part in line)]

        async def received() -> Any:
            message = await receive()
            asked.append(message.get("body", b""))
            return message

        async def sent(message: Any) -> None:
            answered.append(message.get("body", b""))
            await send(message)

        await self._service(scope, received, sent)


class _Ear(logging.Handler):
    """Everything that anybody logs, as this program writes it out and as it stands."""

    def __init__(self, lines: list[bytes]) -> None:
        super().__init__(logging.DEBUG)
        self._heard, self._lines = lines, JsonLines()

    def emit(self, record: logging.LogRecord) -> None:
        self._heard.append(f"{self._lines.format(record)}\n{record.getMessage()}\n{record.__dict__}".encode())
