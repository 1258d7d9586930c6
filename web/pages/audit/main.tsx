/** The auditor's page: reads everything that a recommender ever published, and verifies it in this browser. */

import "../../ui/trusted.ts";
import "../../ui/base.css";
import "../../ui/charts.css";
import "../../ui/one_device.css";
import "./audit.css";

import { render } from "preact";

import { checkedQuestions, type Questions } from "./attack.ts";
import { audit, type AuditedEntry, type Deployment, type Source } from "./audit.ts";
import { type Recording, replay } from "./round.ts";
import { AuditView, type State } from "./view.tsx";

const root = document.getElementById("audit")!;
const state: State = { entries: [], all: 0, problemsOnly: false, expected: { recommender: "", helper: "" } };

/** The recommender that this page comes from. */
const recommender: Source = {
  deployment: () => fetched("../v1/deployment"),
  rotations: () => fetched("../v1/rotations"),
  log: (after) => fetched(`../v1/log?after=${after}`),
  document: (address) => fetched(`../v1/documents/${address}`, true),
};

async function fetched(path: string): Promise<Uint8Array<ArrayBuffer>>;
async function fetched(path: string, maybe: true): Promise<Uint8Array<ArrayBuffer> | undefined>;
async function fetched(path: string, maybe?: true): Promise<Uint8Array<ArrayBuffer> | undefined> {
  for (let attempt = 1; ; attempt += 1) {
    const answer = await fetch(path, { credentials: "omit", referrerPolicy: "no-referrer" });
    if (answer.ok) return new Uint8Array(await answer.arrayBuffer());
    if (answer.status === 404 && maybe) return undefined;
    if (answer.status !== 429 || attempt > 20) throw new Error(`The recommender answered ${answer.status}; try again later.`);
    await new Promise((after) => setTimeout(after, 1000 * Number(answer.headers.get("retry-after") ?? 1)));
  }
}

root.replaceChildren(); // what stood there until this script was loaded

function draw(): void {
  render(
    <AuditView
      state={state}
      toggle={() => { state.problemsOnly = !state.problemsOnly; draw(); }}
      expect={(who, text) => { state.expected[who] = text; draw(); }}
    />,
    root,
  );
}

let drawn = 0;
function told(deployment: Deployment, entries: readonly AuditedEntry[], all: number): void {
  state.deployment = deployment;
  state.entries = entries;
  state.all = all;
  if (performance.now() - drawn < 150 && entries.length < all) return;
  drawn = performance.now();
  draw();
}

/** A file of the page's own, beside it. */
async function ownFile<T>(name: string): Promise<T> {
  const answer = await fetch(name, { credentials: "omit", referrerPolicy: "no-referrer" });
  if (!answer.ok) throw new Error(`${name} is not there: the recommender answered ${answer.status}.`);
  return (await answer.json()) as T;
}

void ownFile<Recording>("round.json").then(replay)
  .then((found) => { state.replay = found; }, (problem: Error) => { state.replay = problem.message; }).then(draw);
void ownFile<Questions>("questions.json").then(checkedQuestions)
  .then((found) => { state.questions = found; }, (problem: Error) => { state.questions = problem.message; }).then(draw);
try {
  await audit(recommender, Date.now() / 1000, told);
} catch (problem) {
  state.problem = (problem as Error).message;
}
draw();
