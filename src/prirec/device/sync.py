"""Log sync: a device follows the recommender's signed log, and stores the documents in force.

`catch_up` verifies every new log entry, fetches the documents that the latest entry of each kind names, and stores both
in one transaction. `View` reads them back, checked against one another. All of it is public. A campaign of an earlier
version is passed over, as if it had not been: a device waits for the next one.

A device that has pinned a helper follows the log up to the head that the helper has signed, and no further, and no
campaign of anybody else's. Where the log rotates an operator's key, it pins the new one from there on. It reads the
lists of who has left, and of who has joined until it has found itself.

Whole regions are fetched, so that a request reveals no more than a region. The regions that the person asked for beside
those around the own coarse cell are fetched separately (`fetch_extra_regions`): which ones they are is private, so
nothing that is sent under the device's name may wait for them.
"""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Protocol, TypeVar

import msgspec
from h3.api import basic_int as h3

from prirec.config import Settings, loads, preset
from prirec.device.person import Person
from prirec.device.store import (
    DAMAGED,
    Membership,
    delete_document,
    drop_contributions,
    load_membership,
    prune_documents,
    refuse_too_much,
    save_documents,
    save_head,
)
from prirec.errors import Fault, PeerError, PolicyError, PrirecError, ProtocolError, StateError, UsageError
from prirec.graph.matching import cells_near
from prirec.protocols.codec import decode_with, digest, encode
from prirec.protocols.messages import WireStruct
from prirec.wire.campaign import Basis, Campaign
from prirec.wire.documents import (
    MOST_ENTRIES,
    Charter,
    CoSignature,
    EarlierVersionError,
    Edition,
    Figures,
    Head,
    Manifest,
    Model,
    Names,
    Offer,
    Page,
    Roster,
    Rotation,
    Scales,
    SignedCoSignature,
    SignedEntry,
    Start,
    Window,
    address,
    read,
)
from prirec.wire.http import MOST_CAMPAIGNS
from prirec.wire.regions import KnownPlaces, parts_of, read_regions, refuse_other_places, region_documents
from prirec.wire.rotations import Operators

MOST_IN_MEMORY = 16 * 2**20  # bytes of documents that were fetched and are not on disk yet
MOST_NEW_ENTRIES = 2**18  # of the log since a device last read it: some minutes of checking signatures
REACH_KM = 10.0  # a device downloads the regions within this distance of its coarse cell
SUBJECTS = ("catalogue", "start", "charter", "edition", "scales", "model", "publication", "figures", "window")
# a new campaign puts the edition, the scales and the model of the one before out of force; what it has learnt in the
# end, people have paid for, and a starting model never takes its place again
_SUPERSEDES = {"charter": ("edition", "scales", "model", "window"), "publication": ("start", "figures")}

# a device cannot know whether its recommender will ever run again: a city on one machine may be over
NO_CATALOGUE = "this device has no catalogue; it fetches what is published when it takes part, if its recommender runs"

_Kind = TypeVar("_Kind", bound=WireStruct)


class DocumentSource(Protocol):
    """Where public documents come from: device/client.py, or a cache."""

    async def log(self, after: int) -> Page: ...

    async def document(self, name: bytes) -> bytes: ...


