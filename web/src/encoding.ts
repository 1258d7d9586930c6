/**
 * The encoding: which columns become which of the features, as a deployment publishes it. People's blocks, places'
 * static blocks, popularity, context. Each block turns one column into numbers by public constants. Features are
 * float32, to the same bits as in the Python package (features/encoding.py).
 */

import { blake2b } from "./blake2b.ts";
import { type Bytes, littleEndian, utf8 } from "./bytes.ts";
import { PeerError } from "./errors.ts";
import { chordSquare, isKnown, type Point, unitVector } from "./geography.ts";

export const LARGEST = 1e6; // no feature that is learnt from is further from 0
const MOST_WORDS = 65_536; // of one column
const DAY = 86_400; // seconds
export const FLOOR = 1e-3; // of the density of own visits

export type Block =
  | { readonly type: "log"; readonly column: string; readonly shift: number; readonly scale: number }
  | { readonly type: "range"; readonly column: string; readonly low: number; readonly high: number }
  | { readonly type: "words"; readonly column: string; readonly words: readonly string[] }
  | { readonly type: "hashed"; readonly column: string; readonly buckets: number }
  | { readonly type: "area"; readonly column: string; readonly centres: readonly Point[] }
  | { readonly type: "distance"; readonly column: string; readonly shift: number; readonly scale: number }
  | { readonly type: "nearest"; readonly column: string; readonly shift: number; readonly scale: number }
  | {
    readonly type: "density"; readonly column: string; readonly scales_km: readonly number[]; readonly shift: number;
    readonly spread: number;
  }
  | { readonly type: "affinity"; readonly column: string; readonly of: string; readonly shares: readonly number[] }
  | { readonly type: "closeness"; readonly column: string; readonly of: string; readonly shift: number; readonly scale: number }
  | { readonly type: "clock"; readonly column: string };
export type BlockOf<T extends Block["type"]> = Extract<Block, { type: T }>;
export type ColumnBlock = BlockOf<"log" | "range" | "words" | "hashed">;
export type HistoryBlock = BlockOf<"nearest" | "density" | "affinity" | "closeness">;

/** What describes a person or a visit: a number, a word, or words. */
export type Value = number | string | readonly string[];
export type Values = Readonly<Record<string, Value>>;

export interface Encoding {
  readonly person: readonly Block[];
  readonly place: readonly ColumnBlock[];
  readonly popularity: readonly BlockOf<"log">[];
  readonly context: readonly Block[];
  /** Numbers of visits that places get an average of; of a record they are no feature. */
  readonly averages: readonly BlockOf<"range">[];
}

/** The blocks whose columns a visit may be described by. */
export function recorded(encoding: Encoding): ColumnBlock[] {
  const blocks = [...encoding.context, ...encoding.averages];
  return blocks.filter((block): block is ColumnBlock => (COLUMNS as readonly string[]).includes(block.type));
}

export function widthOf(block: Block): number {
  switch (block.type) {
    case "words": return block.words.length;
    case "hashed": return block.buckets;
    case "area": return block.centres.length;
    case "density": return block.scales_km.length;
    case "clock": return 5;
    default: return 1;
  }
}

export function width(blocks: readonly Block[]): number {
  return blocks.reduce((sum, block) => sum + widthOf(block), 0);
}

export function isHistory(block: Block): block is HistoryBlock {
  return block.type === "nearest" || block.type === "density" || block.type === "affinity" || block.type === "closeness";
}

/** Which of the static features of places belong to this column of places: the first, and how many. */
export function placeColumns(encoding: Encoding, name: string): { first: number; many: number } {
  const at = encoding.place.findIndex((block) => block.column === name);
  return { first: width(encoding.place.slice(0, at)), many: widthOf(encoding.place[at]!) };
}

// Reading what was published: every limit holds here

type Check = (value: unknown) => boolean;
const number: Check = (value) => typeof value === "number" && Number.isFinite(value);
const between = (least: number, most: number): Check => (value) => number(value) && least <= (value as number) && (value as number) <= most;
const shift = between(-LARGEST, LARGEST);
const scale = between(1e-9, LARGEST);
const text: Check = (value) => typeof value === "string";
const many = (of: Check, least: number, most: number): Check =>
  (value) => Array.isArray(value) && value.length >= least && value.length <= most && value.every(of);
