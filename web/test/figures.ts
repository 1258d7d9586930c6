/** `node test/figures.ts EXECUTABLE`: how long things take in a worker in headless Chromium; the fastest of some turns. */

import { type Asking, onPage } from "./chromium.ts";

const [executable] = process.argv.slice(2);
if (executable === undefined) throw new Error("name the Chromium to run");
const found = await onPage(executable, "page.ts", "figures_worker.ts", (page) =>
  page.evaluate(() => (globalThis as unknown as Asking<{ [what: string]: number }>).ask(null)),
);
for (const [what, much] of Object.entries(found)) console.log(`${what}: ${much.toFixed(1)}`);
