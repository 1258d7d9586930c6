"""Algorithm 3 from end to end, on a catalogue made by hand: four places that features cannot tell apart."""

import numpy as np
import pytest

from prirec.errors import UsageError
from prirec.features.encoding import Encoding, Log
from prirec.protocols.prediction import PersonState, Predictor
from prirec.protocols.reasons import Wording
from support import messages

FACTORS = np.array([[0.0, 1.0], [2.0, 0.0], [-1.0, 0.0], [1.0, 0.5]])


def predictor(factors: np.ndarray | None) -> Predictor:
    return Predictor.of(
        Encoding(popularity=(Log(column="visits"),)),
        interaction=np.full((1, 2), 0.1),
        places=np.ones((4, 1), dtype=np.float32),
        location=None,
        factors=factors,
    )


def person_state(latent: list[float]) -> PersonState:
    nothing = np.empty(0, dtype=np.float32)
    return PersonState(nothing, np.array([0.5, 1.0]), np.array(latent), None, np.empty(0, dtype=np.int32))


def test_the_latent_part_orders_places_that_features_cannot_tell_apart():
    found = predictor(FACTORS).recommend(person_state([1.0, 0.0]), k=4)
    assert [one.place_row for one in found] == [1, 3, 0, 2]
    assert [one.score for one in found] == pytest.approx([3.5, 2.5, 1.5, 0.5])
    pulls = {one.place_row: {why.name: why.pull for why in one.reasons} for one in found}
    assert pulls[1] == {Wording.LATENT: pytest.approx(1.5)}  # 2.0, where 0.5 is the mean


def test_without_factors_these_places_have_equal_scores():
    found = predictor(None).recommend(person_state([]), k=4)
    assert [one.score for one in found] == pytest.approx([1.5] * 4)
    assert all(Wording.LATENT not in {why.name for why in one.reasons} for one in found)


@pytest.mark.parametrize("latent", [[], [1.0], [1.0, 0.0, 0.0]])
def test_a_vector_of_another_length_than_the_factors_is_refused(latent):
    with pytest.raises(UsageError, match=messages.VECTORS_OF_DIFFERENT_LENGTHS):
        predictor(FACTORS).recommend(person_state(latent))
