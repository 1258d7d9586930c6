/**
 * Runs the vectors of tests/vectors: what each operation of the device must answer, or refuse and for what reason. The
 * same code runs in Node and in browsers. In the files bytes are hex, and numbers are decimal text.
 */

import { type Bytes, utf8 } from "../src/bytes.ts";
import { decode, encode, type Kind, type Tagged, tagOf } from "../src/codec.ts";
import { boundIn, noiseOf } from "../src/campaign.ts";
import { columnsOf, momentRow, personRow, placeRow, readScales } from "../src/columns.ts";
import { measured, qualityContribution } from "../src/quality.ts";
import { type Code, gradientContribution, momentsContribution, visitsContribution } from "../src/contributions.ts";
import * as documents from "../src/documents.ts";
import { encodeColumn, encodePerson, readEncoding, type Values } from "../src/encoding.ts";
import { PeerError, PrirecError } from "../src/errors.ts";
import { NOWHERE, type Point } from "../src/geography.ts";
import type { AverageKnown, KnownPlaces, NoisySums } from "../src/places.ts";
import { ownAverage, ownPart } from "../src/popularity.ts";
import { personOf, Published, recommend } from "../src/recommend.ts";
import { drawNegatives, encodeRecords, isHeldOut, mostRecords, type OwnData, ownMeans, type RecordRules, type Records, type Visit } from "../src/records.ts";
import { SharedModel } from "../src/shared_model.ts";
import { deltaOf, epsilonOf, priceOf } from "../src/accountant.ts";
import { admit, type Budget, type Charge, howManyMore, type LedgerEntry } from "../src/ledger.ts";
import { FixedPoint } from "../src/fixed_point.ts";
import { AgreementKey, derive, type Field, SigningKey, verify } from "../src/keys.ts";
import { digestOf, jointStatement, readMessage, signedOf } from "../src/index.ts";
import { apply, refuseOtherWindow } from "../src/log.ts";
import { directionOf, Norm } from "../src/norm.ts";
import { keyStream, Parameters, shard } from "../src/pine.ts";
import { checkOperators, type Operators, rotated } from "../src/rotations.ts";
import { boxFields } from "../src/two_operators.ts";
import { MESSAGES } from "../pages/audit/operators_messages.ts";
import { VERSION } from "../src/messages.ts";

/** As it stands in a file: text, null, or lists and objects of such. */
export type Json = string | null | Json[] | { [name: string]: Json };

export interface Vector {
  claim: string;
  operation: string;
  inputs: { [name: string]: Json };
  output?: Json;
  error?: string;
  fault?: string;
  /** How far a number may be from the output; without it, it is the same. */
  within?: string;
}

export type Files = { [name: string]: Vector[] };

/** What is wrong with the answer to a vector; null if nothing is. */
export async function problemOf(vector: Vector): Promise<string | null> {
  const operation = OPERATIONS[vector.operation];
  if (operation === undefined) return `there is no operation ${vector.operation}`;
  let answer: unknown;
  try {
    answer = await operation(new Inputs(vector.inputs));
  } catch (error) {
    if (vector.error === undefined) return `refused: ${error instanceof Error ? error.stack : error}`;
    const found = error instanceof PrirecError ? error.name : String(error);
    if (found !== vector.error) return `refused as ${found}, not as ${vector.error}`;
    const fault = error instanceof PeerError ? error.fault : undefined;
    return fault === vector.fault ? null : `refused for ${fault}, not for ${vector.fault}`;
  }
  if (vector.error !== undefined) return `not refused as ${vector.error}`;
  return difference(answer ?? null, vector.output ?? null, Number(vector.within ?? 0));
}

function difference(found: unknown, expected: Json, within: number, at = "answer"): string | null {
  if (Array.isArray(expected)) {
    const list = isList(found) ? Array.from(found) : null;
    if (list === null || list.length !== expected.length) return `${at} has not ${expected.length} parts`;
    return firstOf(expected.map((one, i) => difference(list[i], one, within, `${at}[${i}]`)));
  }
  if (expected !== null && typeof expected === "object") {
    if (found === null || typeof found !== "object") return `${at} is not an object`;
    return firstOf(
      Object.entries(expected).map(([name, one]) => difference((found as never)[name], one, within, `${at}.${name}`)),
    );
  }
  if (typeof found === "number" && typeof expected === "string") {
    const wanted = number(expected);
    const same = within > 0 ? Math.abs(found - wanted) <= within * Math.max(1, Math.abs(wanted)) : Object.is(found, wanted);
    return same ? null : `${at} is ${found}, not ${expected}`;
  }
  const flag = typeof found === "boolean" ? (found ? "True" : "False") : found;
  const text = found instanceof Uint8Array ? hex(found) : typeof found === "bigint" ? String(found) : flag;
  return text === expected ? null : `${at} is ${String(text)}, not ${expected}`;
}

