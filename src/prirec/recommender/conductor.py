"""Whoever holds the lease conducts: it invites, hears what devices handed in, and opens sums.

A collector's keys live in the memory of one conductor. When that dies, whoever takes the lease finds rounds that were
begun and not finished, and burns them; a sum counts as opened only together with what follows from it, in one
transaction. So each round is finished or burnt, and never wrong. A conductor that lost its lease without noticing finds
its rounds burnt and the log longer than it knew: what it would write is refused, all of it.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from os import urandom
from threading import Event
from time import monotonic

from prirec.errors import PeerError, PrirecError, StateError
from prirec.protocols import convener
from prirec.protocols.actions import Persist, Stage
from prirec.protocols.codec import decode, encode
from prirec.protocols.messages import Round
from prirec.protocols.secure_sum.collector import Collector
from prirec.recommender import progress as rules
from prirec.recommender.course import Course, Following
from prirec.recommender.gathering import Gathering, Pace
from prirec.recommender.progress import Past, Progress
from prirec.recommender.store import Store
from prirec.sharing.keys import SigningKey

LEASE = 15.0  # seconds for which a conductor has the word; it asks again in time
_BATCH = 2000  # messages heard between two looks at the clock
_IDLE, _BUSY = 0.5, 0.02  # seconds between two looks at the store


@dataclass(frozen=True, slots=True)
class Told:
    """What a conductor says about itself: numbers, and words of its own."""

    event: str
    kind: str = ""
    iteration: int = 0
    opened: int = 0
    survivors: int = 0
    rostered: int = 0
    refused: int = 0
    problem: str = ""


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
        tell: Callable[[Told], None] = lambda told: None,
    ) -> None:
        self.store, self.pace, self.clock, self.entropy, self.tell = store, pace or Pace(), clock, entropy, tell
        self.holder = holder  # of the lease: without it nothing is written
        founding = store.founding()
        self.identity, self.deployment = SigningKey(founding.identity), founding.deployment
        self.gatherings: dict[Round, Gathering] = {}
        self._begun: Progress | None = None  # where the campaign was when they were begun
        self._course: Course | None = None
        self._heard = 0  # the last message that was looked at

    def take_over(self) -> None:
        """What somebody else, or an earlier life, has left undone is burnt, and the campaign goes on without it."""
        self.gatherings.clear()
        left = self.store.open_rounds()
        progress = self._progress()
        if not left or progress is None:
            return
        settled = any(one.masked for one in self.store.rounds(len(left)))  # those left are the ones entered last
        burnt = [Persist(one, Stage.BURNT, bytes(32)) for one in left]
        past = Past(progress.phase, progress.iteration, 0, len(left), 0, 0)
        self._write(self._on(progress).interrupted(progress, settled=settled), persists=burnt, over=left, past=past)
        self.tell(Told("burnt", progress.phase, progress.iteration, rostered=len(left)))

    def tick(self) -> bool:
        """One look at what came in and at the clock. Whether anything happened. StateError if this conductor is to be
        given up: what it has begun was ended by another one, or cannot be written."""
        progress = self._progress()
        if self.gatherings and progress != self._begun:
            raise StateError("another worker has gone on with the campaign; what was begun here is given up")
        if progress is None:
            return False
        if not self.gatherings:
            self._begin(progress)
            return True
        moved = self._hear() > 0
        for gathering in self.gatherings.values():
            moved |= gathering.move(now=self.clock())
        self._carry_out()
        if all(gathering.over for gathering in self.gatherings.values()):
            self._conclude(progress)
            moved = True
        return moved

    def _progress(self) -> Progress | None:
        """Of a campaign that is under way."""
        found = self.store.progress()
        progress = None if found is None else rules.read(found)
        return None if progress is None or progress.phase in ("over", "failed") else progress

    def _on(self, progress: Progress) -> Course:
        if self._course is None or not self._course.holds(progress):
            self._course = Course.of(progress, self._document)
        return self._course

    def _document(self, name: bytes) -> bytes:
        body = self.store.document(name)
        if body is None:
            raise StateError("the store lacks a document that its own log names; restore it from a backup")
        return body

    def _begin(self, progress: Progress) -> None:
        """Invitations for all sums of a phase. Who has left the deployment since is not invited."""
        here, now, invited = {line.name for line in self.store.people()}, self.clock(), 0
        self._begun = progress
        for task, names in self._on(progress).sums(progress):
            collector = Collector(task, identity=self.identity, entropy=self.entropy(convener.ENTROPY))
            self.gatherings[task.round] = gathering = Gathering(collector, pace=self.pace)
            members = [name for name in names if name in here]
            gathering.begin(members, now=now)
            invited += len(members)
        self._carry_out()
        self.tell(Told("begun", progress.phase, progress.iteration, rostered=invited))

    def _hear(self) -> int:
        came = self.store.incoming(self._heard, _BATCH)
        for number, body in came:
            self._heard = number
            try:
                message = decode(body)
            except PeerError:
                continue  # the service takes none that does not decode
            if (gathering := self.gatherings.get(message.round)) is not None:
                gathering.hear(message)
        return len(came)

    def _carry_out(self) -> None:
        """First what must be written, then what is sent."""
        letters: list[tuple[bytes, Round, bytes]] = []
        persists: list[Persist] = []
        for gathering in self.gatherings.values():
            settled, sends = gathering.take()
            persists += settled
            letters += [(send.message.receiver, gathering.round, encode(send.message)) for send in sends]
        if letters or persists:
            self.store.deliver(letters, persists=persists, holder=self.holder)

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
            Told("ended", past.kind, past.iteration, past.opened, summed, rostered, refused, problem)
        )  # fmt: skip

    def _write(
        self, following: Following, *, persists: list[Persist], over: list[Round], past: Past | None = None
    ) -> None:  # fmt: skip
        head, entries = self.store.head(), []
        for step in following.steps:
            named = step.documents[-1][0]
            entries.append(head.signed(step.subject, named, deployment=self.deployment, identity=self.identity))
            head = head.after(entries[-1:], deployment=self.deployment, recommender=self.identity.public)
        progress = following.progress if past is None else rules.noted(following.progress, past)
        self.store.advance(
            progress=encode(progress),
            entries=entries,
            documents=[one for step in following.steps for one in step.documents],
            persists=persists,
            over=over,
            holder=self.holder,
        )


def conduct(
    store: Store, stop: Event, *, wake: Callable[[], None] = lambda: None, pace: Pace | None = None,
    tell: Callable[[Told], None] = lambda told: None,
) -> None:  # fmt: skip
    """Conducts whenever it holds the lease, until it is told to stop; `wake` tells who waits that there is mail."""
    holder, conductor, renewed = urandom(16), None, -LEASE
    while not stop.is_set():
        moved = False
        try:
            if monotonic() - renewed > LEASE / 3:
                renewed = monotonic()
                held = store.lease(holder, LEASE)
                if held and conductor is None:
                    conductor = Conductor(store, holder=holder, pace=pace, tell=tell)
                    conductor.take_over()
                conductor = conductor if held else None
            moved = conductor is not None and conductor.tick()
        except PrirecError as problem:  # somebody else has the word, or the disk is full: begin again from the store
            tell(Told("lost", problem=str(problem)))
            conductor, renewed = None, -LEASE
            stop.wait(_IDLE)
        if moved:
            wake()
        else:
            stop.wait(_BUSY if conductor is not None and conductor.gatherings else _IDLE)
    with suppress(StateError):  # it runs out by itself
        store.release(holder)
