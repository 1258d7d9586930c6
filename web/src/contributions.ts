/**
 * What a device adds to the sums of a campaign, in whole numbers: the places that the person has visited, means and
 * squares of their own columns, and the gradient of B on their own records. To the same bits as in the Python package.
 */

import { type Columns, LARGEST, rounded } from "./columns.ts";
import { nearest } from "./fixed_point.ts";
import type { Norm } from "./norm.ts";
import type { Records } from "./records.ts";
import type { OwnRecords, SharedModel } from "./shared_model.ts";

const FINE = 2 ** 16; // residuals are whole multiples of 1 / FINE
const TYPICAL = 0.3; // the length of a gradient of random labels, in units of the root of records x entries

/** How long a contribution may be, and how it is written. */
export interface Code {
  /** Before rounding. */
  readonly clip: number;
  readonly fractionBits: number;
  /** The square of its length in whole numbers, at most. */
  readonly most: bigint;
}

/** The share of each visited place in the sum of visits, for so many of them, and then of the own means of what is averaged:
 * a vector of norm 1. */
export function visitsContribution(places: number, means: readonly (readonly number[])[], norm: Norm): Float64Array {
  const parts = [new Array<number>(places).fill(1), ...means];
  // each part is added up by itself, as the Python package does
  const square = parts.reduce((sum, part) => sum + part.reduce((one, value) => one + value * value, 0), 0);
  const all = parts.flat();
  const factor = square > 0 ? (1 - (all.length + 8) * 2 ** -52) / Math.sqrt(square) : 0;
  return norm.clipped(all.map((value) => value * factor));
}

/** Means and squares of the person's own columns, of the moments of their records, and what records they have. */
export function momentsContribution(records: Records, columns: Columns, code: Code): Float64Array {
  const cut = (value: number): number => rounded(Math.min(Math.max(value, -LARGEST), LARGEST));
  const isNumber = (words: readonly boolean[]) => (_: number, at: number) => !words[at]!;
  const [person, moment] = [isNumber(columns.personWords), isNumber(columns.momentWords)];
  const who = Array.from(records.person, cut);
  const rows = records.context.map((row) => Array.from(row.subarray(columns.popularity), cut));
  const n = rows.length;
  const meanOf = (of: (row: readonly number[], at: number) => number): number[] =>
    Array.from({ length: columns.moment }, (_, at) => rows.reduce((sum, row) => sum + of(row, at), 0) / Math.max(n, 1));
  const third = (words: readonly boolean[]) => (value: number, at: number) => (words[at]! ? value : value / LARGEST);
  const values = [
    ...who.map(third(columns.personWords)),
    ...who.filter(person).map((value) => (value / LARGEST) * (value / LARGEST)),
    ...meanOf((row, at) => row[at]!).map(third(columns.momentWords)),
    ...meanOf((row, at) => row[at]! * row[at]!).filter(moment).map((value) => value / LARGEST ** 2),
    n > 0 ? 1 : 0,
    records.label.reduce((sum, label) => sum + (label > 0 ? 1 : 0), 0) / Math.max(n, 1),
    Math.min(Math.sqrt(n) / 10, 1),
  ];
  const length = Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
  const factor = length > code.clip ? code.clip / length : 1;
  const whole = Float64Array.from(values, (value) => nearest(value * factor * 2 ** code.fractionBits));
  return shortened(whole, code.most);
}

/** The gradient of B on the person's own records: for everyone's row all columns, for the other rows those crossed.
 * `goOn` is asked before each record. */
export function gradientContribution(records: OwnRecords, model: SharedModel, code: Code, goOn = (): void => {}): Float64Array {
  const { columns } = model;
  const g = gradient(records, model, goOn);
  const crossed = Float64Array.from(columns.crossed, (column) => g[column]!);
  const others = records.who.subarray(1);
  const own = Math.sqrt(dot(g, g) + dot(others, others) * dot(crossed, crossed));
  if (!(own < Infinity)) return new Float64Array(columns.entries); // beyond all use: it adds zeros
  // a length that does not depend on labels, so that people with many records do not drown the others
  const longest = Math.max(own, TYPICAL * Math.sqrt(records.rows.length * columns.entries));
  const factor = longest > 0 ? code.clip * 2 ** code.fractionBits * (1 / longest) : 0;
  const whole = new Float64Array(columns.entries);
  g.forEach((value, at) => { whole[at] = nearest(value * factor); });
  others.forEach((value, row) => {
    const much = value * factor;
    const start = g.length + row * crossed.length;
    crossed.forEach((one, at) => { whole[start + at] = nearest(one * much); });
  });
  return shortened(whole, code.most);
}

/** What the loss on the records grows by with each coefficient. */
function gradient(records: OwnRecords, model: SharedModel, goOn: () => void): Float64Array {
  const own = model.coefficients(records.who);
  const g = new Float64Array(own.length);
  records.rows.forEach((row, at) => {
    goOn();
    const b = model.fill(row);
    const y = records.label[at]! > 0 ? 1 : -1;
    const pull = rounded(-y / (1 + Math.exp(y * model.score(b, own))), FINE);
    for (let column = 0; column < g.length; column++) g[column]! += pull * b[column]!;
  });
  return g;
}

/** Whole numbers no longer than the bound: while they are, each of them moves one toward zero. */
function shortened(whole: Float64Array, most: bigint): Float64Array {
  const square = (): bigint => whole.reduce((sum, value) => sum + BigInt(value) * BigInt(value), 0n);
  while (most > 0n && square() > most) whole.forEach((value, at) => { whole[at] = value - Math.sign(value); });
  return whole.map((value) => value + 0); // no negative zeros
}

/** In four sums side by side, as the Python package adds up: the same bits. */
function dot(x: Float64Array, y: Float64Array): number {
  const sums: [number, number, number, number] = [0, 0, 0, 0];
  const last = x.length - (x.length % 4);
  for (let at = 0; at < last; at++) sums[at % 4]! += x[at]! * y[at]!;
  for (let at = last; at < x.length; at++) sums[0] += x[at]! * y[at]!;
  return sums[0] + sums[1] + (sums[2] + sums[3]);
}
