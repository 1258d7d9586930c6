/**
 * What the shared model sees: a of a person, b of a place at a moment, in columns of about mean 0 and variance 1. b = 1,
 * the words and numbers of the place, its popularity, the moment, then products within b. a = 1, the columns of the
 * person. Every column is a whole multiple of 2^-8, so that sums of them are exact in whatever order they are added.
 */

import { type Block, type Encoding, isHistory, width, widthOf } from "./encoding.ts";
import { PeerError } from "./errors.ts";
import { nearest } from "./fixed_point.ts";
import { numbersIn, type Scales } from "./documents.ts";

export const LARGEST = 3; // private columns are cut off here, so that one person moves a mean by little
const POPULAR = 8; // popularity is public: cut off only where no place is, so that the most popular keep their order
const RAREST = 0.02; // no word is scaled as if it were rarer than this
export const MOST_NUMBERS = 12; // that products are made of
export const MOST_WORDS = 64;
const FINE = 2 ** 8; // columns are whole multiples of 1 / FINE
const MOST_RECORDS = 2 ** 14;
const USUAL_POSITIVE = 0.3; // what records are like where nothing is known of them

/** The nearest whole multiple of 1 / fine. */
export function rounded(value: number, fine = FINE): number {
  return nearest(value * fine) / fine;
}

const cut = (value: number, most = LARGEST): number => Math.min(Math.max(value, -most), most);

/** Where the columns of b stand: 1, those of the place, popularity and the moment (together the core), the products of
 * numbers, the products of the clock with words of the place. */
export interface Columns {
  /** Columns of a without the 1. */
  readonly person: number;
  /** Columns of popularity, which are public and scaled already, before those of the moment. */
  readonly popularity: number;
  /** Columns of the moment alone. */
  readonly moment: number;
  readonly core: number;
  /** The place's numbers, then popularity and the moment: what every record has. */
  readonly dense: readonly number[];
  /** How many of these are the place's. */
  readonly placeNumbers: number;
  /** Which two columns each product is made of: every pair of numbers, and every number with itself. */
  readonly products: readonly (readonly [number, number])[];
  /** Hour and day. */
  readonly clock: readonly number[];
  /** Words of places, as columns of the core. */
  readonly words: readonly number[];
  /** The number of a word among the products with the clock. */
  readonly slot: ReadonlyMap<number, number>;
  /** Columns that B has for every column of a; the others it has for everyone together. */
  readonly crossed: readonly number[];
  readonly width: number;
  /** Numbers in B. */
  readonly entries: number;
  /** Which columns of the person, and of the moment alone, are words. */
  readonly personWords: readonly boolean[];
  readonly momentWords: readonly boolean[];
  /** Columns of words among these, before they are taken apart. */
  readonly wordBlocks: number;
}

export function columnsOf(encoding: Encoding): Columns {
  const blocks: readonly Block[] = [...encoding.place, ...encoding.popularity, ...encoding.context];
  const fixed = width(encoding.place);
  const spans = spansOf(blocks);
  const core = 1 + width(blocks);
  const words: number[] = [];
  const dense: number[] = [];
  const history = new Set<number>();
  for (const { first, block } of spans) {
    for (let at = first; at < first + widthOf(block); at++) {
      if (isWords(block) && first < fixed) words.push(at + 1);
      else dense.push(at + 1);
      if (isHistory(block)) history.add(at + 1);
    }
  }
  const numbers = spans
    .filter(({ block }) => !isWords(block) && block.type !== "clock")
    .map(({ first }) => first + 1)
    .slice(0, MOST_NUMBERS);
  const clock = spans
    .filter(({ block }) => block.type === "clock")
    .flatMap(({ first, block }) => Array.from({ length: widthOf(block) }, (_, at) => first + 1 + at));
  const timed = clock.length > 0 ? words.slice(0, MOST_WORDS) : [];
  const products = numbers.flatMap((one, i) => numbers.slice(i).map((other) => [one, other] as const));
  const crossed = Array.from({ length: core }, (_, at) => at).filter((column) => !history.has(column));
  const person = width(encoding.person);
  const whole = core + products.length + clock.length * timed.length;
  return {
    person,
    popularity: width(encoding.popularity),
    moment: width(encoding.context),
    core,
    dense,
    placeNumbers: dense.filter((column) => column <= fixed).length,
    products,
    clock,
    words,
    slot: new Map(timed.map((column, at) => [column, at])),
    crossed,
    width: whole,
    entries: whole + person * crossed.length,
    personWords: encoding.person.flatMap((block) => new Array<boolean>(widthOf(block)).fill(isWords(block))),
    momentWords: encoding.context.flatMap((block) => new Array<boolean>(widthOf(block)).fill(isWords(block))),
    wordBlocks: [...encoding.person, ...encoding.context].filter(isWords).length,
  };
}

/** Each block with its first column. */
export function spansOf(blocks: readonly Block[]): { first: number; block: Block }[] {
  let next = 0;
  return blocks.map((block) => {
    const first = next;
    next += widthOf(block);
    return { first, block };
  });
}

function isWords(block: Block): boolean {
  return block.type === "words" || block.type === "hashed" || block.type === "area";
}

