/**
 * A person's records, encoded on their own device: X^i, the places that the records name, and the moments. None of them
 * leaves the device. To the same bits as in the Python package (device/records.py).
 */

import { blake2b } from "./blake2b.ts";
import { type Bytes, utf8 } from "./bytes.ts";
import {
  type BlockOf, type ColumnBlock, encodeColumn, encodeKm, encodePerson, encodeTime, type Encoding, fits, isHistory, LARGEST,
  type Values,
} from "./encoding.ts";
import { DataError } from "./errors.ts";
import { chordSquare, haversineKm, isKnown, NOWHERE, type Point, unitVector } from "./geography.ts";
import { History } from "./history.ts";
import { type KnownPlaces, positionsOf } from "./places.ts";
import { inward, ownAverage, ownPart, POPULARITY, popularityOf } from "./popularity.ts";

const MOST_RECORDS = 2 ** 14; // that a device learns from in a round, the latest; negatives are records too
const MOST_CELLS = 2 ** 23; // records x columns
const POOL = 200; // nearby negatives are drawn from so many places

/** Where a person was, or what they passed over. */
export interface Visit {
  readonly id: string;
  readonly place: string;
  /** Seconds since 1970 on the local wall clock. */
  readonly time: number | null;
  /** 1: visited; -1: shown and ignored. */
  readonly label: 1 | -1;
  readonly context: Values;
}

/** What a device knows of its person. Visits are in the order of their times, then of their arrival. */
export interface OwnData {
  readonly profile: Values;
  /** As the person gave it. */
  readonly home: Point | null;
  readonly visits: readonly Visit[];
  /** Whether ignored suggestions are recorded too. Where they are not, the device draws negatives of its own. */
  readonly labelled: boolean;
  /** Under which places not visited are drawn, which nobody else can compute. */
  readonly negativesSecret: Bytes;
  /** What the device has added to the sum of visits that popularity is made of, in units of a person's norm, by the entry:
   * the place's row in the whole catalogue and, for what is averaged, that many places further on. */
  readonly added: ReadonlyMap<number, number>;
}

/** What of a deployment's settings says how records are made. */
export interface RecordRules {
  /** Negatives for each visit, and whether they are drawn from everywhere or from the nearest places. */
  readonly ratio: number;
  readonly negatives: "uniform" | "nearby";
  /** Whether a record is encoded without the visits that came after it. */
  readonly onlyEarlier: boolean;
}

export interface Records {
  readonly person: Float32Array;
  /** For each record the position of its place in `places`. */
  readonly place: readonly number[];
  /** Popularity and the moment. */
  readonly context: readonly Float32Array[];
  readonly label: readonly (1 | -1)[];
  /** X^j, static, of the places that the records name. */
  readonly places: readonly Float32Array[];
  /** Visits outside the downloaded regions: nothing is learnt from them. */
  readonly unknown: number;
}

interface Row {
  readonly visit: Visit;
  readonly place: number;
  readonly label: 1 | -1;
}

/** How many records a device learns from, the latest, under so many columns of the shared model. */
export function mostRecords(width: number): number {
  return Math.min(MOST_RECORDS, Math.floor(MOST_CELLS / Math.max(width, 1)));
}

/** The person's records, at most so many, with popularity as others would see it. `goOn` is asked before each: what it
 * throws ends the work. */
export function encodeRecords(
  own: OwnData, encoding: Encoding, rules: RecordRules, known: KnownPlaces, most: number, goOn = (): void => {},
): Records {
  const { rows, unknown } = allRows(own, rules, known, most, goOn);
  return encoded(rows, rows, own, encoding, rules, known, unknown, goOn);
}

/** The records that are learnt from, and those that are held out. What is learnt from alone describes both. */
export function partedRecords(
  own: OwnData, encoding: Encoding, rules: RecordRules, known: KnownPlaces, most: number, share: number, goOn = (): void => {},
): { readonly learnt: Records; readonly held: Records } {
  const { rows, unknown } = allRows(own, rules, known, most, goOn);
  const out = isHeldOut(own, share);
  const learnt = rows.filter(({ visit }) => !out(visit.place));
  const held = rows.filter(({ visit }) => out(visit.place));
  return {
    learnt: encoded(learnt, learnt, own, encoding, rules, known, unknown, goOn),
    held: encoded(held, learnt, own, encoding, { ...rules, onlyEarlier: false }, known, unknown, goOn),
  };
}

