"""PINE, "Private Inexpensive Norm Enforcement" (arXiv 2311.10237, draft-chen-cfrg-vdaf-pine-01): a device splits a
vector between two operators and proves that it is no longer than a bound. Neither learns more than that it is so.

    made = report(p, vector, nonce, draw)                    # the device: one message, and it is done
    state, share = prepare(p, key, LEADER, nonce=nonce, ...)  # each operator; then they exchange these shares
    entries = finish(state, combine(p, [leaders, helpers]))  # its share of the vector, or PeerError PROOF
    opened(total(p, leaders_entries), total(p, helpers_entries))

tests/vectors/reference_proofs.py is the same in plain integers, step by step; the two are equal bit for bit. Both
operators know `key`, no device does, and it is fixed before reports come: a proof at a point that its device knew
proves nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from hashlib import sha256
from hmac import digest
from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from prirec.errors import Fault, PeerError, UsageError
from prirec.proofs import circuits
from prirec.proofs.field import MODULUS, FieldArray, differences, elements_of, integers_of, sums
from prirec.proofs.parameters import ELEMENT, Parameters
from prirec.types import SignedArray
from prirec.util.jit import kernel

LEADER, HELPER = 0, 1
SEED = 32  # bytes
_VERSION, _ALGORITHM = 1, 0xFFFF1004  # of the draft; of PINE over Field64 with this XOF, as its vectors have it
_BLOCK = 16  # bytes, of AES
NONCE = 16  # bytes
RANDOMNESS = 7 * SEED  # bytes that a report takes
DRAWS = 1000  # honest vectors that do not pass so often come from an alpha that is too small

_TOO_LONG = np.uint64(2**64 - 1)
_WORDS = np.dtype("<u8")


# The XOF: HMAC-SHA256 makes a key and a starting counter, AES-128 in counter mode makes the stream. Both are in every
# browser's WebCrypto. Each use has a domain separation tag of its own, so that two seeds never serve two purposes. The
# counter is the lower 64 bits of the block alone, as in the published vectors' own code.


class Usage(IntEnum):
    """What a stream is for: the last part of the tag."""

    ENCODED_SHARE = 1
    PROOFS_SHARE = 2
    JOINT_RANDOMNESS = 3
    PROVER_RANDOMNESS = 4
    QUERY_RANDOMNESS = 5
    JOINT_SEED = 6
    JOINT_PART = 7
    CHECK_VECTORS = 8
    CHECK_SEED = 9
    CHECK_PART = 10


def stream(seed: bytes, usage: Usage, binder: bytes, size: int) -> bytes:
    """The first `size` bytes for this seed, use and binder; a longer stream begins with the shorter."""
    tag = bytes([_VERSION]) + _ALGORITHM.to_bytes(4, "big") + usage.to_bytes(2, "big")
    drawn = digest(seed, bytes([len(tag)]) + tag + binder, sha256)
    return key_stream(drawn[:_BLOCK], drawn[_BLOCK:], size)


def key_stream(key: bytes, start: bytes, size: int) -> bytes:
    """AES-128 of start, start + 1, ...: only the lower 64 bits count, and after 2^64 - 1 comes 0."""
    before_wrap = _BLOCK * (2**64 - int.from_bytes(start[8:], "big"))
    if size > before_wrap:
        return key_stream(key, start, before_wrap) + key_stream(key, start[:8] + bytes(8), size - before_wrap)
    return Cipher(algorithms.AES(key), modes.CTR(start)).encryptor().update(bytes(size))


def derived_seed(seed: bytes, usage: Usage, binder: bytes) -> bytes:
    return stream(seed, usage, binder, SEED)


class Report(NamedTuple):
    """Three byte strings: for both operators, for the leader, for the helper. Both shares are secret."""

    public: bytes
    leader: bytes
    helper: bytes

    def __repr__(self) -> str:
        return "Report(secret)"


class State(NamedTuple):
    """What an operator keeps between its verifier share and the decision."""

    entries: FieldArray
    check_seed: bytes
    joint_seed: bytes

    def __repr__(self) -> str:
        return "State(secret)"


# The device


def report(p: Parameters, vector: SignedArray, nonce: bytes, draw: Callable[[int], bytes]) -> Report:
    """A report that will be accepted. The wraparound checks may fail for an honest vector, with the odds that alpha
    sets; `draw(size)` is then asked for other random bytes, so that no operator ever sees a check that failed."""
    for _ in range(DRAWS):
        made = shard(p, vector, nonce, draw(RANDOMNESS))
        if made is not None:
            return made
    raise UsageError("honest vectors fail the wraparound checks: choose a larger alpha")


def shard(p: Parameters, vector: SignedArray, nonce: bytes, randomness: bytes) -> Report | None:
    """The report for these random bytes; None where they do not pass the wraparound checks."""
    if len(randomness) != RANDOMNESS or len(nonce) != NONCE:
        raise UsageError(f"a report takes {RANDOMNESS} random bytes and a nonce of {NONCE}")
    encoded_seed, proofs_seed, *blinds, prover_seed = _seeds(randomness)
    helper_check, helper_joint, leader_check, leader_joint = blinds

    encoded = _with_norm(p, vector)
    helper = expand(encoded_seed, Usage.ENCODED_SHARE, bytes([HELPER]), p.encoded_length)
    head = differences(encoded[: p.head_length], helper[: p.head_length])
    checks = [
        _part(Usage.CHECK_PART, LEADER, leader_check, nonce, head),
        _part(Usage.CHECK_PART, HELPER, helper_check, nonce, helper[: p.head_length]),
    ]
    results = _wraparound_checks(p, encoded[: p.dimension], _joined(Usage.CHECK_SEED, checks))
    if fill_checks(results, np.uint64(p.check_bound), p.successes, _checks_of(p, encoded)) < p.successes:
        return None

    leader = differences(encoded, helper)
    joint = [
        _part(Usage.JOINT_PART, LEADER, leader_joint, nonce, leader),
        _part(Usage.JOINT_PART, HELPER, helper_joint, nonce, helper),
    ]
    numbers, arities = bytes([p.norm_proofs, p.proofs]), p.norm_proofs * p.norm_chunk + p.proofs * 2 * p.chunk
    seeds = expand(prover_seed, Usage.PROVER_RANDOMNESS, numbers, arities)
    randoms = _joint_randomness(p, _joined(Usage.JOINT_SEED, joint))
    proofs = circuits.prove(p, encoded, results, seeds=seeds, joint=randoms)
    leader_proofs = differences(proofs, _helper_proofs(p, proofs_seed))
    return Report(
        b"".join(checks + joint),
        _bytes(leader) + _bytes(leader_proofs) + leader_check + leader_joint,
        encoded_seed + proofs_seed + helper_check + helper_joint,
    )


def _with_norm(p: Parameters, vector: SignedArray) -> FieldArray:
    """The encoded vector, complete but for the bits of the wraparound checks."""
    whole = np.ascontiguousarray(vector, np.int64)
    if whole.shape != (p.dimension,):
        raise UsageError("the vector has another length than the parameters say")
    bound = p.norm_bound**2
    norm = squared_norm(whole, p.norm_bound, np.uint64(bound))
    if norm == _TOO_LONG:
        raise UsageError("the vector is longer than its bound: clip it first")
    encoded = np.zeros(p.encoded_length, np.uint64)
    encoded[: p.dimension] = elements_of(whole)
    for at, number in enumerate((norm, np.uint64(bound) - norm)):
        start = p.dimension + at * p.norm_bits
        encoded[start : start + p.norm_bits] = number >> np.arange(p.norm_bits, dtype=np.uint64) & np.uint64(1)
    return encoded


@kernel
def squared_norm(vector: NDArray[np.int64], bound: int, most: np.uint64) -> np.uint64:
    """Exact, or _TOO_LONG. Nothing overflows: the parameters keep `most` below 2^63."""
    total = np.uint64(0)
    for x in vector:
        if x > bound or x < -bound:
            return _TOO_LONG
        total += np.uint64(x * x)
        if total > most:
            return _TOO_LONG
    return total


def _checks_of(p: Parameters, encoded: FieldArray) -> FieldArray:
    return encoded[p.head_length :].reshape(p.checks, p.check_bits + 1)


@kernel
def fill_checks(results: FieldArray, bound: np.uint64, wanted: int, into: FieldArray) -> int:
    """Bits of each result, and whether it counts; how many do."""
    zero, one = np.uint64(0), np.uint64(1)
    successes, last = 0, into.shape[1] - 1
    for i in range(len(results)):
        shifted = results[i] + (bound - one)
        if shifted < results[i] or shifted >= MODULUS:  # beyond p: the result was a negative number
            shifted -= MODULUS
        inside = shifted < bound + bound
        counts = inside and successes < wanted
        successes += 1 if counts else 0
        for bit in range(last):
            into[i, bit] = (shifted >> np.uint64(bit)) & one if inside else zero
        into[i, last] = one if counts else zero
    return successes


# The operators


def prepare(
    p: Parameters, verify_key: bytes, operator: int, *, nonce: bytes, public: bytes, share: bytes
) -> tuple[State, bytes]:
    """One operator by itself: what it keeps, and the verifier share for the other one."""
    encoded, proofs = _leader_share(p, share) if operator == LEADER else _helper_share(p, share)
    check_blind, joint_blind = _seeds(share[-2 * SEED :])
    if len(public) != 4 * SEED or len(nonce) != NONCE:
        raise PeerError(Fault.DECODE, "a report's public part or its nonce has another length than it must have")
    if len(verify_key) != SEED:
        raise UsageError(f"a verification key has {SEED} bytes")
    parts = _seeds(public)
    checks, joint = parts[:2], parts[2:]
    # its own parts it computes: those that the device sent stand in for the other operator's only
    checks[operator] = _part(Usage.CHECK_PART, operator, check_blind, nonce, encoded[: p.head_length])
    joint[operator] = _part(Usage.JOINT_PART, operator, joint_blind, nonce, encoded)
    state = State(encoded[: p.dimension], _joined(Usage.CHECK_SEED, checks), _joined(Usage.JOINT_SEED, joint))

    numbers = bytes([p.norm_proofs, p.proofs])
    at = expand(verify_key, Usage.QUERY_RANDOMNESS, numbers + nonce, p.norm_proofs + p.proofs)
    results = _wraparound_checks(p, state.entries, state.check_seed)
    randoms = _joint_randomness(p, state.joint_seed)
    verifier = circuits.query(p, encoded, results, proofs=proofs, at=at, joint=randoms)
    return state, _bytes(verifier) + checks[operator] + joint[operator]


def _leader_share(p: Parameters, share: bytes) -> tuple[FieldArray, FieldArray]:
    size = (p.encoded_length + p.proofs_length) * ELEMENT
    if len(share) != size + 2 * SEED:
        raise PeerError(Fault.DECODE, "a share has another length than its parameters say")
    both = _elements(share[:size])
    return both[: p.encoded_length], both[p.encoded_length :]


def _helper_share(p: Parameters, share: bytes) -> tuple[FieldArray, FieldArray]:
    if len(share) != 4 * SEED:
        raise PeerError(Fault.DECODE, "a share has another length than its parameters say")
    encoded = expand(share[:SEED], Usage.ENCODED_SHARE, bytes([HELPER]), p.encoded_length)
    return encoded, _helper_proofs(p, share[SEED : 2 * SEED])


def combine(p: Parameters, shares: Sequence[bytes]) -> bytes:
    """From both verifier shares, the leader's first, to the seeds that both must have used; PeerError PROOF if a proof
    does not hold."""
    size = p.verifier_length * ELEMENT
    if any(len(share) != size + 2 * SEED for share in shares):
        raise PeerError(Fault.DECODE, "a verifier share has another length than its parameters say")
    leader, helper = (_elements(share[:size]) for share in shares)
    if not circuits.decide(p, sums(leader, helper)):
        raise PeerError(Fault.PROOF, "a report's proof does not hold")
    checks, joint = zip(*(_seeds(share[size:]) for share in shares), strict=True)
    return _joined(Usage.CHECK_SEED, checks) + _joined(Usage.JOINT_SEED, joint)


def finish(state: State, message: bytes) -> FieldArray:
    """The operator's share of the vector, if the joint randomness was that of both shares; else PeerError PROOF."""
    if message != state.check_seed + state.joint_seed:
        raise PeerError(Fault.PROOF, "a report's joint randomness is not that of its shares")
    return state.entries