function firstOf(problems: (string | null)[]): string | null {
  return problems.find((one) => one !== null) ?? null;
}

function isList(value: unknown): value is ArrayLike<unknown> {
  return Array.isArray(value) || (ArrayBuffer.isView(value) && !(value instanceof Uint8Array));
}

export function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function fromHex(text: string): Bytes {
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}

function number(text: string): number {
  return { nan: Number.NaN, inf: Infinity, "-inf": -Infinity }[text] ?? Number(text);
}

/** The inputs of a vector, in the types that an operation takes. */
class Inputs {
  readonly given: { [name: string]: Json };

  constructor(given: { [name: string]: Json }) {
    this.given = given;
  }

  text(name: string): string {
    return this.given[name] as string;
  }

  bytes(name: string): Bytes {
    return fromHex(this.text(name));
  }

  number(name: string): number {
    return number(this.text(name));
  }

  list(name: string): Json[] {
    return this.given[name] as Json[];
  }

  numbers(name: string): number[] {
    return (this.list(name) as string[]).map(number);
  }

  point(name: string): Point | null {
    return this.given[name] === null ? null : (this.numbers(name) as unknown as Point);
  }

  points(name: string): Point[] {
    return (this.list(name) as string[][]).map((point) => point.map(number) as unknown as Point);
  }

  part(name: string): Inputs {
    return new Inputs(this.given[name] as { [name: string]: Json });
  }

  /** Numbers, words and lists of words by their names. */
  values(): Values {
    return Object.fromEntries(
      Object.entries(this.given).map(([name, given]) => {
        const [kind, told] = given as [string, never];
        return [name, kind === "number" ? number(told) : told];
      }),
    );
  }

  octets(name: string): Bytes[] {
    return (this.list(name) as string[]).map(fromHex);
  }

  fields(name: string): Field[] {
    return (this.list(name) as [string, string][]).map(([kind, text]) => {
      if (kind === "bytes") return fromHex(text);
      return kind === "text" ? text : kind === "number" ? BigInt(text) : Number(text);
    });
  }

  parameters(): Parameters {
    const of = Object.fromEntries(Object.entries(this.given["parameters"] as never).map(([name, text]) => [name, Number(text)]));
    return new Parameters({
      dimension: of["dimension"]!, normBound: of["norm_bound"]!, chunk: of["chunk"]!, normChunk: of["norm_chunk"]!,
      proofs: of["proofs"]!, normProofs: of["norm_proofs"]!, checks: of["checks"]!, successes: of["successes"]!,
      alpha: of["alpha"]!,
    });
  }
}

/** Values of a message, where a field that takes a number is spelt with digits, and bytes with hex digits. */
function filled<T>(kind: Kind<T>, values: unknown): T {
  return kind.read(new Spelt(values) as never);
}

/** Reads lists of texts as the codec reads bytes. */
class Spelt {
  private readonly stack: unknown[];

  constructor(value: unknown) {
    this.stack = [value];
  }

  get left(): number {
    return Infinity;
  }

  private next(): unknown {
    return this.stack.pop();
  }

  sized(most: number): number {
    const value = this.next();
    if (Array.isArray(value)) {
      this.stack.push(...value.toReversed());
      return value.length;
    }
    const bytes = most < 0 ? fromHex(value as string) : new TextEncoder().encode(value as string);
    this.stack.push(bytes);
    return bytes.length;
  }

  take(): Bytes {
    return this.next() as Bytes;
  }

  whole(): bigint {
    return BigInt(this.next() as string);
  }

  /** Of a flag. */
  byte(): number {
    return this.next() === "True" ? 0xc3 : 0xc2;
  }

  real(): number {
    return number(this.next() as string);
  }
}

function messageKind(tag: string | null): Tagged<never> | undefined {
  return MESSAGES.find((kind) => kind.tag === tag) as Tagged<never> | undefined;
}

