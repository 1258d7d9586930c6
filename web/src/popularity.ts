/**
 * Popularity as a device sees it: what was released, without the part that the device has added itself. Otherwise a rarely
 * visited place would give its training visits away. The same as in the Python package (privacy/popularity_estimate.py),
 * within 1e-9.
 */

const STEPS = Array.from({ length: 101 }, (_, at) => -6 + 0.09 * at); // fine around the mode, far to the left
const FROM_MODE = STEPS.map(Math.sinh);
const WEIGHT = STEPS.map(Math.cosh);

/** What is published of one place, and of the noise in all sums. */
export interface PlacePopularity {
  /** The posterior mean. */
  readonly released: number;
  /** Noisy, as opened. */
  readonly opened: number;
  readonly predicted: number;
  /** Of the place's own sum in the prediction. */
  readonly weight: number;
  readonly sigma: number;
  /** Of the Gamma prior: infinite where nothing but the prediction is known, 0 where nothing rose out of the noise. */
  readonly shape: number;
}

/** The part of a place's popularity that comes of what this device has added to its sum. */
export function ownPart({ released, opened, predicted, weight, sigma, shape }: PlacePopularity, added: number): number {
  if (added === 0) return 0;
  if (shape === 0) return released;
  const m = Math.max(predicted - weight * added, predicted / 10); // above 0
  return released - (shape === Infinity ? m : posteriorMean(opened - added, m, sigma, shape));
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
