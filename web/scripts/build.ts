/**
 * `node scripts/build.ts [OUT]`: bundles every page into a folder of its own, src/prirec/pages/built by default.
 *
 * A page is `app/` or a folder of `pages/`, with `index.html` and `main.tsx`, and perhaps `service_worker.ts` and a folder
 * `static/`, which is copied. Bundles are named by a hash of their content, so that they may be kept for ever; `{{main.js}}`
 * and `{{main.css}}` in index.html stand for their names. A source imports `worker:./some_worker.ts` to bundle it by itself
 * and to be told its address. Prints the size of each page.
 */

import { createHash } from "node:crypto";
import { cp, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

import { build, type BuildOptions, type Metafile, type Plugin } from "esbuild";

import { icons } from "./icons.ts";

const WEB = fileURLToPath(new URL("..", import.meta.url));
const SERVICE_WORKER = "service_worker";

const OPTIONS = {
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2024",
  jsx: "automatic",
  jsxImportSource: "preact",
  loader: { ".woff2": "file" },
  legalComments: "none", // their texts are in licences.txt
  metafile: true,
  write: false,
  absWorkingDir: WEB,
} as const satisfies BuildOptions;

/** The folders of all pages. */
export async function pages(): Promise<string[]> {
  const others = await readdir(join(WEB, "pages"), { withFileTypes: true }).catch(() => []);
  return ["app", ...others.filter((one) => one.isDirectory()).map((one) => join("pages", one.name))];
}

/** Bundles one page into a new folder `out`. */
async function buildPage(page: string, out: string): Promise<void> {
  const from = join(WEB, page);
  const inputs = new Set<string>();
  const { outputFiles, metafile } = await build({
    ...OPTIONS,
    entryPoints: { main: join(from, "main.tsx") },
    entryNames: "[name]-[hash]",
    chunkNames: "[name]-[hash]",
    assetNames: "[name]-[hash]",
    splitting: true,
    outdir: out,
    plugins: [workers(out, inputs)],
  });
  await mkdir(out, { recursive: true });
  for (const file of outputFiles) await writeFile(file.path, file.contents);
  remember(metafile, inputs);
  const named = new Map(outputFiles.map((file) => [basename(file.path).replace(/-[A-Z0-9]{8}(?=\.\w+$)/, ""), basename(file.path)]));
  const html = await readFile(join(from, "index.html"), "utf8");
  await writeFile(join(out, "index.html"), html.replace(/\{\{(\S+)\}\}/g, (_, name: string) => named.get(name) ?? fail(`${page} has no ${name}`)));
  await cp(join(from, "static"), out, { recursive: true }).catch(ignoreAbsent);
  if (page === "app") for (const [name, bytes] of icons()) await writeFile(join(out, name), bytes);
  await writeFile(join(out, "licences.txt"), await licences(inputs));
  await buildServiceWorker(from, out).catch(ignoreAbsent);
}

/** The worker that keeps a page for when there is no network: it is told every file of the page, and a name for them all. */
async function buildServiceWorker(from: string, out: string): Promise<void> {
  const source = join(from, `${SERVICE_WORKER}.ts`);
  await readFile(source);
  const files = (await readdir(out)).toSorted();
  const whole = createHash("sha256");
  for (const name of files) whole.update(name).update(await readFile(join(out, name)));
  const version = whole.digest("hex").slice(0, 16);
  const define = { FILES: JSON.stringify(files), VERSION: JSON.stringify(version) };
  const { outputFiles } = await build({ ...OPTIONS, format: "iife", entryPoints: { [SERVICE_WORKER]: source }, define, outdir: out });
  for (const file of outputFiles) await writeFile(file.path, file.contents);
}

/** `worker:SOURCE` is the address of a bundle of its own. */
function workers(out: string, inputs: Set<string>): Plugin {
  return {
    name: "workers",
    setup(bundle) {
      bundle.onResolve({ filter: /^worker:/ }, async ({ path, resolveDir }) => {
        const found = await bundle.resolve(path.slice("worker:".length), { resolveDir, kind: "import-statement" });
        return { ...found, namespace: "worker" };
      });
      bundle.onLoad({ filter: /.*/, namespace: "worker" }, async ({ path }) => {
        const { outputFiles, metafile } = await build({ ...OPTIONS, entryPoints: [path], entryNames: "[name]-[hash]", outdir: out });
        await mkdir(out, { recursive: true });
        for (const file of outputFiles) await writeFile(file.path, file.contents);
        remember(metafile, inputs);
        return { contents: `export default "./${basename(outputFiles[0]!.path)}";`, watchFiles: [path] };
      });
    },
  };
}

function remember(metafile: Metafile, inputs: Set<string>): void {
  for (const input of Object.keys(metafile.inputs)) inputs.add(input.replace(/^worker:/, ""));
}

/** The licences of the packages that something is bundled of. */
async function licences(inputs: Set<string>): Promise<string> {
  const packages = new Set([...inputs].map((path) => /(?:^|\/)node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1]).filter((name) => name !== undefined));
  const texts = await Promise.all([...packages].toSorted().map(async (name) => {
    const folder = join(WEB, "node_modules", name);
    const { version, license } = JSON.parse(await readFile(join(folder, "package.json"), "utf8")) as { version: string; license: string };
    const file = (await readdir(folder)).find((one) => /^licen[cs]e/i.test(one));
    const text = file === undefined ? "" : await readFile(join(folder, file), "utf8");
    return `${name} ${version} (${license})\n\n${text.trim()}\n`;
  }));
  return ["This page contains parts of these packages.\n", ...texts].join(`\n${"-".repeat(78)}\n\n`);
}

async function sizeOf(folder: string): Promise<string> {
  const names = await readdir(folder);
  const sizes = await Promise.all(names.map(async (name) => gzipSync(await readFile(join(folder, name)), { level: 9 }).length));
  const total = sizes.reduce((sum, one) => sum + one, 0);
  return `${basename(folder)}: ${names.length} files, ${total} bytes with gzip`;
}

function fail(problem: string): never {
  throw new Error(problem);
}

function ignoreAbsent(error: NodeJS.ErrnoException): void {
  if (error.code !== "ENOENT") throw error;
}

const out = resolve(process.argv[2] ?? join(WEB, "../src/prirec/pages/built"));
const beside = `${out}.new-${process.pid}`;
try {
  for (const page of await pages()) await buildPage(page, join(beside, basename(page)));
  await rm(out, { recursive: true, force: true });
  await mkdir(dirname(out), { recursive: true });
  await rename(beside, out);
} finally {
  await rm(beside, { recursive: true, force: true });
}
for (const page of await pages()) console.log(await sizeOf(join(out, basename(page))));
console.log(`in ${relative(process.cwd(), out) || "."}`);
