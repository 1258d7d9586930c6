/** A device and the log of a recommender that is honest, or is not: what it follows, and what it refuses. */

import assert from "node:assert/strict";
import { test } from "node:test";

import * as h3 from "h3-js";

import { type Bytes, sha256, utf8 } from "../src/bytes.ts";
import { challenge, done, jointHello, refusal, session } from "../src/client.ts";
import { encode, type Tagged } from "../src/codec.ts";
import {
  charter, coSignature, keyChange, logEntry, logPage, manifest, names, offer, places, rotation, type Rotation, rotations,
  type SignedCoSignature, type SignedEntry, window,
  WIRE_VERSION,
} from "../src/documents.ts";
import { Device } from "../src/device.ts";
import { hex } from "../src/held.ts";
import { AgreementKey, SigningKey } from "../src/keys.ts";
import { digestOf } from "../src/messages.ts";
import { isCell } from "../src/regions.ts";
import type { Point } from "../src/geography.ts";
import { MemoryStore } from "../src/storage.ts";

const DEPLOYMENT = new Uint8Array(16).fill(7);
const ENCODING = utf8(JSON.stringify({
  version: 1,
  person: [{ type: "words", column: "likes", words: ["ramen", "museums"] }],
  place: [{ type: "words", column: "kind", words: ["ramen", "museum"] }],
  context: [{ type: "distance", column: "distance", shift: 1, scale: 1 }],
}));
type Subject = SignedEntry["entry"]["subject"];

/** Both operators in memory: what they say may be spoilt. */
class Operators {
  leader: SigningKey;
  helper: SigningKey;
  rotations: readonly Rotation[] = [];
  entries: SignedEntry[] = [];
  readonly documents = new Map<string, Bytes>();
  cosigned: SignedCoSignature | null = null;
  now = 1_700_000_000;
  readonly asked: { path: string; headers: [string, string][]; at: number }[] = [];
  /** Replaces the body of an answer. */
  spoil: ((path: string) => Bytes | undefined) | null = null;
  status = 200;
  catalogue: Bytes = new Uint8Array(0);

  private constructor(leader: SigningKey, helper: SigningKey) {
    [this.leader, this.helper] = [leader, helper];
  }

  static async meet(): Promise<Operators> {
    return new Operators(await SigningKey.of(new Uint8Array(32).fill(1)), await SigningKey.of(new Uint8Array(32).fill(2)));
  }

  async document<T>(kind: Tagged<T>, value: T): Promise<Bytes> {
    const body = encode(kind, value);
    const name = await sha256(body);
    this.documents.set(hex(name), body);
    return name;
  }

  async log(subject: Subject, document: Bytes): Promise<void> {
    const last = this.entries.at(-1);
    const previous = last === undefined ? new Uint8Array(32) : await digestOf(logEntry, last.entry);
    const entry = { version: 1, deployment: DEPLOYMENT, index: this.entries.length, previous, subject, document };
    this.entries.push({ entry, signature: await this.leader.sign(encode(logEntry, entry)) });
  }

  /** The rotation of an operator's key that all three sign; it is not in the log. */
  async rotation(role: "recommender" | "helper", next: SigningKey, changes: Partial<Rotation["change"]> = {}): Promise<Rotation> {
    const [own, peer] = role === "recommender" ? [this.leader, this.helper] : [this.helper, this.leader];
    const number = this.rotations.length;
    const change = { deployment: DEPLOYMENT, number, role, old: own.public, new: next.public, time: this.now, ...changes };
    const [byOld, byNew, byPeer] = await Promise.all([own, next, peer].map((key) => key.sign(encode(keyChange, change))));
    return { change, byOld: byOld!, byNew: byNew!, byPeer: byPeer! };
  }

  async rotate(role: "recommender" | "helper", next: SigningKey): Promise<void> {
    const said = await this.rotation(role, next);
    await this.log("rotation", await this.document(rotation, said));
    this.rotations = [...this.rotations, said];
    if (role === "recommender") this.leader = next;
    else this.helper = next;
    await this.sign();
  }

