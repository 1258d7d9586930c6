/** The auditor's page: what was really published holds (tests/web/published.json, of a deployment of two operators), and whatever is changed shows. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { audit, type AuditedEntry, type Deployment, hex, worst } from "../pages/audit/audit.ts";
import type { Bytes } from "../src/bytes.ts";
import { encode } from "../src/codec.ts";
import { coSignature, logEntry } from "../src/documents.ts";
import { SigningKey } from "../src/keys.ts";
import { digestOf } from "../src/messages.ts";
import { Published } from "./published.ts";

async function audited(source: Published, now = source.page.cosigned?.statement.time ?? 0): Promise<{ deployment: Deployment; entries: readonly AuditedEntry[]; wrong: string[] }> {
  let found: { deployment: Deployment; entries: readonly AuditedEntry[] } | undefined;
  await audit(source, now, (deployment, entries) => { found = { deployment, entries: [...entries] }; });
  const wrong = found!.entries.flatMap(({ index, checks }) => checks.filter(({ outcome }) => outcome === "bad").map(({ what }) => `${index}: ${what}`));
  return { ...found!, wrong: [...found!.deployment.checks.filter(({ outcome }) => outcome === "bad").map(({ what }) => what), ...wrong] };
}

test("what was really published holds, entry by entry, and is told in words", async () => {
  const source = new Published();
  const { deployment, entries, wrong } = await audited(source);
  assert.deepEqual(wrong, []);
  assert.equal(entries.length, source.page.entries.length);
  assert.deepEqual(deployment.signed?.length, entries.length);
  assert.ok(entries.every(({ checks }) => checks.length >= 4 && worst(checks) === "good"));
  const subjects = new Set(entries.map(({ subject }) => subject));
  for (const subject of ["catalogue", "joined", "charter", "window", "edition", "scales", "model", "publication", "figures"]) assert.ok(subjects.has(subject), subject);
  const charter = entries.find(({ subject }) => subject === "charter")!;
  assert.match(charter.about, /^campaign 0 begins: 2 rounds, ε = 1 and δ = .* no sum over fewer than 50 people$/);
});

test("a changed entry shows, and so does every one that was built on it", async () => {
  const source = new Published();
  const at = source.at("window");
  source.page.entries.forEach((one, index) => {
    if (index === at) Object.assign(one.entry, { subject: "model" });
  });
  const { wrong } = await audited(source);
  assert.ok(wrong.includes(`${at}: signed by the recommender`));
  assert.ok(wrong.includes(`${at + 1}: goes on from the entry before`));
});

test("an entry that was left out, or put elsewhere, shows", async () => {
  const source = new Published();
  source.page = { ...source.page, entries: source.page.entries.filter((_, at) => at !== 3) };
  const { wrong } = await audited(source);
  assert.ok(wrong.includes("3: goes on from the entry before"));
  assert.ok(wrong.includes("signed by the helper"), "the helper has signed a longer log");
});

test("a changed document shows, and a missing one", async () => {
  for (const change of [(body: Bytes) => Uint8Array.from(body, (one, at) => (at === body.length - 1 ? one ^ 1 : one)), () => undefined]) {
    const source = new Published();
    const at = source.at("publication");
    const name = hex(source.page.entries[at]!.entry.document);
    const changed = change(source.documents.get(name)!);
    source.documents.delete(name);
    if (changed !== undefined) source.documents.set(name, changed);
    assert.deepEqual((await audited(source)).wrong, [`${at}: its document has the hash that it names`]);
  }
});

test("without the helper’s signature nothing is covered; with another’s neither", async () => {
  const missing = new Published();
  missing.page = { ...missing.page, cosigned: null };
  const none = await audited(missing);
  assert.equal(none.wrong.length, 1 + none.entries.length);
  assert.ok(none.wrong.includes("signed by the helper"));

  const forged = new Published();
  const key = await SigningKey.generate();
  const { statement } = forged.page.cosigned!;
  forged.page = { ...forged.page, cosigned: { statement, signature: await key.sign(encode(coSignature, statement)) } };
  assert.equal((await audited(forged)).wrong.length, none.wrong.length);
});

test("what came after the helper’s signature is not covered, and an old signature is said to be old", async () => {
  const source = new Published();
  const length = source.page.entries.length - 2;
  const helper = await SigningKey.generate();
  source.hello = { ...source.hello, helper: helper.public };
  const statement = { ...source.page.cosigned!.statement, length, last: await digestOf(logEntry, source.page.entries[length - 1]!.entry) };
  source.page = { ...source.page, cosigned: { statement, signature: await helper.sign(encode(coSignature, statement)) } };
  const { wrong } = await audited(source, statement.time + 25 * 3600);
  const covered = wrong.filter((one) => one.includes("covered"));
  assert.deepEqual(covered, [length, length + 1].map((at) => `${at}: covered by the helper’s signature`));
  assert.ok(wrong.includes("the helper’s signature is fresh"));
});

test("a wrong sum shows, though both operators have signed it", async () => {
  for (const [added, shows] of [[0, false], [0.5, true]] as const) {
    const source = new Published();
    await source.risen(added);
    const { wrong } = await audited(source);
    assert.equal(wrong.includes(`${source.at("edition")}: popularity is what follows from the opened sums`), shows);
    assert.ok(wrong.some((one) => one.endsWith("names the operators of this deployment")), "the keys are others, too");
  }
});

test("a rotation of a key is told in words, and holds if three keys have signed it and who joins is told of it", async () => {
  for (const [changes, told, shows] of [
    [{}, true, []],
    [{ byPeer: new Uint8Array(64) }, true, ["signed by the old key, the new key and the other operator", "rotations lead to these keys"]],
    [{}, false, ["is the one that who joins is told of", "signed by the recommender"]],
  ] as const) {
    const source = new Published();
    const keys = await source.signAnew(async (_, document) => document);
    await source.rotate(keys, changes, told);
    const { entries, wrong } = await audited(source);
    const others = wrong.filter((one) => !one.endsWith("names the operators of this deployment")); // the charter names other keys
    if (shows.length === 0) assert.deepEqual(others, []);
    for (const what of shows) assert.ok(others.some((one) => one.endsWith(what)), `${what}: ${others}`);
    assert.match(entries.at(-2)!.about, /^the recommender has another key from here on/);
  }
});

test("a rotation that who joins is told of and that the log lacks shows", async () => {
  const source = new Published();
  const keys = await source.signAnew(async (_, document) => document);
  const { page } = source;
  await source.rotate(keys, {});
  source.page = page;
  const { wrong } = await audited(source);
  const others = wrong.filter((one) => !one.endsWith("names the operators of this deployment")); // the charter names other keys
  assert.deepEqual(others.map((one) => one.replace(/^.*: /, "")), ["the log has all rotations of keys"]);
});

test("a round that is left out shows", async () => {
  const source = new Published();
  const rounds = source.page.entries.filter(({ entry }) => entry.subject === "model");
  const [from, to] = [rounds[0]!.entry.document, source.page.entries[source.at("publication")]!.entry.document];
  await source.signAnew(async (subject, document) => (subject === "publication" && hex(document) === hex(to) ? from : document));
  const { wrong } = await audited(source);
  assert.ok(wrong.some((one) => one.endsWith("is the next round’s")));
});
