/** Errors by who is to blame. No text here ever echoes a private value. */

import { say, type Sentence } from "./sentences.ts";

/** Anything that PriRec refuses on purpose. */
export class PrirecError extends Error {
  override readonly name: string = "PrirecError";
  /** What is wrong, for an app that says it in other words; the message is the same in English. */
  readonly said: Sentence;

  constructor(problem: Sentence | string, message = typeof problem === "string" ? problem : problem.words) {
    super(message);
    this.said = typeof problem === "string" ? say("other", { words: problem }) : problem;
  }
}

/** The caller asked for something that cannot be. */
export class UsageError extends PrirecError {
  override readonly name = "UsageError";
}

/** It could be done, but would break a promise made to people. */
export class PolicyError extends PrirecError {
  override readonly name = "PolicyError";
}

/** What is stored is damaged, or from another version of this program. */
export class StateError extends PrirecError {
  override readonly name = "StateError";
}

/** A value is not what its column calls for; the text names the column, never the value. */
export class DataError extends PrirecError {
  override readonly name = "DataError";

  constructor(problem: Sentence | string, column?: string) {
    const why = typeof problem === "string" ? say("other", { words: problem }) : problem;
    super(column === undefined ? why : say("inColumn", { column, why }));
  }
}

/** What the other side did; the words are those of the Python package. */
export type Fault = "AUTH" | "PARAMS_MISMATCH" | "DECODE" | "EQUIVOCATION" | "ORDER" | "PROOF" | "ABORTED";

/** The other side did not follow the protocol. Its message is refused, and nothing has changed by it. */
export class PeerError extends PrirecError {
  override readonly name = "PeerError";
  readonly fault: Fault;

  constructor(fault: Fault, problem: Sentence | string) {
    super(problem, `${fault}: ${typeof problem === "string" ? problem : problem.words}`);
    this.fault = fault;
  }
}
