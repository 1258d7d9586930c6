/**
 * What a whole device offers: `DeviceApi`, which `Device` (device.ts) implements, and what it takes and gives.
 *
 *   const device = await Device.open(await BrowserStore.open("prirec"), { h3 }); // h3-js, where regions are wanted
 *
 * Everything here can be sent between a worker and its page as it is (structured clone), so a page may hold the device in
 * a worker behind a proxy of this very interface. Times are in seconds since 1970: `at` by the clock of this machine, that
 * of a visit on the local wall clock. Whatever is wrong is a PrirecError of errors.ts, whose text may be shown; a worker
 * passes on `name`, `message`, `said` and, of a PeerError, `fault`. What the
 * device says is a Sentence of sentences.ts: in English, and so that an app can say it in other words.
 */

import type { Value, Values } from "./encoding.ts";
import type { Point } from "./geography.ts";
import type { Budget } from "./ledger.ts";
import type { Reason, Suggestion } from "./recommend.ts";
import type { Visit } from "./records.ts";
import type { Sentence } from "./sentences.ts";

export interface DeviceApi {
  // Joining and leaving

  /** Pins the keys of both operators, makes an identity that is used nowhere else, enrols, and downloads what is
   * published. A refused code: PeerError AUTH, and nothing is joined. */
  join(invitation: Invitation): Promise<Membership>;
  /** The deployment deletes the device, and the device all that it has of the deployment. Personal data and what was spent
   * stay. */
  leave(): Promise<void>;

  // The person's own data, which stay here

  /** What describes the person, and which of it the deployment can use. */
  profile(): Promise<Profile>;
  /** Sets these columns and leaves the others; null deletes one. DataError for what the deployment has no place for. */
  setProfile(values: Readonly<Record<string, Value | null>>): Promise<void>;
  home(): Promise<Point | null>;
  setHome(home: Point | null): Promise<void>;
  /** In the order of their times, then of their arrival; refusals (label -1) too. */
  visits(): Promise<readonly Visit[]>;
  /** That a place was visited or chosen. False if it was recorded before. DataError for a place that is not here. */
  recordVisit(visit: NewVisit): Promise<boolean>;
  /** "Not for me": it is not recommended any more, and counts as passed over. False if it was said before. */
  refuse(visit: NewVisit): Promise<boolean>;
  /** Sets what describes a visit, and leaves the rest of it; null deletes one. DataError as for a new visit, UsageError if
   * there is none. */
  describeVisit(id: string, values: Readonly<Record<string, Value | null>>): Promise<void>;
  /** Deletes a visit or a refusal: nothing is recommended from it any more. UsageError if there is none. */
  removeVisit(id: string): Promise<void>;

  // Recommending, offline: nobody learns what was asked for

  /** The k best places around `near` (or home) that the person has neither visited nor refused, best first, with reasons.
   * StateError before there is a catalogue. */
  recommend(asked?: Asked): Promise<readonly Suggestion[]>;
  /** Why this place and not others nearby; empty where nothing speaks for or against it. */
  reasons(place: string, asked?: Asked): Promise<readonly Reason[]>;
  /** Places of the catalogue around a point (or home), nearest first: for a map. */
  places(around?: Around): Promise<readonly PlaceInfo[]>;
  /** What the person's own model holds about their likes, strongest first. */
  believes(): Promise<readonly Belief[]>;
  /** Corrects what the model holds of one word, from now on and against all records; null takes the correction back. */
  overrule(about: BeliefKey, opinion: Opinion | null): Promise<void>;

  // Areas beside the home

  /** Downloads the regions around a point too, for a journey; how many places that adds. What is asked for names an area of
   * about 36 km² and nothing finer, without the device's name, and stands in the statement. New editions of these regions are
   * downloaded as well, until `dropArea`. StateError before there is a catalogue. */
  download(near: Point): Promise<number>;
  /** What was downloaded so. */
  areas(): Promise<readonly Area[]>;
  /** Its places are used no more, and deleted with the next look at the log. */
  dropArea(id: string): Promise<void>;

  // Online

  /** Follows the signed log as far as both operators have signed it, and downloads what is in force. Sends no name. */
  sync(): Promise<Synced>;
  /** One call: follows the log and, if a window is open for which a report is due, makes, writes down and sends it, at a
   * moment drawn at random, in `spread` seconds (30). */
  takePart(how?: { readonly spread?: number }): Promise<TakenPart>;
  /** Takes part again and again until `stop` is called; what happens is told to `onNews`. */
  run(every?: { readonly seconds?: number }): Promise<void>;
  stop(): Promise<void>;
  /** Gets a sentence for each thing that happens; none holds a private value. Of a device in a worker: a proxied call. */
  onNews(tell: (news: Sentence) => void): void;

