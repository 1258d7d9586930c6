"""A device that takes part by itself: it follows the log, answers invitations, and is patient with a recommender that
is away and with a disk that is full. It asks at moments of its own (jitter), less often the longer nobody answers
(back-off), and enters nothing that the ledger does not cover."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from os import urandom
from time import time
from typing import Self

from prirec.device.client import NOT_ENROLLED, Client, UnavailableError
from prirec.device.ledger import LedgerStore
from prirec.device.person import Person
from prirec.device.rounds import WHAT, Rounds, of_use
from prirec.device.store import save_enrolled
from prirec.device.sync import View, catch_up, fetch_extra_regions, missing_extra_regions
from prirec.errors import Fault, PassingError, PeerError, PrirecError
from prirec.protocols.actions import Stage
from prirec.wire.http import MOST_MESSAGES, Letter, Post

DAY = 86_400
MOST_REFUSALS = 8  # in a row: a key that is being changed, or a clock that is off, lets a device in again before that


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """In seconds: how long one question waits for an answer, and how long a device stays away after failures. `grace`
    is what every device waits when the log names other regions, whether its person has asked for any besides its own
    or not: those that come in this time count from the first sum on, and who waits for them cannot be told."""

    wait: int = 20
    first: float = 1.0
    longest: float = 300.0
    grace: float = 3.0

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
        self, person: Person, paid: LedgerStore, client: Client, *, patience: RetryPolicy | None = None,
        clock: Callable[[], float] = time, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        entropy: Callable[[int], bytes] = urandom, code: str = "",
    ) -> None:  # fmt: skip
        self.person, self.client, self.patience = person, client, patience or RetryPolicy()
        self.view = View.of(person)
        self.rounds = Rounds(
            person, paid, identity=self.view.member.identity, day=lambda: int(clock() // DAY), entropy=entropy
        )
        self._sleep, self._code = sleep, code
        self._outgoing = self.rounds.handed_in_before(self.view)
        self._after, self._failures, self._refusals = 0, 0, 0
        self._errand: asyncio.Task[None] | None = None  # regions that the person asked for are on their way
        self.problem: UnavailableError | PassingError | None = None  # why the last step came to nothing
        self.forgotten = 0  # letters that led to an error nobody foresaw
        self.unforeseen: Exception | None = None  # the last of them

    async def run(self, stop: asyncio.Event, *, after: Callable[[], None] = lambda: None) -> None:
        """Until it is stopped. `after` is called after each step. A refusal that no waiting mends is raised."""
        try:
            while not stop.is_set():
                began, at = asyncio.get_running_loop().time(), self._place
                answered = await self.step(wait=0 if self._failures else None)  # who was away is not made to wait
                after()
                early = asyncio.get_running_loop().time() - began < self.patience.wait / 2
                if not answered or (early and self._place == at and not self._outgoing):
                    await _first(self._sleep(self._pause()), stop.wait())
        finally:
            await self.let_go()

    def _pause(self) -> float:
        """After a failure; or after an answer without news that came before its time, which whoever has too many that
        wait gives to some."""
        wished = self.problem.after if isinstance(self.problem, UnavailableError) else 0.0
        return self.patience.pause(max(self._failures, 1), luck=_luck(), wished=wished)

    @property
    def _place(self) -> tuple[int, int]:
        """How far it has come: letters and entries of the log."""
        return self._after, self.view.member.head.length

    @property
    def _regions(self) -> tuple[bytes | None, ...]:
        """The documents that say which regions there are for the sums to come."""
        return tuple(self.view.standing.get(subject) for subject in ("charter", "edition"))

    async def let_go(self) -> None:
        """Ends what goes on beside the steps."""
        if self._errand is not None:
            self._errand.cancel()
            await asyncio.gather(self._errand, return_exceptions=True)
            self._errand = None

    async def step(self, *, wait: int | None = None) -> bool:
        """One question and what it leads to. Whether there was an answer, and room to keep it."""
        try:
            if not self.view.member.enrolled:
                await self._enrol()
            self._look_at_errand()
            await self._hear(await self._mail(self.patience.wait if wait is None else wait))
        except (UnavailableError, PassingError) as problem:
            self.problem, self._failures = problem, self._failures + 1
            return False
        self.problem, self._failures, self._refusals = None, 0, 0
        return True

    async def _mail(self, wait: int) -> Post:
        """UnavailableError for a refusal that may not last."""
        now, later = self._outgoing[:MOST_MESSAGES], self._outgoing[MOST_MESSAGES:]
        try:
            post = await self.client.mail(now, after=self._after, wait=0 if later else wait)
        except PeerError as refusal:
            self._refusals += 1
            if refusal.fault is not Fault.AUTH or self._refusals >= MOST_REFUSALS:
                raise
            raise UnavailableError(f"the recommender does not let this device in ({refusal})") from None
        self._outgoing = later
        return post

    async def follow(self) -> None:
        """Reads the log, and forgets what it has left behind."""
        self.view = await catch_up(self.person, self.client)
        self.rounds.forget_past(self.view)
        self._outgoing = of_use(self._outgoing, self.view)
        if self._errand is None and missing_extra_regions(self.view):
            self._errand = asyncio.create_task(fetch_extra_regions(self.person, self.client))

    def _look_at_errand(self) -> None:
        """What was fetched beside the steps is looked at once it is there."""
        if self._errand is not None and self._errand.done():
            self._errand.exception()  # one that failed is tried again when the log is next read
            self._errand, self.view = None, View.of(self.person)

    async def _enrol(self) -> None:
        try:
            await self.client.enrol(cell=self.view.member.cell, code=self._code)
        except PeerError as refusal:
            if refusal.fault is not Fault.AUTH:
                raise
            raise PeerError(Fault.AUTH, NOT_ENROLLED) from None
        with self.person.store.transaction() as rows:
            save_enrolled(rows)
        self.view = View.of(self.person)

    async def _hear(self, post: Post) -> None:
        """Letters are about what the log says by now, so the log is read first."""
        if post.entries > self.view.member.head.length:
            before = self._regions
            await self.follow()
            if self._regions != before:
                await self._sleep(self.patience.grace)
                self._look_at_errand()
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


# What an agent has done since somebody last looked, a sentence each: for a log that anybody may read. They say what
# the recommender knows as well, and nothing about the person.


RECENT = 16  # rounds of the journal that are looked at
WORDS = {
    Stage.ENTERED: "came to a sum",
    Stage.MASKED: "added to a sum, masked and with noise, and paid for it",
    Stage.AGREED: "agreed on who is in a sum",
    Stage.REVEALED: "helped to open a sum",
    Stage.OPENED: "a sum is open",
    Stage.BURNT: "gave up a sum",
}


@dataclass(frozen=True, slots=True)
class AgentSnapshot:
    """All that is compared."""

    enrolled: bool
    entries: int
    standing: Mapping[str, bytes]
    stages: Mapping[tuple[str, int], Stage]
    declined: PrirecError | None
    hindered: str  # why it waits: the recommender is away, or refuses it, or the disk is full

    @classmethod
    def of(cls, agent: Agent) -> Self:
        member = agent.view.member
        with agent.person.store.reading() as rows:
            found = rows.execute(
                "SELECT kind, number, stage FROM rounds WHERE deployment = ? ORDER BY number DESC LIMIT ?",
                (member.deployment, RECENT),
            ).fetchall()
        return cls(
            enrolled=member.enrolled,
            entries=member.head.length,
            standing=dict(agent.view.standing),
            stages={(kind, number): Stage(stage) for kind, number, stage in found},
            declined=agent.rounds.declined,
            hindered="" if agent.problem is None else str(agent.problem),
        )


class AgentNews:
    """Over one agent."""

    def __init__(self, agent: Agent) -> None:
        self._agent, self._seen = agent, AgentSnapshot.of(agent)

    def news(self) -> list[str]:
        before, self._seen = self._seen, AgentSnapshot.of(self._agent)
        return [*_reached(before, self._seen), *self._followed(before), *self._rounds(before)]

    def _followed(self, before: AgentSnapshot) -> Iterator[str]:
        now, view = self._seen, self._agent.view
        if now.entries > before.entries:
            yield f"read the log up to entry {now.entries}"
        if now.standing.get("charter") != before.standing.get("charter"):
            yield f"a campaign has begun {'without' if view.position is None else 'with'} this device"
        if now.standing.get("publication") != before.standing.get("publication"):
            yield "a new model is here to recommend with"

    def _rounds(self, before: AgentSnapshot) -> Iterator[str]:
        now = self._seen
        for at, stage in sorted(now.stages.items(), key=lambda one: one[0][1]):
            if before.stages.get(at) is not stage:
                yield f"{WORDS[stage]}: {WHAT.get(at[0], at[0])}"
        if now.declined is not None and now.declined is not before.declined:
            yield f"stayed out of a sum, or left it: {now.declined}"


def _reached(before: AgentSnapshot, now: AgentSnapshot) -> Iterator[str]:
    if now.hindered and now.hindered != before.hindered:
        yield f"trying again from time to time: {now.hindered}"
    if before.hindered and not now.hindered:
        yield "the recommender answers again"
    if now.enrolled and not before.enrolled:
        yield "enrolled"
