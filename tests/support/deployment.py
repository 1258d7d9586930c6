"""A whole deployment in one process: a real store, a real conductor and real devices, each with a file of its own. Only
the network is missing: devices speak to the store through `Direct`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import numpy as np

from prirec.config import Settings
from prirec.data.dataset import Dataset
from prirec.data.prepare import Prepared, prepare
from prirec.device.agent import Agent, RetryPolicy
from prirec.device.ledger import LedgerStore
from prirec.device.person import Person
from prirec.device.store import Membership
from prirec.device.store import Store as DeviceStore
from prirec.device.sync import save_extra_region
from prirec.features.encoding import plan_encoding
from prirec.features.location import homes
from prirec.features.popularity import Popularity
from prirec.graph.matching import coarse_cells
from prirec.privacy.ledger import Budget
from prirec.protocols.codec import decode
from prirec.recommender.conductor import Conductor, Pace
from prirec.recommender.operator import HelperAddress, begin_campaign, found_deployment, publish_catalogue
from prirec.recommender.release import RESOLUTION, CatalogueSource
from prirec.recommender.store import PostedMessage, Store
from prirec.sharing.keys import SigningKey
from prirec.simulate.setup import recipe
from prirec.util.keyed_random import generator
from prirec.wire import http
from prirec.wire.documents import Page
from prirec.wire.http import FINEST_CELL
from support.device_city import named, secret_of, told, visits_of

NOW = 1_800_000_000.0
AT_ONCE = RetryPolicy(grace=0.0, work=None)  # in one process whatever is asked for is there at the next turn


@dataclass
class Direct:
    """What device/client.py does over HTTPS, without a network between."""

    store: Store
    name: bytes
    taken: list[bytes] = field(default_factory=list)  # all that was ever handed in

    async def enrol(self, *, code: str = "") -> None:
        self.store.enrol(self.name, day=0)

    async def log(self, after: int) -> Page:
        return Page(tuple(self.store.entries(after)))

    async def document(self, name: bytes) -> bytes:
        body = self.store.document(name)
        assert body is not None
        return body

    async def mail(self, messages: Sequence[bytes], *, after: int, wait: int) -> http.Inbox:
        self.taken += messages
        self.store.post_messages([PostedMessage(decode(body).round, self.name, body) for body in messages])
        self.store.post_messages([], arrived=[(self.name, after)])
        queued = self.store.queued(self.name, after, http.MOST_QUEUED)
        return http.Inbox(tuple(queued), self.store.head().length)


class Entropy:
    """Seeded, for tests only: so that what a device drew can be drawn again."""

    def __init__(self, secret: bytes) -> None:
        self.secret, self.drawn = secret, list[bytes]()

    def __call__(self, many: int) -> bytes:
        seed = self.secret + len(self.drawn).to_bytes(4, "big")
        self.drawn.append(b"".join(sha256(seed + bytes([at])).digest() for at in range(-(-many // 32)))[:many])
        return self.drawn[-1]


@dataclass
class Deployment:
    """A city on its devices. `prepared` is what a simulation would know."""

    settings: Settings
    prepared: Prepared
    store: Store
    people: dict[str, Person]  # by id, which is the name in hexadecimal

    @property
    def dataset(self) -> Dataset:
        return self.prepared.dataset


def deployed(city: Dataset, settings: Settings, folder: Path, *, helper: HelperAddress | None = None) -> Deployment:
    """Founded, with a catalogue; every device has its person's data and knows whom to trust."""
    city = named(city)
    prepared = prepare(city, recipe(settings.data, labelled=city.labelled), generator(settings.seed, "data"))
    store = Store.open(folder / "recommender")
    founding = found_deployment(store, title="a town", helper=helper)
    data = prepared.dataset
    encoding = plan_encoding(data, Popularity(), settings.features)
    publish_catalogue(store, CatalogueSource(data.places, encoding))
    home, people = homes(data, prepared.train), {}
    cells = [0] * len(data.people) if home is None else coarse_cells(home, FINEST_CELL).tolist()
    recommender, where = SigningKey(founding.identity).public, coarse_cells(location_of(data), RESOLUTION)
    for row, name in enumerate(data.people.ids):
        secret = secret_of(city.people.ids.index(name))
        person = Person(DeviceStore.open(folder / f"device-{row}"))
        trusted = b"" if helper is None else helper.key
        person.join(
            Membership(
                founding.deployment, "https://town", recommender, "a town", cells[row], secret, helper=trusted
            )
        )  # fmt: skip
        person.set_profile({key: told(column, row) for key, column in data.people.columns.items()})
        if data.people.location is not None:
            person.set_home((float(data.people.location[row, 0]), float(data.people.location[row, 1])))
        person.record_visits(visits_of(prepared.train, row, data.places.ids))
        person.set_labelled(labelled=data.labelled)
        went = prepared.train.place[prepared.train.person == row]
        with person.store.transaction() as rows:
            for region in set(where[went].tolist()):
                save_extra_region(rows, region)
        people[name] = person
    return Deployment(settings, prepared, store, people)


def location_of(data: Dataset) -> np.ndarray:
    return np.full((len(data.places), 2), np.nan) if data.places.location is None else data.places.location


def agents_of(
    deployment: Deployment, client: Callable[[Person], Direct], *, budget: Budget | None = None
) -> dict[str, tuple[Agent, Entropy]]:
    """An agent for every device, with entropy of its own."""
    made = {}
    for name, person in deployment.people.items():
        entropy = Entropy(bytes.fromhex(name))
        paid = LedgerStore(person.store, budget or Budget())
        made[name] = Agent(person, paid, client(person), retry=AT_ONCE, clock=lambda: NOW, entropy=entropy), entropy  # type: ignore[arg-type]
    return made


async def run_campaign(
    deployment: Deployment, agents: Sequence[Agent], conductor: Conductor | None = None, *, ticks: int = 2000
) -> Conductor:
    """Enrols, begins and goes on until the campaign is over."""
    for agent in agents:
        await agent.step(wait=0)
    begin_campaign(deployment.store, deployment.settings)
    conductor = conductor or Conductor(deployment.store, pace=Pace(0.0, 0.0), clock=lambda: 0.0)
    for _ in range(ticks):
        moved = conductor.tick()
        if not moved and conductor.sum is None:
            return conductor
        for agent in agents:
            await agent.step(wait=0)
    raise AssertionError("the campaign does not end")
