"""From settings and V to what a round is agreed on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.config import Sums
from prirec.protocols.codec import decode, encode
from prirec.protocols.messages import VERSION, Invitation, Round
from prirec.protocols.roster import acceptable, fewest_survivors, graph_for
from prirec.protocols.terms import all_or_nothing, double_masks, model_hash
from prirec.sharing.fixed_point import FixedPoint
from support.hypothesis_settings import PATIENT
from support.rounds import gather

CODE = FixedPoint(summands=100, bound=2.5, fraction_bits=8)


def test_the_hash_of_V_depends_on_every_bit_and_the_shape() -> None:
    V = np.arange(6, dtype=np.float64).reshape(2, 3)
    other = V.copy()
    other[1, 2] = np.nextafter(5.0, 6.0)
    different = [V, other, V.reshape(3, 2), V[:1], -V, np.zeros((2, 3)), -np.zeros((2, 3))]
    assert len({model_hash(one) for one in different}) == len(different)
    assert model_hash(V) == model_hash(V.copy()) == model_hash(np.asfortranarray(V))
    assert len(model_hash(V)) == 32


def test_terms_say_what_the_settings_say() -> None:
    terms = double_masks(CODE, length=7, floor=3, sums=Sums(lost=0.29, corrupt=0.05))
    assert (terms.method, terms.length, terms.floor) == ("double", 7, 3)
    assert (terms.ring_bits, terms.fraction_bits, terms.bound) == (64, 8, 640)
    assert (terms.lost, terms.corrupt) == (290, 50)
    narrow = FixedPoint(summands=100, bound=2.5, fraction_bits=8, ring_bits=32)
    assert double_masks(narrow, length=7, floor=3, sums=Sums()).ring_bits == 32


@pytest.mark.parametrize("method", ["shares", "pads"])
def test_in_the_papers_sums_nobody_may_be_missing(method: str) -> None:
    terms = all_or_nothing(CODE, method, length=7, people=5)
    assert fewest_survivors(terms, 5) == 5
    assert acceptable(graph_for(terms, 5), terms)
    assert not acceptable(graph_for(terms, 4), terms)
    assert not acceptable(graph_for(terms, 6), terms)


@given(
    st.integers(2, 10**6),
    st.floats(1e-6, 1e6),
    st.integers(1, 20),
    st.floats(0, 0.3),
    st.floats(0, 0.3),
)
@PATIENT
def test_terms_of_any_settings_cross_the_wire(
    summands: int, bound: float, bits: int, lost: float, corrupt: float
) -> None:
    code = FixedPoint(summands=summands, bound=bound, fraction_bits=bits)
    terms = double_masks(code, length=3, floor=2, sums=Sums(lost=lost, corrupt=corrupt))
    message = Invitation(
        VERSION, Round(bytes(16), "linear", 1), bytes(32), bytes(32), terms, bytes(32), bytes(32), bytes(64)
    )
    assert decode(encode(message)) == message


@pytest.mark.parametrize("method", ["shares", "pads"])
def test_a_round_under_such_terms_opens(method: str) -> None:
    gathering = gather(3, all_or_nothing(CODE, method, length=4, people=3))
    assert gathering.run().finished[gathering.collector.name].total.tolist() == gathering.total().tolist()


def test_a_round_of_the_default_opens() -> None:
    terms = double_masks(CODE, length=4, floor=3, sums=Sums())
    gathering = gather(4, terms)
    assert gathering.run().finished[gathering.collector.name].total.tolist() == gathering.total().tolist()
