/**
 * Everything that a recommender ever published, verified entry by entry: what each entry says, and whether it holds.
 *
 * Knows no page and no network: bytes come from a `Source`. It believes nothing but keys that whoever looks has compared.
 * What is checked of an entry: that it goes on from the one before, the recommender's signature, the helper's signature on
 * a head that covers it, the hash of its document, that the document follows from those before it, and, of popularity,
 * that it is what follows from the opened sums.
 */

import { type Bytes, same, sha256 } from "../../src/bytes.ts";
import { hello, jointHello } from "../../src/client.ts";
import { decode, decodeOneOf, encode, type Of } from "../../src/codec.ts";
import {
  charter, type Charter, counts, type Edition, edition, figures, logEntry, logPage, manifest, type Model, model, MOST_ENTRIES, names,
  numbersIn, offer, places, readDocument, rotation, type Rotation, rotations, type Scales, scales, type SignedCoSignature, type SignedEntry, start,
  verifyCoSignature, type Window, window as windowOf,
} from "../../src/documents.ts";
import { verify } from "../../src/keys.ts";
import { digestOf } from "../../src/messages.ts";
import { POPULARITY, popularityOf } from "../../src/popularity.ts";
import { checkOperators, firstOf, type Operators, rotated } from "../../src/rotations.ts";
import { count, fromTo, moment } from "../../ui/words.ts";

const OLD = 24 * 3600; // seconds after which devices follow no signature of the helper's
const CLOSE = 1e-6; // popularity is computed in floats, by other programs than this one
const SHOWN = 3; // places that are named of those that do not follow

/** Where the bytes come from. */
export interface Source {
  deployment(): Promise<Bytes>;
  log(after: number): Promise<Bytes>;
  rotations(): Promise<Bytes>;
  /** undefined: there is none at this address. */
  document(address: string): Promise<Bytes | undefined>;
}

export type Outcome = "good" | "bad" | "unknown";

export interface Check {
  readonly what: string;
  readonly outcome: Outcome;
  /** What is wrong, or why nothing is known. */
  readonly why?: string;
}

export interface AuditedEntry {
  readonly index: number;
  readonly subject: string;
  readonly document: string;
  readonly bytes: number;
  /** What it says, in words. */
  readonly about: string;
  readonly checks: readonly Check[];
}

export interface Deployment {
  readonly title: string;
  readonly id: string;
  readonly recommender: string;
  /** undefined: there is none. */
  readonly helper?: string | undefined;
  /** How far the helper has signed, and when; undefined: not at all. */
  readonly signed?: { readonly length: number; readonly time: number } | undefined;
  readonly checks: readonly Check[];
}

/** Reads and verifies all of it; `told` is called after each step. `now` is in seconds since 1970. */
export async function audit(source: Source, now: number, told: (deployment: Deployment, entries: readonly AuditedEntry[], all: number) => void): Promise<void> {
  const { tag, value } = decodeOneOf([hello, jointHello], await source.deployment());
  const recommender = value.recommender;
  const helper = tag === jointHello.tag ? (value as Of<typeof jointHello>).helper : undefined;
  const { rotations: found } = decode(rotations, await source.rotations());
  const operators: Operators = { recommender, helper: helper ?? new Uint8Array(0), rotations: found };
  const { entries, cosigned } = await wholeLog(source);
  const { checks, length } = await covered(cosigned, entries, helper, value.deployment, now);
  const leads = await holdsIf("rotations lead to these keys", () => checkOperators(operators, value.deployment));
  if (found.length > 0) checks.push(leads);
  const deployment: Deployment = {
    title: value.title, id: hex(value.deployment), recommender: hex(recommender), helper: helper && hex(helper),
    signed: cosigned === null ? undefined : { length: cosigned.statement.length, time: cosigned.statement.time }, checks,
  };
  const done: AuditedEntry[] = [];
  told(deployment, done, entries.length);
  const follows = new Follows(source, value.deployment, operators);
  let last: Bytes = new Uint8Array(32);
  for (const [at, signed] of entries.entries()) {
    const { entry } = signed;
    const { recommender } = follows.operators;
    const holds = [
      check("goes on from the entry before", same(entry.deployment, value.deployment) && entry.index === at && same(entry.previous, last), "it does not: an entry before it was changed, left out or put in"),
      await holdsIf("signed by the recommender", () => verify(recommender, signed.signature, encode(logEntry, entry))),
      ...(helper === undefined ? [] : [signedByHelper(at, length)]),
    ];
    const found = await follows.document(signed);
    done.push({ index: at, subject: entry.subject, document: hex(entry.document), ...found, checks: [...holds, ...found.checks] });
    last = await digestOf(logEntry, entry);
    told(deployment, done, entries.length);
  }
  if (follows.operators.rotations.length >= found.length) return;
  const lacking = bad("the log has all rotations of keys", "new devices are told of one that is not in it, and refuse this log");
  told({ ...deployment, checks: [...checks, lacking] }, done, entries.length);
}

