/** The recorded round and the questions of the auditor's page: all of it holds, and whatever is changed shows. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { bestGuess, checkedQuestions, MODES, NO_TRY, type Questions, rateOf, shuffled, tried } from "../pages/audit/attack.ts";
import { worst } from "../pages/audit/audit.ts";
import { type Batch, batch, MESSAGES, verdicts } from "../pages/audit/operators_messages.ts";
import { type Recording, replay } from "../pages/audit/round.ts";
import { decodeOneOf, encode, type Of } from "../src/codec.ts";

const RECORDED = read<Recording>("round.json");
const ASKED = read<Questions>("questions.json");

test("every message of the recorded round holds, and the two shares are the sum that both operators have signed", async () => {
  const { steps, watched, opened, exact, noise, people } = await replay(RECORDED);
  assert.ok(steps.every(({ checks }) => worst(checks) === "good"));
  const sent = Object.groupBy(steps, ({ name }) => name);
  assert.equal(sent["report"]!.reduce((sum, { many }) => sum + many, 0), people);
  for (const [name, many] of [["batch", 2], ["verdicts", 2], ["closing", 2], ["noised share", 2], ["opened sum", 2]] as const) assert.equal(sent[name]!.length, many, name);
  assert.equal(new Set(sent["report"]!.map(({ size }) => size)).size, 1, "every report has the same length");
  for (const one of watched) assert.deepEqual(one.together, one.vector);
  // two draws of noise are in the sum, neither none nor many times as much: 24 entries, by far enough at 1e-9
  const off = opened.reduce((sum, one, at) => sum + (one - exact[at]!) ** 2, 0) / (2 * noise ** 2);
  assert.ok(off > 2 && off < 95, `${off}`);
});

test("whatever is changed of what was signed, hashed or committed to shows", async () => {
  for (const [at, { bytes }] of RECORDED.messages.entries()) {
    if (bytes === undefined) continue;
    const messages = RECORDED.messages.map((one, row) => (row === at ? { ...one, bytes: changed(bytes) } : one));
    const outcome = await replay({ ...RECORDED, messages }).then(({ steps }) => steps.map(({ checks }) => worst(checks)), () => ["refused"]);
    assert.ok(outcome.some((one) => one !== "good"), `message ${at}`);
  }
});

test("files of another version are refused in words", async () => {
  await assert.rejects(replay({ ...RECORDED, version: 2 }), /another version/);
  assert.throws(() => checkedQuestions({ ...ASKED, version: 2 }), /another version/);
});

test("the best guess is as often right as the law of the noise says: always in the paper's mode, by chance over two operators", () => {
  assert.equal(rateOf(ASKED.questions, "paper"), 1);
  for (const mode of MODES) {
    if (mode === "paper") continue;
    const [expected, many] = [ASKED.expected[mode], ASKED.questions.length];
    assert.ok(Math.abs(rateOf(ASKED.questions, mode) - expected) < 4 * Math.sqrt((expected * (1 - expected)) / many), mode);
  }
  assert.ok(ASKED.expected["made up"] > 0.9 && ASKED.expected["two operators"] < 0.56);
});

test("what is shown tells nothing by its order: the visited place is as often the first as the second", () => {
  const first = ASKED.questions.filter(({ visited }) => visited === 0).length / ASKED.questions.length;
  assert.ok(Math.abs(first - 0.5) < 0.2);
});

test("scores count both attackers, about the same people", () => {
  const question = ASKED.questions[0]!;
  const wrong = question.visited === 0 ? 1 : 0;
  const after = tried(tried(NO_TRY, question, "paper", wrong), question, "paper", question.visited);
  assert.deepEqual(after, { tries: 2, you: 1, attacker: 2 });
  assert.equal(bestGuess(question, "paper"), question.visited);
  assert.deepEqual(shuffled(50).toSorted((a, b) => a - b), Array.from({ length: 50 }, (_, at) => at));
});

/** Another last byte, which is of a signature, a hash or a salt; another nonce in a batch; another first verdict. */
function changed(text: string): string {
  const data = Uint8Array.from(Buffer.from(text, "base64"));
  const { tag, value } = decodeOneOf(MESSAGES, data);
  if (tag === "batch") {
    const held = value as Batch;
    const reports = held.reports.map((one, at) => (at === 0 ? { ...one, nonce: Uint8Array.from(one.nonce, (byte) => byte ^ 1) } : one));
    return Buffer.from(encode(batch, { ...held, reports })).toString("base64");
  }
  if (tag === "verdicts") {
    const held = value as Of<typeof verdicts>;
    return Buffer.from(encode(verdicts, { ...held, verdicts: held.verdicts.map((one, at) => (at === 0 ? { ...one, reason: 4 } : one)) })).toString("base64");
  }
  data[data.length - 1]! ^= 1;
  return Buffer.from(data).toString("base64");
}

function read<T>(name: string): T {
  return JSON.parse(readFileSync(new URL(`../pages/audit/static/${name}`, import.meta.url), "utf8")) as T;
}
