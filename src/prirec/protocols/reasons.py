"""Why this place and not the others nearby: how far each group of features pulls it, and the phrase for it.

A score is a sum over features and pairs of features, in Eq. (1) as in the shared model. Each pair is split in halves
between its two features, so that the features' contributions add up to the score, but for what all places have in
common. A feature of the person alone adds the same to every place, which the comparison with the other matched places
removes: it shows only through its pairs with features of the place or the moment.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from prirec.errors import UsageError
from prirec.features.encoding import (
    Affinity,
    AnyBlock,
    Area,
    Clock,
    Closeness,
    Density,
    Distance,
    Encoding,
    Hashed,
    Nearest,
    Words,
)
from prirec.privacy.popularity_estimate import NEARBY, POPULARITY
from prirec.types import BoolArray, IndexArray, RealArray

SMALLEST = 0.005  # a pull that would print as 0.00 is no reason


@dataclass(frozen=True, slots=True, repr=False)
class Reason:
    """A group of features, and by how much it pulls this place above (or below) the mean of the matched places."""

    name: str
    pull: float
    phrase: str = ""

    @property
    def words(self) -> str:
        """As the person is shown it: `close to home`; the name where there is no phrase."""
        return self.phrase or self.name


def contributions(linear: RealArray, interaction: RealArray, samples: RealArray) -> RealArray:
    """Eq. (1) by feature, (M, D): w_d x_d + 1/2 x_d v_d . (the other features' v x). A row adds up to score - w_0."""
    w, V, X = linear, interaction, samples  # (D + 1,), (D, K), (M, D)
    if V.ndim != 2 or w.shape != (len(V) + 1,) or X.ndim != 2 or X.shape[1] != len(V):
        raise UsageError("the linear model must have D + 1 entries, V the shape (D, K) and the samples (M, D)")
    if not (np.isfinite(w).all() and np.isfinite(V).all() and np.isfinite(X).all()):
        raise UsageError("the models and the samples must be finite numbers")
    others = (X @ V) @ V.T - X * np.square(V).sum(axis=1)
    contribution: RealArray = X * (w[1:] + 0.5 * others)
    return contribution


@dataclass(frozen=True, slots=True)
class Contrast:
    """How far each group of features pulls each matched place from the mean over the matched places. Private."""

    pulls: RealArray = field(repr=False)  # (M, G)
    group_names: tuple[str, ...]
    wording: "Wording | None" = field(default=None, repr=False)

    @classmethod
    def of(
        cls, contribution: RealArray, *, groups: IndexArray, group_names: tuple[str, ...],
        wording: "Wording | None" = None,
    ) -> Self:  # fmt: skip
        """Contributions (M, D) added up by group, groups (D,) giving each column's group, less their mean."""
        if contribution.ndim != 2 or groups.shape != contribution.shape[1:]:
            raise UsageError("every feature column needs a group: groups must have D entries")
        if len(groups) and (groups.min() < 0 or groups.max() >= len(group_names)):
            raise UsageError("a feature column belongs to a group without a name")
        by_group = contribution @ np.eye(len(group_names))[groups]
        return cls(by_group - by_group.mean(axis=0) if len(by_group) else by_group, group_names, wording)

    def reasons(self, position: int, *, most: int = 3) -> tuple[Reason, ...]:
        """The strongest pulls on the place at this position, upward ones first, each side by size. Groups that are told
        in the same words, or in opposite ones, are one reason: what they come to together."""
        alike: dict[Hashable, list[Reason]] = {}
        for group in np.flatnonzero(self.pulls[position]):
            subject, reason = self._reason(int(group), position)
            alike.setdefault(subject, []).append(reason)
        kept = [together for some in alike.values() if abs((together := _together(some)).pull) >= SMALLEST]
        strongest = sorted(kept, key=lambda reason: -abs(reason.pull))[:most]
        return tuple(sorted(strongest, key=lambda reason: reason.pull < 0))

    def _reason(self, group: int, position: int) -> tuple[Hashable, Reason]:
        """A group's pull in words, and what the words are about."""
        name, pull = self.group_names[group], float(self.pulls[position, group])
        subject, phrase = (group, "") if self.wording is None else self.wording.of(group, position, liked=pull > 0)
        return subject, Reason(name, pull, phrase)


def _together(reasons: Sequence[Reason]) -> Reason:
    """Reasons about one thing as one, in the words of the strongest on the side that prevails."""
    pull = sum(reason.pull for reason in reasons)
    return replace(max(reasons, key=lambda reason: reason.pull * math.copysign(1, pull)), pull=pull)


# Reasons in words. What a word claims is looked up: 'close' only where the place is nearer than the mean of the matched
# places, 'than most' only where it is beyond their median, 'like others you visited' only where the person knows a
# place with the same word.


_POPULAR = {  # than the mean of the matched places; all of it is about one thing
    **dict.fromkeys(("visitors", "visits", POPULARITY), ("popular", "little visited")),
    "recent visits": ("popular lately", "little visited lately"),
    NEARBY: ("in a popular area", "in a quiet area"),
}


@dataclass(frozen=True, slots=True, repr=False)
class Wording:
    """What the reasons for one person are called, by how a matched place differs from the others. Private."""

    encoding: Encoding
    samples: RealArray  # (M, D)
    contribution: RealArray  # (M, D)
    familiar: BoolArray  # (n,): features of places that a place has where the person has been
    home: str = "home"  # what distances are from, where the person has given no home

    def of(self, group: int, position: int, *, liked: bool) -> tuple[Hashable, str]:
        """The words for one group of features at one matched place, and before them what they are about, which is the
        same for opposite words; `liked`: whether they speak for the place."""
        blocks = self.encoding.blocks()
        block, side = blocks[group], self.encoding.sides()[group]
        name, first = block.column.replace("_", " "), self.encoding.width(blocks[:group])
        if side == "person" or isinstance(block, Clock) or (side == "context" and isinstance(block, Hashed | Words)):
            # an area is not called home: it may be that of the middle of the visits
            what = "your area" if isinstance(block, Area) else f"{'your' if side == 'person' else 'the'} {name}"
            return group, f"fits {what}" if liked else f"fits {what} less"
        if isinstance(block, Words) and (word := self._word(block, first, position, liked=liked)):
            return word
        if isinstance(block, Hashed | Words):  # of a bucket nobody knows which word it stands for
            return group, f"its {name}"
        about, more, less = _more_or_less(block, self.home)
        subject: Hashable = (about,) if about else group  # a place may have the word "home"
        level = self.samples[:, first : first + block.width].mean(axis=1)
        away = level[position] - (level.mean() if more else np.median(level))
        if abs(away) < 1e-9:
            return subject, f"its {name}"
        return subject, (more or f"higher {name} than most") if away > 0 else less or f"lower {name} than most"

    def _word(self, block: Words, first: int, position: int, *, liked: bool) -> tuple[str, str] | None:
        """That of the place's words which has most to do with it, and how it is told; None where the place has none."""
        columns = slice(first, first + block.width)
        pulls = self.contribution[position, columns] * (1 if liked else -1)
        pulls[self.samples[position, columns] == 0] = -math.inf
        at = int(np.argmax(pulls))
        if pulls[at] == -math.inf:
            return None
        seen, word = first + at - self.encoding.width(self.encoding.person), block.words[at]
        if not liked:
            return word, f"less your kind: {word}"
        known = seen < len(self.familiar) and self.familiar[seen]
        return word, f"like other {word} places you visited" if known else word


def _more_or_less(block: AnyBlock, home: str) -> tuple[str, str, str]:
    """What a number is about, and the words for more and for less of it; empty where it has none of its own."""
    if isinstance(block, Distance):
        return "home", f"far from {home}", f"close to {home}"
    if isinstance(block, Nearest):
        return "own visits", "far from your other places", "close to your other places"
    if isinstance(block, Density):
        return "own visits", "close to your other places", "far from your other places"
    if isinstance(block, Affinity | Closeness):
        of = block.of.replace("_", " ")
        return f"by {of}", f"like places you have visited, by {of}", f"unlike places you have visited, by {of}"
    return ("popular", *_POPULAR[block.column]) if block.column in _POPULAR else ("", "", "")
