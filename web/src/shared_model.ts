/**
 * The shared model: score = base + a B b + w b. a describes the person, b the place at a moment (columns.ts). B is public
 * and everybody's; w stays on the device (own_model.ts).
 */

import {
  type Columns, LARGEST, momentRow, personRow, type PlaceRow, placeRow, rounded, type Scaling, spansOf,
} from "./columns.ts";
import { type Model, numbersIn } from "./documents.ts";
import { PeerError } from "./errors.ts";
import type { Encoding } from "./encoding.ts";
import type { Records } from "./records.ts";

const FINE = 2 ** 16; // base and coefficients are whole multiples of 1 / FINE
const FINE_B = 2 ** 20; // and B: below 16 such a number fits a float32, as which it is published
const LARGEST_B = 16 - 1 / FINE_B; // no entry of B is larger
const NEARER = 0.5; // how fast odds fall with the distance where nothing was learnt

/** One record, or a place that is considered. */
export interface Row {
  readonly place: PlaceRow;
  /** Popularity and the moment, scaled. */
  readonly moment: Float64Array;
}

/** Records of one person as the shared model sees them. */
export interface OwnRecords {
  /** a. */
  readonly who: Float64Array;
  readonly rows: readonly Row[];
  readonly label: readonly (1 | -1)[];
}

export class SharedModel {
  readonly columns: Columns;
  readonly scaling: Scaling;
  /** Log-odds of a record of which nothing is known. */
  readonly base: number;
  /** Row 0 of B, which has all columns, and the other rows, which have those columns that are crossed. */
  readonly everyone: Float64Array;
  readonly crossing: readonly Float64Array[];
  /** b of a place without words and numbers, at no moment. */
  private readonly nothing: Float64Array;

  constructor(columns: Columns, scaling: Scaling, entries: Float64Array) {
    this.columns = columns;
    this.scaling = scaling;
    this.base = rounded(Math.log(scaling.positive / (1 - scaling.positive)), FINE);
    this.everyone = entries.slice(0, columns.width);
    this.nothing = new Float64Array(columns.width);
    scaling.wordCentre.forEach((centre, column) => { this.nothing[column] = 0 - centre; });
    this.nothing[0] = 1;
    const many = columns.crossed.length;
    this.crossing = Array.from({ length: columns.person }, (_, row) =>
      entries.slice(columns.width + row * many, columns.width + (row + 1) * many),
    );
  }

  /** As published. PeerError if it is none under these columns. */
  static read(model: Model, columns: Columns, scaling: Scaling): SharedModel {
    const entries = numbersIn(model.shared, "float32", columns.entries);
    if (!entries.every((entry) => Math.abs(entry) <= LARGEST_B && (entry * FINE_B) % 1 === 0)) {
      throw new PeerError("PARAMS_MISMATCH", "a published model has entries that are no numbers, or beyond all use");
    }
    return new SharedModel(columns, scaling, entries);
  }

  /** Before anybody has learnt anything together: of two places, the nearer to home. */
  static unlearnt(encoding: Encoding, columns: Columns, scaling: Scaling): SharedModel {
    const entries = new Float64Array(columns.entries);
    for (const { first, block } of spansOf(encoding.context)) {
      if (block.type !== "distance") continue;
      // (ln(1 + km) - shift) / scale, and then scaled by its spread
      entries[columns.core - columns.moment + first] = rounded(-NEARER * block.scale * scaling.momentSd[first]!, FINE_B);
    }
    return new SharedModel(columns, scaling, entries);
  }

  /** What the shared model comes to for one person: B a, over the columns of b. */
  coefficients(who: Float64Array): Float64Array {
    const own = this.everyone.slice();
    const crossed = new Float64Array(this.columns.crossed.length);
    this.crossing.forEach((row, at) => {
      const much = who[at + 1]!;
      for (let j = 0; j < row.length; j++) crossed[j]! += much * row[j]!;
    });
    this.columns.crossed.forEach((column, at) => { own[column]! += crossed[at]!; });
    return own.map((value) => rounded(value, FINE));
  }

  /** b of one record, whole. */
  fill(row: Row, b: Float64Array = new Float64Array(this.columns.width)): Float64Array {
    const { columns, scaling } = this;
    b.set(this.nothing);
    for (const word of row.place.words) b[word]! += scaling.wordFactor[word]!;
    const { numbers, words } = row.place;
    for (let at = 0; at < numbers.length; at++) b[columns.dense[at]!] = numbers[at]!;
    for (let at = 0; at < row.moment.length; at++) b[columns.dense[numbers.length + at]!] = row.moment[at]!;
    let at = columns.core;
    for (let pair = 0; pair < columns.products.length; pair++) {
      const [one, other] = columns.products[pair]!;
      b[at++] = product(b[one]!, b[other]!, one === other);
    }
    for (const time of columns.clock) {
      for (const word of words) {
        const slot = columns.slot.get(word); // the word itself, not its distance from the mean: the clock is centred
        if (slot !== undefined) b[at + slot] = b[time]! * scaling.wordFactor[word]!;
      }
      at += columns.slot.size;
    }
    return b;
  }

  /** A score for a person with these coefficients, of a record whose b is whole. */
  score(b: Float64Array, own: Float64Array): number {
    let total = this.base;
    for (let column = 0; column < b.length; column++) total += own[column]! * b[column]!;
    return total;
  }

  /** The records of a person as this model sees them. */
  scaled(records: Records): OwnRecords {
    const places = records.places.map((features) => placeRow(features, this.columns));
    return {
      who: personRow(records.person, this.scaling),
      rows: records.place.map((place, at) => ({
        place: places[place]!, moment: momentRow(records.context[at]!, this.columns, this.scaling),
      })),
      label: records.label,
    };
  }
}

/** A column that is the product of two numbers, which are cut off; a square has mean 0 where its number is normal. */
function product(one: number, other: number, same: boolean): number {
  const first = Math.min(Math.max(one, -LARGEST), LARGEST);
  const second = Math.min(Math.max(other, -LARGEST), LARGEST);
  return same ? 0.5 * (first * second - 1) : first * second;
}
