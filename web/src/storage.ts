/**
 * Where a device keeps what it has: rows in tables, changed all at once or not at all, and on disk before a change is
 * called made. One writer at a time. browser_store.ts keeps them in IndexedDB, node_store.ts in a file.
 */

import { sha256, utf8, type Bytes } from "./bytes.ts";
import { StateError } from "./errors.ts";
import { say } from "./sentences.ts";

/** What is kept, and how long:
 *
 *     format      the version of all this                                  for ever
 *     rounds      the journal: at which rounds, and how far                never deleted: no round is entered twice
 *     spending    the privacy ledger, and its checksum                     never deleted: nothing is refunded
 *     allowed     budget and floor                                         replaced by the person
 *     person      profile, home                                            by the person, or by `forget`
 *     visits      visits and refusals                                      likewise
 *     overruled   what the person corrected of their own model             likewise
 *     membership  pinned keys, own identity, place in the log              by `leave` or `forget`
 *     standing    the document in force of each kind                       replaced as the log goes on
 *     documents   public documents by their hash                           when nothing in force names them
 *     areas       coarse cells that were asked for beside the home        by the person, or by `leave`
 *     given       what was added to a campaign's sum of visits             with its campaign
 *     sent        what has left this device                                by `forget`
 */
export const TABLES = [
  "format", "rounds", "spending", "allowed", "person", "visits", "overruled", "membership", "standing", "documents",
  "areas", "given", "sent",
] as const;
export type Table = (typeof TABLES)[number];

/** A row that is to be as it says; without a value it is deleted. */
export interface Change {
  readonly table: Table;
  readonly key: string;
  readonly value?: unknown;
}

export interface Store {
  /** Whether keys can be kept that cannot be read out. */
  readonly keepsKeys: boolean;
  /** All rows of a table, in the order of their keys. */
  all(table: Table): Promise<(readonly [key: string, value: unknown])[]>;
  keys(table: Table): Promise<string[]>;
  get(table: Table, key: string): Promise<unknown>;
  /** All of these changes, or none. On disk when it returns. StateError if another writer was there in between. */
  commit(changes: readonly Change[]): Promise<void>;
  /** Whether the browser has promised not to evict this; null where there is nothing to promise. */
  persisted(): Promise<boolean | null>;
  close(): Promise<void>;
}

export const FORMAT = 1;

/** StateError if rows are of a newer program. */
export function checkFormat(found: unknown): void {
  if (found === undefined || found === FORMAT) return;
  throw new StateError(typeof found === "number" && found > FORMAT ? say("newerFormat", { found, known: FORMAT }) : say("damaged"));
}

/** A store in memory, which is gone with the program: for trying out, and for tests. */
export class MemoryStore implements Store {
  readonly keepsKeys = true;
  private readonly rows = new Map<string, unknown>();

  async all(table: Table): Promise<[string, unknown][]> {
    const found = (await this.keys(table)).map((key): [string, unknown] => [key, this.rows.get(`${table}/${key}`)]);
    return found;
  }

  async keys(table: Table): Promise<string[]> {
    const prefix = `${table}/`;
    return [...this.rows.keys()].filter((key) => key.startsWith(prefix)).map((key) => key.slice(prefix.length)).toSorted(byUnits);
  }

  async get(table: Table, key: string): Promise<unknown> {
    return this.rows.get(`${table}/${key}`);
  }

  async commit(changes: readonly Change[]): Promise<void> {
    for (const { table, key, value } of changes) {
      if (value === undefined) this.rows.delete(`${table}/${key}`);
      else this.rows.set(`${table}/${key}`, value);
    }
  }

  async persisted(): Promise<null> {
    return null;
  }

  async close(): Promise<void> {}
}

/** As IndexedDB orders text. */
function byUnits(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}

/** A checksum over values of text, numbers and whole numbers of any size. */
export function checksum(values: unknown): Promise<Bytes> {
  return sha256(utf8(JSON.stringify(values, (_, value: unknown) => (typeof value === "bigint" ? String(value) : value))));
}
