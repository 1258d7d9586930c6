import assert from "node:assert/strict";
import { test } from "node:test";

import { ofADevice, problemOf } from "./vectors.ts";
import { vectorFiles } from "./vectors_files.ts";

const FILES = vectorFiles();

for (const { name, vector } of ofADevice(FILES)) {
  test(name, async () => assert.equal(await problemOf(vector), null));
}

test("enough vectors concern a device, and enough of them are to be refused", () => {
  const vectors = ofADevice(FILES);
  assert.ok(vectors.length >= 450, String(vectors.length));
  assert.ok(vectors.filter(({ vector }) => vector.error !== undefined).length >= 150);
});

test("a vector whose answer is another is noticed", async () => {
  const { vector } = ofADevice(FILES).find((one) => one.vector.operation === "derive")!;
  assert.notEqual(await problemOf({ ...vector, output: "00" }), null);
});