  async sign(length = this.entries.length, by = this.helper): Promise<void> {
    const last = length === 0 ? new Uint8Array(32) : await digestOf(logEntry, this.entries[length - 1]!.entry);
    const statement = { deployment: DEPLOYMENT, length, last, time: this.now++ };
    this.cosigned = { statement, signature: await by.sign(encode(coSignature, statement)) };
  }

  /** A catalogue of two places. */
  async publish(words = ["Noodles", "Paintings"], encoding = ENCODING): Promise<void> {
    const floats = (...values: number[]): Bytes => new Uint8Array(Float64Array.from(values).buffer);
    const features = new Uint8Array(Float32Array.from([1, 0, 0, 1]).buffer);
    const rows = new Uint8Array(Int32Array.from([0, 1]).buffer);
    const region = await this.document(places, {
      cell: 0n, ids: ["one", "two"], words, rows, location: floats(47.37, 8.54, 47.38, 8.55), features,
    });
    const catalogue = await this.document(manifest, { resolution: 6, regions: [{ cell: 0n, places: region, counts: new Uint8Array(0) }] });
    const offered = { version: 1, deployment: DEPLOYMENT, encoding, manifest: catalogue, places: 2 };
    await this.log("catalogue", await this.document(offer, offered));
    await this.sign();
    this.catalogue = catalogue;
  }

  /** A campaign over this device and others, and the window of its first sum. */
  async begin(device: Device): Promise<void> {
    await this.log("joined", await this.document(names, { names: [device["held"].member()!.name] }));
    const [leaderBox, helperBox] = [await AgreementKey.generate(), await AgreementKey.generate()];
    const settings = {
      iterations: 1, floor: 50, epsilonPerUser: 30, delta: 1e-6, periodDays: 0, popularity: 1, moments: 1, interaction: 1,
      quality: 0, operators: 2, lost: 100, corrupt: 50, roster: 0.5, ringBits: 64 as const, ratio: 1, negatives: "uniform" as const,
      onlyEarlier: false, ownLeftOut: true, heldOut: 0,
    };
    const begun = await this.document(charter, {
      version: 4, deployment: DEPLOYMENT, campaign: 0, recommender: this.leader.public, settings, encoding: ENCODING,
      people: new Uint8Array(0), many: 0, manifest: this.catalogue, places: 2, helper: this.helper.public,
      leaderBox: leaderBox.public, helperBox: helperBox.public, most: 100,
    });
    await this.log("charter", begun);
    const listed = await digestOf(logEntry, this.entries.at(-1)!.entry);
    await this.log("window", await this.document(window, {
      charter: begun, kind: "popularity", number: 0, people: 60, entries: this.entries.length, listed, model: begun,
      opens: this.now, closes: this.now + 86_400,
    }));
    await this.sign();
  }

  readonly fetch = async (url: string, how: RequestInit): Promise<Response> => {
    const { pathname, searchParams } = new URL(url);
    this.asked.push({ path: pathname, headers: Object.entries((how.headers ?? {}) as Record<string, string>), at: performance.now() });
    const body = this.spoil?.(pathname) ?? this.answer(pathname, searchParams);
    return new Response(body, { status: this.status });
  };

  private answer(path: string, asked: URLSearchParams): Bytes {
    const [leader, helper] = [this.leader.public, this.helper.public];
    switch (path) {
      case "/v1/deployment": return encode(jointHello, { version: WIRE_VERSION, deployment: DEPLOYMENT, recommender: leader, title: "a town", helper });
      case "/v1/rotations": return encode(rotations, { rotations: this.rotations });
      case "/v1/log": return encode(logPage, { entries: this.entries.slice(Number(asked.get("after"))).slice(0, 1000), cosigned: this.cosigned });
      case "/v1/challenges": return encode(challenge, { challenge: Uint8Array.of(1) });
      case "/v1/sessions": return encode(session, { token: "token", seconds: 900 });
      case "/v1/devices":
      case "/v1/devices/leave":
      case "/v1/reports": return encode(done, {});
      default: return this.documents.get(path.slice("/v1/documents/".length))!;
    }
  }
}

