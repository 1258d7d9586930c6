"""What a conductor has to write down and to send, in portions; what could not be written stays until it is."""

from collections import deque
from collections.abc import Sequence

from prirec.protocols.actions import Persist, Send
from prirec.protocols.codec import encode
from prirec.protocols.messages import AnyMessage, Delivery, Round
from prirec.recommender.store import Store

PORTION = 4 * 2**20  # bytes of letters in one transaction: nobody else can write meanwhile


class Outbox:
    def __init__(self, store: Store, *, holder: bytes | None, portion: int = PORTION) -> None:
        self._store, self._holder, self._most = store, holder, portion
        self._persists: list[Persist] = []
        self._messages: deque[AnyMessage] = deque()

    def put(self, persists: Sequence[Persist], sends: Sequence[Send]) -> None:
        self._persists += persists
        self._messages += (send.message for send in sends)

    def empty(self) -> None:
        """First what must be written, then what is sent; and with the first boxes of a round, that vectors may be
        masked in it from now on. After an error what was written is gone from here, and the rest is not."""
        while self._persists or self._messages:
            letters, masking = self._portion()
            self._store.deliver(letters, persists=self._persists, masking=masking, holder=self._holder)
            self._persists = []
            for _ in letters:
                self._messages.popleft()

    def _portion(self) -> tuple[list[tuple[bytes, Round, bytes]], set[Round]]:
        letters: list[tuple[bytes, Round, bytes]] = []
        size, masking = 0, set()
        for message in self._messages:
            body = encode(message)
            size += len(body)
            if letters and size > self._most:
                break
            letters.append((message.receiver, message.round, body))
            if isinstance(message, Delivery):
                masking.add(message.round)
        return letters, masking
