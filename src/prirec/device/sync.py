"""What a device knows of its deployment: the documents in force, read from its own shelf. All of it is public, but for
where the device itself stands in it, and that is worked out here and never asked for."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Protocol, TypeVar

from h3.api import basic_int as h3

from prirec.device.person import Person
from prirec.device.store import Membership, drop_models, load_membership, prune_documents, save_documents, save_head
from prirec.errors import Fault, PeerError, ProtocolError, StateError
from prirec.graph.matching import cells_near
from prirec.protocols.messages import Part
from prirec.wire.campaign import Campaign, cohorts_by
from prirec.wire.documents import Charter, Edition, Line, Manifest, Mean, Model, People, Publication, address, read
from prirec.wire.log import MOST, SignedEntry
from prirec.wire.regions import Known, parts_of, read_regions, refuse_other_places, region_documents

REACH_KM = 10.0  # how far around its coarse cell a device knows places

_Kind = TypeVar("_Kind", bound=Part)


@dataclass(slots=True)
class DocumentCache:
    """Documents at hand: on disk, and fetched just now but not yet written."""

    person: Person = field(repr=False)
    fresh: dict[bytes, bytes] = field(default_factory=dict, repr=False)

    def has(self, name: bytes) -> bool:
        if name in self.fresh:
            return True
        with self.person.store.reading() as rows:  # bodies can be long, and are not wanted here
            return rows.execute("SELECT 1 FROM documents WHERE name = ?", (name,)).fetchone() is not None

    def body(self, name: bytes) -> bytes:
        found = self.fresh.get(name) or self.person.document(name)
        if found is None:
            raise StateError("a document that this device should have is not there; it is fetched when online")
        return found

    def read(self, kind: type[_Kind], name: bytes) -> _Kind:
        return read(kind, self.body(name), name=name)


def load_latest(rows: sqlite3.Connection) -> dict[str, bytes]:
    """By subject, the last document that the log named."""
    return dict(rows.execute("SELECT subject, document FROM standing"))


def save_latest(rows: sqlite3.Connection, standing: Mapping[str, bytes]) -> None:
    rows.execute("DELETE FROM standing")
    rows.executemany("INSERT INTO standing VALUES (?, ?)", standing.items())


def load_extra_regions(rows: sqlite3.Connection) -> set[int]:
    """The coarse cells whose surroundings the person asked for, beside those of the own cell."""
    return {int.from_bytes(cell, "big") for (cell,) in rows.execute("SELECT cell FROM regions")}


def save_extra_region(rows: sqlite3.Connection, cell: int) -> None:
    rows.execute("INSERT OR IGNORE INTO regions VALUES (?)", (cell.to_bytes(8, "big"),))


@dataclass(frozen=True)
class View:
    """Of one moment. Whatever does not fit together raises PeerError, where it is looked at."""

    member: Membership
    standing: Mapping[str, bytes] = field(repr=False)
    shelf: DocumentCache = field(repr=False)

    @classmethod
    def of(cls, person: Person) -> "View":
        member = person.membership()
        if member is None:
            raise StateError("this device belongs to no deployment yet: prirec device init")
        with person.store.reading() as rows:
            return cls(member, load_latest(rows), DocumentCache(person))

    @cached_property
    def campaign(self) -> Campaign | None:
        """The one under way, or the last."""
        if "charter" not in self.standing:
            return None
        charter = self._own(self.shelf.read(Charter, self.standing["charter"]))
        if "edition" not in self.standing:
            return _campaign(charter)
        return _campaign(charter, self._edition(self.standing["edition"], of=self.standing["charter"]))

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """The roster of the campaign."""
        if self.campaign is None:
            return ()
        lines = self.shelf.read(People, self.campaign.charter.people).lines
        unordered = any(a.name >= b.name for a, b in pairwise(lines))
        if len(lines) != self.campaign.charter.many or unordered:
            raise PeerError(Fault.PARAMS_MISMATCH, "the roster is not as long as the charter says, or not in order")
        return lines

    @cached_property
    def position(self) -> int | None:
        """Where this device stands in the roster; None if it is not in it, or with another cell than it told."""
        me = Line(self.member.name, self.member.cell)
        return next((at for at, line in enumerate(self.lines) if line == me), None)

    @cached_property
    def cohort(self) -> int | None:
        """Where the drawing put this device, once there is an edition."""
        if self.campaign is None or self.campaign.edition is None or self.position is None:
            return None
        return int(cohorts_by(self.lines, self.campaign.settings)[self.position])

    @cached_property
    def model(self) -> Model | None:
        if "model" not in self.standing:
            return None
        model = self.shelf.read(Model, self.standing["model"])
        if model.edition != self.standing.get("edition"):
            raise PeerError(Fault.PARAMS_MISMATCH, "the model is another edition's")
        return model

    @cached_property
    def over(self) -> bool:
        """Whether what the campaign learnt is published: then there is no round left in it."""
        published = self.standing.get("publication")
        return published is not None and self.shelf.read(Publication, published).edition == self.standing.get("edition")

    @property
    def mean_name(self) -> bytes | None:
        """Of the document with the own cohort's mean."""
        if self.model is None or self.cohort is None:
            return None
        if self.cohort >= len(self.model.means):
            raise PeerError(Fault.PARAMS_MISMATCH, "there are fewer means than cohorts")
        return self.model.means[self.cohort]

    @cached_property
    def mean(self) -> Mean | None:
        """What the own cohort opened last."""
        if self.mean_name is None:
            return None
        mean = self.shelf.read(Mean, self.mean_name)
        if mean.cohort != self.cohort:
            raise PeerError(Fault.PARAMS_MISMATCH, "the mean of another cohort stands where this one's should")
        return mean

    @cached_property
    def known(self) -> Known:
        """The places that this device has under the campaign: with popularity, once there is an edition."""
        if self.campaign is None:
            raise StateError("nothing has been published yet")
        manifest = self.manifest(self.campaign)
        return read_regions(manifest, self.shelf.body, campaign=self.campaign, cells=self._here(manifest))

    @cached_property
    def publication(self) -> tuple[Publication, Campaign, Known] | None:
        """What there is to recommend with, and the campaign that it came from."""
        if "publication" not in self.standing:
            return None
        publication = self.shelf.read(Publication, self.standing["publication"])
        edition = self.shelf.read(Edition, publication.edition)
        campaign = Campaign.of(self._own(self.shelf.read(Charter, edition.charter)), edition)
        manifest = self.shelf.read(Manifest, publication.manifest)
        refuse_other_places(manifest, than=self.shelf.read(Manifest, edition.manifest))
        known = read_regions(manifest, self.shelf.body, campaign=campaign, cells=self._here(manifest))
        return publication, campaign, known

    def allowed(self, kind: str) -> frozenset[bytes]:
        """Who may be on the roster of a round: the campaign's people, or for mixing those of the own cohort. Fixed and
        logged before cohorts were drawn, so that nobody can be put beside a person afterwards."""
        names = [line.name for line in self.lines]
        if kind != "linear" or self.campaign is None:
            return frozenset(names)
        cohort = cohorts_by(self.lines, self.campaign.settings).tolist()
        return frozenset(name for name, one in zip(names, cohort, strict=True) if one == self.cohort)

    def _own(self, charter: Charter) -> Charter:
        if (charter.deployment, charter.recommender) != (self.member.deployment, self.member.recommender):
            raise PeerError(Fault.PARAMS_MISMATCH, "the charter is another deployment's")
        return charter

    def manifest(self, campaign: Campaign) -> Manifest:
        """The catalogue of a campaign as it is now."""
        first = self.shelf.read(Manifest, campaign.charter.manifest)
        if campaign.edition is None:
            return first
        manifest = self.shelf.read(Manifest, campaign.edition.manifest)
        refuse_other_places(manifest, than=first)
        return manifest

    def cells(self, manifest: Manifest) -> set[int] | None:
        """The regions around the cell that this device told; None: all. They follow from the coarse cell alone."""
        if self.member.cell == 0:
            return None
        return {0, *_around(self.member.cell, manifest.resolution)}

    def asked(self, manifest: Manifest) -> set[int]:
        """The regions that its person asked for besides, from the coarse cells that were gone to. Which these are is
        private: the device goes on where one of them cannot be had."""
        with self.shelf.person.store.reading() as rows:
            return {near for cell in load_extra_regions(rows) for near in _around(cell, manifest.resolution)}

    def _here(self, manifest: Manifest) -> set[int] | None:
        """Of both, what is on the shelf."""
        own = self.cells(manifest)
        if own is None:
            return None
        asked = {line.cell: line for line in manifest.regions if line.cell in self.asked(manifest) - own}
        return own | {cell for cell, line in asked.items() if all(map(self.shelf.has, parts_of(line)))}

    def _edition(self, name: bytes, *, of: bytes) -> Edition:
        edition = self.shelf.read(Edition, name)
        if edition.charter != of:
            raise PeerError(Fault.PARAMS_MISMATCH, "the edition is another charter's")
        return edition


