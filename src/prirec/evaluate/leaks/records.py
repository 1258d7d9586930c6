"""Records that are on both sides of a split, and moments or orders of time that give test records away. All exact."""

import numpy as np

from prirec.data.dataset import Visits
from prirec.data.recipe import Prepared
from prirec.evaluate.leaks.findings import Finding, Findings
from prirec.evaluate.leaks.groups import among, counted, moments_of, rows_of
from prirec.settings import Settings
from prirec.types import OffsetArray


def copied_records(prepared: Prepared) -> Findings:
    """Test records that are in training too: together both sides have more of them than the data.

    A visit that somebody repeated is no copy. Drawn negatives are left out: chance may draw a pair twice."""
    data, train, test = (_told(prepared, side) for side in (prepared.dataset.visits, prepared.train, prepared.test))
    have, learnt, tested = counted(rows_of(data), rows_of(train), rows_of(test))
    copies = int(np.minimum(np.clip(learnt + tested - have, 0, None), np.minimum(learnt, tested)).sum())
    if not copies:
        return ()
    words = (
        f"{copies:,} of {len(test):,} test records are in the training set as well; split so that each record is on "
        "one side only"
    )
    return (Finding("test records in training", "refused", words, copies),)


def repeated_records(prepared: Prepared) -> Findings:
    """Records that the data themselves hold twice, to the second, of which one is learnt from and one tested."""
    if prepared.dataset.visits.time is None:
        return ()  # without times, a second visit looks like a copy
    learnt, tested = counted(*(rows_of(_told(prepared, side)) for side in (prepared.train, prepared.test)))
    twice = int(np.minimum(learnt, tested).sum())
    if not twice or copied_records(prepared):
        return ()
    words = (
        f"the data hold {twice:,} records of one person, place and second twice, once in training and once in the "
        "test; if they were written twice by mistake, remove the repetitions"
    )
    return (Finding("records that stand twice in the data", "flagged", words, twice),)


def later_than_the_test(prepared: Prepared, settings: Settings) -> Findings:
    """Training records of people that are later than their first test record, where the split is by time."""
    if settings.data.split != "time" or prepared.train.time is None or prepared.test.time is None:
        return ()
    train, test = (_told(prepared, side) for side in (prepared.train, prepared.test))
    first = np.full(len(prepared.dataset.people), np.iinfo(np.int64).max)
    np.minimum.at(first, test.person, np.asarray(test.time))
    late = int((np.asarray(train.time) > first[train.person]).sum())
    if not late:
        return ()
    words = (
        f"{late:,} of {len(train):,} training records are later than a test record of the same person; test on "
        "everyone's last records"
    )
    return (Finding("training after the test", "refused", words, late),)


def moments_of_the_test(prepared: Prepared) -> Findings:
    """Drawn training negatives with the time and context of a test visit, which no training visit of the person has.

    A negative of somebody without training visits may have anyone's training moment (decisions/0009)."""
    visits = prepared.dataset.visits
    if prepared.dataset.labelled or (visits.time is None and not visits.context):
        return ()
    positive = prepared.train.label > 0
    negative, known = prepared.train.take(~positive), prepared.train.take(positive)
    hidden = prepared.test.take(prepared.test.label > 0)
    own = among(_own_moments(negative), _own_moments(known))
    anyones = among(moments_of(negative), moments_of(known))
    tested = among(_own_moments(negative), _own_moments(hidden))
    honest = np.where(np.isin(negative.person, known.person), own, anyones)
    leaked = int((tested & ~honest).sum())
    if not leaked:
        return ()
    words = (
        f"{leaked:,} of {len(negative):,} training negatives have the moment of a test visit, which tells when the "
        "test visits were; give them moments of training visits"
    )
    return (Finding("moments of test visits in training", "refused", words, leaked),)


def _told(prepared: Prepared, visits: Visits) -> Visits:
    """The records that the data hold: all of them, or the visits where negatives are drawn."""
    return visits if prepared.dataset.labelled else visits.take(visits.label > 0)


def _own_moments(visits: Visits) -> OffsetArray:
    return np.column_stack([visits.person.astype(np.int64), moments_of(visits)])
