/** The device of PriRec in TypeScript: what there is of it, by module. */

export * from "./documents.ts";
export * from "./errors.ts";
export * from "./keys.ts";
export * from "./messages.ts";
export * from "./two_operators.ts";
export { FixedPoint } from "./fixed_point.ts";
export { Norm } from "./norm.ts";
export { Parameters } from "./pine.ts";
