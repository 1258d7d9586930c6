"""Windows of two operators, who reports in each, and what must be true when they are over."""

import numpy as np

from prirec.protocols.two_operators import JointTask
from support.operator_pair import HOUR, OperatorPair

WHO = ((0, 1, 2, 3, 4, 5, 6), (0, 2, 3, 4, 5, 7), (1, 2, 3, 4, 5, 6), (0, 1, 2, 3, 4, 5))


def window(pair: OperatorPair, *who: int) -> JointTask:
    """One window, in which these people report."""
    pair.run()
    assert pair.state().window
    task = pair.task
    pair.post(*who)
    pair.run()
    pair.now += HOUR
    pair.run()
    return task


def assert_exact(pair: OperatorPair, task: JointTask, who: tuple[int, ...]) -> None:
    """Both operators have the sum over these people, with one draw of noise of each."""
    plain = sum((pair.value(at, task) for at in who), start=np.zeros(task.terms.length, np.uint64))
    found = pair.opened(task)
    assert found.tolist() == pair.opened(task, pair.helping).tolist()
    assert (found - plain).view(np.int64).tolist() in pair.noises(task)


def assert_over(pair: OperatorPair) -> None:
    """Both have come to the same model, and to the same log, and nothing secret is left."""
    leader, helper = pair.state(), pair.state(pair.helping)
    assert leader.phase == helper.phase == "over"
    assert leader.shared == helper.shared
    assert helper.owed == ()
    assert pair.leading.head() == pair.helping.head()
    signed = pair.leading.cosigned()
    assert signed is not None
    assert (signed.statement.length, signed.statement.last) == (pair.leading.head().length, pair.leading.head().last)
    for store in (pair.leading, pair.helping):
        for table in ("box_keys", "reports", "settled"):
            assert store._one(f"SELECT count(*) FROM {table}") == (0,)  # noqa: S608
