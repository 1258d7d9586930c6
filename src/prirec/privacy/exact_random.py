"""Exact random integers from a 32-byte secret seed: no floats, and no value likelier than it should be.

A stream is the AES-256-CTR key streams of keys derived from the seed, end to end, so that it never runs out; without
the seed it cannot be distinguished from uniform words. One seed, one purpose, one release. Kernels use a variable
number of words for each answer. A kernel that runs out of words in the middle of an answer starts that answer again on
the SAME words with more behind them: on fresh words, answers that need few of them would become likelier.
"""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from prirec.errors import UsageError
from prirec.sharing.keys import derive
from prirec.sharing.masks import SEED, stretch
from prirec.types import BoolArray, OffsetArray, RingArray
from prirec.util.jit import inlined, kernel

Answers = TypeVar("Answers", bound=NDArray[Any])
# (words, answers, done, *parameters) -> (answers done, words used)
Drawing: TypeAlias = Callable[..., tuple[int, int]]

LARGEST = np.uint64(2**64 - 1)
ONE = np.uint64(1)
ZERO = np.uint64(0)
_FIRST_PIECE, _DOUBLINGS = 2**10, 10  # words: short streams are cheap, and no piece is over 8 MB


class Stream:
    """The random words of one seed, each used once."""

    __slots__ = ("_pieces", "_seed", "_words")

    def __init__(self, seed: bytes) -> None:
        if not isinstance(seed, bytes) or len(seed) != SEED:
            raise UsageError(f"a seed is {SEED} bytes, all of them secret")
        self._seed = seed
        self._pieces = 0
        self._words: RingArray = np.empty(0, dtype=np.uint64)

    def words(self, count: int) -> RingArray:
        """`count` uniform words of 64 bits."""
        if count < 0:
            raise UsageError("no fewer than 0 words can be drawn")
        while len(self._words) < count:
            self._lengthen()
        taken, self._words = self._words[:count], self._words[count:]
        return taken

    def bernoulli(self, numerator: int, count: int) -> BoolArray:
        """`count` coins of exactly numerator / 2^64: every mechanism here rounds its probabilities to that."""
        if not 0 <= numerator <= 2**64:
            raise UsageError("a probability over 2^64 has a numerator from 0 to 2^64")
        if numerator == 2**64:
            return np.ones(count, dtype=np.bool_)
        hits: BoolArray = self.words(count) < np.uint64(numerator)
        return hits

    def below(self, bounds: int | OffsetArray, count: int | None = None) -> OffsetArray:
        """Uniform on 0 .. bound - 1, exactly, by rejection: `count` draws for one bound, or one for each of many."""
        limits = np.asarray(bounds, dtype=np.int64)
        limits = np.full(1 if count is None else count, limits, dtype=np.int64) if limits.ndim == 0 else limits
        if np.any(limits < 1):
            raise UsageError("a number is drawn below a bound of at least 1")
        return self.draw(_below_each, np.empty(limits.size, dtype=np.int64), limits)

    def draw(self, drawing: Drawing, answers: Answers, *parameters: object) -> Answers:
        """Fill `answers` with a kernel that returns how many answers are done, and words used, when its words end."""
        done = 0
        while True:
            done, used = drawing(self._words, answers, done, *parameters)
            self._words = self._words[used:]
            if done == len(answers):
                return answers
            self._lengthen()

    def _lengthen(self) -> None:
        size = _FIRST_PIECE << min(self._pieces, _DOUBLINGS)
        piece = stretch(derive(self._seed, "prirec privacy stream", self._pieces), size)
        self._pieces += 1
        self._words = np.concatenate([self._words, piece])

    def __repr__(self) -> str:
        return "Stream(secret)"


@inlined
def below(words: RingArray, at: int, bound: np.uint64) -> tuple[np.uint64, int]:
    """Uniform on 0 .. bound - 1 and the next position; a position behind the end says that the words ran out."""
    while at < len(words):
        word = words[at]
        at += 1
        rest = word % bound
        # rejection: the last 2^64 mod bound words would make small answers likelier
        if word - rest <= LARGEST - (bound - ONE):
            return rest, at
    return ZERO, len(words) + 1


@kernel
def _below_each(words: RingArray, answers: OffsetArray, done: int, bounds: OffsetArray) -> tuple[int, int]:
    at = 0
    for i in range(done, len(answers)):
        value, after = below(words, at, np.uint64(bounds[i]))
        if after > len(words):
            return i, at
        answers[i], at = np.int64(value), after
    return len(answers), at
