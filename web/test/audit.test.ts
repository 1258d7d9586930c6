/** The auditor's page: what was really published holds (tests/web/published.json, of a city of two operators), and whatever is changed shows. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { audit, type AuditedEntry, type Deployment, hex, type Source, worst } from "../pages/audit/audit.ts";
import { type Bytes, sha256 } from "../src/bytes.ts";
import { jointHello } from "../src/client.ts";
import { decode, encode } from "../src/codec.ts";
import {
  coSignature, counts, edition, keyChange, logEntry, logPage, manifest, NO_LOG, numbersIn, rotation, type Rotation, rotations,
} from "../src/documents.ts";
import { SigningKey } from "../src/keys.ts";
import { digestOf } from "../src/messages.ts";
import { POPULARITY, popularityOf } from "../src/popularity.ts";

const HELD = JSON.parse(readFileSync(new URL("../../tests/web/published.json", import.meta.url), "utf8")) as {
  deployment: string; log: string; documents: Record<string, string>;
};

/** What a recommender gives out, to be changed. */
class Published implements Source {
  hello = decode(jointHello, bytesOf(HELD.deployment));
  page = decode(logPage, bytesOf(HELD.log));
  documents = new Map(Object.entries(HELD.documents).map(([name, body]) => [name, bytesOf(body)]));

  async deployment(): Promise<Bytes> {
    return encode(jointHello, this.hello);
  }

  rotated: readonly Rotation[] = [];

  async rotations(): Promise<Bytes> {
    return encode(rotations, { rotations: this.rotated });
  }

  async log(after: number): Promise<Bytes> {
    return encode(logPage, { ...this.page, entries: this.page.entries.slice(after) });
  }

  async document(address: string): Promise<Bytes | undefined> {
    return this.documents.get(address);
  }

  at(subject: string): number {
    return this.page.entries.findIndex(({ entry }) => entry.subject === subject);
  }

  /** As dishonest operators would: everything is signed anew, with keys of their own. */
  async signAnew(change: (subject: string, document: Bytes) => Promise<Bytes>): Promise<{ recommender: SigningKey; helper: SigningKey }> {
    const [recommender, helper] = [await SigningKey.generate(), await SigningKey.generate()];
    this.hello = { ...this.hello, recommender: recommender.public, helper: helper.public };
    let last = NO_LOG.last;
    const entries = [];
    for (const { entry } of this.page.entries) {
      const signed = { ...entry, previous: last, document: await change(entry.subject, entry.document) };
      entries.push({ entry: signed, signature: await recommender.sign(encode(logEntry, signed)) });
      last = await digestOf(logEntry, signed);
    }
    const statement = { ...this.page.cosigned!.statement, last };
    this.page = { entries, cosigned: { statement, signature: await helper.sign(encode(coSignature, statement)) } };
    return { recommender, helper };
  }

  /** A rotation of the recommender's key at the end, and an entry that the new key has signed; or that nobody told of. */
  async rotate(keys: { recommender: SigningKey; helper: SigningKey }, changes: Partial<Rotation>, told = true): Promise<void> {
    const [{ recommender, helper }, next] = [keys, await SigningKey.generate()];
    const { deployment } = this.page.entries[0]!.entry;
    const change = { deployment, number: 0, role: "recommender" as const, old: recommender.public, new: next.public, time: 0 };
    const [byOld, byNew, byPeer] = await Promise.all([recommender, next, helper].map((one) => one.sign(encode(keyChange, change))));
    const said = { change, byOld: byOld!, byNew: byNew!, byPeer: byPeer!, ...changes };
    const entries = [...this.page.entries];
    const again = entries[this.at("catalogue")]!.entry.document;
    const more = [["rotation", await this.put(encode(rotation, said)), recommender], ["catalogue", again, next]] as const;
    for (const [subject, document, by] of more) {
      const previous = await digestOf(logEntry, entries.at(-1)!.entry);
      const entry = { version: 1, deployment, index: entries.length, previous, subject, document };
      entries.push({ entry, signature: await by.sign(encode(logEntry, entry)) });
    }
    const last = await digestOf(logEntry, entries.at(-1)!.entry);
    const statement = { ...this.page.cosigned!.statement, length: entries.length, last };
    this.page = { entries, cosigned: { statement, signature: await helper.sign(encode(coSignature, statement)) } };
    this.hello = { ...this.hello, recommender: next.public };
    this.rotated = told ? [said] : [];
  }

  async put(body: Bytes): Promise<Bytes> {
    const name = await sha256(body);
    this.documents.set(hex(name), body);
    return name;
  }
}

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
  for (const subject of ["catalogue", "joined", "charter", "window", "edition", "scales", "model", "publication"]) assert.ok(subjects.has(subject), subject);
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

/** An edition in which popularity rises out of the noise; with something added to an opened sum after it was computed. */
async function risen(source: Published, added: number): Promise<void> {
  await source.signAnew(async (subject, document) => {
    if (subject !== "edition") return document;
    const found = decode(edition, source.documents.get(hex(document))!);
    const list = decode(manifest, source.documents.get(hex(found.manifest))!);
    const { popularity } = JSON.parse(new TextDecoder().decode(found.encoding)) as { popularity: { column: string }[] };
    const own = popularity.findIndex(({ column }) => column === POPULARITY);
    assert.ok(own >= 0);
    const regions = [];
    for (const region of list.regions) {
      const held = decode(counts, source.documents.get(hex(region.counts))!);
      const many = held.sums.length / 8;
      const [sums, predicted, released] = [numbersIn(held.sums, "float64", many), numbersIn(held.predicted, "float64", many), numbersIn(held.released, "float64", many * popularity.length)];
      for (let at = 0; at < many; at += 1) released[at * popularity.length + own] = popularityOf(sums[at]!, predicted[at]!, found.sigma, 2);
      if (regions.length === 0) sums[0]! += added;
      const bytes = (values: Float64Array) => new Uint8Array(values.buffer) as Bytes;
      regions.push({ ...region, counts: await source.put(encode(counts, { ...held, sums: bytes(sums), released: bytes(released) })) });
    }
    return source.put(encode(edition, { ...found, shape: 2, manifest: await source.put(encode(manifest, { ...list, regions })) }));
  });
}

test("a wrong sum shows, though both operators have signed it", async () => {
  for (const [added, shows] of [[0, false], [0.5, true]] as const) {
    const source = new Published();
    await risen(source, added);
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

test("a round that is left out shows", async () => {
  const source = new Published();
  const rounds = source.page.entries.filter(({ entry }) => entry.subject === "model");
  const [from, to] = [rounds[0]!.entry.document, source.page.entries[source.at("publication")]!.entry.document];
  await source.signAnew(async (subject, document) => (subject === "publication" && hex(document) === hex(to) ? from : document));
  const { wrong } = await audited(source);
  assert.ok(wrong.some((one) => one.endsWith("is the next round’s")));
});

function bytesOf(text: string): Bytes {
  return Uint8Array.from(Buffer.from(text, "base64"));
}
