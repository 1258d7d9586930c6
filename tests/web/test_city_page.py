"""The page of a live city: what it shows follows from the events alone, and a recording opens without a network."""

import json
from pathlib import Path

import pytest

from prirec.rehearsal.events import read_events
from prirec.rehearsal.page import record
from support.web import chromium, node

EVENTS = Path(__file__).parent / "city.jsonl"  # of prirec city up --operators 2 --devices 60 --rounds 2


def test_what_a_page_shows_follows_from_the_events_whatever_way_one_comes_to_a_moment():
    assert "# fail 0" in node("--test", "--test-reporter=tap", "test/city.test.ts")


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    browser, file = chromium(), tmp_path_factory.mktemp("city") / "city.html"
    record(EVENTS, file)
    return json.loads(node("test/city_page.ts", browser, str(file)))


def test_a_recording_plays_to_its_end_on_a_phone_and_on_a_desk_and_loads_nothing(seen):
    assert [one["width"] for one in seen] == [375, 1440]
    for one in seen:
        assert one["problems"] == []
        assert one["asked"] == ["file"] or set(one["asked"]) <= {"file", "data"}
        assert one["end"] == "The model is published"
        assert one["wider"] == 0
        assert 12 <= one["steps"] < 30
        assert one["inked"] > 50


def test_every_chart_has_its_numbers_and_each_operator_its_view(seen):
    for one in seen:
        assert one["charts"] == one["tables"] == 4
        assert one["views"] == 3
        assert "Nobody on this page exists." in one["text"]


def test_the_events_of_the_tests_are_of_this_version():
    assert len(read_events(EVENTS)) == len(EVENTS.read_bytes().splitlines())