/** The two core columns that each product is made of, in their order. */
export function productColumns(columns: Columns): (readonly [number, number])[] {
  const { products, clock, slot } = columns;
  return [...products, ...clock.flatMap((time) => [...slot.keys()].map((word) => [time, word] as const))];
}

// What columns are scaled by

export interface Scaling {
  readonly personMean: ArrayLike<number>;
  readonly personSd: ArrayLike<number>;
  readonly momentMean: ArrayLike<number>;
  readonly momentSd: ArrayLike<number>;
  /** Share of positive records. */
  readonly positive: number;
  /** By columns of the core; both 0 for all that is no word of a place. */
  readonly wordFactor: Float64Array;
  readonly wordCentre: Float64Array;
}

/** As published. PeerError for scales that no sum and no catalogue could lead to: under them columns would overflow. */
export function readScales(scales: Scales, columns: Columns): Scaling {
  const { person, moment, words } = columns;
  const personMean = numbersIn(scales.personMean, "float64", person);
  const personSd = numbersIn(scales.personSd, "float64", person);
  const momentMean = numbersIn(scales.momentMean, "float64", moment);
  const momentSd = numbersIn(scales.momentSd, "float64", moment);
  const factor = numbersIn(scales.wordFactor, "float64", words.length);
  const centre = numbersIn(scales.wordCentre, "float64", words.length);
  const within = (values: Float64Array, least: number, most: number): boolean =>
    values.every((value) => value >= least && value <= most); // false for NaN as well
  const good = within(personMean, -LARGEST, LARGEST) && within(momentMean, -LARGEST, LARGEST)
    && within(personSd, RAREST, 1e6) && within(momentSd, RAREST, 1e6)
    && scales.positive >= RAREST && scales.positive <= 1 - RAREST
    && scales.rootRecords >= 1 && scales.rootRecords <= MOST_RECORDS
    && within(factor, -1 / RAREST, 1 / RAREST) && within(centre, -1 / RAREST, 1 / RAREST)
    && [...factor, ...centre].every((value) => (value * FINE) % 1 === 0);
  if (!good) throw new PeerError("DECODE", "scales are no numbers, or beyond all use");
  return { personMean, personSd, momentMean, momentSd, positive: scales.positive, ...wordScales(columns, factor, centre) };
}

/** What is usual, before anything was published; words are scaled by how common they are among these places. */
export function usualScaling(columns: Columns, features: readonly Float32Array[]): Scaling {
  const noise = 1e9; // as a sum of nothing but noise says
  const weighed = (usual: number, apart: number): number => (noise ** 2 * usual) / (apart ** 2 + noise ** 2);
  const mean = (words: readonly boolean[]): number[] => words.map((word) => (word ? weighed(0.1, 0.3) : 0));
  const spread = (words: readonly boolean[]): number[] =>
    words.map((word) => Math.sqrt(Math.max(word ? weighed(0.1, 0.3) : LARGEST ** 2 * weighed(1 / 9, 1 / 9), RAREST)));
  const shares = columns.words.map((column) => {
    const many = features.reduce((sum, row) => sum + row[column - 1]!, 0);
    return many / features.length;
  });
  const factor = shares.map((share) => rounded(1 / Math.sqrt(Math.max(share, RAREST))));
  const centre = shares.map((share, at) => rounded(share * factor[at]!));
  return {
    personMean: mean(columns.personWords),
    personSd: spread(columns.personWords),
    momentMean: mean(columns.momentWords),
    momentSd: spread(columns.momentWords),
    positive: weighed(USUAL_POSITIVE, 0.3),
    ...wordScales(columns, factor, centre),
  };
}

function wordScales(
  columns: Columns, factor: ArrayLike<number>, centre: ArrayLike<number>,
): Pick<Scaling, "wordFactor" | "wordCentre"> {
  const wordFactor = new Float64Array(columns.core);
  const wordCentre = new Float64Array(columns.core);
  columns.words.forEach((column, at) => {
    wordFactor[column] = factor[at]!;
    wordCentre[column] = centre[at]!;
  });
  return { wordFactor, wordCentre };
}

// Rows of columns

/** a: 1, then the columns of the person. */
export function personRow(features: Float32Array, scaling: Scaling): Float64Array {
  return Float64Array.from([
    1, ...Array.from(features, (value, at) => rounded((cut(value) - scaling.personMean[at]!) / scaling.personSd[at]!)),
  ]);
}

/** Popularity and the moment, scaled; popularity is standardised already. */
export function momentRow(features: ArrayLike<number>, { popularity }: Columns, scaling: Scaling): Float64Array {
  const row = new Float64Array(features.length);
  for (let at = 0; at < row.length; at++) {
    const [value, moment] = [features[at]!, at - popularity];
    row[at] = rounded(
      moment < 0 ? cut(value, POPULAR) : (cut(value) - scaling.momentMean[moment]!) / scaling.momentSd[moment]!,
    );
  }
  return row;
}

/** A place: which words it has, as columns of the core, and its numbers. */
export interface PlaceRow {
  readonly words: readonly number[];
  readonly numbers: readonly number[];
}

export function placeRow(features: Float32Array, columns: Columns): PlaceRow {
  return {
    words: columns.words.filter((column) => features[column - 1]! > 0),
    numbers: columns.dense.slice(0, columns.placeNumbers).map((column) => rounded(features[column - 1]!)),
  };
}
