"""Every run of runs.py comes to the hashes that were recorded, on a processor like the one that recorded them."""

import json
from collections.abc import Callable

import pytest

from recorded.runs import HASHES, all_runs, processor

RECORDED = json.loads(HASHES.read_text(encoding="utf-8"))
RUNS = dict(all_runs())
LONG = {"protocol: rounds, drop-outs"}  # each sum of a training by the protocol; with noise it is in the short suite
FREE_OF_FLOATS = ("settings", "vectors")  # the same on every processor


@pytest.fixture(scope="module")
def same_processor() -> bool:
    return processor() == RECORDED["processor"]


def test_every_recorded_run_is_run() -> None:
    assert list(RECORDED["runs"]) == list(RUNS)


@pytest.mark.parametrize(
    ("name", "run"),
    [pytest.param(name, run, id=name, marks=pytest.mark.long if name in LONG else []) for name, run in RUNS.items()],
)
def test_the_hashes_of_a_run_are_those_recorded(name: str, run: Callable[[], dict[str, str]], same_processor) -> None:
    if not same_processor and name not in FREE_OF_FLOATS:
        pytest.skip("recorded on a processor whose exp, log or matrix products differ in the last place")
    assert run() == RECORDED["runs"][name]
