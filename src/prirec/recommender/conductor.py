"""The conductor: the worker that holds the lease invites devices, feeds their messages to a collector, and opens sums.

A collector's keys live only in the memory of one conductor. When that process dies, whichever worker takes the lease
next finds rounds that were begun and not finished, and burns them; a sum counts as opened only together with everything
that follows from it, in one transaction. So each round is finished or burnt, and never half done. A conductor that lost
its lease without noticing finds its rounds burnt and the campaign further on than it knew: all that it would write is
refused. While the store is away a conductor waits for it, with all that it has in memory.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from os import urandom
from threading import Event, Thread
from time import monotonic, time
from typing import TYPE_CHECKING, Self, TypeAlias

from prirec.errors import PassingError, PeerError, PrirecError, StateError
from prirec.protocols import roster
from prirec.protocols.codec import decode, encode
from prirec.protocols.journal import ConflictError
from prirec.protocols.messages import AnyMessage, Invitation, Participants, Round
from prirec.protocols.party import Aborted, Action, Blame, Finished, Persist, Send, Stage, State
from prirec.protocols.secure_sum import Collector
from prirec.protocols.terms import noise_bound
from prirec.recommender import campaign as rules
from prirec.recommender import operator
from prirec.recommender.campaign import CampaignState, CampaignSteps, NextState, PhaseOutcome
from prirec.recommender.store import LeaseLostError, OvertakenError, Store
from prirec.wire.http import QueuedMessage

if TYPE_CHECKING:
    from prirec.recommender.joint_conductor import JointConductor

# told of receivers, each with a message that is on disk for it
WakePollers: TypeAlias = Callable[[Sequence[tuple[bytes, QueuedMessage]]], None]

# How long a campaign stands still after its conductor was killed. A third of it is between two renewals, so a renewal
# may fail twice before another worker takes over.
LEASE_SECONDS = 15.0
BATCH_BYTES = 4 * 2**20  # of messages in one transaction: no device can post meanwhile
# Seconds between two looks at the store without and with a sum under way. Messages that are posted to this worker wake
# the conductor at once; looks are for what was posted to other workers, of which it is not told.
IDLE, BUSY = 0.5, 0.02
LONGEST_PAUSE = 10.0  # seconds until a store that was away is tried again
STOPPED = "the recommender was stopped while this sum was under way"
_BATCH = 200  # posted messages that are read at once: few in memory beside their sum


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a step waits for devices that are still missing, in seconds. To join a round, devices must come online;
    once they are in, each step takes them seconds."""

    coming: float = 300.0  # as long as an agent pauses at most (device/agent.py): who can come has come by then
    step: float = 30.0


@dataclass(frozen=True, slots=True)
class ConductorEvent:
    """An event for the service's log: counts, and texts of the program's own."""

    event: str
    kind: str = ""
    iteration: int = 0
    opened: bool = False
    survivors: int = 0
    rostered: int = 0
    refused: int = 0
    device: str = ""  # the name of one that broke the protocol, for certain: what it was enrolled under
    problem: str = ""
    passing: bool = False  # the problem is that the store is away


