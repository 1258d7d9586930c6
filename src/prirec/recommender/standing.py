"""How a deployment stands, for whoever runs it: all of it is public, or a count."""

from dataclasses import dataclass

from prirec.contract.documents import Charter, Offer, read
from prirec.recommender import progress as rules
from prirec.recommender.notary import document
from prirec.recommender.progress import Past, Progress
from prirec.recommender.store import Counts, Store
from prirec.settings_file import loads
from prirec.sharing.keys import SigningKey


@dataclass(frozen=True, slots=True)
class Campaign:
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
class Standing:
    title: str
    deployment: str
    fingerprint: str  # of the recommender's public key: the key itself, in hexadecimal
    places: int | None  # of the catalogue for campaigns that begin from now on; None: none was published yet
    counts: Counts
    campaign: Campaign | None


def standing(store: Store) -> Standing:
    """StateError where nothing was founded."""
    founding, offered = store.founding(), store.last("catalogue")
    places = None if offered is None else read(Offer, document(store, offered.document), name=offered.document).places
    return Standing(
        title=founding.title,
        deployment=founding.deployment.hex(),
        fingerprint=fingerprint(founding.identity),
        places=places,
        counts=store.counts(),
        campaign=campaign(store),
    )


def campaign(store: Store) -> Campaign | None:
    """None before the first."""
    held = store.progress()
    return None if held is None else _campaign(store, rules.read(held))


def fingerprint(identity: bytes) -> str:
    """What a person compares: 64 digits of which 16 are enough for one device."""
    return SigningKey(identity).public.hex()


def _campaign(store: Store, progress: Progress) -> Campaign:
    charter = read(Charter, document(store, progress.charter), name=progress.charter)
    return Campaign(
        number=charter.campaign,
        people=charter.many,
        places=charter.places,
        phase=progress.phase,
        round=progress.iteration,
        rounds=loads(charter.settings).iterations,
        attempt=progress.attempt,
        past=progress.past,
    )
