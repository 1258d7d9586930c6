/**
 * `node scripts/package.ts FOLDER`: the package as an app team installs it, `prirec-device-VERSION.tgz` in that folder.
 *
 * `npm pack` alone would pack what happens to lie in dist/, or nothing: scripts of packages do not run here (.npmrc).
 */

import { execFileSync } from "node:child_process";
import { cp, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const WEB = fileURLToPath(new URL("..", import.meta.url));
const NPM = join(dirname(process.execPath), "../lib/node_modules/npm/bin/npm-cli.js");

const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error("name the folder that the package goes to");
const out = resolve(folder);
const beside = await mkdtemp(join(tmpdir(), "prirec-device-"));
const node = (...words: string[]) => execFileSync(process.execPath, words, { cwd: WEB, stdio: ["ignore", "inherit", "inherit"] });
try {
  node("node_modules/typescript/bin/tsc", "--project", "tsconfig.build.json", "--outDir", join(beside, "dist"));
  for (const name of ["package.json", "README.md"]) await cp(join(WEB, name), join(beside, name));
  await cp(join(WEB, "../LICENSE"), join(beside, "LICENSE"));
  await mkdir(out, { recursive: true });
  node(NPM, "pack", beside, "--silent", "--pack-destination", out);
} finally {
  await rm(beside, { recursive: true, force: true });
}