class Conductor:
    """Runs the sums of a deployment's campaign as long as the lease is held; `tick` is called again and again."""

    def __init__(
        self,
        store: Store,
        *,
        holder: bytes | None = None,
        pace: Pace | None = None,
        clock: Callable[[], float] = monotonic,
        entropy: Callable[[int], bytes] = urandom,
        tell: Callable[[ConductorEvent], None] = lambda event: None,
        wake: WakePollers = lambda queued: None,
    ) -> None:
        self.store, self.pace, self.clock, self.entropy, self.tell = store, pace or Pace(), clock, entropy, tell
        self.holder = holder  # of the lease, under which everything is written
        self.sum: OpenSum | None = None  # under way: the one of the campaign's phase
        self._outbox = Outbox(store, holder=self.holder, wake=wake)
        self._changes = 0  # of the campaign state, that were seen
        self._written: bytes | None = None  # the campaign state in the store
        self._state: CampaignState | None = None  # the campaign state in the store, decoded
        self._begun: bytes | None = None  # the campaign state when the sum was begun
        self._steps: CampaignSteps | None = None
        self._read_up_to = 0  # number of the last posted message that was read

    @property
    def pause(self) -> float:
        """Seconds until the next look at the store."""
        return IDLE if self.sum is None else BUSY

    def take_over(self) -> None:
        """Burn the rounds that another conductor, or this one before a restart, left open; the campaign goes on
        without them. Their keys are gone, so nobody can finish them."""
        left, progress = self.store.open_rounds(), self._progress()
        if not left:
            return
        burnt = [Persist(one, Stage.BURNT, bytes(32)) for one in left]
        if progress is None:  # the campaign was ended when they had just been begun
            self.store.advance(progress=None, persists=burnt, over=left, holder=self.holder)
            return
        # Where participants were named, vectors were masked, and that conductor may have opened the sum. The rounds
        # left open are the ones entered last.
        masked = any(one.masked for one in self.store.rounds(len(left)))
        past = PhaseOutcome(progress.phase, progress.iteration, opened=False, survivors=0, rostered=0, problem=STOPPED)
        following = self._on(progress).after(
            progress, None, rostered=0, masked=masked, participants=self.store.participants()
        )
        self._write(following, persists=burnt, over=left, past=past)
        self.tell(ConductorEvent("burnt", progress.phase, progress.iteration, rostered=len(left)))

    def tick(self) -> bool:
        """Process all posted messages and advance the sum; True if anything happened.

        OvertakenError or LeaseLostError: this conductor must be given up. After another StateError the next tick tries
        the same again."""
        now, progress = self.clock(), self._progress()
        if self.sum is not None and self._written != self._begun:
            raise OvertakenError
        if progress is None:
            return False
        if self.sum is None:
            self._begin(progress)
            return True
        # All messages posted before `now` are read before anybody is counted as late.
        moved = self._read_posted(self.sum) > 0
        moved |= self.sum.move(now=now)
        self._name_the_blamed(self.sum, progress)
        self._carry_out(self.sum)
        if self.sum.over:
            self._conclude(self.sum, progress)
            moved = True
        return moved

    def _progress(self) -> CampaignState | None:
        """State of the campaign that is under way, decoded only when it has changed: it can be megabytes, and is looked
        at many times a second."""
        self._changes, found = self.store.progress_since(self._changes)
        if found is not None:
            self._written, self._state = found, rules.decode_state(found)
        return None if self._state is None or self._state.ended else self._state

    def _on(self, progress: CampaignState) -> CampaignSteps:
        if self._steps is None or not self._steps.holds(progress):
            self._steps = CampaignSteps.of(progress, partial(operator.own_document, self.store))
        return self._steps

    def _begin(self, progress: CampaignState) -> None:
        """Send invitations for the sum of a phase, but not to devices that have left the deployment since."""
        here, (task, names) = set(self.store.people()), self._on(progress).sum(progress)
        self._begun = self._written
        collector = Collector(task, identity=self.store.founding().key, entropy=self.entropy(roster.COLLECTOR_ENTROPY))
        self.sum = OpenSum(collector, pace=self.pace)
        members = [name for name in names if name in here]
        self.sum.begin(members)
        self._carry_out(self.sum)
        self.tell(ConductorEvent("begun", progress.phase, progress.iteration, rostered=len(members)))

    def _read_posted(self, under_way: "OpenSum") -> int:
        """Feed the sum all posted messages that are new, in the order in which they were posted; how many there
        were."""
        count = 0
        while posted := self.store.incoming(self._read_up_to, _BATCH):  # may be fewer than _BATCH, and not the last
            self._read_up_to = posted[-1][0]
            count += len(posted)
            messages = list[AnyMessage]()
            for _, body in posted:
                with suppress(PeerError):  # the service takes none that does not decode
                    messages.append(decode(body))
            under_way.receive(message for message in messages if message.round == under_way.round)
        return count

    def _carry_out(self, under_way: "OpenSum") -> None:
        """Write and send what the collector asks for; from then on devices have the time of a step to answer."""
        self._outbox.put(*under_way.take())
        self._outbox.empty()
        under_way.sent(now=self.clock())

    def _name_the_blamed(self, under_way: "OpenSum", progress: CampaignState) -> None:
        """Write down who broke the protocol, for the operator, and log it."""
        blames = list(under_way.blames)
        if not blames:
            return
        self.store.blame([(blame.name, under_way.round, blame.why) for blame in blames], holder=self.holder)
        under_way.blames.clear()  # after an error they are written at the next tick
        for blame in blames:
            self.tell(
                ConductorEvent("blamed", progress.phase, progress.iteration, device=blame.name.hex(), problem=blame.why)
            )

    def _conclude(self, ended: "OpenSum", progress: CampaignState) -> None:
        """Write everything that follows from the sum, at once."""
        named, found = list(ended.collector.participants), ended.opened
        following = self._on(progress).after(
            progress, found, rostered=ended.rostered, masked=bool(named), participants=named
        )
        survivors = 0 if found is None else found.summands
        past = PhaseOutcome(
            progress.phase, progress.iteration, found is not None, survivors, ended.rostered, ended.problem
        )
        persists = [] if ended.ending is None else [ended.ending]
        self._write(following, persists=persists, over=[ended.round], past=past)
        self.sum = None
        self.tell(
            ConductorEvent(
                "ended", past.kind, past.iteration, past.opened, survivors, ended.rostered, ended.refused,
                problem=ended.problem,
            )
        )  # fmt: skip

    def _write(self, following: NextState, *, persists: list[Persist], over: list[Round], past: PhaseOutcome) -> None:
        named = [(subject, documents[-1][0]) for subject, documents in following.entries]
        self.store.advance(
            progress=encode(rules.with_outcome(following.state, past)),
            before=self._written,
            entries=operator.sign_entries(self.store.founding(), named),
            documents=[one for _, documents in following.entries for one in documents],
            persists=persists,
            over=over,
            holder=self.holder,
        )


