"""Reports as liars build them, from the steps of the slow twin of PINE."""

import numpy as np

from prirec.proofs import pine
from prirec.proofs.parameters import MODULUS, Parameters
from vectors import reference_proofs as plain

BOUND = 1000
P = Parameters.shortest(dimension=40, norm_bound=BOUND)
KEY, NONCE = bytes(range(32)), bytes(range(16))
RANDOMNESS = bytes(range(224))
SEEDS = plain.parsed_seeds(RANDOMNESS)
LONGEST = [BOUND] + [0] * 39


def head(vector, norm, below):
    """Entries, and the two numbers of the norm as the liar wants them, as far as bits reach."""
    return [x % MODULUS for x in vector] + plain.bits(norm, P.norm_bits) + plain.bits(below, P.norm_bits)


def true_results(start, p=P):
    parts = plain.check_parts(p, start, NONCE, SEEDS)
    return plain.wraparound_checks(p, start[: p.dimension], plain.joined(plain.CHECK_SEED, parts))


def all_passed(results, p=P):
    """The bits of results, where they fit, and the claim that every check was passed."""
    return [bit for result in results for bit in [*plain.bits((result + p.check_bound - 1) % MODULUS, p.check_bits), 1]]


def reported(start, checks=None, p=P):
    return plain.split_and_prove(p, [*start, *(checks or all_passed(true_results(start, p), p))], NONCE, SEEDS)


def wrapping_pair(start):
    """Two huge numbers whose squares add up to BOUND² in the field: (a + ib)(a - ib) for a root i of -1."""
    i, square = plain.FIELD64.root(4), BOUND**2
    half, over = plain.FIELD64.inverse(2), plain.FIELD64.inverse
    a, b = (start + square * over(start)) * half, (start - square * over(start)) * half * over(i)
    return [a % MODULUS, b % MODULUS]


def both_reports():
    """Two honest reports with the same nonce."""
    other = bytes(reversed(RANDOMNESS))
    vectors = np.array(LONGEST), np.array([0] * 39 + [7])
    return [pine.shard(P, x, NONCE, seeds) for x, seeds in zip(vectors, (RANDOMNESS, other), strict=True)]


# Random lies, of a smaller proof


LYING = Parameters.shortest(dimension=30, norm_bound=100)


def within(p, rng):
    """A vector of any length up to the bound, which it often reaches."""
    direction = rng.normal(size=p.dimension) * (rng.random(p.dimension) < rng.random() + 0.01)
    length = p.norm_bound * min(1.0, 2 * rng.random())
    return (length * direction / max(np.linalg.norm(direction), 1e-9)).astype(np.int64)


def one_bit_changed(report, other, rng):
    part = rng.choice(report._fields)
    octets = bytearray(getattr(report, part))
    octets[rng.integers(len(octets))] ^= 1 << rng.integers(8)
    return report._replace(**{part: bytes(octets)})


def one_element_replaced(report, other, rng):
    at = 8 * rng.integers(LYING.encoded_length + LYING.proofs_length)
    element = int(rng.integers(MODULUS, dtype=np.uint64)).to_bytes(8, "little")
    return report._replace(leader=report.leader[:at] + element + report.leader[at + 8 :])


def parts_of_two(report, other, rng):
    part = rng.choice(report._fields)
    return report._replace(**{part: getattr(other, part)})


def spliced(report, other, rng):
    at = 8 * rng.integers(1, LYING.encoded_length + LYING.proofs_length)
    return report._replace(leader=report.leader[:at] + other.leader[at:])


def too_long(report, other, rng):
    """A vector beyond the bound, from just over it to all of the field, with bits that claim it is not."""
    scale = LYING.norm_bound * 10.0 ** rng.uniform(0.01, 15)
    vector = [int(x) for x in scale * rng.choice([-1, 1], LYING.dimension)]
    seeds = plain.parsed_seeds(rng.bytes(pine.RANDOMNESS))
    norm = sum(x * x for x in vector) % MODULUS
    said = int(rng.choice([0, LYING.norm_bound**2])) if rng.random() < 0.5 else norm
    bits = plain.bits(said, LYING.norm_bits) + plain.bits((LYING.norm_bound**2 - said) % MODULUS, LYING.norm_bits)
    checks = [*rng.integers(0, 2, LYING.check_bits).tolist(), 1] * LYING.checks
    return plain.split_and_prove(LYING, [x % MODULUS for x in vector] + bits + checks, bytes(16), seeds)


LIES = [one_bit_changed, one_element_replaced, parts_of_two, spliced, too_long]
