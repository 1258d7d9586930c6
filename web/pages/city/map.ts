/**
 * The map of a city on a canvas: places, devices where their people live, and what they send on its way to the operators.
 *
 * Places are drawn when they change, on a canvas of their own that is copied in each frame; many of them over several
 * frames, so that no frame takes long. Nothing is fetched: there is no map below.
 */

import { coloursOf } from "../../ui/colours.ts";
import { ABSENT, ADDED, type City, type Watched } from "./city.ts";
import type { Event, Point, Told } from "./events.ts";

const FLIGHT = 1100; // milliseconds from a device to the recommender
const RELAY = 500; // and on to the helper
const MOST_FLIGHTS = 600;
const EDGE = 18; // pixels left free around the city,
const HEAD = 64; // and above it, for the operators
const MANY = 400; // devices, above which they are drawn smaller
const MANY_PLACES = 4000;
const PLACES_A_FRAME = 1000;

interface Spot {
  readonly x: number;
  readonly y: number;
}

interface Flight {
  readonly row: number;
  readonly start: number;
}

const COLOURS = ["ink", "quiet", "line", "paper", "card", "accent", "accent-soft", "warn"] as const;
type Colours = Record<(typeof COLOURS)[number], string>;

export class CityMap {
  readonly #canvas: HTMLCanvasElement;
  readonly #context: CanvasRenderingContext2D;
  /** Places as they were drawn last, and a canvas on which they are drawn anew. */
  #places: HTMLCanvasElement;
  #coming: HTMLCanvasElement;
  readonly #plan: Told<"city">;
  #flights: Flight[] = [];
  #homes: readonly Spot[] = [];
  #spots: readonly (Spot | undefined)[] = [];
  #colours!: Colours;
  /** How many places are on #coming, and how popular they are there. */
  #drawn = 0;
  #popularity: Told<"popularity"> | undefined;
  #most = 0;
  #width = 0;
  #height = 0;
  #scale = 1;

