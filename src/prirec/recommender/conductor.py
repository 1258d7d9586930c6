"""What a conductor has to write down and to send, in portions; what could not be written stays until it is. Letters
that are on disk go on to whoever has their receivers waiting in this process, who need not read them from there."""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from os import urandom
from threading import Event, Thread
from time import monotonic
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeAlias

from prirec.errors import PeerError, PrirecError, StateError
from prirec.protocols import meeting, noise
from prirec.protocols.actions import Aborted, Action, Finished, Persist, Send, Stage
from prirec.protocols.codec import decode, encode
from prirec.protocols.collector import Collector
from prirec.protocols.journal import ConflictError
from prirec.protocols.messages import AnyMessage, Delivery, Invitation, Round
from prirec.protocols.moves import State
from prirec.recommender import campaign as rules
from prirec.recommender import operator
from prirec.recommender.campaign import Course, Following, Past, Progress
from prirec.recommender.store import LeaseLostError, OvertakenError, Store
from prirec.sharing.keys import SigningKey
from prirec.wire.http import Letter

WakePollers: TypeAlias = Callable[
    [Sequence[tuple[bytes, Letter]]], None
]  # receivers and their letters, which are on disk
BATCH_BYTES = 4 * 2**20  # bytes of letters in one transaction: nobody else can write meanwhile


@dataclass(slots=True)
class _Batch:
    letters: list[tuple[bytes, Round, bytes]] = field(default_factory=list)
    inviting: list[tuple[bytes, Round]] = field(default_factory=list)
    masking: set[Round] = field(default_factory=set)

    def add(self, message: AnyMessage, body: bytes) -> None:
        self.letters.append((message.receiver, message.round, body))
        if isinstance(message, Invitation):
            self.inviting.append((message.receiver, message.round))
        elif isinstance(message, Delivery):
            self.masking.add(message.round)


class Outbox:
    def __init__(
        self,
        store: Store,
        *,
        holder: bytes | None,
        wake: WakePollers = lambda letters: None,
        portion: int = BATCH_BYTES,
    ) -> None:
        self._store, self._holder, self._wake, self._most = store, holder, wake, portion
        self._persists: list[Persist] = []
        self._messages: deque[AnyMessage] = deque()

    def put(self, persists: Sequence[Persist], sends: Sequence[Send]) -> None:
        self._persists += persists
        self._messages += (send.message for send in sends)

    def empty(self) -> None:
        """First what must be written, then what is sent; with an invitation, that its receiver may hand in messages;
        and with the first boxes of a round, that vectors may be masked in it from now on. After an error what was
        written is gone from here, and the rest is not."""
        while self._persists or self._messages:
            portion = self._portion()
            first = self._store.deliver(
                portion.letters, persists=self._persists, inviting=portion.inviting, masking=portion.masking,
                holder=self._holder,
            )  # fmt: skip
            self._persists = []
            for _ in portion.letters:
                self._messages.popleft()
            self._wake([(to, Letter(at, body)) for at, (to, _, body) in enumerate(portion.letters, first)])

    def _portion(self) -> _Batch:
        portion, size = _Batch(), 0
        for message in self._messages:
            body = encode(message)
            size += len(body)
            if portion.letters and size > self._most:
                break
            portion.add(message, body)
        return portion


