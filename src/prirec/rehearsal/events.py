"""The events of a rehearsal, as JSON lines: what the live city's page is drawn from, live and from a recording.

The first line is a `City`; each line has the seconds since the start (`at`) and its kind (`event`). A page goes from
events to what it shows by itself (web/pages/city/city.ts), so that it can be paused, stepped and played again.

A rehearsal owns everybody's data. What only such an owner can know (homes, records, exact counts, accuracy) is in
events of made-up people only, or where the person who rehearses asked for it: `City.personal` says which.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeAlias

import msgspec
import numpy as np

from prirec.data.dataset import Places
from prirec.errors import StateError
from prirec.features.encoding import AnyBlock
from prirec.metrics import Quality
from prirec.protocols.messages import Round
from prirec.protocols.prediction import Suggestion
from prirec.recommender.campaign import CampaignState, CampaignSteps
from prirec.recommender.operator import own_document
from prirec.recommender.overview import rms, sizes_of
from prirec.recommender.release import Catalogue
from prirec.recommender.store import Store
from prirec.rehearsal.plan import Plan
from prirec.rehearsal.population import Population, value_at
from prirec.simulate.popularity import noisy_sums
from prirec.types import RealArray
from prirec.wire.campaign import Campaign
from prirec.wire.documents import Window, read

VERSION: Final = 1  # a change of what is here changes it
ABSENT: Final = -1  # a device that has not enrolled, or whose process was killed
MOST_NAMED: Final = 2000  # places whose names are in the events
Point: TypeAlias = tuple[float, float] | None  # latitude and longitude
ShowEvent: TypeAlias = Callable[["Event"], None]


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", omit_defaults=True):
    at: float  # seconds since the start


class City(Event, frozen=True, kw_only=True, tag="city"):
    """The plan, and what is public: the places. With `personal`, the people's homes and numbers of records."""

    version: Literal[1]
    made_up: bool
    personal: bool
    devices: int
    rounds: int
    operators: int
    floor: int
    epsilon: float  # that each person has in all
    places: list[Point]
    names: list[str]  # of places, in words; empty where there are many
    people: list[Point] = []
    records: list[int] = []
    watched: list[int] = []  # devices that are looked at closely


class Doing(Event, frozen=True, kw_only=True, tag="doing"):
    text: str


class Devices(Event, frozen=True, kw_only=True, tag="devices"):
    """Devices that have changed: those that came, went, or sent their part of a sum."""

    came: list[int] = []
    gone: list[int] = []
    added: list[int] = []


class Traffic(Event, frozen=True, kw_only=True, tag="traffic"):
    """Traffic of all devices so far, in bytes before TLS."""

    sent: int
    received: int
    requests: int


class SumBegun(Event, frozen=True, kw_only=True, tag="sum begun"):
    kind: str  # visits, moments, learning or quality
    round: int  # counted from 1; 0 before the first


class WindowOpen(Event, frozen=True, kw_only=True, tag="window"):
    """Over two operators: when the window of the sum closes, and who may report. Again if it is extended."""

    people: int
    opened: float  # in seconds since the start, as `at`
    closes: float


class Reports(Event, frozen=True, kw_only=True, tag="reports"):
    """How many reports the recommender has."""

    count: int


class SumEnded(Event, frozen=True, kw_only=True, tag="sum ended"):
    kind: str
    round: int
    opened: bool
    survivors: int
    rostered: int


class Popularity(Event, frozen=True, kw_only=True, tag="popularity"):
    """What the sum of visits opened, in visits of one person: a number for each place, with noise of this standard
    deviation; the exact one, which only a rehearsal knows; and what is published as popularity."""

    noise: float
    opened: list[float]
    released: list[float]
    exact: list[float] = []


class Model(Event, frozen=True, kw_only=True, tag="model"):
    """B after so many rounds, as the recommender estimates it: how strong each kind of feature of people (rows) is with
    each kind of feature of places (columns), as root mean squares."""

    round: int
    rows: list[str]
    columns: list[str]
    strength: list[list[float]]
    measured: float  # root mean square of the measured entries, noise included,
    noise: float  # standard deviation of the noise in each,
    kept: float  # and root mean square of what is published


