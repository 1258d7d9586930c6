"""Every run of runs.py comes to the hashes that were recorded, on every kind of processor for which some are."""

import json
from collections.abc import Callable

import pytest

from recorded.runs import HASHES, all_runs, processor

RECORDED = json.loads(HASHES.read_text(encoding="utf-8"))
RUNS = dict(all_runs())
LONG = {"protocol: rounds, drop-outs", "protocol: private, drop-outs"}  # each sum of a training by the protocol
FREE_OF_FLOATS = ("settings", "vectors")  # the same on every processor


@pytest.fixture(scope="module")
def here() -> str:
    return processor()


def test_every_run_is_recorded_and_for_every_processor_where_it_has_not_changed_since() -> None:
    """Rounds have another model since the first processor's were recorded: to be added where it is at hand."""
    assert list(RUNS) in [list(runs) for runs in RECORDED.values()]
    unchanged = [name for name in RUNS if "paper" in name or "fm" in name or name in (*FREE_OF_FLOATS, "city folder")]
    assert all([name for name in runs if name in unchanged] == unchanged for runs in RECORDED.values())
    assert all(set(runs) <= set(RUNS) for runs in RECORDED.values())


@pytest.mark.parametrize(
    ("name", "run"),
    [pytest.param(name, run, id=name, marks=pytest.mark.long if name in LONG else []) for name, run in RUNS.items()],
)
def test_the_hashes_of_a_run_are_those_recorded(name: str, run: Callable[[], dict[str, str]], here: str) -> None:
    if name not in RECORDED.get(here, {}) and name not in FREE_OF_FLOATS:
        pytest.skip("nothing is recorded for a processor with these last places of exp, log and matrix products")
    assert run() == RECORDED.get(here, next(iter(RECORDED.values())))[name]
