"""The two circuits of PINE and their proofs, in kernels: norm_circuit and bits_circuit of the oracle.

The values of all wires of a circuit are one table: a row for each gadget call, a column for each wire, and row 0 is
random. The device transforms all columns together. An operator needs no transform of the table: the value of a wire at
the point of the query is a weighted sum of the rows.
"""

import numpy as np
from numpy.typing import NDArray

from prirec.errors import Fault, PeerError
from prirec.proofs.field import (
    FieldArray,
    add,
    bit_reversal,
    evaluate,
    inverse,
    lagrange_weights,
    multiply,
    roots,
    subtract,
    to_coefficients,
    to_values,
)
from prirec.proofs.parameters import MODULUS, Parameters
from prirec.util.jit import inlined, kernel

# how far apart the two factors of a product are among the wires of a gadget
SQUARES, PAIRS = 0, 1
_0, _1 = np.uint64(0), np.uint64(1)
_WORD = np.uint64(2**32 - 1)  # 2^64 in this field
_BLOCK = 32  # octets of a check vector at a time: their tables stay in the fastest cache


# The device


def prove(
    p: Parameters, encoded: FieldArray, results: FieldArray, *, seeds: FieldArray, joint: FieldArray
) -> FieldArray:
    """All proofs, those of the norm first: the wires' random values, then the gadget's polynomial."""
    one, proofs = np.uint64(1), []
    for _ in range(p.norm_proofs):
        own, seeds = seeds[: p.norm_chunk], seeds[p.norm_chunk :]
        proofs += [own, _gadget_polynomial(_norm_wires(p, own, encoded), SQUARES)]
    for r in joint:
        own, seeds = seeds[: 2 * p.chunk], seeds[2 * p.chunk :]
        proofs += [own, _gadget_polynomial(_bits_wires(p, own, encoded, results, r, one), PAIRS)]
    return np.concatenate(proofs)


def _gadget_polynomial(table: FieldArray, apart: int) -> FieldArray:
    points = len(table)
    orders = bit_reversal(points), bit_reversal(2 * points)
    found: FieldArray = gadget_polynomial(table, apart, roots(points), roots(2 * points), *orders)
    return found


@kernel
def gadget_polynomial(
    table: FieldArray,
    apart: int,
    powers: FieldArray,
    finer: FieldArray,
    order: NDArray[np.int64],
    finer_order: NDArray[np.int64],
) -> FieldArray:
    """Degree 2 (points - 1): known from twice as many points. Half of them are those of the wires' values."""
    points, wires = table.shape
    values = np.empty((2 * points, 1), np.uint64)
    for k in range(points):
        values[2 * k, 0] = sum_of_products(table[k], apart)
    to_coefficients(table, powers)
    scale = inverse(np.uint64(points))
    for i in range(points):
        factor, row = multiply(finer[order[i]], scale), table[i]
        for j in range(wires):
            row[j] = multiply(row[j], factor)
    to_values(table, powers)
    for k in range(points):
        values[2 * k + 1, 0] = sum_of_products(table[k], apart)
    to_coefficients(values, finer)
    scale = inverse(np.uint64(2 * points))
    found = np.empty(2 * points - 1, np.uint64)
    for i in range(2 * points - 1):
        found[i] = multiply(values[finer_order[i], 0], scale)
    return found


@inlined
def sum_of_products(row: FieldArray, apart: int) -> np.uint64:
    total = _0
    for j in range(0, len(row), 1 + apart):
        total = add(total, multiply(row[j], row[j + apart]))
    return total


# An operator, over its shares; both, over the sum of their verifier shares


