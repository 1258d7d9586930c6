/** A device in a file of Node's and in memory: what is written, what survives, and who may write. */

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { Device } from "../src/device.ts";
import { Held } from "../src/held.ts";
import { NodeStore } from "../src/node_store.ts";
import { type Change, MemoryStore, type Store, type Table } from "../src/storage.ts";

async function inFolder(work: (path: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "prirec-"));
  try {
    await work(join(folder, "device.db"));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const charge = (number: number) =>
  ({ deployment: new Uint8Array(16), kind: "interaction", number, attempt: 0, what: "the shared model", grains: 1000n });

/** A store whose every change can be cut off, as by a power failure: before it, or right after it. */
class Failing implements Store {
  readonly keepsKeys = false;
  readonly inside: Store;
  left: number;

  constructor(inside: Store, left: number) {
    this.inside = inside;
    this.left = left;
  }

  all = (table: Table): Promise<(readonly [string, unknown])[]> => this.inside.all(table);
  keys = (table: Table): Promise<string[]> => this.inside.keys(table);
  get = (table: Table, key: string): Promise<unknown> => this.inside.get(table, key);
  persisted = (): Promise<null> => Promise.resolve(null);
  close = (): Promise<void> => this.inside.close();

  async commit(changes: readonly Change[]): Promise<void> {
    if (this.left-- === 0) throw new Error("the power is gone");
    await this.inside.commit(changes);
    if (this.left === 0) throw new Error("the power is gone");
  }
}

test("a file is its owner's alone, and has one writer", () =>
  inFolder(async (path) => {
    const store = await NodeStore.open(path);
    assert.equal(statSync(path).mode & 0o777, 0o600);
    await assert.rejects(NodeStore.open(path), { name: "StateError", message: /open elsewhere/ });
    await store.close();
    await (await NodeStore.open(path)).close();
  }));

test("what was recorded is there when the file is opened again, bytes and whole numbers of any size", () =>
  inFolder(async (path) => {
    const store = await NodeStore.open(path);
    const value = { bytes: Uint8Array.of(1, 2), grains: 2n ** 62n, list: [1, [Uint8Array.of(3)]], nothing: null };
    await store.commit([{ table: "rounds", key: "one", value }, { table: "rounds", key: "two", value: 2 }]);
    await store.commit([{ table: "rounds", key: "two" }]);
    await store.close();
    const again = await NodeStore.open(path);
    assert.deepEqual(await again.all("rounds"), [["one", value]]);
    await again.close();
  }));

test("a change is made whole or not at all", () =>
  inFolder(async (path) => {
    const store = await NodeStore.open(path);
    const bad: Change[] = [{ table: "visits", key: "one", value: 1 }, { table: "visits", key: "two", value: () => 1 }];
    await assert.rejects(store.commit(bad));
    assert.deepEqual(await store.all("visits"), []);
    await store.close();
  }));

test("a newer program's file is refused", () =>
  inFolder(async (path) => {
    const store = await NodeStore.open(path);
    await store.commit([{ table: "format", key: "version", value: 2 }]);
    await store.close();
    await assert.rejects(NodeStore.open(path), { name: "StateError", message: /get a newer program/ });
  }));

test("a ledger in which a charge was changed, or is gone, is damaged", async () => {
  for (const spoil of [
    { table: "spending", key: "spoilt", value: { charge: charge(7), day: 1 } },
    { table: "spending", key: "seal" },
  ] as const) {
    const store = new MemoryStore();
    const held = await Held.open(store);
    await held.change(() => held.paying(charge(1), 100));
    await Held.open(store);
    await store.commit([spoil]);
    await assert.rejects(Held.open(store), { name: "StateError", message: /damaged/ });
  }
});

test("whenever the power goes, a charge and what it pays for are both there, or neither", async () => {
  for (let left = 0; left < 4; left++) {
    const inside = new MemoryStore();
    const failing = new Failing(inside, left);
    const held = await Held.open(failing);
    for (let number = 0; number < 3; number++) {
      const row: Change = { table: "rounds", key: String(number), value: { stage: "written" } };
      await held.change(async () => [...(await held.paying(charge(number), 100)), row]).catch(() => {});
    }
    const after = await Held.open(inside);
    assert.equal(after.ledger().length, (await inside.keys("rounds")).length);
  }
});

test("a release is paid for once, at one price, and never beyond the budget", async () => {
  const held = await Held.open(new MemoryStore());
  await held.change(() => held.paying(charge(1), 100));
  await assert.rejects(held.change(() => held.paying(charge(1), 100)), { name: "PolicyError" });
  await assert.rejects(held.change(() => held.paying({ ...charge(1), grains: 1n }, 100)), { name: "StateError" });
  await assert.rejects(held.change(() => held.paying({ ...charge(2), grains: 2n ** 60n }, 100)), { name: "PolicyError" });
  assert.equal(held.ledger().length, 1);
});

test("a charge is dated with the latest day that was seen, whatever the clock says", async () => {
  const held = await Held.open(new MemoryStore());
  await held.change(() => held.seeing(200));
  await held.change(() => held.paying(charge(1), 100));
  assert.equal(held.ledger()[0]!.day, 200);
});

test("changes at the same time come one after another", async () => {
  const device = await Device.open(new MemoryStore());
  const names = Array.from({ length: 20 }, (_, at) => `place ${at}`);
  await Promise.all(names.map((place) => device.recordVisit({ place, time: 5 })));
  assert.deepEqual((await device.visits()).map(({ place }) => place), names);
  assert.equal(await device.recordVisit({ place: "place 3", time: 5 }), false);
});

test("what was exported is imported whole, charges too, and nothing is counted twice", async () => {
  const device = await Device.open(new MemoryStore());
  await device.setProfile({ likes: ["ramen", "ramen", "museums"], age: 34 });
  await device.setHome([47.37, 8.54]);
  await device.recordVisit({ place: "one", time: 5 });
  await device.refuse({ place: "two", time: null });
  const held = device["held"];
  await held.change(() => held.paying(charge(1), 100));
  const budget = { epsilon: 0.9, delta: 1e-7, periodDays: 30 };
  await device.setBudget(budget);
  await device.setFloor(500);
  const exported = JSON.parse(JSON.stringify(await device.export()));
  const other = await Device.open(new MemoryStore());
  assert.deepEqual(await other.import(exported), { visits: 2, charges: 1 });
  assert.deepEqual(await other.import(exported), { visits: 0, charges: 0 });
  assert.deepEqual(await other.visits(), await device.visits());
  assert.deepEqual(await other.profile(), await device.profile());
  const { releases, budget: allowed, floor } = (await other.statement()).budget;
  assert.deepEqual({ releases, allowed, floor }, { releases: 1, allowed: budget, floor: 500 });
  const wrongs = [
    null, {}, { ...exported, version: 2 }, { ...exported, spent: [{}] }, { ...exported, visits: [{ place: 1 }] },
    { ...exported, floor: -1 }, { ...exported, budget: { ...budget, delta: 2 } }, { ...exported, budget: {} },
    { ...exported, spent: [{ ...exported.spent[0], day: 2 ** 40 }] },
  ];
  for (const wrong of wrongs) {
    await assert.rejects(other.import(wrong), (problem: Error) => ["DataError", "UsageError"].includes(problem.name));
  }
  assert.equal((await other.visits()).length, 2);
});

test("what a person allows here is not loosened by an import", async () => {
  const other = await Device.open(new MemoryStore());
  await other.setBudget({ epsilon: 4, delta: 1e-6, periodDays: null });
  await other.setFloor(100);
  const exported = await other.export();
  const device = await Device.open(new MemoryStore());
  await device.setBudget({ epsilon: 0.5, delta: 1e-6, periodDays: null });
  await device.setFloor(500);
  await device.import(exported);
  const { budget, floor } = (await device.statement()).budget;
  assert.deepEqual([budget.epsilon, floor], [0.5, 500]);
});

test("who is forgotten leaves the ledger behind, and nothing else", async () => {
  const store = new MemoryStore();
  const device = await Device.open(store);
  await device.setProfile({ age: 34 });
  await device.recordVisit({ place: "one" });
  const held = device["held"];
  await held.change(() => held.paying(charge(1), 100));
  assert.equal(await device.forget(), "no member");
  for (const table of ["person", "visits", "overruled", "membership", "documents", "given", "sent"] as const) {
    assert.deepEqual(await store.keys(table), []);
  }
  assert.equal((await device.statement()).budget.releases, 1);
});

test("what describes a visit is changed and erased, and the rest of the visit stays", async () => {
  const device = await Device.open(new MemoryStore());
  await device.recordVisit({ place: "one", time: 5, context: { spend: 40, mood: "good" } });
  await device.recordVisit({ place: "two", time: 5 });
  const before = await device.visits();
  const { id } = before[0]!;
  await device.describeVisit(id, { spend: 55.5 });
  assert.deepEqual(await device.visits(), [{ ...before[0]!, context: { spend: 55.5, mood: "good" } }, before[1]!]);
  await device.describeVisit(id, { spend: null, mood: null });
  assert.deepEqual(await device.visits(), [{ ...before[0]!, context: {} }, before[1]!]);
  assert.equal(await device.recordVisit({ place: "one", time: 5 }), false);
});

test("what cannot be is refused in words, and nothing is stored", async () => {
  const device = await Device.open(new MemoryStore());
  for (const [what, name] of [
    [() => device.recordVisit({ place: " " }), "UsageError"],
    [() => device.recordVisit({ place: "one", time: 0.5 }), "DataError"],
    [() => device.setHome([91, 0]), "DataError"],
    [() => device.setProfile({ age: Number.NaN }), "DataError"],
    [() => device.setProfile({ likes: ["\ud800"] }), "DataError"],
    [() => device.setBudget({ epsilon: 0, delta: 1e-6, periodDays: null }), "UsageError"],
    [() => device.setFloor(-1), "UsageError"],
    [() => device.removeVisit("none"), "UsageError"],
    [() => device.describeVisit("none", { spend: 5 }), "UsageError"],
    [() => device.describeVisit("none", { spend: Number.NaN }), "DataError"],
    [() => device.recommend(), "StateError"],
    [() => device.sync(), "StateError"],
    [() => device.join({ url: "http://x", fingerprint: "a".repeat(16), helperFingerprint: "b".repeat(16) }), "UsageError"],
    [() => device.join({ url: "https://x", fingerprint: "a", helperFingerprint: "b".repeat(16) }), "UsageError"],
  ] as const) {
    await assert.rejects(what as () => Promise<unknown>, { name });
  }
  assert.deepEqual(await device.visits(), []);
});
