/** Runs all vectors in a worker, and answers with what is wrong. */

import { type Files, ofADevice, problemOf } from "./vectors.ts";

onmessage = async ({ data }: MessageEvent<Files>) => {
  const problems: string[] = [];
  const vectors = ofADevice(data);
  for (const { name, vector } of vectors) {
    const problem = await problemOf(vector);
    if (problem !== null) problems.push(`${name}: ${problem}`);
  }
  postMessage({ run: vectors.length, problems });
};
