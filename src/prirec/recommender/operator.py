"""What an operator does: found a deployment, publish a catalogue, begin or end a campaign, exclude devices, ask for the
status. A campaign that was begun goes on by itself (conductor.py)."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from os import urandom
from re import fullmatch
from typing import TYPE_CHECKING

from msgspec import structs

from prirec.config import HARD_FLOOR, Settings, loads
from prirec.errors import PolicyError, StateError, UsageError
from prirec.features.columns import Columns
from prirec.features.encoding import from_json
from prirec.privacy.accountant import affordable, total
from prirec.protocols.codec import encode
from prirec.protocols.messages import VERSION as MESSAGES
from prirec.protocols.messages import GivenUp, Round
from prirec.protocols.party import Persist, Stage
from prirec.recommender import campaign as rules
from prirec.recommender.campaign import CampaignState, PhaseOutcome
from prirec.recommender.release import (
    RESOLUTION,
    Catalogue,
    CatalogueSource,
    Operators,
    StartingModel,
    document_page,
    make_charter,
    most_columns,
    pack_regions,
    start_release,
    training_in_words,
    with_averages,
)
from prirec.recommender.store import Exclusion, Founding, OvertakenError, Store, StoreCounts
from prirec.sharing.keys import SigningKey
from prirec.simulate.privacy_plan import Counts, PrivacyPlan, make_plan
from prirec.types import DAY
from prirec.util.shown import Shown, Table, counted
from prirec.util.trust import https_address, tls_context
from prirec.wire.campaign import SPAN, Basis, PublishedAverage, PublishedFigures, deployable
from prirec.wire.documents import (
    LOG_VERSION,
    Charter,
    EarlierVersionError,
    Edition,
    Figures,
    Head,
    Model,
    Offer,
    Rotation,
    SignedEntry,
    Start,
    Subject,
    Window,
    address,
    read,
)
from prirec.wire.rotations import RotatedKey
from prirec.wire.settings import CampaignSettings

if TYPE_CHECKING:
    from prirec.recommender.peer import Peer

LONGEST_TITLE = LONGEST_REASON = 200  # characters
LEAST_WINDOW, LONGEST_WINDOW = 1, 30 * DAY  # seconds


@dataclass(frozen=True, slots=True)
class HelperAddress:
    """The helper of a deployment, as its recommender pins it."""

    url: str
    key: bytes  # its public key
    authority: bytes  # CA certificate (PEM) of its server; empty: the system's

    @classmethod
    def of(cls, url: str, key: str, authority: bytes = b"") -> "HelperAddress":
        """UsageError for what is no address, no key or no certificate."""
        parts = https_address(url)
        if parts is None or parts.path:
            raise UsageError("a helper's address is like https://name:8443")
        tls_context(authority)  # a deployment is founded once: a key in the place of the certificate would be for good
        return cls(url, public_key(key), authority)


def found_deployment(
    store: Store, *, title: str, helper: HelperAddress | None = None, entropy: Callable[[int], bytes] = urandom
) -> Founding:  # fmt: skip
    """Create a deployment: its id, the identity key that signs its log, and a key for session tokens. With a helper its
    sums are over two operators, for good: devices pin both."""
    check_title(title)
    founding = Founding(entropy(16), entropy(32), entropy(32), title)
    if helper is not None:
        founding = replace(founding, peer=helper.key, peer_url=helper.url, peer_authority=helper.authority)
    store.found(founding)
    return founding


def found_helper(store: Store, *, title: str, entropy: Callable[[int], bytes] = urandom) -> Founding:
    """Create a helper: its identity. Which deployment it helps it learns later."""
    check_title(title)
    founding = Founding(bytes(16), entropy(32), entropy(32), title, role="helper")
    store.found(founding)
    return founding


def pair_helper(store: Store, *, deployment: str, recommender: str) -> None:
    """Tell a helper which deployment it helps. UsageError if it helps another one."""
    if not fullmatch(r"[0-9a-fA-F]{32}", deployment):
        raise UsageError("a deployment's id has 32 hexadecimal digits, as prirec recommender status prints it")
    if not store.pair(bytes.fromhex(deployment), public_key(recommender)):
        raise UsageError("this helper is paired with another deployment; a helper helps one, for good")


def public_key(text: str) -> bytes:
    """UsageError for what is not the whole fingerprint of an operator's key."""
    if not fullmatch(r"[0-9a-fA-F]{64}", text):
        raise UsageError("an operator's key has 64 hexadecimal digits: the whole fingerprint that it prints")
    return bytes.fromhex(text)


