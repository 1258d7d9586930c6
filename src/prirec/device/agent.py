"""The agent of a device: it follows the log, takes part in rounds or windows, and retries what was unavailable.

It polls at times of its own (jitter), less often the longer nobody answers (exponential back-off), waits while the disk
is full, and enters no round that the ledger does not cover.

When it sends something does not depend on the person's records. It answers an invitation with its keys before a record
is read, and then sends nothing for a time that follows from the charter (`Agent._silence`), in which another process
computes its contribution. What is not ready by then is left out: that process is killed, the device adds zeros, at the
full price, and masks and noise hide that (decisions/0023). In a window over two operators it does the same at a moment
that it draws, among those for which it is online: computes for a fixed time, writes its report down, and sends it when
that time is over.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass
from math import ceil
from os import urandom
from time import time
from typing import Self

from prirec.device import worker
from prirec.device.client import Client, UnavailableError, enrol
from prirec.device.ledger import LedgerStore
from prirec.device.person import Person
from prirec.device.rounds import Contribution, Rounds, contributions_at, purpose, still_current
from prirec.device.sync import View, catch_up, fetch_extra_regions, missing_extra_regions
from prirec.device.windows import Windows
from prirec.errors import Fault, PassingError, PeerError, PrirecError
from prirec.protocols.codec import decode
from prirec.protocols.messages import Invitation, Round
from prirec.protocols.party import Stage
from prirec.types import DAY
from prirec.wire.documents import Rotation
from prirec.wire.http import MOST_MESSAGES, Inbox, QueuedMessage

# refusals in a row after which the agent stops: fewer may be a key being rotated, or a server's clock that is off
MOST_REFUSALS = 8

_ANSWERING = 0.1  # of the time for a contribution: for handing it to its round, and for each answer to a message
_ENTRIES = 2**17  # of a vector: longer ones get a multiple of the time, for computing as for masking


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long an agent waits, in seconds."""

    wait: int = 20  # of one long poll: shorter than the idle time after which routers drop a connection
    first: float = 1.0  # after the first failure; doubled with each further one
    longest: float = 300.0  # as long as a sum waits for devices to come online (conductor.Pace)
    # Every device pauses this long when the log names new regions, whether or not its person asked for extra ones.
    # Extra regions that arrive in this time count from the first sum on, and nobody can tell who waits for some.
    grace: float = 3.0
    # Silence after the keys for a sum, in which another process computes the contribution; more for vectors beyond
    # _ENTRIES. None: this process computes it at once, and the next request follows when it is done, for many devices
    # in one process (rehearsals), whose times tell of nobody.
    work: float | None = 2.0
    # Within so many seconds of learning of a window the device reports, at a moment that it draws: not all at once when
    # a window opens, and soon enough for a device that is online for a minute.
    spread: float = 30.0

    def pause(self, failures: int, *, jitter: float, retry_after: float = 0.0) -> float:
        """Back-off with jitter in [0, 1): between half and the whole of it, so that devices do not come back at once.

        Not before the recommender wishes (Retry-After), unless it wishes for more than `longest`."""
        own = min(self.longest, self.first * 2.0 ** min(failures - 1, 30)) * (0.5 + 0.5 * jitter)
        return max(own, min(retry_after, self.longest))


