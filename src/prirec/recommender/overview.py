"""What the operator's page and the metrics show of a deployment: what is public, and counts that its operator has.

All of it is read from the operator's own store. There is no cell, home or region of anybody in it: devices tell where
they are to nobody. Names of devices, sessions and keys stay out.
"""

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec
import numpy as np

import prirec
from prirec.errors import PeerError
from prirec.model.estimate import Estimate
from prirec.privacy.quality_figures import FIGURES
from prirec.protocols.messages import Round
from prirec.protocols.two_operators import Reason
from prirec.recommender import campaign as rules
from prirec.recommender import operator
from prirec.recommender.campaign import CampaignState, CampaignSteps
from prirec.recommender.people_list import read_names
from prirec.recommender.release import Catalogue
from prirec.recommender.store import Founding, Store
from prirec.recommender.tls import expires_at
from prirec.types import DAY, RealArray
from prirec.util.shown import counted
from prirec.wire.campaign import SPAN, PublishedAverage
from prirec.wire.documents import Charter, EarlierVersionError, LogEntry, Model, Subject, Window, array, read

SERVER, AUTHORITY = "server", "authority"  # certificates
RENEW: Final = {"recommender": "prirec recommender keys rotate", "helper": "prirec helper certificate"}
FRESH: Final = 1.0  # seconds for which what was read is good enough
NEWEST: Final = 200  # windows and days that are listed
LOG_SHOWN: Final = 60  # newest entries of the log
LARGEST: Final = 12  # places of which the opened sum is shown
CERTIFICATE_SOON: Final = 60 * DAY
CERTIFICATE_NOW: Final = 14 * DAY
SIGNED_SOON: Final = 3600  # seconds after which the helper's signature is late: it signs every ten minutes
SIGNED_NOW: Final = DAY  # devices follow no older one
DISK_SOON, DISK_NOW = 5 * 10**9, 5 * 10**8  # bytes free

SUMS: Final = {"popularity": "visits", "interaction": "learning"}  # what a phase is called, by the kind of its sum
REASONS: Final = {
    Reason.BOX: "box does not open",
    Reason.FORM: "wrong length, or numbers beyond the field",
    Reason.RANDOMNESS: "public part is not that of the shares",
    Reason.PROOF: "proof of the norm does not hold",
    Reason.SIGNATURE: "signature is not the device's",
    Reason.STRANGER: "device is not on the list",
    Reason.TWICE: "second report of a device",
    Reason.FULL: "more reports than the sum is sized for",
}
EARLY: Final = "signature, list, length or window does not hold: no proof was looked at"
FAULTS: Final = {
    "AUTH": "no session, or somebody else's name",
    "PARAMS_MISMATCH": "for another window",
    "DECODE": "not one whole report or message",
    "EQUIVOCATION": "a second, different report",
    "ORDER": "no window or round is open for it",
}

Level: TypeAlias = Literal["warn", "bad"]


class Sign(msgspec.Struct, frozen=True):
    """Something that the operator should look at, or act on now."""

    level: Level
    text: str


class PeoplePoint(msgspec.Struct, frozen=True):
    """Who was on the list of people when a window opened; with one operator, when a campaign began."""

    label: str
    time: int  # 0: not known
    people: int
    joined: int | None  # since the one before; None: with one operator the log does not say
    left: int | None


class People(msgspec.Struct, frozen=True):
    enrolled: int | None  # None: a helper has no traffic of devices
    excluded: int
    blamed: int
    listed: int | None  # in the log; None: with one operator there is no such list
    points: tuple[PeoplePoint, ...]
    days: tuple[tuple[int, int], ...]  # day, counted from 1970, and how many of those who are enrolled came on it


class OpenWindow(msgspec.Struct, frozen=True):
    """The window that is open."""

    kind: str
    people: int
    reports: int | None  # None: a helper is handed reports when the window is over
    opens: int
    closes: int
    extended: int


class Sum(msgspec.Struct, frozen=True):
    """A sum that is over."""

    kind: str
    round: int  # counted from 1; 0 before the first
    opened: bool
    survivors: int
    rostered: int
    problem: str


class Campaign(msgspec.Struct, frozen=True):
    number: int
    state: str  # in words
    phase: str
    people: int
    places: int
    round: int
    rounds: int
    floor: int
    conducted: bool | None  # whether a worker conducts; None: a helper conducts nothing
    window: OpenWindow | None
    sums: tuple[Sum, ...]


