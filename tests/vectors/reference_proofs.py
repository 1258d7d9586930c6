"""PINE in plain integers, written to be read beside draft-chen-cfrg-vdaf-pine-01. The oracle of proofs.

Nothing here is fast: proofs/pine.py is held to it, and both to the published vectors.
Functions are named by what they do; the draft's verb is in brackets. A report goes this way:

    device      vector -> encoded (entries, bits of the squared norm, bits of the wraparound checks)
                encoded -> two shares; their hashes give the joint randomness, which nobody chooses
                encoded -> proofs -> two shares
    operator    its shares -> its verifier share, which is linear in them
    both        verifier shares -> accepted or refused; the operator's share of the entries is then its to add

A field is given by its modulus and a generator, so that tests can enumerate a tiny one.
"""

import hmac
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from prirec.errors import Fault, PeerError, UsageError
from prirec.proofs.parameters import ELEMENT, GENERATOR, MODULUS, Parameters

Whole = TypeVar("Whole", bytes, Sequence[int])
LEADER, HELPER = 0, 1
SEED, NONCE = 32, 16  # bytes
SHARES = 2
# the draft's numbers for what a stream is for
ENCODED_SHARE, PROOFS_SHARE, JOINT_RANDOMNESS, PROVER_RANDOMNESS, QUERY_RANDOMNESS = 1, 2, 3, 4, 5
JOINT_SEED, JOINT_PART, CHECK_VECTORS, CHECK_SEED, CHECK_PART = 6, 7, 8, 9, 10


# The field


