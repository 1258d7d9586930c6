/** Prints how large the package is, as an app ships it, and fails if that is above the limit. */

import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

import { build } from "esbuild";

const LIMIT = 80_000; // bytes, gzip; without h3 and the map

const { outputFiles } = await build({
  entryPoints: [fileURLToPath(new URL("../src/index.ts", import.meta.url))],
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2024",
  external: ["h3-js"],
  write: false,
});
const [whole] = outputFiles;
const packed = gzipSync(whole!.contents, { level: 9 }).length;
console.log(`@prirec/device: ${whole!.contents.length} bytes, ${packed} with gzip, of at most ${LIMIT}`);
process.exitCode = packed <= LIMIT ? 0 : 1;
