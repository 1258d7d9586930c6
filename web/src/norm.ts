/**
 * Clipping to a Euclidean norm in whole numbers: |q| <= norm 2^f, checked in exact integers after rounding. To the same
 * bits as the Python package (privacy/norm.py, which says why).
 */

import { UsageError } from "./errors.ts";
import { nearest, units } from "./fixed_point.ts";

const LONGEST = 2n ** 31n - 1n; // units: its square fits 62 bits
const SPARE = 2 ** -9; // the share of the norm that rounding may cost
const FEWEST_BITS = 8;
const MOST_BITS = 24;

/** The norm of one person's contribution (the sensitivity), and the fraction bits that it is rounded to. */
export class Norm {
  readonly sensitivity: number;
  readonly fractionBits: number;
  /** The square of the norm in units of 2^-f, rounded down: a whole square is within the norm if it is at most that. */
  readonly most: bigint;
  /** The same exactly, as a fraction. */
  readonly square: { readonly above: bigint; readonly below: bigint };

  constructor(sensitivity: number, fractionBits: number) {
    if (!(sensitivity > 0 && sensitivity < Infinity) || !Number.isInteger(fractionBits)
      || fractionBits < 0 || fractionBits > 40) {
      throw new UsageError("a contribution has a norm above 0, and finite, and 0 to 40 fraction bits");
    }
    const exact = units(sensitivity) << BigInt(fractionBits); // in units of 2^-(f + 1074)
    if (exact < 1n << 1074n || exact > LONGEST << 1074n) {
      throw new UsageError("a contribution's norm is 1 to 2^31 - 1 units of 2^-f");
    }
    this.sensitivity = sensitivity;
    this.fractionBits = fractionBits;
    this.square = { above: exact * exact, below: 1n << 2148n };
    this.most = this.square.above / this.square.below;
  }

  /** The fewest fraction bits (8 to 24) with which rounding so many entries costs no more than 1/512 of the norm. */
  static fineEnough(sensitivity: number, entries: number): Norm {
    if (!(sensitivity > 0 && sensitivity < Infinity) || entries < 1) {
      throw new UsageError("a contribution has a norm above 0, and finite, and at least one entry");
    }
    const bits = Math.ceil(Math.log2(entries) / 2 - Math.log2(2 * SPARE) - Math.log2(sensitivity));
    if (bits > MOST_BITS) {
      throw new UsageError(
        "a contribution's norm is so small for its length that rounding would eat it; use a larger one",
      );
    }
    return new Norm(sensitivity, Math.max(bits, FEWEST_BITS));
  }

  /** The vector clipped to the norm, in units of 2^-f. Of a sparse vector, pass the entries that are not 0. */
  clipped(values: ArrayLike<number>): Float64Array {
    const { direction, length } = directionOf(values);
    return this.rounded(direction, Math.min(length, this.beforeRounding(direction)));
  }

  /** The vector scaled to the norm, or as close below as rounding allows; zero stays zero. */
  scaled(values: ArrayLike<number>): Float64Array {
    const { direction } = directionOf(values);
    return this.rounded(direction, this.beforeRounding(direction));
  }

  /** What a direction is scaled to, so that rounding its entries to nearest cannot take it beyond the norm. */
  private beforeRounding(direction: Float64Array): number {
    const entries = direction.reduce((count, value) => count + (value === 0 ? 0 : 1), 0);
    const spare = Math.sqrt(entries) / 2 ** (this.fractionBits + 1);
    return Math.max(this.sensitivity - spare, this.sensitivity / 2);
  }

  private rounded(direction: Float64Array, length: number): Float64Array {
    const scale = 2 ** this.fractionBits;
    const whole = direction.map((value) => nearest(value * length * scale) + 0); // + 0: no negative zeros
    // what floating point let through; it ends, since each turn shortens every entry that is not 0
    while (!this.within(whole)) whole.forEach((value, at) => { whole[at] = value - Math.sign(value); });
    return whole;
  }

  /** Whether whole numbers are no longer than the norm, in exact integers. */
  within(whole: Float64Array): boolean {
    let squares = 0n;
    for (const value of whole) squares += BigInt(value) * BigInt(value);
    return squares <= this.most;
  }
}

/** The unit vector (0 for 0) and the length, without overflow or underflow of squares. */
export function directionOf(values: ArrayLike<number>): { direction: Float64Array; length: number } {
  const all = Float64Array.from(values);
  const largest = all.reduce((most, value) => Math.max(most, Math.abs(value)), 0); // NaN if there is one
  if (!(largest < Infinity)) {
    throw new UsageError("a contribution has an entry that is not a number or not finite; nothing was made of it");
  }
  if (largest === 0) return { direction: all.map(() => 0), length: 0 };
  const shrunk = all.map((value) => value / largest);
  const length = Math.sqrt(sumOf(shrunk.map((value) => value * value)));
  return { direction: shrunk.map((value) => value / length), length: length * largest };
}

/** The sum in the order in which NumPy's reduceat takes it: the first value, and then the rest, pairwise. */
function sumOf(values: Float64Array): number {
  return values[0]! + pairwise(values.subarray(1));
}

/** NumPy's pairwise sum: eight sums side by side, in parts of at most 128 values. */
function pairwise(values: Float64Array): number {
  const n = values.length;
  if (n < 8) return values.reduce((sum, value) => sum + value, 0);
  if (n <= 128) {
    const sums = values.slice(0, 8);
    const last = n - (n % 8);
    for (let at = 8; at < last; at += 8) for (let j = 0; j < 8; j++) sums[j]! += values[at + j]!;
    const [a, b, c, d, e, f, g, h] = sums as unknown as [number, number, number, number, number, number, number, number];
    return values.subarray(last).reduce((sum, value) => sum + value, a + b + (c + d) + (e + f + (g + h)));
  }
  const half = (n >> 1) - ((n >> 1) % 8);
  return pairwise(values.subarray(0, half)) + pairwise(values.subarray(half));
}