@dataclass(slots=True)
class DocumentCache:
    """Public documents by hash: those on disk, and those fetched but not yet written.

    Whatever a recommender publishes, no more than MOST_IN_MEMORY and one document are held in memory, and no more than
    MOST_STORED on disk (device/store.py), twice as much while documents come that are to replace others."""

    person: Person = field(repr=False)
    fresh: dict[bytes, bytes] = field(default_factory=dict, repr=False)
    fresh_bytes: int = 0
    asked: set[bytes] = field(default_factory=set, repr=False)
    asked_bytes: int = 0  # of all that was asked for, whether it was on disk or not

    def has(self, name: bytes) -> bool:
        if name in self.fresh:
            return True
        with self.person.store.reading() as rows:  # without reading the body, which can be megabytes
            return rows.execute("SELECT 1 FROM documents WHERE name = ?", (name,)).fetchone() is not None

    def body(self, name: bytes) -> bytes:
        """The document's bytes. StateError if they are not there, or were damaged on the disk: then they are deleted,
        and fetched again when the device is next online."""
        if name in self.fresh:
            return self.fresh[name]
        found = self.person.document(name)
        if found is None:
            raise StateError("a document that this device should have is not there; it is fetched when online")
        if address(found) != name:
            with self.person.store.reading() as rows:
                delete_document(rows, name)
            raise StateError("a document in the device's file is damaged; it is fetched anew when online")
        return found

    def read(self, kind: type[_Kind], name: bytes) -> _Kind:
        return read(kind, self.body(name), name=name)

    async def fetch(self, source: DocumentSource, names: Iterable[bytes]) -> None:
        """Fetch what is missing. PeerError for a body that does not have the hash that was asked for; PolicyError if
        all that was asked for is more than a device stores."""
        for name in names:
            if not self.has(name):
                body = await source.document(name)
                if address(body) != name:
                    raise PeerError(Fault.DECODE, "a document is not the one that was asked for")
                self.fresh[name] = body
                self.fresh_bytes += len(body)
                if self.fresh_bytes > MOST_IN_MEMORY:
                    with self.person.store.transaction() as rows:
                        self.save(rows, beside=True)
            if name not in self.asked:
                self.asked.add(name)
                self.asked_bytes += self._size(name)
                refuse_too_much(self.asked_bytes)

    def save(self, rows: sqlite3.Connection, *, beside: bool = False) -> None:
        """Write what was fetched; in memory it is forgotten."""
        fetched, self.fresh, self.fresh_bytes = self.fresh, {}, 0
        if fetched:
            save_documents(rows, fetched.values(), beside=beside)

    def _size(self, name: bytes) -> int:
        if name in self.fresh:
            return len(self.fresh[name])
        with self.person.store.reading() as rows:
            found = rows.execute("SELECT length(body) FROM documents WHERE name = ?", (name,)).fetchone()
        return 0 if found is None else int(found[0])


