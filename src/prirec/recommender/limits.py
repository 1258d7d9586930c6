"""How much one device, one address and everybody together may ask for. Memory is bounded, whatever comes."""

from asyncio import Semaphore
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from ipaddress import IPv6Address, ip_address
from math import inf
from typing import Final, Generic, TypeVar

from prirec.errors import UsageError
from prirec.recommender.responses import too_many
from prirec.wire.http import MOST_OCTETS

LARGE_BODY: Final = 65_536  # bytes of a body: up to here it passes at once, whatever others do

Key = TypeVar("Key", str, bytes)


@dataclass(frozen=True, slots=True)
class Rate:
    """So many requests, or bytes, at once, and then so many in a second."""

    per_second: float
    burst: int

    def __post_init__(self) -> None:
        if not 0 < self.per_second < inf or self.burst < 1:
            raise UsageError("a rate lets through at least one request, and some in every second")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a service bears. Addresses may hide many devices behind one: they are given more than a device."""

    mail: int = MOST_OCTETS  # bytes of one request with messages: devices follow no campaign that needs more
    under_way: int = 256 * 2**20  # bytes of all large bodies that are being read or written down
    device: Rate = Rate(10.0, 100)
    device_bytes: Rate = Rate(2**20, 64 * 2**20)  # of messages: what it hands in is kept until its round is over
    address: Rate = Rate(200.0, 2000)
    enrolment: Rate = Rate(0.2, 50)  # from one address
    enrolments: Rate = Rate(10.0, 1000)  # from everywhere
    guess: Rate = Rate(0.01, 10)  # enrolments with a wrong code, from one address
    guesses: Rate = Rate(0.5, 500)  # from everywhere: fifty addresses together wear it out, and no fewer
    remembered: int = 100_000  # devices or addresses whose rates are known; those beyond share one
    polls: int = 20_000  # requests that wait for letters; those beyond are answered at once
    connections: int = 20_000  # open at once
    documents: int = 64 * 2**20  # bytes of documents that are kept at hand
    downloads: int = 64  # documents on their way to one address at once; the next waits its turn


class RateLimiter(Generic[Key]):
    """Rates by name or address.

    Of each only the moment is kept at which it will have nothing to make up for: one in the past is as good as none,
    and is forgotten when room is needed. Nobody gains by pushing others out: who finds no room shares one bucket with
    all who do not."""

    def __init__(self, rate: Rate, *, most: int = 1):
        self._interval, self._slack = 1.0 / rate.per_second, rate.burst / rate.per_second
        self._most = most
        self._even_at: dict[Key | None, float] = {}
        self._tidied = float("-inf")

    def take(self, key: Key, *, now: float, many: int = 1) -> None:
        """So many of what is counted. RefusedError with the time to wait, and nothing taken, if it is too many."""
        where, even_at = self._after(key, now=now, many=many)
        self._even_at[where] = even_at

    def refuse_spent(self, key: Key, *, now: float) -> None:
        """RefusedError where the next one would be too many; nothing is taken."""
        self._after(key, now=now, many=1)

    def _after(self, key: Key, *, now: float, many: int) -> tuple[Key | None, float]:
        """Which bucket it is, and when that has nothing to make up for once so many more are taken."""
        found = self._even_at.get(key)
        where: Key | None = key
        if found is None and len(self._even_at) >= self._most and not self._tidy(now):
            where, found = None, self._even_at.get(None)
        even_at = (now if found is None or found < now else found) + many * self._interval
        if (over := even_at - now - self._slack) > 1e-9:
            raise too_many(over)
        return where, even_at

    def _tidy(self, now: float) -> bool:
        """Whether there is room, once those are forgotten who have nothing to make up for."""
        if now - self._tidied >= 1.0:  # it takes time in proportion to all that are known
            self._tidied = now
            self._even_at = {key: even_at for key, even_at in self._even_at.items() if even_at > now}
        return len(self._even_at) < self._most

    def __len__(self) -> int:
        return len(self._even_at)


class BodyMemory:
    """Bytes that large bodies hold while they are under way, and whose they are."""

    def __init__(self, most: int):
        self.most, self.taken, self.holders = most, 0, set[bytes]()


class BodyReservation:
    """One request's part of the room. A device has one large body under way at a time: the room is not one's own."""

    def __init__(self, room: BodyMemory, name: bytes):
        self._room, self._name, self._mine = room, name, 0

    def take(self, size: int) -> None:
        """RefusedError if there is no room for so many bytes more."""
        room = self._room
        if room.taken + size > room.most or (not self._mine and self._name in room.holders):
            raise too_many(1.0)
        room.holders.add(self._name)
        room.taken += size
        self._mine += size

    def give_back(self) -> None:
        if self._mine:
            self._room.holders.discard(self._name)
        self._room.taken -= self._mine
        self._mine = 0


@dataclass(slots=True)
class _Queue:
    free: Semaphore
    waiting: int = 0  # those who have their turn included


class DownloadSlots:
    """So many at a time of each address; the others wait."""

    def __init__(self, most: int):
        self._most = most
        self._queues: dict[str, _Queue] = {}

    async def take(self, address: str) -> Callable[[], None]:
        """Once it is its turn; what is given back ends it."""
        queue = self._queues.setdefault(address, _Queue(Semaphore(self._most)))
        queue.waiting += 1
        try:
            await queue.free.acquire()
        except BaseException:
            self._leave(address)
            raise
        return partial(self._over, address)

    def _over(self, address: str) -> None:
        self._queues[address].free.release()
        self._leave(address)

    def _leave(self, address: str) -> None:
        self._queues[address].waiting -= 1
        if not self._queues[address].waiting:
            del self._queues[address]

    def __len__(self) -> int:
        return len(self._queues)


@lru_cache(maxsize=16_384)
def client_network(host: str) -> str:
    """What counts as one address: of the sixth version whole networks, for anyone is given a network."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(IPv6Address(int(address) >> 64 << 64))
    return str(address)
