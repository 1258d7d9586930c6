"""The recommender's own documents, and its signature under what the log says of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from os import urandom

from prirec.config import HARD_FLOOR, Settings, loads
from prirec.errors import PolicyError, StateError, UsageError
from prirec.features.encoding import from_json
from prirec.protocols.actions import Persist, Stage
from prirec.protocols.codec import encode
from prirec.recommender import campaign as rules
from prirec.recommender.campaign import Past, Progress
from prirec.recommender.release import RESOLUTION, Catalogue, CatalogueSource, document_page, make_charter, pack_regions
from prirec.recommender.store import Founding, Store, StoreCounts
from prirec.sharing.keys import SigningKey
from prirec.wire.campaign import Campaign
from prirec.wire.documents import VERSION, Charter, Offer, read
from prirec.wire.log import Head, SignedEntry, Subject


def own_document(store: Store, name: bytes) -> bytes:
    """One that the log, or another document of the recommender's, names."""
    body = store.document(name)
    if body is None:
        raise StateError("the store lacks a document that its own log names; restore it from a backup")
    return body


def sign_entries(founding: Founding, said: Sequence[tuple[Subject, bytes]]) -> Callable[[Head], list[SignedEntry]]:
    """The entries about these documents, for whatever head the log has when they are written."""
    identity, deployment = SigningKey(founding.identity), founding.deployment

    def signed(head: Head) -> list[SignedEntry]:
        entries: list[SignedEntry] = []
        for subject, named in said:
            entries.append(head.signed(subject, named, deployment=deployment, identity=identity))
            head = head.after(entries[-1:], deployment=deployment, recommender=identity.public)
        return entries

    return signed


# What an operator does: found, publish a catalogue, begin a campaign, which then goes on by itself, or end it.


LONGEST_TITLE = 200  # characters


def found_deployment(store: Store, *, title: str, entropy: Callable[[int], bytes] = urandom) -> Founding:
    """A deployment of its own: its id, the identity that signs for it, and a key for sessions."""
    check_title(title)
    founding = Founding(entropy(16), entropy(32), entropy(32), title)
    store.found(founding)
    return founding


def check_title(title: str) -> None:
    """Devices show it to their people."""
    if not (title.strip() and title.isprintable() and len(title) <= LONGEST_TITLE):
        raise UsageError(f"a deployment's title is one line of 1 to {LONGEST_TITLE} characters")


def refuse_second_deployment(store: Store) -> None:
    """StateError where a deployment was founded already: its keys are not made anew."""
    try:
        store.founding()
    except StateError:
        return
    raise StateError("a deployment was founded in this store before; name another one for a new deployment")


def rotate_sessions(store: Store, *, entropy: Callable[[int], bytes] = urandom) -> None:
    """Sessions and challenges under the old key end when workers start anew, and devices open others by themselves. The
    identity has no such thing: devices pinned it when they joined, and it is what makes the log one story."""
    store.set_token_key(entropy(32))


def publish_catalogue(store: Store, source: CatalogueSource, *, resolution: int = RESOLUTION) -> Catalogue:
    """The catalogue for campaigns that begin from now on; one that is under way keeps its own."""
    founding, catalogue = store.founding(), pack_regions(source.places, source.encoding, resolution=resolution)
    offer = Offer(VERSION, founding.deployment, source.encoding.to_json(), catalogue.name, len(catalogue.known))
    documents = [*catalogue.documents, document_page(offer)]
    store.advance(  # a campaign may be moving on
        progress=None, entries=sign_entries(founding, [("catalogue", documents[-1][0])]), documents=documents
    )
    return catalogue


def begin_campaign(store: Store, settings: Settings) -> Charter:
    """A campaign with everyone who has enrolled by now. PolicyError while another is under way."""
    founding, held = store.founding(), store.progress()
    before = None if held is None else rules.read_progress(held)
    if before is not None and not before.ended:
        raise PolicyError("a campaign is under way; the next one begins when it is over")
    offered = store.last("catalogue")
    if offered is None:
        raise StateError("there is no catalogue yet: prirec recommender publish")
    people = store.people()
    _refuse_few(len(people), settings)
    offer = read(Offer, own_document(store, offered.document), name=offered.document)
    issued = make_charter(
        _catalogue(store, offer, settings),
        people,
        deployment=founding.deployment,
        campaign=0 if before is None else _campaign(store, before) + 1,
        recommender=SigningKey(founding.identity).public,
        settings=settings,
        encoding=from_json(offer.encoding),
    )
    store.advance(
        progress=encode(Progress(issued.name, "visits")),
        before=held,  # of two who begin one at the same time, one does
        entries=sign_entries(founding, [("charter", issued.name)]),
        documents=issued.documents,
    )
    return issued.document


