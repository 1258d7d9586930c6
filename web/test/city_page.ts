/**
 * `node test/city_page.ts CHROMIUM FILE [FOLDER]`: opens a recorded city without a network at two widths, plays it, and
 * prints what it saw as JSON; with a folder, pictures of it. `frames FILE` in place of `FILE`: how long scripts take in a frame.
 */

import { pathToFileURL } from "node:url";

import { chromium, type Page } from "playwright-core";

const WIDTHS = [375, 1440];
const FRAMES = 600;

const [executable, ...words] = process.argv.slice(2);
const frames = words[0] === "frames";
const [file, folder] = frames ? words.slice(1) : words;

const browser = await chromium.launch({ executablePath: executable! });
try {
  console.log(JSON.stringify(frames ? await measured() : await looked()));
} finally {
  await browser.close();
}

async function opened(width: number, scheme: "light" | "dark"): Promise<{ page: Page; problems: string[]; asked: string[] }> {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme, offline: true });
  const page = await context.newPage();
  const [problems, asked] = [[] as string[], [] as string[]];
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("console", (said) => { if (["error", "warning"].includes(said.type())) problems.push(said.text()); });
  page.on("request", (request) => asked.push(request.url().split(":", 1)[0]!));
  if (frames) await page.addInitScript(timed);
  await page.goto(pathToFileURL(file!).href);
  await page.locator("canvas").waitFor();
  return { page, problems, asked };
}

/** Plays it to the end, and says what a person would find. */
async function looked(): Promise<unknown> {
  const seen = [];
  for (const [at, width] of WIDTHS.entries()) {
    const { page, problems, asked } = await opened(width, at === 0 ? "dark" : "light");
    await page.getByRole("button", { name: "Pause" }).click();
    const paused = await page.locator("output").innerText();
    let steps = 0;
    const end = page.getByRole("heading", { level: 2 }).first();
    while (!/published|failed/.test(await end.innerText()) && steps < 100) {
      await page.getByRole("button", { name: "Step" }).click();
      steps += 1;
    }
    await page.waitForTimeout(100); // for the map's next frame
    if (folder !== undefined) await page.screenshot({ path: `${folder}/city-${width}.png`, fullPage: true });
    seen.push({
      width, problems, asked, paused, steps, end: await end.innerText(),
      wider: await page.evaluate(() => document.documentElement.scrollWidth - innerWidth),
      charts: await page.locator("figure svg, figure .heat").count(),
      tables: await page.locator("figure details table").count(),
      views: await page.locator(".views > *").count(),
      inked: await page.locator("canvas").evaluate(inked),
      text: await page.locator("body").innerText(),
    });
    await page.context().close();
  }
  return seen;
}

/** How many different colours the map has. */
function inked(canvas: SVGElement | HTMLElement): number {
  const { width, height } = canvas as HTMLCanvasElement;
  const { data } = (canvas as HTMLCanvasElement).getContext("2d")!.getImageData(0, 0, width, height);
  return new Set(new Uint32Array(data.buffer)).size;
}

/** Milliseconds that the page's own scripts take in a frame, everything that it draws and renders included. */
async function measured(): Promise<unknown> {
  const { page } = await opened(1440, "light");
  await page.waitForFunction((many) => (globalThis as unknown as { spent: number[] }).spent.length >= many, FRAMES, { timeout: 300_000 });
  const spent = (await page.evaluate(() => (globalThis as unknown as { spent: number[] }).spent)).slice(10, FRAMES).sort((a, b) => a - b);
  const at = (part: number) => spent[Math.min(spent.length - 1, Math.floor(part * spent.length))]!;
  return { frames: spent.length, median: at(0.5), most_of_95_percent: at(0.95), most_of_99_percent: at(0.99), most: at(1) };
}

/** Runs in the page before its scripts: notes how long each frame's callbacks take. */
function timed(): void {
  const spent: number[] = ((globalThis as unknown as { spent: number[] }).spent = []);
  const ask = globalThis.requestAnimationFrame.bind(globalThis);
  globalThis.requestAnimationFrame = (callback) => ask((now) => {
    const before = performance.now();
    callback(now);
    spent.push(performance.now() - before);
  });
}
