"""Whatever a recommender publishes, a device's memory and file stay within bounds; it says why it does not follow."""

import asyncio
import tracemalloc
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from prirec.device import store as stores
from prirec.device import sync
from prirec.device.client import UnavailableError
from prirec.device.sync import View, catch_up
from prirec.errors import PeerError, PolicyError
from prirec.protocols.codec import encode
from prirec.wire import documents
from prirec.wire.documents import LogEntry, Manifest, Page, Places, RegionLine, SignedEntry, read, written
from support import messages
from support.dishonest_recommender import DEPLOYMENT, Dishonest, Target, Wire
from support.fault_injection import FEW
from support.low_floors import low_floor

MB = 2**20


@pytest.fixture(autouse=True)
def floor(monkeypatch: pytest.MonkeyPatch) -> None:
    low_floor(monkeypatch, FEW)


class Endless(Wire):
    """Serves documents of any length that it makes up when they are asked for."""

    made: dict[bytes, tuple[int, int]]
    served, campaign = 0, 1

    async def document(self, name: bytes) -> bytes:
        if name not in self.made:
            return await super().document(name)
        self.served += 1
        return self.body(*self.made[name])

    def publish(self, many: int, size: int) -> None:
        """A campaign over so many regions, each a document of this length."""
        self.campaign += 2
        self.made = {sha256(self.body(at, size)).digest(): (at, size) for at in range(many)}
        lines = [RegionLine(at + 1, name) for at, name in enumerate(self.made)]
        charter = self.recommender.charter(campaign=self.campaign - 1)
        manifest = self.recommender.put(Manifest(5, tuple(lines)))
        self.recommender.say("charter", msgspec.structs.replace(charter, campaign=self.campaign, manifest=manifest))

    @staticmethod
    def body(at: int, size: int) -> bytes:
        return at.to_bytes(8, "big") + bytes(size - 8)


def hostile(path: Path) -> tuple[Target, Endless]:
    """A device in a sound campaign, whose recommender then does what it likes."""
    recommender = Dishonest()
    target = Target.of(recommender, path, visits=("a",))
    recommender.charter()
    asyncio.run(target.agent.follow())
    line = Endless(recommender)
    target.agent.client = line  # type: ignore[assignment]
    return target, line


def stored(target: Target) -> int:
    with target.person.store.reading() as rows:
        return int(rows.execute("SELECT sum(length(body)) FROM documents").fetchone()[0])


def test_documents_of_half_a_gigabyte_are_not_stored(tmp_path: Path) -> None:
    """24 documents of 20 MB, as they are: they were all held in memory at once, and then all written."""
    target, line = hostile(tmp_path / "device")
    line.publish(24, 20 * MB)
    before, latest = stored(target), View.of(target.person).latest
    tracemalloc.start()
    try:
        with pytest.raises(PolicyError, match=messages.documents_take_up_more_than(256)):
            asyncio.run(catch_up(target.person, line))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 * MB  # a document that is made up here, as it was received, and one that is written
    assert (tmp_path / "device").stat().st_size < 300 * MB
    assert stored(target) == before  # nothing of it is kept
    assert View.of(target.person).latest == latest


@pytest.mark.parametrize("many", [30, 50])
def test_bounds_hold_for_many_small_documents_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    monkeypatch.setattr(stores, "MOST_STORED", 100_000)
    monkeypatch.setattr(sync, "MOST_IN_MEMORY", 10_000)
    held = list[int]()
    target, line = hostile(tmp_path / "device")
    before = stored(target)
    line.publish(many, 2_500)
    fetch = line.document

    async def noted(name: bytes) -> bytes:
        held.append(sum(map(len, seen.fresh.values())))
        return await fetch(name)

    class Seen(sync.DocumentCache):
        def __init__(self, *of: object) -> None:
            nonlocal seen
            super().__init__(*of)  # type: ignore[arg-type]
            seen = self

    seen = sync.DocumentCache(target.person)
    monkeypatch.setattr(sync, "DocumentCache", Seen)
    monkeypatch.setattr(line, "document", noted)
    if many == 30:
        asyncio.run(catch_up(target.person, line))
        assert 75_000 < stored(target) <= 100_000
        line.publish(many, 2_400)  # others instead: these alone count, and those before are let go
        asyncio.run(catch_up(target.person, line))
        assert 72_000 < stored(target) < 75_000 + before
    else:
        with pytest.raises(PolicyError, match=messages.DOCUMENTS_TAKE_UP_MORE):
            asyncio.run(catch_up(target.person, line))
        assert stored(target) == before
    assert 5_000 < max(held) <= 10_000 + 2_500


