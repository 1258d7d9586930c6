"""One sum under way: a collector, and the time that its steps are given."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from prirec.errors import PeerError
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
        self._until = 0.0

    @property
    def round(self) -> Round:
        return self.collector.round

    @property
    def over(self) -> bool:
        return self.collector.state in (State.DONE, State.BURNT)

    def begin(self, names: Collection[bytes], *, now: float) -> None:
        self._do(self.collector.invite(names))
        self._until = now + self.pace.coming

    def hear(self, message: AnyMessage) -> None:
        """What a device handed in; what does not belong is counted and forgotten."""
        try:
            self._do(self.collector.receive(message))
        except PeerError:
            self.refused += 1

    def move(self, *, now: float) -> bool:
        """Goes on where nobody is missing, or the time is over. Whether anything happened."""
        if self.over or (self.collector.waiting and now < self._until):
            return False
        self._do(self.collector.advance())
        self.delivered |= self.collector.state is State.VECTORS
        self.rostered = max(self.rostered, self.collector.size)
        self._until = now + self.pace.step
        return True

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
                    self.opened = action
                case Aborted():
                    self.problem = str(action.error)