function message(i: Inputs): Bytes {
  const tag = i.text("tag");
  const kind = messageKind(tag)!;
  const values = [tag, String(VERSION), i.given["of"], i.given["sender"], i.given["receiver"], ...i.list("fields")];
  return encode(kind, filled(kind, values));
}

/** The parts of a message in their order; a number is spelt with digits. */
function read(i: Inputs): unknown {
  const data = i.bytes("data");
  const tag = tagOf(data);
  const kind = messageKind(tag) ?? MESSAGES[0]!;
  const { version: _, ...rest } = readMessage(kind as Kind<Record<string, unknown>>, data);
  return [tag, ...Object.values(parts(rest) as never)];
}

function parts(value: unknown): unknown {
  if (value instanceof Uint8Array || typeof value !== "object" || value === null) return value;
  return Object.values(value).map(parts);
}

async function reportSigned(i: Inputs): Promise<Bytes> {
  const [leaderBox, helperBox] = i.octets("boxes") as [Bytes, Bytes];
  const round = { deployment: new Uint8Array(16), kind: "k", number: 1, group: 0, attempt: 0 };
  return signedOf({
    version: VERSION, round, sender: i.bytes("name"), receiver: new Uint8Array(32), nonce: i.bytes("nonce"),
    held: i.bytes("held"), public: i.bytes("public"), leaderBox, helperBox,
  });
}

function task(i: Inputs): Promise<Bytes> {
  const values = ["prirec joint task", String(VERSION), i.given["of"], i.given["terms"], i.given["model"], ...i.list("operators"), i.given["listed"],
    i.given["people"]];
  return digestOf(jointStatement, filled(jointStatement, values));
}

function noisySums(i: Inputs): NoisySums {
  return {
    opened: i.numbers("opened"), predicted: i.numbers("predicted"), weight: i.numbers("weight"), sigma: i.number("sigma"),
    shape: i.number("shape"), many: i.given["many"] === undefined ? 0 : i.number("many"),
    averages: ((i.given["averages"] ?? []) as never[]).map((given) => new Inputs(given)).map((one) => averageKnown(one, one.numbers("opened"))),
  };
}

function averageKnown(i: Inputs, opened: readonly number[]): AverageKnown {
  return {
    column: i.text("column"), low: i.number("low"), high: i.number("high"), middle: i.number("middle"), spread: i.number("spread"),
    opened,
  };
}

function knownPlaces(i: Inputs): KnownPlaces {
  return {
    ids: i.list("ids") as string[],
    words: i.list("ids") as string[],
    rows: i.numbers("rows"),
    location: i.points("location"),
    features: (i.list("features") as string[][]).map((row) => Float32Array.from(row, number)),
    sums: i.given["sums"] === undefined ? null : noisySums(i.part("sums")),
    released: (i.list("released") as string[][]).map((row) => row.map(number)),
  };
}

function visits(i: Inputs): Visit[] {
  return (i.list("visits") as [string, string, string | null, string, never][]).map(([id, place, time, label, context]) => ({
    id, place, time: time === null ? null : Number(time), label: Number(label) as 1, context: new Inputs(context).values(),
  }));
}

async function ownData(i: Inputs): Promise<OwnData> {
  return {
    profile: i.part("profile").values(), home: i.point("home"), visits: visits(i), labelled: i.text("labelled") === "1",
    negativesSecret: await derive(i.bytes("secret"), "prirec places not visited"),
    added: new Map(((i.given["added"] ?? []) as [string, string][]).map(([row, much]) => [Number(row), Number(much)])),
  };
}

function recordRules(i: Inputs): RecordRules {
  return {
    ratio: i.number("ratio"), negatives: i.text("negatives") as RecordRules["negatives"],
    onlyEarlier: i.text("only_earlier") === "1",
  };
}

async function records(i: Inputs): Promise<unknown> {
  const encoding = readEncoding(utf8(i.text("encoding")));
  return encodeRecords(await ownData(i), encoding, recordRules(i.part("rules")), knownPlaces(i.part("known")), mostRecords(1));
}

