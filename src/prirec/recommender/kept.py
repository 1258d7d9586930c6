"""Documents that were asked for lately, at hand. A name stands for its bytes for ever, so nothing here grows old."""

from collections import OrderedDict


class Kept:
    """At most so many bytes; what nobody has asked for the longest goes first."""

    def __init__(self, most: int):
        self._most, self._size = most, 0
        self._bodies: OrderedDict[str, bytes] = OrderedDict()

    def get(self, name: str) -> bytes | None:
        body = self._bodies.get(name)
        if body is not None:
            self._bodies.move_to_end(name)
        return body

    def put(self, name: str, body: bytes) -> bytes:
        """The one to use: where many have asked at once, all of them share what came first."""
        if (held := self._bodies.get(name)) is not None or len(body) > self._most // 4:
            return body if held is None else held
        self._bodies[name] = body
        self._size += len(body)
        while self._size > self._most:
            self._size -= len(self._bodies.popitem(last=False)[1])
        return body
