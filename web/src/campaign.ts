/**
 * The sums of a campaign over two operators, derived from its charter by every device alike: nobody is told a price. A
 * campaign sums visits once, then moments once, then in each round everyone's gradients of B. Terms, noise and hashes come
 * to the same bits as in the Python package (wire/campaign.py, privacy/plan.py), whose operators hold the same.
 */

import { GRAINS, planned } from "./accountant.ts";
import { type Bytes, joined, same, sha256, utf8 } from "./bytes.ts";
import type { Code } from "./contributions.ts";
import { type Columns, columnsOf, MOST_NUMBERS, MOST_WORDS, readScales, type Scaling } from "./columns.ts";
import {
  boundOf, type CampaignSettings, type Charter, charter as charterKind, type Edition, edition as editionKind, type Model,
  MOST_AVERAGES, type Offer, type Scales, scales as scalesKind, type SumKind, type Window,
} from "./documents.ts";
import { type Encoding, readEncoding, width } from "./encoding.ts";
import { PeerError, PolicyError, UsageError } from "./errors.ts";
import { FixedPoint, units } from "./fixed_point.ts";
import { digestOf, type JointStatement, type Round, type Terms, VERSION } from "./messages.ts";
import { Norm } from "./norm.ts";
import { FIGURES_LENGTH } from "./quality.ts";
import type { RecordRules } from "./records.ts";
import { SharedModel } from "./shared_model.ts";
import { HARD_FLOOR } from "./two_operators.ts";

export const SPAN = 2 ** 16; // round numbers of a campaign: numbers never repeat within a deployment
const ROUNDING = 1.001; // a vector scaled to its norm may have an entry a few bits larger than it
const VISITED = 100; // places that a typical person visited

// What a device accepts, whoever signed it: far wider than anything honest
const MOST_CAMPAIGNS = 2 ** 15;
const MOST_FEATURES = 65_536;
const MOST_RATIO = 20;
const MOST_SHARED = 2 ** 20;
const MOST_HELD_OUT = 500; // in thousandths
const ROOM = 16 * 2 ** 20 - 2 ** 16; // bytes for a vector in a message

/** What records are encoded by, and a model is read under: a catalogue and settings; with an edition popularity, with
 * scales those of its columns. Made once for the same documents. */
export class Basis {
  readonly offered: Offer | Charter;
  readonly rules: RecordRules;
  readonly edition: Edition | null;
  readonly scales: Scales | null;
  readonly encoding: Encoding;
  readonly columns: Columns;
  private scalingRead: Scaling | null = null;

  /** PolicyError before anything of the announced sizes is allocated. */
  constructor(offered: Offer | Charter, rules: RecordRules, edition: Edition | null, scales: Scales | null) {
    this.offered = offered;
    this.rules = rules;
    this.edition = edition;
    this.scales = scales;
    this.encoding = readEncoding(edition === null ? offered.encoding : edition.encoding);
    refuseOversized(this.encoding, offered.places, rules.ratio);
    this.columns = columnsOf(this.encoding);
  }

  /** What columns are scaled by; null before the sum of moments is open. PeerError for scales beyond all use. */
  get scaling(): Scaling | null {
    if (this.scales === null) return null;
    return (this.scalingRead ??= readScales(this.scales, this.columns));
  }

  /** A published model. PeerError if it is none under these scales. */
  async shared(model: Model): Promise<SharedModel> {
    if (this.scales === null || this.scaling === null || !same(model.scales, await digestOf(scalesKind, this.scales))) {
      throw new PeerError("PARAMS_MISMATCH", "the model is another campaign's");
    }
    return SharedModel.read(model, this.columns, this.scaling);
  }
}

/** The rules for a catalogue with which no campaign has begun yet. */
export const USUAL_RULES: RecordRules = { ratio: 1, negatives: "uniform", onlyEarlier: false };

/** A sum that a device may take part in: all that the operators hold alike, and what it costs. */
export interface JointSum {
  readonly round: Round;
  readonly task: JointStatement;
  readonly norm: Norm;
}

