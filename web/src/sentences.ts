/**
 * All that the device says to a person, in English and in this one place: why a place is recommended, what left the device,
 * what happens, and why something was refused. A sentence says which it is and what it is about, so an app can say it in
 * other words (`Wordings`), as My phone does in app/texts.ts.
 */

export interface Sentence {
  /** A name of `Wordings`; a newer device may know more of them. */
  readonly kind: string;
  /** What that wording takes. */
  readonly about: readonly unknown[];
  /** The same in English. */
  readonly words: string;
}

/** What a report was for, by the kind of the sum. */
export const SUMS: { readonly [kind: string]: string } = {
  popularity: "how popular places are",
  moments: "means and spreads of private columns",
  interaction: "the shared model",
  quality: "how good recommendations are",
};

const less = (words: string, isLess: boolean): string => (isLess ? `${words} less` : words);
export const NO_CATALOGUE = "this device has no catalogue; it fetches what is published when it takes part, if its recommender runs";
const DAMAGED = "what this device has stored is damaged; enrol it anew. Do not put an older copy in its place: with that, it could take "
  + "part in a round twice";

const ENGLISH = {
  /** What only programs and operators meet is said in English alone. */
  other: ({ words }: { words: string }) => words,

  // Why this place, and not others nearby
  fitsYou: (a: { column: string; less: boolean }) => less(`fits your ${a.column}`, a.less),
  fitsArea: (a: { less: boolean }) => less("fits your area", a.less), // not called home: it may be that of the middle of the visits
  fitsMoment: (a: { column: string; less: boolean }) => less(`fits the ${a.column}`, a.less),
  itsColumn: ({ column }: { column: string }) => `its ${column}`,
  word: ({ word }: { word: string }) => word,
  likeOthers: ({ word }: { word: string }) => `like other ${word} places you visited`,
  lessYourKind: ({ word }: { word: string }) => `less your kind: ${word}`,
  higher: ({ column }: { column: string }) => `higher ${column} than most`,
  lower: ({ column }: { column: string }) => `lower ${column} than most`,
  close: ({ home }: { home: boolean }) => `close to ${home ? "home" : "the middle of your visits"}`,
  far: ({ home }: { home: boolean }) => `far from ${home ? "home" : "the middle of your visits"}`,
  closeToVisits: () => "close to your other places",
  farFromVisits: () => "far from your other places",
  likeVisited: ({ column }: { column: string }) => `like places you have visited, by ${column}`,
  unlikeVisited: ({ column }: { column: string }) => `unlike places you have visited, by ${column}`,
  popular: () => "popular",
  littleVisited: () => "little visited",
  popularLately: () => "popular lately",
  littleVisitedLately: () => "little visited lately",
  popularArea: () => "in a popular area",
  quietArea: () => "in a quiet area",

  // What left
  sentName: ({ title }: { title: string }) => `its key, which is its name there, to ${title || "the deployment"}`,
  sentLeave: () => "that it leaves; the recommender deletes this device",
  sentAllRegions: () => "that it downloads all regions, without its name",
  sentHomeRegions: () => "which regions are around its coarse cell, without its name",
  sentAreaRegions: () => "which regions are around a place that the person asked for, without its name",
  sentReport: (a: { sum: string; entries: number; floor: number; people: number }) =>
    `a part of a sum for ${SUMS[a.sum] ?? a.sum}: ${a.entries} numbers, split between two operators so that each part alone is noise; `
    + `what is opened is the sum over ${a.floor} to ${a.people} people, with noise of both operators`,
  notInTime: () => "this device's part in a sum could not be computed in time; it adds zeros",
  unforeseen: () => "an unforeseen fault",

  // What the budget rests on
  budgetHolds: ({ days }: { days: number | null }) =>
    `it holds ${days === null ? "for life" : `in any ${days} days in a row`}, for everything that this device ever sends about the person`,
  oneIsHonest: () => "one of the two operators is honest: it adds its noise, and does not tell the other what it has",
  sameProgram: () => "this program is the one that was published, and nobody has put back an older copy of what it stores",

  // What happens
  enrolled: () => "enrolled",
  readLog: ({ entries }: { entries: number }) => `read the log up to entry ${entries}`,
  listed: () => "is now on the operators' list of those who may report",
  unlisted: () => "is no longer on the operators' list of those who may report",
  wroteReport: ({ sum }: { sum: string }) => `wrote its report for a sum, split between two operators, and paid for it: ${SUMS[sum] ?? sum}`,
  reportArrived: ({ sum }: { sum: string }) => `the recommender has the report: ${SUMS[sum] ?? sum}`,
  stayedOut: ({ why, fault }: { why: Sentence; fault: string | null }) => `stayed out of a sum: ${fault === null ? "" : `${fault}: `}${why.words}`,
  tryingAgain: ({ why }: { why: Sentence }) => `trying again from time to time: ${why.words}`,

  // Why nothing was sent
  unreachable: () => "the recommender cannot be reached",
  busy: () => "the recommender has too much to do",
  overBudget: ({ sum }: { sum: string }) => `this person's privacy budget does not cover another report for ${SUMS[sum] ?? sum}`,
  belowFloor: (a: { wanted: number; floor: number }) =>
    `this person takes part only in sums over at least ${a.wanted} devices, and this one may be opened over ${a.floor}`,
  helperSilent: () => "the helper has not signed the recommender's log for a day, or this device's clock is wrong; nothing is sent until it has",
  leftMeanwhile: () => "this device has left the deployment in the meantime",
  takesPart: () => "this device takes part already",

  // Why a recommender is not joined or followed
  anotherRecommender: () => "the recommender at that address has another key than the fingerprint says",
  anotherHelper: () => "the recommender at that address names another helper than expected",
  notEnrolled: () => "the recommender does not enrol this device; if its operator hands out an enrolment code, give it",
  oneOperator: () => "the deployment at that address has one operator; this device reports to two alone",
  olderRecommender: () => "the recommender and this device do not speak the same version; update the recommender, or have its operator do so",
  olderDevice: () => "the recommender and this device do not speak the same version; update the device's program",
  anotherLog: () =>
    "the recommender's log lacks what this device has read in it: it was set back, or forked. Nothing is sent; tell its operator",
  notCosigned: () => "the log comes without the signature of the helper that this device has pinned",
  otherOperators: () =>
    "a campaign names other operators than this device has pinned; nothing is sent for it. To trust other operators, leave and join again",
  logGrown: () => "the recommender's log has grown by more than a device reads; it is not followed",
  tooMuch: ({ megabytes }: { megabytes: number }) =>
    `the recommender's documents take up more than the ${megabytes} MB that a device stores; they are not downloaded`,
  missing: () => "a document that this device should have is not there; it is fetched when online",

  // What a person has to give, or to know
  member: () => "this device belongs to a deployment already; let it leave that one first",
  noMember: () => "this device belongs to no deployment yet; let it join one",
  address: () => "the address of a recommender begins with https:// and holds no name, password or query",
  fingerprint: (a: { least: number; most: number }) => `a fingerprint has ${a.least} to ${a.most} hexadecimal digits`,
  code: ({ most }: { most: number }) => `an enrolment code has at most ${most} characters`,
  nothingToShow: () => `there is nothing to show: ${NO_CATALOGUE}`,
  nothingToRecommend: () => `there is nothing to recommend from: ${NO_CATALOGUE}`,
  nothingToDownload: () => `there is nothing to download: ${NO_CATALOGUE}`,
  nowhereNear: ({ km }: { km: number }) =>
    `this device has no place within ${km} km of that point: latitude comes first, then longitude, and the region has to be downloaded`,
  radius: () => "the radius must be a finite number of kilometres, 0 or more",
  noSuchWord: () => "that is no word by which places are described here",
  noSuchPlace: () => "the visit is at a place that this device does not have",
  noSuchVisit: () => "there is no visit with that id; an export of the device lists all of them",
  anotherVisit: () => "that id, or that place and time, stands for another visit; remove it first, or give an id",
  inColumn: ({ column, why }: { column: string; why: Sentence }) => `column '${column}': ${why.words}`,
  latitude: () => "give degrees from -90 to 90, latitude first, then longitude",
  longitude: () => "give degrees from -180 to 180, latitude first, then longitude",
  time: () => "a time is whole seconds since 1970, within the years 1 to 9999",
  notFinite: () => "a number must be finite; leave out what is not known",
  badValue: ({ longest }: { longest: number }) => `give a number, a word of 1 to ${longest} characters, or a list of words`,
  tooMany: ({ most }: { most: number }) => `there are at most ${most} values, each with its name`,
  unused: ({ others }: { others: readonly string[] }) =>
    `is none of the features that this deployment uses${others.length === 0 ? "" : `; it uses ${others.join(", ")}`}`,
  wantsRange: (a: { low: number; high: number }) => `a number from ${a.low} to ${a.high} belongs here`,
  wantsNumber: () => "a number belongs here",
  wantsWords: () => "a word, or a list of words, belongs here",
  undeclared: (a: { words: readonly string[]; more: boolean }) =>
    `a word is not among those that the deployment declares: ${a.words.join(", ")}${a.more ? " and others" : ""}`,
  epsilon: () => "epsilon must be a number above 0, and finite",
  delta: () => "delta must be above 0 and below 1",
  period: () => "a budget's period has at least one day",
  floor: () => "a floor is a number of devices from 0 up",
  exportVersion: () => "is not an export that this program reads",
  noExport: () => "that is not an export of a device",

  // What is stored
  anotherWriter: () => "this device is open elsewhere, in another tab or program; close it there first",
  damaged: () => DAMAGED,
  damagedLedger: () => `the privacy ledger: ${DAMAGED}`,
  newerFormat: (a: { found: number; known: number }) => `what this device has stored has version ${a.found}, this program knows ${a.known}; get a newer program`,
  newerProgram: () => "what this device has stored is of a newer program; get it",
  noRoom: () => "there is no room left on this machine for what the device has to store; nothing was changed",
  closed: () => "this device is closed",
  closedByBrowser: () => "the browser has closed what this device stores; open it anew",
  perhapsStored: () => "a change may or may not have been stored; open this device anew",
} as const;

/** Each kind of sentence in some words. */
export type Wordings = { readonly [Kind in keyof typeof ENGLISH]: (...about: Parameters<(typeof ENGLISH)[Kind]>) => string };

export function say<Kind extends keyof Wordings>(kind: Kind, ...about: Parameters<Wordings[Kind]>): Sentence {
  return { kind, about, words: (ENGLISH[kind] as (...given: readonly unknown[]) => string)(...about) };
}

/** The sentence in these words; in its own where they do not have it. */
export function worded(wordings: Wordings, { kind, about, words }: Sentence): string {
  const known = Object.hasOwn(wordings, kind) ? (wordings as { readonly [kind: string]: (...given: readonly unknown[]) => string })[kind]! : null;
  return known === null ? words : known(...about);
}
