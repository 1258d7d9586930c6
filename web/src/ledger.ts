/**
 * The rules of a person's privacy ledger: what was spent, and whether more may be (as in privacy/ledger.py).
 *
 * A charge is made before what it pays for is sent, and nothing is ever refunded. It is identified by deployment, kind,
 * number and attempt: the same once more is a resend of the same bytes and costs nothing; a new attempt costs in full.
 * All entries count together. A budget is for life; with a period, it holds for any so many days in a row.
 */

import { affordable, checkBudget, MOST_GRAINS } from "./accountant.ts";
import { type Bytes, same } from "./bytes.ts";
import { PolicyError, StateError, UsageError } from "./errors.ts";
import { say } from "./sentences.ts";

const MOST = 2 ** 16; // releases that `howManyMore` looks ahead

/** (epsilon, delta) per person over everything ever sent, or over any so many days in a row. */
export interface Budget {
  readonly epsilon: number;
  readonly delta: number;
  readonly periodDays: number | null;
}

/** The price of one release, and what identifies the release. */
export interface Charge {
  readonly deployment: Bytes;
  readonly kind: string;
  readonly number: number;
  readonly attempt: number;
  /** In plain words, for the person. */
  readonly what: string;
  readonly grains: bigint;
}

/** A charge that was made, and the day (since 1970) on which it was. */
export interface LedgerEntry {
  readonly charge: Charge;
  readonly day: number;
}

/** What a charge on this day adds to. Entries of later days count too: the clock may have been set back, and must not
 * free a budget. */
export function counted(ledger: readonly LedgerEntry[], { periodDays }: Budget, day: number): bigint {
  const since = periodDays === null ? -Infinity : day - periodDays + 1;
  return ledger.reduce((sum, entry) => (entry.day >= since ? sum + entry.charge.grains : sum), 0n);
}

/** Whether a release may be sent: "charge" if it is new and is to be written down first, "known" if it was paid for.
 * PolicyError if it would overspend; StateError if it was charged at another price, for it would be another release
 * under the same name, with less noise. */
export function admit(ledger: readonly LedgerEntry[], charge: Charge, budget: Budget, day: number): "charge" | "known" {
  checkBudget(budget.epsilon, budget.delta);
  if (budget.periodDays !== null && !(budget.periodDays >= 1)) throw new UsageError(say("period"));
  if (charge.grains < 1n || charge.grains > MOST_GRAINS) {
    throw new UsageError("a charge is for one release, at a price that a budget can be worth, and not for nothing");
  }
  // before the budget: a resend stays allowed when nothing is left
  const before = ledger.find((entry) => isSame(entry.charge, charge));
  if (before !== undefined) {
    if (before.charge.grains === charge.grains) return "known";
    throw new StateError("this release was charged at another price before; it is not made at this one");
  }
  if (counted(ledger, budget, day) + charge.grains > affordable(budget.epsilon, budget.delta)) {
    throw new PolicyError(
      `this person's privacy budget does not cover another release for ${charge.what}; nothing is sent. Recommending and `
        + "learning on the device go on",
    );
  }
  return "charge";
}

function isSame(one: Charge, other: Charge): boolean {
  return same(one.deployment, other.deployment) && one.kind === other.kind && one.number === other.number
    && one.attempt === other.attempt;
}

/** How many releases at this price the budget still covers, up to 2^16. */
export function howManyMore(ledger: readonly LedgerEntry[], grains: bigint, budget: Budget, day: number): number {
  if (grains < 1n) throw new UsageError("no release is for nothing");
  const left = affordable(budget.epsilon, budget.delta) - counted(ledger, budget, day);
  const many = left < 0n ? 0n : left / grains;
  return many > BigInt(MOST) ? MOST : Number(many);
}