def total(p: Parameters, shares: Iterable[FieldArray]) -> FieldArray:
    """One operator's share of the sum."""
    summed: FieldArray = np.zeros(p.dimension, np.uint64)
    for share in shares:
        summed = sums(summed, share)
    return summed


def opened(leader: FieldArray, helper: FieldArray) -> SignedArray:
    """The sum as integers around 0, right while it is within p / 2."""
    return integers_of(sums(leader, helper))


# Streams of elements, and what both sides hash


def expand(seed: bytes, usage: Usage, binder: bytes, count: int) -> FieldArray:
    """Uniform elements: the stream's numbers, without those beyond the field (one in 2^32)."""
    size = count
    while True:
        words = np.frombuffer(stream(seed, usage, binder, size * ELEMENT), _WORDS)
        found = words[words < MODULUS].astype(np.uint64, copy=False)
        if len(found) >= count:
            return found[:count]
        size += count - len(found)


def _wraparound_checks(p: Parameters, entries: FieldArray, seed: bytes) -> FieldArray:
    octets = -(-p.dimension // 4)
    drawn = stream(seed, Usage.CHECK_VECTORS, b"", octets * p.checks)
    found: FieldArray = circuits.inner_products(entries, np.frombuffer(drawn, np.uint8).reshape(p.checks, octets))
    return found


def _part(usage: Usage, operator: int, blind: bytes, nonce: bytes, share: FieldArray) -> bytes:
    return derived_seed(blind, usage, bytes([operator]) + nonce + _bytes(share))


def _joined(usage: Usage, parts: Sequence[bytes]) -> bytes:
    return derived_seed(bytes(SEED), usage, b"".join(parts))


def _joint_randomness(p: Parameters, seed: bytes) -> FieldArray:
    return expand(seed, Usage.JOINT_RANDOMNESS, bytes([p.proofs]), 3 * p.proofs).reshape(p.proofs, 3)


def _helper_proofs(p: Parameters, seed: bytes) -> FieldArray:
    return expand(seed, Usage.PROOFS_SHARE, bytes([p.norm_proofs, p.proofs, HELPER]), p.proofs_length)


def _seeds(octets: bytes) -> list[bytes]:
    return [octets[at : at + SEED] for at in range(0, len(octets), SEED)]


def _bytes(elements: FieldArray) -> bytes:
    return elements.astype(_WORDS, copy=False).tobytes()


def _elements(octets: bytes) -> FieldArray:
    found = np.frombuffer(octets, _WORDS).astype(np.uint64, copy=False)
    if (found >= MODULUS).any():
        raise PeerError(Fault.DECODE, "a share has a number that is not in the field")
    return found
