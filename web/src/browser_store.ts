/**
 * A device's rows in IndexedDB. Transactions are `strict`: on disk before they are called done. One tab writes: it holds a
 * Web Lock while the device is open, and each change is one to the state that this tab has read, or it is refused.
 */

import { StateError } from "./errors.ts";
import { say } from "./sentences.ts";
import { type Change, checkFormat, FORMAT, type Store, type Table } from "./storage.ts";

const ROWS = "rows";
const TURN = "format/turn"; // counts changes: a tab that has not seen the last one must not make the next

export class BrowserStore implements Store {
  readonly keepsKeys = true;
  private readonly database: IDBDatabase;
  private readonly release: () => void;
  private turn: number;

  private constructor(database: IDBDatabase, release: () => void, turn: number) {
    this.database = database;
    this.release = release;
    this.turn = turn;
  }

  /** Opens, or makes, the database of this name. Where another tab has it open: StateError, or with `wait` when that one
   * closes. Asks the browser not to evict it; in a worker it cannot, and the page has to (`navigator.storage.persist()`). */
  static async open(name: string, { wait = false }: { readonly wait?: boolean } = {}): Promise<BrowserStore> {
    const release = await locked(`prirec ${name}`, wait);
    try {
      const database = await opened(name);
      try {
        const rows = database.transaction(ROWS).objectStore(ROWS);
        const [format, turn] = await Promise.all([asked(rows.get("format/version")), asked(rows.get(TURN))]);
        checkFormat(format);
        const store = new BrowserStore(database, release, (turn as number | undefined) ?? 0);
        if (format === undefined) await store.commit([{ table: "format", key: "version", value: FORMAT }]);
        // where it is refused, `persisted` says so, and the person is told
        await navigator.storage?.persist?.().catch(() => false);
        return store;
      } catch (problem) {
        database.close();
        throw problem;
      }
    } catch (problem) {
      release();
      throw problem;
    }
  }

  async all(table: Table): Promise<[string, unknown][]> {
    const rows = this.database.transaction(ROWS).objectStore(ROWS);
    const [keys, values] = await Promise.all([asked(rows.getAllKeys(rowsOf(table))), asked(rows.getAll(rowsOf(table)))]);
    return keys.map((key, at) => [String(key).slice(table.length + 1), values[at]]);
  }

  async keys(table: Table): Promise<string[]> {
    const rows = this.database.transaction(ROWS).objectStore(ROWS);
    return (await asked(rows.getAllKeys(rowsOf(table)))).map((key) => String(key).slice(table.length + 1));
  }

  get(table: Table, key: string): Promise<unknown> {
    return asked(this.database.transaction(ROWS).objectStore(ROWS).get(`${table}/${key}`));
  }

  commit(changes: readonly Change[]): Promise<void> {
    return new Promise((done, failed) => {
      let writing: IDBTransaction;
      try {
        writing = this.database.transaction(ROWS, "readwrite", { durability: "strict" });
      } catch {
        return failed(new StateError(say("closed")));
      }
      const rows = writing.objectStore(ROWS);
      let another = false;
      const turn = rows.get(TURN);
      turn.onsuccess = () => {
        if ((turn.result ?? 0) !== this.turn) {
          another = true;
          return writing.abort();
        }
        for (const { table, key, value } of changes) {
          if (value === undefined) rows.delete(`${table}/${key}`);
          else rows.put(value, `${table}/${key}`);
        }
        rows.put(this.turn + 1, TURN);
      };
      writing.oncomplete = () => {
        this.turn += 1;
        done();
      };
      writing.onabort = () => failed(another ? new StateError(say("anotherWriter")) : problemOf(writing.error));
    });
  }

  async persisted(): Promise<boolean> {
    return (await navigator.storage?.persisted?.()) ?? false;
  }

  async close(): Promise<void> {
    this.database.close();
    this.release();
  }
}

const rowsOf = (table: Table): IDBKeyRange => IDBKeyRange.bound(`${table}/`, `${table}0`, false, true); // 0 follows /

function opened(name: string): Promise<IDBDatabase> {
  return new Promise((done, failed) => {
    const opening = indexedDB.open(name, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(ROWS);
    opening.onsuccess = () => done(opening.result);
    opening.onerror = () => failed(problemOf(opening.error));
    opening.onblocked = () => failed(new StateError(say("anotherWriter")));
  });
}

function asked<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((done, failed) => {
    request.onsuccess = () => done(request.result);
    request.onerror = () => failed(problemOf(request.error));
  });
}

/** In words that say what to do; the browser's own may name a row. */
function problemOf(problem: DOMException | null): StateError {
  if (problem?.name === "QuotaExceededError") {
    return new StateError(say("noRoom"));
  }
  if (problem?.name === "VersionError") return new StateError(say("newerProgram"));
  return new StateError(say(problem?.name === "AbortError" ? "closedByBrowser" : "damaged"));
}

/** Held until `release` is called, or the tab is gone, however it goes. */
async function locked(name: string, wait: boolean): Promise<() => void> {
  if (navigator.locks === undefined) return () => {}; // then the turn alone keeps writers apart
  const { promise: over, resolve: release } = Promise.withResolvers<void>();
  await new Promise<void>((got, failed) => {
    navigator.locks
      .request(name, { ifAvailable: !wait }, (lock) => {
        if (lock === null) return failed(new StateError(say("anotherWriter")));
        got();
        return over;
      })
      .catch(failed);
  });
  return release;
}