/** A model as a device reads it, from documents. */
function sharedModel(i: Inputs): SharedModel {
  const columns = columnsOf(readEncoding(utf8(i.text("encoding"))));
  const told = i.part("scales");
  const floats = (name: string): Bytes => new Uint8Array(Float64Array.from(told.numbers(name)).buffer);
  const scaling = readScales({
    edition: new Uint8Array(32), personMean: floats("person_mean"), personSd: floats("person_sd"),
    momentMean: floats("moment_mean"), momentSd: floats("moment_sd"), positive: told.number("positive"),
    rootRecords: told.number("root_records"), wordFactor: floats("word_factor"), wordCentre: floats("word_centre"),
  }, columns);
  return SharedModel.read({ scales: new Uint8Array(32), iteration: 1, shared: i.bytes("shared") }, columns, scaling);
}

function rows(i: Inputs): unknown {
  const model = sharedModel(i);
  const features = (name: string): Float32Array => Float32Array.from(i.numbers(name));
  const a = personRow(features("person"), model.scaling);
  const place = placeRow(features("place"), model.columns);
  const b = model.fill({ place, moment: momentRow(features("context"), model.columns, model.scaling) });
  return { a, b, coefficients: model.coefficients(a) };
}

function published(i: Inputs): Published {
  const encoding = readEncoding(utf8(i.text("encoding")));
  return new Published(encoding, recordRules(i.part("rules")), knownPlaces(i.part("known")), sharedModel(i));
}

async function recommended(i: Inputs): Promise<unknown> {
  const here = i.point("here");
  const moment = { ...(here === null ? {} : { here }), ...(i.given["time"] === null ? {} : { time: i.number("time") }) };
  const of = published(i);
  const found = recommend(personOf(await ownData(i), of), of, { moment, k: i.number("many"), radiusKm: i.number("radius") });
  return found.map(({ place, distanceKm, probability, reasons }) => [place, distanceKm, probability, reasons.map(({ name, pull, words }) => [name, pull, words])]);
}

function code(i: Inputs): Code {
  return { clip: i.number("clip"), fractionBits: i.number("fraction_bits"), most: BigInt(i.text("most")) };
}

async function recordsOf(i: Inputs, model: SharedModel): Promise<Records> {
  const encoding = readEncoding(utf8(i.text("encoding")));
  const most = mostRecords(model.columns.width);
  return encodeRecords(await ownData(i), encoding, recordRules(i.part("rules")), knownPlaces(i.part("known")), most);
}

function chargeOf([deployment, kind, number, attempt, grains]: string[]): Charge {
  return {
    deployment: fromHex(deployment!), kind: kind!, number: Number(number), attempt: Number(attempt), what: "rounds",
    grains: BigInt(grains!),
  };
}

function ledger(i: Inputs): LedgerEntry[] {
  return (i.list("entries") as [string[], string][]).map(([paid, day]) => ({ charge: chargeOf(paid), day: Number(day) }));
}

function budget(i: Inputs): Budget {
  const [epsilon, delta, period] = i.numbers("budget") as [number, number, number];
  return { epsilon, delta, periodDays: period === 0 ? null : period };
}

const { charter, counts, editionWithAverages, figures, keyChange, manifest, model, names, offer, places, plainEdition, rotation, scales, start, window } = documents;
const DOCUMENTS = [charter, counts, plainEdition, editionWithAverages, figures, manifest, model, names, offer, places, rotation, scales, start, window] as Tagged<Record<string, unknown>>[];

function documentKind(i: Inputs): Tagged<Record<string, unknown>> {
  return DOCUMENTS.find((kind) => kind.tag === i.text("kind"))!;
}

function document(i: Inputs): Bytes {
  return encode(documentKind(i), filled(documentKind(i), [i.text("kind"), ...i.list("fields")]));
}

async function readDocument(i: Inputs): Promise<unknown> {
  const found = parts(await documents.readDocument(documentKind(i), i.bytes("data"), i.bytes("name"))) as unknown[];
  const [change, ...signatures] = found;
  return i.text("kind") === rotation.tag ? [[keyChange.tag, ...(change as unknown[])], ...signatures] : found;
}

async function log(i: Inputs): Promise<unknown> {
  const { entries } = decode(documents.logPage, i.bytes("data"));
  const head = { length: i.number("length"), last: i.bytes("last") };
  const { length, last } = await documents.headAfter(head, entries, i.bytes("deployment"), i.bytes("operator"));
  return [length, last];
}

function windowOf(fields: Json[]): documents.Window {
  return filled(window, ["prirec window", ...fields]);
}

async function coSigned(i: Inputs): Promise<unknown> {
  const signed = decode(documents.signedCoSignature, i.bytes("data"));
  await documents.verifyCoSignature(signed, i.bytes("helper"), i.bytes("deployment"));
  const { length, last, time } = signed.statement;
  return [BigInt(length), last, BigInt(time)];
}