async function joined(at: Operators, store = new MemoryStore()): Promise<Device> {
  const device = await Device.open(store, { fetch: at.fetch, clock: () => at.now });
  await device.join({ url: "https://town.example", fingerprint: hex(at.leader.public), helperFingerprint: hex(at.helper.public) });
  return device;
}

test("a device joins, recommends from the first minute, and says what left it", async () => {
  const at = await Operators.meet();
  await at.publish();
  const device = await joined(at);
  assert.equal((await device.status()).verdict, "enrolled in a town; ready to recommend, from the person's own records alone, since no model is published yet");
  const [first] = await device.recommend({ near: [47.37, 8.54] });
  assert.equal(first!.about, "Noodles");
  await device.refuse({ place: "one" });
  assert.deepEqual((await device.recommend({ near: [47.37, 8.54] })).map(({ place }) => place), ["two"]);
  await device.recordVisit({ place: "two", time: 1_700_000_000 });
  assert.equal((await device.places({ near: [47.37, 8.54] })).length, 2);
  assert.deepEqual((await device.statement()).sent.map(({ what }) => what).toSorted(), ["joined", "regions"]);
  assert.equal((await device.takePart()).outcome, "nothing due");
  await assert.rejects(device.recordVisit({ place: "three" }), { name: "DataError" });
  await assert.rejects(device.setProfile({ age: 3 }), { name: "DataError", message: /uses likes/ });
  await device.setProfile({ likes: ["ramen"] });
  assert.equal(await device.forget(), "left");
  assert.equal((await device.status()).verdict, "in no deployment yet; let it join one");
});

test("a belief is corrected, and the correction taken back", async () => {
  const at = await Operators.meet();
  await at.publish();
  const device = await joined(at);
  await device.setHome([47.375, 8.545]);
  const pull = async (): Promise<number> => (await device.believes()).find(({ word }) => word === "museum")!.pull;
  const before = await pull();
  await device.overrule({ column: "kind", word: "museum" }, "like");
  assert.ok(Math.abs((await pull()) - 1.5) < 1e-9);
  assert.equal((await device.recommend())[0]!.place, "two");
  await device.overrule({ column: "kind", word: "museum" }, "dislike");
  assert.equal((await device.recommend())[0]!.place, "one");
  await device.overrule({ column: "kind", word: "museum" }, null);
  assert.equal(await pull(), before);
  await assert.rejects(device.overrule({ column: "kind", word: "bar" }, "like"), { name: "UsageError" });
});

test("requests for what is public carry no name, and the same headers", async () => {
  const at = await Operators.meet();
  await at.publish();
  await joined(at);
  const open = at.asked.filter(({ path }) => /deployment|log|documents/.test(path));
  assert.ok(open.length > 4);
  for (const { headers } of open) assert.deepEqual(headers, [["accept", "application/msgpack"]]);
});

test("operators with other keys than the person has are not joined", async () => {
  const at = await Operators.meet();
  const device = await Device.open(new MemoryStore(), { fetch: at.fetch });
  const [leader, helper] = [hex(at.leader.public), hex(at.helper.public)];
  for (const [fingerprint, helperFingerprint] of [[helper, helper], [leader, leader], [leader, "0".repeat(16)]]) {
    const invitation = { url: "https://town.example", fingerprint: fingerprint!, helperFingerprint: helperFingerprint! };
    await assert.rejects(device.join(invitation), { name: "PeerError", fault: "AUTH" });
  }
  assert.equal((await device.status()).membership, null);
});

