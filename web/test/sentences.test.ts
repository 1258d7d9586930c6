/** What the device says: in English by itself, in other words by an app, and as it was where an earlier device has stored it. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { spoken } from "../app/texts.ts";
import { Device } from "../src/device.ts";
import { DataError, PeerError, StateError } from "../src/errors.ts";
import { say, worded, type Wordings } from "../src/sentences.ts";
import { MemoryStore } from "../src/storage.ts";

test("an error has its message in English, and says what it is about in any words", () => {
  const range = new DataError(say("wantsRange", { low: 1, high: 9 }), "shoe_size");
  assert.equal(range.message, "column 'shoe_size': a number from 1 to 9 belongs here");
  assert.equal(spoken(range.said), "shoe size: a number from 1 to 9 belongs here");
  const forked = new PeerError("EQUIVOCATION", say("anotherLog"));
  assert.match(forked.message, /^EQUIVOCATION: the recommender's log lacks/);
  assert.match(spoken(forked.said), /^the recommender’s log lacks/);
  assert.equal(spoken(new StateError("for whoever debugs this").said), "for whoever debugs this");
});

test("a sentence within a sentence is said in the same words", () => {
  const why = say("overBudget", { sum: "interaction" });
  assert.equal(say("stayedOut", { why, fault: null }).words, "stayed out of a sum: this person's privacy budget does not cover another report for the shared model");
  assert.equal(
    spoken(say("stayedOut", { why, fault: null })),
    "stayed out of a sum: what is left of your privacy budget does not cover another report for the model that everyone learns together",
  );
});

test("a sentence that an app has no words for is said in its own", () => {
  assert.equal(worded({} as Wordings, say("popular")), "popular");
  assert.equal(spoken({ kind: "toString", about: [], words: "of a newer device" }), "of a newer device");
});

test("what an earlier device has stored in words is said as it was", async () => {
  const store = new MemoryStore();
  const round = { deployment: new Uint8Array(16), kind: "popularity", number: 0, group: 0, attempt: 0 };
  const entry = {
    round, stage: "arrived", body: new Uint8Array(0), bytes: 9, at: 2, to: "https://town.example", entries: 3, people: 60, floor: 50, grains: 1n,
    what: "how popular places are", zeros: "it was late",
  };
  await store.commit([
    { table: "sent", key: "000000000", value: { at: 1, what: "joined", to: "https://town.example", bytes: 32, words: "its key", report: null } },
    { table: "rounds", key: "one", value: entry },
  ]);
  const { sent } = await (await Device.open(store)).statement();
  assert.deepEqual(sent.map(({ what, said }) => [what, said.kind]), [["report", "sentReport"], ["joined", "other"]]);
  assert.deepEqual([spoken(sent[1]!.said), spoken(sent[0]!.report!.zeros!)], ["its key", "it was late"]);
});
