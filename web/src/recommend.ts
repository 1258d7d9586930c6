/**
 * Algorithm 3 on the person's own device, offline: match, score, choose, with reasons. Nobody learns what was asked for.
 */

import { momentRow, personRow, placeRow, productColumns, type Scaling } from "./columns.ts";
import { type Block, encodeColumn, encodePerson, type Encoding, widthOf } from "./encoding.ts";
import { UsageError } from "./errors.ts";
import { haversineKm, isKnown, type Point } from "./geography.ts";
import { History } from "./history.ts";
import { learnOwn } from "./own_model.ts";
import type { KnownPlaces } from "./places.ts";
import { encodeMoment, encodeRecords, homeOf, mostRecords, type OwnData, type RecordRules, visitedPlaces } from "./records.ts";
import { type Row, SharedModel } from "./shared_model.ts";

const SMALLEST = 0.005; // a pull that would print as 0.00 is no reason
const MOST_REASONS = 3;
const FAR_KM = 100; // a point farther than this from every downloaded place is outside the downloaded regions

/** The public half of a recommendation: a catalogue under a model. */
export interface Published {
  readonly encoding: Encoding;
  readonly rules: RecordRules;
  readonly known: KnownPlaces;
  readonly scaling: Scaling;
  readonly model: SharedModel;
}

/** Where the person is and when; by default at home, at no particular time. */
export interface Moment {
  readonly here?: Point;
  /** Seconds since 1970 on the local wall clock. */
  readonly time?: number;
}

/** A group of features, and by how much it pulls a place above (or below) the mean of the matched places. */
export interface Reason {
  readonly name: string;
  readonly pull: number;
  /** As the person is shown it: `close to home`. */
  readonly words: string;
}

export interface Suggestion {
  readonly place: string;
  /** Public words on the place. */
  readonly about: string;
  /** From where the person is, or from home. */
  readonly distanceKm: number | null;
  readonly probability: number;
  readonly score: number;
  readonly reasons: readonly Reason[];
}

/** The coefficients of a person: the shared model, and what the own records say beyond it. */
export function ownModel(own: OwnData, of: Published): Float64Array {
  const most = mostRecords(of.model.columns.width);
  return learnOwn(of.model.scaled(encodeRecords(own, of.encoding, of.rules, of.known, most)), of.model);
}

/** The k best places nearby that the person has not visited. */
export function recommend(
  own: OwnData, of: Published, { moment = {}, k = 10, radiusKm = 5 }: { moment?: Moment; k?: number; radiusKm?: number } = {},
): Suggestion[] {
  if (!(k >= 1)) throw new UsageError("k must be at least 1");
  if (!(radiusKm >= 0 && radiusKm < Infinity)) {
    throw new UsageError("the radius must be a finite number of kilometres, 0 or more");
  }
  refuseRemote(moment, of.known, radiusKm);
  const home = homeOf(own, of.known);
  const visited = visitedPlaces(own, of.known);
  const person = encodePerson(of.encoding, own.profile, home);
  const matched = match(of.known, moment.here ?? home, visited, k, radiusKm);
  const samples = samplesOf(of, matched, home, visited, moment);
  const coefficients = ownModel(own, of);
  const scores = of.model.scores(samples.map(({ row }) => row), coefficients);
  const reasons = new Reasons(of, person, samples, coefficients, visited, own.home !== null);
  const known = new Set(visited);
  return matched
    .map((place, at) => ({ place, at, score: scores[at]! }))
    .filter(({ place }) => !known.has(place))
    .toSorted((a, b) => b.score - a.score || a.place - b.place)
    .slice(0, k)
    .map(({ place, at, score }) => {
      const km = haversineKm(moment.here ?? home, of.known.location[place]!);
      return {
        place: of.known.ids[place]!,
        about: of.known.words[place]!,
        distanceKm: Number.isNaN(km) ? null : km,
        probability: 1 / (1 + Math.exp(-score)),
        score,
        reasons: reasons.of(at),
      };
    });
}

/** UsageError, without the point, if no downloaded place is anywhere near it: swapped coordinates, most often. */
function refuseRemote({ here }: Moment, known: KnownPlaces, radiusKm: number): void {
  const far = Math.max(FAR_KM, radiusKm);
  if (here !== undefined && !known.location.some((point) => haversineKm(here, point) <= far)) {
    throw new UsageError(
      `this device has no place within ${far} km of that point: latitude comes first, then longitude, and the region has to `
        + "be downloaded",
    );
  }
}

/** The places near, nearest first; all of them in a city without coordinates, or for a person without a home. With fewer
 * than k new ones within the radius, the nearest beyond it too. */
