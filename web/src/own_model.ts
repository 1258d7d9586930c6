/**
 * A person's own model w, learnt on the device alone, from its own records around the shared model.
 *
 * How far people differ from the shared model is found by the evidence of the person's own records for each of a few
 * prior precisions. For one of them the posterior of w is approximated by a normal one at its mode (Laplace), found by
 * Newton's method in whichever is smaller: the space of records (Rasmussen and Williams 2006, Algorithm 3.1) or that of
 * columns. The same as in the Python package (model/own_model.py), within 1e-9: exp and log differ in their last bits.
 */

import type { OwnRecords, SharedModel } from "./shared_model.ts";

const PRECISIONS = [10, 100, 1000];
const TURNS = 30; // of Newton's method, and the change of the objective at which it ends
const CLOSE = 1e-4;

/** The coefficients of a person over the columns of b: what the shared model comes to, and what the own records say
 * beyond it. */
export function learnOwn(records: OwnRecords, model: SharedModel): Float64Array {
  const own = model.coefficients(records.who);
  if (records.rows.length === 0) return own;
  const Z = records.rows.map((row) => model.fill(row));
  const target = Float64Array.from(records.label, (label) => (label > 0 ? 1 : 0));
  const shared = Float64Array.from(Z, (row) => model.base + dot(row, own));
  const w = Z.length <= own.length ? byRecords(Z, shared, target) : byColumns(Z, shared, target);
  return own.map((value, at) => value + w[at]!);
}

type Vector = Float64Array;

function byRecords(Z: readonly Vector[], shared: Vector, target: Vector): Vector {
  const gram = Z.map(() => new Float64Array(Z.length));
  for (let r = 0; r < Z.length; r++) for (let c = 0; c <= r; c++) gram[r]![c] = gram[c]![r] = dot(Z[r]!, Z[c]!);
  let a: Vector = new Float64Array(Z.length);
  const evidence: number[] = [];
  const ways: Vector[] = [];
  // the strongest prior first: its mode is near 0, and the next is near it
  PRECISIONS.toReversed().forEach((precision, at) => {
    // the same w: of the same a, a weaker prior makes one so long that Newton's method is lost
    if (at > 0) a = a.map((value) => (value * precision) / PRECISIONS.at(-at)!);
    const found = modeByRecords(gram, shared, target, precision, a);
    a = found.a;
    evidence.push(found.evidence);
    ways.push(a.map((value) => value / precision));
  });
  const way = averaged(evidence, ways);
  const w = new Float64Array(Z[0]!.length);
  Z.forEach((row, r) => { for (let j = 0; j < w.length; j++) w[j]! += way[r]! * row[j]!; });
  return w;
}

/** The mode, where w is Z a / precision, and the log evidence. `gram` has the products of records. */
function modeByRecords(
  gram: readonly Vector[], shared: Vector, target: Vector, precision: number, begin: Vector,
): { a: Vector; evidence: number } {
  const n = begin.length;
  const spread = (x: Vector): Vector => Float64Array.from(gram, (row) => dot(row, x) / precision);
  let a = begin;
  let f = spread(a);
  let before = logLikelihood(shared, f, target) - 0.5 * dot(a, f);
  let half = 0;
  for (let turn = 0; turn < TURNS; turn++) {
    const weight = new Float64Array(n);
    const b = new Float64Array(n);
    for (let r = 0; r < n; r++) {
      const p = 1 / (1 + Math.exp(-(shared[r]! + f[r]!)));
      weight[r] = Math.sqrt(p * (1 - p));
      b[r] = weight[r]! * weight[r]! * f[r]! + target[r]! - p;
    }
    const root = gram.map((row, r) => {
      const lower = new Float64Array(n);
      for (let c = 0; c <= r; c++) lower[c] = (weight[r]! * row[c]! * weight[c]!) / precision;
      lower[r]! += 1;
      return lower;
    });
    half = cholesky(root);
    const x = solve(root, spread(b).map((value, r) => value * weight[r]!));
    const [from, onward] = [a, b.map((value, r) => value - weight[r]! * x[r]! - a[r]!)];
    let found = -Infinity;
    for (let step = 1; ; step *= 0.5) { // the objective is concave: a shorter step always helps at last
      a = from.map((value, r) => value + step * onward[r]!);
      f = spread(a);
      found = logLikelihood(shared, f, target) - 0.5 * dot(a, f);
      if (found >= before || step < 1e-6) break;
    }
    const gained = found - before;
    before = found;
    if (gained < CLOSE) break;
  }
  return { a, evidence: before - half };
}

