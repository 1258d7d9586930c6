/** The device in its worker, as if it were here: each call of `DeviceApi` is a question to the worker. */

import type { Fault } from "../src/errors.ts";
import type { Sentence } from "../src/sentences.ts";
import type { DeviceApi } from "../src/surface.ts";
import address from "worker:./device_worker.ts";

export interface Question {
  readonly id: number;
  readonly method: string;
  readonly given: readonly unknown[];
}

export type Answer =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly problem: Problem }
  | { readonly news: Sentence };

/** Why the device did not do something. */
export interface Problem {
  readonly name: string;
  readonly said: Sentence;
  /** What the other side did, if that is the reason. */
  readonly fault: Fault | null;
}

export class DeviceProblem extends Error implements Problem {
  override readonly name: string;
  readonly said: Sentence;
  readonly fault: Fault | null;

  constructor({ name, said, fault }: Problem) {
    super(said.words);
    this.name = name;
    this.said = said;
    this.fault = fault;
  }
}

/** What the device said, or what went wrong on this page. */
export function problemOf(problem: unknown): Problem {
  if (problem instanceof DeviceProblem) return problem;
  const { name, message: words } = problem as Error;
  return { name, said: { kind: "other", about: [{ words }], words }, fault: null };
}

/** What the page asks the device for, and `open`, which comes first. */
export interface RemoteDevice extends Omit<DeviceApi, "onNews"> {
  /** Refused while another tab has the device open; with `wait`, done when that one has closed. */
  open(how: { readonly wait: boolean }): Promise<void>;
}

export function remoteDevice(onNews: (news: Sentence) => void): RemoteDevice {
  const worker = new Worker(new URL(address, document.baseURI), { type: "module" });
  const asked = new Map<number, { done(value: unknown): void; failed(problem: Error): void }>();
  let last = 0;
  worker.onmessage = ({ data }: MessageEvent<Answer>) => {
    if ("news" in data) return onNews(data.news);
    const { done, failed } = asked.get(data.id)!;
    asked.delete(data.id);
    if ("problem" in data) failed(new DeviceProblem(data.problem));
    else done(data.value);
  };
  return new Proxy({} as RemoteDevice, {
    get: (_, method) => (...given: unknown[]) =>
      new Promise((done, failed) => {
        asked.set(++last, { done, failed });
        worker.postMessage({ id: last, method: String(method), given } satisfies Question);
      }),
  });
}
