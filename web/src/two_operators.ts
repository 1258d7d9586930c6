/**
 * A sum over two operators: one message from each device, at any time, and privacy while one of the two is honest. The
 * device splits its vector between leader and helper, proves its norm, seals each share to its operator, and sends one
 * report to the leader. What the operators do with it stands in the Python package (protocols/two_operators.py).
 */

import { type Bytes, same, sha256 } from "./bytes.ts";
import { encode } from "./codec.ts";
import { UsageError } from "./errors.ts";
import { type Field, sealBox, type SigningKey } from "./keys.ts";
import {
  digestOf, type JointStatement, jointStatement, report as reportKind, type ReportMessage, reportStatement, VERSION,
} from "./messages.ts";
import { NONCE, Parameters, report as proved } from "./pine.ts";

export const SUITE = "HPKE: X25519, HKDF-SHA256, AES-128-GCM; PINE-01: Field64, HMAC-SHA256, AES-128-CTR";
export const HARD_FLOOR = 50; // no setting lets a sum over fewer people be opened

/** The proof that every report carries: its vector is no longer than the bound. */
export function proofOf(task: JointStatement): Parameters {
  return Parameters.shortest(task.terms.length, task.terms.bound);
}

/** UsageError for a task that no honest operator would name. How far noise reaches is for the operators to
 * check. */
export function checkTask(task: JointStatement): void {
  const { terms } = task;
  if (terms.method !== "two_operators" || terms.ringBits !== 64) {
    throw new UsageError("a sum over two operators has terms of that kind, for numbers of 64 bits");
  }
  if (same(task.leader, task.helper) || same(task.leaderBox, task.helperBox)) {
    throw new UsageError("the two operators are two parties, with keys of their own");
  }
  if (terms.noise > 0 && terms.floor < HARD_FLOOR) {
    throw new UsageError(`noise is for sums with a floor of at least ${HARD_FLOOR}`);
  }
  // refuses a bound that no proof of this field can hold: with those that are left, no sum of 2^31 reports can pass p/2
  proofOf(task);
}

/** The report of a device, to be journalled with its charge before a byte of it leaves, and sent as it is ever after.
 * `draw` is the system's entropy. */
export async function makeReport(
  task: JointStatement, identity: SigningKey, vector: ArrayLike<number>, draw: (size: number) => Bytes = entropy,
): Promise<Bytes> {
  checkTask(task);
  const held = await digestOf(jointStatement, task);
  const nonce = draw(NONCE);
  const made = await proved(proofOf(task), vector, nonce, draw);
  const bound = { held, name: identity.public, nonce, public: made.public };
  const unsigned = {
    version: VERSION,
    round: task.round,
    sender: identity.public,
    receiver: task.leader,
    nonce,
    held,
    public: made.public,
    leaderBox: await sealBox(task.leaderBox, made.leader, ...boxFields("leader", bound)),
    helperBox: await sealBox(task.helperBox, made.helper, ...boxFields("helper", bound)),
  };
  const signature = await identity.sign(await signedOf(unsigned));
  return encode(reportKind, { ...unsigned, signature });
}

/** What the device signs: round, nonce, public part and the hashes of both boxes. */
export async function signedOf(report: Omit<ReportMessage, "signature">): Promise<Bytes> {
  return encode(reportStatement, {
    held: report.held,
    name: report.sender,
    nonce: report.nonce,
    public: report.public,
    leaderBox: await sha256(report.leaderBox),
    helperBox: await sha256(report.helperBox),
  });
}

/** What a box is bound to: by the hash of the task deployment, round, terms and both operators' keys. */
export function boxFields(
  role: "leader" | "helper", { held, name, nonce, public: shared }: { held: Bytes; name: Bytes; nonce: Bytes; public: Bytes },
): Field[] {
  return ["prirec report", VERSION, SUITE, role, held, name, nonce, shared];
}

/** The operating system's entropy. */
export function entropy(size: number): Bytes {
  return crypto.getRandomValues(new Uint8Array(size));
}