def check_title(title: str) -> None:
    """UsageError for a title that devices could not show in one line."""
    if not (title.strip() and title.isprintable() and len(title) <= LONGEST_TITLE):
        raise UsageError(f"a deployment's title is one line of 1 to {LONGEST_TITLE} characters")


def rotate_sessions(store: Store, *, entropy: Callable[[int], bytes] = urandom) -> None:
    """Replace the key of session tokens: sessions under the old one end when workers restart, and devices open new ones
    by themselves. How the identity key is rotated: rotation.py."""
    store.set_token_key(entropy(32))


def publish_catalogue(
    store: Store, source: CatalogueSource, *, resolution: int = RESOLUTION, start: StartingModel | None = None
) -> Catalogue:
    """Publish the catalogue for campaigns that begin from now on; one that is under way keeps its own. With it, a model
    for devices to recommend with until a campaign has published one: PolicyError if one has."""
    if start is not None and published_model(store) is not None:
        raise PolicyError(
            "a campaign has published a model, which devices recommend with: a starting model would not be used; leave "
            "it out"
        )
    founding, catalogue = store.founding(), pack_regions(source.places, source.encoding, resolution=resolution)
    offer = Offer(LOG_VERSION, founding.deployment, source.encoding.to_json(), catalogue.name, len(catalogue.known))
    documents = [*catalogue.documents, document_page(offer)]
    said: list[tuple[Subject, bytes]] = [("catalogue", documents[-1][0])]
    if start is not None:
        issued = start_release(offer, catalogue, start)
        documents += issued.documents
        said.append(("start", issued.name))
    # with no `before`: a campaign may be moving on meanwhile
    store.advance(progress=None, entries=sign_entries(founding, said), documents=documents)
    return catalogue


def published_model(store: Store) -> Model | None:
    """The model that a campaign of this version has published last."""
    entry = store.last("publication")
    try:
        return None if entry is None else read(Model, own_document(store, entry.document), name=entry.document)
    except EarlierVersionError:
        return None


def published_figures(store: Store) -> PublishedFigures | None:
    """How good the model is that was published last; None if no sum of quality figures of it was opened."""
    entry, model = store.last("figures"), store.last("publication")
    if entry is None or model is None:
        return None
    found = read(Figures, own_document(store, entry.document), name=entry.document)
    return PublishedFigures.of(found) if found.model == model.document else None


def published_averages(store: Store) -> tuple[PublishedAverage, ...]:
    """Averages from the last sum of visits that was opened."""
    entry = store.last("edition")
    try:
        edition = None if entry is None else read(Edition, own_document(store, entry.document), name=entry.document)
    except EarlierVersionError:
        return ()
    return () if edition is None else PublishedAverage.all_of(edition)


@dataclass(frozen=True, slots=True)
class _Draft:
    """Settings and catalogue with which a campaign would begin now."""

    founding: Founding
    held: bytes | None  # state of the campaign before
    people: list[bytes]
    offer: Offer
    catalogue: Catalogue


def _draft(store: Store, settings: Settings) -> _Draft:
    founding, held = store.founding(), store.progress()
    before = None if held is None else rules.decode_state(held)
    if before is not None and not before.ended:
        raise PolicyError("a campaign is under way; the next one begins when it is over")
    offered = store.last("catalogue")
    if offered is None:
        raise StateError("there is no catalogue yet: prirec recommender publish")
    people = store.people()
    _refuse_few(len(people), settings)
    offer = read(Offer, own_document(store, offered.document), name=offered.document)
    return _Draft(founding, held, people, offer, _catalogue(store, offer, settings))


def forecast_campaign(store: Store, settings: Settings) -> PrivacyPlan:
    """What a campaign with everyone who is enrolled now would promise, and whether noise would leave something to
    learn, from public numbers alone. PolicyError where none may be begun."""
    settings = of_operators(store, settings)
    draft = _draft(store, deployable(settings))
    encoding = from_json(draft.offer.encoding)
    settings, wide = with_averages(settings, encoding), most_columns(encoding, draft.catalogue)
    size = Counts(len(draft.people), len(draft.catalogue.known), len(wide.names()), Columns.of(wide).size)
    return make_plan(settings, size)


