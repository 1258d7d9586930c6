"""The helper of a deployment over two operators: what it answers the recommender.

It believes the recommender nothing but the order of things. It follows the log entry by entry: lists of people and
windows must be possible, a charter must be for its own key, and what follows from an opened sum (popularity, scales,
the model) must be what it has computed itself from the sum that both have signed, but for rounding (agreement.py). Then
it signs the head of the log.
So it needs no traffic of devices, and nothing to trust but its own store.

All that it answers may be asked again: after a crash, or a lost answer, the same comes back.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from os import urandom
from threading import Lock
from time import time

import prirec
from prirec.errors import Fault, PeerError, PolicyError, UsageError
from prirec.protocols.codec import decode, digest, encode
from prirec.protocols.messages import VERSION, AnyMessage, Closing, GivenUp, Round
from prirec.protocols.party import Aborted, Action, Finished, Persist, Send, Settle, Stage
from prirec.protocols.two_operators import ENTROPY, Helper
from prirec.recommender import campaign as rules
from prirec.recommender import operator, rotation
from prirec.recommender.agreement import after_entry
from prirec.recommender.campaign import CampaignState, CampaignSteps, Owed, PhaseOutcome
from prirec.recommender.joint_rounds import FINAL, MissingKeyError
from prirec.recommender.people_list import PeopleList, change, read_names
from prirec.recommender.store import Store
from prirec.sharing.keys import SigningKey
from prirec.wire.campaign import Campaign, read_encoding
from prirec.wire.documents import (
    Charter,
    Edition,
    Head,
    LogEntry,
    Manifest,
    Offer,
    Rotation,
    SignedCoSignature,
    SignedEntry,
    Start,
    Window,
    read,
)
from prirec.wire.operators import (
    MOST_PUT,
    SKEW,
    AskRotation,
    BoxKey,
    Countersign,
    Countersigned,
    Envelope,
    Follow,
    Followed,
    Missing,
    NewBoxKey,
    Offered,
    OperatorAnswer,
    Put,
    Said,
    Say,
    Taken,
    check_envelope,
    read_operator_request,
    sealed,
)
from prirec.wire.regions import region_documents


@dataclass(frozen=True, slots=True)
class HelperEvent:
    """An event in the helper's log: counts, and texts of the program's own."""

    event: str
    kind: str = ""
    iteration: int = 0
    opened: bool = False
    reports: int = 0
    problem: str = ""
    passing: bool = False


class HelperService:
    """Answers one request after the other, from the store."""

    def __init__(
        self, store: Store, *, clock: Callable[[], float] = time, entropy: Callable[[int], bytes] = urandom,
        tell: Callable[[HelperEvent], None] = lambda event: None,
    ) -> None:  # fmt: skip
        founding = store.founding()
        if founding.role != "helper" or founding.peer is None:
            raise UsageError("this helper does not know its recommender yet: prirec helper pair")
        self.store, self.clock, self.entropy, self.tell = store, clock, entropy, tell
        self.deployment = founding.deployment
        self._fetch = partial(operator.own_document, store)
        self._people = PeopleList(store)
        self._party: Helper | None = None
        self._lock = Lock()

    @property
    def recommender(self) -> bytes:
        """Key of the recommender whose requests are answered; it may be rotated."""
        return self.store.founding().peer or b""

    @property
    def identity(self) -> SigningKey:
        return self.store.founding().key

    def admit(self, header: bytes) -> Envelope:
        """The envelope of a request. PeerError AUTH for one that is not the recommender's to this helper. While a key
        is rotated the recommender may be ahead: so the key in force counts, and the next one."""
        approved, coming = self.store.approved_key(), self.store.next_key()
        return check_envelope(
            header, deployment=self.deployment, now=int(self.clock()),
            senders={self.recommender, approved or self.recommender},
            receivers={key.public for key in (self.identity, *([] if coming is None else [coming.key]))},
        )  # fmt: skip

    def answer(self, body: bytes, envelope: Envelope) -> tuple[bytes, str]:
        """The body of the answer, and its header."""
        with self._lock:
            coming = self.store.next_key()
            me = self.identity
            if coming is not None and coming.key.public == envelope.receiver:
                me = coming.key  # it is being rotated, and the answer may come after that
            try:
                answer = encode(self._answer(body, envelope))
            except (UsageError, PolicyError) as problem:  # of what the recommender has published
                raise PeerError(Fault.PARAMS_MISMATCH, str(problem)) from None
            except MissingKeyError as problem:
                raise PeerError(Fault.ABORTED, str(problem)) from None
        return answer, sealed(
            answer, deployment=self.deployment, identity=me, receiver=envelope.sender,
            time=int(self.clock()), answers=envelope.body,
        )  # fmt: skip

    def _answer(self, body: bytes, envelope: Envelope) -> OperatorAnswer:
        match read_operator_request(body, envelope):
            case Put(documents):
                self.store.put([operator.addressed(one) for one in documents])
                return Taken()
            case Follow(entries):
                return self._follow(entries)
            case NewBoxKey(campaign):
                if campaign != self.store.times("charter"):
                    raise PeerError(Fault.ORDER, "box keys are made for the campaign that is next")
                return BoxKey(self.store.joint.make_box_key(campaign, self.entropy(32)).public, prirec.__version__)
            case Countersign(offered):
                return Countersigned(rotation.countersigned(self.store, offered))
            case AskRotation():
                return Offered(rotation.offered(self.store))
            case Say(message):
                return Said(tuple(encode(one) for one in self._hear(decode(message))))

    # The log

    def _follow(self, entries: Sequence[SignedEntry]) -> OperatorAnswer:
        head = self.store.head()
        if entries and entries[0].entry.index > head.length:
            return Missing(head.length, ())
        known = self.store.entries(entries[0].entry.index, len(entries)) if entries else []
        if any(mine != theirs for mine, theirs in zip(known, entries, strict=False)):
            raise PeerError(Fault.EQUIVOCATION, "the recommender's log is not the one that it has shown before")
        for one in entries[len(known) :]:
            after = head.after([one], deployment=self.deployment, recommender=self.recommender)
            if missing := self._missing(one.entry):
                return Missing(head.length, tuple(missing[:MOST_PUT]))
            state = self._state()
            following = self._admitted(one.entry, state)
            changed = following is not None and following is not state
            self.store.advance(
                progress=encode(following) if changed and following else None, entries=[one],
                rotated=rotation.change_in(self.store, one.entry),
            )  # fmt: skip
            head = after
        state = self._state()
        if state is None or state.ended:
            self.store.joint.forget_campaigns(but=self.store.times("charter"))  # the next one's may be there
        return Followed(self._cosigned(head))

    def _cosigned(self, head: Head) -> SignedCoSignature:
        before = self.store.cosigned()
        now = max(int(self.clock()), before.statement.time if before is not None else 0)
        signed = head.cosigned(deployment=self.deployment, time=now, identity=self.identity)
        self.store.put_cosigned(signed)
        return signed

    def _missing(self, entry: LogEntry) -> list[bytes]:
        """Documents that this entry needs, as far as they are known by now."""
        missing = self.store.missing([entry.document])
        if missing or entry.subject not in ("catalogue", "edition"):
            return missing
        body, name = self._fetch(entry.document), entry.document
        offered: Offer | Edition = (
            read(Offer, body, name=name) if entry.subject == "catalogue" else read(Edition, body, name=name)
        )
        if missing := self.store.missing([offered.manifest]):
            return missing
        manifest = read(Manifest, self._fetch(offered.manifest), name=offered.manifest)
        return self.store.missing(region_documents(manifest))

    def _admitted(self, entry: LogEntry, state: CampaignState | None) -> CampaignState | None:
        """The state of the campaign after an entry. PeerError for one that this helper does not sign."""
        body = self._fetch(entry.document)
        match entry.subject:
            case "catalogue":
                offer = read(Offer, body, name=entry.document)
                _demand(offer.deployment == self.deployment, "a catalogue is another deployment's")
                read_encoding(offer.encoding)
                return state
            case "start":
                read(Start, body, name=entry.document)
                return state
            case "joined" | "left":
                change(set(self._people.at(entry.index)), entry, read_names(self.store, entry))
                return state
            case "charter":
                return self._begun(read(Charter, body, name=entry.document), entry.document, state)
            case "rotation":
                return self._rotated(read(Rotation, body, name=entry.document), state)
            case "window":
                return self._opened(read(Window, body, name=entry.document), entry, state)
            case _:
                return after_entry(state, entry, self._fetch)

    def _begun(self, charter: Charter, name: bytes, state: CampaignState | None) -> CampaignState:
        """A campaign that was under way is over: its recommender has ended it."""
        try:
            Campaign.of(charter)
        except PolicyError as problem:
            raise PeerError(Fault.PARAMS_MISMATCH, str(problem)) from None
        offered = self.store.last("catalogue")
        _demand(offered is not None, "a campaign begins without a catalogue")
        offer = read(Offer, self._fetch(offered.document), name=offered.document)  # type: ignore[union-attr]
        campaign = self.store.times("charter")
        mine = self.store.joint.box_key(campaign).public
        wanted = self.deployment, campaign, self.recommender, self.identity.public, mine
        found = charter.deployment, charter.campaign, charter.recommender, charter.helper, charter.helper_box
        _demand(found == wanted, "a charter is for another campaign or other operators, or not for this helper's key")
        same = (charter.manifest, charter.encoding, charter.places) == (offer.manifest, offer.encoding, offer.places)
        _demand(same, "a charter is not for the catalogue that was published last")
        self._end_rounds()
        self.store.joint.forget_campaigns(but=campaign)
        return CampaignState(name, "visits")

    def _rotated(self, said: Rotation, state: CampaignState | None) -> CampaignState | None:
        """A campaign that was under way is over: its charter names keys of which one is out of force."""
        rotation.operators_of(self.store).after(said, deployment=self.deployment)
        self._end_rounds()
        return state if state is None or state.ended else rules.failed(state)

    def _opened(self, window: Window, entry: LogEntry, state: CampaignState | None) -> CampaignState:
        if state is None or state.ended or state.owed:
            raise PeerError(
                Fault.ORDER, "a window opens in a campaign, when all that follows from the last is published"
            )
        _demand(window.opens < window.closes, "a window closes before it opens")
        _demand(window.opens <= self.clock() + SKEW, "a window opens in the future: set the operators' clocks")
        if state.window:
            before = self._window(state)
            later = (window.bound, window.opens) == (before.bound, before.opens) and window.closes > before.closes
            _demand(later, "a window is extended, and nothing else of it changes")
            return rules.replaced(state, window=entry.document, attempt=state.attempt + 1)
        CampaignSteps.of(state, self._fetch).joint(state, window)
        _demand(0 < window.entries <= entry.index, "a window lists people by entries that are not there")
        last = self.store.entries(window.entries - 1, 1)[0]
        _demand(digest(last.entry) == window.listed, "a window lists people by another log")
        _demand(len(self._people.at(window.entries)) == window.people, "a window counts its people wrongly")
        return rules.replaced(state, window=entry.document, attempt=0)

    # Sums

    def _hear(self, message: AnyMessage) -> list[AnyMessage]:
        state, stage = self._state(), self.store.joint.stage(message.round)
        if stage is Stage.OPENED:
            return []  # it asks again for want of an answer
        if stage is Stage.BURNT:
            return [] if isinstance(message, GivenUp) else [self._given_up(message)]
        if state is None or state.ended or not state.window:
            if isinstance(message, GivenUp):
                return []  # of a round of which nothing is here
            raise PeerError(Fault.ORDER, "no window is open: follow the log first")
        if isinstance(message, Closing) and self.clock() < self._window(state).closes - SKEW:
            # else devices that come later would have paid for nothing
            raise PeerError(Fault.ORDER, "a window is closed before its time: set the operators' clocks")
        steps = CampaignSteps.of(state, self._fetch)
        try:
            party = self._party_of(state, steps)
            return self._do(party.receive(message), state, steps)
        except MissingKeyError:
            if not isinstance(message, GivenUp):
                raise
            return self._restored(message.round, state, steps)
        except BaseException:
            self._party = None  # made again of what was written
            raise

    def _restored(self, of: Round, state: CampaignState, steps: CampaignSteps) -> list[AnyMessage]:
        """After this helper was restored from a copy, the recommender has given up the round that it cannot open."""
        window = self._window(state)
        if of != Round(self.deployment, window.kind, window.number):
            raise PeerError(Fault.ORDER, "a round is given up that is not the one of the open window")
        ending = None if self.store.joint.stage(of) is None else Persist(of, Stage.BURNT, bytes(32))
        self._conclude(ending, None, state, steps, problem="this helper was restored from a copy")
        return []

    def _given_up(self, message: AnyMessage) -> GivenUp:
        return GivenUp(VERSION, message.round, self.identity.public, self.recommender)

    def _party_of(self, state: CampaignState, steps: CampaignSteps) -> Helper:
        window = self._window(state)
        task = steps.joint(state, window)
        if self._party is not None and self._party.task == task:
            return self._party
        party = Helper(
            task, identity=self.identity, box_key=self.store.joint.box_key(steps.campaign.charter.campaign),
            enrolled=self._people.at(window.entries), entropy=self.entropy(ENTROPY),
        )  # fmt: skip
        kept = self.store.joint.kept(task.round)
        self._do(party.begin() if kept is None else party.restore(kept), state, steps)
        self._party = party
        return party

    def _do(self, actions: Sequence[Action], state: CampaignState, steps: CampaignSteps) -> list[AnyMessage]:
        """Write, then answer."""
        said, ending, opened, problem = list[AnyMessage](), None, None, ""
        for action in actions:
            match action:
                case Persist(stage=stage) if stage in FINAL:
                    ending = action
                case Persist():
                    self.store.joint.write(action)
                case Settle():
                    self.store.joint.settle(action)
                case Send(message):
                    said.append(message)
                case Finished():
                    opened = action
                case Aborted(error):
                    problem = str(error)
        if ending is not None:
            self._conclude(ending, opened, state, steps, problem=problem)
        return said

    def _conclude(
        self, ending: Persist | None, opened: Finished | None, state: CampaignState, steps: CampaignSteps, *,
        problem: str,
    ) -> None:  # fmt: skip
        """Write what follows from the sum with the fact that it was opened, and which entries the log must have."""
        following = steps.after_window(state, opened)
        owed = tuple(Owed(subject, documents[-1][0]) for subject, documents in following.entries)
        reports = 0 if opened is None else opened.summands
        past = PhaseOutcome(state.phase, state.iteration, opened is not None, reports, reports, problem)
        self.store.advance(
            progress=encode(rules.with_outcome(rules.replaced(following.state, owed=owed), past)),
            documents=[one for _, documents in following.entries for one in documents],
            joint=[] if ending is None else [ending],
        )
        self._party = None
        self.tell(HelperEvent("ended", state.phase, state.iteration, past.opened, reports, problem))

    def _end_rounds(self) -> None:
        """Give up what an ended campaign has left open: nothing of it is opened any more."""
        self._party = None
        for one in self.store.joint.under_way():
            self.store.joint.write(Persist(one, Stage.BURNT, bytes(32)))

    def _state(self) -> CampaignState | None:
        held = self.store.progress()
        state = None if held is None else rules.decode_state(held)
        if state is None or state.ended or not state.window:
            return state
        window = self._window(state)
        if self.store.joint.stage(Round(self.deployment, window.kind, window.number)) is not Stage.BURNT:
            return state
        # after a conflict, which has burnt the round
        self._conclude(
            None, None, state, CampaignSteps.of(state, self._fetch), problem="this operator has burnt the round"
        )
        return self._state()

    def _window(self, state: CampaignState) -> Window:
        return read(Window, self._fetch(state.window), name=state.window)


def _demand(good: bool, problem: str) -> None:  # noqa: FBT001  a condition
    if not good:
        raise PeerError(Fault.EQUIVOCATION, f"{problem}; the helper does not sign it")
