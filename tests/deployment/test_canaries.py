"""Nothing private gets out of a device: not in a request, not in what the recommender can open, nor in its store, its
files or its log. Every private value is a canary, and the search for them is tested as well."""

import asyncio
import logging
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
import pytest

from prirec.pages import built
from prirec.protocols import secure_sum
from prirec.recommender import campaign as rules
from prirec.recommender import observability
from prirec.recommender.service import app
from prirec.wire.documents import Model, octets, written
from support import messages
from support.canaries import Canaries, described, forms, of_moment, of_number, of_pair, of_reals, of_ring, of_text
from support.fault_injection import FEW, few_people
from support.low_floors import low_floor
from support.tapped_deployment import OPEN, TappedTown

KINDS = {"profile", "home", "cells", "visits", "vectors", "secrets", "models"}
JUNK = np.random.default_rng(5).bytes(5000)


@pytest.fixture
def town(folder: Path, monkeypatch) -> TappedTown:
    low_floor(monkeypatch, FEW)
    return TappedTown(folder, few_people(iterations=3), people=9, patch=monkeypatch)


async def a_campaign(town: TappedTown, *, code: str = "", enough: Callable[[], bool] | None = None) -> None:
    async with town.online(code=code) as agents:
        await town.campaign(agents, enough=enough or (lambda: bool(town.tap.leaks)))


def test_no_private_value_leaves_a_device_in_a_whole_campaign(town: TappedTown):
    asyncio.run(a_campaign(town))
    assert not town.tap.leaks
    progress = rules.decode_state(town.store.progress())
    assert progress.phase == "over"
    assert all(past.opened for past in progress.past)  # everything was summed
    assert set(town.tap.everywhere.patterns.values()) == KINDS
    tables = {"founding", "people", "documents", "log", "rounds", "inbox", "mail", "progress", "counters"}
    channels = {"requests", "answers", "opened boxes", "files", "log", *(f"table {name}" for name in tables)}
    assert channels <= town.tap.heard.keys()


def test_no_private_value_is_in_any_byte_of_the_auditors_page_and_of_what_it_reads(town: TappedTown):
    asyncio.run(a_campaign(town))
    asyncio.run(_anybody_reads(town))
    assert not town.tap.leaks
    assert town.tap.heard["the auditor's page"] > sum(one.stat().st_size for one in built("audit").iterdir())


# and if something did


def test_a_word_that_a_device_says_is_found(town: TappedTown):
    illness = next(iter(town.town.people.values())).profile()["illness"]
    asyncio.run(a_campaign(town, code=f"my code is {illness}"))
    assert ("requests", "profile") in town.tap.leaks


def test_a_place_that_a_device_names_is_found(town: TappedTown):
    place = next(iter(town.town.people.values())).visits()[0].place
    asyncio.run(a_campaign(town, code=place))
    assert ("requests", "places") in town.tap.leaks


@pytest.mark.parametrize("noise_is_on", [True, False])
def test_a_vector_without_masks_is_found(town: TappedTown, noise_is_on, monkeypatch):
    def bare(value, *, added, taken=()):
        return value + list(added)[-1] if noise_is_on else value.copy()

    monkeypatch.setattr(secure_sum, "add_pads", bare)
    asyncio.run(a_campaign(town))
    assert ("opened boxes", "vectors") in town.tap.leaks


def test_a_model_that_is_published_and_a_home_that_is_logged_are_found(town: TappedTown):
    asyncio.run(a_campaign(town, enough=lambda: bool(town.models)))
    person = next(iter(town.town.people.values()))
    mine = next(iter(town.models.values()))
    town.store.put([written(Model(bytes(32), 0, octets(mine, np.float64)))])
    asyncio.run(_logged(town, f"somebody at {person.home()[0]!r}"))
    town.look(thoroughly=True)
    assert town.tap.leaks == {("table documents", "models"), ("files", "models"), ("log", "home")}
    asyncio.run(_anybody_reads(town))
    assert ("the auditor's page", "models") in town.tap.leaks


