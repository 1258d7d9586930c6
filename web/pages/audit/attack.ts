/**
 * An attack to try by hand: which of two places did a person visit? What an operator sees of it, the best guess, and scores.
 *
 * The questions are of made-up people (docs/attack_questions.py): what is seen was opened by a real training, or is left
 * of a sum of real vectors with real noise. An attacker knows everything else: all other people, and what it drew itself.
 */

export const VERSION = 1;
export const MODES = ["paper", "made up", "planned", "two operators"] as const;
export type Mode = (typeof MODES)[number];
type Side = 0 | 1;
type Pair = readonly [number, number];

/** The file. */
export interface Questions {
  readonly version: number;
  /** Names in the sum, and how many of them are made up where a plan allows for it. */
  readonly roster: number;
  readonly made_up: number;
  /** Names of the features of a sample, in the order of the gradient's rows. */
  readonly features: readonly string[];
  /** Places, with their features of 0 and 1. */
  readonly places: readonly { readonly name: string; readonly words: readonly string[]; readonly features: readonly number[] }[];
  /** Standard deviation of the noise that is left, in visits of one person. */
  readonly noise: Readonly<Record<Exclude<Mode, "paper">, number>>;
  /** How often the best guess is right, by the law of that noise. */
  readonly expected: Readonly<Record<Exclude<Mode, "paper">, number>>;
  readonly questions: readonly Question[];
}

export interface Question {
  /** Positions of the two places. */
  readonly two: Pair;
  readonly visited: Side;
  /** What the visit is in the person's vector. */
  readonly entry: number;
  /** Rows of the gradient that are not 0, with their length; and how alike the sample read off it is to each place. */
  readonly paper: { readonly rows: readonly (readonly [feature: number, length: number])[]; readonly alike: Pair };
  readonly "made up": Pair;
  readonly planned: Pair;
  readonly "two operators": Pair;
  /** The recommender's share of the vector at the two places. */
  readonly share: readonly [string, string];
}

/** What speaks for each of the two. */
export function evidence(question: Question, mode: Mode): Pair {
  return mode === "paper" ? question.paper.alike : question[mode];
}

/** The best guess: noise is as likely above 0 as below, and the less likely the larger it is. So the larger number wins. */
export function bestGuess(question: Question, mode: Mode): Side {
  const [first, second] = evidence(question, mode);
  return second > first ? 1 : 0;
}

/** The share of these questions that the best guess is right about. */
export function rateOf(questions: readonly Question[], mode: Mode): number {
  return questions.filter((one) => bestGuess(one, mode) === one.visited).length / questions.length;
}

export interface Score {
  readonly tries: number;
  readonly you: number;
  readonly attacker: number;
}

export const NO_TRY: Score = { tries: 0, you: 0, attacker: 0 };

export function tried(score: Score, question: Question, mode: Mode, guess: Side): Score {
  const right = (side: Side) => (side === question.visited ? 1 : 0);
  return { tries: score.tries + 1, you: score.you + right(guess), attacker: score.attacker + right(bestGuess(question, mode)) };
}

/** All positions up to `many`, in an order that nobody knows beforehand. */
export function shuffled(many: number): number[] {
  const order = Array.from({ length: many }, (_, at) => at);
  for (let at = many - 1; at > 0; at -= 1) {
    const other = crypto.getRandomValues(new Uint32Array(1))[0]! % (at + 1);
    [order[at], order[other]] = [order[other]!, order[at]!];
  }
  return order;
}

/** An error for a file of another version. */
export function checkedQuestions(file: Questions): Questions {
  if (file.version !== VERSION) throw new Error("The questions are of another version of this page.");
  return file;
}
