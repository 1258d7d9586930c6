/**
 * A device in the windows of a deployment: when it may report, what it writes down, and what it sends.
 *
 * It enters a window that its own log names, of the sum that it has worked out by itself, while a margin of the window is
 * left and the helper's signature on the log is fresh. Report, charge and journal are one change: after a crash all of it is
 * there, and the same bytes are sent again, or nothing has happened. No sum takes a second report.
 *
 * Neither whether nor when a device reports depends on its records (decisions/0023). What it adds is computed in a time that
 * the campaign alone fixes; where that does not do, or anything goes wrong, it reports zeros, at the full price.
 */

import { priceOf } from "./accountant.ts";
import { type Bytes, same } from "./bytes.ts";
import type { Client } from "./client.ts";
import { gradientContribution, momentsContribution, visitsContribution } from "./contributions.ts";
import { type Basis, Campaign, type JointSum } from "./campaign.ts";
import type { Model, SumKind, Window } from "./documents.ts";
import { PolicyError, PrirecError, StateError } from "./errors.ts";
import { type Held, hex, identityOf, type JournalEntry, roundKey } from "./held.ts";
import { howManyMore } from "./ledger.ts";
import type { View } from "./log.ts";
import type { Round } from "./messages.ts";
import { measured, qualityContribution } from "./quality.ts";
import { Published } from "./recommend.ts";
import { mostRecords, type OwnData, ownMeans, partedData, partedRecords, visitedPlaces } from "./records.ts";
import { say, type Sentence, SUMS } from "./sentences.ts";
import type { Change } from "./storage.ts";
import { makeReport } from "./two_operators.ts";

export const DAY = 86_400; // seconds
const LATEST_HEAD = DAY; // with an older signature of the helper's a device takes part in nothing
const LEAST_MARGIN = 600; // seconds before a window closes in which nobody begins; or a tenth of it, if that is less
const ANSWERING = 0.1; // of the time for a contribution: for making the report of it
const ENTRIES = 2 ** 17; // of a vector: longer ones get a multiple of the time

/** What a kind of sum is for, in words. */
export function purpose(kind: string, campaign: Campaign | null): string {
  const averages = kind === "popularity" && campaign !== null ? campaign.encoding.averages.map(({ column }) => column) : [];
  return (SUMS[kind] ?? kind) + (averages.length > 0 ? `, and averages of ${averages.join(", ")}` : "");
}

/** What a device goes by. */
export interface Pace {
  /** Seconds since 1970. */
  readonly clock: () => number;
  readonly draw: (size: number) => Bytes;
  readonly sleep: (seconds: number) => Promise<void>;
  /** Seconds in which a contribution is computed, more for long vectors; null: as long as it takes, where times tell of
   * nobody: in rehearsals. */
  readonly work: number | null;
}

/** The round whose window is open to this device now, and that it has not entered; nothing private counts. */
export function openTo(held: Held, view: View, clock: () => number): Round | null {
  const { window } = view;
  const round = roundOf(view);
  if (window === null || round === null) return null;
  const now = nowIn(view, clock);
  if (!(window.opens <= now && now < window.closes - margin(window))) return null;
  const listed = view.member.joined > 0 && view.member.joined <= window.entries;
  return listed && held.entry(round) === undefined ? round : null;
}

/** Until nobody begins to report in the window. */
export function secondsLeft(view: View, clock: () => number): number {
  return view.window === null ? 0 : view.window.closes - margin(view.window) - nowIn(view, clock);
}

/** Of the campaign's window, if the log is at it. */
export function roundOf(view: View): Round | null {
  const { window, latest, member } = view;
  const charter = latest.get("charter");
  if (window === null || charter === undefined || !same(window.charter, charter)) return null;
  const round = { deployment: member.deployment, kind: window.kind, number: window.number, group: 0, attempt: 0 };
  return isCurrent(round, view) ? round : null;
}

/** Whether the log is at exactly this round, and the charter has it. */
function isCurrent(round: Round, view: View): boolean {
  const { campaign } = view;
  if (campaign === null || view.over || !view.currentKeys || !same(round.deployment, view.member.deployment) || round.attempt !== 0) return false;
  const t = campaign.iteration(round.number);
  if (campaign.edition === null) return round.kind === "popularity" && t === 0;
  if (campaign.scales === null) return round.kind === "moments" && t === 0;
  if (view.learnt) return round.kind === "quality" && t === campaign.settings.iterations;
  return round.kind === "interaction" && view.model !== null && t === view.model.iteration && t < campaign.settings.iterations;
}

