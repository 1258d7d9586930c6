/**
 * `node test/audit_page.ts CHROMIUM URL [FOLDER]`: opens the auditor's page of the recommender at URL, and the same page on what a
 * city has published (tests/web/published.json): as it is, with a changed document, and without the helper's signature.
 * Prints what it saw as JSON; with a folder, pictures of it.
 */

import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";

import { chromium } from "playwright-core";

import { decode, encode } from "../src/codec.ts";
import { logPage, rotations } from "../src/documents.ts";

const [executable, recommender, folder] = process.argv.slice(2);
const BUILT = fileURLToPath(new URL("../../src/prirec/pages/built/audit/", import.meta.url));
const HELD = JSON.parse(readFileSync(new URL("../../tests/web/published.json", import.meta.url), "utf8")) as {
  deployment: string; log: string; documents: Record<string, string>;
};
const SIGNED = decode(logPage, Uint8Array.from(Buffer.from(HELD.log, "base64"))).cosigned!.statement.time;
const KINDS: Record<string, string> = { html: "text/html", js: "text/javascript", css: "text/css" };

type Change = "nothing" | "a document" | "no signature";

/** What a recommender would answer. */
function answers(change: Change): (path: string) => Uint8Array | undefined {
  const page = decode(logPage, Uint8Array.from(Buffer.from(HELD.log, "base64")));
  const last = Buffer.from(page.entries.at(-1)!.entry.document).toString("hex");
  return (path) => {
    if (path === "/v1/deployment") return Buffer.from(HELD.deployment, "base64");
    if (path === "/v1/log") return change === "no signature" ? encode(logPage, { ...page, cosigned: null }) : Buffer.from(HELD.log, "base64");
    if (path === "/v1/rotations") return encode(rotations, { rotations: [] });
    const found = HELD.documents[path.split("/").at(-1)!];
    if (found === undefined) return undefined;
    const body = Buffer.from(found, "base64");
    if (change === "a document" && path.endsWith(last)) body[body.length - 1]! ^= 1;
    return body;
  };
}

async function served(change: Change): Promise<{ server: Server; url: string }> {
  const answer = answers(change);
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url!, "http://localhost");
    const file = pathname.replace(/^\/audit\//, "") || "index.html";
    const body = pathname.startsWith("/v1/") ? answer(pathname) : /^[\w.-]+$/.test(file) ? readFileSync(BUILT + file) : undefined;
    response.writeHead(body === undefined ? 404 : 200, { "content-type": KINDS[file.split(".").at(-1)!] ?? "application/msgpack" });
    response.end(body);
  });
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/audit/` };
}

const browser = await chromium.launch({ executablePath: executable! });

async function looked(url: string, width: number, scheme: "light" | "dark", picture: string): Promise<unknown> {
  const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme: scheme, ignoreHTTPSErrors: true });
  const [problems, foreign] = [[] as string[], [] as string[]];
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("console", (said) => { if (["error", "warning"].includes(said.type())) problems.push(said.text()); });
  page.on("request", (request) => { if (!/^data:/.test(request.url()) && new URL(request.url()).origin !== new URL(url).origin) foreign.push(request.url()); });
  if (picture !== "recommender") await page.clock.setFixedTime(new Date(1000 * (SIGNED + 60))); // a day later the signature is old
  await page.goto(url);
  await page.waitForFunction(() => /hold/.test(document.querySelector(".verdict")?.textContent ?? "") && !/looked at …/.test(document.querySelector(".verdict")!.textContent));
  await page.getByLabel("the fingerprint that you have").first().fill("0123456789abcdef");
  const other = await page.locator(".verdict").innerText();
  await page.getByLabel("the fingerprint that you have").first().fill("");
  if (folder !== undefined) await page.screenshot({ path: `${folder}/audit-${picture}-${width}.png`, fullPage: true });
  const seen = {
    problems, foreign, other,
    verdict: await page.locator(".verdict").innerText(),
    colour: await page.locator(".verdict").getAttribute("class"),
    entries: await page.locator(".entry").count(),
    red: await page.locator(".entry.bad").count(),
    messages: await page.locator(".messages article").count(),
    wider: await page.evaluate(() => document.documentElement.scrollWidth - innerWidth),
  };
  await page.close();
  return seen;
}

try {
  const seen: Record<string, unknown> = { recommender: await looked(recommender!, 1440, "light", "recommender") };
  for (const [change, width, scheme] of [["nothing", 375, "dark"], ["nothing", 1440, "light"], ["a document", 375, "light"], ["no signature", 1440, "dark"]] as const) {
    const { server, url } = await served(change);
    seen[`${change}, ${width}`] = await looked(url, width, scheme, change.replace(" ", "-"));
    server.close();
  }
  console.log(JSON.stringify(seen));
} finally {
  await browser.close();
}
