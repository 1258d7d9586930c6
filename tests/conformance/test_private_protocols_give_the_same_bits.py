"""Whole trainings under a budget by the protocols, every device with noise of its own, equal both engines bit for bit.

So that bits can be compared at all, one survivor's vector makes up for the difference between the devices' noise and
the simulated one (engines/protocol.py); that sums hold every device's share is for tests/protocols to say.
"""

import msgspec
import numpy as np
import pytest

from prirec.config import Settings
from prirec.engines import protocol
from prirec.engines.protocol import ProtocolEngine
from prirec.engines.state import RoundsState
from prirec.engines.train import make_engine
from prirec.errors import PolicyError
from prirec.features.samples import Samples
from prirec.protocols import secure_sum, terms
from prirec.protocols.terms import model_hash, round_codes
from support import messages
from support.cities import SMALL_PRIVATE, change, same_state, samples_of, small_city
from support.low_floors import low_floor

FLOOR = 12
FEW = change(SMALL_PRIVATE, floor=FLOOR)
ROUNDS = {
    "as few as may be": (FLOOR, {}),
    "some lost": (23, {"participation": {"dropout": 0.1}}),
    "32 bits, some offline": (23, {"ring": {"bits": 32}, "participation": {"online": 0.95, "dropout": 0.1}}),
    "too many lost": (18, {"participation": {"dropout": 0.8}, "features": {"dynamic": False}}),
}


@pytest.fixture(autouse=True)
def _few_people(monkeypatch: pytest.MonkeyPatch) -> None:
    low_floor(monkeypatch, FLOOR)


def begun(people: int, settings: Settings) -> tuple[Samples, RoundsState]:
    """Samples, and the state after a sum of moments from which nobody dropped out."""
    samples = samples_of(small_city(people=people, places=5, records=4 * people), settings)
    return samples, make_engine("plain", samples, change(settings, participation={"dropout": 0.0})).start()


def assert_equal_runs(people: int, settings: Settings, *, iterations: int) -> set[tuple[bool, bool]]:
    """Whether sums were opened, and whether they lost somebody who had come."""
    samples, state = begun(people, settings)
    carried, seen = ProtocolEngine(samples, settings), set()
    others = [make_engine(name, samples, settings) for name in ("plain", "local")]
    states = [state, state.copy(), state.copy()]
    for _ in range(iterations):
        passed = carried.advance(states[0])
        said = msgspec.structs.replace(passed, octets=None)
        assert [said, said] == [engine.advance(state) for engine, state in zip(others, states[1:], strict=True)]
        assert same_state(states[0], states[1])
        assert same_state(states[0], states[2])
        seen.add((passed.opened, passed.took_part > passed.in_sum))
    assert states[0].estimate.average.any() == any(opened for opened, _ in seen)
    return seen


@pytest.mark.parametrize(
    ("name", "opens"),
    [
        ("as few as may be", (True, False)),
        ("some lost", (True, True)),
        ("32 bits, some offline", (True, True)),
        ("too many lost", (False, True)),
    ],
)
def test_a_round_under_a_budget_has_the_bits_of_the_oracle(name, opens):
    people, changes = ROUNDS[name]
    assert assert_equal_runs(people, change(FEW, **changes), iterations=1) == {opens}


def test_a_round_begins_where_the_one_before_it_ended():
    assert assert_equal_runs(FLOOR, FEW, iterations=2) == {(True, False)}


@pytest.mark.parametrize("lost", [0.0, 0.1])
def test_the_sum_of_moments_has_the_bits_of_the_oracle(lost):
    settings = change(FEW, participation={"dropout": lost})
    samples = samples_of(small_city(people=23, places=5, records=92), settings)
    states = [make_engine(name, samples, settings).start() for name in ("protocol", "plain", "local")]
    assert same_state(states[0], states[1])
    assert same_state(states[0], states[2])


@pytest.mark.parametrize("engine", ["protocol", "plain", "local"])
def test_a_sum_of_moments_that_too_many_have_left_is_refused(engine):
    settings = change(FEW, participation={"dropout": 0.8}, features={"dynamic": False})
    samples = samples_of(small_city(people=18, places=5, records=72), settings)
    with pytest.raises(PolicyError, match=messages.TOO_FEW_IN_MOMENTS):
        make_engine(engine, samples, settings).start()


@pytest.mark.soak
def test_a_longer_run_on_a_sparse_mask_graph():
    settings = change(SMALL_PRIVATE, participation={"dropout": 0.1})
    assert assert_equal_runs(150, settings, iterations=3) == {(True, True)}


# What the devices do, behind the bits


def test_every_device_adds_a_share_of_its_own_and_draws_it_anew_for_every_sum(monkeypatch):
    """The sum of moments and that of a round: a seed of each device for each, none of them twice, all for the roster as
    it is."""
    drawn, seen = terms.draw_noise, []

    def watched(terms, size, *, seed):
        seen.append((terms.noise, size, seed))
        return drawn(terms, size, seed=seed)

    for module in (secure_sum, protocol):
        monkeypatch.setattr(module, "draw_noise", watched)
    samples, _ = begun(FLOOR, FEW)
    carried = ProtocolEngine(samples, FEW)
    carried.advance(carried.start())
    codes = round_codes(FEW, people=FLOOR, places=len(samples.places), size=samples.columns.size)
    assert {(noise_of, size) for noise_of, size, _ in seen} == {(code.noise, FLOOR) for code in codes}
    # each seed serves twice here: on its device, and where the simulation makes up for it
    assert sorted(map(seen.count, set(seen))) == [2] * 2 * FLOOR


def test_devices_take_part_only_with_the_B_that_they_hold_themselves(monkeypatch):
    tasks, real = [], protocol.Member

    def watched(task, **rest):
        tasks.append(task)
        return real(task, **rest)

    monkeypatch.setattr(protocol, "Member", watched)
    samples, _ = begun(FLOOR, FEW)
    carried = ProtocolEngine(samples, FEW)
    state = carried.start()
    carried.advance(state)
    B = state.estimate.B
    carried.advance(state)
    held = {(task.round.kind, task.round.number): task.model for task in tasks}
    assert held == {
        ("moments", 0): model_hash(), ("interaction", 0): model_hash(np.zeros_like(B)),
        ("interaction", 1): model_hash(B),
    }  # fmt: skip
    assert len(tasks) == 3 * FLOOR


def test_devices_that_forget_their_noise_would_be_noticed(monkeypatch):
    """The planted mistake: what is made up for was then never added."""
    real = secure_sum.draw_noise
    monkeypatch.setattr(secure_sum, "draw_noise", lambda *of, seed: np.zeros_like(real(*of, seed=seed)))
    with pytest.raises(AssertionError):
        assert_equal_runs(FLOOR, FEW, iterations=1)


def test_noise_that_the_protocol_engine_forgets_would_be_noticed(monkeypatch):
    monkeypatch.setattr(
        protocol, "simulated_noise", lambda wanted, count, **where: np.zeros(count, dtype=np.uint64)
    )  # fmt: skip
    with pytest.raises(AssertionError):
        assert_equal_runs(FLOOR, FEW, iterations=1)
