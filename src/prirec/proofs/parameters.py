"""What device and operators agree on before a report is made: sizes and bounds of PINE, and the lengths that follow."""

from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, inf
from typing import Any, Self

from prirec.errors import UsageError

MODULUS = 2**64 - 2**32 + 1  # Field64
GENERATOR = 7  # of all non-zero elements; it has a root of unity of every order 2^0 to 2^32
ELEMENT = 8  # bytes, little endian


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """One kind of report: the vector has `dimension` whole numbers, and its Euclidean norm is at most `norm_bound`.

    A wraparound check is passed when the inner product with a random vector of -1, 0 and 1 is within about
    alpha · norm_bound; of `checks` of them a report proves `successes`. What alpha, checks and proofs are worth stands
    in decisions/0026. Chunks decide how long proofs are; `shortest` finds the best."""

    dimension: int
    norm_bound: int
    chunk: int  # pairs of factors that one gadget call of the bit and wraparound proof adds up
    norm_chunk: int  # squares that one gadget call of the norm proof adds up
    proofs: int = 2  # of bits and wraparound checks
    norm_proofs: int = 1
    checks: int = 100
    successes: int = 100
    alpha: float = 8.7

    def __post_init__(self) -> None:
        sizes = (self.dimension, self.norm_bound, self.chunk, self.norm_chunk, self.proofs, self.norm_proofs)
        if min(*sizes, self.successes) < 1 or self.checks < self.successes or not 0 < self.alpha < inf:
            raise UsageError(
                "a report has at least one entry, bound, chunk, proof and success, and no more than checks"
            )
        if max(self.proofs, self.norm_proofs) > 255:
            raise UsageError("the number of proofs is one byte: at most 255")
        bound = self.check_bound
        # Figure 1 and Lemma 3.3 of the paper (arXiv 2311.10237): beyond these, proofs would hold for longer vectors too
        least = max(3 * self.norm_bound**2 + 3, bound**2 // 4000 + 1, 2600 * bound, 2 * self.checks)
        if least > MODULUS:
            raise UsageError("the bound of the norm is too large for a field of 64 bits: use fewer fraction bits")

    @classmethod
    def shortest(cls, *, dimension: int, norm_bound: int, **others: Any) -> Self:
        """With the chunks that make the report shortest: a proof has one element for each wire and two for each point,
        and fewer wires need more points. Of all chunks with as many points the smallest is best."""
        plain = cls(dimension=dimension, norm_bound=norm_bound, chunk=1, norm_chunk=1, **others)

        def smallest(wires: int, points: int, *lengths: int) -> tuple[int, int]:
            """(length of the proof, chunk), for lengths that are each cut into chunks of their own."""
            chunk = -(-sum(lengths) // (points - 1))
            while sum(-(-length // chunk) for length in lengths) > points - 1:
                chunk += 1
            return wires * chunk + 2 * points - 1, chunk

        norm = min(smallest(1, 2**k, plain.dimension) for k in range(1, 33))
        bits = min(smallest(2, 2**k, plain.bits_length, plain.checks) for k in range(2, 33))
        return replace(plain, chunk=bits[1], norm_chunk=norm[1])

    # Of the encoded vector: entries, bits of the squared norm, bits of each check

    @cached_property
    def check_bound(self) -> int:
        """A check is passed from -check_bound + 1 to check_bound: a power of two, so bits alone prove the range."""
        return _power_of_two(ceil(self.alpha * self.norm_bound) + 1)

    @cached_property
    def norm_bits(self) -> int:
        return (self.norm_bound**2).bit_length()

    @cached_property
    def check_bits(self) -> int:
        return (2 * self.check_bound - 1).bit_length()

    @cached_property
    def head_length(self) -> int:
        """Entries, and the squared norm counted from 0 and from the bound: what wraparound checks are drawn from."""
        return self.dimension + 2 * self.norm_bits

    @cached_property
    def bits_length(self) -> int:
        """All elements that are proved to be bits."""
        return 2 * self.norm_bits + (self.check_bits + 1) * self.checks

    @cached_property
    def encoded_length(self) -> int:
        return self.dimension + self.bits_length

    # Of proofs: (arity of the gadget, calls, points that interpolate its wires)

    @cached_property
    def norm_calls(self) -> int:
        return -(-self.dimension // self.norm_chunk)

    @cached_property
    def bit_calls(self) -> int:
        return -(-self.bits_length // self.chunk)

    @cached_property
    def calls(self) -> int:
        return self.bit_calls + -(-self.checks // self.chunk)

    @cached_property
    def norm_points(self) -> int:
        return _power_of_two(1 + self.norm_calls)

    @cached_property
    def points(self) -> int:
        return _power_of_two(1 + self.calls)

    @cached_property
    def norm_proof_length(self) -> int:
        return self.norm_chunk + 2 * self.norm_points - 1

    @cached_property
    def proof_length(self) -> int:
        return 2 * self.chunk + 2 * self.points - 1

    @cached_property
    def proofs_length(self) -> int:
        return self.norm_proofs * self.norm_proof_length + self.proofs * self.proof_length

    @cached_property
    def verifier_length(self) -> int:
        return self.norm_proofs * (self.norm_chunk + 2) + self.proofs * (2 * self.chunk + 2)


def _power_of_two(least: int) -> int:
    """The smallest power of two that is not below."""
    return 1 << (least - 1).bit_length()
