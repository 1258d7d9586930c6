/**
 * Algorithm 3 on the person's own device, offline: match, score, choose, with reasons. Nobody learns what was asked for.
 */

import { momentRow, personRow, type PlaceRow, placeRow, productColumns } from "./columns.ts";
import { type Block, encodeColumn, encodePerson, type Encoding, widthOf } from "./encoding.ts";
import { UsageError } from "./errors.ts";
import { chordSquare, EARTH_RADIUS_KM, haversineKm, isKnown, type Point, unitVector, unitVectors } from "./geography.ts";
import { History } from "./history.ts";
import { learnOwn } from "./own_model.ts";
import type { KnownPlaces } from "./places.ts";
import { POPULARITY } from "./popularity.ts";
import { encodeMoment, encodeRecords, homeOf, mostRecords, type OwnData, type RecordRules, visitedPlaces } from "./records.ts";
import { say, type Sentence } from "./sentences.ts";
import type { SharedModel } from "./shared_model.ts";

const SMALLEST = 0.005; // a pull that would print as 0.00 is no reason
const MOST_REASONS = 3;
const FAR_KM = 100; // a point farther than this from every downloaded place is outside the downloaded regions

/** The public half of a recommendation: a catalogue under a model. Made once, for any number of recommendations. */
export class Published {
  readonly encoding: Encoding;
  readonly rules: RecordRules;
  readonly known: KnownPlaces;
  readonly model: SharedModel;
  /** Of each place: X^j, static and popularity, and what the model sees of it. */
  readonly places: readonly { readonly features: Float32Array; readonly popular: readonly number[]; readonly row: PlaceRow }[];

  constructor(encoding: Encoding, rules: RecordRules, known: KnownPlaces, model: SharedModel) {
    this.encoding = encoding;
    this.rules = rules;
    this.known = known;
    this.model = model;
    this.places = known.features.map((features, at) => {
      const popular = encoding.popularity.flatMap((block, column) => encodeColumn(block, known.released[at]![column]!));
      return { features: Float32Array.from([...features, ...popular]), popular, row: placeRow(features, model.columns) };
    });
  }
}

/** The private half: one person, as they are now. */
export interface Person {
  readonly features: Float32Array;
  /** What the shared model comes to for this person, and what the own records say beyond it. */
  readonly coefficients: Float64Array;
  readonly home: Point;
  /** By the person; otherwise it is the middle of their visits. */
  readonly homeGiven: boolean;
  readonly visited: readonly number[];
  /** Of all these visits: what they make of a place is worked out once, wherever and whenever is asked. */
  readonly history: History;
}

/** Where the person is and when; by default at home, at no particular time. */
export interface Moment {
  readonly here?: Point;
  /** Seconds since 1970 on the local wall clock. */
  readonly time?: number;
}