  // What left, and what is allowed

  /** Everything that has left this device, the budget, and both operators. */
  statement(): Promise<Statement>;
  /** From now on; what was spent stays spent. */
  setBudget(budget: Budget): Promise<void>;
  /** Take part only in sums over at least so many devices; 0: as many as the campaign says. */
  setFloor(devices: number): Promise<void>;
  /** Counts and public facts, for a page's first line. */
  status(): Promise<Status>;

  // All of it

  /** Everything that is stored on the person, ready for JSON, without secret keys. */
  export(): Promise<Exported>;
  /** Adds an export of this or another device of the same person: personal data, and all that was spent, which counts here
   * from then on; the person's budget where none was set here, and the larger of the two floors. Nothing is half imported: DataError for what is no export. */
  import(exported: unknown): Promise<Imported>;
  /** Erases all personal data and the membership. The ledger stays: nothing spent is refunded. Leaves first if it can. */
  forget(): Promise<"left" | "unreachable" | "no member">;
  close(): Promise<void>;
}

export interface Invitation {
  /** The recommender's HTTPS address. */
  readonly url: string;
  /** What the recommender's key must begin with: at least 16 hexadecimal digits, spaces and colons aside. */
  readonly fingerprint: string;
  /** The same of the helper's key. From the helper, not from the recommender. */
  readonly helperFingerprint: string;
  /** Where the operator hands out codes. */
  readonly code?: string;
  /** Stays here; the regions around it are downloaded, with cells of H3 at hand. Without it all regions are. */
  readonly home?: Point;
}

export interface Membership {
  readonly title: string;
  readonly url: string;
  /** Hexadecimal. */
  readonly deployment: string;
  readonly recommenderKey: string;
  readonly helperKey: string;
  /** Keys that were pinned before, which entries of the log have replaced, the oldest first. */
  readonly rotated: readonly RotatedKey[];
  /** Of this device. */
  readonly name: string;
  readonly enrolled: boolean;
  /** Whether all regions are downloaded; else those around the home, and areas that were asked for. */
  readonly allRegions: boolean;
}

export interface RotatedKey {
  readonly operator: "recommender" | "helper";
  /** Hexadecimal. */
  readonly old: string;
  readonly new: string;
  /** When the new key was made, in seconds since 1970. */
  readonly time: number;
}

export interface Area {
  /** The coarse cell, as H3 spells it. */
  readonly id: string;
  /** Null without cells of H3 at hand. */
  readonly centre: Point | null;
}

export interface Profile {
  readonly values: Values;
  /** Columns of a person that the deployment uses; null before there is a catalogue. */
  readonly features: readonly ProfileFeature[] | null;
  /** Stored, but not used by this deployment, and why. */
  readonly unused: Readonly<Record<string, Sentence>>;
}

export interface ProfileFeature {
  readonly column: string;
  readonly kind: "number" | "words" | "free words";
  /** The declared words; empty for numbers and free words. */
  readonly words: readonly string[];
  readonly low?: number;
  readonly high?: number;
}

export interface NewVisit {
  readonly place: string;
  /** Null: not known. By default now, on the local wall clock. */
  readonly time?: number | null;
  readonly context?: Values;
  /** By default made from place and time, so that a visit recorded twice is stored once. */
  readonly id?: string;
}

export interface Asked {
  /** By default at home. */
  readonly near?: Point;
  /** By default at no particular time. */
  readonly time?: number;
  readonly k?: number;
  readonly radiusKm?: number;
}

export interface Around {
  readonly near?: Point;
  /** Infinity: all of them, those of which nobody knows where they are last. */
  readonly radiusKm?: number;
  readonly most?: number;
}

export interface PlaceInfo {
  readonly id: string;
  /** Public words on the place, as somebody wrote them: show them as text. */
  readonly about: string;
  /** Null where unknown. */
  readonly location: Point | null;
  readonly distanceKm: number | null;
  readonly visits: number;
  readonly refused: boolean;
}

export interface BeliefKey {
  /** A column of places, such as `kind`. */
  readonly column: string;
  readonly word: string;
}

export interface Belief extends BeliefKey {
  /** By how much the word moves the log-odds of a place for this person, compared with a place without it. */
  readonly pull: number;
  /** The part that the own records say, beyond what the shared model says of people with this profile. */
  readonly own: number;
  /** Places with the word that the person visited, and refused. */
  readonly visits: number;
  readonly refusals: number;
  /** As the person has corrected it. */
  readonly overruled: Opinion | null;
}

/** Like it, dislike it, or let it not matter. */
export type Opinion = "like" | "dislike" | "ignore";

