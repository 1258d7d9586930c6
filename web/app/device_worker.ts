/** The device, off the page's thread. The first question is `open`; every other one is a method of the device. */

import { cellToBoundary, cellToLatLng, cellToParent, latLngToCell } from "h3-js";

import { BrowserStore, Device, PeerError, PrirecError, say } from "../src/index.ts";
import type { Answer, Question } from "./remote_device.ts";

const NAME = "my phone";

let device: Device | null = null;

async function answer({ method, given }: Question): Promise<unknown> {
  if (method === "open") {
    const store = await BrowserStore.open(NAME, given[0] as { wait: boolean });
    device = await Device.open(store, { h3: { cellToBoundary, cellToLatLng, cellToParent, latLngToCell } });
    device.onNews((news) => postMessage({ news } satisfies Answer));
    return null;
  }
  return (device as unknown as { [method: string]: (...all: readonly unknown[]) => Promise<unknown> })[method]!(...given);
}

onmessage = async ({ data }: MessageEvent<Question>) => {
  try {
    postMessage({ id: data.id, value: await answer(data) } satisfies Answer);
  } catch (problem) {
    const { name, message } = problem as Error;
    const said = problem instanceof PrirecError ? problem.said : say("other", { words: message });
    const fault = problem instanceof PeerError ? problem.fault : null;
    postMessage({ id: data.id, problem: { name, said, fault } } satisfies Answer);
  }
};
