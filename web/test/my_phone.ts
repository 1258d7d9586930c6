/**
 * `node test/my_phone.ts EXECUTABLE PIN LINK SCENE [FOLDER]`: My phone in headless Chromium, by clicks, at a recommender that runs.
 * LINK is the one with which a person joins; PIN the hash of the only key that is let in without an authority. Prints what was
 * seen as JSON; with a folder, pictures of it. Scenes: see `scenes` at the end.
 */

import { readFileSync } from "node:fs";

import { type BrowserContext, chromium, type Page } from "playwright-core";

import { decode, encode } from "../src/codec.ts";
import { logPage } from "../src/documents.ts";
import { texts } from "../app/texts.ts";
import { seriousIn } from "./accessibility.ts";

const [executable, pin, link, scene, folder] = process.argv.slice(2);
if (scene === undefined) throw new Error("name the Chromium to run, the pin of the key, a link and a scene");

const AT_HOME = ["35.68", "139.76"] as const; // where made-up cities are
const WIDTHS = [375, 768, 1440];
const EXPECTED = /net::ERR_|Failed to load resource|blocked by Playwright/; // of what is to fail here
const { origin: own } = new URL(link!);
const recommender = new URL(new URLSearchParams(new URL(link!).hash.slice(1)).get("url")!).origin;
const { places: placesWords, phone: phoneWords, left: leftWords, join: joinWords } = texts;

const problems: string[] = [];
const foreign: string[] = [];
const noted: Record<string, unknown> = {};

const drawn = scene === "looks" || (scene === "day" && folder !== undefined);
const drawing = drawn ? ["--enable-unsafe-swiftshader", "--use-angle=swiftshader"] : ["--disable-3d-apis"];
const browser = await chromium.launch({ executablePath: executable!, args: [...(scene === "certificate" ? [] : [`--ignore-certificate-errors-spki-list=${pin}`]), ...drawing] });

async function context(options: object = {}): Promise<BrowserContext> {
  return browser.newContext({ viewport: { width: 375, height: 812 }, locale: "en-GB", ...options });
}

async function opened(within: BrowserContext, address = link!): Promise<Page> {
  const page = await within.newPage();
  page.setDefaultTimeout(60_000);
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("console", (said) => { if (["error", "warning"].includes(said.type()) && !EXPECTED.test(said.text())) problems.push(said.text()); });
  page.on("dialog", (dialog) => { problems.push(`a dialog: ${dialog.message()}`); void dialog.dismiss(); });
  within.on("request", (request) => {
    const { protocol, origin } = new URL(request.url());
    if (!["data:", "blob:"].includes(protocol) && ![own, recommender].includes(origin)) foreign.push(request.url());
  });
  await page.goto(address);
  return page;
}

const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true });
const view = (page: Page, name: "places" | "phone" | "left") => page.getByRole("link", { name: texts.nav[name] }).click();
const listed = (page: Page) => page.locator(".suggestions > li").evaluateAll((all) => all.map((one) => (one as HTMLElement).dataset["place"]!));
const idle = (page: Page) => page.locator('main[aria-busy="false"]').waitFor();

async function join(page: Page, home: readonly [string, string] | null = AT_HOME): Promise<void> {
  await button(page, joinWords.button).waitFor();
  if (home !== null) {
    await page.getByLabel(phoneWords.latitude).fill(home[0]);
    await page.getByLabel(phoneWords.longitude).fill(home[1]);
  }
  await button(page, joinWords.button).click();
}

async function joined(page: Page, home: readonly [string, string] | null = AT_HOME): Promise<void> {
  await join(page, home);
  await page.locator(".suggestions > li").nth(9).waitFor();
  await idle(page);
}

/** What is said of the first place of the list; then it is in the list no more. */
async function say(page: Page, what: string): Promise<string> {
  const first = page.locator(".suggestions > li").first();
  const place = (await first.getAttribute("data-place"))!;
  await first.getByRole("button", { name: what }).click();
  await page.locator(`.suggestions [data-place="${place}"]`).waitFor({ state: "detached" });
  await idle(page);
  return place;
}

async function wider(page: Page): Promise<number> {
  return page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
}