def test_documents_of_a_log_that_changes_while_the_line_breaks_do_not_pile_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "MOST_STORED", 100_000)
    monkeypatch.setattr(sync, "MOST_IN_MEMORY", 10_000)
    target, line = hostile(tmp_path / "device")
    fetch, most, refused = line.document, 0, 0

    async def broken(name: bytes) -> bytes:
        if line.served % 30 == 29:
            line.served += 1
            raise UnavailableError("the line broke")
        return await fetch(name)

    monkeypatch.setattr(line, "document", broken)
    for size in range(2_500, 2_510):
        line.publish(36, size)
        with pytest.raises((UnavailableError, PolicyError)) as how:
            asyncio.run(catch_up(target.person, line))
        refused += isinstance(how.value, PolicyError)
        most = max(most, stored(target))
    assert 100_000 < most <= 200_000  # what is in force, and what would come into force
    assert refused > 0
    monkeypatch.setattr(line, "document", fetch)
    asyncio.run(catch_up(target.person, line))  # the last of them
    assert 90_000 < stored(target) <= 100_000


def test_what_was_fetched_before_the_line_broke_is_not_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "MOST_IN_MEMORY", 10_000)
    target, line = hostile(tmp_path / "device")
    line.publish(30, 2_500)
    fetch = line.document

    async def broken(name: bytes) -> bytes:
        if line.served == 20:
            raise UnavailableError("the line broke")
        return await fetch(name)

    monkeypatch.setattr(line, "document", broken)
    with pytest.raises(UnavailableError):
        asyncio.run(catch_up(target.person, line))
    monkeypatch.setattr(line, "document", fetch)
    asyncio.run(catch_up(target.person, line))
    assert 30 <= line.served <= 35


class Talkative(Wire):
    """Its log has no end."""

    pages = 0
    subject = "model"

    async def log(self, after: int) -> Page:
        self.pages += 1
        while len(self.recommender.entries) < after + documents.MOST_ENTRIES:
            head = self.recommender.head
            name = sha256(b"%d" % head.length).digest()
            entry = LogEntry(1, DEPLOYMENT, head.length, head.last, self.subject, name)  # type: ignore[arg-type]
            self.recommender.entries.append(SignedEntry(entry, bytes(64)))
            self.recommender.head = type(head)(head.length + 1, sha256(encode(entry)).digest())
        return Page(tuple(self.recommender.entries[after : after + documents.MOST_ENTRIES]))


@pytest.mark.parametrize(("subject", "bound"), [("model", "MOST_NEW_ENTRIES"), ("charter", "MOST_CAMPAIGNS")])
def test_a_log_without_an_end_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subject: str, bound: str
) -> None:
    monkeypatch.setattr(sync, bound, 5_000)
    monkeypatch.setattr(documents, "verify", lambda *of, **signed: None)
    monkeypatch.setattr(documents, "digest", lambda entry: sha256(encode(entry)).digest())
    monkeypatch.setattr(sync, "digest", lambda entry: sha256(encode(entry)).digest())
    target, _ = hostile(tmp_path / "device")
    line = Talkative(Dishonest())
    line.subject = subject
    with target.person.store.transaction() as rows:
        rows.execute("UPDATE membership SET length = 0, last = zeroblob(32)")
    with pytest.raises(PolicyError, match=messages.LOG_GROWN_BEYOND):
        asyncio.run(catch_up(target.person, line))
    assert line.pages <= 6


def test_a_document_has_no_more_parts_than_could_be_meant() -> None:
    """Each is a byte or two on the wire and up to sixty in memory."""
    many = documents.MOST_PLACES + 1
    for document in (
        Places(0, ("",) * many, (), b"", b"", b""),
        Places(0, (), ("",) * many, b"", b"", b""),
        Manifest(5, (RegionLine(0, bytes(32)),) * (documents.MOST_REGIONS + 1)),
    ):
        name, body = written(document)
        assert len(body) < documents.LIMIT
        with pytest.raises(PeerError, match=messages.DECODE):
            read(type(document), body, name=name)
