/**
 * Public documents of a deployment, and the log of them.
 *
 * A document is addressed by its SHA-256, so that any cache may serve it and nobody can change it; the signed log says
 * which documents are in force. They are the same for everyone, and none holds anything about one person. Arrays are
 * little-endian bytes. Rosters, which only deployments of one operator have, are not here.
 */

import { type Bytes, same, sha256 } from "./bytes.ts";
import {
  bytes, decode, encode, flag, type Kind, LIMIT, list, long, type Of, oneOf, orNothing, real, realWithin, record,
  type Tagged, tagged, tagOf, text, whole,
} from "./codec.ts";
import { PeerError } from "./errors.ts";
import { verify } from "./keys.ts";
import { digest, digestOf, name, natural, perMille, signature } from "./messages.ts";

const MOST_PLACES = 2 ** 21; // of a region
export const MOST_AVERAGES = 64; // over visits, of a place
const LIST_OF_6 = 0x96; // how an edition without averages begins
const MOST_REGIONS = 2 ** 17;
export const MOST_ENTRIES = 1000; // of the log, in one answer
/** Kinds that earlier versions wrote and this one does not read. */
const EARLIER = new Set([
  "prirec people", "prirec charter", "prirec edition", "prirec mean", "prirec model", "prirec manifest", "prirec parts",
  "prirec publication", "prirec campaign", "prirec charter of a campaign", "prirec shared model",
]);

export const WIRE_VERSION = 4; // of campaigns, and of what devices and recommender say to each other
const MOST_NAMES = 4096; // in one list of who has joined or left

export const deployment = bytes(16);
const cell = long(2n ** 63n - 1n); // of H3, whose highest bit is 0; 0: none
const encodingJson = bytes(0, 2 ** 22);
const array = bytes(0, LIMIT);
const maybeDigest = bytes(0, 32); // empty: none
const maybeKey = bytes(0, 32);
const maybeSignature = bytes(0, 64);
export const MOST_ROTATIONS = 1000; // of operators' keys, in a deployment
const settingsReal = realWithin(0, 1e6);
const seconds = whole(2 ** 37 - 1); // since 1970, of the operators' clocks: a date up to 6325
export const sumKind = oneOf(text(), "popularity", "moments", "interaction", "quality");
export type SumKind = Of<typeof sumKind>;

/** A catalogue and an encoding for future campaigns. */
export const offer = tagged("prirec offer", {
  version: whole(1, 1),
  deployment,
  encoding: encodingJson,
  manifest: digest,
  places: whole(2 ** 31 - 1, 1),
});
export type Offer = Of<typeof offer>;

/** The settings that a charter carries: what devices compute by. */
export const campaignSettings = record({
  iterations: natural,
  floor: natural,
  epsilonPerUser: settingsReal,
  delta: settingsReal,
  /** 0: for life. */
  periodDays: natural,
  /** Parts of the budget, of which only the ratio counts. */
  popularity: settingsReal,
  moments: settingsReal,
  interaction: settingsReal,
  quality: settingsReal,
  operators: whole(2, 1),
  lost: perMille,
  corrupt: perMille,
  roster: settingsReal,
  ringBits: oneOf(whole(64), 32, 64),
  ratio: natural,
  negatives: oneOf(text(), "uniform", "nearby"),
  onlyEarlier: flag,
  ownLeftOut: flag,
  /** The share of a person's places that nothing is learnt from, for quality figures. */
  heldOut: perMille,
});
export type CampaignSettings = Of<typeof campaignSettings>;

/** What a campaign is: a sum of visits, a sum of moments, then rounds, and a sum of quality figures where these have a part of
 * the budget; settings and catalogue are fixed. */
export const charter = tagged("prirec campaign charter", {
  version: whole(4, 4),
  deployment,
  campaign: natural,
  recommender: name,
  settings: campaignSettings,
  /** Without popularity. */
  encoding: encodingJson,
  /** The roster; with two operators there is none. */
  people: maybeDigest,
  many: natural,
  /** Of the catalogue without popularity. */
  manifest: digest,
  places: whole(2 ** 31 - 1, 1),
  helper: maybeKey,
  leaderBox: maybeKey,
  helperBox: maybeKey,
  /** People that a sum is sized for: no window lists more. */
  most: natural,
});
export type Charter = Of<typeof charter>;

/** Who has joined, or left: the log says which. */
export const names = tagged("prirec names", { names: list(name, MOST_NAMES, 1) });

/** The time in which each device may send its report for one sum. */
export const window = tagged("prirec window", {
  charter: digest,
  kind: sumKind,
  number: natural,
  /** On the list of those who may report: joined, and not left, in the first `entries` of the log. */
  people: natural,
  entries: natural,
  /** Hash of the last of these entries. */
  listed: digest,
  /** Hash of what everyone must hold alike. */
  model: digest,
  opens: seconds,
  closes: seconds,
});
export type Window = Of<typeof window>;