const point: Check = (value) => many(number, 2, 2)(value) && between(-90, 90)((value as number[])[0]) && between(-180, 180)((value as number[])[1]);
const share: Check = (value) => number(value) && (value as number) > 0 && (value as number) <= 1;

/** For each kind of block its fields, and what one is if it is left out. */
const FIELDS: { readonly [type in Block["type"]]: { readonly [field: string]: readonly [Check, unknown?] } } = {
  log: { shift: [shift, 0], scale: [scale, 1] },
  range: { low: [number], high: [number] },
  words: { words: [many(text, 0, MOST_WORDS)] },
  hashed: { buckets: [(value) => Number.isInteger(value) && between(1, 4096)(value)] },
  area: { centres: [many(point, 1, 256)] },
  distance: { shift: [shift], scale: [scale] },
  nearest: { shift: [shift], scale: [scale] },
  density: { scales_km: [many(scale, 1, 8)], shift: [shift], spread: [scale] },
  affinity: { of: [text], shares: [many(share, 0, MOST_WORDS)] },
  closeness: { of: [text], shift: [shift], scale: [scale] },
  clock: {},
};
const COLUMNS = ["log", "range", "words", "hashed"] as const;
const SIDES: { readonly [side in keyof Encoding]: readonly Block["type"][] } = {
  person: [...COLUMNS, "area"],
  place: COLUMNS,
  popularity: ["log"],
  context: [...COLUMNS, "distance", "nearest", "density", "affinity", "closeness", "clock"],
  averages: ["range"],
};
const VERSION = 2; // with averages; without any it is version 1
const LARGEST_RANGE = 1e9; // of a number that is averaged

const damaged = (): PeerError => new PeerError("DECODE", "the saved encoding is damaged");

/** A published encoding. PeerError for one that is damaged, or of another version. */
export function readEncoding(json: Bytes): Encoding {
  let given: unknown;
  try {
    given = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(json));
  } catch {
    throw damaged();
  }
  if (!isObject(given)) throw damaged();
  const { version, ...sides } = given;
  if (version !== 1 && version !== VERSION) {
    const found = typeof version === "number" ? version : "unknown"; // not shown: it may be anything
    throw new PeerError("DECODE", `the encoding has version ${found}, this program reads version ${VERSION}`);
  }
  if (Object.keys(sides).some((side) => !Object.hasOwn(SIDES, side))) throw damaged();
  const read = (side: keyof Encoding): Block[] => {
    const blocks = sides[side] ?? [];
    if (!Array.isArray(blocks)) throw damaged();
    return blocks.map((block) => readBlock(block, SIDES[side]));
  };
  const encoding = {
    person: read("person"),
    place: read("place") as ColumnBlock[],
    popularity: read("popularity") as BlockOf<"log">[],
    context: read("context"),
    averages: read("averages") as BlockOf<"range">[],
  };
  if ((version === VERSION) !== encoding.averages.length > 0 || !fitsTogether(encoding)) throw damaged();
  return encoding;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function readBlock(given: unknown, types: readonly Block["type"][]): Block {
  if (!isObject(given)) throw damaged();
  const type = types.find((one) => one === given["type"]);
  if (type === undefined || !text(given["column"])) throw damaged();
  const fields = Object.entries(FIELDS[type]);
  if (Object.keys(given).some((name) => !["type", "column"].includes(name) && !Object.hasOwn(FIELDS[type], name))) throw damaged();
  const read = fields.map(([name, [check, usual]]) => {
    const value = given[name] ?? usual;
    if (!check(value)) throw damaged();
    return [name, value];
  });
  return { type, column: given["column"], ...Object.fromEntries(read) } as Block;
}

