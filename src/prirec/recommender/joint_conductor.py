"""The conductor of a deployment over two operators: it keeps the list of people in the log, opens windows, and leads
the sums (protocols/two_operators.py) with the helper.

Everything is in the store before anything is said. So whichever worker takes the lease goes on with the round that is
under way where the last one left off; nothing is burnt by a restart. While the helper is away a conductor waits.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from hashlib import sha256
from os import urandom
from time import time

import msgspec

from prirec.errors import PeerError
from prirec.protocols.codec import decode, encode
from prirec.protocols.messages import AnyMessage, Report, Round
from prirec.protocols.party import Aborted, Action, Finished, Persist, Send, Settle, State
from prirec.protocols.two_operators import ENTROPY, JointTask, Leader, leader_box_length
from prirec.recommender import campaign as rules
from prirec.recommender import operator
from prirec.recommender.campaign import CampaignState, CampaignSteps, PhaseOutcome
from prirec.recommender.conductor import IDLE, ConductorEvent
from prirec.recommender.joint_rounds import FINAL
from prirec.recommender.peer import Peer
from prirec.recommender.people_list import PeopleList
from prirec.recommender.store import Entries, Store
from prirec.wire.documents import MOST_NAMES, Names, Subject, Window, read, written

# Seconds between two looks for who has joined or left, while no window is about to open. Each may be two entries of the
# log, which every new device reads from its beginning.
LIST_EVERY = 3600.0
SIGN_EVERY = 600.0  # seconds after which the helper signs the log again: devices follow no old signature
MOST_EXTENSIONS = 3  # of a window with fewer reports than the floor; then its sum is given up
_BATCH = 200  # reports that are read at once


class JointConductor:
    """Runs the windows of a deployment's campaign as long as the lease is held; `tick` is called again and again."""

    pause = IDLE  # seconds between two looks at the store

    def __init__(
        self, store: Store, peer: Peer, *, holder: bytes | None = None,
        clock: Callable[[], float] = time, entropy: Callable[[int], bytes] = urandom,
        tell: Callable[[ConductorEvent], None] = lambda event: None, listing: float = LIST_EVERY,
    ) -> None:  # fmt: skip
        self.store, self.holder, self.clock, self.entropy, self.tell = store, holder, clock, entropy, tell
        self._peer = peer
        self._people = PeopleList(store)
        self._fetch = partial(operator.own_document, store)
        self._changes = 0  # of the campaign state, that were seen
        self._written: bytes | None = None  # the campaign state in the store,
        self._state: CampaignState | None = None  # decoded
        self._steps: CampaignSteps | None = None
        self.sum: Leader | None = None  # under way
        self._read_up_to = 0
        self._listing, self._listed_at, self._signed_at = listing, -LIST_EVERY, 0.0

    def take_over(self) -> None:
        """Nothing of another conductor's is lost: rounds go on from the store."""

    def tick(self) -> bool:
        """Go on as far as can be now; True if anything happened. After an error the next one goes on from the store."""
        try:
            return self._tick()
        except BaseException:
            self.sum = None
            raise

    def _tick(self) -> bool:
        self._say_farewells()
        progress = self._progress()
        moved = self._keep_list(progress)
        moved |= self._follow()
        if progress is None:
            self.store.joint.forget_campaigns(but=self.store.times("charter"))  # the next one's may be there
            return moved
        if not progress.window:
            return self._open(progress) or moved
        return self._lead(progress) or moved

    def _progress(self) -> CampaignState | None:
        """State of the campaign that is under way."""
        self._changes, found = self.store.progress_since(self._changes)
        if found is not None:
            self._written, self._state = found, rules.decode_state(found)
            self.sum = None
        return None if self._state is None or self._state.ended else self._state

    def _on(self, progress: CampaignState) -> CampaignSteps:
        if self._steps is None or not self._steps.holds(progress):
            self._steps = CampaignSteps.of(progress, self._fetch)
        return self._steps

    # The log

    def _keep_list(self, progress: CampaignState | None, *, now: bool = False) -> bool:
        """Log who has joined and left. While a campaign is under way nobody joins beyond what it is sized for."""
        if not now and self.clock() < self._listed_at + self._listing:
            return False
        self._listed_at = self.clock()
        listed, here = self._people.at(self.store.head().length), set(self.store.people())
        gone = sorted(listed - here)
        new = sorted(here - listed)
        if progress is not None:
            new = self._some(new, self._on(progress).campaign.charter.most - len(listed) + len(gone))
        lists: list[tuple[Subject, Names]] = [("left", one) for one in _lists(gone)]
        lists += [("joined", one) for one in _lists(new)]
        if not lists:
            return False
        self.store.advance(
            progress=None,
            entries=self._signed([(subject, written(one)[0]) for subject, one in lists]),
            documents=[written(one) for _, one in lists],
            holder=self.holder,
        )
        return True

    def _some(self, names: list[bytes], room: int) -> list[bytes]:
        """Those for whom there is room, by lot: whoever makes up keys could make such as come first in any order."""
        if len(names) <= room:
            return names
        lot = self.entropy(16)
        return sorted(sorted(names, key=lambda name: sha256(lot + name).digest())[: max(0, room)])

    def _signed(self, said: Sequence[tuple[Subject, bytes]]) -> Entries:
        return operator.sign_entries(self.store.founding(), said)

    def _follow(self) -> bool:
        """Have the helper sign the head of the log, if it has moved, or the last signature is getting old."""
        signed, head = self.store.cosigned(), self.store.head()
        if (
            signed is not None
            and signed.statement.length == head.length
            and self.clock() < self._signed_at + SIGN_EVERY
        ):
            return False
        self._peer.follow()
        self._signed_at = self.clock()
        return True

    # Windows

    def _open(self, progress: CampaignState) -> bool:
        """Open the window of a phase's sum, with everyone who has joined by now."""
        self._keep_list(progress, now=True)
        head = self.store.head()
        people, steps = self._people.at(head.length), self._on(progress)
        charter = steps.campaign.charter
        if not steps.campaign.settings.floor <= len(people) <= charter.most:
            return False  # until more have joined, or some have left
        opens = int(self.clock())
        window = steps.window(
            progress, people=len(people), listed=head, opens=opens, closes=opens + progress.seconds
        )  # fmt: skip
        steps.joint(progress, window)  # refuses what devices would refuse
        self._write_window(progress, window, attempt=0)
        self.tell(ConductorEvent("begun", progress.phase, progress.iteration, rostered=len(people)))
        return True

    def _write_window(self, progress: CampaignState, window: Window, *, attempt: int) -> None:
        page = written(window)
        self.store.advance(
            progress=encode(rules.replaced(progress, window=page[0], attempt=attempt)),
            before=self._written,
            entries=self._signed([("window", page[0])]),
            documents=[page],
            holder=self.holder,
        )

    def _lead(self, progress: CampaignState) -> bool:
        """Take in reports; when the window is over, open the sum, extend the window or give it up."""
        window = read(Window, self._fetch(progress.window), name=progress.window)
        leader, moved = self._party(progress, window), False
        while leader.state is State.REPORTS and leader.ready and self._take_in(leader):
            moved = True
            if self.sum is not leader:
                return True
        if self.sum is not leader:  # it has ended
            return True
        if leader.state is not State.REPORTS:
            self._do(leader, leader.again())
            return True
        if self.clock() < window.closes:
            return moved
        self.store.joint.shut(leader.round, holder=self.holder)
        while self._take_in(leader):  # what came before it was shut
            if self.sum is not leader:
                return True
        self._do(leader, leader.advance())
        if self.sum is leader and leader.state is State.REPORTS:
            self._extend(progress, window, leader)
        return True

    def _extend(self, progress: CampaignState, window: Window, leader: Leader) -> None:
        """There are fewer reports than the floor: wait on with those that came, or give the sum up."""
        if progress.attempt >= MOST_EXTENSIONS:
            self._do(leader, leader.give_up())
            return
        closes = int(self.clock()) + progress.seconds
        self._write_window(progress, msgspec.structs.replace(window, closes=closes), attempt=progress.attempt + 1)
        self._take_reports(leader.task, until=closes)
        self.tell(ConductorEvent("extended", progress.phase, progress.iteration, survivors=leader.count))

    # Sums

    def _party(self, progress: CampaignState, window: Window) -> Leader:
        """The leader of this window's sum: of this process, or made again of what was written."""
        if self.sum is not None:
            return self.sum
        steps = self._on(progress)
        task = steps.joint(progress, window)
        leader = Leader(
            task, identity=self.store.founding().key, box_key=self.store.joint.box_key(steps.campaign.charter.campaign),
            enrolled=self._people.at(window.entries), entropy=self.entropy(ENTROPY),
        )  # fmt: skip
        self.sum, self._read_up_to = leader, 0
        kept = self.store.joint.kept(task.round)
        actions = leader.begin() if kept is None else leader.restore(kept)
        if leader.state is State.BURNT:  # after a conflict
            self._say(leader.farewell())
            self._conclude(None, None, progress, task.round, problem="this operator has burnt the round", last=())
            return leader
        self._do(leader, actions)
        if self.sum is leader and leader.state is State.REPORTS:
            self._take_reports(task, until=window.closes)
        return leader

    def _take_reports(self, task: JointTask, *, until: int) -> None:
        length = leader_box_length(task.terms)
        self.store.joint.take_reports(task.round, box_length=length, until=until, holder=self.holder)

    def _take_in(self, leader: Leader) -> bool:
        """Feed the leader reports that are new; whether there were any."""
        found = self.store.joint.posted(leader.round, after=self._read_up_to, most=_BATCH)
        refused = list[int]()
        for number, body in found:
            self._read_up_to = number
            try:
                report = decode(body)
                actions = leader.receive(report) if isinstance(report, Report) else []
            except PeerError:
                refused.append(number)
                continue
            self._do(leader, actions)
            if self.sum is not leader:
                return True
        if refused:
            self.store.joint.drop(refused, holder=self.holder)
        return bool(found)

    def _do(self, leader: Leader, actions: Iterable[Action]) -> None:
        """Write, then say, then hear what the helper says to it."""
        waiting = deque(actions)
        while waiting:
            match waiting.popleft():
                case Persist(stage=stage) as ending if stage in FINAL:
                    self._end(leader, ending, waiting)
                    return
                case Persist() as persist:
                    self.store.joint.write(persist, holder=self.holder)
                case Settle() as settle:
                    self.store.joint.settle(settle, holder=self.holder)
                case Send() as send:
                    for answer in self._say([send]):
                        waiting.extend(leader.receive(answer))

    def _end(self, leader: Leader, ending: Persist, others: Iterable[Action]) -> None:
        """The round is over: its last messages are written with what follows from it, and said then."""
        opened = next((one for one in others if isinstance(one, Finished)), None)
        problem = next((str(one.error) for one in others if isinstance(one, Aborted)), "")
        last = [encode(one.message) for one in leader.farewell() if isinstance(one, Send)]
        if self._state is not None:
            self._conclude(ending, opened, self._state, leader.round, problem=problem, last=last)

    def _say(self, actions: Iterable[Action]) -> list[AnyMessage]:
        """Send messages to the helper; its answers."""
        sends = (one.message for one in actions if isinstance(one, Send))
        return [answer for message in sends for answer in self._peer.say(encode(message))]

    def _conclude(
        self, ending: Persist | None, opened: Finished | None, progress: CampaignState, of: Round, *, problem: str,
        last: Sequence[bytes],
    ) -> None:  # fmt: skip
        """Write everything that follows from the sum at once, and tell the helper that the round is over."""
        following = self._on(progress).after_window(progress, opened)
        reports = 0 if opened is None else opened.summands
        rostered = self.store.joint.count_reports(of)
        past = PhaseOutcome(progress.phase, progress.iteration, opened is not None, reports, rostered, problem)
        named = [(subject, documents[-1][0]) for subject, documents in following.entries]
        self.store.advance(
            progress=encode(rules.with_outcome(following.state, past)),
            before=self._written,
            entries=self._signed(named),
            documents=[one for _, documents in following.entries for one in documents],
            joint=[] if ending is None else [ending],
            farewell=last,
            holder=self.holder,
        )
        self.sum = None
        self.tell(
            ConductorEvent(
                "ended", past.kind, past.iteration, past.opened, reports, rostered, rostered - reports, problem=problem
            )
        )  # fmt: skip
        self._say_farewells()

    def _say_farewells(self) -> None:
        """Say the last messages of rounds that are over, until the helper has heard them."""
        for of, messages in self.store.joint.farewells():
            for message in messages:
                self._peer.say(message)
            self.store.joint.heard(of)


def _lists(names: Sequence[bytes]) -> list[Names]:
    return [Names(tuple(names[at : at + MOST_NAMES])) for at in range(0, len(names), MOST_NAMES)]
