"""Limits on requests: rates for each device, each address and everybody together, and memory for bodies. The memory
that limits need themselves is bounded too, whatever clients do."""

from asyncio import Semaphore
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from ipaddress import IPv6Address, ip_address
from math import inf
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from prirec.errors import UsageError
from prirec.wire.http import MOST_OCTETS

if TYPE_CHECKING:
    from prirec.recommender.responses import RefusedError

FEWEST: Final = 1024  # keys that a rate limiter keeps before it looks which of them it can forget
LARGE_BODY: Final = 65_536  # bytes: bodies up to here are never refused for lack of memory

Key = TypeVar("Key", str, bytes)


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate limit: a burst of requests (or bytes) at once, then so many a second."""

    per_second: float
    burst: int

    def __post_init__(self) -> None:
        if not 0 < self.per_second < inf or self.burst < 1:
            raise UsageError("a rate lets through at least one request, and some in every second")


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a service. An address may stand for many devices (NAT), so it is given more than a device."""

    # Each figure is what honest devices need, with room to spare, and no more: whatever is let through can be sent by a
    # program that is no device.
    mail: int = MOST_OCTETS  # bytes of one request with messages: devices follow no campaign that needs more
    under_way: int = 256 * 2**20  # bytes of all large bodies that are being read or stored
    device: Rate = Rate(10.0, 100)  # a step of a sum is a request or two, and rounds come in bursts
    device_bytes: Rate = Rate(2**20, 64 * 2**20)  # of messages: what it posts is stored until its round is over
    address: Rate = Rate(200.0, 2000)  # twenty devices behind one router, all at their own limit
    enrolment: Rate = Rate(0.2, 50)  # from one address: a household or a class at once, no crowd of made-up devices
    enrolments: Rate = Rate(10.0, 1000)  # from everywhere
    guess: Rate = Rate(0.01, 10)  # enrolments with a wrong code, from one address: ten typing errors, then 36 an hour
    guesses: Rate = Rate(0.5, 500)  # from everywhere: fifty addresses together exhaust it, and no fewer
    login: Rate = Rate(0.1, 10)  # wrong tokens for the operator's page, from one address
    remembered: int = 100_000  # devices or addresses that are counted one by one; those beyond share one rate
    polls: int = 20_000  # long polls; those beyond are answered at once
    connections: int = 20_000  # open at once
    documents: int = 64 * 2**20  # bytes of the document cache
    downloads: int = 64  # at once to one address; the next waits


class RateLimiter(Generic[Key]):
    """Rate limits by name or address (GCRA, a token bucket in one number a key).

    Of each key only the time is kept at which its bucket is full again; a time in the past is as good as none, and is
    forgotten whenever the keys have doubled. At most `most` keys are kept. An attacker with many keys gains nothing by
    pushing others out: keys that find no space share one bucket."""

    def __init__(self, rate: Rate, *, most: int = 1):
        self._interval, self._slack = 1.0 / rate.per_second, rate.burst / rate.per_second
        self._most, self._next_sweep = most, min(most, FEWEST)
        self._full_at: dict[Key | None, float] = {}
        self._swept = float("-inf")

    def take(self, key: Key, *, now: float, many: int = 1) -> None:
        """Take so many requests or bytes. RefusedError with the time to wait, and nothing taken, if it is too many."""
        where, full_at = self._after(key, now=now, many=many)
        self._full_at[where] = full_at

    def refuse_spent(self, key: Key, *, now: float) -> None:
        """RefusedError where the next one would be too many; nothing is taken."""
        self._after(key, now=now, many=1)

    def _after(self, key: Key, *, now: float, many: int) -> tuple[Key | None, float]:
        """Which bucket it is, and when that is full again once so many more are taken."""
        found = self._full_at.get(key)
        where: Key | None = key
        if found is None and len(self._full_at) >= self._next_sweep:
            self._sweep(now)
            if len(self._full_at) >= self._most:
                where, found = None, self._full_at.get(None)
        full_at = (now if found is None or found < now else found) + many * self._interval
        if (over := full_at - now - self._slack) > 1e-9:
            raise _too_many(over)
        return where, full_at

    def _sweep(self, now: float) -> None:
        """Forget full buckets."""
        if now - self._swept >= 1.0:  # linear in the number of keys, so at most once a second
            self._swept = now
            self._full_at = {key: full_at for key, full_at in self._full_at.items() if full_at > now}
            self._next_sweep = min(self._most, max(FEWEST, 2 * len(self._full_at)))

    def __len__(self) -> int:
        return len(self._full_at)


class BodyMemory:
    """Memory that large bodies of all requests hold together, and for which devices."""

    def __init__(self, most: int):
        self.most, self.taken, self.holders = most, 0, set[bytes]()


class BodyReservation:
    """One request's part of that memory. A device has one large body under way at a time, so that no device can occupy
    all of the memory by itself."""

    def __init__(self, memory: BodyMemory, name: bytes):
        self._memory, self._name, self._mine = memory, name, 0

    def take(self, size: int) -> None:
        """Reserve so many bytes more. RefusedError if there is no memory for them."""
        memory = self._memory
        if memory.taken + size > memory.most or (not self._mine and self._name in memory.holders):
            raise _too_many(1.0)
        memory.holders.add(self._name)
        memory.taken += size
        self._mine += size

    def give_back(self) -> None:
        if self._mine:
            self._memory.holders.discard(self._name)
        self._memory.taken -= self._mine
        self._mine = 0


@dataclass(slots=True)
class _Queue:
    free: Semaphore
    waiting: int = 0  # those that hold a slot included


class DownloadSlots:
    """Bounds downloads at a time for each address; further ones wait."""

    def __init__(self, most: int):
        self._most = most
        self._queues: dict[str, _Queue] = {}

    async def take(self, address: str) -> Callable[[], None]:
        """Wait for a slot; call what is returned to free it."""
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
    """What counts as one address: of IPv6 a whole /64 network, since anyone is given one, with 2^64 addresses."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(IPv6Address(int(address) >> 64 << 64))
    return str(address)


def _too_many(seconds: float) -> "RefusedError":
    from prirec.recommender.responses import too_many  # here: an operator without the extra still has `Limits`

    return too_many(seconds)
