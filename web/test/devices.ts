/**
 * `node test/devices.ts EXECUTABLE PIN FOLDER [PORT]`: tabs of headless Chromium with devices in them, for a test that asks
 * by lines of JSON: {"id", "tab", "device", "method", "given"} is answered by {"id", "answer"} or {"id", "problem"}. A tab is
 * a page with a worker; all share what the browser stores. The method "killTab" ends one as a crash does.
 *
 * PIN is the hash of the only key that is let in without an authority: of the deployment under test.
 */

import { createInterface } from "node:readline";

import { chromium, type Page } from "playwright-core";

import { type Asking, served } from "./chromium.ts";

const [executable, pin, folder, port] = process.argv.slice(2);
if (executable === undefined || pin === undefined || folder === undefined) {
  throw new Error("name the Chromium to run, the pin of the key, and a folder");
}

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
  return page.evaluate((asked) => (globalThis as unknown as Asking<unknown>).ask(asked), { given: [], ...question });
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
