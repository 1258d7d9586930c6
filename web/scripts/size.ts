/** Prints how large the package is, as an app ships it, and what My phone loads; fails if something is above its limit. */

import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

import { build } from "esbuild";

const BUILT = fileURLToPath(new URL("../../src/prirec/pages/built/app/", import.meta.url));

const { outputFiles } = await build({
  entryPoints: [fileURLToPath(new URL("../src/index.ts", import.meta.url))],
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2024",
  external: ["h3-js"],
  write: false,
});

const packed = (body: Uint8Array): number => gzipSync(body, { level: 9 }).length;

/** Of the built files with such names. */
function built(names: RegExp): number {
  const found = readdirSync(BUILT).filter((name) => names.test(name));
  if (found.length === 0) throw new Error("My phone is not built");
  return found.reduce((sum, name) => sum + packed(readFileSync(BUILT + name)), 0);
}

/** Bytes with gzip, and the most that they may be. */
const sizes: { readonly [what: string]: readonly [number, number] } = {
  "@prirec/device": [packed(outputFiles[0]!.contents), 80_000], // without h3 and the map
  "My phone, before it is painted": [built(/^(index\.html|main-.*|chunk-.*)$/), 40_000],
  "My phone, its device with h3": [built(/^device_worker-/), 130_000],
  "My phone, its map": [built(/^map/), 460_000], // loaded after the page is there
};
for (const [what, [many, most]] of Object.entries(sizes)) console.log(`${what}: ${many} bytes with gzip, of at most ${most}`);
process.exitCode = Object.values(sizes).every(([many, most]) => many <= most) ? 0 : 1;
