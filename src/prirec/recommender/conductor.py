"""Whoever holds the lease conducts: it invites, hears what devices handed in, and opens sums.

A collector's keys live in the memory of one conductor. When that dies, whoever takes the lease finds rounds that were
begun and not finished, and burns them; a sum counts as opened only together with what follows from it, in one
transaction. So each round is finished or burnt, and never wrong. A conductor that lost its lease without noticing finds
its rounds burnt and the campaign further than it knew: what it would write is refused, all of it. While the store is
away a conductor waits for it, with all that it has in memory.
"""

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from os import urandom
from time import monotonic
from typing import Protocol

from prirec.errors import PeerError
from prirec.protocols import convener
from prirec.protocols.actions import Persist, Stage
from prirec.protocols.codec import decode, encode
from prirec.protocols.messages import AnyMessage, Round
from prirec.protocols.secure_sum.collector import Collector
from prirec.recommender import notary
from prirec.recommender import progress as rules
from prirec.recommender.course import Course, Following
from prirec.recommender.gathering import Gathering, Pace
from prirec.recommender.outbox import Outbox, Wake
from prirec.recommender.progress import Past, Progress
from prirec.recommender.store import OvertakenError, Store
from prirec.sharing.keys import SigningKey

_BATCH = 200  # messages in memory at once, as they were handed in


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


class SideBySide(Protocol):
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
        tell: Callable[[Told], None] = lambda told: None,
        wake: Wake = lambda letters: None,
        side_by_side: SideBySide = map,
    ) -> None:
        self.store, self.pace, self.clock, self.entropy, self.tell = store, pace or Pace(), clock, entropy, tell
        self.holder = holder  # of the lease: without it nothing is written
        self._founding = store.founding()
        self.identity = SigningKey(self._founding.identity)
        self.gatherings: dict[Round, Gathering] = {}
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
        self.tell(Told("burnt", progress.phase, progress.iteration, rostered=len(left)))

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
            self._written, self._read = found, rules.read(found)
        return None if self._read is None or self._read.ended else self._read

    def _on(self, progress: Progress) -> Course:
        if self._course is None or not self._course.holds(progress):
            self._course = Course.of(progress, partial(notary.document, self.store))
        return self._course

    def _begin(self, progress: Progress) -> None:
        """Invitations for all sums of a phase. Who has left the deployment since is not invited."""
        here, sums, invited = {line.name for line in self.store.people()}, self._on(progress).sums(progress), 0
        self._begun = self._written
        for task, names in sums:
            collector = Collector(task, identity=self.identity, entropy=self.entropy(convener.ENTROPY))
            self.gatherings[task.round] = gathering = Gathering(collector, pace=self.pace)
            members = [name for name in names if name in here]
            gathering.begin(members)
            invited += len(members)
        self._carry_out()
        self.tell(Told("begun", progress.phase, progress.iteration, rostered=invited))

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
            Told("ended", past.kind, past.iteration, past.opened, summed, rostered, refused, problem)
        )  # fmt: skip

    def _write(
        self, following: Following, *, persists: list[Persist], over: list[Round], past: Past | None = None
    ) -> None:  # fmt: skip
        said = [(step.subject, step.documents[-1][0]) for step in following.steps]
        progress = following.progress if past is None else rules.noted(following.progress, past)
        self.store.advance(
            progress=encode(progress),
            before=self._written,
            entries=notary.signing(self._founding, said),
            documents=[one for step in following.steps for one in step.documents],
            persists=persists,
            over=over,
            holder=self.holder,
        )