class Refused(msgspec.Struct, frozen=True):
    what: str
    reason: str
    many: int


class VisitsAverage(msgspec.Struct, frozen=True):
    """An average over visits, in the unit of what visits have; errors are twice the standard error."""

    name: str
    value: float  # of the city
    error: float
    at_a_place: float | None  # the error of a place's average; None: noise drowns how places differ


class VisitsNoise(msgspec.Struct, frozen=True):
    """The opened sum of visits, in visits of one person."""

    noise: float  # standard deviation in each place's number
    places: int
    above: int  # places whose number is more than two of these above 0
    largest: tuple[tuple[str, float, float], ...]  # place, as opened, and as published
    averages: tuple[VisitsAverage, ...]


class ModelNoise(msgspec.Struct, frozen=True):
    """B, as root mean squares of its entries."""

    rounds: int  # that have moved B
    measured: float  # noise included
    noise: float  # standard deviation of the noise in it
    published: float
    by_round: tuple[tuple[int, float], ...]  # rounds behind it, and as published


class QualityFigure(msgspec.Struct, frozen=True):
    name: str  # in words
    value: float | None  # None: noise drowns it
    error: float  # twice its standard error


class Quality(msgspec.Struct, frozen=True):
    """How good the published model is, as it was read from a noisy sum."""

    reports: int
    figures: tuple[QualityFigure, ...]


class LogLine(msgspec.Struct, frozen=True):
    index: int
    subject: str
    document: str
    signed: bool | None  # by the helper; None: there is none


class Log(msgspec.Struct, frozen=True):
    entries: int
    signed: int | None  # entries that the helper has signed, and when
    signed_at: int | None
    newest: tuple[LogLine, ...]


class Disk(msgspec.Struct, frozen=True):
    database: str
    bytes: int
    free: int | None  # None: the database is another server's
    total: int | None


class Overview(msgspec.Struct, frozen=True):
    role: str
    title: str
    deployment: str
    fingerprint: str
    version: str
    time: int
    verdict: str
    signs: tuple[Sign, ...]
    people: People
    campaign: Campaign | None
    settled: tuple[Refused, ...]  # reports that both operators have checked and that are in no sum
    posted: tuple[Refused, ...]  # what workers have refused since they started
    visits: VisitsNoise | None
    model: ModelNoise | None
    quality: Quality | None  # None: no sum of quality figures of the published model was opened
    log: Log
    certificates: dict[str, int]  # when each ends
    box_key: bool | None  # whether the key of the campaign under way is there; None: there is no need of one
    disk: Disk


