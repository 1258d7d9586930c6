/**
 * What a device holds: the rows of its store, read once and kept in memory but for documents, and changed there after they
 * are on disk. One program has the store open, so what is in memory is what is stored.
 */

import { type Bytes } from "./bytes.ts";
import { decode } from "./codec.ts";
import { rotations } from "./documents.ts";
import { PolicyError, StateError } from "./errors.ts";
import { SigningKey } from "./keys.ts";
import { admit, type Budget, type Charge, type LedgerEntry } from "./ledger.ts";
import type { Round } from "./messages.ts";
import type { Operators } from "./rotations.ts";
import type { Values } from "./encoding.ts";
import type { Point } from "./geography.ts";
import type { Visit } from "./records.ts";
import { say, type Sentence } from "./sentences.ts";
import { type Change, checksum, type Store, type Table, TABLES } from "./storage.ts";
import type { BeliefKey, Membership, Opinion, Sent } from "./surface.ts";

export const DEFAULT_BUDGET: Budget = { epsilon: 1, delta: 1e-6, periodDays: null };

/** The one deployment that a device belongs to: whom it trusts, who it is there, how far it has read the log. */
export interface Member {
  readonly deployment: Bytes;
  readonly url: string;
  readonly title: string;
  readonly recommender: Bytes;
  readonly helper: Bytes;
  /** The coarse cell whose surroundings are downloaded; 0: all regions. */
  readonly cell: bigint;
  readonly name: Bytes;
  /** The identity: a key that cannot be read out or, where none can be kept, its bytes. */
  readonly key: CryptoKey | Bytes;
  /** Under which places not visited are drawn, which nobody else can compute. */
  readonly negativesSecret: Bytes;
  readonly code: string;
  readonly enrolled: boolean;
  /** Of the verified log. */
  readonly length: number;
  readonly last: Bytes;
  /** The helper's last signature on it, as it came; empty: none yet. */
  readonly cosigned: Bytes;
  /** Entries of the log up to the one that lists this device; 0: none does. */
  readonly joined: number;
  /** Of operators' keys, which have led to the pinned ones, as they are on the wire; a device of before has none. */
  readonly rotations?: Bytes;
}

/** A report in the journal. A round is entered once, whatever becomes of it. */
export interface JournalEntry {
  readonly round: Round;
  /** "written": it may be sent, the same bytes each time; "arrived"; "over": it never will. */
  readonly stage: "written" | "arrived" | "over";
  /** The report, until it has arrived or is over. */
  readonly body: Bytes;
  readonly bytes: number;
  readonly at: number;
  readonly to: string;
  readonly entries: number;
  readonly people: number;
  readonly floor: number;
  readonly grains: bigint;
  readonly what: string;
  /** Why it is zeros; null: it is not. */
  readonly zeros: Sentence | null;
}

/** What was added to a campaign's sum of visits, in whole numbers by row of the catalogue. */
export interface Given {
  readonly places: readonly number[];
  readonly whole: readonly number[];
}

/** As devices of before have stored it: without the kinds of sentences. */
type StoredEntry = Omit<JournalEntry, "zeros"> & { readonly zeros: Sentence | string | null };

function ofNow(entry: StoredEntry): JournalEntry {
  return { ...entry, zeros: typeof entry.zeros === "string" ? say("other", { words: entry.zeros }) : entry.zeros };
}

interface Seal {
  readonly day: number;
  readonly checksum: string;
}

const OF_PERSON: readonly Table[] = ["person", "visits", "overruled", "sent"];
const OF_DEPLOYMENT: readonly Table[] = ["membership", "standing", "areas", "given"];

export class Held {
  readonly store: Store;
  /** Grows with every change of what the person's own model is learnt from. */
  version = 0;
  private readonly rows: ReadonlyMap<Table, Map<string, unknown>>;
  private last: Promise<unknown> = Promise.resolve();
  private lost = false;

  private constructor(store: Store, rows: ReadonlyMap<Table, Map<string, unknown>>) {
    this.store = store;
    this.rows = rows;
  }

