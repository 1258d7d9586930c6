"""Decentralised matrix factorisation: devices with copies of their own, and gradients to neighbours."""

from collections import defaultdict
from functools import cache

import msgspec
import numpy as np
import pytest

from prirec.errors import UsageError
from prirec.features.samples import Samples
from prirec.graph.neighbours import Neighbours
from prirec_experiments.rivals.dmf import WORD, Dmf, DmfSettings, fit, start, user_graph
from support import messages
from support.cities import without_coordinates
from support.rivals import PlainDmf, hamlet, orders, ready, residual, with_repeated_records, without_records_of

SETTINGS = DmfSettings(
    dimension=3, passes=4, alpha=0.2, lambda_v=0.02, spread=0.4, neighbours=4, weight=0.7, centre=0.5
)


@cache
def samples() -> Samples:
    return ready().samples


def uneven() -> Neighbours:
    """Some have nobody, one has everybody, and hardly an edge is returned."""
    everybody = [i for i in range(30) if i != 2]
    lists = [[], [0, 2], everybody, [1], *([0, i - 1] for i in range(4, 30))]
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in lists])]).astype(np.int64)
    return Neighbours(offsets, np.array([f for one in lists for f in one], dtype=np.int32))


def everywhere(model: Dmf, people: int = 30, places: int = 12) -> np.ndarray:
    person, place = np.indices((people, places), dtype=np.int32)
    return model.at(person.ravel(), place.ravel()).reshape(people, places)


def assert_equal_to_plain(found: Dmf, plain: PlainDmf) -> None:
    wanted = [[plain.score(i, j) for j in range(12)] for i in range(30)]
    np.testing.assert_allclose(everywhere(found), wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.parts.person, plain.u, rtol=1e-5, atol=1e-6)
    kept = [(i, j) for i in range(30) for j in sorted(plain.p[i])]
    owners = np.repeat(np.arange(30), np.diff(found.held.offsets))
    assert list(zip(owners.tolist(), found.held.place.tolist(), strict=True)) == kept
    np.testing.assert_allclose(found.parts.common, [plain.p[i][j] for i, j in kept], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("changes", [{}, {"dimension": 7, "seed": 5}, {"weight": 0.0}, {"neighbours": 29}])
def test_the_kernel_is_what_devices_with_dictionaries_do(changes: dict[str, float]) -> None:
    settings = msgspec.structs.replace(SETTINGS, **changes)
    found = fit(samples(), settings)
    plain = PlainDmf(samples(), settings, user_graph(samples(), settings))
    assert_equal_to_plain(found, plain)
    assert found.octets == WORD * plain.sent


def test_the_kernel_is_what_devices_do_over_a_graph_of_any_shape() -> None:
    assert_equal_to_plain(fit(samples(), SETTINGS, graph=uneven()), PlainDmf(samples(), SETTINGS, uneven()))


def test_a_place_visited_twice_has_one_copy_and_one_personal_part() -> None:
    twice = with_repeated_records(samples())
    found = fit(twice, SETTINGS)
    assert_equal_to_plain(found, PlainDmf(twice, SETTINGS, user_graph(twice, SETTINGS)))
    assert len(found.pairs.place) == len(fit(samples(), SETTINGS).pairs.place)


def test_the_bytes_sent_are_k_values_to_every_neighbour_for_every_record_and_pass() -> None:
    records = len(samples().train)
    assert fit(samples(), SETTINGS).octets == 4 * records * 4 * 3 * 8  # passes, records, neighbours, K, bytes


def test_without_neighbours_everyone_learns_matrix_factorisation_alone() -> None:
    """p and q then move alike, so that each person has MF of the own records with one factor v = p + q a place, whose
    step is twice as long."""
    settings = msgspec.structs.replace(SETTINGS, neighbours=0)
    found = fit(samples(), settings)
    u = start(samples(), settings, pairs=0, held=0).person
    v, train = defaultdict(lambda: np.zeros(3)), samples().train
    for row in (row for order in orders(samples(), settings) for row in order):
        i, j, y = int(train.person[row]), int(train.place[row]), float(train.label[row])
        mine, its = u[i].copy(), v[i, j]
        r = residual(y, mine @ its)
        u[i] = mine - 0.2 * (r * its + 2 * 0.02 * mine)
        v[i, j] = its - 0.2 * (2 * r * mine + 2 * 0.02 * its)
    wanted = [[u[i] @ v.get((i, j), np.zeros(3)) for j in range(12)] for i in range(30)]
    np.testing.assert_allclose(everywhere(found), wanted, rtol=1e-5, atol=1e-6)
    assert found.octets == 0
    assert len(found.held.place) == len(found.pairs.place)


def test_a_person_without_records_and_a_place_that_nothing_reached_score_zero() -> None:
    lonely = without_records_of(samples(), person=3, place=5)
    scores = everywhere(fit(lonely, SETTINGS))
    assert not scores[3].any()
    assert not scores[:, 5].any()
    assert np.count_nonzero(scores) > 100


def test_a_city_without_coordinates_has_neighbours_drawn_by_the_seed() -> None:
    nowhere = ready(without_coordinates(hamlet())).samples
    one, same, other = (user_graph(nowhere, msgspec.structs.replace(SETTINGS, seed=seed)) for seed in (1, 1, 2))
    assert (one.counts() == 4).all()
    np.testing.assert_array_equal(one.people, same.people)
    assert (one.people != other.people).any()


def test_with_coordinates_neighbours_are_the_nearest() -> None:
    home, graph = samples().home, user_graph(samples(), SETTINGS)
    assert home is not None
    away = np.hypot(*(home - home[7]).T * [[1.0], [np.cos(np.radians(home[7, 0]))]])
    assert set(graph.of(7)) == set(np.argsort(away)[1:5])


def test_a_graph_of_other_people_is_refused() -> None:
    with pytest.raises(UsageError, match=messages.graph_and_records_differ(29, 30)):
        fit(samples(), SETTINGS, graph=Neighbours(uneven().offsets[:-1], uneven().people))


def test_penalties_of_biases_that_do_not_exist_are_refused() -> None:
    with pytest.raises(UsageError, match=messages.DMF_HAS_NO_BIASES):
        fit(samples(), msgspec.structs.replace(SETTINGS, lambda_w=0.1))