class OverviewReader:
    """Reads the overview, at most once in a second; what cannot change is read once. One thread at a time uses it."""

    def __init__(
        self, store: Store, *, certificates: Mapping[str, Path], clock: Callable[[], float],
        refused: Callable[[], Iterable[tuple[str, str, int]]] = lambda: (),
    ) -> None:  # fmt: skip
        """`certificates`: those that the service has started with, by name. `refused` counts what workers have refused:
        of what, for which fault, how often."""
        self._store, self._clock, self._count_refused = store, clock, refused
        self._until = {name: int(expires_at(file).timestamp()) for name, file in certificates.items()}
        self._last: Overview | None = None
        self._history = _PeopleHistory(store)
        self._verdicts = _Verdicts(store)
        self._fetch = partial(operator.own_document, store)
        self._steps: CampaignSteps | None = None
        self._visits: tuple[bytes, VisitsNoise] | None = None
        self._published: dict[bytes, tuple[int, float]] = {}

    def read(self) -> Overview:
        """StateError if the store cannot be read."""
        now = self._clock()
        if self._last is None or not 0 <= now - self._last.time < FRESH:
            self._last = self._read(int(now))
        return self._last

    def _read(self, now: int) -> Overview:
        store, founding = self._store, self._store.founding()
        helper = founding.role == "helper"
        held = store.progress()
        state = None if held is None else rules.decode_state(held)
        status = operator.campaign_status(store)
        verdict = operator.helper_status(store).verdict if helper else operator.deployment_status(store).verdict
        campaign = None if state is None or status is None else self._campaign(state, status, founding)
        visits, model = self._noise(state)
        log, disk = self._log(founding), self._disk()
        people, key = self._people(founding), self._box_key(campaign, founding)
        posted = tuple(Refused(what, FAULTS.get(fault, fault), many) for what, fault, many in self._count_refused())
        return Overview(
            role=founding.role, title=founding.title, deployment=founding.deployment.hex(),
            fingerprint=operator.fingerprint(founding.identity), version=prirec.__version__, time=now, verdict=verdict,
            signs=_signs(now, campaign, people, log, self._until, disk, box_key=key, role=founding.role), people=people,
            campaign=campaign, settled=self._settled(), posted=posted, visits=visits, model=model,
            quality=self._quality(), log=log,
            certificates=self._until, box_key=key, disk=disk,
        )  # fmt: skip

    def _people(self, founding: Founding) -> People:
        counts, helper = self._store.counts(), founding.role == "helper"
        listed, points = self._history.read(joint=founding.peer is not None)
        return People(
            enrolled=None if helper else counts.people, excluded=counts.excluded, blamed=counts.blamed,
            listed=listed if founding.peer is not None else None, points=points,
            days=() if helper else tuple(self._store.enrolled_by_day()[-NEWEST:]),
        )  # fmt: skip

    def _campaign(self, state: CampaignState, status: operator.CampaignStatus, founding: Founding) -> Campaign:
        charter = read(Charter, self._fetch(state.charter), name=state.charter)
        return Campaign(
            number=status.number, state=status.state, phase=status.phase, people=status.people, places=status.places,
            round=status.round, rounds=status.rounds, floor=charter.settings.floor,
            conducted=None if founding.role == "helper" else self._store.is_conducted(),
            window=self._window(state, founding),
            sums=tuple(
                Sum(one.kind, _round(one.kind, one.iteration), one.opened, one.survivors, one.rostered, one.problem)
                for one in state.past
            ),
        )  # fmt: skip

    def _window(self, state: CampaignState, founding: Founding) -> OpenWindow | None:
        if state.ended or not state.window:
            return None
        window = read(Window, self._fetch(state.window), name=state.window)
        of, helper = Round(founding.deployment, window.kind, window.number), founding.role == "helper"
        return OpenWindow(
            kind=_phase(window.kind), people=window.people, opens=window.opens, closes=window.closes,
            reports=None if helper else self._store.joint.count_reports(of), extended=state.attempt,
        )  # fmt: skip

    def _settled(self) -> tuple[Refused, ...]:
        return tuple(Refused("report", words, many) for words, many in self._verdicts.read().items())

    # Noise against signal

    def _noise(self, state: CampaignState | None) -> tuple[VisitsNoise | None, ModelNoise | None]:
        """Noise in the models of the last campaign. Documents of an earlier version are not read."""
        if state is None or not state.edition:
            return None, None
        try:
            if self._steps is None or not self._steps.holds(state):
                self._steps = CampaignSteps.of(state, self._fetch)
            return self._of_visits(self._steps), self._of_model(self._steps, state)
        except PeerError:
            return None, None

    def _of_visits(self, steps: CampaignSteps) -> VisitsNoise | None:
        edition = steps.campaign.edition
        if edition is None:
            return None
        if self._visits is None or self._visits[0] != edition.manifest:
            known = Catalogue.read(edition.manifest, self._fetch, basis=steps.campaign).known
            popular = known.counted
            released = popular.released[:, 0] if popular.released.shape[1] else np.zeros(len(popular.sums))
            order = np.argsort(-popular.sums, kind="stable")[:LARGEST].tolist()
            largest = tuple(
                (known.words[row] or known.ids[row], _short(popular.sums[row]), _short(released[row])) for row in order
            )
            above = int((popular.sums > 2 * popular.sigma).sum())
            averages = tuple(
                VisitsAverage(
                    one.column, _short(one.value), _short(2 * one.noise),
                    _short(2 * one.error) if one.spread else None,
                )
                for one in PublishedAverage.all_of(edition)
            )  # fmt: skip
            self._visits = edition.manifest, VisitsNoise(_short(popular.sigma), len(known), above, largest, averages)
        return self._visits[1]

    def _of_model(self, steps: CampaignSteps, state: CampaignState) -> ModelNoise | None:
        if not state.scales or not state.rounds:
            return None
        measured, noise, published = sizes_of(state.estimate(steps.campaign.columns))
        return ModelNoise(state.rounds, measured, noise, published, tuple(self._models()))

    def _models(self) -> Iterator[tuple[int, float]]:
        """How large B was in each model that this campaign has published."""
        head, charter = self._store.head().length, self._store.last("charter")
        begun = 0 if charter is None else charter.index
        for entry in self._store.entries_about(("model", "publication"), after=begun, before=head):
            if entry.document not in self._published:
                model = read(Model, self._fetch(entry.document), name=entry.document)
                size = rms(array(model.shared, np.float32, (-1,)).astype(np.float64))
                self._published[entry.document] = model.iteration, _short(size)
            if self._published[entry.document][0]:
                yield self._published[entry.document]

    def _quality(self) -> Quality | None:
        try:
            found = operator.published_figures(self._store)
        except EarlierVersionError:
            return None
        if found is None:
            return None
        figures = ((words, found.figures.get(name)) for name, words in FIGURES.items())
        return Quality(
            found.reports,
            tuple(
                QualityFigure(words, None, 0.0)
                if one is None
                else QualityFigure(words, _short(one.value), _short(2 * one.error))
                for words, one in figures
            ),
        )

    # The log, certificates and keys, the disk

    def _log(self, founding: Founding) -> Log:
        length, signed = self._store.head().length, self._store.cosigned()
        joint = founding.peer is not None
        covered = 0 if signed is None else signed.statement.length
        newest = self._store.entries(max(0, length - LOG_SHOWN), LOG_SHOWN)
        return Log(
            entries=length, signed=covered if joint else None,
            signed_at=None if not joint or signed is None else signed.statement.time,
            newest=tuple(
                LogLine(one.entry.index, one.entry.subject, one.entry.document.hex(),
                        one.entry.index < covered if joint else None)
                for one in reversed(newest)
            ),
        )  # fmt: skip

    def _box_key(self, campaign: Campaign | None, founding: Founding) -> bool | None:
        if campaign is None or founding.peer is None or campaign.phase in ("over", "failed"):
            return None
        return self._store.joint.has_box_key(campaign.number)

    def _disk(self) -> Disk:
        (product, size), file = self._store.usage(), self._store.file
        if file is None:
            return Disk(product, size, None, None)
        found = shutil.disk_usage(file.absolute().parent)
        return Disk(product, size, found.free, found.total)