/** Which places this device holds out for quality figures, with all visits to them and their negatives: those of which a hash,
 * under a key that nobody else has, is within a share in thousandths. */
export function isHeldOut({ negativesSecret }: Pick<OwnData, "negativesSecret">, share: number): (place: string) => boolean {
  const found = new Map<string, boolean>();
  return (place) => {
    if (share === 0) return false;
    let out = found.get(place);
    if (out === undefined) {
      const hash = blake2b(utf8(place), { size: 8, key: negativesSecret, person: "prirec held out" });
      const number = new DataView(hash.buffer, hash.byteOffset).getBigUint64(0, true);
      found.set(place, (out = number * 1000n < BigInt(share) << 64n));
    }
    return out;
  };
}

/** What a person has done at places that are learnt from, and at those that are held out. */
export function partedData(own: OwnData, share: number): { readonly learnt: OwnData; readonly held: OwnData } {
  const out = isHeldOut(own, share);
  return {
    learnt: { ...own, visits: own.visits.filter(({ place }) => !out(place)) },
    held: { ...own, visits: own.visits.filter(({ place }) => out(place)) },
  };
}

function allRows(
  own: OwnData, rules: RecordRules, known: KnownPlaces, most: number, goOn: () => void,
): { readonly rows: readonly Row[]; readonly unknown: number } {
  const latest = own.visits.slice(-(own.labelled ? most : Math.floor(most / (1 + rules.ratio))));
  const recorded = rowsOf(latest, known);
  const rows = own.labelled ? recorded : withNegatives(recorded, known, rules, own.negativesSecret, goOn);
  return { rows, unknown: latest.length - recorded.length };
}

/** These records; home and history come from those that are learnt from. */
function encoded(
  rows: readonly Row[], learnt: readonly Row[], own: OwnData, encoding: Encoding, rules: RecordRules, known: KnownPlaces,
  unknown: number, goOn: () => void,
): Records {
  const home = homeOf(own, known, learnt);
  const history = new History(
    encoding, known, learnt.filter((row) => row.label > 0).map((row) => ({ place: row.place, first: row.visit.time ?? Infinity })),
  );
  const person = clipped(encodePerson(encoding, own.profile, home));
  const context = rows.map(({ visit, place }) => {
    goOn();
    const seen = popularitySeen(own, encoding, known, place);
    const popular = encoding.popularity.flatMap((block, at) => encodeColumn(block, seen[at]!));
    const before = rules.onlyEarlier ? (visit.time ?? -Infinity) : null;
    const moment = encodeMoment(encoding, {
      km: haversineKm(home, known.location[place]!), time: visit.time, values: visit.context,
      history: history.encode(place, before),
    });
    return clipped(Float32Array.from([...popular, ...moment]));
  });
  if (![person, ...context].every((features) => features.every(Number.isFinite))) {
    throw new DataError("a feature is not a finite number; look at the profile and at what visits are described by");
  }
  const used = [...new Set(rows.map((row) => row.place))].toSorted((a, b) => a - b);
  const position = new Map(used.map((place, at) => [place, at]));
  return {
    person,
    place: rows.map((row) => position.get(row.place)!),
    context,
    label: rows.map((row) => row.label),
    places: used.map((place) => known.features[place]!),
    unknown,
  };
}

/** What is released of a place, without the parts that this device has added itself. */
function popularitySeen(own: OwnData, encoding: Encoding, { released, sums, rows }: KnownPlaces, place: number): readonly number[] {
  const here = released[place]!;
  if (sums === null) return here;
  const names = encoding.popularity.map(({ column }) => column);
  const at = names.indexOf(POPULARITY);
  // where it is the same everywhere, no feature is made of it
  const visitors = at >= 0 ? here[at]! : popularityOf(sums.opened[place]!, sums.predicted[place]!, sums.sigma, sums.shape);
  const part = ownPart(sums, place, visitors, own.added.get(rows[place]!) ?? 0);
  return names.map((name, column) => {
    if (column === at) return here[column]! - part;
    const which = sums.averages.findIndex((one) => one.column === name);
    if (which < 0) return here[column]!;
    const added = own.added.get(rows[place]! + (1 + which) * sums.many);
    return here[column]! - ownAverage(sums.averages[which]!, sums.sigma, place, here[column]!, visitors, part, added);
  });
}

