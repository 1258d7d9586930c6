/**
 * The privacy accountant: the (epsilon, delta) of several releases about one person, composed exactly (as in
 * privacy/accountant.py, which gives the sources). A contribution is compared with none, and rosters are public.
 *
 * A release with noise of s times the norm of a contribution is a test of N(0, 1) against N(1/s, 1); several are one test
 * of N(0, 1) against N(m, 1), m² being the sum of all 1/s². It is counted in whole grains of 2^-56, so that the rounds of
 * a plan add up to the plan exactly.
 */

import { UsageError } from "./errors.ts";
import type { Norm } from "./norm.ts";
import { say } from "./sentences.ts";

export const GRAINS = 2n ** 56n; // in an m² of 1
export const MOST_GRAINS = 2n ** 62n; // in one release, and in a budget
const FEWEST = 2n ** 24n; // fewer grains count as this many
const LARGEST_EPSILON = 2 ** 20;
/** Margin on delta: rounding errors are smaller than that. The recommender plans with twice of it, so that a plan that
 * spends a budget to the last grain there can be paid here, whatever the last bits of a browser's exp are. */
const MARGIN = 0.5e-9;
const PLANNED_MARGIN = 1e-9;
/** What epsilon = 1 and delta = 1e-6 afford, as the Python package counts. */
const DEFAULT_BUDGET = 4_037_312_329_294_167n;

/** What one report to two operators costs a person. The honest operator draws noise of the variance that the terms name
 * and 3/2 more, which do not count; at least 5, and from 2^20 on the next even number. Without noise nothing is hidden. */
export function priceOf(norm: Norm, noise: number): bigint {
  if (noise === 0) return GRAINS << 64n;
  const drawn = Math.max(2 * noise + 3, 10); // in halves
  const hidden = BigInt(drawn >= 2 ** 21 ? 4 * Math.ceil(drawn / 4) : drawn) - 3n;
  const above = norm.square.above * GRAINS * 2n;
  const below = hidden * norm.square.below;
  return (above + below - 1n) / below; // rounded up
}

/** Delta for this epsilon, which is not negative. With a, b = epsilon/m -+ m/2 it is phi(a) (R(a) - R(b)), R being Mills'
 * ratio: in the tail the two terms of the textbook formula cancel, those of this one do not. */
export function deltaOf(grains: bigint, epsilon: number): number {
  if (grains === 0n) return 0;
  const m = Math.sqrt(Number(grains > FEWEST ? grains : FEWEST) / Number(GRAINS));
  const a = epsilon / m - m / 2;
  const b = epsilon / m + m / 2;
  const density = Math.exp((-a * a) / 2) / 2;
  const away = density * scaledErfc(b * Math.SQRT1_2);
  const near = density * scaledErfc(Math.abs(a) * Math.SQRT1_2);
  return Math.max(0, a > 0 ? near - away : 1 - near - away);
}

/** exp(x²) erfc(x) for x >= 0: a series below 2, a continued fraction above. */
function scaledErfc(x: number): number {
  if (x < 2) {
    let sum = 0;
    for (let n = 0, term = x; term > 1e-18 * sum; n++, term *= (2 * x * x) / (2 * n + 1)) sum += term;
    return Math.exp(x * x) - (2 / Math.sqrt(Math.PI)) * sum;
  }
  let rest = x;
  for (let n = 200; n >= 1; n--) rest = x + n / 2 / rest;
  return 1 / (Math.sqrt(Math.PI) * rest);
}

/** The least epsilon for this delta, rounded up; 2^20 stands for all that is larger. */
export function epsilonOf(grains: bigint, delta: number): number {
  checkBudget(1, delta);
  const within = (epsilon: number): boolean => deltaOf(grains, epsilon) <= delta * (1 - PLANNED_MARGIN);
  if (within(0)) return 0;
  let [low, high] = [0, LARGEST_EPSILON];
  for (let middle = high / 2; low < middle && middle < high; middle = (low + high) / 2) {
    if (within(middle)) high = middle;
    else low = middle;
  }
  return high;
}

/** The most that releases about one person may cost together within (epsilon, delta), rounded down to a grain. */
export function affordable(epsilon: number, delta: number): bigint {
  return most(epsilon, delta, MARGIN);
}

/** The same as the recommender counts when it plans. Every device has to come to the same noise: it is a whole number of
 * at most 52 bits that hangs on the last bits of exp only where two machines disagree about the last of 2^62 grains. */
export function planned(epsilon: number, delta: number): bigint {
  return most(epsilon, delta, PLANNED_MARGIN);
}

function most(epsilon: number, delta: number, margin: number): bigint {
  checkBudget(epsilon, delta);
  if (epsilon === 1 && delta === 1e-6) return DEFAULT_BUDGET;
  let [low, high] = [0n, MOST_GRAINS];
  while (high - low > 1n) {
    const middle = (low + high) / 2n;
    if (deltaOf(middle, epsilon) <= delta * (1 - margin)) low = middle;
    else high = middle;
  }
  return low;
}

/** UsageError for what cannot be a budget. */
export function checkBudget(epsilon: number, delta: number): void {
  if (!(epsilon > 0 && epsilon < Infinity)) throw new UsageError(say("epsilon"));
  if (!(delta > 0 && delta < 1)) throw new UsageError(say("delta"));
}