@dataclass(frozen=True)
class View:
    """The deployment at one moment: the documents in force, checked against one another where they are used.

    PeerError for documents that contradict each other, StateError for one that was not fetched yet."""

    member: Membership
    latest: Mapping[str, bytes] = field(repr=False)  # by subject, the last document that the log named
    documents: DocumentCache = field(repr=False)

    @classmethod
    def of(cls, person: Person) -> "View":
        with person.store.reading() as rows:
            return cls(person.require_membership(), load_latest(rows), DocumentCache(person))

    # --- the catalogue, and the campaign under way, or the last one

    @cached_property
    def basis(self) -> Basis | None:
        """What visits are recorded at: the campaign's catalogue or, before the first one, the offered catalogue."""
        return self.campaign if self.campaign is not None else self.offered

    @cached_property
    def offered(self) -> Basis | None:
        """The catalogue for the next campaign, which has said nothing yet of its settings."""
        if "catalogue" not in self.latest:
            return None
        offer = self._offer(self.latest["catalogue"])
        try:
            self.documents.read(Manifest, offer.manifest)
        except EarlierVersionError:
            return None
        return Basis(offer, preset("private"))

    @cached_property
    def campaign(self) -> Campaign | None:
        try:
            charter = self._charter(self.latest["charter"]) if "charter" in self.latest else None
        except EarlierVersionError:
            return None
        if charter is None or "edition" not in self.latest:
            return None if charter is None else _campaign(charter)
        edition = self.documents.read(Edition, self.latest["edition"])
        if edition.charter != self.latest["charter"]:
            raise PeerError(Fault.PARAMS_MISMATCH, "the edition is another charter's")
        if "scales" not in self.latest:
            return _campaign(charter, edition)
        scales = self.documents.read(Scales, self.latest["scales"])
        if scales.edition != self.latest["edition"]:
            raise PeerError(Fault.PARAMS_MISMATCH, "the scales are another edition's")
        return _campaign(charter, edition, scales)

    @property
    def in_force(self) -> bool:
        """Whether the campaign is of the operators' keys of now: one is rotated between campaigns, and no device
        takes part in one of keys that are out of force."""
        if self.campaign is None:
            return False
        charter = self.campaign.charter
        return (charter.recommender, charter.helper) == (self.member.recommender, self.member.helper)

    @cached_property
    def names(self) -> tuple[bytes, ...]:
        """The campaign's roster, ascending."""
        if self.campaign is None or not self.campaign.charter.people:
            return ()
        names = self.documents.read(Roster, self.campaign.charter.people).names
        if len(names) != self.campaign.charter.many or any(a >= b for a, b in pairwise(names)):
            raise PeerError(Fault.PARAMS_MISMATCH, "the roster is not as long as the charter says, or not in order")
        return names

    @cached_property
    def takes_part(self) -> bool:
        """Whether the campaign's roster lists this device or, with two operators, their list of people."""
        if self.member.helper:
            return self.campaign is not None and self.member.joined > 0
        return self.member.name in self.names

    @cached_property
    def cosigned(self) -> CoSignature | None:
        """How far the helper has signed the log, and when; None: it has not, or there is none."""
        signed = _cosigned_from(self.member.cosigned)
        return None if signed is None else signed.statement

    @cached_property
    def window(self) -> Window | None:
        """The last window of the campaign, whose sum may be over."""
        if self.campaign is None or "window" not in self.latest:
            return None
        return self.documents.read(Window, self.latest["window"])

    @cached_property
    def model(self) -> Model | None:
        """B of the round that the campaign is in."""
        if self.campaign is None or "model" not in self.latest:
            return None
        model = self.documents.read(Model, self.latest["model"])
        if model.scales != self.latest.get("scales"):
            raise PeerError(Fault.PARAMS_MISMATCH, "the model is another campaign's")
        return model

    @cached_property
    def learnt(self) -> bool:
        """Whether the campaign's model is published: then no round of it is left."""
        published = self.published_model
        return published is not None and published.scales == self.latest.get("scales")

    @cached_property
    def over(self) -> bool:
        """Whether all is published that the campaign comes to: then no sum of it is left."""
        wanted = self.campaign is not None and self.campaign.settings.privacy.quality > 0
        return self.learnt and (not wanted or self.figures is not None)

    @cached_property
    def figures(self) -> Figures | None:
        """How good the published model is, as far as noise lets anybody see; None: no sum of it was opened."""
        if "figures" not in self.latest or self.published_model is None:
            return None
        figures = self.documents.read(Figures, self.latest["figures"])
        if figures.model != self.latest["publication"]:
            raise PeerError(Fault.PARAMS_MISMATCH, "the quality figures are another model's")
        return figures

    @cached_property
    def published_model(self) -> Model | None:
        """The last model to recommend with, of this campaign or of an earlier one."""
        if "publication" not in self.latest:
            return None
        try:
            return self.documents.read(Model, self.latest["publication"])
        except EarlierVersionError:
            return None

    @cached_property
    def starting(self) -> tuple[Model, Basis] | None:
        """The model to recommend with until a campaign has published one, and what it was learnt under: the part of
        `start` that is the same for every device, wherever its person lives. One that this device cannot use, such as
        that of a newer version, is passed over: it is no reason to follow no log, and to take part in no sum."""
        if "start" not in self.latest or self.published_model is not None:
            return None
        try:
            start = self.documents.read(Start, self.latest["start"])
            model = self.documents.read(Model, start.model)
            edition, scales = self.under(model)
            offer = self._offer(edition.charter)
            basis = Basis(offer, _settings_of(start), edition, scales)
            basis.shared(model)
            _ = basis.scaling
            manifest = self._manifest(edition)
            refuse_other_places(manifest, than=self.documents.read(Manifest, offer.manifest))
            # the rest of its checks; no region is looked at, for the reason in `_refuse_unusable`
            read_regions(manifest, self.documents.body, basis=basis, cells=())
        except (PeerError, PolicyError, StateError):
            return None
        return model, basis

    # --- places

    @cached_property
    def known(self) -> KnownPlaces:
        """The places of `basis` that this device has downloaded; with popularity once there is an edition."""
        if self.basis is None:
            raise StateError("nothing has been published yet")
        manifest = first = self.documents.read(Manifest, self.basis.offered.manifest)
        if self.basis.edition is not None:
            manifest = self.documents.read(Manifest, self.basis.edition.manifest)
            refuse_other_places(manifest, than=first)
        return self._read_regions(manifest, self.basis)

    @cached_property
    def publication(self) -> tuple[Model, Campaign, KnownPlaces] | None:
        """What to recommend with: the last published model, the campaign that it came from, and its places."""
        if self.published_model is None:
            return None
        edition, scales = self.under(self.published_model)
        campaign = Campaign.of(self._charter(edition.charter), edition, scales)
        return self.published_model, campaign, self._read_regions(self._manifest(edition), campaign)

    @cached_property
    def start(self) -> tuple[Model, Basis, KnownPlaces] | None:
        """What to recommend with before a campaign has published a model: a starting model, and its places."""
        if self.starting is None:
            return None
        model, basis = self.starting
        return model, basis, self._read_regions(self._manifest(self.under(model)[0]), basis)

    @cached_property
    def in_use(self) -> str:
        """What this device recommends with, in words; empty if it has no catalogue yet."""
        if self.published_model is not None:
            return f"campaign {self._charter(self.under(self.published_model)[0].charter).campaign}"
        if self.starting is not None:
            return "start"
        return "" if self.basis is None else "own records alone"

    @property
    def model_in_use(self) -> Model | None:
        """The shared model to recommend with; None: there is none yet, and the own records are all."""
        return self.starting[0] if self.starting is not None else self.published_model

    def under(self, model: Model) -> tuple[Edition, Scales]:
        """The basis under which the model in use was learnt."""
        scales = self.documents.read(Scales, model.scales)
        return self.documents.read(Edition, scales.edition), scales

    @property
    def manifests(self) -> set[bytes]:
        """Of the regions in force: those of `basis`, and those to recommend from."""
        found = set[bytes]()
        if self.basis is not None:
            found |= {one.manifest for one in (self.basis.offered, self.basis.edition) if one is not None}
        if self.model_in_use is not None:
            found.add(self.under(self.model_in_use)[0].manifest)
        return found

    def own_cells(self, manifest: Manifest) -> set[int] | None:
        """Regions around the coarse cell of the home, which follow from that cell alone; None: all."""
        return None if self.member.cell == 0 else {0, *_around(self.member.cell, manifest.resolution)}

    def extra_cells(self, manifest: Manifest) -> set[int]:
        """Regions that the person asked for beside the own ones. Private; the device goes on without a missing one."""
        own = self.own_cells(manifest)
        if own is None:  # the device has all regions anyway
            return set()
        with self.documents.person.store.reading() as rows:
            return {near for cell in _extra_regions(rows) for near in _around(cell, manifest.resolution)} - own

    def _charter(self, name: bytes) -> Charter:
        charter = self.documents.read(Charter, name)
        pairs = self.member.operators.ever()
        if charter.deployment != self.member.deployment or charter.recommender not in {one for one, _ in pairs}:
            raise PeerError(Fault.PARAMS_MISMATCH, "the charter is another deployment's")
        if (charter.recommender, charter.helper) not in pairs:
            raise PeerError(
                Fault.PARAMS_MISMATCH,
                "a campaign names another helper than this device has pinned, or one where it has pinned none; nothing "
                "is sent for it. To trust other operators, leave and join again",
            )
        return charter

    def _offer(self, name: bytes) -> Offer:
        offer = self.documents.read(Offer, name)
        if offer.deployment != self.member.deployment:
            raise PeerError(Fault.PARAMS_MISMATCH, "the catalogue is another deployment's")
        return offer

    def _manifest(self, of: Edition) -> Manifest:
        return self.documents.read(Manifest, of.manifest)

    def _read_regions(self, manifest: Manifest, basis: Basis) -> KnownPlaces:
        """The own regions, and of the extra ones those that were downloaded whole."""
        cells = self.own_cells(manifest)
        if cells is not None:
            extra = self.extra_cells(manifest)
            cells |= {
                line.cell
                for line in manifest.regions
                if line.cell in extra and all(map(self.documents.has, parts_of(line)))
            }
        return read_regions(manifest, self.documents.body, basis=basis, cells=cells)