  /** StateError if the ledger is damaged. */
  static async open(store: Store): Promise<Held> {
    const tables = TABLES.filter((table) => table !== "documents" && table !== "format");
    const rows = new Map<Table, Map<string, unknown>>();
    for (const table of tables) rows.set(table, new Map(await store.all(table)));
    const held = new Held(store, rows);
    const seal = held.one<Seal>("spending", "seal");
    if (seal === undefined ? held.ledger().length > 0 : seal.checksum !== (await held.sealed(seal.day)).checksum) {
      throw new StateError(say("damagedLedger"));
    }
    return held;
  }

  /** Changes that follow from what is held, one after another: nobody changes what `work` has just looked at. */
  change(work: () => readonly Change[] | Promise<readonly Change[]>): Promise<void> {
    const doing = this.last.then(async () => {
      if (this.lost) throw new StateError(say("perhapsStored"));
      const changes = await work();
      if (changes.length === 0) return;
      try {
        await this.store.commit(changes);
      } catch (problem) {
        // a StateError says that nothing was changed; of anything else nobody knows, so memory may be behind the disk
        this.lost = !(problem instanceof StateError);
        throw problem;
      }
      for (const change of changes) this.apply(change);
    });
    this.last = doing.catch(() => {});
    return doing;
  }

  private apply({ table, key, value }: Change): void {
    const rows = this.rows.get(table);
    if (value === undefined) rows?.delete(key);
    else rows?.set(key, value);
    if (table !== "documents" && table !== "rounds" && table !== "spending" && table !== "sent") this.version += 1;
  }

  private table<T>(table: Table): Map<string, T> {
    return this.rows.get(table) as Map<string, T>;
  }

  private one<T>(table: Table, key: string): T | undefined {
    return this.rows.get(table)!.get(key) as T | undefined;
  }

  // The person

  profile(): Values {
    return this.one<Values>("person", "profile") ?? {};
  }

  home(): Point | null {
    return this.one<Point>("person", "home") ?? null;
  }

  /** In the order of their times, then of their arrival: the order in which records are learnt from. */
  visits(): Visit[] {
    const time = (visit: Visit): number => visit.time ?? -Infinity;
    return [...this.table<Visit & { readonly number: number }>("visits").values()]
      .toSorted((a, b) => (time(a) < time(b) ? -1 : time(a) > time(b) ? 1 : a.number - b.number))
      .map(({ id, place, time, label, context }) => ({ id, place, time, label, context }));
  }

  visit(id: string): Visit | undefined {
    return this.one<Visit>("visits", id);
  }

  get nextNumber(): number {
    return 1 + [...this.table<{ readonly number: number }>("visits").values()].reduce((most, { number }) => Math.max(most, number), 0);
  }

  overruled(): (BeliefKey & { readonly opinion: Opinion })[] {
    return [...this.table<BeliefKey & { readonly opinion: Opinion }>("overruled").values()];
  }

  /** What erases the person, and with them the deployment. The ledger and the journal stay. */
  forgetting(): Change[] {
    return [...this.emptying(OF_PERSON), ...this.leaving()];
  }

  /** What erases the deployment: reports that were not sent are burnt, for they are computed from visits. */
  leaving(): Change[] {
    const burnt = [...this.table<JournalEntry>("rounds")]
      .filter(([, entry]) => entry.stage === "written")
      .map(([key, entry]): Change => ({ table: "rounds", key, value: { ...entry, stage: "over", body: new Uint8Array(0) } }));
    return [...this.emptying(OF_DEPLOYMENT), ...burnt];
  }

  private emptying(tables: readonly Table[]): Change[] {
    return tables.flatMap((table) => [...this.table(table).keys()].map((key) => ({ table, key })));
  }

  // The deployment

  member(): Member | null {
    return this.one<Member>("membership", "one") ?? null;
  }

  membership(): Membership | null {
    const member = this.member();
    return member === null ? null : {
      title: member.title,
      url: member.url,
      deployment: hex(member.deployment),
      recommenderKey: hex(member.recommender),
      helperKey: hex(member.helper),
      rotated: operatorsOf(member).rotations.map(({ change }) => ({
        operator: change.role, old: hex(change.old), new: hex(change.new), time: change.time,
      })),
      name: hex(member.name),
      enrolled: member.enrolled,
      allRegions: member.cell === 0n,
    };
  }

  standing(): Map<string, Bytes> {
    return new Map(this.table<Bytes>("standing"));
  }

