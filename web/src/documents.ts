/**
 * Public documents of a deployment, and the log of them.
 *
 * A document is addressed by its SHA-256, so that any cache may serve it and nobody can change it; the signed log says
 * which documents are in force. They are the same for everyone, and none holds anything about one person. Arrays are
 * little-endian bytes. What only a campaign has (charter, roster) is not here yet: its form is changing.
 */

import { type Bytes, same, sha256 } from "./bytes.ts";
import {
  bytes, decode, encode, type Kind, LIMIT, list, long, type Of, oneOf, orNothing, real, record, type Tagged, tagged, tagOf,
  text, whole,
} from "./codec.ts";
import { PeerError } from "./errors.ts";
import { verify } from "./keys.ts";
import { digest, digestOf, natural, signature } from "./messages.ts";

const MOST_PLACES = 2 ** 21; // of a region
const MOST_REGIONS = 2 ** 17;
const MOST_ENTRIES = 1000; // of the log, in one answer
/** Kinds that version 1 wrote and this one does not read. */
const EARLIER = new Set([
  "prirec people", "prirec charter", "prirec edition", "prirec mean", "prirec model", "prirec manifest", "prirec parts",
  "prirec publication",
]);

export const deployment = bytes(16);
const cell = long(2n ** 63n - 1n); // of H3, whose highest bit is 0; 0: none
const encodingJson = bytes(0, 2 ** 22);
const array = bytes(0, LIMIT);

/** A catalogue and an encoding for future campaigns. */
export const offer = tagged("prirec offer", {
  version: whole(1, 1),
  deployment,
  encoding: encodingJson,
  manifest: digest,
  places: whole(2 ** 31 - 1, 1),
});
export type Offer = Of<typeof offer>;

/** What follows from the sum of visits: the catalogue with popularity. */
export const edition = tagged("prirec popularity", {
  charter: digest,
  encoding: encodingJson,
  manifest: digest,
  /** Of the Gamma prior of popularity; 0: nothing rose out of the noise. */
  shape: real,
  /** Of the noise in each sum. */
  sigma: real,
});
export type Edition = Of<typeof edition>;

/** What columns are scaled by: float64. */
export const scales = tagged("prirec scales", {
  edition: digest,
  personMean: array,
  personSd: array,
  momentMean: array,
  momentSd: array,
  positive: real,
  rootRecords: real,
  wordFactor: array,
  wordCentre: array,
});
export type Scales = Of<typeof scales>;

/** The shared model B after so many rounds: float32. */
export const model = tagged("prirec shared model", { scales: digest, iteration: natural, shared: array });
export type Model = Of<typeof model>;

/** A starting model, for devices to recommend with until a campaign has published one. */
export const start = tagged("prirec start", { version: whole(2, 2), model: digest, settings: text() });
export type Start = Of<typeof start>;

/** The catalogue by region: each cell with the addresses of its documents. */
export const manifest = tagged("prirec regions", {
  resolution: whole(6),
  regions: list(record({ cell, places: digest, counts: bytes(0, 32) }), MOST_REGIONS),
});
export type Manifest = Of<typeof manifest>;

/** The places of a region with their static features. */
export const places = tagged("prirec places", {
  cell,
  ids: list(text(), MOST_PLACES),
  words: list(text(), MOST_PLACES),
  /** int32 (n,): position in the whole catalogue. */
  rows: array,
  /** float64 (n, 2), NaN where unknown. */
  location: array,
  /** float32 (n, p). */
  features: array,
});
export type Places = Of<typeof places>;

/** Popularity in a region, and what a device needs to leave its own part out of it: float64. */
export const counts = tagged("prirec counts", {
  cell,
  released: array,
  sums: array,
  predicted: array,
  weight: array,
});
export type Counts = Of<typeof counts>;

/** The document with this address and of this kind. PeerError if the bytes are anything else. */
export async function readDocument<T>(kind: Tagged<T>, body: Bytes, name: Bytes): Promise<T> {
  // also for what is on the own disk: it may have rotted there
  if (!same(await sha256(body), name)) throw new PeerError("DECODE", "a document is not the one that was asked for");
  if (EARLIER.has(tagOf(body) ?? "")) {
    throw new PeerError(
      "DECODE",
      "a document is of an earlier version of PriRec; the operator publishes the catalogue anew and begins another campaign",
    );
  }
  return decode(kind, body);
}

// Arrays

const ITEM = { int32: 4, float32: 4, float64: 8 } as const;

/** The numbers in little-endian bytes, as many as there should be. PeerError if the length does not fit. */
export function numbersIn(data: Bytes, item: keyof typeof ITEM, many: number): Float64Array {
  const size = ITEM[item];
  if (data.length !== size * many) {
    throw new PeerError("DECODE", "an array in a document has not the size that it should have");
  }
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const read = { int32: "getInt32", float32: "getFloat32", float64: "getFloat64" } as const;
  return Float64Array.from({ length: many }, (_, at) => view[read[item]](at * size, true));
}

// The log: a hash chain of signed entries that name the documents in force. A device stores the last entry that it
// verified and refuses a log that does not go on from there, so that an operator cannot rewrite what it has published.

export const logEntry = tagged("prirec log entry", {
  version: whole(1, 1),
  deployment,
  index: natural,
  /** Of the entry before; zeros in the first. */
  previous: digest,
  subject: oneOf(text(), "catalogue", "start", "charter", "edition", "scales", "model", "publication", "joined", "left", "window"),
  document: digest,
});
const signedEntry: Kind<{ readonly entry: Of<typeof logEntry>; readonly signature: Bytes }> =
  record({ entry: logEntry, signature });
export type SignedEntry = Of<typeof signedEntry>;

/** What a helper signs: the log has this head, and all in it that follows from sums has been recomputed. */
export const coSignature = tagged("prirec co-signature", {
  deployment,
  length: natural,
  last: digest,
  /** When it was signed, in seconds since 1970. */
  time: whole(2 ** 53 - 1),
});
const signedCoSignature: Kind<{ readonly statement: Of<typeof coSignature>; readonly signature: Bytes }> =
  record({ statement: coSignature, signature });

/** Entries from an index on, as many as fit into one answer, and with a helper its last co-signature. */
export const logPage = tagged("prirec log", {
  entries: list(signedEntry, MOST_ENTRIES), cosigned: orNothing(signedCoSignature),
});

/** The length of a verified log, and the hash of its last entry. */
export interface Head {
  readonly length: number;
  readonly last: Bytes;
}

export const NO_LOG: Head = { length: 0, last: new Uint8Array(32) };

/** The head after these entries. PeerError if they do not go on from here, or are not the operator's. */
export async function headAfter(
  head: Head, entries: readonly SignedEntry[], deployment: Bytes, operator: Bytes,
): Promise<Head> {
  let { length, last } = head;
  for (const { entry, signature } of entries) {
    if (!same(entry.deployment, deployment) || entry.index !== length || !same(entry.previous, last)) {
      throw new PeerError("EQUIVOCATION", "the recommender's log does not go on from where it was");
    }
    // the chain before the signature: comparing is cheap, and a signature of another log proves nothing
    await verify(operator, signature, encode(logEntry, entry));
    length += 1;
    last = await digestOf(logEntry, entry);
  }
  return { length, last };
}