def end_campaign(store: Store) -> Progress:
    """Ends a campaign that does not go on. What is open is burnt, and nothing is published; devices that had masked a
    vector have paid for it. PolicyError where none is under way."""
    store.founding()
    held = store.progress()
    before = None if held is None else rules.read_progress(held)
    if before is None or before.ended:
        raise PolicyError("no campaign is under way: there is nothing to end")
    left = store.open_rounds()
    burnt = [Persist(one, Stage.BURNT, bytes(32)) for one in left]
    store.advance(progress=encode(rules.failed(before)), before=held, persists=burnt, over=left)
    return before


def _refuse_few(many: int, settings: Settings) -> None:
    """Fewer than the floor, or so many that not one could be lost."""
    floor, lost = settings.floor, settings.sums.lost
    if many - floor >= (1 if lost else 0):
        return
    raise PolicyError(
        f"{many} devices have enrolled, and no sum over fewer than {floor} people is opened; wait for more: some are "
        f"lost on the way, and from {ceil(floor / (1 - lost))} devices on {lost:.0%} of them may be (the setting "
        f"'floor' is {HARD_FLOOR} at least)"
    )


def _campaign(store: Store, before: Progress) -> int:
    return read(Charter, own_document(store, before.charter), name=before.charter).campaign


def _catalogue(store: Store, offer: Offer, settings: Settings) -> Catalogue:
    """As it was published. No campaign is made of the charter that it is read under."""
    draft = Charter(
        VERSION, offer.deployment, 0, bytes(32), "", offer.encoding, bytes(32), 1, offer.manifest, offer.places
    )
    return Catalogue.read(offer.manifest, partial(own_document, store), campaign=Campaign(draft, settings))


# How a deployment stands, for whoever runs it: all of it is public, or a count.


@dataclass(frozen=True, slots=True)
class CampaignStatus:
    """The one under way, or the last."""

    number: int
    people: int
    places: int
    phase: str
    round: int  # so many are behind it
    rounds: int
    attempt: int
    past: tuple[Past, ...]  # sums that are over, opened or not


@dataclass(frozen=True, slots=True)
class DeploymentStatus:
    title: str
    deployment: str
    fingerprint: str  # of the recommender's public key: the key itself, in hexadecimal
    places: int | None  # of the catalogue for campaigns that begin from now on; None: none was published yet
    counts: StoreCounts
    campaign: CampaignStatus | None


def deployment_status(store: Store) -> DeploymentStatus:
    """StateError where nothing was founded."""
    founding, offered = store.founding(), store.last("catalogue")
    places = (
        None if offered is None else read(Offer, own_document(store, offered.document), name=offered.document).places
    )
    return DeploymentStatus(
        title=founding.title,
        deployment=founding.deployment.hex(),
        fingerprint=fingerprint(founding.identity),
        places=places,
        counts=store.counts(),
        campaign=campaign_status(store),
    )


def campaign_status(store: Store) -> CampaignStatus | None:
    """None before the first."""
    held = store.progress()
    return None if held is None else _campaign_standing(store, rules.read_progress(held))


def fingerprint(identity: bytes) -> str:
    """What a person compares: 64 digits of which 16 are enough for one device."""
    return SigningKey(identity).public.hex()


def _campaign_standing(store: Store, progress: Progress) -> CampaignStatus:
    charter = read(Charter, own_document(store, progress.charter), name=progress.charter)
    return CampaignStatus(
        number=charter.campaign,
        people=charter.many,
        places=charter.places,
        phase=progress.phase,
        round=progress.iteration,
        rounds=loads(charter.settings).iterations,
        attempt=progress.attempt,
        past=progress.past,
    )
