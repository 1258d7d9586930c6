"""Algorithm 2 written once more from its definition, with the printed equations and real sums.

The engines share their kernels, so that they agree says little about either; this does. 40 fraction bits keep what the
ring rounds away below the tolerance.
"""

import numpy as np
import pytest

from prirec.config import Settings
from prirec.engines.state import FactorizationState
from prirec.engines.train import make_engine
from prirec.features.samples import Samples
from prirec.model import as_printed
from prirec.util.keyed_random import iteration_key, shuffle
from support.cities import SMALL_PAPER, change, samples_of, small_city, with_idle_people

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


def algorithm_2(samples: Samples, s: Settings, state: FactorizationState) -> None:
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


@pytest.mark.parametrize("batch", [1, 7])
@pytest.mark.parametrize("engine", ["plain", "local"])
def test_the_paper_preset_is_algorithm_2(engine, batch):
    model = {"dimension": 2, "spread": 0.3, "lambda_w": 0.01, "lambda_v": 0.01}
    settings = change(SMALL_PAPER, ring=FINE, interaction={"alpha": 0.05, "batch": batch}, model=model)
    samples = samples_of(CITY, settings)
    motor = make_engine(engine, samples, settings)
    expected, state = motor.start(), motor.start()
    for _ in range(2):
        algorithm_2(samples, settings, expected)
        motor.advance(state)
    np.testing.assert_allclose(state.linear, expected.linear, atol=1e-8)
    np.testing.assert_allclose(state.interaction, expected.interaction, atol=1e-8)
