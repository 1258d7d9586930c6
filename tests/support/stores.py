"""What a recommender's store is filled with in tests."""

from collections.abc import Callable, Sequence

from prirec.protocols.messages import Round
from prirec.protocols.party import Persist, Stage
from prirec.recommender.store import Founding, PostedMessage, Store
from prirec.sharing.keys import SigningKey
from prirec.wire.documents import VERSION, Charter, Document, Head, Model, Roster, SignedEntry, Subject, written
from prirec.wire.settings import CampaignSettings
from support.cities import SMALL_PRIVATE, change

DEPLOYMENT = bytes(range(16))
IDENTITY = SigningKey(b"\7" * 32)
FOUNDING = Founding(DEPLOYMENT, b"\7" * 32, b"\5" * 32, "a city")
ONE, OTHER = b"\1" * 32, b"\2" * 32


def name(at: int) -> bytes:
    return at.to_bytes(32, "big")


def of(number: int = 1, *, group: int = 0, attempt: int = 0, kind: str = "interaction") -> Round:
    return Round(DEPLOYMENT, kind, number, group, attempt)


def enter(store: Store, *rounds: Round) -> None:
    """Each with the people 0 to 99 invited."""
    for one in rounds:
        inviting = [(name(at), one) for at in range(100)]
        store.deliver([], persists=[Persist(one, Stage.ENTERED, ONE)], inviting=inviting)


def invite(store: Store, *names: bytes, to: Round | None = None) -> None:
    """Others, to a round that is open."""
    store.deliver([], inviting=[(one, to or of()) for one in names])


def said(at: int, body: bytes, *, to: Round | None = None) -> PostedMessage:
    return PostedMessage(to or of(), name(at), body)


def signed(head: Head, *said: tuple[Subject, bytes]) -> list[SignedEntry]:
    """The entries that follow, each about a document."""
    entries: list[SignedEntry] = []
    for subject, document in said:
        entries.append(head.signed(subject, document, deployment=DEPLOYMENT, identity=IDENTITY))
        head = head.after(entries[-1:], deployment=DEPLOYMENT, recommender=IDENTITY.public)
    return entries


CHARTERED = CampaignSettings.of(
    change(SMALL_PRIVATE, privacy={"popularity": 0.2, "moments": 0.1, "interaction": 0.7})
)  # fmt: skip


def campaign(names: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    """Its roster and its charter, which comes last."""
    people: Document = Roster(tuple(names))
    charter = Charter(VERSION, DEPLOYMENT, 1, IDENTITY.public, CHARTERED, b"{}", written(people)[0], len(names), ONE, 1)
    return [written(people), written(charter)]


def begin(store: Store, names: Sequence[bytes]) -> None:
    documents = campaign(names)
    store.advance(progress=b"", documents=documents, entries=signed(store.head(), ("charter", documents[-1][0])))


def end(store: Store) -> None:
    published = written(Model(ONE, 1, b""))
    store.advance(progress=b"", documents=[published], entries=signed(store.head(), ("publication", published[0])))


# Lives of a conductor, to be cut short

MODEL = written(Model(ONE, 0, bytes(8)))


def prepare(store: Store) -> None:
    """Two sums that are about to be opened."""
    rounds = [of(group=group) for group in (0, 1)]
    enter(store, *rounds)
    for at, one in enumerate(rounds):
        store.post_messages([said(at, b"sealed", to=one)])
        store.deliver([(name(at), one, b"sealed")])


def follow(store: Store) -> None:
    """Both are opened, with all that follows from it."""
    rounds = [of(group=group) for group in (0, 1)]
    store.advance(
        progress=b"after", documents=[MODEL], entries=signed(Head(), ("model", MODEL[0])), over=rounds,
        persists=[Persist(one, Stage.OPENED, ONE) for one in rounds],
    )  # fmt: skip


def campaign_round(store: Store, number: int, tell: Callable[[int], object]) -> None:
    """Enters a round, hears a message in it and opens it; tells of each."""
    left = [one for one in store.open_rounds() if one.number == number]
    one = of(number, attempt=left[0].attempt + 1 if left else 0)
    enter(store, one)
    tell(0)
    store.post_messages([said(1, b"sealed", to=one)])
    tell(1)
    document = written(Model(ONE, number, bytes(8)))
    store.advance(
        progress=number.to_bytes(4, "big"), documents=[document],
        entries=signed(store.head(), ("model", document[0])), persists=[Persist(one, Stage.OPENED, ONE)],
    )  # fmt: skip
    tell(2)


def standing(store: Store) -> tuple[int, int, int, int]:
    """How far it came by the log, by the progress and by the journal, and how many messages wait."""
    progress, counts = store.progress(), store.counts()
    by_progress = 0 if progress is None else int.from_bytes(progress, "big") + 1
    return counts.entries, by_progress, counts.rounds - counts.open_rounds, counts.messages


def everything(store: Store) -> tuple[object, ...]:
    """All that can be read from a store."""
    return (
        store.progress(), store.head(), store.entries(0), store.rounds(100), store.open_rounds(), store.counts(),
        store.people(), store.incoming(0, 100), store.receivers_since(0),
    )  # fmt: skip