class Accuracy(Event, frozen=True, kw_only=True, tag="accuracy"):
    """Of all devices' models, on records that no device has: only a rehearsal can measure it."""

    round: int
    auc: float
    log_loss: float


class Holds(Event, frozen=True, kw_only=True, tag="holds"):
    """What one device holds, and nobody else: positions of places, with the number of visits to each."""

    device: int
    features: dict[str, Any]
    home: Point
    visits: list[tuple[int, int]]


class Sent(Event, frozen=True, kw_only=True, tag="sent"):
    """A report as it left one device: the two boxes, of which each operator opens one. Bytes in hexadecimal."""

    device: int
    name: str  # the pseudonym: what both operators know the device by
    kind: str
    bytes: int
    leader_box: int
    leader_begins: str
    helper_box: int
    helper_begins: str


class Spent(Event, frozen=True, kw_only=True, tag="spent"):
    """The privacy that one device's ledger says it has spent."""

    device: int
    epsilon: float


class Recommended(Event, frozen=True, kw_only=True, tag="recommended"):
    """What one device recommends, offline."""

    device: int
    places: list[tuple[int, float, str]]  # position, probability, why


class End(Event, frozen=True, kw_only=True, tag="end"):
    phase: str
    auc: float | None = None
    simulated: list[float] = []  # AUC of the campaign in simulations, each with noise of its own


AnyEvent: TypeAlias = (
    City | Doing | Devices | Traffic | SumBegun | WindowOpen | Reports | SumEnded | Popularity | Model | Accuracy
    | Holds | Sent | Spent | Recommended | End
)  # fmt: skip
_encoder, _decoder = msgspec.json.Encoder(), msgspec.json.Decoder(AnyEvent)


def read_events(path: Path) -> list[AnyEvent]:
    """The events of a file. StateError if they are of another version, or damaged; a cut off last line is left out."""
    lines = path.read_bytes().split(b"\n")[:-1]
    try:
        found = [_decoder.decode(line) for line in lines]
    except msgspec.DecodeError:
        raise StateError(f"{path.name} is not a recording of a city by this version of PriRec") from None
    if not found or not isinstance(found[0], City):
        raise StateError(f"{path.name} does not begin with a city: it is not a recording of one")
    return found


class EventFile:
    """Appends events to a file, a line each, flushed at once: others read it while it grows."""

    def __init__(self, path: Path) -> None:
        self.many = 0
        self._file = path.open("xb")

    def __call__(self, event: Event) -> None:
        self.many += 1
        self._file.write(_encoder.encode(event) + b"\n")
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


# From what a rehearsal sees to events


