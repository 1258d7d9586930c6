/** `node test/in_chromium.ts EXECUTABLE`: the vectors, in a worker of a page in headless Chromium. */

import { type Asking, onPage } from "./chromium.ts";
import { vectorFiles } from "./vectors_files.ts";

const [executable] = process.argv.slice(2);
if (executable === undefined) throw new Error("name the Chromium to run");
type Outcome = { run: number; problems: string[] };
const { run, problems } = await onPage(executable, "page.ts", "vectors_worker.ts", (page) =>
  page.evaluate((files) => (globalThis as unknown as Asking<Outcome>).ask(JSON.parse(files)), JSON.stringify(vectorFiles())),
);
console.log(`${run} vectors, ${problems.length} problems`);
for (const problem of problems) console.log(problem);
process.exitCode = run > 0 && problems.length === 0 ? 0 : 1;