# One sum under way: a collector, the time that its steps are given, and what its result may be.


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a step waits for those who are still to come, in seconds. Devices come when they are online; once they
    are in, each step takes them seconds."""

    coming: float = 300.0
    step: float = 30.0


class OpenSum:
    """Feeds a collector and does not believe in clocks: `now` is an argument."""

    def __init__(self, collector: Collector, *, pace: Pace) -> None:
        self.collector, self.pace = collector, pace
        self.letters: list[Send] = []
        self.persists: list[Persist] = []  # to be written before the letters go out
        self.ending: Persist | None = None  # opened or burnt: to be written with what follows from it
        self.opened: Finished | None = None
        self.refused = 0
        self.rostered = 0
        self.delivered = False  # whether anybody may have masked a vector
        self.problem = ""
        self._time, self._until = pace.coming, inf

    @property
    def round(self) -> Round:
        return self.collector.round

    @property
    def over(self) -> bool:
        return self.collector.state in (State.DONE, State.BURNT)

    def begin(self, names: Collection[bytes]) -> None:
        self._do(self.collector.invite(names))

    def hear_all(self, messages: Iterable[AnyMessage]) -> None:
        for message in messages:
            self.hear(message)

    def hear(self, message: AnyMessage) -> None:
        """What a device handed in; what does not belong is counted and forgotten."""
        try:
            self._do(self.collector.receive(message))
        except PeerError:
            self.refused += 1

    def move(self, *, now: float) -> bool:
        """Goes on where nobody is missing, or the time is over: all that came until `now` has been heard. Whether
        anything happened."""
        if self.over or (self.collector.waiting and now < self._until):
            return False
        self._do(self.collector.advance())
        self.delivered |= self.collector.state is State.VECTORS
        self.rostered = max(self.rostered, self.collector.size)
        self._time, self._until = self.pace.step, inf
        return True

    def sent(self, *, now: float) -> None:
        """The letters are out: from now on those who got one have their time."""
        self._until = min(self._until, now + self._time)

    def take(self) -> tuple[list[Persist], list[Send]]:
        """What is to be written, and then sent."""
        taken = self.persists, self.letters
        self.persists, self.letters = [], []
        return taken

    def _do(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case Persist(stage=Stage.OPENED | Stage.BURNT):
                    self.ending = action
                case Persist():
                    self.persists.append(action)
                case Send():
                    self.letters.append(action)
                case Finished():
                    self._take(action)
                case Aborted():
                    self.problem = str(action.error)

    def _take(self, found: Finished) -> None:
        """A sum in which an entry is larger than all survivors together may make it, with noise, is none of honest
        vectors: it is given up. Within that a member can still add what it likes (docs/limitations.md). A mean is not
        clipped to the length of one contribution: with honest noise in it, it may be longer."""
        terms, size = self.collector.task.terms, self.collector.size
        most = found.summands * terms.bound + noise.room(terms, size)
        signed = found.total.view(f"i{found.total.itemsize}")
        if -most <= int(signed.min()) and int(signed.max()) <= most:
            self.opened = found
        else:
            self.ending = Persist(self.round, Stage.BURNT, bytes(32))
            self.problem = "the opened sum is larger than its members could make it; it is not used"


# The right to conduct, kept while it is used.


LEASE_SECONDS = 15.0  # seconds for which a conductor has the word; it asks again in time


class Lease:
    """Renewed by a thread of its own: to open one sum may take longer than it lasts. Only whoever asks `held` takes it,
    so that a conductor that lost it hears of that, even if it could have it back."""

    def __init__(self, store: Store, *, seconds: float = LEASE_SECONDS) -> None:
        self._store, self._seconds, self.holder = store, seconds, urandom(16)
        self._have, self._ended, self._next = Event(), Event(), -seconds
        self._renewing = Thread(target=self._renew, name="lease", daemon=True)

    def __enter__(self) -> Self:
        self._renewing.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._renewing.join()
        with suppress(PrirecError):  # it runs out by itself
            self._store.release(self.holder)

    def held(self) -> bool:
        """Takes it if it is free; asks now and then."""
        if not self._have.is_set() and monotonic() >= self._next:
            self._next = monotonic() + self._seconds / 3
            if self._store.lease(self.holder, self._seconds):
                self._have.set()
        return self._have.is_set()

    def doubt(self) -> None:
        """Something happened that would not have, had it been held: ask before it is used again."""
        self._have.clear()
        self._next = -self._seconds

    def _renew(self) -> None:
        while not self._ended.wait(self._seconds / 3):
            with suppress(PrirecError):  # the store is away: it is held until somebody else takes it
                if self._have.is_set() and not self._store.lease(self.holder, self._seconds):
                    self._have.clear()


# Whoever holds the lease conducts: it invites, hears what devices handed in, and opens sums.
#
# A collector's keys live in the memory of one conductor. When that dies, whoever takes the lease finds rounds that were
# begun and not finished, and burns them; a sum counts as opened only together with what follows from it, in one
# transaction. So each round is finished or burnt, and never wrong. A conductor that lost its lease without noticing
# finds its rounds burnt and the campaign further than it knew: what it would write is refused, all of it. While the
# store is away a conductor waits for it, with all that it has in memory.


_BATCH = 200  # messages in memory at once, as they were handed in


@dataclass(frozen=True, slots=True)
class ConductorEvent:
    """What a conductor says about itself: numbers, and words of its own."""

    event: str
    kind: str = ""
    iteration: int = 0
    opened: int = 0
    survivors: int = 0
    rostered: int = 0
    refused: int = 0
    problem: str = ""


class ParallelMap(Protocol):
    """`map`, or one that has threads: sums know nothing of each other, and signatures are checked outside the GIL."""

    def __call__(self, task: Callable[[Round], None], of: Iterable[Round], /) -> Iterable[None]: ...


class Conductor:
    """The rounds of one deployment, as long as the lease is held. `tick` does what can be done now."""

    def __init__(
        self,
        store: Store,
        *,
        holder: bytes | None = None,
        pace: Pace | None = None,
        clock: Callable[[], float] = monotonic,
        entropy: Callable[[int], bytes] = urandom,
        tell: Callable[[ConductorEvent], None] = lambda told: None,
        wake: WakePollers = lambda letters: None,
        side_by_side: ParallelMap = map,
    ) -> None:
        self.store, self.pace, self.clock, self.entropy, self.tell = store, pace or Pace(), clock, entropy, tell
        self.holder = holder  # of the lease: without it nothing is written
        self._founding = store.founding()
        self.identity = SigningKey(self._founding.identity)
        self.gatherings: dict[Round, OpenSum] = {}
        self._side_by_side = side_by_side
        self._outbox = Outbox(store, holder=self.holder, wake=wake)
        self._changes = 0  # of the progress, that were seen
        self._written: bytes | None = None  # where the campaign is, by the store
        self._read: Progress | None = None  # the same, read
        self._begun: bytes | None = None  # where it was when the gatherings were begun
        self._course: Course | None = None
        self._heard = 0  # the last message that was looked at

    def take_over(self) -> None:
        """What somebody else, or an earlier life, has left undone is burnt, and the campaign goes on without it."""
        left, progress = self.store.open_rounds(), self._progress()
        if not left:
            return
        burnt = [Persist(one, Stage.BURNT, bytes(32)) for one in left]
        if progress is None:  # the campaign was ended when they had just been begun
            self.store.advance(progress=None, persists=burnt, over=left, holder=self.holder)
            return
        masked = any(one.masked for one in self.store.rounds(len(left)))  # those left are the ones entered last
        past = Past(progress.phase, progress.iteration, 0, len(left), 0, 0)
        self._write(self._on(progress).interrupted(progress, masked=masked), persists=burnt, over=left, past=past)
        self.tell(ConductorEvent("burnt", progress.phase, progress.iteration, rostered=len(left)))

    def tick(self) -> bool:
        """One look at the clock, and at all that came until then. Whether anything happened. OvertakenError or
        LeaseLostError if this conductor is to be given up; after another StateError the next tick tries the same."""
        now, progress = self.clock(), self._progress()
        if self.gatherings and self._written != self._begun:
            raise OvertakenError
        if progress is None:
            return False
        if not self.gatherings:
            self._begin(progress)
            return True
        moved = self._hear() > 0
        for gathering in self.gatherings.values():
            moved |= gathering.move(now=now)
        self._carry_out()
        if all(gathering.over for gathering in self.gatherings.values()):
            self._conclude(progress)
            moved = True
        return moved

    def _progress(self) -> Progress | None:
        """Of a campaign that is under way. It can be megabytes, and is looked at many times a second: it is read only
        when it has changed."""
        self._changes, found = self.store.progress_since(self._changes)
        if found is not None:
            self._written, self._read = found, rules.read_progress(found)
        return None if self._read is None or self._read.ended else self._read

    def _on(self, progress: Progress) -> Course:
        if self._course is None or not self._course.holds(progress):
            self._course = Course.of(progress, partial(operator.own_document, self.store))
        return self._course

    def _begin(self, progress: Progress) -> None:
        """Invitations for all sums of a phase. Who has left the deployment since is not invited."""
        here, sums, invited = {line.name for line in self.store.people()}, self._on(progress).sums(progress), 0
        self._begun = self._written
        for task, names in sums:
            collector = Collector(task, identity=self.identity, entropy=self.entropy(meeting.COLLECTOR_ENTROPY))
            self.gatherings[task.round] = gathering = OpenSum(collector, pace=self.pace)
            members = [name for name in names if name in here]
            gathering.begin(members)
            invited += len(members)
        self._carry_out()
        self.tell(ConductorEvent("begun", progress.phase, progress.iteration, rostered=invited))

    def _hear(self) -> int:
        """All that has come: only then is anybody late."""
        heard = 0
        while came := self.store.incoming(self._heard, _BATCH):  # of large ones fewer come at once than were asked for
            self._heard = came[-1][0]
            self._tell(body for _, body in came)
            heard += len(came)
        return heard

    def _tell(self, bodies: Iterable[bytes]) -> None:
        """Each sum its own messages, in the order in which they came."""
        told = dict[Round, list[AnyMessage]]()
        for body in bodies:
            with suppress(PeerError):  # the service takes none that does not decode
                message = decode(body)
                told.setdefault(message.round, []).append(message)
        known = [of for of in told if of in self.gatherings]
        deque(self._side_by_side(lambda of: self.gatherings[of].hear_all(told[of]), known), maxlen=0)

    def _carry_out(self) -> None:
        for gathering in self.gatherings.values():
            self._outbox.put(*gathering.take())
        self._outbox.empty()
        for gathering in self.gatherings.values():
            gathering.sent(now=self.clock())

    def _conclude(self, progress: Progress) -> None:
        """Everything that follows from the sums that were opened, at once."""
        gatherings = list(self.gatherings.values())
        opened = {one.round.group: one.opened for one in gatherings if one.opened is not None}
        rostered = sum(one.rostered for one in gatherings)
        following = self._on(progress).after(
            progress, opened, rostered=rostered, masked=any(one.delivered for one in gatherings)
        )
        summed = sum(one.summands for one in opened.values())
        past = Past(progress.phase, progress.iteration, len(opened), len(gatherings), summed, rostered)
        persists = [one.ending for one in gatherings if one.ending is not None]
        self._write(following, persists=persists, over=list(self.gatherings), past=past)
        self.gatherings.clear()
        problem = next((one.problem for one in gatherings if one.problem), "")
        refused = sum(one.refused for one in gatherings)
        self.tell(
            ConductorEvent("ended", past.kind, past.iteration, past.opened, summed, rostered, refused, problem)
        )  # fmt: skip

    def _write(
        self, following: Following, *, persists: list[Persist], over: list[Round], past: Past | None = None
    ) -> None:  # fmt: skip
        said = [(step.subject, step.documents[-1][0]) for step in following.steps]
        progress = following.progress if past is None else rules.noted(following.progress, past)
        self.store.advance(
            progress=encode(progress),
            before=self._written,
            entries=operator.sign_entries(self._founding, said),
            documents=[one for step in following.steps for one in step.documents],
            persists=persists,
            over=over,
            holder=self.holder,
        )


# A conductor at work: for as long as the lease is held, it looks at the store whenever something may have come.


COLLECTOR_THREADS: Final = 4  # threads, for as many sums at once
IDLE, BUSY = 0.5, 0.02  # seconds between two looks at the store, for what came to other workers
LONGEST_PAUSE = 10.0  # seconds until a store that was away is looked for again


def conduct(
    store: Store, stop: Event, *, came: Event, wake: WakePollers = lambda letters: None,
    failed: Callable[[], None] = lambda: None, pace: Pace | None = None,
    tell: Callable[[ConductorEvent], None] = lambda told: None, lease: float = LEASE_SECONDS,
) -> None:  # fmt: skip
    """Conducts whenever it holds the lease, until it is told to stop; `came` is set when it is to look at once: after
    `stop`, or because messages were handed in here. `wake` tells those who wait of mail and news, and `failed` whoever
    counts that something could not be done."""
    conductor: Conductor | None = None
    pause, troubled = 0.0, False
    with (
        Lease(store, seconds=lease) as word,
        ThreadPoolExecutor(COLLECTOR_THREADS, thread_name_prefix="hearing") as pool,
    ):
        while not (stop.wait(pause) if troubled else wait_for_work(stop, came, pause)):
            moved = troubled = False
            try:
                held = word.held()
                conductor = (
                    conductor
                    or _take_over(store, holder=word.holder, pace=pace, tell=tell, wake=wake, side_by_side=pool.map)
                    if held
                    else None
                )
                moved = conductor is not None and conductor.tick()
                pause = 0.0 if moved else BUSY if conductor is not None and conductor.gatherings else IDLE
            except PrirecError as problem:
                if not _is_temporary(problem):
                    conductor = None
                    word.doubt()
                tell(ConductorEvent("lost" if conductor is None else "waiting", problem=str(problem)))
                failed()
                troubled = True  # what comes meanwhile would only meet the same trouble
                pause = min(max(2 * pause, IDLE), LONGEST_PAUSE)
            if moved:
                wake(())


def wait_for_work(stop: Event, came: Event, seconds: float) -> bool:
    """After as many seconds, or as soon as something came."""
    came.wait(seconds)
    came.clear()  # before looking: whoever sets both is not missed
    return stop.is_set()


def _take_over(store: Store, **given: Any) -> Conductor:
    conductor = Conductor(store, **given)
    conductor.take_over()
    return conductor


def _is_temporary(problem: PrirecError) -> bool:
    """A disk that is full or a database that is away comes back; a campaign that others have gone on with does not."""
    return isinstance(problem, StateError) and not isinstance(problem, LeaseLostError | OvertakenError | ConflictError)
