"""How a device follows its recommender's log: it checks every entry, fetches what the last of each kind names, and
keeps both in one transaction. Whole regions are fetched, so a request tells no more than the region.

The regions that its person has asked for besides are fetched apart (`fetch_asked`): which these are is private, so
nothing that goes out under the device's name may wait for them."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from prirec.contract.documents import Edition, Manifest, Model, Publication, address
from prirec.contract.log import MOST, SignedEntry
from prirec.contract.regions import wanted
from prirec.device.membership import held_membership, save_head
from prirec.device.models import drop_models
from prirec.device.person import Person
from prirec.device.shelf import prune_documents, save_documents
from prirec.device.view import View, save_standing
from prirec.errors import Fault, PeerError, ProtocolError

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
        held = held_membership(rows)
        if held is None or held.head.length > head.length:  # left, or another process has read on: what it knows holds
            return View.of(person)
        save_documents(rows, view.shelf.fresh.values())
        prune_documents(rows, keeping=keeping)
        drop_models(rows, keeping=_campaigns(view))
        save_standing(rows, standing)
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
    parts = wanted(known, own)
    await _fetch(view, source, parts)
    needed |= {manifest, *parts, *_asked(view, known)}


def _asked(view: View, known: Manifest) -> tuple[bytes, ...]:
    """What the person has asked for besides the own regions."""
    own = view.cells(known)
    return tuple(wanted(known, view.asked(known) - own)) if own is not None else ()


def asked_and_missing(view: View) -> list[bytes]:
    """Of what is in force, the regions that the person has asked for and the device has not."""
    names = [name for manifest in _manifests(view) for name in _asked(view, view.shelf.read(Manifest, manifest))]
    return [name for name in dict.fromkeys(names) if not view.shelf.has(name)]


async def fetch_asked(person: Person, source: Source) -> None:
    """One after another, each kept when it has come. One that fails is tried again when the log is next read."""
    view = View.of(person)
    for name in asked_and_missing(view):
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
