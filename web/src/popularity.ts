/**
 * Popularity as a device sees it: what was released, without the part that the device has added itself. Otherwise a rarely
 * visited place would give its training visits away. The same as in the Python package (privacy/popularity_estimate.py),
 * within 1e-9.
 */

import type { AverageKnown, NoisySums } from "./places.ts";

const STEPS = Array.from({ length: 101 }, (_, at) => -6 + 0.09 * at); // fine around the mode, far to the left
const FROM_MODE = STEPS.map(Math.sinh);
const WEIGHT = STEPS.map(Math.cosh);

/** The column that devices can leave their own part out of, beside averages. */
export const POPULARITY = "weighted popularity";

type Counted = Pick<NoisySums, "opened" | "predicted" | "weight" | "sigma" | "shape">;

/** What the average of a number of visits is called as a column of places. */
export function averageColumn(name: string): string {
  return `average ${name}`;
}

/** A value on its declared range, from -1 to 1. */
export function inward(value: number, { low, high }: { readonly low: number; readonly high: number }): number {
  return Math.min(Math.max((2 * value - low - high) / (high - low), -1), 1);
}

/** The part of a place's released average that comes of what this device has added to both sums. `visitors` is the popularity
 * of the place, `ownVisitors` the device's own part of it, `added` what it has added to the sum of values; undefined: nothing. */
export function ownAverage(
  of: AverageKnown, sigma: number, place: number, released: number, visitors: number, ownVisitors: number, added: number | undefined,
): number {
  if (added === undefined) return 0;
  const A = Math.max(Math.max(visitors, 0) - ownVisitors, 0);
  const weight = A ** 2 * of.spread + sigma ** 2;
  const share = weight > 0 ? (A * of.spread) / weight : 0;
  const mean = of.middle + share * (of.opened[place]! - added - of.middle * A);
  return released - (Math.min(Math.max(mean, -1), 1) * (of.high - of.low) + of.low + of.high) / 2;
}

/** The part of a place's released popularity that comes of what this device has added to its sum. */
export function ownPart({ opened, predicted, weight, sigma, shape }: Counted, place: number, released: number, added: number): number {
  if (added === 0) return 0;
  if (shape === 0) return released;
  const m = Math.max(predicted[place]! - weight[place]! * added, predicted[place]! / 10); // above 0
  return released - (shape === Infinity ? m : posteriorMean(opened[place]! - added, m, sigma, shape));
}

/** What is released of a place: the mean of its sum, given its noisy value and what is predicted for it. */
export function popularityOf(opened: number, predicted: number, sigma: number, shape: number): number {
  if (shape === 0) return 0;
  if (sigma === 0) return Math.max(opened, 0);
  return shape === Infinity ? predicted : posteriorMean(opened, predicted, sigma, shape);
}

/** The mean of a sum with this prior, given its noisy value y: a sum over steps around the one mode of its logarithm. */
function posteriorMean(y: number, m: number, sigma: number, k: number): number {
  const b = y - (k * sigma ** 2) / m;
  const root = Math.sqrt(b ** 2 + 4 * k * sigma ** 2);
  // equal numbers; each form without cancellation on its side
  const mode = b > 0 ? (b + root) / 2 : (2 * k * sigma ** 2) / (root - b);
  const width = sigma / Math.sqrt(mode * root);
  const s = FROM_MODE.map((step) => mode * Math.exp(step * width));
  const logs = FROM_MODE.map((step, at) => k * step * width - (s[at]! - mode) * (k / m + (s[at]! + mode - 2 * y) / (2 * sigma ** 2)));
  const most = Math.max(...logs);
  const density = WEIGHT.map((weight, at) => weight * Math.exp(logs[at]! - most));
  const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);
  return sum(density.map((one, at) => one * s[at]!)) / sum(density);
}
