/**
 * A device follows the recommender's signed log, up to the head that the helper has signed and no further, and stores the
 * documents in force. A `View` is the deployment at one moment, its documents checked against one another. All of it is
 * public. A campaign of an earlier version is passed over, as if it had not been.
 *
 * Whole regions are fetched, so that a request reveals no more than a region. Which regions a device has is private, so what
 * is in them never decides whether the log is followed. Regions that the person asked for beside those of the home are fetched
 * by themselves (`fetchAreas`): nothing that is sent under the device's name may wait for them.
 */

import { type Bytes, same, sha256 } from "./bytes.ts";
import { Basis, Campaign, USUAL_RULES } from "./campaign.ts";
import { type Client, UnavailableError } from "./client.ts";
import { decode, encode, type Tagged } from "./codec.ts";
import {
  charter as charterKind, type Charter, EarlierVersionError, edition as editionKind, type Edition,
  type Figures, figures as figuresKind, headAfter, type Head,
  manifest as manifestKind, model as modelKind, type Model, MOST_ENTRIES, names as namesKind, NO_LOG, offer as offerKind,
  readDocument, rotation, type Rotation, rotations, scales as scalesKind, type Scales, signedCoSignature, type SignedCoSignature, type SignedEntry, start as startKind,
  verifyCoSignature, window as windowKind, type Window, logEntry,
} from "./documents.ts";
import { PeerError, PolicyError, PrirecError, StateError } from "./errors.ts";
import { type Held, hex, type Member, operatorsOf } from "./held.ts";
import { digestOf } from "./messages.ts";
import type { KnownPlaces } from "./places.ts";
import type { RecordRules } from "./records.ts";
import { cellsAround, cellsBeside, type Reach, readRegions, refuseOtherPlaces, regionDocuments } from "./regions.ts";
import { firstOf, type Operators, rotated, wereInForce } from "./rotations.ts";
import { say } from "./sentences.ts";
import type { Change, Store } from "./storage.ts";

const MOST_IN_MEMORY = 16 * 2 ** 20; // bytes of documents that were fetched and are not on disk yet
const MOST_STORED = 256 * 2 ** 20; // bytes of documents in force
const MOST_NEW_ENTRIES = 2 ** 18; // of the log since a device last read it: some minutes of checking signatures
const MOST_BEGUN = 2 ** 15; // campaigns
/** What the log names that a device keeps. Entries of other subjects are read over. */
const SUBJECTS: readonly string[] = ["catalogue", "start", "charter", "edition", "scales", "model", "publication", "figures", "window"];
// a new campaign puts the edition, the scales and the model of the one before out of force; what it has learnt in the end,
// people have paid for, and a starting model never takes its place again
const SUPERSEDES: { readonly [subject: string]: readonly string[] } = {
  charter: ["edition", "scales", "model", "window"], publication: ["start", "figures"],
};

/** Public documents by their hash: on disk, fetched but not yet written or, with a source, to be fetched. */
class Documents {
  /** All that was asked for. */
  readonly needed = new Set<string>();
  readonly fetched: string[] = [];
  private readonly store: Store;
  private readonly source: Client | null;
  private fresh = new Map<string, Bytes>();
  private freshBytes = 0;
  private readonly counted = new Set<string>();
  private countedBytes = 0;
  /** Bytes on disk; null: not looked at, since nothing was written yet. */
  private onDisk: number | null = null;

  constructor(store: Store, source: Client | null) {
    this.store = store;
    this.source = source;
  }

  async body(name: Bytes): Promise<Bytes> {
    const key = hex(name);
    this.needed.add(key);
    const held = this.fresh.get(key) ?? ((await this.store.get("documents", key)) as Bytes | undefined);
    if (held !== undefined && same(await sha256(held), name)) return this.count(key, held);
    if (this.source === null) throw new StateError(say("missing"));
    const body = await this.source.document(key);
    if (!same(await sha256(body), name)) throw new PeerError("DECODE", "a document is not the one that was asked for");
    this.count(key, body);
    this.fetched.push(key);
    this.fresh.set(key, body);
    this.freshBytes += body.length;
    if (this.freshBytes > MOST_IN_MEMORY) await this.write();
    return body;
  }

  async stored(): Promise<ReadonlySet<string>> {
    return new Set(await this.store.keys("documents"));
  }

