"""A recommender that signs whatever it likes, and a device that follows it. Nothing of the device is replaced: only the
network is missing, and what the recommender publishes and whom it invites is chosen by the test."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from prirec.config import Settings, loads
from prirec.device.agent import Agent, RetryPolicy
from prirec.device.ledger import LedgerStore
from prirec.device.person import Person
from prirec.device.store import Membership, Store
from prirec.features.columns import Columns, WordScales
from prirec.features.encoding import Encoding, Log
from prirec.privacy.ledger import Budget
from prirec.protocols import secure_sum
from prirec.protocols.codec import decode, encode
from prirec.protocols.messages import AnyMessage
from prirec.protocols.party import Action, Send, State
from prirec.protocols.roster import Task
from prirec.protocols.secure_sum import Collector, Member
from prirec.sharing.keys import SigningKey
from prirec.wire import http
from prirec.wire.campaign import Basis, Campaign, write_scales
from prirec.wire.documents import (
    VERSION,
    Charter,
    Counts,
    Document,
    Edition,
    Head,
    Manifest,
    Model,
    Offer,
    Page,
    Places,
    RegionLine,
    Roster,
    Rotation,
    Scales,
    SignedCoSignature,
    SignedEntry,
    Start,
    octets,
    written,
)
from prirec.wire.settings import CampaignSettings
from support.cities import change
from support.fault_injection import few_people

DEPLOYMENT = b"\7" * 16
TARGET = SigningKey(b"\2" * 32)
OTHERS = tuple(SigningKey(sha256(b"beside the target %d" % at).digest()) for at in range(9))
SETTINGS = change(few_people(iterations=3), privacy={"popularity": 0.2, "moments": 0.1, "interaction": 0.7})
ENCODING = Encoding(person=(Log(column="age"),), place=(Log(column="price"),))
IDS = ("a", "b", "c")


class Dishonest:
    """Signs and publishes. With a helper it has the helper's signature on each head, at its time, unless it holds an
    older one back, or forges one."""

    def __init__(self, *, helper: SigningKey | None = None) -> None:
        self.identity, self.head = SigningKey(b"\1" * 32), Head()
        self.entries, self.documents = list[SignedEntry](), dict[bytes, bytes]()
        self.helper, self.now = helper, 0
        self.held_back: SignedCoSignature | None = None

    @property
    def cosigned(self) -> SignedCoSignature | None:
        if self.held_back is not None or self.helper is None:
            return self.held_back
        return self.head.cosigned(deployment=DEPLOYMENT, time=self.now, identity=self.helper)

    def page(self, after: int) -> Page:
        return Page(tuple(self.entries[after:]), self.cosigned)

    def put(self, document: Document) -> bytes:
        name, body = written(document)
        self.documents[name] = body
        return name

    def say(self, subject: str, document: Document) -> bytes:
        return self.say_raw(subject, written(document)[1])

    def say_raw(self, subject: str, body: bytes) -> bytes:
        """A document that this version may not be able to write."""
        name = sha256(body).digest()
        self.documents[name] = body
        entry = self.head.signed(subject, name, deployment=DEPLOYMENT, identity=self.identity)  # type: ignore[arg-type]
        self.head = self.head.after([entry], deployment=DEPLOYMENT, recommender=self.identity.public)
        self.entries.append(entry)
        return name

    def set_back(self, *, to: int) -> None:
        """To an earlier state, as from a backup."""
        self.entries, self.head = self.entries[:to], Head()
        self.head = self.head.after(self.entries, deployment=DEPLOYMENT, recommender=self.identity.public)

    def charter(
        self, *, settings: Settings = SETTINGS, encoding: Encoding = ENCODING, features: np.ndarray | None = None,
        campaign: int = 1, regions: Sequence[RegionLine] = (), beside: Sequence[SigningKey] = OTHERS,
    ) -> Charter:  # fmt: skip
        """A campaign of the target and nine others, over three places without coordinates, and those of `regions`."""
        names = sorted([TARGET.public, *(one.public for one in beside)])
        manifest = self.put(Manifest(5, (self._region(encoding, features), *regions)))
        charter = Charter(
            version=VERSION, deployment=DEPLOYMENT, campaign=campaign, recommender=self.identity.public,
            settings=CampaignSettings.of(settings), encoding=encoding.to_json(), manifest=manifest,
            places=len(IDS) + len(regions), **self.taking_part(names),
        )  # fmt: skip
        self.say("charter", charter)
        return charter

    def taking_part(self, names: Sequence[bytes]) -> dict[str, Any]:
        """What a charter says of who is in its sums, and of who takes them."""
        return {"people": self.put(Roster(tuple(names))), "many": len(names)}

    def edition(
        self, charter: Charter, *, encoding: Encoding = ENCODING, features: np.ndarray | None = None
    ) -> Edition:
        """Without popularity."""
        n, none = len(IDS), octets(np.zeros(len(IDS)), np.float64)
        counts = self.put(Counts(0, b"", none, octets(np.ones(n), np.float64), none))
        manifest = self.put(Manifest(5, (self._region(encoding, features, counts=counts),)))
        edition = Edition(written(charter)[0], encoding.to_json(), manifest, 0.0, 1.0)
        self.say("edition", edition)
        return edition

    def scales(self, charter: Charter, edition: Edition, **changes: Any) -> Campaign:
        """Of columns that have mean 0 and spread 1."""
        columns = Campaign.of(charter, edition).columns
        moment = columns.context - columns.popularity
        arrays = {
            "person_mean": np.zeros(columns.person), "person_sd": np.ones(columns.person),
            "moment_mean": np.zeros(moment), "moment_sd": np.ones(moment),
            "word_factor": np.ones(len(columns.place_words)), "word_centre": np.zeros(len(columns.place_words)),
        }  # fmt: skip
        parts = {name: octets(values, np.float64) for name, values in arrays.items()}
        scales = Scales(**({"edition": written(edition)[0], "positive": 0.5, "root_records": 2.0} | parts | changes))
        self.say("scales", scales)
        return Campaign.of(charter, edition, scales)

    def model(self, campaign: Campaign, B: float = 0.0, *, iteration: int = 0) -> np.ndarray:
        """All of whose entries are B."""
        assert campaign.scales is not None
        entries = octets(np.full(campaign.columns.entries, B), np.float32)
        self.say("model", Model(written(campaign.scales)[0], iteration, entries))
        return np.where(campaign.columns.groups >= 0, B, 0.0)

    def rounds(
        self, *, settings: Settings = SETTINGS, encoding: Encoding = ENCODING, features: np.ndarray | None = None,
        B: float = 0.0, iteration: int = 0,
    ) -> tuple[Campaign, np.ndarray]:  # fmt: skip
        """A campaign up to a model all of whose entries are B."""
        charter = self.charter(settings=settings, encoding=encoding, features=features)
        edition = self.edition(charter, encoding=encoding, features=features)
        campaign = self.scales(charter, edition)
        return campaign, self.model(campaign, B, iteration=iteration)

    def offer(
        self, *, encoding: Encoding = ENCODING, deployment: bytes = DEPLOYMENT, regions: Sequence[RegionLine] = ()
    ) -> Offer:
        """A catalogue of three places, and those of `regions`, and no campaign."""
        manifest = self.put(Manifest(5, (self._region(encoding, None), *regions)))
        offer = Offer(1, deployment, encoding.to_json(), manifest, len(IDS) + len(regions))
        self.say("catalogue", offer)
        return offer

    def start(
        self, offer: Offer, *, encoding: Encoding = ENCODING, B: float = 0.25, settings: str = 'preset = "rounds"',
        more: int = 0, regions: Sequence[RegionLine] = (),
    ) -> Basis:  # fmt: skip
        """A starting model all of whose entries are B, without popularity; with so many entries too many, and regions
        beside that of the three places."""
        counts = self.put(Counts(0, b"", *(octets(np.zeros(len(IDS)), np.float64),) * 3))
        manifest = self.put(Manifest(5, (self._region(encoding, None, counts=counts), *regions)))
        edition, columns = Edition(written(offer)[0], encoding.to_json(), manifest, 0.0, 1.0), Columns.of(encoding)
        usual, words = columns.moments.usual(), WordScales.of(np.zeros((1, encoding.width(encoding.place))), columns)
        scales = write_scales(self.put(edition), columns, usual, words)
        model = Model(self.put(scales), 3, octets(np.full(columns.entries + more, B), np.float32))
        self.say("start", Start(2, self.put(model), settings))
        return Basis(offer, loads('preset = "rounds"'), edition, scales)

    def _region(self, encoding: Encoding, features: np.ndarray | None, *, counts: bytes = b"") -> RegionLine:
        n, wide = len(IDS), encoding.width(encoding.place)
        static = np.zeros((n, wide)) if features is None else features
        rows, nowhere = octets(np.arange(n), np.int32), octets(np.full((n, 2), np.nan), np.float64)
        places = Places(0, IDS, ("somewhere",) * n, rows, nowhere, octets(static, np.float32))
        return RegionLine(0, self.put(places), counts)


@dataclass
class Wire:
    """One device's line to it: what it handed in, and what is queued for it, which comes until it is acknowledged."""

    recommender: Dishonest
    said: list[AnyMessage] = field(default_factory=list)
    box: list[http.QueuedMessage] = field(default_factory=list)
    sent: int = 0
    reports: list[bytes] = field(default_factory=list)
    refusing: Exception | None = None  # of reports

    async def enrol(self, *, code: str = "") -> None:
        """Anybody may."""

    async def log(self, after: int) -> Page:
        return self.recommender.page(after)

    async def document(self, name: bytes) -> bytes:
        return self.recommender.documents[name]

    async def report(self, body: bytes) -> None:
        self.reports.append(body)
        if self.refusing is not None:
            raise self.refusing

    async def mail(self, messages: Sequence[bytes], *, after: int, wait: int) -> http.Inbox:
        self.said += [decode(body) for body in messages]
        self.box = [queued for queued in self.box if queued.number > after]
        return http.Inbox(tuple(self.box[: http.MOST_QUEUED]), self.recommender.head.length)

    def send(self, body: bytes) -> None:
        self.sent += 1
        self.box.append(http.QueuedMessage(self.sent, body))