def refuse_noisy(plan: PrivacyPlan) -> None:
    """PolicyError for a campaign that would spend people's budget, and learn little or next to nothing."""
    if plan.noise is None or plan.noise.usable:
        return
    people = plan.counts.people
    problem = f"noise would take much from what {people:,} people can teach"
    if plan.noise.drowns:
        problem = f"noise would drown what {people:,} people can teach"
    raise PolicyError(
        f"{problem}: it would move scores by {plan.noise.in_scores:.2g}, and what is learnt by about 1. "
        f"Nothing was begun, and no budget is spent. Wait for {plan.noise.takes}, or begin all the same with the "
        "option 'anyway'"
    )


def of_operators(store: Store, settings: Settings) -> Settings:
    """The settings for the operators that this deployment has. PolicyError for two where there is one."""
    helped = store.founding().peer is not None
    if settings.sums.operators == 2 and not helped:
        raise PolicyError("sums.operators = 2 needs a helper, which a deployment has from its beginning, or not at all")
    return structs.replace(settings, sums=structs.replace(settings.sums, operators=2)) if helped else settings


def begin_campaign(
    store: Store, settings: Settings, *, window: int = DAY, most: int | None = None, peer: "Peer | None" = None,
    entropy: Callable[[int], bytes] = urandom,
) -> Charter:  # fmt: skip
    """Begin a campaign with everyone who is enrolled now. PolicyError while another is under way. Over two operators
    its windows last so many seconds, and its sums are sized for so many people: by default for twice as many as are
    enrolled."""
    settings = of_operators(store, settings)
    draft = _draft(store, settings)
    campaign, operators = store.times("charter"), None
    if peer is not None:
        if not LEAST_WINDOW <= window <= LONGEST_WINDOW:
            raise UsageError(f"a window lasts {LEAST_WINDOW} seconds to {LONGEST_WINDOW // DAY} days")
        peer.follow()  # the catalogue, above all
        mine = store.joint.make_box_key(campaign, entropy(32)).public
        sized = max(most or 2 * len(draft.people), len(draft.people))
        operators = Operators(peer.helper, mine, peer.box_key(campaign), sized)
    issued = make_charter(
        draft.catalogue,
        draft.people,
        deployment=draft.founding.deployment,
        campaign=campaign,
        recommender=draft.founding.key.public,
        settings=settings,
        encoding=from_json(draft.offer.encoding),
        operators=operators,
    )
    store.advance(
        progress=encode(CampaignState(issued.name, "visits", seconds=window if operators else 0)),
        before=draft.held,  # of two operators who begin one at the same time, one succeeds
        entries=sign_entries(draft.founding, [("charter", issued.name)]),
        documents=issued.documents,
    )
    return issued.document


def end_campaign(store: Store) -> CampaignState:
    """End a campaign that does not go on. Open rounds are burnt, and nothing is published; devices that had masked a
    vector have spent budget on it all the same. PolicyError if none is under way."""
    store.founding()
    held = store.progress()
    before = None if held is None else rules.decode_state(held)
    if before is None or before.ended:
        raise PolicyError("no campaign is under way: there is nothing to end")
    left, joint = store.open_rounds(), store.joint.under_way()
    burnt = [Persist(one, Stage.BURNT, bytes(32)) for one in left]
    founding = store.founding()
    me, helper = founding.key.public, founding.peer or b""
    store.advance(
        progress=encode(rules.failed(before)),
        before=held,
        persists=burnt,
        over=left,
        joint=[Persist(one, Stage.BURNT, bytes(32)) for one in joint],
        farewell=[encode(GivenUp(MESSAGES, one, me, helper)) for one in joint],  # one at most is open
    )
    store.joint.forget_campaigns(but=store.times("charter"))
    return before


# Devices that broke the protocol, and devices that are excluded


@dataclass(frozen=True, slots=True)
class DeviceRecord:
    """What is on record about a device that broke the protocol, or that the operator has excluded."""

    name: str  # its public key in hexadecimal, as the log of the service and rosters have it
    times: int = 0  # that it broke the protocol, for certain
    problem: str = ""  # how, the last time
    campaign: int | None = None  # in which campaign that was
    exclusions: tuple[Exclusion, ...] = ()  # also those that were ended

    @property
    def excluded(self) -> Exclusion | None:
        """The exclusion in force."""
        return next((one for one in self.exclusions if one.until is None), None)