test("who is refused belongs nowhere", async () => {
  const at = await Operators.meet();
  at.spoil = (path) => (path === "/v1/devices" ? encode(refusal, { fault: "AUTH", problem: "no" }) : undefined);
  await assert.rejects(joined(at), { name: "PeerError", fault: "AUTH", message: /enrolment code/ });
});

test("nothing beyond what the helper has signed is followed", async () => {
  const at = await Operators.meet();
  await at.publish();
  await at.log("joined", await at.document(names, { names: [at.leader.public] }));
  const device = await joined(at);
  assert.equal((await device.status()).entries, 1);
  await at.sign();
  assert.equal((await device.sync()).entries, 2);
});

/** What is done to a log that a device has followed for two entries, and the fault that it is refused for. */
const FORGED: { [claim: string]: [string, (at: Operators) => Promise<void>] } = {
  "a missing co-signature": ["AUTH", async (at) => void (at.cosigned = null)],
  "a co-signature of somebody else": ["AUTH", (at) => at.sign(2, at.leader)],
  "a co-signature that goes back": ["EQUIVOCATION", async (at) => { at.now -= 10; await at.sign(); }],
  "a co-signature of a shorter log": ["EQUIVOCATION", (at) => at.sign(1)],
  "a log that was set back": ["EQUIVOCATION", async (at) => { at.entries = at.entries.slice(0, 1); }],
  "another past": ["EQUIVOCATION", async (at) => { at.entries = []; await at.publish(["Other", "Words"]); await at.publish(); await at.sign(); }],
  "another entry than was signed": ["EQUIVOCATION", async (at) => {
    await at.log("window", new Uint8Array(32));
    await at.sign();
    at.entries.pop();
    await at.log("start", new Uint8Array(32));
  }],
  "an entry of somebody else": ["AUTH", async (at) => {
    await at.log("start", new Uint8Array(32));
    at.entries.push({ ...at.entries.pop()!, signature: new Uint8Array(64) });
    await at.sign();
  }],
  "a rotation that the old key has not signed": ["AUTH", (at) => rotatedBut(at, { byOld: new Uint8Array(64) })],
  "a rotation that the new key has not signed": ["AUTH", (at) => rotatedBut(at, { byNew: new Uint8Array(64) })],
  "a rotation that the other operator has not signed": ["AUTH", (at) => rotatedBut(at, { byPeer: new Uint8Array(0) })],
  "a rotation of another deployment": ["EQUIVOCATION", (at) => rotatedBut(at, {}, { deployment: new Uint8Array(16) })],
  "a rotation of another role": ["EQUIVOCATION", (at) => rotatedBut(at, {}, { role: "helper" })],
  "a rotation that is not the next": ["EQUIVOCATION", (at) => rotatedBut(at, {}, { number: 1 })],
  "a rotation to the other operator's key": ["EQUIVOCATION", (at) => rotatedBut(at, {}, { new: at.helper.public })],
  "a head that the helper's old key has signed": ["AUTH", async (at) => {
    const old = at.helper;
    await at.rotate("helper", await key(9));
    await at.sign(undefined, old);
  }],
  "an entry after a rotation that the old key has signed": ["AUTH", async (at) => {
    const old = at.leader;
    await at.rotate("recommender", await key(9));
    at.leader = old;
    await at.log("start", new Uint8Array(32));
    await at.sign();
  }],
  "an edition of no campaign": ["EQUIVOCATION", async (at) => { await at.log("edition", new Uint8Array(32)); await at.sign(); }],
  "a document that is another": ["DECODE", async (at) => {
    const name = await sha256(utf8("other"));
    at.documents.set(hex(name), utf8("not it"));
    await at.log("catalogue", name);
    await at.sign();
  }],
  "an answer without end": ["DECODE", async (at) => { at.spoil = (path) => (path === "/v1/log" ? new Uint8Array(2 ** 20 + 1) : undefined); }],
};

function key(of: number): Promise<SigningKey> {
  return SigningKey.of(new Uint8Array(32).fill(of));
}

