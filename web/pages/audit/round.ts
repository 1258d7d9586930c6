/**
 * A recorded round of two operators, message by message: who sent what to whom, its fields, and whether it holds.
 *
 * The recording is of made-up people (docs/recorded_round.py). Its messages are the bytes that crossed between real
 * parties; they are read and verified here as the parties did it: signatures, hashes, commitments, and the sum.
 */

import { type Bytes, joined, littleEndian, same, sha256 } from "../../src/bytes.ts";
import { decode, decodeOneOf, encode, type Of } from "../../src/codec.ts";
import { add, MODULUS } from "../../src/field.ts";
import { verify } from "../../src/keys.ts";
import { digestOf, jointStatement, type JointStatement, type ReportMessage, reportStatement } from "../../src/messages.ts";
import { signedOf } from "../../src/two_operators.ts";
import type { Holds } from "../../ui/one_device.tsx";
import { type Check, check, hex, holdsIf } from "./audit.ts";
import {
  type Batch, type Closing, closed, committed, MESSAGES, type NoisedShare, openedSum, summed, verdicts,
} from "./operators_messages.ts";

export const VERSION = 1;
const BEGIN = 16; // bytes of a field that are shown

/** The file. */
export interface Recording {
  readonly version: number;
  readonly task: string;
  readonly places: readonly string[];
  /** Standard deviation of one operator's noise, in visits of one person. */
  readonly noise: number;
  /** The sum without noise, which only the recording knows. */
  readonly exact: readonly number[];
  /** A message; of a report of somebody who is not looked at closely only its length. */
  readonly messages: readonly { device?: number; bytes?: string; length?: number }[];
  readonly watched: readonly WatchedPerson[];
}

interface WatchedPerson {
  readonly device: number;
  readonly features: Holds["features"];
  readonly home: Holds["home"];
  readonly vector: readonly number[];
  /** Shares of the vector: 8 bytes for each place. */
  readonly leader: string;
  readonly helper: string;
}

export interface Field {
  /** As in who_learns_what.json. */
  readonly name: string;
  readonly size: number;
  readonly shown: string;
}

/** A message, or several of the same kind and length that come one after the other. */
export interface Step {
  readonly name: string;
  readonly from: string;
  readonly to: string;
  readonly many: number;
  /** Bytes of each. */
  readonly size: number;
  readonly fields: readonly Field[];
  readonly checks: readonly Check[];
  /** Whose report it is, if its whole bytes are here. */
  readonly device?: number;
}

/** What is known of one device. */
export interface Watched {
  readonly device: number;
  readonly holds: Holds;
  readonly vector: readonly number[];
  readonly report: ReportMessage;
  readonly bytes: number;
  readonly leader: readonly bigint[];
  readonly helper: readonly bigint[];
  /** The two shares, added up. */
  readonly together: readonly number[];
}

export interface Replay {
  readonly places: readonly string[];
  readonly people: number;
  readonly noise: number;
  /** What stands for 1 in a vector of whole numbers. */
  readonly unit: number;
  readonly steps: readonly Step[];
  readonly watched: readonly Watched[];
  /** By place, in visits of one person: what was opened, and what it would be without noise. */
  readonly opened: readonly number[];
  readonly exact: readonly number[];
}

/** Reads and verifies all of it. An error for a file of another version. */
export async function replay(file: Recording): Promise<Replay> {
  if (file.version !== VERSION) throw new Error("The recorded round is of another version of this page.");
  const task = decode(jointStatement, fromBase64(file.task));
  const reader = await Reader.of(task, file);
  const steps: Step[] = [];
  for (const { device, bytes, length } of file.messages) {
    if (bytes !== undefined) steps.push(await reader.read(fromBase64(bytes), device));
    else steps.push({ name: "report", from: "other devices", to: "recommender", many: 1, size: length!, fields: [], checks: [] });
  }
  const unit = 2 ** task.terms.fractionBits;
  return {
    places: file.places, people: task.people, noise: file.noise, unit, steps: inFewerSteps(steps),
    watched: file.watched.map((one) => reader.watched(one)),
    opened: reader.total().map((one) => one / unit), exact: file.exact.map((one) => one / unit),
  };
}