/** The worst of these. */
export function worst(checks: readonly Check[]): Outcome {
  return checks.some(({ outcome }) => outcome === "bad") ? "bad" : checks.some(({ outcome }) => outcome === "unknown") ? "unknown" : "good";
}

async function wholeLog(source: Source): Promise<{ entries: SignedEntry[]; cosigned: SignedCoSignature | null }> {
  const entries: SignedEntry[] = [];
  for (;;) {
    const page = decode(logPage, await source.log(entries.length));
    entries.push(...page.entries);
    if (page.entries.length < MOST_ENTRIES) return { entries, cosigned: page.cosigned };
  }
}

/** Whether the helper's signature holds, and how many entries it covers. */
async function covered(
  cosigned: SignedCoSignature | null, entries: readonly SignedEntry[], helper: Bytes | undefined, deployment: Bytes, now: number,
): Promise<{ checks: Check[]; length: number }> {
  const what = "signed by the helper";
  if (helper === undefined) return { checks: [{ what, outcome: "unknown", why: "this deployment has one operator: nobody recomputes what it publishes" }], length: 0 };
  if (cosigned === null) return { checks: [bad(what, "the helper has signed nothing of this log")], length: 0 };
  const { statement } = cosigned;
  const held = await holdsIf(what, () => verifyCoSignature(cosigned, helper, deployment));
  if (held.outcome !== "good") return { checks: [held], length: 0 };
  const head = entries[statement.length - 1];
  if (head === undefined || !same(await digestOf(logEntry, head.entry), statement.last)) {
    return { checks: [bad(what, "what the helper has signed is another log than this one")], length: 0 };
  }
  const age = now - statement.time;
  const fresh = check("the helper’s signature is fresh", age <= OLD, `it is ${Math.floor(age / 3600)} hours old: devices take part in nothing until there is a new one`);
  return { checks: [held, fresh], length: statement.length };
}

function signedByHelper(at: number, length: number): Check {
  const what = "covered by the helper’s signature";
  return at < length ? { what, outcome: "good" } : bad(what, "the helper has not signed it: no device follows the log so far");
}

/** What documents say, and whether each follows from those before it. */
class Follows {
  readonly #source: Source;
  /** Whose keys are in force here. */
  operators: Operators;
  readonly #deployment: Bytes;
  readonly #known: readonly Rotation[];
  #people = 0;
  #charter?: { address: Bytes; charter: Charter };
  #edition?: { address: Bytes; edition: Edition };
  #scales?: { address: Bytes; scales: Scales };
  #model?: Model;
  #window?: Window;
  #published?: Bytes;

  constructor(source: Source, deployment: Bytes, operators: Operators) {
    this.#source = source;
    this.#deployment = deployment;
    this.#known = operators.rotations;
    this.operators = firstOf(operators);
  }

  async document({ entry }: SignedEntry): Promise<{ about: string; bytes: number; checks: Check[] }> {
    if (entry.subject === "publication") this.#published = entry.document;
    const what = "its document has the hash that it names";
    const body = await this.#source.document(hex(entry.document));
    if (body === undefined) return { about: "its document is missing", bytes: 0, checks: [bad(what, "the recommender does not give it out")] };
    if (!same(await sha256(body), entry.document)) {
      return { about: "its document was changed", bytes: body.length, checks: [bad(what, "the bytes at its address have another hash")] };
    }
    const checks: Check[] = [{ what, outcome: "good" }];
    let about = "its document cannot be read";
    try {
      about = await this.#read(entry.subject, body, entry.document, checks);
    } catch (problem) {
      checks.push(bad("its document is one of its kind", (problem as Error).message.replace(/^[A-Z_]+: /, ""))); // without the code of whose fault it is
    }
    return { about, bytes: body.length, checks };
  }