function match(known: KnownPlaces, here: Point, visited: readonly number[], k: number, radiusKm: number): number[] {
  const all = known.ids.map((_, at) => at);
  if (!isKnown(here) || !known.location.some(isKnown)) return all;
  const ranked = all
    .map((at) => ({ at, km: haversineKm(here, known.location[at]!) }))
    .filter(({ km }) => !Number.isNaN(km))
    .toSorted((a, b) => a.km - b.km || a.at - b.at);
  const within = ranked.filter(({ km }) => km <= radiusKm);
  const been = new Set(visited);
  const enough = within.filter(({ at }) => !been.has(at)).length >= k;
  return (enough ? within : ranked.slice(0, Math.max(within.length, k + visited.length))).map(({ at }) => at);
}

/** A matched place: its features with popularity, those of the moment, and the row that the model sees. */
interface Sample {
  readonly place: Float32Array;
  readonly moment: Float32Array;
  readonly row: Row;
}

function samplesOf(of: Published, matched: readonly number[], home: Point, visited: readonly number[], moment: Moment): Sample[] {
  const { encoding, known, model, scaling } = of;
  const history = new History(encoding, known, visited.map((place) => ({ place, first: Infinity })));
  return matched.map((at) => {
    const popular = encoding.popularity.flatMap((block, column) => encodeColumn(block, known.released[at]![column]!));
    const features = encodeMoment(encoding, {
      km: isKnown(home) ? haversineKm(home, known.location[at]!) : Number.NaN,
      time: moment.time ?? null,
      values: {}, // what visits are described by is not known of a visit that has not happened
      history: history.encode(at, null),
    });
    return {
      place: Float32Array.from([...known.features[at]!, ...popular]),
      moment: Float32Array.from(features),
      row: {
        place: placeRow(known.features[at]!, model.columns),
        moment: momentRow(Float32Array.from([...popular, ...features]), model.columns, scaling),
      },
    };
  });
}

// Reasons: why this place and not the others nearby. A score is a sum over features and pairs of features; each pair is
// split in halves between its two. What a word claims is looked up: `close` only where the place is nearer than the mean
// of the matched places, `than most` only where it is beyond their median.

const POPULAR: { readonly [column: string]: readonly [string, string] } = {
  "visitors": ["popular", "little visited"],
  "visits": ["popular", "little visited"],
  "weighted popularity": ["popular", "little visited"],
  "recent visits": ["popular lately", "little visited lately"],
  "weighted popularity nearby": ["in a popular area", "in a quiet area"],
};

interface Group {
  readonly block: Block;
  readonly side: keyof Encoding;
  readonly name: string;
  /** Of its features among those of person, place and moment. */
  readonly first: number;
}

class Reasons {
  private readonly groups: readonly Group[];
  private readonly samples: readonly Float64Array[];
  private readonly contributions: readonly Float64Array[];
  /** By matched place and group, less the mean over the places. */
  private readonly pulls: readonly Float64Array[];
  /** Features of places that a place has where the person has been. */
  private readonly familiar: (feature: number) => boolean;
  private readonly personWidth: number;
  private readonly home: string;

  constructor(
    of: Published, person: Float32Array, samples: readonly Sample[], coefficients: Float64Array, visited: readonly number[],
    homeGiven: boolean,
  ) {
    this.groups = groupsOf(of.encoding);
    this.samples = samples.map(({ place, moment }) => Float64Array.from([...person, ...place, ...moment]));
    this.contributions = contributions(of, person, samples, coefficients);
    const sums = this.contributions.map((row) =>
      Float64Array.from(this.groups, ({ first, block }) => row.subarray(first, first + widthOf(block)).reduce((sum, x) => sum + x, 0)),
    );
    const means = this.groups.map((_, group) => sums.reduce((sum, row) => sum + row[group]!, 0) / sums.length);
    this.pulls = sums.map((row) => row.map((sum, group) => sum - means[group]!));
    this.familiar = (feature) => visited.some((place) => of.known.features[place]![feature]! > 0);
    this.personWidth = person.length;
    this.home = homeGiven ? "home" : "the middle of your visits";
  }

  /** The strongest pulls on a place, upward ones first, each side by size. Groups that are told in the same words, or in
   * opposite ones, are one reason: what they come to together. */
  of(position: number): Reason[] {
    const alike = new Map<string, Reason[]>();
    this.groups.forEach((group, at) => {
      const pull = this.pulls[position]![at]!;
      if (pull === 0) return;
      const [subject, words] = this.worded(group, at, position, pull > 0);
      alike.set(subject, [...(alike.get(subject) ?? []), { name: group.name, pull, words }]);
    });
    return [...alike.values()]
      .map(together)
      .filter(({ pull }) => Math.abs(pull) >= SMALLEST)
      .toSorted((a, b) => Math.abs(b.pull) - Math.abs(a.pull))
      .slice(0, MOST_REASONS)
      .toSorted((a, b) => Number(a.pull < 0) - Number(b.pull < 0));
  }

