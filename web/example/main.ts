/** An app of one page: join a deployment, see places, say where you were. The device is in worker.ts, off this thread. */

import type { Membership, Suggestion } from "../src/index.ts";

const worker = new Worker("worker.js", { type: "module" });
const answers = new Map<number, { done(value: unknown): void; failed(problem: Error): void }>();
let asked = 0;

worker.onmessage = ({ data: { id, value, problem } }) => {
  const answer = answers.get(id)!;
  answers.delete(id);
  if (problem === undefined) answer.done(value);
  else answer.failed(new Error(problem));
};

/** Calls a method of the device. */
function device<T>(method: string, ...given: unknown[]): Promise<T> {
  return new Promise((done, failed) => {
    answers.set(++asked, { done: done as (value: unknown) => void, failed });
    worker.postMessage({ id: asked, method, given });
  });
}

const [form, list, news] = ["join", "places", "news"].map((id) => document.getElementById(id)!) as
  [HTMLFormElement, HTMLOListElement, HTMLParagraphElement];
const tell = (words: string): void => void (news.textContent = words); // as text: names of places are somebody's words

async function show(): Promise<void> {
  const { verdict, membership, canRecommend } = await device<{ verdict: string; membership: Membership | null; canRecommend: boolean }>("status");
  tell(verdict);
  form.hidden = membership !== null;
  list.replaceChildren(...(canRecommend ? (await device<Suggestion[]>("recommend", { radiusKm: 10 })).map(line) : []));
}

function line({ place, about, distanceKm, reasons }: Suggestion): HTMLLIElement {
  const [item, been, not] = [document.createElement("li"), document.createElement("button"), document.createElement("button")];
  const far = distanceKm === null ? "" : `, ${distanceKm.toFixed(1)} km`;
  item.textContent = `${about || place}${far}: ${reasons.map(({ words }) => words).join(", ")} `;
  item.dataset["place"] = place;
  been.textContent = "I was there";
  been.onclick = () => device("recordVisit", { place }).then(show);
  not.textContent = "Not for me";
  not.onclick = () => device("refuse", { place }).then(show);
  item.append(been, not);
  return item;
}

form.onsubmit = (event) => {
  event.preventDefault();
  void navigator.storage.persist(); // a worker cannot ask for it
  device("join", Object.fromEntries(new FormData(form))).then(show, (problem: Error) => tell(problem.message));
};

await show().catch((problem: Error) => tell(problem.message));
setInterval(() => void device("takePart").then(show, () => {}), 60_000); // the device draws its own moment in it