/** The model that a sum of this kind is taken under, as the log has it. */
export function modelOf(kind: SumKind, view: View): Model | null {
  if (kind === "interaction") return view.model;
  return kind === "quality" ? (view.published?.model ?? null) : null;
}

/** Makes the report for the open window, and writes it down with its charge. PolicyError or StateError, and nothing has
 * happened, where this device does not enter though it could. */
export async function enter(held: Held, view: View, pace: Pace): Promise<void> {
  const { campaign, window } = view;
  if (campaign === null || window === null) throw new StateError("there is no window to report in");
  const model = modelOf(window.kind, view);
  const B = model === null ? null : await campaign.shared(model);
  const sum = await campaign.joint(window, B);
  const grains = priceOf(sum.norm, sum.task.terms.noise);
  check(held, view, sum, grains, pace.clock);

  const begun = pace.clock();
  const slot = (pace.work ?? 0) * (1 + Math.floor(campaign.entries / ENTRIES));
  const steady = performance.now() + 1000 * (1 - ANSWERING) * slot;
  const goOn = (): void => {
    if (pace.work !== null && performance.now() > steady) throw new StateError(say("notInTime"));
  };
  const part = await contribution(held, view, sum, goOn);
  // proving begins at one moment, whenever the contribution was there
  if (pace.work !== null) await pace.sleep(Math.max(0, (steady - performance.now()) / 1000));
  const zeros = new Float64Array(sum.task.terms.length);
  const identity = await identityOf(view.member);
  let why = part.why;
  let body: Bytes;
  try {
    body = await makeReport(sum.task, identity, part.value, pace.draw);
  } catch (problem) { // whatever is wrong with it, nobody learns of it by a report that does not come
    why = reasonOf(problem);
    body = await makeReport(sum.task, identity, zeros, pace.draw);
  }
  const day = Math.floor(pace.clock() / DAY);
  const entry: JournalEntry = {
    round: sum.round, stage: "written", body, bytes: body.length, at: Math.floor(begun), to: view.member.url,
    entries: sum.task.terms.length, people: sum.task.people, floor: sum.task.terms.floor, grains, what: purpose(window.kind, campaign), zeros: why,
  };
  await held.change(async () => {
    if (held.member() === null || !same(held.member()!.name, view.member.name)) {
      throw new StateError(say("leftMeanwhile"));
    }
    refuseTwice(held, sum.round);
    const { deployment, kind, number, attempt } = sum.round;
    const charge = { deployment, kind, number, attempt, what: entry.what, grains };
    const given: Change[] = window.kind === "popularity"
      ? [{ table: "given", key: hex(campaign.name), value: why === null ? part.given : { places: [], whole: [] } }] : [];
    return [...(await held.paying(charge, day)), { table: "rounds", key: roundKey(sum.round), value: entry }, ...given];
  });
  if (pace.work !== null) {
    const elapsed = performance.now() / 1000 - (steady / 1000 - (1 - ANSWERING) * slot);
    await pace.sleep(slot - (elapsed % slot)); // how long it took may have depended on the person
  }
}

/** A round is entered once, and numbers only rise. */
function refuseTwice(held: Held, of: Round): void {
  const before = held.journal().filter(({ round }) => same(round.deployment, of.deployment) && round.kind === of.kind);
  if (before.some(({ round }) => round.number >= of.number)) {
    throw new StateError("this round, or a later one, was entered before; nobody takes part in a round twice");
  }
}

function check(held: Held, view: View, sum: JointSum, grains: bigint, clock: () => number): void {
  if (view.cosigned === null || view.cosigned.statement.time < clock() - LATEST_HEAD) {
    throw new StateError(say("helperSilent"));
  }
  if (held.floor() > sum.task.terms.floor) {
    throw new PolicyError(say("belowFloor", { wanted: held.floor(), floor: sum.task.terms.floor }));
  }
  if (howManyMore(held.ledger(), grains, held.budget(), Math.floor(clock() / DAY)) < 1) {
    throw new PolicyError(say("overBudget", { sum: sum.round.kind }));
  }
}

// What the report holds: the private half

interface Part {
  readonly value: ArrayLike<number>;
  readonly given: { places: number[]; whole: number[] };
  readonly why: Sentence | null;
}

/** What this device adds; zeros, and why, where that cannot be computed. Any kind of failure would say something about the
 * records, so nobody else learns of one. What is wrong in public documents was refused before. */