def _signs(
    now: int, campaign: Campaign | None, people: People, log: Log, certificates: Mapping[str, int], disk: Disk, *,
    box_key: bool | None, role: str,
) -> tuple[Sign, ...]:  # fmt: skip
    """Signs that need the operator, the urgent ones first."""
    found = [*_campaign_signs(campaign), *_signature_signs(now, log)]
    for name, until in certificates.items():
        found += _certificate_signs(now, name, until, role=role)
    if box_key is False:
        found.append(Sign("bad", "the campaign's box key is missing, as after a restore: end it and begin another one"))
    if disk.free is not None and disk.free < DISK_SOON:
        free = f"{disk.free / 1e9:.1f} GB are free on the disk of the store"
        found.append(Sign("bad" if disk.free < DISK_NOW else "warn", free))
    if people.blamed:
        broke = f"{counted(people.blamed, 'device')} broke the protocol: prirec recommender exclusions"
        found.append(Sign("warn", broke))
    return tuple(sorted(found, key=lambda sign: sign.level != "bad"))


def _campaign_signs(of: Campaign | None) -> Iterator[Sign]:
    if of is None or of.phase == "over":
        return
    if of.phase == "failed":
        yield Sign("bad", f"campaign {of.number} has {of.state}; nothing of it is published")
        return
    if of.conducted is False:
        yield Sign("bad", "no worker conducts the campaign")
    if of.window is not None and of.window.extended:
        yield Sign("warn", f"the window was extended {counted(of.window.extended, 'time')}: too few devices report")
    abandoned = sum(not one.opened for one in of.sums)
    if abandoned:
        yield Sign("warn", f"sums of campaign {of.number} that were not opened: {abandoned}")


def _signature_signs(now: int, log: Log) -> Iterator[Sign]:
    if log.signed is None or not log.entries:
        return
    if log.signed_at is None:
        yield Sign("bad", "the helper has not signed the log yet: devices follow nothing")
    elif (age := now - log.signed_at) > SIGNED_NOW:
        yield Sign("bad", f"the helper's last signature is {age // 3600} hours old: devices take part in nothing")
    elif age > SIGNED_SOON:
        yield Sign("warn", f"the helper's last signature is {age // 60} minutes old; it signs every ten")


