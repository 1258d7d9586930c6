/**
 * A device's rows in a file, by Node's own SQLite. The file belongs to one program while the device is open; a change is on
 * disk, its folder included, before it is called made.
 */

import { chmodSync, closeSync, openSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { deserialize, serialize } from "node:v8";

import { StateError } from "./errors.ts";
import { say } from "./sentences.ts";
import { type Change, checkFormat, FORMAT, type Store, type Table } from "./storage.ts";

const SCHEMA = `CREATE TABLE IF NOT EXISTS kept (
  tab TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, PRIMARY KEY (tab, key)
) WITHOUT ROWID`;

export class NodeStore implements Store {
  readonly keepsKeys = false;
  private readonly database: DatabaseSync;

  private constructor(database: DatabaseSync) {
    this.database = database;
  }

  /** Opens, or makes, the file, readable by its owner alone. StateError if another program has it open. */
  static async open(path: string): Promise<NodeStore> {
    closeSync(openSync(path, "a", 0o600));
    chmodSync(path, 0o600);
    const database = new DatabaseSync(path);
    const store = new NodeStore(database);
    try {
      explained(() => {
        database.exec("PRAGMA locking_mode=EXCLUSIVE; PRAGMA synchronous=EXTRA; PRAGMA fullfsync=ON; PRAGMA secure_delete=ON");
        database.exec("PRAGMA trusted_schema=OFF; BEGIN EXCLUSIVE");
        database.exec(SCHEMA);
        database.exec("COMMIT");
      });
      const format = await store.get("format", "version");
      checkFormat(format);
      if (format === undefined) await store.commit([{ table: "format", key: "version", value: FORMAT }]);
    } catch (problem) {
      database.close();
      throw problem;
    }
    return store;
  }

  async all(table: Table): Promise<[string, unknown][]> {
    const rows = explained(() => this.database.prepare("SELECT key, value FROM kept WHERE tab = ? ORDER BY key").all(table));
    return rows.map((row) => [row["key"] as string, read(row["value"])]);
  }

  async keys(table: Table): Promise<string[]> {
    const rows = explained(() => this.database.prepare("SELECT key FROM kept WHERE tab = ? ORDER BY key").all(table));
    return rows.map((row) => row["key"] as string);
  }

  async get(table: Table, key: string): Promise<unknown> {
    const row = explained(() => this.database.prepare("SELECT value FROM kept WHERE tab = ? AND key = ?").get(table, key));
    return row === undefined ? undefined : read(row["value"]);
  }

  async commit(changes: readonly Change[]): Promise<void> {
    explained(() => {
      this.database.exec("BEGIN IMMEDIATE");
      try {
        for (const { table, key, value } of changes) {
          if (value === undefined) this.database.prepare("DELETE FROM kept WHERE tab = ? AND key = ?").run(table, key);
          else this.database.prepare("INSERT OR REPLACE INTO kept VALUES (?, ?, ?)").run(table, key, serialize(value));
        }
        this.database.exec("COMMIT");
      } catch (problem) {
        this.database.exec("ROLLBACK");
        throw problem;
      }
    });
  }

  async persisted(): Promise<null> {
    return null;
  }

  async close(): Promise<void> {
    this.database.close();
  }
}

function read(value: unknown): unknown {
  try {
    return owned(deserialize(value as Uint8Array));
  } catch {
    throw new StateError(say("damaged"));
  }
}

/** Byte strings in memory of their own, as WebCrypto takes them. */
function owned(value: unknown): unknown {
  if (value instanceof Uint8Array) return new Uint8Array(value);
  if (Array.isArray(value)) return value.map(owned);
  if (typeof value === "object" && value !== null && Object.getPrototypeOf(value) === Object.prototype) {
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, owned(one)]));
  }
  return value;
}

/** SQLite's errors in words that say what to do; its own texts may quote a row. */
function explained<T>(work: () => T): T {
  try {
    return work();
  } catch (problem) {
    const code = (problem as { errcode?: number }).errcode ?? -1;
    if ((code & 0xff) === 5) throw new StateError(say("anotherWriter")); // SQLITE_BUSY
    if ((code & 0xff) === 13) throw new StateError(say("noRoom"));
    if (code >= 0) throw new StateError(say("damaged"));
    throw problem;
  }
}
