/** `node test/example.ts EXECUTABLE PIN PORT INVITATION`: a person's first minutes with the example app, by clicks. */

import { readFileSync } from "node:fs";

import { chromium } from "playwright-core";

import { servedPage, source } from "./chromium.ts";

const [executable, pin, port, invitation] = process.argv.slice(2);
if (invitation === undefined) throw new Error("name the Chromium to run, the pin of the key, a port and an invitation");

const entryPoints = { main: source("../example/main.ts"), worker: source("../example/worker.ts") };
const page = readFileSync(source("../example/index.html"), "utf8");
const { origin, close } = await servedPage(page, entryPoints, { port: Number(port), connect: "https:" });
const browser = await chromium.launch({ executablePath: executable!, args: [`--ignore-certificate-errors-spki-list=${pin}`] });
try {
  const tab = await browser.newPage();
  const problems: string[] = [];
  tab.on("pageerror", (error) => problems.push(String(error)));
  await tab.goto(origin);
  await tab.getByText("in no deployment yet").waitFor();
  for (const [name, value] of Object.entries(JSON.parse(invitation))) await tab.locator(`[name=${name}]`).fill(String(value));
  await tab.getByRole("button", { name: "Join" }).click();
  await tab.getByText("ready to recommend").waitFor();
  const first = async (): Promise<string> => (await tab.locator("#places li").first().getAttribute("data-place"))!;
  const seen = [await first()];
  for (const name of ["I was there", "Not for me"]) {
    const before = seen.at(-1)!;
    await tab.locator("#places li").first().getByRole("button", { name }).click();
    await tab.waitForFunction((place) => {
      const now = document.querySelector<HTMLElement>("#places li");
      return now !== null && now.dataset["place"] !== place;
    }, before);
    seen.push(await first());
  }
  await tab.reload(); // everything is still there
  await tab.getByText("ready to recommend").waitFor();
  seen.push(await first());
  console.log(JSON.stringify({ seen, problems, form: await tab.locator("#join").isVisible() }));
} finally {
  await browser.close();
  close();
}
