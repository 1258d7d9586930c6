/**
 * PINE, "Private Inexpensive Norm Enforcement" (arXiv 2311.10237, draft-chen-cfrg-vdaf-pine-01), the device's side: a
 * vector is split between two operators, with a proof that it is no longer than a bound. Neither learns more than that
 * it is so. Field64, XOF of HMAC-SHA256 and AES-128 in counter mode, as in the Python package (proofs/pine.py).
 */

import { bigEndian, type Bytes, joined } from "./bytes.ts";
import { UsageError } from "./errors.ts";
import {
  add, bitReversal, element, type Elements, innerProducts, inverse, MODULUS, multiply, roots, subtract, toBytes,
  toCoefficients, toValues,
} from "./field.ts";
import { hmac } from "./keys.ts";

const LEADER = 0;
const HELPER = 1;
const SEED = 32; // bytes
export const NONCE = 16; // bytes
export const RANDOMNESS = 7 * SEED; // bytes that a report takes
const DRAWS = 1000; // honest vectors that do not pass so often come from an alpha that is too small
const MOST_ENTRIES = 2 ** 21; // of which `innerProducts` can take the sum

// What a stream is for: the last part of its tag
const ENCODED_SHARE = 1;
const PROOFS_SHARE = 2;
const JOINT_RANDOMNESS = 3;
const PROVER_RANDOMNESS = 4;
const JOINT_SEED = 6;
const JOINT_PART = 7;
const CHECK_VECTORS = 8;
const CHECK_SEED = 9;
const CHECK_PART = 10;

/** Sizes and bounds of one kind of report, and the lengths that follow. */
export class Parameters {
  /** Whole numbers in the vector, and the bound on its Euclidean length. */
  readonly dimension: number;
  readonly normBound: number;
  /** Pairs of factors that one gadget call of the bit proof adds up, and squares that one of the norm proof does. */
  readonly chunk: number;
  readonly normChunk: number;
  readonly proofs: number;
  readonly normProofs: number;
  readonly checks: number;
  readonly successes: number;
  readonly alpha: number;

  constructor(given: {
    dimension: number; normBound: number; chunk: number; normChunk: number;
    proofs?: number; normProofs?: number; checks?: number; successes?: number; alpha?: number;
  }) {
    const { dimension, normBound, chunk, normChunk } = given;
    const { proofs = 2, normProofs = 1, checks = 100, successes = 100, alpha = 8.7 } = given;
    const sizes = [dimension, normBound, chunk, normChunk, proofs, normProofs, checks, successes];
    if (!sizes.every((size) => Number.isSafeInteger(size) && size >= 1) || checks < successes
      || !(alpha > 0 && alpha < Infinity)) {
      throw new UsageError("a report has at least one entry, bound, chunk, proof and success, and no more than checks");
    }
    if (Math.max(proofs, normProofs) > 255) throw new UsageError("the number of proofs is one byte: at most 255");
    if (dimension > MOST_ENTRIES) throw new UsageError(`a device makes reports of at most ${MOST_ENTRIES} entries`);
    this.dimension = dimension;
    this.normBound = normBound;
    this.chunk = chunk;
    this.normChunk = normChunk;
    this.proofs = proofs;
    this.normProofs = normProofs;
    this.checks = checks;
    this.successes = successes;
    this.alpha = alpha;
    const bound = BigInt(this.checkBound);
    // Figure 1 and Lemma 3.3 of the paper: beyond these, proofs would hold for longer vectors too
    const least = [3n * BigInt(normBound) ** 2n + 3n, bound ** 2n / 4000n + 1n, 2600n * bound, 2n * BigInt(checks)];
    if (least.some((one) => one > MODULUS)) {
      throw new UsageError("the bound of the norm is too large for a field of 64 bits: use fewer fraction bits");
    }
  }

  /** With the chunks that make the report shortest; fewer wires need more points. */
  static shortest(dimension: number, normBound: number): Parameters {
    const plain = new Parameters({ dimension, normBound, chunk: 1, normChunk: 1 });
    const norm = shortestChunk(1, 1, [dimension]);
    const bits = shortestChunk(2, 2, [plain.bitsLength, plain.checks]);
    return new Parameters({ dimension, normBound, chunk: bits, normChunk: norm });
  }

  /** A check is passed from -checkBound + 1 to checkBound: a power of two, so bits alone prove the range. */
  get checkBound(): number {
    return powerOfTwo(Math.ceil(this.alpha * this.normBound) + 1);
  }

  get normBits(): number {
    return bitLength(BigInt(this.normBound) ** 2n);
  }

  get checkBits(): number {
    return bitLength(2n * BigInt(this.checkBound) - 1n);
  }