/** The person's own means of a number of their visits, on its declared range from -1 to 1, by place; those that do not fit
 * the range count as unknown. */
export function ownMeans(
  own: Pick<OwnData, "visits">, block: BlockOf<"range">, known: KnownPlaces,
): { readonly place: number; readonly mean: number }[] {
  const sums = new Map<number, { sum: number; times: number }>();
  for (const { visit, place } of rowsOf(own.visits, known)) {
    const value = visit.context[block.column];
    if (visit.label < 0 || typeof value !== "number" || !fits(block, value)) continue;
    const before = sums.get(place) ?? { sum: 0, times: 0 };
    sums.set(place, { sum: before.sum + inward(value, block), times: before.times + 1 });
  }
  return [...sums]
    .map(([place, { sum, times }]) => ({ place, mean: sum / times }))
    .toSorted((a, b) => a.place - b.place);
}

/** What describes the moment, for a visit or for a place that is being considered. */
export function encodeMoment(
  encoding: Encoding,
  { km, time, values, history }: { km: number; time: number | null; values: Values; history: readonly (readonly number[])[] },
): number[] {
  let next = 0;
  const features: number[] = [];
  for (const block of encoding.context) {
    if (block.type === "distance") features.push(encodeKm(block, km));
    else if (block.type === "clock") features.push(...encodeTime(time));
    else if (isHistory(block)) features.push(...history[next++]!);
    else features.push(...encodeColumn(block as ColumnBlock, values[block.column]));
  }
  return features;
}

/** A value beyond all use is clipped rather than refused: refusals could tell something about a private value. */
function clipped(features: Float32Array): Float32Array {
  return features.map((value) => Math.min(Math.max(value, -LARGEST), LARGEST));
}

function rowsOf(visits: readonly Visit[], known: KnownPlaces): Row[] {
  const position = positionsOf(known);
  return visits.flatMap((visit) => {
    const place = position.get(visit.place);
    return place === undefined ? [] : [{ visit, place, label: visit.label }];
  });
}

/** The home that the person gave, else the middle of the known places that they visited. */
export function homeOf(own: OwnData, known: KnownPlaces, rows: readonly Row[] = rowsOf(own.visits, known)): Point {
  if (own.home !== null) return own.home;
  const been = rows.filter((row) => row.label > 0).map((row) => known.location[row.place]!).filter(isKnown);
  if (been.length === 0) return NOWHERE;
  const first = been[0]![1]; // longitudes are unrolled around it
  const around = median(been.map(([, longitude]) => modulo(longitude - first + 180, 360) - 180));
  return [median(been.map(([latitude]) => latitude)), modulo(around + first + 180, 360) - 180];
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return (sorted[(sorted.length - 1) >> 1]! + sorted[sorted.length >> 1]!) / 2;
}

/** The remainder that is not negative. */
function modulo(value: number, by: number): number {
  const rest = value % by;
  return rest < 0 ? rest + by : rest;
}

/** The places that the person has visited, each once, by position among the known ones. */
export function visitedPlaces(own: OwnData, known: KnownPlaces): number[] {
  const places = rowsOf(own.visits, known).filter((row) => row.label > 0).map((row) => row.place);
  return [...new Set(places)].toSorted((a, b) => a - b);
}

// Negatives for a person who only recorded visits: each visit ranks all candidate places by a hash under a secret of the
// device and takes the first ones. So they stay the same from round to round and after a restart.

/** Each visit followed by its negatives, which have the visit's moment. */
function withNegatives(rows: readonly Row[], known: KnownPlaces, rules: RecordRules, secret: Bytes, goOn: () => void): Row[] {
  const visits = rows.filter((row) => row.label > 0).map((row) => ({ id: row.visit.id, place: row.place }));
  const drawn = drawNegatives(visits, known, rules, secret, goOn);
  let next = 0;
  return rows.flatMap((row) => {
    if (row.label < 0) return [row];
    return [row, ...drawn[next++]!.map((place): Row => ({ visit: row.visit, place, label: -1 }))];
  });
}

/** For each visit (its id, and its place's position) `ratio` positions of places that the person never visited; fewer
 * where fewer are left. "nearby" draws from the closest places, or from all where the place has no coordinates. */