/** A charter and what follows from it: with an edition the sum of moments, with scales the sums of its rounds. */
export class Campaign extends Basis {
  readonly charter: Charter;
  /** The hash of the charter. */
  readonly name: Bytes;
  /** Contributions to the sums of moments and gradients, once there is an edition. */
  private readonly releases: ReadonlyMap<SumKind, Release>;

  private constructor(name: Bytes, charter: Charter, edition: Edition | null, scales: Scales | null) {
    const { ratio, negatives, onlyEarlier } = charter.settings;
    super(charter, { ratio, negatives, onlyEarlier }, edition, scales);
    this.name = name;
    this.charter = charter;
    this.releases = releasesOf(charter, this.visitsLength, edition === null ? null : this.columns);
  }

  /** PolicyError for settings that nobody may choose, or that this device takes no part in. */
  static async of(charter: Charter, edition: Edition | null = null, scales: Scales | null = null): Promise<Campaign> {
    refuseSettings(charter, readEncoding(charter.encoding));
    return new Campaign(await digestOf(charterKind, charter), charter, edition, scales);
  }

  get settings(): CampaignSettings {
    return this.charter.settings;
  }

  /** Of a person's contribution to the sum of visits. */
  get visitsNorm(): Norm {
    return visitsNorm(this.visitsLength);
  }

  /** Of a vector of visits: the places and, for each average, the places again. */
  private get visitsLength(): number {
    return this.charter.places * (1 + this.encoding.averages.length);
  }

  /** Of the longest vector that a device adds to a sum, now. */
  get entries(): number {
    return Math.max(...[...this.releases.values()].map(({ length }) => length).slice(this.edition === null ? 0 : 1));
  }

  /** How long a contribution may be, and how it is written. */
  code(kind: "moments" | "interaction"): Code {
    const { norm, length } = this.release(kind);
    const spare = Math.sqrt(length) / 2 ** (norm.fractionBits + 1);
    const bound = BigInt(boundIn(norm));
    return {
      clip: Math.max(norm.sensitivity - spare, norm.sensitivity / 2), fractionBits: norm.fractionBits, most: bound * bound,
    };
  }

  /** The round of this campaign that a round number stands for. */
  iteration(number: number): number {
    return number - this.charter.campaign * SPAN;
  }

  /** The sum of a window; B is that of the log, where a round has one. PeerError for a window of another sum than this
   * campaign is at, over another model, or of more people than it was sized for. */
  async joint(window: Window, B: SharedModel | null): Promise<JointSum> {
    const { charter } = this;
    if (!same(window.charter, this.name) || !same(window.model, await this.held(B))) {
      throw new PeerError("PARAMS_MISMATCH", "a window is of another campaign, or over another model");
    }
    if (!(charter.settings.floor <= window.people && window.people <= charter.most)) {
      throw new PeerError("PARAMS_MISMATCH", "a window lists fewer people than the floor, or more than the most");
    }
    const { norm, length, noise } = this.release(window.kind);
    const round: Round = { deployment: charter.deployment, kind: window.kind, number: window.number, group: 0, attempt: 0 };
    const terms: Terms = {
      method: "two_operators", length, ringBits: 64, fractionBits: norm.fractionBits, bound: boundIn(norm),
      floor: charter.settings.floor, corrupt: 0, lost: 0, noise,
    };
    const task: JointStatement = {
      version: VERSION, round, terms, model: await boundOf(window),
      leader: charter.recommender, leaderBox: charter.leaderBox, helper: charter.helper, helperBox: charter.helperBox,
      listed: window.listed, people: window.people,
    };
    return { round, task, norm };
  }

  /** The hash of what everyone in a round must hold alike: the charter, the edition and the scales once there are any, and
   * B. They name everything else by hash. */
  async held(B: SharedModel | null): Promise<Bytes> {
    if (this.edition === null) return this.name;
    const named = [await digestOf(editionKind, this.edition)];
    if (this.scales !== null) named.push(await digestOf(scalesKind, this.scales));
    return sha256(joined(utf8("prirec held"), this.name, ...named, await modelHash(B)));
  }