async function rotatedBut(at: Operators, changes: Partial<Rotation>, changed: Partial<Rotation["change"]> = {}): Promise<void> {
  const said = { ...(await at.rotation("recommender", await key(9), changed)), ...changes };
  await at.log("rotation", await at.document(rotation, said));
  await at.sign();
}

test("operators' keys are rotated: a device pins the new ones, also after a restart, and one that joins later knows the old ones", async () => {
  const at = await Operators.meet();
  await at.publish();
  const first = { recommender: hex(at.leader.public), helper: hex(at.helper.public) };
  const store = new MemoryStore();
  const device = await Device.open(store, { fetch: at.fetch, clock: () => at.now });
  await device.join({ url: "https://town.example", fingerprint: first.recommender, helperFingerprint: first.helper });
  await at.rotate("recommender", await key(8));
  await at.rotate("helper", await key(9));
  await at.publish(["Newer", "Paintings"]);
  await device.sync();
  await device.close();
  for (const one of [await Device.open(store, { fetch: at.fetch, clock: () => at.now }), await joined(at)]) {
    await one.sync();
    const { membership, entries } = await one.status();
    assert.equal(entries, at.entries.length);
    assert.equal(membership!.recommenderKey, hex(at.leader.public));
    assert.equal(membership!.helperKey, hex(at.helper.public));
    assert.deepEqual(membership!.rotated.map(({ operator, old }) => [operator, old]), Object.entries(first));
  }
});

test("nobody is joined whose key rotations do not lead to, nor followed without them", async () => {
  const at = await Operators.meet();
  await at.publish();
  const old = at.leader;
  await at.rotate("recommender", await key(8));
  const all = at.rotations;
  at.rotations = [{ ...all[0]!, byPeer: new Uint8Array(64) }];
  await assert.rejects(joined(at), { name: "PeerError", fault: "AUTH" });
  [at.leader, at.rotations] = [old, all];
  await assert.rejects(joined(at), { name: "PeerError", fault: "EQUIVOCATION" });
  at.leader = await key(8);
  const device = await joined(at);
  at.entries.pop();
  await at.sign();
  await assert.rejects(device.sync(), { name: "PeerError", fault: "EQUIVOCATION" });
});

test("a catalogue with more averages over visits than a device makes is refused, and the one before still used", async () => {
  const at = await Operators.meet();
  const averaging = (many: number): Bytes => {
    const averages = Array.from({ length: many }, (_, column) => ({ type: "range", column: `n${column}`, low: 0, high: 1 }));
    return utf8(JSON.stringify({ ...JSON.parse(new TextDecoder().decode(ENCODING)), version: 2, averages }));
  };
  await at.publish(["First", "Second"], averaging(64));
  const device = await joined(at);
  await at.publish(["Third", "Fourth"], averaging(65));
  await assert.rejects(device.sync(), { name: "PolicyError", message: /at most 64 averages/ });
  assert.equal((await device.recommend({ near: [47.37, 8.54] })).length, 2);
});

for (const [claim, [fault, forge]] of Object.entries(FORGED)) {
  test(`refused: ${claim}; what was there before is still used`, async () => {
    const at = await Operators.meet();
    await at.publish(["First", "Second"]);
    await at.publish();
    const device = await joined(at);
    assert.equal((await device.status()).entries, 2);
    await forge(at);
    await assert.rejects(device.sync(), { name: "PeerError", fault });
    assert.equal((await device.status()).entries, 2);
    assert.equal((await device.recommend({ near: [47.37, 8.54] })).length, 2);
    assert.equal((await device.takePart({ spread: 0 })).outcome, "declined");
  });
}

interface Slept {
  sleep: (seconds: number) => Promise<void>;
  draw: (size: number) => Bytes;
}