/** A group of features, and by how much it pulls a place above (or below) the mean of the matched places. */
export interface Reason extends Sentence {
  readonly name: string;
  readonly pull: number;
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

/** Learns the person's own model from what the device holds now. */
export function personOf(own: OwnData, of: Published): Person {
  const { encoding, rules, known, model } = of;
  const home = homeOf(own, known);
  const records = encodeRecords(own, encoding, rules, known, mostRecords(model.columns.width));
  return {
    features: encodePerson(encoding, own.profile, home),
    coefficients: learnOwn(model.scaled(records), model),
    home,
    homeGiven: own.home !== null,
    ...been(visitedPlaces(own, known), of),
  };
}

/** Where the person was, and what that makes of other places. */
export function been(visited: readonly number[], { encoding, known }: Published): Pick<Person, "visited" | "history"> {
  return { visited, history: new History(encoding, known, visited.map((place) => ({ place, first: Infinity }))) };
}

export interface Wanted {
  readonly moment?: Moment;
  readonly k?: number;
  readonly radiusKm?: number;
  /** Places that are left out beside those visited, by position: what the person refused. */
  readonly without?: ReadonlySet<number>;
}

/** The k best places nearby that the person has not visited. */
export function recommend(
  person: Person, of: Published, { moment = {}, k = 10, radiusKm = 5, without = new Set() }: Wanted = {},
): Suggestion[] {
  if (!(k >= 1)) throw new UsageError("k must be at least 1");
  const samples = samplesAround(person, of, moment, k, radiusKm, without);
  const left = new Set([...person.visited, ...without]);
  const best = topOf(samples, k, left);
  const reasons = new Reasons(person, of, samples);
  return best.map((at) => suggestionOf(samples, at, of.known, reasons));
}

/** Whether one of these places is among the first k of the list at home. Of equal scores the others come first. */
export function finds(person: Person, of: Published, places: readonly number[], k: number): boolean {
  const { matched, scores } = samplesAround(person, of, {}, k, 5, new Set());
  const [wanted, visited] = [new Set(places), new Set(person.visited)];
  const scoresOf = (those: (place: number) => boolean): number[] => Array.from(scores).filter((_, at) => those(matched[at]!));
  const best = Math.max(...scoresOf((place) => wanted.has(place) && !visited.has(place)));
  const before = scoresOf((place) => !wanted.has(place) && !visited.has(place)).filter((score) => score >= best);
  return best > -Infinity && before.length < k;
}

/** Why this place and not others nearby; empty for one that is not among them. */
export function reasonsFor(
  place: string, person: Person, of: Published, { moment = {}, radiusKm = 5 }: Pick<Wanted, "moment" | "radiusKm"> = {},
): Reason[] {
  const samples = samplesAround(person, of, moment, 1, radiusKm, new Set());
  const at = samples.matched.findIndex((one) => of.known.ids[one] === place);
  return at < 0 ? [] : new Reasons(person, of, samples).of(at);
}

function suggestionOf(samples: Samples, at: number, known: KnownPlaces, reasons: Reasons): Suggestion {
  const place = samples.matched[at]!;
  const km = samples.km[at]!;
  const score = samples.scores[at]!;
  return {
    place: known.ids[place]!,
    about: known.words[place]!,
    distanceKm: Number.isNaN(km) ? null : km,
    probability: 1 / (1 + Math.exp(-score)),
    score,
    reasons: reasons.of(at),
  };
}

/** The k best by score, of equals the first place. */
function topOf({ matched, scores }: Samples, k: number, left: ReadonlySet<number>): number[] {
  const best: number[] = [];
  const before = (one: number, other: number): boolean =>
    scores[one]! > scores[other]! || (scores[one] === scores[other] && matched[one]! < matched[other]!);
  for (let at = 0; at < matched.length; at++) {
    if (left.has(matched[at]!) || (best.length >= k && !before(at, best.at(-1)!))) continue;
    let slot = best.length;
    while (slot > 0 && before(at, best[slot - 1]!)) slot--;
    best.splice(slot, 0, at);
    if (best.length > k) best.pop();
  }
  return best;
}

/** UsageError, without the point, if no downloaded place is anywhere near it: swapped coordinates, most often. */
function refuseRemote({ here }: Moment, known: KnownPlaces, radiusKm: number): void {
  const far = Math.max(FAR_KM, radiusKm);
  if (here !== undefined && !known.location.some((point) => haversineKm(here, point) <= far)) {
    throw new UsageError(say("nowhereNear", { km: far }));
  }
}

/** The places near, and how far; all of them in a city without coordinates, or for a person without a home. With fewer than
 * k new ones within the radius, the nearest beyond it too. */
function match(known: KnownPlaces, here: Point, left: ReadonlySet<number>, k: number, radiusKm: number): { places: number[]; km: Float64Array } {
  const km = new Float64Array(known.ids.length).fill(Number.NaN);
  if (!isKnown(here) || !known.location.some(isKnown)) return { places: known.ids.map((_, at) => at), km };
  const [from, there] = [unitVector(here), unitVectors(known.location)];
  // a chord is cheap, and tells of most places that they are not within the radius
  const longest = (2 * Math.sin(Math.min(radiusKm / EARTH_RADIUS_KM, Math.PI) / 2)) ** 2 * (1 + 1e-9) + 1e-12;
  const places: number[] = [];
  let fresh = 0;
  for (let at = 0; at < km.length; at++) {
    if (!(chordSquare(from, there[at]!) <= longest)) continue;
    km[at] = haversineKm(here, known.location[at]!);
    if (!(km[at]! <= radiusKm)) continue;
    places.push(at);
    if (!left.has(at)) fresh += 1;
  }
  if (fresh >= k) return { places, km };
  const ranked: number[] = [];
  for (let at = 0; at < km.length; at++) {
    km[at] = haversineKm(here, known.location[at]!);
    if (!Number.isNaN(km[at]!)) ranked.push(at);
  }
  return { places: ranked.sort((a, b) => km[a]! - km[b]! || a - b).slice(0, k + left.size), km };
}

/** The matched places as the person's model sees them at a moment. */
interface Samples {
  /** Positions among the known places. */
  readonly matched: readonly number[];
  /** Of each, from where the person is. */
  readonly km: Float64Array;
  readonly scores: Float64Array;
  /** The features of the moment: a row for each. */
  readonly moments: readonly (readonly number[])[];
  /** b of each is made when it is asked for: there may be thousands, and few are shown. */
  b(at: number): Float64Array;
  /** The mean of all b. */
  readonly mean: Float64Array;
}

function samplesAround(
  person: Person, of: Published, moment: Moment, k: number, radiusKm: number, without: ReadonlySet<number>,
): Samples {
  if (!(radiusKm >= 0 && radiusKm < Infinity)) {
    throw new UsageError(say("radius"));
  }
  refuseRemote(moment, of.known, radiusKm);
  const { encoding, known, model, places } = of;
  const here = moment.here ?? person.home;
  const found = match(known, here, new Set([...person.visited, ...without]), k, radiusKm);
  const matched = found.places;
  const moments = matched.map((at) =>
    encodeMoment(encoding, {
      km: moment.here === undefined && !Number.isNaN(found.km[at]!) ? found.km[at]! : haversineKm(person.home, known.location[at]!),
      time: moment.time ?? null,
      values: {}, // what visits are described by is not known of a visit that has not happened
      history: person.history.encode(at, null),
    }),
  );
  const scratch = new Float64Array(model.columns.width);
  const mean = new Float64Array(scratch.length);
  const fill = (at: number, into: Float64Array): Float64Array => {
    const { popular, row } = places[matched[at]!]!;
    return model.fill({ place: row, moment: momentRow(popular.concat(moments[at]!), model.columns, model.scaling) }, into);
  };
  const scores = Float64Array.from(matched, (_, at) => {
    const b = fill(at, scratch);
    for (let column = 0; column < b.length; column++) mean[column]! += b[column]!;
    return model.score(b, person.coefficients);
  });
  for (let column = 0; column < mean.length; column++) mean[column]! /= matched.length;
  return {
    matched, scores, moments, mean,
    km: Float64Array.from(matched, (at) => found.km[at]!),
    b: (at) => fill(at, new Float64Array(scratch.length)),
  };
}

// Reasons: why this place and not the others nearby. A score is a sum over features and pairs of features; each pair is
// split in halves between its two. What a word claims is looked up: `close` only where the place is nearer than the mean
// of the matched places, `than most` only where it is beyond their median.

const POPULAR: { readonly [column: string]: MoreOrLess } = {
  "visitors": [say("popular"), say("littleVisited")],
  "visits": [say("popular"), say("littleVisited")],
  [POPULARITY]: [say("popular"), say("littleVisited")],
  "recent visits": [say("popularLately"), say("littleVisitedLately")],
  "weighted popularity nearby": [say("popularArea"), say("quietArea")],
};

type MoreOrLess = readonly [more: Sentence, less: Sentence];

interface Group {
  readonly block: Block;
  readonly side: keyof Encoding;
  readonly name: string;
  /** Of its features among those of person, place and moment. */
  readonly first: number;
}

/** The mean of some features of each place, its mean over the places, and its median once it was asked for. */
interface Levels {
  readonly each: Float64Array;
  readonly mean: number;
  middle: number | undefined;
}

function median(values: Float64Array): number {
  const sorted = values.toSorted();
  return (sorted[(sorted.length - 1) >> 1]! + sorted[sorted.length >> 1]!) / 2;
}

class Reasons {
  private readonly person: Person;
  private readonly published: Published;
  private readonly groups: readonly Group[];
  private readonly samples: Samples;
  /** How far each group pulls a place, and the mean of all places. */
  private readonly byGroup: (b: Float64Array) => Float64Array;
  private readonly mean: Float64Array;
  /** How far each feature pulls a place; made where a word is to be named. */
  private byFeature: ((b: Float64Array) => Float64Array) | null = null;
  private readonly groupOf: readonly number[];
  private readonly levels = new Map<number, Levels>();

