"""Two operators with a store each: a whole campaign of windows, and what becomes of it when either of them dies."""

from pathlib import Path

import pytest

from support.low_floors import low_floor
from support.operator_pair import HOUR, OperatorPair


@pytest.fixture(autouse=True)
def _few_people(monkeypatch: pytest.MonkeyPatch) -> None:
    low_floor(monkeypatch, 2)


@pytest.fixture
def pair(tmp_path: Path) -> OperatorPair:
    return OperatorPair(tmp_path)


def window(pair: OperatorPair, *who: int) -> None:
    """One window, in which these people report."""
    pair.run()
    assert pair.state().window
    pair.post(*who)
    pair.run()
    pair.now += HOUR
    pair.run()


def test_a_campaign_of_windows_ends_with_a_model_that_the_helper_has_computed_itself(pair: OperatorPair) -> None:
    charter = pair.begin()
    assert charter.most == 16
    for who in ((0, 1, 2, 3, 4, 5, 6), (0, 2, 3, 4, 5, 7), (1, 2, 3, 4, 5, 6), (0, 1, 2, 3, 4, 5)):
        window(pair, *who)
    pair.run()
    leader, helper = pair.state(), pair.state(pair.helping)
    assert leader.phase == helper.phase == "over"
    assert [past.survivors for past in leader.past] == [7, 6, 6, 6]
    assert all(past.opened for past in leader.past)
    assert leader.shared == helper.shared
    assert helper.owed == ()
    assert pair.leading.head() == pair.helping.head()
    signed = pair.leading.cosigned()
    assert signed is not None
    assert (signed.statement.length, signed.statement.last) == (pair.leading.head().length, pair.leading.head().last)
