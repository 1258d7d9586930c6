/** The places that a device has downloaded. Everything in it is public and the same for everyone. */

import type { Point } from "./geography.ts";

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
}

/** The positions of places by their ids. */
export function positionsOf(known: KnownPlaces): ReadonlyMap<string, number> {
  return new Map(known.ids.map((id, at) => [id, at]));
}