  /** Entries, and the squared norm counted from 0 and from the bound: what wraparound checks are drawn from. */
  get headLength(): number {
    return this.dimension + 2 * this.normBits;
  }

  /** All elements that are proved to be bits. */
  get bitsLength(): number {
    return 2 * this.normBits + (this.checkBits + 1) * this.checks;
  }

  get encodedLength(): number {
    return this.dimension + this.bitsLength;
  }

  get bitCalls(): number {
    return Math.ceil(this.bitsLength / this.chunk);
  }

  get normPoints(): number {
    return powerOfTwo(1 + Math.ceil(this.dimension / this.normChunk));
  }

  get points(): number {
    return powerOfTwo(1 + this.bitCalls + Math.ceil(this.checks / this.chunk));
  }

  get proofsLength(): number {
    const norm = this.normChunk + 2 * this.normPoints - 1;
    return this.normProofs * norm + this.proofs * (2 * this.chunk + 2 * this.points - 1);
  }
}

/** Of all chunks, the one with which a proof of lengths that are each cut into chunks of their own is shortest; of
 * equally short ones the smallest. */
function shortestChunk(wires: number, power: number, lengths: readonly number[]): number {
  let best = { size: Infinity, chunk: Infinity };
  const calls = (chunk: number): number => lengths.reduce((sum, length) => sum + Math.ceil(length / chunk), 0);
  for (let points = 2 ** power; points <= 2 ** 32; points *= 2) {
    let chunk = Math.ceil(lengths.reduce((sum, length) => sum + length, 0) / (points - 1));
    while (calls(chunk) > points - 1) chunk++;
    const size = wires * chunk + 2 * points - 1;
    if (size < best.size || (size === best.size && chunk < best.chunk)) best = { size, chunk };
  }
  return best.chunk;
}

/** The smallest power of two that is not below. */
function powerOfTwo(least: number): number {
  return 2 ** bitLength(BigInt(least) - 1n);
}

function bitLength(number: bigint): number {
  return number === 0n ? 0 : number.toString(2).length;
}

/** Three byte strings: for both operators, for the leader, for the helper. Both shares are secret. */
export interface Report {
  readonly public: Bytes;
  readonly leader: Bytes;
  readonly helper: Bytes;
}

/** A report that will be accepted. The wraparound checks may fail for an honest vector, with the odds that alpha sets:
 * then other random bytes are drawn, so that no operator ever sees a check that failed. */
export async function report(
  p: Parameters, vector: ArrayLike<number>, nonce: Bytes, draw: (size: number) => Bytes,
): Promise<Report> {
  for (let turn = 0; turn < DRAWS; turn++) {
    const made = await shard(p, vector, nonce, draw(RANDOMNESS));
    if (made !== null) return made;
  }
  throw new UsageError("honest vectors fail the wraparound checks: choose a larger alpha");
}

/** The report for these random bytes; null where they do not pass the wraparound checks. */
export async function shard(
  p: Parameters, vector: ArrayLike<number>, nonce: Bytes, randomness: Bytes,
): Promise<Report | null> {
  if (randomness.length !== RANDOMNESS || nonce.length !== NONCE) {
    throw new UsageError(`a report takes ${RANDOMNESS} random bytes and a nonce of ${NONCE}`);
  }
  const head = withNorm(p, vector);
  const seeds = Array.from({ length: 7 }, (_, at) => randomness.slice(SEED * at, SEED * (at + 1)));
  const [encodedSeed, proofsSeed, helperCheck, helperJoint, leaderCheck, leaderJoint, proverSeed] = seeds as [
    Bytes, Bytes, Bytes, Bytes, Bytes, Bytes, Bytes,
  ];

  const helper = await expand(encodedSeed, ENCODED_SHARE, Uint8Array.of(HELPER), p.encodedLength);
  const checks = [
    await part(CHECK_PART, LEADER, leaderCheck, nonce, differences(head, helper)),
    await part(CHECK_PART, HELPER, helperCheck, nonce, helper.slice(0, p.headLength)),
  ];
  const signs = await stream(
    await together(CHECK_SEED, checks), CHECK_VECTORS, new Uint8Array(0), Math.ceil(p.dimension / 4) * p.checks,
  );
  const results = innerProducts(head.slice(0, p.dimension), signs, p.checks);
  const bits = checkBits(p, results);
  if (bits === null) return null;

  const encoded = [...head, ...bits];
  const leader = differences(encoded, helper);
  const joint = [
    await part(JOINT_PART, LEADER, leaderJoint, nonce, leader),
    await part(JOINT_PART, HELPER, helperJoint, nonce, helper),
  ];
  const counts = Uint8Array.of(p.normProofs, p.proofs);
  const arities = p.normProofs * p.normChunk + p.proofs * 2 * p.chunk;
  const random = await expand(proverSeed, PROVER_RANDOMNESS, counts, arities);
  const jointSeed = await together(JOINT_SEED, joint);
  const jointRandom = await expand(jointSeed, JOINT_RANDOMNESS, Uint8Array.of(p.proofs), 3 * p.proofs);
  const proofs = prove(p, encoded, results, random, jointRandom);
  const helperProofs = await expand(proofsSeed, PROOFS_SHARE, Uint8Array.of(p.normProofs, p.proofs, HELPER), p.proofsLength);
  return {
    public: joined(...checks, ...joint),
    leader: joined(toBytes(leader), toBytes(differences(proofs, helperProofs)), leaderCheck, leaderJoint),
    helper: joined(encodedSeed, proofsSeed, helperCheck, helperJoint),
  };
}

