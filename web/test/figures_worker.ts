/** How long reports take, in a worker. */

import { Parameters, report } from "../src/pine.ts";

onmessage = async () => {
  const found: { [what: string]: number } = {};
  const draw = (size: number) => crypto.getRandomValues(new Uint8Array(size));
  for (const entries of [445, 16_621, 118_598]) {
    const p = Parameters.shortest(entries, 2 ** 12);
    const vector = Array.from({ length: entries }, (_, at) => (at < 4000 ? (at % 3) - 1 : 0));
    const times: number[] = [];
    for (let turn = 0; turn < (entries > 100_000 ? 3 : 7); turn++) {
      const before = performance.now();
      await report(p, vector, draw(16), draw);
      times.push(performance.now() - before);
    }
    found[`report of ${entries} entries, ms`] = times.toSorted((a, b) => a - b)[times.length >> 1]!;
  }
  postMessage(found);
};
