"""The operator's page in a browser, against a recommender and a helper that run."""

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from time import sleep
from typing import Any

import pytest

from support.low_floors import low_floor
from support.operator_pages import REPORTED, Pages, ServedPage, operator_pages
from support.web import chromium, node


@pytest.fixture(scope="module")
def pages() -> Iterator[Pages]:
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        low_floor(patch, 2)
        with operator_pages(Path(folder)) as served:
            yield served


def looked_at(page: ServedPage, *words: str) -> Any:
    return json.loads(node("test/operator_page.ts", chromium(), page.address, page.token, *words))


def assert_sound(views: list[dict[str, Any]], *, charts: int) -> None:
    """On a phone and on a desktop."""
    for one in views:
        assert (one["problems"], one["foreign"], one["wider"]) == ([], [], 0)
        assert one["refused"] == "That is not the token."
        assert [(held["httpOnly"], held["secure"], held["sameSite"]) for held in one["cookie"]] == [
            (True, True, "Strict")
        ]
        assert "__Host" not in one["readable"]  # no script of the page can read it
        assert one["charts"] == one["tables"] == charts
        assert one["after"] == 401  # logged out
        assert one["verdict"] == "verdict good"


def test_the_recommenders_operator_logs_in_and_sees_the_window_the_sums_and_the_log(pages: Pages) -> None:
    views = looked_at(pages.recommender)
    assert_sound(views, charts=4)
    for one in views:
        text = one["text"]
        assert f"{REPORTED} of 8 people have reported" in text
        assert "8 people enrolled; campaign 0: 1 of 2 rounds finished" in text
        assert "11 entries, 11 of them signed by the helper" in text
        assert "signature, list, length or window does not hold" in text
        assert "Counts by area do not exist" in text


@pytest.mark.long
def test_the_helpers_operator_sees_what_a_helper_knows(pages: Pages) -> None:
    views = looked_at(pages.helper)
    assert_sound(views, charts=4)
    for one in views:
        assert "Devices do not talk to a helper" in one["text"]
        assert "have reported" not in one["text"]
        assert "enrolled" not in one["text"]


@pytest.mark.long
def test_whoever_looks_sees_reports_come_in(pages: Pages) -> None:
    """The page asks again by itself; the token that its address brought does not stay there."""
    page, seen = pages.recommender, 'prirec_requests_total{route="/operator/overview",status="200"}'
    before = count_of(page, seen)

    def report_when_somebody_looks() -> None:
        while count_of(page, seen) == before:
            sleep(0.05)
        pages.pair.post(REPORTED)
        pages.pair.now += 2  # what was read before is old by now

    posting = Thread(target=report_when_somebody_looks)
    posting.start()
    assert looked_at(page, "live") == [REPORTED, REPORTED + 1]
    posting.join()


def count_of(page: ServedPage, name: str) -> float:
    lines = (line.rpartition(" ") for line in page.line.get("/metrics").text.splitlines())
    return next((float(value) for label, _, value in lines if label == name), 0.0)