export async function contribution(held: Held, view: View, sum: JointSum, goOn: () => void): Promise<Part> {
  try {
    return await computed(held, view, sum, goOn);
  } catch (problem) {
    return { value: new Float64Array(sum.task.terms.length), given: { places: [], whole: [] }, why: reasonOf(problem) };
  }
}

async function computed(held: Held, view: View, sum: JointSum, goOn: () => void): Promise<Part> {
  const campaign = view.campaign!;
  const { heldOut } = campaign.settings;
  const known = await view.known(campaign);
  const own = ownData(held, view);
  const given = { places: [] as number[], whole: [] as number[] };
  if (sum.round.kind === "popularity") {
    const value = new Float64Array(sum.task.terms.length);
    const { learnt } = partedData(own, heldOut);
    const places = visitedPlaces(learnt, known);
    const means = campaign.encoding.averages.map((block) => ownMeans(learnt, block, known));
    const entries = means.flatMap((one, at) => one.map(({ place }) => known.rows[place]! + (1 + at) * campaign.charter.places));
    given.places = [...places.map((at) => known.rows[at]!), ...entries];
    given.whole = Array.from(visitsContribution(places.length, means.map((one) => one.map(({ mean }) => mean)), sum.norm));
    given.places.forEach((entry, at) => { value[entry] = given.whole[at]!; });
    return { value, given, why: null };
  }
  if (sum.round.kind === "quality") {
    const of = new Published(campaign.encoding, campaign.rules, known, await campaign.shared(view.published!.model));
    return { value: qualityContribution(measured(own, of, heldOut, goOn), sum.norm), given, why: null };
  }
  const most = mostRecords(campaign.columns.width);
  const { learnt: records } = partedRecords(own, campaign.encoding, campaign.rules, known, most, heldOut, goOn);
  if (sum.round.kind === "moments") {
    return { value: momentsContribution(records, campaign.columns, campaign.code("moments")), given, why: null };
  }
  const model = await campaign.shared(view.model!);
  const value = gradientContribution(model.scaled(records), model, campaign.code("interaction"), goOn);
  return { value, given, why: null };
}

/** What the device knows of its person, for what is computed under a basis of this view. */
export function ownData(held: Held, view: View, basis: Basis | null = view.basis): OwnData {
  const campaign = basis instanceof Campaign ? basis : null;
  const given = campaign === null ? { places: [], whole: [] } : held.given(campaign.name);
  const unit = campaign === null ? 1 : 2 ** -campaign.visitsNorm.fractionBits;
  return {
    profile: held.profile(),
    home: held.home(),
    visits: held.visits(),
    labelled: false, // refusals are some of the places that were passed over: the device draws others beside them
    negativesSecret: view.member.negativesSecret,
    added: new Map(given.places.map((row, at) => [row, given.whole[at]! * unit])),
  };
}

function reasonOf(problem: unknown): Sentence {
  return problem instanceof PrirecError ? problem.said : say("unforeseen"); // other texts could repeat a value
}

// Sending

/** A report that is written down and has not arrived, while its window is open. */
export function pending(held: Held, view: View, clock: () => number): JournalEntry | null {
  const round = roundOf(view);
  if (round === null || nowIn(view, clock) >= view.window!.closes) return null;
  const entry = held.entry(round);
  return entry?.stage === "written" ? entry : null;
}

/** Sends what is written down. The same bytes each time, so however often it is sent it is one report. */
export async function deliver(held: Held, entry: JournalEntry, client: Client): Promise<void> {
  await client.report(entry.body);
  await settle(held, entry, "arrived");
}

/** When the log has gone on: reports to sums that are over were delivered, or never will be. */
export async function forgetPast(held: Held, view: View): Promise<void> {
  for (const entry of held.journal()) {
    if (entry.stage === "written" && !isCurrent(entry.round, view)) await settle(held, entry, "over");
  }
}

async function settle(held: Held, { round }: JournalEntry, stage: "arrived" | "over"): Promise<void> {
  await held.change(() => {
    const entry = held.entry(round);
    if (entry === undefined || entry.stage !== "written") return [];
    return [{ table: "rounds", key: roundKey(round), value: { ...entry, stage, body: new Uint8Array(0) } }];
  });
}

function margin(window: Window): number {
  return Math.min(LEAST_MARGIN, (window.closes - window.opens) / 10);
}

/** Not before the helper's last signature, whatever this device's clock says. */
function nowIn(view: View, clock: () => number): number {
  return Math.max(clock(), view.cosigned?.statement.time ?? 0);
}
