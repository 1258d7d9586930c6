"""Connections that are not waited on for ever: uvicorn's, with limits on how long a request may take to arrive and its
answer to leave, and on the size of its head. How large a body may be, the service knows: it bounds that.
"""

from asyncio import TimerHandle
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_SECONDS: Final = 20.0
BODY_SECONDS: Final = 20.0  # for any body, in or out; a large one has more
SLOWEST: Final = 128 * 2**10  # bytes in a second of a large body
LONGEST: Final = 64 * 2**20  # bytes beyond which a declared length earns no more time
GOODBYE_SECONDS: Final = 0.5
HEAD_BYTES: Final = 16_384
UNREAD: Final = 131_072  # bytes of an answer that wait for one client; no more are written until it has read
ON_DISCONNECT: Final = "gone"  # in a request's state: what is to be called if the client goes before it is answered


class Connection(HttpToolsProtocol):
    """One client's connection."""

    _deadline: TimerHandle | None = None
    _leaving: TimerHandle | None = None  # until when an answer must have left
    _head: int | None = 0  # bytes of a head that is not complete; None while a body is awaited

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=UNREAD)
        self._expect(HEAD_SECONDS)

    def data_received(self, data: bytes) -> None:
        if self._head is not None:
            self._head += len(data)
        super().data_received(data)
        if self._head is not None and self._head > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of this request is too long.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._deadline is None:
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
        """The server ends: requests that wait for letters are answered first."""
        if (release := self.app_state.get("release")) is not None:
            release()
        super().shutdown()
        if self.transport.is_closing():  # nothing was under way; a client that sleeps would not say good-bye
            self.loop.call_later(GOODBYE_SECONDS, self.transport.abort)

    def _expect(self, seconds: float | None) -> None:
        """Ends the connection after so long, unless what is expected has come."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)

    def _left(self) -> None:
        if self._leaving is not None:
            self._leaving.cancel()
        self._leaving = None


def _seconds(size: int) -> float:
    """What a body of this size is given."""
    return BODY_SECONDS + min(size, LONGEST) / SLOWEST
