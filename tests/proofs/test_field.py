"""Arithmetic of the field in kernels, against Python's integers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.proofs import field
from prirec.proofs.parameters import MODULUS
from prirec.util.jit import kernel
from support.hypothesis_settings import FEW
from vectors import reference_proofs as plain

# where carries and borrows happen
EDGES = [
    0,
    1,
    2,
    2**32 - 2,
    2**32 - 1,
    2**32,
    2**32 + 1,
    2**63,
    MODULUS // 2,
    MODULUS - 2**32,
    MODULUS - 2,
    MODULUS - 1,
]
ELEMENTS = st.sampled_from(EDGES) | st.integers(0, MODULUS - 1)
ORDERS = st.integers(1, 6).map(lambda bits: 2**bits)


@kernel
def arithmetic(a, b, n):
    """Sum, difference, product and power, as other kernels call them."""
    found = np.empty(4, np.uint64)
    found[0], found[1], found[2] = field.add(a, b), field.subtract(a, b), field.multiply(a, b)
    found[3] = field.power(a, n)
    return found


def expected(a: int, b: int, n: int) -> list[int]:
    return [(a + b) % MODULUS, (a - b) % MODULUS, a * b % MODULUS, pow(a, n, MODULUS)]


@given(a=ELEMENTS, b=ELEMENTS, n=st.integers(0, 2**64 - 1))
def test_operations_equal_those_of_integers(a, b, n):
    assert arithmetic(np.uint64(a), np.uint64(b), np.uint64(n)).tolist() == expected(a, b, n)


def test_operations_equal_those_of_integers_where_carries_meet():
    for a in EDGES:
        for b in EDGES:
            assert arithmetic(np.uint64(a), np.uint64(b), np.uint64(b)).tolist() == expected(a, b, b)


@kernel
def inverted(a):
    return field.inverse(a)


@given(a=ELEMENTS.filter(bool))
def test_an_inverse_times_its_element_is_one(a):
    assert int(inverted(np.uint64(a))) * a % MODULUS == 1


@given(pairs=st.lists(st.tuples(ELEMENTS, ELEMENTS), min_size=1, max_size=40))
def test_vectors_are_added_and_subtracted_entry_by_entry(pairs):
    a, b = (np.array(column, np.uint64) for column in zip(*pairs, strict=True))
    assert field.sums(a, b).tolist() == plain.FIELD64.add(a.tolist(), b.tolist())
    assert field.differences(a, b).tolist() == plain.FIELD64.subtract(a.tolist(), b.tolist())


@FEW
@given(data=st.data(), order=ORDERS, columns=st.integers(1, 9))
def test_every_column_is_interpolated_and_evaluated(data, order, columns):
    rows = data.draw(st.lists(st.lists(ELEMENTS, min_size=columns, max_size=columns), min_size=order, max_size=order))
    table = np.array(rows, np.uint64)
    field.to_coefficients(table, field.roots(order))
    coefficients = table[field.bit_reversal(order)]
    for column, found in zip(zip(*rows, strict=True), coefficients.T.tolist(), strict=True):
        assert [x * pow(order, -1, MODULUS) % MODULUS for x in found] == plain.FIELD64.interpolate(column)
    field.to_values(table, field.roots(order))
    assert table.tolist() == [[x * order % MODULUS for x in row] for row in rows]


@FEW
@given(data=st.data(), order=ORDERS, at=ELEMENTS)
def test_lagrange_weights_evaluate_from_values(data, order, at):
    if pow(at, order, MODULUS) == 1:
        return
    values = data.draw(st.lists(ELEMENTS, min_size=order, max_size=order))
    weights = field.lagrange_weights(np.uint64(at), field.roots(order)).tolist()
    polynomial = plain.FIELD64.interpolate(values)
    found = sum(w * y for w, y in zip(weights, values, strict=True)) % MODULUS
    assert found == plain.FIELD64.evaluate(polynomial, at)
    assert field.evaluate(np.array(polynomial, np.uint64), np.uint64(at)) == found


@pytest.mark.parametrize("order", [1, 2, 64])
def test_roots_are_all_different_and_of_their_order(order):
    found = field.roots(order).tolist()
    assert len(set(found)) == order
    assert {pow(x, order, MODULUS) for x in found} == {1}
    assert found[:2] == [1, plain.FIELD64.root(order)][:order]


@given(integers=st.lists(st.integers(-(MODULUS // 2), MODULUS // 2), min_size=1, max_size=20))
def test_integers_around_zero_become_elements_and_come_back(integers):
    elements = field.elements_of(np.array(integers))
    assert elements.tolist() == [x % MODULUS for x in integers]
    assert field.integers_of(elements).tolist() == integers
