/**
 * Algorithm 3 on the person's own device, offline: match, score, choose, with reasons. Nobody learns what was asked for.
 */

import { momentRow, personRow, type PlaceRow, placeRow, productColumns } from "./columns.ts";
import { type Block, encodeColumn, encodePerson, type Encoding, widthOf } from "./encoding.ts";
import { UsageError } from "./errors.ts";
import { haversineKm, isKnown, type Point } from "./geography.ts";
import { History } from "./history.ts";
import { learnOwn } from "./own_model.ts";
import type { KnownPlaces } from "./places.ts";
import { POPULARITY } from "./popularity.ts";
import { encodeMoment, encodeRecords, homeOf, mostRecords, type OwnData, type RecordRules, visitedPlaces } from "./records.ts";
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
    visited: visitedPlaces(own, known),
  };
}

/** The k best places nearby that the person has not visited. */
export function recommend(
  person: Person, of: Published, { moment = {}, k = 10, radiusKm = 5 }: { moment?: Moment; k?: number; radiusKm?: number } = {},
): Suggestion[] {
  if (!(k >= 1)) throw new UsageError("k must be at least 1");
  if (!(radiusKm >= 0 && radiusKm < Infinity)) {
    throw new UsageError("the radius must be a finite number of kilometres, 0 or more");
  }
  refuseRemote(moment, of.known, radiusKm);
  const here = moment.here ?? person.home;
  const matched = match(of.known, here, person.visited, k, radiusKm);
  const samples = samplesOf(person, of, matched, moment);
  const scores = samples.map(({ b }) => of.model.score(b, person.coefficients));
  const reasons = new Reasons(person, of, samples);
  const known = new Set(person.visited);
  return matched
    .map((place, at) => ({ place, at, score: scores[at]! }))
    .filter(({ place }) => !known.has(place))
    .toSorted((a, b) => b.score - a.score || a.place - b.place)
    .slice(0, k)
    .map(({ place, at, score }) => {
      const km = haversineKm(here, of.known.location[place]!);
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
  return (enough ? within : ranked.slice(0, k + visited.length)).map(({ at }) => at);
}

/** A matched place: its features with popularity, those of the moment, and what the model sees. */
interface Sample {
  readonly place: Float32Array;
  readonly moment: readonly number[];
  /** b, whole. */
  readonly b: Float64Array;
}

function samplesOf(person: Person, { encoding, known, model, places }: Published, matched: readonly number[], { time }: Moment): Sample[] {
  const history = new History(encoding, known, person.visited.map((place) => ({ place, first: Infinity })));
  return matched.map((at) => {
    const { features, popular, row } = places[at]!;
    const moment = encodeMoment(encoding, {
      km: haversineKm(person.home, known.location[at]!),
      time: time ?? null,
      values: {}, // what visits are described by is not known of a visit that has not happened
      history: history.encode(at, null),
    });
    const scaled = momentRow(popular.concat(moment), model.columns, model.scaling);
    return { place: features, moment, b: model.fill({ place: row, moment: scaled }) };
  });
}

// Reasons: why this place and not the others nearby. A score is a sum over features and pairs of features; each pair is
// split in halves between its two. What a word claims is looked up: `close` only where the place is nearer than the mean
// of the matched places, `than most` only where it is beyond their median.

const POPULAR: { readonly [column: string]: readonly [string, string] } = {
  "visitors": ["popular", "little visited"],
  "visits": ["popular", "little visited"],
  [POPULARITY]: ["popular", "little visited"],
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
  private readonly samples: readonly Sample[];
  /** By matched place and group, less the mean over the places. */
  private readonly pulls: readonly Float64Array[];
  /** How far each feature pulls a place. */
  private readonly byFeature: (b: Float64Array) => Float64Array;
  private readonly levels = new Map<number, Levels>();

  constructor(person: Person, published: Published, samples: readonly Sample[]) {
    this.person = person;
    this.published = published;
    this.samples = samples;
    this.groups = groupsOf(published.encoding);
    const groupOf = this.groups.flatMap(({ block }, group) => new Array<number>(widthOf(block)).fill(group));
    const byGroup = sharesOf(person, published.model, groupOf, this.groups.length);
    this.byFeature = sharesOf(person, published.model, groupOf.map((_, at) => at), groupOf.length);
    const sums = samples.map(({ b }) => byGroup(b));
    const means = new Float64Array(this.groups.length);
    for (const sum of sums) sum.forEach((value, group) => { means[group]! += value / sums.length; });
    this.pulls = sums.map((sum) => sum.map((value, group) => value - means[group]!));
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
    const [about, more, less] = moreOrLess(block, this.person.homeGiven ? "home" : "the middle of your visits");
    const subject = about === "" ? itself : `about ${about}`;
    const levels = this.levelsOf(first, widthOf(block));
    const usual = more === "" ? (levels.middle ??= median(levels.each)) : levels.mean;
    const away = levels.each[position]! - usual;
    if (Math.abs(away) < 1e-9) return [subject, `its ${name}`];
    return [subject, away > 0 ? more || `higher ${name} than most` : less || `lower ${name} than most`];
  }

  private levelsOf(first: number, many: number): Levels {
    let found = this.levels.get(first);
    if (found === undefined) {
      const each = new Float64Array(this.samples.length);
      let total = 0;
      for (let at = 0; at < each.length; at++) {
        let sum = 0;
        for (let feature = first; feature < first + many; feature++) sum += this.feature(this.samples[at]!, feature);
        each[at] = sum / many;
        total += each[at]!;
      }
      found = { each, mean: total / each.length, middle: undefined };
      this.levels.set(first, found);
    }
    return found;
  }

  /** One of the features of place and moment. */
  private feature({ place, moment }: Sample, at: number): number {
    const here = at - this.person.features.length;
    return here < place.length ? place[here]! : moment[here - place.length]!;
  }

  /** That of the place's words which has most to do with it; null where the place has none. */
  private word(words: readonly string[], first: number, position: number, liked: boolean): [string, string] | null {
    const sample = this.samples[position]!;
    const pulls = this.byFeature(sample.b);
    let best = -1;
    let most = -Infinity;
    words.forEach((_, at) => {
      const pull = pulls[first + at]! * (liked ? 1 : -1);
      if (this.feature(sample, first + at) !== 0 && pull > most) [best, most] = [at, pull];
    });
    if (best < 0) return null;
    const word = words[best]!;
    if (!liked) return [`word ${word}`, `less your kind: ${word}`];
    const feature = first + best - this.person.features.length;
    const known = this.person.visited.some((place) => this.published.known.features[place]![feature]! > 0);
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
