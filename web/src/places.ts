/** The places that a device has downloaded. Everything in it is public and the same for everyone. */

import type { Point } from "./geography.ts";

/** What popularity was made of: a device needs it to leave its own part out. By place, and for all places. */
export interface NoisySums {
  readonly opened: readonly number[];
  readonly predicted: readonly number[];
  /** Of the place's own sum in the prediction. */
  readonly weight: readonly number[];
  /** Of the noise in each sum. */
  readonly sigma: number;
  /** Of the Gamma prior: infinite where nothing but the prediction is known, 0 where nothing rose out of the noise. */
  readonly shape: number;
  /** Over visits, one after another. */
  readonly averages: readonly AverageKnown[];
  /** Places of the whole catalogue: in the sum they stand once, and once more for each average. */
  readonly many: number;
}

/** What is public of an average over visits. */
export interface AverageKnown {
  /** Of places. */
  readonly column: string;
  /** The declared range. */
  readonly low: number;
  readonly high: number;
  /** Of the whole city and, around it, the variance of places: on the range from -1 to 1. */
  readonly middle: number;
  readonly spread: number;
  /** The noisy sum of each place. */
  readonly opened: readonly number[];
}

export interface KnownPlaces {
  readonly ids: readonly string[];
  /** A few public words on each. */
  readonly words: readonly string[];
  /** Their positions in the whole catalogue, ascending. */
  readonly rows: readonly number[];
  readonly location: readonly Point[];
  /** X^j, static: a row for each place. */
  readonly features: readonly Float32Array[];
  /** Released popularity: a row for each place, a column for each popularity block; none before there is any. */
  readonly released: readonly (readonly number[])[];
  /** Null before there is any popularity, or where no device has an own part in it. */
  readonly sums: NoisySums | null;
}

/** The positions of places by their ids. */
export function positionsOf(known: KnownPlaces): ReadonlyMap<string, number> {
  return new Map(known.ids.map((id, at) => [id, at]));
}