/** The hash that reports are bound to: of everything but the times, so that an extension changes no report. */
export function boundOf(of: Window): Promise<Bytes> {
  return digestOf(window, { ...of, opens: 0, closes: 0 });
}

/** From its entry in the log on, an operator's identity is another key. */
export const keyChange = tagged("prirec key change", {
  deployment,
  /** Of rotations, of either operator, that the log has before it. */
  number: natural,
  role: oneOf(text(), "recommender", "helper"),
  old: name,
  new: name,
  /** When the new key was made. */
  time: seconds,
});

/** A change of an operator's key, signed by the old key, the new one and the other operator's. */
export const rotation = tagged("prirec rotation", {
  change: keyChange,
  byOld: signature,
  byNew: signature,
  /** Empty in a deployment of one operator. */
  byPeer: maybeSignature,
});
export type Rotation = Of<typeof rotation>;

/** GET /v1/rotations: all that devices follow, in the order of the log. */
export const rotations = tagged("prirec rotations", { rotations: list(rotation, MOST_ROTATIONS) });

const editionFields = {
  charter: digest,
  encoding: encodingJson,
  manifest: digest,
  /** Of the Gamma prior of popularity; 0: nothing rose out of the noise. */
  shape: real,
  /** Of the noise in each sum. */
  sigma: real,
} as const;
/** An average over visits, on its declared range from -1 to 1. */
const averageOfCity = record({
  /** Of the whole city. */
  middle: realWithin(-1, 1),
  /** The variance of the averages of places around it; 0: noise drowns it. */
  spread: realWithin(0, 4),
  /** The standard error of the middle, and that of a place's average. */
  noise: realWithin(0, 2),
  error: realWithin(0, 2),
});
export const plainEdition = tagged("prirec popularity", editionFields);
export const editionWithAverages = tagged("prirec popularity and averages", {
  ...editionFields, averages: list(averageOfCity, MOST_AVERAGES, 1),
});
/** What follows from the sum of visits: the catalogue with popularity, and averages over visits where the encoding has any. */
export type Edition = Of<typeof editionWithAverages>;
export const edition: Tagged<Edition> = {
  tag: plainEdition.tag,
  write(to, value) {
    const { averages, ...plain } = value;
    if (averages.length > 0) editionWithAverages.write(to, value);
    else plainEdition.write(to, plain);
  },
  read(from) {
    return from.next === LIST_OF_6 ? { ...plainEdition.read(from), averages: [] } : editionWithAverages.read(from);
  },
};

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
export const model = tagged("prirec learnt model", { scales: digest, iteration: natural, shared: array });
export type Model = Of<typeof model>;

/** How well a published model does on what devices held out, from one noisy sum over everyone. */
export const figures = tagged("prirec quality figures", {
  model: digest,
  /** In the sum. */
  reports: natural,
  /** int64: the sum as opened. */
  total: array,
  /** Each with its standard errors, from the noise and from who took part; without those that noise drowns. */
  figures: list(
    record({ name: oneOf(text(), "auc", "log_loss", "base_rate", "hit_rate"), value: real, noise: real, sampling: real }), 4,
  ),
});
export type Figures = Of<typeof figures>;

/** A starting model, for devices to recommend with until a campaign has published one. */
export const start = tagged("prirec start", { version: whole(2, 2), model: digest, settings: text() });
export type Start = Of<typeof start>;

/** The catalogue by region: each cell with the addresses of its documents. */
export const manifest = tagged("prirec regions", {
  resolution: whole(6),
  regions: list(record({ cell, places: digest, counts: maybeDigest }), MOST_REGIONS),
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

/** A document that an earlier version has written, and this one does not read. */
export class EarlierVersionError extends PeerError {
  constructor() {
    super(
      "DECODE",
      "a document is of an earlier version of PriRec; the operator publishes the catalogue anew and begins another campaign",
    );
  }
}

/** The document with this address and of this kind. PeerError if the bytes are anything else. */
export async function readDocument<T>(kind: Tagged<T>, body: Bytes, name: Bytes): Promise<T> {
  // also for what is on the own disk: it may have rotted there
  if (!same(await sha256(body), name)) throw new PeerError("DECODE", "a document is not the one that was asked for");
  if (EARLIER.has(tagOf(body) ?? "")) throw new EarlierVersionError();
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
  subject: oneOf(text(), "catalogue", "start", "charter", "edition", "scales", "model", "publication", "figures", "joined", "left", "window", "rotation"),
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
  time: seconds,
});
export const signedCoSignature: Kind<{ readonly statement: Of<typeof coSignature>; readonly signature: Bytes }> =
  record({ statement: coSignature, signature });
export type SignedCoSignature = Of<typeof signedCoSignature>;

/** Silent if it is the helper's, of this deployment. */
export async function verifyCoSignature(signed: SignedCoSignature, helper: Bytes, deployment: Bytes): Promise<void> {
  if (!same(signed.statement.deployment, deployment)) {
    throw new PeerError("EQUIVOCATION", "the helper has signed the log of another deployment");
  }
  await verify(helper, signed.signature, encode(coSignature, signed.statement));
}

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