  private release(kind: SumKind): Release {
    const found = this.releases.get(kind);
    if (found === undefined && kind === "quality" && this.edition !== null) {
      throw new PeerError("PARAMS_MISMATCH", "a window is of quality figures, which this campaign does not take");
    }
    if (found === undefined) throw new PolicyError("the columns are known when the sum of visits is open");
    return found;
  }
}

/** The hash of shape and every bit of B, with the entries that are always 0. */
async function modelHash(B: SharedModel | null): Promise<Bytes> {
  if (B === null) return sha256(utf8("prirec model"));
  const { columns, everyone, crossing } = B;
  const content = new DataView(new ArrayBuffer(8 * (3 + (1 + columns.person) * columns.width)));
  [2, 1 + columns.person, columns.width].forEach((size, at) => content.setBigUint64(8 * at, BigInt(size), true));
  const put = (row: number, column: number, value: number): void =>
    content.setFloat64(8 * (3 + row * columns.width + column), value, true);
  everyone.forEach((value, column) => put(0, column, value));
  crossing.forEach((row, at) => row.forEach((value, j) => put(at + 1, columns.crossed[j]!, value)));
  return sha256(joined(utf8("prirec model"), new Uint8Array(content.buffer)));
}

// The plan: from one budget per person to the noise of every release

interface Release {
  readonly norm: Norm;
  readonly length: number;
  /** Variance that each operator adds, in whole numbers. */
  readonly noise: number;
}

function visitsNorm(entries: number): Norm {
  return Norm.fineEnough(1, Math.min(VISITED, entries));
}

export function boundIn(norm: Norm): number {
  return Math.floor(norm.sensitivity * 2 ** norm.fractionBits);
}

/** The noise of one of `times` releases of a kind of sum, which has this one of the parts of the budget: the variance that
 * hides a contribution of this norm, rounded up to a whole number. UsageError where nothing would be learnt. */
export function noiseOf(
  { epsilon, delta, parts, which, times }: {
    readonly epsilon: number; readonly delta: number; readonly parts: readonly number[]; readonly which: number;
    readonly times: number;
  },
  norm: Norm,
): number {
  const all = parts.reduce((sum, part) => sum + part, 0);
  const shares = parts.map((part) => units(part / all)); // the exact fractions of the floats
  const whole = shares.reduce((sum, share) => sum + share, 0n);
  // rounded down: all releases together stay within the budget
  const each = (shares[which]! * planned(epsilon, delta)) / (whole * BigInt(times));
  if (each < 2n ** 10n) throw new UsageError("a sum has so little of the budget that nothing would be learnt from it");
  const noise = (norm.square.above * GRAINS + norm.square.below * each - 1n) / (norm.square.below * each);
  if (noise > 2n ** 52n) throw new UsageError("a sum would have so much noise that nothing would be learnt from it");
  return Number(noise);
}

/** Without columns, visits alone. */
function releasesOf({ settings, most }: Charter, visits: number, columns: Columns | null): Map<SumKind, Release> {
  const { epsilonPerUser: epsilon, delta, iterations } = settings;
  const parts = [settings.popularity, settings.moments, settings.interaction, settings.quality];
  const release = (which: number, times: number, norm: Norm, length: number): Release => {
    // refuses one that could wrap
    new FixedPoint({ summands: most, bound: ROUNDING * norm.sensitivity, fractionBits: norm.fractionBits });
    return { norm, length, noise: noiseOf({ epsilon, delta, parts, which, times }, norm) };
  };
  const found = new Map<SumKind, Release>([["popularity", release(0, 1, visitsNorm(visits), visits)]]);
  if (columns !== null) {
    const { length, norm } = momentsOf(columns);
    found.set("moments", release(1, 1, Norm.fineEnough(norm, length), length));
    found.set("interaction", release(2, iterations, Norm.fineEnough(1, columns.entries), columns.entries));
    if (settings.quality > 0) found.set("quality", release(3, 1, Norm.fineEnough(1, FIGURES_LENGTH), FIGURES_LENGTH));
  }
  return found;
}

