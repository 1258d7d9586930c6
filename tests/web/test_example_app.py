"""The example app of web/example, by clicks in Chromium, against two operators that run."""

import asyncio
import json
from pathlib import Path

import pytest

from prirec.recommender.operator import fingerprint
from support.browser_devices import free_origin, pin_of
from support.cities import SMALL_PRIVATE, change, small_city
from support.joint_deployment import joint_town
from support.web import WEB, chromium, node

LINES = 100


def test_a_person_joins_sees_places_and_says_what_they_think_of_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = change(SMALL_PRIVATE, sums={"operators": 2})
    port, origin = free_origin()
    with joint_town(
        small_city(people=3, places=20, records=18), settings, folder, monkeypatch, app_origins=(origin,)
    ) as at:
        asyncio.run(at.conduct())  # the helper signs the catalogue
        operators = at.town.store.founding(), at.helping.founding()
        recommender, helper = (fingerprint(one.identity) for one in operators)
        invitation = json.dumps({"url": at.url, "fingerprint": recommender, "helperFingerprint": helper})
        printed = node("test/example.ts", chromium(), pin_of(folder / "certificate.pem"), str(port), invitation)
    found = json.loads(printed.splitlines()[-1])
    first, second, third, again = found["seen"]
    assert len({first, second, third}) == 3
    assert again == third  # what was said is kept
    assert (found["problems"], found["form"]) == ([], False)


def test_it_is_as_short_as_is_promised() -> None:
    files = sorted((WEB / "example").iterdir())
    assert sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files) <= LINES
