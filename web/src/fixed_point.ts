/** Fixed point in Z_2^64 or Z_2^32: reals to ring elements. */

import { UsageError } from "./errors.ts";

/** The encoding of one kind of sum in the ring; one that could wrap is refused here, before anything is encoded. */
export class FixedPoint {
  readonly bound: number;
  readonly fractionBits: number;
  readonly ringBits: number;

  constructor({ summands, bound, fractionBits = 24, ringBits = 64 }: {
    /** The most vectors that one sum may hold. */
    summands: number;
    /** No entry of a vector is larger than this. */
    bound: number;
    fractionBits?: number;
    ringBits?: number;
  }) {
    if (![32, 64].includes(ringBits) || !Number.isInteger(fractionBits) || fractionBits < 1 || fractionBits > 40) {
      throw new UsageError("a ring has 32 or 64 bits, of which 1 to 40 may be fraction bits");
    }
    if (!Number.isSafeInteger(summands) || summands < 1 || !(bound > 0 && bound < Infinity)) {
      throw new UsageError("a sum needs at least one summand and a bound that is positive and finite");
    }
    // n (B 2^f + 1/2) <= 2^(l-1) - 1, in whole numbers: twice of it, and in units of 2^-1074, of which any float is made
    const largest = BigInt(summands) * ((units(bound) << BigInt(fractionBits + 1)) + (1n << UNIT));
    if (largest > ((1n << BigInt(ringBits)) - 2n) << UNIT) {
      throw new UsageError("the sum could wrap: use fewer fraction bits, a smaller bound or a larger ring");
    }
    this.bound = bound;
    this.fractionBits = fractionBits;
    this.ringBits = ringBits;
  }

  /** Reals to the ring, rounded to nearest, half to even; what a sum was not sized for is refused. */
  encode(values: ArrayLike<number>): BigUint64Array {
    const scale = 2 ** this.fractionBits;
    return BigUint64Array.from({ length: values.length }, (_, at) => {
      const value = values[at]!;
      if (!(Math.abs(value) <= this.bound)) {
        throw new UsageError("a value to be summed is not a number, or larger than the bound that its ring has room for");
      }
      return BigInt.asUintN(this.ringBits, BigInt(nearest(value * scale)));
    });
  }
}

/** The nearest whole number; of two the even one. */
export function nearest(value: number): number {
  if (!(Math.abs(value) < 2 ** 52)) return value; // no number so large has a fraction
  const shift = value < 0 ? -(2 ** 52) : 2 ** 52;
  return value + shift - shift; // a sum of that size has no fraction, and is rounded half to even
}

const UNIT = 1074n; // 2^-1074 is the smallest float

/** A float that is not negative, exactly, in units of 2^-1074. */
export function units(value: number): bigint {
  const bits = new DataView(new ArrayBuffer(8));
  bits.setFloat64(0, value);
  const spelt = bits.getBigUint64(0);
  const exponent = (spelt >> 52n) & 0x7ffn;
  const fraction = spelt & (2n ** 52n - 1n);
  return exponent === 0n ? fraction : (fraction | (1n << 52n)) << (exponent - 1n);
}