@lru_cache(maxsize=8)
def _campaign(charter: Charter, edition: Edition | None = None) -> Campaign:
    """Of documents that stay the same for a whole campaign, and are looked at in every round of it."""
    return Campaign.of(charter, edition)


def _around(cell: int, resolution: int) -> tuple[int, ...]:
    """The regions within reach of a coarse cell, the same for everyone in it."""
    lat, lon = h3.cell_to_latlng(h3.cell_to_parent(cell, min(resolution, h3.get_resolution(cell))))
    return cells_near(lat, lon, REACH_KM, resolution)


# How a device follows its recommender's log: it checks every entry, fetches what the last of each kind names, and
# keeps both in one transaction. Whole regions are fetched, so a request tells no more than the region.
#
# The regions that its person has asked for besides are fetched apart (`fetch_asked`): which these are is private, so
# nothing that goes out under the device's name may wait for them.


SUBJECTS = ("charter", "edition", "model", "publication")
_BELOW = {"charter": ("edition", "model"), "edition": ("model",)}  # what a new one puts out of force


class Source(Protocol):
    """Where the public comes from: device/client.py, or a cache."""

    async def log(self, after: int) -> Sequence[SignedEntry]: ...

    async def document(self, name: bytes) -> bytes: ...


async def catch_up(person: Person, source: Source) -> View:
    """The view with everything that the log says by now."""
    view = View.of(person)
    head, standing, begun, more = view.member.head, dict(view.standing), _begun(view), True
    while more:
        entries = await source.log(head.length)
        head = head.after(entries, deployment=view.member.deployment, recommender=view.member.recommender)
        for one in entries:
            _follow(standing, one, begun)
        more = len(entries) >= MOST  # a page that is not full is the last
    if head == view.member.head:
        return await _complete(view, source)
    before, view = view, replace(view, standing=standing, member=replace(view.member, head=head))
    keeping = await _fetch_all(view, source)
    _refuse_going_back(before, view)
    with person.store.transaction() as rows:
        held = load_membership(rows)
        if held is None or held.head.length > head.length:  # left, or another process has read on: what it knows holds
            return View.of(person)
        save_documents(rows, view.shelf.fresh.values())
        prune_documents(rows, keeping=keeping)
        drop_models(rows, keeping=_campaigns(view))
        save_latest(rows, standing)
        save_head(rows, head)
    view.shelf.fresh.clear()
    return view