/** Entries, bits of the squared norm, bits of what it is below the bound's square. */
function withNorm(p: Parameters, vector: ArrayLike<number>): Elements {
  const entries = Array.from(vector);
  if (entries.length !== p.dimension) throw new UsageError("the vector has another length than the parameters say");
  if (!entries.every(Number.isSafeInteger)) throw new UsageError("a vector in a report is of whole numbers");
  const norm = entries.reduce((sum, x) => sum + BigInt(x) ** 2n, 0n);
  const bound = BigInt(p.normBound) ** 2n;
  if (norm > bound) throw new UsageError("the vector is longer than its bound: clip it first");
  return [...entries.map(element), ...bitsOf(norm, p.normBits), ...bitsOf(bound - norm, p.normBits)];
}

function bitsOf(number: bigint, length: number): Elements {
  return Array.from({ length }, (_, at) => (number >> BigInt(at)) & 1n);
}

/** Each result of a check as bits, with one more bit that says whether it counts; null where too few do. Exactly
 * `successes` count, even if more could. */
function checkBits(p: Parameters, results: readonly bigint[]): Elements | null {
  const bound = BigInt(p.checkBound);
  const encoded: Elements = [];
  let successes = 0;
  for (const result of results) {
    const shifted = add(result, bound - 1n);
    const inside = shifted < 2n * bound;
    const counts = inside && successes < p.successes;
    successes += counts ? 1 : 0;
    encoded.push(...bitsOf(inside ? shifted : 0n, p.checkBits), counts ? 1n : 0n);
  }
  return successes === p.successes ? encoded : null;
}

// Proofs: for each the wires' random values, then the gadget's polynomial over the wires' polynomials. The values of
// all wires are one table: a row for each gadget call, a column for each wire, and row 0 is random.

function prove(
  p: Parameters, encoded: readonly bigint[], results: readonly bigint[], random: Elements, joint: Elements,
): Elements {
  const proofs: Elements = [];
  let at = 0;
  for (let turn = 0; turn < p.normProofs; turn++) {
    const own = random.slice(at, at += p.normChunk);
    const wires = table(p.normPoints, p.normChunk, own, [encoded.slice(0, p.dimension)]);
    proofs.push(...own, ...gadgetPolynomial(wires, squares));
  }
  for (let turn = 0; turn < p.proofs; turn++) {
    const own = random.slice(at, at += 2 * p.chunk);
    const [rBits, rChecks] = joint.slice(3 * turn) as [bigint, bigint];
    const factors = [bitFactors(encoded.slice(p.dimension), rBits), checkFactors(p, encoded, results, rChecks)];
    proofs.push(...own, ...gadgetPolynomial(table(p.points, 2 * p.chunk, own, factors), products));
  }
  return proofs;
}

/** Rows of a table: the random one, then each list of values in rows of its own, then zeros. */
function table(points: number, wires: number, random: Elements, lists: readonly Elements[]): Elements[] {
  const rows = [random.slice()];
  for (const values of lists) {
    for (let at = 0; at < values.length; at += wires) {
      const row = values.slice(at, at + wires);
      while (row.length < wires) row.push(0n);
      rows.push(row);
    }
  }
  while (rows.length < points) rows.push(new Array<bigint>(wires).fill(0n));
  return rows;
}

/** r^i b_i and b_i - 1, whose products are all 0 if each b_i is 0 or 1. */
function bitFactors(bits: readonly bigint[], r: bigint): Elements {
  let weight = 1n;
  return bits.flatMap((bit) => {
    const pair = [bit === 0n ? 0n : weight, subtract(bit, 1n)];
    weight = multiply(weight, r);
    return pair;
  });
}