/** Reports come before all else, in any order: those of people who are looked at first, then the others as one step. */
function inFewerSteps(steps: readonly Step[]): Step[] {
  const [whole, others] = [true, false].map((known) => steps.filter(({ name, device }) => name === "report" && (device !== undefined) === known));
  return [...whole!, ...others!.slice(0, 1).map((one) => ({ ...one, many: others!.length })), ...steps.filter(({ name }) => name !== "report")];
}

class Reader {
  readonly #task: JointStatement;
  readonly #held: Bytes;
  readonly #places: readonly string[];
  readonly #reports = new Map<number, { report: ReportMessage; bytes: number }>();
  readonly #forwarded: Batch["reports"][number][] = [];
  readonly #closings = new Map<string, Closing>();
  readonly #shares: NoisedShare[] = [];
  #accepted: Bytes;

  private constructor(task: JointStatement, held: Bytes, places: readonly string[]) {
    this.#task = task;
    this.#held = held;
    this.#places = places;
    this.#accepted = held;
  }

  static async of(task: JointStatement, file: Recording): Promise<Reader> {
    return new Reader(task, await digestOf(jointStatement, task), file.places);
  }

  async read(bytes: Bytes, device: number | undefined): Promise<Step> {
    const { tag, value } = decodeOneOf(MESSAGES, bytes);
    const { version: _version, round: _round, sender, receiver, ...own } = value as Of<typeof openedSum>;
    const from = device === undefined ? this.#role(sender) : `device ${device}`;
    const checks = await this.#checks(tag, value, device, bytes.length);
    const step = { name: tag, from, to: this.#role(receiver), many: 1, size: bytes.length, fields: fieldsOf(own), checks };
    return device === undefined ? step : { ...step, device };
  }

  #role(name: Bytes): string {
    return same(name, this.#task.leader) ? "recommender" : same(name, this.#task.helper) ? "helper" : "a device";
  }

  async #checks(tag: string, value: unknown, device: number | undefined, size: number): Promise<Check[]> {
    switch (tag) {
      case "report": {
        const found = value as ReportMessage;
        if (device !== undefined) this.#reports.set(device, { report: found, bytes: size });
        return [
          check("is of this sum, these terms and these operators", same(found.held, this.#held), "it is of another"),
          await holdsIf("signed by the device", async () => verify(found.sender, found.signature, await signedOf(found))),
        ];
      }
      case "batch":
        return this.#batch(value as Batch);
      case "verdicts":
        return this.#verdicts(value as Of<typeof verdicts>);
      case "closing": {
        const found = value as Closing;
        this.#closings.set(hex(found.sender), found);
        return [
          check("of all reports that were accepted, in their order", same(found.accepted, this.#accepted), "the hash is of other reports"),
          check("no fewer than the floor", found.count >= this.#task.terms.floor, `${found.count} reports`),
          await holdsIf(`signed by the ${this.#role(found.sender)}`, () => verify(found.sender, found.signature, encode(closed, { ...found, held: this.#held }))),
        ];
      }
      case "noised share": {
        const found = value as NoisedShare;
        this.#shares.push(found);
        const { closing, digest } = await this.#closed(found.sender);
        const commitment = await digestOf(committed, { closed: digest, name: found.sender, salt: found.salt, share: found.share });
        return [check("the share that the sender has committed to", same(commitment, closing.commitment), "it is another one")];
      }
      case "opened sum": {
        const found = value as Of<typeof openedSum>;
        const { digest } = await this.#closed(found.sender);
        const total = bytesOf(this.total());
        return [await holdsIf(`both shares added up are the sum that the ${this.#role(found.sender)} has signed`, () => verify(found.sender, found.signature, encode(summed, { closed: digest, total })))];
      }
      default:
        return [];
    }
  }

  async #batch({ reports }: Batch): Promise<Check[]> {
    this.#forwarded.push(...reports);
    const signed = await Promise.all(reports.map(async (line) => holdsIf("signed", async () => verify(line.name, line.signature, encode(reportStatement, await this.#statement(line))))));
    const missing = signed.filter(({ outcome }) => outcome !== "good").length;
    const alike = await Promise.all(reports.map(async (line) => {
      const known = [...this.#reports.values()].find(({ report }) => same(report.sender, line.name))?.report;
      return known === undefined || (same(line.leaderBox, await sha256(known.leaderBox)) && same(line.helperBox, known.helperBox));
    }));
    return [
      check(`the signatures of ${reports.length} devices`, missing === 0, `${missing} do not hold`),
      check("the helper gets its own boxes, and of the recommender’s only hashes", alike.every(Boolean), "a box is another one"),
    ];
  }

  /** Accepted reports become part of the chain that both operators sign. */
  async #verdicts(found: Of<typeof verdicts>): Promise<Check[]> {
    const these = this.#forwarded.splice(0, found.verdicts.length);
    for (const [at, line] of these.entries()) {
      if (found.verdicts[at]!.reason === 0) this.#accepted = await sha256(joined(this.#accepted, await digestOf(reportStatement, await this.#statement(line))));
    }
    const refused = found.verdicts.filter(({ reason }) => reason !== 0).length;
    return [{ what: `${found.verdicts.length - refused} accepted, ${refused} refused`, outcome: "good" }];
  }

  async #statement(line: Batch["reports"][number]): Promise<Of<typeof reportStatement>> {
    return { held: this.#held, name: line.name, nonce: line.nonce, public: line.public, leaderBox: line.leaderBox, helperBox: await sha256(line.helperBox) };
  }

  async #closed(sender: Bytes): Promise<{ closing: Closing; digest: Bytes }> {
    const closing = this.#closings.get(hex(sender));
    if (closing === undefined) throw new Error("an operator reveals its share before it has closed");
    return { closing, digest: await digestOf(closed, { ...closing, held: this.#held }) };
  }

  /** The sum in whole numbers, once both shares are there. */
  total(): number[] {
    const [one, other] = this.#shares.map(({ share }) => elements(share));
    return one!.map((entry, at) => whole(add(entry, other![at]!)));
  }

  watched({ device, features, home, vector, leader, helper }: WatchedPerson): Watched {
    const [one, other] = [elements(fromBase64(leader)), elements(fromBase64(helper))];
    const visits = vector.flatMap((entry, place) => (entry === 0 ? [] : [this.#places[place]!]));
    return { device, holds: { features, home, visits }, vector, ...this.#reports.get(device)!, leader: one, helper: other, together: one.map((entry, at) => whole(add(entry, other[at]!))) };
  }
}

function fieldsOf(own: Readonly<Record<string, unknown>>): Field[] {
  return Object.entries(own).map(([name, value]) => ({ name: name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), ...about(value) }));
}

function about(value: unknown): { size: number; shown: string } {
  if (value instanceof Uint8Array) return { size: value.length, shown: `${hex(value.slice(0, BEGIN))}${value.length > BEGIN ? "…" : ""}` };
  if (Array.isArray(value)) return { size: value.reduce((sum: number, one: object) => sum + Object.values(one).reduce((size: number, part) => size + about(part).size, 0), 0), shown: `of ${value.length} devices` };
  const size = [2 ** 7, 2 ** 8, 2 ** 16].findIndex((limit) => (value as number) < limit);
  return { size: size < 0 ? 5 : size + 1, shown: String(value) }; // as the codec writes whole numbers
}

/** Numbers of the field, 8 bytes each, little endian. */
function elements(bytes: Bytes): bigint[] {
  return Array.from({ length: bytes.length / 8 }, (_, at) => littleEndian(bytes.slice(8 * at, 8 * at + 8)));
}

/** The whole number around 0 that an element stands for. */
function whole(element: bigint): number {
  return Number(element > MODULUS / 2n ? element - MODULUS : element);
}

function bytesOf(wholes: readonly number[]): Bytes {
  return new Uint8Array(BigInt64Array.from(wholes, BigInt).buffer);
}

function fromBase64(text: string): Bytes {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}