/** Milliseconds from the request before a report to the report, of a device whose contribution takes so many seconds. */
async function moment(setClock: (now: () => number) => void, visits: readonly string[], seconds: number): Promise<number> {
  const at = await Operators.meet();
  await at.publish();
  const device = await joined(at);
  await device.setBudget({ epsilon: 40, delta: 1e-6, periodDays: null });
  for (const [hour, place] of visits.entries()) await device.recordVisit({ place, time: 1_600_000_000 + 3600 * hour });
  await at.begin(device);
  let now = 0;
  setClock(() => now);
  const { held, pace } = device as unknown as { held: { visits: () => unknown }; pace: Slept };
  const [read, { draw }] = [held.visits.bind(held), pace];
  held.visits = () => {
    now += 1000 * seconds;
    return read();
  };
  pace.sleep = async (seconds) => void (now += 1000 * seconds);
  pace.draw = (size) => { // a proof takes longer than what is left of the time
    [pace.draw, now] = [draw, now + 350];
    return draw(size);
  };
  assert.equal((await device.takePart({ spread: 0 })).outcome, "sent");
  const sent = at.asked.findIndex(({ path }) => path === "/v1/reports");
  return at.asked[sent]!.at - at.asked.findLast(({ path }, before) => before < sent && path === "/v1/log")!.at;
}

test("a report leaves at the same moment whatever was visited and however long its contribution took", async (t) => {
  const clock = t.mock.method(performance, "now");
  const seen = [];
  for (const visits of [[], ["one"], ["one", "two", "one"]]) {
    for (const seconds of [0, 0.001, 0.3, 1.534, 1.799]) {
      seen.push(await moment((now) => clock.mock.mockImplementation(now), visits, seconds));
    }
  }
  assert.deepEqual(seen.map(Math.round), seen.map(() => 4000)); // a multiple of the time that the campaign gives
});

/** A catalogue of so many regions, each a document of so many bytes of its own, none of which is looked at. */
async function wide(at: Operators, regions: number, size: number, seed: number): Promise<void> {
  const cells = [];
  for (let number = 0; number < regions; number++) {
    const body = new Uint8Array(size).fill(number % 251);
    body.set(utf8(`${seed} ${number}`));
    const name = await sha256(body);
    at.documents.set(hex(name), body);
    cells.push({ cell: BigInt(number), places: name, counts: new Uint8Array(0) });
  }
  const catalogue = await at.document(manifest, { resolution: 6, regions: cells });
  await at.log("catalogue", await at.document(offer, { version: 1, deployment: DEPLOYMENT, encoding: ENCODING, manifest: catalogue, places: 2 }));
  await at.sign();
}

async function storedBytes(store: MemoryStore): Promise<number> {
  let total = 0;
  for (const key of await store.keys("documents")) total += ((await store.get("documents", key)) as Bytes).length;
  return total / 2 ** 20;
}

test("documents of more than 256 MB are not stored, however often they are offered, and those in force stay", async () => {
  const at = await Operators.meet();
  await at.publish();
  const store = new MemoryStore();
  const device = await joined(at, store);
  const before = await storedBytes(store);
  await wide(at, 10, 32 * 2 ** 20, 0);
  for (let time = 0; time < 2; time++) {
    await assert.rejects(device.sync(), { name: "PolicyError", message: /256 MB/ });
    assert.equal(await storedBytes(store), before);
  }
  assert.equal((await device.recommend({ near: [47.37, 8.54] })).length, 2);
});

