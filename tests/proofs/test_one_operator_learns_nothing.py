"""What one operator sees has the same distribution whatever a valid vector is: every case of a tiny field, counted.

An operator sees its shares of encoded vector and proof, and the other one's verifier share. Where the device draws
uniformly (its streams here are every possible draw), the counts below are exact odds. Not in them: hashes of shares
(the other's blind makes them random to whoever has no share), and that all checks were passed, which may fail for an
honest vector with the odds of decisions/0026; the device then draws anew and nobody sees it."""

from collections import Counter
from itertools import product

import pytest

from prirec.proofs.parameters import Parameters
from vectors import reference_proofs as plain


class Tiny(Parameters):
    """Bounds that hold for no field so small: nothing here asks for soundness."""

    def __post_init__(self) -> None:
        pass


P = Tiny(dimension=1, norm_bound=1, chunk=1, norm_chunk=1, proofs=1, checks=1, successes=1, alpha=1.0)
GF3, GF5, GF17 = plain.Field(3, 2), plain.Field(5, 2), plain.Field(17, 3)


def views(circuit, valid, at, joint, operator):
    """How often one operator sees what, over all draws of the device."""
    field, seen = circuit.field, Counter()
    one = field.inverse(2)
    proof_length = circuit.arity + 2 * circuit.points - 1
    for seeds in product(range(field.modulus), repeat=circuit.arity):
        proof = circuit.prove(valid, seeds, joint)
        for drawn in product(range(field.modulus), repeat=len(valid) + proof_length):
            helper = drawn[: len(valid)], drawn[len(valid) :]
            leader = field.subtract(valid, helper[0]), field.subtract(proof, helper[1])
            own, other = (leader, helper) if operator == plain.LEADER else (helper, leader)
            seen[(*own[0], *own[1], *circuit.query(*other, at, joint, one))] += 1
    return seen


@pytest.mark.parametrize("operator", [plain.LEADER, plain.HELPER])
def test_everything_that_an_operator_sees_of_a_norm_has_the_same_odds(operator):
    """All 3^7 draws for each vector; 0 is the only point of GF(3) that is no root."""
    circuit = plain.norm_circuit(P, GF3)
    zero, plus, minus = (views(circuit, [x, x * x % 3], at=0, joint=[], operator=operator) for x in (0, 1, 2))
    assert zero == plus == minus
    assert sum(zero.values()) == 3**7


def test_a_norm_that_is_not_valid_looks_different():
    circuit = plain.norm_circuit(P, GF3)
    assert views(circuit, [1, 0], at=0, joint=[], operator=0) != views(circuit, [0, 0], at=0, joint=[], operator=0)


def verifiers(circuit, valid, at, joint):
    """How often both together see what: the sum of their verifier shares, over all that the prover may draw."""
    everything = product(range(circuit.field.modulus), repeat=circuit.arity)
    return Counter(
        tuple(circuit.query(valid, circuit.prove(valid, seeds, joint), at, joint, 1)) for seeds in everything
    )


@pytest.mark.parametrize("at", [0, 2, 3])
def test_the_opened_verifier_of_a_norm_has_the_same_odds_at_every_point(at):
    circuit = plain.norm_circuit(P, GF5)
    zero, plus, minus = (verifiers(circuit, [x, x * x % 5], at, []) for x in (0, 1, 4))
    assert zero == plus == minus


def encoded(x, sign):
    """All that the circuit of bits takes for a vector of one entry and one check with this sign."""
    norm, result = x * x, sign * x
    shifted = result + P.check_bound - 1
    return [n % 17 for n in [x, norm, 1 - norm, *plain.bits(shifted, P.check_bits), 1, result]]


@pytest.mark.parametrize(("at", "joint"), [(0, (3, 5, 7)), (3, (1, 2, 16)), (6, (0, 0, 0))])
def test_the_opened_verifier_of_bits_and_checks_has_the_same_odds(at, joint):
    """All 17^2 draws for each vector and sign; an operator's shares are as uniform as those of the norm."""
    circuit = plain.bits_circuit(P, GF17)
    valid = [encoded(x, sign) for x in (-1, 0, 1) for sign in (-1, 0, 1)]
    first, *others = (verifiers(circuit, case, at, joint) for case in valid)
    assert all(other == first for other in others)
    assert all(value == 0 for value, *_ in first)


# What the rest of a deployment must see to (decisions/0026)


def test_a_report_that_is_prepared_twice_tells_vectors_apart():
    """At two points, with two keys or nonces: so it is prepared once."""
    circuit = plain.norm_circuit(P, GF5)

    def seen(x):
        proofs = [circuit.prove([x, x * x % 5], [seed], []) for seed in range(5)]
        return Counter(tuple(tuple(circuit.query([x, x * x % 5], f, at, [], 1)) for at in (0, 2)) for f in proofs)

    assert seen(0) != seen(1) != seen(4)


def test_operators_with_different_joint_randomness_tell_vectors_apart():
    """As where a leader shows the helper other parts than the device sent: so what is public is signed."""
    circuit = plain.bits_circuit(P, GF17)

    def seen(case):
        proofs = [circuit.prove(case, seeds, (3, 5, 7)) for seeds in product(range(17), repeat=2)]
        return Counter(tuple(circuit.query(case, proof, 0, (4, 5, 7), 1)) for proof in proofs)

    assert seen(encoded(0, 0)) != seen(encoded(1, 0))
