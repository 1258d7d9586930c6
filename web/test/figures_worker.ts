/** How long reports and recommendations take, in a worker, on made-up numbers. */

import { columnsOf, usualScaling } from "../src/columns.ts";
import { type Encoding, readEncoding } from "../src/encoding.ts";
import { utf8 } from "../src/bytes.ts";
import { Parameters, report } from "../src/pine.ts";
import { personOf, Published, recommend } from "../src/recommend.ts";
import type { OwnData } from "../src/records.ts";
import { SharedModel } from "../src/shared_model.ts";

onmessage = async () => {
  const found: { [what: string]: number } = {};
  const draw = (size: number) => crypto.getRandomValues(new Uint8Array(size));
  for (const entries of [445, 16_621, 118_598]) {
    const p = Parameters.shortest(entries, 2 ** 12);
    const vector = Array.from({ length: entries }, (_, at) => (at < 4000 ? (at % 3) - 1 : 0));
    found[`report of ${entries} entries, ms`] = await fastest(7, () => report(p, vector, draw(16), draw));
  }
  for (const visits of [20, 100]) {
    const { of, own } = city(1000, visits);
    found[`own model from ${visits} visits, ms`] = await fastest(9, () => personOf(own, of));
    const people = Array.from({ length: 25 }, () => personOf(own, of));
    const everywhere = { radiusKm: 1000 };
    let next = 0;
    found[`recommendation over 1,000 places after ${visits} visits, the first, ms`] = await fastest(people.length, () =>
      recommend(people[next++]!, of, everywhere),
    );
    found[`recommendation over 1,000 places after ${visits} visits, another, ms`] = await fastest(99, () =>
      recommend(people[0]!, of, everywhere),
    );
  }
  postMessage(found);
};

/** The fastest turn: what else the machine does only adds to it. */
async function fastest(turns: number, work: () => unknown): Promise<number> {
  let least = Infinity;
  for (let turn = 0; turn < turns; turn++) {
    const before = performance.now();
    await work();
    least = Math.min(least, performance.now() - before);
  }
  return least;
}

/** A city in which every kind of feature occurs: 30 kinds of places, two numbers, own history, the clock. */
function city(many: number, visited: number): { of: Published; own: OwnData } {
  const kinds = Array.from({ length: 30 }, (_, at) => `kind ${at}`);
  const encoding: Encoding = readEncoding(utf8(JSON.stringify({
    version: 1,
    person: [
      { type: "words", column: "speaks", words: ["de", "en", "fr"] },
      { type: "area", column: "home area", centres: Array.from({ length: 12 }, (_, at) => [47 + at / 20, 8.5]) },
    ],
    place: [{ type: "words", column: "kind", words: kinds }, { type: "log", column: "price" }, { type: "log", column: "stars" }],
    popularity: [{ type: "log", column: "weighted popularity" }],
    context: [
      { type: "distance", column: "distance from home", shift: 1.79, scale: 2 },
      { type: "nearest", column: "distance from own visits", shift: 0.69, scale: 1 },
      { type: "density", column: "density of own visits", scales_km: [0.5, 2, 8], shift: -3.45, spread: 2.3 },
      { type: "affinity", column: "own visits by kind", of: "kind", shares: kinds.map(() => 1 / 30) },
      { type: "closeness", column: "own visits by price", of: "price", shift: 0.8, scale: 1 },
      { type: "clock", column: "time" },
    ],
  })));
  const places = Array.from({ length: many }, (_, at) => at);
  const features = places.map((at) => Float32Array.from([...kinds.map((_, kind) => (at % 30 === kind ? 1 : 0)), (at % 17) / 8 - 1, (at % 5) / 2 - 1]));
  const columns = columnsOf(encoding);
  const scaling = usualScaling(columns, features);
  const entries = Float64Array.from({ length: columns.entries }, (_, at) => ((at * 7919) % 1000 - 500) / 2 ** 12);
  const ids = places.map((at) => `p${at}`);
  return {
    of: new Published(
      encoding,
      { ratio: 4, negatives: "uniform", onlyEarlier: false },
      {
        ids, words: ids, rows: places, features, released: places.map((at) => [at % 100]),
        sums: null,
        location: places.map((at) => [47 + (at % 37) / 100, 8.5 + (at % 41) / 100]),
      },
      new SharedModel(columns, scaling, entries),
    ),
    own: {
      profile: { speaks: "de" }, home: [47.1, 8.6], labelled: false, negativesSecret: new Uint8Array(32), added: new Map(),
      visits: Array.from({ length: visited }, (_, at) => ({
        id: `${at}`, place: `p${(at * 131) % many}`, time: 1_700_000_000 + at * 40_000, label: 1, context: {},
      })),
    },
  };
}
