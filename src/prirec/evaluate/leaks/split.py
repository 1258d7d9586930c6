"""Labels that the split itself makes predictable, the wrong way round (decisions/0009).

With drawn negatives and a random split by record, somebody whose training records hold many visits has few of them left
for the test. Whatever learns a person's rate of visits then does worse than chance by it: the reason why PriRec- is
below 0.5 in the paper's Table 4. Within a moment it is worse: where a list is cut in two and training has the click,
the test has what was ignored; and of a visit and the negative drawn for it, training has the one and the test the
other. No model here is told which records belong to one moment, so it is flagged with its size: that is what a model
would gain that knew of the split, and what one that learns rates loses.
"""

import math

import numpy as np

from prirec.data.dataset import Visits
from prirec.data.recipe import Prepared
from prirec.evaluate.leaks.findings import Finding, Findings
from prirec.evaluate.leaks.groups import numbered
from prirec.types import OffsetArray, RealArray

_FAR = 3.09  # once in a thousand fair splits
_LEAST = 0.01  # a smaller distance from 0.5 changes no figure that anyone would print
_WHOLE = 'set data.split = "moment", which keeps what was shown together on one side'


def rates_that_say_the_opposite(prepared: Prepared) -> Findings:
    """The AUC on the test of minus each person's share of positives in training, where that is clearly above 0.5."""
    within = 'read GAUC, which compares within people alone, or set data.split = "time"'
    return _found(
        prepared,
        [side.person.astype(np.int64)[:, None] for side in (prepared.train, prepared.test)],
        "labels anti-correlated by the split",
        "a person's share of positives in training says the opposite of the test labels",
        f"so models of single people look worse than they are; {_WHOLE if prepared.dataset.labelled else within}",
    )


def moments_cut_in_two(prepared: Prepared) -> Findings:
    """The same with the share of positives among the training records of the same person and second."""
    if prepared.train.time is None or prepared.test.time is None:
        return ()
    return _found(
        prepared,
        [np.column_stack([side.person, np.asarray(side.time)]) for side in (prepared.train, prepared.test)],
        "moments cut in two by the split",
        "training has records of the very moments that are tested, and their labels say the opposite of the test's",
        "so the test asks less, and something else, than what comes next; "
        + (_WHOLE if prepared.dataset.labelled else 'set data.split = "time"'),
    )


def _found(prepared: Prepared, groups: list[OffsetArray], name: str, what: str, instead: str) -> Findings:
    learnt, tested = numbered(*groups)
    scores = -training_rates(prepared.train, learnt, groups=1 + int(max(learnt.max(), tested.max())))[tested]
    auc, error = auc_by_people(prepared.test, scores)
    if not auc > 0.5 + max(_FAR * error, _LEAST):  # also where there is none
        return ()
    told = (
        f"ranking by minus their share of positives has an AUC of {auc:.3f} (chance: 0.5, standard error {error:.3f})"
    )
    return (Finding(name, "flagged", f"{what}: {told}, {instead}", auc),)


def training_rates(train: Visits, group: OffsetArray, *, groups: int) -> RealArray:
    """The share of positives among each group's training records; everyone's for a group without any."""
    records, positive = np.bincount(group, minlength=groups), np.bincount(group, train.label > 0, groups)
    overall = float((train.label > 0).mean()) if len(train) else 0.0
    return np.where(records > 0, positive / np.maximum(records, 1), overall)


def auc_by_people(test: Visits, scores: RealArray) -> tuple[float, float]:
    """The AUC, and its standard error with people drawn, not records (Obuchowski, Biometrics 53, 1997).

    A record's component is its share of wins over the other class; a person's are summed. nan with one class or person.
    """
    positive = test.label > 0
    wins, losses = scores[positive], scores[~positive]
    tested = len(np.unique(test.person))
    if not len(wins) or not len(losses) or tested < 2:
        return math.nan, math.nan
    shares = np.zeros(len(scores))
    shares[positive], shares[~positive] = _below(wins, losses), 1 - _below(losses, wins)
    auc = float(shares[positive].mean())
    weight = np.where(positive, 1 / len(wins), 1 / len(losses))
    moved = np.bincount(test.person, (shares - auc) * weight)
    return auc, math.sqrt(tested / (tested - 1) * float((moved**2).sum()))


def _below(values: RealArray, others: RealArray) -> RealArray:
    """The share of the others that lie below each value, a tie counting half."""
    left, right = (np.searchsorted(np.sort(others), values, side=side) for side in ("left", "right"))
    return np.asarray((left + right) / (2 * len(others)), dtype=np.float64)
