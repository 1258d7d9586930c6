"""The odds in decisions/0026: what each is bounded by, where every case can be counted."""

from dataclasses import replace
from itertools import product
from math import exp, isclose, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.proofs.parameters import MODULUS, Parameters
from proof_errors import bits_error, checks_error, norm_error, soundness, zero_knowledge
from vectors import reference_proofs as plain

P = Parameters.shortest(dimension=445, norm_bound=4096)


@given(vector=st.lists(st.integers(-9, 9), min_size=1, max_size=5).filter(any), times=st.floats(0.1, 4.0))
def test_an_honest_vector_fails_a_check_no_more_often_than_is_said(vector, times):
    norm = sum(x * x for x in vector) ** 0.5
    beyond = 0
    for bits in product(((0, -1), (1, 0), (2, 0), (3, 1)), repeat=len(vector)):
        beyond += abs(sum(sign * x for (_, sign), x in zip(bits, vector, strict=True))) >= times * norm
    assert beyond / 4 ** len(vector) <= 2 * exp(-(times**2))


def test_with_fewer_successes_than_checks_several_have_to_fail():
    assert zero_knowledge(replace(P, successes=98)) < zero_knowledge(replace(P, successes=99)) < zero_knowledge(P)
    small = replace(P, norm_bound=2, alpha=1.0, checks=3, successes=2)
    assert isclose(zero_knowledge(small), 3 * (2 * exp(-(1.5**2))) ** 2)  # within 3 of 2


def test_checks_are_coins():
    assert checks_error(P, 1) == 2.0**-100
    assert checks_error(P, 2**40) == 2.0**-60
    assert checks_error(P, 2**200) == 1.0
    assert checks_error(replace(P, checks=5, successes=3), 1) == (10 + 5 + 1) / 32


def test_a_false_gadget_polynomial_is_right_at_no_more_points_than_its_degree():
    """A false squared norm over GF(17), with each polynomial that makes the circuit's value 0 and differs from the true
    one in one coefficient, at all points that are no roots."""
    field = plain.Field(17, 3)
    circuit = plain.norm_circuit(replace(P, dimension=3, norm_bound=1, norm_chunk=1), field)
    lie = [1, 1, 1, 0]  # squares add up to 3, the bit says 0
    points = [t for t in range(17) if pow(t, circuit.points, 17) != 1]
    wire, *true = circuit.prove(lie, [5], [])
    accepted = []
    for at, by in product(range(len(true)), range(1, 17)):
        false = [(c + by * (i == at)) % 17 for i, c in enumerate(true)]
        verifiers = [circuit.query(lie, [wire, *false], t, [], 1) for t in points]
        if verifiers[0][0] == 0:
            accepted.append(sum(map(circuit.decide, verifiers)))
    assert 0 < max(accepted) <= 2 * (circuit.points - 1)
    assert isclose(norm_error(P), 2 * (P.norm_points - 1) / MODULUS, rel_tol=1e-9)


@pytest.mark.parametrize("proofs", [1, 2, 3])
def test_one_try_has_to_get_past_every_proof(proofs):
    p = replace(P, proofs=proofs)
    joint, point = (p.bits_length + p.checks + 4) / MODULUS, 2 * (p.points - 1) / (MODULUS - p.points)
    assert isclose(bits_error(p, 1), (joint + point) ** proofs)
    assert bits_error(p, 2**300) == 1.0
    # with tries enough for one of two, the point of the other is still to be guessed
    if proofs == 2:
        assert isclose(bits_error(p, 2**53), point + 2**53 * joint**2 + point**2, rel_tol=1e-6)


def test_more_of_anything_is_sounder():
    assert soundness(replace(P, norm_proofs=2)) < soundness(P) < soundness(P, 2**60)
    assert soundness(replace(P, checks=40, successes=40), 2**60) == 1.0
    assert -60 < log2(soundness(P)) < -58