def query(
    p: Parameters, encoded: FieldArray, results: FieldArray, *, proofs: FieldArray, at: FieldArray, joint: FieldArray
) -> FieldArray:
    """The verifier share: for each proof the circuit's value, the wires at a point, the gadget at that point."""
    one, shares = np.uint64((MODULUS + 1) // 2), []
    norm, range_error, count_error = _linear_parts(p, encoded, int(one))
    for t in at[: p.norm_proofs]:
        proof, proofs = proofs[: p.norm_proof_length], proofs[p.norm_proof_length :]
        table = _norm_wires(p, proof[: p.norm_chunk], encoded)
        values, share = _queried(table, proof[p.norm_chunk :], t, p.norm_calls)
        share[0] = (norm - sum(values)) % MODULUS
        shares.append(share)
    for t, r in zip(at[p.norm_proofs :], joint, strict=True):
        proof, proofs = proofs[: p.proof_length], proofs[p.proof_length :]
        table = _bits_wires(p, proof[: 2 * p.chunk], encoded, results, r, one)
        values, share = _queried(table, proof[2 * p.chunk :], t, p.calls)
        final, bits, checks = int(r[2]), sum(values[: p.bit_calls]), sum(values[p.bit_calls :])
        share[0] = (bits + final * (range_error + final * (checks + final * count_error))) % MODULUS
        shares.append(share)
    return np.concatenate(shares)


def _queried(table: FieldArray, gadget: FieldArray, at: np.uint64, calls: int) -> tuple[list[int], FieldArray]:
    """Outputs of all gadget calls; and the verifier share, with room for the circuit's value in front."""
    points = len(table)
    if pow(int(at), points, MODULUS) == 1:
        raise PeerError(Fault.PROOF, "the point of the query would show what a wire holds")
    share = np.zeros(table.shape[1] + 2, np.uint64)
    weighted_rows(table[: calls + 1], lagrange_weights(at, roots(points)), share[1:-1])
    share[-1] = evaluate(gadget, at)
    values = np.zeros((points, 1), np.uint64)
    fold(gadget, bit_reversal(points), values)
    to_values(values, roots(points))
    return values[1 : calls + 1, 0].tolist(), share


@kernel
def weighted_rows(table: FieldArray, weights: FieldArray, into: FieldArray) -> None:
    for k in range(len(table)):
        weight, row = weights[k], table[k]
        for j in range(len(row)):
            into[j] = add(into[j], multiply(weight, row[j]))


@kernel
def fold(polynomial: FieldArray, order: NDArray[np.int64], into: FieldArray) -> None:
    """The polynomial modulo x^n - 1, which has the same values at all roots of order n; bit-reversed."""
    for i in range(len(polynomial)):
        at = order[i % len(order)]
        into[at, 0] = add(into[at, 0], polynomial[i])


def decide(p: Parameters, verifier: FieldArray) -> bool:
    kinds = [(p.norm_chunk, SQUARES)] * p.norm_proofs + [(2 * p.chunk, PAIRS)] * p.proofs
    for wires, apart in kinds:
        one, verifier = verifier[: wires + 2], verifier[wires + 2 :]
        if one[0] != 0 or one[-1] != gadget_of(one[1:-1], apart):
            return False
    return True


@kernel
def gadget_of(wires: FieldArray, apart: int) -> np.uint64:
    return sum_of_products(wires, apart)


# What the circuits compute


def _norm_wires(p: Parameters, seeds: FieldArray, encoded: FieldArray) -> FieldArray:
    table = np.zeros((p.norm_points, p.norm_chunk), np.uint64)
    table[0] = seeds
    table.reshape(-1)[p.norm_chunk : p.norm_chunk + p.dimension] = encoded[: p.dimension]
    return table


def _bits_wires(
    p: Parameters, seeds: FieldArray, encoded: FieldArray, results: FieldArray, joint: FieldArray, one: np.uint64
) -> FieldArray:
    table = np.zeros((p.points, 2 * p.chunk), np.uint64)
    table[0] = seeds
    bits, calls = encoded[p.dimension :], 1 + p.bit_calls
    bit_factors(bits, joint[0], one, table[1:calls].reshape(-1))
    checks = bits[2 * p.norm_bits :].reshape(p.checks, p.check_bits + 1)
    lowest = np.uint64((p.check_bound - 1) * int(one) % MODULUS)
    check_factors(checks, results, joint[1], lowest, table[calls:].reshape(-1))
    return table


@kernel
def bit_factors(bits: FieldArray, r: np.uint64, one: np.uint64, into: FieldArray) -> None:
    """r^i b_i and b_i - 1, whose products are all 0 if each b_i is 0 or 1."""
    weight = _1
    for i in range(len(bits)):
        into[2 * i] = multiply(weight, bits[i])
        into[2 * i + 1] = subtract(bits[i], one)
        weight = multiply(weight, r)


@kernel
def check_factors(checks: FieldArray, results: FieldArray, r: np.uint64, lowest: np.uint64, into: FieldArray) -> None:
    """r^i times what check i is off from what its bits say; and the bit that says whether it counts."""
    weight, last = _1, checks.shape[1] - 1
    for i in range(len(checks)):
        said = _0
        for bit in range(last - 1, -1, -1):
            said = add(add(said, said), checks[i, bit])
        into[2 * i] = multiply(weight, subtract(results[i], subtract(said, lowest)))
        into[2 * i + 1] = checks[i, last]
        weight = multiply(weight, r)


def _linear_parts(p: Parameters, encoded: FieldArray, one: int) -> tuple[int, int, int]:
    """The squared norm; what its two numbers are off from the bound; what the successes are off from their number."""
    bits = encoded[p.dimension :]
    norm, below = (
        sum(bit << at for at, bit in enumerate(row.tolist())) for row in np.split(bits[: 2 * p.norm_bits], 2)
    )
    successes = sum(bits[2 * p.norm_bits + p.check_bits :: p.check_bits + 1].tolist())
    return norm, norm + below - p.norm_bound**2 * one, successes - p.successes * one


# Wraparound checks


@kernel
def inner_products(entries: FieldArray, signs: NDArray[np.uint8]) -> FieldArray:
    """Entries times each row of signs, two bits a sign: their sum less 1. For every two entries there is a table of
    all sixteen terms, and a check adds up terms of tables; carries beyond 64 bits are counted."""
    checks, octets = signs.shape
    results = np.zeros(checks, np.uint64)
    terms = np.empty((2 * _BLOCK, 16), np.uint64)
    for start in range(0, octets, _BLOCK):
        size = min(_BLOCK, octets - start)
        for pair in range(2 * size):
            at = 4 * start + 2 * pair
            x = entries[at] if at < len(entries) else _0
            y = entries[at + 1] if at + 1 < len(entries) else _0
            for j in range(16):
                terms[pair, j] = add(signed(x, j & 3), signed(y, j >> 2))
        for check in range(checks):
            row = signs[check]
            total, carries = _0, _0
            for i in range(size):
                octet = row[start + i]
                low, high = terms[2 * i, octet & 15], terms[2 * i + 1, octet >> 4]
                total += low
                carries += _1 if total < low else _0
                total += high
                carries += _1 if total < high else _0
            results[check] = add(results[check], add(multiply(carries, _WORD), add(total, _0)))
    return results


@inlined
def signed(x: np.uint64, bits: int) -> np.uint64:
    if bits == 0:
        return subtract(_0, x)
    return x if bits == 3 else _0