  keep(names: readonly Bytes[]): void {
    for (const name of names) this.needed.add(hex(name));
  }

  /** Fetches those that are not here. Where all are, none is read; else each counts, wherever it is. */
  async fetch(names: readonly Bytes[], stored: ReadonlySet<string>): Promise<void> {
    this.keep(names);
    if (names.every((name) => stored.has(hex(name)))) return;
    for (const name of names) await this.body(name);
  }

  /** Whether something was written before all was there. */
  get written(): boolean {
    return this.onDisk !== null;
  }

  private async write(): Promise<void> {
    await this.store.commit(await this.adding());
  }

  /** The rows of what was fetched. Beside the documents in force and these there may be some of tries that broke off. */
  async adding(): Promise<Change[]> {
    if (this.onDisk === null) {
      this.onDisk = 0;
      for (const key of await this.store.keys("documents")) {
        this.onDisk += ((await this.store.get("documents", key)) as Bytes).length;
      }
    }
    this.onDisk += this.freshBytes;
    if (this.onDisk > 2 * MOST_STORED) throw tooMuch();
    return this.saving();
  }

  async read<T>(kind: Tagged<T>, name: Bytes): Promise<T> {
    return readDocument(kind, await this.body(name), name);
  }

  /** The same where all that is in force was counted. In memory it is forgotten. */
  saving(): Change[] {
    const changes = [...this.fresh].map(([key, value]): Change => ({ table: "documents", key, value }));
    this.fresh = new Map();
    this.freshBytes = 0;
    return changes;
  }

  private count(key: string, body: Bytes): Bytes {
    if (!this.counted.has(key)) this.countedBytes += body.length;
    this.counted.add(key);
    if (this.countedBytes > MOST_STORED) throw tooMuch();
    return body;
  }
}

function tooMuch(): PolicyError {
  return new PolicyError(say("tooMuch", { megabytes: MOST_STORED / 2 ** 20 }));
}

/** A model to recommend with, and what it was learnt under. */
interface InForce {
  readonly model: Model;
  readonly basis: Basis;
  readonly words: string;
}

type Parts = Pick<
  View, "member" | "latest" | "cosigned" | "offered" | "campaign" | "window" | "model" | "published" | "figures" | "starting"
>;

function cosignedBy(member: Member): SignedCoSignature | null {
  return member.cosigned.length === 0 ? null : decode(signedCoSignature, member.cosigned);
}

/** The deployment at one moment. */
export class View {
  readonly member: Member;
  readonly latest: ReadonlyMap<string, Bytes>;
  readonly cosigned: SignedCoSignature | null;
  /** The catalogue for the next campaign. */
  readonly offered: Basis | null;
  readonly campaign: Campaign | null;
  /** The last window of the campaign, whose sum may be over. */
  readonly window: Window | null;
  /** B of the round that the campaign is in. */
  readonly model: Model | null;
  readonly published: InForce | null;
  /** How good the published model is, as far as noise lets anybody see; null: no sum of it was opened. */
  readonly figures: Figures | null;
  readonly starting: InForce | null;
  private readonly documents: Documents;
  private readonly reach: Reach;
  private readonly places: Map<Basis, Promise<KnownPlaces>>;

  private constructor(documents: Documents, reach: Reach, parts: Parts, places = new Map<Basis, Promise<KnownPlaces>>()) {
    this.documents = documents;
    this.reach = reach;
    this.places = places;
    this.member = parts.member;
    this.latest = parts.latest;
    this.cosigned = parts.cosigned;
    this.offered = parts.offered;
    this.campaign = parts.campaign;
    this.window = parts.window;
    this.model = parts.model;
    this.published = parts.published;
    this.figures = parts.figures;
    this.starting = parts.starting;
  }

  /** PeerError for documents that contradict each other, StateError for one that is not here. */
  static async read(member: Member, latest: ReadonlyMap<string, Bytes>, documents: Documents, reach: Reach): Promise<View> {
    const { campaign, model } = await campaignOf(member, latest, documents);
    const window = campaign !== null && latest.has("window") ? await documents.read(windowKind, latest.get("window")!) : null;
    const published = await publishedOf(member, latest, documents);
    return new View(documents, reach, {
      member, latest, campaign, model, window, published, figures: await figuresOf(latest, documents), cosigned: cosignedBy(member),
      offered: await offeredOf(member, latest, documents),
      starting: published !== null || !latest.has("start") ? null : await startingOf(member, latest.get("start")!, documents),
    });
  }

