"""A party is fed and answers; it never fetches. What all parties do with a message before they look into it."""

from abc import ABC, abstractmethod

from prirec.errors import Fault, PeerError
from prirec.protocols.actions import Aborted, Action, Persist, Send, Stage
from prirec.protocols.messages import AnyMessage, Round, step
from prirec.protocols.moves import Moves, State
from prirec.protocols.statements import digest


class FatalError(PeerError):
    """Raised inside a party: not only is the message refused, the round is over for this party."""


class Party(ABC):
    """Holds a state, knows its legal moves, and answers a message that comes again as it did the first time.

    A PeerError that leaves `receive` means that the message was refused and nothing has changed. A fault after which
    it would be unsafe to go on burns the round: the answer then is to write that down, and why.
    """

    moves: Moves
    burns_on_equivocation = True  # a device gives up; a collector keeps what it heard first

    def __init__(self, name: bytes, of: Round) -> None:
        self.name, self.round, self.state = name, of, State.IDLE
        self._heard: dict[tuple[type[AnyMessage], bytes], tuple[bytes, list[Action]]] = {}
        self._written: Persist | None = None  # the last thing to persist

    def receive(self, message: AnyMessage) -> list[Action]:
        """Takes a message and says what is to be done, in order."""
        if message.round != self.round or message.receiver != self.name:
            raise PeerError(Fault.ORDER, "a message of another round, or for somebody else")
        if self.state is State.BURNT:
            raise PeerError(Fault.ORDER, "this round is over for this party")
        said, mark = (type(message), message.sender), digest(message)
        if said in self._heard:
            return self._again(said, mark)
        following = self.moves[self.state].get(said[0])
        if following is None:
            raise PeerError(Fault.ORDER, f"'{step(said[0])}' has no place in the state '{self.state}'")
        try:
            actions = self.handle(message)
        except FatalError as fault:
            return self.burn(fault)
        if self.state is not State.DONE:
            self.state = following
        self._heard[said] = (mark, actions)
        self._written = next((one for one in reversed(actions) if isinstance(one, Persist)), self._written)
        return actions

    @abstractmethod
    def handle(self, message: AnyMessage) -> list[Action]:
        """What this message leads to. Raises before it changes anything."""

    def burn(self, fault: PeerError) -> list[Action]:
        """The round is over for this party; nothing of it will ever be used again."""
        self.state = State.BURNT
        return [Persist(self.round, Stage.BURNT, bytes(32)), Aborted(fault)]

    def _again(self, said: tuple[type[AnyMessage], bytes], mark: bytes) -> list[Action]:
        heard, actions = self._heard[said]
        if heard == mark:
            sends: list[Action] = [action for action in actions if isinstance(action, Send)]
            # what could not be written then must be written now
            return [self._written, *sends] if sends and self._written is not None else sends
        if self.state is State.DONE or not self.burns_on_equivocation:
            raise PeerError(Fault.EQUIVOCATION, f"a second, different '{step(said[0])}'")
        return self.burn(PeerError(Fault.EQUIVOCATION, f"a second, different '{step(said[0])}'; the round is given up"))