export function drawNegatives(
  visits: readonly { readonly id: string; readonly place: number }[],
  known: Pick<KnownPlaces, "rows" | "location">, { ratio, negatives }: Pick<RecordRules, "ratio" | "negatives">, secret: Bytes,
  goOn = (): void => {},
): number[][] {
  const been = new Set(visits.map(({ place }) => place));
  const isNew = (place: number): boolean => !been.has(place);
  const anywhere = known.rows.map((_, at) => at).filter(isNew);
  const pools = negatives === "nearby" ? closest(been, known.location) : new Map<number, number[]>();
  return visits.map(({ id, place }) => {
    goOn();
    const pool = pools.get(place)?.filter(isNew) ?? anywhere;
    return firstRanked(pool, known.rows, blake2b(utf8(id), { size: 8, key: secret, person: "prirec unvisited" }), ratio);
  });
}

/** The first of a pool in the order of a hash of their rows under a key. */
function firstRanked(pool: readonly number[], rows: readonly number[], key: Bytes, many: number): number[] {
  const view = new DataView(key.buffer);
  const mixed = splitmix64(view.getUint32(4, true), view.getUint32(0, true));
  const best: { readonly one: number; readonly high: number; readonly low: number }[] = [];
  for (const one of pool) {
    const { high, low } = splitmix64(mixed.high, (mixed.low ^ rows[one]!) >>> 0);
    // no ties: for one key, mixing maps rows one to one
    const before = (other: { readonly high: number; readonly low: number }): boolean =>
      high < other.high || (high === other.high && low < other.low);
    if (best.length >= many && !before(best[many - 1]!)) continue;
    let slot = best.length;
    while (slot > 0 && before(best[slot - 1]!)) slot--;
    best.splice(slot, 0, { one, high, low });
    if (best.length > many) best.pop();
  }
  return best.map(({ one }) => one);
}

/** The places closest to each of these, itself included, as far as they have coordinates. */
function closest(places: ReadonlySet<number>, location: readonly Point[]): Map<number, number[]> {
  const there = location.flatMap((point, at) => (isKnown(point) ? [{ at, vector: unitVector(point) }] : []));
  const anchors = there.filter(({ at }) => places.has(at));
  return new Map(
    anchors.map((anchor) => {
      const apart = there.map(({ at, vector }) => ({ at, square: chordSquare(anchor.vector, vector) }));
      return [anchor.at, apart.toSorted((a, b) => a.square - b.square || a.at - b.at).slice(0, POOL + 1).map(({ at }) => at)];
    }),
  );
}

/** One step of SplitMix64, a bijection of 64-bit words, in halves of 32 bits: a visit ranks every place. */
function splitmix64(high: number, low: number): { high: number; low: number } {
  const sum = low + 0x7f4a7c15;
  let l = sum >>> 0;
  let h = (high + 0x9e3779b9 + (sum > 0xffffffff ? 1 : 0)) >>> 0;
  [h, l] = [(h ^ (h >>> 30)) >>> 0, (l ^ ((l >>> 30) | (h << 2))) >>> 0];
  let next = product64(h, l, 0xbf58476d, 0x1ce4e5b9);
  next = product64(
    (next.high ^ (next.high >>> 27)) >>> 0, (next.low ^ ((next.low >>> 27) | (next.high << 5))) >>> 0, 0x94d049bb, 0x133111eb,
  );
  return { high: (next.high ^ (next.high >>> 31)) >>> 0, low: (next.low ^ ((next.low >>> 31) | (next.high << 1))) >>> 0 };
}

/** A product modulo 2^64. */
function product64(aHigh: number, aLow: number, bHigh: number, bLow: number): { high: number; low: number } {
  const [a0, a1, b0, b1] = [aLow & 0xffff, aLow >>> 16, bLow & 0xffff, bLow >>> 16];
  const first = a0 * b0;
  const middle = a0 * b1 + (first >>> 16);
  const other = a1 * b0 + (middle % 0x10000);
  const high = a1 * b1 + Math.floor(middle / 0x10000) + Math.floor(other / 0x10000);
  return {
    high: (high + Math.imul(aHigh, bLow) + Math.imul(aLow, bHigh)) >>> 0,
    low: (((other % 0x10000) << 16) | (first & 0xffff)) >>> 0,
  };
}