  async #read(subject: SignedEntry["entry"]["subject"], body: Bytes, address: Bytes, checks: Check[]): Promise<string> {
    switch (subject) {
      case "catalogue": {
        const found = await readDocument(offer, body, address);
        await this.#regions(found.manifest, checks);
        return `a catalogue of ${count(found.places, "place")}, for campaigns from now on`;
      }
      case "start": {
        const found = await readDocument(start, body, address);
        const said = /preset = "(\w+)"/.exec(found.settings);
        return `a starting model, trained elsewhere${said === null ? "" : ` with the preset ${said[1]}`}: no budget of this deployment covers it`;
      }
      case "joined": {
        const found = await readDocument(names, body, address);
        this.#people += found.names.length;
        return `${count(found.names.length, "device")} joined; ${count(this.#people, "device")} may report`;
      }
      case "left": {
        const found = await readDocument(names, body, address);
        this.#people -= found.names.length;
        return `${count(found.names.length, "device")} left; ${count(this.#people, "device")} may report`;
      }
      case "charter": {
        const found = await readDocument(charter, body, address);
        const { recommender, helper } = this.operators;
        const named = same(found.recommender, recommender) && same(found.helper, helper);
        checks.push(check("names the operators of this deployment", named, "its operators are others than those of this deployment"));
        this.#charter = { address, charter: found };
        const { settings } = found;
        return `campaign ${found.campaign} begins: ${count(settings.iterations, "round")}, ε = ${settings.epsilonPerUser} and δ = ${settings.delta} for each person in total, no sum over fewer than ${count(settings.floor, "person")}`;
      }
      case "window": {
        const found = await readDocument(windowOf, body, address);
        checks.push(check("belongs to the campaign", this.#charter !== undefined && same(found.charter, this.#charter.address), "it is of another campaign"));
        checks.push(check("lists as many people as the log says", found.people === this.#people, `it says ${found.people}, the log ${this.#people}`));
        const floor = this.#charter?.charter.settings.floor ?? 0;
        checks.push(check("lists no fewer than the floor", found.people >= floor, `${found.people} are fewer than ${floor}`));
        const before = this.#window;
        const extends_ = before !== undefined && before.kind === found.kind && before.number === found.number;
        if (extends_) {
          const only = before.closes < found.closes && before.opens === found.opens && before.people === found.people && same(before.model, found.model);
          checks.push(check("extends the window, and changes nothing else", only, "more than its end differs from the window before"));
        }
        this.#window = found;
        const time = fromTo(found.opens, found.closes);
        return `${extends_ ? "the window is extended" : "a window opens"} for the sum of ${SUMS[found.kind]}: ${count(found.people, "device")} may report, ${time}`;
      }
      case "rotation": {
        const found = await readDocument(rotation, body, address);
        const { change } = found;
        const known = this.#known[this.operators.rotations.length];
        const followed = known !== undefined && same(encode(rotation, known), body);
        checks.push(check("is the one that who joins is told of", followed, "new devices are told of another, or of none"));
        checks.push(await this.#rotate(found));
        return `the ${change.role} has another key from here on, made ${moment(change.time)}: ${hex(change.new)}`;
      }
      case "edition": {
        const found = await readDocument(edition, body, address);
        checks.push(check("follows from the campaign’s sum", this.#charter !== undefined && same(found.charter, this.#charter.address), "it is of another campaign"));
        const looked = await this.#popularity(found, checks);
        this.#edition = { address, edition: found };
        return `the sum of visits is open: popularity of ${count(looked, "place")}; in each entry of the sum is noise with a standard deviation of ${found.sigma.toPrecision(3)}${found.shape === 0 ? ", and nothing rose out of it" : ""}`;
      }
      case "scales": {
        const found = await readDocument(scales, body, address);
        checks.push(check("follows from the edition", this.#edition !== undefined && same(found.edition, this.#edition.address), "it is of another edition"));
        this.#scales = { address, scales: found };
        return `the sum of moments is open: scales of ${found.personMean.length / 8} columns of people and ${found.momentMean.length / 8} of moments`;
      }
      case "figures": {
        const found = await readDocument(figures, body, address);
        checks.push(check("is of the published model", this.#published !== undefined && same(found.model, this.#published), "it is of another model"));
        const floor = this.#charter?.charter.settings.floor ?? 0;
        checks.push(check("is over no fewer than the floor", found.reports >= floor, `${found.reports} are fewer than ${floor}`));
        const shown = found.figures.map((one) => `${FIGURES[one.name]} ${one.value.toFixed(3)} ± ${(2 * Math.hypot(one.noise, one.sampling)).toFixed(3)}`);
        return `the sum of quality figures is open, over ${count(found.reports, "report")}: ${shown.length === 0 ? "noise drowns all of them" : shown.join(", ")}`;
      }
      case "model":
      case "publication":
        return this.#shared(subject, await readDocument(model, body, address), checks);
    }
  }

  async #rotate(found: Rotation): Promise<Check> {
    const what = "signed by the old key, the new key and the other operator";
    try {
      this.operators = await rotated(this.operators, found, this.#deployment);
      return { what, outcome: "good" };
    } catch (problem) {
      return bad(what, (problem as Error).message);
    }
  }

  #shared(subject: "model" | "publication", found: Model, checks: Check[]): string {
    checks.push(check("follows from the scales", this.#scales !== undefined && same(found.scales, this.#scales.address), "it is of other scales"));
    const before = this.#model !== undefined && this.#scales !== undefined && same(this.#model.scales, found.scales) ? this.#model.iteration : undefined;
    const next = before === undefined ? found.iteration === 0 : found.iteration === before + 1;
    checks.push(check("is the next round’s", next, `it is after ${count(found.iteration, "round")}, the one before after ${before ?? "none"}`));
    if (found.iteration === 0) checks.push(check("begins from nothing", numbersIn(found.shared, "float32", found.shared.length / 4).every((one) => one === 0), "B is not 0 before the first round"));
    this.#model = found;
    const entries = `${(found.shared.length / 4).toLocaleString("en")} numbers`;
    return subject === "publication" ? `the campaign is over: B after ${count(found.iteration, "round")}, to recommend with` : `B after ${count(found.iteration, "round")}: ${entries}`;
  }

  /** Every region's documents have their hash. */
  async #regions(name: Bytes, checks: Check[]): Promise<void> {
    const what = "every region’s places have the hash that the catalogue names";
    const held = await this.#source.document(hex(name));
    if (held === undefined) return void checks.push(bad(what, "the list of regions is missing"));
    const { regions } = await readDocument(manifest, held, name);
    for (const region of regions) {
      const body = await this.#source.document(hex(region.places));
      if (body === undefined || !same(await sha256(body), region.places)) return void checks.push(bad(what, "a region’s places are missing, or were changed"));
      decode(places, body);
    }
    checks.push({ what, outcome: "good" });
  }

  /** What is released of each place is what follows from its opened sum. How many places there are. */
  async #popularity(found: Edition, checks: Check[]): Promise<number> {
    const what = "popularity is what follows from the opened sums";
    const held = await this.#source.document(hex(found.manifest));
    if (held === undefined) {
      checks.push(bad(what, "the list of regions is missing"));
      return 0;
    }
    const { regions } = await readDocument(manifest, held, found.manifest);
    const { popularity } = JSON.parse(new TextDecoder().decode(found.encoding)) as { popularity: readonly { column: string }[] };
    const own = popularity.findIndex(({ column }) => column === POPULARITY);
    const wrong: string[] = [];
    let many = 0;
    for (const region of regions) {
      const [body, catalogue] = [await this.#source.document(hex(region.counts)), await this.#source.document(hex(region.places))];
      if (body === undefined || catalogue === undefined || !same(await sha256(catalogue), region.places)) {
        checks.push(bad(what, "a region’s popularity is missing, or its places were changed"));
        return many;
      }
      const [sums, { ids }] = [await readDocument(counts, body, region.counts), decode(places, catalogue)];
      const of = ids.length;
      const columns = popularity.length;
      const each = 1 + found.averages.length; // of visits, then of each average
      const [released, opened, predicted] = [numbersIn(sums.released, "float64", of * columns), numbersIn(sums.sums, "float64", of * each), numbersIn(sums.predicted, "float64", of)];
      for (let at = 0; at < of && own >= 0; at += 1) {
        const expected = popularityOf(opened[at * each]!, predicted[at]!, found.sigma, found.shape);
        if (!(Math.abs(released[at * columns + own]! - expected) <= CLOSE * Math.max(1, Math.abs(expected)))) wrong.push(ids[at]!);
      }
      many += of;
    }
    const named = wrong.slice(0, SHOWN).join(", ");
    if (own < 0) checks.push(check("no popularity is published, since nothing rose out of the noise", found.shape === 0, "something did"));
    else checks.push(check(what, wrong.length === 0, `it is not, for ${count(wrong.length, "place")}: ${named}${wrong.length > SHOWN ? ", …" : ""}`));
    return many;
  }
}

export const SUMS = { popularity: "visits", moments: "moments", interaction: "gradients of B", quality: "quality figures" } as const;

const FIGURES = { auc: "AUC", log_loss: "log loss", base_rate: "share of positives", hit_rate: "hit rate in the first ten" } as const;

export function check(what: string, holds: boolean, why: string): Check {
  return holds ? { what, outcome: "good" } : bad(what, why);
}

function bad(what: string, why: string): Check {
  return { what, outcome: "bad", why };
}

export async function holdsIf(what: string, holds: () => Promise<void>): Promise<Check> {
  try {
    await holds();
    return { what, outcome: "good" };
  } catch {
    return bad(what, "the signature does not hold");
  }
}

export function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (one) => one.toString(16).padStart(2, "0")).join("");
}