async function rotatedTo(i: Inputs): Promise<unknown> {
  let now: Operators = { recommender: i.bytes("recommender"), helper: i.bytes("helper"), rotations: [] };
  for (const said of i.list("rotations") as string[]) {
    now = await rotated(now, decode(documents.rotation, fromHex(said)), i.bytes("deployment"));
  }
  await checkOperators(now, i.bytes("deployment"));
  return [now.recommender, now.helper];
}

function inForce(i: Inputs): unknown {
  const latest = new Map<string, Bytes>();
  const begun = new Set<string>();
  const [deployment, previous, signature] = [16, 32, 64].map((size) => new Uint8Array(size));
  for (const [subject, document] of i.list("entries") as [documents.SignedEntry["entry"]["subject"], string][]) {
    const entry = { version: 1, deployment: deployment!, index: 0, previous: previous!, subject, document: fromHex(document) };
    apply(latest, { entry, signature: signature! }, begun);
  }
  return [...latest].toSorted(([one], [other]) => (one < other ? -1 : 1));
}

function release(i: Inputs): unknown {
  const norm = Norm.fineEnough(i.number("sensitivity"), i.number("entries"));
  const asked = {
    epsilon: i.number("epsilon"), delta: i.number("delta"), parts: i.numbers("parts"), which: i.number("which"),
    times: i.number("times"),
  };
  return [norm.fractionBits, boundIn(norm), noiseOf(asked, norm)].map(BigInt);
}

