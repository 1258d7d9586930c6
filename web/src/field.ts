/**
 * Arithmetic of Field64, p = 2^64 - 2^32 + 1, on bigints: sums, products, Fourier transforms.
 *
 * Not in constant time: elements are a person's own, on the person's own machine.
 */

export const MODULUS = 2n ** 64n - 2n ** 32n + 1n;
const GENERATOR = 7n; // of all non-zero elements; it has a root of unity of every order 2^0 to 2^32
const WORD = 2n ** 32n - 1n; // a half of a word; and 2^64 in this field

export type Elements = bigint[];

export function add(a: bigint, b: bigint): bigint {
  const total = a + b;
  return total >= MODULUS ? total - MODULUS : total;
}

export function subtract(a: bigint, b: bigint): bigint {
  return a >= b ? a - b : a - b + MODULUS;
}

export function multiply(a: bigint, b: bigint): bigint {
  return (a * b) % MODULUS;
}

export function power(base: bigint, exponent: bigint): bigint {
  let found = 1n;
  for (let square = base, rest = exponent; rest > 0n; rest >>= 1n) {
    if (rest & 1n) found = multiply(found, square);
    square = multiply(square, square);
  }
  return found;
}

export function inverse(a: bigint): bigint {
  return power(a, MODULUS - 2n);
}

/** A whole number around 0 as an element. */
export function element(whole: number): bigint {
  return whole < 0 ? MODULUS + BigInt(whole) : BigInt(whole);
}

/** The powers of a root of unity of this order, a power of two. */
export function roots(order: number): Elements {
  const root = power(GENERATOR, (MODULUS - 1n) / BigInt(order));
  const powers = [1n];
  while (powers.length < order) powers.push(multiply(powers.at(-1)!, root));
  return powers;
}

// Fourier transforms of the columns of a table at once, in place. Rows are points.

/** Values at root^k, in order, to coefficients times the number of points, in bit-reversed order. */
export function toCoefficients(table: readonly Elements[], powers: readonly bigint[]): void {
  const points = table.length;
  for (let half = points / 2, stride = 1; half >= 1; half /= 2, stride *= 2) {
    for (let start = 0; start < points; start += 2 * half) {
      for (let k = 0; k < half; k++) {
        const back = powers[(points - k * stride) % points]!;
        const upper = table[start + k]!;
        const lower = table[start + k + half]!;
        for (let j = 0; j < upper.length; j++) {
          const a = upper[j]!;
          const b = lower[j]!;
          upper[j] = add(a, b);
          lower[j] = multiply(subtract(a, b), back);
        }
      }
    }
  }
}

/** Coefficients in bit-reversed order to values at root^k, in order. */
export function toValues(table: readonly Elements[], powers: readonly bigint[]): void {
  const points = table.length;
  for (let half = 1, stride = points / 2; half < points; half *= 2, stride /= 2) {
    for (let start = 0; start < points; start += 2 * half) {
      for (let k = 0; k < half; k++) {
        const forward = powers[k * stride]!;
        const upper = table[start + k]!;
        const lower = table[start + k + half]!;
        for (let j = 0; j < upper.length; j++) {
          const a = upper[j]!;
          const b = multiply(lower[j]!, forward);
          upper[j] = add(a, b);
          lower[j] = subtract(a, b);
        }
      }
    }
  }
}

/** Where the transforms have coefficient i: at the number with the bits of i in the other direction. */
export function bitReversal(order: number): number[] {
  const bits = Math.log2(order);
  return Array.from({ length: order }, (_, at) => {
    let found = 0;
    for (let bit = 0; bit < bits; bit++) found |= ((at >> bit) & 1) << (bits - 1 - bit);
    return found;
  });
}

// Elements as bytes: 8 of them, little endian

export function toBytes(elements: readonly bigint[]): Uint8Array<ArrayBuffer> {
  const view = new DataView(new ArrayBuffer(8 * elements.length));
  elements.forEach((one, at) => view.setBigUint64(8 * at, one, true));
  return new Uint8Array(view.buffer);
}

/** Entries times rows of signs, two bits a sign (00 is -1, 11 is 1, else 0), each row in whole octets. */
export function innerProducts(entries: readonly bigint[], signs: Uint8Array, rows: number): Elements {
  // halves of 32 bits are summed apart, as floats: 2^21 of them are exact together
  const low = Float64Array.from(entries, (one) => Number(one & WORD));
  const high = Float64Array.from(entries, (one) => Number(one >> 32n));
  const octets = signs.length / rows;
  return Array.from({ length: rows }, (_, row) => {
    let lows = 0;
    let highs = 0;
    for (let at = 0; at < low.length; at++) {
      const sign = (signs[row * octets + (at >> 2)]! >> (2 * (at & 3))) & 3;
      if (sign === 3) {
        lows += low[at]!;
        highs += high[at]!;
      } else if (sign === 0) {
        lows -= low[at]!;
        highs -= high[at]!;
      }
    }
    const sum = (BigInt(lows) + (BigInt(highs) << 32n)) % MODULUS;
    return sum < 0n ? sum + MODULUS : sum;
  });
}