  constructor(canvas: HTMLCanvasElement, plan: Told<"city">) {
    this.#canvas = canvas;
    this.#context = canvas.getContext("2d")!;
    [this.#places, this.#coming] = [document.createElement("canvas"), document.createElement("canvas")];
    this.#plan = plan;
    this.fit();
  }

  /** Takes over the size of the page, and its colours. */
  fit(): void {
    const { width, height } = this.#canvas.getBoundingClientRect();
    this.#scale = Math.min(devicePixelRatio, 2);
    [this.#width, this.#height] = [width, height];
    this.#canvas.width = Math.round(width * this.#scale);
    this.#canvas.height = Math.round(height * this.#scale);
    this.#colours = coloursOf(this.#canvas, COLOURS);
    this.#lay();
    this.#drawAnew(this.#popularity);
  }

  /** What happened: devices that have added to a sum send something off. */
  happened(events: readonly Event[], now: number): void {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    for (const event of events) {
      if (event.event !== "devices") continue;
      for (const row of event.added ?? []) {
        if (this.#flights.length < MOST_FLIGHTS) this.#flights.push({ row, start: now + Math.random() * 250 });
      }
    }
  }

  /** The device at this point of the page, among those that may be looked at. */
  deviceAt(x: number, y: number, among: Iterable<number>): number | undefined {
    let [found, best] = [undefined as number | undefined, 16];
    for (const row of among) {
      const spot = this.#homes[row];
      const far = spot === undefined ? Infinity : Math.hypot(spot.x - x, spot.y - y);
      if (far < best) [found, best] = [row, far];
    }
    return found;
  }

  draw(city: City, now: number, looked: Watched | undefined): void {
    const context = this.#context;
    if (city.popularity !== this.#popularity) this.#drawAnew(city.popularity);
    if (this.#drawn < this.#spots.length) this.#drawPlaces();
    const { width, height } = this.#canvas;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, width, height);
    context.globalAlpha = this.#spots.length > MANY_PLACES ? 0.3 : 0.4; // of all together: two that overlap are no darker
    if (this.#places.width > 0 && this.#places.height > 0) context.drawImage(this.#places, 0, 0, width, height); // stretched, if the page has another size by now
    context.globalAlpha = 1;
    context.setTransform(this.#scale, 0, 0, this.#scale, 0, 0);
    if (looked !== undefined) this.#drawLooked(looked);
    this.#drawDevices(city);
    this.#drawFlights(now);
    this.#drawOperators(city);
  }

  /** Where everything stands. */
  #lay(): void {
    const { places, people, devices } = this.#plan;
    const known = [...places, ...(people ?? [])].filter((one): one is Point => one !== null);
    const located = (people ?? []).length > 0 && people!.every((one) => one !== null);
    const strip = located ? 0 : rowsFor(devices, this.#width) * 14 + 26;
    const put = projection(known, this.#width, this.#height - strip);
    this.#spots = places.map((one) => (one === null ? undefined : put(one)));
    this.#homes = located
      ? people!.map((one) => put(one!))
      : Array.from({ length: devices }, (_, row) => inRows(row, this.#width, this.#height - strip + 26));
  }

  #drawAnew(popularity: Told<"popularity"> | undefined): void {
    [this.#coming.width, this.#coming.height] = [this.#canvas.width, this.#canvas.height]; // which clears it
    this.#popularity = popularity;
    this.#most = popularity === undefined ? 0 : popularity.released.reduce((a, b) => Math.max(a, b), 0);
    this.#drawn = 0;
  }

  /** Some more of them; once all are drawn, they are what is seen. */
  #drawPlaces(): void {
    const context = this.#coming.getContext("2d")!;
    const many = this.#spots.length;
    const least = many > MANY_PLACES ? 0.7 : many > 800 ? 1.2 : 1.8;
    const end = Math.min(many, this.#drawn + PLACES_A_FRAME);
    context.setTransform(this.#scale, 0, 0, this.#scale, 0, 0);
    context.fillStyle = this.#colours.quiet;
    context.beginPath();
    for (let row = this.#drawn; row < end; row += 1) {
      const spot = this.#spots[row];
      if (spot === undefined) continue;
      const size = this.#most > 0 ? least + Math.sqrt(Math.max(this.#popularity!.released[row]!, 0) / this.#most) * 5 : least;
      context.moveTo(spot.x + size, spot.y);
      context.arc(spot.x, spot.y, size, 0, 2 * Math.PI);
    }
    context.fill();
    this.#drawn = end;
    if (end === many) [this.#places, this.#coming] = [this.#coming, this.#places];
  }

  #drawDevices(city: City): void {
    const context = this.#context;
    const size = city.devices.length > MANY ? 2.2 : 3.4;
    const marks = { gone: new Path2D(), here: new Path2D(), added: new Path2D() };
    for (let row = 0; row < city.devices.length; row += 1) {
      const spot = this.#homes[row]!;
      const state = city.devices[row];
      const path = state === ABSENT ? marks.gone : state === ADDED ? marks.added : marks.here;
      path.moveTo(spot.x + size, spot.y);
      path.arc(spot.x, spot.y, size, 0, 2 * Math.PI);
    }
    context.lineWidth = 1.2;
    context.strokeStyle = this.#colours.quiet;
    context.globalAlpha = 0.55;
    context.stroke(marks.gone);
    context.globalAlpha = 1;
    context.fillStyle = this.#colours.card;
    context.fill(marks.here);
    context.strokeStyle = this.#colours.ink;
    context.stroke(marks.here);
    context.fillStyle = this.#colours.accent;
    context.fill(marks.added);
  }

  /** The home and the visits of the person whose device is looked at: nobody but the device knows them. */
  #drawLooked({ holds }: Watched): void {
    const [context, home] = [this.#context, this.#homes[holds.device]];
    if (home === undefined) return;
    context.strokeStyle = context.fillStyle = this.#colours.warn;
    context.lineWidth = 1;
    context.globalAlpha = 0.45;
    context.beginPath();
    for (const [place] of holds.visits) {
      const spot = this.#spots[place];
      if (spot === undefined) continue;
      context.moveTo(home.x, home.y);
      context.lineTo(spot.x, spot.y);
    }
    context.stroke();
    context.globalAlpha = 1;
    context.lineWidth = 2;
    context.beginPath();
    context.arc(home.x, home.y, 8, 0, 2 * Math.PI);
    context.stroke();
  }

  #operators(): readonly Spot[] {
    const two = this.#plan.operators === 2;
    return (two ? [0.32, 0.7] : [0.5]).map((part) => ({ x: this.#width * part, y: 26 }));
  }

  #drawOperators(city: City): void {
    const context = this.#context;
    context.font = "600 12px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    this.#operators().forEach((spot, at) => {
      const name = at === 0 ? "recommender" : "helper";
      const width = context.measureText(name).width + 26;
      context.beginPath();
      context.roundRect(spot.x - width / 2, spot.y - 14, width, 28, 14);
      context.fillStyle = city.sum === undefined ? this.#colours.card : this.#colours["accent-soft"];
      context.fill();
      context.lineWidth = 1.2;
      context.strokeStyle = at === 0 ? this.#colours.accent : this.#colours.warn;
      context.stroke();
      context.fillStyle = this.#colours.ink;
      context.fillText(name, spot.x, spot.y + 0.5);
    });
  }

  #drawFlights(now: number): void {
    const [recommender, helper] = this.#operators();
    const whole = FLIGHT + (helper === undefined ? 0 : RELAY);
    this.#flights = this.#flights.filter(({ start }) => now - start < whole);
    const paths = [new Path2D(), new Path2D()] as const;
    for (const { row, start } of this.#flights) {
      const [home, passed] = [this.#homes[row], now - start];
      if (home === undefined || passed < 0) continue;
      const relayed = passed > FLIGHT && helper !== undefined;
      const [from, to, part] = relayed
        ? [recommender!, helper, (passed - FLIGHT) / RELAY]
        : [home, recommender!, passed / FLIGHT];
      const eased = part * part * (3 - 2 * part);
      const bend = relayed ? 0 : Math.sin(Math.PI * eased) * 18;
      const [x, y] = [from.x + (to.x - from.x) * eased + bend, from.y + (to.y - from.y) * eased];
      paths[relayed ? 1 : 0].moveTo(x + 2.4, y);
      paths[relayed ? 1 : 0].arc(x, y, 2.4, 0, 2 * Math.PI);
    }
    this.#context.fillStyle = this.#colours.accent;
    this.#context.fill(paths[0]);
    this.#context.fillStyle = this.#colours.warn;
    this.#context.fill(paths[1]);
  }
}

/** From degrees to pixels: the whole city fits in, north is up. */
function projection(points: readonly Point[], width: number, height: number): (point: Point) => Spot {
  if (points.length === 0) return () => ({ x: width / 2, y: height / 2 });
  let [south, north, west, east] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const [latitude, longitude] of points) {
    [south, north] = [Math.min(south, latitude), Math.max(north, latitude)];
    [west, east] = [Math.min(west, longitude), Math.max(east, longitude)];
  }
  const narrow = Math.cos((Math.PI / 360) * (south + north));
  const [wide, tall] = [Math.max((east - west) * narrow, 1e-9), Math.max(north - south, 1e-9)];
  const scale = Math.min((width - 2 * EDGE) / wide, (height - HEAD - EDGE) / tall);
  const [left, top] = [(width - wide * scale) / 2, HEAD + (height - HEAD - EDGE - tall * scale) / 2];
  return ([latitude, longitude]) => ({ x: left + (longitude - west) * narrow * scale, y: top + (north - latitude) * scale });
}

/** Devices whose homes are nobody's business stand in rows below the city. */
function inRows(row: number, width: number, top: number): Spot {
  const each = perRow(width);
  return { x: EDGE + 7 + (row % each) * 14, y: top + Math.floor(row / each) * 14 };
}

function rowsFor(devices: number, width: number): number {
  return Math.ceil(devices / perRow(width));
}

function perRow(width: number): number {
  return Math.max(1, Math.floor((width - 2 * EDGE) / 14));
}
