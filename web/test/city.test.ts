/** From events to what a city's page shows; the events are those of a city that was really run (tests/web/city.jsonl). */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { ABSENT, ADDED, HERE, Player } from "../pages/city/city.ts";
import { type Event, readEvents } from "../pages/city/events.ts";

const EVENTS = readEvents(readFileSync(new URL("../../tests/web/city.jsonl", import.meta.url), "utf8"));

/** All that a page shows, to compare. */
function shownBy(player: Player): unknown {
  const { devices, watched, ...rest } = player.city;
  return { ...rest, devices: [...devices], watched: [...watched] };
}

test("at the end everything has happened, and each sum has its people", () => {
  const player = new Player(EVENTS);
  player.seek(player.latest);
  const { city } = player;
  assert.equal(city.end?.phase, "over");
  assert.deepEqual(city.sums.map(({ kind, round }) => [kind, round]), [["visits", 0], ["moments", 0], ["learning", 1], ["learning", 2]]);
  assert.ok(city.sums.every(({ ended }) => ended!.opened && ended!.survivors >= city.plan.floor));
  assert.equal(city.here, city.plan.devices);
  assert.equal(city.popularity!.opened.length, city.plan.places.length);
  assert.deepEqual(city.models.map(({ round }) => round), [1, 2]);
  assert.equal(city.watched.size, 3);
  for (const one of city.watched.values()) {
    assert.ok(one.epsilon > 0 && one.epsilon <= city.plan.epsilon);
    assert.equal(one.recommended!.places.length, 5);
  }
});

test("whatever way one comes to a moment, the same is shown", () => {
  const [there, back, small] = [new Player(EVENTS), new Player(EVENTS), new Player(EVENTS)];
  for (const part of [0.2, 0.5, 0.8]) {
    const time = part * there.latest;
    there.seek(time);
    back.seek(back.latest);
    back.seek(time);
    small.speed = 3;
    while (small.time < time) small.pass(Math.min(0.05, (time - small.time) / 3 + 1e-9));
    small.seek(time);
    assert.deepEqual(shownBy(back), shownBy(there));
    assert.deepEqual(shownBy(small), shownBy(there));
  }
});

test("devices come, add to a sum and go; another sum begins without them having added", () => {
  const plan = EVENTS[0]!;
  const at = (time: number, event: object) => ({ at: time, ...event }) as Event;
  const player = new Player([
    plan, at(1, { event: "devices", came: [0, 1, 2] }), at(2, { event: "sum begun", kind: "visits", round: 0 }),
    at(3, { event: "devices", added: [1, 2] }), at(4, { event: "devices", gone: [2] }), at(5, { event: "sum begun", kind: "moments", round: 0 }),
  ]);
  const states = (time: number) => {
    player.seek(time);
    assert.equal(player.city.here, [...player.city.devices].filter((one) => one !== ABSENT).length);
    assert.equal(player.city.added, [...player.city.devices].filter((one) => one === ADDED).length);
    return [...player.city.devices.slice(0, 3)];
  };
  assert.deepEqual(states(1), [HERE, HERE, HERE]);
  assert.deepEqual(states(3), [HERE, ADDED, ADDED]);
  assert.deepEqual(states(4), [HERE, ADDED, ABSENT]);
  assert.deepEqual(states(5), [HERE, HERE, ABSENT]);
  assert.deepEqual(states(0), [ABSENT, ABSENT, ABSENT]);
});

test("a pause holds time, a step goes to the next thing to look at, and nothing goes beyond what has happened", () => {
  const player = new Player(EVENTS);
  player.playing = false;
  assert.deepEqual(player.pass(10), []);
  assert.equal(player.time, 0);
  const steps = [];
  while (player.step().length > 0) steps.push(player.time);
  assert.ok(steps.length >= 12 && steps.length < 30, `${steps.length} steps`);
  assert.equal(player.time, player.latest);
  player.playing = true;
  player.pass(100);
  assert.equal(player.time, player.latest);
});

test("events that come while it plays are shown in their time", () => {
  const live = new Player(EVENTS.slice(0, 1));
  for (const event of EVENTS.slice(1)) {
    live.add([event]);
    live.seek(live.latest);
  }
  const whole = new Player(EVENTS);
  whole.seek(whole.latest);
  assert.deepEqual(shownBy(live), shownBy(whole));
});

test("events of another version, or of something else, are refused with what to do", () => {
  assert.throws(() => readEvents('{"event":"city","version":2,"at":0}\n'), /record it anew/);
  assert.throws(() => readEvents('{"event":"doing","at":0,"text":""}\n'), /record it anew/);
});
