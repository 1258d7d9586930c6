"""An in-memory wire between parties: it orders, delays, duplicates, drops, and counts bytes.

Every message crosses it as bytes, through the codec. Its parties are driven as a device or a server would drive them:
what is to be persisted is written down first, under the rules of the journal, and only then anything is sent.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Protocol

from prirec.errors import PeerError
from prirec.protocols.actions import Aborted, Action, Finished, Persist, Send, Stage
from prirec.protocols.codec import decode, encode
from prirec.protocols.convener import Convener
from prirec.protocols.journal import LIFE, ConflictError, Entry, Verdict, admit, entry
from prirec.protocols.messages import AnyMessage, step
from prirec.protocols.moves import State
from prirec.protocols.party import Party

Fate = Callable[[AnyMessage], Sequence[int]]


def faithful(message: AnyMessage) -> Sequence[int]:
    """Each message arrives once, in order."""
    return (0,)


class Journal(Protocol):
    """Where a party's persists go. On a device this is device/store.py."""

    def write(self, wanted: Persist) -> object: ...


class MemoryJournal:
    """A journal for simulation: the same rules, and nothing on disk."""

    def __init__(self) -> None:
        self._held: dict[tuple[bytes, str, int], Entry] = {}
        self._last: dict[tuple[bytes, str], int] = {}

    def write(self, wanted: Persist) -> Entry:
        of = wanted.round
        key, kind = (of.deployment, of.kind, of.number), (of.deployment, of.kind)
        held = self._held.get(key)
        try:
            verdict = admit(wanted, held=held, last=self._last.get(kind))
        except ConflictError:
            if held is not None and LIFE[held.stage]:
                self._held[key] = entry(Persist(of, Stage.BURNT, bytes(32)), held=held)
            raise
        if verdict is Verdict.KNOWN and held is not None:
            return held
        self._held[key] = entry(wanted, held=held)
        self._last[kind] = max(of.number, self._last.get(kind, of.number))
        return self._held[key]


@dataclass(slots=True)
class Traffic:
    """What crossed the wire, by step; a message counts when it is sent, whether or not it arrives."""

    messages: Counter[str] = field(default_factory=Counter)
    octets: Counter[str] = field(default_factory=Counter)

    def note(self, message: AnyMessage, size: int) -> None:
        self.messages[step(type(message))] += 1
        self.octets[step(type(message))] += size


class Wire:
    """Carries messages until nothing moves. `fate` says for each message after how many others its copies arrive: none
    means that it is lost."""

    def __init__(self, fate: Fate = faithful, traffic: Traffic | None = None) -> None:
        self.fate, self.traffic = fate, traffic if traffic is not None else Traffic()
        self.parties: dict[bytes, Party] = {}
        self.journals: dict[bytes, Journal] = {}
        self.finished: dict[bytes, Finished] = {}
        self.aborted: dict[bytes, PeerError] = {}
        self.refused: list[PeerError] = []
        self._queue: list[tuple[int, int, bytes]] = []
        self._clock = self._sent = 0

    def attach(self, party: Party, journal: Journal) -> None:
        self.parties[party.name], self.journals[party.name] = party, journal

    def do(self, party: Party, actions: Iterable[Action]) -> None:
        """What a party asked for, in its order."""
        for action in actions:
            match action:
                case Persist():
                    self.journals[party.name].write(action)
                case Send():
                    self._send(action.message)
                case Finished():
                    self.finished[party.name] = action
                case Aborted():
                    self.aborted[party.name] = action.error

    def run(self, collector: Convener) -> None:
        """Delivers what is under way; when nothing is, the collector's time for the step is over."""
        while True:
            self._deliver()
            if collector.state in (State.DONE, State.BURNT):
                return
            self.do(collector, collector.advance())

    def _send(self, message: AnyMessage) -> None:
        data = encode(message)
        self.traffic.note(message, len(data))
        for delay in self.fate(message):
            self._sent += 1
            heappush(self._queue, (self._clock + delay, self._sent, data))

    def _deliver(self) -> None:
        while self._queue:
            due, _, data = heappop(self._queue)
            self._clock = max(self._clock, due) + 1
            try:
                message = decode(data)
                party = self.parties.get(message.receiver)
                actions = party.receive(message) if party is not None else []
            except PeerError as fault:
                self.refused.append(fault)
                continue
            if party is not None:
                self.do(party, actions)
