/** What stands in the way of people who cannot see a page, or see little of it, as axe finds it. */

import { readFileSync } from "node:fs";

import type { Page } from "playwright-core";

const AXE = readFileSync(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");

/** What axe finds of the whole page that is serious, in either colour scheme. */
export async function seriousIn(page: Page): Promise<string[]> {
  const found: string[] = [];
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    await page.evaluate(AXE);
    const violations = await page.evaluate(async () => {
      const axe = (globalThis as unknown as { axe: { run(): Promise<{ violations: { id: string; impact: string; nodes: { html: string }[] }[] }> } }).axe;
      return (await axe.run()).violations.map(({ id, impact, nodes }) => ({ id, impact, html: nodes[0]!.html }));
    });
    found.push(...violations.filter(({ impact }) => ["serious", "critical"].includes(impact)).map(({ id, html }) => `${colorScheme}: ${id} at ${html}`));
  }
  return found;
}