  /** The words for one group of features at one place, and before them what they are about, which is the same for
   * opposite words. */
  private worded({ block, side, first }: Group, at: number, position: number, liked: boolean): [string, string] {
    const name = spoken(block.column);
    const itself = `group ${at}`;
    const words = block.type === "hashed" || block.type === "words";
    if (side === "person" || block.type === "clock" || (side === "context" && words)) {
      // an area is not called home: it may be that of the middle of the visits
      const what = block.type === "area" ? "your area" : `${side === "person" ? "your" : "the"} ${name}`;
      return [itself, liked ? `fits ${what}` : `fits ${what} less`];
    }
    if (block.type === "words") {
      const word = this.word(block.words, first, position, liked);
      if (word !== null) return word;
    }
    if (words) return [itself, `its ${name}`]; // of a bucket nobody knows which word it stands for
    const [about, more, less] = moreOrLess(block, this.home);
    const subject = about === "" ? itself : `about ${about}`;
    const levels = this.samples.map((row) => row.subarray(first, first + widthOf(block)).reduce((sum, x) => sum + x, 0) / widthOf(block));
    const away = levels[position]! - (more === "" ? median(levels) : levels.reduce((sum, x) => sum + x, 0) / levels.length);
    if (Math.abs(away) < 1e-9) return [subject, `its ${name}`];
    return [subject, away > 0 ? more || `higher ${name} than most` : less || `lower ${name} than most`];
  }

  /** That of the place's words which has most to do with it; null where the place has none. */
  private word(words: readonly string[], first: number, position: number, liked: boolean): [string, string] | null {
    let best = -1;
    let most = -Infinity;
    words.forEach((_, at) => {
      const pull = this.contributions[position]![first + at]! * (liked ? 1 : -1);
      if (this.samples[position]![first + at] !== 0 && pull > most) [best, most] = [at, pull];
    });
    if (best < 0) return null;
    const word = words[best]!;
    if (!liked) return [`word ${word}`, `less your kind: ${word}`];
    const known = this.familiar(first + best - this.personWidth);
    return [`word ${word}`, known ? `like other ${word} places you visited` : word];
  }
}

const spoken = (column: string): string => column.replaceAll("_", " ");

/** What a number is about, and the words for more and for less of it; empty where it has none of its own. */
function moreOrLess(block: Block, home: string): readonly [string, string, string] {
  switch (block.type) {
    case "distance": return ["home", `far from ${home}`, `close to ${home}`];
    case "nearest": return ["own visits", "far from your other places", "close to your other places"];
    case "density": return ["own visits", "close to your other places", "far from your other places"];
    case "affinity":
    case "closeness": {
      const of = spoken(block.of);
      return [`by ${of}`, `like places you have visited, by ${of}`, `unlike places you have visited, by ${of}`];
    }
    default:
      return Object.hasOwn(POPULAR, block.column) ? ["popular", ...POPULAR[block.column]!] : ["", "", ""];
  }
}

/** Reasons about one thing as one, in the words of the strongest on the side that prevails. */
function together(reasons: readonly Reason[]): Reason {
  const pull = reasons.reduce((sum, reason) => sum + reason.pull, 0);
  const sign = pull < 0 ? -1 : 1;
  return { ...reasons.reduce((best, one) => (one.pull * sign > best.pull * sign ? one : best)), pull };
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return (sorted[(sorted.length - 1) >> 1]! + sorted[sorted.length >> 1]!) / 2;
}

/** Blocks by which reasons are given, with names that no other has: a column name that two sides have gets its side. */
function groupsOf(encoding: Encoding): Group[] {
  const blocks = (["person", "place", "popularity", "context"] as const).flatMap((side) =>
    encoding[side].map((block: Block) => ({ block, side })),
  );
  let first = 0;
  return blocks.map(({ block, side }) => {
    const alone = blocks.filter((other) => other.block.column === block.column).length === 1;
    const group = { block, side, name: alone ? block.column : `${block.column} (${side})`, first };
    first += widthOf(block);
    return group;
  });
}

/** Scores by feature, but for what all places have in common. Half of what a column of the place gets from a column of
 * the person counts for the person's, and half of a product for each of its two columns. */
function contributions(
  { model, scaling }: Published, person: Float32Array, samples: readonly Sample[], coefficients: Float64Array,
): Float64Array[] {
  const { columns } = model;
  const m = columns.person;
  const who = personRow(person, scaling);
  const halves = model.crossing.map((row, k) => row.map((value) => 0.5 * who[k + 1]! * value));
  const others = coefficients.slice();
  for (const half of halves) columns.crossed.forEach((column, j) => { others[column]! -= half[j]!; });
  const pairs = productColumns(columns);
  return samples.map(({ row }) => {
    const b = model.fill(row);
    const whole = new Float64Array(m + columns.core - 1);
    halves.forEach((half, k) => {
      let sum = 0;
      for (let j = 0; j < half.length; j++) sum += b[columns.crossed[j]!]! * half[j]!;
      whole[k] = sum;
    });
    for (let column = 1; column < columns.core; column++) whole[m + column - 1] = b[column]! * others[column]!;
    pairs.forEach(([one, other], at) => {
      const term = 0.5 * b[columns.core + at]! * others[columns.core + at]!;
      if (term === 0) return;
      whole[m + one - 1]! += term;
      whole[m + other - 1]! += term;
    });
    return whole;
  });
}
