"""Whole trainings with every sum taken by the protocols equal the oracle and the fast engine, bit for bit."""

import msgspec
import pytest

from prirec.config import Settings
from prirec.data.dataset import Dataset
from prirec.engines.protocol import ProtocolEngine
from prirec.engines.state import State
from prirec.engines.train import make_engine
from prirec.errors import UsageError
from prirec.features.samples import Samples
from support import messages
from support.cities import (
    SMALL_PAPER,
    SMALL_ROUNDS,
    after,
    change,
    same_state,
    samples_of,
    small_city,
    with_idle_people,
)

ROUNDS = {
    "everyone stays": {},
    "some offline, some lost": {"participation": {"online": 0.9, "dropout": 0.3}},
    "too many lost": {"participation": {"dropout": 0.9}},
    "32 bits": {"ring": {"bits": 32, "fraction_bits": 20}, "participation": {"dropout": 0.2}},
    "no loss borne": {"participation": {"dropout": 0.1}, "sums": {"lost": 0.0}},
}
PAPER = {
    "a batch of one": {},
    "a batch of 7": {"interaction": {"batch": 7}},
    "weights by distance": {"neighbours": {"weights": "exponential"}},
    "32 bits, random neighbours": {
        "ring": {"bits": 32, "fraction_bits": 16},
        "neighbours": {"kind": "random", "count": 3},
        "interaction": {"batch": 3},
    },
}


def tiny_city() -> Dataset:
    return with_idle_people(small_city(people=24, places=8, records=70), every=6)


def begun(samples: Samples, settings: Settings) -> State:
    """The state after a sum of moments from which nobody dropped out."""
    return make_engine("plain", samples, change(settings, participation={"dropout": 0.0})).start()


def assert_equal_runs(samples: Samples, settings: Settings, carried: ProtocolEngine, *, iterations: int) -> None:
    others = [make_engine(name, samples, settings) for name in ("plain", "local")]
    states = [begun(samples, settings) for _ in range(3)]
    for _ in range(iterations):
        passed = carried.advance(states[0])
        assert passed.octets is not None
        said = msgspec.structs.replace(passed, octets=None)
        assert [said, said] == [engine.advance(state) for engine, state in zip(others, states[1:], strict=True)]
        assert same_state(states[0], states[1])
        assert same_state(states[0], states[2])


@pytest.mark.parametrize("changes", ROUNDS.values(), ids=ROUNDS)
def test_rounds_have_the_bits_of_the_oracle(changes):
    settings = change(SMALL_ROUNDS, floor=4, **changes)
    samples = samples_of(tiny_city(), settings)
    assert_equal_runs(samples, settings, ProtocolEngine(samples, settings), iterations=2)


@pytest.mark.parametrize("lost", [0.0, 0.1])
def test_the_sum_of_moments_has_the_bits_of_the_oracle(lost):
    settings = change(SMALL_ROUNDS, floor=4, participation={"dropout": lost})
    samples = samples_of(tiny_city(), settings)
    states = [make_engine(name, samples, settings).start() for name in ("protocol", "plain", "local")]
    assert same_state(states[0], states[1])
    assert same_state(states[0], states[2])


@pytest.mark.parametrize("method", ["shares", "pads"])
@pytest.mark.parametrize("changes", PAPER.values(), ids=PAPER)
def test_the_papers_schedule_has_the_bits_of_the_oracle(changes, method):
    settings = change(SMALL_PAPER, **{"neighbours": {"count": 3}, **changes})
    samples = samples_of(tiny_city(), settings)
    assert_equal_runs(samples, settings, ProtocolEngine(samples, settings, method=method), iterations=1)


def test_the_rounds_of_this_suite_open_some_sums_and_close_others():
    opened = set()
    for changes in ROUNDS.values():
        settings = change(SMALL_ROUNDS, floor=4, **changes)
        samples = samples_of(tiny_city(), settings)
        engine = make_engine("plain", samples, settings)
        state = begun(samples, settings)
        for passed in (engine.advance(state), engine.advance(state)):
            opened.add((passed.opened, passed.in_sum < passed.took_part))
    assert opened == {(True, False), (True, True), (False, True)}


@pytest.mark.soak
def test_a_longer_run_on_a_sparse_mask_graph():
    settings = change(SMALL_ROUNDS, floor=10, participation={"dropout": 0.2})
    samples = samples_of(small_city(people=150, places=20, records=400), settings)
    assert_equal_runs(samples, settings, ProtocolEngine(samples, settings), iterations=3)


def test_a_single_neighbour_is_refused():
    settings = change(SMALL_PAPER, neighbours={"count": 1})
    samples = samples_of(tiny_city(), settings)
    engine = make_engine("protocol", samples, settings)
    with pytest.raises(UsageError, match=messages.ONE_NEIGHBOUR):
        engine.advance(engine.start())


def test_the_result_does_not_depend_on_keys_and_pads():
    settings = change(SMALL_ROUNDS, floor=4)
    samples = samples_of(tiny_city(), settings)
    states = [after("protocol", samples, settings) for _ in range(2)]
    assert same_state(*states)
    assert states[0].estimate.B.any()
