"""Algorithm 2, and a round, written once more from their definitions with the printed equations and real sums.

The engines share their kernels, so that they agree says little about either; this does. 40 fraction bits keep what the
ring rounds away below the tolerance.
"""

import numpy as np
import pytest
from prirec.graph.cohorts import cohort_numbers

from prirec.config import Settings
from prirec.engines.state import State
from prirec.engines.train import make_engine, start
from prirec.features.samples import Samples
from prirec.model import as_printed
from prirec.rounds.definition import participation
from prirec.util.keyed_random import iteration_key, mix, shuffle
from support.cities import SMALL_PAPER, SMALL_ROUNDS, change, samples_of, small_city, with_idle_people

FINE = {"fraction_bits": 40}
CITY = with_idle_people(small_city(people=24, places=9, records=110), every=8)


def sample(samples: Samples, row: int) -> tuple[int, np.ndarray, int]:
    train = samples.train
    i = int(train.person[row])
    x = np.concatenate([samples.people[i], samples.places[train.place[row]], train.context[row]]).astype(float)
    return i, x, int(train.label[row])


def permutation(key: int, count: int) -> np.ndarray:
    order = np.empty(count, dtype=np.int64)
    shuffle(key, order)
    return order


def closest(samples: Samples, count: int) -> list[np.ndarray]:
    home = np.radians(samples.home)
    half = np.sin((home[:, None] - home[None]) / 2) ** 2
    distance = half[..., 0] + np.cos(home[:, None, 0]) * np.cos(home[None, :, 0]) * half[..., 1]
    np.fill_diagonal(distance, np.inf)
    return [np.argsort(row)[:count] for row in distance]


def algorithm_2(samples: Samples, s: Settings, state: State) -> None:
    """Lines 6 to 16 for one t, with nearest neighbours and S_if = 1 / N; Eq. (9) after each batch of gradients."""
    W, V, around, waiting = state.linear, state.interaction, closest(samples, s.neighbours.count), []
    for row in permutation(iteration_key(s.seed, "order", state.iteration), len(samples.train)):
        i, x, y = sample(samples, row)
        gradient = as_printed.linear_gradient(W[i], V, x, y, s.model.lambda_w)
        weights = [1 / s.neighbours.count] * s.neighbours.count
        W[i] = as_printed.decentralised_step([W[f] for f in around[i]], weights, gradient, s.linear.alpha)
        waiting.append(np.array(as_printed.interaction_gradient(W[i], V, x, y, s.model.lambda_v)))
        if len(waiting) == s.interaction.batch:
            V, waiting = np.array(as_printed.interaction_step(V, np.sum(waiting, axis=0), s.interaction.alpha)), []
    if waiting:
        V = np.array(as_printed.interaction_step(V, np.sum(waiting, axis=0), s.interaction.alpha))
    state.interaction = V
    state.iteration += 1


def clipped(vector: np.ndarray, clip: float) -> np.ndarray:
    return vector * min(1.0, clip / max(np.linalg.norm(vector), 1e-300))


def local_pass(samples: Samples, s: Settings, state: State, i: int) -> np.ndarray:
    """Step (d): moves W_i, answers with the clipped mean of Eq. (4)."""
    rows = np.arange(samples.train.offsets[i], samples.train.offsets[i + 1])
    key = mix(iteration_key(s.seed, "order", state.iteration), samples.keys[i])
    collected = np.zeros(state.interaction.shape)
    for row in rows[permutation(key, len(rows))]:
        _, x, y = sample(samples, row)
        w, V = state.linear[i].copy(), state.interaction
        collected += as_printed.interaction_gradient(w, V, x, y, 0.0)
        state.linear[i] = as_printed.centralised_step(
            w, as_printed.linear_gradient(w, V, x, y, s.model.lambda_w), s.linear.alpha
        )
    return clipped(collected / max(len(rows), 1), s.interaction.clip)


def one_round(samples: Samples, s: Settings, state: State, moments: list[np.ndarray]) -> None:
    there, cohort = participation(samples.keys, state.iteration, s), cohort_numbers(samples, s)
    before, counts, total, in_sum = state.linear.copy(), samples.train.counts(), np.zeros(state.interaction.shape), 0
    for i in np.flatnonzero(there.present):
        mates = cohort == cohort[i]
        members = np.flatnonzero(there.present & mates)
        if len(members) >= max(s.floor, (1 - s.sums.lost) * (there.online & mates).sum()):
            mean = np.mean([clipped(before[f], s.linear.clip) for f in members], axis=0)
            gamma = s.linear.kappa / (s.linear.kappa + counts[i])
            state.linear[i] = (1 - gamma) * before[i] + gamma * mean
        contribution = local_pass(samples, s, state, int(i))
        if there.counted[i]:
            total, in_sum = total + contribution, in_sum + 1
    state.iteration += 1
    if in_sum >= max(s.floor, (1 - s.sums.lost) * there.present.sum()):
        g = total / in_sum + 2 * s.model.lambda_v * state.interaction
        t = len(moments) + 1
        moments.append(g)
        m = sum(0.1 * 0.9 ** (t - 1 - at) * past for at, past in enumerate(moments)) / (1 - 0.9**t)
        v = sum(0.01 * 0.99 ** (t - 1 - at) * past**2 for at, past in enumerate(moments)) / (1 - 0.99**t)
        state.interaction = state.interaction - s.interaction.alpha * m / (np.sqrt(v) + 1e-8 / np.sqrt(1 - 0.99**t))


@pytest.mark.parametrize("batch", [1, 7])
@pytest.mark.parametrize("engine", ["plain", "local"])
def test_the_paper_preset_is_algorithm_2(engine, batch):
    model = {"dimension": 2, "spread": 0.3, "lambda_w": 0.01, "lambda_v": 0.01}
    settings = change(SMALL_PAPER, ring=FINE, interaction={"alpha": 0.05, "batch": batch}, model=model)
    samples = samples_of(CITY, settings)
    expected, state = start(samples, settings), start(samples, settings)
    motor = make_engine(engine, samples, settings)
    for _ in range(2):
        algorithm_2(samples, settings, expected)
        motor.advance(state)
    np.testing.assert_allclose(state.linear, expected.linear, atol=1e-8)
    np.testing.assert_allclose(state.interaction, expected.interaction, atol=1e-8)


@pytest.mark.parametrize("engine", ["plain", "local"])
@pytest.mark.parametrize(
    "participation", [{}, {"online": 0.9, "dropout": 0.4}], ids=["everyone", "some lost on the way"]
)
def test_a_round_is_what_its_definition_says(engine, participation):
    settings = change(
        SMALL_ROUNDS, floor=3, ring=FINE, participation=participation, model={"dimension": 2, "spread": 0.3},
        neighbours={"size": 6}, linear={"clip": 0.3}, interaction={"clip": 0.05},
    )  # fmt: skip
    samples = samples_of(CITY, settings)
    assert (samples.train.counts() == 0).any()
    expected, state, moments = start(samples, settings), start(samples, settings), []
    motor = make_engine(engine, samples, settings)
    for _ in range(3):
        one_round(samples, settings, expected, moments)
        motor.advance(state)
    np.testing.assert_allclose(state.linear, expected.linear, atol=1e-6)
    np.testing.assert_allclose(state.interaction, expected.interaction, atol=1e-6)
