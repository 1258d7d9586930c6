"""Apps in browsers: pages of the origins that the operator names may be devices, and ask what a device asks."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest

from prirec.errors import UsageError
from prirec.recommender.service import APP_PATHS, JOINT_ROUTES, checked_origin
from support import messages
from support.services import Served, Site, served

APP = "https://app.example:8444"
NEVER = ("access-control-allow-credentials", "access-control-allow-private-network")


@pytest.fixture(scope="module")
def line() -> Iterator[httpx.Client]:
    with TemporaryDirectory() as folder, served(Site.founded(Path(folder)), app_origins=(APP,)) as service:
        yield service.line


def preflight(line: httpx.Client, path: str, *, origin: str = APP) -> httpx.Response:
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,content-type"}
    return line.options(path, headers={"origin": origin} | asked)


def test_an_app_reads_what_a_device_may(line: httpx.Client) -> None:
    for path in ("/v1/deployment", "/v1/log?after=0", f"/v1/documents/{bytes(32).hex()}"):
        answer = line.get(path, headers={"origin": APP})
        assert answer.headers["access-control-allow-origin"] == APP
        assert answer.headers["vary"] == "origin"
        assert not set(NEVER) & set(answer.headers)
    refused = line.post("/v1/sessions", headers={"origin": APP}, content=b"")
    assert refused.status_code == 400
    assert refused.headers["access-control-allow-origin"] == APP  # so that the app can read why


def test_a_browser_that_asks_before_it_sends_is_told_what_may_be_sent(line: httpx.Client) -> None:
    for path in APP_PATHS:
        answer = preflight(line, path)
        assert answer.status_code == 204
        assert answer.headers["access-control-allow-origin"] == APP
        assert answer.headers["access-control-allow-headers"] == "authorization, content-type"
        assert answer.headers["access-control-allow-methods"] == "GET, POST"
        assert not set(NEVER) & set(answer.headers)


@pytest.mark.parametrize("origin", ["https://app.example", "https://app.example:8444.evil.example", "null", "*", ""])
def test_another_origin_reads_nothing(line: httpx.Client, origin: str) -> None:
    answer = line.get("/v1/deployment", headers={"origin": origin})
    assert "access-control-allow-origin" not in answer.headers
    assert answer.headers["vary"] == "origin"  # a cache must not give it to the app
    assert "access-control-allow-origin" not in preflight(line, "/v1/reports", origin=origin).headers


@pytest.mark.parametrize("path", ["/v1/mail", "/metrics", "/openapi.json", "/healthz", "/v1/operator", "/v1/log/"])
def test_what_is_not_for_devices_of_apps_is_not_opened(line: httpx.Client, path: str) -> None:
    assert "access-control-allow-origin" not in line.get(path, headers={"origin": APP}).headers
    assert "access-control-allow-origin" not in preflight(line, path).headers


def test_without_an_app_nothing_is_opened(shared_service: Served) -> None:
    answer = shared_service.line.get("/v1/deployment", headers={"origin": APP})
    assert not {"vary", "access-control-allow-origin"} & set(answer.headers)


def test_all_addresses_for_apps_are_those_of_the_service() -> None:
    assert {route.split()[1] for route in JOINT_ROUTES} >= APP_PATHS


@pytest.mark.parametrize(
    "text",
    [
        "*",
        "null",
        "app.example",
        "http://app.example",
        "https://app.example/",
        "https://a b",
        "https://A.example",
        "https://app.example:443",
        "https://app.example:65536",
        "https://app.example:0",
        "http://localhost:80",
    ],
)
def test_what_is_no_origin_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=messages.ODD_ORIGIN):
        checked_origin(text)


@pytest.mark.parametrize("text", [APP, "https://app.example", "http://localhost:5173", "http://127.0.0.1"])
def test_an_origin_is_taken_as_browsers_write_it(text: str) -> None:
    assert checked_origin(text) == text