async def _anybody_reads(town: TappedTown) -> None:
    """Every file of the auditor's page, and every answer that it asks for: the log and all documents."""
    service = app(town.store, limits=OPEN)
    async with service.router.lifespan_context(service):
        anybody = httpx.AsyncClient(base_url="https://town", transport=httpx.ASGITransport(app=service))
        async with anybody:
            with town.store._database.reading() as rows:
                documents = [name.hex() for (name,) in rows.all("SELECT name FROM documents")]
            paths = ["/audit/", *(f"/audit/{one.name}" for one in built("audit").iterdir())]
            log = ("/v1/deployment", "/v1/rotations", "/v1/log?after=0")
            for path in (*paths, *log, *(f"/v1/documents/{one}" for one in documents)):
                answer = await anybody.get(path)
                assert answer.status_code == 200
                town.tap.hear("the auditor's page", described(answer.headers) + answer.content, published=True)


async def _logged(town: TappedTown, words: str) -> None:
    async with town.online():
        observability.note("an event", told=words)
        logging.getLogger("a library").debug(words)


def test_a_fault_in_the_search_is_raised_though_agents_forget_it(town: TappedTown, monkeypatch):
    def broken(what, patterns):
        raise AssertionError("a search that broke")

    async def searched() -> None:
        async with town.online() as agents:
            monkeypatch.setattr(town.tap.everywhere, "add", broken)
            await town.campaign(agents)

    with pytest.raises(AssertionError, match=messages.Foreign.SEARCH_BROKE):
        asyncio.run(searched())


FORMS = {
    "as it is": bytes,
    "in hexadecimal": lambda value: value.hex().encode(),
    "in capitals": lambda value: value.hex().upper().encode(),
    **{f"in base64, {k} bytes in": lambda value, k=k: b64encode(JUNK[:k] + value + JUNK[:2]) for k in range(4)},
    **{f"in a URL, {k} bytes in": lambda value, k=k: urlsafe_b64encode(JUNK[:k] + value) for k in range(4)},
}
REAL, VECTOR = 35.681236789, np.array([0, 3, 0, 2**64 - 70_000, 9, 0], dtype=np.uint64)
VALUES = {
    "a word": (of_text("canary-word"), b"canary-word"),
    "a number": (of_number(REAL), np.float64(REAL).astype("<f8").tobytes()),
    "a number, backwards": (of_number(REAL), np.float64(REAL).astype(">f8").tobytes()),
    "its digits": (of_number(REAL), f"{REAL:.7f}".encode()),
    "a point": (of_pair(REAL, -REAL), np.array([REAL, -REAL], dtype="<f4").tobytes()),
    "a moment": (of_moment(1_712_345_678), (1_712_345_678).to_bytes(8, "big")),
    "a model": (of_reals(np.array([0.0, REAL])), np.array([0.0, REAL]).tobytes()),
    "a vector": (of_ring(VECTOR), VECTOR.tobytes()),
    "a vector, backwards": (of_ring(VECTOR), VECTOR.astype(">u8").tobytes()),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", VALUES)
def test_a_canary_is_found_wherever_it_stands_and_however_it_is_written(value, form):
    patterns, raw = VALUES[value]
    canaries = Canaries()
    canaries.add("it", patterns)
    for at in range(9):
        assert canaries.found(JUNK[at:] + FORMS[form](raw) + JUNK) == {"it"}
    assert not canaries.found(JUNK)
    assert not canaries.found(FORMS[form](raw[:-1])[:7])


@pytest.mark.parametrize("vector", [[0, 0x01111001, 0, 0, 0], [0, 0x0110, 0, 0x1101, 0], [0, 0, 0x10000110, 0x01, 0]])
def test_a_vector_that_is_plain_in_some_forms_is_searched_for_in_the_others(vector):
    ring = np.array(vector, dtype=np.uint64)
    patterns, canaries = of_ring(ring), Canaries()
    canaries.add("it", patterns)  # which refuses what many things look like
    assert canaries.found(JUNK + ring.tobytes() + JUNK) == {"it"}
    assert len(patterns) < len(forms(ring.tobytes()) | forms(ring.astype(">u8").tobytes()))


def test_a_small_number_amid_zeros_is_searched_for_together_with_the_next_one():
    page, canaries = b"\x0d\x07\x3c\x0e" + bytes(40) + (258).to_bytes(2, "little") + bytes(400), Canaries()
    ring = np.array([258, 0, 0, 0, 0, 0, 258, 0, 0, 772], dtype=np.uint64)
    canaries.add("it", of_ring(ring))
    assert not canaries.found(page)
    assert canaries.found(JUNK + ring.tobytes() + JUNK) == {"it"}
