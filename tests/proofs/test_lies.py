"""Lies of one report, each refused: by the proof, or because the operators do not have the same joint randomness.

Liars build their reports from the steps of the slow twin; the fast operators judge them."""

from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from prirec.errors import Fault, PeerError
from prirec.proofs import pine
from prirec.proofs.parameters import MODULUS, Parameters
from support import messages
from support.lying_reports import (
    BOUND,
    KEY,
    LONGEST,
    NONCE,
    RANDOMNESS,
    SEEDS,
    P,
    all_passed,
    both_reports,
    head,
    reported,
    true_results,
    wrapping_pair,
)
from vectors import reference_proofs as plain


def verdict(report, p=P, helper_report=None):
    """What the two operators make of it: the shares of the entries, or PeerError."""
    leader, leaders = pine.prepare(p, KEY, 0, nonce=NONCE, public=report.public, share=report.leader)
    other = helper_report or report
    helper, helpers = pine.prepare(p, KEY, 1, nonce=NONCE, public=report.public, share=other.helper)
    message = pine.combine(p, [leaders, helpers])
    return pine.opened(pine.finish(leader, message), pine.finish(helper, message)).tolist()


def refused(report, p=P, **others):
    with pytest.raises(PeerError, match=messages.PROOF_DOES_NOT_HOLD) as refusal:
        verdict(report, p, **others)
    return refusal.value.fault is Fault.PROOF


def test_the_same_steps_make_an_honest_report():
    honest = reported(plain.encode_vector(P, LONGEST))
    assert honest == pine.shard(P, np.array(LONGEST), NONCE, RANDOMNESS)
    assert verdict(honest) == LONGEST


# The norm


@pytest.mark.parametrize(
    "vector",
    [
        pytest.param([BOUND, 1] + [0] * 38, id="square one unit over"),
        pytest.param([BOUND + 1] + [0] * 39, id="norm one unit over"),
        pytest.param([BOUND * 10**6] + [0] * 39, id="a million times over"),
        pytest.param([-BOUND * 10**6] * 40, id="a million times over in every entry"),
    ],
)
def test_a_vector_that_is_too_long_is_refused_whatever_its_bits_say(vector):
    norm = sum(x * x for x in vector) % MODULUS
    for said, below in [(norm, 0), (norm, BOUND**2 - norm), (BOUND**2, 0), (0, BOUND**2), (norm, BOUND**2)]:
        assert refused(reported(head(vector, said, below % MODULUS)))


