"""What device and operators agree on before a report is made: sizes and bounds of PINE, and the lengths that follow."""

from dataclasses import dataclass
from functools import cached_property
from math import ceil

from prirec.errors import UsageError

MODULUS = 2**64 - 2**32 + 1  # Field64
GENERATOR = 7  # of all non-zero elements; it has a root of unity of every order 2^0 to 2^32
ELEMENT = 8  # bytes, little endian


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """One kind of report: the vector has `dimension` whole numbers, and its Euclidean norm is at most `norm_bound`.

    A wraparound check is passed when the inner product with a random vector of -1, 0 and 1 is within about
    alpha · norm_bound; of `checks` of them a report proves `successes`. What alpha, checks and proofs are worth is
    computed by experiments' `proof_errors` and stands in decisions/0026. Chunks decide how long a proof is, and nothing
    else; `chunks_for` finds the shortest."""

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
        if min(*sizes, self.successes) < 1 or self.checks < self.successes or not self.alpha > 0:
            raise UsageError(
                "a report has at least one entry, bound, chunk, proof and success, and no more than checks"
            )
        if max(self.proofs, self.norm_proofs) > 255:
            raise UsageError("the number of proofs is one byte: at most 255")
        bound, most = self.check_bound, MODULUS
        # Figure 1 and Lemma 3.3 of the paper (arXiv 2311.10237): below these, a proof would hold for longer vectors too
        if 3 * self.norm_bound**2 + 2 >= most or most < max(bound**2 / 4000, 2600 * bound, 2 * self.checks):
            raise UsageError("the bound of the norm is too large for a field of 64 bits: use fewer fraction bits")

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


def chunks_for(*, dimension: int, bits_length: int, checks: int) -> tuple[int, int]:
    """(chunk, norm_chunk) with which a report is shortest: a proof has one element a wire and two a point, so few wires
    are many points. Of chunks with as many points the smallest is best; there are few numbers of points to try."""
    candidates = [2**bits for bits in range(1, 33)]

    def norm(points: int) -> int:
        return -(-dimension // (points - 1))

    def both(points: int) -> int:
        # two roundings up: from the smallest chunk that could do, on to the first that does
        chunk = -(-(bits_length + checks) // (points - 1))
        while -(-bits_length // chunk) + -(-checks // chunk) > points - 1:
            chunk += 1
        return chunk

    chunk = min((2 * both(n) + 2 * n, both(n)) for n in candidates[1:])[1]
    return chunk, min((norm(n) + 2 * n, norm(n)) for n in candidates)[1]


def _power_of_two(least: int) -> int:
    """The smallest power of two that is not below."""
    return 1 << (least - 1).bit_length()