def _settings_of(start: Start) -> Settings:
    try:
        return loads(start.settings)
    except UsageError:
        raise PeerError(Fault.PARAMS_MISMATCH, "the settings of a starting model cannot be read") from None


@lru_cache(maxsize=2)
def _campaign(charter: Charter, edition: Edition | None = None, scales: Scales | None = None) -> Campaign:
    """Cached: the documents are the same for a whole campaign, and every round looks at them."""
    return Campaign.of(charter, edition, scales)


def _around(cell: int, resolution: int) -> tuple[int, ...]:
    """The regions within reach of a coarse cell: the same for everyone in it, so they reveal nothing finer."""
    lat, lon = h3.cell_to_latlng(h3.cell_to_parent(cell, min(resolution, h3.get_resolution(cell))))
    return cells_near(lat, lon, REACH_KM, resolution)


# --- Following the log ----------------------------------------------------------------------------------------------


async def catch_up(person: Person, source: DocumentSource) -> View:
    """Read the log to its end, verify it, fetch and store what is in force; the view after that."""
    before = View.of(person)
    member, known, latest, more = before.member, before.member.head, dict(before.latest), True
    signed, joined = _cosigned_from(member.cosigned), member.joined
    # a device up to version 9 read past the catalogue, and has to read it again
    head, operators = (known, member.operators) if latest else (Head(), member.operators.first)
    begun = {latest["charter"]} if "charter" in latest else set[bytes]()
    while more:
        page = await source.log(max(head.length - 1, 0))
        new = _beyond(page.entries, head)
        if member.helper and page.cosigned is None and signed is None:
            break  # a helper that has not signed anything yet: there is nothing to follow
        if member.helper:
            signed = _newer(page.cosigned, signed)
            new = new[: max(signed.statement.length - head.length, 0)]
        _refuse_another_past(new, head, known)
        head, operators = await _verified(new, head, operators, member.deployment, source)
        for one in new:
            _apply(latest, one, begun)
        if member.helper:
            joined = await _listed(new, joined, member.name, source)
        if head.length - before.member.head.length > MOST_NEW_ENTRIES or len(begun) > MOST_CAMPAIGNS:
            raise PolicyError("the recommender's log has grown by more than a device reads; it is not followed")
        more = len(page.entries) >= MOST_ENTRIES  # a page that is not full is the last
        more = more and (signed is None or head.length < signed.statement.length)
    if head.length < known.length:
        raise _another_log()
    _refuse_other_head(head, operators, signed, member)
    now = replace(
        member, head=head, cosigned=b"" if signed is None else encode(signed), joined=joined,
        recommender=operators.recommender, helper=operators.helper, rotations=operators.rotations,
    )  # fmt: skip
    view = replace(before, latest=latest, member=now)
    try:
        needed = await _fetch_all(view, source)
        _refuse_going_back(before, view)
        _refuse_unusable(view)
        return _save(before, view, needed)
    except (PeerError, PolicyError):
        await _discard_all_but(before)
        raise