class Recorder:
    """Turns what a rehearsal looks at, again and again, into events: only what has changed is written."""

    def __init__(self, tell: ShowEvent, plan: Plan, *, personal: bool) -> None:
        self._tell, self._plan, self.personal = tell, plan, personal
        self._counts: list[int] = []
        self._doing = ""
        self._traffic, self._traffic_at = (0, 0, 0), 0.0
        self._reports = 0
        self._sum: tuple[str, int] | None = None
        self._window = b""
        self._ended = 0
        self._edition, self._rounds = b"", 0
        self._sent: set[tuple[int, int]] = set()
        self._spent: dict[int, float] = {}

    def city(self, population: Population, watched: Sequence[int], *, at: float) -> None:
        """The city before anything begins."""
        data, train = population.dataset, population.prepared.train
        many = len(data.people)
        visits = np.bincount(train.person[train.label > 0], minlength=many).tolist()
        self._counts = [ABSENT] * many
        self._tell(
            City(
                at=at, version=VERSION, made_up=data.made_up, personal=self.personal, devices=many,
                rounds=self._plan.rounds, operators=self._plan.operators, floor=self._plan.settings.floor,
                epsilon=self._plan.settings.privacy.epsilon_per_user or 0.0,
                places=_points(data.places.location, len(data.places)), names=_named(data.places),
                people=_points(data.people.location, many) if self.personal else [],
                records=visits if self.personal else [], watched=list(watched) if self.personal else [],
            )
        )  # fmt: skip
        for row in watched if self.personal else ():
            mine = train.take(np.flatnonzero((train.person == row) & (train.label > 0)))
            places, times = np.unique(mine.place, return_counts=True)
            home = _points(data.people.location, many)[row]
            features = {name: value_at(column, row) for name, column in data.people.columns.items()}
            self._tell(
                Holds(
                    at=at, device=row, features={name: value for name, value in features.items() if value is not None},
                    home=home, visits=list(zip(places.tolist(), times.tolist(), strict=True)),
                )
            )  # fmt: skip

    def doing(self, text: str, *, at: float) -> None:
        if text != self._doing:
            self._doing = text
            self._tell(Doing(at=at, text=text))

    def devices(self, counts: Sequence[int], *, at: float) -> None:
        """How many contributions each device has sent since its process began; ABSENT for one that is not there."""
        pairs = list(enumerate(zip(self._counts, counts, strict=True)))
        came = [row for row, (before, now) in pairs if before == ABSENT < now]
        gone = [row for row, (before, now) in pairs if now == ABSENT < before]
        added = [row for row, (before, now) in pairs if now > max(before, 0)]
        self._counts = list(counts)
        if came or gone or added:
            self._tell(Devices(at=at, came=came, gone=gone, added=added))

    def traffic(self, sent: int, received: int, requests: int, *, at: float) -> None:
        if self._traffic[2] != requests and at >= self._traffic_at + 1:
            self._traffic, self._traffic_at = (sent, received, requests), at
            self._tell(Traffic(at=at, sent=sent, received=received, requests=requests))

    def watched(self, lines: Iterable[Mapping[str, Any]], *, at: float) -> None:
        """What the watched devices' processes say of them: reports that they sent, and what their ledgers say."""
        for line in lines if self.personal else ():
            device = line["device"]
            for number, sent in enumerate(line["sent"]):
                if (device, number) not in self._sent:
                    self._sent.add((device, number))
                    self._tell(Sent(at=at, device=device, **sent))
            if line["epsilon"] != self._spent.get(device, 0.0):
                self._spent[device] = line["epsilon"]
                self._tell(Spent(at=at, device=device, epsilon=line["epsilon"]))

    def campaign(self, state: CampaignState, store: Store, population: Population, *, at: float, now: float) -> None:
        """The state of the campaign as it is now, `now` being the time of day in seconds."""
        for past in state.past[self._ended :]:
            self._tell(
                SumEnded(
                    at=at, kind=past.kind, round=_round(past.kind, past.iteration), opened=past.opened,
                    survivors=past.survivors, rostered=past.rostered,
                )
            )  # fmt: skip
            self._ended += 1
            self._reports = 0
        self._released(state, store, population, at=at)
        if state.ended:
            return
        if (key := (state.phase, state.iteration)) != self._sum:
            self._sum = key
            self._tell(SumBegun(at=at, kind=state.phase, round=_round(*key)))
        self._joint(state, store, at=at, now=now)

    def _joint(self, state: CampaignState, store: Store, *, at: float, now: float) -> None:
        """The window of the sum, and how many have reported."""
        if not state.window:
            return
        window = read(Window, own_document(store, state.window), name=state.window)
        if state.window != self._window:
            self._window = state.window
            opened, closes = (at + one - now for one in (window.opens, window.closes))
            self._tell(WindowOpen(at=at, people=window.people, opened=round(opened, 2), closes=round(closes, 2)))
        of = Round(store.founding().deployment, window.kind, window.number)
        if (many := store.joint.count_reports(of)) != self._reports:
            self._reports = many
            self._tell(Reports(at=at, count=many))

    def _released(self, state: CampaignState, store: Store, population: Population, *, at: float) -> None:
        """Popularity and scales, from the sums that were opened."""
        if state.edition and state.edition != self._edition:
            self._edition = state.edition
            campaign = _campaign(state, store)
            if campaign.edition is not None:
                popular = Catalogue.read(
                    campaign.edition.manifest, partial(own_document, store), basis=campaign
                ).known.counted
                exact = noisy_sums(population.prepared, campaign.settings).own.total() if self.personal else None
                released = popular.released[:, 0] if popular.released.shape[1] else np.zeros(len(popular.sums))
                self._tell(
                    Popularity(
                        at=at, noise=_short(popular.sigma), opened=_shorts(popular.sums), released=_shorts(released),
                        exact=[] if exact is None else _shorts(exact),
                    )
                )  # fmt: skip
        if state.scales and state.rounds > self._rounds:
            self._rounds = state.rounds
            self._tell(model_of(_campaign(state, store), state, at=at))

    def accuracy(self, round_: int, quality: Quality, *, at: float) -> None:
        if self.personal:
            self._tell(Accuracy(at=at, round=round_, auc=quality.auc, log_loss=quality.log_loss))

    def recommended(self, device: int, places: Iterable[Suggestion], population: Population, *, at: float) -> None:
        if self.personal:
            ids = {one: row for row, one in enumerate(population.dataset.places.ids)}
            shown = [(ids[one.place], _short(one.probability), one.why) for one in places]
            self._tell(Recommended(at=at, device=device, places=shown))

    def end(self, phase: str, quality: Quality | None, simulated: Iterable[Quality], *, at: float) -> None:
        known = self.personal and quality is not None
        self._tell(
            End(
                at=at, phase=phase, auc=quality.auc if known and quality is not None else None,
                simulated=[one.auc for one in simulated] if known else [],
            )
        )  # fmt: skip


