/**
 * What a place is to a person's own history: how near their other places are, and how like them it is. The place of the
 * record itself never counts. To the same bits as in the Python package (features/history.py), which says why.
 */

import { encodeKm, type Encoding, feature, FLOOR, type HistoryBlock, isHistory, placeColumns } from "./encoding.ts";
import { nearest } from "./fixed_point.ts";
import { EARTH_RADIUS_KM, unitVectors } from "./geography.ts";
import type { KnownPlaces } from "./places.ts";

const PRIOR = 5; // places, for an affinity; with no other place there is 0

/** A place, and when the person was there first: Infinity where that is not known. */
export interface Visited {
  readonly place: number;
  readonly first: number;
}

export class History {
  private readonly blocks: readonly HistoryBlock[];
  private readonly density: readonly number[];
  /** The first of the features that places are compared by. */
  private readonly firstOf: ReadonlyMap<string, number>;
  private readonly known: KnownPlaces;
  /** Each place once, ascending. */
  readonly visited: readonly Visited[];
  private readonly times: ReadonlyMap<number, number>;
  private readonly points: readonly (readonly number[])[];
  /** The points of the places visited, three numbers each; and when. */
  private readonly there: Float64Array;
  private readonly first: Float64Array;
  /** Room for the distances to the other places. */
  private readonly km: Float64Array;
  private readonly totals = new Map<Count, Map<number, number>>();
  /** Of each place, what all visits make of it, once it was asked for. */
  private readonly whole = new Map<number, number[][]>();

  constructor(encoding: Encoding, known: KnownPlaces, visits: Iterable<Visited>) {
    this.blocks = encoding.context.filter(isHistory);
    this.density = this.blocks.find((block) => block.type === "density")?.scales_km ?? [];
    const compared = this.blocks.flatMap((block) => ("of" in block ? [block.of] : []));
    this.firstOf = new Map(compared.map((of) => [of, placeColumns(encoding, of).first]));
    this.known = known;
    const first = new Map<number, number>();
    for (const { place, first: time } of visits) first.set(place, Math.min(first.get(place) ?? Infinity, time));
    this.times = first;
    this.visited = [...first].map(([place, time]) => ({ place, first: time })).toSorted((a, b) => a.place - b.place);
    this.points = unitVectors(known.location);
    this.there = Float64Array.from(this.visited.flatMap((one) => this.points[one.place]!));
    this.first = Float64Array.from(this.visited, (one) => one.first);
    this.km = new Float64Array(this.visited.length);
  }

  /** The features of a record at a place, block by block. With `before`, only places where the person was before that
   * time count. */
  encode(place: number, before: number | null): readonly number[][] {
    if (this.blocks.length === 0) return [];
    if (before !== null) return this.encodeBefore(place, before);
    let found = this.whole.get(place);
    if (found === undefined) this.whole.set(place, (found = this.encodeBefore(place, null)));
    return found;
  }

  private encodeBefore(place: number, before: number | null): number[][] {
    const among = before === null ? this.visited : this.visited.filter((one) => one.first < before);
    const first = this.times.get(place);
    const itself = first !== undefined && (before === null || first < before);
    const sums = this.sums(before === null ? null : among, itself ? place : null);
    const near = this.distances(place, before, this.density);
    return this.blocks.map((block) => {
      switch (block.type) {
        case "nearest":
          return [encodeKm(block, 2 * EARTH_RADIUS_KM * Math.asin(Math.min(Math.sqrt(near.square) / 2, 1)))];
        case "density":
          return near.faded.map((sum) => feature((Math.log(sum / near.located + FLOOR) - block.shift) / block.spread));
        case "affinity":
          return [Math.fround(this.logRatio(block.of, block.shares, place, among.length - (itself ? 1 : 0), sums))];
        case "closeness":
          return [feature((block.shift - this.apart(block.of, place, sums)) / block.scale)];
      }
    });
  }

