/** One device of made-up people: what it holds, beside what an operator sees of it. */

import type { ComponentChildren, VNode } from "preact";

import { shown } from "./charts.tsx";
import { spaced } from "./words.ts";

export interface Holds {
  readonly features: Readonly<Record<string, string | number | readonly string[]>>;
  readonly home: readonly [latitude: number, longitude: number] | null;
  /** Names of places, those that were visited most first. */
  readonly visits: readonly string[];
}

/** What an operator sees of a report. */
export interface Seen {
  /** The name that it knows the device by. */
  readonly name: string;
  readonly came: string;
  /** How the box that it opens begins, in hexadecimal, and its bytes. */
  readonly begins: string;
  readonly box: number;
}

const NAMED = 3; // places

export function DeviceCard({ holds, records, children }: { holds: Holds; records?: number; children?: ComponentChildren }): VNode {
  const { features, home, visits } = holds;
  const to = `${visits.length.toLocaleString("en")} place${visits.length === 1 ? "" : "s"}`;
  return (
    <div class="card own">
      <h3>On the device</h3>
      <dl>
        {Object.entries(features).map(([label, value]) => <Line key={label} label={spaced(label)} value={words(value)} />)}
        {home !== null && <Line label="home" value={home.map((one) => one.toFixed(4)).join(", ")} />}
        <Line label="visits" value={`${records === undefined ? "" : `${records.toLocaleString("en")} `}to ${to}: ${visits.slice(0, NAMED).join("; ")}${visits.length > NAMED ? " …" : ""}`} />
      </dl>
      {children}
    </div>
  );
}

export function OperatorCard({ who, seen, children }: { who: "recommender" | "helper"; seen: Seen; children?: ComponentChildren }): VNode {
  const leader = who === "recommender";
  return (
    <div class="card">
      <h3>At the {who}</h3>
      <dl>
        <Line label="known as" value={<code>{seen.name.slice(0, 16)}…</code>} />
        <Line label="report came" value={seen.came} />
        <Line label={leader ? "its share" : "its seeds"} value={<><code>{seen.begins}…</code> <span class="quiet">{seen.box.toLocaleString("en")} bytes, sealed</span></>} />
        <Line label="it reads" value={`random numbers: the ${leader ? "helper" : "recommender"}’s part is missing`} />
      </dl>
      {children}
    </div>
  );
}

export function Line({ label, value }: { label: string; value: string | VNode }): VNode {
  return <div><dt>{label}</dt><dd>{value}</dd></div>;
}

/** Which of the devices is looked at. */
export function DeviceChoice({ devices, looked, look }: { devices: Iterable<number>; looked: number | undefined; look(device: number): void }): VNode {
  return (
    <div class="choice" role="group" aria-label="Which device">
      {[...devices].map((device) => <button key={device} type="button" aria-pressed={device === looked} onClick={() => look(device)}>device {device}</button>)}
    </div>
  );
}

function words(value: string | number | readonly string[]): string {
  return typeof value === "string" ? value : typeof value === "number" ? shown(value) : value.join(", ");
}