/** A person's first hour, before any campaign; then without a network; then everything is taken along, forgotten, and put back. */
async function firstHour(): Promise<void> {
  const within = await context();
  await within.addInitScript(() => { // this browser promises nothing without a profile: that it was asked is all there is to see
    const { storage } = navigator;
    const persist = storage.persist.bind(storage);
    storage.persist = () => persist().finally(() => { document.documentElement.dataset["asked"] = "to keep"; });
  });
  const page = await opened(within);
  await button(page, joinWords.button).waitFor();
  const serious = await seriousIn(page);
  noted["rehearsal"] = await page.getByText(texts.rehearsal).isVisible();
  noted["fragment"] = new URL(page.url()).hash;
  await joined(page);
  await page.getByText(placesWords.noMap).waitFor();
  noted["reasons"] = await page.locator(".reasons li").count();
  const first = page.locator(".suggestions > li").first();
  await first.locator("summary").click();
  await first.getByLabel("spend").fill("400");
  await first.getByRole("button", { name: placesWords.been }).click();
  noted["too much"] = await page.getByRole("alert").locator("p").innerText();
  await first.getByLabel("spend").fill("40");
  await page.getByRole("alert").getByRole("button").click();
  if (folder !== undefined) await page.screenshot({ path: `${folder}/amount.png`, fullPage: true });
  noted["visited"] = await say(page, placesWords.been);
  const refused = await say(page, placesWords.notForMe);
  await button(page, texts.undo).click();
  await page.locator(`.suggestions [data-place="${refused}"]`).waitFor();
  noted["refused"] = await say(page, placesWords.notForMe);
  serious.push(...await seriousIn(page));

  await view(page, "phone");
  noted["asked"] = await page.locator("html").getAttribute("data-asked");
  noted["visits"] = await page.locator(".card", { hasText: phoneWords.visits }).last().locator("li").count();
  noted["spent"] = [await spent(page, null), await spent(page, "55.5"), await spent(page, "-1"), await spent(page, "")];
  await page.getByRole("alert").waitFor({ state: "detached" });
  const belief = page.locator(".beliefs li").first();
  noted["believed"] = await belief.getAttribute("data-word");
  await belief.getByRole("button", { name: phoneWords.opinions.dislike }).click();
  await page.getByText(phoneWords.overruled.dislike).waitFor();
  const age = page.locator('[name="age"]');
  await age.fill("31");
  await age.press("Enter");
  await page.getByText(phoneWords.profileDone).waitFor();
  const areas = page.locator(".card", { hasText: phoneWords.areas }).last();
  await areas.getByLabel(phoneWords.latitude).fill("35.4");
  await areas.getByLabel(phoneWords.longitude).fill("139.6");
  await areas.getByRole("button", { name: phoneWords.download }).click();
  await page.getByText(phoneWords.areaDone(0)).waitFor(); // all of this city is around the home
  noted["areas"] = await areas.locator("li").count();
  await areas.getByRole("button", { name: phoneWords.erase }).click();
  await page.getByText(phoneWords.areaGone).waitFor();
  serious.push(...await seriousIn(page));
  await view(page, "left");
  noted["sent"] = await page.locator(".sent li").evaluateAll((all) => all.map((one) => (one as HTMLElement).dataset["what"]!));
  noted["keys"] = await page.locator("dd code").allInnerTexts();
  serious.push(...await seriousIn(page));
  noted["serious"] = serious;

  await page.evaluate(async () => void await navigator.serviceWorker.ready);
  const before = await listedAt(page);
  await within.setOffline(true);
  await page.reload();
  await page.getByText(texts.offline).waitFor();
  await page.locator(".suggestions > li").nth(9).waitFor();
  noted["offline"] = { same: JSON.stringify(await listed(page)) === JSON.stringify(before), said: await say(page, placesWords.been) };
  noted["first paint, ms"] = await page.evaluate(() => Math.round(performance.getEntriesByName("first-contentful-paint")[0]!.startTime));
  await within.setOffline(false);

  await view(page, "phone");
  const [download] = await Promise.all([page.waitForEvent("download"), button(page, phoneWords.export).click()]);
  const exported = JSON.parse(readFileSync(await download.path(), "utf8"));
  noted["exported"] = { profile: exported.profile, visits: exported.visits.length, overruled: exported.overruled.length };
  await button(page, phoneWords.forget).click();
  await page.getByRole("dialog").getByRole("button", { name: texts.cancel }).click();
  await forget(page);
  noted["forgotten"] = { visits: await page.getByText(phoneWords.visitsNone).isVisible(), beliefs: await page.locator(".beliefs li").count() };
  await page.getByLabel(phoneWords.import).setInputFiles(await download.path());
  await page.getByText(phoneWords.imported(3, 0)).waitFor();
  await view(page, "places");
  await button(page, joinWords.button).waitFor();
  noted["wider"] = await wider(page);
}