@dataclass(frozen=True)
class Field:
    modulus: int
    generator: int  # of all elements but 0

    def root(self, order: int) -> int:
        """An element whose powers are the `order` points at which a wire has its values."""
        return pow(self.generator, (self.modulus - 1) // order, self.modulus)

    def inverse(self, x: int) -> int:
        return pow(x, -1, self.modulus)

    def evaluate(self, polynomial: Sequence[int], at: int) -> int:
        return sum(c * pow(at, k, self.modulus) for k, c in enumerate(polynomial)) % self.modulus

    def interpolate(self, values: Sequence[int]) -> list[int]:
        """The polynomial that has value k at root^k: the inverse Fourier transform, as a double loop."""
        n, back = len(values), self.inverse(self.root(len(values)))
        return [
            self.inverse(n) * sum(y * pow(back, i * k, self.modulus) for k, y in enumerate(values)) % self.modulus
            for i in range(n)
        ]

    def multiply(self, f: Sequence[int], g: Sequence[int]) -> list[int]:
        product = [0] * (len(f) + len(g) - 1)
        for i, a in enumerate(f):
            for j, b in enumerate(g):
                product[i + j] = (product[i + j] + a * b) % self.modulus
        return product

    def add(self, a: Sequence[int], b: Sequence[int]) -> list[int]:
        return [(x + y) % self.modulus for x, y in zip(a, b, strict=True)]

    def subtract(self, a: Sequence[int], b: Sequence[int]) -> list[int]:
        return [(x - y) % self.modulus for x, y in zip(a, b, strict=True)]


FIELD64 = Field(MODULUS, GENERATOR)


def to_bytes(elements: Iterable[int]) -> bytes:
    return b"".join(x.to_bytes(ELEMENT, "little") for x in elements)


def to_elements(octets: bytes) -> list[int]:
    elements = [int.from_bytes(piece, "little") for piece in pieces(octets, ELEMENT)]
    if any(x >= MODULUS for x in elements):
        raise PeerError(Fault.DECODE, "a share has a number that is not in the field")
    return elements


def pieces(whole: Whole, size: int) -> list[Whole]:
    return [whole[at : at + size] for at in range(0, len(whole), size)]


def bits(number: int, length: int) -> list[int]:
    return [number >> at & 1 for at in range(length)]


def number(bits_of_it: Sequence[int]) -> int:
    return sum(bit << at for at, bit in enumerate(bits_of_it))


# The stream of HMAC-SHA256 and AES-128, block by block


def stream(seed: bytes, usage: int, binder: bytes, size: int) -> bytes:
    tag = bytes([1]) + 0xFFFF1004.to_bytes(4, "big") + usage.to_bytes(2, "big")  # version of the draft, algorithm, use
    drawn = hmac.digest(seed, bytes([len(tag)]) + tag + binder, "sha256")
    key, fixed, start = drawn[:16], drawn[16:24], int.from_bytes(drawn[24:], "big")
    block = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 - single blocks are all that CTR needs
    counters = (fixed + ((start + at) % 2**64).to_bytes(8, "big") for at in range(-(-size // 16)))
    return b"".join(block.update(counter) for counter in counters)[:size]


def expand(seed: bytes, usage: int, binder: bytes, count: int) -> list[int]:
    """Uniform elements: numbers beyond the field are left out."""
    size = count
    while True:
        words = stream(seed, usage, binder, size * ELEMENT)
        found = [x for x in (int.from_bytes(w, "little") for w in pieces(words, ELEMENT)) if x < MODULUS]
        if len(found) >= count:
            return found[:count]
        size += count - len(found)


# Encoding: the entries, then bits that show how long the vector is, then bits that show that nothing wrapped around


def encode_vector(p: Parameters, vector: Sequence[int]) -> list[int]:
    """[encode_gradient_and_norm] Entries, bits of the squared norm, bits of what it is below the bound's square."""
    if len(vector) != p.dimension:
        raise UsageError("the vector has another length than the parameters say")
    norm = sum(x * x for x in vector)
    if norm > p.norm_bound**2:
        raise UsageError("the vector is longer than its bound: clip it first")
    return [x % MODULUS for x in vector] + bits(norm, p.norm_bits) + bits(p.norm_bound**2 - norm, p.norm_bits)


def wraparound_checks(p: Parameters, entries: Sequence[int], seed: bytes) -> list[int]:
    """[run_wr_checks] Inner products with random vectors: two bits an entry, 00 is -1, 11 is 1, else 0."""
    row = -(-p.dimension // 4)
    drawn = stream(seed, CHECK_VECTORS, b"", row * p.checks)
    results = []
    for at in range(0, len(drawn), row):
        pairs = [octet >> shift & 3 for octet in drawn[at : at + row] for shift in (0, 2, 4, 6)]
        signs = [{0: -1, 3: 1}.get(pair, 0) for pair in pairs]
        results.append(sum(sign * x for sign, x in zip(signs, entries, strict=False)) % MODULUS)
    return results


def encode_checks(p: Parameters, results: Sequence[int]) -> list[int] | None:
    """[encode_wr_checks] Each result as bits, with one more bit that says whether it counts as a success; None where
    too few do. Exactly `successes` count, even if more could."""
    encoded, successes = [], 0
    for result in results:
        shifted = (result + p.check_bound - 1) % MODULUS
        success = shifted < 2 * p.check_bound and successes < p.successes
        successes += success
        encoded += [*bits(shifted if shifted < 2 * p.check_bound else 0, p.check_bits), int(success)]
    return encoded if successes == p.successes else None


# Proof system (BBCGGI19, Theorem 4.3): a circuit with one gadget of degree 2, called several times


@dataclass(frozen=True)
class Circuit:
    """`evaluate(gadget, encoded, joint, one)` is 0 for a valid input. `one` is a share of the constant 1: 1 over the
    number of shares, so that the shares of a circuit's value add up to the value."""

    field: Field
    arity: int
    calls: int
    pairs: list[tuple[int, int]]  # which wires the gadget multiplies, before it adds up the products
    evaluate: Callable[["Gadget", Sequence[int], Sequence[int], int], int]

    @property
    def points(self) -> int:
        return 1 << self.calls.bit_length()

    def gadget(self, inputs: Sequence[int]) -> int:
        return sum(inputs[i] * inputs[j] for i, j in self.pairs) % self.field.modulus

    def prove(self, encoded: Sequence[int], seeds: Sequence[int], joint: Sequence[int]) -> list[int]:
        """[Flp.prove] A random value for each wire, and the gadget's polynomial over the wires' polynomials."""
        wires = [[seed] for seed in seeds]

        def recorded(inputs: Sequence[int]) -> int:
            for wire, value in zip(wires, inputs, strict=True):
                wire.append(value)
            return self.gadget(inputs)

        self.evaluate(recorded, encoded, joint, 1)
        polynomials = [self.field.interpolate(wire + [0] * (self.points - len(wire))) for wire in wires]
        gadget = [0] * (2 * self.points - 1)
        for i, j in self.pairs:
            gadget = self.field.add(gadget, self.field.multiply(polynomials[i], polynomials[j]))
        return [*seeds, *gadget]

    def query(self, encoded: Sequence[int], proof: Sequence[int], at: int, joint: Sequence[int], one: int) -> list[int]:
        """[Flp.query] The circuit's value, with the gadget's values taken from the proof; and whether the gadget's
        polynomial is what it should be, at one point that the prover did not know. Linear in encoded and proof."""
        if pow(at, self.points, self.field.modulus) == 1:
            raise PeerError(Fault.PROOF, "the point of the query would show what a wire holds")
        wires, gadget = [[seed] for seed in proof[: self.arity]], proof[self.arity :]
        root = self.field.root(self.points)

        def answered(inputs: Sequence[int]) -> int:
            for wire, value in zip(wires, inputs, strict=True):
                wire.append(value)
            return self.field.evaluate(gadget, pow(root, len(wires[0]) - 1, self.field.modulus))

        value = self.evaluate(answered, encoded, joint, one)
        polynomials = [self.field.interpolate(wire + [0] * (self.points - len(wire))) for wire in wires]
        return [value, *(self.field.evaluate(f, at) for f in polynomials), self.field.evaluate(gadget, at)]

    def decide(self, verifier: Sequence[int]) -> bool:
        """[Flp.decide] Over the sum of both verifier shares."""
        value, *wires, gadget = verifier
        return value == 0 and gadget == self.gadget(wires)


Gadget = Callable[[Sequence[int]], int]


def in_chunks(inputs: Sequence[int], arity: int) -> list[list[int]]:
    return [list(chunk) + [0] * (arity - len(chunk)) for chunk in pieces(inputs, arity)]


def norm_circuit(p: Parameters, field: Field = FIELD64) -> Circuit:
    """[PineValidNormEquality] The squares of the entries add up to the squared norm that the bits say."""

    def evaluate(gadget: Gadget, encoded: Sequence[int], _joint: Sequence[int], _one: int) -> int:
        entries, norm = encoded[: p.dimension], encoded[p.dimension : p.dimension + p.norm_bits]
        return (number(norm) - sum(gadget(chunk) for chunk in in_chunks(entries, p.norm_chunk))) % field.modulus

    return Circuit(field, p.norm_chunk, p.norm_calls, [(wire, wire) for wire in range(p.norm_chunk)], evaluate)


def bits_circuit(p: Parameters, field: Field = FIELD64) -> Circuit:
    """[PineValid] All bits are bits; the norm is in range; enough checks were passed, and those that count are right.

    Input: the encoded vector, then the results of the wraparound checks, which operators compute by themselves."""

    def evaluate(gadget: Gadget, encoded: Sequence[int], joint: Sequence[int], one: int) -> int:
        r_bits, r_checks, r_final = joint
        all_bits, results = encoded[p.dimension : p.encoded_length], encoded[p.encoded_length :]

        factors = [x for at, bit in enumerate(all_bits) for x in (pow(r_bits, at, field.modulus) * bit, bit - one)]
        not_bits = sum(gadget(chunk) for chunk in in_chunks([x % field.modulus for x in factors], 2 * p.chunk))

        norm, below_bound = all_bits[: p.norm_bits], all_bits[p.norm_bits : 2 * p.norm_bits]
        out_of_range = number(norm) + number(below_bound) - p.norm_bound**2 * one

        factors, successes = [], 0
        for at, (*said, success) in enumerate(pieces(all_bits[2 * p.norm_bits :], p.check_bits + 1)):
            wrong = results[at] - (number(said) - (p.check_bound - 1) * one)
            factors += [pow(r_checks, at, field.modulus) * wrong, success]
            successes += success
        wrong_checks = sum(gadget(chunk) for chunk in in_chunks([x % field.modulus for x in factors], 2 * p.chunk))
        too_few = successes - p.successes * one
        return (not_bits + r_final * out_of_range + r_final**2 * wrong_checks + r_final**3 * too_few) % field.modulus

    return Circuit(field, 2 * p.chunk, p.calls, [(2 * at, 2 * at + 1) for at in range(p.chunk)], evaluate)


# The device


class Report(NamedTuple):
    public: bytes  # both parts of the joint randomness for the checks, then both for the proofs
    leader: bytes  # share of the encoded vector, share of the proofs, two blinds
    helper: bytes  # seeds of the same, two blinds


class Seeds(NamedTuple):
    """The device's randomness for one report, in the draft's order."""

    encoded: bytes
    proofs: bytes
    helper_check_blind: bytes
    helper_joint_blind: bytes
    leader_check_blind: bytes
    leader_joint_blind: bytes
    prover: bytes


def parsed_seeds(randomness: bytes) -> Seeds:
    if len(randomness) != 7 * SEED:
        raise UsageError(f"a report takes {7 * SEED} random bytes")
    return Seeds(*pieces(randomness, SEED))


def shard(p: Parameters, vector: Sequence[int], nonce: bytes, randomness: bytes) -> Report | None:
    """[shard] The whole report; None where these seeds do not pass the wraparound checks."""
    seeds = parsed_seeds(randomness)
    head = encode_vector(p, vector)
    results = wraparound_checks(p, head[: p.dimension], joined(CHECK_SEED, check_parts(p, head, nonce, seeds)))
    checks = encode_checks(p, results)
    return None if checks is None else split_and_prove(p, head + checks, nonce, seeds)


def split_and_prove(p: Parameters, encoded: Sequence[int], nonce: bytes, seeds: Seeds) -> Report:
    """From an encoded vector, honest or not, to its report."""
    checks = check_parts(p, encoded[: p.head_length], nonce, seeds)
    results = wraparound_checks(p, encoded[: p.dimension], joined(CHECK_SEED, checks))
    helper = expand(seeds.encoded, ENCODED_SHARE, bytes([HELPER]), p.encoded_length)
    leader = FIELD64.subtract(encoded, helper)
    joint = [
        part(JOINT_PART, LEADER, seeds.leader_joint_blind, nonce, leader),
        part(JOINT_PART, HELPER, seeds.helper_joint_blind, nonce, helper),
    ]
    proofs = prove(p, [*encoded, *results], seeds.prover, joined(JOINT_SEED, joint))
    leader_proofs = FIELD64.subtract(proofs, helper_proofs(p, seeds.proofs))
    return Report(
        b"".join(checks + joint),
        to_bytes([*leader, *leader_proofs]) + seeds.leader_check_blind + seeds.leader_joint_blind,
        seeds.encoded + seeds.proofs + seeds.helper_check_blind + seeds.helper_joint_blind,
    )


def check_parts(p: Parameters, head: Sequence[int], nonce: bytes, seeds: Seeds) -> list[bytes]:
    helper = expand(seeds.encoded, ENCODED_SHARE, bytes([HELPER]), p.head_length)
    leader = FIELD64.subtract(head, helper)
    return [
        part(CHECK_PART, LEADER, seeds.leader_check_blind, nonce, leader),
        part(CHECK_PART, HELPER, seeds.helper_check_blind, nonce, helper),
    ]


def part(usage: int, operator: int, blind: bytes, nonce: bytes, share: Sequence[int]) -> bytes:
    """[joint_rand_part] A hash of what one operator holds. The blind keeps the other from guessing at it."""
    return stream(blind, usage, bytes([operator]) + nonce + to_bytes(share), SEED)


def joined(usage: int, parts: Sequence[bytes]) -> bytes:
    """[joint_rand_seed] The seed that both parts give: whoever changes a share changes it."""
    return stream(bytes(SEED), usage, b"".join(parts), SEED)


def prove(p: Parameters, encoded: Sequence[int], prover_seed: bytes, joint_seed: bytes) -> list[int]:
    norm, rest = norm_circuit(p), bits_circuit(p)
    seeds_length = p.norm_proofs * norm.arity + p.proofs * rest.arity
    random = iter(expand(prover_seed, PROVER_RANDOMNESS, bytes([p.norm_proofs, p.proofs]), seeds_length))
    joint = joint_randomness(p, joint_seed)
    proofs: list[int] = []
    for _ in range(p.norm_proofs):
        proofs += norm.prove(encoded, [next(random) for _ in range(norm.arity)], [])
    for at in range(p.proofs):
        proofs += rest.prove(encoded, [next(random) for _ in range(rest.arity)], joint[at])
    return proofs


def joint_randomness(p: Parameters, seed: bytes) -> list[list[int]]:
    """[vf_joint_rands] Three elements for each proof of bits."""
    return [list(r) for r in pieces(expand(seed, JOINT_RANDOMNESS, bytes([p.proofs]), 3 * p.proofs), 3)]


def helper_proofs(p: Parameters, seed: bytes) -> list[int]:
    return expand(seed, PROOFS_SHARE, bytes([p.norm_proofs, p.proofs, HELPER]), p.proofs_length)


# The operators


class State(NamedTuple):
    """What an operator keeps between its verifier share and the decision."""

    entries: list[int]
    check_seed: bytes
    joint_seed: bytes


def prepare(
    p: Parameters, verify_key: bytes, operator: int, *, nonce: bytes, public: bytes, share: bytes
) -> tuple[State, bytes]:
    """[prep_init] One operator by itself: what it keeps, and the verifier share for the other one."""
    encoded, proofs, check_blind, joint_blind = parsed_share(p, operator, share)
    if len(public) != 4 * SEED:
        raise PeerError(Fault.DECODE, "a report's public part has another length than its parameters say")
    parts = pieces(public, SEED)

    # Its own parts it computes: those that the device sent stand in for the other operator's only.
    checks, joint = parts[:2], parts[2:]
    checks[operator] = part(CHECK_PART, operator, check_blind, nonce, encoded[: p.head_length])
    joint[operator] = part(JOINT_PART, operator, joint_blind, nonce, encoded)
    state = State(encoded[: p.dimension], joined(CHECK_SEED, checks), joined(JOINT_SEED, joint))

    results = wraparound_checks(p, state.entries, state.check_seed)
    points = expand(verify_key, QUERY_RANDOMNESS, bytes([p.norm_proofs, p.proofs]) + nonce, p.norm_proofs + p.proofs)
    norm, rest, one = norm_circuit(p), bits_circuit(p), FIELD64.inverse(SHARES)
    verifier: list[int] = []
    for at in range(p.norm_proofs):
        proof, proofs = proofs[: p.norm_proof_length], proofs[p.norm_proof_length :]
        verifier += norm.query([*encoded, *results], proof, points[at], [], one)
    for at, r in enumerate(joint_randomness(p, state.joint_seed)):
        proof, proofs = proofs[: p.proof_length], proofs[p.proof_length :]
        verifier += rest.query([*encoded, *results], proof, points[p.norm_proofs + at], r, one)
    return state, to_bytes(verifier) + checks[operator] + joint[operator]


def parsed_share(p: Parameters, operator: int, share: bytes) -> tuple[list[int], list[int], bytes, bytes]:
    """[expand_input_share] Encoded vector, proofs, and the blinds of checks and of joint randomness."""
    elements = (p.encoded_length + p.proofs_length) * ELEMENT
    if len(share) != (elements + 2 * SEED if operator == LEADER else 4 * SEED):
        raise PeerError(Fault.DECODE, "a share has another length than its parameters say")
    check_blind, joint_blind = pieces(share[-2 * SEED :], SEED)
    if operator == LEADER:
        both = to_elements(share[:elements])
        return both[: p.encoded_length], both[p.encoded_length :], check_blind, joint_blind
    encoded = expand(share[:SEED], ENCODED_SHARE, bytes([HELPER]), p.encoded_length)
    return encoded, helper_proofs(p, share[SEED : 2 * SEED]), check_blind, joint_blind


def combine(p: Parameters, shares: Sequence[bytes]) -> bytes:
    """[prep_shares_to_prep] From both verifier shares, the leader's first, to the seeds that both must have used."""
    elements = p.verifier_length * ELEMENT
    if any(len(share) != elements + 2 * SEED for share in shares):
        raise PeerError(Fault.DECODE, "a verifier share has another length than its parameters say")
    verifier = FIELD64.add(*(to_elements(share[:elements]) for share in shares))
    for circuit, repeats in ((norm_circuit(p), p.norm_proofs), (bits_circuit(p), p.proofs)):
        for _ in range(repeats):
            one, verifier = verifier[: circuit.arity + 2], verifier[circuit.arity + 2 :]
            if not circuit.decide(one):
                raise PeerError(Fault.PROOF, "a report's proof does not hold")
    checks = [share[elements : elements + SEED] for share in shares]
    joint = [share[elements + SEED :] for share in shares]
    return joined(CHECK_SEED, checks) + joined(JOINT_SEED, joint)


def finish(state: State, message: bytes) -> list[int]:
    """[prep_next] The share of the entries, if the other operator's part is the one that the device said."""
    if message != state.check_seed + state.joint_seed:
        raise PeerError(Fault.PROOF, "a report's joint randomness is not that of its shares")
    return state.entries


def total(p: Parameters, shares: Iterable[Sequence[int]]) -> list[int]:
    """[aggregate] One operator's share of the sum."""
    summed = [0] * p.dimension
    for share in shares:
        summed = FIELD64.add(summed, share)
    return summed


def opened(leader: Sequence[int], helper: Sequence[int]) -> list[int]:
    """[unshard] The sum, as integers around 0."""
    return [x if x <= MODULUS // 2 else x - MODULUS for x in FIELD64.add(leader, helper)]