  /** Of the chords to the other places the square of the shortest, NaN where there is none; the sums of exp(-km / scale);
   * and how many there are. */
  private distances(
    place: number, before: number | null, scales: readonly number[],
  ): { square: number; faded: number[]; located: number } {
    const { visited, there, first, km } = this;
    const here = this.points[place]!;
    const [x, y, z] = [here[0]!, here[1]!, here[2]!];
    let square = Infinity;
    let located = 0;
    for (let at = 0; at < visited.length; at++) {
      if (visited[at]!.place === place || (before !== null && !(first[at]! < before))) continue;
      const dx = x - there[3 * at]!;
      const dy = y - there[3 * at + 1]!;
      const dz = z - there[3 * at + 2]!;
      const chord = dx * dx + dy * dy + dz * dz; // as geography.ts adds it up
      if (Number.isNaN(chord)) continue;
      if (chord < square) square = chord;
      km[located++] = EARTH_RADIUS_KM * Math.sqrt(chord);
    }
    const faded = scales.map((scale) => {
      let sum = 0;
      for (let at = 0; at < located; at++) sum += fade(km[at]! / scale);
      return sum;
    });
    return { square: square < Infinity ? square : Number.NaN, faded, located };
  }

  /** What a feature of places adds up to over some places (null: all that were visited) without the place itself. Over all that were visited it is added up once. */
  private sums(among: readonly Visited[] | null, itself: number | null): Sums {
    const { features } = this.known;
    const sum = (over: readonly Visited[], at: number, of: Count): number =>
      over.reduce((total, one) => total + of(features[one.place]![at]!), 0);
    const less = (at: number, of: Count): number => (itself === null ? 0 : of(features[itself]![at]!));
    if (among !== null) return (at, of) => sum(among, at, of) - less(at, of);
    return (at, of) => {
      let totals = this.totals.get(of);
      if (totals === undefined) this.totals.set(of, (totals = new Map()));
      let total = totals.get(at);
      if (total === undefined) totals.set(at, (total = sum(this.visited, at, of)));
      return total - less(at, of);
    };
  }

  /** The mean over the place's words of how much more of the other places have the word than of all places, as a
   * logarithm. */
  private logRatio(of: string, shares: readonly number[], place: number, others: number, sums: Sums): number {
    const first = this.firstOf.get(of)!;
    const features = this.known.features[place]!;
    let total = 0;
    let words = 0;
    for (let at = 0; at < shares.length; at++) {
      if (!(features[first + at]! > 0)) continue;
      total += Math.log((sums(first + at, has) + PRIOR * shares[at]!) / ((others + PRIOR) * shares[at]!));
      words += 1;
    }
    return total / Math.max(words, 1);
  }

  /** How far the place's number is from the mean of the other places; NaN where either is unknown, which is what 0, the
   * catalogue's mean, stands for. */
  private apart(of: string, place: number, sums: Sums): number {
    const first = this.firstOf.get(of)!;
    const value = this.known.features[place]![first]!;
    const count = sums(first, isKnown);
    return value !== 0 && count > 0 ? Math.abs(value - (sums(first, whole) * 2 ** -16) / count) : Number.NaN;
  }
}

type Count = (value: number) => number;
type Sums = (feature: number, of: Count) => number;

const has = (value: number): number => (value > 0 ? 1 : 0);
const isKnown = (value: number): number => (value === 0 ? 0 : 1);
const whole = (value: number): number => nearest(value * 2 ** 16); // whole numbers add up to the same in any order

/** exp(-x) for x >= 0, by operations that every processor rounds alike. */
function fade(x: number): number {
  const y = x * (1 / 64);
  const first = 1 + y * (1 + y * (1 / 2 + y * (1 / 6 + y * (1 / 24))));
  const second = first * first;
  const fourth = second * second;
  const eighth = fourth * fourth;
  const sixteenth = eighth * eighth;
  const half = sixteenth * sixteenth;
  const power = half * half;
  return 1 / power;
}
