/**
 * What a device adds to the sum of quality figures: how good the published model is at the places that it holds out. Nothing
 * was learnt from them: they are in no other sum of the campaign, and for this one the person's own model, home and history
 * come from the other records alone. In whole numbers as in the Python package (device/quality.py,
 * privacy/quality_figures.py, which says why), as far as scores agree.
 */

import { nearest } from "./fixed_point.ts";
import type { Norm } from "./norm.ts";
import { learnOwn } from "./own_model.ts";
import { been, finds, type Published } from "./recommend.ts";
import { homeOf, mostRecords, type OwnData, partedData, partedRecords, visitedPlaces } from "./records.ts";

const FIRST = 10; // places of a list in which a hit is looked for
const BINS = 12;
const EDGES = Array.from({ length: BINS - 1 }, (_, at) => 1.25 * Math.log((at + 1) / (BINS - at - 1))); // of scores
const CAP = 2.5; // of a person's mean loss
// shares of the squared norm, and the distance from 0 that is the most an entry can have
const PARTS: readonly (readonly [number, number])[] = [
  ...Array.from({ length: 2 * BINS }, () => [0.27, 1] as const), [0.1, 1], [0.1, 1], [0.06, 1], [0.06, 0.5], [0.24, CAP - 0.5],
];
export const FIGURES_LENGTH = PARTS.length;

/** How good the model is for one person. Private. */
export interface Measured {
  readonly labels: readonly (1 | -1)[];
  readonly scores: readonly number[];
  /** Whether the first places of the list hold one that was held out; null: no new place was. */
  readonly hit: boolean | null;
}

/** On the places that this device holds out, by that share of them in thousandths. */
export function measured(own: OwnData, of: Published, share: number, goOn = (): void => {}): Measured {
  const { encoding, rules, known, model } = of;
  const { learnt, held } = partedRecords(own, encoding, rules, known, mostRecords(model.columns.width), share, goOn);
  const coefficients = learnOwn(model.scaled(learnt), model);
  const asked = model.scaled(held);
  const parts = partedData(own, share);
  const fresh = visitedPlaces(parts.held, known);
  const person = {
    features: learnt.person, coefficients, home: homeOf(parts.learnt, known), homeGiven: own.home !== null,
    ...been(visitedPlaces(parts.learnt, known), of),
  };
  goOn();
  return {
    labels: asked.label,
    scores: asked.rows.map((row) => model.score(model.fill(row), coefficients)),
    hit: fresh.length === 0 ? null : finds(person, of, fresh, FIRST),
  };
}

/** The vector, no longer than the norm; zeros where nothing was held out. */
export function qualityContribution({ labels, scores, hit }: Measured, norm: Norm): Float64Array {
  const counts = new Float64Array(2 * BINS);
  const many = { positive: labels.filter((label) => label > 0).length, all: labels.length };
  let loss = 0;
  scores.forEach((score, at) => {
    const positive = labels[at]! > 0;
    const bin = EDGES.filter((edge) => edge <= score).length;
    counts[positive ? bin : BINS + bin]! += 1;
    const margin = positive ? score : -score;
    loss += Math.max(0, -margin) + Math.log1p(Math.exp(-Math.abs(margin)));
  });
  const of = (at: number): number => Math.max(at < BINS ? many.positive : many.all - many.positive, 1);
  const means = [
    ...counts.map((count, at) => count / of(at)), hit === false ? 1 : 0, hit === true ? 1 : 0,
    ...(many.all === 0 ? [0, 0, 0] : [1, many.positive / many.all - 0.5, Math.min(loss / many.all, CAP) - 0.5]),
  ];
  const longest = norm.sensitivity - Math.sqrt(PARTS.length) / 2 ** (norm.fractionBits + 1);
  const values = means.map((mean, at) => mean * ((Math.sqrt(PARTS[at]![0]) / PARTS[at]![1]) * longest));
  const whole = Float64Array.from(values, (value) => nearest(value * 2 ** norm.fractionBits) + 0); // + 0: no negative zeros
  return norm.within(whole) ? whole : norm.clipped(values);
}