/** The line of the only visit, without its time, when this was written as what was spent. */
async function spent(page: Page, amount: string | null): Promise<string> {
  const line = page.locator(".card", { hasText: phoneWords.visits }).last().locator("li");
  const field = line.getByLabel("spend");
  if (amount === null) await line.locator("summary").click();
  else {
    await field.fill(amount);
    await field.press("Tab");
    await page.getByText(amount === "-1" ? "belongs here" : phoneWords.profileDone).waitFor();
  }
  await idle(page);
  if (folder !== undefined) await page.locator(".card", { hasText: phoneWords.visits }).last().screenshot({ path: `${folder}/spent-${amount}.png` });
  return (await line.locator("summary bdi").allInnerTexts()).join();
}

async function forget(page: Page, told: RegExp | string = phoneWords.forgotten.left): Promise<void> {
  await button(page, phoneWords.forget).click();
  await page.getByRole("dialog").getByRole("button", { name: phoneWords.forget }).click();
  await page.getByText(told).waitFor();
}

async function listedAt(page: Page): Promise<string[]> {
  await view(page, "places");
  await page.locator(".suggestions > li").nth(9).waitFor();
  return listed(page);
}

/** A person's day: joins, notes visits, reports in a window and sees what it cost; recommends without a network, corrects, forgets. */
async function day(): Promise<void> {
  const within = await context();
  const page = await opened(within);
  await joined(page);
  noted["visited"] = [await say(page, placesWords.been), await say(page, placesWords.been)];
  noted["refused"] = await say(page, placesWords.notForMe);
  await view(page, "left");
  await page.getByRole("switch").check();
  const line = page.locator('.sent [data-what="report"]').first();
  await line.getByText(leftWords.state.arrived).waitFor({ timeout: 280_000 });
  noted["report"] = await line.innerText();
  noted["gauge"] = Number(await page.getByRole("meter").getAttribute("aria-valuenow"));
  noted["serious"] = await seriousIn(page);
  if (folder !== undefined) await pictures(page, "day-");
  await page.reload(); // it goes on taking part
  noted["goes on"] = await page.getByRole("switch").isChecked();
  await page.getByRole("switch").uncheck();
  await page.getByText(leftWords.verdict.off).last().waitFor();

  await page.evaluate(async () => void await navigator.serviceWorker.ready);
  await within.setOffline(true);
  await page.reload();
  noted["offline"] = (await listedAt(page)).length;
  await view(page, "phone");
  const belief = page.locator(".beliefs li").first();
  await belief.getByRole("button", { name: phoneWords.opinions.ignore }).click();
  await page.getByText(phoneWords.overruled.ignore).waitFor();
  await within.setOffline(false);
  await forget(page, /^Everything is forgotten/); // the city may be over
  await view(page, "left");
  noted["spent stays"] = Number(await page.getByRole("meter").getAttribute("aria-valuenow"));
}

/** Two tabs are one writer: the second says so, and goes on when the first is closed. */
async function twoTabs(): Promise<void> {
  const within = await context();
  const first = await opened(within);
  await joined(first);
  const second = await opened(within);
  await second.getByText(texts.elsewhere.title).waitFor();
  noted["serious"] = await seriousIn(second);
  await first.close();
  await second.locator(".suggestions > li").nth(9).waitFor();
}

/** What a recommender could try: each is refused in plain words, and what was there is still used. */
async function refused(): Promise<void> {
  const other = await opened(await context(), link!.replace(/fingerprint=..../, "fingerprint=0000"));
  await join(other);
  await other.getByText(texts.faults.AUTH).waitFor();
  noted["another key"] = await other.getByRole("alert").innerText();
  noted["still asked to join"] = await button(other, joinWords.button).isVisible();
  await other.close();
  const changes: { [what: string]: (page: ReturnType<typeof decodePage>) => ReturnType<typeof decodePage> } = {
    "no signature": (page) => ({ ...page, cosigned: null }),
    "a forged log": (page) => ({ ...page, entries: page.entries.map((one, at) => (at === 0 ? { ...one, entry: { ...one.entry, document: new Uint8Array(32) } } : one)) }),
  };
  for (const [what, change] of Object.entries(changes)) {
    // of what the test passes on itself no certificate is checked; past a service worker it could not
    const within = await context({ ignoreHTTPSErrors: true, serviceWorkers: "block" });
    let forging = true;
    await within.route("**/v1/log*", async (route) => {
      const answer = await route.fetch();
      const body = await answer.body();
      await route.fulfill({ response: answer, body: forging ? Buffer.from(encode(logPage, change(decodePage(body)))) : body });
    });
    const page = await opened(within);
    await join(page);
    const alert = page.getByRole("alert");
    await (what === "no signature" ? page.getByText(placesWords.noCatalogue) : alert.getByText(texts.refused)).waitFor();
    noted[`${what}: places`] = await page.locator(".suggestions > li").count();
    forging = false; // the recommender thinks better of it
    await button(page, placesWords.look).click();
    await page.locator(".suggestions > li").nth(9).waitFor();
    forging = true; // and worse again
    await within.setOffline(true);
    await within.setOffline(false);
    await alert.getByText(texts.refused).waitFor();
    noted[what] = await alert.innerText();
    noted[`${what}: places still there`] = await page.locator(".suggestions > li").count();
    if (folder !== undefined) await page.screenshot({ path: `${folder}/refused-${what.replaceAll(" ", "-")}.png` });
    await within.close();
  }
}

