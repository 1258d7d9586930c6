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
  if (frames) {
    await page.addInitScript(counted);
    await browser.startTracing(page, { categories: ["devtools.timeline"] });
  }
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

/** What a trace says of the callbacks of one frame, in microseconds. */
interface Traced {
  readonly name: string;
  readonly dur: number;
  /** Of the processor: what others had of it meanwhile is not in. */
  readonly tdur?: number;
}

/** Milliseconds that the page's own scripts take in a frame, everything that it draws and renders included. */
async function measured(): Promise<unknown> {
  const { page } = await opened(1440, "light");
  await page.waitForFunction((many) => (globalThis as unknown as { frames: number }).frames >= many, FRAMES, { timeout: 300_000 });
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString()) as { traceEvents: Traced[] };
  const traced = traceEvents.filter(({ name, dur }) => name === "FireAnimationFrame" && dur !== undefined).slice(0, FRAMES);
  if (traced.length < FRAMES || traced.some(({ tdur }) => tdur === undefined)) throw new Error("this Chromium does not trace what frames take of the processor");
  return { frames: FRAMES, processor: spread(traced.map(({ tdur }) => tdur! / 1000)), elapsed: spread(traced.map(({ dur }) => dur / 1000)) };
}

function spread(milliseconds: number[]): Record<string, number> {
  const sorted = milliseconds.toSorted((a, b) => a - b);
  const at = (part: number) => sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))]!;
  return { median: at(0.5), most_of_95_percent: at(0.95), most_of_99_percent: at(0.99), most: at(1) };
}

/** Runs in the page before its scripts: counts frames. */
function counted(): void {
  const of = globalThis as unknown as { frames: number };
  of.frames = 0;
  const ask = globalThis.requestAnimationFrame.bind(globalThis);
  globalThis.requestAnimationFrame = (callback) => ask((now) => {
    callback(now);
    of.frames += 1;
  });
}