@dataclass
class Target:
    """The device that it is after."""

    person: Person
    paid: LedgerStore
    line: Wire
    agent: Agent

    @classmethod
    def of(
        cls, recommender: Dishonest, path: Path, *, profile: Mapping[str, Any] | None = None,
        visits: Sequence[str] = (), cell: int = 0, budget: Budget | None = None, helper: bytes = b"",
        rotations: tuple[Rotation, ...] = (),
    ) -> "Target":  # fmt: skip
        person = Person(Store.open(path))
        person.join(
            Membership(
                DEPLOYMENT, "https://town", recommender.identity.public, "a town", cell, b"\2" * 32, helper=helper,
                rotations=rotations,
            )
        )  # fmt: skip
        person.set_profile(profile or {})
        for place in visits:
            person.record_visit(place)
        person.set_labelled(labelled=True)
        line, paid = Wire(recommender), LedgerStore(person.store, budget or Budget(epsilon=200.0))
        return cls(person, paid, line, agent_of(person, paid, line))

    async def hear(self, *bodies: bytes) -> list[AnyMessage]:
        """What it hands in after these messages."""
        for body in bodies:
            self.line.send(body)
        before = len(self.line.said)
        await self.agent.step(wait=0)  # hears
        await self.agent.step(wait=0)  # hands in
        return self.line.said[before:]

    async def invited(self, task: Task) -> list[AnyMessage]:
        """What it hands in when it is invited, and nothing else."""
        collector = Collector(task, identity=self.line.recommender.identity, entropy=b"\3" * 32)
        return await self.hear(*(encode(one) for one in _messages(collector.invite([TARGET.public]))))