  constructor(person: Person, published: Published, samples: Samples) {
    this.person = person;
    this.published = published;
    this.samples = samples;
    this.groups = groupsOf(published.encoding);
    this.groupOf = this.groups.flatMap(({ block }, group) => new Array<number>(widthOf(block)).fill(group));
    this.byGroup = sharesOf(person, published.model, this.groupOf, this.groups.length);
    this.mean = this.byGroup(samples.mean); // shares add up as columns do
  }

  /** The strongest pulls on a place, upward ones first, each side by size. Groups that are told in the same words, or in
   * opposite ones, are one reason: what they come to together. */
  of(position: number): Reason[] {
    const alike = new Map<string, Reason[]>();
    const pulls = this.byGroup(this.samples.b(position));
    this.groups.forEach((group, at) => {
      const pull = pulls[at]! - this.mean[at]!;
      if (pull === 0) return;
      const [subject, said] = this.told(group, at, position, pull > 0);
      alike.set(subject, [...(alike.get(subject) ?? []), { name: group.name, pull, ...said }]);
    });
    return [...alike.values()]
      .map(together)
      .filter(({ pull }) => Math.abs(pull) >= SMALLEST)
      .toSorted((a, b) => Math.abs(b.pull) - Math.abs(a.pull))
      .slice(0, MOST_REASONS)
      .toSorted((a, b) => Number(a.pull < 0) - Number(b.pull < 0));
  }

