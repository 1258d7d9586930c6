"""Whole trainings under a budget by the protocols, every device with noise of its own, equal both engines bit for bit.

So that bits can be compared at all, one survivor's vector makes up for the difference between the devices' noise and
the simulated one (engines/protocol.py); that sums hold every device's share is for tests/protocols to say.
"""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from prirec.config import Settings
from prirec.engines import protocol
from prirec.engines.protocol import ProtocolEngine
from prirec.engines.train import make_engine, start
from prirec.protocols import secure_sum, terms
from prirec.protocols.terms import model_hash
from prirec.rounds.definition import participation
from support.cities import SMALL_PRIVATE, change, same_state, samples_of, small_city
from support.low_floors import low_floor

FLOOR = 12
FEW = change(SMALL_PRIVATE, floor=FLOOR, neighbours={"size": FLOOR})
ROUNDS = {
    "as few as may be": (FLOOR, {}),
    "some lost": (23, {"participation": {"dropout": 0.2}}),
    "32 bits, some offline": (23, {"ring": {"bits": 32}, "participation": {"online": 0.95, "dropout": 0.2}}),
    "too many lost": (18, {"participation": {"dropout": 0.8}, "features": {"dynamic": False}}),
}


@pytest.fixture(autouse=True)
def _few_people(monkeypatch: pytest.MonkeyPatch) -> None:
    low_floor(monkeypatch, FLOOR)


def assert_equal_runs(
    people: int, settings: Settings, *, iterations: int, first: int = 1
) -> set[tuple[bool, bool, bool]]:  # fmt: skip
    """What was opened: the cohorts' sums, the sum over everyone, and whether both lost somebody who had come; from the
    second round on, since in the first one nobody mixes."""
    samples = samples_of(small_city(people=people, places=5, records=4 * people), settings)
    states = [replace(start(samples, settings), iteration=first) for _ in range(3)]
    carried, others = (
        ProtocolEngine(samples, settings),
        [make_engine(name, samples, settings) for name in ("plain", "local")],
    )
    seen = set()
    for _ in range(iterations):
        there = participation(samples.keys, states[0].iteration, settings)
        passed = carried.advance(states[0])
        said = msgspec.structs.replace(passed, octets=None)
        assert [said, said] == [engine.advance(state) for engine, state in zip(others, states[1:], strict=True)]
        assert same_state(states[0], states[1])
        assert same_state(states[0], states[2])
        lost = int(there.online.sum()) > int(there.present.sum()) > passed.in_sum
        seen.add((passed.cohorts_opened > 0, passed.opened, lost))
    assert states[0].means.any() == any(opened for opened, *_ in seen)
    return seen


@pytest.mark.parametrize(
    ("name", "opens"),
    [
        ("as few as may be", (True, True, False)),
        ("some lost", (True, True, True)),
        ("32 bits, some offline", (True, True, True)),
        ("too many lost", (False, False, True)),
    ],
)
def test_a_round_under_a_budget_has_the_bits_of_the_oracle(name, opens):
    people, changes = ROUNDS[name]
    assert assert_equal_runs(people, change(FEW, **changes), iterations=1) == {opens}


def test_a_round_is_measured_from_what_the_one_before_opened():
    assert assert_equal_runs(FLOOR, FEW, iterations=2) == {(True, True, False)}


def test_in_the_first_round_nobody_mixes():
    assert assert_equal_runs(FLOOR, FEW, iterations=1, first=0) == {(False, True, False)}


@pytest.mark.soak
def test_a_longer_run_with_two_cohorts_on_a_sparse_mask_graph():
    settings = change(SMALL_PRIVATE, neighbours={"size": 70}, participation={"dropout": 0.1})
    assert assert_equal_runs(150, settings, iterations=3) == {(True, True, True)}


# What the devices do, behind the bits


def test_every_device_adds_a_share_of_its_own_and_draws_it_anew_for_every_sum(monkeypatch):
    """Two sums in a round, of all devices each: a seed for each, none of them twice, all for the roster as it is."""
    drawn, seen = terms.draw_noise, []

    def watched(terms, size, *, seed):
        seen.append((terms.noise, size, seed))
        return drawn(terms, size, seed=seed)

    for module in (secure_sum, protocol):
        monkeypatch.setattr(module, "draw_noise", watched)
    samples = samples_of(small_city(people=FLOOR, places=5, records=4 * FLOOR), FEW)
    carried = ProtocolEngine(samples, FEW)
    carried.advance(replace(start(samples, FEW), iteration=1))
    wanted = {code.noise for code in carried.sums.codes}
    assert {(noise_of, size) for noise_of, size, _ in seen} == {(one, FLOOR) for one in wanted}
    # each seed serves twice here: on its device, and where the simulation makes up for it
    assert sorted(map(seen.count, set(seen))) == [2] * 2 * FLOOR


def test_devices_take_part_only_with_the_V_and_the_centre_that_they_hold_themselves(monkeypatch):
    """What a member hashes for its cohort's sum tells one centre from another; for the sum over everyone it is V."""
    tasks, real = [], protocol.Member

    def watched(task, **rest):
        tasks.append(task)
        return real(task, **rest)

    monkeypatch.setattr(protocol, "Member", watched)
    samples = samples_of(small_city(people=FLOOR, places=5, records=4 * FLOOR), FEW)
    carried, state = ProtocolEngine(samples, FEW), replace(start(samples, FEW), iteration=1)
    state.means = np.ones((1, samples.features + 1))
    V, centre = state.interaction.copy(), state.means.copy()
    carried.advance(state)
    held = {task.round.kind: task.model for task in tasks}
    assert held == {"linear": model_hash(V, centre[0]), "interaction": model_hash(V)}
    assert len({task.model for task in tasks}) == 2
    assert len(tasks) == 2 * FLOOR


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
