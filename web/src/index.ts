/** The device of PriRec in TypeScript: what there is of it, by module. */

export * from "./accountant.ts";
export { columnsOf, readScales, type Scaling, usualScaling } from "./columns.ts";
export * from "./contributions.ts";
export * from "./documents.ts";
export { type ColumnBlock, type Encoding, fits, readEncoding, type Value, type Values } from "./encoding.ts";
export * from "./errors.ts";
export { FixedPoint } from "./fixed_point.ts";
export type { Point } from "./geography.ts";
export * from "./keys.ts";
export * from "./ledger.ts";
export * from "./messages.ts";
export { Norm } from "./norm.ts";
export { Parameters } from "./pine.ts";
export type { KnownPlaces } from "./places.ts";
export * from "./popularity.ts";
export * from "./recommend.ts";
export { encodeRecords, mostRecords, type OwnData, type RecordRules, type Records, type Visit } from "./records.ts";
export { say, type Sentence, worded, type Wordings } from "./sentences.ts";
export { SharedModel } from "./shared_model.ts";
export * from "./two_operators.ts";
export { BrowserStore } from "./browser_store.ts";
export { UnavailableError } from "./client.ts";
export { Device, type DeviceOptions } from "./device.ts";
export type { Cells } from "./regions.ts";
export { MemoryStore, type Store } from "./storage.ts";
export type * from "./surface.ts";