def _campaign(state: CampaignState, store: Store) -> Campaign:
    return CampaignSteps.of(state, partial(own_document, store)).campaign


def model_of(campaign: Campaign, state: CampaignState, *, at: float) -> Model:
    """B by kinds of features. Products of columns, which B has for everyone together, are one kind."""
    estimate, encoding, core = state.estimate(campaign.columns), campaign.encoding, campaign.columns.layout.core
    rows = [("everyone", 1), *_widths(encoding.person)]
    columns = [("any place", 1), *_widths((*encoding.place, *encoding.popularity, *encoding.context))]
    columns.append(("products", estimate.B.shape[1] - core))
    live = estimate.groups >= 0
    measured, noise, kept = sizes_of(estimate)
    return Model(
        at=at, round=state.rounds, rows=[name for name, _ in rows], columns=[name for name, _ in columns],
        strength=[
            [_short(rms(estimate.B[some][:, others][live[some][:, others]])) for others in _slices(columns)]
            for some in _slices(rows)
        ],
        measured=measured, noise=noise, kept=kept,
    )  # fmt: skip


def _widths(blocks: Iterable[AnyBlock]) -> list[tuple[str, int]]:
    return [(block.column, block.width) for block in blocks if block.width]


def _slices(parts: Iterable[tuple[str, int]]) -> Iterator[slice]:
    begin = 0
    for _, width in parts:
        yield slice(begin, begin + width)
        begin += width


def _short(value: float) -> float:
    """A number with as many digits as a page shows."""
    return float(f"{value:.4g}")


def _shorts(values: RealArray) -> list[float]:
    return [_short(value) for value in values.tolist()]


def _points(location: RealArray | None, many: int) -> list[Point]:
    if location is None:
        return [None] * many
    return [None if np.isnan(one).any() else (round(float(one[0]), 5), round(float(one[1]), 5)) for one in location]


def _named(places: Places) -> list[str]:
    """A few words on each place, its id first."""
    if len(places) > MOST_NAMED:
        return []
    return [", ".join([name, *places.words(row)]) for row, name in enumerate(places.ids)]


def _round(kind: str, iteration: int) -> int:
    return iteration + 1 if kind == "learning" else 0