def device_records(store: Store) -> list[DeviceRecord]:
    """Devices that broke the protocol, most often first; then others that were ever excluded."""
    exclusions: dict[bytes, list[Exclusion]] = {}
    for one in store.exclusions():
        exclusions.setdefault(one.name, []).append(one)
    found = [
        DeviceRecord(
            one.name.hex(), one.times, one.why, one.number // SPAN, tuple(exclusions.pop(one.name, ()))
        )
        for one in store.blamed()
    ]  # fmt: skip
    return found + [DeviceRecord(name.hex(), exclusions=tuple(those)) for name, those in exclusions.items()]


def exclude_device(store: Store, name: str, *, reason: str, day: int) -> None:
    """Exclude a device from rosters, sessions and enrolment; in sums under way it counts as lost, unless both
    operators have accepted its report by now. UsageError for a name
    that is no device's, or that is excluded already."""
    if not (reason.strip() and reason.isprintable() and len(reason) <= LONGEST_REASON):
        raise UsageError(f"a reason is one line of 1 to {LONGEST_REASON} characters")
    key = _device_name(name)
    if not store.exclude(key, reason=reason, day=day):
        known = any(one.name == key and one.until is None for one in store.exclusions())
        raise UsageError(
            "that device is excluded already" if known else "no device of that name is enrolled, and none was blamed"
        )


def readmit_device(store: Store, name: str, *, day: int) -> None:
    """End the exclusion of a device. UsageError if it is not excluded."""
    if not store.readmit(_device_name(name), day=day):
        raise UsageError("that device is not excluded")


def _device_name(name: str) -> bytes:
    if not fullmatch(r"[0-9a-fA-F]{64}", name):
        raise UsageError("a device's name has 64 hexadecimal digits, as the events of the log have it")
    return bytes.fromhex(name)


def _refuse_few(many: int, settings: Settings) -> None:
    """PolicyError for fewer people than the floor, or so few that not one of them could drop out."""
    floor, lost = settings.floor, settings.sums.lost
    if many > floor:
        return
    raise PolicyError(
        f"devices enrolled so far: {many}; no sum over fewer than {floor} people is opened, so "
        f"wait for more: with {ceil(floor / (1 - lost))} devices a sum is opened even if {lost:.0%} of them drop out "
        f"(the setting 'floor' is at least {HARD_FLOOR})"
    )


def _catalogue(store: Store, offer: Offer, settings: Settings) -> Catalogue:
    try:
        return Catalogue.read(offer.manifest, partial(own_document, store), basis=Basis(offer, settings))
    except EarlierVersionError:
        raise StateError(
            "the catalogue was published by an earlier version; publish it again: prirec recommender publish"
        ) from None


# The recommender's own documents, and its signature on the log


def own_document(store: Store, name: bytes) -> bytes:
    """A document that the log, or another document of the recommender's, names; so it must be in the store."""
    body = store.document(name)
    if body is None:
        raise StateError("the store lacks a document that its own log names; restore it from a backup")
    return body


def addressed(body: bytes) -> tuple[bytes, bytes]:
    """A document as the store takes it."""
    return address(body), body


def sign_entries(
    founding: Founding, said: Sequence[tuple[Subject, bytes]]
) -> Callable[[Head, Founding], list[SignedEntry]]:
    """A function that signs log entries on these documents, for whatever head the log has in the transaction that
    appends them (Store.advance). Signed beforehand, they would be refused if another entry came in between.
    OvertakenError if a key of either operator was rotated since."""
    identity, deployment = founding.key, founding.deployment

    def signed(head: Head, now: Founding) -> list[SignedEntry]:
        if (now.identity, now.peer) != (founding.identity, founding.peer):
            raise OvertakenError
        entries: list[SignedEntry] = []
        for subject, named in said:
            entries.append(head.signed(subject, named, deployment=deployment, identity=identity))
            head = head.after(entries[-1:], deployment=deployment, recommender=identity.public)
        return entries

    return signed


# The status, as `prirec recommender status` prints it: public facts and counts only


@dataclass(frozen=True, slots=True)
class WindowStatus:
    """The window that is open, over two operators."""

    kind: str
    people: int  # who may report
    reports: int  # that have come
    closes: int  # seconds since 1970
    extended: int  # how often