def agent_of(person: Person, paid: LedgerStore, line: Wire) -> Agent:
    """At once, by the recommender's clock."""
    at_once = RetryPolicy(grace=0.0, work=None, spread=0.0)
    return Agent(person, paid, line, retry=at_once, clock=lambda: line.recommender.now)  # type: ignore[arg-type]


async def whole_sum(target: Target, task: Task, *, beside: Sequence[SigningKey] = OTHERS) -> list[tuple[str, int]]:
    """A round to its end, opened or burnt, with the target and some who add nothing: the kind and the length of each
    message from it."""
    others = {one.public: quiet_member(task, one) for one in beside}
    collector = Collector(task, identity=target.line.recommender.identity, entropy=b"\3" * 32)
    actions, steps = collector.invite([TARGET.public, *others]), list[tuple[str, int]]()
    while collector.state not in (State.DONE, State.BURNT):
        replies = list[AnyMessage]()
        for message in _messages(actions):
            if message.receiver in others:
                replies += _messages(others[message.receiver].receive(message))
            else:
                said = await target.hear(encode(message))
                steps += [(type(one).__name__, len(encode(one))) for one in said]
                replies += said
        actions = [action for reply in replies for action in collector.receive(reply)]
        actions = actions or collector.advance()
    return steps


def quiet_member(task: Task, identity: SigningKey) -> Member:
    """Somebody who adds nothing."""
    nothing = np.zeros(task.terms.length, dtype=np.uint64)
    return Member(task, identity=identity, value=nothing, entropy=_entropy(identity.public))


def _messages(actions: Sequence[Action]) -> list[AnyMessage]:
    return [action.message for action in actions if isinstance(action, Send)]


def _entropy(name: bytes) -> bytes:
    many = -(-secure_sum.ENTROPY // 32)
    return b"".join(sha256(name + bytes([at])).digest() for at in range(many))[: secure_sum.ENTROPY]