def _save(before: View, view: View, needed: set[bytes]) -> View:
    """Write what has changed, at once."""
    new, old, person = view.member, before.member, view.documents.person
    head = new.head
    news = (head, new.cosigned) != (old.head, old.cosigned) or view.latest != before.latest
    if not news and not view.documents.fresh:
        return view
    with person.store.transaction() as rows:
        member = load_membership(rows)
        if member is None or member.head.length > head.length:  # left, or another process has read further: that counts
            return View.of(person)
        campaigns = _campaigns_in_use(view)
        if news:
            prune_documents(rows, keeping=needed)
        view.documents.save(rows)
        if news:
            drop_contributions(rows, keeping=campaigns)
            save_latest(rows, view.latest)
            save_head(rows, head, cosigned=new.cosigned, joined=new.joined, operators=new.operators)
    return view


async def _discard_all_but(view: View) -> None:
    """Delete documents of a log that was refused: those of what is in force stay."""
    kept = replace(view, documents=DocumentCache(view.documents.person))
    with suppress(PrirecError):  # a document is missing: then all stay
        needed = await _fetch_all(kept, _Offline())
        with view.documents.person.store.transaction() as rows:
            prune_documents(rows, keeping=needed)


class _Offline:
    """A source that has nothing."""

    async def log(self, after: int) -> Page:
        return Page(())

    async def document(self, name: bytes) -> bytes:
        raise StateError("a document that this device should have is not there")