test("catalogues that change while the line breaks do not pile up, and what was fetched is not fetched again", async () => {
  const at = await Operators.meet();
  await at.publish();
  const store = new MemoryStore();
  const device = await joined(at, store);
  const found: string[] = [];
  let most = 0;
  for (let turn = 1; turn < 7; turn++) {
    if (turn < 6) { // the last one is offered twice: what was there of it was thrown away, and the line breaks once more
      at.documents.clear();
      await wide(at, 6, 30 * 2 ** 20, turn);
    }
    let served = 0;
    at.spoil = (path) => {
      if (path.startsWith("/v1/documents") && (served += 1) > 6) throw new TypeError("the line broke");
      return undefined;
    };
    await assert.rejects(device.sync(), (error: Error) => found.push(error.name) > 0);
    most = Math.max(most, await storedBytes(store));
  }
  const broken = "UnavailableError";
  assert.deepEqual(found, [broken, broken, broken, broken, "PolicyError", broken]);
  assert.ok(256 < most && most <= 512);
  at.spoil = null;
  const asked = at.asked.length;
  await device.sync();
  assert.equal(at.asked.slice(asked).filter(({ path }) => path.startsWith("/v1/documents")).length, 2);
});

test("a recommender that is away is told of, and keeps nobody from recommending or leaving", async () => {
  const at = await Operators.meet();
  await at.publish();
  const device = await joined(at);
  at.status = 503;
  assert.equal((await device.takePart()).outcome, "unreachable");
  await assert.rejects(device.sync(), { name: "UnavailableError" });
  assert.equal((await device.recommend({ near: [47.37, 8.54] })).length, 2);
  assert.equal(await device.forget(), "unreachable");
  assert.equal((await device.status()).membership, null);
});

test("words that could forge what a screen shows are refused with their region", async () => {
  const at = await Operators.meet();
  await at.publish(["Noodles\u202e", "Paintings"]);
  const device = await joined(at);
  await assert.rejects(device.recommend({ near: [47.37, 8.54] }), { name: "PeerError", fault: "DECODE" });
  await at.publish(["<script>alert(1)</script>", "麺 🍜"]); // text like any other
  await device.sync();
  assert.equal((await device.recommend({ near: [47.37, 8.54] })).length, 2);
});

const ZURICH: Point = [47.37, 8.54];
const BASEL: Point = [47.56, 7.59];
const MILAN: Point = [45.46, 9.19];

/** A catalogue of one place in each of these cities, in a region of its own; the address of its document by city. */
async function spread(at: Operators, cities: readonly Point[], edition = ""): Promise<string[]> {
  const octets = (values: Float64Array | Float32Array | Int32Array): Bytes => new Uint8Array(values.buffer as ArrayBuffer);
  const lines = await Promise.all(cities.map(async (city, row) => {
    const cell = BigInt(`0x${h3.latLngToCell(...city, 5)}`);
    const document = await at.document(places, {
      cell, ids: [`place ${row}`], words: [`Noodles ${edition}`], rows: octets(Int32Array.of(row)),
      location: octets(Float64Array.of(...city)), features: octets(Float32Array.of(1, 0)),
    });
    return { cell, places: document, counts: new Uint8Array(0) };
  }));
  const regions = lines.toSorted((one, other) => (one.cell < other.cell ? -1 : 1));
  const catalogue = await at.document(manifest, { resolution: 5, regions });
  await at.log("catalogue", await at.document(offer, { version: 1, deployment: DEPLOYMENT, encoding: ENCODING, manifest: catalogue, places: cities.length }));
  await at.sign();
  return lines.map((line) => `/v1/documents/${hex(line.places)}`);
}

async function joinedAt(at: Operators, home: Point, store = new MemoryStore(), fetch = at.fetch): Promise<Device> {
  const device = await Device.open(store, { fetch, clock: () => at.now, h3 });
  await device.join({ url: "https://town.example", fingerprint: hex(at.leader.public), helperFingerprint: hex(at.helper.public), home });
  return device;
}

const placesOf = async (device: Device): Promise<string[]> => (await device.places({ radiusKm: Infinity })).map(({ id }) => id);