@dataclass(frozen=True, slots=True)
class CampaignStatus:
    """Status of the campaign under way, or of the last one."""

    number: int
    people: int
    places: int
    phase: str
    round: int  # number of finished rounds
    rounds: int
    attempt: int
    past: tuple[PhaseOutcome, ...]  # finished sums, opened or not
    window: WindowStatus | None = None

    @property
    def verdict(self) -> str:
        """In one sentence: how far it is."""
        return f"campaign {self.number}: {self.round:,} of {counted(self.rounds, 'round')} finished, {self.state}"

    @property
    def state(self) -> str:
        """In words: the phase, and why the campaign failed if it did."""
        words = {
            "visits": "the sum of visits is under way", "moments": "the sum of moments is under way",
            "learning": f"round {self.round + 1:,} is under way", "quality": "the sum of quality figures is under way",
            "over": "over: its model is published", "failed": f"failed: {self._failure()}",
        }  # fmt: skip
        return words[self.phase] + (f", attempt {self.attempt + 1}" if self.attempt else "")

    def _failure(self) -> str:
        """What ended it without a model: its last sum, or its operator, who leaves an attempt or a round unfinished."""
        if self.round == self.rounds:
            return "the shared model was never moved"
        last = self.past[-1] if self.past else None
        attempts = 0 if last is None else sum(past.kind == last.kind for past in self.past)
        if last is not None and last.kind in ("visits", "moments") and not last.opened and attempts > self.attempt:
            return f"its sum of {last.kind} was not opened{last.problem and f': {last.problem}'}"
        return "its operator ended it"


@dataclass(frozen=True, slots=True)
class PromiseStatus:
    """What a deployment has asked of the privacy of somebody who was in every sum of all its campaigns: an upper bound,
    since each person's own budget may have kept them out of some."""

    epsilon: float  # in the last campaign
    delta: float
    period_days: int | None  # in which one campaign's budget is spent; None: once in a life
    campaigns: int  # that have begun
    lifetime: float  # ε of all of them together, at the last one's δ

    @property
    def words(self) -> str:
        """In one line."""
        when = "for life" if self.period_days is None else f"in any {counted(self.period_days, 'day')}"
        return f"ε = {self.epsilon:.4g} {when} (δ = {self.delta:g})"


@dataclass(frozen=True, slots=True)
class HelperLine:
    """The helper of a deployment, as its recommender knows it."""

    url: str
    fingerprint: str
    signed: int  # log entries that it has signed last,
    time: int  # and when; seconds since 1970


@dataclass(frozen=True, slots=True)
class HelperStatus:
    """What `prirec helper status` prints."""

    title: str
    fingerprint: str  # of its own key
    deployment: str | None  # None: it is not paired yet
    recommender: str | None
    entries: int  # of the log that it follows
    signed: int  # seconds since 1970 of its last signature; 0: none yet
    campaign: CampaignStatus | None
    rotated: tuple[RotatedKey, ...] = ()
    next_key: str | None = None  # fingerprint of this operator's next key, which is not in force yet

    @property
    def verdict(self) -> str:
        """In one sentence."""
        if self.deployment is None:
            return "paired with no deployment yet: prirec helper pair"
        if self.campaign is None:
            return f"follows {counted(self.entries, 'log entry', 'log entries')}, no campaign yet"
        return f"follows {counted(self.entries, 'log entry', 'log entries')}; {self.campaign.verdict}"


@dataclass(frozen=True, slots=True, repr=False)
class DeploymentStatus(Shown):
    """What `prirec recommender status` prints."""

    title: str
    deployment: str
    fingerprint: str  # of the recommender's public key: the key itself, in hexadecimal
    places: int | None  # in the catalogue for the next campaign; None: none was published yet
    start: str | None  # what the training of the starting model says of itself; None: devices recommend with none
    counts: StoreCounts
    campaign: CampaignStatus | None
    quality: PublishedFigures | None = None  # of the model that devices recommend with; None: none were collected
    averages: tuple[PublishedAverage, ...] = ()  # over visits
    helper: HelperLine | None = None  # None: sums have one operator
    promise: PromiseStatus | None = None  # None: no campaign of this version has begun
    rotated: tuple[RotatedKey, ...] = ()
    next_key: str | None = None  # fingerprint of this operator's next key, which is not in force yet

    @property
    def verdict(self) -> str:
        """In one sentence: who has enrolled and how the campaign goes, or what is to be done next."""
        enrolled = f"{counted(self.counts.people, 'person')} enrolled"
        if self.places is None:
            return f"{enrolled}, no catalogue yet: prirec recommender publish"
        if self.campaign is None:
            return f"{enrolled}, {counted(self.places, 'place')}, no campaign yet: prirec recommender rounds begin"
        return f"{enrolled}; {self.campaign.verdict}"

    def panels(self) -> Iterator[str | Table]:
        yield f"Deployment '{self.title}': {self.verdict}."


