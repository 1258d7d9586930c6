"""What an attacker is asked: which of two places somebody has visited. One they have, the other they have not, and as
many people went to the one as to the other: knowing nothing, or popularity alone, is right half of the time."""

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from prirec.engines.randomness import generator
from prirec.evaluate.ranking import PlaceLists, positives
from prirec.features.samples import Samples
from prirec.types import IndexArray, RealArray

TRIES = 512  # places that a decoy is chosen from


@dataclass(frozen=True, slots=True)
class Questions:
    """One a row. Only whoever asks knows which is which."""

    person: IndexArray = field(repr=False)  # (Q,)
    visited: IndexArray = field(repr=False)  # (Q,)
    decoy: IndexArray = field(repr=False)  # (Q,)

    @classmethod
    def about(cls, samples: Samples, *, many: int, seed: int) -> Self:
        """People with a training visit, at random; a decoy is in none of their records."""
        rng, train = generator(seed, "questions of an attacker"), samples.train
        able = np.unique(train.person[train.label > 0])
        person = np.sort(rng.choice(able, size=min(many, len(able)), replace=False)).astype(np.int32)
        been, visitors = positives(train), np.bincount(train.place[train.label > 0], minlength=len(samples.places))
        visited = np.array([rng.choice(been[int(i)]) for i in person], dtype=np.int32)
        seen = PlaceLists.of(person=train.person, place=train.place, people=len(samples.ids))
        pairs = zip(person.tolist(), visited.tolist(), strict=True)
        decoy = [_decoy(seen[i], place, visitors, rng) for i, place in pairs]
        return cls(person, visited, np.array(decoy, dtype=np.int32))

    def __len__(self) -> int:
        return len(self.person)

    def right(self, of_visited: RealArray, of_decoy: RealArray) -> float:
        """How often the visited place has the higher score; a tie is a guess."""
        return float(np.mean((of_visited > of_decoy) + 0.5 * (of_visited == of_decoy)))


def _decoy(seen: IndexArray, place: int, visitors: np.ndarray, rng: np.random.Generator) -> int:
    """Of some places that the person has no record of the nearest in popularity, above or below as luck has it, or the
    more popular would be the likelier."""
    tried = np.setdiff1d(rng.integers(len(visitors), size=TRIES), seen)
    if not len(tried):
        tried = np.setdiff1d(np.arange(len(visitors)), seen)
    if not len(tried):
        return place
    more = visitors[tried] - visitors[place]
    side = tried[more >= 0] if rng.random() < 0.5 else tried[more <= 0]
    chosen = side if len(side) else tried
    return int(chosen[np.argmin(np.abs(visitors[chosen] - visitors[place]))])