function fitsTogether(encoding: Encoding): boolean {
  if (encoding.context.filter((block) => block.type === "density").length > 1) return false;
  if (!encoding.averages.every(({ low, high }) => -LARGEST_RANGE <= low && low < high && high <= LARGEST_RANGE)) return false;
  return encoding.context.every((block) => {
    if (block.type !== "affinity" && block.type !== "closeness") return true;
    const [kind, wanted] = block.type === "affinity" ? ["words", block.shares.length] : ["log", 1];
    const found = encoding.place.filter((one) => one.column === block.of && one.type === kind);
    return found.length === 1 && widthOf(found[0]!) === wanted;
  });
}

// Features of one row

/** A number that may be unknown (NaN), as a feature: 0 where it is. */
export function feature(value: number): number {
  return Number.isNaN(value) ? 0 : Math.fround(value);
}

export function signedLog(value: number): number {
  return Math.sign(value) * Math.log1p(Math.abs(value));
}

export function encodeKm(block: { readonly shift: number; readonly scale: number }, km: number): number {
  return feature((Math.log1p(km) - block.shift) / block.scale);
}

/** Whether a value is what its column calls for: a number within its declared range, or words that are all declared. */
export function fits(block: ColumnBlock, value: Value): boolean {
  if (block.type === "log" || block.type === "range") {
    return typeof value === "number" && (block.type === "log" || (block.low <= value && value <= block.high));
  }
  return typeof value !== "number" && (block.type === "hashed" || wordsOf(value).every((word) => block.words.includes(word)));
}

function wordsOf(value: string | readonly string[]): readonly string[] {
  return typeof value === "string" ? [value] : value;
}

/** The features of one column; undefined where nothing is known. What does not fit counts as unknown: it was recorded
 * before the device had this encoding. */
export function encodeColumn(block: ColumnBlock, given: Value | undefined): number[] {
  const value = given !== undefined && fits(block, given) ? given : undefined;
  if (block.type === "log" || block.type === "range") {
    const known = typeof value === "number" ? value : Number.NaN;
    if (block.type === "log") return [feature((signedLog(known) - block.shift) / block.scale)];
    return [feature(Math.min(Math.max((2 * (known - block.low)) / (block.high - block.low) - 1, -1), 1))];
  }
  const features = new Array<number>(widthOf(block)).fill(0);
  for (const word of value === undefined || typeof value === "number" ? [] : wordsOf(value)) {
    features[block.type === "hashed" ? bucket(block, word) : block.words.lastIndexOf(word)] = 1;
  }
  return features;
}

function bucket(block: BlockOf<"hashed">, word: string): number {
  // with the column in it, so that the same word in two columns does not always share a bucket's number
  const hash = blake2b(utf8(`${block.column}\0${word}`), { size: 8, person: "prirec word" });
  return Number(littleEndian(hash) % BigInt(block.buckets));
}

/** X^i: the features of a person, from the profile and the home. */
export function encodePerson(encoding: Encoding, profile: Values, home: Point): Float32Array {
  return Float32Array.from(
    encoding.person.flatMap((block) => {
      if (block.type !== "area") return encodeColumn(block as ColumnBlock, profile[block.column]);
      const features = block.centres.map(() => 0);
      if (isKnown(home)) features[nearest(home, block.centres)] = 1;
      return features;
    }),
  );
}

/** The first among the nearest. */
function nearest(here: Point, centres: readonly Point[]): number {
  const from = unitVector(here);
  const squares = centres.map((centre) => chordSquare(from, unitVector(centre)));
  return squares.indexOf(Math.min(...squares));
}

/** Hour of the day and day of the week on their circles, and whether it is a weekend; zeros where the time is unknown. */
export function encodeTime(seconds: number | null): number[] {
  if (seconds === null) return [0, 0, 0, 0, 0];
  const day = Math.floor(seconds / DAY);
  const hour = (2 * Math.PI * (seconds - day * DAY)) / DAY;
  const weekday = (((day + 3) % 7) + 7) % 7; // 1970 began on a Thursday; Monday is 0
  const round = (2 * Math.PI * weekday) / 7;
  return [Math.sin(hour), Math.cos(hour), Math.sin(round), Math.cos(round), weekday >= 5 ? 1 : 0].map(Math.fround);
}
