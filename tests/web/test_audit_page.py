"""The auditor's page: it verifies what was published in the browser, and shows in red what does not hold."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import msgspec
import pytest

from prirec.config import PRIVATE
from prirec.data.synthetic import CityPlan, make_city
from prirec.features.encoding import plan_encoding
from prirec.features.popularity import Popularity
from prirec.protocols.codec import encode
from prirec.recommender.recommender import Recommender
from prirec.recommender.release import CatalogueSource
from prirec.recommender.server import Worker, running
from prirec.recommender.store import Founding, Store
from prirec.util.keyed_random import generator
from support.services import OPEN
from support.web import chromium, node


def test_whatever_is_changed_in_what_was_published_is_found():
    assert "# fail 0" in node("--test", "--test-reporter=tap", "test/audit.test.ts")


def test_the_recorded_round_holds_whatever_is_changed_in_it_shows_and_the_attack_is_scored():
    assert "# fail 0" in node("--test", "--test-reporter=tap", "test/round.test.ts")


@contextmanager
def published(folder: Path, *, change: bool = False) -> Iterator[tuple[str, Founding]]:
    """A recommender that serves the page: its address, and its secret keys. It may have changed an entry of its log."""
    city = make_city(CityPlan(people=60, places=60, records=600), generator(0, "city"))
    with Recommender.create(folder / "store", title="a town", hosts=["127.0.0.1"], certificates=folder / "tls") as made:
        made.publish(CatalogueSource(city.places, plan_encoding(city, Popularity(), PRIVATE.features)))
    with Store.open(folder / "store") as store:
        founding = store.founding()
        if change:
            (signed,) = store.entries(0)
            other = msgspec.structs.replace(signed.entry, subject="start")
            with store._database.transaction() as rows:
                rows.execute("UPDATE log SET body = ?", encode(msgspec.structs.replace(signed, entry=other)))
    worker = Worker(str(folder / "store"), folder / "tls" / "server.pem", folder / "tls" / "server.key", limits=OPEN)
    with running(worker) as ports:
        yield f"https://127.0.0.1:{ports.public}", founding


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with published(tmp_path_factory.mktemp("audited")) as found:
        yield found


def test_the_service_gives_out_the_page_with_strict_headers_and_nothing_secret(site):
    address, founding = site
    with httpx.Client(base_url=address, verify=False, trust_env=False) as browser:  # noqa: S501  # the page is what counts
        assert browser.get("/audit").headers["location"] == "/audit/"
        home = browser.get("/audit/")
        assert (home.status_code, home.headers["x-content-type-options"]) == (200, "nosniff")
        policy = home.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy
        names = [part.split('"')[0] for part in home.text.split('="main-')[1:]]
        assert len(names) == 2
        for body in (home.content, *(browser.get(f"/audit/main-{name}").content for name in names)):
            for secret in (founding.identity, founding.token_key):
                assert secret not in body
                assert secret.hex().encode() not in body
        for path in ("/audit/no-such.js", "/audit/../store", "/audit/%2e%2e/store", "/audit/index.html/x"):
            assert browser.get(path).status_code == 404
        assert browser.post("/audit/").status_code == 405


@pytest.fixture(scope="module")
def seen(site, tmp_path_factory):
    with published(tmp_path_factory.mktemp("changed"), change=True) as (changed, _):
        return json.loads(node("test/audit_page.ts", chromium(), f"{site[0]}/audit/", f"{changed}/audit/"))


@pytest.mark.long
def test_what_holds_is_green_at_a_real_recommender_and_on_what_a_city_has_published(seen):
    assert seen["recommender"]["verdict"].startswith("Its one entry holds.")
    assert seen["recommender"]["red"] == 0
    for one in (seen["nothing, 375"], seen["nothing, 1440"]):
        assert one["verdict"].startswith(
            f"All {one['entries']} entries hold. The helper has signed {one['entries']} entries"
        )
        assert (one["red"], one["entries"] > 10, one["learnt"] > 5) == (0, True, True)
    for one in seen.values():
        assert (one["problems"], one["foreign"], one["wider"], one["serious"]) == ([], [], 0, [])


@pytest.mark.long
def test_what_does_not_hold_is_red(seen):
    changed, unsigned, entry, wrong_sum = (
        seen[name] for name in ("a document, 375", "no signature, 1440", "an entry, 375", "a sum, 1440")
    )
    assert changed["red"] == seen["changed"]["red"] == 1
    assert any("signed by the recommender: the signature does not hold" in why for why in seen["changed"]["why"])
    assert unsigned["red"] == unsigned["entries"]
    assert any("signed by the recommender" in why for why in entry["why"])
    assert any("goes on from the entry before" in why for why in entry["why"])
    assert any(
        "popularity is what follows from the opened sums: it is not, for 1 place" in why for why in wrong_sum["why"]
    )
    for one in (changed, unsigned, entry, wrong_sum, seen["changed"]):
        assert "bad" in one["colour"]
        assert "not hold" in one["verdict"]
    for one in seen.values():  # somebody else's fingerprint
        assert "The recommender’s fingerprint is not the one that you have." in one["other"]


WHOLE = ("recommender", "nothing, 375", "nothing, 1440")  # gone through to the end


@pytest.mark.long
def test_a_recorded_round_is_stepped_through_message_by_message_with_who_learns_what(seen):
    for one in map(seen.get, WHOLE):
        *reports, others = one["messages"][:4]
        assert [message["title"].split(": ")[1] for message in one["messages"]] == [
            "report", "report", "report", "report", "batch", "verdicts", "batch", "verdicts",
            "closing", "closing", "noised share", "noised share", "opened sum", "opened sum",
        ]  # fmt: skip
        assert all((message["bad"], message["learns"]) == (0, 3) for message in one["messages"])
        assert all((message["good"], message["fields"]) == (2, 6) for message in reports)
        assert others["title"].startswith("other devices → recommender")
        assert "the two shares are the device’s vector" in one["shares"]
        assert one["charts"] == one["tables"] == 2


@pytest.mark.long
def test_somebody_who_guesses_by_what_is_shown_is_as_good_as_the_program(seen):
    for one in map(seen.get, WHOLE):
        assert len(one["tried"]) == 4
        assert one["tried"][0] == ["5 of 5", "5 of 5", "100 %", "100 %"]
        assert all(yours == program for yours, program, _, _ in one["tried"])
