/** What vectors do not say: keys that are drawn, boxes that are sealed here, tasks that no honest operator would name. */

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  AgreementKey, type JointStatement, makeReport, PeerError, readMessage, report, sealBox, signedOf, SigningKey, UsageError, verify,
} from "../src/index.ts";
import { VERSION } from "../src/messages.ts";
import { report as proved, Parameters } from "../src/pine.ts";

const [leader, helper] = [await AgreementKey.generate(), await AgreementKey.generate()];
const TASK: JointStatement = {
  version: VERSION,
  round: { deployment: new Uint8Array(16), kind: "interaction", number: 1, group: 0, attempt: 0 },
  terms: {
    method: "two_operators", length: 5, ringBits: 64, fractionBits: 8, bound: 1000, floor: 50, corrupt: 0, lost: 0,
    noise: 1e6,
  },
  model: new Uint8Array(32),
  leader: new Uint8Array(32).fill(1), leaderBox: leader.public,
  helper: new Uint8Array(32).fill(2), helperBox: helper.public,
  listed: new Uint8Array(32).fill(3),
  people: 1000,
};
const VECTOR = [600, -800, 0, 0, 0]; // as long as the bound

test("a box opens with the key that it was sealed to, and with exactly its fields", async () => {
  const content = Uint8Array.of(1, 2, 3);
  const box = await sealBox(leader.public, content, "report", 3, TASK.model);
  assert.equal(box.length, content.length + 48);
  assert.deepEqual(await leader.openBox(box, "report", 3, TASK.model), content);
  await assert.rejects(helper.openBox(box, "report", 3, TASK.model), PeerError);
  await assert.rejects(leader.openBox(box, "report", 4, TASK.model), PeerError);
  await assert.rejects(sealBox(new Uint8Array(32), content), PeerError);
});

test("two boxes of one content have nothing in common", async () => {
  const [one, other] = [await sealBox(leader.public, TASK.model), await sealBox(leader.public, TASK.model)];
  assert.notDeepEqual(one.slice(0, 32), other.slice(0, 32));
  assert.notDeepEqual(one.slice(32), other.slice(32));
});

test("keys that are drawn here agree and sign, and are different", async () => {
  assert.deepEqual(await leader.agree(helper.public), await helper.agree(leader.public));
  const key = await SigningKey.generate();
  await verify(key.public, await key.sign(TASK.model), TASK.model);
  assert.notDeepEqual(key.public, (await SigningKey.generate()).public);
});

test("a report is signed by its device, and nothing in it is drawn twice", async () => {
  const identity = await SigningKey.generate();
  const message = readMessage(report, await makeReport(TASK, identity, VECTOR));
  assert.deepEqual([message.sender, message.receiver], [identity.public, TASK.leader]);
  await verify(identity.public, message.signature, await signedOf(message));
  const other = readMessage(report, await makeReport(TASK, identity, VECTOR));
  for (const part of ["nonce", "public", "leaderBox", "helperBox", "signature"] as const) {
    assert.notDeepEqual(message[part], other[part], part); // all randomness is drawn for each report
  }
});

test("a vector beyond the bound, of another length or not of whole numbers is not reported", async () => {
  const identity = await SigningKey.generate();
  for (const vector of [[600, -800, 1, 0, 0], [1, 2], [0.5, 0, 0, 0, 0], [Number.NaN, 0, 0, 0, 0]]) {
    await assert.rejects(makeReport(TASK, identity, vector), UsageError);
  }
});

test("nothing is reported to a task that no honest operators would name", async () => {
  const identity = await SigningKey.generate();
  const { terms } = TASK;
  const wrong: Partial<JointStatement>[] = [
    { terms: { ...terms, method: "double" } },
    { terms: { ...terms, ringBits: 32 } },
    { terms: { ...terms, floor: 49 } },
    { terms: { ...terms, bound: 2 ** 32 } },
    { helper: TASK.leader },
    { helperBox: TASK.leaderBox },
    { helperBox: new Uint8Array(32) },
  ];
  for (const change of wrong) {
    await assert.rejects(makeReport({ ...TASK, ...change }, identity, VECTOR), (error) =>
      error instanceof UsageError || error instanceof PeerError,
    );
  }
});

test("randomness that does not pass the checks is drawn again, and no report is made of it", async () => {
  const tight = new Parameters({ dimension: 3, normBound: 1000, chunk: 4, normChunk: 2, checks: 1, successes: 1, alpha: 0.001 });
  const draws: number[] = [];
  for (let turn = 0; turn < 20; turn++) {
    let many = 0;
    await proved(tight, [1000, 0, 0], new Uint8Array(16), (size) => {
      many += 1;
      return crypto.getRandomValues(new Uint8Array(size));
    });
    draws.push(many);
  }
  // each draw passes with a chance of one half: 20 that passed at once have a chance of 2^-20
  assert.ok(Math.max(...draws) > 1);
});

test("a message of another version is told from one that is damaged", async () => {
  const bytes = await makeReport(TASK, await SigningKey.generate(), VECTOR);
  const at = 1 + 1 + "report".length; // behind the head of the list and the tag
  assert.equal(bytes[at], VERSION);
  bytes[at] = VERSION + 1;
  assert.throws(() => readMessage(report, bytes), /another version/);
  assert.throws(() => readMessage(report, bytes.slice(0, 50)), /another version/);
  bytes[at] = VERSION;
  assert.throws(() => readMessage(report, bytes.slice(1)), /not exactly one message/);
});
