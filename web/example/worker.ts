/** The device, in a worker: a page must not wait for a proof. */

import { BrowserStore, Device } from "../src/index.ts";

const device = BrowserStore.open("example").then((store) => Device.open(store));

onmessage = async ({ data: { id, method, given } }) => {
  try {
    const methods = (await device) as unknown as { [name: string]: (...all: unknown[]) => Promise<unknown> };
    postMessage({ id, value: await methods[method]!(...given) });
  } catch (problem) {
    postMessage({ id, problem: (problem as Error).message });
  }
};