  /** The same documents for a device that has read further in a log without news. */
  renewed(member: Member): View {
    return new View(this.documents, this.reach, { ...this, member, cosigned: cosignedBy(member) }, this.places);
  }

  /** What visits are recorded at: the campaign's catalogue or, before the first one, the offered one. */
  get basis(): Basis | null {
    return this.campaign ?? this.offered;
  }

  /** Whether the campaign is of the operators' keys of now: nobody takes part in one of keys that are out of force. */
  get currentKeys(): boolean {
    const charter = this.campaign?.charter;
    return charter !== undefined && same(charter.recommender, this.member.recommender) && same(charter.helper, this.member.helper);
  }

  /** Whether the campaign's model is published: then no round of it is left. */
  get learnt(): boolean {
    const scales = this.latest.get("scales");
    return this.published !== null && scales !== undefined && same(this.published.model.scales, scales);
  }

  /** Whether all is published that the campaign comes to: then no sum of it is left. */
  get over(): boolean {
    return this.learnt && (!(this.campaign !== null && this.campaign.settings.quality > 0) || this.figures !== null);
  }

  /** What to recommend with; null: there is no model yet, and the own records are all. */
  get inForce(): InForce | null {
    return this.published ?? this.starting;
  }

  /** The same in words; empty if there is no catalogue. */
  get inUse(): string {
    return this.inForce?.words ?? (this.basis === null ? "" : "own records alone");
  }

  /** The places of a basis that this device has downloaded. */
  known(basis: Basis): Promise<KnownPlaces> {
    let found = this.places.get(basis);
    if (found === undefined) this.places.set(basis, (found = this.readPlaces(basis)));
    return found;
  }

  private async readPlaces(basis: Basis): Promise<KnownPlaces> {
    const first = await this.documents.read(manifestKind, basis.offered.manifest);
    const manifest = basis.edition === null ? first : await this.documents.read(manifestKind, basis.edition.manifest);
    refuseOtherPlaces(manifest, first);
    const own = cellsAround(this.member.cell, manifest, this.reach);
    const beside = cellsBeside(own, manifest, this.reach);
    const stored = beside.size === 0 ? new Set() : await this.documents.stored();
    const whole = (cell: bigint): boolean => regionDocuments(manifest, new Set([cell])).every((name) => stored.has(hex(name)));
    const cells = own === null ? null : new Set([...own, ...[...beside].filter(whole)]);
    return readRegions(manifest, basis, cells, (kind, name) => this.documents.read(kind, name));
  }

  /** The same, of places that are read anew. */
  anew(): View {
    return new View(this.documents, this.reach, this);
  }

  /** Fetches the own regions of all that is in force, and does not look at them. Of those beside them it keeps what is here. */
  async fetchRegions(stored: ReadonlySet<string>): Promise<void> {
    for (const { own, beside } of await this.regions()) {
      await this.documents.fetch(own, stored);
      this.documents.keep(beside);
    }
  }

  /** Documents of the regions that the person asked for, and that are not here. */
  async missing(): Promise<readonly Bytes[]> {
    const stored = await this.documents.stored();
    const names = (await this.regions()).flatMap(({ beside }) => beside).map((name) => [hex(name), name] as const);
    return [...new Map(names)].flatMap(([key, name]) => (stored.has(key) ? [] : [name]));
  }

  /** Documents of regions, of each catalogue in force. */
  private async regions(): Promise<{ own: Bytes[]; beside: Bytes[] }[]> {
    const found = [];
    for (const basis of new Set([this.basis, this.inForce?.basis ?? null])) {
      if (basis === null) continue;
      for (const name of [basis.offered.manifest, ...(basis.edition === null ? [] : [basis.edition.manifest])]) {
        const manifest = await this.documents.read(manifestKind, name);
        const own = cellsAround(this.member.cell, manifest, this.reach);
        const beside = cellsBeside(own, manifest, this.reach);
        found.push({ own: regionDocuments(manifest, own), beside: regionDocuments(manifest, beside) });
      }
    }
    return found;
  }
}

// What the documents of a view are