  /** What is told of one group of features at one place, and before it what that is about, which is the same for opposite
   * sentences. */
  private told({ block, side, first }: Group, at: number, position: number, liked: boolean): [string, Sentence] {
    const column = spoken(block.column);
    const itself = `group ${at}`;
    const words = block.type === "hashed" || block.type === "words";
    if (side === "person" || block.type === "clock" || (side === "context" && words)) {
      const less = !liked;
      if (block.type === "area") return [itself, say("fitsArea", { less })];
      return [itself, side === "person" ? say("fitsYou", { column, less }) : say("fitsMoment", { column, less })];
    }
    if (block.type === "words") {
      const word = this.word(block.words, first, position, liked);
      if (word !== null) return word;
    }
    if (words) return [itself, say("itsColumn", { column })]; // of a bucket nobody knows which word it stands for
    const own = moreOrLess(block, this.person.homeGiven);
    const subject = own === null ? itself : `about ${own[0]}`;
    const levels = this.levelsOf(first, widthOf(block));
    const usual = own === null ? (levels.middle ??= median(levels.each)) : levels.mean;
    const away = levels.each[position]! - usual;
    if (Math.abs(away) < 1e-9) return [subject, say("itsColumn", { column })];
    const [more, less] = own?.[1] ?? [say("higher", { column }), say("lower", { column })];
    return [subject, away > 0 ? more : less];
  }

  private levelsOf(first: number, many: number): Levels {
    let found = this.levels.get(first);
    if (found === undefined) {
      const each = new Float64Array(this.samples.matched.length);
      let total = 0;
      for (let at = 0; at < each.length; at++) {
        let sum = 0;
        for (let feature = first; feature < first + many; feature++) sum += this.feature(at, feature);
        each[at] = sum / many;
        total += each[at]!;
      }
      found = { each, mean: total / each.length, middle: undefined };
      this.levels.set(first, found);
    }
    return found;
  }

