"""My phone (web/app) in Chromium, by clicks, at two operators that run."""

import asyncio
import json
import os
import ssl
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from prirec.config import Settings
from prirec.data.dataset import Dataset
from prirec.device.device import Device
from prirec.pages.local import listen, origin_of
from prirec.pages.my_phone import RecommenderAddress, rehearsed
from prirec.recommender.operator import fingerprint
from prirec.rehearsal.city import SumRow, rehearse
from prirec.rehearsal.plan import Plan
from support.browser_devices import pin_of
from support.cities import SMALL_PRIVATE, change, small_city, with_spending
from support.joint_deployment import joint_town
from support.web import chromium, node

SENT_FOR = {"visits": "popularity", "moments": "moments", "learning": "interaction"}  # rows of a city, and reports
SETTINGS = change(SMALL_PRIVATE, sums={"operators": 2})


@contextmanager
def town_with_page(
    city: Dataset, folder: Path, patch: pytest.MonkeyPatch, settings: Settings = SETTINGS
) -> Iterator[list[str]]:
    """What the script that clicks needs to know: the browser, the pin of the service's key, and the link to join."""
    with (
        listen() as listening,
        joint_town(city, settings, folder, patch, app_origins=(origin_of(listening),)) as at,
    ):
        asyncio.run(at.conduct())  # the helper signs the catalogue
        recommender, helper = (fingerprint(one.founding().identity) for one in (at.town.store, at.helping))
        with rehearsed(RecommenderAddress(at.url, recommender, helper), listening) as link:
            yield [chromium(), pin_of(folder / "certificate.pem"), link]


def seen(words: list[str], scene: str) -> dict[str, Any]:
    """What a scene notes. No page error, and no request but to the page's origin and the recommender's.

    Pictures go into the folder that PRIREC_PICTURES names, if there is one."""
    pictures = [os.environ["PRIREC_PICTURES"]] if "PRIREC_PICTURES" in os.environ else []
    found: dict[str, Any] = json.loads(node("test/my_phone.ts", *words, scene, *pictures).splitlines()[-1])
    print({name: value for name, value in found.items() if "," in name})  # noqa: T201  # times
    assert (found.pop("problems"), found.pop("foreign")) == ([], [])
    return found