/** Null for a document that an earlier version has written. */
async function ofThisVersion<T>(reading: Promise<T>): Promise<T | null> {
  try {
    return await reading;
  } catch (problem) {
    if (problem instanceof EarlierVersionError) return null;
    throw problem;
  }
}

async function campaignOf(
  member: Member, latest: ReadonlyMap<string, Bytes>, documents: Documents,
): Promise<{ campaign: Campaign | null; model: Model | null }> {
  const name = latest.get("charter");
  const charter = name === undefined ? null : await ofThisVersion(charterOf(member, name, documents));
  if (charter === null) return { campaign: null, model: null };
  await documents.read(manifestKind, charter.manifest);
  const [editionName, scalesName, modelName] = [latest.get("edition"), latest.get("scales"), latest.get("model")];
  if (editionName === undefined) return { campaign: await Campaign.of(charter), model: null };
  const edition = await documents.read(editionKind, editionName);
  if (!same(edition.charter, name!)) throw new PeerError("PARAMS_MISMATCH", "the edition is another charter's");
  if (scalesName === undefined) return { campaign: await Campaign.of(charter, edition), model: null };
  const scales = await documents.read(scalesKind, scalesName);
  if (!same(scales.edition, editionName)) throw new PeerError("PARAMS_MISMATCH", "the scales are another edition's");
  const campaign = await Campaign.of(charter, edition, scales);
  const model = modelName === undefined ? null : await documents.read(modelKind, modelName);
  if (model !== null && !same(model.scales, scalesName)) throw new PeerError("PARAMS_MISMATCH", "the model is another campaign's");
  // what no round can be computed with is refused before it is stored
  void campaign.scaling;
  if (model !== null) await campaign.shared(model);
  return { campaign, model };
}

async function charterOf(member: Member, name: Bytes, documents: Documents): Promise<Charter> {
  const charter = await documents.read(charterKind, name);
  if (!same(charter.deployment, member.deployment)) throw new PeerError("PARAMS_MISMATCH", "the charter is another deployment's");
  if (!wereInForce(operatorsOf(member), charter)) {
    throw new PeerError("PARAMS_MISMATCH", say("otherOperators"));
  }
  return charter;
}

async function offeredOf(member: Member, latest: ReadonlyMap<string, Bytes>, documents: Documents): Promise<Basis | null> {
  const name = latest.get("catalogue");
  if (name === undefined) return null;
  const offer = await offerOf(member, name, documents);
  if ((await ofThisVersion(documents.read(manifestKind, offer.manifest))) === null) return null;
  return new Basis(offer, USUAL_RULES, null, null);
}

async function offerOf(member: Member, name: Bytes, documents: Documents) {
  const offer = await documents.read(offerKind, name);
  if (!same(offer.deployment, member.deployment)) throw new PeerError("PARAMS_MISMATCH", "the catalogue is another deployment's");
  return offer;
}

/** The last model to recommend with, of this campaign or of an earlier one. */
async function publishedOf(member: Member, latest: ReadonlyMap<string, Bytes>, documents: Documents): Promise<InForce | null> {
  const name = latest.get("publication");
  const model = name === undefined ? null : await ofThisVersion(documents.read(modelKind, name));
  if (model === null) return null;
  const { edition, scales } = await learntUnder(model, documents);
  const charter = await charterOf(member, edition.charter, documents);
  const basis = await Campaign.of(charter, edition, scales);
  return { model, basis, words: `campaign ${charter.campaign}` };
}

async function figuresOf(latest: ReadonlyMap<string, Bytes>, documents: Documents): Promise<Figures | null> {
  const [name, model] = [latest.get("figures"), latest.get("publication")];
  if (name === undefined || model === undefined) return null;
  const found = await documents.read(figuresKind, name);
  if (!same(found.model, model)) throw new PeerError("PARAMS_MISMATCH", "the quality figures are another model's");
  return found;
}

async function learntUnder(model: Model, documents: Documents): Promise<{ edition: Edition; scales: Scales }> {
  const scales = await documents.read(scalesKind, model.scales);
  return { edition: await documents.read(editionKind, scales.edition), scales };
}

/** The model to recommend with until a campaign has published one. One that this device cannot use is passed over: it is no
 * reason to follow no log, and to take part in no sum. */
