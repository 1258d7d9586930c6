"""Which records a model may learn from. A split is a mask: True in training, False in the test set."""

import numpy as np

from prirec.data.dataset import Visits
from prirec.errors import UsageError
from prirec.types import BoolArray


def by_record(count: int, *, train_share: float, rng: np.random.Generator) -> BoolArray:
    """The paper's split: round(train_share * count) records at random, whoever they belong to."""
    check_share(train_share)
    train = np.zeros(count, dtype=np.bool_)
    train[rng.permutation(count)[: int(_rounded(train_share, np.array(count)))]] = True
    return train


def by_time(visits: Visits, *, train_share: float) -> BoolArray:
    """The last records of each person are the test; equal times keep file order; a single record is for training."""
    check_share(train_share)
    if visits.time is None:
        raise UsageError("a split by time needs a time for each record; split by record instead")
    order = person_then_time(visits)
    person = visits.person[order]
    records = np.bincount(person)
    rank = np.arange(len(person)) - (np.cumsum(records) - records)[person]
    train = np.empty(len(person), dtype=np.bool_)
    train[order] = rank < np.maximum(_rounded(train_share, records), 1)[person]
    return train


def by_moment(visits: Visits, *, train_share: float, rng: np.random.Generator) -> BoolArray:
    """Whole lists at random: what was shown to one person at one time is learnt from, or tested on, all of it.

    A list that is cut in two tells its other half: where one of four was clicked, and the click is in training, the
    test has none. round(train_share * lists) of them are for training."""
    check_share(train_share)
    if visits.time is None:
        raise UsageError("a split by moment needs a time for each record; split by record instead")
    _, moment = np.unique(np.stack([visits.person, visits.time]), axis=1, return_inverse=True)
    lists = int(moment.max(initial=-1)) + 1
    return by_record(lists, train_share=train_share, rng=rng)[moment.ravel()]


def person_then_time(visits: Visits) -> np.ndarray:
    """The canonical order of records: by person, then by time where it is known, then as in the file."""
    if visits.time is None:
        return np.argsort(visits.person, kind="stable")
    return np.lexsort((visits.time, visits.person))


def check_share(train_share: float) -> None:
    """A share strictly between nothing and everything."""
    if not 0 < train_share < 1:
        raise UsageError("train_share must lie strictly between 0 and 1, for example 0.8")


def _rounded(share: float, count: np.ndarray) -> np.ndarray:
    # a half goes to training; the tolerance keeps 0.7 * 15 a half
    return np.floor(share * count + 0.5 + 1e-9).astype(np.int64)
