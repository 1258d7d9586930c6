"""Arithmetic of Field64, p = 2^64 - 2^32 + 1, in kernels: sums, products, Fourier transforms, Lagrange weights.

Elements are uint64 below p; every function takes and gives such. 2^64 is 2^32 - 1 and 2^96 is -1 in this field, so a
product of 128 bits is reduced by two additions. Products are made of 32-bit halves: where rows of columns are
transformed together, the compiler turns that into vector instructions, and a butterfly takes a tenth of what it takes
alone.
"""

from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from prirec.proofs import parameters
from prirec.types import SignedArray
from prirec.util.jit import inlined, kernel, written_out

FieldArray: TypeAlias = NDArray[np.uint64]

# numba turns uint64 op int64 into float64, so every constant below is a uint64
MODULUS = np.uint64(2**64 - 2**32 + 1)
_HALF = np.uint64(2**32 - 1)  # the lower half of a word; and 2^64 in this field
_32 = np.uint64(32)
_0, _1, _2 = np.uint64(0), np.uint64(1), np.uint64(2)


@written_out
def add(a: np.uint64, b: np.uint64) -> np.uint64:
    total = a + b
    total += _HALF if total < a else _0
    return total - MODULUS if total >= MODULUS else total


@written_out
def subtract(a: np.uint64, b: np.uint64) -> np.uint64:
    return a - b + (MODULUS if a < b else _0)


@written_out
def multiply(a: np.uint64, b: np.uint64) -> np.uint64:
    a_low, a_high, b_low, b_high = a & _HALF, a >> _32, b & _HALF, b >> _32
    lowest = a_low * b_low
    middle = a_high * b_low + (lowest >> _32)
    other = a_low * b_high + (middle & _HALF)
    high = a_high * b_high + (middle >> _32) + (other >> _32)
    low = (other << _32) | (lowest & _HALF)
    # low + 2^64 high = low - (upper half of high) + (2^32 - 1) (lower half of high)
    upper, lower = high >> _32, high & _HALF
    rest = low - upper
    rest -= _HALF if low < upper else _0
    more = (lower << _32) - lower
    product = rest + more
    product += _HALF if product < more else _0
    return product - MODULUS if product >= MODULUS else product


@inlined
def power(base: np.uint64, exponent: np.uint64) -> np.uint64:
    found = _1
    while exponent > _0:
        if exponent & _1:
            found = multiply(found, base)
        base = multiply(base, base)
        exponent >>= _1
    return found


@inlined
def inverse(a: np.uint64) -> np.uint64:
    return power(a, MODULUS - _2)


@kernel
def sums(a: FieldArray, b: FieldArray) -> FieldArray:
    found = np.empty(len(a), np.uint64)
    for i in range(len(a)):
        found[i] = add(a[i], b[i])
    return found


@kernel
def differences(a: FieldArray, b: FieldArray) -> FieldArray:
    found = np.empty(len(a), np.uint64)
    for i in range(len(a)):
        found[i] = subtract(a[i], b[i])
    return found


@kernel
def evaluate(polynomial: FieldArray, at: np.uint64) -> np.uint64:
    value = _0
    for i in range(len(polynomial) - 1, -1, -1):
        value = add(multiply(value, at), polynomial[i])
    return value


def elements_of(integers: SignedArray) -> FieldArray:
    """Integers around 0 as elements: p - x where the ring of 64 bits has 2^64 - x."""
    return integers.astype(np.int64).view(np.uint64) - _HALF * (integers < 0)


def integers_of(elements: FieldArray) -> SignedArray:
    """Elements as integers around 0, within p / 2."""
    return (elements + _HALF * (elements > MODULUS // _2)).view(np.int64)


# Fourier transforms of all columns of a table at once, in place


@cache
def roots(order: int) -> FieldArray:
    """The powers of a root of unity of this order, a power of two."""
    root = pow(parameters.GENERATOR, (parameters.MODULUS - 1) // order, parameters.MODULUS)
    found = np.array([pow(root, k, parameters.MODULUS) for k in range(order)], np.uint64)
    found.setflags(write=False)
    return found


@cache
def bit_reversal(order: int) -> NDArray[np.int64]:
    """Where the transforms below have coefficient i: at the number with the bits of i in the other direction."""
    found = np.zeros(order, np.int64)
    for bit in range(order.bit_length() - 1):
        found |= (np.arange(order) >> bit & 1) << (order.bit_length() - 2 - bit)
    found.setflags(write=False)
    return found


@kernel
def to_coefficients(table: FieldArray, powers: FieldArray) -> None:
    """Values at root^k, in order, to coefficients times the number of points, in bit-reversed order."""
    points, columns = table.shape
    half, stride = points // 2, 1
    while half > 0:
        for start in range(0, points, 2 * half):
            for k in range(half):
                back = powers[(points - k * stride) % points]
                upper, lower = table[start + k], table[start + k + half]
                for j in range(columns):
                    a, b = upper[j], lower[j]
                    upper[j] = add(a, b)
                    lower[j] = multiply(subtract(a, b), back)
        half, stride = half // 2, stride * 2


@kernel
def to_values(table: FieldArray, powers: FieldArray) -> None:
    """Coefficients in bit-reversed order to values at root^k, in order."""
    points, columns = table.shape
    half, stride = 1, points // 2
    while half < points:
        for start in range(0, points, 2 * half):
            for k in range(half):
                forward = powers[k * stride]
                upper, lower = table[start + k], table[start + k + half]
                for j in range(columns):
                    a, b = upper[j], multiply(lower[j], forward)
                    upper[j] = add(a, b)
                    lower[j] = subtract(a, b)
        half, stride = half * 2, stride // 2


@kernel
def lagrange_weights(at: np.uint64, powers: FieldArray) -> FieldArray:
    """Weights w with f(at) = Σ_k w_k f(root^k) for every polynomial f of fewer coefficients than there are points:
    w_k = (at^n - 1) / n · root^k / (at - root^k). `at` is not a root. One inversion serves for all denominators."""
    points = len(powers)
    before = np.empty(points, np.uint64)  # products of all denominators before k
    product = _1
    for k in range(points):
        before[k] = product
        product = multiply(product, subtract(at, powers[k]))
    scale = multiply(subtract(power(at, np.uint64(points)), _1), inverse(np.uint64(points)))
    after = multiply(inverse(product), scale)  # of all denominators up to k, inverted
    weights = np.empty(points, np.uint64)
    for k in range(points - 1, -1, -1):
        weights[k] = multiply(multiply(after, before[k]), powers[k])
        after = multiply(after, subtract(at, powers[k]))
    return weights
