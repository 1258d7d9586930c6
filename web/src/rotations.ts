/**
 * Whose signatures count at a place of the log: the operators' identities, which rotations change.
 *
 * An entry "rotation" is the last that the old key signs: those after it are signed by the new one, and so are heads that
 * cover it, if the key is the helper's. It takes the signatures of the old key, of the new one and of the other operator.
 */

import { type Bytes, same } from "./bytes.ts";
import { encode } from "./codec.ts";
import { keyChange, MOST_ROTATIONS, type Rotation } from "./documents.ts";
import { PeerError } from "./errors.ts";
import { verify } from "./keys.ts";

/** The identities in force at a place of the log. */
export interface Operators {
  readonly recommender: Bytes;
  /** Empty: the deployment has one operator. */
  readonly helper: Bytes;
  /** That have led to these. */
  readonly rotations: readonly Rotation[];
}

type Pair = Pick<Operators, "recommender" | "helper">;

/** Those at the beginning of the log. */
export function firstOf({ recommender, helper, rotations }: Operators): Operators {
  const first = (role: "recommender" | "helper", now: Bytes): Bytes => rotations.find(({ change }) => change.role === role)?.change.old ?? now;
  return { recommender: first("recommender", recommender), helper: first("helper", helper), rotations: [] };
}

/** Whether these two have been in force together. */
export function wereInForce(operators: Operators, wanted: Pair): boolean {
  let pair: Pair = firstOf(operators);
  const alike = (): boolean => same(pair.recommender, wanted.recommender) && same(pair.helper, wanted.helper);
  for (const { change } of operators.rotations) {
    if (alike()) return true;
    pair = { ...pair, [change.role]: change.new };
  }
  return alike();
}

/** Those after a rotation. PeerError for one that is not the next, or lacks one of its signatures. */
export async function rotated(now: Operators, rotation: Rotation, deployment: Bytes): Promise<Operators> {
  const { change, byOld, byNew, byPeer } = rotation;
  const next = same(change.deployment, deployment) && change.number === now.rotations.length && change.number < MOST_ROTATIONS;
  if (!next || !same(change.old, now[change.role])) {
    throw new PeerError("EQUIVOCATION", "a rotation of keys is not the next of this deployment");
  }
  const had = [now.recommender, now.helper, ...now.rotations.map((one) => one.change.old)];
  if (had.some((key) => same(key, change.new))) {
    throw new PeerError("EQUIVOCATION", "a rotation leads to a key that an operator has, or has had");
  }
  const [said, peer] = [encode(keyChange, change), change.role === "recommender" ? now.helper : now.recommender];
  await verify(change.old, byOld, said);
  await verify(change.new, byNew, said);
  if (peer.length > 0) await verify(peer, byPeer, said);
  else if (byPeer.length > 0) throw new PeerError("EQUIVOCATION", "a rotation is signed by a second operator where there is one");
  return { ...now, [change.role]: change.new, rotations: [...now.rotations, rotation] };
}

/** PeerError unless their own rotations lead to them. */
export async function checkOperators(operators: Operators, deployment: Bytes): Promise<void> {
  let now = firstOf(operators);
  for (const one of operators.rotations) now = await rotated(now, one, deployment);
  if (!same(now.recommender, operators.recommender) || !same(now.helper, operators.helper)) {
    throw new PeerError("EQUIVOCATION", "the operators' keys are not those that rotations lead to");
  }
}
