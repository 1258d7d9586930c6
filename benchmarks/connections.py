"""Many connections over HTTPS from one process, at little cost to it: a load is to be the server's work, not the
client's. Requests are written beforehand; of an answer only its length and its status are looked at."""

import asyncio
import ssl
from collections.abc import Mapping


def request(path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
    """A POST as it is sent."""
    head = {"host": "localhost", "content-type": "application/msgpack", **headers, "content-length": str(len(body))}
    said = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    return f"POST {path} HTTP/1.1\r\n{said}\r\n".encode("ascii") + body


class Connection(asyncio.Protocol):
    """One connection that is kept open, with one request on it at a time."""

    def __init__(self) -> None:
        self._came, self._until = bytearray(), 0
        self._answer: asyncio.Future[bytes]
        self._transport: asyncio.Transport

    @classmethod
    async def to(cls, port: int, trust: ssl.SSLContext) -> "Connection":
        loop = asyncio.get_running_loop()
        transport, connection = await loop.create_connection(
            cls, "127.0.0.1", port, ssl=trust, server_hostname="localhost"
        )  # fmt: skip
        connection._transport = transport
        return connection

    def ask(self, request: bytes) -> "asyncio.Future[bytes]":
        """The body of a good answer; RuntimeError for any other."""
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def close(self) -> None:
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._came += data
        if not self._until and (end := self._came.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._came[:end]).lower()
            length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
            self._until = end + 4 + int(length)
            if not head.startswith(b"http/1.1 200"):
                self._answer.set_exception(RuntimeError(head.partition(b"\r\n")[0].decode()))
        if self._until and len(self._came) >= self._until:
            body = bytes(self._came[self._came.find(b"\r\n\r\n") + 4 : self._until])
            self._came, self._until = bytearray(), 0
            if not self._answer.done():
                self._answer.set_result(body)

    def connection_lost(self, problem: Exception | None) -> None:
        if hasattr(self, "_answer") and not self._answer.done():
            self._answer.set_exception(RuntimeError("the connection was lost"))
