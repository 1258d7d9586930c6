/** A recorded round, stepped through message by message, and one of its devices beside what each operator sees of it. */

import type { VNode } from "preact";
import { useState } from "preact/hooks";

import { Bars, Figure, Table } from "../../ui/charts.tsx";
import { DeviceCard, DeviceChoice, OperatorCard } from "../../ui/one_device.tsx";
import { hex } from "./audit.ts";
import { aboutField, CheckLine, Learns, MESSAGES } from "./checks.tsx";
import type { Replay, Step, Watched } from "./round.ts";

const SHOWN_PLACES = 12;
const BEGIN = 16; // bytes

export function RoundView({ replay }: { replay: Replay }): VNode {
  const [at, setAt] = useState(0);
  const step = replay.steps[at]!;
  const go = (to: number) => setAt(Math.max(0, Math.min(replay.steps.length - 1, to)));
  return (
    <section aria-label="A recorded round" class="round" id="round">
      <div class="head"><h2>A round, message by message</h2></div>
      <p class="quiet">
        Recorded once: {replay.people} made-up people, and two operators that open a sum of their visits. Nobody in it exists; the bytes are what crossed
        between real parties, and are verified in this browser. The messages of real sums are published nowhere.
      </p>
      <div class="replay">
        <figure class="card figure">
          <figcaption><h3>Who sends to whom</h3></figcaption>
          <Lanes steps={replay.steps} at={at} />
          <details>
            <summary class="small">Numbers</summary>
            <Table head={["number", "from", "to", "message", "how many", "bytes of each"]} rows={replay.steps.map((one, row) => [row + 1, one.from, one.to, one.name, one.many, one.size])} />
          </details>
        </figure>
        <div class="card message">
          <div class="controls" role="group" aria-label="Step">
            <button type="button" disabled={at === 0} onClick={() => go(at - 1)}>Back</button>
            <button type="button" disabled={at === replay.steps.length - 1} onClick={() => go(at + 1)}>Next</button>
            <span class="quiet small" role="status">message {at + 1} of {replay.steps.length}</span>
          </div>
          <Message step={step} />
        </div>
      </div>
      <Opened replay={replay} />
      <OneDevice replay={replay} />
    </section>
  );
}

/** Three lanes with an arrow for each message. */
function Lanes({ steps, at }: { steps: readonly Step[]; at: number }): VNode {
  const [each, top] = [26, 34];
  const lane = (who: string) => (who === "helper" ? 350 : who === "recommender" ? 210 : 70);
  return (
    <svg class="chart lanes" viewBox={`0 0 420 ${top + steps.length * each + 6}`} role="img" aria-label={`Message ${at + 1} of ${steps.length}: ${steps[at]!.from} to ${steps[at]!.to}, ${steps[at]!.name}`}>
      {[["devices", 70], ["recommender", 210], ["helper", 350]].map(([name, x]) => (
        <g key={name}>
          <text x={x} y="14" text-anchor="middle">{name}</text>
          <line class="grid" x1={x} x2={x} y1="22" y2={top + steps.length * each} />
        </g>
      ))}
      {steps.map((one, row) => {
        const [from, to, y] = [lane(one.from), lane(one.to), top + row * each + 14];
        const tip = to > from ? -7 : 7;
        return (
          <g key={row} class={row === at ? "now" : row < at ? "past" : "next"}>
            <text x={(from + to) / 2} y={y - 5} text-anchor="middle">{one.name}{one.many > 1 ? ` × ${one.many}` : ""}</text>
            <line class="arrow" x1={from} x2={to} y1={y} y2={y} />
            <path class="arrow" d={`M${to + tip} ${y - 4}L${to} ${y}L${to + tip} ${y + 4}`} />
          </g>
        );
      })}
    </svg>
  );
}

