"""Private values that nothing else looks like, in every form in which they could get out; and a search for them."""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_RUN = 5
LEAST = 8  # bytes of a pattern: chance does not make one in a few hundred megabytes
_KINDS = 3  # of bytes in a pattern, at least
_BYTES = 4  # of a run, at least, that are neither 0 nor the sign of a small negative number


def telling(pattern: bytes) -> bool:
    """Whether few things look like it."""
    return len(pattern) >= LEAST and len(set(pattern)) >= _KINDS


def forms(value: bytes) -> set[bytes]:
    """As it is, in hexadecimal, and in base64 wherever it begins in a longer text: the characters that its neighbours
    have no part in."""
    found = {value, value.hex().encode(), value.hex().upper().encode()}
    for shift in range(3):
        coded = b64encode(bytes(shift) + value)[-(-8 * shift // 6) : 8 * (shift + len(value)) // 6]
        found |= {coded, coded.replace(b"+", b"-").replace(b"/", b"_")}
    return found


def of_text(text: str) -> set[bytes]:
    return forms(text.encode()) | {text.encode("utf-16-le"), text.encode("utf-16-be")}


def of_number(value: float) -> set[bytes]:
    """Eight bytes either way round, and its digits."""
    raw, digits = np.float64(value), forms(f"{float(value)!r}"[:LEAST].encode())
    return forms(raw.astype("<f8").tobytes()) | forms(raw.astype(">f8").tobytes()) | digits


def of_moment(time: int) -> set[bytes]:
    both = {time.to_bytes(8, order) for order in ("little", "big")}
    return set().union(*map(forms, both)) | forms(str(time).encode())


def of_pair(one: float, other: float) -> set[bytes]:
    """Two numbers side by side in single precision, as features are kept."""
    pair = np.array([one, other])
    return forms(pair.astype("<f4").tobytes()) | forms(pair.astype(">f4").tobytes())


def of_reals(values: NDArray[np.float64]) -> set[bytes]:
    """Each entry of a model that is anything, either way round."""
    some = values[values != 0]
    words = [some.astype(order).view("V8").tolist() for order in ("<f8", ">f8")]
    return set().union(*(forms(bytes(word)) for each in words for word in each))


def of_ring(vector: NDArray[np.uint64]) -> set[bytes]:
    """Five elements in a row, with as many bytes as chance does not make: one or two small numbers amid zeros are what
    SQLite writes where it erases a row (offset and size of what is free). Even of a run that is unlike anything a form
    can be like many things: 0x01111001 in hexadecimal has two kinds of digits."""
    found: set[bytes] = set()
    for order in ("<u8", ">u8"):
        runs = np.lib.stride_tricks.sliding_window_view(vector.astype(order), _RUN)
        octets = np.ascontiguousarray(runs).view(np.uint8)
        wide = map(bytes, octets[((octets != 0) & (octets != 0xFF)).sum(axis=1) >= _BYTES])
        found |= set().union(*(filter(telling, forms(run)) for run in wide if telling(run)))
    return found


def _most_telling(pattern: bytes) -> int:
    """Where the eight bytes begin that are least like anything else, of every fourth: any will do to find a pattern
    by, and of few there are few to compare."""
    best, kinds = 0, 0
    for at in range(0, len(pattern) - LEAST + 1, 4):
        found = len(set(pattern[at : at + LEAST]))
        if found > kinds:
            best, kinds = at, found
        if kinds == LEAST:
            break
    return best


@dataclass
class Canaries:
    """By what they are, all patterns."""

    patterns: dict[bytes, str] = field(default_factory=dict)
    _heads: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, dtype=np.uint64))  # in order
    _new: set[int] = field(default_factory=set)  # heads that are not among them yet
    _by_head: dict[int, list[tuple[bytes, int]]] = field(default_factory=dict)  # and where in the pattern that is

    def add(self, what: str, patterns: Iterable[bytes]) -> None:
        for pattern in patterns:
            if not telling(pattern):
                raise AssertionError(f"{what}: a pattern that many things look like")
            if pattern not in self.patterns:
                self.patterns[pattern] = what
                at = _most_telling(pattern)
                head = int.from_bytes(pattern[at : at + LEAST], "little")
                if head not in self._by_head:
                    self._new.add(head)
                self._by_head.setdefault(head, []).append((pattern, at))

    def found(self, data: bytes) -> set[str]:
        """What of them is in these bytes. Every window of eight bytes is looked up; what is alike there is compared."""
        seen: set[str] = set()
        if self._new:
            new = np.array(sorted(self._new), dtype=np.uint64)
            self._heads = np.insert(self._heads, np.searchsorted(self._heads, new), new)
            self._new.clear()
        for shift in range(min(LEAST, max(len(data) - LEAST + 1, 0))):
            windows = np.frombuffer(data, dtype="<u8", offset=shift, count=(len(data) - shift) // LEAST)
            at = np.minimum(np.searchsorted(self._heads, windows), len(self._heads) - 1)
            for hit in np.flatnonzero(self._heads[at] == windows).tolist():
                alike, here = self._by_head[int(windows[hit])], shift + hit * LEAST
                seen |= {self.patterns[one] for one, at in alike if at <= here and data.startswith(one, here - at)}
        return seen


@dataclass
class Tap:
    """Hears every channel. `own` are canaries that only devices must not say: place ids are public in a catalogue."""

    everywhere: Canaries = field(default_factory=Canaries)
    own: Canaries = field(default_factory=Canaries)
    leaks: set[tuple[str, str]] = field(default_factory=set)  # channel, and what
    heard: dict[str, int] = field(default_factory=dict)  # bytes by channel

    def hear(self, channel: str, data: bytes, *, published: bool = False) -> None:
        self.heard[channel] = self.heard.get(channel, 0) + len(data)
        found = self.everywhere.found(data) | (set() if published else self.own.found(data))
        self.leaks |= {(channel, what) for what in found}


def on_disk(folder: Path, *names: str) -> Iterator[bytes]:
    """The files of databases whose names begin so; but not the index of a write-ahead log, which holds numbers of pages
    and nothing that stands on them. Small numbers among zeros are like vectors."""
    for file in folder.iterdir():
        if file.is_file() and file.name.startswith(names) and not file.name.endswith("-shm"):
            yield file.read_bytes()


def flat(row: Iterable[object]) -> bytes:
    """A row of a table as bytes, its values beside one another as text and as they are."""
    parts = [one if isinstance(one, bytes) else str(one).encode() for one in row]
    return b"\0".join(parts)


def described(headers: Mapping[str, str]) -> bytes:
    return "\n".join(f"{name}: {value}" for name, value in headers.items()).encode()
