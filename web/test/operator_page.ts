/**
 * `node test/operator_page.ts CHROMIUM ADDRESS TOKEN [FOLDER]`: opens the operator's page on a phone and on a desktop, with a wrong
 * token and with the right one, and logs out. Prints what it saw as JSON; with a folder, pictures of it. `live` in place of
 * `FOLDER`: waits until the page shows another number of reports than at first, and prints both.
 */

import { chromium, type Page } from "playwright-core";

const [executable, address, token, folder] = process.argv.slice(2);
const VIEWS = [[375, "dark"], [1440, "light"]] as const;

const browser = await chromium.launch({ executablePath: executable! });

async function looked(width: number, scheme: "light" | "dark"): Promise<unknown> {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme, ignoreHTTPSErrors: true });
  const page = await context.newPage();
  const [problems, foreign] = [[] as string[], [] as string[]];
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("console", (said) => { if (["error", "warning"].includes(said.type()) && !/status of 401/.test(said.text())) problems.push(said.text()); });
  page.on("request", (request) => { if (!/^data:/.test(request.url()) && new URL(request.url()).origin !== address) foreign.push(request.url()); });
  await page.goto(`${address}/operator/`);
  await logIn(page, "not-the-token");
  const refused = await page.getByRole("alert").innerText();
  await page.getByLabel("Login token").fill("");
  await page.keyboard.type(token!);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "a town" }).or(page.getByRole("heading", { level: 1, name: "the helper" })).waitFor();
  const cookie = (await context.cookies()).map(({ name, httpOnly, secure, sameSite }) => ({ name, httpOnly, secure, sameSite }));
  const readable = await page.evaluate(() => document.cookie + location.href + JSON.stringify({ ...localStorage }));
  if (folder !== undefined) {
    await page.screenshot({ path: `${folder}/operator-${width}.png`, fullPage: true });
    await page.pdf({ path: `${folder}/operator-${width}.pdf` });
  }
  const seen = {
    problems, foreign, refused, cookie, readable,
    verdict: await page.getByRole("status").getAttribute("class"),
    text: await page.locator("body").innerText(),
    charts: await page.locator("figure svg").count(),
    tables: await page.locator("figure:has(svg) details table").count(),
    wider: await page.evaluate(() => document.documentElement.scrollWidth - innerWidth),
  };
  await page.getByRole("button", { name: "Log out" }).press("Enter");
  await page.getByLabel("Login token").waitFor();
  const after = (await page.request.get(`${address}/operator/overview`)).status();
  await context.close();
  return { ...seen, after };
}

/** Whoever looks sees a report more without doing anything. */
async function live(): Promise<number[]> {
  const page = await browser.newPage({ ignoreHTTPSErrors: true });
  await page.goto(`${address}/operator/#token=${token}`);
  const meter = page.getByRole("meter", { name: "reports" });
  await meter.waitFor();
  const reports = async (): Promise<number> => Number(await meter.getAttribute("aria-valuenow"));
  const found = [await reports()];
  await page.waitForFunction(([before]) => Number(document.querySelector('[aria-label="reports"]')?.getAttribute("aria-valuenow")) !== before, found);
  found.push(await reports());
  if (page.url().includes("token")) throw new Error("the token stays in the address");
  return found;
}

async function logIn(page: Page, given: string): Promise<void> {
  await page.getByLabel("Login token").fill(given);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByRole("alert").waitFor();
}

try {
  if (folder === "live") {
    console.log(JSON.stringify(await live()));
  } else {
    const views: unknown[] = [];
    for (const [width, scheme] of VIEWS) views.push(await looked(width, scheme));
    console.log(JSON.stringify(views));
  }
} finally {
  await browser.close();
}