def deployment_status(store: Store) -> DeploymentStatus:
    """Status of the deployment. StateError if the store has none."""
    founding, offered = store.founding(), store.last("catalogue")
    places = (
        None if offered is None else read(Offer, own_document(store, offered.document), name=offered.document).places
    )
    return DeploymentStatus(
        title=founding.title,
        deployment=founding.deployment.hex(),
        fingerprint=fingerprint(founding.identity),
        places=places,
        start=_start_in_use(store),
        counts=store.counts(),
        campaign=campaign_status(store),
        quality=published_figures(store),
        averages=published_averages(store),
        helper=_helper_line(founding, store),
        promise=_promise(store),
        rotated=_rotated(store),
        next_key=_next_key(store),
    )


def rotations_in(store: Store, entries: int) -> tuple[Rotation, ...]:
    """Rotations of operators' keys among the first so many entries of the log."""
    found = store.entries_about(("rotation",), after=0, before=entries)
    return tuple(read(Rotation, own_document(store, one.document), name=one.document) for one in found)


def _rotated(store: Store) -> tuple[RotatedKey, ...]:
    return tuple(map(RotatedKey.of, rotations_in(store, store.head().length)))


def _next_key(store: Store) -> str | None:
    coming = store.next_key()
    return None if coming is None else coming.key.public.hex()


def _helper_line(founding: Founding, store: Store) -> HelperLine | None:
    if founding.peer is None:
        return None
    signed = store.cosigned()
    last = (0, 0) if signed is None else (signed.statement.length, signed.statement.time)
    return HelperLine(founding.peer_url or "", founding.peer.hex(), *last)


def helper_status(store: Store) -> HelperStatus:
    """Status of a helper."""
    founding, signed = store.founding(), store.cosigned()
    paired = founding.peer is not None
    return HelperStatus(
        title=founding.title,
        fingerprint=fingerprint(founding.identity),
        deployment=founding.deployment.hex() if paired else None,
        recommender=founding.peer.hex() if founding.peer is not None else None,
        entries=store.head().length,
        signed=0 if signed is None else signed.statement.time,
        campaign=campaign_status(store),
        rotated=_rotated(store),
        next_key=_next_key(store),
    )


def _promise(store: Store) -> PromiseStatus | None:
    asked = list[CampaignSettings]()
    for entry in store.entries_about(("charter",), after=0, before=store.head().length):
        with suppress(EarlierVersionError):
            asked.append(read(Charter, own_document(store, entry.document), name=entry.document).settings)
    if not asked:
        return None
    last, spent = asked[-1], total(affordable(one.epsilon_per_user, one.delta) for one in asked)
    return PromiseStatus(
        last.epsilon_per_user, last.delta, last.period_days or None, len(asked), spent.loss(last.delta).epsilon
    )


def _start_in_use(store: Store) -> str | None:
    entry = store.last("start")
    if entry is None or published_model(store) is not None:
        return None
    return training_in_words(loads(read(Start, own_document(store, entry.document), name=entry.document).settings))


def campaign_status(store: Store) -> CampaignStatus | None:
    """Status of the last campaign; None before the first one of this version."""
    held = store.progress()
    if held is None:
        return None
    progress = rules.decode_state(held)
    try:
        charter = read(Charter, own_document(store, progress.charter), name=progress.charter)
    except EarlierVersionError:  # of its documents nothing is shown
        return None
    return CampaignStatus(
        number=charter.campaign,
        people=charter.many or charter.most,
        places=charter.places,
        phase=progress.phase,
        round=progress.iteration,
        rounds=charter.settings.iterations,
        attempt=0 if charter.helper else progress.attempt,
        past=progress.past,
        window=_window_status(store, progress),
    )


def _window_status(store: Store, progress: CampaignState) -> WindowStatus | None:
    if progress.ended or not progress.window:
        return None
    window = read(Window, own_document(store, progress.window), name=progress.window)
    of = Round(store.founding().deployment, window.kind, window.number)
    return WindowStatus(
        window.kind, window.people, store.joint.count_reports(of), window.closes, progress.attempt
    )  # fmt: skip


def fingerprint(identity: bytes) -> str:
    """The recommender's public key in hexadecimal, for people to compare: a device asks for 16 of the 64 digits."""
    return SigningKey(identity).public.hex()
