/** The messages between the operators, and what they sign and hash: no device reads them, but whoever looks at a round does. */

import { bytes, LIMIT, list, type Of, record, tagged, whole } from "../../src/codec.ts";
import { digest, head, name, natural, report, signature } from "../../src/messages.ts";

const MOST_FORWARDED = 2 ** 14;
const line = record({
  name,
  nonce: bytes(16),
  public: bytes(128),
  leaderBox: digest,
  helperBox: bytes(176),
  signature,
  verifier: bytes(0, 2 ** 20),
});
const verdict = record({ reason: whole(8), seeds: bytes(0, 64) });

export const batch = tagged("batch", { ...head, number: natural, reports: list(line, MOST_FORWARDED) });
export const verdicts = tagged("verdicts", { ...head, number: natural, verdicts: list(verdict, MOST_FORWARDED) });
export const closing = tagged("closing", { ...head, batches: natural, accepted: digest, count: natural, signature, commitment: digest });
export const noisedShare = tagged("noised share", { ...head, share: bytes(0, LIMIT), salt: digest });
export const openedSum = tagged("opened sum", { ...head, signature });
export const givenUp = tagged("given up", head);

export type Batch = Of<typeof batch>;
export type Closing = Of<typeof closing>;
export type NoisedShare = Of<typeof noisedShare>;

export const MESSAGES = [report, batch, verdicts, closing, noisedShare, openedSum, givenUp];

/** Signed by both operators: the one set of reports that a round is opened over. */
export const closed = tagged("prirec closing", { held: digest, batches: natural, accepted: digest, count: natural });

/** Hashed for the commitment to a noised share. */
export const committed = tagged("prirec noised share", { closed: digest, name, salt: digest, share: bytes(0, LIMIT) });

/** Signed by both operators: the sum of a closed set. */
export const summed = tagged("prirec opened sum", { closed: digest, total: bytes(0, LIMIT) });
