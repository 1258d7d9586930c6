"""Lines of the log: what the program says of itself, and nothing that anybody sent."""

import json
import logging
from dataclasses import dataclass
from typing import Any

import pytest

from prirec.errors import StateError
from prirec.recommender import observability

CANARY = "canary-7d1f"


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level(logging.DEBUG)

    def written() -> list[dict[str, Any]]:
        return [json.loads(observability.JsonLines().format(record)) for record in caplog.records]

    return written


def test_an_event_is_one_line_with_its_numbers(lines: Any) -> None:
    observability.note("serving", port=8443, host="0.0.0.0")  # noqa: S104
    (line,) = lines()
    assert line.pop("time").endswith("+00:00")
    assert line == {"level": "info", "event": "serving", "port": 8443, "host": "0.0.0.0"}  # noqa: S104


def test_of_a_librarys_message_only_its_origin_is_logged(lines: Any) -> None:
    try:
        raise ValueError(CANARY)
    except ValueError as error:
        logging.getLogger("uvicorn.error").exception("%s broke on %s", CANARY, error, extra={"fields": {"x": CANARY}})
    (line,) = lines()
    assert line["source"].startswith("uvicorn.error test_observability:")
    assert line["error"] == "ValueError"
    assert CANARY not in json.dumps(line)


def test_an_error_of_a_library_is_logged_without_its_text(lines: Any) -> None:
    try:
        int(CANARY)
    except ValueError as error:
        observability.failure("an answer failed", error, route="/v1/mail")
    (line,) = lines()
    assert (line["error"], line["route"]) == ("ValueError", "/v1/mail")
    assert line["at"][0].endswith("test_an_error_of_a_library_is_logged_without_its_text")
    assert CANARY not in json.dumps(line)


def test_an_error_of_the_programs_own_says_what_to_do(lines: Any) -> None:
    observability.failure("the store failed", StateError("store does not fit on the disk any more"))
    assert lines()[0]["problem"] == "store does not fit on the disk any more"


def test_events_of_a_conductor_are_logged_without_empty_fields(lines: Any) -> None:
    @dataclass
    class Told:
        event: str
        survivors: int = 0
        refused: int = 0
        problem: str = ""
        passing: bool = False

    observability.log_event(Told("waiting", problem="the database is away", passing=True))  # logged by log_outage
    observability.log_event(Told("ended", survivors=99))
    (line,) = lines()
    assert {name: line[name] for name in line.keys() - {"time", "level"}} == {"event": "ended", "survivors": 99}


def test_every_logger_uses_the_json_lines_handler() -> None:
    configuration = observability.configuration()
    assert configuration["root"]["handlers"] == ["lines"]
    assert list(configuration["handlers"]) == ["lines"]
    assert configuration["handlers"]["lines"]["formatter"] == "lines"
    assert all("handlers" not in one for one in configuration["loggers"].values())
