/** The live city: follows the events of a rehearsal, or plays those that stand in the page itself. */

import "../../ui/trusted.ts";
import "../../ui/base.css";
import "../../ui/charts.css";
import "../../ui/one_device.css";
import "./city.css";

import { render } from "preact";

import { Player } from "./city.ts";
import { type Event, readEvents, type Told } from "./events.ts";
import { CityMap } from "./map.ts";
import { CityView, type Handlers } from "./view.tsx";

const REDRAWN = 180; // milliseconds between two looks at the numbers while time passes; the map is drawn in each frame
const RECORDED_SPEED = 8;
const RECENT = 8; // seconds of the city in which something still moves

const root = document.getElementById("city")!;
const recording = document.getElementById("events")?.textContent;

if (recording === undefined || recording === null) follow();
else show(readEvents(recording), false);

/** Hears of events as they happen. */
function follow(): void {
  const source = new EventSource("./events");
  let page: { add(event: Event): void; ended(): void } | undefined;
  source.onmessage = ({ data }: MessageEvent<string>) => {
    const event = (page === undefined ? readEvents(data)[0]! : JSON.parse(data)) as Event;
    if (page === undefined) page = show([event], true);
    else page.add(event);
    if (event.event === "end") source.close();
  };
  source.onerror = () => page?.ended();
}

function show(events: readonly Event[], live: boolean): { add(event: Event): void; ended(): void } {
  const player = new Player(events);
  const plan = player.city.plan;
  let [looked, map, before, drawn, following, stopped] = [busiest(plan), undefined as CityMap | undefined, performance.now(), 0, live, !live];
  let came = before; // when the last event did
  if (!live) player.speed = RECORDED_SPEED;

  const handlers: Handlers = {
    toggle() {
      following = false;
      if (!player.playing && player.atEdge && stopped) player.seek(0);
      player.playing = !player.playing;
      draw();
    },
    step() {
      following = false;
      map?.happened(player.step(), performance.now());
      draw();
    },
    speed(value) {
      player.speed = value;
      draw();
    },
    seek(time) {
      following = false;
      player.seek(time);
      draw();
    },
    follow() {
      following = player.playing = true;
      draw();
    },
    look(device) {
      looked = device;
      draw();
    },
    canvas(element) {
      if (element === null || map !== undefined) return;
      const made = (map = new CityMap(element, plan));
      new ResizeObserver(() => made.fit()).observe(element);
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => made.fit());
      element.addEventListener("click", ({ offsetX, offsetY }) => {
        const found = made.deviceAt(offsetX, offsetY, plan.watched ?? []);
        if (found !== undefined) handlers.look(found);
      });
    },
  };

  function draw(): void {
    drawn = performance.now();
    render(<CityView city={player.city} player={player} live={live && !stopped} following={following} looked={looked} handlers={handlers} />, root);
  }

  function frame(now: number): void {
    const seconds = Math.min((now - before) / 1000, 1);
    before = now;
    // time goes on in the city between two events
    if (!stopped) player.latest = Math.max(player.latest, (player.events.at(-1)?.at ?? 0) + (now - came) / 1000);
    const happened = following ? player.seek(player.latest) : player.pass(seconds);
    map?.happened(happened.filter(({ at }) => at > player.time - RECENT), now); // not what was over before somebody looked
    if (!live && player.atEdge && player.playing) player.playing = false;
    map?.draw(player.city, now, looked === undefined ? undefined : player.city.watched.get(looked));
    if (now - drawn > REDRAWN && (player.playing || !stopped || happened.length > 0)) draw();
    requestAnimationFrame(frame);
  }

  document.addEventListener("keydown", (event) => {
    if (event.target !== document.body) return;
    if (event.key === " ") handlers.toggle();
    else if (event.key === "ArrowRight") handlers.step();
    else return;
    event.preventDefault();
  });
  draw();
  requestAnimationFrame(frame);
  return {
    add(event) {
      player.add([event]);
      came = performance.now();
      stopped ||= event.event === "end";
    },
    ended() {
      stopped = true;
      draw();
    },
  };
}

/** Of the devices that may be looked at, the one with most records. */
function busiest({ watched, records }: Told<"city">): number | undefined {
  return watched?.toSorted((a, b) => (records?.[b] ?? 0) - (records?.[a] ?? 0))[0];
}
