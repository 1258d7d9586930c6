/** The messages between the operators: no device reads them, but the codec is held to them all the same. */

import { bytes, LIMIT, list, record, tagged, whole } from "../src/codec.ts";
import { digest, head, name, natural, report, signature } from "../src/messages.ts";

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

export const MESSAGES = [
  report,
  tagged("batch", { ...head, number: natural, reports: list(line, MOST_FORWARDED) }),
  tagged("verdicts", { ...head, number: natural, verdicts: list(verdict, MOST_FORWARDED) }),
  tagged("closing", { ...head, batches: natural, accepted: digest, count: natural, signature, commitment: digest }),
  tagged("noised share", { ...head, share: bytes(0, LIMIT), salt: digest }),
  tagged("opened sum", { ...head, signature }),
  tagged("given up", head),
];