def test_the_first_hour_of_a_person(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Joined by a link, useful before any campaign and without a network; all can be corrected and forgotten."""
    city, averages = with_spending(small_city(people=3, places=40, records=18)), {"averages": ("spend",)}
    with town_with_page(city, folder, monkeypatch, change(SETTINGS, features=averages)) as words:
        found = seen(words, "firstHour")
    assert (found["rehearsal"], found["fragment"]) == (True, "")
    assert found["reasons"] > 3
    assert (found["asked"], found["visits"], found["areas"]) == ("to keep", 1, 1)
    assert found["too much"] == "Spend: a number from 0 to 100 belongs here."
    assert found["spent"] == [", spend 40", ", spend 55.5", ", spend 55.5", ""]
    assert set(found["sent"]) == {"joined", "regions"}
    assert len(found["keys"]) == 4
    assert found["serious"] == []
    assert found["offline"]["same"]
    assert found["exported"] == {"profile": {"age": 31}, "visits": 3, "overruled": 1}
    assert found["forgotten"] == {"visits": True, "beliefs": 0}
    assert found["wider"] == 0


def handed_over(kept: Path, row: SumRow) -> int:
    """How many of the city's own devices gave a report for this sum: not all are always in time."""
    kind, number, many = SENT_FOR[row.kind], max(row.round - 1, 0), 0
    for file in (kept / "devices").iterdir():
        with Device.open(file, create=False) as device:
            sums = device.traffic().sums
        many += any((one.kind, one.number, one.state[:11]) == (kind, number, "handed over") for one in sums)
    return many


@pytest.mark.long
def test_a_day_of_a_person_in_a_city(folder: Path) -> None:
    """Two operators and 60 devices as processes, and one person by clicks, whose report is in a sum."""
    kept = folder / "kept"
    plan = Plan(devices=60, rounds=2, operators=2, app=True, out=kept)
    clicking: list[Future[dict[str, Any]]] = []
    with ThreadPoolExecutor() as pool:

        def begin(link: str) -> None:
            url = urlsplit(parse_qs(urlsplit(link).fragment)["url"][0])
            certificate = folder / "certificate.pem"
            certificate.write_text(ssl.get_server_certificate((url.hostname or "", url.port or 0)), encoding="ascii")
            clicking.append(pool.submit(seen, [chromium(), pin_of(certificate), link], "day"))

        outcome = rehearse(plan, tell_app=begin)
        found = clicking[0].result()
    assert any(row.survivors == handed_over(kept, row) + 1 for row in outcome.rows)
    assert len({*found["visited"], found["refused"]}) == 3
    assert found["report"].startswith("Report")
    assert 0 < found["gauge"] <= found["spent stays"] < 1
    assert (found["serious"], found["goes on"], found["offline"]) == ([], True, 10)


@pytest.mark.long
def test_every_view_at_every_width_with_the_map(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with town_with_page(small_city(people=3, places=200, records=18), folder, monkeypatch) as words:
        found = seen(words, "looks")
    assert found["markers"] == 10
    assert found["asked for the map"] >= 2
    assert (found["serious"], found["wider"]) == ([], 0)


@pytest.mark.long
def test_two_tabs_are_one_writer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with town_with_page(small_city(people=3, places=20, records=18), folder, monkeypatch) as words:
        assert seen(words, "twoTabs")["serious"] == []


@pytest.mark.long
def test_what_a_recommender_could_try_is_refused_in_plain_words(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with town_with_page(small_city(people=3, places=20, records=18), folder, monkeypatch) as words:
        found = seen(words, "refused")
    assert found["still asked to join"]
    for what in ("another key", "no signature", "a forged log"):
        assert "Nothing of it was used." in found[what]
    for what in ("no signature", "a forged log"):
        assert (found[f"{what}: places"], found[f"{what}: places still there"]) == (0, 10)


@pytest.mark.long
def test_a_certificate_that_the_browser_does_not_know_is_accepted_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with town_with_page(small_city(people=3, places=20, records=18), folder, monkeypatch) as words:
        found = seen(words, "certificate")
    assert found["told"].startswith("The recommender cannot be reached.")
    assert found["accepted"] == "What this recommender has published"


HOSTILE = (
    "<img src=x onerror=globalThis.ran=true>",
    "</script><script>globalThis.ran=true</script>",
    "javascript:globalThis.ran=true",
    "مطعم البحر",
    "בית קפה",
    "\N{STEAMING BOWL}\N{SUSHI}\N{NIGHT WITH STARS}",
    "W" * 150,
    "{{constructor.constructor('globalThis.ran=true')()}}",
)


def hostile_city(places: int) -> Dataset:
    """Names that would be programs, or would turn a page around, if they were more than text."""
    city = small_city(people=3, places=places, records=18)
    names = tuple(f"{HOSTILE[row % len(HOSTILE)]} {row}" for row in range(places))
    return replace(city, places=replace(city.places, names=names))


@pytest.mark.long
@pytest.mark.parametrize("places", [100, 100_000])
def test_a_hostile_catalogue_is_text_and_nothing_else(
    places: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with town_with_page(hostile_city(places), folder, monkeypatch) as words:
        found = seen(words, "hostile")
    assert len(found["names"]) == 10
    assert all(any(name.startswith(one) for one in HOSTILE) for name in found["names"])
    assert (found["elements"], found["programs"], found["wider"]) == (0, False, 0)
    assert found["found"].split()[0] == f"{places // len(HOSTILE) + (places % len(HOSTILE) > 0)}"