  /** One of the features of place and moment, of a matched place. */
  private feature(position: number, at: number): number {
    const { features } = this.published.places[this.samples.matched[position]!]!;
    const here = at - this.person.features.length;
    return here < features.length ? features[here]! : this.samples.moments[position]![here - features.length]!;
  }

  /** That of the place's words which has most to do with it; null where the place has none. */
  private word(words: readonly string[], first: number, position: number, liked: boolean): [string, Sentence] | null {
    this.byFeature ??= sharesOf(this.person, this.published.model, this.groupOf.map((_, at) => at), this.groupOf.length);
    const pulls = this.byFeature(this.samples.b(position));
    let best = -1;
    let most = -Infinity;
    words.forEach((_, at) => {
      const pull = pulls[first + at]! * (liked ? 1 : -1);
      if (this.feature(position, first + at) !== 0 && pull > most) [best, most] = [at, pull];
    });
    if (best < 0) return null;
    const word = words[best]!;
    if (!liked) return [`word ${word}`, say("lessYourKind", { word })];
    const feature = first + best - this.person.features.length;
    const known = this.person.visited.some((place) => this.published.known.features[place]![feature]! > 0);
    return [`word ${word}`, say(known ? "likeOthers" : "word", { word })];
  }
}

const spoken = (column: string): string => column.replaceAll("_", " ");

/** What a number is about, and what is told of more and of less of it; null where it has no sentences of its own. */
function moreOrLess(block: Block, home: boolean): readonly [string, MoreOrLess] | null {
  switch (block.type) {
    case "distance": return ["home", [say("far", { home }), say("close", { home })]];
    case "nearest": return ["own visits", [say("farFromVisits"), say("closeToVisits")]];
    case "density": return ["own visits", [say("closeToVisits"), say("farFromVisits")]];
    case "affinity":
    case "closeness": {
      const column = spoken(block.of);
      return [`by ${column}`, [say("likeVisited", { column }), say("unlikeVisited", { column })]];
    }
    default:
      return Object.hasOwn(POPULAR, block.column) ? ["popular", POPULAR[block.column]!] : null;
  }
}

/** Reasons about one thing as one, in the words of the strongest on the side that prevails. */
function together(reasons: readonly Reason[]): Reason {
  const pull = reasons.reduce((sum, reason) => sum + reason.pull, 0);
  const sign = pull < 0 ? -1 : 1;
  return { ...reasons.reduce((best, one) => (one.pull * sign > best.pull * sign ? one : best)), pull };
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

/** Scores taken apart, but for what all places have in common: `into` says for each feature of person, place and moment
 * to which of so many shares it counts. Half of what a column of the place gets from a column of the person counts for
 * the person's, and half of a product for each of its two columns. */
function sharesOf(person: Person, model: SharedModel, into: readonly number[], many: number): (b: Float64Array) => Float64Array {
  const { columns } = model;
  const who = personRow(person.features, model.scaling);
  const own = person.coefficients.slice();
  const halves = new Map<number, Float64Array>();
  model.crossing.forEach((row, k) => {
    const half = halves.get(into[k]!) ?? new Float64Array(columns.crossed.length);
    row.forEach((value, j) => {
      half[j]! += 0.5 * who[k + 1]! * value;
      own[columns.crossed[j]!]! -= 0.5 * who[k + 1]! * value;
    });
    halves.set(into[k]!, half);
  });
  const share = (column: number): number => into[columns.person + column - 1]!;
  const pairs = productColumns(columns).map(([one, other]) => [share(one), share(other)] as const);
  return (b) => {
    const found = new Float64Array(many);
    halves.forEach((half, at) => {
      let sum = 0;
      for (let j = 0; j < half.length; j++) sum += b[columns.crossed[j]!]! * half[j]!;
      found[at]! += sum;
    });
    for (let column = 1; column < columns.core; column++) found[share(column)]! += b[column]! * own[column]!;
    for (let at = 0; at < pairs.length; at++) {
      const x = b[columns.core + at]!;
      if (x === 0) continue; // most products of a word with the clock
      const term = 0.5 * x * own[columns.core + at]!;
      found[pairs[at]![0]]! += term;
      found[pairs[at]![1]]! += term;
    }
    return found;
  };
}