function decodePage(body: Uint8Array) {
  return decode(logPage, Uint8Array.from(body));
}

/** Names that would be programs if they were not shown as text. */
async function hostile(): Promise<void> {
  const within = await context();
  const page = await opened(within);
  const began = performance.now();
  await joined(page, null); // without a home all regions are downloaded
  noted["ready, s"] = Math.round((performance.now() - began) / 1000);
  noted["names"] = await page.locator(".suggestions .name").allInnerTexts();
  noted["elements"] = await page.locator(".name *").count();
  await page.getByRole("searchbox").fill("<img");
  await page.locator(".search li").first().waitFor();
  noted["found"] = await page.locator(".search [role=status]").innerText();
  await say(page, placesWords.been);
  noted["told"] = await page.locator(".done bdi").innerText();
  noted["wider"] = await wider(page);
  noted["programs"] = await page.evaluate(() => (globalThis as { ran?: boolean }).ran === true || document.querySelector("main img, main script, main iframe") !== null);
  if (folder !== undefined) await page.screenshot({ path: `${folder}/hostile.png`, fullPage: true });
}

/** Every view at every width, light and dark, with the map; and home by a click on it. */
async function looks(): Promise<void> {
  const serious: string[] = [];
  const wide: number[] = [];
  const within = await context();
  const page = await opened(within);
  await joined(page, null);
  await page.locator('[data-drawn="true"]').waitFor({ timeout: 120_000 });
  await button(page, placesWords.setHome).click();
  await page.getByText(placesWords.pickHome).waitFor();
  await page.locator(".map").click({ position: { x: 120, y: 130 } });
  await page.getByText(placesWords.homeSet).waitFor();
  await page.locator(".marker").first().click();
  await page.locator(".chosen").getByRole("button", { name: placesWords.been }).click();
  await idle(page);
  await say(page, placesWords.notForMe);
  noted["markers"] = await page.locator(".marker").count();
  noted["asked for the map"] = await page.evaluate(() => performance.getEntriesByType("resource").filter(({ name }) => /map-|maplibre/.test(name)).length);
  await pictures(page, "", async (colorScheme) => {
    wide.push(await wider(page));
    if (colorScheme === "dark") serious.push(...await seriousIn(page));
    await page.emulateMedia({ colorScheme });
  });
  noted["serious"] = serious;
  noted["wider"] = Math.max(...wide);
}

/** Of every view at every width, light and dark, if there is a folder; and looks at each. */
async function pictures(page: Page, prefix: string, look = async (_: "light" | "dark"): Promise<void> => {}): Promise<void> {
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: width < 1000 ? 812 : 900 });
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      for (const name of ["places", "phone", "left"] as const) {
        await view(page, name);
        if (name === "places" && drawn) {
          await page.locator('[data-drawn="true"]').waitFor({ timeout: 120_000 });
          await page.waitForTimeout(500); // for the map's next frame
        }
        await look(colorScheme);
        if (folder !== undefined) await page.screenshot({ path: `${folder}/${prefix}${name}-${width}-${colorScheme}.png`, fullPage: width !== 1440 });
      }
    }
  }
}

/** A certificate that the browser does not know: the page says what to do, and after that it works. */
async function certificate(): Promise<void> {
  const within = await context();
  const page = await opened(within);
  await join(page);
  const alert = page.getByRole("alert");
  await alert.getByText(texts.unreachable.words).waitFor();
  noted["told"] = await alert.innerText();
  const [warning] = await Promise.all([within.waitForEvent("page"), alert.getByRole("link").click()]);
  await warning.waitForLoadState().catch(() => {});
  await warning.waitForTimeout(1000);
  await warning.keyboard.type("thisisunsafe"); // what the button to go on does
  await warning.getByRole("heading", { level: 1 }).waitFor();
  noted["accepted"] = await warning.getByRole("heading", { level: 1 }).innerText();
  await warning.close();
  await joined(page);
}

const scenes: { [name: string]: () => Promise<void> } = { firstHour, day, twoTabs, refused, certificate, hostile, looks };
try {
  await scenes[scene]!();
  console.log(JSON.stringify({ ...noted, problems, foreign }));
} finally {
  await browser.close();
}
