"""My phone (web/app) in Chromium, by clicks, at two operators that run."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from prirec.data.dataset import Dataset
from prirec.pages.local import listen, origin_of
from prirec.pages.my_phone import RecommenderAddress, rehearsed
from prirec.recommender.operator import fingerprint
from support.browser_devices import pin_of
from support.cities import SMALL_PRIVATE, change, small_city
from support.joint_deployment import joint_town
from support.web import chromium, node

SETTINGS = change(SMALL_PRIVATE, sums={"operators": 2})


@contextmanager
def town_with_page(city: Dataset, folder: Path, patch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What the script that clicks needs to know: the browser, the pin of the service's key, and the link to join."""
    with (
        listen() as listening,
        joint_town(city, SETTINGS, folder, patch, app_origins=(origin_of(listening),)) as at,
    ):
        asyncio.run(at.conduct())  # the helper signs the catalogue
        recommender, helper = (fingerprint(one.founding().identity) for one in (at.town.store, at.helping))
        with rehearsed(RecommenderAddress(at.url, recommender, helper), listening) as link:
            yield [chromium(), pin_of(folder / "certificate.pem"), link]


def seen(words: list[str], scene: str) -> dict[str, Any]:
    """What a scene notes. No page error, and no request but to the page's origin and the recommender's."""
    found: dict[str, Any] = json.loads(node("test/my_phone.ts", *words, scene).splitlines()[-1])
    assert (found.pop("problems"), found.pop("foreign")) == ([], [])
    return found


def test_the_first_hour_of_a_person(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Joined by a link, useful before any campaign and without a network; all can be corrected and forgotten."""
    with town_with_page(small_city(people=3, places=40, records=18), folder, monkeypatch) as words:
        found = seen(words, "firstHour")
    assert (found["rehearsal"], found["fragment"], found["map"]) == (True, "", True)
    assert found["reasons"] > 3
    assert found["visits"] == 1
    assert set(found["sent"]) == {"joined", "regions"}
    assert len(found["keys"]) == 4
    assert found["serious"] == []
    assert found["offline"]["same"]
    assert found["exported"] == {"profile": {"age": 31}, "visits": 3, "overruled": 1}
    assert found["forgotten"] == {"visits": True, "beliefs": 0}
    assert (found["join again"], found["wider"]) == (True, 0)
