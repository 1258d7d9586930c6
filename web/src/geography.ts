/** Distances on the sphere. A point is latitude and longitude in degrees, NaN where unknown. */

export const EARTH_RADIUS_KM = 6371.0088; // mean radius, IUGG

export type Point = readonly [latitude: number, longitude: number];

export const NOWHERE: Point = [Number.NaN, Number.NaN];

export function isKnown([latitude, longitude]: Point): boolean {
  return !Number.isNaN(latitude) && !Number.isNaN(longitude);
}

const radians = (degrees: number): number => degrees * (Math.PI / 180);

/** The point on the unit sphere, where a straight chord orders places as distance does. */
export function unitVector([latitude, longitude]: Point): [number, number, number] {
  const up = radians(latitude);
  const round = radians(longitude);
  const across = Math.cos(up);
  return [across * Math.cos(round), across * Math.sin(round), Math.sin(up)];
}

const vectors = new WeakMap<readonly Point[], readonly (readonly number[])[]>();

/** The same for each of many points, worked out once. */
export function unitVectors(location: readonly Point[]): readonly (readonly number[])[] {
  let found = vectors.get(location);
  if (found === undefined) vectors.set(location, (found = location.map(unitVector)));
  return found;
}

/** The square of the chord between two points on the unit sphere; NaN where either is unknown. */
export function chordSquare(a: readonly number[], b: readonly number[]): number {
  let square = 0;
  for (let axis = 0; axis < 3; axis++) {
    const apart = a[axis]! - b[axis]!;
    square += apart * apart;
  }
  return square;
}

/** Great-circle distance; NaN where either end is unknown. */
export function haversineKm(a: Point, b: Point): number {
  const here = [radians(a[0]), radians(a[1])] as const;
  const there = [radians(b[0]), radians(b[1])] as const;
  const up = Math.sin((there[0] - here[0]) / 2);
  const round = Math.sin((there[1] - here[1]) / 2);
  const inside = up * up + Math.cos(here[0]) * Math.cos(there[0]) * (round * round);
  return 2 * EARTH_RADIUS_KM * Math.asin(Math.sqrt(Math.min(inside, 1)));
}
