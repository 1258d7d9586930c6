"""Connections that are not waited on for ever: uvicorn's, with limits on how long a request may take to arrive, and on
the size of its head. The size of a body is bounded by the service, which knows what belongs there.
"""

from asyncio import TimerHandle
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_SECONDS: Final = 20.0
BODY_SECONDS: Final = 180.0  # for a vector over all places from a slow network
GOODBYE_SECONDS: Final = 0.5
HEAD_BYTES: Final = 16_384


class Connection(HttpToolsProtocol):
    """One client's connection."""

    _deadline: TimerHandle | None = None
    _head: int | None = 0  # bytes of a head that is not complete; None while a body is awaited

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
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
        self._expect(BODY_SECONDS)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._head = 0
        self._expect(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect(None)
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """The server ends: requests that wait for letters are answered first."""
        if (release := self.app_state.get("release")) is not None:
            release()
        super().shutdown()
        if self.transport.is_closing():  # nothing was under way; a client that sleeps would not say good-bye
            self.loop.call_later(GOODBYE_SECONDS, self.transport.abort)

    def _expect(self, seconds: float | None) -> None:
        """Closes the connection after so long, unless what is expected has come."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self.timeout_keep_alive_handler)
