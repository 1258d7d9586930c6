"""What a conductor has to write down and to send, in portions; what could not be written stays until it is. Letters
that are on disk go on to whoever has their receivers waiting in this process, who need not read them from there."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from prirec.contract.wire import Letter
from prirec.protocols.actions import Persist, Send
from prirec.protocols.codec import encode
from prirec.protocols.messages import AnyMessage, Delivery, Invitation, Round
from prirec.recommender.store import Store

Wake: TypeAlias = Callable[[Sequence[tuple[bytes, Letter]]], None]  # receivers and their letters, which are on disk
PORTION = 4 * 2**20  # bytes of letters in one transaction: nobody else can write meanwhile


@dataclass(slots=True)
class _Portion:
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
        self, store: Store, *, holder: bytes | None, wake: Wake = lambda letters: None, portion: int = PORTION
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

    def _portion(self) -> _Portion:
        portion, size = _Portion(), 0
        for message in self._messages:
            body = encode(message)
            size += len(body)
            if portion.letters and size > self._most:
                break
            portion.add(message, body)
        return portion
