"""uvicorn's HTTP connections with deadlines: a request must arrive, and its answer leave, in time, and a request's
headers are bounded in size. Otherwise slow clients (Slowloris) could hold all connections open. The size of a body is
bounded by the endpoints.
"""

from asyncio import TimerHandle
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_SECONDS: Final = 20.0
BODY_SECONDS: Final = 20.0  # for any body, in or out; a large one gets more
SLOWEST: Final = 128 * 2**10  # bytes a second at which a large body must move
LONGEST: Final = 64 * 2**20  # bytes: a larger declared length earns no more time
GOODBYE_SECONDS: Final = 0.5
HEAD_BYTES: Final = 16_384
UNREAD: Final = 131_072  # bytes of an answer that are buffered for a client
ON_DISCONNECT: Final = "gone"  # key in a request's state: called if the client leaves before it is answered


class Connection(HttpToolsProtocol):
    """One client's connection."""

    _deadline: TimerHandle | None = None
    _leaving: TimerHandle | None = None  # deadline for the answer
    _head: int | None = 0  # bytes of incomplete headers; None while a body is awaited

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=UNREAD)  # or a client that reads nothing fills this process's memory
        self._expect(HEAD_SECONDS)

    def data_received(self, data: bytes) -> None:
        if self._head is not None:
            self._head += len(data)
        super().data_received(data)
        # uvicorn bounds no headers with this parser: a client could send them without end.
        if self._head is not None and self._head > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of this request is too long.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._deadline is None:  # else the deadline of the connection's first bytes goes on: no trickling
            self._expect(HEAD_SECONDS)

    def on_headers_complete(self) -> None:
        self._head = None
        declared = next((value for name, value in self.headers if name == b"content-length"), b"")
        self._expect(_seconds(int(declared) if declared.isdigit() else 0))
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._head = 0
        self._expect(None)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._leaving is None:
            seconds = _seconds(0 if self.cycle is None else self.cycle.expected_content_length)
            self._leaving = self.loop.call_later(seconds, self.transport.abort)

    def on_response_complete(self) -> None:
        self._left()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect(None)
        self._left()
        super().connection_lost(exc)
        if self.cycle is not None and (gone := self.cycle.scope["state"].get(ON_DISCONNECT)) is not None:
            gone()

    def shutdown(self) -> None:
        """The server ends: long polls are answered first."""
        if (release := self.app_state.get("release")) is not None:
            release()
        super().shutdown()
        if self.transport.is_closing():  # idle; a suspended client would never close its side
            self.loop.call_later(GOODBYE_SECONDS, self.transport.abort)

    def _expect(self, seconds: float | None) -> None:
        """Abort the connection after so long, unless this is called again; None: no deadline."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)

    def _left(self) -> None:
        if self._leaving is not None:
            self._leaving.cancel()
        self._leaving = None


def _seconds(size: int) -> float:
    """Time that a body of this size is given."""
    return BODY_SECONDS + min(size, LONGEST) / SLOWEST
