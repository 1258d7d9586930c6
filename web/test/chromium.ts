/** A page in headless Chromium, at an address of this machine: what it loads is bundled from these sources. */

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";
import { chromium, type Page } from "playwright-core";

/** What page.ts adds to a page. */
export interface Asking<Answer> {
  ask(question: unknown): Promise<Answer>;
}

/** No eval, no foreign address but those that are named. */
function policy(connect: string): string {
  return `default-src 'none'; script-src 'self'; worker-src 'self'; connect-src ${connect}`;
}

export interface ServedSources {
  readonly origin: string;
  close(): void;
}

interface Where {
  readonly port?: number;
  readonly connect?: string;
}

/** Serves one of the sources of this folder as a page, with another one as its worker. */
export function served(script: string, worker: string, where: Where = {}): Promise<ServedSources> {
  const page = '<!doctype html><meta charset="utf-8"><title>PriRec</title><script type="module" src="/page.js"></script>';
  return servedPage(page, { page: source(script), worker: source(worker) }, where);
}

/** Serves a page with its scripts, which are bundled from these sources. */
export async function servedPage(
  page: string, entryPoints: { [name: string]: string }, { port = 0, connect = "'none'" }: Where = {},
): Promise<ServedSources> {
  const bundled = await build({
    entryPoints, bundle: true, format: "esm", target: "es2024", write: false, outdir: "/",
  });
  const bodies = new Map(bundled.outputFiles.map((file) => [file.path, file.text]));
  bodies.set("/", page);
  const server = createServer((request, response) => {
    const body = bodies.get(request.url ?? "");
    const type = request.url === "/" ? "text/html" : "text/javascript";
    response.writeHead(body === undefined ? 404 : 200, { "content-type": type, "content-security-policy": policy(connect) });
    response.end(body ?? "");
  });
  await new Promise<void>((ready) => server.listen(port, "127.0.0.1", ready));
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, close: () => server.close() };
}

/** Runs `use` on a page that has loaded one of the sources of this folder, with another one as its worker. */
export async function onPage<T>(executable: string, script: string, worker: string, use: (page: Page) => Promise<T>): Promise<T> {
  const { origin, close } = await served(script, worker);
  const browser = await chromium.launch({ executablePath: executable });
  try {
    const page = await browser.newPage();
    page.on("pageerror", (error) => console.error(error));
    await page.goto(origin);
    return await use(page);
  } finally {
    await browser.close();
    close();
  }
}

export function source(name: string): string {
  return fileURLToPath(new URL(name, import.meta.url));
}