def _refuse_going_back(before: View, now: View) -> None:
    """Campaigns follow one another, and so do the rounds of one."""
    if before.campaign is None or now.campaign is None:
        return
    a, b = before.campaign.charter, now.campaign.charter
    if a != b and b.campaign <= a.campaign:
        raise PeerError(Fault.EQUIVOCATION, "a campaign has the number of an earlier one")
    if a == b and before.model is not None and now.model is not None and _at(now.model) < _at(before.model):
        raise PeerError(Fault.EQUIVOCATION, "a campaign goes back to an earlier round")


def _at(model: Model) -> tuple[int, bool]:
    return model.iteration, model.mixed


async def _complete(view: View, source: Source) -> View:
    """What was cut short the last time."""
    await _fetch_all(view, source)
    if view.shelf.fresh:
        with view.shelf.person.store.transaction() as rows:
            save_documents(rows, view.shelf.fresh.values())
        view = View(view.member, view.standing, type(view.shelf)(view.shelf.person))
    return view


def _begun(view: View) -> set[bytes]:
    """Charters that have begun a campaign, as far as the device knows of now."""
    return {name for subject, name in view.standing.items() if subject == "charter"}


def _follow(standing: dict[str, bytes], one: SignedEntry, begun: set[bytes]) -> None:
    """PeerError where the story is told twice: a charter begins one campaign and has one edition, so that cohorts are
    drawn once."""
    subject = one.entry.subject
    if subject == "charter":
        if one.entry.document in begun:
            raise PeerError(Fault.EQUIVOCATION, "a campaign is begun a second time")
        begun.add(one.entry.document)
    if subject == "edition" and ("edition" in standing or "charter" not in standing):
        raise PeerError(Fault.EQUIVOCATION, "a campaign has a second edition, or an edition no campaign")
    for gone in _BELOW.get(subject, ()):
        standing.pop(gone, None)
    if subject in SUBJECTS:
        standing[subject] = one.entry.document


