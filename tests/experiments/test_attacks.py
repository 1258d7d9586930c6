"""The attackers of Table 3: each is as good as it is said to be, and none is better than what it sees allows."""

import math

import numpy as np
import pytest

from prirec.engines.state import State
from prirec.engines.train import train
from prirec.errors import PolicyError, UsageError
from prirec.metrics import positives
from prirec.model.as_printed import interaction_gradient
from prirec.simulate.setup import Setup, set_up
from prirec_experiments import attacks
from prirec_experiments.attacks import Questions, Scene, likeness, recover_sample, switches
from prirec_experiments.rivals.dmf import DmfSettings
from support import messages
from support.cities import SMALL_PAPER, SMALL_PRIVATE, SMALL_ROUNDS, change, small_city

CITY = small_city(people=200, places=300, records=4000)
MANY = 150


def ready(settings) -> tuple[Setup, Questions]:
    setup = set_up(CITY, settings)
    return setup, Questions.about(setup.samples, many=MANY, seed=3)


def scene(settings) -> Scene:
    setup, asked = ready(settings)
    return Scene(setup, train(setup.samples, setup.settings, threads=1).state, asked)


def test_a_question_is_about_one_place_that_was_visited_and_one_of_which_there_is_no_record():
    setup, asked = ready(SMALL_ROUNDS)
    been, train_records = positives(setup.samples.train), setup.samples.train
    for i, visited, decoy in zip(asked.person, asked.visited, asked.decoy, strict=True):
        mine = train_records.place[train_records.offsets[i] : train_records.offsets[i + 1]]
        assert visited in been[i]
        assert decoy not in mine


def test_popularity_alone_is_a_guess():
    setup, asked = ready(SMALL_ROUNDS)
    visitors = setup.popularity.released["visitors"]
    assert abs(attacks.by_popularity(visitors, asked)["recommender"] - 0.5) < 4 * 0.5 / math.sqrt(len(asked))
    assert asked.right(np.zeros(len(asked)), np.zeros(len(asked))) == 0.5


def test_an_attacker_with_the_records_answers_every_question():
    setup, asked = ready(SMALL_ROUNDS)
    assert attacks.by_records(setup.samples, asked) == {"recommender": 1.0}


@pytest.mark.statistical  # 6 sd of 150 trials: false alarm 2e-9; must notice an epsilon of 3 instead of 1
def test_one_bit_at_epsilon_1_is_right_in_73_of_100():
    _, asked = ready(SMALL_ROUNDS)
    truth = math.e / (1 + math.e)
    right = np.mean([attacks.by_bits(asked, epsilon=1.0, seed=seed)["recommender"] for seed in range(20)])
    assert abs(right - truth) < 6 * math.sqrt(truth * (1 - truth) / (20 * len(asked)))
    assert attacks.by_bits(asked, epsilon=3.0, seed=0)["recommender"] > truth + 0.1


@pytest.mark.parametrize("label", [1, -1])
@pytest.mark.parametrize("binary", [2, 5])
def test_a_sample_comes_back_from_its_gradient(label: int, binary: int):
    rng, D, K = np.random.default_rng(binary), 14, 5
    for _ in range(20):
        V, w, x = rng.normal(scale=0.3, size=(D, K)), rng.normal(size=D + 1), np.zeros(D)
        switched = np.arange(D) < 8
        x[rng.choice(8, size=binary, replace=False)] = 1.0
        x[8:11] = rng.normal(size=3)
        gradient = np.array(interaction_gradient(w, V, x, label, 1e-3))
        found = recover_sample(gradient, V, lambda_v=1e-3, switched=switched)
        assert found.label == label
        np.testing.assert_allclose(found.x, x, atol=1e-6)


def test_without_switches_it_comes_back_up_to_a_factor():
    rng, D, K = np.random.default_rng(1), 4, 5
    right = 0
    for _ in range(30):
        V, w, x = rng.normal(scale=0.3, size=(D, K)), rng.normal(size=D + 1), rng.uniform(0.3, 2.0, size=D)
        label = int(rng.choice([-1, 1]))
        found = recover_sample(
            np.array(interaction_gradient(w, V, x, label, 0.0)), V, lambda_v=0.0, switched=np.zeros(D, dtype=bool)
        )
        right += found.label == label and likeness(found.x, x[None])[0] > 0.999
    assert right >= 27


def test_an_empty_sample_tells_nothing():
    V = np.ones((3, 2))
    assert recover_sample(2 * 0.1 * V, V, lambda_v=0.1, switched=np.zeros(3, dtype=bool)) is None


def test_switches_are_what_is_0_or_1():
    encoding = set_up(CITY, SMALL_ROUNDS).encoding
    samples = set_up(CITY, SMALL_ROUNDS).samples
    at = switches(encoding)
    assert at.shape == (samples.features,)
    assert set(np.unique(samples.people[:, at[: samples.people.shape[1]]])) <= {0.0, 1.0}
    assert not at.all()


def test_the_papers_batch_of_one_gives_labels_and_places_away():
    found = attacks.by_single_gradients(scene(change(SMALL_PAPER, iterations=2)))
    assert found["labels"] > 0.99
    assert found["recommender"] > 0.8


def test_a_neighbour_in_dmf_hears_where_somebody_was():
    setup, asked = ready(SMALL_ROUNDS)
    found = attacks.by_gradients_of_neighbours(setup.samples, asked, DmfSettings(passes=2, neighbours=10))
    assert found["neighbour"] > 0.75


def test_without_noise_everybody_else_together_learn_much_and_with_it_little():
    plain, noisy = (attacks.by_sums(scene(settings)) for settings in (SMALL_ROUNDS, SMALL_PRIVATE))
    assert plain["everybody else"] > 0.62
    bound = math.e / (1 + math.e) + 6 * 0.5 / math.sqrt(MANY)
    assert noisy["everybody else"] < min(plain["everybody else"], bound)
    assert plain["recommender"] < plain["everybody else"]


@pytest.mark.parametrize("attack", [attacks.by_sums, attacks.by_single_gradients])
def test_an_attack_on_another_schedule_is_refused(attack):
    other = SMALL_PAPER if attack is attacks.by_sums else SMALL_ROUNDS
    with pytest.raises(UsageError, match=messages.ATTACK_ON_ANOTHER_SCHEDULE):
        attack(scene(change(other, iterations=1)))


def test_a_sum_that_may_not_be_opened_is_not_attacked():
    setup, asked = ready(SMALL_ROUNDS)
    state: State = train(setup.samples, setup.settings, threads=1).state
    few = Setup(change(setup.settings, floor=1000), setup.prepared, setup.popularity, setup.encoding, setup.samples)
    with pytest.raises(PolicyError, match=messages.TOO_FEW_TO_ATTACK):
        attacks.by_sums(Scene(few, state, asked))