def _beyond(page: Sequence[SignedEntry], head: Head) -> Sequence[SignedEntry]:
    """The entries after the last one that this device knows, with which a page begins. PeerError if it does not: the
    recommender was set back to an older state, or shows each device another log."""
    if head.length == 0:
        return page
    if not page or digest(page[0].entry) != head.last:
        raise _another_log()
    return page[1:]


def _refuse_another_past(new: Sequence[SignedEntry], head: Head, known: Head) -> None:
    """PeerError where a log that is read again is not the one that was read before."""
    at = known.length - head.length - 1
    if 0 <= at < len(new) and digest(new[at].entry) != known.last:
        raise _another_log()


_cosignatures: msgspec.msgpack.Decoder[SignedCoSignature] = msgspec.msgpack.Decoder(SignedCoSignature)


def _cosigned_from(data: bytes) -> SignedCoSignature | None:
    """The stored co-signature, decoded. StateError if it is damaged."""
    if not data:
        return None
    try:
        return decode_with(_cosignatures, data, limit=len(data))
    except PeerError:
        raise StateError(f"the device's file {DAMAGED}") from None


async def _verified(
    new: Sequence[SignedEntry], head: Head, operators: Operators, deployment: bytes, source: DocumentSource
) -> tuple[Head, Operators]:
    """The head after these entries, and whose keys are in force there. PeerError for entries that do not go on from
    here, or are not signed by the key in force."""
    for one in new:
        head = head.after([one], deployment=deployment, recommender=operators.recommender)
        if one.entry.subject == "rotation":
            name = one.entry.document
            operators = operators.after(read(Rotation, await source.document(name), name=name), deployment=deployment)
    return head, operators


def _newer(new: SignedCoSignature | None, old: SignedCoSignature | None) -> SignedCoSignature:
    """The helper's signature that came with a page, to be verified when the log is read so far: with the key that is in
    force there. PeerError if there is none, or it goes back: a helper signs heads that extend the last one, at later
    and later times."""
    if new is None:
        raise PeerError(Fault.AUTH, "the log comes without the signature of the helper that this device has pinned")
    first = Head() if old is None else old.statement
    if new.statement.length < first.length or (old is not None and new.statement.time < old.statement.time):
        raise PeerError(Fault.EQUIVOCATION, "what the helper has signed goes back behind what this device has seen")
    return new


async def _listed(new: Iterable[SignedEntry], joined: int, name: bytes, source: DocumentSource) -> int:
    """Entries up to the one that lists this device, after these; 0: it is on no list, or has been taken off."""
    for one in new:
        subject, document = one.entry.subject, one.entry.document
        if subject == "left" or (subject == "joined" and not joined):
            names = read(Names, await source.document(document), name=document).names
            if name in names:
                joined = one.entry.index + 1 if subject == "joined" else 0
    return joined


def _refuse_other_head(
    head: Head, operators: Operators, signed: SignedCoSignature | None, member: Membership
) -> None:  # fmt: skip
    """PeerError unless the log ends where the helper has signed it, and goes by the pinned keys."""
    if signed is not None:
        signed.verify(operators.helper, deployment=member.deployment)
        if head != Head(signed.statement.length, signed.statement.last):
            raise PeerError(
                Fault.EQUIVOCATION, "the log that the helper has signed is not the one that this device is shown"
            )
    if operators.rotations[: len(member.rotations)] != member.rotations:
        raise _another_log()