async def _fetch_all(view: View, source: Source) -> set[bytes]:
    """Fetches what is in force, as far as this device has to do with it; the names of all that is then needed."""
    needed = set(view.standing.values())
    await _fetch(view, source, needed)
    if (campaign := view.campaign) is not None:
        needed.add(campaign.charter.people)
        await _fetch(view, source, [campaign.charter.people])
        await _regions(view, source, campaign.charter.manifest, needed)
        if campaign.edition is not None:
            await _regions(view, source, campaign.edition.manifest, needed)
    if view.mean_name is not None:
        needed.add(view.mean_name)
        await _fetch(view, source, [view.mean_name])
    if "publication" in view.standing:
        await _publication(view, source, needed)
    return needed


def _campaigns(view: View) -> set[bytes]:
    """Those whose models the device still has use for: the one under way, and the one that was published last."""
    names = {view.standing[subject] for subject in ("charter",) if subject in view.standing}
    if "publication" in view.standing:
        publication = view.shelf.read(Publication, view.standing["publication"])
        names.add(view.shelf.read(Edition, publication.edition).charter)
    return names


async def _publication(view: View, source: Source, needed: set[bytes]) -> None:
    publication = view.shelf.read(Publication, view.standing["publication"])
    await _fetch(view, source, [publication.edition])
    edition = view.shelf.read(Edition, publication.edition)
    await _fetch(view, source, [edition.charter, edition.manifest])
    needed |= {publication.edition, edition.charter, edition.manifest}
    await _regions(view, source, publication.manifest, needed)


async def _regions(view: View, source: Source, manifest: bytes, needed: set[bytes]) -> None:
    await _fetch(view, source, [manifest])
    known = view.shelf.read(Manifest, manifest)
    own = view.cells(known)
    parts = region_documents(known, own)
    await _fetch(view, source, parts)
    needed |= {manifest, *parts, *_asked(view, known)}


def _asked(view: View, known: Manifest) -> tuple[bytes, ...]:
    """What the person has asked for besides the own regions."""
    own = view.cells(known)
    return tuple(region_documents(known, view.asked(known) - own)) if own is not None else ()


def missing_extra_regions(view: View) -> list[bytes]:
    """Of what is in force, the regions that the person has asked for and the device has not."""
    names = [name for manifest in _manifests(view) for name in _asked(view, view.shelf.read(Manifest, manifest))]
    return [name for name in dict.fromkeys(names) if not view.shelf.has(name)]


async def fetch_extra_regions(person: Person, source: Source) -> None:
    """One after another, each kept when it has come. One that fails is tried again when the log is next read."""
    view = View.of(person)
    for name in missing_extra_regions(view):
        with suppress(ProtocolError):
            await _fetch(view, source, [name])
            with person.store.transaction() as rows:
                save_documents(rows, view.shelf.fresh.values())
            view.shelf.fresh.clear()


def _manifests(view: View) -> set[bytes]:
    """Those that are in force, as far as they are here."""
    names = set[bytes]()
    if view.campaign is not None:
        names.add(view.campaign.charter.manifest)
        names |= set() if view.campaign.edition is None else {view.campaign.edition.manifest}
    if "publication" in view.standing:
        names.add(view.shelf.read(Publication, view.standing["publication"]).manifest)
    return {name for name in names if view.shelf.has(name)}


async def _fetch(view: View, source: Source, names: Iterable[bytes]) -> None:
    for name in names:
        if not view.shelf.has(name):
            body = await source.document(name)
            if address(body) != name:
                raise PeerError(Fault.DECODE, "a document is not the one that was asked for")
            view.shelf.fresh[name] = body