  /** Coarse cells that the person asked for beside that of the home. */
  areas(): bigint[] {
    return [...this.table("areas").keys()].map((key) => BigInt(`0x${key}`));
  }

  given(campaign: Bytes): Given {
    return this.one<Given>("given", hex(campaign)) ?? { places: [], whole: [] };
  }

  givenTo(): string[] {
    return [...this.table("given").keys()];
  }

  // The journal, and what has left

  journal(): JournalEntry[] {
    return [...this.table<StoredEntry>("rounds").values()].map(ofNow);
  }

  entry(of: Round): JournalEntry | undefined {
    const found = this.one<StoredEntry>("rounds", roundKey(of));
    return found === undefined ? undefined : ofNow(found);
  }

  sent(): Sent[] {
    const other = (words: string): Sentence => say("other", { words });
    return [...this.table<Sent & { readonly words?: string }>("sent").values()].map(({ words, ...sent }) => (words === undefined ? sent : { ...sent, said: other(words) }));
  }

  /** The row for something that leaves now. */
  sending(sent: Sent): Change {
    return { table: "sent", key: `${String(this.table("sent").size).padStart(9, "0")}`, value: sent };
  }

  // The ledger

  budget(): Budget {
    return this.one<Budget>("allowed", "budget") ?? DEFAULT_BUDGET;
  }

  budgetSet(): Budget | null {
    return this.one<Budget>("allowed", "budget") ?? null;
  }

  floor(): number {
    return this.one<number>("allowed", "floor") ?? 0;
  }

  ledger(): LedgerEntry[] {
    return [...this.table<LedgerEntry>("spending")].filter(([key]) => key !== "seal").map(([, entry]) => entry);
  }

  /** The rows that pay for a report: PolicyError if the budget does not cover it. It is dated with the latest day that this
   * device has seen: under a clock that was set back it would fall out of a period too early. */
  async paying(charge: Charge, today: number): Promise<Change[]> {
    if (admit(this.ledger(), charge, this.budget(), today) === "known") {
      throw new PolicyError("this report was paid for before; no second one is made");
    }
    return this.charging([{ charge, day: Math.max(today, this.one<Seal>("spending", "seal")?.day ?? 0) }]);
  }

  /** The rows of these charges, with the checksum of all. */
  async charging(entries: readonly LedgerEntry[]): Promise<Change[]> {
    const changes = entries.map((entry): Change => ({ table: "spending", key: chargeKey(entry.charge), value: entry }));
    const day = Math.max(this.one<Seal>("spending", "seal")?.day ?? 0, ...entries.map((entry) => entry.day));
    return [...changes, { table: "spending", key: "seal", value: await this.sealed(day, entries) }];
  }

  /** The row that says that this day has come. */
  async seeing(day: number): Promise<Change[]> {
    const seal = this.one<Seal>("spending", "seal");
    return seal !== undefined && seal.day >= day ? [] : [{ table: "spending", key: "seal", value: await this.sealed(day) }];
  }

  hasPaid(charge: Charge): boolean {
    return this.table("spending").has(chargeKey(charge));
  }

  private async sealed(day: number, more: readonly LedgerEntry[] = []): Promise<Seal> {
    const all = new Map([...this.ledger(), ...more].map((entry) => [chargeKey(entry.charge), entry]));
    const lines = [...all].toSorted(([one], [other]) => (one < other ? -1 : 1))
      .map(([key, { charge, day: on }]) => [key, charge.what, charge.grains, on]);
    return { day, checksum: hex(await checksum([day, lines])) };
  }
}

/** The operators whose keys this device has pinned. */
export function operatorsOf({ recommender, helper, rotations: found }: Member): Operators {
  return { recommender, helper, rotations: found === undefined ? [] : decode(rotations, found).rotations };
}

/** The identity that was stored. */
export async function identityOf({ key, name }: Member): Promise<SigningKey> {
  return key instanceof Uint8Array ? SigningKey.of(key) : SigningKey.kept(key, name);
}

export function roundKey({ deployment, kind, number }: Round): string {
  return `${hex(deployment)}:${kind}:${String(number).padStart(10, "0")}`;
}

function chargeKey({ deployment, kind, number, attempt }: Charge): string {
  return `${hex(deployment)}:${kind}:${String(number).padStart(10, "0")}:${attempt}`;
}

export function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function fromHex(text: string): Bytes {
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}