function Message({ step }: { step: Step }): VNode {
  const message = MESSAGES.find(({ name }) => name === step.name)!;
  return (
    <>
      <h3>{step.from} → {step.to}: {step.name}</h3>
      <p class="quiet small">
        {step.many > 1 ? `${step.many} messages of ${step.size.toLocaleString("en")} bytes each: every report has the same length, whatever is in it.` : `${step.size.toLocaleString("en")} bytes`}
      </p>
      <ul class="checks">{step.checks.map((one, row) => <CheckLine key={row} check={one} />)}</ul>
      <Learns message={message} />
      {step.fields.length > 0 && (
        <div class="scroll fields" tabIndex={0} role="region" aria-label="Fields of this message">
          <table>
            <thead><tr><th scope="col">field</th><th scope="col">bytes</th><th scope="col">is</th></tr></thead>
            <tbody>
              {step.fields.map(({ name, size, shown }) => (
                <tr key={name}>
                  <th scope="row"><code>{name}</code></th>
                  <td class="number">{size.toLocaleString("en")}</td>
                  <td>{aboutField(message, name)}<br /><code class="quiet">{shown}</code></td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}

function Opened({ replay }: { replay: Replay }): VNode {
  const { opened, exact, noise, places } = replay;
  const order = opened.map((_, row) => row).sort((a, b) => opened[b]! - opened[a]!);
  const bars = order.slice(0, SHOWN_PLACES).map((row) => ({ name: places[row]!, value: opened[row]!, exact: exact[row]! }));
  const both = Math.SQRT2 * noise;
  return (
    <Figure
      title="What is open in the end"
      note={`The two noised shares, added up here: for each place the visits of ${replay.people} people, and the noise of both operators, with a standard deviation of ${both.toFixed(1)} together. That drowns so few people; it would be the same noise for a million.`}
      head={["place", "opened", "without noise"]}
      rows={order.map((row) => [places[row]!, opened[row]!, exact[row]!])}
    >
      <Bars bars={bars} off={both} label="The largest entries of the opened sum, with the noise in each" value="opened" exact="without noise, which only this recording knows" />
    </Figure>
  );
}

function OneDevice({ replay }: { replay: Replay }): VNode {
  const [looked, look] = useState(replay.watched[0]!.device);
  const one = replay.watched.find(({ device }) => device === looked)!;
  return (
    <div class="one" id="device">
      <div class="head">
        <h2>One device, and what each operator sees of it</h2>
        <DeviceChoice devices={replay.watched.map(({ device }) => device)} looked={looked} look={look} />
      </div>
      <div class="views">
        <DeviceCard holds={one.holds}>
          <p class="small quiet">Each of these places is an entry of its vector, which is written in whole numbers: {replay.unit.toLocaleString("en")} stands for 1.</p>
        </DeviceCard>
        <OperatorCard who="recommender" seen={{ name: hex(one.report.sender), came: `as the report of device ${one.device}, ${one.bytes.toLocaleString("en")} bytes`, begins: hex(one.report.leaderBox.slice(0, BEGIN)), box: one.report.leaderBox.length }} />
        <OperatorCard who="helper" seen={{ name: hex(one.report.sender), came: "in a batch with others: in which order, not when", begins: hex(one.report.helperBox.slice(0, BEGIN)), box: one.report.helperBox.length }} />
      </div>
      <Shares one={one} places={replay.places} />
    </div>
  );
}

/** The vector, and what the boxes hold of it once they are open. */
function Shares({ one, places }: { one: Watched; places: readonly string[] }): VNode {
  const right = one.together.every((entry, at) => entry === one.vector[at]);
  const rows = places.map((name, at) => [name, one.vector[at]!, hexOf(one.leader[at]!), hexOf(one.helper[at]!), one.together[at]!]);
  const some = [true, false].flatMap((visited) => rows.filter(([, entry]) => (entry !== 0) === visited).slice(0, 3));
  const head = ["place", "on the device", "recommender’s share", "helper’s share", "added up"];
  return (
    <div class="card figure shares">
      <h3>In the boxes: two shares of its vector</h3>
      <p class={`small ${right ? "good" : "bad"}`}>
        {right ? "Added up in the field of p = 2⁶⁴ − 2³² + 1 the two shares are the device’s vector." : "The two shares are not the device’s vector."} Each alone is uniform: every vector is as likely as every other.
      </p>
      <Table head={head} rows={some} />
      <details>
        <summary class="small">All {places.length} places</summary>
        <Table head={head} rows={rows} />
      </details>
    </div>
  );
}

function hexOf(element: bigint): string {
  return element.toString(16).padStart(16, "0").replace(/.{8}/, "$& "); // so that a line can break
}
