/**
 * From events to what a page shows: the state of a city at a moment, and a player that moves through the moments.
 *
 * Knows no page, no clock and no network: time is handed in. Whatever is shown follows from the events up to a moment,
 * so that going back is going through them again.
 */

import type { Event, SumKind, Told } from "./events.ts";

export const ABSENT = 0;
export const HERE = 1;
/** Has sent its part of the sum that is under way. */
export const ADDED = 2;

export interface Sum {
  readonly kind: SumKind;
  readonly round: number;
  readonly began: number;
  readonly ended?: Told<"sum ended">;
}

/** A sum that is under way. */
export interface UnderWay extends Sum {
  readonly window?: Told<"window">;
  readonly reports: number;
}

/** What is known of one device that is looked at closely. */
export interface Watched {
  readonly holds: Told<"holds">;
  readonly sent: readonly Told<"sent">[];
  readonly epsilon: number;
  readonly recommended?: Told<"recommended">;
}

export interface City {
  readonly plan: Told<"city">;
  at: number;
  doing: string;
  /** ABSENT, HERE or ADDED, for each device. Changed in place. */
  readonly devices: Uint8Array;
  here: number;
  added: number;
  sum?: UnderWay | undefined;
  readonly sums: readonly Sum[];
  traffic?: Told<"traffic">;
  popularity?: Told<"popularity">;
  readonly models: readonly Told<"model">[];
  readonly accuracy: readonly Told<"accuracy">[];
  readonly watched: ReadonlyMap<number, Watched>;
  end?: Told<"end">;
}

export function emptyCity(plan: Told<"city">): City {
  return {
    plan, at: plan.at, doing: "", devices: new Uint8Array(plan.devices), here: 0, added: 0, sums: [], models: [], accuracy: [],
    watched: new Map(),
  };
}

/** The city after one event more. The devices' states are changed in place, everything else is made anew. */
export function after(city: City, event: Event): City {
  const at = event.at;
  switch (event.event) {
    case "city":
      return city;
    case "doing":
      return { ...city, at, doing: event.text };
    case "devices":
      return moved(city, event);
    case "traffic":
      return { ...city, at, traffic: event };
    case "sum begun":
      city.devices.forEach((state, row) => { if (state === ADDED) city.devices[row] = HERE; });
      return { ...city, at, added: 0, sum: { kind: event.kind, round: event.round, began: at, reports: 0 } };
    case "window":
      return { ...city, at, sum: city.sum && { ...city.sum, window: event } };
    case "reports":
      return { ...city, at, sum: city.sum && { ...city.sum, reports: event.count } };
    case "sum ended":
      return {
        ...city, at, sum: undefined,
        sums: [...city.sums, { kind: event.kind, round: event.round, began: city.sum?.began ?? at, ended: event }],
      };
    case "popularity":
      return { ...city, at, popularity: event };
    case "model":
      return { ...city, at, models: [...city.models, event] };
    case "accuracy":
      return { ...city, at, accuracy: [...city.accuracy, event] };
    case "holds":
      return { ...city, at, watched: new Map(city.watched).set(event.device, { holds: event, sent: [], epsilon: 0 }) };
    case "sent":
      return look(city, event, (one) => ({ ...one, sent: [...one.sent, event] }));
    case "spent":
      return look(city, event, (one) => ({ ...one, epsilon: event.epsilon }));
    case "recommended":
      return look(city, event, (one) => ({ ...one, recommended: event }));
    case "end":
      return { ...city, at, end: event };
  }
}

function moved(city: City, event: Told<"devices">): City {
  const { devices } = city;
  let { here, added } = city;
  for (const row of event.came ?? []) {
    here += 1;
    devices[row] = HERE;
  }
  for (const row of event.gone ?? []) {
    here -= 1;
    added -= devices[row] === ADDED ? 1 : 0;
    devices[row] = ABSENT;
  }
  for (const row of event.added ?? []) {
    added += devices[row] === ADDED ? 0 : 1;
    devices[row] = ADDED;
  }
  return { ...city, at: event.at, here, added };
}

function look(city: City, event: { readonly at: number; readonly device: number }, change: (one: Watched) => Watched): City {
  const one = city.watched.get(event.device);
  if (one === undefined) return city;
  return { ...city, at: event.at, watched: new Map(city.watched).set(event.device, change(one)) };
}

/** Events at which a step stops: those that somebody who explains a city would point at. */
const STOPS = new Set<Event["event"]>(["sum begun", "sum ended", "popularity", "model", "accuracy", "recommended", "end"]);

/** Moves through events in time. A live one gets more events while it plays. */
export class Player {
  readonly #events: Event[] = [];
  /** The number of events that have happened. */
  #done = 0;
  #city: City;
  /** Seconds since the start that are shown. */
  time = 0;
  speed = 1;
  playing = true;
  /** How far time has come in the city itself: seconds since the start. */
  latest = 0;

  constructor(events: readonly Event[]) {
    const first = events[0];
    if (first?.event !== "city") throw new Error("events begin with a city");
    this.#city = emptyCity(first);
    this.add(events);
  }

  get city(): City {
    return this.#city;
  }

  get events(): readonly Event[] {
    return this.#events;
  }

  /** Whether everything that has happened so far is shown. */
  get atEdge(): boolean {
    return this.time >= this.latest;
  }

  add(events: readonly Event[]): void {
    this.#events.push(...events);
    this.latest = Math.max(this.latest, events.at(-1)?.at ?? 0);
  }

  /** So many seconds pass for whoever looks on. The events that happen meanwhile. */
  pass(seconds: number): readonly Event[] {
    return this.playing ? this.seek(this.time + seconds * this.speed) : [];
  }

  /** Shows another moment, or the latest. The events that happen on the way there; from the first one on if it is an earlier moment. */
  seek(moment: number): readonly Event[] {
    const time = Math.min(moment, this.latest);
    if (time < this.time) this.#restart();
    const from = this.#done;
    while (this.#done < this.#events.length && this.#events[this.#done]!.at <= time) this.#happen();
    this.time = time;
    return this.#events.slice(from, this.#done);
  }

  /** Goes on to the next event that is worth a look, and stops there. */
  step(): readonly Event[] {
    this.playing = false;
    const from = this.#done;
    while (this.#done < this.#events.length) {
      const event = this.#happen();
      this.time = Math.max(this.time, event.at);
      if (STOPS.has(event.event)) break;
    }
    return this.#events.slice(from, this.#done);
  }

  #happen(): Event {
    const event = this.#events[this.#done]!;
    this.#city = after(this.#city, event);
    this.#done += 1;
    return event;
  }

  #restart(): void {
    this.#done = 0;
    this.#city = emptyCity(this.#city.plan);
  }
}
