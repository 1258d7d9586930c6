"""What is done at each address of the service. Everything here can raise a refusal; service.py turns it into an answer.

Each request is counted against its address first, then, where there is a session, against its device; a body is read
only after that, up to a limit.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Final, TypeVar

from fastapi import Request, Response
from starlette.responses import JSONResponse

from prirec.contract.documents import VERSION
from prirec.contract.log import MOST, Page
from prirec.contract.wire import (
    MEDIA,
    SMALL,
    Challenge,
    Done,
    Hello,
    Mail,
    Post,
    SignedClaim,
    SignedEnrolment,
)
from prirec.errors import Fault, PeerError, StateError
from prirec.protocols.codec import encode
from prirec.recommender.answers import PRIVATE, Packed, absent, nobody, packed
from prirec.recommender.auth import Doorkeeper
from prirec.recommender.bodies import Asked, body_of, header_of, read, refuse_odd
from prirec.recommender.connections import GONE
from prirec.recommender.desk import Desk
from prirec.recommender.kept import Kept
from prirec.recommender.limits import LARGE, Buckets, Hold, Limits, Room, Turns, neighbourhood
from prirec.recommender.metrics import PAGE, Metrics
from prirec.recommender.newcomers import Newcomers
from prirec.recommender.sorting import Sorted, Sorter
from prirec.recommender.store import Store
from prirec.recommender.waiting import Found
from prirec.sharing.keys import SigningKey

READERS: Final = 4  # threads that look something up for a single request
WRITERS: Final = 2  # and that write: whoever reads does not wait behind them
FRESH: Final = {"cache-control": "no-cache"}
FOR_EVER: Final = {"cache-control": "public, max-age=31536000, immutable"}
DAY: Final = 86_400

Value = TypeVar("Value")


class Endpoints:
    """The service's state is all in the store, but for what speeds it up or bounds it."""

    def __init__(
        self,
        store: Store,
        *,
        limits: Limits,
        metrics: Metrics,
        code: str | None,
        clock: Callable[[], float],
        steady: Callable[[], float],
        entropy: Callable[[int], bytes],
    ):
        founding = store.founding()
        recommender = SigningKey(founding.identity).public
        self.store, self.limits, self.metrics, self.clock, self.steady = store, limits, metrics, clock, steady
        self.desk = Desk(store, limits=limits, metrics=metrics)
        self._door = Doorkeeper(founding.deployment, founding.token_key, clock=clock, entropy=entropy, code=code)
        self._sorter = Sorter(founding.deployment, recommender)
        self._hello = encode(Hello(VERSION, founding.deployment, recommender, founding.title))
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="reader")
        self._writers = ThreadPoolExecutor(WRITERS, thread_name_prefix="writer")
        self._turns = Turns(limits.downloads)
        self._taken = metrics.messages.labels("taken")
        self._room, self._kept = Room(limits.under_way), Kept(limits.documents)
        self._addresses = Buckets[str](limits.address, most=limits.remembered)
        self._devices = Buckets[bytes](limits.device, most=limits.remembered)
        self._bytes = Buckets[bytes](limits.device_bytes, most=limits.remembered)
        self._newcomers = Newcomers(self._door, limits=limits)

    async def close(self) -> None:
        await self.desk.close()
        self._readers.shutdown()
        self._writers.shutdown()

    async def deployment(self, request: Request) -> Response:
        """Whom a device is about to trust."""
        self._counted(request)
        return Response(self._hello, headers=FRESH, media_type=MEDIA)

    async def log(self, request: Request) -> Response:
        """The recommender's signed log from an entry on."""
        self._counted(request)
        after = request.query_params.get("after", "0")
        if not (after.isascii() and after.isdecimal() and len(after) < 11 and int(after) < 2**31):
            raise PeerError(Fault.DECODE, "after is the number of entries that are known already")
        entries = await self._looked_up(self.store.entries, int(after), MOST)
        return packed(Page(tuple(entries)), headers=FRESH)

    async def document(self, request: Request) -> Response:
        """A public document by its name."""
        address, name = self._counted(request), request.path_params["name"]
        if len(name) != 64 or not set(name) <= set("0123456789abcdef"):
            raise absent()
        with ExitStack() as ending:
            ending.callback(await self._turns.take(address))
            body = self._kept.get(name) or await self._looked_up(self.store.document, bytes.fromhex(name))
            if body is None:
                raise absent()
            body = self._kept.put(name, body)
            held, tag = request.headers.get("if-none-match", ""), f'"{name}"'
            headers = FOR_EVER | {"etag": tag}
            if held.strip() == "*" or tag in (one.strip().removeprefix("W/") for one in held.split(",")):
                return Response(status_code=304, headers=headers)
            return Packed(body, headers=headers, sent=ending.pop_all().close)

    async def enrol(self, request: Request) -> Response:
        """A device makes itself known, with the coarse cell that it chooses to tell; the same again changes nothing."""
        address = self._counted(request)
        signed = await self._asked(request, SignedEnrolment)
        refuse_odd(signed.enrolment.cell)
        self._newcomers.let_in(signed, address=address, now=self.steady())
        wanted, day = signed.enrolment, int(self.clock() // DAY)
        await self._written(partial(self.store.enrol, day=day), wanted.name, wanted.cell)
        return packed(Done(), headers=PRIVATE)

    async def challenge(self, request: Request) -> Response:
        """Something fresh to sign; the body is empty."""
        self._counted(request)
        if await body_of(request, limit=SMALL):
            raise PeerError(Fault.DECODE, "this address takes an empty body")
        return packed(Challenge(self._door.challenge()), headers=PRIVATE)

    async def session(self, request: Request) -> Response:
        """A session for an identity that is enrolled and has signed a challenge."""
        self._counted(request)
        signed = await self._asked(request, SignedClaim)
        claim = self._door.claiming(signed)
        if not await self._looked_up(self.store.enrolled, claim.name):
            raise nobody()
        return packed(self._door.admitted(claim), headers=PRIVATE)

    async def leave(self, request: Request) -> Response:
        """A device leaves the deployment; the body is mail with nothing in it."""
        name = self._named(request)
        if await self._asked(request, Mail) != Mail():
            raise PeerError(Fault.DECODE, "nothing is handed in when a device leaves")
        await self._written(self.store.leave, name)
        return packed(Done(), headers=PRIVATE)

    async def mail(self, request: Request) -> Response:
        """Messages of the protocols are handed in, and letters fetched."""
        name = self._named(request)
        hold = Hold(self._room, name)
        try:
            body = await body_of(request, limit=self.limits.mail, charge=partial(self._charge, name, hold))
            if len(body) > LARGE:
                handed, after, wait = await self._looked_up(self._handed, body, name)
            else:
                handed, after, wait = self._handed(body, name)
                if handed.items:
                    self._bytes.take(name, now=self.steady(), many=sum(len(item.body) for item in handed.items))
            del body  # nothing of it is kept here while the device waits
            if wait:
                found, refused = await self._waited(request, handed, hold=hold, name=name, after=after, wait=wait)
            else:
                found = await self.desk.ask(name, handed.items, after=after)
                refused = self._refused(handed, found)
        finally:
            hold.give_back()
        return packed(Post(found.letters, found.entries, refused), headers=PRIVATE)

    def _charge(self, name: bytes, hold: Hold, size: int) -> None:
        """For so many bytes more of a large body."""
        hold.take(size)
        self._bytes.take(name, now=self.steady(), many=size)

    def _handed(self, body: bytes, name: bytes) -> tuple[Sorted, int, int]:
        """What a device hands in, after which letter it asks for more, and how long it waits."""
        asked = read(body, Mail, limit=self.limits.mail)
        return self._sorter.sorted(asked.messages, sender=name), asked.after, asked.wait

    async def _waited(
        self, request: Request, handed: Sorted, *, hold: Hold, name: bytes, after: int, wait: int
    ) -> tuple[Found, tuple[str, ...]]:
        with self.desk.waiting(name, after=after, seconds=wait) as poll:
            request.scope.setdefault("state", {})[GONE] = poll.release
            found = await self.desk.ask(name, handed.items, after=after)
            refused = self._refused(handed, found)
            handed.items.clear()
            hold.give_back()
            if not (found.letters or refused or poll.released):
                found = await self.desk.letters(name, entries=found.entries, poll=poll)
            return found, refused

    def _refused(self, handed: Sorted, found: Found) -> tuple[str, ...]:
        if not handed.problems:
            return ()
        refused = handed.refused(found.taken)
        self._taken.inc(len(handed.problems) - len(refused))
        for why in refused:
            self.metrics.messages.labels(why.partition(":")[0]).inc()
        return refused

    async def healthy(self, request: Request) -> Response:
        """Whether this worker runs."""
        return JSONResponse({"healthy": True})

    async def ready(self, request: Request) -> Response:
        """Whether it can use its store."""
        self._counted(request)
        try:
            await self._looked_up(self.store.head)
        except StateError:
            return JSONResponse({"ready": False}, 503)
        return JSONResponse({"ready": True})

    async def figures(self, request: Request) -> Response:
        """For Prometheus."""
        self._counted(request)
        return Response(self.metrics.page(), media_type=PAGE)

    def _counted(self, request: Request) -> str:
        """One request of an address, which is given back as it is counted."""
        address = "" if request.client is None else neighbourhood(request.client.host)
        self._addresses.take(address, now=self.steady())
        return address

    def _named(self, request: Request) -> bytes:
        """Whose session it is."""
        self._counted(request)
        name = self._door.name(header_of(request, b"authorization"))
        self._devices.take(name, now=self.steady())
        return name

    async def _asked(self, request: Request, kind: type[Asked]) -> Asked:
        return read(await body_of(request, limit=SMALL), kind, limit=SMALL)

    async def _looked_up(self, question: Callable[..., Value], *values: object) -> Value:
        """In a thread: the event loop waits for no disk, and for nothing that takes long."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, question, *values)

    async def _written(self, change: Callable[..., None], *values: object) -> None:
        await asyncio.get_running_loop().run_in_executor(self._writers, change, *values)
