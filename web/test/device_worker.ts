/**
 * Whole devices in a worker of a page, as a test asks for them: one question is one call, `[name, method, arguments]`. What
 * only a test may know, such as what a device is about to add to a sum, is asked of `contribution`.
 */

import { BrowserStore, Device, StateError } from "../src/index.ts";
import { hex, type Held } from "../src/held.ts";
import type { View } from "../src/log.ts";
import { contribution, modelOf, openTo } from "../src/windows.ts";

interface Question {
  readonly id: number;
  readonly device: string;
  readonly method: string;
  readonly given: readonly unknown[];
}

const devices = new Map<string, Device>();
let now: number | null = null;
/** What becomes of reports: they arrive, never leave, or arrive and the answer is lost. */
let fate: "arrive" | "holdBack" | "loseAnswers" = "arrive";

async function fetching(url: string, how: RequestInit): Promise<Response> {
  const report = url.endsWith("/v1/reports");
  if (report && fate === "holdBack") throw new TypeError("held back");
  const found = await fetch(url, how);
  if (!report || fate === "arrive") return found;
  if (!found.ok) throw new Error("a report was not taken");
  throw new TypeError("the answer is lost");
}

async function answer({ device: name, method, given }: Question): Promise<unknown> {
  if (method === "setClock") return void (now = given[0] as number);
  if (method === "reports") return void (fate = given[0] as typeof fate);
  if (method === "open") {
    // times tell of nobody here: no contribution is given a fixed time
    const store = await BrowserStore.open(name, (given[0] ?? {}) as { wait?: boolean });
    devices.set(name, await Device.open(store, { clock: () => now ?? Date.now() / 1000, work: null, fetch: fetching }));
    return null;
  }
  const device = devices.get(name);
  if (device === undefined) throw new Error(`there is no device ${name}`);
  if (method === "contribution") return contributionOf(device, () => {});
  if (method === "lateContribution") {
    return contributionOf(device, () => {
      throw new StateError("the time is over");
    });
  }
  if (method === "name") return hex((device["held"] as Held).member()!.name);
  return ((device as never)[method] as (...all: readonly unknown[]) => Promise<unknown>).apply(device, given as unknown[]);
}

/** What the device will add to the sum whose window is open: it is computed from what is held, the same each time. */
async function contributionOf(device: Device, goOn: () => void): Promise<unknown> {
  await device.sync();
  const [held, view] = [device["held"] as Held, device["view"] as View];
  const clock = (): number => now ?? Date.now() / 1000;
  if (openTo(held, view, clock) === null) return null;
  const model = modelOf(view.window!.kind, view);
  const sum = await view.campaign!.joint(view.window!, model === null ? null : await view.campaign!.shared(model));
  const { value, why } = await contribution(held, view, sum, goOn);
  return { kind: sum.round.kind, number: sum.round.number, value: Array.from(value), why: why?.words ?? null };
}

onmessage = async ({ data }: MessageEvent<Question>) => {
  try {
    postMessage({ id: data.id, answer: await answer(data) });
  } catch (problem) {
    const { name, message } = problem as Error;
    postMessage({ id: data.id, problem: { name, message } });
  }
};
