"""A device that takes part by itself: it follows the log, answers invitations, and is patient with a recommender that
is away and with a disk that is full. It asks at moments of its own (jitter), less often the longer nobody answers
(back-off), and enters nothing that the ledger does not cover."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from os import urandom
from time import time

from prirec.contract.wire import MOST_MESSAGES, Letter, Post
from prirec.device.client import AwayError, Client
from prirec.device.following import catch_up
from prirec.device.ledger import PaidStore
from prirec.device.membership import save_enrolled
from prirec.device.person import Person
from prirec.device.taking_part import Rounds
from prirec.device.view import View
from prirec.errors import PassingError

DAY = 86_400


@dataclass(frozen=True, slots=True)
class Patience:
    """In seconds: how long one question waits for an answer, and how long a device stays away after failures."""

    wait: int = 20
    first: float = 1.0
    longest: float = 300.0

    def pause(self, failures: int, *, luck: float, wished: float = 0.0) -> float:
        """Doubles with each failure, between half and the whole of it as luck has it: devices do not come back as
        one. Not before the recommender wishes, unless it wishes for longer than the longest."""
        own = min(self.longest, self.first * 2.0 ** min(failures - 1, 30)) * (0.5 + 0.5 * luck)
        return max(own, min(wished, self.longest))


def _luck() -> float:
    return int.from_bytes(urandom(7), "big") / 2.0**56


class Agent:
    """One device on its line. `step` asks once; `run` goes on until it is stopped."""

    def __init__(
        self, person: Person, paid: PaidStore, client: Client, *, patience: Patience | None = None,
        clock: Callable[[], float] = time, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        entropy: Callable[[int], bytes] = urandom, code: str = "",
    ) -> None:  # fmt: skip
        self.person, self.client, self.patience = person, client, patience or Patience()
        self.view = View.of(person)
        self.rounds = Rounds(
            person, paid, identity=self.view.member.identity, day=lambda: int(clock() // DAY), entropy=entropy
        )
        self._sleep, self._code = sleep, code
        self._outgoing = self.rounds.handed_in_before()
        self._after, self._failures = 0, 0
        self.problem: AwayError | PassingError | None = None  # why the last step came to nothing
        self.forgotten = 0  # letters that led to an error nobody foresaw
        self.unforeseen: Exception | None = None  # the last of them

    async def run(self, stop: asyncio.Event, *, after: Callable[[], None] = lambda: None) -> None:
        """Until it is stopped. `after` is called after each step. A refusal that no waiting mends is raised."""
        while not stop.is_set():
            answered = await self.step(wait=0 if self._failures else None)  # who was away is not made to wait
            after()
            if not answered and self._failures:
                wished = self.problem.after if isinstance(self.problem, AwayError) else 0.0
                pause = self.patience.pause(self._failures, luck=_luck(), wished=wished)
                await _first(self._sleep(pause), stop.wait())

    async def step(self, *, wait: int | None = None) -> bool:
        """One question and what it leads to. Whether there was an answer, and room to keep it."""
        try:
            if not self.view.member.enrolled:
                await self._enrol()
            now, later = self._outgoing[:MOST_MESSAGES], self._outgoing[MOST_MESSAGES:]
            patient = self.patience.wait if wait is None else wait
            post = await self.client.mail(now, after=self._after, wait=0 if later else patient)
            self._outgoing = later
            await self._hear(post)
        except (AwayError, PassingError) as problem:
            self.problem, self._failures = problem, self._failures + 1
            return False
        self.problem, self._failures = None, 0
        return True

    async def follow(self) -> None:
        """Reads the log, and forgets what it has left behind."""
        self.view = await catch_up(self.person, self.client)
        self.rounds.forget_past(self.view)

    @property
    def idle(self) -> bool:
        """Whether nothing waits to be handed in."""
        return not self._outgoing

    async def _enrol(self) -> None:
        await self.client.enrol(cell=self.view.member.cell, code=self._code)
        with self.person.store.transaction() as rows:
            save_enrolled(rows)
        self.view = View.of(self.person)

    async def _hear(self, post: Post) -> None:
        """Letters are about what the log says by now, so the log is read first."""
        if post.entries > self.view.member.head.length:
            await self.follow()
        for letter in post.letters:
            self._after = letter.number  # first, so that one which cannot be answered does not come for ever
            said = self._answered(letter)
            self._outgoing += [one for one in said if one not in self._outgoing]  # a letter may come twice

    def _answered(self, letter: Letter) -> list[bytes]:
        """A letter is a stranger's work: whatever it leads to, it is forgotten and counted, and the agent goes on."""
        try:
            return self.rounds.receive(letter.body, self.view)
        except Exception as problem:  # what ends the process, and only that, is let through
            self.forgotten, self.unforeseen = self.forgotten + 1, problem
            return []


async def _first(*waits: Awaitable[object]) -> None:
    """Until one of them is over; the others are given up."""
    tasks = [asyncio.ensure_future(one) for one in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