def _another_log() -> PeerError:
    return PeerError(
        Fault.EQUIVOCATION,
        "the recommender's log lacks what this device has read in it: it was set back, or forked. Nothing is sent; "
        "tell its operator",
    )


def _apply(latest: dict[str, bytes], one: SignedEntry, begun: set[bytes]) -> None:
    """Apply a log entry to the documents in force. A charter begins one campaign and has one edition and one set of
    scales: PeerError for a second.

    Each follows from a sum that is opened once: a second one would mean that the sum was asked for twice."""
    subject = one.entry.subject
    if subject == "charter":
        if one.entry.document in begun:
            raise PeerError(Fault.EQUIVOCATION, "a campaign is begun a second time")
        begun.add(one.entry.document)
    if subject == "edition" and ("edition" in latest or "charter" not in latest):
        raise PeerError(Fault.EQUIVOCATION, "a campaign has a second edition, or an edition no campaign")
    if subject == "scales" and ("scales" in latest or "edition" not in latest):
        raise PeerError(Fault.EQUIVOCATION, "an edition has a second set of scales, or scales no edition")
    if subject == "figures" and ("figures" in latest or "publication" not in latest):
        raise PeerError(Fault.EQUIVOCATION, "a model has second quality figures, or quality figures no model")
    for gone in _SUPERSEDES.get(subject, ()):
        latest.pop(gone, None)
    if subject in SUBJECTS:
        latest[subject] = one.entry.document


def _refuse_going_back(before: View, now: View) -> None:
    """Campaign numbers and rounds only grow. Going back would ask for a second noisy release of the same round."""
    if before.campaign is None or now.campaign is None:
        return
    a, b = before.campaign.charter, now.campaign.charter
    if a != b and b.campaign <= a.campaign:
        raise PeerError(Fault.EQUIVOCATION, "a campaign has the number of an earlier one")
    models = before.model, now.model
    if a == b and models[0] is not None and models[1] is not None and models[1].iteration < models[0].iteration:
        raise PeerError(Fault.EQUIVOCATION, "a campaign goes back to an earlier round")
    if a == b and before.window is not None and now.window is not None:
        _refuse_other_window(before.window, now.window)


def _refuse_other_window(before: Window, now: Window) -> None:
    """A window of a sum may close later than was said, and nothing else of it changes. PeerError else: the sum would
    be another one, for which the device could be asked a second time."""
    same = (before.kind, before.number) == (now.kind, now.number)
    if same and not (before.bound == now.bound and before.opens == now.opens and before.closes <= now.closes):
        raise PeerError(Fault.EQUIVOCATION, "the window of a sum has changed otherwise than by closing later")


def _refuse_unusable(view: View) -> None:
    """What no round can be computed with is refused before it is stored: an edition for which no noise can be planned,
    scales and models of another size or beyond all use. Regions are not looked at: which of them a device has is
    private, and one that is silent because of a malformed region would tell that it has it."""
    campaign = view.campaign
    _ = view.window, view.figures
    if campaign is None or campaign.edition is None:
        return
    _ = campaign.rules
    if campaign.scales is not None:
        _ = campaign.scaling
    if view.model is not None:
        campaign.shared(view.model)


