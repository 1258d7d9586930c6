"""Many random lies, none accepted; many honest reports, none refused. At full size in `make soak`."""

import numpy as np
import pytest

from prirec.errors import PeerError
from prirec.proofs import pine, plain
from prirec.proofs.parameters import MODULUS, Parameters

LYING = Parameters.shortest(dimension=30, norm_bound=100, checks=40, successes=40)
HONEST = Parameters.shortest(dimension=445, norm_bound=4096)


def accepted(p, key, nonce, report):
    try:
        states, shares = zip(
            *(
                pine.prepare(p, key, at, nonce=nonce, public=report.public, share=share)
                for at, share in enumerate((report.leader, report.helper))
            ),
            strict=True,
        )
        message = pine.combine(p, shares)
        return pine.opened(*(pine.finish(state, message) for state in states))
    except PeerError:
        return None


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


@pytest.mark.parametrize("many", [100, pytest.param(10_000, marks=pytest.mark.soak)])
def test_no_random_lie_is_accepted(many):
    rng, nonce = np.random.default_rng(many), bytes(16)
    for number in range(many):
        key, vectors = rng.bytes(32), [within(LYING, rng) for _ in range(2)]
        report, other = (pine.report(LYING, vector, nonce, rng.bytes) for vector in vectors)
        lie = LIES[number % len(LIES)]
        assert accepted(LYING, key, nonce, lie(report, other, rng)) is None, (lie.__name__, number)


@pytest.mark.parametrize("many", [100, pytest.param(100_000, marks=pytest.mark.soak)])
def test_no_honest_report_is_refused(many):
    rng = np.random.default_rng(many)
    for _ in range(many):
        vector, nonce, key = within(HONEST, rng), rng.bytes(16), rng.bytes(32)
        found = accepted(HONEST, key, nonce, pine.report(HONEST, vector, nonce, rng.bytes))
        assert found is not None
        assert (found == vector).all()