def _certificate_signs(now: int, name: str, until: int, *, role: str) -> Iterator[Sign]:
    left = until - now
    if left < CERTIFICATE_SOON:
        when = "has ended" if left <= 0 else f"ends in {counted(left // DAY, 'day')}"
        words = (
            RENEW[role] if name == SERVER else "make another one, and give its certificate to all who trust this one"
        )
        yield Sign("bad" if left < CERTIFICATE_NOW else "warn", f"the certificate of the {name} {when}: {words}")


class _PeopleHistory:
    """How the list of people grew, from the log; gone on with as the log grows."""

    def __init__(self, store: Store) -> None:
        self._store, self._entries = store, 0
        self._listed = self._joined = self._left = 0
        self._points: list[PeoplePoint] = []
        self._bound = b""

    def read(self, *, joint: bool) -> tuple[int, tuple[PeoplePoint, ...]]:
        length = self._store.head().length
        wanted: tuple[Subject, ...] = ("joined", "left", "window") if joint else ("charter",)
        for entry in self._store.entries_about(wanted, after=self._entries, before=length):
            with suppress(PeerError):  # a document of an earlier version
                self._take(entry)
            self._entries = entry.index + 1  # if the store is away for the next one, this one is not counted again
        self._entries = length
        return self._listed, tuple(self._points[-NEWEST:])

    def _take(self, entry: LogEntry) -> None:
        if entry.subject == "joined":
            many = len(read_names(self._store, entry).names)
            self._joined, self._listed = self._joined + many, self._listed + many
        elif entry.subject == "left":
            many = len(read_names(self._store, entry).names)
            self._left, self._listed = self._left + many, self._listed - many
        elif entry.subject == "charter":
            charter = read(Charter, operator.own_document(self._store, entry.document), name=entry.document)
            self._points.append(PeoplePoint(f"campaign {charter.campaign}", 0, charter.many, None, None))
        else:
            window = read(Window, operator.own_document(self._store, entry.document), name=entry.document)
            if window.bound == self._bound:  # extended
                return
            self._bound = window.bound
            campaign, number = divmod(window.number, SPAN)
            label = f"campaign {campaign}, {words_of(_phase(window.kind), number + 1)}"
            self._points.append(PeoplePoint(label, window.opens, window.people, self._joined, self._left))
            self._joined = self._left = 0


class _Verdicts:
    """Why reports of the campaign under way are in no sum; each list of settled reports is read once."""

    def __init__(self, store: Store) -> None:
        self._joint = store.joint
        self._known: dict[tuple[int, int], Counter[int]] = {}

    def read(self) -> dict[str, int]:
        emptied = dict(self._joint.emptied())  # first: what is settled meanwhile is then in the other number alone
        there = self._joint.settled()
        self._known = {
            at: self._known.get(at) or Counter(line.reason for line in self._joint.lines(*at).lines) for at in there
        }
        settled = Counter[int]()
        for (at, _), reasons in self._known.items():
            settled[at] += reasons.total()
        early = sum(max(0, many - settled[at]) for at, many in emptied.items())
        by_reason = sum(self._known.values(), Counter[int]())
        found = {EARLY: early} | {words: by_reason[reason] for reason, words in REASONS.items()}
        return {words: many for words, many in found.items() if many}


def sizes_of(of: Estimate) -> tuple[float, float, float]:
    """Root mean square of the entries of B as measured, standard deviation of the noise in each, and root mean square
    of what is published."""
    live = of.groups >= 0
    return _short(rms(of.average[live])), _short(of.variance**0.5), _short(rms(of.B[live]))


def rms(values: RealArray) -> float:
    return float(np.sqrt(np.mean(values**2))) if values.size else 0.0


def words_of(phase: str, round_: int) -> str:
    return f"round {round_}" if phase == "learning" else phase


def _phase(kind: str) -> str:
    return SUMS.get(kind, kind)


def _round(phase: str, iteration: int) -> int:
    return iteration + 1 if phase == "learning" else 0


def _short(value: float) -> float:
    """A number with as many digits as a page shows."""
    return float(f"{value:.4g}")
