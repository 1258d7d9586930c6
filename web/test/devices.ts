/**
 * `node test/devices.ts EXECUTABLE PIN FOLDER [PORT]`: tabs of headless Chromium with devices in them, for a test that asks by lines of
 * JSON: {"tab", "device", "method", "given"} is answered by {"answer"} or {"problem"}. A tab is a page with a worker; all
 * share what the browser stores. {"tab", "method": "killTab"} ends one as a crash does, {"method": "fault", ...} makes
 * the next requests to a path fail.
 *
 * PIN is the hash of the only key that is let in without an authority: of the deployment under test.
 */

import { createInterface } from "node:readline";

import { chromium, type Page } from "playwright-core";

import { served } from "./chromium.ts";

const [executable, pin, folder, port] = process.argv.slice(2);
if (executable === undefined || pin === undefined || folder === undefined) throw new Error("name the Chromium to run, the pin of the key, and a folder");

const { origin, close } = await served("device_page.ts", "device_worker.ts", { port: Number(port ?? 0), connect: "https:" });
const browser = await chromium.launchPersistentContext(folder, {
  executablePath: executable, headless: true, args: [`--ignore-certificate-errors-spki-list=${pin}`],
});
const tabs = new Map<string, Page>();

async function tab(name: string): Promise<Page> {
  let page = tabs.get(name);
  if (page === undefined) {
    page = await browser.newPage();
    page.on("pageerror", (error) => console.error(error));
    await page.goto(origin);
    tabs.set(name, page);
  }
  return page;
}

async function ask(question: { tab: string; method: string; given?: unknown[] }): Promise<unknown> {
  const page = await tab(question.tab);
  if (question.method === "killTab") {
    tabs.delete(question.tab);
    await page.close({ runBeforeUnload: false });
    return { answer: null };
  }
  if (question.method === "loseAnswers") { // requests arrive, and their answers do not
    await page.context().route(`**${String(question.given![0])}`, async (route) => {
      await route.fetch({ ignoreHTTPSErrors: true } as never).catch(() => {});
      await route.abort();
    });
    return { answer: null };
  }
  if (question.method === "holdBack") { // requests never arrive
    await page.context().route(`**${String(question.given![0])}`, (route) => route.abort());
    return { answer: null };
  }
  if (question.method === "letThrough") {
    await page.context().unrouteAll();
    return { answer: null };
  }
  return page.evaluate(
    (asked) => (globalThis as unknown as { ask(question: unknown): Promise<unknown> }).ask(asked), { given: [], ...question },
  );
}

console.log(JSON.stringify({ origin }));
for await (const line of createInterface({ input: process.stdin })) {
  const { id, ...question } = JSON.parse(line);
  void ask(question).then(
    (said) => console.log(JSON.stringify({ ...(said as object), id })),
    (problem: unknown) => console.log(JSON.stringify({ id, problem: { name: "Failed", message: String(problem) } })),
  );
}
await browser.close();
close();
