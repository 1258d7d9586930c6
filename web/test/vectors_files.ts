/** The vectors that both suites, of Python and of TypeScript, are held to. */

import { readdirSync, readFileSync } from "node:fs";

import type { Files } from "./vectors.ts";

const FOLDER = new URL("../../tests/vectors/", import.meta.url);

export function vectorFiles(): Files {
  const names = readdirSync(FOLDER).filter((name) => name.endsWith(".json") && name !== "schema.json");
  return Object.fromEntries(names.map((name) => [name, JSON.parse(readFileSync(new URL(name, FOLDER), "utf8"))]));
}