def test_a_vector_that_wraps_to_exactly_the_bound_is_refused_for_its_checks():
    vector = wrapping_pair(start=123_456_789) + [0] * 38
    assert min(abs(x if x < MODULUS // 2 else x - MODULUS) for x in vector[:2]) > 10**6 * BOUND
    assert sum(x * x for x in vector) % MODULUS == BOUND**2
    start = head(vector, BOUND**2, 0)
    results = true_results(start)
    honest_about_it = [
        bit
        for result in results
        for inside in [(result + P.check_bound - 1) % MODULUS < 2 * P.check_bound]
        for bit in [*plain.bits((result + P.check_bound - 1) % MODULUS if inside else 0, P.check_bits), int(inside)]
    ]
    claims = {
        "every check was passed": all_passed(results),
        "every check gave 0": all_passed([0] * P.checks),
        "those that were passed, which are too few": honest_about_it,
    }
    for claim, checks in claims.items():
        assert refused(reported(start, checks)), claim


def test_the_wrapping_vector_would_be_accepted_by_luck_in_its_checks():
    """One check misses it with odds of 1/4: all that stands between it and a sum are many checks."""
    p = Parameters.shortest(dimension=40, norm_bound=BOUND, checks=1, successes=1)
    vector = wrapping_pair(start=123_456_789) + [0] * 38
    start = [*vector, *plain.bits(BOUND**2, p.norm_bits), *plain.bits(0, p.norm_bits)]
    for number in count():
        seeds = SEEDS._replace(helper_check_blind=number.to_bytes(32, "little"))
        parts = plain.check_parts(p, start, NONCE, seeds)
        if plain.wraparound_checks(p, vector, plain.joined(plain.CHECK_SEED, parts)) == [0]:
            break
    lucky = plain.split_and_prove(p, [*start, *all_passed([0], p)], NONCE, seeds)
    assert [x % MODULUS for x in verdict(lucky, p)] == vector


# Bits


@pytest.mark.parametrize("at", [0, P.norm_bits, 2 * P.norm_bits, P.bits_length - 3])
def test_numbers_that_are_no_bits_are_refused_though_they_add_up(at):
    """2 and 0 say what 0 and 1 do: every number stays right, and only the check of bits can notice."""
    for change in ([2, -1], [MODULUS - 2, 1]):
        encoded = plain.encode_vector(P, [600] + [0] * 39)
        encoded += all_passed(true_results(encoded))
        for offset, by in enumerate(change):
            encoded[P.dimension + at + offset] = (encoded[P.dimension + at + offset] + by) % MODULUS
        assert refused(plain.split_and_prove(P, encoded, NONCE, SEEDS))


@pytest.mark.parametrize("at", [0, P.norm_bits, 2 * P.norm_bits, 2 * P.norm_bits + P.check_bits, P.bits_length - 1])
def test_a_wrong_bit_is_refused(at):
    encoded = plain.encode_vector(P, LONGEST)
    encoded += all_passed(true_results(encoded))
    encoded[P.dimension + at] = 1 - encoded[P.dimension + at]
    assert refused(plain.split_and_prove(P, encoded, NONCE, SEEDS))


def test_more_successes_than_asked_for_are_refused():
    p = replace(P, successes=90)
    encoded = plain.encode_vector(p, LONGEST)
    assert refused(reported(encoded, all_passed(true_results(encoded, p), p), p), p)


# Parts that do not belong together


def test_a_proof_for_another_vector_is_refused():
    one, other = both_reports()
    cut = 8 * P.encoded_length
    assert refused(one._replace(leader=one.leader[:cut] + other.leader[cut:]))
    assert refused(one._replace(leader=one.leader[:cut] + other.leader[cut:-64] + one.leader[-64:]))
    assert refused(one._replace(leader=other.leader[:cut] + one.leader[cut:], public=other.public))


def test_shares_that_do_not_belong_together_are_refused():
    one, other = both_reports()
    assert refused(one, helper_report=other)
    assert refused(one._replace(public=other.public), helper_report=other)


def test_a_report_is_refused_under_another_nonce():
    report = both_reports()[0]
    shares = [
        pine.prepare(P, KEY, operator, nonce=bytes(16), public=report.public, share=share)[1]
        for operator, share in enumerate((report.leader, report.helper))
    ]
    with pytest.raises(PeerError, match=messages.PROOF_DOES_NOT_HOLD):
        pine.combine(P, shares)


def test_a_made_up_gadget_polynomial_is_refused_at_the_point_of_the_query():
    """It makes the circuit's value 0 for a vector that is a thousand times too long; the point is not the liar's."""
    vector = [BOUND * 1000] + [0] * 39
    lie = reported(head(vector, BOUND**2, 0), all_passed([0] * P.checks))
    first = 8 * (P.encoded_length + P.norm_chunk)  # the constant of the norm's polynomial, which every call adds once
    off = (BOUND**2 - sum(x * x for x in vector)) * plain.FIELD64.inverse(P.norm_calls)
    constant = (int.from_bytes(lie.leader[first : first + 8], "little") + off) % MODULUS
    forged = lie._replace(leader=lie.leader[:first] + constant.to_bytes(8, "little") + lie.leader[first + 8 :])
    shares = [
        np.frombuffer(pine.prepare(P, KEY, at, nonce=NONCE, public=forged.public, share=share)[1], "<u8")
        for at, share in enumerate((forged.leader, forged.helper))
    ]
    verifier = pine.sums(*shares)
    assert verifier[0] == 0
    assert verifier[P.norm_chunk + 1] != pine.circuits.gadget_of(verifier[1 : P.norm_chunk + 1], pine.circuits.SQUARES)
    assert refused(forged)


# Joint randomness of one's own choosing


@pytest.mark.parametrize("at", [0, 32])  # the leader's part, the helper's
def test_made_up_parts_are_noticed_where_the_proof_happens_to_hold(at):
    """One check of one entry: the operators may have the same sign though they have not the same seed."""
    p = Parameters.shortest(dimension=1, norm_bound=BOUND, checks=1, successes=1)
    honest = pine.shard(p, np.array([BOUND]), NONCE, RANDOMNESS)
    noticed = set()
    for number in range(20):
        part = number.to_bytes(32, "little")
        with pytest.raises(PeerError, match=messages.PROOF) as refusal:
            verdict(honest._replace(public=honest.public[:at] + part + honest.public[at + 32 :]), p)
        noticed.add(str(refusal.value))
    assert len(noticed) == 2
    assert any(messages.JOINT_RANDOMNESS_OF_OTHER_SHARES in text for text in noticed)


def test_a_liar_that_chooses_the_joint_randomness_would_pass_and_is_refused():
    """With r = 0 only the first bit is looked at, and the norm may say anything: the proof for that holds by itself."""
    encoded = head([BOUND * 10**6] + [0] * 39, 0, 0)
    # the norm is checked without joint randomness; this number is right, and is no bit
    encoded[P.dimension + 1] = (BOUND * 10**6) ** 2 * plain.FIELD64.inverse(2) % MODULUS
    encoded += [0] * ((P.check_bits + 1) * P.checks)
    results = true_results(encoded[: P.head_length])
    elements, chosen = np.array(encoded, np.uint64), np.zeros((P.proofs, 3), np.uint64)
    inputs = (P, elements, np.array(results, np.uint64))
    seeds = pine.expand(bytes(32), pine.Usage.PROVER_RANDOMNESS, b"", P.norm_chunk + P.proofs * 2 * P.chunk)
    proofs = pine.circuits.prove(*inputs, seeds=seeds, joint=chosen)

    zeros, at = np.zeros_like(elements), np.array([3, 4, 5], np.uint64)
    no_proof = np.zeros_like(proofs)
    whole = pine.circuits.query(*inputs, proofs=proofs, at=at, joint=chosen)
    rest = pine.circuits.query(P, zeros, inputs[2] * 0, proofs=no_proof, at=at, joint=chosen)
    assert pine.circuits.decide(P, pine.sums(whole, rest))  # r = 0: accepted

    helper = pine.expand(SEEDS.proofs, pine.Usage.PROOFS_SHARE, bytes([1, 2, 1]), P.proofs_length)
    honest_way = plain.split_and_prove(P, encoded, NONCE, SEEDS)
    cut, end = 8 * P.encoded_length, 8 * (P.encoded_length + P.proofs_length)
    own_proofs = pine.differences(proofs, helper).tobytes()
    lie = honest_way._replace(leader=honest_way.leader[:cut] + own_proofs + honest_way.leader[end:])
    assert refused(lie)
    assert refused(lie._replace(public=lie.public[:64] + bytes(64)))