export interface Synced {
  readonly entries: number;
  /** What is new to recommend from or with: "catalogue", "start", "publication". */
  readonly news: readonly string[];
  /** When the helper last signed the log; null: not yet. */
  readonly cosigned: number | null;
}

export interface TakenPart extends Synced {
  readonly outcome: "sent" | "arrived before" | "nothing due" | "declined" | "unreachable";
  /** Why nothing was sent, where something was due. */
  readonly why: Sentence | null;
  /** What the report was for, such as "the shared model". */
  readonly what: string | null;
}

/** Something that left this device under its name, or that named a region. */
export interface Sent {
  readonly at: number;
  readonly what: "joined" | "report" | "regions" | "left";
  /** The address that it went to. */
  readonly to: string;
  readonly bytes: number;
  /** What it was for, and what it could tell. */
  readonly said: Sentence;
  /** Of a report. */
  readonly report: SentReport | null;
}

export interface SentReport {
  readonly kind: string;
  readonly number: number;
  /** "written": paid for, not known to have arrived; "arrived"; "over": the sum was over before it arrived. */
  readonly state: "written" | "arrived" | "over";
  /** Numbers in it, of how many people the operators may add up, and fewer than which they may not open. */
  readonly entries: number;
  readonly people: number;
  readonly floor: number;
  /** What it cost, had it been the only one. */
  readonly epsilon: number;
  /** Why nothing but zeros was in it, which nobody else can see; null: it was not so. */
  readonly zeros: Sentence | null;
}

export interface BudgetState {
  readonly budget: Budget;
  /** ε of everything that counts now, at the budget's δ. */
  readonly spent: number;
  /** From 0 to 1: how much of the budget is gone, as it adds up. */
  readonly share: number;
  readonly releases: number;
  /** ε of all that was ever spent. */
  readonly lifetime: number;
  /** How many reports like the last one are left; null: none was sent yet. */
  readonly more: number | null;
  readonly floor: number;
  /** What it holds under. */
  readonly restsOn: readonly Sentence[];
}

export interface Statement {
  /** The newest first. */
  readonly sent: readonly Sent[];
  readonly budget: BudgetState;
  readonly membership: Membership | null;
}

export interface Quality {
  readonly reports: number;
  /** Each with its standard errors, from the noise and from who took part; without those that noise drowns. */
  readonly figures: readonly {
    readonly name: "auc" | "log_loss" | "base_rate" | "hit_rate"; readonly value: number; readonly noise: number;
    readonly sampling: number;
  }[];
}

export interface Status {
  readonly visits: number;
  readonly refusals: number;
  readonly profile: readonly string[];
  /** Numbers that a visit may have, of which places get an average. */
  readonly amounts: readonly ProfileFeature[];
  readonly home: boolean;
  readonly membership: Membership | null;
  /** Places downloaded. */
  readonly places: number;
  readonly canRecommend: boolean;
  /** "", "own records alone", "start", "campaign 3". */
  readonly model: string;
  /** Log entries verified, and when the helper last signed. */
  readonly entries: number;
  readonly cosigned: number | null;
  readonly campaign: number | null;
  readonly round: number;
  readonly rounds: number;
  /** On the operators' list of those who may report. */
  readonly listed: boolean;
  /** When the open window closes; null: none is open. */
  readonly windowCloses: number | null;
  /** Whether this device has reported in it. */
  readonly reported: boolean;
  /** How good the model is that a campaign has published, from a noisy sum over everyone; null: no such sum was opened. */
  readonly quality: Quality | null;
  readonly zeros: number;
  /** Why the last of them were. */
  readonly zerosBecause: Sentence | null;
  readonly visitsElsewhere: number;
  /** Whether the browser has promised not to evict what is stored; null: there is nothing to promise (Node). */
  readonly persisted: boolean | null;
  /** Everything in one sentence. */
  readonly verdict: string;
}

export interface Exported {
  readonly version: 1;
  readonly profile: Values;
  readonly home: Point | null;
  readonly visits: readonly Visit[];
  readonly overruled: readonly (BeliefKey & { readonly opinion: Opinion })[];
  /** Not imported: what is downloaded, a person asks for. */
  readonly areas: readonly string[];
  readonly budget: Budget | null;
  readonly floor: number;
  readonly membership: Membership | null;
  readonly spent: readonly ExportedCharge[];
  readonly sent: readonly Sent[];
}

export interface ExportedCharge {
  readonly deployment: string;
  readonly kind: string;
  readonly number: number;
  readonly attempt: number;
  readonly what: string;
  /** Decimal digits: a number of 2^-56. */
  readonly grains: string;
  readonly day: number;
}

export interface Imported {
  readonly visits: number;
  readonly charges: number;
}