async function startingOf(member: Member, name: Bytes, documents: Documents): Promise<InForce | null> {
  try {
    const start = await documents.read(startKind, name);
    const model = await documents.read(modelKind, start.model);
    const { edition, scales } = await learntUnder(model, documents);
    const offer = await offerOf(member, edition.charter, documents);
    const basis = new Basis(offer, rulesIn(start.settings), edition, scales);
    await basis.shared(model);
    const [now, first] = [await documents.read(manifestKind, edition.manifest), await documents.read(manifestKind, offer.manifest)];
    refuseOtherPlaces(now, first);
    await readRegions(now, basis, new Set(), (kind, one) => documents.read(kind, one)); // no region is looked at
    return { model, basis, words: "start" };
  } catch (problem) {
    if (problem instanceof PrirecError && !(problem instanceof UnavailableError)) return null;
    throw problem;
  }
}

/** What the settings of a starting model say of records; they are TOML, as PriRec writes it. */
export function rulesIn(settings: string): RecordRules {
  const data = /^\[data\]\n((?:(?!\[).*\n?)*)/m.exec(settings)?.[1] ?? "";
  const value = (name: string): string | undefined => new RegExp(`^${name} = "?([a-z0-9]+)"?$`, "m").exec(data)?.[1];
  const [ratio, negatives, split] = [Number(value("ratio")), value("negatives"), value("split")];
  if (!Number.isInteger(ratio) || (negatives !== "uniform" && negatives !== "nearby") || split === undefined) {
    throw new PeerError("PARAMS_MISMATCH", "the settings of a starting model cannot be read");
  }
  return { ratio, negatives, onlyEarlier: split === "time" };
}

// Following the log

/** The deployment as it is stored. */
export function stored(held: Held, member: Member, reach: Reach): Promise<View> {
  return View.read(member, held.standing(), new Documents(held.store, null), reach);
}

export interface Followed {
  readonly view: View;
  /** Bytes of region documents that were fetched now; the request named them. */
  readonly fetched: number;
}

/** Fetches the regions that the person asked for, one document after another, and stores each when it arrives; how many. One
 * that did not come is told of at the end, and asked for again when the log is next followed. */
export async function fetchAreas(held: Held, view: View, source: Client): Promise<number> {
  const documents = new Documents(held.store, source);
  let problem: PrirecError | null = null;
  for (const name of await view.missing()) {
    try {
      await documents.body(name);
      await held.change(() => {
        refuseLeft(held, view.member);
        return documents.adding();
      });
    } catch (found) {
      if (!(found instanceof PrirecError)) throw found;
      problem ??= found;
    }
  }
  if (problem !== null) throw problem;
  return documents.fetched.length;
}

function refuseLeft(held: Held, member: Member): void {
  const current = held.member();
  if (current === null || !same(current.name, member.name)) throw new StateError(say("leftMeanwhile"));
}

/** Reads the log to the head that the helper has signed, verifies it, fetches and stores what is in force. Of a log that is
 * refused nothing stays; where the line broke, what was written is not fetched again. */
export async function follow(held: Held, member: Member, source: Client, reach: Reach): Promise<Followed> {
  const documents = new Documents(held.store, source);
  try {
    return await followed(held, member, source, reach, documents);
  } catch (problem) {
    const refused = problem instanceof PrirecError && !(problem instanceof UnavailableError);
    if (refused && documents.written) await discardAllButStored(held, member, reach);
    throw problem;
  }
}

async function discardAllButStored(held: Held, member: Member, reach: Reach): Promise<void> {
  const inForce = new Documents(held.store, null);
  const onDisk = await held.store.keys("documents");
  try {
    const view = await View.read(member, held.standing(), inForce, reach);
    await view.fetchRegions(new Set(onDisk));
  } catch (problem) {
    if (problem instanceof PrirecError) return; // a document is missing: then all stay
    throw problem;
  }
  await held.change(() => onDisk.filter((key) => !inForce.needed.has(key)).map((key): Change => ({ table: "documents", key })));
}

async function followed(
  held: Held, member: Member, source: Client, reach: Reach, documents: Documents,
): Promise<Followed> {
  const before = held.standing();
  const latest = new Map(before);
  const known: Head = { length: member.length, last: member.last };
  const pinned = operatorsOf(member);
  let head = latest.size > 0 ? known : NO_LOG;
  let operators = latest.size > 0 ? pinned : firstOf(pinned);
  let signed = member.cosigned.length === 0 ? null : decode(signedCoSignature, member.cosigned);
  let joined = member.joined;
  const begun = new Set<string>(latest.has("charter") ? [hex(latest.get("charter")!)] : []);
  for (let more = true; more;) {
    const page = await source.log(Math.max(head.length - 1, 0));
    let fresh = await beyond(page.entries, head);
    if (page.cosigned === null && signed === null) break; // a helper that has signed nothing yet: there is nothing to follow
    signed = newer(page.cosigned, signed);
    fresh = fresh.slice(0, Math.max(signed.statement.length - head.length, 0));
    await refuseAnotherPast(fresh, head, known);
    ({ head, operators } = await verified(fresh, head, operators, member.deployment, source));
    for (const one of fresh) apply(latest, one, begun);
    joined = await listed(fresh, joined, member.name, source);
    if (head.length - member.length > MOST_NEW_ENTRIES || begun.size > MOST_BEGUN) {
      throw new PolicyError(say("logGrown"));
    }
    more = page.entries.length >= MOST_ENTRIES && head.length < signed.statement.length; // a page that is not full is the last
  }
  if (head.length < known.length) throw anotherLog();
  if (signed !== null) await verifyCoSignature(signed, operators.helper, member.deployment);
  if (signed !== null && (head.length !== signed.statement.length || !same(head.last, signed.statement.last))) {
    throw new PeerError("EQUIVOCATION", "the log that the helper has signed is not the one that this device is shown");
  }
  const all = (of: readonly Rotation[]): Bytes => encode(rotations, { rotations: of });
  if (!same(all(operators.rotations.slice(0, pinned.rotations.length)), all(pinned.rotations))) throw anotherLog();
  const cosigned = signed === null ? new Uint8Array(0) : encode(signedCoSignature, signed);
  const now: Member = {
    ...member, length: head.length, last: head.last, cosigned, joined,
    recommender: operators.recommender, helper: operators.helper, rotations: all(operators.rotations),
  };
  const view = await View.read(now, latest, documents, reach);
  await refuseGoingBack(held, member, view, reach);
  const onDisk = new Set(await held.store.keys("documents"));
  const first = documents.fetched.length;
  await view.fetchRegions(onDisk);
  const named = documents.fetched.length - first;
  await held.change(() => {
    refuseLeft(held, member);
    const keeping = campaignsInUse(view);
    return [
      ...documents.saving(),
      ...[...onDisk].filter((key) => !documents.needed.has(key)).map((key): Change => ({ table: "documents", key })),
      ...[...before.keys()].filter((key) => !latest.has(key)).map((key): Change => ({ table: "standing", key })),
      ...[...latest]
        .filter(([key, value]) => !before.has(key) || !same(before.get(key)!, value))
        .map(([key, value]): Change => ({ table: "standing", key, value })),
      ...held.givenTo().filter((key) => !keeping.has(key)).map((key): Change => ({ table: "given", key })),
      { table: "membership", key: "one", value: { ...now, enrolled: held.member()!.enrolled, code: held.member()!.code } },
    ];
  });
  return { view: await stored(held, held.member()!, reach), fetched: named };
}

/** The entries after the last one that this device knows, with which a page begins. */
async function beyond(page: readonly SignedEntry[], head: Head): Promise<readonly SignedEntry[]> {
  if (head.length === 0) return page;
  if (page.length === 0 || !same(await digestOf(logEntry, page[0]!.entry), head.last)) throw anotherLog();
  return page.slice(1);
}

/** PeerError where a log that is read again is not the one that was read before. */
async function refuseAnotherPast(fresh: readonly SignedEntry[], head: Head, known: Head): Promise<void> {
  const one = fresh[known.length - head.length - 1];
  if (one !== undefined && !same(await digestOf(logEntry, one.entry), known.last)) throw anotherLog();
}

/** The head after these entries, and whose keys are in force there. */
async function verified(
  fresh: readonly SignedEntry[], head: Head, operators: Operators, deployment: Bytes, source: Client,
): Promise<{ head: Head; operators: Operators }> {
  let now = { head, operators };
  for (const one of fresh) {
    const after = await headAfter(now.head, [one], deployment, now.operators.recommender);
    now = { head: after, operators: now.operators };
    if (one.entry.subject !== "rotation") continue;
    const said = await readDocument(rotation, await source.document(hex(one.entry.document)), one.entry.document);
    now = { head: after, operators: await rotated(now.operators, said, deployment) };
  }
  return now;
}

/** The helper's signature that came with a page, to be verified when the log is read so far: with the key that is in force
 * there. A helper signs heads that extend the last one, at later and later times. */
function newer(found: SignedCoSignature | null, old: SignedCoSignature | null): SignedCoSignature {
  if (found === null) {
    throw new PeerError("AUTH", say("notCosigned"));
  }
  if (old !== null && (found.statement.length < old.statement.length || found.statement.time < old.statement.time)) {
    throw new PeerError("EQUIVOCATION", "what the helper has signed goes back behind what this device has seen");
  }
  return found;
}

/** Entries up to the one that lists this device, after these; 0: it is on no list, or has been taken off. */
async function listed(fresh: readonly SignedEntry[], joined: number, name: Bytes, source: Client): Promise<number> {
  let found = joined;
  for (const { entry } of fresh) {
    if (entry.subject !== "left" && (entry.subject !== "joined" || found > 0)) continue;
    const { names } = await readDocument(namesKind, await source.document(hex(entry.document)), entry.document);
    if (names.some((one) => same(one, name))) found = entry.subject === "joined" ? entry.index + 1 : 0;
  }
  return found;
}

/** Applies a log entry to the documents in force. A charter begins one campaign and has one edition and one set of scales:
 * each follows from a sum that is opened once. */
export function apply(latest: Map<string, Bytes>, { entry: { subject, document } }: SignedEntry, begun: Set<string>): void {
  if (subject === "charter") {
    if (begun.has(hex(document))) throw new PeerError("EQUIVOCATION", "a campaign is begun a second time");
    begun.add(hex(document));
  }
  if (subject === "edition" && (latest.has("edition") || !latest.has("charter"))) {
    throw new PeerError("EQUIVOCATION", "a campaign has a second edition, or an edition no campaign");
  }
  if (subject === "figures" && (latest.has("figures") || !latest.has("publication"))) {
    throw new PeerError("EQUIVOCATION", "a model has second quality figures, or quality figures no model");
  }
  if (subject === "scales" && (latest.has("scales") || !latest.has("edition"))) {
    throw new PeerError("EQUIVOCATION", "an edition has a second set of scales, or scales no edition");
  }
  for (const gone of SUPERSEDES[subject] ?? []) latest.delete(gone);
  if (SUBJECTS.includes(subject)) latest.set(subject, document);
}

/** Campaign numbers and rounds only grow: going back would ask for a second noisy release of the same round. */
async function refuseGoingBack(held: Held, member: Member, now: View, reach: Reach): Promise<void> {
  let before: View;
  try {
    before = await stored(held, member, reach);
  } catch (problem) {
    if (problem instanceof PrirecError) return; // a document was lost here: there is nothing to compare with
    throw problem;
  }
  if (before.campaign === null || now.campaign === null) return;
  const [a, b] = [before.campaign, now.campaign];
  const alike = same(a.name, b.name);
  if (!alike && b.charter.campaign <= a.charter.campaign) {
    throw new PeerError("EQUIVOCATION", "a campaign has the number of an earlier one");
  }
  if (!alike) return;
  if (before.model !== null && now.model !== null && now.model.iteration < before.model.iteration) {
    throw new PeerError("EQUIVOCATION", "a campaign goes back to an earlier round");
  }
  if (before.window !== null && now.window !== null) refuseOtherWindow(before.window, now.window);
}

/** A window of a sum may close later than was said, and nothing else of it changes. */
export function refuseOtherWindow(before: Window, now: Window): void {
  if (before.kind !== now.kind || before.number !== now.number) return;
  const bytes = (one: Window): Bytes => encode(windowKind, { ...one, closes: 0 });
  if (!same(bytes(before), bytes(now)) || now.closes < before.closes) {
    throw new PeerError("EQUIVOCATION", "the window of a sum has changed otherwise than by closing later");
  }
}

/** The campaign under way, and the one that was published last. */
function campaignsInUse(view: View): Set<string> {
  const names = [view.campaign, view.published?.basis].flatMap((one) => (one instanceof Campaign ? [hex(one.name)] : []));
  return new Set(names);
}

function anotherLog(): PeerError {
  return new PeerError("EQUIVOCATION", say("anotherLog"));
}
