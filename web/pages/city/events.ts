/** The events of a rehearsal, as src/prirec/rehearsal/events.py writes them: JSON, a line each, the first a `city`. */

export const VERSION = 1;

export type Point = readonly [latitude: number, longitude: number];
type Kind = "visits" | "moments" | "learning" | "quality";

interface Kinds {
  city: {
    version: number;
    made_up: boolean;
    personal: boolean;
    devices: number;
    rounds: number;
    operators: number;
    floor: number;
    epsilon: number;
    places: readonly (Point | null)[];
    names: readonly string[];
    people?: readonly (Point | null)[];
    records?: readonly number[];
    watched?: readonly number[];
  };
  doing: { text: string };
  devices: { came?: readonly number[]; gone?: readonly number[]; added?: readonly number[] };
  traffic: { sent: number; received: number; requests: number };
  "sum begun": { kind: Kind; round: number };
  window: { people: number; opened: number; closes: number };
  reports: { count: number };
  "sum ended": { kind: Kind; round: number; opened: boolean; survivors: number; rostered: number };
  popularity: { noise: number; opened: readonly number[]; released: readonly number[]; exact?: readonly number[] };
  model: {
    round: number;
    rows: readonly string[];
    columns: readonly string[];
    strength: readonly (readonly number[])[];
    measured: number;
    noise: number;
    kept: number;
  };
  accuracy: { round: number; auc: number; log_loss: number };
  holds: {
    device: number;
    features: Readonly<Record<string, string | number | readonly string[]>>;
    home: Point | null;
    visits: readonly (readonly [place: number, times: number])[];
  };
  sent: {
    device: number;
    name: string;
    kind: string;
    bytes: number;
    leader_box: number;
    leader_begins: string;
    helper_box: number;
    helper_begins: string;
  };
  spent: { device: number; epsilon: number };
  recommended: { device: number; places: readonly (readonly [place: number, probability: number, why: string])[] };
  end: { phase: string; auc?: number | null; simulated?: readonly number[] };
}

/** What an event of this kind holds. */
export type Told<Name extends keyof Kinds> = Kinds[Name] & { readonly at: number };
export type Event = { [Name in keyof Kinds]: Told<Name> & { readonly event: Name } }[keyof Kinds];
export type SumKind = Kind;

/** The events in these lines. An error that says what to do for those of another version, or of something else. */
export function readEvents(lines: string): Event[] {
  const events = lines.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line) as Event);
  const first = events[0];
  if (first?.event !== "city" || first.version !== VERSION) {
    throw new Error("This is no recording of a city by this version of PriRec: record it anew with prirec city up --record.");
  }
  return events;
}
