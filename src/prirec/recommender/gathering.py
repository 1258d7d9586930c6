"""One sum under way: a collector, the time that its steps are given, and what its result may be."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from math import inf

from prirec.errors import PeerError
from prirec.protocols import noise
from prirec.protocols.actions import Aborted, Action, Finished, Persist, Send, Stage
from prirec.protocols.messages import AnyMessage, Round
from prirec.protocols.moves import State
from prirec.protocols.secure_sum.collector import Collector


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a step waits for those who are still to come, in seconds. Devices come when they are online; once they
    are in, each step takes them seconds."""

    coming: float = 300.0
    step: float = 30.0


class Gathering:
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