/** The same for more records than columns. */
function byColumns(Z: readonly Vector[], shared: Vector, target: Vector): Vector {
  let w: Vector = new Float64Array(Z[0]!.length);
  const found = PRECISIONS.toReversed().map((precision) => {
    const mode = modeByColumns(Z, shared, target, precision, w);
    w = mode.w;
    return mode;
  });
  return averaged(found.map(({ evidence }) => evidence), found.map((mode) => mode.w));
}

function modeByColumns(
  Z: readonly Vector[], shared: Vector, target: Vector, precision: number, begin: Vector,
): { w: Vector; evidence: number } {
  const d = begin.length;
  // most products of a word with the clock are 0
  const filled = Z.map((z) => Uint16Array.from(Array.from(z, (_, i) => i).filter((i) => z[i] !== 0)));
  const posterior = (w: Vector, f: Vector): number => logLikelihood(shared, f, target) - 0.5 * precision * dot(w, w);
  let w = begin;
  let f = Float64Array.from(Z, (row) => dot(row, w));
  let before = posterior(w, f);
  let half = 0;
  for (let turn = 0; turn < TURNS; turn++) {
    const root = Array.from({ length: d }, (_, c) => {
      const row = new Float64Array(d);
      row[c] = precision;
      return row;
    });
    const x = w.map((value) => -precision * value);
    Z.forEach((z, r) => {
      const p = 1 / (1 + Math.exp(-(shared[r]! + f[r]!)));
      const weight = p * (1 - p);
      const some = filled[r]!;
      for (let at = 0; at < some.length; at++) {
        const i = some[at]!;
        const much = weight * z[i]!;
        const row = root[i]!;
        for (let other = 0; other <= at; other++) {
          const j = some[other]!;
          row[j]! += much * z[j]!;
        }
        x[i]! += (target[r]! - p) * z[i]!;
      }
    });
    half = cholesky(root);
    const onward = solve(root, x);
    const from = w;
    let found = -Infinity;
    for (let step = 1; ; step *= 0.5) {
      w = from.map((value, i) => value + step * onward[i]!);
      f = Float64Array.from(Z, (row) => dot(row, w));
      found = posterior(w, f);
      if (found >= before || step < 1e-6) break;
    }
    const gained = found - before;
    before = found;
    if (gained < CLOSE) break;
  }
  return { w, evidence: before + 0.5 * d * Math.log(precision) - half };
}

/** The sum of ln sigma(± score). */
function logLikelihood(shared: Vector, f: Vector, target: Vector): number {
  let total = 0;
  for (let r = 0; r < f.length; r++) {
    const margin = (2 * target[r]! - 1) * (shared[r]! + f[r]!);
    total -= Math.max(0, -margin) + Math.log1p(Math.exp(-Math.abs(margin)));
  }
  return total;
}

/** The mean of the modes, weighted by their evidence. */
function averaged(evidence: readonly number[], modes: readonly Vector[]): Vector {
  const best = Math.max(...evidence);
  const chance = evidence.map((one) => Math.exp(one - best));
  const all = chance.reduce((sum, one) => sum + one, 0);
  return modes[0]!.map((_, j) => modes.reduce((sum, mode, k) => sum + chance[k]! * mode[j]!, 0) / all);
}

/** Of the first so many entries, in four sums side by side, which do not wait for each other. */
function dot(x: Vector, y: Vector, many = x.length): number {
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;
  let at = 0;
  for (; at + 3 < many; at += 4) {
    a += x[at]! * y[at]!;
    b += x[at + 1]! * y[at + 1]!;
    c += x[at + 2]! * y[at + 2]!;
    d += x[at + 3]! * y[at + 3]!;
  }
  for (; at < many; at++) a += x[at]! * y[at]!;
  return a + b + (c + d);
}

/** Replaces the lower half of a positive definite matrix by its root; half the log of its determinant. */
function cholesky(matrix: readonly Vector[]): number {
  let half = 0;
  for (let r = 0; r < matrix.length; r++) {
    const row = matrix[r]!;
    for (let c = 0; c < r; c++) {
      const other = matrix[c]!;
      row[c] = (row[c]! - dot(row, other, c)) / other[c]!;
    }
    row[r] = Math.sqrt(Math.max(row[r]! - dot(row, row, r), 1e-12));
    half += Math.log(row[r]!);
  }
  return half;
}

/** The solution of L Lᵀ z = x. */
function solve(root: readonly Vector[], x: Vector): Vector {
  const z = x.slice();
  for (let r = 0; r < z.length; r++) {
    const row = root[r]!;
    z[r] = (z[r]! - dot(row, z, r)) / row[r]!;
  }
  for (let r = z.length - 1; r >= 0; r--) {
    const row = root[r]!;
    const last = (z[r]! /= row[r]!);
    for (let k = 0; k < r; k++) z[k]! -= row[k]! * last;
  }
  return z;
}
