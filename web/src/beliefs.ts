/** What a person's own model holds about words of places, in words, and how the person corrects it. */

import { personRow, productColumns, spansOf } from "./columns.ts";
import { UsageError } from "./errors.ts";
import type { Person, Published } from "./recommend.ts";
import type { Visit } from "./records.ts";
import { say } from "./sentences.ts";
import type { Belief, BeliefKey, Opinion } from "./surface.ts";

/** What an opinion says of the log-odds of a place with the word. */
const SAYS: { readonly [opinion in Opinion]: number } = { like: 1.5, dislike: -1.5, ignore: 0 };

type Overruled = BeliefKey & { readonly opinion: Opinion };

/** Every word of places that is there, by how much it moves the log-odds of a place for this person: the strongest first. */
export function beliefsOf(
  person: Person, of: Published, visits: readonly Visit[], overruled: readonly Overruled[],
): Belief[] {
  const { model, known } = of;
  const shared = model.coefficients(personRow(person.features, model.scaling));
  const position = new Map(known.ids.map((id, at) => [id, at]));
  const places = (label: 1 | -1): number[] => {
    const there = visits.filter((visit) => visit.label === label).flatMap(({ place }) => position.get(place) ?? []);
    return [...new Set(there)];
  };
  const [visited, refused] = [places(1), places(-1)];
  const has = (feature: number) => (place: number): boolean => known.features[place]![feature]! > 0;
  return words(of)
    .filter(({ feature }) => known.features.some((row) => row[feature]! > 0))
    .map(({ column, word, feature }) => {
      const factor = model.scaling.wordFactor[feature + 1]!;
      return {
        column, word,
        pull: person.coefficients[feature + 1]! * factor,
        own: (person.coefficients[feature + 1]! - shared[feature + 1]!) * factor,
        visits: visited.filter(has(feature)).length,
        refusals: refused.filter(has(feature)).length,
        overruled: overruled.find((one) => one.column === column && one.word === word)?.opinion ?? null,
      };
    })
    .toSorted((a, b) => Math.abs(b.pull) - Math.abs(a.pull));
}

/** The person with what they have corrected: it holds at every hour, and against all records. */
export function corrected(person: Person, of: Published, overruled: readonly Overruled[]): Person {
  if (overruled.length === 0) return person;
  const { columns, scaling } = of.model;
  const coefficients = person.coefficients.slice();
  const known = words(of);
  const pairs = productColumns(columns);
  for (const { column, word, opinion } of overruled) {
    const feature = known.find((one) => one.column === column && one.word === word)?.feature;
    if (feature === undefined) continue; // of another catalogue
    coefficients[feature + 1] = SAYS[opinion] / scaling.wordFactor[feature + 1]!;
    pairs.forEach(([, other], at) => { if (other === feature + 1) coefficients[columns.core + at] = 0; });
  }
  return { ...person, coefficients };
}

/** UsageError for what is no word of the catalogue. */
export function checkBelief({ column, word }: BeliefKey, of: Published): void {
  if (!words(of).some((one) => one.column === column && one.word === word)) {
    throw new UsageError(say("noSuchWord"));
  }
}

/** The declared words of places, each with its place among their features. */
function words({ encoding }: Published): { column: string; word: string; feature: number }[] {
  return spansOf(encoding.place).flatMap(({ first, block }) =>
    block.type === "words" ? block.words.map((word, at) => ({ column: block.column, word, feature: first + at })) : [],
  );
}
