/**
 * `node test/audit_page.ts CHROMIUM URL CHANGED [FOLDER]`: opens the auditor's page of the recommender at URL, and of the one at
 * CHANGED, which has changed an entry of its log; and the same page on what a
 * city has published (tests/web/published.json): as it is, and with a document, a log entry or a sum changed, or without the helper's signature.
 * Prints what it saw as JSON; with a folder, pictures of it.
 */

import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";

import { chromium, type Page } from "playwright-core";

import { hex } from "../pages/audit/audit.ts";
import { seriousIn } from "./accessibility.ts";
import { Published } from "./published.ts";

const [executable, recommender, changed, folder] = process.argv.slice(2);
const BUILT = fileURLToPath(new URL("../../src/prirec/pages/built/audit/", import.meta.url));
const SIGNED = new Published().page.cosigned!.statement.time;
const KINDS: Record<string, string> = { html: "text/html", js: "text/javascript", css: "text/css", json: "application/json" };

const GUESSES = 5; // in each of the modes

type Change = "nothing" | "a document" | "no signature" | "an entry" | "a sum";

/** What a recommender publishes that has changed this. */
async function published(change: Change): Promise<Published> {
  const found = new Published();
  const { entries } = found.page;
  if (change === "no signature") found.page = { ...found.page, cosigned: null };
  if (change === "a sum") await found.risen(0.5); // and both operators sign it
  if (change === "an entry") Object.assign(entries[found.at("window")]!.entry, { subject: "model" });
  if (change === "a document") found.documents.get(hex(entries.at(-1)!.entry.document))!.set([255], 0);
  return found;
}

/** What a recommender would answer. */
async function answer(of: Published, path: string): Promise<Uint8Array | undefined> {
  if (path === "/v1/deployment") return of.deployment();
  if (path === "/v1/rotations") return of.rotations();
  return path === "/v1/log" ? of.log(0) : of.document(path.split("/").at(-1)!);
}

async function served(change: Change): Promise<{ server: Server; url: string }> {
  const of = await published(change);
  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url!, "http://localhost");
    const file = pathname.replace(/^\/audit\//, "") || "index.html";
    const body = pathname.startsWith("/v1/") ? await answer(of, pathname) : /^[\w.-]+$/.test(file) ? readFileSync(BUILT + file) : undefined;
    response.writeHead(body === undefined ? 404 : 200, { "content-type": KINDS[file.split(".").at(-1)!] ?? "application/msgpack" });
    response.end(body);
  });
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/audit/` };
}

const browser = await chromium.launch({ executablePath: executable! });

async function looked(url: string, width: number, scheme: "light" | "dark", picture: string, whole = false): Promise<unknown> {
  const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme: scheme, ignoreHTTPSErrors: true });
  const [problems, foreign] = [[] as string[], [] as string[]];
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("console", (said) => { if (["error", "warning"].includes(said.type())) problems.push(said.text()); });
  page.on("request", (request) => { if (!/^data:/.test(request.url()) && new URL(request.url()).origin !== new URL(url).origin) foreign.push(request.url()); });
  if (!picture.startsWith("recommender")) await page.clock.setFixedTime(new Date(1000 * (SIGNED + 60))); // a day later the signature is old
  await page.goto(url);
  await page.waitForFunction(() => /hold/.test(document.querySelector(".verdict")?.textContent ?? "") && !/looked at …/.test(document.querySelector(".verdict")!.textContent));
  await page.getByLabel("the fingerprint that you have").first().fill("0123456789abcdef");
  const other = await page.locator(".verdict").innerText();
  await page.getByLabel("the fingerprint that you have").first().fill("");
  const [messages, tried] = whole ? [await stepped(page), await attacked(page)] : [[], []];
  if (folder !== undefined) await page.screenshot({ path: `${folder}/audit-${picture}-${width}.png`, fullPage: true });
  const seen = {
    problems, foreign, other, messages, tried,
    shares: await page.locator(".shares p").innerText(),
    charts: await page.locator("figure svg").count(),
    tables: await page.locator("figure details table").count(),
    verdict: await page.locator(".verdict").innerText(),
    colour: await page.locator(".verdict").getAttribute("class"),
    entries: await page.locator(".entry").count(),
    red: await page.locator(".entry.bad").count(),
    why: await page.locator(".entry .checks .bad").allInnerTexts(),
    learnt: await page.locator(".messages article").count(),
    serious: await seriousIn(page),
    wider: await page.evaluate(() => document.documentElement.scrollWidth - innerWidth),
  };
  await page.close();
  return seen;
}

/** Goes through the recorded round. What each message says of itself, and how many of its checks hold and do not. */
async function stepped(page: Page): Promise<{ title: string; good: number; bad: number; learns: number; fields: number }[]> {
  const [round, found] = [page.getByRole("region", { name: "A recorded round" }), [] as Awaited<ReturnType<typeof stepped>>];
  const next = round.getByRole("button", { name: "Next" });
  for (;;) {
    const message = round.locator(".message");
    found.push({
      title: await message.locator("h3").innerText(),
      good: await message.locator(".checks .good").count(),
      bad: await message.locator(".checks .bad").count(),
      learns: await message.locator(".learns dd").count(),
      fields: await message.locator(".fields tbody tr").count(),
    });
    if (await next.isDisabled()) return found;
    await next.click();
  }
}

/** Guesses as somebody would who follows what is shown: by the rows of the gradient, by the larger number. */
async function attacked(page: Page): Promise<string[][]> {
  const attack = page.getByRole("region", { name: "An attack to try" });
  for (const mode of await attack.getByRole("group", { name: "Which sums" }).getByRole("button").all()) {
    await mode.click();
    for (let at = 0; at < GUESSES; at += 1) {
      await attack.locator(".guesses button").nth(await attack.locator(".question").evaluate(likelier)).click();
      await attack.getByRole("button", { name: "Next person" }).click();
    }
  }
  const rows = await attack.locator("table").last().locator("tbody tr").all();
  return Promise.all(rows.map((row) => row.locator("td").allInnerTexts().then((cells) => cells.slice(1))));
}

/** Runs in the page: which of the two columns of the table says more. */
function likelier(question: Element): number {
  const rows = [...question.querySelectorAll("tbody tr")].map((row) => [...row.querySelectorAll("th, td")].map((cell) => cell.textContent.trim()));
  const says = (side: number) => rows.reduce((sum, cells) => {
    if (cells.length === 3) return cells[0] === "left of the sum" ? sum + Number(cells[1 + side]) : sum;
    return sum + ((cells[1] !== "0") === (cells[2 + side] === "yes") ? 1 : 0);
  }, 0);
  return says(1) > says(0) ? 1 : 0;
}

try {
  const seen: Record<string, unknown> = {
    recommender: await looked(recommender!, 1440, "light", "recommender", true),
    changed: await looked(changed!, 375, "dark", "recommender-changed"),
  };
  for (const [change, width, scheme] of [["nothing", 375, "dark"], ["nothing", 1440, "light"], ["a document", 375, "light"], ["no signature", 1440, "dark"], ["an entry", 375, "dark"], ["a sum", 1440, "light"]] as const) {
    const { server, url } = await served(change);
    seen[`${change}, ${width}`] = await looked(url, width, scheme, change.replaceAll(" ", "-"), change === "nothing");
    server.close();
  }
  console.log(JSON.stringify(seen));
} finally {
  await browser.close();
}
