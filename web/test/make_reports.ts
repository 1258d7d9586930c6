/** Reads a task and people from standard input, as JSON; prints each person's report, in hex, on a line. */

import { text } from "node:stream/consumers";

import { decode } from "../src/codec.ts";
import { jointStatement, makeReport, SigningKey } from "../src/index.ts";
import { fromHex, hex } from "./vectors.ts";

interface Given {
  task: string;
  people: { secret: string; vector: number[] }[];
}

const { task, people } = JSON.parse(await text(process.stdin)) as Given;
for (const { secret, vector } of people) {
  console.log(hex(await makeReport(decode(jointStatement, fromHex(task)), await SigningKey.of(fromHex(secret)), vector)));
}
