"""Attacks on the operator's page: whoever has no token, or whose request another page has sent, gets nothing."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPSConnection
from pathlib import Path
from time import time
from typing import Any

import httpx
import pytest
from fastapi import Request

from prirec.recommender import rotation
from prirec.recommender.limits import Rate
from prirec.recommender.operator_logins import SESSION_SECONDS
from prirec.recommender.operator_page import OperatorPage
from prirec.recommender.overview import OverviewReader
from prirec.recommender.responses import RefusedError
from prirec.recommender.store import Store
from support.services import OPEN, Served, Site, refusal, served
from support.waiting import PATIENCE

EVIL = "https://evil.example"
UNKNOWN, FOREIGN, MISDIRECTED = (401, "AUTH"), (403, "FORBIDDEN"), (421, "FORBIDDEN")


class Browser:
    """What a browser sends from the page."""

    def __init__(self, service: Served) -> None:
        self.line, self.token = service.operator, service.store.logins.new_token()
        self.origin = str(self.line.base_url).rstrip("/")

    def log_in(self, token: str | None = None, **headers: str) -> httpx.Response:
        found = self.login({"origin": self.origin} | headers, token)
        self.line.cookies.clear()  # tests say what is sent along
        return found

    def login(self, headers: dict[str, str], token: str | None = None) -> httpx.Response:
        return self.line.post(
            "/operator/login", json={"token": self.token if token is None else token}, headers=headers
        )

    def session(self) -> dict[str, str]:
        """The header that a browser sends along from now on."""
        found = self.log_in()
        assert found.status_code == 204
        return {"cookie": found.headers["set-cookie"].partition(";")[0]}

    def overview(self, **headers: str) -> httpx.Response:
        return self.line.get("/operator/overview", headers=headers)


@pytest.fixture
def browser(shared_service: Served) -> Browser:
    return Browser(shared_service)


def test_the_token_is_exchanged_for_a_cookie_that_no_script_and_no_other_site_can_use(browser: Browser) -> None:
    answer = browser.log_in()
    assert (answer.status_code, answer.content) == (204, b"")
    name, *attributes = answer.headers["set-cookie"].split("; ")
    assert name.startswith("__Host-prirec-")  # which a browser takes from this very host alone, over TLS alone
    assert set(attributes) == {"Secure", "HttpOnly", "SameSite=Strict", "Path=/", f"Max-Age={SESSION_SECONDS}"}
    assert answer.headers["cache-control"] == "no-store"
    shown = browser.overview(cookie=name)
    assert (shown.status_code, shown.json()["role"]) == (200, "recommender")
    assert shown.headers["cache-control"] == "no-store"
    assert shown.headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in shown.headers


def test_without_a_session_that_is_open_nothing_is_told(browser: Browser) -> None:
    session = browser.session()["cookie"]
    name, _, value = session.partition("=")
    for wrong in (
        "", f"{name}=", f"{name}={value[:-1]}", f"{name}={value}x", f"{name}={browser.token}", f"other={value}",
        f"{name.lower()}={value}", f'{name}="{value}" x', "=" * 5000,
    ):  # fmt: skip
        assert refusal(browser.overview(cookie=wrong)) == UNKNOWN
    assert refusal(browser.overview(authorization=f"Bearer {value}")) == UNKNOWN
    assert refusal(browser.line.get(f"/operator/overview?token={browser.token}")) == UNKNOWN
    assert browser.overview(cookie=session).status_code == 200


def test_a_cookie_is_of_no_use_after_logging_out_or_with_a_new_token(browser: Browser, shared_service: Served) -> None:
    stolen = browser.session()
    out = browser.line.post("/operator/logout", headers={"origin": browser.origin, **stolen})
    assert (out.status_code, "Max-Age=0" in out.headers["set-cookie"]) == (204, True)
    assert refusal(browser.overview(**stolen)) == UNKNOWN
    stolen = browser.session()
    shared_service.store.logins.new_token()  # prirec recommender token
    assert refusal(browser.overview(**stolen)) == UNKNOWN
    assert refusal(browser.log_in()) == UNKNOWN


def test_a_cookie_of_one_service_is_of_no_use_at_another_and_they_do_not_overwrite_each_other(folder: Path) -> None:
    with two_services(folder) as (one, other):
        mine, theirs = one.session(), other.session()
        assert refusal(other.overview(**mine)) == UNKNOWN
        value = mine["cookie"].partition("=")[2]
        assert refusal(other.overview(cookie=f"{theirs['cookie'].partition('=')[0]}={value}")) == UNKNOWN
        assert other.overview(**theirs).status_code == 200


@contextmanager
def two_services(folder: Path) -> Iterator[tuple[Browser, Browser]]:
    for name in ("one", "other"):
        (folder / name).mkdir()
    with served(Site.founded(folder / "one")) as one, served(Site.founded(folder / "other")) as other:
        yield Browser(one), Browser(other)


def test_a_cookie_is_good_at_all_workers_though_the_operators_key_was_rotated_when_one_of_them_started(
    site: Site,
) -> None:
    with served(site) as before:
        session = Browser(before).session()
        assert rotation.finish(before.store, rotation.rotate_key(before.store, now=0))
        with served(site) as after:
            assert after.operator.get("/operator/overview", headers=session).status_code == 200


def test_an_old_cookie_is_of_no_use(site: Site) -> None:
    now = [1_800_000_000.0]
    with served(site, clock=lambda: now[0]) as service:
        browser = Browser(service)
        session = browser.session()
        now[0] += SESSION_SECONDS - 2
        assert browser.overview(**session).status_code == 200
        now[0] += 2
        assert refusal(browser.overview(**session)) == UNKNOWN


# Requests of other pages: DNS rebinding, cross-site requests


REQUESTS: list[Callable[[Browser, dict[str, str]], httpx.Response]] = [
    lambda browser, headers: browser.line.get("/operator/", headers=headers),
    lambda browser, headers: browser.line.get("/operator", headers=headers),
    lambda browser, headers: browser.line.get("/operator/overview", headers=headers),
    lambda browser, headers: browser.login(headers),
    lambda browser, headers: browser.line.post("/operator/logout", headers=headers),
]


OTHER_NAMES = (
    "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8444", "", "0.0.0.0", "127.0.0.2", "[::2]:8444",  # noqa: S104
    "localhost@evil.example", "*", "*.example",
)  # fmt: skip


@pytest.mark.parametrize("host", OTHER_NAMES)
def test_under_a_name_that_is_not_in_the_certificate_nothing_is_answered(browser: Browser, host: str) -> None:
    session = browser.session()
    for request in REQUESTS:
        answer = request(browser, {"host": host, "origin": f"https://{host}", **session})
        assert refusal(answer) == MISDIRECTED
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9999", "127.0.0.1", "[::1]:8444", "localhost."])
def test_names_in_the_certificate_and_forwarded_ports_are_good(browser: Browser, host: str) -> None:
    assert browser.log_in(host=host, origin=f"https://{host}").status_code == 204


@pytest.mark.parametrize("origin", [EVIL, "null", "", "http://{host}", "https://{host}0", "https://{host}.evil.example",
                                    "https://localhost:1", "https://{host}/"])  # fmt: skip
def test_a_page_of_another_origin_neither_logs_in_nor_out(browser: Browser, origin: str) -> None:
    session = browser.session()
    sent = {"origin": origin.format(host=browser.origin.removeprefix("https://")), **session}
    assert refusal(browser.login(sent)) == FOREIGN
    assert refusal(browser.line.post("/operator/logout", headers=sent)) == FOREIGN
    if origin:  # browsers send none with requests of the page itself
        assert refusal(browser.overview(**sent)) == FOREIGN
    assert browser.overview(**session).status_code == 200  # it is still logged in


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_another_page_lets_a_browser_send_is_refused_though_it_has_the_cookie(browser: Browser, site: str) -> None:
    session = browser.session()
    for mode in ("cors", "no-cors", "same-origin", "websocket"):
        sent = {"sec-fetch-site": site, "sec-fetch-mode": mode, **session}
        assert refusal(browser.overview(**sent)) == FOREIGN
        assert refusal(browser.line.get("/operator/", headers=sent)) == FOREIGN
        assert refusal(browser.login(sent | {"origin": browser.origin})) == FOREIGN
    link = {"sec-fetch-site": site, "sec-fetch-mode": "navigate"}
    assert browser.line.get("/operator/", headers=link).status_code == 200  # shows the page, which asks by itself
    form = link | {"origin": browser.origin, **session}
    assert refusal(browser.line.post("/operator/logout", headers=form)) == FOREIGN


# Tokens, bodies, methods and paths


def test_wrong_tokens_are_limited_by_address_and_the_right_one_then_waits_too(site: Site) -> None:
    limits = type(OPEN)(**{name: getattr(OPEN, name) for name in OPEN.__slots__} | {"login": Rate(0.001, 3)})
    with served(site, limits=limits) as service:
        browser = Browser(service)
        for _ in range(5):
            assert browser.log_in().status_code == 204  # a right one costs nothing
        assert [refusal(browser.log_in("wrong")) for _ in range(4)] == [UNKNOWN] * 3 + [(429, "TOO_MANY")]
        answer = browser.log_in()  # or it would stand out among refusals
        assert (refusal(answer), int(answer.headers["retry-after"]) > 0) == ((429, "TOO_MANY"), True)


def test_every_wrong_token_has_the_same_answer(browser: Browser) -> None:
    answers = {browser.log_in(wrong).content for wrong in ("", "x", browser.token[:-1], "é" * 300, browser.token + " ")}
    assert len(answers) == 1


def test_a_body_that_is_no_login_is_refused(browser: Browser) -> None:
    sent = {"origin": browser.origin, "content-type": "application/json"}
    good = f'{{"token": "{browser.token}"}}'
    for body in (
        "", "{}", "[]", "null", '{"token": 1}', '{"token": null}', good[:-1], good + good, "\x00",
        '{"token": "\\ud800"}', good.replace("}", ', "more": 1}'),
    ):  # fmt: skip
        assert refusal(browser.line.post("/operator/login", content=body, headers=sent)) == (400, "DECODE")
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):  # what a form can send
        answer = browser.line.post("/operator/login", content=good, headers=sent | {"content-type": kind})
        assert refusal(answer) == (400, "DECODE")
    assert refusal(browser.line.post("/operator/login", content=" " * 2000, headers=sent)) == (413, "TOO_LARGE")


def test_other_methods_are_refused(browser: Browser) -> None:
    session = browser.session() | {"origin": browser.origin}
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        for path in ("/operator/", "/operator/overview", "/operator/index.html"):
            assert browser.line.request(method, path, headers=session).status_code in (405, 404)
    for path in ("/operator/login", "/operator/logout"):
        assert browser.line.get(path, headers=session).status_code == 404
        assert browser.line.put(path, headers=session).status_code == 405
    override = session | {"x-http-method-override": "POST"}
    assert browser.line.get("/operator/logout", headers=override).status_code == 404
    assert browser.overview(**session).status_code == 200


PATHS = (
    "/operator/../metrics", "/operator/%2e%2e/metrics", "/operator/..%2fmetrics", "/operator//overview",
    "/operator/overview/", "/operator/overview/x", "/operator/%00", "/operator/../../etc/passwd", "/operator/....//",
    "/operator/login/../overview", "/operator\\overview", "/OPERATOR/overview", "/operatorx", "/operator;/overview",
    "/operator/.", "/operator/index.html/", "//operator/overview",
)  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_no_path_leads_around_the_checks_or_out_of_the_folder(shared_service: Served, path: str) -> None:
    for line in (shared_service.operator, shared_service.line):
        status, body = untidied(shared_service, line.base_url.port or 0, path)
        assert status in (404, 401)
        assert b"prirec_" not in body


def untidied(service: Served, port: int, path: str) -> tuple[int, bytes]:
    """The answer to this very path, which most clients would tidy up."""
    with closing(HTTPSConnection("127.0.0.1", port, context=service.site.trust, timeout=PATIENCE)) as line:
        line.request("GET", path)
        answer = line.getresponse()
        return answer.status, answer.read()


def test_on_the_port_for_devices_there_is_no_such_page(browser: Browser, shared_service: Served) -> None:
    session = browser.session()
    for path in ("/operator", "/operator/", "/operator/index.html", "/operator/overview"):
        for host in ({}, {"host": browser.origin.removeprefix("https://")}):
            assert refusal(shared_service.line.get(path, headers=session | host)) == (404, "ABSENT")
    login = shared_service.line.post(
        "/operator/login", json={"token": browser.token}, headers={"origin": browser.origin}
    )
    assert refusal(login) == (404, "ABSENT")


def test_the_page_loads_its_own_files_alone_and_is_shown_in_no_frame(browser: Browser) -> None:
    home = browser.line.get("/operator/")
    policy = home.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert browser.line.get("/operator").headers["location"] == "/operator/"


def test_while_the_store_is_away_the_page_says_so_and_metrics_go_on(site: Site) -> None:
    with served(site) as service:
        browser = Browser(service)
        session = browser.session()
        with service.store._database.transaction() as db:
            db.execute("DROP TABLE log")
        assert refusal(browser.overview(**session)) == (503, "AWAY")
        metrics = service.operator.get("/metrics")
        assert metrics.status_code == 200
        assert "prirec_requests_total" in metrics.text
        assert "prirec_log_entries" not in metrics.text


def test_nothing_of_a_login_gets_into_metrics_or_answers(browser: Browser, shared_service: Served) -> None:
    session = browser.session()["cookie"].partition("=")[2]
    browser.log_in("canary-token-77c1")
    metrics = shared_service.operator.get("/metrics", timeout=PATIENCE).text
    for secret in (session, browser.token, "canary-token-77c1"):
        assert secret not in metrics


@pytest.mark.parametrize(
    ("name", "status"),
    [("a.town.example", 308), ("town.example", 421), ("a.b.town.example", 421), ("a.town.example.evil", 421)],
)
def test_a_wildcard_in_a_certificate_stands_for_one_part_of_a_name(site: Site, name: str, status: int) -> None:
    """Our own commands make none; certificates from elsewhere have them."""

    async def ask(question: Callable[..., Any], *values: object) -> Any:
        return question(*values)

    with Store.open(site.url) as store:
        page = OperatorPage(
            store.logins, OverviewReader(store, certificates={}, clock=time), name="x", limits=OPEN,
            hosts=frozenset({"*.town.example"}), clock=time, steady=time, count=lambda request: "", ask=ask,
        )  # fmt: skip
        request = Request({"type": "http", "method": "GET", "path": "/operator", "headers": [(b"host", name.encode())]})
        try:
            answered = asyncio.run(page.home(request)).status_code
        except RefusedError as refused:
            answered = refused.status
    assert answered == status
