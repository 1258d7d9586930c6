/** The messages that a device sends in a sum over two operators, as they travel and as they are signed and hashed. */

import { bytes, decode, encode, type Kind, LIMIT, type Of, oneOf, record, tagged, tagOf, text, whole } from "./codec.ts";
import { type Bytes, sha256 } from "./bytes.ts";
import { PeerError } from "./errors.ts";

export const VERSION = 4;

export const name = bytes(32); // of a party: its Ed25519 public key
export const digest = bytes(32);
export const key = bytes(32);
export const signature = bytes(64);
export const natural = whole(2 ** 31 - 1);
export const perMille = whole(999);
const nonce = bytes(16);
export const version = whole(VERSION, VERSION);

/** Which sum is meant. Numbers only rise; an attempt is another try at the same number. */
export const round = record({
  deployment: bytes(16),
  kind: text(1, 32),
  number: natural,
  group: natural,
  attempt: natural,
});
export type Round = Of<typeof round>;

/** The parameters of a sum, on which everyone in a round must agree. */
export const terms = record({
  method: oneOf(text(), "shares", "pads", "double", "two_operators"),
  length: whole(2 ** 31 - 1, 1),
  ringBits: oneOf(whole(64), 32, 64),
  fractionBits: whole(40, 1),
  /** The largest norm, which each report proves. */
  bound: whole(2 ** 53 - 1, 1),
  floor: natural,
  corrupt: perMille,
  lost: perMille,
  /** The variance, as encoded, that each operator adds. */
  noise: whole(2 ** 52),
});
export type Terms = Of<typeof terms>;

/** How every message begins. */
export const head = { version, round, sender: name, receiver: name };

/** Device to leader: its vector, split between the operators, and the proof of its norm. */
export const report = tagged("report", {
  ...head,
  nonce,
  held: digest,
  public: bytes(128),
  leaderBox: bytes(0, LIMIT),
  helperBox: bytes(176),
  signature,
});
export type ReportMessage = Of<typeof report>;

/** All that the parties of a round must hold alike. Its hash is in every report and in the info of every box. */
export const jointStatement = tagged("prirec joint task", {
  version,
  round,
  terms,
  model: digest,
  leader: name,
  leaderBox: key,
  helper: name,
  helperBox: key,
  /** The hash of the list of those who may report. */
  listed: digest,
  people: natural,
});
export type JointStatement = Of<typeof jointStatement>;

/** What the device's identity signs of a report. */
export const reportStatement = tagged("prirec report", {
  held: digest,
  name,
  nonce,
  public: bytes(0, LIMIT),
  leaderBox: digest,
  helperBox: digest,
});

/** SHA-256 of the canonical form. */
export function digestOf<T>(kind: Kind<T>, value: T): Promise<Bytes> {
  return sha256(encode(kind, value));
}

/** A message of this kind; PeerError for any other bytes, in words of its own for those of another version. */
export function readMessage<T>(kind: Kind<T>, data: Bytes): T {
  try {
    return decode(kind, data);
  } catch (refusal) {
    if (refusal instanceof PeerError && ofAnotherVersion(data)) {
      throw new PeerError(
        "DECODE",
        `a message of another version of the protocols than ${VERSION}, which this program speaks; update the older of the `
          + "two, the device or the recommender",
      );
    }
    throw refusal;
  }
}

/** Whether a list begins with a text and a small number that is not our version. */
function ofAnotherVersion(data: Bytes): boolean {
  const tag = tagOf(data);
  if (tag === null) return false;
  const at = encode(tagged(tag, {}), {}).length; // a list of up to 15, as every message is
  return data[at] !== undefined && data[at] < 0x80 && data[at] !== VERSION;
}
