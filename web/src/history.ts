/**
 * What a place is to a person's own history: how near their other places are, and how like them it is. The place of the
 * record itself never counts. To the same bits as in the Python package (features/history.py), which says why.
 */

import { encodeKm, type Encoding, feature, FLOOR, type HistoryBlock, isHistory, placeColumns } from "./encoding.ts";
import { nearest } from "./fixed_point.ts";
import { chordSquare, EARTH_RADIUS_KM, unitVector } from "./geography.ts";
import type { KnownPlaces } from "./places.ts";

const PRIOR = 5; // places, for an affinity; with no other place there is 0

/** A place, and when the person was there first: Infinity where that is not known. */
export interface Visited {
  readonly place: number;
  readonly first: number;
}

export class History {
  private readonly blocks: readonly HistoryBlock[];
  private readonly encoding: Encoding;
  private readonly known: KnownPlaces;
  /** Each place once, ascending. */
  readonly visited: readonly Visited[];
  private readonly points: ReadonlyMap<number, readonly number[]>;

  constructor(encoding: Encoding, known: KnownPlaces, visits: Iterable<Visited>) {
    this.blocks = encoding.context.filter(isHistory);
    this.encoding = encoding;
    this.known = known;
    const first = new Map<number, number>();
    for (const { place, first: time } of visits) first.set(place, Math.min(first.get(place) ?? Infinity, time));
    this.visited = [...first].map(([place, time]) => ({ place, first: time })).toSorted((a, b) => a.place - b.place);
    this.points = new Map(this.visited.map(({ place }) => [place, unitVector(known.location[place]!)]));
  }

  /** The features of a record at a place, block by block. With `before`, only places where the person was before that
   * time count. */
  encode(place: number, before: number | null): number[][] {
    if (this.blocks.length === 0) return [];
    const others = this.visited.filter((one) => one.place !== place && (before === null || one.first < before));
    const density = this.blocks.find((block) => block.type === "density");
    const near = this.distances(place, others, density?.scales_km ?? []);
    return this.blocks.map((block) => {
      switch (block.type) {
        case "nearest":
          return [encodeKm(block, 2 * EARTH_RADIUS_KM * Math.asin(Math.min(Math.sqrt(near.square) / 2, 1)))];
        case "density":
          return near.faded.map((sum) => feature((Math.log(sum / near.located + FLOOR) - block.shift) / block.spread));
        case "affinity":
          return [Math.fround(this.logRatio(block.of, block.shares, place, others))];
        case "closeness":
          return [feature((block.shift - this.apart(block.of, place, others)) / block.scale)];
      }
    });
  }

  /** Of the chords to the other places the square of the shortest, NaN where there is none; the sums of exp(-km / scale);
   * and how many there are. */
  private distances(
    place: number, others: readonly Visited[], scales: readonly number[],
  ): { square: number; faded: number[]; located: number } {
    const here = unitVector(this.known.location[place]!);
    const faded = scales.map(() => 0);
    let square = Infinity;
    let located = 0;
    for (const other of others) {
      const chord = chordSquare(here, this.points.get(other.place)!);
      if (Number.isNaN(chord)) continue;
      square = Math.min(square, chord);
      located += 1;
      scales.forEach((scale, at) => { faded[at]! += fade((EARTH_RADIUS_KM * Math.sqrt(chord)) / scale); });
    }
    return { square: square < Infinity ? square : Number.NaN, faded, located };
  }

  /** The mean over the place's words of how much more of the other places have the word than of all places, as a
   * logarithm. */
  private logRatio(of: string, shares: readonly number[], place: number, others: readonly Visited[]): number {
    const { first } = placeColumns(this.encoding, of);
    let total = 0;
    let words = 0;
    shares.forEach((share, at) => {
      if (!(this.known.features[place]![first + at]! > 0)) return;
      const count = others.filter((other) => this.known.features[other.place]![first + at]! > 0).length;
      total += Math.log((count + PRIOR * share) / ((others.length + PRIOR) * share));
      words += 1;
    });
    return total / Math.max(words, 1);
  }

  /** How far the place's number is from the mean of the other places; NaN where either is unknown, which is what 0, the
   * catalogue's mean, stands for. */
  private apart(of: string, place: number, others: readonly Visited[]): number {
    const { first } = placeColumns(this.encoding, of);
    const value = this.known.features[place]![first]!;
    let total = 0;
    let count = 0;
    for (const other of others) {
      const theirs = this.known.features[other.place]![first]!;
      total += nearest(theirs * 2 ** 16); // whole numbers, which add up to the same in any order
      count += theirs === 0 ? 0 : 1;
    }
    return value !== 0 && count > 0 ? Math.abs(value - (total * 2 ** -16) / count) : Number.NaN;
  }
}

/** exp(-x) for x >= 0, by operations that every processor rounds alike. */
function fade(x: number): number {
  const y = x * (1 / 64);
  let power = 1 + y * (1 + y * (1 / 2 + y * (1 / 6 + y * (1 / 24))));
  for (let turn = 0; turn < 6; turn++) power *= power;
  return 1 / power;
}
