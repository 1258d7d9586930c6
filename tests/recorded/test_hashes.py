"""Every run of runs.py comes to the hashes that were recorded, on every kind of processor for which some are."""

import json
from collections.abc import Callable

import pytest

from recorded.runs import HASHES, all_runs, processor

RECORDED = json.loads(HASHES.read_text(encoding="utf-8"))
RUNS = dict(all_runs())
LONG = {"protocol: rounds, drop-outs"}  # each sum of a training by the protocol; with noise it is in the short suite
FREE_OF_FLOATS = ("settings", "vectors")  # the same on every processor


@pytest.fixture(scope="module")
def here() -> str:
    return processor()


def test_every_run_is_recorded_for_every_processor() -> None:
    assert [list(runs) for runs in RECORDED.values()] == [list(RUNS)] * len(RECORDED)


@pytest.mark.parametrize(
    ("name", "run"),
    [pytest.param(name, run, id=name, marks=pytest.mark.long if name in LONG else []) for name, run in RUNS.items()],
)
def test_the_hashes_of_a_run_are_those_recorded(name: str, run: Callable[[], dict[str, str]], here: str) -> None:
    if here not in RECORDED and name not in FREE_OF_FLOATS:
        pytest.skip("nothing is recorded for a processor with these last places of exp, log and matrix products")
    assert run() == RECORDED.get(here, next(iter(RECORDED.values())))[name]