class Agent:
    """One device online. `step` polls once; `run` goes on until it is stopped."""

    def __init__(
        self, person: Person, ledger: LedgerStore, client: Client, *, retry: RetryPolicy | None = None,
        clock: Callable[[], float] = time, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        entropy: Callable[[int], bytes] = urandom, code: str = "",
    ) -> None:  # fmt: skip
        self.person, self.client, self.retry = person, client, retry or RetryPolicy()
        self.view = View.of(person)
        self.rounds = Rounds(
            person, ledger, identity=self.view.member.identity, day=lambda: int(clock() // DAY), entropy=entropy
        )
        self.windows = Windows(person, ledger, identity=self.view.member.identity, clock=clock, entropy=entropy)
        self._sleep, self._code = sleep, code
        joint = bool(self.view.member.helper)  # then what is written down is reports, which are sent another way
        self._outgoing = [] if joint else self.rounds.pending_messages(self.view)  # messages to post
        self._moment: tuple[Round, float] | None = None  # when to report in the window that is open
        self._turned_away, self._again = 0, 0.0  # times that a report was refused in a row, when to send it again
        self._after = 0  # number of the last queued message that was processed
        self._failures = self._refusals = 0  # in a row
        self.contributions = 0  # computed so far, each sent at once
        self._download: asyncio.Task[None] | None = None  # of extra regions, beside the steps
        self.problem: UnavailableError | PassingError | None = None  # why the last step failed
        self.dropped_messages = 0  # whose processing raised an unforeseen exception
        self.last_fault: Exception | None = None  # the last of these exceptions

    async def run(self, stop: asyncio.Event, *, after: Callable[[], None] = lambda: None) -> None:
        """Poll until `stop` is set, calling `after` after each step. Raises a refusal that no waiting mends."""
        loop = asyncio.get_running_loop()
        try:
            while not stop.is_set():
                began, before = loop.time(), self._progress
                answered = await self.step(wait=0 if self._failures else None)  # a recommender just back is not held
                after()
                # An answer without news long before its time means that the recommender sheds load: pause as after a
                # failure, or all devices would poll in a tight loop.
                shed = loop.time() - began < self.retry.wait / 2 and self._progress == before and not self._outgoing
                if not answered or shed:
                    wished = self.problem.after if isinstance(self.problem, UnavailableError) else 0.0
                    pause = self.retry.pause(max(self._failures, 1), jitter=_jitter(), retry_after=wished)
                    await _first(self._sleep(pause), stop.wait())
        finally:
            await self.stop_downloads()

    async def step(self, *, wait: int | None = None) -> bool:
        """Post what is outgoing, poll, process what came. False if the recommender or the disk did not let it."""
        try:
            if not self.view.member.enrolled:
                await enrol(self.person, self.client, code=self._code)
                self.view = View.of(self.person)
            self._finish_download()
            await self._process(await self._poll(self._until_moment(self.retry.wait if wait is None else wait)))
            if self.view.member.helper:
                await self._report()
        except (UnavailableError, PassingError) as problem:
            self.problem, self._failures = problem, self._failures + 1
            return False
        self.problem, self._failures, self._refusals = None, 0, 0
        return True

    async def follow(self) -> None:
        """Read the log, drop what it has overtaken, and start to download missing extra regions."""
        self.view = await catch_up(self.person, self.client)
        self.rounds.forget_past(self.view)
        self._outgoing = still_current(self._outgoing, self.view)
        if self._download is None and missing_extra_regions(self.view):
            self._download = asyncio.create_task(fetch_extra_regions(self.person, self.client))

    async def stop_downloads(self) -> None:
        if self._download is not None:
            self._download.cancel()
            await asyncio.gather(self._download, return_exceptions=True)
            self._download = None

    @property
    def _progress(self) -> tuple[int, int, int]:
        """The last message, the log entries and the contributions processed so far."""
        return self._after, self.view.member.head.length, self.contributions

    async def _poll(self, wait: int) -> Inbox:
        """Post what is outgoing and long-poll. Contributions are computed when their keys are posted."""
        now, later = self._outgoing[:MOST_MESSAGES], self._outgoing[MOST_MESSAGES:]
        computes = bool(self.rounds.waiting) and not later
        async with self._worker(self.rounds.waiting) if computes else nullcontext() as computing:
            inbox = await self._post(now, wait=0 if later or computes else wait)
            self._outgoing = later
            if computes:
                await self._compute(computing, self.rounds)
        return inbox

    async def _post(self, messages: Sequence[bytes], *, wait: int) -> Inbox:
        """UnavailableError for a refusal that may not last."""
        try:
            return await self.client.mail(messages, after=self._after, wait=wait)
        except PeerError as refusal:
            self._refusals += 1
            if refusal.fault is not Fault.AUTH or self._refusals >= MOST_REFUSALS:
                raise
            raise UnavailableError(f"the recommender does not let this device in ({refusal})") from None

    # Windows

    def _until_moment(self, wait: int) -> int:
        """Seconds to wait: so many, or fewer if this device reports before."""
        if self._moment is None:
            return wait
        return max(0, min(wait, ceil(self._moment[1] - asyncio.get_running_loop().time())))

    async def _report(self) -> None:
        """Report in the window that is open when its moment has come, and send what has not arrived."""
        await self._deliver()
        now, of = asyncio.get_running_loop().time(), self.windows.open(self.view)
        if of is None:
            self._moment = None
            return
        if self._moment is None or self._moment[0] != of:
            most = max(0.0, min(self.retry.spread, self.windows.seconds_left(self.view) / 2))
            self._moment = of, now + most * _jitter()
        if now < self._moment[1]:
            return
        self._moment = None
        await self._follow_and_pause()  # an old signature of the helper's would not do
        if not self.windows.enter(self.view):
            self._moment = of, now + self.retry.longest  # what keeps it out seldom changes soon
            return
        async with self._worker(self.windows.waiting) as computing:
            await self._compute(computing, self.windows)
        await self._deliver()

    async def _deliver(self) -> None:
        """Send the report that is written down, if there is one, until it has arrived."""
        now, found = asyncio.get_running_loop().time(), self.windows.pending(self.view)
        if found is None or now < self._again:
            return
        of, body = found
        try:
            await self.client.report(body)
        except PeerError as refusal:  # the recommender may be behind, and take it later
            self.windows.decline(of, refusal)
            self._turned_away += 1
            self._again = now + self.retry.pause(self._turned_away, jitter=_jitter())
            return
        self.windows.arrived(of)
        self._turned_away = 0

    def _worker(self, rounds: Sequence[Round]) -> AbstractAsyncContextManager[worker.Worker | None]:
        """It is started before the keys are posted: that takes as long whatever the records are."""
        return nullcontext() if self.retry.work is None else worker.started(self.person.store.path, rounds)

    async def _compute(self, computing: worker.Worker | None, sums: Rounds | Windows) -> None:
        """Get the contributions that rounds wait for. It takes `_silence` seconds, whatever the records are."""
        rounds, made = tuple(sums.waiting), dict[Round, Contribution]()
        began, seconds = asyncio.get_running_loop().time(), self._silence()
        if computing is None:
            made = contributions_at(self.view, self.person, rounds)
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout((1 - _ANSWERING) * seconds):
                    made = await computing.contributions()
            await computing.end()
            # Proving a long vector takes long: it begins at one moment, whenever the contribution was there.
            await self._sleep(max(0.0, (1 - _ANSWERING) * seconds - (asyncio.get_running_loop().time() - began)))
        for of in rounds:
            sums.supply(of, made.get(of))
        self.contributions += len(rounds)
        if computing is not None:
            await self._end_slot(began, seconds)

    def _silence(self) -> float:
        """Seconds for a contribution; a tenth of them are for an answer. They follow from the campaign alone."""
        entries = 0
        with suppress(PrirecError):  # a document is damaged: no message is answered then
            entries = 0 if self.view.campaign is None else self.view.campaign.entries
        return (self.retry.work or 0.0) * (1 + entries // _ENTRIES)

    async def _end_slot(self, began: float, slot: float) -> None:
        """Wait until a slot of so many seconds is over, or the second one, and so on: how long it took to do what was
        done since `began` may have depended on the person."""
        elapsed = asyncio.get_running_loop().time() - began
        await self._sleep(slot - elapsed % slot if slot > 0 else 0.0)

    async def _process(self, inbox: Inbox) -> None:
        """Follow the log, then answer the messages: they refer to what the log says by now. The log is read when its
        length is another, and before a round is entered: one that was set back may be as long as before."""
        if inbox.entries != self.view.member.head.length or any(map(_is_invitation, inbox.messages)):
            await self._follow_and_pause()
        began = asyncio.get_running_loop().time()
        for queued in inbox.messages:
            self._after = queued.number  # first: a message that cannot be processed must not come back for ever
            answers = self._answer(queued)
            self._outgoing += [one for one in answers if one not in self._outgoing]  # a message may arrive twice
        if inbox.messages and self.retry.work is not None:  # masking stores more for some than for others
            await self._end_slot(began, _ANSWERING * self._silence())

    async def _follow_and_pause(self) -> None:
        """Follow the log, and pause where it names new regions."""
        began, before = asyncio.get_running_loop().time(), self._region_documents()
        await self.follow()
        if self._region_documents() != before:
            await self._end_slot(began, self.retry.grace)
            self._finish_download()

    def _answer(self, queued: QueuedMessage) -> list[bytes]:
        """Messages to post in answer to one. Others wrote it: where it leads to an error of any kind, it is dropped and
        counted, and the agent goes on."""
        try:
            return self.rounds.receive(queued.body, self.view)
        except Exception as problem:  # not BaseException: what ends the process passes
            self.dropped_messages, self.last_fault = self.dropped_messages + 1, problem
            return []

    def _region_documents(self) -> tuple[bytes | None, ...]:
        """The documents that say which regions the next sums are over."""
        return tuple(self.view.latest.get(subject) for subject in ("charter", "edition"))

    def _finish_download(self) -> None:
        """Use extra regions once their download is over."""
        if self._download is not None and self._download.done():
            self._download.exception()  # retrieved and ignored: a failed download starts again at the next log sync
            self._download, self.view = None, View.of(self.person)


def _jitter() -> float:
    """From [0, 1)."""
    return int.from_bytes(urandom(7), "big") / 2.0**56


def _is_invitation(queued: QueuedMessage) -> bool:
    try:
        return isinstance(decode(queued.body), Invitation)
    except PeerError:
        return False


async def _first(*waits: Awaitable[object]) -> None:
    """Wait until one of these is done, and cancel the others."""
    tasks = [asyncio.ensure_future(one) for one in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


# --- News: what an agent did, one sentence each, for a log that anybody may read ------------------------------------
# The sentences say only what the recommender knows as well, and nothing about the person.

RECENT = 16  # rounds of the journal that are compared
NEW = {
    "catalogue": "a catalogue is here",
    "start": "a starting model is here to recommend with",
    "publication": "a new model is here to recommend with",
}
REPORTED = {
    Stage.MASKED: "wrote its report for a sum, split between two operators, and paid for it",
    Stage.AGREED: "the recommender has the report",
    Stage.BURNT: "a sum was over before the report arrived",
}
UNUSABLE_START = "a starting model is here that this device cannot use: update PriRec on it, or tell its operator"
STAGES = {
    Stage.ENTERED: "came to a sum",
    Stage.MASKED: "added to a sum, masked and with noise, and paid for it",
    Stage.AGREED: "agreed on who is in a sum",
    Stage.REVEALED: "helped to open a sum",
    Stage.OPENED: "a sum is open",
    Stage.BURNT: "gave up a sum",
}


@dataclass(frozen=True, slots=True)
class AgentSnapshot:
    """The part of an agent's state that its news report on."""

    enrolled: bool
    entries: int
    rotations: tuple[Rotation, ...]  # of operators' keys
    latest: Mapping[str, bytes]
    stages: Mapping[tuple[str, int], Stage]  # by kind and number of the round
    declined: PrirecError | None
    joined: bool  # on the list of two operators
    problem: str  # why it retries: the recommender is away, or refuses it, or the disk is full

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
            rotations=member.rotations,
            latest=dict(agent.view.latest),
            stages={(kind, number): Stage(stage) for kind, number, stage in found},
            declined=agent.windows.declined or agent.rounds.declined,
            joined=member.joined > 0,
            problem="" if agent.problem is None else str(agent.problem),
        )


def _rotation_in_words(one: Rotation) -> str:
    signed = "both operators have" if one.by_peer else "its old key has"
    return f"the {one.change.role} has another key, which {signed} signed: {one.change.new.hex()}"


class AgentNews:
    """What one agent has done since `news` was last called."""

    def __init__(self, agent: Agent) -> None:
        self._agent, self._last = agent, AgentSnapshot.of(agent)

    def news(self) -> list[str]:
        before, self._last = self._last, AgentSnapshot.of(self._agent)
        return list(self._changes(before, self._last))

    def _changes(self, before: AgentSnapshot, now: AgentSnapshot) -> Iterator[str]:
        if now.problem and now.problem != before.problem:
            yield f"trying again from time to time: {now.problem}"
        if before.problem and not now.problem:
            yield "the recommender answers again"
        if now.enrolled and not before.enrolled:
            yield "enrolled"
        if now.entries > before.entries:
            yield f"read the log up to entry {now.entries}"
        yield from map(_rotation_in_words, now.rotations[len(before.rotations) :])
        if now.joined != before.joined:
            yield f"is {'now' if now.joined else 'no longer'} on the operators' list of those who may report"
        if now.latest.get("charter") != before.latest.get("charter"):
            yield f"a campaign has begun {'with' if self._agent.view.takes_part else 'without'} this device"
        here = NEW if self._agent.view.model_in_use is not None else NEW | {"start": UNUSABLE_START}
        yield from (here[name] for name in here if now.latest.get(name) not in (None, before.latest.get(name)))
        for at, stage in sorted(now.stages.items(), key=lambda one: one[0][1]):
            if before.stages.get(at) is not stage:
                words = REPORTED if self._agent.view.member.helper else STAGES
                yield f"{words[stage]}: {purpose(at[0], self._agent.view.campaign)}"
        if now.declined is not None and now.declined is not before.declined:
            yield f"stayed out of a sum, or left it: {now.declined}"