async def _fetch_all(view: View, source: DocumentSource) -> set[bytes]:
    """Fetch the documents in force that concern this device. Returns the names of all that it needs to keep."""
    needed = set(view.latest.values())
    documents = view.documents
    await documents.fetch(source, needed)
    if (campaign := view.campaign) is not None:
        people = [campaign.charter.people] if campaign.charter.people else []
        await documents.fetch(source, people)
        needed |= {*people} | await _fetch_regions(view, source, campaign.charter.manifest)
        if campaign.edition is not None:
            needed |= await _fetch_regions(view, source, campaign.edition.manifest)
    elif "catalogue" in view.latest:
        manifest = documents.read(Offer, view.latest["catalogue"]).manifest
        await documents.fetch(source, [manifest])
        needed.add(manifest)
        if view.offered is not None:
            needed |= await _fetch_regions(view, source, manifest)
    if view.published_model is None and "start" in view.latest:
        needed |= await _fetch_start(view, source)
    if (model := view.model_in_use) is not None:
        await documents.fetch(source, [model.scales])
        scales = documents.read(Scales, model.scales)
        await documents.fetch(source, [scales.edition])
        edition = documents.read(Edition, scales.edition)
        await documents.fetch(source, [edition.charter])
        needed |= {model.scales, scales.edition, edition.charter}
        needed |= await _fetch_regions(view, source, edition.manifest)
    return needed


async def _fetch_start(view: View, source: DocumentSource) -> set[bytes]:
    """Fetch what a starting model consists of, as far as it can be read; `View.starting` looks at the whole."""
    needed = set[bytes]()

    async def fetched(kind: type[_Kind], name: bytes) -> _Kind:
        await view.documents.fetch(source, [name])
        needed.add(name)
        return view.documents.read(kind, name)

    with suppress(PeerError):
        start = await fetched(Start, view.latest["start"])
        scales = await fetched(Scales, (await fetched(Model, start.model)).scales)
        edition = await fetched(Edition, scales.edition)
        offer = await fetched(Offer, edition.charter)
        for name in (offer.manifest, edition.manifest):
            await fetched(Manifest, name)
    return needed


async def _fetch_regions(view: View, source: DocumentSource, name: bytes) -> set[bytes]:
    """Fetch a manifest and the own regions. Extra regions are kept if they are there, and not fetched here."""
    await view.documents.fetch(source, [name])
    manifest = view.documents.read(Manifest, name)
    own = region_documents(manifest, view.own_cells(manifest))
    await view.documents.fetch(source, own)
    return {name, *own, *region_documents(manifest, view.extra_cells(manifest))}


def _campaigns_in_use(view: View) -> set[bytes]:
    """Campaigns that are still used: the one under way, and the one that was published last."""
    names = {view.latest["charter"]} if "charter" in view.latest else set()
    if (published := view.published_model) is not None:
        names.add(view.under(published)[0].charter)
    return names


# --- Regions that the person asked for ------------------------------------------------------------------------------


def missing_extra_regions(view: View) -> list[bytes]:
    """Documents of the extra regions in force that the device does not have."""
    names = list[bytes]()
    for name in filter(view.documents.has, view.manifests):
        manifest = view.documents.read(Manifest, name)
        names += region_documents(manifest, view.extra_cells(manifest))
    return [name for name in dict.fromkeys(names) if not view.documents.has(name)]


async def fetch_extra_regions(person: Person, source: DocumentSource) -> None:
    """Fetch one document after another, and store each when it arrives. A failed one is tried again at the next log
    sync."""
    view = View.of(person)
    for name in missing_extra_regions(view):
        with suppress(ProtocolError):
            await view.documents.fetch(source, [name])
            with person.store.transaction() as rows:
                view.documents.save(rows)


# --- Rows -----------------------------------------------------------------------------------------------------------


def load_latest(rows: sqlite3.Connection) -> dict[str, bytes]:
    return dict(rows.execute("SELECT subject, document FROM standing"))


def save_latest(rows: sqlite3.Connection, latest: Mapping[str, bytes]) -> None:
    rows.execute("DELETE FROM standing")
    rows.executemany("INSERT INTO standing VALUES (?, ?)", latest.items())


def save_extra_region(rows: sqlite3.Connection, cell: int) -> None:
    """Download the regions around a coarse cell too, from now on."""
    rows.execute("INSERT OR IGNORE INTO regions VALUES (?)", (cell.to_bytes(8, "big"),))


def _extra_regions(rows: sqlite3.Connection) -> set[int]:
    return {int.from_bytes(cell, "big") for (cell,) in rows.execute("SELECT cell FROM regions")}
