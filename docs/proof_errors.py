"""How likely a report that lies is accepted, and an honest one seen through: PINE's errors, from its parameters.

`python docs/proof_errors.py` prints the table of decisions/0026; `make docs` writes it there. How a lie could pass:

- *Wraparound checks* (Lemma 3.3 of arXiv 2311.10237): a vector that is too long, and whose squared norm is small in the
  field alone, passes one check with odds of 1/2 at most.
- *Proofs of bits and checks*, each: joint randomness at which all constraints cancel (as many roots as constraints), or
  a point of the query at which a false gadget polynomial has the right value (as many as its degree).
- *Proof of the norm*: the point alone.

A device can try hashes by itself until checks or joint randomness suit it (`tries`), since they follow from its shares.
It cannot try points: they follow from a key that it does not know, and each costs it a refused report.

Zero knowledge: an inner product with signs 1, 0 and -1 (odds 1/4, 1/2, 1/4) is beyond t times the norm with odds of
2 exp(-t²) at most. Then a check fails for an honest vector and the device draws anew: so what it draws is no further
from uniform than that.
"""

from math import comb, exp, log2

from prirec.proofs.parameters import MODULUS, Parameters

LENGTHS = (445, 16_621, 118_598)
NORM_BOUND = 2**12
TRIES = (0, 40, 60)  # powers of two


def zero_knowledge(p: Parameters) -> float:
    """Odds that an honest vector fails too many checks."""
    one = 2 * exp(-(((p.check_bound - 1) / p.norm_bound) ** 2))
    too_many = p.checks - p.successes + 1
    return float(comb(p.checks, too_many) * one**too_many)


def checks_error(p: Parameters, tries: int) -> float:
    """Odds to pass enough wraparound checks by luck."""
    lucky = sum(comb(p.checks, passed) for passed in range(p.successes, p.checks + 1)) * 0.5**p.checks
    return float(min(1.0, tries * lucky))


def bits_error(p: Parameters, tries: int) -> float:
    """Odds that all proofs of bits and checks hold for what they should not: joint randomness suits `lucky` of them,
    which the device can try for, and the points suit the others, which it cannot."""
    joint = (p.bits_length + p.checks + 4) / MODULUS
    point = 2 * (p.points - 1) / (MODULUS - p.points)
    ways = ((lucky, comb(p.proofs, lucky) * joint**lucky) for lucky in range(p.proofs + 1))
    return min(1.0, sum(min(1.0, tries * odds if lucky else 1.0) * point ** (p.proofs - lucky) for lucky, odds in ways))


def norm_error(p: Parameters) -> float:
    return float((2 * (p.norm_points - 1) / (MODULUS - p.norm_points)) ** p.norm_proofs)


def soundness(p: Parameters, tries: int = 1) -> float:
    """Odds that one report with a vector beyond the bound is accepted, after so many tries."""
    return min(1.0, checks_error(p, tries) + bits_error(p, tries) + norm_error(p))


def power(odds: float) -> str:
    return f"2^−{-log2(odds):.0f}"


def table() -> str:
    lines = [
        "| entries | honest vector fails a check | checks | bits, 2 proofs | norm, 1 proof | a lie is accepted "
        + "".join(f"| after 2^{bits} tries " for bits in TRIES[1:])
        + "|",
        "|---|---|---|---|---|---|" + "---|" * (len(TRIES) - 1),
    ]
    for length in LENGTHS:
        p = Parameters.shortest(dimension=length, norm_bound=NORM_BOUND)
        parts = [zero_knowledge(p), checks_error(p, 1), bits_error(p, 1), norm_error(p)]
        odds = [*parts, *(soundness(p, 2**bits) for bits in TRIES)]
        lines.append(f"| {length:,} | " + " | ".join(map(power, odds)) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())  # noqa: T201