class OpenSum:
    """One sum under way: a collector, and how long its steps wait. It has no clock: `now` is an argument."""

    def __init__(self, collector: Collector, *, pace: Pace) -> None:
        self.collector, self.pace = collector, pace
        self.sends: list[Send] = []
        self.persists: list[Persist] = []  # to be written before the messages are sent
        self.ending: Persist | None = None  # opened or burnt: to be written with what follows from it
        self.opened: Finished | None = None
        self.refused = 0
        self.rostered = 0
        self.blames: list[Blame] = []  # who broke the protocol, for certain, and is not written down yet
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

    def receive(self, messages: Iterable[AnyMessage]) -> None:
        """Feed the collector; a message that it refuses is counted and dropped, so that one device's garbage costs
        nobody else the round."""
        for message in messages:
            try:
                self._do(self.collector.receive(message))
            except PeerError:
                self.refused += 1

    def move(self, *, now: float) -> bool:
        """Go on to the next step where nobody is missing, or the time is over; whether that happened. All messages
        posted before `now` must have been received."""
        if self.over or (self.collector.waiting and now < self._until):
            return False
        self._do(self.collector.advance())
        self.rostered = max(self.rostered, self.collector.size)
        self._time, self._until = self.pace.step, inf
        return True

    def sent(self, *, now: float) -> None:
        """To be called when the messages are on disk: from now on their receivers have the time of a step."""
        self._until = min(self._until, now + self._time)

    def take(self) -> tuple[list[Persist], list[Send]]:
        """Remove and return what is to be written, and the messages to be sent after it."""
        taken = self.persists, self.sends
        self.persists, self.sends = [], []
        return taken

    def _do(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case Persist(stage=Stage.OPENED | Stage.BURNT):
                    self.ending = action
                case Persist():
                    self.persists.append(action)
                case Send():
                    self.sends.append(action)
                case Finished():
                    self._accept(action)
                case Blame():
                    self.blames.append(action)
                case Aborted():
                    self.problem = str(action.error)

    def _accept(self, found: Finished) -> None:
        """A sum with an entry larger than all survivors together can make it, with noise, has a dishonest vector in it,
        and is burnt: used, it would wreck the model. Within that bound a member can still add what it likes
        (docs/limitations.md). A mean is not clipped to the norm of one contribution: with honest noise in it, it may be
        longer."""
        terms, size = self.collector.task.terms, self.collector.size
        most = found.summands * terms.bound + noise_bound(terms, size)
        signed = found.total.view(f"i{found.total.itemsize}")
        if -most <= int(signed.min()) and int(signed.max()) <= most:
            self.opened = found
        else:
            self.ending = Persist(self.round, Stage.BURNT, bytes(32))
            self.problem = "the opened sum is larger than its members could make it; it is not used"


class Outbox:
    """What is still to be written and sent, in batches. What could not be written stays here until it is. Messages that
    are on disk are passed on to long polls of this process (`wake`), which then need not read them."""

    def __init__(
        self, store: Store, *, holder: bytes | None, wake: WakePollers = lambda queued: None, batch: int = BATCH_BYTES
    ) -> None:
        self._store, self._holder, self._wake, self._most = store, holder, wake, batch
        self._persists: list[Persist] = []
        self._messages: deque[AnyMessage] = deque()

    def put(self, persists: Sequence[Persist], sends: Sequence[Send]) -> None:
        self._persists += persists
        self._messages += (send.message for send in sends)

    def empty(self) -> None:
        """Write and send everything: first what must be written, then what is sent; with an invitation, that its
        receiver may post messages; and with the participants of a round, that they may mask vectors from now on.
        After an error, what was written is gone from here, and the rest is not."""
        while self._persists or self._messages:
            batch = self._next_batch()
            queued = [(message.receiver, message.round, body) for message, body in batch]
            first = self._store.deliver(
                queued,
                persists=self._persists,
                inviting=[(message.receiver, message.round) for message, _ in batch if isinstance(message, Invitation)],
                masking=[
                    (message.receiver, message.round) for message, _ in batch if isinstance(message, Participants)
                ],
                holder=self._holder,
            )
            self._persists = []
            for _ in batch:
                self._messages.popleft()
            self._wake([(to, QueuedMessage(at, body)) for at, (to, _, body) in enumerate(queued, first)])

    def _next_batch(self) -> list[tuple[AnyMessage, bytes]]:
        batch, size = list[tuple[AnyMessage, bytes]](), 0
        for message in self._messages:
            body = encode(message)
            size += len(body)
            if batch and size > self._most:
                break
            batch.append((message, body))
        return batch


# The conductor loop


def conduct(
    store: Store, stop: Event, *, came: Event, wake: WakePollers = lambda queued: None,
    failed: Callable[[], None] = lambda: None, pace: Pace | None = None,
    tell: Callable[[ConductorEvent], None] = lambda event: None, lease: float = LEASE_SECONDS,
    clock: Callable[[], float] = time,
) -> None:  # fmt: skip
    """Conduct whenever this worker holds the lease, until `stop` is set. `came` is set to make it look at the store at
    once: after `stop`, or because messages were posted here. `wake` wakes long polls; `failed` counts failures."""
    conductor: Conductor | JointConductor | None = None
    pause, troubled = 0.0, False
    making = _maker(store, pace=pace, tell=tell, wake=wake, clock=clock)
    with making as made, Lease(store, seconds=lease) as right:
        while not (stop.wait(pause) if troubled else wait_for_work(stop, came, pause)):
            moved = troubled = False
            try:
                if not right.held():
                    conductor = None
                elif conductor is None:
                    new = made(right.holder)
                    new.take_over()
                    conductor = new
                moved = conductor is not None and conductor.tick()
                pause = 0.0 if moved else IDLE if conductor is None else conductor.pause
            except PrirecError as problem:
                if not _is_temporary(problem):
                    conductor = None
                    right.recheck()
                passing = isinstance(problem, PassingError)
                tell(ConductorEvent("lost" if conductor is None else "waiting", problem=str(problem), passing=passing))
                failed()
                troubled = True  # messages that come meanwhile would only meet the same trouble
                pause = min(max(2 * pause, IDLE), LONGEST_PAUSE)
            if moved:
                wake(())


@contextmanager
def _maker(
    store: Store,
    *,
    pace: Pace | None,
    tell: Callable[[ConductorEvent], None],
    wake: WakePollers,
    clock: Callable[[], float],
) -> Iterator[Callable[[bytes], "Conductor | JointConductor"]]:
    """Makes the conductors of a deployment, each for the holder of a lease: with a helper, of windows."""
    founding = store.founding()
    if founding.peer is None:
        yield lambda holder: Conductor(store, holder=holder, pace=pace, tell=tell, wake=wake)
        return
    from prirec.recommender.joint_conductor import JointConductor
    from prirec.recommender.peer import HttpsLine, Peer

    with closing(HttpsLine(founding)) as line:
        yield lambda holder: JointConductor(
            store, Peer(store, line, clock=clock), holder=holder, tell=tell, clock=clock
        )


def wait_for_work(stop: Event, came: Event, seconds: float) -> bool:
    """Wait for so many seconds, or until `came` is set; True if `stop` is set."""
    came.wait(seconds)
    came.clear()  # before looking at `stop`: whoever sets both, `stop` first, is not missed
    return stop.is_set()


def _is_temporary(problem: PrirecError) -> bool:
    """A full disk or an absent database comes back; a campaign that another worker has gone on with does not."""
    return isinstance(problem, StateError) and not isinstance(problem, LeaseLostError | OvertakenError | ConflictError)


class Lease:
    """The lease of the one worker that conducts. A thread renews it: opening one sum may take longer than it lasts.

    The thread only renews; only `held` takes the lease. So a conductor that lost it finds out, even if it could have it
    back: another worker has burnt its rounds meanwhile."""

    def __init__(self, store: Store, *, seconds: float = LEASE_SECONDS) -> None:
        self._store, self._seconds, self.holder = store, seconds, urandom(16)
        self._have, self._ended, self._next = Event(), Event(), -seconds
        self._renewing = Thread(target=self._renew, name="lease", daemon=True)

    def __enter__(self) -> Self:
        self._renewing.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._renewing.join()
        with suppress(PrirecError):  # it expires by itself
            self._store.release(self.holder)

    def held(self) -> bool:
        """Whether this worker holds the lease; takes it if it is free, which is asked of the store now and then."""
        if not self._have.is_set() and monotonic() >= self._next:
            self._next = monotonic() + self._seconds / 3
            if self._store.lease(self.holder, self._seconds):
                self._have.set()
        return self._have.is_set()

    def recheck(self) -> None:
        """Ask the store before the lease is used again: a write was refused that a holder could have made."""
        self._have.clear()
        self._next = -self._seconds

    def _renew(self) -> None:
        while not self._ended.wait(self._seconds / 3):
            with suppress(PrirecError):  # while the store is away nobody else can take the lease either
                if self._have.is_set() and not self._store.lease(self.holder, self._seconds):
                    self._have.clear()
