"""Why this place and not the others nearby. Computed and shown on the person's device; nobody else learns it.

Eq. (1) is a sum over features and pairs of features. Each pair is split in halves between its two features, so that
w_0 and the features' contributions add up to the score. A feature of the person alone adds the same linear term to
every place, which the comparison with the other matched places removes: it shows only through its pairs with
features of the place or the moment.
"""

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from prirec.errors import UsageError
from prirec.types import IndexArray, RealArray

SMALLEST = 0.005  # what would read as 0.00 is no reason


@dataclass(frozen=True, slots=True, repr=False)
class Reason:
    """A group of features, and by how much it pulls this place above (or below) the mean of the matched places."""

    name: str
    pull: float


def in_words(reason: Reason) -> str:
    """For the person's eyes: `popularity +0.82`."""
    return f"{reason.name} {reason.pull:+.2f}"


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

    @classmethod
    def of(cls, contribution: RealArray, *, groups: IndexArray, group_names: tuple[str, ...]) -> Self:
        """Contributions (M, D) added up by group, groups (D,) giving each column's group, less their mean."""
        if contribution.ndim != 2 or groups.shape != contribution.shape[1:]:
            raise UsageError("every feature column needs a group: groups must have D entries")
        if len(groups) and (groups.min() < 0 or groups.max() >= len(group_names)):
            raise UsageError("a feature column belongs to a group without a name")
        by_group = contribution @ np.eye(len(group_names))[groups]
        return cls(by_group - by_group.mean(axis=0) if len(by_group) else by_group, group_names)

    def reasons(self, position: int, *, most: int = 3) -> tuple[Reason, ...]:
        """The strongest pulls on the place at this position, upward ones first, each side by size."""
        pulls = self.pulls[position]
        strongest = np.argsort(-np.abs(pulls), kind="stable")[:most]
        kept = [Reason(self.group_names[g], float(pulls[g])) for g in strongest if abs(pulls[g]) >= SMALLEST]
        return tuple(sorted(kept, key=lambda reason: reason.pull < 0))