const OPERATIONS: { [name: string]: (i: Inputs) => unknown } = {
  encode: (i) =>
    new FixedPoint({
      summands: i.number("summands"), bound: i.number("bound"), fractionBits: i.number("fraction_bits"),
      ringBits: i.number("ring_bits"),
    }).encode(i.numbers("values")),
  derive: (i) => derive(i.bytes("secret"), ...i.fields("fields")),
  agreement_public: async (i) => (await AgreementKey.of(i.bytes("secret"))).public,
  agree: async (i) => (await AgreementKey.of(i.bytes("secret"))).agree(i.bytes("peer")),
  signing_public: async (i) => (await SigningKey.of(i.bytes("secret"))).public,
  sign: async (i) => {
    const key = await SigningKey.of(i.bytes("secret"));
    return key.sign(i.bytes("message")); // Node and Chromium give the same signature each time
  },
  verify: (i) => verify(i.bytes("public"), i.bytes("signature"), i.bytes("message")),
  open_box: async (i) => (await AgreementKey.of(i.bytes("secret"))).openBox(i.bytes("box"), ...i.fields("fields")),
  key_stream: (i) => keyStream(i.bytes("key"), i.bytes("start"), i.number("size")),
  report: async (i) => {
    const made = await shard(i.parameters(), i.numbers("vector"), i.bytes("nonce"), i.bytes("randomness"));
    return made === null ? null : [made.public, made.leader, made.helper];
  },
  length: (i) => directionOf(i.numbers("values")).length,
  within_norm: (i) =>
    new Norm(i.number("sensitivity"), i.number("fraction_bits")).within(Float64Array.from(i.numbers("whole"))) ? 1 : 0,
  unit_vector: (i) => Object.values(directionOf(i.numbers("values"))),
  clipped: (i) => Array.from(new Norm(i.number("sensitivity"), i.number("fraction_bits")).clipped(i.numbers("values")), BigInt),
  scaled: (i) => Array.from(new Norm(i.number("sensitivity"), i.number("fraction_bits")).scaled(i.numbers("values")), BigInt),
  person: (i) => encodePerson(readEncoding(utf8(i.text("encoding"))), i.part("profile").values(), i.point("home") ?? NOWHERE),
  read_encoding: (i) => Object.values(readEncoding(i.bytes("data"))).map((blocks: unknown[]) => BigInt(blocks.length)),
  records,
  rows,
  own_model: async (i) => personOf(await ownData(i), published(i)).coefficients,
  recommend: recommended,
  negatives: (i) =>
    drawNegatives(
      (i.list("visits") as [string, string][]).map(([id, place]) => ({ id, place: Number(place) })),
      { rows: i.numbers("rows"), location: i.points("location") },
      { ratio: i.number("ratio"), negatives: i.text("among") as RecordRules["negatives"] },
      i.bytes("secret"),
    ),
  word_bucket: (i) =>
    encodeColumn({ type: "hashed", column: i.text("column"), buckets: i.number("buckets") }, i.text("word")).indexOf(1),
  log_delta: (i) => Math.log(deltaOf(BigInt(i.text("grains")), i.number("epsilon"))),
  epsilon: (i) => epsilonOf(BigInt(i.text("grains")), i.number("delta")),
  price: (i) => priceOf(new Norm(i.number("sensitivity"), i.number("fraction_bits")), i.number("noise")),
  admit: (i) => admit(ledger(i), chargeOf(i.list("charge") as string[]), budget(i), i.number("day")),
  how_many_more: (i) => howManyMore(ledger(i), BigInt(i.text("grains")), budget(i), i.number("day")),
  visits_contribution: (i) =>
    Array.from(visitsContribution(i.number("places"), (i.list("means") as string[][]).map((one) => one.map(Number)), new Norm(i.number("sensitivity"), i.number("fraction_bits"))), BigInt),
  moments_contribution: async (i) => {
    const model = sharedModel(i);
    return Array.from(momentsContribution(await recordsOf(i, model), model.columns, code(i)), BigInt);
  },
  gradient_contribution: async (i) => {
    const model = sharedModel(i);
    return Array.from(gradientContribution(model.scaled(await recordsOf(i, model)), model, code(i)), BigInt);
  },
  quality_contribution: (i) => {
    const hit = i.given["hit"] === null ? null : i.text("hit") === "1";
    const found = { labels: i.numbers("labels") as (1 | -1)[], scores: i.numbers("scores"), hit };
    return Array.from(qualityContribution(found, new Norm(1, i.number("fraction_bits"))), BigInt);
  },
  measured: async (i) => {
    const found = measured(await ownData(i), published(i), i.number("share"));
    return [found.labels, found.scores, found.hit === null ? null : Number(found.hit)];
  },
  held_out: async (i) => {
    const out = isHeldOut({ negativesSecret: await derive(i.bytes("secret"), "prirec places not visited") }, i.number("share"));
    return (i.list("places") as string[]).map((place) => Number(out(place)));
  },
  own_means: (i) => {
    const block = { type: "range", column: i.text("column"), low: i.number("low"), high: i.number("high") } as const;
    return ownMeans({ visits: visits(i) }, block, knownPlaces(i.part("known"))).map(({ place, mean }) => [BigInt(place), mean]);
  },
  own_average: (i) => ownAverage(
    averageKnown(i, [i.number("opened")]), i.number("sigma"), 0, i.number("released"), i.number("visitors"), i.number("own_visitors"), i.number("added"),
  ),
  own_part: (i) => {
    const place = { opened: [i.number("opened")], predicted: [i.number("predicted")], weight: [i.number("weight")] };
    const noise = { sigma: i.number("sigma"), shape: i.number("shape") };
    return ownPart({ ...place, ...noise }, 0, i.number("released"), i.number("added"));
  },
  message,
  read,
  document,
  read_document: readDocument,
  log,
  release,
  window_bound: (i) => documents.boundOf(windowOf(i.list("fields"))),
  extended: (i) => refuseOtherWindow(windowOf(i.list("before")), windowOf(i.list("now"))),
  co_signed: coSigned,
  in_force: inForce,
  rotated: rotatedTo,
  task,
  report_signed: reportSigned,
  box_fields: (i) =>
    boxFields(i.text("role") as "leader", {
      held: i.bytes("held"), name: i.bytes("name"), nonce: i.bytes("nonce"), public: i.bytes("public"),
    }),
};

/** What operators and members of masked sums do, and a device in TypeScript does not. */
const NOT_OF_A_DEVICE = new Set([
  "decode", "additive_split", "additive_combine", "shamir_split", "shamir_combine", "stretch", "verifier_shares",
  "accept", "verification_key", "accepted", "closed", "commitment", "sum_signed",
  "envelope", "read_asked", "read_answer",
]);

/** The vectors that concern a device. */
export function ofADevice(files: Files): { name: string; vector: Vector }[] {
  return Object.entries(files).flatMap(([file, vectors]) =>
    vectors
      .filter((vector) => !NOT_OF_A_DEVICE.has(vector.operation))
      .map((vector) => ({ name: `${file}: ${vector.operation}: ${vector.claim}`, vector })),
  );
}