/** r^i times what check i is off from what its bits say, and the bit that says whether it counts. */
function checkFactors(p: Parameters, encoded: readonly bigint[], results: readonly bigint[], r: bigint): Elements {
  let weight = 1n;
  return results.flatMap((result, at) => {
    const start = p.headLength + at * (p.checkBits + 1);
    const said = encoded.slice(start, start + p.checkBits).reduceRight((sum, bit) => 2n * sum + bit, 0n);
    const wrong = subtract(result, subtract(said, BigInt(p.checkBound) - 1n));
    const pair = [multiply(weight, wrong), encoded[start + p.checkBits]!];
    weight = multiply(weight, r);
    return pair;
  });
}

type Gadget = (row: readonly bigint[]) => bigint;

const squares: Gadget = (row) => row.reduce((sum, x) => sum + x * x, 0n) % MODULUS;

function products(row: readonly bigint[]): bigint {
  let sum = 0n;
  for (let at = 0; at < row.length; at += 2) sum += row[at]! * row[at + 1]!;
  return sum % MODULUS;
}

/** Degree 2 (points - 1): known from twice as many points. Half of them are those of the wires' values. */
function gadgetPolynomial(wires: Elements[], gadget: Gadget): Elements {
  const points = wires.length;
  const powers = roots(points);
  const finer = roots(2 * points);
  const order = bitReversal(points);
  const values = Array.from({ length: 2 * points }, (_, at) => [at % 2 === 0 ? gadget(wires[at / 2]!) : 0n]);
  toCoefficients(wires, powers);
  const scale = inverse(BigInt(points));
  wires.forEach((row, at) => {
    const factor = multiply(finer[order[at]!]!, scale);
    for (let wire = 0; wire < row.length; wire++) row[wire] = multiply(row[wire]!, factor);
  });
  toValues(wires, powers); // now between the roots
  wires.forEach((row, at) => { values[2 * at + 1]![0] = gadget(row); });
  toCoefficients(values, finer);
  const fine = inverse(BigInt(2 * points));
  const finerOrder = bitReversal(2 * points);
  return Array.from({ length: 2 * points - 1 }, (_, at) => multiply(values[finerOrder[at]!]![0]!, fine));
}

function differences(a: readonly bigint[], b: readonly bigint[]): Elements {
  return a.map((one, at) => subtract(one, b[at]!));
}

// The XOF, and what both operators hash

/** The first bytes for this seed, use and binder: HMAC-SHA256 makes a key and a starting counter, AES-128 the stream. */
async function stream(seed: Bytes, usage: number, binder: Bytes, size: number): Promise<Bytes> {
  // 1: the version of the draft; 0xFFFF1004: PINE over Field64 with this XOF, as its vectors have it
  const tag = joined(Uint8Array.of(1), bigEndian(0xffff1004, 4), bigEndian(usage, 2));
  const drawn = await hmac(seed, joined(Uint8Array.of(tag.length), tag, binder));
  return keyStream(drawn.slice(0, 16), drawn.slice(16), size);
}

/** AES-128 of start, start + 1, ...: only the lower 64 bits count, and after 2^64 - 1 comes 0. */
export async function keyStream(key: Bytes, start: Bytes, size: number): Promise<Bytes> {
  const imported = await crypto.subtle.importKey("raw", key, "AES-CTR", false, ["encrypt"]);
  const algorithm = { name: "AES-CTR", counter: start, length: 64 };
  return new Uint8Array(await crypto.subtle.encrypt(algorithm, imported, new Uint8Array(size)));
}

/** Uniform elements: the stream's numbers, without those beyond the field (one in 2^32). */
async function expand(seed: Bytes, usage: number, binder: Bytes, count: number): Promise<Elements> {
  for (let size = count; ; ) {
    const octets = await stream(seed, usage, binder, 8 * size);
    const words = new DataView(octets.buffer);
    const found: Elements = [];
    for (let at = 0; at < octets.length; at += 8) {
      const word = words.getBigUint64(at, true);
      if (word < MODULUS) found.push(word);
    }
    if (found.length >= count) return found.slice(0, count);
    size += count - found.length;
  }
}

/** A hash of what one operator holds. The blind keeps the other from guessing at it. */
function part(usage: number, operator: number, blind: Bytes, nonce: Bytes, share: readonly bigint[]): Promise<Bytes> {
  return stream(blind, usage, joined(Uint8Array.of(operator), nonce, toBytes(share)), SEED);
}

/** The seed that both parts give: whoever changes a share changes it. */
function together(usage: number, parts: readonly Bytes[]): Promise<Bytes> {
  return stream(new Uint8Array(SEED), usage, joined(...parts), SEED);
}