/** The length of a vector of moments, and its norm: numbers and their squares count for a quarter each, a column of words
 * for one. */
function momentsOf(columns: Columns): { length: number; norm: number } {
  const numbers = [...columns.personWords, ...columns.momentWords].filter((words) => !words).length;
  return {
    length: columns.person + columns.moment + numbers + 3,
    norm: Math.sqrt(numbers / 2 + columns.wordBlocks + 3),
  };
}

// What is refused

function refuseSettings(charter: Charter, { averages }: Encoding): void {
  const s = charter.settings;
  const boxes = [charter.leaderBox, charter.helperBox];
  const wrong: readonly (readonly [string, boolean])[] = [
    ["operators: this device reports to two alone", s.operators !== 2],
    ["two operators have a key each, and no roster", charter.helper.length !== 32 || boxes.some((key) => key.length !== 32)
      || same(charter.recommender, charter.helper) || same(charter.leaderBox, charter.helperBox)
      || charter.people.length > 0 || charter.many > 0],
    ["campaign: a deployment has at most 32,768 of them", charter.campaign >= MOST_CAMPAIGNS],
    ["epsilon_per_user: above 0 and at most 50", !(s.epsilonPerUser > 0 && s.epsilonPerUser <= 50)],
    ["delta: above 0 and below 1", !(s.delta > 0 && s.delta < 1)],
    ["popularity, moments and interaction each need a part of the budget", !(s.popularity > 0 && s.moments > 0 && s.interaction > 0)],
    ["iterations: from 1 to 65,000", !(s.iterations >= 1 && s.iterations <= 65_000)],
    [`floor: at least ${HARD_FLOOR}, and no more than the most people`, !(s.floor >= HARD_FLOOR && s.floor <= charter.most)],
    ["ring_bits: two operators sum in a field of 64 bits", s.ringBits !== 64],
    ["corrupt: at least 5%", s.corrupt < 50],
    ["lost: at least 10%", s.lost < 100],
    ["corrupt + 2 lost: below 100%", s.corrupt + 2 * s.lost >= 1000],
    ["roster: from 10% to all of the people", !(s.roster >= 0.1 && s.roster <= 1)],
    ["held_out: places are held out for quality figures alone, and half of them at most",
      (s.heldOut > 0) !== (s.quality > 0) || s.heldOut > MOST_HELD_OUT],
    ["averages: a column is named twice", new Set(averages.map(({ column }) => column)).size < averages.length],
    ["ratio: from 1 to 20 negatives for a visit", !(s.ratio >= 1 && s.ratio <= MOST_RATIO)],
  ];
  const problem = wrong.find(([, so]) => so);
  if (problem !== undefined) {
    throw new PolicyError(`the charter has settings that nobody may choose, or that this device takes no part in (${problem[0]})`);
  }
}

function refuseOversized(encoding: Encoding, places: number, ratio: number): void {
  const blocks = [...encoding.place, ...encoding.popularity, ...encoding.context];
  const clock = 5 * encoding.context.filter((block) => block.type === "clock").length;
  const products = (MOST_NUMBERS * (MOST_NUMBERS + 1)) / 2 + clock * MOST_WORDS;
  const wrong: readonly (readonly [string, boolean])[] = [
    [`encoding: there are at most ${MOST_FEATURES} features`, width([...encoding.person, ...blocks]) > MOST_FEATURES],
    ["encoding: the shared model would have more than 1,048,576 numbers; describe people or places by fewer columns",
      (1 + width(encoding.person)) * (1 + width(blocks) + products) > MOST_SHARED],
    [`encoding: there are at most ${MOST_AVERAGES} averages over visits`, encoding.averages.length > MOST_AVERAGES],
    ["places: a vector of visits would not fit into a message", places * (1 + encoding.averages.length) * 8 > ROOM],
    ["ratio: a device draws at most 20 negatives for a visit", ratio > MOST_RATIO],
  ];
  const problem = wrong.find(([, so]) => so);
  if (problem !== undefined) throw new PolicyError(`no device can be asked to follow this campaign (${problem[0]})`);
}
