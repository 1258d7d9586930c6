/** Errors by who is to blame. No text here ever echoes a private value. */

/** Anything that PriRec refuses on purpose. */
export class PrirecError extends Error {
  override readonly name: string = "PrirecError";
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

  constructor(problem: string, column?: string) {
    super(column === undefined ? problem : `column '${column}': ${problem}`);
  }
}

/** What the other side did; the words are those of the Python package. */
export type Fault = "AUTH" | "PARAMS_MISMATCH" | "DECODE" | "EQUIVOCATION" | "ORDER" | "PROOF" | "ABORTED";

/** The other side did not follow the protocol. Its message is refused, and nothing has changed by it. */
export class PeerError extends PrirecError {
  override readonly name = "PeerError";
  readonly fault: Fault;

  constructor(fault: Fault, problem: string) {
    super(`${fault}: ${problem}`);
    this.fault = fault;
  }
}