test("the regions around another place are downloaded when a person asks for them, without a name, and their new editions too", async () => {
  const at = await Operators.meet();
  const addresses = await spread(at, [ZURICH, BASEL, MILAN]);
  const store = new MemoryStore();
  const device = await joinedAt(at, ZURICH, store);
  assert.deepEqual(await placesOf(device), ["place 0"]);
  await assert.rejects(device.recommend({ near: MILAN }), { name: "UsageError", message: /downloaded/ });
  assert.equal(await device.download(MILAN), 1);
  assert.deepEqual((await device.recommend({ near: MILAN, k: 1 })).map(({ place }) => place), ["place 2"]);
  assert.deepEqual(at.asked.find(({ path }) => path === addresses[2])!.headers, [["accept", "application/msgpack"]]);
  assert.ok(!at.asked.some(({ path }) => path === addresses[1]));
  const { sent } = await device.statement();
  assert.deepEqual(sent.filter(({ what }) => what === "regions").map(({ said }) => said.words).toSorted(), [
    "which regions are around a place that the person asked for, without its name",
    "which regions are around its coarse cell, without its name",
  ]);
  assert.equal(await device.download(MILAN), 0);
  assert.equal(await device.download([52.52, 13.4]), 0); // where there is no region

  await spread(at, [ZURICH, BASEL, MILAN], "of today");
  await device.sync();
  await device.close(); // after what it was downloading
  const again = await Device.open(store, { fetch: at.fetch, clock: () => at.now, h3 });
  assert.deepEqual((await again.places({ radiusKm: Infinity })).map(({ about }) => about), ["Noodles of today", "Noodles of today"]);
  assert.ok((await again.areas()).some(({ centre }) => Math.abs(centre![0] - MILAN[0]) < 0.1));
  for (const { id } of await again.areas()) await again.dropArea(id);
  assert.deepEqual(await placesOf(again), ["place 0"]);
  await again.sync();
  assert.equal((await store.keys("documents")).filter((key) => addresses.some((one) => one.endsWith(key))).length, 0);
});

test("an area that never comes keeps nobody from reporting, or whoever holds it back would see who has asked for it", async () => {
  const at = await Operators.meet();
  await at.publish();
  const [, milan] = await spread(at, [ZURICH, MILAN]);
  const { promise: held, resolve } = Promise.withResolvers<Response>();
  let holding = true;
  const device = await joinedAt(at, ZURICH, new MemoryStore(), (url, how) => (holding && url.endsWith(milan!) ? held : at.fetch(url, how)));
  const waiting = device.download(MILAN);
  while ((await device.areas()).length === 0) await new Promise((over) => setTimeout(over, 1));
  assert.equal((await device.takePart()).outcome, "nothing due");
  assert.deepEqual(await placesOf(device), ["place 0"]);
  resolve(new Response(null, { status: 503 }));
  await assert.rejects(waiting, { name: "UnavailableError" });
  holding = false;
  await device.sync(); // once more, beside everything else
  await device.close();
  assert.deepEqual(await placesOf(device), ["place 0", "place 1"]);
});

test("whoever leaves leaves the areas behind, and whoever has all regions has nothing to download", async () => {
  const at = await Operators.meet();
  await spread(at, [ZURICH, MILAN]);
  const store = new MemoryStore();
  const device = await joinedAt(at, ZURICH, store);
  await device.download(MILAN);
  assert.equal((await device.export()).areas.length, 1);
  await device.leave();
  assert.deepEqual([await device.areas(), await store.keys("documents")], [[], []]);
  const other = await joined(at);
  const before = at.asked.length;
  assert.equal(await other.download(MILAN), 0);
  assert.ok(at.asked.slice(before).every(({ path }) => path === "/v1/log"));
});

test("cells of H3 are told from other numbers", () => {
  for (const cell of [0x861f05907ffffffn, 0x841f059ffffffffn, 0x8009fffffffffffn]) {
    assert.equal(isCell(cell, Number((cell >> 52n) & 15n)), true);
    assert.equal(isCell(cell, 5), false);
    assert.equal(isCell(cell | (1n << 63n), Number((cell >> 52n) & 15n)), false);
  }
  assert.equal(isCell(0x8609c7fffffffffn & ~7n, 6), false);
});
